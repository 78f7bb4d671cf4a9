"""Replay: run a stream program on a simulated device, and give its times in the form of measured programs."""

from collections.abc import Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acl_py.errors import DeadlockError, full_text
from acl_py.faults import Fault, Guard, Rule
from acl_py.findings import Finding, Findings
from acl_py.options import Options
from acl_py.programs.format import Program
from acl_py.programs.operations import Code
from acl_py.programs.player import Played, Player
from acl_py.running import build
from acl_py.runtime.scopes import SUCCESS, Scope, last_error, scope_var
from acl_py.schedules import Effects, effects_of
from acl_py.trace import Trace
from acl_py.verbs.waits import Status
from device_model.completions import Completion
from device_model.engines.workers import Workers
from device_model.memory.pages import HOST, PAGE, Pages
from device_model.ops import Op
from device_model.profile import DeviceProfile, Latencies
from device_model.rules import SyncRules
from device_model.work import Copy, Fill, HostFunction

PagesByName = dict[str, Pages]
Spans = dict[int, tuple[int, int, str]]  # by the index of a step: start and end in ns, and the engine


@dataclass(frozen=True, slots=True)
class HostCall:
    """The host's side of one step.

    *ret* is the code under the rules; *extra* is milliseconds for `elapsed`, [[start, end, status]] for a host function
    or callback, the value for `host_read`, and so on: see docs/programs/replays.md.
    """

    step: int
    enter_us: float
    exit_us: float
    ret: int
    extra: Any


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """When an operation ran, counted from the start of the program's first operation."""

    start_us: float
    end_us: float
    engine: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A program that ran.

    `done_us` is the time from the first call until all steps have returned and all work is done, `makespan_us` is the
    time until a device synchronisation after the last step has returned, too. Measured programs end with one. `log` has
    the executions of each named kernel as [start, end] by the kernels' own clock, from the first kernel's start.
    `rules` are the fault rules that were in force, each with the numbers of its matches and strikes. `findings` are
    those of the sanitizer, if it was asked for.
    """

    program: Program
    host: list[HostCall]
    device: dict[str, DeviceTime]
    log: dict[str, list[list[float]]]
    done_us: float
    makespan_us: float
    trace: Trace = field(repr=False)
    rules: tuple[Rule, ...] = ()
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the run in the form that `acl-py replay --json` writes."""
        calls = [
            {name: getattr(call, name) for name in ("step", "enter_us", "exit_us", "ret", "extra")}
            for call in self.host
        ]
        device = {
            id_: {"start_us": time.start_us, "end_us": time.end_us, "engine": time.engine}
            for id_, time in self.device.items()
        }
        return {
            "id": self.program.id,
            "host": calls,
            "device": device,
            "log": self.log,
            "makespan_us": self.makespan_us,
        } | ({"notes": list(self.program.notes)} if self.program.notes else {})


def replay(
    program: Program,
    *,
    device: str | Path | DeviceProfile = "h200",
    rules: str | SyncRules | None = None,
    faults: Sequence[Fault] = (),
    sanitize: bool | str | None = None,
    effects: str | None = None,
) -> Replay:
    """Run *program* in a new simulation of *device* under *rules* (by default the device's own), with *faults*;
    *sanitize* and *effects* are those of `acl_py.simulate`.

    Raises:
        ProgramError: its buffers or streams do not fit; its host reads or writes memory that is not its own, which
            would crash it; or it takes longer than simulated time lasts.
        DeadlockError: a step waits for work that never ends, or that a fault rule lets hang.
    """
    # In a new context: the program does not share the caller's current device and last error.
    run = copy_context().run
    pages: PagesByName = {}
    if not program.is_recorded and any(buffer["space"] == "managed" for buffer in program.buffers.values()):
        run(_replay, program, Options(device, rules, values=program.values), (), pages)
    options = Options(device, rules, sanitize=sanitize, effects=effects, values=program.values)
    return run(_replay, program, options, faults, pages)


def _replay(program: Program, options: Options, faults: Sequence[Fault], pages: PagesByName) -> Replay:
    """Run *program* on managed buffers with these *pages*, by name; then put there the pages as the next run has them.

    Measured programs ran several times on the same buffers, and between two runs their pages went back to the host.
    """
    runtime, trace = build(options)
    assert trace is not None, "build() records by default"
    if effects_of(options.effects) is Effects.STRONG:
        looks = any(step.op == "host_read" for step in program.steps)
        runtime.workers = (Workers if looks else _LightWorkers)(runtime.scheduler, 1)
    scope_var.set(Scope(runtime, runtime.device(0).primary))
    last_error.set(SUCCESS)
    try:
        player = Player(program, runtime)
        own = player.operations.pages()
        for name, earlier in pages.items():
            own[name].take_over(earlier)
        guards = [Guard(runtime, [fault]) for fault in faults]
        player.run()
        calls = [player.calls[step.index] for step in program.steps]
        for guard in guards:
            guard.remove()  # the last synchronisation is not part of the program
        injected = tuple(rule for guard in guards for rule in guard.rules)
        makespan = player.end()
        spans = player.spans(trace)
        for name, left in own.items():
            left.prefetch(0, left.count * PAGE, HOST)
            pages[name] = left
        if runtime.sanitizer is not None:
            runtime.sanitizer.finish()
        device_times, log = _device_times(calls, spans), _log(calls, player.runs, runtime.profile.latency)
        done = max((*(call.exit_ns for call in calls), *(end for _, end, _ in spans.values())), default=0)
        found = tuple(runtime.state(Findings))
        host = _host_calls(calls)
        return Replay(program, host, device_times, log, _us(done), makespan, trace, injected, found)
    except DeadlockError as error:
        trace.error = full_text(error)
        error.timeline = trace.timeline()
        raise
    finally:
        runtime.close("the replay is over")


class _LightWorkers(Workers):
    """Workers that do not move bytes.

    A replay needs the bytes only if its program reads them, and moving large ones takes nine tenths of its time.
    """

    def run(self, op: Op) -> None:
        """Do all checks of *op*, but move no bytes. Kernels of programs move none."""
        work = op.work
        if not isinstance(work, Copy | Fill):
            super().run(op)
            return
        nbytes, work.nbytes = work.nbytes, 0
        super().run(op)
        work.nbytes = nbytes


def _host_calls(calls: list[Played]) -> list[HostCall]:
    """Return the host's side, after the program has ended."""
    return [HostCall(call.step.index, _us(call.enter_ns), _us(call.exit_ns), call.ret, _extra(call)) for call in calls]


def _device_times(calls: list[Played], spans: Spans) -> dict[str, DeviceTime]:
    """Return the device's side: for each named step the operations that were queued during its call."""
    first = min((start for start, _, _ in spans.values()), default=0)
    return {
        id_: DeviceTime((start - first) / 1000, (end - first) / 1000, engine)
        for id_, (start, end, engine) in (
            (call.step.id, spans[call.step.index]) for call in calls if call.step.index in spans
        )
        if id_ is not None
    }


def _log(
    calls: list[Played], runs: Mapping[int, list[tuple[int, int]]], latency: Latencies
) -> dict[str, list[list[float]]]:
    """Return when the blocks of each named kernel ran, by the clock that a kernel reads: from the start of its first
    block to the end of the last. A kernel of a graph runs at each launch.
    """
    kernels = [
        (call.step.id, runs[call.step.index])
        for call in calls
        if call.step.work == "kernel" and "cores" not in call.step.fields and call.step.index in runs
    ]
    first = min((start for _, own in kernels for start, _ in own), default=0)
    around = latency.block + latency.kernel_drain
    return {
        id_: [[_us(start - first), _us(max(start, end - around) - first)] for start, end in own]
        for id_, own in kernels
        if id_ is not None
    }


def _extra(call: Played) -> Any:
    answer = call.answer
    if isinstance(answer, Op) and isinstance(answer.work, HostFunction) and answer.done:
        return [[_us(answer.start_ns), _us(answer.end_ns), 0 if call.step.op == "add_callback" else None]]
    if isinstance(answer, Completion | Status | Code):
        return None
    return [*answer] if isinstance(answer, tuple) else answer


def _us(time_ns: int) -> float:
    return time_ns / 1000
