"""How a stream program behaves under different rules: `acl-py replay --rules cuda --rules acl FILE`.

The program runs once under each set of rules, on the same card; at the start, no two buffers have the same bytes. Four
things are compared. They are the result of each call, the work that had ended when it returned, the order of all work
on the device, and the first MiB of each buffer. Buffers of the host are compared after each call that synchronises, and
all buffers at the end.
"""

from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from acl_py.calls.acts import Completed, Ended, Synchronised
from acl_py.errors import DeadlockError
from acl_py.findings import Finding, Findings, Kind
from acl_py.options import Options
from acl_py.programs.format import Program, Step
from acl_py.programs.player import Played, Player
from acl_py.running import build
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import SUCCESS, Scope, last_error, scope_var
from device_model import memory as model
from device_model.engines.workers import Workers
from device_model.errors import printable
from device_model.memory import Buffer, Space
from device_model.profile import DeviceProfile
from device_model.rules import SyncRules

_LOOK = 1 << 20  # bytes of a buffer, from its beginning, that are compared
_MOST = 4  # runs of equal bytes that a description lists
_OF_ORDER = (Kind.RACE, Kind.RELIES, Kind.BEFORE_ALLOCATION, Kind.FREE_IN_USE, Kind.UNINITIALISED)


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: *what* (a code, a wait, an order, a result, a hang), *where*, and a text *under* each set of
    rules.
    """

    what: str
    where: str
    under: dict[str, str]

    def __str__(self) -> str:
        return f"{self.what}: {self.where}: " + "; ".join(f"{rules}: {text}" for rules, text in self.under.items())


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between the runs of a program and, if they were sanitized, what was found in them.

    A finding that not all rules have is one of kind `portability`.
    """

    differences: list[Difference]
    findings: list[Finding]


@dataclass(slots=True)
class _Run:
    rules: str
    calls: dict[int, Played]  # by step, up to a deadlock
    spans: dict[int, tuple[int, int, str]]
    seen: dict[int, dict[str, str]]  # by step: the contents of host buffers when it had returned
    final: dict[str, str]
    hang: str | None
    findings: tuple[Finding, ...]


def differences(
    program: Program, rules: Sequence[SyncRules], device: str | Path | DeviceProfile = "h200"
) -> list[Difference]:
    """Run *program* under each of *rules* and return what differs."""
    return compare(program, rules, device).differences


def compare(
    program: Program,
    rules: Sequence[SyncRules],
    device: str | Path | DeviceProfile = "h200",
    *,
    sanitize: bool | str | None = None,
) -> Comparison:
    """Run *program* under each of *rules* and compare the runs; *sanitize* is that of `acl_py.simulate`.

    Raises:
        ProgramError: as `replay`.
    """
    runs = [
        copy_context().run(_run, program, Options(device, each, sanitize=sanitize, values=program.values))
        for each in rules
    ]
    differing = [*_codes(program, runs), *_waits(program, runs), *_orders(program, runs), *_results(program, runs)]
    if any(run.hang for run in runs):
        differing.insert(
            0, Difference("hang", printable(program.id), {run.rules: run.hang or "runs to its end" for run in runs})
        )
    return Comparison(differing, _findings(runs))


def name_of(step: Step) -> str:
    """Return the place of a step and its op, for messages."""
    label = f" {printable(step.id)}" if step.id is not None else ""
    return f"step {step.index} {step.op}{label}"


class _Watched(Player):
    """A player that fills the buffers first, and describes their contents."""

    def __init__(self, program: Program, runtime: Runtime) -> None:
        super().__init__(program, runtime)
        for number, buffer in enumerate(self.operations.memory.values()):
            if isinstance(buffer, np.ndarray):
                buffer[:_LOOK] = number + 1
            elif isinstance(buffer, Buffer):
                model.fill(buffer.allocation, 0, number + 1, min(buffer.nbytes, _LOOK))
        self.seen: dict[int, dict[str, str]] = {}

    async def play(self, step: Step) -> None:
        await super().play(step)
        match step.act:
            case Completed() | Synchronised() | Ended(_, None):
                self.seen[step.index] = self.contents(host_only=True)

    def contents(self, *, host_only: bool) -> dict[str, str]:
        """Return a description of each buffer that has not been freed, by name."""
        self.runtime.workers.join_all()
        contents = {}
        for name, buffer in self.operations.memory.items():
            if isinstance(buffer, int):
                continue
            if isinstance(buffer, np.ndarray):
                view = buffer.data[:_LOOK]
            elif buffer.allocation.freed is not None or (host_only and buffer.allocation.space is Space.DEVICE):
                continue
            else:
                nbytes = min(buffer.nbytes, _LOOK)
                model.warm(buffer.allocation, 0, nbytes)
                view = buffer.allocation.view[:nbytes]
            contents[name] = _described(view)
        return contents


def _described(view: memoryview) -> str:
    """Describe the bytes of a buffer: how many have which value, up to _MOST runs."""
    values = np.frombuffer(view, np.uint8)
    ends = np.flatnonzero(np.diff(values)) + 1
    starts = [0, *ends[:_MOST].tolist()]
    stops = [*ends[:_MOST].tolist(), len(values)]
    runs = [
        f"{stop - start:,} bytes of {values[start]}" for start, stop in zip(starts, stops, strict=True) if stop > start
    ]
    return ", ".join(runs[:_MOST]) + (", ..." if len(ends) >= _MOST else "")


def _run(program: Program, options: Options) -> _Run:
    runtime, trace = build(options)
    assert trace is not None, "build() records by default"
    runtime.workers = Workers(runtime.scheduler, 1)
    runtime.device(0).uses = 1
    scope_var.set(Scope(runtime, runtime.device(0).primary))
    last_error.set(SUCCESS)
    try:
        player = _Watched(program, runtime)
        hang = None
        try:
            player.run()
            player.end()
        except DeadlockError as error:
            hang = f"hangs: {str(error).splitlines()[0]}"
        spans = player.spans(trace)
        if runtime.sanitizer is not None:
            runtime.sanitizer.finish()
        found = tuple(runtime.state(Findings))
        final = player.contents(host_only=False)
        return _Run(runtime.rules.name, player.calls, spans, player.seen, final, hang, found)
    finally:
        runtime.close("the comparison is over")


def _findings(runs: Sequence[_Run]) -> list[Finding]:
    """Return the findings of all runs, each once; those that are about order, and that some rules do not have, are
    about portability.
    """
    under: dict[tuple[str, ...], dict[str, Finding]] = {}  # by accesses and names; then by rules
    for run in runs:
        for finding in run.findings:
            under.setdefault(finding.key[1:] if finding.kind in _OF_ORDER else finding.key, {})[run.rules] = finding
    return [_finding(found, runs) for found in under.values()]


def _finding(found: dict[str, Finding], runs: Sequence[_Run]) -> Finding:
    first = min(found.values(), key=lambda finding: list(Kind).index(finding.kind))
    having = [rules for rules, finding in found.items() if finding.kind is first.kind]
    others = [run.rules for run in runs if run.rules not in having]
    if not others or first.kind not in _OF_ORDER:
        return first
    text = f"{first.kind.value} under {', '.join(having)} and not under {', '.join(others)}: {first.text}"
    return replace(first, kind=Kind.PORTABILITY, text=text)


def _codes(program: Program, runs: Sequence[_Run]) -> list[Difference]:
    differing = []
    for index, step in enumerate(program.steps):
        codes = {run.rules: run.calls[index].ret for run in runs if index in run.calls}
        well = {code == 0 for code in codes.values()}
        if len(well) > 1:  # vendors have different numbers, so only success or failure counts
            differing.append(Difference("code", name_of(step), {rules: str(code) for rules, code in codes.items()}))
    return differing


def _waits(program: Program, runs: Sequence[_Run]) -> list[Difference]:
    """Return the calls whose return came after the end of different work."""
    differing = []
    for index, step in enumerate(program.steps):
        if any(index not in run.calls or run.calls[index].ret for run in runs):
            continue
        earlier = [each for each in program.steps[: index + 1] if all(each.index in run.spans for run in runs)]
        over = {
            run.rules: [each for each in earlier if run.spans[each.index][1] <= run.calls[index].exit_ns]
            for run in runs
        }
        first = next(iter(over.values()))
        if any(each != first for each in over.values()):
            common = [each for each in earlier if all(each in steps for steps in over.values())]
            texts = {
                rules: ", ".join(name_of(each) for each in steps if each not in common) or "none of these"
                for rules, steps in over.items()
            }
            differing.append(Difference("wait", f"{name_of(step)} returned after the end of", texts))
    return _only_changes(differing)


def _only_changes(differing: list[Difference]) -> list[Difference]:
    """Return *differing* without entries that only repeat the one before."""
    kept: list[Difference] = []
    last: dict[str, str] = {}
    for each in differing:
        if each.under != last:
            kept.append(each)
        last = each.under
    return kept


def _orders(program: Program, runs: Sequence[_Run]) -> list[Difference]:
    """Return the operations that ran in another order with operations queued before them."""
    common = [step for step in program.steps if all(step.index in run.spans for run in runs)]
    differing = []
    for place, step in enumerate(common):
        for other in common[:place]:
            relations = {run.rules: _relation(run.spans[step.index], run.spans[other.index]) for run in runs}
            if len(set(relations.values())) > 1:
                texts = {rules: f"{relation} {name_of(other)}" for rules, relation in relations.items()}
                differing.append(Difference("order", name_of(step), texts))
    return differing


def _relation(span: tuple[int, int, str], other: tuple[int, int, str]) -> str:
    if span[0] >= other[1]:
        return "after"
    return "before" if span[1] <= other[0] else "overlaps"


def _results(program: Program, runs: Sequence[_Run]) -> list[Difference]:
    differing = []
    for step in program.steps:
        seen = [run.seen.get(step.index, {}) for run in runs]
        differing += _contents(f"after {name_of(step)}", runs, seen)
    # The last comparison is of all buffers. A difference of a host buffer that has not changed is reported once.
    differing += _contents("at the end", runs, [run.final for run in runs])
    return _only_changes(differing)


def _contents(where: str, runs: Sequence[_Run], contents: Sequence[dict[str, str]]) -> list[Difference]:
    names = [name for name in contents[0] if all(name in each for each in contents)]
    differing = [name for name in names if len({each[name] for each in contents}) > 1]
    return [
        Difference(
            "result",
            f"buffer {printable(name)} {where}",
            {run.rules: f"holds {each[name]}" for run, each in zip(runs, contents, strict=True)},
        )
        for name in differing
    ]
