"""Random right programs whose reader follows all advice, against the oracle of the sanitizer and against their bytes.

`python -m tests.acl_py.advice.campaign FIRST LAST` prints for the programs with these numbers, under all rules: how
many are right, how many pairs their advice leaves without order, how many see other bytes under other schedules and
with weak effects, how many are longer, and how many of the waits called needed have a pair in the oracle's eyes.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, product
from random import Random
from re import sub
from typing import Any

from acl_py.advice.choosing import Chooser
from acl_py.advice.lines import WaitLine
from acl_py.advice.needs import Edit
from acl_py.advice.pairs import Pair
from acl_py.advice.pieces import Advice
from acl_py.advice.steps import Steps
from acl_py.calls.acts import Destroyed, GraphUpdated
from acl_py.causes.path import makespan_ns
from acl_py.causes.relation import At
from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case, EditError
from acl_py.explain.edges import with_edges
from acl_py.explain.recordings import asker_of
from acl_py.explain.whatif import Asker
from acl_py.explore.strategies import RandomDecisions
from acl_py.programs.format import Program, Step, parse
from acl_py.schedules import Schedule, following
from acl_py.trace.rows.timeline import Timeline
from device_model.profile import load
from device_model.rules import RULES
from tests.sanitizer.bytes_of_runs import see
from tests.sanitizer.oracle import programs, verdicts
from tests.sanitizer.oracle.reading import Run, read
from tests.sanitizer.oracle.running import run, source
from tests.sanitizer.oracle.verdicts import pairs

SCHEDULES = 20
_HELD_BACK = 5  # runs that show whether a program with several tasks is right
_MORE = 60  # programs with tasks that are held back, if the advice leads to other bytes
_MARK = "step"


@dataclass(frozen=True)
class Outcome:
    """What became of one program: the *pieces* of advice about it; the pairs that are *left* without order; the
    schedules, and the effects, under which *other* bytes are seen, None if that depends on the schedule in the program
    as it is; how much *longer* the run is, and whether it *polls*, so that it goes on when it asks next; how many waits
    are called *needed*, without those for the *ends* of streams, events and executables, of which the oracle knows
    nothing, and those whose pair the oracle does not find; the *doubts*, and how many *waits* there are.
    """

    pieces: int
    left: tuple[tuple[int, int, str], ...]
    other: tuple[str, ...] | None
    longer_ns: int
    polls: bool
    needed: int
    ends: int
    unconfirmed: tuple[str, ...]
    doubts: tuple[str, ...]
    waits: int


@dataclass
class Sum:
    """The sum of outcomes, and what is *wrong*."""

    programs: int = 0
    advised: int = 0
    pieces: int = 0
    depends: int = 0
    longer: int = 0
    polling: int = 0
    needed: int = 0
    ends: int = 0
    unconfirmed: list[str] = field(default_factory=list)
    waits: int = 0
    doubts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, outcome: Outcome) -> None:
        """Add the *outcome* of the program *name*."""
        self.programs += 1
        self.advised += outcome.pieces > 0
        self.pieces += outcome.pieces
        self.depends += outcome.other is None
        self.longer += outcome.longer_ns > 0
        self.polling += outcome.longer_ns > 0 and outcome.polls
        self.needed += outcome.needed
        self.ends += outcome.ends
        self.unconfirmed += [f"{name}: {each}" for each in outcome.unconfirmed]
        self.waits += outcome.waits
        self.doubts.update(outcome.doubts)
        if outcome.left:
            self.wrong.append(f"{name}: without order: {outcome.left}")
        if outcome.other:
            self.wrong.append(f"{name}: other bytes under {', '.join(outcome.other)}")
        if outcome.longer_ns > 0 and not outcome.polls:
            self.wrong.append(f"{name}: longer by {outcome.longer_ns:,} ns")

    def __str__(self) -> str:
        confirmed, doubts = self.needed - len(self.unconfirmed), self.doubts.total()
        return "\n".join(
            [
                f"{self.programs:,} right programs, {self.advised:,} with {self.pieces:,} pieces of advice",
                f"the bytes of {self.depends:,} depend on the schedule as they are",
                f"{self.longer:,} are longer with the advice; {self.polling:,} of them ask until work is done",
                f"{confirmed:,} of {self.needed:,} waits called needed are confirmed; {self.ends:,} more are for ends",
                f"{doubts:,} of {self.waits:,} waits are not known: {dict(self.doubts.most_common())}",
                *self.wrong,
                *self.unconfirmed,
            ]
        )


def outcome(seed: int, rules: str) -> Outcome | None:
    """What becomes of a random program; None if it is not right, or cannot be run again."""
    program = marked(parse(programs.program(seed, rules)))
    if not is_right(program, rules):
        return None
    try:
        ran = run(program, rules)
        timeline = ran.trace.timeline()
        asker = asker_of(timeline, "random")
        chosen = Chooser(asker, timeline).choose()
    except (DeadlockError, EditError):
        return None
    edits = Edits(program, rules, asker, timeline)
    advised = edits.with_advice(chosen.advice)
    made = see(advised, rules, "strong", _numbers(advised))
    left = pairs(read(advised, rules, made.run))
    if left and not is_right(program, rules, _MORE):
        return None  # it has others if its tasks take other turns
    told = [(edits.step_of(each.line), each.pair) for each in chosen.verdicts if each.pair is not None]
    needed = [each for each in told if not _ends_thing(each[1], timeline)]
    unconfirmed = [each for each in needed if not _loses(advised, rules, made.run, each[0])]
    return Outcome(
        len(chosen.advice),
        tuple(sorted((pair.first, pair.second, pair.fault.value) for pair in left)),
        _other(program, advised, rules, f"{seed} {rules}"),
        makespan_ns(run(advised, rules).trace.timeline()) - makespan_ns(timeline),
        any(step.fields.get("until") for step in program.steps),
        len(needed),
        len(told) - len(needed),
        tuple(f"step {step}, {pair}" for step, pair in unconfirmed),
        tuple(str(each.doubt) for each in chosen.verdicts if each.doubt is not None),
        len(chosen.verdicts) + len(chosen.advice),
    )


def marked(program: Program) -> Program:
    """*program*, in which each step has its number, which it keeps when it is edited."""
    return replace(program, steps=tuple(replace(step, site=f"{_MARK}:{step.index}") for step in program.steps))


def _numbers(program: Program) -> list[int]:
    return [int(step.site.rpartition(":")[2]) for step in program.steps]


def _ends_thing(pair: Pair, timeline: Timeline) -> bool:
    """Whether *pair* is about the end of a stream, an event or an executable, or a change of it."""
    if pair.other.at is not At.ENTRY:
        return False
    return isinstance(timeline.calls[pair.other.place].act, Destroyed | GraphUpdated)


class Edits:
    """The edits of the recording of a *program*, as edits of the program itself."""

    def __init__(self, program: Program, rules: str, asker: Asker, timeline: Timeline) -> None:
        self._case = Case(program, load("tiny"), RULES[rules])
        self._lines = source(program, rules)[1]
        self._steps = Steps(asker, timeline)

    def step_of(self, line: WaitLine | Step) -> int | None:
        """The step that is written in a line; None for one behind all steps."""
        return self._lines.get(int(line.site.rpartition(":")[2]))

    def with_advice(self, advice: Sequence[Advice]) -> Program:
        """The program of somebody who follows *advice*."""
        edited = self._steps.edited(sum((each.way.edit for each in advice), Edit()))
        recorded = self._steps.steps
        gone = {self.step_of(recorded[index]) for index in edited.gone}
        edges = [
            edge._replace(
                before=self.step_of(recorded[edge.before]),
                behind=self.step_of(recorded[edge.behind]),
                from_stream=_own_name(edge.from_stream),
                to_stream=edge.to_stream and _own_name(edge.to_stream),
                event=_own_name(edge.event),
            )
            for edge in edited.edges
        ]
        return with_edges(self._case, edges, gone).program


def _own_name(name: str) -> str:
    """Return the name in the program of what a recording calls *name*: a second thing of a name has a number there."""
    return sub(r" \(\d+\)$", "", name)


def _loses(program: Program, rules: str, made: Run, gone: int | None) -> bool:
    """Whether *program*, which ran as *made* says, has a pair without order if the step *gone* is not made: as it is,
    or without what advice does not rely on. That is a copy that waits only while its memory is pageable, and a query
    that was answered with "done".
    """
    if _pairs_without(program, rules, made, gone):
        return True
    buffers = {
        name: {**buffer, "space": "pinned"} if buffer["space"] == "pageable" else buffer
        for name, buffer in program.buffers.items()
    }
    less, unanswered = replace(program, buffers=buffers), replace(made, complete=frozenset())
    return len(_pairs_without(less, rules, unanswered, gone)) > len(pairs(read(less, rules, unanswered)))


def _pairs_without(program: Program, rules: str, made: Run, gone: int | None) -> Sequence[verdicts.Pair]:
    """The pairs without order in *program*, which ran as *made* says, if the step *gone* is not made."""
    index = _numbers(program).index(gone)
    case = Case(program, load("tiny"), RULES[rules]).with_steps(lambda step: [] if step.index == index else [step])
    place = {each: each - (each > index) for each in range(len(program.steps)) if each != index}
    failed, complete, uncalled = (
        frozenset(place[each] for each in of if each in place) for of in (made.failed, made.complete, made.uncalled)
    )
    order = [place[each] for each in made.order if each in place]
    taken = {place[each]: place[called] for each, called in made.taken.items()}
    return pairs(read(case.program, rules, Run(order, failed, complete, uncalled, taken)))


def _other(before: Program, after: Program, rules: str, seed: str) -> tuple[str, ...] | None:
    """Under what *after* sees other bytes than *before*; None if *before* itself sees others under other schedules: its
    tasks take turns as it happens.
    """
    plain = _seen(before, rules, "strong", None)
    chances = [f"{seed}/{number}" for number in range(SCHEDULES)]
    tried: dict[str, tuple[str, str | None]] = {"none": ("strong", None), "weak": ("weak", None)}
    tried |= {f"schedule {number}": ("strong", chance) for number, chance in enumerate(chances)}
    other = tuple(name for name, (effects, chance) in tried.items() if _seen(after, rules, effects, chance) != plain)
    if not other:
        return other
    held = (held_back(before, Random(f"{seed}/{number}")) for number in range(_MORE))
    as_it_is = (_seen(each, rules, "strong", None) for each in held)
    others = chain((_seen(before, rules, "strong", chance) for chance in chances), as_it_is)
    return None if any(each != plain for each in others) else other


def is_right(program: Program, rules: str, times: int = _HELD_BACK) -> bool:
    """Whether *program* ends and all is in order, also if its tasks are held back in so many runs: the order of one
    task does not depend on that.
    """
    times = times if any(step.task is not None for step in program.steps) else 0
    try:
        return not any(
            pairs(read(each, rules, run(each, rules).run))
            for each in (program, *(held_back(program, Random(number)) for number in range(times)))
        )
    except DeadlockError:
        return False


def held_back(program: Program, rng: Random) -> Program:
    """*program*, whose tasks sleep now and then."""

    def change(step: Step) -> list[Step]:
        sleep = Step(step.index, "sleep", None, {"us": rng.choice((1, 5, 100))}, task=step.task, site=step.site)
        return [sleep, step] if rng.random() < 0.2 else [step]

    return Case(program, load("tiny"), RULES["cuda"]).with_steps(change).program


def _seen(program: Program, rules: str, effects: str, chance: str | None) -> Any:
    """What the host and the kernels of *program* read, and all bytes in the end. Tasks may read in another order."""
    with nullcontext() if chance is None else following(Schedule(RandomDecisions(chance))):
        seen = see(program, rules, effects, _numbers(program))
    return {name: sorted(values) if name == "host" else values for name, values in seen.reads.items()}, seen.bytes


def total(seeds: Iterable[int]) -> Sum:
    """The sum of all right programs with these numbers."""
    found = Sum()
    for seed, rules in product(seeds, programs.RULES):
        if (each := outcome(seed, rules)) is not None:
            found.add(f"{seed} {rules}", each)
    return found


def main(first: int, last: int) -> None:
    """Print the sum of the programs with these numbers."""
    print(total(range(first, last)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
