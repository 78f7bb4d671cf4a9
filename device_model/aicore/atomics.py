"""Atomic copies: after SetAtomicAdd, what goes from a core to GM is added to what is there, until SetAtomicNone.

It holds for DataCopy and DataCopyPad from UB and L1, and for Fixpipe. Several cores may add to the same bytes in any
order: that is no hazard. Who writes or reads them otherwise must be ordered with each of them. GM is not cleared: the
kernel's argument is InOut, and holds what is to be added to. Sums are rounded each, in the order in which blocks run.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.findings import KernelError
from device_model.aicore.machine import running
from device_model.aicore.memories import Range
from device_model.aicore.tensors import bfloat16, dtype_of, float32, half, int8, int16, int32

_TYPES = (half, bfloat16, float32, int8, int16, int32)


class Atomic(NamedTuple):
    """How a core combines what it copies with what is in GM: *how*, as elements of *dtype*."""

    how: np.ufunc
    dtype: np.dtype[Any]

    def into(self, writes: Sequence[Range], compute: Callable[[], object]) -> Callable[[], object]:
        """*compute*, which writes to *writes* in GM, with its results combined with what they held."""
        rows = [_rows(self.dtype, *each) for each in writes]

        def combine() -> None:
            before = [each.copy() for each in rows]
            compute()
            for old, new in zip(before, rows, strict=True):
                self.how(old, new, out=new)

        return combine


def _rows(
    dtype: np.dtype[Any], memory: Any, start: int, stop: int, length: int | None = None, stride: int = 0
) -> npt.NDArray[Any]:
    length = length or stop - start
    if start % dtype.itemsize or length % dtype.itemsize:
        raise KernelError(
            f"an atomic copy of {length} bytes to byte {start} of {memory.name}", f"it takes whole elements of {dtype}"
        )
    count = 1 + (stop - start - length) // stride if stride else 1
    return np.ndarray((count, length // dtype.itemsize), dtype, memory.bytes, start, (stride, dtype.itemsize))


def SetAtomicAdd(dtype: npt.DTypeLike) -> None:
    """From now on, what this core copies to GM is added to what is there, as elements of *dtype*."""
    _set("SetAtomicAdd", np.add, dtype)


def SetAtomicMax(dtype: npt.DTypeLike) -> None:
    """From now on, of what this core copies to GM and what is there the larger stays, as elements of *dtype*."""
    _set("SetAtomicMax", np.maximum, dtype)


def SetAtomicMin(dtype: npt.DTypeLike) -> None:
    """From now on, of what this core copies to GM and what is there the smaller stays, as elements of *dtype*."""
    _set("SetAtomicMin", np.minimum, dtype)


def SetAtomicNone() -> None:
    """From now on, copies to GM overwrite what is there."""
    running().atomic = None


DisableDmaAtomic = SetAtomicNone  # the newer name


def _set(name: str, how: np.ufunc, dtype: npt.DTypeLike) -> None:
    known = dtype_of(dtype)
    if known not in _TYPES:
        raise KernelError(f"{name} of {known}", f"it takes {', '.join(map(str, _TYPES))}")
    running().atomic = Atomic(how, known)
