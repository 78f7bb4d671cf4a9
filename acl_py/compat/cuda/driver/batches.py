"""Batches: several copies in one call."""

from collections.abc import Iterator
from struct import Struct, unpack
from typing import Any

import acl_py as native
from acl_py.compat.cuda.driver.copies import ends_of, queue_bytes
from acl_py.compat.cuda.driver.streams import stream_of
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.verbs.memory import Memory
from device_model.memory import Buffer, Space

_ATTRIBUTES = Struct("<I16sI")  # CUmemcpyAttributes: order of accesses, locations, flags
_ORDERS = (1, 2, 3)  # CUmemcpySrcAccessOrder: in the stream, during the call, or at any time
_MOST = 1 << 16  # copies in one call


@answers("cuMemcpyBatchAsync_v2")
async def copy_several(
    driver: Driver, dsts: int, srcs: int, sizes: int, count: int, attributes: int, firsts: int, given: int, stream: Any
) -> None:
    """Queue several copies. Those of pageable memory, which the verb does not take, are queued one by one."""
    copies = list(_copies(dsts, srcs, sizes, count))
    _check_attributes(attributes, firsts, given, count)
    places = [(ends_of(driver, dst, src, nbytes), nbytes) for dst, src, nbytes in copies]
    queue = stream_of(driver, stream)
    takes_none = queue.branch is not None or queue is queue.context.legacy  # and the verb says why
    if takes_none or all(_is_batched(*ends) for ends, _ in places):
        await native.MemcpyBatchAsync([(dst, nbytes, src, nbytes) for (dst, src), nbytes in places], stream)
        return
    for dst, src, nbytes in copies:
        await queue_bytes(driver, dst, src, nbytes, stream)


def _is_batched(dst: Memory, src: Memory) -> bool:
    """Whether the verb for batches takes a copy: of memory that is not pageable, and not of the host at both ends."""
    spaces = {end.allocation.space for end in (dst, src) if isinstance(end, Buffer)}
    return Space.PAGEABLE not in spaces and spaces != {Space.PINNED}


@answers("cuMemcpyBatchAsync")
async def copy_several_or_tell(
    driver: Driver, dsts: int, srcs: int, sizes: int, count: int, attributes: int, firsts: int, given: int,
    _failed: int, stream: Any,
) -> None:  # fmt: skip
    """Queue several copies; which one failed is not told."""
    await copy_several(driver, dsts, srcs, sizes, count, attributes, firsts, given, stream)


def _copies(dsts: int, srcs: int, sizes: int, count: int) -> Iterator[tuple[int, int, int]]:
    if not 0 < count <= _MOST:
        raise RefusedError(INVALID_VALUE, f"a call for {count} copies: give 1 to {_MOST}")
    columns = [unpack(f"<{count}Q", own_memory.read(each, 8 * count)) for each in (dsts, srcs, sizes)]
    return zip(*columns, strict=True)


def _check_attributes(attributes: int, firsts: int, given: int, count: int) -> None:
    """Refuse attributes that a card refuses; they are hints, and the copies are the same with any."""
    if not 0 < given <= count:
        raise RefusedError(INVALID_VALUE, f"{given} attributes for {count} copies")
    begins = unpack(f"<{given}Q", own_memory.read(firsts, 8 * given))
    if begins[0] or list(begins) != sorted(set(begins)):
        raise RefusedError(INVALID_VALUE, f"attributes from the copies {begins} on: begin with 0, and increase")
    for order, _, _ in _ATTRIBUTES.iter_unpack(own_memory.read(attributes, _ATTRIBUTES.size * given)):
        if order not in _ORDERS:
            raise RefusedError(INVALID_VALUE, f"there is no order of accesses {order}")
