"""What the text says about each access and each barrier: the watch of a launch only learns the line.

Strong accesses are those that may meet without a race: `ld` and `st` that are volatile, relaxed, acquire or release,
atomic operations, and loads that a `cas` checks (`guesses`). Some of them order what their threads do besides: flags,
locks (`exch`, `cas`), and every atomic operation of a kernel that has fences. What arrives at an mbarrier releases, and
a wait for its phase acquires; to make one is a plain store.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from device_model.ptx.checks.guesses import guesses
from device_model.ptx.code.flow import reads, writes
from device_model.ptx.text.syntax import Function, Instruction, Operand, Vector

_STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"))
_LOCKS = frozenset(("exch", "cas"))
_RELEASES, _ACQUIRES = frozenset(("release", "acq_rel")), frozenset(("acquire", "acq_rel"))
_NARROW = frozenset(("cta", "cluster"))  # scopes that end with the block
_FENCES = frozenset(("membar", "fence"))
_WIDE = frozenset(("gl", "gpu", "sys"))
_KINDS = {"ld": "load", "ldu": "load", "st": "store", "atom": "change", "red": "change"}


class Access(NamedTuple):
    """What an access is besides its address.

    Attributes:
        line: Its line of PTX.
        parts: How long its vector is.
        is_strong: Whether it does not race with others that are strong.
        is_volatile: Whether it is only volatile: lanes of one warp do not order shared memory by that.
        is_narrow: Whether its scope ends with the block: between blocks it is not strong.
        releases: Whether it can be the store of a flag, or the end of a lock.
        acquires: Whether it can be the load of a flag, or the begin of a lock.
        is_release: Whether it needs no fence before it to show other blocks what its thread did.
        is_acquire: Whether it needs no fence behind it to show its thread what other blocks did.
        is_constant: Whether nothing can change what it reads.
        unused: The parts of its vector that nothing reads, such as the padding of a structure.
    """

    line: int
    parts: int = 1
    is_strong: bool = False
    is_volatile: bool = False
    is_narrow: bool = False
    releases: bool = False
    acquires: bool = False
    is_release: bool = False
    is_acquire: bool = False
    is_constant: bool = False
    unused: tuple[int, ...] = ()


class Waiting(NamedTuple):
    """A barrier: whether it counts a number of threads, not all, and whether it does not wait."""

    is_counted: bool = False
    arrives: bool = False


class Lines:
    """The accesses and barriers of *functions*, by line."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._accesses: dict[tuple[str, int], Access] = {}
        self._barriers: dict[int, Waiting] = {}
        functions = list(functions)
        items = [item for each in functions for item in each.body or () if isinstance(item, Instruction)]
        guessed = {line: None for each in functions for line in guesses(each)}
        used: dict[Operand, None] = {each: None for item in items for each in reads(item)}
        has_fences = any(item.name in _FENCES for item in items)
        self._fences = {item.line: None for item in items if item.name in _FENCES and _WIDE & {*item.modifiers}}
        for item in items:
            if item.name in _KINDS:
                key = _KINDS[item.name], item.line
                self._accesses[key] = _access(
                    item, has_fences=has_fences, is_used=any(each in used for each in writes(item))
                )
                if item.name == "ld":
                    self._accesses[key] = self._accesses[key]._replace(unused=_unused(item, used))
                    if item.line in guessed:
                        self._accesses[key] = self._accesses[key]._replace(is_strong=True, is_volatile=False)
            elif item.name in ("bar", "barrier"):
                count = 2 + 2 * ("red" in item.modifiers)
                self._barriers[item.line] = Waiting(len(item.operands) >= count, "arrive" in item.modifiers)
            elif any(each.startswith("mbarrier") for each in (item.name, *item.modifiers)):
                self._accesses.update(_of_mbarrier(item))

    def access(self, kind: str, line: int) -> Access:
        """Return the access of *kind*, "load", "store" or "change", in *line*."""
        key = kind, line
        found = self._accesses.get(key)
        if found is None:
            found = self._accesses[key] = Access(line)
        return found

    def is_fence(self, line: int) -> bool:
        """Return whether the fence in *line* orders what blocks do."""
        return line in self._fences

    def barrier(self, line: int) -> Waiting:
        """Return the barrier in *line*."""
        return self._barriers.get(line, Waiting())


def _unused(item: Instruction, used: Mapping[Operand, None]) -> tuple[int, ...]:
    """Return which parts of the vector that *item* loads are not among the registers that are *used*."""
    result = item.operands[0]
    parts = result.parts if isinstance(result, Vector) else ()
    return tuple(number for number, part in enumerate(parts) if part not in used)


def _access(item: Instruction, *, has_fences: bool, is_used: bool) -> Access:
    words = frozenset(item.modifiers)
    is_wide = not words & _NARROW
    parts = next((int(each[1:]) for each in item.modifiers if each in ("v2", "v4", "v8")), 1)
    if item.name in ("atom", "red"):
        orders = has_fences or bool(words & (_LOCKS | {"acquire", "release", "acq_rel"}))
        return Access(
            item.line,
            parts,
            is_strong=True,
            is_narrow=not is_wide,
            releases=orders,
            acquires=orders and is_used,
            is_release=is_wide and bool(words & _RELEASES),
            is_acquire=is_wide and bool(words & _ACQUIRES),
        )
    is_strong = bool(words & _STRONG)
    return Access(
        item.line,
        parts,
        is_strong,
        is_volatile="volatile" in words,
        is_narrow=not is_wide,
        releases=is_strong and item.name == "st",
        acquires=is_strong and item.name == "ld",
        is_release=is_wide and "release" in words,
        is_acquire=is_wide and "acquire" in words,
        is_constant=bool(words & {"const", "param"}),
    )


def _of_mbarrier(item: Instruction) -> dict[tuple[str, int], Access]:
    """Return what an instruction does to an mbarrier that was made before."""
    orders = "relaxed" not in item.modifiers
    if item.modifiers[0] in ("test_wait", "try_wait"):
        return {("load", item.line): Access(item.line, is_strong=True, acquires=orders)}
    return {("change", item.line): Access(item.line, is_strong=True, releases=orders)}
