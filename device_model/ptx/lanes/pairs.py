"""Atomic operations on floats of 16 bits, one by one or in pairs, and on the parts of vectors."""

from typing import Any

from device_model.ptx.lanes.atomics import Step, atomics
from device_model.ptx.lanes.group import Array, Lanes
from device_model.ptx.lanes.memory import MisalignedError
from device_model.ptx.values import halves

KINDS: dict[str, halves.Kind] = {"f16": "f16", "bf16": "bf16", "f16x2": "f16x2", "bf16x2": "bf16x2"}


def atomic_halves(
    at: Lanes, space: str, operation: str, address: Array, operand: Array, kind: halves.Kind, *, wanted: bool = True
) -> Any:
    """Do "add", "min" or "max" of each lane, and return the old values if they are *wanted*."""
    return atomics(at, space, _STEPS[operation](kind), address, operand, wanted=wanted)


def _add(kind: halves.Kind) -> Step:
    return lambda old, other, _: halves.add(old, other, kind)


def _least(kind: halves.Kind) -> Step:
    return lambda old, other, _: halves.minimum(old, other, kind)


def _most(kind: halves.Kind) -> Step:
    return lambda old, other, _: halves.maximum(old, other, kind)


_STEPS = {"add": _add, "min": _least, "max": _most}


def check_aligned(at: Lanes, address: Array, nbytes: int) -> None:
    """Check the address of a vector, whose parts are changed one after the other.

    Raises:
        MisalignedError: It is no multiple of *nbytes*.
    """
    is_bad = (address & address.dtype.type(nbytes - 1)) != 0
    if is_bad.any():
        raise MisalignedError(int(address[is_bad][0]), nbytes, at.some(is_bad))
