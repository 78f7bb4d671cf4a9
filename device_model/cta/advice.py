"""Advice on a launch of thread blocks: what it would save without bank conflicts, with a stage more, with more blocks.

The benefit of each advice is computed, not guessed: the blocks are played again with their rows mended, and the
difference is the time saved. A conflict behind a longer copy saves nothing, and the text says so.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from enum import Enum

from device_model.cta.report import conflicts_of
from device_model.cta.runner import Result, Timeline
from device_model.kernel.advice import Advice, Case
from device_model.kernel.sites import Site
from device_model.sm.instructions import SECTOR, Op, Row


class Guideline(Enum):
    """The guidelines; the value says what to do."""

    BANKS_APART = "swizzle or pad rows of shared memory, so that the lanes of a pass use different banks"
    MORE_STAGES = "start each copy one wait earlier: give the pipeline a stage more"
    MORE_BLOCKS = "let an SM hold one block more"


def advise(result: Result) -> list[Advice]:
    """Return advice on a launch, in the order of the time saved; an empty list if there is none.

    Args:
        result: The result of a launch: `completion.work.result`.

    Raises:
        ValueError: The launch was stopped, or ran without timing.
    """
    timeline = result.timeline
    if timeline is None:
        raise ValueError("this launch has no times: it was stopped, or run without timing")
    advice = [each for check in (_apart, _staged, _fuller) for each in check(timeline)]
    return sorted(advice, key=lambda each: -each.saved_us)


def _saved_us(timeline: Timeline, mend: Callable[[Row], Row], resident: int) -> float:
    """Return what the launch saves with its rows mended and at most *resident* blocks on an SM."""
    saved = timeline.card.cycles - timeline.card.replay(mend, resident).cycles
    return saved * timeline.ns_per_cycle / 1000


def _apart(timeline: Timeline) -> Iterable[Advice]:
    """Yield what the launch would save without bank conflicts."""
    cases = tuple(
        Case(each.site, each.name, each.times, f"takes {each.ways:.1f} phases for each pass")
        for each in conflicts_of(timeline.card)
    )
    if cases:
        yield Advice(Guideline.BANKS_APART, cases, _saved_us(timeline, _without_conflicts, timeline.occupancy.blocks))


def _without_conflicts(row: Row) -> Row:
    if not row.conflicts:
        return row
    mended = copy(row)
    warps = range(row.warps.bit_length())
    mended.phases = tuple(row.of_warp(row.phases, warp) - row.of_warp(row.conflicts, warp) for warp in warps)
    mended.conflicts = 0
    return mended


def _staged(timeline: Timeline) -> Iterable[Advice]:
    """Yield what the launch would save if its copies of groups began one wait earlier.

    That takes as long as if each wait was for a group less. The first wait stays: the first copy cannot begin earlier.
    A stage more takes shared memory, so that maybe fewer blocks are on an SM.
    """
    card = timeline.card
    waits = [[row for row in rows if row.op is Op.WAIT_GROUP] for rows in card.kinds]
    later = {id(row) for rows in waits for row in rows[1:]}
    if not later:
        return

    def mend(row: Row) -> Row:
        if id(row) not in later:
            return row
        mended = copy(row)
        mended.number += 1
        return mended

    fits = timeline.occupancy
    roomier = fits._replace(shared=fits.shared + max(map(_group_bytes, card.kinds)))
    if not roomier.blocks:
        return
    lines = Counter(Site(row.code, row.lasti) for rows in waits for row in rows if id(row) in later)
    less = "" if roomier.blocks == fits.blocks else f", with {roomier.blocks} instead of {fits.blocks} blocks on an SM"
    cases = tuple(
        Case(site, "wait_group", times, f"waits for copies that could start one wait earlier{less}")
        for site, times in lines.items()
    )
    yield Advice(Guideline.MORE_STAGES, cases, _saved_us(timeline, mend, roomier.blocks))


def _group_bytes(rows: Sequence[Row]) -> int:
    """Return the bytes that the largest group of a block with *rows* copies."""
    most = sectors = 0
    for row in rows:
        if row.op is Op.CP_ASYNC:
            sectors += row.of_warps(row.sectors)
        elif row.op is Op.COMMIT:
            most, sectors = max(most, sectors), 0
    return most * SECTOR


def _fuller(timeline: Timeline) -> Iterable[Advice]:
    """Yield what the launch would save if an SM held one block more."""
    card, fits = timeline.card, timeline.occupancy
    if len(card.spans) <= card.sms * fits.blocks or not card.kinds[0]:
        return
    first = card.kinds[0][0]
    why = " and ".join(fits.limiters)
    case = Case(Site(first.code, first.lasti), "the kernel", 1, f"has {fits.blocks} blocks on an SM, limited by {why}")
    yield Advice(Guideline.MORE_BLOCKS, (case,), _saved_us(timeline, lambda row: row, fits.blocks + 1))
