"""A case: a program, and the device and rules under which it runs; and how its steps are changed.

Edits are functions from one case to another (edits.py). They change nothing else: a step that is taken out is gone for
all steps that come after it, and their numbers are corrected.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from acl_py.calls.acts import SLEPT, Act, Asked, Completed, Joined, Synchronised
from acl_py.calls.steps import OPS, written
from acl_py.programs.format import Program, Step
from device_model.profile import DeviceProfile
from device_model.rules import SyncRules

PINNED = "pinned copy of "  # how the name of memory begins that takes the place of pageable memory

NOTES_OF_PINNED = (
    "pinned memory costs time to allocate or to register, once; this is not included",
    (
        "a copy to pinned memory returns before it is done: the host must synchronise before it reads the bytes, and "
        "before it changes the bytes of a copy from there"
    ),
)


class EditError(ValueError):
    """An edit that cannot be made; the message says what is wrong with it, and what there is."""


@dataclass(frozen=True, slots=True)
class Case:
    """A *program* with the *device* and *rules* under which it runs. *notes* say what its times do not contain."""

    program: Program
    device: DeviceProfile
    rules: SyncRules
    notes: tuple[str, ...] = ()

    def noting(self, *notes: str) -> "Case":
        """Return this case with further notes."""
        return replace(self, notes=(*self.notes, *(note for note in notes if note not in self.notes)))

    def with_program(self, **parts: Any) -> "Case":
        """Return this case with other *parts* of its program: `with_program(steps=steps)`."""
        return replace(self, program=replace(self.program, **parts))

    def on_device(self, **parts: Mapping[str, Any]) -> "Case":
        """Return this case with other values of the device: `on_device(cores={"count": 8})`."""
        changed = {part: replace(getattr(self.device, part), **values) for part, values in parts.items()}
        return replace(self, device=replace(self.device, **changed))

    def with_steps(self, change: Callable[[Step], Sequence[Step]], last: Sequence[Step] = ()) -> "Case":
        """Return this case with what *change* makes of each step: none, one or several; and then the *last* ones."""
        return replace(self, program=_renumbered(self.program, [*map(change, self.program.steps)], last))


def queues(step: Step) -> bool:
    """Whether *step* queues something in a stream."""
    act = step.act
    return isinstance(act, Completed | Joined) or (
        "stream" in step.fields and not isinstance(act, Synchronised | Asked)
    )


def names_in(step: Step) -> set[tuple[str, str]]:
    """Return the things that *step* uses, by kind and name; not those that it makes."""
    return {each for part, field in OPS[step.op].items() for each in field.mentions(step.fields[part])}


class Queuing:
    """The steps whose *calls* queue something, each with when it begins and ends: which of them was under way when."""

    def __init__(self, calls: Iterable[tuple[int, int, Step]]) -> None:
        own = sorted((enter, exit_, step.index, step) for enter, exit_, step in calls if queues(step))
        self._enters = [enter for enter, *_ in own]
        self._exits = [exit_ for _, exit_, *_ in own]
        self._latest = [*accumulate(self._exits, max)]  # of the ends of all calls up to here
        self._steps = [step for *_, step in own]

    def at(self, at_ns: int) -> Step | None:
        """Return the step that queued something at *at_ns*: at its end, or while it lasted, but not when it began. Of
        several it is the last to begin.
        """
        place = bisect_left(self._enters, at_ns) - 1
        while place >= 0 and self._latest[place] >= at_ns:
            if self._exits[place] >= at_ns:
                return self._steps[place]
            place -= 1
        return None


def with_fields(step: Step, **fields: Any) -> Step:
    """Return *step* with other values of some fields."""
    return replace(step, fields={**step.fields, **fields})


def made_like(step: Step, act: Act[Any], **fields: Any) -> Step:
    """Return a new step that does *act*, of the task and line of *step*. *fields* are those that are no part of the
    act, and have their defaults if they are not given.
    """
    op, parts = written(act)
    return Step(step.index, op, None, _whole(op, parts | fields), step.thread, step.task, site=step.site)


def in_stream(step: Step, stream: str) -> Step:
    """Return the asynchronous form, in *stream*, of a synchronous copy or fill."""
    op = f"{step.op}_async"
    kept = {name: value for name, value in step.fields.items() if name in OPS[op]}
    return replace(step, op=op, fields=_whole(op, {**kept, "stream": stream}))


def by_rows(step: Step, dpitch: int, spitch: int, height: int) -> Step:
    """Return the copy of *height* rows, as long as the copy *step*, which begin so many bytes apart."""
    op = step.op.replace("memcpy", "memcpy2d")
    kept = {name: value for name, value in step.fields.items() if name in OPS[op]}
    rows = {"width": step.fields["bytes"], "height": height, "dpitch": dpitch, "spitch": spitch}
    return replace(step, op=op, fields=_whole(op, kept | rows))


def _whole(op: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields.get(name, field.default) for name, field in OPS[op].items()}


def _renumbered(program: Program, pieces: Sequence[Sequence[Step]], last: Sequence[Step]) -> Program:
    """Return *program* with *pieces* in place of its steps, and the *last* ones behind them.

    What a step that is gone came after, the next step of its task comes after.
    """
    steps: list[Step] = []
    ends: list[int | None] = []  # for each old step the new index of its last piece, or of the step of its task before
    latest: dict[str | None, int] = {}
    held: dict[str | None, dict[int, None]] = {}  # by task: the old steps that its next step comes after
    for old, piece in zip(program.steps, pieces, strict=True):
        if not piece and old.after is not None:
            held.setdefault(old.task, {})[old.after] = None
        for step in piece:
            behind = [each for each in held.pop(step.task, ()) if each != step.after]
            after = behind.pop() if behind and step.after is None else step.after
            # A step comes after one other: for each further one there is a sleep of no time.
            sleeps = ((made_like(step, SLEPT, us=0), each) for each in behind)
            for each, before in (*sleeps, (step, after)):
                index, new = len(steps), None if before is None else ends[before]
                latest[each.task] = index
                is_same = each.index == index and each.after == new
                changed = (index, each.op, each.id, each.fields, each.thread, each.task, new, each.site)
                steps.append(each if is_same else Step(*changed))
        ends.append(latest.get(old.task))
    steps += [replace(step, index=len(steps) + place, after=None) for place, step in enumerate(last)]
    return replace(program, steps=tuple(steps))
