"""Kernels that are too small for their launches: the host takes longer to launch a chain of them than they run.

One kernel that does the work of a chain is launched once. Chains that repeat can be graphs, which repeated.py prices.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import groupby

from acl_py.calls.acts import Synchronised
from acl_py.calls.steps import Name
from acl_py.causes.findings import Pitfall
from acl_py.causes.lines import us
from acl_py.explain.cases import Case, with_fields
from acl_py.explain.habits.habit import Habit, Way, by_task, place_of
from acl_py.explain.launched import Launched
from acl_py.programs.format import Program, Step
from acl_py.ranges import ByteRanges
from device_model.profile import DeviceProfile

_FEWEST = 3  # kernels of a chain
_NOTE = "whether one kernel can do the work of several: it must not need what other blocks of them write"
_Chain = list[Step]


def small_kernels(case: Case, repeated: Collection[int]) -> Iterator[Habit]:
    """Yield a habit for each line of *case* at which a chain of such kernels begins; not for steps that are *repeated*
    and can be a graph, by their indices.
    """
    lines: dict[object, list[_Chain]] = {}
    for chain in _chains(case.program):
        if len(chain) >= _FEWEST and not any(step.index in repeated for step in chain):
            lines.setdefault((place_of(chain[0]), chain[0].task), []).append(chain)
    launch_ns = case.device.host.launch
    for chains in lines.values():
        steps = [step for chain in chains for step in chain]
        work_ns, launches_ns = sum(_work_ns(step, case.device) for step in steps), launch_ns * len(steps)
        if work_ns >= launches_ns:
            continue
        what = f"kernels are too small for their launches: their work takes {us(work_ns)}, and the launches"
        what += f" {us(launches_ns)} of the host, in chains of up to {max(map(len, chains)):,}"
        edit = f"Make one kernel of each chain: {len(chains):,} launches in place of {len(steps):,}"
        yield Habit(Pitfall.SMALL_KERNELS, steps, what, [Way(edit, partial(_fused, chains=chains))])


def _chains(program: Program) -> Iterator[_Chain]:
    """Yield the kernels that a task launches one after the other in a stream, with grids of one size. Only the last one
    of a chain is awaited.
    """
    captured = Launched(program.steps).graph_of
    awaited = {
        step.fields["of"]
        for step in program.steps
        if step.act == Synchronised(Name("operation", step.fields.get("of", "")))
    }

    def kind(step: Step) -> tuple[object, ...] | None:
        if step.op != "launch" or step.index in captured or step.thread is not None:
            return None
        return tuple(step.fields[part] for part in ("stream", "blocks", "exclusive"))

    for own in by_task(program.steps).values():
        for alike, steps in groupby(own, kind):
            if alike is None:
                continue
            chain: _Chain = []
            for step in steps:
                chain.append(step)
                if step.id is not None and step.id in awaited:
                    yield chain
                    chain = []
            yield chain


def _work_ns(step: Step, device: DeviceProfile) -> int:
    """Return how long the blocks of a kernel run: exclusive ones in waves, others side by side."""
    blocks: int = step.fields["blocks"]
    work_us: float = step.fields["us"]
    waves = -(-blocks // device.cores.count) if step.fields["exclusive"] else 1
    return round(work_us * 1000) * waves


def _fused(case: Case, chains: Sequence[_Chain]) -> Case:
    """Return *case* with one kernel in place of each of *chains*, where its last one was."""
    whole = {chain[-1].index: _one(chain) for chain in chains}
    gone = {step.index for chain in chains for step in chain}

    def change(step: Step) -> list[Step]:
        return [whole[step.index]] if step.index in whole else [] if step.index in gone else [step]

    return case.with_steps(change).noting(_NOTE)


def _one(chain: _Chain) -> Step:
    """Return the kernel that does the work of *chain*. It does not read what an earlier one of them has written."""
    reads: defaultdict[str, ByteRanges] = defaultdict(ByteRanges)
    writes: defaultdict[str, ByteRanges] = defaultdict(ByteRanges)
    for step in chain:
        for buffer, start, stop in step.fields["reads"]:
            reads[buffer].add(writes[buffer].split([(start, stop)])[1])
        for buffer, start, stop in step.fields["writes"]:
            writes[buffer].add([(start, stop)])
    names = dict.fromkeys(name for step in chain if (name := step.fields["name"]) is not None)
    return with_fields(
        chain[-1],
        us=sum(step.fields["us"] for step in chain),
        name=next(iter(names), None),
        reads=_extents(reads),
        writes=_extents(writes),
    )


def _extents(touched: dict[str, ByteRanges]) -> list[list[object]]:
    return [[buffer, start, stop] for buffer, ranges in touched.items() for start, stop in ranges]
