"""What stands behind a function's tensors, in the vendor's order: the temporary buffer, the tiling, and the sizes.

The tiling that Ascend C passes has no effect here: the temporary buffer decides how many rows are computed at once. So
it may be None, or be left out.
"""

from collections.abc import Sequence
from operator import index as integer
from typing import Any, NamedTuple, SupportsFloat, TypeVar

from device_model.aicore.core.tensors import LocalTensor

_T = TypeVar("_T")


class NormTiling(NamedTuple):
    """The sizes in the tiling of LayerNorm, RmsNorm, DeepNorm or a gradient (Ascend C: LayerNormTiling and others).

    Attributes:
        b_length: The number of batches.
        s_length: The number of rows of a batch.
        h_length: The elements of a row; whole blocks of 32 bytes.
    """

    b_length: int
    s_length: int
    h_length: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The rows of all batches, from one to the next, and their elements, which are as many."""
        h = integer(self.h_length)
        return integer(self.b_length) * integer(self.s_length), h, h


def numbers_and(
    name: str, operands: Sequence[Any], numbers: Sequence[str], kind: type[_T]
) -> tuple[LocalTensor | None, list[float], _T]:
    """Return the temporary buffer, *numbers* and the sizes among *operands*: `([tmp], *numbers, sizes)`.

    Raises:
        TypeError: There are more or fewer operands, the last is not of type *kind*, or a number is none.
    """
    *values, sizes = operands or (None,)
    tmp = values.pop(0) if len(values) > len(numbers) else None
    if len(values) != len(numbers) or not isinstance(sizes, kind) or any(not _is_number(each) for each in values):
        form = ", ".join(["tmp", *numbers, kind.__name__])
        raise TypeError(f"{name} takes ({form}) behind its tensors, not {tuple(operands)}")
    return tmp, [float(each) for each in values], sizes


def _is_number(value: Any) -> bool:
    return isinstance(value, SupportsFloat) and not isinstance(value, LocalTensor)


def tail(name: str, operands: Sequence[Any], kind: type[_T]) -> tuple[LocalTensor | None, _T | None]:
    """Return the temporary buffer and the sizes among *operands*: `([tmp], [tiling], [sizes])`.

    Raises:
        TypeError: There are more operands, or they stand in another order.
    """
    rest = list(operands)
    sizes = rest.pop() if rest and isinstance(rest[-1], kind) else None
    tmp = rest.pop(0) if rest and (isinstance(rest[0], LocalTensor) or len(rest) > 1) else None
    if len(rest) > 1 or any(isinstance(each, LocalTensor) for each in rest):
        raise TypeError(f"{name} takes (tmp, tiling, {kind.__name__}) behind its tensors, not {tuple(operands)}")
    return tmp, sizes


def buffer_and(name: str, operands: Sequence[Any], kind: type[_T]) -> tuple[LocalTensor | None, _T]:
    """Return the temporary buffer and the sizes of a function without numbers; see `numbers_and`."""
    tmp, _, sizes = numbers_and(name, operands, (), kind)
    return tmp, sizes


def take_flag(operands: Sequence[Any]) -> tuple[bool, list[Any]]:
    """Return the truth value among *operands*, False if there is none, and the others."""
    flags = [each for each in operands if isinstance(each, bool)]
    if len(flags) != 1:
        return False, list(operands)
    return flags[0], [each for each in operands if not isinstance(each, bool)]
