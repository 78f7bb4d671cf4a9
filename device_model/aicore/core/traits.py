"""Traits of tensors: a type, with a position and a layout that the kernel looks at."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.names import TPosition
from device_model.kernel.findings import KernelError

_TYPES = (
    "int4", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "bfloat16", "float16", "float32",
)  # fmt: skip
Layout = tuple[Sequence[Any], Sequence[Any]]  # the sizes of dimensions, and the elements from one to the next in each


class TensorTrait:
    """The type of a tensor, with a position and a layout (Ascend C: TensorTrait).

    It stands for its type wherever a tensor gets one: `LocalTensor(trait, ...)`, `queue.AllocTensor(trait)`. No
    instruction looks at position and layout. A tensor that is made with a trait carries it (GetTensorTrait).

    Args:
        dtype: The type: int4b_t, bfloat16, half, float, or an integer.
        position: Where such tensors lie.
        layout: `(shape, stride)`: two tuples of as many integers or tuples.

    Raises:
        KernelError: A trait has no such type, or shape and stride have different lengths.
    """

    __slots__ = ("_layout", "dtype", "position")

    def __init__(self, dtype: npt.DTypeLike, position: TPosition = TPosition.GM, layout: Layout = ((), ())) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype.name not in _TYPES:
            raise KernelError(f"a TensorTrait of {self.dtype}", f"its type is one of {', '.join(_TYPES)}")
        self.position = position
        self.SetLayout(layout)

    def __repr__(self) -> str:
        return f"<TensorTrait {self.dtype} {self.position} {self._layout}>"

    def GetLayout(self) -> Layout:
        """Return `(shape, stride)` (Ascend C: GetLayout)."""
        return self._layout

    def SetLayout(self, layout: Layout) -> None:
        """Set `(shape, stride)` (Ascend C: SetLayout).

        Raises:
            KernelError: They have different lengths, or there are not two.
        """
        if len(layout) != 2 or len(layout[0]) != len(layout[1]):
            raise KernelError(
                f"a TensorTrait with the layout {layout}", "it is (shape, stride), which are equally long"
            )
        self._layout = layout


def MakeTensorTrait(dtype: npt.DTypeLike, position: TPosition, layout: Layout) -> TensorTrait:
    """Return a TensorTrait (Ascend C: MakeTensorTrait); see there."""
    return TensorTrait(dtype, position, layout)


def is_tensorTrait(dtype: Any) -> bool:
    """Return whether a type is a TensorTrait (Ascend C: is_tensorTrait)."""
    return isinstance(dtype, TensorTrait)
