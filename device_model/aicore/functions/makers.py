"""Makers of functions that work element by element: their forms, and their docstrings."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.functions.scratch import Compute, apply
from device_model.aicore.vector.elementwise import FLOATS

_F = TypeVar("_F")


class Function(Protocol):
    """A function of one tensor."""

    def __call__(
        self, dst: LocalTensor, src: LocalTensor, tmp: LocalTensor | int | None = None, count: int | None = None
    ) -> None:
        """`(dst, src)`, `(dst, src, count)`, `(dst, src, tmp)` or `(dst, src, tmp, count)`."""


class BinaryFunction(Protocol):
    """A function of two tensors."""

    def __call__(
        self,
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
        tmp: LocalTensor | int | None = None,
        count: int | None = None,
    ) -> None:
        """`(dst, src0, src1)`, with a count, a temporary buffer, or both behind them."""


def unary(
    name: str,
    compute: Compute,
    doc: str,
    *,
    temporaries: int = 0,
    bits: int = 0,
    widens: bool = True,
    types: Sequence[str] = FLOATS,
) -> Function:
    """Make a function of one tensor; see `scratch.apply`."""

    def function(
        dst: LocalTensor, src: LocalTensor, tmp: LocalTensor | int | None = None, count: int | None = None
    ) -> None:
        apply(name, dst, (src,), tmp, count, compute, temporaries, bits=bits, widens=widens, types=types)

    return named(function, name, doc)


def binary(
    name: str,
    compute: Compute,
    doc: str,
    *,
    temporaries: int = 0,
    bits: int = 0,
    widens: bool = True,
    types: Sequence[str] = FLOATS,
) -> BinaryFunction:
    """Make a function of two tensors; see `scratch.apply`."""

    def function(
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
        tmp: LocalTensor | int | None = None,
        count: int | None = None,
    ) -> None:
        apply(name, dst, (src0, src1), tmp, count, compute, temporaries, bits=bits, widens=widens, types=types)

    return named(function, name, doc)


def named(function: _F, name: str, doc: str) -> _F:
    """Give *function* its name, and the docstring of its kind."""
    function.__name__ = function.__qualname__ = name  # type: ignore[attr-defined]
    function.__doc__ = f"{doc}\n\n    (Ascend C: {name}.){_CONTRACT}"
    return function


_CONTRACT = """ Made of vector instructions, which it issues piece by piece.

    Args:
        dst: The tensor to write, in UB.
        src: The tensor to read (src0 and src1 where there are two), in UB and of the same type.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has. A larger one means
            larger pieces. The count may stand in its place.
        count: The number of elements; by default those of src.

    Raises:
        KernelError: A type or count is impossible, a tensor is too small, or the temporary buffer is too small or
            overlaps a tensor.
    """
