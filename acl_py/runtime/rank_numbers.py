"""The number of a rank that stands for others: it notices when a program tells those apart.

A program that says nothing about its classes claims that all ranks are alike. Then `main` gets a `RankNumber`. What is
computed from it knows its value for each rank. A comparison in the user's code that would be true for some of them and
false for others is an error, because the others would go another way.

Of `rank in range(8)` it gets one comparison for each element. So it computes the container again, where that is sure to
change nothing. Then it is an error only if some ranks are in it and others are not.

It does not see what is looked up by the number, or a loop that is as long: `fold="check"` is for these.
"""

import operator
from collections.abc import Callable, Hashable, Sequence
from dis import get_instructions
from sys import _getframe
from types import CodeType, FrameType
from typing import Any, Self

from acl_py.runtime.containers import container_of
from acl_py.sites import is_foreign, site_of

_MOST = 1_000  # different comparisons that are looked at
_DEEPEST = 16  # operations behind one another; a number behind more of them is a plain one
_COMPARING = ("COMPARE_OP", "CONTAINS_OP")
_ORDER = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
          ">=": operator.ge}  # fmt: skip
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip


class Watch:
    """Looks at what a program does with the number of the first of *ranks*, until it is *over*."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = ranks
        self.over = False
        self._equal: set[Hashable] = set()  # comparisons that have one outcome for all ranks
        self._places: dict[tuple[int, int], tuple[CodeType, bool]] = {}  # by code and instruction: whether it compares

    def __repr__(self) -> str:
        return f"<Watch of {len(self.ranks)} ranks, {len(self._equal)} comparisons>"

    def number(self) -> "RankNumber":
        """Return the number of the first rank."""
        return RankNumber(self.ranks[0], self, lambda rank: rank, "rank", 0)

    def look(self, name: str, left: "RankNumber", right: float, frame: FrameType) -> None:
        """Raise ValueError if a comparison in the user's code has another outcome for other ranks."""
        key = name, left.text, _text(right)
        if self.over or key in self._equal or len(self._equal) >= _MOST or not self._is_users(frame):
            return
        compare, its = _ORDER[name], _value_of(right)

        def outcome(rank: int) -> bool | None:
            try:
                return bool(compare(left.of(rank), its(rank)))
            except (ZeroDivisionError, ValueError):  # of a shift: the program of this rank would fail before
                return None

        mine = outcome(self.ranks[0])
        other = next((rank for rank in self.ranks if outcome(rank) is not mine), None)
        if other is None:
            self._equal.add(key)
            return
        if name == "==" and self._agree_on_a_container(left, frame):
            return
        text = f"{left.text} {name} {_text(right)}"
        remedy = left.text if left.text != "rank" else text
        raise ValueError(
            f"fold: rank {self.ranks[0]} runs for {len(self.ranks):,} ranks, which are not alike: {text} at "
            f"{site_of(frame)} is {mine} for rank {self.ranks[0]}, and not for rank {other}; tell them apart with "
            f"alike=lambda rank: {remedy}; or, if they do the same all the same, pass alike=lambda rank: 0"
        )

    def _agree_on_a_container(self, number: "RankNumber", frame: FrameType) -> bool:
        """Whether *frame* asks if *number* is in a container, and the answer is the same for all ranks."""
        elements = container_of(frame)
        if elements is None:
            return False
        key = "in", number.text, elements
        if key not in self._equal:
            mine = number.of(self.ranks[0]) in elements
            if any((number.of(rank) in elements) is not mine for rank in self.ranks):
                return False
            self._equal.add(key)
        return True

    def _is_users(self, frame: FrameType) -> bool:
        """Whether *frame* is the user's, and compares: a dictionary compares its keys, too, when one is looked up."""
        code = frame.f_code
        key = id(code), frame.f_lasti
        known = self._places.get(key)
        if known is None:
            names = {each.offset: each.opname for each in get_instructions(code)}
            name = names.get(frame.f_lasti, "")
            compares = name in _COMPARING or "JUMP" in name or name in ("TO_BOOL", "UNARY_NOT")
            known = self._places[key] = code, compares and not is_foreign(code)
        return known[1]


class RankNumber(int):
    """A number that follows from that of a rank: *of* gives it for each rank, and *text* says how it follows."""

    def __new__(cls, number: int, *_: object) -> Self:
        """Make the number; the others are for __init__."""
        return super().__new__(cls, number)

    def __init__(self, _: int, watch: Watch, of: Callable[[int], int], text: str, depth: int) -> None:
        self.watch = watch
        self.of = of
        self.text = text
        self.depth = depth

    __hash__ = int.__hash__

    def __reduce__(self) -> Any:
        return int, (int(self),)

    def __bool__(self) -> bool:
        self.watch.look("!=", self, 0, _getframe(1))
        return int(self) != 0

    def __divmod__(self, other: int) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: int) -> Any:
        return other // self, other % self


def _text(number: float) -> str:
    return number.text if isinstance(number, RankNumber) else str(number)


def _value_of(number: float) -> Callable[[int], Any]:
    return number.of if isinstance(number, RankNumber) else lambda _: number


def _computed(name: str, apply: Callable[[int, int], int], left: int, right: int) -> Any:
    """Return what a number of a rank and another number give."""
    value = apply(int(left), int(right))
    one, other = _value_of(left), _value_of(right)
    number: Any = next(each for each in (left, right) if isinstance(each, RankNumber))
    depth = 1 + max(each.depth for each in (left, right) if isinstance(each, RankNumber))
    if depth > _DEEPEST or number.watch.over:
        return value
    texts = [f"({text})" if " " in text else text for text in map(_text, (left, right))]
    return RankNumber(value, number.watch, lambda rank: apply(one(rank), other(rank)), f" {name} ".join(texts), depth)


def _add_operators() -> None:
    """Give the class arithmetic that computes for all ranks, and comparisons that look at all."""

    def arithmetic(name: str, apply: Callable[[int, int], int]) -> tuple[Any, Any]:
        def forward(self: RankNumber, other: object) -> Any:
            return _computed(name, apply, self, other) if isinstance(other, int) else NotImplemented

        def reflected(self: RankNumber, other: object) -> Any:
            return _computed(name, apply, other, self) if isinstance(other, int) else NotImplemented

        return forward, reflected

    def order(name: str, compare: Callable[[Any, Any], bool]) -> Any:
        def compared(self: RankNumber, other: object) -> Any:
            if not isinstance(other, int | float):
                return NotImplemented
            self.watch.look(name, self, other, _getframe(1))
            return compare(int(self), int(other) if isinstance(other, int) else other)

        return compared

    for name, apply in _ARITHMETIC.items():
        word = apply.__name__.strip("_")
        forward, reflected = arithmetic(name, apply)
        setattr(RankNumber, f"__{word}__", forward)
        setattr(RankNumber, f"__r{word}__", reflected)
    for name, compare in _ORDER.items():
        setattr(RankNumber, f"__{compare.__name__}__", order(name, compare))


_add_operators()
