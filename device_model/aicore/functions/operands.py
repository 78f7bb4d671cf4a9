"""What stands behind a function's tensors, in the vendor's order: the temporary buffer, the tiling, and the sizes.

The tiling that Ascend C passes has no effect here: the temporary buffer decides how many rows are computed at once. So
it may be None, or be left out.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from device_model.aicore.core.tensors import LocalTensor

_T = TypeVar("_T")


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
    """Return the temporary buffer and the sizes of a function without a tiling: `([tmp], sizes)`.

    Raises:
        TypeError: There are more or fewer operands, or the last is not of type *kind*.
    """
    if not 1 <= len(operands) <= 2 or not isinstance(operands[-1], kind):
        raise TypeError(f"{name} takes (tmp, {kind.__name__}) behind its tensors, not {tuple(operands)}")
    return (operands[0] if len(operands) > 1 else None), operands[-1]


def take_flag(operands: Sequence[Any]) -> tuple[bool, list[Any]]:
    """Return the truth value among *operands*, False if there is none, and the others."""
    flags = [each for each in operands if isinstance(each, bool)]
    if len(flags) != 1:
        return False, list(operands)
    return flags[0], [each for each in operands if not isinstance(each, bool)]
