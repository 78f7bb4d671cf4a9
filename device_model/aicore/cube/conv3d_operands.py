"""The operands of a convolution and of its gradients: where they are, how they lie, and what is checked of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import GlobalTensor, bfloat16, dtype_of, half
from device_model.kernel.findings import KernelError


class ConvFormat(Enum):
    """The layout of an operand of a convolution (Ascend C: ConvFormat)."""

    ND = 0  # a number for each output channel
    NDC1HWC0 = 1  # planes of 16 channels, of each plane of the input or output
    FRACTAL_Z_3D = 2  # fractals of 16 output and 16 input channels


@dataclass(frozen=True, slots=True)
class ConvType:
    """The position, layout and type of an operand of a convolution (Ascend C: ConvType)."""

    position: TPosition
    format: ConvFormat
    dtype: npt.DTypeLike


class Role(NamedTuple):
    """What an operand must be: its layout and its type."""

    format: ConvFormat
    dtype: np.dtype[Any]


class Operands:
    """The operands of an object that convolves, by their names, and those that were given.

    Args:
        types: What the kernel says of each.
        main: The name of the one whose type the others follow: half or bfloat16.
        roles: Makes what each must be, of that type.

    Raises:
        KernelError: A position, layout or type is impossible.
    """

    def __init__(self, types: Mapping[str, ConvType], main: str, roles: Any) -> None:
        self._types = types
        self.dtype = dtype_of(types[main].dtype)
        if self.dtype not in (half, bfloat16):
            raise KernelError(f"a {type(self).__name__} with {main} {types[main]}", "it takes half or bfloat16")
        wanted: Mapping[str, Role] = roles(self.dtype)
        for name, each in types.items():
            layout, dtype = wanted[name]
            if (each.position, each.format) != (TPosition.GM, layout) or dtype_of(each.dtype) != dtype:
                raise KernelError(
                    f"a {type(self).__name__} of {self.dtype} with {name} {each}", f"it is {dtype} in GM, {layout.name}"
                )
        self._given: dict[str, GlobalTensor] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.dtype}>"

    def _set(self, name: str, tensor: GlobalTensor) -> None:
        self._check(f"Set{_title(name)}", name, tensor)
        self._given[name] = tensor

    def _check(self, call: str, name: str, tensor: GlobalTensor) -> None:
        """Raise KernelError unless *tensor* is one for the operand *name*."""
        type_ = self._types.get(name)
        if type_ is None:
            raise KernelError(f"{call} of {self!r}", f"it was made without a {name}: give the type of the {name}")
        if not isinstance(tensor, GlobalTensor) or tensor.dtype != dtype_of(type_.dtype):
            raise KernelError(f"{call} with {tensor!r}", f"{name} is a GlobalTensor of {dtype_of(type_.dtype)}")

    def _check_given(self, call: str, names: Iterable[str]) -> None:
        """Raise KernelError if one of the operands *names* was not given."""
        for name in names:
            if name in self._types and name not in self._given:
                raise KernelError(f"{call} of {self!r} without {name}", f"call Set{_title(name)}() first")

    def _check_sizes(self, call: str, tensors: Mapping[str, GlobalTensor], needed: Mapping[str, int]) -> None:
        """Raise KernelError if one of *tensors* has fewer elements than *needed*."""
        for name, tensor in tensors.items():
            if tensor.size < needed[name]:
                raise KernelError(
                    f"{call} with {name} {tensor!r}", f"this core needs {needed[name]} elements from its first on"
                )


def _title(name: str) -> str:
    """Return the name of an operand as it is in the names of calls: GradOutput of grad_output."""
    return name.title().replace("_", "")
