"""The sanitizer against the oracle, on one program."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from acl_py.errors import DeadlockError
from acl_py.programs.format import Program, parse
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.promises import Promises
from tests.sanitizer.oracle.reading import read
from tests.sanitizer.oracle.running import Outcome, Triple, run
from tests.sanitizer.oracle.verdicts import Pair, pairs


@dataclass(frozen=True)
class Difference:
    """*missed*: pairs that no promise orders, the nearest ones, and that were not reported. *false*: reported pairs
    that a promise orders. *named*: pairs that were reported under another kind.
    """

    program: str
    missed: Collection[Triple]
    false: Collection[Triple]
    named: Collection[Triple]

    def __bool__(self) -> bool:
        return bool(self.missed or self.false or self.named)


def compare(program: Program, rules: str, device: str = "tiny", bodies: str | None = None) -> Difference | None:
    """What the sanitizer and the oracle say differently about *program*; None if it waits without end."""
    try:
        outcome = run(program, rules, device=device, bodies=bodies)
    except DeadlockError:
        return None
    calls = read(program, rules, outcome.run)
    return difference_of(program.id, pairs(calls, Promises(calls)), outcome)


def difference_of(program: str, wrong: Iterable[Pair], outcome: Outcome) -> Difference:
    """The same for a program of which the oracle has found the pairs that are *wrong*."""
    kinds = {(pair.first, pair.second, kind_of(pair)) for pair in wrong}
    missed = {(pair.first, pair.second, kind_of(pair)) for pair in wrong if pair.nearest}
    reported = outcome.triples
    return Difference(
        program,
        missed=sorted(each for each in missed if each[:2] not in _without_kinds(reported)),
        false=sorted((each for each in reported if each[:2] not in _without_kinds(kinds)), key=str),
        named=sorted(each for each in reported - kinds if each[:2] in _without_kinds(kinds)),
    )


def kind_of(pair: Pair) -> str:
    """The kind of finding that *pair* is."""
    return "relies" if pair.relies else pair.fault.value


def _without_kinds(triples: Iterable[Triple]) -> set[tuple[int | None, int | None]]:
    return {triple[:2] for triple in triples}


def compare_random(seed: int) -> Difference | None:
    """The same for the random program number *seed*; the rules take turns."""
    rules = programs.RULES[seed % len(programs.RULES)]
    return compare(parse(programs.program(seed, rules)), rules)
