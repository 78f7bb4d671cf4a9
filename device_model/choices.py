"""Choices: what a run may do in another way than the model, within what the vendors promise.

The model has one answer where a card has many. A copy takes the time that the profile says, the effect of a kernel
happens at its end, an engine with two heads takes a certain one. A program that is right must be right for all of them.
With `Choices`, each such place is a *choice point*: it asks a function of the caller which of several options to take.
Option 0 is always the model's own answer, so a run that takes option 0 everywhere is the default run to the nanosecond.

A scheduler without choices (`Scheduler.choices` is None) has no choice points; that costs one comparison at each.
The order that the promises guarantee is never broken: an operation begins after all that it has to wait for.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from heapq import heappop, heappush
from typing import Any

from device_model.completions import Completion, Nanoseconds, Why
from device_model.faults import failing, replacing, slower
from device_model.ops import Op
from device_model.scheduler import Action, Scheduler
from device_model.work import Copy, Fill, Kernel, PitchedCopy, Work


class Choice(StrEnum):
    """The kinds of choice points."""

    HOST = "host"  # the host reaches a call later
    DELAY = "delay"  # an operation starts later
    DURATION = "duration"  # it takes longer, or less time
    EFFECT = "effect"  # its effect happens before its end
    ENGINE = "engine"  # which of the operations that could start an engine takes
    TIE = "tie"  # which of the operations that end at one instant ends first
    STAGED = "staged"  # a copy of pageable memory returns before its bytes are staged
    TASK = "task"  # which of the tasks that can run does


# The options. The times are long beside those of calls and small copies, or long beside those of whole small programs.
LATENESS_NS: tuple[Nanoseconds, ...] = (0, 20_000, 1_000_000)  # of HOST and DELAY
FACTORS = (1.0, 8.0, 0.125)  # of DURATION
EFFECTS = ("at its end", "at its start", "half of it at its start")  # of EFFECT; the last of copies and fills only
STAGED = ("staged by the host", "copied after the call has returned")

# Takes one of the *options* at a choice point about an operation (None: about the host); returns its index.
Choose = Callable[[Choice, Sequence[object], Op | None], int]


class Choices:
    """The choice points of the devices of one simulation; *choose* answers them."""

    __slots__ = ("_factors", "_started", "choose")

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self._factors: dict[Op, float] = {}  # of copies and fills that have not started
        self._started: dict[Op, str] = {}  # operations that have an effect before their end, and which

    def host_lateness(self) -> Nanoseconds:
        """Return how much later the host goes on than the model says."""
        return self._lateness(Choice.HOST, None)

    def is_not_staged(self) -> bool:
        """Return whether a copy of pageable memory takes place without the host, which goes on at once."""
        return bool(self.choose(Choice.STAGED, STAGED, None))

    def next_of(self, ops: Sequence[Op]) -> int:
        """Return the index of the one of *ops* that an engine takes."""
        return self._pick(Choice.ENGINE, ops)

    def _lateness(self, kind: Choice, op: Op | None) -> Nanoseconds:
        return LATENESS_NS[self.choose(kind, LATENESS_NS, op)]

    def _pick(self, kind: Choice, ops: Sequence[Op]) -> int:
        return self.choose(kind, ops, None) if len(ops) > 1 else 0

    def order(self, heap: list[tuple[Nanoseconds, int, Action, Any]], now: Nanoseconds) -> None:
        """Choose in which order the operations end that end *now*. Other actions of *heap* keep their numbers."""
        due = []
        while heap and heap[0][0] == now:
            due.append(heappop(heap))
        numbers = [entry[1] for entry in due]
        subjects = [entry[3] for entry in due]  # an operation that is there twice does more than end
        places = [place for place, op in enumerate(subjects) if isinstance(op, Op) and subjects.count(op) == 1]
        ends = [due[place] for place in places]
        for place in places:
            due[place] = ends.pop(self._pick(Choice.TIE, [entry[3] for entry in ends]))
        for number, (_, _, action, subject) in zip(numbers, due, strict=True):
            heappush(heap, (now, number, action, subject))

    def queued(self, op: Op) -> None:
        """Choose how *op*, which is being queued, will run, and whether its stream waits before it."""
        work = op.work
        if isinstance(work, Kernel | Copy | Fill):
            factor = FACTORS[self.choose(Choice.DURATION, FACTORS, op)]
            if isinstance(work, Kernel):
                op.work = slower(work, factor)
            elif factor != 1:
                self._factors[op] = factor
            options = EFFECTS if type(work) in (Copy, Fill) else EFFECTS[:2]
            effect = self.choose(Choice.EFFECT, options, op)
            if effect:
                self._started[op] = EFFECTS[effect]
        delay = self._lateness(Choice.DELAY, op)
        if delay:  # a completion that it waits for: its engine must not wait, too
            scheduler, late = op.stream.scheduler, Completion()
            scheduler.at(scheduler.now + delay, _complete, (late, scheduler))
            op.stream.pending[late] = Why.HOST

    def started(self, op: Op, duration_ns: Nanoseconds) -> Nanoseconds:
        """Note that *op* starts at `op.start_ns`. Return how long it takes, if that is *duration_ns* by the profile."""
        if op in self._started:
            op.stream.scheduler.at(op.start_ns, self._take_effect, op)
        factor = self._factors.pop(op, 1.0)
        return duration_ns if factor == 1 else round(duration_ns * factor)

    def _take_effect(self, op: Op) -> None:
        """Let *op* have its effect, or half of it, at its start. If it fails, the failure is still found at its end."""
        whole = self._started.pop(op) == EFFECTS[1]
        context = op.stream.context
        if op.done or (context.error is not None and op.start_ns >= context.failed_ns):
            return
        context.device.workers.prepare(op)
        work = op.work
        try:
            (work if whole else _half(work)).perform()
        except BaseException as error:  # whatever the work raises, the operation fails
            op.work = failing(work, work.failure(error))
            return
        if whole:
            op.work = replacing(work, _nothing)


def _half(work: Work) -> Work:
    """Return the first half of a copy or a fill; of rows, those of the upper half."""
    kind: Callable[..., Work] = type(work)
    if isinstance(work, PitchedCopy):
        return kind(
            work.label, work.dst, work.dst_offset, work.dst_pitch, work.src, work.src_offset, work.src_pitch,
            work.width, work.height // 2,
        )  # fmt: skip
    if isinstance(work, Copy):
        return kind(work.label, work.dst, work.dst_offset, work.src, work.src_offset, work.nbytes // 2)
    assert isinstance(work, Fill), f"{work!r} has no halves"
    return kind(work.dst, work.offset, work.value, work.nbytes // 2, work.unit)


def _complete(late: tuple[Completion, Scheduler]) -> None:
    """Complete what an operation waits for because it starts later."""
    late[0].complete(late[1].now)


def _nothing() -> None:
    """Stand for the body of work that has had its effect."""
