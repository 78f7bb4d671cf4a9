"""How many random programs each detector gets wrong.

A detector misses a program if there is a step with a nearest fault (`verdicts.Pair`) at which it reports nothing. It is
false if it reports a pair that the documents order, or that shares no byte.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from acl_py.errors import DeadlockError
from acl_py.programs.format import parse
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.baselines import Pairs, by_last_writer, by_pointer
from tests.sanitizer.oracle.comparing import Difference, difference_of
from tests.sanitizer.oracle.promises import Promises
from tests.sanitizer.oracle.reading import read
from tests.sanitizer.oracle.running import run
from tests.sanitizer.oracle.verdicts import pairs

DETECTORS = ("base pointers (as PyTorch)", "last writer only", "acl_py")


@dataclass
class Score:
    """The numbers of programs that a detector gets wrong."""

    wrong: int = 0
    misses: int = 0
    false: int = 0

    def add(self, reported: Pairs, faults: Pairs, nearest: Pairs) -> None:
        """Count one program with these *faults*, of which *reported* were reported."""
        misses = {later for _, later in nearest} - {later for _, later in reported}
        false = reported - faults
        self.misses += bool(misses)
        self.false += bool(false)
        self.wrong += bool(misses or false)


@dataclass
class Table:
    """What is known after some programs: those that ended, those with a fault, and the score of each detector.

    `differences` has the programs about which acl_py and the oracle differ, each with its number of steps.
    """

    ended: int = 0
    faulty: int = 0
    scores: dict[str, Score] = field(default_factory=lambda: {name: Score() for name in DETECTORS})
    differences: list[tuple[int, Difference]] = field(default_factory=list)

    def add(self, seed: int) -> None:
        """Run the random program number *seed*, unless it waits without end."""
        rules = programs.RULES[seed % len(programs.RULES)]
        program = parse(programs.program(seed, rules))
        try:
            outcome = run(program, rules)
        except DeadlockError:
            return
        calls = read(program, rules, outcome.run)
        promises = Promises(calls)
        wrong = pairs(calls, promises)
        faults = {(pair.first, pair.second) for pair in wrong}
        nearest = {(pair.first, pair.second) for pair in wrong if pair.nearest}
        self.ended += 1
        self.faulty += bool(faults)
        difference = difference_of(program.id, wrong, outcome)
        if difference:
            self.differences.append((len(program.steps), difference))
        ours = {(first, second) for first, second, _ in outcome.triples}
        for name, reported in zip(DETECTORS, (by_pointer(calls), by_last_writer(calls, promises), ours), strict=True):
            self.scores[name].add(reported, faults, nearest)

    def lines(self) -> Iterable[str]:
        """The table, for a terminal."""
        yield f"{self.ended:,} random programs, {self.faulty:,} of which have a fault. Each detector gets wrong:"
        yield f"{'':28}{'programs':>10}{'missed':>10}{'false':>10}"
        for name, score in self.scores.items():
            yield f"{name:28}{score.wrong:>10,}{score.misses:>10,}{score.false:>10,}"
        yield f"programs about which acl_py and the oracle differ in any pair or kind: {len(self.differences):,}"
        for _, difference in sorted(self.differences, key=lambda each: each[0])[:5]:
            yield f"  {difference}"
