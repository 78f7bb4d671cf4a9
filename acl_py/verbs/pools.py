"""Stream-ordered memory: allocated and freed in streams, from pools."""

from collections.abc import Callable
from functools import partial

from acl_py.calls.acts import Began, Ended, Plain
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.pools import mapped_bytes, trim_pool
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site
from acl_py.verbs.memory import Memory, tell_allocated, tell_freed
from acl_py.verbs.streams import StreamLike, resolve
from device_model.completions import NOTHING, Completion, Then
from device_model.graphs.capture import Branch
from device_model.graphs.graph import NodeKind
from device_model.integers import Integer, integer
from device_model.memory import Allocation, Block, Buffer, Origin, Pool
from device_model.names import check_name
from device_model.ops import Op
from device_model.streams import Stream


@verb(acl="aclrtMallocAsync", cuda="cudaMallocAsync", step="malloc_async")
async def MallocAsync(
    nbytes: Integer, stream: StreamLike = None, *, name: str | None = None, pool: Pool | None = None
) -> Buffer:
    """Take *nbytes* from the stream-ordered pool of the device of *stream*, or from another *pool*.

    Stands for aclrtMallocAsync and cudaMallocAsync, and for cudaMallocFromPoolAsync. The memory may be used by work
    that is queued in *stream* from now on, and by work that is ordered behind it. A block that was given back is used
    again as the CUDA programming guide says. That is at once in the same stream; in another stream if its FreeAsync()
    has taken place, or if *stream* already waits for it. Only if the device has no room left is a block used whose
    FreeAsync() is still to come in another stream, and then *stream* waits for that. In a capture the memory belongs to
    the graph: it is there from each launch on, and until the executable is destroyed. Unused memory of the pool goes
    back to the device at the next synchronisation of the device, of an event, or of the stream in which it was freed
    (measured: timelines2), except what SetMemPoolThreshold() lets it keep.

    Args:
        nbytes: The size in bytes, 1 or more.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.
        pool: A pool that a driver's program has made; None is that of the device.

    Waits:
        all rules: For nothing (measured: malloc-async-busy, malloc-async-fresh-busy); the stream waits where the pool
            has to use a block that is still in use.

    Returns:
        The buffer.

    Raises:
        AclError: OUT_OF_MEMORY if the device or *pool* has no room; INVALID_VALUE for 0 bytes or less, or if *pool* was
            destroyed; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *nbytes* is not an int, *stream* is not a stream, or *name* is not a str.
        ValueError: *name* is empty, too long or not printable.

    Example:
        scratch = await MallocAsync(1 << 20, stream)
        await MemsetAsync(scratch, scratch.nbytes, 0, scratch.nbytes, stream)
        await FreeAsync(scratch, stream)  # behind the fill, and the host does not wait
    """
    scope, runtime, site, enter = begin()
    stream = resolve(scope, stream, MallocAsync.__name__, captures=True)
    check_name(name)
    nbytes = runtime.memory.check_size(nbytes, Origin.POOL)
    pool = runtime.memory.pool(stream.context.device.ordinal) if pool is None else pool
    if pool.is_destroyed:
        raise runtime.error(Kind.INVALID_VALUE, f"{pool!r} was destroyed", "make another pool")
    rank: Callable[[Block], int | None] = partial(_rank, stream)
    if not pool.has_room(nbytes, rank):
        trim_pool(runtime, pool, 0)
        if not pool.has_room(nbytes, rank):
            rank = _rank_any
    mapped = mapped_bytes(runtime, pool)
    buffer, after = pool.take(nbytes, rank, site, stream)
    buffer.allocation.given_name = name
    if stream.branch is not None:
        runtime.pay(runtime.profile.graphs.captured)
        stream.branch.add(NodeKind.ALLOCATE, site, subject=buffer.allocation)
        runtime.called(MallocAsync.__name__, enter, site, Began(buffer.allocation, stream))
        return buffer
    grown = mapped_bytes(runtime, pool) - mapped
    runtime.pay(runtime.costs.malloc_async + (runtime.costs.pool_growth[grown] if grown else 0))
    since = _completion(after)
    if after is not None:
        stream.wait(since)
    tell_allocated(runtime, buffer.allocation, since)
    runtime.called(MallocAsync.__name__, enter, site, Began(buffer.allocation, stream))
    return buffer


@verb(cuda="cudaFreeAsync", step="free_async")
async def FreeAsync(buffer: Memory, stream: StreamLike = None) -> Completion:
    """Give *buffer* back behind everything that is queued in *stream* so far.

    Stands for cudaFreeAsync and its counterpart among ACL's memory pools. Work that was queued before may still use the
    memory. Memory of Malloc() goes back to the device, not to the pool.

    Args:
        buffer: The buffer, or its address, of MallocAsync() or Malloc().
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        all rules: For nothing (measured: malloc-async-busy).

    Returns:
        The completion of the work that has to be over before the block is free.

    Raises:
        AclError: INVALID_ADDRESS if *buffer* is not the whole of such memory, or was freed already; INVALID_VALUE if it
            is no memory; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream = resolve(scope, stream, FreeAsync.__name__, captures=True)
    allocation = runtime.memory.root(buffer, FreeAsync.__name__, Origin.MALLOC, Origin.POOL)
    if stream.branch is not None:
        return _free_in_capture(runtime, stream.branch, allocation, site)
    runtime.pay(runtime.costs.free_async)
    behind = stream.turn()
    give_to_pool(runtime, allocation, buffer, stream, behind, site)
    tell_freed(runtime, allocation, behind)
    runtime.called(FreeAsync.__name__, enter, site, Ended(allocation, stream))
    return behind


def _free_in_capture(runtime: Runtime, branch: Branch, allocation: Allocation, site: Site) -> Completion:
    """Add a node that frees *allocation*, which a node of the same graph allocates."""
    runtime.pay(runtime.profile.graphs.captured)
    graph = branch.capture.graph
    if not any(node.kind is NodeKind.ALLOCATE and node.subject is allocation for node in graph.nodes):
        raise runtime.refuse(
            Kind.INVALID_VALUE,
            f"FreeAsync({allocation!r}) in {branch.capture!r}, which has not allocated it",
            "free in a capture what MallocAsync() allocated in it, and other memory after EndCapture()",
        )
    branch.add(NodeKind.FREE, site, subject=allocation)
    act = Ended(allocation, branch.stream)
    runtime.called(FreeAsync.__name__, runtime.host_ns - runtime.profile.graphs.captured, site, act)
    return NOTHING


@verb(acl="aclrtMemPoolSetAttr", cuda="cudaMemPoolSetAttribute", step="pool_threshold")
async def SetMemPoolThreshold(nbytes: Integer, *, pool: Pool | None = None) -> None:
    """Let the stream-ordered pool of the current device keep up to *nbytes* of unused memory across synchronisations.

    Stands for the release threshold of aclrtMemPoolSetAttr and cudaMemPoolSetAttribute. At first it is 0. The pool
    takes memory from the device in chunks, and keeps whole ones only; it need not grow again for these (measured:
    pool-trim-cost).

    Args:
        nbytes: The size in bytes, 0 or more.
        pool: A pool that a driver's program has made; None is that of the current device.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_VALUE if *nbytes* is negative.
        TypeError: *nbytes* is not an int.
    """
    scope, runtime, site, enter = begin()
    nbytes = integer("nbytes", nbytes)
    if nbytes < 0:
        raise runtime.error(Kind.INVALID_VALUE, f"a pool that keeps {nbytes} bytes", "nbytes must be 0 or more")
    pool = runtime.memory.pool(scope.context.device.ordinal) if pool is None else pool
    pool.release_threshold = nbytes
    runtime.brief_call(SetMemPoolThreshold.__name__, enter, site, Plain((nbytes,)))


# --- helpers


def _rank(stream: Stream, block: Block) -> int | None:
    """Return 0 for a block of *stream* itself, 1 for a free one, None for one that *stream* would have to wait for."""
    if block.stream is stream:
        return 0
    free = _completion(block.free_op)
    return 1 if free.done or any(_is_behind(each, free) for each in stream.pending) else None


def _rank_any(block: Block) -> int:  # noqa: ARG001 - it asks nothing of it
    """Accept every block: the stream waits for it."""
    return 1


def _is_behind(completion: Completion, free: Completion) -> bool:
    """Whether *completion* certainly comes no earlier than *free*."""
    if completion is free:
        return True
    return (
        isinstance(completion, Op)
        and isinstance(free, Op)
        and completion.stream is free.stream
        and completion.queued_ns > free.queued_ns
    )


def _completion(free_op: object) -> Completion:
    """Return the completion that a pool keeps with a block: the end of its use, or NOTHING."""
    return free_op if isinstance(free_op, Completion) else NOTHING


def give_to_pool(
    runtime: Runtime, allocation: Allocation, buffer: Memory, stream: Stream | None, until: Completion, site: Site
) -> None:
    """Give *buffer*, all of *allocation*, to its pool behind *until*. Then the bodies of the work that could use it are
    run to their ends, and its bytes are let go.
    """
    if until.done:
        runtime.workers.flush(allocation)
    runtime.memory.pool_of(allocation).give(buffer, stream, None if until.done else until, site)

    def drop(_: Completion) -> None:
        runtime.workers.flush(allocation)
        allocation.drop()

    if not until.done:
        until.add_waiter(Then(drop))
