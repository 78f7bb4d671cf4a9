"""The launch of a kernel in PTX, as the rest of the device sees it.

It runs at its simulated start, because only its run tells how long it takes. What it stores goes to private copies of
the memory, and is published at its end.

If its lanes wait for others or for a time, it pauses. It publishes what it has stored when the clock is there, and goes
on when the time has come, or when the bytes that the lanes look at are others.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from device_model.core_kernels import CoreKernel, Occupation, Pause
from device_model.errors import DeviceError, Kind
from device_model.memory import Memory, forget
from device_model.ptx.arguments import Bytes
from device_model.ptx.checks.hazards import Hazards
from device_model.ptx.device_memory import ENVIRONMENT, DeviceMemory
from device_model.ptx.lanes import launch as lanes
from device_model.ptx.lanes.clocks import Clock, Polled
from device_model.ptx.lanes.ends import AssertionFailedError
from device_model.ptx.lanes.group import Ints
from device_model.ptx.lanes.launch import Dim3
from device_model.ptx.lanes.memory import AccessError, MisalignedError
from device_model.ptx.results import Result, Timeline
from device_model.ptx.runner import Run, Wait
from device_model.ptx.text.syntax import Module
from device_model.ptx.timing.estimate import Timing
from device_model.ptx.timing.plan import Plan, Sole
from device_model.work import Extent, Label, Work

_BYTE = np.dtype(np.uint8)
# The first class that fits counts.
_KINDS = {
    MisalignedError: Kind.MISALIGNED_ADDRESS,
    AccessError: Kind.ILLEGAL_ADDRESS,
    AssertionFailedError: Kind.ASSERTION_FAILED,
}


class Shape(NamedTuple):
    """How a kernel is launched.

    Attributes:
        grid: The blocks in each direction.
        block: The threads of a block in each direction.
        shared: The bytes of dynamic shared memory of a block.
    """

    grid: Dim3
    block: Dim3
    shared: int = 0


class Condition(Protocol):
    """A condition of a graph."""

    def set(self, value: object) -> None:
        """Give it a *value*."""


class Setup:
    """What all launches of a kernel in one shape on one device share.

    Args:
        label: The name of the kernel, for reports.
        module: The text that the kernel is from.
        plan: The kernel, and how it uses the card.
        shape: How it is launched.
        memory: The living allocations.
        device: The number of the device.
        overhead_ns: From the end of the blocks of a launch to its end.
        conditions: The conditions of graphs, by number.
        hazards: Whether accesses are checked.
        is_cooperative: Whether blocks may wait for one another.
        values: Whether memory has values.
    """

    __slots__ = (
        "conditions", "device", "hazards", "is_cooperative", "label", "memory", "module", "overhead_ns", "plan",
        "shape", "values",
    )  # fmt: skip

    def __init__(
        self,
        label: Label,
        module: Module,
        plan: Plan,
        shape: Shape,
        memory: Memory,
        device: int,
        overhead_ns: int,
        conditions: Mapping[int, Condition] = MappingProxyType({}),
        *,
        hazards: bool = True,
        is_cooperative: bool = False,
        values: bool = True,
    ) -> None:
        self.values = values
        self.label = label
        self.module = module
        self.plan = plan
        self.shape = shape
        self.memory = memory
        self.device = device
        self.overhead_ns = overhead_ns
        self.conditions = conditions
        self.hazards = hazards
        self.is_cooperative = is_cooperative


class DriverLaunch(Work):
    """A launch that a driver makes: the kernel *entry* of the module of *setup*, with its parameter memory.

    Which bytes it reads and writes is not known: *given*, the memory that its arguments name, has more.
    """

    __slots__ = ("entry", "label", "nbytes", "parameters", "setup")

    def __init__(self, setup: Setup, entry: str, parameters: Bytes, given: Sequence[Extent]) -> None:
        self.label = setup.label
        self.setup = setup
        self.entry = entry
        self.parameters = parameters
        self.nbytes = sum([stop - start for _, start, stop in given])


class Launch(CoreKernel):
    """A kernel in PTX with its grid and arguments: the work of one operation.

    Args:
        setup: The kernel, and how and where it is launched.
        parameters: The bytes of its arguments.
        given: The memory that the arguments point to, from there to its end.
        peers: The devices that its device has access to.
        limit_ns: A kernel that takes longer fails after this time, and its results are lost; 0 means no limit.

    Attributes:
        result: The result of the run; None before it.
    """

    __slots__ = (
        "_checks",
        "_clock",
        "_failure",
        "_given",
        "_held",
        "_is_due",
        "_memory",
        "_peers",
        "_polled",
        "_read",
        "_run",
        "_settings",
        "_shown",
        "_timing",
        "_written",
        "blocks",
        "cores",
        "has_waited",
        "label",
        "limit_ns",
        "moves_pages",
        "nbytes",
        "parameters",
        "plan",
        "released",
        "result",
        "setup",
    )  # fmt: skip

    alone = True  # which bytes it uses is known once it has run

    def __init__(
        self, setup: Setup, parameters: Bytes, given: Sequence[Extent], peers: Collection[int], limit_ns: int = 0
    ) -> None:
        plan = setup.plan
        self.setup = setup
        self.plan = plan
        self.label = setup.label
        self.blocks = plan.blocks
        self.cores = plan.cores
        self.parameters = parameters
        self.limit_ns = limit_ns
        self._peers = peers
        self._given = self._read = self._written = given
        self.nbytes = sum([stop - start for _, start, stop in given]) if given else 0
        self.moves_pages = bool(given) and any(each.pages is not None for each, _, _ in given)  # type: ignore[misc]
        self.result: Result | None = None
        self.released: Sequence[tuple[int, int]] = ()
        self.has_waited = False
        self._failure: DeviceError | None = None

    @property
    def shape(self) -> Shape:
        """How the kernel is launched."""
        return self.setup.shape

    @property
    def may_wait(self) -> bool:  # type: ignore[override]
        """Whether it can look at memory until others change it."""
        return self.plan.program.tells_time

    def failure(self, error: BaseException) -> DeviceError:
        """Return the failure of the kernel: its kind is that of what stopped it."""
        kinds = (kind for stop, kind in _KINDS.items() if isinstance(error.__cause__, stop))
        return self._raised_in(next(kinds, Kind.LAUNCH_FAILURE), error, "the exception is the cause of this error")

    def reads(self) -> Sequence[Extent]:
        """Return what the arguments point to, and once the kernel has run, the bytes that it has read."""
        return self._read

    def writes(self) -> Sequence[Extent]:
        """Return what the arguments point to, and once the kernel has run, the bytes that it has written."""
        return self._written

    def foreseen_ns(self) -> int | None:
        """Return how long it takes, if it touches nothing and one of its shape has run."""
        sole = self.plan.sole
        return None if sole is None or 0 < self.limit_ns < sole.duration_ns else sole.duration_ns

    def run(self, start_ns: int) -> Occupation | Pause:
        """Run all blocks on the present contents of the memory; `perform` raises the error if one stops them."""
        setup, plan = self.setup, self.plan
        result = self.result = Result()
        self._failure = None  # a launch of a graph makes the same work once more
        self.has_waited = False
        self._settings: dict[int, int] = {}  # the values of conditions that this launch has set
        self._held = self.cores  # that it still takes
        self._is_due = False  # whether only the publishing of its stores is left
        self._shown = 0  # changes of memory that are published
        self._polled: list[tuple[Ints, Bytes]] = []  # addresses of bytes that lanes look at, and what they found there
        given = [allocation for allocation, _, _ in self._given]
        self._memory = DeviceMemory(
            setup.memory, given, setup.device, self._peers, has_workspace=setup.is_cooperative, values=setup.values
        )  # fmt: skip
        launch = lanes.Launch(
            setup.shape.grid, setup.shape.block, self.parameters, self._memory, setup.shape.shared,
            sms=plan.card.sms, messages=result.messages, conditions=setup.conditions, settings=self._settings,
            environment=ENVIRONMENT if setup.is_cooperative else {},
        )  # fmt: skip
        self._checks = Hazards(setup.module, plan.program) if setup.hazards else None
        self._timing = Timing(plan, launch, start_ns)
        clock = self._clock = launch.clock = self._timing.clock
        launch.watches = tuple(each for each in (self._checks, clock, self._timing.watch) if each is not None)
        self._run = Run(plan.program, launch)
        return self._advance()

    def go_on(self, after_ns: int) -> Occupation | Pause:
        """Publish what was stored, if its time has come, and go on."""
        if 0 < self.limit_ns <= after_ns:
            return self._stopped(self.out_of_time(after_ns), self.limit_ns)
        clock = self._clock
        assert clock is not None, "a kernel that waits has a clock"
        clock.go_to(after_ns)
        has_shown, self._is_due = self._is_due, False
        if has_shown:
            self._show()
        outcome = self._advance()
        return outcome._replace(has_shown=True) if has_shown and isinstance(outcome, Pause) else outcome

    def is_over(self) -> bool:
        """Return whether the bytes that lanes look at are others than those that they found."""
        return any(not np.array_equal(self._bytes_at(places), found) for places, found in self._polled)

    def give_up(self, after_ns: int) -> Occupation:
        """End with the error for lanes that wait for what never happens."""
        return self._stopped(self.failure(self._run.hang()), after_ns)

    def _advance(self) -> Occupation | Pause:
        """Run lanes until all have ended, or none can go on."""
        try:
            wait = self._run.go_on()
        except BaseException as error:
            return self._stopped(self.failure(error))
        finally:
            if self._checks is not None and self.result is not None:
                self.result.findings = self._checks.findings
        if wait is None:
            return self._ended()
        if self._clock is None:
            return self._stopped(self.failure(self._run.hang()))
        return self._pause(wait, self._clock)

    def _pause(self, wait: Wait, clock: Clock) -> Pause:
        """Wait until what was stored can be published; if it is, for what the lanes wait for."""
        self.has_waited |= any(each.space == "global" for each in wait.polled)
        self._held = min(self._held, -(-self._run.blocks_left // self._timing.resident))
        self._is_due = self._run.changes > self._shown and clock.stored > clock.now
        if self._is_due:
            self._polled = []
            return Pause(clock.nanoseconds(clock.stored), self._held)
        has_shown = self._run.changes > self._shown
        self._show()
        self._polled = [(places, self._bytes_at(places)) for places in _places(wait.polled)]
        times = [] if wait.until is None else [clock.nanoseconds(wait.until)]
        times += [self.limit_ns] if self.limit_ns else []
        return Pause(min(times, default=None), self._held, has_shown)

    def _show(self) -> None:
        self._shown = self._run.changes
        self._memory.publish()

    def _ended(self) -> Occupation:
        read, written = self._memory.read(), self._memory.written()
        timeline = Timeline(self._timing, read, written, self.setup.overhead_ns)
        if self.plan.program.touches_nothing:
            took_ns = timeline.duration_ns
            self.plan.sole = Sole(timeline, took_ns, ((took_ns, self.cores),))
        return self._took(timeline, read, written)

    def _took(self, timeline: Timeline, read: Sequence[Extent], written: Sequence[Extent]) -> Occupation:
        assert self.result is not None, "it has run"
        self._read, self._written, self.result.timeline = read, written, timeline
        if 0 < self.limit_ns < timeline.duration_ns:
            return self._stopped(self.out_of_time(timeline.duration_ns), self.limit_ns)
        self.released = ((timeline.duration_ns, self._held),)
        return Occupation(timeline.duration_ns, self.released)

    def _bytes_at(self, places: Ints) -> Bytes:
        """Return the bytes at these addresses, as others see them; nothing of memory that is gone."""
        found = []
        for place in places.tolist():
            region = self._memory.find(place)
            found.append(0 if region is None else int(region.peek(_BYTE, np.array([place - region.start]))[0]))
        return np.array(found, np.uint8)

    def _stopped(self, failure: DeviceError, after_ns: int = 0) -> Occupation:
        self._failure = failure
        return Occupation(after_ns, ((after_ns, self._held),))

    def perform(self) -> None:
        """Publish what the lanes have stored and set, or raise the error that stopped them."""
        if self._failure is not None:
            raise self._failure
        sole = self.plan.sole
        if sole is not None:  # it touches nothing, and need not have run
            self.result = Result(sole.timeline)
            self._read = self._written = ()
            self.released = sole.released
            return
        if self.setup.values:
            self._memory.publish()
        else:
            for allocation, start, stop in self._written:
                forget(allocation, start, stop, f"kernel {self.label}")
        for number, value in self._settings.items():
            self.setup.conditions[number].set(value)


def _places(polled: Sequence[Polled]) -> list[Ints]:
    """Return the addresses of the bytes in global memory that accesses have looked at."""
    return [np.unique(each.places[:, None] + np.arange(each.nbytes)) for each in polled if each.space == "global"]
