"""Results that the host fetches one by one: a synchronous copy in each step, often with a synchronisation before it.

Instead, each copy is queued behind the work that makes its result, into pinned memory of its own, and the host reads
all results behind the next synchronisation that is left. The synchronisation before the copy goes, too.
"""

from collections.abc import Sequence
from functools import partial

from acl_py.calls.acts import Asked, Completed, Plain, Queued, Synchronised
from acl_py.calls.steps import HOST_ACCESS, Name
from acl_py.explain.beside import work_beside
from acl_py.explain.cases import NOTES_OF_PINNED, Case, EditError, in_stream, made_like, with_fields
from acl_py.explain.habits.habit import Way
from acl_py.programs.format import Program, Step
from device_model.errors import listed

_EDIT = (
    "Use MemcpyAsync() in the stream of the work that makes the result, into pinned memory with a place for each "
    "result; read them behind the next synchronisation that is left"
)
_OF_DEVICE = Synchronised(Name("device"))
_RESULT = "pinned result {number} of "


def fetched_later(program: Program, steps: Sequence[Step]) -> list[Way]:
    """Return the ways to fetch later what the synchronous copies *steps* bring to the host, if there are several."""
    if len(steps) < 2:
        return []
    waits = _waits_before(program, steps)
    ways = [Way(_EDIT, partial(_fetched, steps=steps, waits=()))]
    if waits:
        lines = listed(dict.fromkeys(wait.line for wait in waits))
        edit = f"{_EDIT}. The wait before it ({lines}) is needless then, if it stands there for this copy alone"
        ways.insert(0, Way(edit, partial(_fetched, steps=steps, waits=waits)))
    return ways


def _waits_before(program: Program, steps: Sequence[Step]) -> list[Step]:
    """Return the synchronisations just before *steps*, of which nothing else is known that needs them."""
    waits = []
    for step in steps:
        before = (other for other in reversed(program.steps[: step.index]) if other.task == step.task)
        wait = next((other for other in before if other.act != HOST_ACCESS), None)
        if wait is not None and _is_wait(wait) and not _is_watched(program, wait, step):
            waits.append(wait)
    return waits


def _is_wait(step: Step) -> bool:
    match step.act:
        case Synchronised(Name("stream" | "event" | "device"), None):
            return True
    return False


def _is_watched(program: Program, wait: Step, copy: Step) -> bool:
    """Whether somebody may tell that *wait* is over: by a time, a query, or another task that goes on behind it, until
    the task of *copy* waits again.
    """
    passed: set[int] = set()
    for step in program.steps[wait.index :]:
        if step.after in passed and step.task != copy.task:
            return True
        if step.task != copy.task:
            continue
        passed.add(step.index)
        if isinstance(step.act, Asked) or (isinstance(step.act, Plain) and step.act != HOST_ACCESS):
            return True
        if step.index > copy.index and isinstance(step.act, Synchronised):
            return False
    return False


def _fetched(case: Case, steps: Sequence[Step], waits: Sequence[Step]) -> Case:
    program, beside = case.program, work_beside(case.program, steps)
    host = program.buffers_in("pinned", "pageable")
    if any(step.fields.get("dst") not in host or "bytes" not in step.fields for step in steps):
        raise EditError("these are no copies to the host")
    sources = {step.index: beside[step.index].before for step in steps}
    if any(source is None for source in sources.values()):
        raise EditError("what makes the results is not known")
    gone = {wait.index for wait in waits}
    buffers = dict(program.buffers)
    instead: dict[int, list[Step]] = {index: [] for index in gone}
    behind: dict[int, list[Step]] = {}
    last: dict[int, dict[str, None]] = {}  # the streams for which the host waits behind a copy
    for number, step in enumerate(steps, 1):
        source, fields = sources[step.index], step.fields
        assert source is not None, "it was checked above"
        name = _RESULT.format(number=number) + fields["dst"]
        buffers[name] = {"space": "pinned", "bytes": max(fields["bytes"], 1), "device": 0}
        queued = in_stream(with_fields(step, dst=name, dst_off=0), source.fields["stream"])
        instead[step.index] = [queued]
        reads = _reads_of(program, step)
        moved = [_of_result(read, step, name) for read in reads]
        instead |= {read.index: [] for read in reads}
        wait = _next_wait(program, step, gone)
        if wait is not None:
            behind.setdefault(wait.index, []).extend(moved)
        else:  # behind the last copy of the task
            own = [other for other in steps if other.task == step.task][-1]
            last.setdefault(own.index, {})[source.fields["stream"]] = None
            behind.setdefault(own.index, []).extend(moved)
    case = case.with_program(buffers=buffers)

    def change(step: Step) -> list[Step]:
        waits = [made_like(step, Synchronised(Name("stream", stream))) for stream in last.get(step.index, ())]
        return [*instead.get(step.index, [step]), *waits, *behind.get(step.index, [])]

    changed = case.with_steps(change)
    return changed.noting(NOTES_OF_PINNED[0], "whether the host needs a result before the next step")


def _reads_of(program: Program, copy: Step) -> list[Step]:
    """Return the accesses in which the task of *copy* reads what it has brought, and nothing else, before it is
    overwritten.
    """
    found = []
    begin, to = copy.fields["dst_off"], copy.fields["dst"]
    for step in program.steps[copy.index + 1 :]:
        if step.fields.get("dst") == to and isinstance(step.act, Queued | Completed):
            break
        extents = [*step.fields.get("reads", ()), *step.fields.get("writes", ())]
        if step.act == HOST_ACCESS and step.task == copy.task and any(name == to for name, *_ in extents):
            end = begin + copy.fields["bytes"]
            if step.fields["writes"] or any(name != to or start < begin or stop > end for name, start, stop in extents):
                raise EditError(f"step {step.index} ({step.op}) uses the result for more than reading it")
            found.append(step)
    return found


def _of_result(read: Step, copy: Step, name: str) -> Step:
    """Return *read* from the memory *name*, to which only *copy* copies."""
    begin = copy.fields["dst_off"]
    return with_fields(read, reads=[[name, start - begin, stop - begin] for _, start, stop in read.fields["reads"]])


def _next_wait(program: Program, copy: Step, gone: set[int]) -> Step | None:
    """Return the next synchronisation with the device that the task of *copy* makes and that is not *gone*."""
    for step in program.steps[copy.index + 1 :]:
        if step.task == copy.task and step.index not in gone and step.act == _OF_DEVICE:
            return step
    return None
