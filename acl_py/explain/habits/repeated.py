"""Launches that repeat: work that one task queues in a stream again and again, the same each time.

As a graph it is captured and made executable once, and then each repetition is one launch. What that costs, the
replay says: the calls of a graph have measured costs, and so do its nodes.

A *run* is what a task queues in a stream without another call in between. It may consist of equal *rounds*: the least
part that it repeats. A graph has one round, or several, or a whole run; which of them is best, the replay says, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from math import ceil, log, sqrt

from acl_py.calls.acts import CaptureBegan, CaptureEnded, GraphLaunched, Made, Queued, Synchronised
from acl_py.calls.steps import Name
from acl_py.causes.findings import Pitfall
from acl_py.explain.beside import DEFAULT_STREAM
from acl_py.explain.cases import Case, EditError, made_like
from acl_py.explain.habits.habit import Habit, Key, Way, by_task, key_of, place_of
from acl_py.explain.launched import Launched
from acl_py.explain.whatif import Answer
from acl_py.programs.format import Program, Step

_THREAD_LOCAL = 1  # the mode of a capture that other tasks do not disturb
_FEWEST = 4  # operations of a graph
_SIZES = 6  # of graphs that are tried
_OF_CAPTURE = ("begin_capture", "end_capture", "instantiate")
_NOTE = (
    "whether kernels get the same arguments each time, where these are no memory: a graph repeats those of its capture"
)


class _Run:
    """Steps that queue work in one stream; *round* is how many of them repeat to the end."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.keys = [key_of(step, but="stream") for step in steps]
        self.round = _period(self.keys)

    @property
    def rounds(self) -> int:
        return len(self.steps) // self.round


def repeated_launches(program: Program) -> Iterator[Habit]:
    """Yield a habit for each line of *program* at which work begins that repeats."""
    lines: dict[object, list[_Run]] = {}
    for run in _runs(program):
        first = run.steps[0]
        lines.setdefault((place_of(first), first.task, run.round), []).append(run)
    for runs in lines.values():
        ways = [way for size in _sizes(runs) if (way := _way(runs, size)) is not None]
        if ways:
            steps = [step for run in runs for step in run.steps]
            what = f"the same work is queued again and again, {len(steps):,} operations"
            yield Habit(Pitfall.REPEATED, steps, what, ways)


def _runs(program: Program) -> Iterator[_Run]:
    captured = Launched(program.steps).graph_of
    awaited = {
        step.fields["of"]
        for step in program.steps
        if step.act == Synchronised(Name("operation", step.fields.get("of", "")))
    }
    pageable = program.buffers_in("pageable")

    def stream_of(step: Step) -> str | None:
        """Return the stream of a step that a graph could do; None for others."""
        if step.index in captured or (step.id is not None and step.id in awaited) or step.thread is not None:
            return None
        match step.act:
            case Queued(Name("kernel" | "copy" | "fill" | "function"), Name(_, stream)) if stream != DEFAULT_STREAM:
                ends = {step.fields.get("dst"), step.fields.get("src")}
                return None if ends & pageable else stream
        return None

    for own in by_task(program.steps).values():
        for stream, steps in groupby(own, stream_of):
            run = [*steps]
            if stream is not None and any(step.work == "kernel" for step in run):
                yield _Run(run)


def _period(keys: Sequence[Key]) -> int:
    """Return the length of the least part that *keys* repeats, to its end."""
    borders = [0] * len(keys)  # of each beginning: the longest part that it begins and ends with
    for place in range(1, len(keys)):
        border = borders[place - 1]
        while border and keys[place] != keys[border]:
            border = borders[border - 1]
        borders[place] = border + (keys[place] == keys[border])
    period = len(keys) - borders[-1]
    return period if len(keys) % period == 0 else len(keys)


def _sizes(runs: Sequence[_Run]) -> list[int]:
    """Return how many rounds a graph may have. They are those of a run if such runs repeat, because that is a step of
    the program. Else they are numbers that divide it, those near the best first.

    A graph of n operations costs in proportion to n, once, and its launches in proportion to 1 / n.
    """
    most, all_ = max(run.rounds for run in runs), sum(run.rounds for run in runs)
    if any(len(pieces) > 1 for pieces in _parts(runs, most).values()):
        return [most]
    divisors = [size for size in range(1, most) if most % size == 0]
    return sorted(divisors, key=lambda size: abs(log(size / sqrt(all_))))[:_SIZES]


def _way(runs: Sequence[_Run], size: int) -> Way | None:
    """Return the way to launch graphs of *size* rounds; None if no graph would be launched twice."""
    parts = {key: pieces for key, pieces in _parts(runs, size).items() if len(pieces) > 1}
    if not parts or runs[0].round * size < _FEWEST:
        return None
    nodes, launches = runs[0].round * size, sum(map(len, parts.values()))
    graphs, them = ("a graph", "it") if len(parts) == 1 else (f"{len(parts)} graphs", "them")
    edit = f"Capture {graphs} of {nodes:,} operations and launch {them} {launches:,} times"
    return Way(edit, partial(_as_graphs, parts=[*parts.values()]), _pays)


def _parts(runs: Iterable[_Run], size: int) -> dict[Key, list[Sequence[Step]]]:
    """Return the parts of *runs* that have *size* rounds, equal ones together."""
    parts: dict[Key, list[Sequence[Step]]] = {}
    for run in runs:
        length = run.round * size
        for begin in range(0, len(run.steps) - length + 1, length):
            parts.setdefault(tuple(run.keys[begin : begin + length]), []).append(run.steps[begin : begin + length])
    return parts


def _as_graphs(case: Case, parts: Sequence[Sequence[Sequence[Step]]]) -> Case:
    """Return *case* with a graph for each of *parts*: the first piece is captured, and each piece becomes a launch."""
    taken = {str(value) for step in case.program.steps for value in step.fields.values()}
    if any(value.startswith("repeated ") for value in taken):
        raise EditError("the program has things with the names that graphs would get")
    instead: dict[int, list[Step]] = {step.index: [] for pieces in parts for piece in pieces for step in piece}
    for number, pieces in enumerate(parts, 1):
        graph, executable = Name("graph", f"repeated work {number}"), Name("executable", f"repeated launch {number}")
        for piece in pieces:
            stream = Name("stream", piece[0].fields["stream"])
            launch = made_like(piece[-1], GraphLaunched(executable, stream))
            if piece is pieces[0]:
                begin = made_like(piece[0], CaptureBegan(stream, _THREAD_LOCAL, graph, ()), mode=_THREAD_LOCAL)
                end = made_like(piece[-1], CaptureEnded(stream, graph))
                made = made_like(piece[-1], Made(graph, executable))
                instead[piece[0].index].append(begin)
                for step in piece:
                    instead[step.index].append(step)
                instead[piece[-1].index] += [end, made]
            instead[piece[-1].index].append(launch)
    changed = case.with_steps(lambda step: instead.get(step.index, [step]))
    return changed.noting(_NOTE)


def _pays(answer: Answer) -> str:
    """Return after how many launches the graphs of *answer* have paid for themselves."""
    steps, once, launches = answer.run.program.steps, 0.0, 0
    capturing = False
    lasted: dict[str, list[float]] = {}
    for call in answer.run.host:
        step = steps[call.step]
        capturing = step.op == "begin_capture" or (capturing and step.op != "end_capture")
        if step.op == "graph_launch":
            lasted.setdefault(step.fields["exec"], []).append(call.exit_us - call.enter_us)
        elif capturing or step.op in _OF_CAPTURE:
            once += call.exit_us - call.enter_us
    once += sum(times[0] - min(times) for times in lasted.values())
    launches = sum(map(len, lasted.values()))
    count = ceil(once * launches / (once + answer.gain_ns / 1000))
    return f"; it pays after {count:,} launches" if count > 1 else "; it pays at once"
