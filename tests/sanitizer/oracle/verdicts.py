"""What is wrong with a program, by the promises: pairs of accesses that nothing orders, with the bytes they share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.sanitizer.oracle.promises import Moment, Promises, begin, effect, end, enter, leave
from tests.sanitizer.oracle.reading import Bytes, Call, Life, overlap


class Fault(StrEnum):
    """What a pair does wrong, in the words of the sanitizer's kinds."""

    RACE = "race"
    BEFORE_ALLOCATION = "before allocation"
    FREE_IN_USE = "free in use"
    USE_AFTER_FREE = "use after free"


@dataclass(frozen=True)
class Touch:
    """A call that touches bytes of *life* between two moments. *how* is "access", "alloc" or "free"."""

    call: Call
    life: Life
    bytes: Bytes
    writes: bool
    how: str
    since: Moment
    until: Moment


@dataclass(frozen=True)
class Pair:
    """Two calls, the earlier one first, that touch the same bytes in no promised order.

    *relies*: the habits of drivers order them. *nearest*: at one of the bytes, no access between them that is promised
    to be behind the first has a fault with the second. So a detector that keeps only the last accesses must report this
    pair. Of the uses that an allocation is not before, those are nearest that no other such use is before.
    """

    first: int
    second: int
    fault: Fault
    name: str
    bytes: Bytes
    relies: bool
    nearest: bool


def touches(calls: Sequence[Call]) -> list[Touch]:
    """All that is touched, in the order of the calls."""
    return [touch for call in calls for touch in _touches_of(call)]


def _touches_of(call: Call) -> Iterator[Touch]:
    for access in call.accesses:
        yield Touch(call, access.life, access.bytes, access.writes, "access", enter(call), leave(call))
    if call.frees is not None:
        yield _whole(call, call.frees, "free", effect(call), leave(call))
    entry = call.entry
    if entry is None:
        return
    if entry.life is not None:
        yield _whole(call, entry.life, entry.role, begin(entry), end(entry))
    for access in entry.accesses:
        yield Touch(call, access.life, access.bytes, access.writes, "access", begin(entry), end(entry))


def _whole(call: Call, life: Life, how: str, since: Moment, until: Moment) -> Touch:
    return Touch(call, life, ((0, life.nbytes),), True, how, since, until)


def pairs(calls: Sequence[Call], promises: Promises | None = None) -> list[Pair]:
    """The pairs of *calls* that touch the same bytes, one of them to write, and that no promise orders."""
    promises = Promises(calls) if promises is None else promises
    found: dict[tuple[int, int, Fault, str], Pair] = {}
    disordered = list(_disordered(touches(calls), promises))
    habits = Promises(calls, habits=True) if disordered else promises
    for one, other, nearest in disordered:
        fault = _fault(one, other)
        key = one.call.index, other.call.index, fault, one.life.name
        relies = _is_ordered(one, other, habits)
        shared = overlap(one.bytes, other.bytes)
        if key in found:  # a call may read and write
            known = found[key]
            shared = tuple(sorted({*known.bytes, *shared}))
            relies, nearest = relies and known.relies, nearest or known.nearest
        found[key] = Pair(*key, shared, relies, nearest)
    return list(found.values())


def _disordered(all_: Sequence[Touch], promises: Promises) -> Iterator[tuple[Touch, Touch, bool]]:
    uses: list[tuple[Touch, Touch]] = []  # an allocation, and a use that it is not before
    for place, other in enumerate(all_):
        rivals = [one for one in all_[:place] if _conflict(one, other) and not _is_ordered(one, other, promises)]
        for one in rivals:
            if one.how == "alloc":  # what puts the use before this one behind the allocation mends this one too
                yield (
                    one,
                    other,
                    not any(promises.is_before(use.until, other.since) for born, use in uses if born is one),
                )
                uses.append((one, other))
                continue
            hidden = [
                later.bytes for later in rivals if promises.is_before(one.until, later.since) and _hides(one, later)
            ]
            yield one, other, _is_left(overlap(one.bytes, other.bytes), hidden)


def _hides(one: Touch, later: Touch) -> bool:
    """Whether a detector that has seen *later* may have forgotten *one*, where their bytes are the same."""
    return one.how == later.how == "access"


def _is_left(shared: Bytes, hidden: Sequence[Bytes]) -> bool:
    """Whether one of the *shared* bytes is in none of the *hidden* ranges. The first such byte is where a shared range
    begins, or where a hidden one ends.
    """
    covered = [each for ranges in hidden for each in ranges]
    return any(
        not any(start <= byte < stop for start, stop in covered)
        for low, high in shared
        for byte in (low, *(stop for _, stop in covered if low < stop < high))
    )


def _conflict(one: Touch, other: Touch) -> bool:
    if one.call is other.call or one.life is not other.life or not (one.writes or other.writes):
        return False
    return bool(overlap(one.bytes, other.bytes))


def _is_ordered(one: Touch, other: Touch, promises: Promises) -> bool:
    """A free must come last and an allocation first; of two accesses either may."""
    forwards = promises.is_before(one.until, other.since)
    backwards = promises.is_before(other.until, one.since)
    if "alloc" in (one.how, other.how):
        return forwards if one.how == "alloc" else backwards
    if "free" in (one.how, other.how):
        return forwards if other.how == "free" else backwards
    return forwards or backwards


def _fault(one: Touch, other: Touch) -> Fault:
    if "alloc" in (one.how, other.how):
        return Fault.BEFORE_ALLOCATION
    if "free" in (one.how, other.how):
        return Fault.FREE_IN_USE if other.how == "free" else Fault.USE_AFTER_FREE
    return Fault.RACE
