"""Fault rules: which calls and operations misbehave, when, and how.

A rule has selectors and a verdict. It selects either calls, by name, or operations, by kind, name, stream or the memory
that they touch. `nth`, `every`, `chance` and the times choose among those. A rule that chooses a call or an operation
*strikes* it.

Rules are asked in the order in which they were made, and the first one that strikes decides. A rule that was asked and
did not strike has still counted the call or operation. A slow engine is apart from this: it can be slow and fail too.
Chance comes from the random generator of the simulation alone, so a run with faults can be repeated like any other.

Each verdict is built from parts that a device has anyway, so engines and queues know nothing of fault rules:

    FAIL       the operation does its time, and its work raises instead (`failing`)
    CORRUPT    its work writes one wrong byte (`corrupting`)
    HANG       its stream waits for a completion that never comes (`Hung`), which a hang report then names
    DELAY      it may start later
    SLOW       its kernel has longer blocks (`slower`), or its engine another curve (`SlowCurve`); or links have less
               capacity (links/fabric.py)
    LOSE       it fails, and all contexts of its device are lost

A runtime asks the rules only while it has some (acl_py/runtime/injection.py).
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Protocol

from device_model import memory
from device_model.completions import Completion, Nanoseconds, Why
from device_model.core_kernels import CoreKernel
from device_model.errors import CodedError, DeviceError, Kind
from device_model.observe import Hooks
from device_model.ops import Op
from device_model.scheduler import Scheduler
from device_model.streams import Stream
from device_model.twins import twin
from device_model.work import Kernel, Work

REMEDY = "let the program handle this, or remove the rule"


class Verdict(Enum):
    """What happens to a call or an operation that a rule strikes."""

    FAIL = "it fails"
    DELAY = "it takes longer: a call on the host, an operation before it moves anything"
    HANG = "it never starts, so it never ends"
    CORRUPT = "it ends well, with wrong bytes"
    SLOW = "its blocks take so many times as long"
    LOSE = "its device is lost: it fails, and so does all that follows"


@dataclass(eq=False)
class Rule:
    """A fault rule.

    Args:
        verdict: What happens to the calls or operations that it strikes.
        text: The rule as the user wrote it, for messages.
        made: The line that made it.
        call: A pattern for names of calls, as in a shell: "Memcpy*".
        op: A pattern for kinds of operations: "h2d", "kernel".
        name: A pattern for names of operations.
        stream: A pattern for names of streams.
        touching: Only operations that read or write these bytes: an allocation, the first byte, the end.
        nth: Only the n-th that matches, counted from 1.
        every: Only every n-th that matches.
        since_ns: Not before this time.
        until_ns: Not from this time on.
        chance: Asked for each that matches; True strikes.
        kind: The failure.
        code: The vendor's code to report, in place of the code of *kind*.
        delay_ns: How much longer a call takes, or how much later an operation may start.
        factor: How many times as long blocks or copies take.
        named: The numbers of the devices that the rule names: the one that is lost, those at the ends of slow links.

    `seen` counts what matched, `struck` what was struck.
    """

    verdict: Verdict
    text: str
    made: object
    _: KW_ONLY
    call: str | None = None
    op: str | None = None
    name: str | None = None
    stream: str | None = None
    touching: tuple[Any, int, int] | None = None
    nth: int | None = None
    every: int | None = None
    since_ns: Nanoseconds = 0
    until_ns: Nanoseconds | None = None
    chance: Callable[[], bool] | None = None
    kind: Kind = Kind.UNKNOWN
    code: int | None = None
    delay_ns: Nanoseconds = 0
    factor: float = 1.0
    named: tuple[int, ...] = ()
    seen: int = field(default=0, init=False)
    struck: int = field(default=0, init=False)

    def __repr__(self) -> str:
        return f"fault rule {self.text} made at {self.made}"

    @property
    def devices(self) -> tuple[int, ...]:
        """The numbers of the only devices where the rule can strike, if it names some, or memory there."""
        return self.named if self.touching is None else (self.touching[0].device,)

    def strikes_call(self, name: str, now: Nanoseconds) -> bool:
        """Count a call of *name*, and return whether the rule strikes it."""
        return self.call is not None and fnmatchcase(name, self.call) and self._counts(now)

    def strikes_op(self, op: Op, stream: Stream, now: Nanoseconds) -> bool:
        """Count *op*, which is about to be queued in *stream*, and return whether the rule strikes it."""
        label = op.work.label
        return (
            self.op is not None
            and fnmatchcase(label.kind, self.op)
            and (self.name is None or fnmatchcase(label.name, self.name))
            and (self.stream is None or _is_called(stream, self.stream))
            and (self.touching is None or self._touches(op.work))
            and self._counts(now)
        )

    def is_in_time(self, now: Nanoseconds) -> bool:
        """Whether the rule is in force at *now*."""
        return self.since_ns <= now and (self.until_ns is None or now < self.until_ns)

    def count(self) -> None:
        """Count a strike that was decided elsewhere: a copy on a slow engine, an allocation beyond a limit."""
        self.seen += 1
        self.struck += 1

    def _touches(self, work: Work) -> bool:
        assert self.touching is not None, "only rules with this selector ask"
        allocation, first, last = self.touching
        extents = (*work.reads(), *work.writes())
        return any(each is allocation and start < last and first < stop for each, start, stop in extents)

    def _counts(self, now: Nanoseconds) -> bool:
        if not self.is_in_time(now):
            return False
        self.seen += 1
        if self.nth is not None and self.seen != self.nth:
            return False
        if self.every is not None and self.seen % self.every:
            return False
        if self.chance is not None and not self.chance():
            return False
        self.struck += 1
        return True


def _is_called(stream: Stream, pattern: str) -> bool:
    given = stream.given_name
    return fnmatchcase(stream.name, pattern) or (given is not None and fnmatchcase(given, pattern))


class Losable(Protocol):
    """A device, as far as fault rules know it."""

    def lose(self, error: DeviceError) -> None:
        """Make every call that touches it fail with *error*; work that has not ended has no effect."""


class InjectedError(CodedError):
    """A failure that a fault rule caused."""

    def __init__(self, kind: Kind, what: str, code: int | None) -> None:
        super().__init__(kind, what, REMEDY, code)


class Hung(Completion):
    """The completion that an operation waits for if a rule lets it hang; done when its device is reset."""

    __slots__ = ("rule", "where")

    remedy = "remove the fault rule, or ResetDevice()"

    def __init__(self, rule: Rule, where: Stream) -> None:
        super().__init__()
        self.rule = rule
        self.where = where  # the stream that hangs

    def __repr__(self) -> str:
        return f"<the end of a hang, injected by {self.rule!r}>"


class Faults:
    """The fault rules of one simulation, and the hangs that they caused.

    An operation that a rule lets hang still hangs when the rule is removed: rules are asked once, when it is queued.
    """

    def __init__(self, scheduler: Scheduler, hooks: Hooks) -> None:
        self._scheduler = scheduler
        self._hooks = hooks
        self.rules: list[Rule] = []  # in force, in the order in which they were made
        self.hung: list[Hung] = []

    def __repr__(self) -> str:
        return f"<Faults rules={len(self.rules)} hung={len(self.hung)}>"

    def of_call(self, name: str, now: Nanoseconds) -> Rule | None:
        """Return the first rule that strikes this call, or None."""
        return self._report(next((rule for rule in self.rules if rule.strikes_call(name, now)), None), name, now)

    def strike(
        self, op: Op, stream: Stream, now: Nanoseconds, wait: Callable[[Completion], object] | None = None
    ) -> Nanoseconds:
        """Ask the rules about *op*, which is about to be queued in *stream*, and apply those that strike.

        *wait* lets the operation wait for a completion, if it does not wait with its stream. Returns how many
        nanoseconds later it may start.
        """
        for rule in self.rules:
            if rule.verdict is Verdict.SLOW and rule.strikes_op(op, stream, now):
                self._report(rule, op, now)
                op.work = slower(op.work, rule.factor)
        others = (rule for rule in self.rules if rule.verdict is not Verdict.SLOW)
        first = self._report(next((rule for rule in others if rule.strikes_op(op, stream, now)), None), op, now)
        if first is None:
            return 0
        if first.verdict is Verdict.DELAY:
            if first.delay_ns:
                op.why = Why.FAULT
            return first.delay_ns
        if first.verdict is Verdict.HANG:
            self.hung.append(Hung(first, stream))
            if wait is None:
                stream.wait(self.hung[-1], Why.FAULT)
            else:
                wait(self.hung[-1])
        elif first.verdict is Verdict.CORRUPT:
            op.work = corrupting(op.work)
        else:
            op.work = failing(op.work, InjectedError(first.kind, f"injected by {first!r}", first.code))
            if first.verdict is Verdict.LOSE:
                self.lose(first, stream.context.device)
        return 0

    def lose(self, rule: Rule, device: Losable) -> None:
        """Lose *device*: work that has not ended has no effect, and every call that touches it fails from now on."""
        device.lose(InjectedError(rule.kind, f"{device!r} is lost: injected by {rule!r}", rule.code))
        self.end_hangs(device)

    def hangs(self, device: Losable) -> bool:
        """Return whether work of *device* hangs."""
        return any(hung.where.context.device is device and not hung.done for hung in self.hung)

    def end_hangs(self, device: Losable) -> None:
        """Complete what hangs on *device*, which was reset or is lost."""
        for hung in self.hung:
            if hung.where.context.device is device and not hung.done:
                hung.complete(self._scheduler.now)
        self.hung = [hung for hung in self.hung if not hung.done]
        self._scheduler.settle()

    def _report(self, rule: Rule | None, subject: Op | str, now: Nanoseconds) -> Rule | None:
        """Give observers the strike of *rule*, if there is one, and return *rule*."""
        if rule is not None and self._hooks.fault is not None:
            self._hooks.fault(rule, subject, now)
        return rule


class SlowCurve:
    """The curve of an engine that *rule* makes slow: *base*, times the factor of the rule while it is in force.

    *strike* is called with the time whenever the rule strikes. Several rules may slow one engine; then the base of one
    is the slow curve of another.
    """

    def __init__(self, base: Any, rule: Rule, scheduler: Scheduler, strike: Callable[[Nanoseconds], None]) -> None:
        self.base = base  # a Curve or a SlowCurve
        self._rule = rule
        self._scheduler = scheduler
        self._strike = strike

    def __getitem__(self, nbytes: int) -> Nanoseconds:
        time: Nanoseconds = self.base[nbytes]
        if not self._rule.is_in_time(self._scheduler.now):
            return time
        self._rule.count()
        self._strike(self._scheduler.now)
        return round(time * self._rule.factor)

    def take_out(self, engine: object, name: str) -> None:
        """Remove this curve from the attribute *name* of *engine*, and keep other slow curves there."""
        top = getattr(engine, name)
        if top is self:
            setattr(engine, name, self.base)
            return
        while top.base is not self:
            top = top.base
        top.base = self.base


def failing(work: Work, error: DeviceError) -> Work:
    """Return work that takes the time of *work* and then fails with *error*."""

    def fail() -> None:
        raise error

    return replacing(work, fail)


def slower(work: Work, factor: float) -> Work:
    """Return a kernel whose blocks take *factor* times as long; other work is returned as it is."""
    if type(work) is not Kernel:
        return work
    replaced: Kernel = twin(work, Kernel)
    replaced.block_ns = round(work.block_ns * factor)
    return replaced


def corrupting(work: Work) -> Work:
    """Return work that does what *work* does, and then flips the byte in the middle of each range that it writes."""

    def corrupt() -> None:
        type(work).perform(performs)
        for allocation, start, stop in work.writes():
            cell = memory.array(allocation, (start + stop) // 2, "u1", 1)
            cell ^= 0xFF

    corrupted = replacing(work, corrupt)
    has_run = isinstance(work, CoreKernel) and not hasattr(work, "instead")
    performs = corrupted if has_run else work  # a core kernel that has run knows whether it has failed
    return corrupted


def replacing(work: Work, perform: Callable[[], None]) -> Work:
    """Return work that takes the time of *work* and touches its bytes, and has the effect of *perform*."""
    if type(work) is Kernel:  # the dispatcher tests for exactly this class
        replaced: Kernel = twin(work, Kernel)
        replaced.body = perform
        return replaced
    variant = _variant(type(work))  # type: ignore[arg-type]  # classes can be hashed
    changed: Work = twin(work, variant)
    changed.instead = perform  # type: ignore[attr-defined]
    return changed


@cache
def _variant(kind: Any) -> Any:
    """Return a subclass of *kind*, a class of work, that calls `instead` when it takes effect."""
    return type(kind.__name__, (kind,), {"__slots__": ("instead",), "perform": lambda self: self.instead()})
