"""Things that are made in a loop: streams, events and contexts, memory, and memory that is registered.

A line may make a thing again and again, and have no more use for it when it makes the next one. Such things can be made
once before the loop: a pool of as many as were in use at a time, or of some more, so that more work can run at a time.
All memory that is registered there is registered before the loop, once each, also if the loop registers it again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from acl_py.calls.acts import Began, CaptureBegan, CaptureEnded, Destroyed, Ended, Made, Synchronised
from acl_py.calls.steps import Name
from acl_py.causes.findings import Pitfall
from acl_py.explain.cases import Case, names_in, queues
from acl_py.explain.habits.habit import Habit, Way, by_line, by_task, key_of, line_of, place_of, renamed
from acl_py.programs.format import Program, Step
from device_model.errors import listed

_MAKES = {
    "create_stream": "streams",
    "create_event": "events",
    "create_notify": "notifies",
    "create_context": "contexts",
    "begin_capture": "graphs",
    "instantiate": "executables",
    "malloc": "buffers on the device",
    "malloc_host": "pinned buffers",
    "malloc_managed": "managed buffers",
}
_REGISTERS = "host_register"
_OFTEN_LEFT = ("event", "graph", "executable")  # programs often do not destroy them, though they need them no more
_SHOWN = 4  # lines that end things
_LOOP = 3  # how often a line must make something
_LARGER = (1, 2, 3, 4)  # how many times the smallest pool that is enough


@dataclass(slots=True)
class _Life:
    """A thing: the steps that make it, several for a graph that is captured; the one that ends it (None: it is never
    ended), and that of its last use.
    """

    kind: str
    name: str
    makers: list[Step]
    end: Step | None
    last: int

    @property
    def made(self) -> Step:
        """The first of its makers."""
        return self.makers[0]

    @property
    def what(self) -> str:
        return _MAKES.get(self.made.op, "")

    @property
    def is_memory(self) -> bool:
        return self.kind == "buffer"


_Lives = list[_Life]
_Loop = list[_Lives]  # the things that one loop of one task makes, by line


def things_in_loops(program: Program) -> Iterator[Habit]:
    """Yield a habit for the memory of each loop in which *program* makes some, one for what it registers there, and one
    for the streams, events, contexts, graphs and so on of each. Tasks that run the same lines have the same loop.
    """
    loops: dict[tuple[str, str | None], list[_Loop]] = {}
    for line in _lines(program):
        if not _is_in_loop(program, line):
            continue
        made = line[0].made
        same = loops.setdefault((made.op if line[0].is_memory else "", made.task), [])
        if same and made.index <= same[-1][0][-1].made.index:
            same[-1].append(line)
        else:
            same.append([line])
    of_tasks: dict[object, list[_Loop]] = {}
    for loop in (loop for same in loops.values() for loop in same):
        of_tasks.setdefault(tuple((place_of(line[0].made), line[0].made.op) for line in loop), []).append(loop)
    tasks = by_task(program.steps)
    for same in of_tasks.values():
        yield _habit(tasks, same)


def _lines(program: Program) -> list[_Lives]:
    """Return the things that each line makes; what differs in more than its name, such as its size, is apart."""
    lives: dict[tuple[str, str], _Life] = {}
    lines: dict[object, _Lives] = {}
    like: dict[str, object] = {}  # what each graph is like
    capturing: dict[str | None, list[Step]] = {}  # by task
    for step in program.steps:
        for used in names_in(step) & lives.keys():
            lives[used].last = step.index
        makers = [step]
        if step.task in capturing:
            makers = capturing[step.task]
            makers.append(step)
        match step.act:
            case CaptureBegan():
                capturing[step.task] = [step]
                continue
            case CaptureEnded(_, Name(kind, name)) if step.task in capturing:
                del capturing[step.task]
            case Destroyed(Name(kind, name)) | Ended(Name(kind, name), None) if (kind, name) in lives:
                lives[kind, name].end = step
                continue
            case Made(_, Name(kind, name)) | Began(Name(kind, name), None) if step.op in (*_MAKES, _REGISTERS):
                makers = [step]
            case _:
                continue
        life = lives[kind, name] = _Life(kind, name, makers, None, step.index)
        key = (
            place_of(makers[0]),
            makers[0].op,
            step.task,
            *(key_of(each, {name: "", **like}, but="again") for each in makers),
        )
        if kind == "graph":
            like[name] = key
        lines.setdefault(key, []).append(life)
    if not program.is_recorded:  # what is there to the end was not made by the line that makes the others
        parts = (
            [life for life in line if (life.end is None) == left] for line in lines.values() for left in (True, False)
        )
        return [line for line in parts if len(line) >= _LOOP]
    return [line for line in lines.values() if len(line) >= _LOOP]


def _is_in_loop(program: Program, line: _Lives) -> bool:
    """Whether the things of *line* are made while work is queued, and need not all be there at once."""
    if line[0].kind not in _OFTEN_LEFT and any(life.end is None for life in line):
        return False  # it may be needed to the end
    between = program.steps[line[0].made.index : line[-1].made.index]
    if not any(queues(step) for step in between):
        return False
    return line[0].made.op == _REGISTERS or len(_pool(line)) < len(line)


def _pool(line: _Lives, count: int = 0) -> list[_Lives]:
    """Return the things of *line* as those of a pool, each of which stands for several, one after the other. There are
    *count* of them, or as many as are in use at a time, if these are more.
    """
    pool: list[_Lives] = []
    for life in line:
        free = [each for each in pool if each[-1].last < life.made.index]
        if free and len(pool) >= count:
            min(free, key=lambda each: each[-1].last).append(life)
        else:
            pool.append([life])
    return pool


def _by_memory(lives: Iterable[_Life]) -> list[_Lives]:
    """Return *lives* of registered memory, those of the same memory together."""
    same: dict[str, _Lives] = {}
    for life in lives:
        same.setdefault(life.made.fields["again"] or life.name, []).append(life)
    return [*same.values()]


def _habit(tasks: Mapping[str | None, Sequence[Step]], loops: Sequence[_Loop]) -> Habit:
    lives = [life for loop in loops for line in loop for life in line]
    made = sorted((life.made for life in lives), key=lambda step: step.index)
    begins = [
        _begin_of_loop(tasks[loop[0][0].made.task], [life.made for line in loop for life in line]) for loop in loops
    ]
    ends = listed(dict.fromkeys(life.end.line for life in lives if life.end is not None), _SHOWN)
    if made[0].op == _REGISTERS:
        behind = f" (now in {ends})" if ends else ""
        pools = [_by_memory(life for line in loop for life in line) for loop in loops]
        few = sum(map(len, pools))
        what = (
            "Register all of it"
            if few == len(lives)
            else f"Register it once, {few:,} times in place of {len(lives):,},"
        )
        edit = f"{what} before the loop, and unregister it behind the last synchronisation{behind}"
        what = "a loop registers memory" if few == len(lives) else "a loop registers the same memory again and again"
        return Habit(Pitfall.IN_LOOP, made, what, [Way(edit, partial(_pooled, pools, begins))])
    what = listed(dict.fromkeys(line[0].what for line in loops[0]))
    ended = f", and ends them again ({ends})" if ends else ""
    ways = [_way(loops, times, begins) for times in _LARGER]
    return Habit(Pitfall.IN_LOOP, made, f"a loop makes {what}{ended}", ways)


def _way(loops: Sequence[_Loop], times: int, begins: Sequence[int]) -> Way:
    """Return the way to make pools that are so many *times* as large as they must be."""
    counts: dict[str, list[int]] = {}
    pools: list[list[_Lives]] = []
    for loop in loops:
        pools.append(pooled := [])
        for line in loop:
            pool = _pool(line, times * len(_pool(line)))
            pooled += pool
            counts[line[0].what] = [
                a + b for a, b in zip(counts.get(line[0].what, [0, 0]), (len(pool), len(line)), strict=True)
            ]
    edit = listed(f"{few} in place of {many} {what}" for what, (few, many) in counts.items())
    return Way(f"Make them before the loop and use them again: {edit}", partial(_pooled, pools, begins))


def _begin_of_loop(own: Sequence[Step], made: Sequence[Step]) -> int:
    """Return the first step of the loop in which the steps *made* are: the lines between two of them are its lines.
    *own* are the steps of its task.
    """
    first = made[0]
    again = max(step.index for step in made if line_of(step) == line_of(first))
    lines = by_line(step for step in own if first.index < step.index <= again)
    begin = first.index
    for step in reversed([step for step in own if step.index < first.index]):
        if line_of(step) not in lines:
            break
        begin = step.index
    return begin


def _end_of_loop(program: Program, pool: Sequence[_Lives]) -> int:
    """Return the step behind which the things of *pool* can end. It is the last synchronisation of its task if the last
    of them ends before it, or else that last end itself.
    """
    ends = [life.end for lives in pool for life in lives if life.end is not None]
    if not ends:
        return -1
    last = max(ends, key=lambda step: step.index)
    behind = (step for step in program.steps[last.index :] if step.task == last.task)
    return max([last.index, *(step.index for step in behind if isinstance(step.act, Synchronised))])


def _pooled(pools: Sequence[Sequence[_Lives]], begins: Sequence[int], case: Case) -> Case:
    """Return *case* with one thing for all lives of each member of *pools*, which are made before the steps *begins*
    and ended behind the last synchronisations.
    """
    members = [lives for pool in pools for lives in pool]
    names = {(life.kind, life.name): lives[0].name for lives in members for life in lives}
    all_ = [life for lives in members for life in lives]
    gone = {step.index for life in all_ for step in (*life.makers, *([life.end] if life.end is not None else []))}
    before: dict[int, list[Step]] = {}
    behind: dict[int, list[Step]] = {}
    for begin, pool in zip(begins, pools, strict=True):
        before.setdefault(begin, []).extend(_in_order(step for lives in pool for step in lives[0].makers))
        ends = _in_order(end for lives in pool if (end := lives[-1].end) is not None)
        behind.setdefault(_end_of_loop(case.program, pool), []).extend(ends)

    def change(step: Step) -> list[Step]:
        steps = [*before.get(step.index, ()), *([] if step.index in gone else [step]), *behind.get(step.index, ())]
        return [renamed(each, names) for each in steps]

    return case.with_steps(change)


def _in_order(steps: Iterable[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: step.index)
