"""Runs of stream programs on a card: when each call began and ended, by the clock of the host."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from acl_py.calibrate.calls import Calls, Function, no_time
from acl_py.calibrate.machine import Machine
from acl_py.programs.format import Program, Step
from device_model.completions import Nanoseconds

_NOT_READY = 600


class RunError(RuntimeError):
    """A call of a measured program that the driver has refused."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A call: when it began and ended, counted from the first one; its code; and what it gave."""

    enter_ns: Nanoseconds
    exit_ns: Nanoseconds
    code: int
    gave: Any = None

    @property
    def cost_ns(self) -> Nanoseconds:
        """How long it took."""
        return self.exit_ns - self.enter_ns


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a call for each step, and `end_ns`, when a synchronisation of the device behind them returned."""

    calls: list[Timed]
    end_ns: Nanoseconds


def runs(machine: Machine, program: Program, count: int, function: Function = no_time) -> list[Run]:
    """Return *count* runs of *program* on the same objects, after one more that is not counted.

    Raises:
        RunError: The driver has refused a call.
        StepError: A step is none that is played on a card.
    """
    calls = Calls(machine, program, function)
    try:
        with _undisturbed():
            return [_run(machine, program, calls) for _ in range(count + 1)][1:]
    finally:
        calls.close()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Collect no garbage meanwhile."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _run(machine: Machine, program: Program, calls: Calls) -> Run:
    machine.rest()
    made, clock = [], machine.clock
    for call in (*calls.steps, machine.driver.cu.cuCtxSynchronize):
        enter = clock()
        answer = call()
        made.append((enter, clock(), answer))
    began, last = made[0][0], made.pop()
    _check(machine, int(last[2][0]), None)
    timed = [
        Timed(enter - began, leave - began, int(answer[0]), answer[1] if len(answer) > 1 else None)
        for enter, leave, answer in made
    ]
    for call, step in zip(timed, program.steps, strict=True):
        _check(machine, call.code, step)
    return Run(timed, last[1] - began)


def _check(machine: Machine, code: int, step: Step | None) -> None:
    if code == 0 or (code == _NOT_READY and step is not None and step.is_query):
        return
    where = "at the end" if step is None else f"in step {step.index} ({step.op})"
    raise RunError(f"a measured program: {where}: {machine.driver.error(code, 'the driver')}")


def observed(found: list[Run]) -> dict[str, Any]:
    """Return *found* in the form of measured programs: medians of all runs, in microseconds."""
    host = []
    for step, calls in enumerate(zip(*[run.calls for run in found], strict=True)):
        times = {
            f"{name}_us": median(getattr(call, f"{name}_ns") for call in calls) / 1000
            for name in ("enter", "exit", "cost")
        }
        host.append({"step": step, **times, "ret": sorted({call.code for call in calls})})
    ends = [run.end_ns / 1000 for run in found]
    return {
        "host": host,
        "makespan_us": median(ends),
        "makespan_min_us": min(ends),
        "makespan_max_us": max(ends),
    }
