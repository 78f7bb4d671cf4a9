"""What collectives compute: the bytes that each rank gets from the calls of all ranks.

A reduction goes through the ranks in their order, from 0 on, and rounds to the type of the elements at each step
(half-precision types are added in float32 first). So the result depends on the values and on the number of ranks only:
not on the algorithm, nor on which rank came first. Integers wrap around. A card adds in an order of its own, which may
round otherwise.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model import memory
from device_model.collectives.calls import Call, CollectiveKind, ReduceOp
from device_model.work import Extent, check_alive

_Array = npt.NDArray[Any]
_STEPS: dict[ReduceOp, Callable[..., Any]] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PROD: np.multiply,
    ReduceOp.MAX: np.maximum,
    ReduceOp.MIN: np.minimum,
    ReduceOp.AVERAGE: np.add,
}


def results(calls: Sequence[Call]) -> list[list[_Array]]:
    """Return, for each rank, what is to be written to the ranges that it receives; *calls* are in the order of ranks.

    Raises:
        DeviceError: Memory that is read has been freed.
    """
    first, ranks = calls[0], range(len(calls))
    match first.kind:
        case CollectiveKind.ALL_REDUCE:
            whole = _reduced(calls)
            return [[whole] for _ in ranks]
        case CollectiveKind.REDUCE:
            whole = _reduced(calls)
            return [[whole] if call.receives else [] for call in calls]
        case CollectiveKind.REDUCE_SCATTER:
            parts = np.split(_reduced(calls), len(calls))
            return [[part] for part in parts]
        case CollectiveKind.ALL_GATHER:
            whole = np.concatenate([_elements(call) for call in calls])
            return [[whole] for _ in ranks]
        case CollectiveKind.BROADCAST:
            whole = sent(calls[_root(first)])
            return [[whole] if call.receives else [] for call in calls]
        case CollectiveKind.SCATTER:
            parts = np.split(sent(calls[_root(first)]), len(calls))
            return [[part] for part in parts]
        case CollectiveKind.ALL_TO_ALL:
            blocks = [np.split(_elements(call), len(calls)) for call in calls]
            return [[np.concatenate([blocks[source][rank] for source in ranks])] for rank in ranks]
        case CollectiveKind.ALL_TO_ALL_V:
            pieces = [[_bytes(call, extent) for extent in call.sends] for call in calls]
            return [[pieces[source][rank] for source in ranks] for rank in ranks]
        case CollectiveKind.SEND | CollectiveKind.RECV:
            return [[] if call.kind is CollectiveKind.SEND else [sent(_sender(calls))] for call in calls]
        case CollectiveKind.BARRIER:
            return [[] for _ in ranks]


def write(call: Call, arrays: Sequence[_Array]) -> None:
    """Write the result of one rank to what it receives."""
    for (allocation, start, stop), array in zip(call.receives, arrays, strict=True):
        check_alive(call.kind.value, "receive buffer", allocation)
        assert array.nbytes == stop - start, f"{array.nbytes} bytes for {stop - start} of {call}"
        memory.array(allocation, start, array.dtype, array.shape)[:] = array


def _root(call: Call) -> int:
    assert call.root is not None, f"{call} has no root"
    return call.root


def _sender(calls: Sequence[Call]) -> Call:
    return next(call for call in calls if call.kind is CollectiveKind.SEND)


def sent(call: Call) -> _Array:
    """Return a copy of the elements that *call* sends.

    Raises:
        DeviceError: The memory has been freed.
    """
    return _elements(call).copy()


def _elements(call: Call) -> _Array:
    """Return the elements that *call* sends, where they are: whoever keeps them needs a copy."""
    dtype = call.dtype
    assert dtype is not None, f"{call} has no type"
    [(allocation, start, stop)] = call.sends
    check_alive(call.kind.value, "send buffer", allocation)
    return memory.array(allocation, start, dtype, (stop - start) // dtype.itemsize)


def _bytes(call: Call, extent: Extent) -> _Array:
    allocation, start, stop = extent
    check_alive(call.kind.value, "send buffer", allocation)
    return memory.array(allocation, start, np.uint8, stop - start).copy()


def _reduced(calls: Sequence[Call]) -> _Array:
    """Return the elements of all ranks combined, in the order of the ranks."""
    dtype, reduction = calls[0].dtype, calls[0].reduction
    assert dtype is not None, f"{calls[0]} has no type"
    assert reduction is not None, f"{calls[0]} combines nothing"
    step = _STEPS[reduction]
    is_half = dtype.itemsize == 2 and dtype.kind not in "iu"
    total = sent(calls[0])
    with np.errstate(all="ignore"):
        for call in calls[1:]:
            other = _elements(call)
            if is_half:
                total = step(total.astype(np.float32), other.astype(np.float32)).astype(dtype)
            else:
                step(total, other, out=total)
        if reduction is ReduceOp.AVERAGE:
            total = _divided(total, len(calls), is_half=is_half)
    return total


def _divided(total: _Array, count: int, *, is_half: bool) -> _Array:
    """Return *total* divided by *count*; integers are rounded towards 0."""
    if is_half:
        return (total.astype(np.float32) / np.float32(count)).astype(total.dtype)
    divisor = total.dtype.type(count)
    quotient: _Array = (total - np.fmod(total, divisor)) // divisor if total.dtype.kind in "iu" else total / divisor
    return quotient
