"""How many random programs each detector gets wrong.

A detector misses a program if there is a step with a fault at which it reports nothing. It is false if it reports a
pair that the documents order, or that shares no byte.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from acl_py.tools.programs import parse
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.baselines import Pairs, by_last_writer, by_pointer
from tests.sanitizer.oracle.promises import Promises
from tests.sanitizer.oracle.reading import read
from tests.sanitizer.oracle.verdicts import pairs


@dataclass
class Score:
    """The numbers of programs that a detector gets wrong."""

    wrong: int = 0
    misses: int = 0
    false: int = 0

    def add(self, reported: Pairs, faults: Pairs) -> None:
        """Count one program with these *faults*, of which *reported* were reported."""
        misses = {later for _, later in faults} - {later for _, later in reported}
        false = reported - faults
        self.misses += bool(misses)
        self.false += bool(false)
        self.wrong += bool(misses or false)


def scores(count: int) -> tuple[int, dict[str, Score]]:
    """How many of *count* random programs have a fault, and the score of each baseline."""
    faulty, table = 0, {"base pointers (as PyTorch)": Score(), "last writer only": Score()}
    for seed in range(count):
        rules = programs.RULES[seed % len(programs.RULES)]
        calls = read(parse(programs.program(seed, rules)), rules)
        promises = Promises(calls)
        faults = {(pair.first, pair.second) for pair in pairs(calls, promises)}
        faulty += bool(faults)
        table["base pointers (as PyTorch)"].add(by_pointer(calls), faults)
        table["last writer only"].add(by_last_writer(calls, promises), faults)
    return faulty, table


def lines(count: int, faulty: int, table: Mapping[str, Score]) -> Iterable[str]:
    """The table, for a terminal."""
    yield f"{count:,} random programs, {faulty:,} of which have a fault. Programs that each detector gets wrong:"
    yield f"{'':28}{'wrong':>8}{'misses':>8}{'false':>8}"
    for name, score in table.items():
        yield f"{name:28}{score.wrong:>8,}{score.misses:>8,}{score.false:>8,}"
