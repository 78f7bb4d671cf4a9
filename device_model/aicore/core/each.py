"""Numbers that differ from block to block, while one run of a kernel's function stands for several blocks.

GetBlockIdx() gives such a number in a run that is recorded (`alike`). Sums, products and the like give one more, or a
plain integer where it is the same for all blocks. Anything else needs one answer for all blocks, such as a comparison
or an index. If the blocks do not agree on it, the run ends, and the blocks are divided by their answers.

What is computed with a NumPy integer is a NumPy integer in each block, with the width that it has there.
"""

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt


class Differ(BaseException):
    """The blocks of a recorded run do not agree. It is no Exception, so that no kernel catches it by accident."""


class Blocks:
    """The blocks that one run stands for.

    Attributes:
        answers: What each block has answered where they did not agree; None while they do.
        place: The place of the block that computes now; -1 while the run is recorded.
    """

    __slots__ = ("answers", "count", "place")

    def __init__(self, count: int) -> None:
        self.count = count
        self.answers: Sequence[Hashable] | None = None
        self.place = -1

    def differ(self, answers: Sequence[Hashable]) -> NoReturn:
        """End the run, because the blocks have these *answers*."""
        if self.answers is None:
            self.answers = answers
        raise Differ

    def stop(self) -> NoReturn:
        """End the run, because only a run of its own can tell what a block does."""
        self.differ(range(self.count))


class Each:
    """A whole number for each of *blocks*; `values` has them in the order of the blocks, all of one type."""

    __slots__ = ("_blocks", "values")

    def __init__(self, blocks: Blocks, values: tuple[Any, ...]) -> None:
        self._blocks = blocks
        self.values = values

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type that each block's number has: `isinstance` and `match` look at it."""
        return type(self.values[0])

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(self.__class__, name):
            self._apart()
        raise AttributeError(name)

    @staticmethod
    def of(blocks: Blocks, values: Sequence[int]) -> "Each | int":
        """Return a number for each of *blocks*, or one for all if it is the same."""
        first = values[0]
        return first if values.count(first) == len(values) else Each(blocks, tuple(values))

    def _others(self, other: Any) -> Sequence[Any]:
        if type(other) is Each and other._blocks is self._blocks:
            return other.values
        if not isinstance(other, int | np.integer):
            self._apart()
        return (other,) * len(self.values)

    def _with(self, other: Any, compute: Callable[[Any, Any], Any]) -> Any:
        return Each.of(self._blocks, list(map(compute, self.values, self._others(other))))

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b - a)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b // a)

    def __mod__(self, other: Any) -> Any:
        return self._with(other, operator.mod)

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b % a)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return Each.of(self._blocks, list(map(operator.neg, self.values)))

    def __pos__(self) -> "Each":
        return self

    def _compare(self, other: Any, compare: Callable[[Any, Any], bool]) -> bool:
        answers = list(map(compare, self.values, self._others(other)))
        if answers.count(answers[0]) != len(answers):
            self._blocks.differ(answers)
        return answers[0]

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> bool:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, operator.ge)

    def __eq__(self, other: object) -> bool:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> bool:
        return self._compare(other, operator.ne)

    def __bool__(self) -> bool:
        return bool(self._compare(0, operator.ne))

    def _one(self, *_: Any) -> int:
        """Return the number of the block that computes now; while the run is recorded, divide the blocks."""
        place = self._blocks.place
        if place < 0:
            self._blocks.differ(self.values)
        return operator.index(self.values[place])

    __index__ = __int__ = __trunc__ = __floor__ = __ceil__ = _one

    def _apart(self, *_: Any) -> NoReturn:
        """Divide the blocks: what is asked for is no whole number."""
        self._blocks.differ(self.values)

    __array_ufunc__ = None
    __float__ = __complex__ = __round__ = __hash__ = __abs__ = __invert__ = _apart
    __str__ = __repr__ = __format__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _apart
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = _apart
    __rshift__ = __rrshift__ = _apart


def range_of_blocks(*ends: Any) -> Sequence[Any]:
    """Return `range(*ends)`; its numbers differ from block to block if *ends* do. Blocks must have as many of them."""
    blocks = next((each._blocks for each in ends if type(each) is Each), None)
    if blocks is None:
        return range(*ends)
    columns = [each.values if type(each) is Each else (each,) * blocks.count for each in ends]
    ranges = [range(*each) for each in zip(*columns, strict=True)]
    lengths = list(map(len, ranges))
    if lengths.count(lengths[0]) != blocks.count:
        blocks.differ(lengths)
    return [Each.of(blocks, values) for values in zip(*ranges, strict=True)]


def offset_of(index: Any) -> Any:
    """Return an index into GM as a Python integer, or as Python integers if it differs from block to block."""
    if type(index) is Each:
        return Each.of(index._blocks, list(map(operator.index, index.values)))
    return operator.index(index)


def hashable(number: Any) -> Hashable:
    """Return *number*, or the values of one that differs from block to block: a part of the key of a plan."""
    return number.values if type(number) is Each else number


def array_at(
    shape: tuple[int, ...], dtype: npt.DTypeLike, memory: npt.NDArray[np.uint8], address: Any, strides: tuple[int, ...]
) -> Callable[[], npt.NDArray[Any]]:
    """Return a function that returns the array at byte *address* of *memory*: that of the block that computes then."""
    if type(address) is Each:
        return lambda: np.ndarray(shape, dtype, memory, address, strides)
    array: npt.NDArray[Any] = np.ndarray(shape, dtype, memory, address, strides)
    return lambda: array
