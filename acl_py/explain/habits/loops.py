"""Things that are made in a loop: streams, events and contexts, memory, and memory that is registered.

What a line makes again and again, and what is no longer used when it makes the next one, can be made once before the
loop: a pool of as many things as were in use at a time, or of some more, so that more work can run at a time.
Registered memory is other memory each time, as far as a recording says, so all of it is registered before the loop.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from acl_py.calls.acts import Began, Destroyed, Ended, Made
from acl_py.calls.steps import Name
from acl_py.causes.findings import Pitfall
from acl_py.explain.cases import Case, queues
from acl_py.explain.habits.habit import Habit, Way, by_line, names_in, renamed
from acl_py.programs.format import Program, Step
from device_model.errors import listed

_MAKES = {
    "create_stream": "streams",
    "create_event": "events",
    "create_notify": "notifies",
    "create_context": "contexts",
    "malloc": "buffers on the device",
    "malloc_host": "pinned buffers",
    "malloc_managed": "managed buffers",
}
_REGISTERS = "host_register"
_LOOP = 3  # how often a line must make something
_LARGER = (1, 2, 3, 4)  # how many times the smallest pool that is enough


@dataclass(slots=True)
class _Life:
    """A thing: the step that *made* it, the one that ends it (None: it is never ended), and that of its last use."""

    kind: str
    name: str
    made: Step
    end: Step | None
    last: int

    @property
    def is_memory(self) -> bool:
        return self.kind == "buffer"


_Lives = list[_Life]


def things_in_loops(program: Program) -> Iterator[Habit]:
    """Yield a habit for the memory of each loop in which *program* makes some, one for what it registers there, and one
    for the streams, events, notifies and contexts of each.
    """
    loops: dict[tuple[str, str | None], list[list[_Lives]]] = {}
    for line in _lines(program):
        if not _is_in_loop(program, line):
            continue
        made = line[0].made
        kind = made.op if line[0].is_memory else ""
        same = loops.setdefault((kind, made.task), [])
        if same and made.index <= same[-1][0][-1].made.index:
            same[-1].append(line)
        else:
            same.append([line])
    for lines in (lines for same in loops.values() for lines in same):
        yield _habit(program, lines)


def _lines(program: Program) -> list[_Lives]:
    """Return the things that each line makes; what differs in more than its name, such as its size, is apart."""
    lives: dict[tuple[str, str], _Life] = {}
    lines: dict[object, _Lives] = {}
    for step in program.steps:
        for used in names_in(step) & lives.keys():
            lives[used].last = step.index
        match step.act:
            case Destroyed(Name(kind, name)) | Ended(Name(kind, name), None) if (kind, name) in lives:
                lives[kind, name].end = step
            case Made(None, Name(kind, name)) | Began(Name(kind, name), None) if step.op in (*_MAKES, _REGISTERS):
                life = lives[kind, name] = _Life(kind, name, step, None, step.index)
                like = tuple((part, value) for part, value in step.fields.items() if value != name)
                lines.setdefault((step.line, step.op, step.task, like), []).append(life)
    return [line for line in lines.values() if len(line) >= _LOOP]


def _is_in_loop(program: Program, line: _Lives) -> bool:
    """Whether the things of *line* are made while work is queued, and need not all be there at once."""
    if line[0].is_memory and any(life.end is None for life in line):
        return False  # what is never freed may be needed to the end
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


def _habit(program: Program, lines: Sequence[_Lives]) -> Habit:
    made = sorted((life.made for line in lines for life in line), key=lambda step: step.index)
    ends = dict.fromkeys(life.end.line for line in lines for life in line if life.end is not None)
    begin = _begin_of_loop(program, made)
    if lines[0][0].made.op == _REGISTERS:
        behind = f" (now in {listed(ends)})" if ends else ""
        edit = f"Register all of it before the loop, and unregister it behind the last synchronisation{behind}"
        pool = [[life] for line in lines for life in line]
        ways = [Way(edit, partial(_pooled, pool=pool, begin=begin))]
        return Habit(Pitfall.IN_LOOP, made, "a loop registers memory", ways)
    what = listed(dict.fromkeys(_MAKES[line[0].made.op] for line in lines))
    ways = [_way(lines, times, begin) for times in _LARGER if times == 1 or any(times <= len(line) for line in lines)]
    ended = f", and ends them again ({listed(ends)})" if ends else ""
    return Habit(Pitfall.IN_LOOP, made, f"a loop makes {what}{ended}", ways)


def _way(lines: Sequence[_Lives], times: int, begin: int) -> Way:
    pools = [_pool(line, times * len(_pool(line))) for line in lines]
    counts = listed(
        f"{len(pool)} in place of {len(line)} {_MAKES[line[0].made.op]}"
        for line, pool in zip(lines, pools, strict=True)
    )
    edit = f"Make them before the loop and use them again: {counts}"
    return Way(edit, partial(_pooled, pool=[thing for pool in pools for thing in pool], begin=begin))


def _begin_of_loop(program: Program, made: Sequence[Step]) -> int:
    """Return the first step of the loop in which the steps *made* are: the lines between two of them are its lines."""
    first, task = made[0], made[0].task
    own = [step for step in program.steps if step.task == task]
    again = next(step for step in reversed(made) if (step.line, step.op) == (first.line, first.op))
    lines = by_line(step for step in own if first.index < step.index <= again.index)
    begin = first.index
    for step in reversed([step for step in own if step.index < first.index]):
        if (step.line, step.op, step.task) not in lines:
            break
        begin = step.index
    return begin


def _pooled(case: Case, pool: Sequence[_Lives], begin: int) -> Case:
    """Return *case* with one thing for each of *pool*, made before the step *begin* and ended behind all steps."""
    first = [lives[0].made for lives in pool]
    names = {(life.kind, life.name): lives[0].name for lives in pool for life in lives}
    ends = [life.end for lives in pool for life in lives if life.end is not None]
    gone = {step.index for step in (*(life.made for lives in pool for life in lives), *ends)}
    last_of_each = [lives[-1].end for lives in pool]
    last = [renamed(step, names) for step in last_of_each if step is not None]

    def change(step: Step) -> list[Step]:
        kept = [] if step.index in gone else [renamed(step, names)]
        return [*first, *kept] if step.index == begin else kept

    return case.with_steps(change, last=last)
