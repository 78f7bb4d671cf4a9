"""What the text says about each access and each barrier: the watch of a launch only learns the line.

Strong accesses are those that the memory model lets meet without a race: `ld` and `st` that are volatile, relaxed,
acquire or release, and atomic operations. Some of them order what their threads do besides: flags, locks
(`exch`, `cas`), and every atomic operation of a kernel that has fences. What arrives at an mbarrier releases, and a
wait for its phase acquires; to make one is a plain store.
"""

from collections.abc import Iterable
from typing import NamedTuple

from device_model.ptx.code.flow import reads, writes
from device_model.ptx.text.syntax import Function, Instruction

_STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"))
_LOCKS = frozenset(("exch", "cas"))
_KINDS = {"ld": "load", "ldu": "load", "st": "store", "atom": "change", "red": "change"}


class Access(NamedTuple):
    """What an access is besides its address.

    Attributes:
        line: Its line of PTX.
        parts: How long its vector is.
        is_strong: Whether it does not race with others that are strong.
        is_volatile: Whether it is only volatile: lanes of one warp do not order shared memory by that.
        releases: Whether it shows others what its thread did before.
        acquires: Whether it shows its thread what others did before.
        is_constant: Whether nothing can change what it reads.
    """

    line: int
    parts: int = 1
    is_strong: bool = False
    is_volatile: bool = False
    releases: bool = False
    acquires: bool = False
    is_constant: bool = False


class Waiting(NamedTuple):
    """A barrier: whether it counts a number of threads, not all, and whether it does not wait."""

    is_counted: bool = False
    arrives: bool = False


class Lines:
    """The accesses and barriers of *functions*, by line."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._accesses: dict[tuple[str, int], Access] = {}
        self._barriers: dict[int, Waiting] = {}
        items = [item for each in functions for item in each.body or () if isinstance(item, Instruction)]
        used = {each: None for item in items for each in reads(item)}
        has_fences = any(item.name in ("membar", "fence") for item in items)
        for item in items:
            if item.name in _KINDS:
                key = _KINDS[item.name], item.line
                self._accesses[key] = _access(
                    item, has_fences=has_fences, is_used=any(each in used for each in writes(item))
                )
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

    def barrier(self, line: int) -> Waiting:
        """Return the barrier in *line*."""
        return self._barriers.get(line, Waiting())


def _access(item: Instruction, *, has_fences: bool, is_used: bool) -> Access:
    words = frozenset(item.modifiers)
    parts = next((int(each[1:]) for each in item.modifiers if each in ("v2", "v4", "v8")), 1)
    if item.name in ("atom", "red"):
        orders = has_fences or bool(words & (_LOCKS | {"acquire", "release", "acq_rel"}))
        return Access(item.line, parts, is_strong=True, releases=orders, acquires=orders and is_used)
    is_strong = bool(words & _STRONG)
    return Access(
        item.line,
        parts,
        is_strong,
        is_volatile="volatile" in words,
        releases=is_strong and item.name == "st",
        acquires=is_strong and item.name == "ld",
        is_constant=bool(words & {"const", "param"}),
    )


def _of_mbarrier(item: Instruction) -> dict[tuple[str, int], Access]:
    """Return what an instruction does to an mbarrier that was made before."""
    orders = "relaxed" not in item.modifiers
    if item.modifiers[0] in ("test_wait", "try_wait"):
        return {("load", item.line): Access(item.line, is_strong=True, acquires=orders)}
    return {("change", item.line): Access(item.line, is_strong=True, releases=orders)}
