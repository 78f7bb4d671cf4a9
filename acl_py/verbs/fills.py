"""Fills. A fill of no bytes is checked and pays for a short call, but is no work, as a copy of no bytes."""

from acl_py.calls.acts import Completed, Queued
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Scope
from acl_py.sites import Site
from acl_py.verbs import transfers
from acl_py.verbs.copies import check_count, locate
from acl_py.verbs.memory import Memory
from acl_py.verbs.streams import StreamLike, resolve
from device_model import memory as model
from device_model.completions import NOTHING, Completion
from device_model.integers import Integer, integer
from device_model.memory import Space
from device_model.ops import Op
from device_model.rules import HostCall, SyncCopy
from device_model.streams import Stream
from device_model.work import FILL, Fill, PagedFill

_UNITS = (1, 2, 4)
_LANE = FILL.lane


@verb(acl="aclrtMemsetAsync", cuda="cudaMemsetAsync", step="memset_async")
async def MemsetAsync(
    dst: Memory, dest_max: Integer, value: Integer, count: Integer, stream: StreamLike = None, *, unit: int = 1
) -> Completion:
    """Queue a fill of *count* bytes of *dst* with the byte *value* in *stream*, or with words of *unit* bytes.

    Stands for aclrtMemsetAsync and cudaMemsetAsync, and with a *unit* for cuMemsetD16Async and cuMemsetD32Async. A fill
    of no bytes is checked, but is no work.

    Args:
        dst: Device or pinned memory, as in MemcpyAsync().
        dest_max: The room at *dst*, in bytes.
        value: The byte or word; of a larger int the lowest bits count.
        count: How many bytes to fill, at most *dest_max*.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.
        unit: The bytes of a word: 1, 2 or 4. The address and *count* are multiples of it.

    Waits:
        cuda, cuda_per_thread: For nothing, except for room if the hardware queue is full (measured:
            memset-async-pinned).
        acl: For nothing, except for room; for pageable memory, which only ACL's rules allow, until the stream has done
            all earlier work, and then the host fills it itself.

    Returns:
        The completion of the fill.

    Raises:
        AclError: INVALID_VALUE if *count* is negative or larger than *dest_max*, if *dst* has less, or is pageable
            under CUDA's rules, or if *unit* is not possible; INVALID_ADDRESS or NULL_POINTER if it is not memory, or
            was freed; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        DeadlockError: The stream can never make room.
        TypeError: *count*, *dest_max* or *value* is not an int, or *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    context = scope.context
    if type(stream) is not context.stream_type or stream.home is not context:
        stream = resolve(scope, stream, MemsetAsync.__name__, captures=True)
    fill = _fill_of(runtime, dst, dest_max, value, count, unit)
    queue = stream.queues[_LANE]
    is_plain = stream.home is not None and fill.nbytes and fill.dst.space is not Space.PAGEABLE
    if not is_plain or len(queue.fifo) + queue.reserved >= queue.depth:
        work = _fill(runtime, stream, fill, site)
        return await runtime.carry_out(MemsetAsync.__name__, site, work, Queued(fill, stream))
    op = Op(fill, _LANE, fill.nbytes, site)
    try:
        runtime.submit(stream, op, runtime.cost_of("fill"), runtime.kernel_latency)
    finally:  # the trace has the call even if it fails
        runtime.called(MemsetAsync.__name__, enter, site, Queued(fill, stream))
    return op


@verb(acl="aclrtMemset", cuda="cudaMemset", does=HostCall.COPIES, step="memset")
async def Memset(dst: Memory, dest_max: Integer, value: Integer, count: Integer, *, unit: int = 1) -> None:
    """Fill *count* bytes of *dst* with the byte *value*, or with words of *unit* bytes.

    Stands for aclrtMemset and cudaMemset, and with a *unit* for cuMemsetD16 and cuMemsetD32. A fill of no bytes is
    checked, but is no work.

    Args:
        dst: Device or pinned memory, as in MemcpyAsync(); under ACL's rules also pageable memory.
        dest_max: The room at *dst*, in bytes.
        value: The byte or word; of a larger int the lowest bits count.
        count: How many bytes to fill, at most *dest_max*.
        unit: The bytes of a word: 1, 2 or 4. The address and *count* are multiples of it.

    Waits:
        cuda, cuda_per_thread: The fill is queued in the default stream. For device memory the host waits for nothing
            (measured: memset-idle, memset-busy); for pinned and managed memory until the fill is done (measured:
            managed-memset).
        acl: Until the fill is done. It is made at once and outside all streams.

    Raises:
        AclError: INVALID_VALUE if *count* is negative or larger than *dest_max*, if *dst* has less, or is pageable
            under CUDA's rules, or if *unit* is not possible; INVALID_ADDRESS or NULL_POINTER if it is not memory, or
            was freed; the kind of the failure if the context has failed.
        DeadlockError: The fill can never be made.
        TypeError: *count*, *dest_max* or *value* is not an int.
    """
    scope, runtime, site, _ = begin()
    fill = _fill_of(runtime, dst, dest_max, value, count, unit)
    await runtime.carry_out(Memset.__name__, site, _fill_and_wait(scope, fill, site), Completed(fill))


async def _fill_and_wait(scope: Scope, fill: Fill, site: Site) -> None:
    runtime = scope.runtime
    completion = await _fill(runtime, transfers.sync_stream(scope), fill, site)
    if (fill.dst.space is not Space.DEVICE and fill.nbytes) or runtime.rules.sync_copy is SyncCopy.OUTSIDE:
        await transfers.ended(runtime, completion, "Memset()", site)
    runtime.check_context(scope.context)


async def _fill(runtime: Runtime, stream: Stream, fill: Fill, site: Site) -> Completion:
    if not fill.nbytes:
        runtime.pay(runtime.costs.other)
        return NOTHING
    if fill.dst.space is Space.PAGEABLE:
        what = f"a fill of pageable memory waits for {stream.name}"
        await runtime.wait(stream.turn(), what, site, (stream,), sleeps=False)
        runtime.pay(runtime.profile.copies.host_to_host[fill.nbytes])
        model.fill(fill.dst, fill.offset, fill.value, fill.nbytes, fill.unit)
        return NOTHING
    return await transfers.queue(runtime, stream, fill, site)


def _fill_of(runtime: Runtime, dst: Memory, dest_max: Integer, value: Integer, count: Integer, unit: int) -> Fill:
    if type(count) is not int or type(dest_max) is not int or not 0 <= count <= dest_max:
        count = check_count(runtime, count, dest_max)
    if type(value) is not int:
        value = integer("the value of a fill", value)
    allocation, offset = locate(runtime, dst, count, "dst")
    if allocation.space is Space.PAGEABLE and runtime.rules.sync_copy is not SyncCopy.OUTSIDE:
        raise runtime.error(
            Kind.INVALID_VALUE, "a fill of pageable host memory", "use device or pinned memory, or NumPy's fill"
        )
    if unit not in _UNITS or count % unit or (allocation.address + offset) % unit:
        what = f"a fill of {count} bytes with words of {unit} at {offset} of {allocation!r}"
        raise runtime.error(Kind.INVALID_VALUE, what, "words have 1, 2 or 4 bytes, and begin at a multiple of that")
    kind_of_fill = Fill if allocation.pages is None else PagedFill
    return kind_of_fill(allocation, offset, value & ((1 << 8 * unit) - 1), count, unit)
