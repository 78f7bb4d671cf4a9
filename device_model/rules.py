"""What synchronises with what, as data. `CUDA`, `CUDA_PER_THREAD` and `ACL` are values of it; the engine asks, it
never knows a vendor.

Each field is a row of docs/semantics.md, where the source of each answer stands: what an H200 did, or the
documentation. Sizes, depths and costs are not here but in the profile.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from device_model.errors import Kind


class DefaultStream(Enum):
    """Which stream `None` means."""

    LEGACY = "the legacy stream of the context, which every blocking stream waits for, and which waits for them"
    PER_THREAD = "the per-thread stream, an ordinary blocking stream"
    INDEPENDENT = "an ordinary stream of the context's own: nobody waits for it"


class SyncCopy(Enum):
    """What the copy that waits, and the fill, do with the order of streams."""

    IN_DEFAULT_STREAM = "queued in the default stream, after all that precedes it there"
    OUTSIDE = "outside all streams, at once, done on return: no order with what is queued"


class PageableCopy(Enum):
    """What an asynchronous copy from or to pageable host memory does."""

    STAGED = "the host pays the staging and goes on while there is room to stage; on the way back it waits until done"
    SYNCHRONOUS = "the host waits for the stream, then copies outside it: done on return"


class HostToHost(Enum):
    """What an asynchronous copy from host to host memory does."""

    WAITS = "the host waits for the stream, then copies itself"
    REFUSED = "it is not supported"


class PeerAccess(Enum):
    """What access from one device to another is needed for."""

    FOR_SPEED = "copies between devices without it go through the host; to enable it twice is refused"
    FOR_COPIES = "copies between devices without it fail on the device; to enable it twice does nothing"


class CopyKind(Enum):
    """What the kind of a copy is good for."""

    MUST_FIT = "it must fit where the addresses are"
    CORRECTED = "where the addresses are decides; what cannot be meant is refused, and only asynchronous copies look"


class Release(Enum):
    """What freeing memory, pinned memory or a registration does with work in flight."""

    WAITS_FOR_DEVICE = "the host waits until the device is idle"
    IMMEDIATE = "it is gone at once: work that still uses it fails"


class Destroy(Enum):
    """What destroying a stream or a context with work in it does."""

    WORK_COMPLETES = "returns at once; the work completes"
    WAITS = "the host waits for the work"


class Reset(Enum):
    """What resetting a device does."""

    ABANDONS = "all its contexts are gone at once; what they queued has no effect any more"
    COUNTED = "one use less; the last waits for the work of the default context, which is then gone"


class ContextGone(Enum):
    """Which context is current when the current one has been destroyed, or its device reset."""

    PRIMARY = "the primary context of the device"
    NONE = "none, until one is set"


class DeviceSync(Enum):
    """What synchronising the device waits for."""

    DEVICE = "all streams of the device"
    CONTEXT = "all streams of the current context"


class ForeignStream(Enum):
    """What a verb does with a stream of a context that is not current."""

    ALLOWED = "it uses it"
    REFUSED = "it refuses it"


class EventClass(Enum):
    """The classes of events; what a wait for an event that was never recorded does is the first that differs."""

    SNAPSHOT = "a wait without a record has no effect; a record takes a picture, the last one counts"
    RECORDED = "a wait without a record is refused; else as a snapshot, with an id per record while that is pending"
    FLAG = "a level flag with an id of its own: a record sets it, a reset clears it, a wait lasts until it is set"


class KernelFailure(Enum):
    """Where the failure of work on the device shows."""

    STICKY = "at a later call; from then on every call that touches the context fails"
    PER_STREAM = "at the next synchronisation of its stream; later work runs, unless the stream is to stop on failure"


class Init(Enum):
    """What a second Init does."""

    COUNTED = "it counts; the Finalize that matches the first one ends the runtime"
    ONCE = "it is refused, without harm; the first Finalize ends the runtime"


@dataclass(frozen=True, slots=True)
class Code:
    """The number and the name that a vendor gives to a kind of failure."""

    value: int
    name: str


@dataclass(frozen=True)
class SyncRules:
    """How the default stream, pageable memory, release, destruction, events and errors behave."""

    name: str
    default_stream: DefaultStream
    sync_copy: SyncCopy
    pageable_copy: PageableCopy
    host_to_host: HostToHost
    copy_kind: CopyKind
    peer_access: PeerAccess
    release: Release
    destroy: Destroy
    reset: Reset
    context_gone: ContextGone
    device_sync: DeviceSync
    foreign_stream: ForeignStream
    events: tuple[EventClass, ...]  # those there are; the first is what CreateEvent makes
    kernel_failure: KernelFailure
    init: Init
    priorities: tuple[int, int]  # of streams: the least and the most urgent; others are clamped to these
    codes: Mapping[Kind, Code]

    def __repr__(self) -> str:
        return f"<SyncRules {self.name}>"


# cudaError_t; the numbers as in CUDA 13's driver_types.h.
_CUDA_CODES = MappingProxyType(
    {
        Kind.INVALID_VALUE: Code(1, "cudaErrorInvalidValue"),
        Kind.NULL_POINTER: Code(1, "cudaErrorInvalidValue"),
        Kind.OUT_OF_MEMORY: Code(2, "cudaErrorMemoryAllocation"),
        Kind.NO_STREAM_LEFT: Code(2, "cudaErrorMemoryAllocation"),
        Kind.NO_EVENT_LEFT: Code(2, "cudaErrorMemoryAllocation"),
        Kind.NO_NOTIFY_LEFT: Code(2, "cudaErrorMemoryAllocation"),
        Kind.NOT_INITIALIZED: Code(3, "cudaErrorInitializationError"),
        Kind.ALREADY_INITIALIZED: Code(3, "cudaErrorInitializationError"),
        Kind.FINALIZED: Code(4, "cudaErrorCudartUnloading"),
        Kind.INVALID_LAUNCH: Code(9, "cudaErrorInvalidConfiguration"),
        Kind.INVALID_COPY_DIRECTION: Code(21, "cudaErrorInvalidMemcpyDirection"),
        Kind.INVALID_ADDRESS: Code(1, "cudaErrorInvalidValue"),
        Kind.INVALID_DEVICE: Code(101, "cudaErrorInvalidDevice"),
        Kind.INVALID_CONTEXT: Code(201, "cudaErrorDeviceUninitialized"),
        Kind.INVALID_HANDLE: Code(400, "cudaErrorInvalidResourceHandle"),
        Kind.DEFAULT_STREAM: Code(400, "cudaErrorInvalidResourceHandle"),
        Kind.FOREIGN_STREAM: Code(400, "cudaErrorInvalidResourceHandle"),
        Kind.WAIT_WITHOUT_RECORD: Code(400, "cudaErrorInvalidResourceHandle"),
        Kind.NOT_RECORDED: Code(400, "cudaErrorInvalidResourceHandle"),
        Kind.NO_TIMING: Code(400, "cudaErrorInvalidResourceHandle"),
        Kind.NOT_READY: Code(600, "cudaErrorNotReady"),
        Kind.NO_TIME_YET: Code(600, "cudaErrorNotReady"),
        Kind.STREAM_TIMEOUT: Code(909, "cudaErrorTimeout"),
        Kind.EVENT_TIMEOUT: Code(909, "cudaErrorTimeout"),
        Kind.ECC_ERROR: Code(214, "cudaErrorECCUncorrectable"),
        Kind.ILLEGAL_ADDRESS: Code(700, "cudaErrorIllegalAddress"),
        Kind.PEER_ACCESS_ENABLED: Code(704, "cudaErrorPeerAccessAlreadyEnabled"),
        Kind.PEER_ACCESS_MISSING: Code(705, "cudaErrorPeerAccessNotEnabled"),
        Kind.ALREADY_REGISTERED: Code(712, "cudaErrorHostMemoryAlreadyRegistered"),
        Kind.NOT_REGISTERED: Code(713, "cudaErrorHostMemoryNotRegistered"),
        Kind.OP_EXECUTE_TIMEOUT: Code(702, "cudaErrorLaunchTimeout"),
        Kind.CUBE_TIMEOUT: Code(702, "cudaErrorLaunchTimeout"),
        Kind.LAUNCH_FAILURE: Code(719, "cudaErrorLaunchFailure"),
        Kind.CUBE_FAILURE: Code(719, "cudaErrorLaunchFailure"),
        Kind.NOT_PERMITTED: Code(800, "cudaErrorNotPermitted"),
        Kind.NOT_SUPPORTED: Code(801, "cudaErrorNotSupported"),
        # CUDA has no such things; who asks for them is told so (801). The numbers are for completeness.
        Kind.STREAM_SUBSCRIBED: Code(801, "cudaErrorNotSupported"),
        Kind.NO_SUBSCRIBER: Code(801, "cudaErrorNotSupported"),
        Kind.NOT_A_SUBSCRIBER: Code(801, "cudaErrorNotSupported"),
        Kind.REPORT_TIMEOUT: Code(801, "cudaErrorNotSupported"),
        Kind.OP_WAIT_TIMEOUT: Code(909, "cudaErrorTimeout"),
        Kind.STREAM_FULL: Code(801, "cudaErrorNotSupported"),
        Kind.STREAM_ABORTED: Code(801, "cudaErrorNotSupported"),
        Kind.HOST_FUNCTION_FAILURE: Code(999, "cudaErrorUnknown"),
        Kind.DEVICE_LOST: Code(999, "cudaErrorUnknown"),
        Kind.UNKNOWN: Code(999, "cudaErrorUnknown"),
    }
)

CUDA = SyncRules(
    name="cuda",
    default_stream=DefaultStream.LEGACY,
    sync_copy=SyncCopy.IN_DEFAULT_STREAM,
    pageable_copy=PageableCopy.STAGED,
    host_to_host=HostToHost.WAITS,
    copy_kind=CopyKind.MUST_FIT,
    peer_access=PeerAccess.FOR_SPEED,
    release=Release.WAITS_FOR_DEVICE,
    destroy=Destroy.WORK_COMPLETES,
    reset=Reset.ABANDONS,
    context_gone=ContextGone.PRIMARY,
    device_sync=DeviceSync.DEVICE,
    foreign_stream=ForeignStream.ALLOWED,
    events=(EventClass.SNAPSHOT,),
    kernel_failure=KernelFailure.STICKY,
    init=Init.COUNTED,
    priorities=(0, -5),
    codes=_CUDA_CODES,
)

CUDA_PER_THREAD = replace(CUDA, name="cuda_per_thread", default_stream=DefaultStream.PER_THREAD)

# aclError; numbers and names as in CANN's error-code tables.
_ACL_CODES = MappingProxyType(
    {
        Kind.NULL_POINTER: Code(100000, "ACL_ERROR_INVALID_PARAM"),
        Kind.NOT_INITIALIZED: Code(100001, "ACL_ERROR_UNINITIALIZE"),
        Kind.ALREADY_INITIALIZED: Code(100002, "ACL_ERROR_REPEAT_INITIALIZE"),
        Kind.FINALIZED: Code(100037, "ACL_ERROR_REPEAT_FINALIZE"),
        Kind.INVALID_VALUE: Code(107000, "ACL_ERROR_RT_PARAM_INVALID"),
        Kind.INVALID_COPY_DIRECTION: Code(107000, "ACL_ERROR_RT_PARAM_INVALID"),
        Kind.INVALID_ADDRESS: Code(107000, "ACL_ERROR_RT_PARAM_INVALID"),
        Kind.PEER_ACCESS_ENABLED: Code(107000, "ACL_ERROR_RT_PARAM_INVALID"),
        Kind.PEER_ACCESS_MISSING: Code(107000, "ACL_ERROR_RT_PARAM_INVALID"),
        Kind.INVALID_LAUNCH: Code(107000, "ACL_ERROR_RT_PARAM_INVALID"),
        Kind.DEFAULT_STREAM: Code(107000, "ACL_ERROR_RT_PARAM_INVALID"),
        Kind.WAIT_WITHOUT_RECORD: Code(107000, "ACL_ERROR_RT_PARAM_INVALID"),
        Kind.INVALID_DEVICE: Code(107001, "ACL_ERROR_RT_INVALID_DEVICEID"),
        Kind.INVALID_CONTEXT: Code(107002, "ACL_ERROR_RT_CONTEXT_NULL"),
        Kind.FOREIGN_STREAM: Code(107003, "ACL_ERROR_RT_STREAM_CONTEXT"),
        Kind.NO_TIMING: Code(107006, "ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID"),
        Kind.NO_TIME_YET: Code(107006, "ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID"),
        Kind.STREAM_SUBSCRIBED: Code(107011, "ACL_ERROR_RT_STREAM_SUBSCRIBE"),
        Kind.NOT_A_SUBSCRIBER: Code(107012, "ACL_ERROR_RT_THREAD_SUBSCRIBE"),
        Kind.NO_SUBSCRIBER: Code(107015, "ACL_ERROR_RT_STREAM_NO_CB_REG"),
        Kind.INVALID_HANDLE: Code(107017, "ACL_ERROR_RT_INVALID_HANDLE"),
        Kind.OP_WAIT_TIMEOUT: Code(107020, "ACL_ERROR_RT_TASK_TIMEOUT"),
        Kind.STREAM_ABORTED: Code(107023, "ACL_ERROR_RT_STREAM_ABORT"),
        Kind.NOT_SUPPORTED: Code(207000, "ACL_ERROR_RT_FEATURE_NOT_SUPPORT"),
        Kind.OUT_OF_MEMORY: Code(207001, "ACL_ERROR_RT_MEMORY_ALLOCATION"),
        Kind.NOT_PERMITTED: Code(207006, "ACL_ERROR_RT_NO_PERMISSION"),
        Kind.NO_EVENT_LEFT: Code(207007, "ACL_ERROR_RT_NO_EVENT_RESOURCE"),
        Kind.NO_STREAM_LEFT: Code(207008, "ACL_ERROR_RT_NO_STREAM_RESOURCE"),
        Kind.NO_NOTIFY_LEFT: Code(207009, "ACL_ERROR_RT_NO_NOTIFY_RESOURCE"),
        Kind.NOT_RECORDED: Code(507000, "ACL_ERROR_RT_INTERNAL_ERROR"),
        Kind.STREAM_FULL: Code(507002, "ACL_ERROR_RT_STREAM_TASK_FULL"),
        Kind.NOT_READY: Code(507004, "ACL_ERROR_RT_STREAM_NOT_COMPLETE"),
        Kind.REPORT_TIMEOUT: Code(507012, "ACL_ERROR_RT_REPORT_TIMEOUT"),
        Kind.OP_EXECUTE_TIMEOUT: Code(507034, "ACL_ERROR_RT_VECTOR_CORE_TIMEOUT"),
        Kind.CUBE_TIMEOUT: Code(507014, "ACL_ERROR_RT_AICORE_TIMEOUT"),
        Kind.LAUNCH_FAILURE: Code(507035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION"),
        Kind.CUBE_FAILURE: Code(507015, "ACL_ERROR_RT_AICORE_EXCEPTION"),
        Kind.STREAM_TIMEOUT: Code(507046, "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT"),
        Kind.EVENT_TIMEOUT: Code(507047, "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT"),
        Kind.ILLEGAL_ADDRESS: Code(507053, "ACL_ERROR_RT_DEVICE_MEM_ERROR"),
        Kind.ECC_ERROR: Code(507054, "ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR"),
        Kind.DEVICE_LOST: Code(507010, "ACL_ERROR_RT_LOST_HEARTBEAT"),
        Kind.HOST_FUNCTION_FAILURE: Code(507018, "ACL_ERROR_RT_AICPU_EXCEPTION"),
        Kind.UNKNOWN: Code(507899, "ACL_ERROR_RT_DRV_INTERNAL_ERROR"),
        Kind.ALREADY_REGISTERED: Code(507910, "ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
        Kind.NOT_REGISTERED: Code(507911, "ACL_ERROR_HOST_MEMORY_NOT_REGISTERED"),
    }
)

ACL = SyncRules(
    name="acl",
    default_stream=DefaultStream.INDEPENDENT,
    sync_copy=SyncCopy.OUTSIDE,
    pageable_copy=PageableCopy.SYNCHRONOUS,
    host_to_host=HostToHost.REFUSED,
    copy_kind=CopyKind.CORRECTED,
    peer_access=PeerAccess.FOR_COPIES,
    release=Release.IMMEDIATE,
    destroy=Destroy.WAITS,
    reset=Reset.COUNTED,
    context_gone=ContextGone.NONE,
    device_sync=DeviceSync.CONTEXT,
    foreign_stream=ForeignStream.REFUSED,
    events=(EventClass.RECORDED, EventClass.FLAG, EventClass.SNAPSHOT),
    kernel_failure=KernelFailure.PER_STREAM,
    init=Init.ONCE,
    priorities=(7, 0),
    codes=_ACL_CODES,
)

RULES: Mapping[str, SyncRules] = MappingProxyType({rules.name: rules for rules in (CUDA, CUDA_PER_THREAD, ACL)})
