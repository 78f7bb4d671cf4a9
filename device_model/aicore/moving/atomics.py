"""Atomic copies: from SetAtomicAdd to SetAtomicNone, copies from a core to GM are added to the contents of GM.

This applies to DataCopy and DataCopyPad from UB and L1, and to Fixpipe. Several cores may add to the same bytes in any
order, which is no hazard. Other reads and writes of these bytes must be ordered with each of the atomic copies. GM is
not cleared first, so the kernel's argument must be InOut, and the sum starts from its contents. Each sum is rounded, in
the order in which blocks run.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.machine import running
from device_model.aicore.core.memories import Range
from device_model.aicore.core.tensors import bfloat16, dtype_of, float32, half, int8, int16, int32
from device_model.kernel.findings import KernelError

_TYPES = (half, bfloat16, float32, int8, int16, int32)


class Atomic(NamedTuple):
    """How copies to GM are combined with its contents: by the ufunc *how*, as elements of *dtype*."""

    how: np.ufunc
    dtype: np.dtype[Any]

    def into(self, writes: Sequence[Range], compute: Callable[[], object]) -> Callable[[], object]:
        """Return *compute*, which writes the ranges *writes* of GM, with its results combined with the old bytes."""
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
    """Add later copies of this core to the contents of GM.

    (Ascend C: SetAtomicAdd.) It takes effect at once and until SetAtomicNone; no pipe waits.

    Args:
        dtype: The type of the elements in GM: half, bfloat16, float32, int8, int16 or int32.

    Raises:
        KernelError: Another type.
    """
    _set("SetAtomicAdd", np.add, dtype)


def SetAtomicMax(dtype: npt.DTypeLike) -> None:
    """Let later copies of this core keep the larger of the copied value and the one in GM.

    (Ascend C: SetAtomicMax.) It takes effect at once and until SetAtomicNone; no pipe waits.

    Args:
        dtype: The type of the elements in GM: half, bfloat16, float32, int8, int16 or int32.

    Raises:
        KernelError: Another type.
    """
    _set("SetAtomicMax", np.maximum, dtype)


def SetAtomicMin(dtype: npt.DTypeLike) -> None:
    """Let later copies of this core keep the smaller of the copied value and the one in GM.

    (Ascend C: SetAtomicMin.) It takes effect at once and until SetAtomicNone; no pipe waits.

    Args:
        dtype: The type of the elements in GM: half, bfloat16, float32, int8, int16 or int32.

    Raises:
        KernelError: Another type.
    """
    _set("SetAtomicMin", np.minimum, dtype)


def SetAtomicType(dtype: npt.DTypeLike) -> None:
    """Set the type of the atomic copies of this core (Ascend C: SetAtomicType); no pipe waits.

    It takes effect on copies that are atomic already. SetAtomicAdd, SetAtomicMax and SetAtomicMin set a type, too.

    Args:
        dtype: The type of the elements in GM: half, bfloat16, float32, int8, int16 or int32.

    Raises:
        KernelError: Another type.
    """
    core = running()
    resolved = _checked("SetAtomicType", dtype)
    if isinstance(core.atomic, Atomic):
        core.atomic = Atomic(core.atomic.how, resolved)


def SetAtomicNone() -> None:
    """Let later copies of this core overwrite GM again (Ascend C: SetAtomicNone, DisableDmaAtomic); no pipe waits."""
    running().atomic = None


DisableDmaAtomic = SetAtomicNone  # the newer name


def _set(name: str, how: np.ufunc, dtype: npt.DTypeLike) -> None:
    running().atomic = Atomic(how, _checked(name, dtype))


def _checked(name: str, dtype: npt.DTypeLike) -> np.dtype[Any]:
    resolved = dtype_of(dtype)
    if resolved not in _TYPES:
        raise KernelError(f"{name} of {resolved}", f"it takes {', '.join(map(str, _TYPES))}")
    return resolved
