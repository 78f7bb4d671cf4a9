"""Simulations: what a program can ask of the one that it runs in."""

import asyncio
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from acl_py.faults import Fault, Guard
from acl_py.findings import Finding, Findings
from acl_py.runtime.leaks import leaks_of
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import current_scope, opened
from acl_py.sites import forget_tasks, site_of
from acl_py.waiting.bridge import Bridge
from device_model.handles import Handle
from device_model.observe import Observer

if TYPE_CHECKING:
    import numpy as np

    from acl_py.trace import Trace
    from acl_py.trace.page import Page


class Simulation(Handle):
    """One simulation: its clock, trace, report, random numbers and fault rules.

    `simulate`, `open` and `run` make it; `current_simulation` returns it.
    """

    def __init__(self, runtime: Runtime, trace: "Trace | None", loop: asyncio.AbstractEventLoop) -> None:
        self.runtime = runtime
        runtime.state(_Owner).simulation = self
        self._trace = trace
        self._loop = loop
        self._reported_ns = -1  # the host clock when the program last asked for a report
        self._ended = False

    def __repr__(self) -> str:
        return f"<Simulation of {self.runtime.profile.name} at {self.runtime.host_ns} ns>"

    @property
    def now_ns(self) -> int:
        """The host clock, in nanoseconds of simulated time."""
        if isinstance(self.runtime.bridge, Bridge):
            self.runtime.bridge.note_real_time()
        if self.runtime.sanitizer is not None and self.runtime.hooks.timed is not None:
            self.runtime.hooks.timed(site_of(sys._getframe(1)))
        return self.runtime.host_ns

    @property
    def trace(self) -> "Trace":
        """The operations (`.ops`) and calls (`.calls`) so far.

        Raises:
            RuntimeError: the simulation was started with trace=False.
        """
        if self._trace is None:
            raise RuntimeError("this simulation was started with trace=False")
        return self._trace

    @property
    def values(self) -> bool:
        """Whether the simulation computes values: False with `values=False`. A program can ask before it fills or reads
        memory of the host.
        """
        return self.runtime.values

    @property
    def rng(self) -> "np.random.Generator":
        """Random numbers for the program: the same for the same seed."""
        return self.runtime.rng

    @property
    def findings(self) -> list[Finding]:
        """What was found so far, each once, with a count: mistakes of the core kernels that have ended and, with
        `sanitize=`, what the sanitizer found.
        """
        return list(self.runtime.state(Findings))

    def report(self) -> str:
        """Return a summary as text: simulated time, use of engines and streams, waits, findings, leaks.

        It also says how much of the copies ran while the cores computed, for each stream and stage (`annotate`), and
        how much could. `acl_py.explain.hidden_copies` has the same as data.
        """
        from acl_py.trace.views.summary import summarize  # imported here: most programs print no summary

        self._reported_ns = self.runtime.host_ns
        return summarize(self.runtime, self._trace, self.findings, leaks_of(self.runtime), has_overlap=True)

    def timeline(self) -> "Page":
        """Return the timeline so far as a page, with findings, mistakes and the critical path.

        A notebook shows it; `write(path)` makes an HTML file of it.

        Raises:
            RuntimeError: the simulation was started with trace=False.
        """
        from acl_py.causes.pages import explained  # imported here: most programs make no page
        from acl_py.sanitizer.reports import Report
        from acl_py.trace.page import Page, Run

        mistakes = Report(tuple(self.findings)).mistakes
        return explained(Page([Run("Timeline", self.trace.timeline())], mistakes=mistakes))

    def observe(self, observer: Observer) -> None:
        """Call the hooks of *observer* from now on; see `Observer`."""
        self.runtime.hooks.add(observer)

    def hold(self) -> AbstractContextManager[None]:
        """Return a block in which simulated time waits for the real world: sockets, sleeps, threads.

        A task in it must not wait for the device: RuntimeError.
        """
        bridge: Any = self.runtime.bridge
        assert hasattr(bridge, "hold"), f"{self!r} has no event loop"
        block: AbstractContextManager[None] = bridge.hold()
        return block

    def fault(self, *faults: Fault) -> Guard:
        """Put fault rules (see acl_py.faults) in force, until `remove()` of the returned guard or the end of a block.

            with sim.fault(faults.fail(call="Malloc", nth=3)) as rule:
                ...
            print(rule.struck)

        The block gets the first rule, which counts what it has seen and struck.
        """
        return Guard(self.runtime, faults)

    async def close(self) -> None:
        """End the simulation: its verbs are refused from now on. The trace stays. A second call does nothing."""
        self.end()

    def end(self) -> None:
        """Do what `close` does, without a coroutine."""
        if self._ended:
            return
        self._ended = True
        self.runtime.close("the simulation was closed")
        forget_tasks(self._loop)
        opened[:] = [scope for scope in opened if scope.runtime is not self.runtime]


class _Owner:
    """The simulation that a runtime belongs to."""

    __slots__ = ("simulation",)

    def __init__(self) -> None:
        self.simulation: Simulation | None = None


def simulation_of(runtime: Runtime) -> Simulation | None:
    """Return the simulation that *runtime* belongs to; None if it is one of a blocking face."""
    return runtime.state(_Owner).simulation


def recorder_of(simulation: Simulation) -> "Trace | None":
    """Return what records *simulation*; None without `trace`."""
    return simulation._trace


def has_reported(simulation: Simulation) -> bool:
    """Return whether the program has asked for the report of *simulation*, and has queued nothing since then."""
    trace, reported_ns = simulation._trace, simulation._reported_ns
    if trace is None:
        return reported_ns == simulation.runtime.host_ns
    return reported_ns >= 0 and not trace.error and all(op.queued_ns <= reported_ns for op in trace.ops)


def current_simulation() -> Simulation:
    """Return the simulation that the verbs of the calling task go to.

    Raises:
        AclError: no simulation is running, or it has ended.
    """
    simulation = simulation_of(current_scope().runtime)
    assert simulation is not None, "a runtime of a blocking face has no simulation object"
    return simulation
