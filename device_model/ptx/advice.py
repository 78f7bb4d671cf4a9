"""Advice on a launch in PTX: what it would save with its accesses side by side, without bank conflicts, with the lanes
of a warp on one way, with atomics apart, with more blocks on an SM.

The benefit of each advice is computed, not guessed: the warps that were watched are played again as if they had
followed it, and the difference is the time saved. What something else hides saves nothing, and the text says so.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from math import ceil
from typing import NamedTuple

from device_model.kernel.advice import Advice, Case
from device_model.ptx.lanes.program import Place
from device_model.ptx.results import Result, Timeline
from device_model.ptx.timing.estimate import Timing
from device_model.ptx.timing.samples import Access, Visit
from device_model.ptx.timing.trace import Trace


class Guideline(Enum):
    """The guidelines; the value says what to do."""

    SIDE_BY_SIDE = "let the lanes of a warp use addresses side by side, and start them at a multiple of 32 bytes"
    BANKS_APART = "swizzle or pad rows of shared memory, so that the lanes of a pass use different banks"
    ONE_WAY = "let the lanes of a warp go the same way: sort the work, or branch by warps"
    ATOMICS_APART = "add up in a warp or a block before, or spread the addresses"
    MORE_BLOCKS = "let an SM hold one block more"


def advise(result: Result) -> list[Advice]:
    """Return advice on a launch, in the order of the time saved; an empty list if there is none.

    Args:
        result: The result of a launch: `completion.work.result`.

    Raises:
        ValueError: The launch has not ended, or was stopped.
    """
    timeline = result.timeline
    if timeline is None:
        raise ValueError("this launch has no times: it has not ended, or was stopped")
    found = [each for check in (_side_by_side, _banks, _one_way, _atomics, _fuller) for each in check(timeline)]
    before = timeline.estimate.cycles
    advice = [
        Advice(each.guideline, tuple(each.cases), (before - each.cycles) * timeline.ns_per_cycle / 1000)
        for each in found
    ]
    return sorted(advice, key=lambda each: -each.saved_us)


class _Found(NamedTuple):
    """What to do, on which lines, and the *cycles* that the launch would take then."""

    guideline: Guideline
    cases: Sequence[Case]
    cycles: float


def _side_by_side(timeline: Timeline) -> Iterable[_Found]:
    """Yield what the launch would take if each access asked for as few sectors as its bytes fill.

    Lines that use the same sectors, such as those of an unrolled loop, ask for no fewer than they do together.
    """
    lines = {line: each for line, each in _lines(timeline).items() if each[1].wanted and not each[1].atomics}
    shares: dict[int, float] = {}  # of what each line wants, that is not in L1
    for group in _groups(lines, timeline):
        asked, wanted = (sum(getattr(lines[each][1], name) for each in group) for name in ("sectors", "wanted"))
        shares |= dict.fromkeys(group, min(1.0, asked / wanted))
    cases = [
        _case(
            timeline,
            line,
            count,
            f"touches {touched / count:.1f} sectors a warp, and its bytes fill {wanted / count:.1f}",
        )
        for line, (count, access) in lines.items()
        for touched, wanted in [(access.sectors + access.hits, access.wanted)]
        if touched > wanted
    ]

    def mend(line: int, access: Access) -> Access:
        if line not in shares:
            return access
        sectors = access.wanted * shares[line]
        return access._replace(sectors=round(sectors), lines=ceil(sectors / 4), tags=ceil(access.wanted / 4))

    if cases:
        watch = _mended(timeline.timing, mend)
        yield _Found(Guideline.SIDE_BY_SIDE, cases, timeline.timing.changed(watch).estimate(timeline.dense).cycles)


def _groups(lines: Iterable[int], timeline: Timeline) -> Iterable[list[int]]:
    """Return *lines* in groups that share no sector with each other."""
    groups = {line: [line] for line in lines}
    for sample in timeline.timing.watch.samples:
        for line, asked in sample.found:
            one, two = groups.get(line), groups.get(asked)
            if one is not None and two is not None and one is not two:
                one += two
                groups.update(dict.fromkeys(two, one))
    return {id(each): each for each in groups.values()}.values()


def _banks(timeline: Timeline) -> Iterable[_Found]:
    """Yield what the launch would take without bank conflicts."""
    cases = [
        _case(
            timeline,
            line,
            count,
            f"takes {access.phases / (access.phases - access.conflicts):.1f} phases for each pass",
        )
        for line, (count, access) in _lines(timeline).items()
        if access.conflicts
    ]

    def mend(line: int, access: Access) -> Access:  # noqa: ARG001 - all lines are mended
        return access._replace(phases=access.phases - access.conflicts, conflicts=0)

    if cases:
        watch = _mended(timeline.timing, mend)
        yield _Found(Guideline.BANKS_APART, cases, timeline.timing.changed(watch).estimate(timeline.touched).cycles)


def _atomics(timeline: Timeline) -> Iterable[_Found]:
    """Yield what the launch would take if no two lanes of a warp, and no two warps, changed one address."""
    cases = [
        _case(timeline, line, count, f"changes one address {access.same / count:.1f} times in a warp")
        for line, (count, access) in _lines(timeline).items()
        if access.same > count
    ]

    def mend(line: int, access: Access) -> Access:  # noqa: ARG001 - all lines are mended
        return access._replace(phases=min(1, access.phases)) if access.atomics else access

    if cases:
        watch = _mended(timeline.timing, mend, hot=0.0)
        yield _Found(Guideline.ATOMICS_APART, cases, timeline.timing.changed(watch).estimate(timeline.touched).cycles)


def _one_way(timeline: Timeline) -> Iterable[_Found]:
    """Yield what the launch would take if lanes of a block that do the same at the same time filled whole warps."""
    timing, watch = timeline.timing, timeline.timing.watch
    shares = {each: watch.needed[each] / count for each, count in watch.visits.items() if watch.needed[each] < count}
    splits = sum((each.splits for each in watch.samples), Counter[int]())
    if not shares or not splits:
        return
    issues, blocks = timing.plan.analysis.issues, timing.plan.program.blocks
    last = {code.number: code.instructions[-1].line for code in blocks if code.instructions}
    cases = [
        _case(timeline, last[number], count, "sends the lanes of a warp different ways")
        for number, count in splits.most_common()
        if number in last
    ]
    before = sum(issues[number] * count for number, count in watch.visits.items())
    after = sum(issues[number] * count * shares.get(number, 1.0) for number, count in watch.visits.items())
    samples = [each.changed([_fewer(visits, shares) for visits in each.visits]) for each in watch.samples]
    fewer = watch.changed(samples, work=after / before)
    yield _Found(Guideline.ONE_WAY, cases, timing.changed(fewer).estimate(timeline.touched).cycles)


def _fewer(visits: Iterable[Visit], shares: Mapping[int, float]) -> list[Visit]:
    """Return a share of the visits of each block of code; each has the traffic of those that are left out before it."""
    kept: list[Visit] = []
    due: defaultdict[int, float] = defaultdict(float)
    left: dict[int, dict[int, Access]] = {}
    for number, accesses in visits:
        share = shares.get(number, 1.0)
        own = left.pop(number, None)
        merged = accesses if own is None else _both(own, accesses)
        due[number] += share
        if due[number] >= 1 - 1e-9:
            due[number] -= 1
            kept.append((number, merged))
        else:
            left[number] = merged
    return kept


def _both(one: Mapping[int, Access], two: Mapping[int, Access]) -> dict[int, Access]:
    both = dict(one)
    for line, access in two.items():
        both[line] = both[line].plus(access) if line in both else access
    return both


def _fuller(timeline: Timeline) -> Iterable[_Found]:
    """Yield what the launch would take if an SM held one block more."""
    timing = timeline.timing
    fits = timing.plan.occupancy
    limiters = [each for each in fits.limiters if each in ("registers", "shared memory")]
    if timing.plan.blocks <= timing.card.sms * timing.resident or limiters != fits.limiters:
        return
    place = _place(timeline, timing.plan.program.blocks[0].line)
    what = f"has {fits.blocks} blocks on an SM, limited by {' and '.join(limiters)}"
    case = Case(place, "the kernel", 1, what)
    more = timing.changed(timing.watch, timing.resident + 1)
    yield _Found(Guideline.MORE_BLOCKS, [case], more.estimate(timeline.touched).cycles)


def _lines(timeline: Timeline) -> dict[int, tuple[int, Access]]:
    """Return by line how many accesses of sampled warps it made, and all their traffic."""
    found: dict[int, tuple[int, Access]] = {}
    for sample in timeline.timing.watch.samples:
        for visits in sample.visits:
            for _, accesses in visits:
                for line, access in accesses.items():
                    count, before = found.get(line, (0, Access()))
                    found[line] = count + 1, before.plus(access)
    return found


def _mended(timing: Timing, mend: Callable[[int, Access], Access], hot: float | None = None) -> Trace:
    """Return what was watched, with each access mended."""
    samples = [
        sample.changed([[(number, {line: mend(line, each) for line, each in accesses.items()})
                         for number, accesses in visits] for visits in sample.visits])
        for sample in timing.watch.samples
    ]  # fmt: skip
    return timing.watch.changed(samples, hot=hot)


def _case(timeline: Timeline, line: int, count: int, what: str) -> Case:
    return Case(_place(timeline, line), timeline.timing.plan.analysis.names[line], count, what)


def _place(timeline: Timeline, line: int) -> Place:
    return timeline.timing.plan.program.places.get(line, Place(line))
