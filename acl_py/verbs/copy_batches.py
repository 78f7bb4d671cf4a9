"""Batches of copies: several copies in one stream, queued by one call that pays once.

Each copy is an operation of its own. What the host has to make itself, such as a copy of pageable memory, is refused.
"""

from collections.abc import Iterable
from typing import TypeAlias

from acl_py.calls.acts import Batched
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.routes import MemcpyKind
from acl_py.runtime.runtime import Runtime
from acl_py.verbs import transfers
from acl_py.verbs.copies import check_count, copy_of
from acl_py.verbs.memory import Memory
from acl_py.verbs.streams import StreamLike, resolve
from device_model.completions import Completion
from device_model.errors import shown
from device_model.integers import Integer
from device_model.rules import BatchedCopies
from device_model.streams import Stream
from device_model.work import D2H, H2D, H2H, Copy

# dst, dest_max, src and count, as in MemcpyAsync().
BatchedCopy: TypeAlias = tuple[Memory, Integer, Memory, Integer]


@verb(acl="aclrtMemcpyBatchAsync", cuda="cudaMemcpyBatchAsync")
async def MemcpyBatchAsync(copies: Iterable[BatchedCopy], stream: StreamLike = None) -> Completion:
    """Queue all of *copies* in *stream*, with one call.

    Stands for aclrtMemcpyBatchAsync and cudaMemcpyBatchAsync of CUDA 12.8. The vendors promise no order between the
    copies of one batch, so none may need another one. Here they run in the order of *copies*, one after another
    (observed on an H200). The call takes the host as long as MemcpyAsync() for the first copy, and little more for
    each further one between host and device. Copies inside a device are not cheaper in a batch (measured on an H200).

    Args:
        copies: Tuples of dst, dest_max, src and count in bytes, which mean what they do in MemcpyAsync(). The memory
            is device, managed or pinned memory.
        stream: The stream; None is the default one, but not CUDA's legacy stream. PER_THREAD_STREAM names CUDA's.

    Waits:
        all rules: For nothing, except for room if the hardware queue is full.

    Returns:
        The completion of the last copy, which is done when all of them are.

    Raises:
        AclError: INVALID_VALUE if there are no copies, a count is less than 1 or larger than its dest_max, an end has
            less, or *stream* is CUDA's legacy stream (measured on an H200: refused); INVALID_ADDRESS or NULL_POINTER
            if an end is not memory, or was freed; NOT_SUPPORTED for pageable memory, for a copy from host to host, and
            under ACL's rules for a batch that is not all from the host to a device, or all back; CAPTURE_UNSUPPORTED
            if *stream* captures, which goes on (measured on an H200); INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED
            if *stream* cannot be used here. Nothing is queued then.
        DeadlockError: The stream can never make room.
        TypeError: A copy is no tuple of four, a number is not an int, or *stream* is not a stream.

    Example:
        await MemcpyBatchAsync([(buffer, 64, pinned, 64), (buffer[64:], 64, pinned[64:], 64)], stream)
        await SynchronizeStream(stream)
    """
    scope, runtime, site, _ = begin()
    stream = resolve(scope, stream, MemcpyBatchAsync.__name__, captures=True)
    _check_stream(runtime, stream)
    batch = tuple(_copy_of(runtime, number, each) for number, each in enumerate(copies))
    _check_batch(runtime, batch)
    work = transfers.queue_all(runtime, stream, batch, site)
    return await runtime.carry_out(MemcpyBatchAsync.__name__, site, work, Batched(batch, stream))


def _check_stream(runtime: Runtime, stream: Stream) -> None:
    if stream.branch is not None:
        raise runtime.refuse(
            Kind.CAPTURE_UNSUPPORTED,
            f"MemcpyBatchAsync() on {stream!r} cannot be captured",
            "capture a MemcpyAsync() for each copy",
        )
    if stream is stream.context.legacy:
        raise runtime.error(
            Kind.INVALID_VALUE,
            f"MemcpyBatchAsync() on {stream!r}, which takes no batches",
            "use a stream made with CreateStream(), or PER_THREAD_STREAM",
        )


def _copy_of(runtime: Runtime, number: int, item: BatchedCopy) -> Copy:
    if not isinstance(item, tuple) or len(item) != 4:
        raise TypeError(f"copy {number} of a batch must be a tuple (dst, dest_max, src, count), not {shown(item)}")
    dst, dest_max, src, count = item
    count = check_count(runtime, count, dest_max)
    if not count:
        raise runtime.error(
            Kind.INVALID_VALUE, f"copy {number} of a batch has no bytes", "leave it out: each copy has 1 byte or more"
        )
    copy = copy_of(runtime, dst, src, count, MemcpyKind.DEFAULT)
    if copy.is_pageable or copy.label is H2H:
        what = "copies pageable memory" if copy.is_pageable else "stays on the host"
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"copy {number} of a batch {what}, from {copy.src!r} to {copy.dst!r}",
            "use MemcpyAsync() for it, or memory of MallocHost()",
        )
    return copy


def _check_batch(runtime: Runtime, batch: tuple[Copy, ...]) -> None:
    if not batch:
        raise runtime.error(Kind.INVALID_VALUE, "MemcpyBatchAsync() without copies", "pass at least one")
    if runtime.rules.batched_copies is BatchedCopies.ONE_WAY:
        first = batch[0].label
        for number, copy in enumerate(batch):
            if copy.label not in (H2D, D2H) or copy.label is not first:
                raise runtime.error(
                    Kind.NOT_SUPPORTED,
                    f"copy {number} of a batch is {copy.label.name}, and the first is {first.name}",
                    "batch copies from the host to a device, or copies back, and not both",
                )
