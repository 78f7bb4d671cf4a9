"""The runtime of a run on a card: verbs and their checks are the model's, and calls of the driver do the work."""

import os
from functools import cache
from threading import get_ident
from time import perf_counter_ns
from typing import Any
from weakref import WeakSet

from acl_py.calls.table import all_verbs
from acl_py.card.clock import CardClock
from acl_py.card.contexts import CardContext, CardDevice
from acl_py.card.driver import NEW_PROCESS, Driver
from acl_py.card.ending import give_back
from acl_py.card.graphs import Reached
from acl_py.card.memory import CardMemory
from acl_py.card.streams import CardStream
from acl_py.errors import AclError, Kind
from acl_py.runtime.runtime import Runtime, Subjects
from acl_py.runtime.scopes import current_scope
from acl_py.verbs import devices, graph_nodes, graphs
from device_model.completions import Completion, Nanoseconds
from device_model.contexts import Context
from device_model.errors import CodedError, code_of
from device_model.faults import Rule, Verdict
from device_model.memory import Buffer, Origin
from device_model.ops import Op
from device_model.profile import DeviceProfile
from device_model.ptx.text.syntax import Module
from device_model.rules import SyncRules
from device_model.streams import Stream

_ANYWHERE = (devices.Init, devices.Finalize)  # ACL's alone, and without a meaning on a card
_ONE_CONTEXT = "use SetDevice(): a run has the primary context of each card"
_CONDITIONS = "a condition is set by code that is linked with the vendor's device runtime: run the program on the model"
_ELSEWHERE = {
    devices.ResetDevice.__name__: "end the process: torch, CuPy and numba live in the same context",
    devices.CreateContext.__name__: _ONE_CONTEXT,
    devices.DestroyContext.__name__: _ONE_CONTEXT,
    graphs.GraphAddIfNode.__name__: _CONDITIONS,
    graph_nodes.GraphAddConditionalNode.__name__: _CONDITIONS,
}


@cache
def refused() -> dict[str, str]:
    """Return what to do in place of each verb that a card does not do."""
    here = {each.__name__ for each in _ANYWHERE}
    remedies = {}
    for name, each in all_verbs().items():
        if name in _ELSEWHERE:
            remedies[name] = _ELSEWHERE[name]
        elif each.cuda is None and name not in here:
            remedies[name] = "CUDA has no such function: run the program on the model"
    return remedies


_RUNS: WeakSet["CardRuntime"] = WeakSet()
_FORKED = "this is a child of fork, and a card belongs to its parent: begin processes with spawn"


def _end_after_fork() -> None:
    """Let every verb refuse in a child of fork: the driver does not work there."""
    Driver.lost = CodedError(Kind.NOT_INITIALIZED, _FORKED, "", None)
    for runtime in list(_RUNS):
        runtime.shut(_FORKED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_after_fork)


class CardRuntime(Runtime):
    """A run on cards, of which number *first* is current at the beginning. *bodies* says what launches of array kernels
    do: "refuse", "host" or "time".
    """

    memory: CardMemory
    scheduler: CardClock
    runs_ptx = True
    stages = False  # the driver does
    moves_pages = False  # the driver does
    takes_guests = False  # the driver that it calls may be ours: its calls would call it again without end

    def __init__(
        self,
        profile: DeviceProfile,
        rules: SyncRules,
        first: int,
        *,
        bodies: str,
        seed: int,
        hang_after: float | None,
        is_recorded: bool,
    ) -> None:
        self.first = first
        self.bodies = bodies
        self.is_recorded = is_recorded
        self.driver = Driver(self.error)
        self._here: tuple[int, CardContext] | None = None  # the thread that called last, and its context
        self._began_ns = perf_counter_ns()
        self._refused = refused()
        _RUNS.add(self)
        super().__init__(profile, rules, workers=1, seed=seed, hang_after=hang_after)
        self.async_routes = self.routes  # the driver stages pageable memory itself

    # --- what the model is asked for elsewhere

    def make_clock(self) -> CardClock:
        """Return the clock: real time."""
        return CardClock(self._began_ns)

    def begin(self) -> None:
        """Let the time of the run begin now: the driver has made the context, which takes it a third of a second."""
        self._began_ns = self.scheduler.began_ns = perf_counter_ns()

    def make_memory(self) -> CardMemory:
        """Return the memory of the cards."""
        profile = self.profile
        return CardMemory([profile.memory.bytes] * profile.devices, profile.memory.alignment, self.error, self.driver)

    def make_device(self, number: int) -> CardDevice:
        """Return card *number*; the present call goes on in the context that it has."""
        made = CardDevice(self, number)
        if self._here is not None:
            self._here[1].device.make_current()
        return made

    @property
    def host_ns(self) -> Nanoseconds:
        """The time since the run began."""
        return perf_counter_ns() - self._began_ns

    @host_ns.setter
    def host_ns(self, _: Nanoseconds) -> None:
        """Real time is not set."""

    def pay(self, cost: Nanoseconds) -> None:  # noqa: ARG002 - a call takes what it takes
        """Let what is due happen."""
        self.scheduler.advance(0)

    def submit(self, stream: Stream, op: Op, cost: Nanoseconds, latency_ns: Nanoseconds) -> None:  # noqa: ARG002
        """Make the call that queues *op* in *stream*, or let a capture have it."""
        if stream.home is None and self._take(stream, op, 0):
            return
        stream.enqueue(op, 0)
        if self.hooks.op_queued is not None:
            self.hooks.op_queued(op)

    def load_module(self, module: Module, text: str, made: object) -> dict[str, Buffer]:
        """Let the driver compile *text*, and return the variables of the module."""
        context = self._card()
        found = context.works.modules.load(module, text)
        begin, ordinal = self.memory.begin_on_card, context.device.ordinal
        return {name: begin(address, nbytes, ordinal, Origin.MODULE, made) for name, (address, nbytes) in found.items()}

    def unload_module(self, module: Module) -> None:
        """Let the driver forget *module*."""
        self._card().works.modules.unload(module)

    def _card(self) -> CardContext:
        """Return the current context."""
        context = current_scope().context
        assert isinstance(context, CardContext), f"{context!r} is not of a card"
        return context

    def admit(self, rule: Rule) -> None:
        """Raise ValueError for a *rule* that is not about calls that fail: the card does its work as it can."""
        if rule.verdict is not Verdict.FAIL or rule.call is None:
            why = "only calls can be made to fail, as with fail(call='Malloc')"
            raise ValueError(f"{rule.text} on a card, where {why}")

    async def wait(
        self, completion: Completion, what: str | None, site: object, subjects: Subjects = (), **how: Any
    ) -> None:
        """Wait as the model does, after telling the stream of *completion* that a host wants to know."""
        if not completion.done:
            if isinstance(completion, Reached):
                completion.ask()
            elif isinstance(completion.stream, CardStream):
                completion.stream.ask(completion)
        await super().wait(completion, what, site, subjects, **how)

    @property
    def cards(self) -> list[CardDevice]:
        """The cards in use so far."""
        return [device for device in self._devices.values() if isinstance(device, CardDevice)]

    def look(self) -> bool:
        """Ask the cards about what hosts wait for; return whether anything is done that was not before."""
        is_new = False
        for card in self.cards:
            is_new |= card.primary.look()
        return is_new

    # --- checks

    def check_call(self, context: Context, name: str, *, needs_context: bool = True) -> None:
        """Check what every verb checks, and that a card can do a call of *name*; make the context current."""
        is_watched = self.faults.rules or self.captures.running
        if type(context) is not CardContext or context.error is not None or is_watched:
            super().check_call(context, name, needs_context=needs_context)
        if name in self._refused:
            raise self.error(Kind.NOT_SUPPORTED, f"{name}() on a card", self._refused[name])
        if isinstance(context, CardContext):
            here = get_ident(), context
            if here != self._here:
                context.device.make_current()
                self._here = here

    def close(self, why: str) -> None:
        """End the run, and give back all that it has of the driver."""
        try:
            if self.closed is None:
                give_back(self)
        finally:
            super().close(why)

    def context_error(self, context: Context) -> AclError:
        """Return the error that *context* has failed with, for one more call that touches it."""
        cause = context.error
        if self.closed is not None or cause is None:
            return super().context_error(context)
        return self.error(cause.kind, cause.what, NEW_PROCESS, code=code_of(cause))
