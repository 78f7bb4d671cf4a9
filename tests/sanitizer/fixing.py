"""Fixes of random racy programs: `python -m tests.sanitizer.fixing N` tries those of N programs, and counts them.

With a second argument, "scripts", each program is run as a script, and the fixes are tried in the recorded program of
its run, as by `acl-py run --sanitize --fix`.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from statistics import median

from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case
from acl_py.explain.fixes import FIXED, MOST_TRIED, Fixer, Mended, try_fixes
from acl_py.explain.recordings import case_of
from acl_py.findings import Finding
from acl_py.parts import parts_of
from acl_py.programs.format import Program, parse
from acl_py.programs.replay import replay
from acl_py.sanitizer.watch import watching
from device_model.profile import load
from device_model.rules import RULES
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.running import run

DEVICE = load("tiny")


@dataclass
class Attempt:
    """A racy program: its findings with their trials, and what mends all of them, and the first one alone."""

    case: Case
    findings: list[Finding]
    all: Mended
    first: Mended


def attempts(*, scripts: bool = False) -> Iterator[Attempt]:
    """Yield all random programs with findings that come to their end, with what became of their fixes.

    As *scripts*, those of one task: what tasks tell one another is not recorded.
    """
    for seed in count():
        rules = programs.RULES[seed % len(programs.RULES)]
        case = Case(parse(programs.program(seed, rules)), DEVICE, RULES[rules])
        if not scripts:
            attempt = attempt_of(case)
        elif {step.task for step in case.program.steps} == {None}:
            attempt = attempt_of_script(case)
        else:
            continue
        if attempt is not None:
            yield attempt


def attempt_of(case: Case) -> Attempt | None:
    """Try the fixes of *case*; None if it has no findings, or waits without end."""
    try:
        findings = found(case)
    except DeadlockError:
        return None
    return _attempt(case, findings) if findings else None


def attempt_of_script(case: Case) -> Attempt | None:
    """Run the program of *case* as a script, and try the fixes in what was recorded of it; None as above."""
    try:
        outcome = run(case.program, case.rules.name)
    except DeadlockError:
        return None
    findings = [finding for finding, _ in outcome.findings if finding.kind in FIXED]
    return _attempt(case_of(outcome.trace.timeline(), case.program.id), findings) if findings else None


def _attempt(case: Case, findings: list[Finding]) -> Attempt:
    fixer = Fixer(case)
    return Attempt(case, try_fixes([fixer], findings), fixer.mend(findings), fixer.mend(findings[:1]))


def found(case: Case) -> list[Finding]:
    """What the sanitizer finds in *case*, of the kinds that an edge can mend."""
    with watching(parts_of("host,device")):
        run = replay(case.program, device=case.device, rules=case.rules)
    return [finding for finding in run.findings if finding.kind in FIXED]


def made_of(program: Program, fixed: Program) -> dict[int, int]:
    """For each step of *fixed* that *program* has too, its place there. Both have one task."""
    places, place = {}, 0
    for step in fixed.steps:
        if place < len(program.steps) and (step.op, step.fields) == _known(program, place):
            places[step.index] = place
            place += 1
    assert place == len(program.steps), "the fixed program has all steps of the program, in their order"
    return places


def _known(program: Program, place: int) -> tuple[str, object]:
    return program.steps[place].op, program.steps[place].fields


def by_host(attempt: Attempt) -> list[Finding]:
    """The findings of *attempt* in which an access of the host is too early, as far as their fixes are tried."""
    return [each for each in attempt.findings[:MOST_TRIED] if each.accesses[1].what in ("host read", "host write")]


def main(number: int, *, scripts: bool) -> None:
    tried = [*islice(attempts(scripts=scripts), number)]
    trials = [trial for each in tried for finding in each.findings if (trial := finding.tried) is not None]
    firsts = [each.findings[0].tried for each in tried]
    print(f"{len(tried):,} random racy {'scripts' if scripts else 'programs'}")
    print(f"the first fix removes its finding in {sum(trial is not None and trial.is_gone for trial in firsts):,}")
    hosts = [finding.tried for each in tried for finding in by_host(each)]
    gone = sum(trial is not None and trial.is_gone for trial in hosts)
    print(f"fixes of accesses of the host: {len(hosts):,}, that remove their finding: {gone:,}")
    print(f"edges of the first fix: {median(len(each.first.edges) for each in tried):g} (median)")
    print(
        f"fixes that were tried: {len(trials):,}, that remove their finding: {sum(each.is_gone for each in trials):,}"
    )
    print(f"programs without a finding when all are mended: {sum(not each.all.left for each in tried):,}")
    print(f"edges that mend all: {median(len(each.all.edges) for each in tried):g} (median)")
    print(f"a fix costs {median(trial.cost_us for trial in trials):.2f} us (median)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300, scripts="scripts" in sys.argv[2:])
