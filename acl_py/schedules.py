"""Schedules: what a run of a program does at its choice points (device_model/choices.py).

A `Schedule` numbers the choice points of each kind as they come, lets a function decide, and notes where the decision
was not the default. These *deviations* are all that is needed to repeat the run. As text, `delay@3=1` says: at the
third choice point of the kind `delay`, take option 1. Simulations and event loops that begin while a schedule is
followed (`following`) have its choice points, and all others have none.

`Effects` says when operations have their effects; `having` sets what simulations have that do not say it themselves.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from types import FrameType
from typing import Any, NamedTuple, Protocol

from acl_py.callers import current_caller, described
from acl_py.sites import site_of
from device_model.choices import FACTORS, LATENESS_NS, Choice, Choices
from device_model.ops import Op
from device_model.scheduler import Scheduler

_DEVIATION = re.compile(r"([a-z]+)@([1-9]\d*)=([1-9]\d*)")


class Point(NamedTuple):
    """A choice point: the *number*-th of its *kind* in the run, counted from 1, with so many options."""

    kind: Choice
    number: int
    options: int


class Deviation(NamedTuple):
    """A decision that is not the default: at the *number*-th choice point of a *kind*, *option*, which is not 0."""

    kind: Choice
    number: int
    option: int

    def __str__(self) -> str:
        return f"{self.kind}@{self.number}={self.option}"


def parse(text: str) -> list[Deviation]:
    """Return the deviations that *text* names, separated by spaces or commas.

    Raises:
        ValueError: One of them is not of the form KIND@NUMBER=OPTION, or is named twice.
    """
    deviations: dict[tuple[Choice, int], Deviation] = {}
    for word in re.split(r"[\s,]+", text.strip()):
        match = _DEVIATION.fullmatch(word)
        if match is None or match[1] not in set(Choice):
            kinds = ", ".join(Choice)
            raise ValueError(f"{word!r} is not a deviation, such as delay@3=1; the kinds are {kinds}")
        deviation = Deviation(Choice(match[1]), int(match[2]), int(match[3]))
        if deviations.setdefault(deviation[:2], deviation) is not deviation:
            raise ValueError(f"the schedule names {deviation.kind}@{deviation.number} twice")
    return list(deviations.values())


# Returns the option to take at a point. *actors* are those whom the choice is about: of an order, one for each option;
# of any other choice, the one stream or caller.
Decide = Callable[[Point, Sequence[object]], int]


class Replay:
    """Decides as some *deviations* say, and as the model does everywhere else."""

    def __init__(self, deviations: Iterable[Deviation]) -> None:
        self._options = {deviation[:2]: deviation.option for deviation in deviations}

    def __call__(self, point: Point, actors: Sequence[object]) -> int:  # noqa: ARG002 - it decides by the point alone
        """Return the option at *point*; 0 if it has no such option in this run."""
        option = self._options.get(point[:2], 0)
        return option if option < point.options else 0


class _Simulated(Protocol):
    @property
    def scheduler(self) -> Scheduler: ...


class Schedule:
    """One run's choice points. *decide* answers them; *note* is called with each deviation and a line about it."""

    def __init__(self, decide: Decide, note: Callable[[Deviation, str], object] = lambda *_: None) -> None:
        self._decide = decide
        self._note = note
        self._numbers: Counter[Choice] = Counter()
        self.points: list[Point] = []  # in the order in which they came
        self.deviations: list[Deviation] = []
        self.choices = Choices(self.choose)

    def choose(self, kind: Choice, options: Sequence[object], op: Op | None) -> int:
        """Return the index of the option to take at the next point of *kind*, which is about *op*, if it has one."""
        self._numbers[kind] += 1
        point = Point(kind, self._numbers[kind], len(options))
        self.points.append(point)
        option = self._decide(point, _actors(kind, options, op))
        if option:
            assert 0 < option < len(options), f"{point} has no option {option}"
            deviation = Deviation(*point[:2], option)
            self.deviations.append(deviation)
            self._note(deviation, _TEXTS[kind](options, option, op))
        return option


def _actors(kind: Choice, options: Sequence[object], op: Op | None) -> Sequence[object]:
    if kind is Choice.TASK:
        return options
    if kind in (Choice.ENGINE, Choice.TIE):
        return [each.stream for each in options if isinstance(each, Op)]
    return (current_caller() if op is None else op.stream,)


_current: Schedule | None = None


def current() -> Schedule | None:
    """Return the schedule that simulations follow which begin now; None: they have no choice points."""
    return _current


@contextmanager
def following(schedule: Schedule) -> Iterator[Schedule]:
    """Let the simulations and event loops that begin in this block, in any task or thread, follow *schedule*."""
    global _current
    assert _current is None, "a schedule is being followed already"
    _current = schedule
    try:
        yield schedule
    finally:
        _current = None


def enter(runtime: _Simulated) -> None:
    """Give *runtime*, which begins, the choice points of the current schedule, if there is one."""
    if _current is not None:
        runtime.scheduler.choices = _current.choices


# --- effects


class Effects(StrEnum):
    """When operations have their effects; the values are the words of `effects=`."""

    STRONG = "strong"  # whole, at their ends
    WEAK = "weak"  # what no promise orders, in the other order: see sanitizer/reversed_effects.py
    TORN = "torn"  # the same, and half of the bytes are there


_effects = Effects.STRONG


def effects_of(effects: str | None) -> Effects:
    """Return what `effects=` asks for; None: what the simulations have that do not say it.

    Raises:
        ValueError: There is nothing of that name.
    """
    if effects is None:
        return _effects
    if effects not in {*Effects}:
        raise ValueError(f"effects must be {' or '.join(map(repr, map(str, Effects)))}, not {effects!r}")
    return Effects(effects)


@contextmanager
def having(effects: Effects) -> Iterator[None]:
    """Let the simulations that begin in this block, in any task or thread, have *effects* unless they say otherwise."""
    global _effects
    before, _effects = _effects, effects
    try:
        yield
    finally:
        _effects = before


# --- deviations in words


def _named(op: object) -> str:
    assert isinstance(op, Op), f"{op!r} is no operation"
    label = op.work.label
    name = label.name if label.name == label.kind else f"{label.kind} '{label.name}'"
    return f"{name} on {op.stream.name}, queued at {op.site},"


_EFFECTS = ("", "has its effect at its start", "has half of its effect at its start")


def _here() -> str:
    """Return the line of the program that is running."""
    frame = sys._getframe()
    while frame.f_back is not None and (frame.f_code.co_filename == __file__ or _is_of_device(frame)):
        frame = frame.f_back
    return str(site_of(frame))


def _is_of_device(frame: FrameType) -> bool:
    module: str = frame.f_globals.get("__name__", "")
    return module.startswith("device_model.")


_TEXTS: dict[Choice, Callable[[Sequence[Any], int, Op | None], str]] = {
    Choice.HOST: lambda _, option, __: (
        f"{described(current_caller())} is {LATENESS_NS[option] // 1000} us late at {_here()}"
    ),
    Choice.DELAY: lambda _, option, op: f"{_named(op)} starts {LATENESS_NS[option] // 1000} us later",
    Choice.DURATION: lambda _, option, op: f"{_named(op)} takes {FACTORS[option]:g} times as long",
    Choice.EFFECT: lambda _, option, op: f"{_named(op)} {_EFFECTS[option]}",
    Choice.ENGINE: lambda ops, option, _: f"{_named(ops[option])} gets the engine before {_named(ops[0])[:-1]}",
    Choice.TIE: lambda ops, option, _: f"{_named(ops[option])} ends before {_named(ops[0])[:-1]}",
    Choice.STAGED: lambda *_: f"the copy of pageable memory at {_here()} takes place after the call has returned",
    Choice.TASK: lambda tasks, option, _: f"{described(tasks[option])} runs before {described(tasks[0])}",
}
