"""Atomic operations: the lanes take their turns in the order of their places, block after block.

Where no lane wants the old value, and where no two lanes have one address, all lanes are done at once. Otherwise the
lanes of each address are done in turns: the first lane of every address, then the second of each, and so on; or address
after address, whichever takes fewer steps.

A sum of f32 in global memory takes subnormal numbers as zeros, and gives zeros for them; in shared memory it does not
(PTX ISA, atom).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.ptx.lanes.group import Array, Ints, Lanes
from device_model.ptx.lanes.memory import sites
from device_model.ptx.values import floats
from device_model.ptx.values.rounding import LEAST_OF_F32

Step = Callable[[Array, Array, Array | None], Array]  # old value, operand, second operand -> new value


def _increment(old: Array, limit: Array, _: Array | None) -> Array:
    return np.asarray(np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1)))


def _decrement(old: Array, limit: Array, _: Array | None) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _swap_if_equal(old: Array, expected: Array, new: Array | None) -> Array:
    assert new is not None, "cas has two operands"
    return np.where(old == expected, new, old)


def _add(old: Array, other: Array, _: Array | None) -> Array:
    return floats.canonical(old + other, old, other) if old.dtype.kind == "f" else old + other


def _add_flushed(old: Array, other: Array, _: Array | None) -> Array:
    return floats.canonical(floats.add(old, other, ftz=True))


def _least(old: Array, other: Array, _: Array | None) -> Array:
    return np.fmin(old, other) if old.dtype.kind == "f" else np.minimum(old, other)


def _most(old: Array, other: Array, _: Array | None) -> Array:
    return np.fmax(old, other) if old.dtype.kind == "f" else np.maximum(old, other)


STEPS: dict[str, Step] = {
    "add": _add,
    "and": lambda old, other, _: old & other,
    "or": lambda old, other, _: old | other,
    "xor": lambda old, other, _: old ^ other,
    "exch": lambda _, other, __: other,
    "min": _least,
    "max": _most,
    "inc": _increment,
    "dec": _decrement,
    "cas": _swap_if_equal,
}
_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "min": np.minimum,
    "max": np.maximum,
}  # fmt: skip


def atomic(
    at: Lanes,
    space: str,
    operation: str,
    address: Array,
    operand: Array,
    second: Array | None = None,
    *,
    wanted: bool = True,
) -> Any:
    """Do one atomic operation of each lane, and return the old values if they are *wanted*."""
    return atomics(at, space, STEPS[operation], address, operand, second, wanted=wanted, ufunc=_UFUNCS.get(operation))


def atomics(
    at: Lanes,
    space: str,
    step: Step,
    address: Array,
    operand: Array,
    second: Array | None = None,
    *,
    wanted: bool = True,
    ufunc: np.ufunc | None = None,
) -> Any:
    """Change memory by *step* in each lane; *ufunc*, if there is one, says the same of two arrays."""
    shape = at.shape
    old = np.empty(shape, operand.dtype).reshape(-1) if wanted else None
    address, operand = np.broadcast_to(address, shape), np.broadcast_to(operand, shape).reshape(-1)
    second = None if second is None else np.broadcast_to(second, shape).reshape(-1)
    for where, values, places, part in sites(at, space, np.ascontiguousarray(address), operand.dtype):
        is_flushed = where == "global" and step is _add and operand.dtype == np.float32
        own = operand if part is None else operand[part]
        other = second if part is None or second is None else second[part]
        places = np.broadcast_to(places, shape if part is None else places.shape).reshape(-1)
        here = _add_flushed if is_flushed else step
        before = _apply(values, places, here, own, other, ufunc, wanted=wanted, group_lanes=at)
        if old is not None:
            old[slice(None) if part is None else part] = before
    return None if old is None else old.reshape(shape)


def _apply(
    values: Array,
    places: Ints,
    step: Step,
    operand: Array,
    second: Array | None,
    ufunc: np.ufunc | None,
    *,
    wanted: bool,
    group_lanes: Lanes,
) -> Array | None:
    if not wanted and ufunc is not None and operand.dtype.kind != "f":
        group_lanes.group.changes += 1
        ufunc.at(values, places, operand)
        return None
    order = np.argsort(places, kind="stable")
    in_order = places[order]
    is_first = np.empty(len(places), np.bool_)
    is_first[0] = True
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    begins = np.flatnonzero(is_first)
    if len(begins) == len(places):
        old = values[places]
        new = step(old, operand, second)
        values[places] = new
        group_lanes.group.changes += not np.array_equal(old, new)
        return old
    counts = np.diff(begins, append=len(places))
    operand = operand[order]
    second = None if second is None else second[order]
    old = np.empty_like(operand)
    targets = in_order[begins]
    latest = before = values[targets]
    most = int(counts.max())
    if most <= len(begins):
        latest = latest.copy()
        for turn in range(most):
            on = np.flatnonzero(counts > turn)
            at = begins[on] + turn
            old[at] = latest[on]
            latest[on] = step(latest[on], operand[at], None if second is None else second[at])
    else:
        latest = np.array(
            [
                _in_turn(
                    value,
                    step,
                    operand[begin:end],
                    None if second is None else second[begin:end],
                    ufunc,
                    old[begin:end],
                )
                for value, begin, end in zip(before, begins, begins + counts, strict=True)
            ],
            before.dtype,
        )
    values[targets] = latest
    group_lanes.group.changes += not np.array_equal(before, latest)
    result = np.empty_like(old)
    result[order] = old
    return result


def _in_turn(value: Any, step: Step, operand: Array, second: Array | None, ufunc: np.ufunc | None, old: Array) -> Any:
    """Do the lanes of one address, one after the other: fill *old*, and return the last value."""
    run = None if ufunc is None else _accumulated(value, step, operand, ufunc)
    if run is not None:
        old[:] = run[:-1]
        return run[-1]
    if step is _swap_if_equal:
        return _swaps(value, operand, second, old)
    for number in range(len(operand)):
        old[number] = value
        one = slice(number, number + 1)
        value = step(old[one], operand[one], None if second is None else second[one])[0]
    return value


def _accumulated(value: Any, step: Step, operand: Array, ufunc: np.ufunc) -> Array | None:
    """Return the values before each lane, and the last one; None if NumPy has no such values at once."""
    is_float = operand.dtype.kind == "f"
    if is_float and ufunc is not np.add:
        return None
    run = np.empty(len(operand) + 1, operand.dtype)
    run[0], run[1:] = value, operand
    run = ufunc.accumulate(run, dtype=operand.dtype)
    if step is _add_flushed and (_has_subnormals(run) or _has_subnormals(operand)):
        return None
    if is_float:
        run[1:] = floats.canonical(run[1:], run[:-1], operand)
    return run


def _has_subnormals(x: Array) -> bool:
    size = np.abs(x)
    return bool(((size > 0) & (size < LEAST_OF_F32)).any())


def _swaps(value: Any, expected: Array, new: Array | None, old: Array) -> Any:
    """Do comparisons and swaps at one address: lanes up to the next one that finds what it expects see one value."""
    assert new is not None, "cas has two operands"
    at = 0
    while at < len(expected):
        hits = np.flatnonzero(expected[at:] == value)
        stop = at + int(hits[0]) if len(hits) else len(expected) - 1
        old[at : stop + 1] = value
        if len(hits):
            value = new[stop]
        at = stop + 1
    return value
