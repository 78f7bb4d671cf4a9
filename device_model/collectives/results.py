"""What collectives compute: the bytes that each rank gets from the calls of all ranks.

A reduction goes through the ranks in their order, from 0 on, and rounds to the type of the elements at each step
(half-precision types are added in float32 first). So the result depends on the values and on the number of ranks only:
not on the algorithm, nor on which rank came first. Integers wrap around. A card adds in an order of its own, which may
round otherwise.
"""

from collections.abc import Sequence
from contextvars import Context
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model import memory
from device_model.collectives.calls import Call, CollectiveKind, ReduceOp
from device_model.memory import Allocation
from device_model.work import Extent, check_alive

_Array = npt.NDArray[Any]
# NumPy keeps in the context whether it warns of an overflow. To enter this one is quicker than numpy.errstate.
_SILENT = Context()
_SILENT.run(np.seterr, all="ignore")
_NOTHING = memoryview(b"")
_GATHERED = 1 << 20  # so many bytes of all ranks are copied side by side, and reduced by one call
_STEPS: dict[ReduceOp, np.ufunc] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PROD: np.multiply,
    ReduceOp.MAX: np.maximum,
    ReduceOp.MIN: np.minimum,
    ReduceOp.AVERAGE: np.add,
}


def results(calls: Sequence[Call]) -> list[list[memoryview]]:
    """Return, for each rank, the bytes that are to be written to the ranges that it receives.

    *calls* are in the order of the ranks.

    Raises:
        DeviceError: Memory that is read has been freed.
    """
    first, ranks = calls[0], range(len(calls))
    match first.kind:
        case CollectiveKind.ALL_REDUCE:
            return [[_bytes(_reduced(calls))]] * len(calls)
        case CollectiveKind.REDUCE:
            whole = _bytes(_reduced(calls))
            return [[whole] if call.receives else [] for call in calls]
        case CollectiveKind.REDUCE_SCATTER:
            return _shares(_bytes(_reduced(calls)), len(calls))
        case CollectiveKind.ALL_GATHER:
            return [[memoryview(b"".join(_read(calls)))]] * len(calls)
        case CollectiveKind.BROADCAST:
            whole = sent(calls[_root(first)])
            return [[whole] if call.receives else [] for call in calls]
        case CollectiveKind.SCATTER:
            return _shares(sent(calls[_root(first)]), len(calls))
        case CollectiveKind.ALL_TO_ALL:
            shares = [_shares(each, len(calls)) for each in _read(calls)]
            return [[memoryview(b"".join([share[rank][0] for share in shares]))] for rank in ranks]
        case CollectiveKind.ALL_TO_ALL_V:
            pieces = [[_copy(call, extent) for extent in call.sends] for call in calls]
            return [[pieces[source][rank] for source in ranks] for rank in ranks]
        case CollectiveKind.SEND | CollectiveKind.RECV:
            return [[] if call.kind is CollectiveKind.SEND else [sent(_sender(calls))] for call in calls]
        case CollectiveKind.BARRIER:
            return [[] for _ in ranks]


def nothing(calls: Sequence[Call]) -> list[list[memoryview]]:
    """Return what `results` does in a run without values: each rank is to write nothing.

    Raises:
        DeviceError: Memory that is read has been freed.
    """
    received: dict[int, list[memoryview]] = {}
    for number, call in dict(zip(map(id, calls), calls, strict=True)).items():  # one call may have many seats
        for allocation, _, _ in call.sends:
            check_alive(call.kind.value, "send buffer", allocation)
        received[number] = [_NOTHING] * len(call.receives)
    return list(map(received.__getitem__, map(id, calls)))


def write(call: Call, allocation: Allocation, start: int, data: memoryview) -> None:
    """Write *data*, which *call* receives, to *allocation* from *start* on."""
    check_alive(call.kind.value, "receive buffer", allocation)
    if not allocation.has_values:
        return
    memory.array(allocation, start, np.uint8, len(data))[:] = data


def _root(call: Call) -> int:
    assert call.root is not None, f"{call} has no root"
    return call.root


def _sender(calls: Sequence[Call]) -> Call:
    return next(call for call in calls if call.kind is CollectiveKind.SEND)


def sent(call: Call) -> memoryview:
    """Return a copy of the bytes that *call* sends.

    Raises:
        DeviceError: The memory has been freed.
    """
    [extent] = call.sends
    return _copy(call, extent)


def _copy(call: Call, extent: Extent) -> memoryview:
    allocation, start, stop = extent
    check_alive(call.kind.value, "send buffer", allocation)
    if not allocation.has_values:
        return _NOTHING
    return memory.array(allocation, start, np.uint8, stop - start).copy().data


def _read(calls: Sequence[Call]) -> list[memoryview]:
    """Return views of the bytes that each of *calls* sends. Copy them to keep them."""
    found = []
    for call in calls:
        [(allocation, start, stop)] = call.sends
        if allocation.cold is None:
            found.append(allocation.view[start:stop])
        else:
            check_alive(call.kind.value, "send buffer", allocation)
            found.append(memory.array(allocation, start, np.uint8, stop - start).data)
    return found


def _shares(whole: memoryview, count: int) -> list[list[memoryview]]:
    """Return *count* equal parts of *whole*, one for each rank."""
    nbytes = len(whole) // count
    return [[whole[rank * nbytes : (rank + 1) * nbytes]] for rank in range(count)]


def _bytes(array: _Array) -> memoryview:
    return array.view(np.uint8).data


def _reduced(calls: Sequence[Call]) -> _Array:
    """Return the elements of all ranks combined, in the order of the ranks."""
    combined: _Array = _SILENT.copy().run(combine, calls, _read(calls))
    return combined


def combine(calls: Sequence[Call], parts: Sequence[memoryview]) -> _Array:
    """Return the elements of *parts* combined in their order, as *calls* say."""
    dtype, reduction = calls[0].dtype, calls[0].reduction
    assert dtype is not None, f"{calls[0]} has no type"
    assert reduction is not None, f"{calls[0]} combines nothing"
    step, nbytes = _STEPS[reduction], len(parts[0])
    is_half = dtype.itemsize == 2 and dtype.kind not in "iu"
    if dtype.itemsize < nbytes <= _GATHERED // len(parts) and not is_half:
        # Down the rows NumPy goes from one to the next. A single column it would add up in pairs.
        rows = np.ndarray((len(parts), nbytes // dtype.itemsize), dtype, b"".join(parts))
        total = step.reduce(rows, 0, dtype)
    else:
        total = np.frombuffer(parts[0], np.uint8).view(dtype).copy()
        for part in parts[1:]:
            other = np.frombuffer(part, np.uint8).view(dtype)
            if is_half:
                total = step(total.astype(np.float32), other.astype(np.float32)).astype(dtype)
            else:
                step(total, other, out=total)
    return _divided(total, len(calls), is_half=is_half) if reduction is ReduceOp.AVERAGE else total


def _divided(total: _Array, count: int, *, is_half: bool) -> _Array:
    """Return *total* divided by *count*; integers are rounded towards 0."""
    if is_half:
        return (total.astype(np.float32) / np.float32(count)).astype(total.dtype)
    divisor = total.dtype.type(count)
    quotient: _Array = (total - np.fmod(total, divisor)) // divisor if total.dtype.kind in "iu" else total / divisor
    return quotient
