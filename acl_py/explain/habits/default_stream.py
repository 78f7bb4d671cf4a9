"""Work in the default stream: the streams that it could have.

It can go to the stream of the work on the same bytes, if that waits for all it needs. Or it goes to a stream of its
own, with the events that it then needs. Which of them keeps the order, and which is the fastest, a replay says.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from acl_py.calls.acts import Completed
from acl_py.explain.beside import DEFAULT_STREAM, work_beside
from acl_py.explain.cases import Case, EditError, in_stream, queues, with_fields
from acl_py.explain.fixes import MOST_TRIED, Fixer
from acl_py.explain.habits.habit import Way
from acl_py.programs.format import ProgramError, Step
from device_model.errors import listed

_OWN_STREAM = "own stream of device "
_SHOWN = 3  # neighbours that an edit names


def ways_out(case: Case, steps: Sequence[Step], own: str) -> tuple[list[Way], list[Way]]:
    """Return the ways to take *steps* out of the default stream, or all that is in it. One goes into the streams of
    other work, one into a stream of their own, as *own* says in words.
    """
    chosen = {step.index for step in steps}
    others = [
        step
        for step in case.program.steps
        if step.fields.get("stream") == DEFAULT_STREAM and queues(step) and step.index not in chosen
    ]
    scopes = [(steps, "")]
    if others:
        lines = listed(dict.fromkeys(step.line for step in others))
        scopes.append(([*steps, *others], f"; do the same in {lines}"))
    beside = [way for scope, also in scopes for way in _beside(case, scope, also)]
    return beside, [way for scope, also in scopes for way in _own(scope, own, also)]


def _beside(case: Case, steps: Sequence[Step], also: str) -> Iterator[Way]:
    """Yield the ways to give *steps* the streams of the work on the same bytes: just before them, or just behind."""
    beside = work_beside(case.program, steps)
    earlier = {index: step for index, each in beside.items() if (step := each.before or each.behind)}
    later = {index: step for index, each in beside.items() if (step := each.behind or each.before)}
    tried: list[dict[int, str]] = []
    for near in (earlier, later):
        streams = {index: str(step.fields["stream"]) for index, step in near.items()}
        for choice in (streams, *(dict.fromkeys(beside, stream) for stream in dict.fromkeys(streams.values()))):
            if choice in tried or not choice or DEFAULT_STREAM in choice.values():
                continue
            tried.append(choice)
            names = _names(step for step in near.values() if step.fields["stream"] in choice.values())
            edit = f"Give it the stream of {names}, which works on the same bytes{also}"
            yield Way(edit, partial(_moved, streams=choice))


def _own(steps: Sequence[Step], own: str, also: str) -> Iterator[Way]:
    """Yield the ways to give *steps* a stream of their own: as they are, and with the events that are then needed."""
    yield Way(f"{own}{also}", partial(in_own_stream, steps=steps))
    edit = f"{own}, and order it by events with the work on the same bytes{also}"
    yield Way(edit, partial(_with_events, steps=steps))


def _names(steps: Iterable[Step]) -> str:
    """Return the operations of *steps* and their lines, as text."""
    names = dict.fromkeys(f"{step.fields.get('name') or step.op} ({step.line})" for step in steps)
    return listed([*names][:_SHOWN])


def _moved(case: Case, streams: Mapping[int, str]) -> Case:
    """Return *case* with other *streams* for some steps, by their indices; those that wait become asynchronous."""

    def change(step: Step) -> list[Step]:
        if step.index not in streams:
            return [step]
        stream = streams[step.index]
        return [in_stream(step, stream) if isinstance(step.act, Completed) else with_fields(step, stream=stream)]

    return case.with_steps(change)


def in_own_stream(case: Case, steps: Sequence[Step]) -> Case:
    """Return *case* with a non-blocking stream of their own for *steps*, one on each device."""
    current = case.program.devices()
    devices = {step.index: current[step.index] for step in steps}
    made = {
        f"{_OWN_STREAM}{device}": {"flags": "nonblocking", "priority": 0, "device": device}
        for device in sorted({*devices.values()})
    }
    case = case.with_program(streams={**case.program.streams, **made})
    moved = _moved(case, {index: f"{_OWN_STREAM}{device}" for index, device in devices.items()})
    return moved.noting("a stream costs time to create, once; this is not included")


def _with_events(case: Case, steps: Sequence[Step]) -> Case:
    """Return *case* with a stream of their own for *steps*, and events where the sanitizer finds that these are needed.

    Raises:
        EditError: no events put the work in order.
    """
    moved = in_own_stream(case, steps)
    try:
        fixer = Fixer(moved)
    except ProgramError as error:
        raise EditError(str(error)) from error
    if not 0 < len(fixer.missing) <= MOST_TRIED:
        raise EditError("no event is needed, or too many are")
    mended = fixer.mend()
    if mended.left:
        raise EditError("no events put the work in order")
    return moved.with_program(**{part: getattr(mended.program, part) for part in ("events", "steps")})
