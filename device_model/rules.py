"""What synchronises with what, as data. `CUDA` and `CUDA_PER_THREAD` are two values of it; the engine asks, it never
knows a vendor.

Each field is a row of docs/semantics.md, where the source of each answer stands: what an H200 did, or the
documentation. Sizes, depths and costs are not here but in the profile. A question with one answer so far says
what the engine does; the other answers come with the rules that give them (ACL).
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


class SyncCopy(Enum):
    """What the copy that waits does with the order of streams."""

    IN_DEFAULT_STREAM = "queued in the default stream, after all that precedes it there"


class PageableCopy(Enum):
    """What an asynchronous copy from or to pageable host memory does."""

    STAGED = "the host pays the staging and goes on while there is room to stage; on the way back it waits until done"


class HostToHost(Enum):
    """What an asynchronous copy from host to host memory does."""

    WAITS = "the host waits for the stream, then copies itself"


class Release(Enum):
    """What freeing memory, pinned memory or a registration does with work in flight."""

    WAITS_FOR_DEVICE = "the host waits until the device is idle"


class Destroy(Enum):
    """What destroying a stream with work in it does."""

    WORK_COMPLETES = "returns at once; the work completes"


class DeviceSync(Enum):
    """What synchronising the device waits for."""

    DEVICE = "all streams of the device"


class Unrecorded(Enum):
    """What waiting on an event does that was never recorded."""

    NO_EFFECT = "no effect: there is nothing to wait for"


class KernelFailure(Enum):
    """Where the failure of work on the device shows."""

    STICKY = "at a later call; from then on every call that touches the context fails"


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
    release: Release
    destroy: Destroy
    device_sync: DeviceSync
    unrecorded: Unrecorded
    kernel_failure: KernelFailure
    codes: Mapping[Kind, Code]

    def __repr__(self) -> str:
        return f"<SyncRules {self.name}>"


# cudaError_t; the numbers as in CUDA 13's driver_types.h.
_CUDA_CODES = MappingProxyType(
    {
        Kind.INVALID_VALUE: Code(1, "cudaErrorInvalidValue"),
        Kind.OUT_OF_MEMORY: Code(2, "cudaErrorMemoryAllocation"),
        Kind.NOT_INITIALIZED: Code(3, "cudaErrorInitializationError"),
        Kind.ALREADY_INITIALIZED: Code(3, "cudaErrorInitializationError"),
        Kind.FINALIZED: Code(4, "cudaErrorCudartUnloading"),
        Kind.INVALID_LAUNCH: Code(9, "cudaErrorInvalidConfiguration"),
        Kind.INVALID_COPY_DIRECTION: Code(21, "cudaErrorInvalidMemcpyDirection"),
        Kind.INVALID_ADDRESS: Code(1, "cudaErrorInvalidValue"),
        Kind.INVALID_DEVICE: Code(101, "cudaErrorInvalidDevice"),
        Kind.INVALID_CONTEXT: Code(201, "cudaErrorDeviceUninitialized"),
        Kind.INVALID_HANDLE: Code(400, "cudaErrorInvalidResourceHandle"),
        Kind.NOT_RECORDED: Code(400, "cudaErrorInvalidResourceHandle"),
        Kind.NO_TIMING: Code(400, "cudaErrorInvalidResourceHandle"),
        Kind.NOT_READY: Code(600, "cudaErrorNotReady"),
        Kind.ILLEGAL_ADDRESS: Code(700, "cudaErrorIllegalAddress"),
        Kind.ALREADY_REGISTERED: Code(712, "cudaErrorHostMemoryAlreadyRegistered"),
        Kind.NOT_REGISTERED: Code(713, "cudaErrorHostMemoryNotRegistered"),
        Kind.LAUNCH_FAILURE: Code(719, "cudaErrorLaunchFailure"),
        Kind.NOT_PERMITTED: Code(800, "cudaErrorNotPermitted"),
        Kind.NOT_SUPPORTED: Code(801, "cudaErrorNotSupported"),
        Kind.HOST_FUNCTION_FAILURE: Code(999, "cudaErrorUnknown"),
        Kind.UNKNOWN: Code(999, "cudaErrorUnknown"),
    }
)

CUDA = SyncRules(
    name="cuda",
    default_stream=DefaultStream.LEGACY,
    sync_copy=SyncCopy.IN_DEFAULT_STREAM,
    pageable_copy=PageableCopy.STAGED,
    host_to_host=HostToHost.WAITS,
    release=Release.WAITS_FOR_DEVICE,
    destroy=Destroy.WORK_COMPLETES,
    device_sync=DeviceSync.DEVICE,
    unrecorded=Unrecorded.NO_EFFECT,
    kernel_failure=KernelFailure.STICKY,
    codes=_CUDA_CODES,
)

CUDA_PER_THREAD = replace(CUDA, name="cuda_per_thread", default_stream=DefaultStream.PER_THREAD)

RULES: Mapping[str, SyncRules] = MappingProxyType({rules.name: rules for rules in (CUDA, CUDA_PER_THREAD)})
