"""The host clock, and the way into the device: what a call costs, and how work is queued."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from acl_py.runtime.routes import Routes
from acl_py.waiting.deadlocks import Waiting
from device_model.completions import Completion, Nanoseconds
from device_model.faults import Faults, Rule
from device_model.graphs.capture import take
from device_model.graphs.graph import Node
from device_model.graphs.groups import NewWork
from device_model.memory import Memory
from device_model.observe import Hooks
from device_model.ops import Op
from device_model.scheduler import Scheduler
from device_model.streams import Stream

if TYPE_CHECKING:
    from device_model.profile import DeviceProfile, HostCosts


T = TypeVar("T")


class _Bridge(Protocol):
    def close(self) -> None: ...
    def reach(self, cost: Nanoseconds) -> Nanoseconds: ...
    def arm(self) -> None: ...
    async def wait(self, completion: Completion, waiting: Callable[[], Waiting]) -> None: ...
    async def breathe(self) -> None: ...
    def poll_succeeded(self) -> None: ...
    def poll_failed(self, waiting: Any = None) -> None: ...
    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...


class Host:
    """The host of one simulation: its clock, which calls move on, and its way into the devices."""

    __slots__ = (
        "async_routes", "bridge", "cold", "copy_cost", "copy_latency", "costs", "fault_rules", "faults",
        "has_launched", "hooks", "horizon_ns", "host_ns", "kernel_latency", "launch_cost", "memory", "profile",
        "record_cost", "scheduler", "states", "wait_cost", "waiters",
    )  # fmt: skip
    async_routes: Routes  # what an asynchronous copy is, by its kind and the places of its ends
    bridge: _Bridge
    cold: dict[str, None]  # the calls that take longer next time: names of values of HostCosts
    copy_latency: Nanoseconds
    costs: "HostCosts"
    copy_cost: Nanoseconds  # this and the next three are those of `costs`, kept here for the hot path
    launch_cost: Nanoseconds
    record_cost: Nanoseconds
    wait_cost: Nanoseconds
    faults: Faults
    fault_rules: list[Rule]  # those of `faults`
    has_launched: bool  # a kernel: the first launch costs more
    hooks: Hooks
    horizon_ns: float  # a call that would reach it asks the bridge
    host_ns: Nanoseconds
    kernel_latency: Nanoseconds
    memory: Memory
    profile: "DeviceProfile"
    scheduler: Scheduler
    states: dict[type[Any], Any]  # what other modules keep: see state()
    waiters: dict[Any, Waiting]  # by the future or thread that the bridge wakes, in order of arrival

    def pay(self, cost: Nanoseconds) -> None:
        """Let the host be busy for *cost* nanoseconds; the devices run up to its new time."""
        scheduler = self.scheduler
        if scheduler.choices is not None and cost:
            cost += scheduler.choices.host_lateness()
        host = self.host_ns + cost
        if host >= self.horizon_ns:
            host = self.bridge.reach(cost)
        self.host_ns = host
        scheduler.advance(host)
        if self.waiters:
            self.bridge.arm()

    def cost_of(self, call: str) -> Nanoseconds:
        """Return what a *call*, a value of HostCosts, takes: longer with cold caches, which are warm for it then.

        Hot paths call it only if anything is `cold`.
        """
        cost: int = getattr(self.costs, call)
        if call in self.cold:
            del self.cold[call]
            cost += cost * self.costs.cold_permille // 1000
        return cost

    def state(self, kind: type[T]) -> T:
        """Return the one *kind* of this runtime, made without arguments when it is first asked for.

        A module above this one that has to remember something for each runtime keeps it in a class of its own.
        """
        state: T | None = self.states.get(kind)
        if state is None:
            state = self.states[kind] = kind()
        return state

    def submit(self, stream: Stream, op: Op, cost: Nanoseconds, latency_ns: Nanoseconds) -> None:
        """Pay *cost* and queue *op* in *stream*; its engine can start it *latency_ns* later at the earliest."""
        if stream.home is None and self._take(stream, op, cost):
            return
        # This is the hot path: pay() is written out.
        if self.fault_rules:
            latency_ns += self.faults.strike(op, stream, self.host_ns)
        scheduler = self.scheduler
        if scheduler.choices is not None:
            cost += scheduler.choices.host_lateness()
        host = self.host_ns + cost
        if host >= self.horizon_ns:
            host = self.bridge.reach(cost)
        self.host_ns = host
        try:
            scheduler.advance(host)
        except BaseException:  # the place that the caller has waited for, if it did, is another host's now
            stream.queues[op.lane].pass_on()
            raise
        stream.enqueue(op, host + latency_ns)
        if self.waiters:
            self.bridge.arm()
        queued = self.hooks.op_queued
        if queued is not None:
            queued(op)

    def _take(self, stream: Stream, op: Op, cost: Nanoseconds) -> bool:
        """Let the capture or the update in which *stream* takes part have *op*; return whether there is one."""
        if stream.branch is not None:
            self.pay(self.profile.graphs.captured)
            taken: Node | NewWork = take(stream.branch, op)
        elif stream.update is not None:
            self.pay(cost)
            taken = stream.update.take(op)
        else:
            return False
        if self.hooks.captured is not None:
            self.hooks.captured(op, taken)
        return True
