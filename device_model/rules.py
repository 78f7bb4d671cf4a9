"""What synchronises with what, as data: `CUDA`, `CUDA_PER_THREAD` and `ACL` are values of `SyncRules`.

CUDA and ACL have nearly the same calls, but a call may wait in one and return at once in the other. Each such
difference is a question with an enum of possible answers, and a rule set is one answer to each question. The device and
the verbs ask for the answer that they need, and never for the name of the rule set:

    if runtime.rules.destroy is Destroy.WAITS:
        await runtime.wait(stream.backlog(), ...)

So a third vendor, or a what-if, is one more value and no change to the code:

    lenient = replace(ACL, name="lenient", foreign_stream=ForeignStream.ALLOWED)

Most answers of CUDA were measured on an H200. Each enum names the programs that asked its question, and
docs/semantics.md shows for each program what the card did and what the simulator does. The answers of ACL are from
CANN's documentation, because no Ascend card was measured. The tests in tests/acl_py/acl_rules hold them.

How large, how many and how long are not rules. Those numbers belong to a card and are in its profile.
"""

from collections.abc import Mapping
from copyreg import pickle as pickle_by
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import Any

from device_model.error_codes import ACL_CODES, CUDA_CODES, Code
from device_model.errors import Kind
from device_model.frozen import Frozen


class DefaultStream(Enum):
    """Which stream None means in a call, and how it is ordered with the other streams of its context.

    Measured: LEGACY and PER_THREAD by the 18 programs under "The default stream" in docs/semantics.md, such as
    legacy-serialises, legacy-nonblocking and per-thread-vs-legacy.
    """

    LEGACY = "the legacy stream: it waits for all blocking streams of its context, and they wait for it"
    PER_THREAD = "the per-thread stream: an ordinary blocking stream"
    INDEPENDENT = "an ordinary stream of the context: no other stream waits for it"


class SyncCopy(Enum):
    """How Memcpy and Memset, the forms without a stream, are ordered with the work of streams.

    Measured: sync-memcpy-*, memset-idle, memset-busy, legacy-memset-between.
    """

    IN_DEFAULT_STREAM = "queued in the default stream, behind all work before it there"
    OUTSIDE = "outside all streams: done at once and when the call returns, without order to queued work"


class PageableCopy(Enum):
    """What MemcpyAsync does when one end is pageable host memory.

    Measured: h2d-g-*, d2h-g-*, h2d-pageable-other-busy.
    """

    STAGED = "to the device, the host stages and waits only for room to stage; to the host, it waits for the copy"
    SYNCHRONOUS = "the host waits for the stream, then copies outside it: done when the call returns"


class HostToHost(Enum):
    """What MemcpyAsync does when both ends are host memory.

    Measured: h2h-pinned-busy, h2h-pageable-busy.
    """

    WAITS = "the host waits for the stream, then copies itself"
    REFUSED = "it is not supported"


class BatchedCopies(Enum):
    """Which copies MemcpyBatchAsync takes.

    Measured on an H200: cuMemcpyBatchAsync takes all directions at once. Documented: aclrtMemcpyBatchAsync.
    """

    ANY = "copies of any direction"
    ONE_WAY = "copies between host and device, all of one direction"


class PeerAccess(Enum):
    """What a device needs access to another device for.

    Measured on two H200s: peer copies.
    """

    FOR_SPEED = "without access, copies between devices go through the host; enabling it twice is refused"
    FOR_COPIES = "without access, copies between devices fail on the device; enabling it twice does nothing"


class CopyKind(Enum):
    """What the *kind* argument of a copy, such as HOST_TO_DEVICE, does.

    From the documentation of both vendors.
    """

    MUST_FIT = "it must fit the addresses"
    CORRECTED = "the addresses decide; only asynchronous copies check the kind, and refuse one that cannot be meant"


class Release(Enum):
    """What freeing device memory, pinned memory or a registration does while work is queued or running.

    Measured: free-busy, free-busy-nonblocking, free-small-busy, free-host-busy, host-register-busy.
    """

    WAITS_FOR_DEVICE = "the host waits until the device is idle"
    IMMEDIATE = "the memory is gone at once: work that still uses it fails"


class Destroy(Enum):
    """What destroying a stream or a context does while it has work.

    Measured: destroy-stream-busy; contexts on an H200 by tests/bench/cuda/contexts.py.
    """

    WORK_COMPLETES = "the call returns at once, and the work completes"
    WAITS = "the host waits for the work"


class Reset(Enum):
    """What ResetDevice does.

    CUDA: measured on an H200 by tests/bench/cuda/contexts.py, although the manual says "immediately". ACL: documented.
    """

    WAITS = "it waits for the work of all contexts of the device, which are then gone"
    COUNTED = "it undoes one SetDevice; the last one waits for the work of the default context, which is then gone"


class ContextGone(Enum):
    """Which context is current after the current one was destroyed, or its device was reset.

    From the documentation of both vendors.
    """

    PRIMARY = "the primary context of the device"
    NONE = "none, until the program sets one"


class DeviceSync(Enum):
    """What SynchronizeDevice waits for.

    From the documentation of both vendors.
    """

    DEVICE = "all streams of the device"
    CONTEXT = "all streams of the current context"


class ForeignStream(Enum):
    """What a call does with a stream of a context that is not current.

    From the documentation of both vendors.
    """

    ALLOWED = "it uses the stream"
    REFUSED = "it refuses the stream"


class EventClass(Enum):
    """The classes of events; they differ first in a wait for an event that was never recorded.

    SNAPSHOT was measured: wait-never-recorded, wait-before-record, wait-then-rerecord, rerecord-then-wait. The others
    exist under ACL only. See events.py.
    """

    SNAPSHOT = "a wait without a record has no effect; a wait keeps the last record before it"
    RECORDED = "a wait without a record is refused; otherwise a snapshot, with an id for each record that is pending"
    FLAG = "a level flag with an id: a record sets it, a reset clears it, a wait lasts until it is set"


class KernelFailure(Enum):
    """Where the failure of work on the device shows.

    STICKY was measured: sticky_error, at the end of docs/semantics.md. See contexts.py for what keeps the failure.
    """

    STICKY = "at a later call; from then on every call that touches the context fails"
    PER_STREAM = "at the next synchronisation of its stream; later work runs, unless the stream stops on failure"


class ManagedMemory(Enum):
    """Whether there is memory whose pages move between the host and devices.

    Measured: managed-*. ACL's documentation has no such call.
    """

    PAGES = "its pages move to where they are used"
    NONE = "there is none: its calls are refused"


class CollectiveRules(Enum):
    """Whose library of collectives it is."""

    NCCL = "groups of calls; a Send may end before its Recv begins; ranks wait for each other without a time limit"
    HCCL = "no groups; ranks wait for a limited time; fewer types can be reduced"


class Init(Enum):
    """What a second Init does.

    From the documentation of ACL; CUDA's runtime has no such call.
    """

    COUNTED = "it counts: the Finalize that matches the first Init ends the runtime"
    ONCE = "it is refused, without other effect: the first Finalize ends the runtime"


class HostCall(Enum):
    """What a call of the host does that a capture beside it may forbid. The host knows which of its calls do it."""

    ALLOCATES = "it takes memory, or pins it"
    FREES = "it gives memory back"
    SYNCHRONISES = "it waits for a stream or an event"
    QUERIES = "it asks whether a stream or an event is done"
    COPIES = "it copies or fills without a stream"
    COPIES_PAGEABLE = "it copies pageable memory in a stream"
    WAITS_FOR_DEVICE = "it waits for all work of a device"


class SyncRules(Frozen):
    """One rule set: an answer to each question above.

    Attributes:
        name: What users call it: `rules="acl"`.
        default_stream: Which stream None means, and its order with other streams.
        sync_copy: How copies and fills without a stream are ordered with queued work.
        pageable_copy: Whether an asynchronous copy of pageable memory waits.
        host_to_host: Whether an asynchronous copy may stay on the host.
        batched_copies: Which copies one call may queue.
        copy_kind: What the kind of a copy is for.
        peer_access: What access between devices is needed for.
        release: Whether freeing memory waits for work.
        destroy: Whether destroying a stream waits for its work.
        destroy_context: Whether destroying a context waits for its work.
        reset: What resetting a device does.
        context_gone: Which context is current when the current one is gone.
        device_sync: What synchronising a device waits for.
        foreign_stream: Whether streams of other contexts may be used.
        events: The classes of events that there are; CreateEvent makes the first one.
        kernel_failure: Where failures of work show.
        managed_memory: Whether there is managed memory.
        init: What a second Init does.
        unsafe_in_capture: The calls that a capture beside them forbids, unless it or their host is relaxed. It always
            forbids a call that waits for all work of its own device.
        collectives: Whose library of collectives there is.
        priorities: Of streams: the least urgent and the most urgent. Others are clamped to this range.
        codes: The vendor's code for each kind of failure.
    """

    name: str
    default_stream: DefaultStream
    sync_copy: SyncCopy
    pageable_copy: PageableCopy
    host_to_host: HostToHost
    batched_copies: BatchedCopies
    copy_kind: CopyKind
    peer_access: PeerAccess
    release: Release
    destroy: Destroy
    destroy_context: Destroy
    reset: Reset
    context_gone: ContextGone
    device_sync: DeviceSync
    foreign_stream: ForeignStream
    events: tuple[EventClass, ...]
    kernel_failure: KernelFailure
    managed_memory: ManagedMemory
    init: Init
    unsafe_in_capture: frozenset[HostCall]
    collectives: CollectiveRules
    priorities: tuple[int, int]
    codes: Mapping[Kind, Code]

    def __repr__(self) -> str:
        return f"<SyncRules {self.name}>"


# Measured: capture-sync-other-*, capture-malloc-global, capture-other-thread-*; documented for the others.
_UNSAFE_UNDER_CUDA = frozenset(
    {HostCall.ALLOCATES, HostCall.FREES, HostCall.SYNCHRONISES, HostCall.QUERIES, HostCall.COPIES}
)


def _read_only(values: Mapping[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


pickle_by(MappingProxyType, lambda proxy: (_read_only, (dict(proxy),)))  # rules go to other processes

CUDA = SyncRules(
    name="cuda",
    default_stream=DefaultStream.LEGACY,
    sync_copy=SyncCopy.IN_DEFAULT_STREAM,
    pageable_copy=PageableCopy.STAGED,
    host_to_host=HostToHost.WAITS,
    batched_copies=BatchedCopies.ANY,
    copy_kind=CopyKind.MUST_FIT,
    peer_access=PeerAccess.FOR_SPEED,
    release=Release.WAITS_FOR_DEVICE,
    destroy=Destroy.WORK_COMPLETES,
    destroy_context=Destroy.WAITS,
    reset=Reset.WAITS,
    context_gone=ContextGone.PRIMARY,
    device_sync=DeviceSync.DEVICE,
    foreign_stream=ForeignStream.ALLOWED,
    events=(EventClass.SNAPSHOT,),
    kernel_failure=KernelFailure.STICKY,
    managed_memory=ManagedMemory.PAGES,
    init=Init.COUNTED,
    unsafe_in_capture=_UNSAFE_UNDER_CUDA,
    collectives=CollectiveRules.NCCL,
    priorities=(0, -5),
    codes=CUDA_CODES,
)

CUDA_PER_THREAD = replace(CUDA, name="cuda_per_thread", default_stream=DefaultStream.PER_THREAD)

ACL = SyncRules(
    name="acl",
    default_stream=DefaultStream.INDEPENDENT,
    sync_copy=SyncCopy.OUTSIDE,
    pageable_copy=PageableCopy.SYNCHRONOUS,
    host_to_host=HostToHost.REFUSED,
    batched_copies=BatchedCopies.ONE_WAY,
    copy_kind=CopyKind.CORRECTED,
    peer_access=PeerAccess.FOR_COPIES,
    release=Release.IMMEDIATE,
    destroy=Destroy.WAITS,
    destroy_context=Destroy.WORK_COMPLETES,  # assumed: no document says so
    reset=Reset.COUNTED,
    context_gone=ContextGone.NONE,
    device_sync=DeviceSync.CONTEXT,
    foreign_stream=ForeignStream.REFUSED,
    events=(EventClass.RECORDED, EventClass.FLAG, EventClass.SNAPSHOT),
    kernel_failure=KernelFailure.PER_STREAM,
    managed_memory=ManagedMemory.NONE,
    init=Init.ONCE,
    unsafe_in_capture=frozenset({HostCall.COPIES, HostCall.COPIES_PAGEABLE}),  # documented
    collectives=CollectiveRules.HCCL,
    priorities=(7, 0),
    codes=ACL_CODES,
)

RULES: Mapping[str, SyncRules] = MappingProxyType({rules.name: rules for rules in (CUDA, CUDA_PER_THREAD, ACL)})
