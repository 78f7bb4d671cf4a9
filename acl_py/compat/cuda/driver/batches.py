"""Batches: several copies in one call, which are queued one by one."""

from collections.abc import Iterator
from struct import Struct, unpack
from typing import Any

from acl_py.compat.cuda.driver.copies import queue_bytes
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory

_ATTRIBUTES = Struct("<I16sI")  # CUmemcpyAttributes: order of accesses, locations, flags
_ORDERS = (1, 2, 3)  # CUmemcpySrcAccessOrder: in the stream, during the call, or at any time
_MOST = 1 << 16  # copies in one call


@answers("cuMemcpyBatchAsync_v2")
async def copy_several(
    driver: Driver, dsts: int, srcs: int, sizes: int, count: int, attributes: int, firsts: int, given: int, stream: Any
) -> None:
    """Queue several copies."""
    copies = list(_copies(dsts, srcs, sizes, count))
    _check_attributes(attributes, firsts, given, count)
    for dst, src, nbytes in copies:
        await queue_bytes(driver, dst, src, nbytes, stream)


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
