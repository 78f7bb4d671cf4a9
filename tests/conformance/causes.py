"""Explanations of the measured programs against causes.toml, the table of what they must name.

    python -m tests.conformance.causes

prints how many programs there are, and how many have an explanation that names the right cause. A test compares both.
"""

import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # pytest knows `criteria` by its bare name

from criteria import measured, program  # noqa: E402

from acl_py.causes.findings import Finding, Pitfall, findings  # noqa: E402
from acl_py.explain.cases import Case  # noqa: E402
from acl_py.explain.whatif import Asker  # noqa: E402
from acl_py.trace.rows.timeline import Call, Operation, Timeline  # noqa: E402
from device_model.completions import Why  # noqa: E402
from device_model.profile import load  # noqa: E402
from device_model.rules import CUDA  # noqa: E402

Row = dict[str, Any]
Claim = tuple[Pitfall, int, int]  # what a finding says: the pitfall, the step to change and the step that it held


def table() -> dict[str, dict[str, Any]]:
    """Return the table: for each file of programs the rows by their names, and why others have none."""
    return tomllib.loads((HERE / "causes.toml").read_text())


def rows() -> dict[tuple[str, str], Row]:
    """Return the rows by the file and the name of their programs."""
    return {(file, id_): row for file, part in table().items() if file != "values" for id_, row in part.items()}


@dataclass(frozen=True)
class Explained:
    """A program that ran, in which each step is a line, and the findings about it."""

    steps: Sequence[str]
    timeline: Timeline
    found: Sequence[Finding]

    def operation(self, step: int) -> Operation:
        """Return the first operation that *step* queued."""
        return min((op for op in self.timeline.ops if _step(op.site) == step), key=lambda op: op.start_ns)

    def call(self, step: int) -> Call:
        """Return the call of *step*."""
        [call] = [call for call in self.timeline.calls if call.line == step]
        return call

    def waited_for(self, after: int | None) -> Iterator[int]:
        """Yield the step of the operation *after*, and then of those that it waited for, one after the other."""
        while after is not None:
            op = self.timeline.ops[after]
            yield _step(op.site)
            after = op.after

    def claims(self) -> set[Claim]:
        """Return what the findings say."""
        return {
            (finding.pitfall, _step(finding.site), step)
            for finding in self.found
            for step in (
                *(self.timeline.calls[index].line for index in finding.calls),
                *(_step(self.timeline.ops[index].site) for index in finding.ops),
            )
        }


@cache
def explained(file: str, id_: str) -> Explained:
    """Return the program *id_* with its explanation."""
    [document] = [each for each in measured(file) if each["id"] == id_]
    timeline = Asker(Case(program(document), load("h200"), CUDA)).timeline
    return Explained([step["op"] for step in document["steps"]], timeline, findings(timeline))


def wrong_causes(row: Row, ours: Explained) -> list[str]:
    """Return what the explanation of a program says that its row does not, and the other way round."""
    wrong = [*_wrong_operations(row, ours), *_wrong_calls(row, ours)]
    expected, claims = _expected(row, ours), ours.claims()
    wrong += [f"no finding: {_text(claim)}" for claim in sorted(expected - claims)]
    wrong += [f"a finding too many: {_text(claim)}" for claim in sorted(claims - expected)]
    return wrong


def _wrong_operations(row: Row, ours: Explained) -> Iterator[str]:
    for held, rule, holder, *_ in row.get("operations", ()):
        op = ours.operation(held)
        after = None if op.after is None else _step(ours.timeline.ops[op.after].site)
        if (op.why.name.lower(), after) != (rule, holder):
            yield f"operation of step {held}: {op.why.name.lower()} {after}, not {rule} {holder}"
    for step in row.get("free_operations", ()):
        op = ours.operation(step)
        if op.why is not Why.HOST:
            yield f"operation of step {step}: {op.why.name.lower()}, not free"


def _wrong_calls(row: Row, ours: Explained) -> Iterator[str]:
    for held, rule, holder in row.get("calls", ()):
        call = ours.call(held)
        slept = {step for sleep in call.sleeps for step in ours.waited_for(sleep.after)}
        if holder not in slept:
            yield f"call of step {held}: waited for {sorted(slept)}, not for {holder} ({rule})"
    for step in (*row.get("free_calls", ()), *row.get("staged", ())):
        if ours.call(step).waited_ns:
            yield f"call of step {step}: waited, and should not"


def _expected(row: Row, ours: Explained) -> set[Claim]:
    """Return what findings must say."""
    claims = {(Pitfall.LEGACY, line[0], held) for held, rule, _, *line in row.get("operations", ()) if rule == "legacy"}
    claims |= {(Pitfall(rule), held, held) for held, rule, _ in row.get("calls", ()) if rule != "asked"}
    for step in row.get("staged", ()):
        claims.add((Pitfall.PAGEABLE if ours.steps[step].endswith("_async") else Pitfall.SYNC_COPY, step, step))
    return claims


def _step(site: str) -> int:
    return int(site.removeprefix("step:"))


def _text(claim: Claim) -> str:
    pitfall, line, held = claim
    return f"{pitfall}, step {line} holds step {held}"


def summary() -> str:
    """Return one line for people: how many programs, and how many of them are explained as the table says."""
    wrong = [id_ for (file, id_), row in rows().items() if wrong_causes(row, explained(file, id_))]
    count = len(rows())
    text = f"{count} measured programs ask what waits for what, and {count - len(wrong)} explanations name that cause"
    others = f"; {len(table()['values'])} ask about codes and values"
    return text + (f" (not those of {', '.join(wrong)})" if wrong else "") + others


if __name__ == "__main__":
    print(summary())
