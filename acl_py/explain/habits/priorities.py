"""Priorities that would help: short kernels that stand behind the many blocks of another stream's kernels.

Blocks of an urgent stream get the next cores that are free, between two waves of a long kernel. So what hangs on the
short kernels, such as their downloads, can run beside the long ones.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from acl_py.calls.acts import Made
from acl_py.calls.fields import STREAMS
from acl_py.calls.steps import Name
from acl_py.causes.findings import Pitfall
from acl_py.explain.cases import Case, with_fields
from acl_py.explain.habits.habit import Habit, Way
from acl_py.explain.launched import Launched
from acl_py.programs.format import Step
from device_model.errors import listed

_MOST = 4  # streams that are tried, those with the shortest kernels
_SHOWN = 3  # kernels that the words name


def helpful_priorities(case: Case) -> Iterator[Habit]:
    """Yield a habit for each stream of *case* whose kernels are short beside those that fill all cores several times in
    another stream of the device.
    """
    program, most = case.program, case.rules.priorities[1]
    devices = program.devices()
    streams: dict[str, list[Step]] = {}
    captured = Launched(program.steps).graph_of
    for step in program.steps:
        if step.op == "launch" and step.index not in captured and step.fields["stream"] not in STREAMS:
            streams.setdefault(step.fields["stream"], []).append(step)
    longest: defaultdict[int, dict[str, float]] = defaultdict(dict)  # in waves, by device and stream
    for stream, steps in streams.items():
        times = [time for step in steps if (time := _time_in_waves(step, case)) is not None]
        if times:
            longest[devices[steps[0].index]][stream] = max(times)
    makers = {
        step.act.thing.name: step
        for step in program.steps
        if isinstance(step.act, Made) and isinstance(step.act.thing, Name) and step.act.thing.kind == "stream"
    }
    found: list[tuple[float, str, list[Step], Step | None]] = []
    for stream, steps in streams.items():
        long = max((us for other, us in longest[devices[steps[0].index]].items() if other != stream), default=0.0)
        short = max(_time_in_waves(step, case) or step.fields["us"] for step in steps)
        maker = makers.get(stream)
        options = program.streams[stream] if maker is None else maker.fields
        if short < long and options["priority"] > most:
            found.append((short, stream, steps, maker))
    for _, stream, steps, maker in sorted(found, key=lambda each: each[0])[:_MOST]:
        names = dict.fromkeys(step.fields["name"] or "a kernel" for step in steps)
        what = f"short kernels of a stream ({listed([*names][:_SHOWN])}) stand behind long ones of another stream"
        edit = f"Make their stream with priority {most}, the most urgent"
        yield Habit(
            Pitfall.PRIORITY, steps if maker is None else [maker], what, [Way(edit, partial(_urgent, stream=stream))]
        )


def _time_in_waves(step: Step, case: Case) -> float | None:
    """Return for how many microseconds a kernel takes all cores; None if others can run beside its blocks."""
    blocks: int = step.fields["blocks"]
    us: float = step.fields["us"]
    cores = case.device.cores.count
    return us * -(-blocks // cores) if step.fields["exclusive"] and blocks > cores else None


def _urgent(case: Case, stream: str) -> Case:
    """Return *case* with the most urgent priority for *stream*."""
    most = case.rules.priorities[1]
    made = Made(None, Name("stream", stream))

    def change(step: Step) -> list[Step]:
        return [with_fields(step, priority=most) if step.act == made else step]

    if stream in case.program.streams:
        streams = {**case.program.streams, stream: {**case.program.streams[stream], "priority": most}}
        return case.with_program(streams=streams)
    return case.with_steps(change)
