"""A habit: steps of a program that cost more than they must, and the ways to write them better."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from acl_py.calls.steps import OPS
from acl_py.causes.findings import Pitfall
from acl_py.explain.cases import Case, EditError, with_fields
from acl_py.explain.whatif import Answer, Asker
from acl_py.programs.format import STEP, Step

Key = tuple[object, ...]


class Way(NamedTuple):
    """One way to write steps better: the *edit* in words, and the function that makes it. *adds* says what the words
    lack before the answer is known.

    With *in_window* it is worth what the time from the first work to the last wait loses. It moves calls in front of
    the first work, so the whole run is as long as before.
    """

    edit: str
    make: Callable[[Case], Case]
    adds: Callable[[Answer], str] = lambda _: ""
    in_window: bool = False

    def text(self, answer: Answer) -> str:
        """Return the edit in words, after its *answer*."""
        return self.edit + self.adds(answer)


class Habit(NamedTuple):
    """The *steps* of a habit, the first of which is at its line; *what* they do, and the *ways* to do it better.

    If one of the simpler *rivals* is about as good as the best way, the steps are no such habit.
    """

    pitfall: Pitfall
    steps: list[Step]
    what: str
    ways: list[Way]
    rivals: Sequence[Way] = ()


def best(asker: Asker, ways: Iterable[Way]) -> tuple[Way, Answer] | None:
    """Return the way that is worth most, and its answer; None if no way is worth anything.

    A way that cannot be made, or that leaves work without order, is none. If work of the program is in no order, those
    that mend this come first.
    """
    tried = [(way, answer) for way in ways if (answer := _answer(asker, way)) is not None]
    return max(tried, key=lambda each: (each[1].is_in_order, each[1].gain_ns), default=None)


def _answer(asker: Asker, way: Way) -> Answer | None:
    try:
        answer = asker.compare(way.make(asker.case), way.edit)
    except EditError:
        return None
    if way.in_window:
        before_ns, after_ns = answer.worked_ns
        answer = replace(answer, before_ns=before_ns, after_ns=after_ns)
    return answer if answer.gain_ns > 0 and not answer.conflicts else None


def renamed(step: Step, names: Mapping[tuple[str, str], str]) -> Step:
    """Return *step* with other *names*, by kind and old name, of the things that it uses."""
    changed: dict[str, Any] = {}
    for part, field in OPS[step.op].items():
        value = step.fields[part]
        if any(each in names for each in field.mentions(value)):
            changed[part] = field.renamed(value, names)
    return with_fields(step, **changed) if changed else step


def key_of(step: Step, others: Mapping[str, object] = MappingProxyType({}), *, but: str = "") -> Key:
    """Return what is the same if two steps make the same call. Of names, the *others* stand for them; *but* is a field
    that does not count.
    """
    return step.op, *(
        (part, others.get(value, value) if isinstance(value, str) else _fixed(value))
        for part, value in step.fields.items()
        if part != but
    )


def _fixed(value: object) -> object:
    return tuple(map(_fixed, value)) if isinstance(value, list | tuple) else value


def place_of(step: Step) -> str:
    """Return the line of *step*. In a program that was not recorded each step has its own; there it is what the step
    does, to things of whichever name.
    """
    if not step.line.startswith(STEP):
        return step.line
    fields = step.fields
    same = (
        fields.get(part)
        for part in ("stream", "name", "us")
        if part not in OPS[step.op] or not OPS[step.op][part].makes
    )
    return " ".join(map(str, (step.op, *same)))


def line_of(step: Step) -> tuple[str, str, str | None]:
    """Return what steps have in common that one line of a program makes: the place, the call, and the task."""
    return place_of(step), step.op, step.task


def by_line(steps: Iterable[Step]) -> dict[tuple[str, str, str | None], list[Step]]:
    """Return *steps* by what `line_of` says of each."""
    lines: dict[tuple[str, str, str | None], list[Step]] = {}
    for step in steps:
        lines.setdefault(line_of(step), []).append(step)
    return lines


def by_task(steps: Iterable[Step]) -> dict[str | None, list[Step]]:
    """Return *steps* by their task."""
    tasks: dict[str | None, list[Step]] = {}
    for step in steps:
        tasks.setdefault(step.task, []).append(step)
    return tasks
