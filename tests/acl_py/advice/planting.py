"""Needless waits that are planted in random programs: does advice take as many out again, and is the run as short?

`python -m tests.acl_py.advice.planting FIRST LAST` prints what became of the waits, and why some stayed.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from random import Random

from acl_py.advice.choosing import Chooser, Form
from acl_py.causes.path import makespan_ns
from acl_py.errors import DeadlockError
from acl_py.explain.cases import EditError
from acl_py.explain.recordings import asker_of
from acl_py.programs.format import parse
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.reading import read
from tests.sanitizer.oracle.running import run, source
from tests.sanitizer.oracle.verdicts import pairs

_MOST = 5  # planted waits
_WAITS = ("sync_stream", "sync_device", "sync_event", "sync_op")


@dataclass(frozen=True)
class Planted:
    """What became of *count* planted waits: how many waits *more* are left than in the program without them after its
    own advice, and how much longer that run is. *doubts* say why planted ones are not known to be needless.
    """

    count: int
    more: int
    longer_ns: int
    doubts: tuple[str, ...]

    @property
    def is_undone(self) -> bool:
        """Whether advice brings as few waits and as short a run."""
        return self.more <= 0 and self.longer_ns <= 0


def planted(document, rng):
    """*document* with some waits more, and their indices: none is the last wait of its task."""
    steps = [dict(step) for step in document["steps"]]
    places = set()
    for _ in range(rng.randint(1, _MOST)):
        task, until = _last_wait(steps, rng)
        if until is None:
            continue
        own = [index for index in range(until + 1) if steps[index].get("task") == task]
        index = rng.choice(own)
        if "after" in steps[index] or _is_within(steps, index):
            continue
        names = [name for name in document["streams"] if name != "sc"]
        wait = rng.choice([{"op": "sync_device"}, {"op": "sync_stream", "stream": rng.choice(names)}])
        steps.insert(index, wait | ({} if task is None else {"task": task}))
        for step in steps[index + 1 :]:
            if step.get("after") is not None and step["after"] >= index:
                step["after"] += 1
        places = {place + (place >= index) for place in places} | {index}
    return document | {"steps": steps}, places


def _last_wait(steps, rng):
    """A task, and the index of its last wait."""
    tasks = sorted({step.get("task") for step in steps}, key=str)
    task = rng.choice(tasks)
    waits = [index for index, step in enumerate(steps) if step.get("task") == task and step["op"] in _WAITS]
    return task, waits[-1] if waits else None


def _is_within(steps, index):
    """Whether what is made before the first operation is still being made, or a callback runs, which must not wait."""
    if any(step["op"].startswith("create_") for step in steps[index:]):
        return True
    calls = [step["op"] for step in steps[:index] if step["op"] in ("process_report", "end_report")]
    return calls[-1:] == ["process_report"]


def advised(document, rules):
    """What is said about a program: the advice, the verdicts by step; None if it waits without end or has races."""
    program = parse(document)
    try:
        ran = run(program, rules)
        if pairs(read(program, rules, ran.run)):
            return None
        timeline = ran.trace.timeline()
        chosen = Chooser(asker_of(timeline, "random"), timeline).choose()
    except (DeadlockError, EditError):
        return None
    steps = source(program, rules)[1]
    return timeline, chosen, lambda line: steps.get(int(line.site.rpartition(":")[2]))


def outcome(seed, rules):
    """What became of the waits that are planted in a right random program; None if it has none."""
    rng = Random(f"{seed} {rules} planted")
    document = programs.program(seed, rules)
    more, places = planted(document, rng)
    before = advised(document, rules) if places else None
    after = advised(more, rules) if before is not None else None
    if before is None or after is None:
        return None
    _, chosen, step_of = after
    doubts = [str(each.doubt) for each in chosen.verdicts if each.doubt is not None and step_of(each.line) in places]
    more_waits = _left(chosen) - _left(before[1])
    return Planted(len(places), more_waits, _done(*after[:2]) - _done(*before[:2]), tuple(doubts))


def _left(chosen):
    """How many waits the program has with all advice."""
    return len(chosen.verdicts) + sum(each.way.form is not Form.REMOVE for each in chosen.advice)


def _done(timeline, chosen):
    """How long the program takes with all advice."""
    return makespan_ns(timeline) - (0 if chosen.together is None else chosen.together.gain_ns)


def outcomes(seeds):
    """What became of the waits in all programs that have some."""
    return [each for seed in seeds for rules in programs.RULES if (each := outcome(seed, rules)) is not None]


def main(first, last):
    """Print what became of the waits in the programs with these numbers."""
    found = outcomes(range(first, last))
    seen = [each for each in found if not each.doubts]
    print(f"{len(found):,} programs with {sum(each.count for each in found):,} planted waits")
    print(f"all is seen:    {len(seen):,}; as few waits and as short: {sum(each.is_undone for each in seen):,}")
    unseen = [each for each in found if each.doubts]
    print(f"not all is seen: {len(unseen):,}; as few waits and as short: {sum(each.is_undone for each in unseen):,}")
    for doubt, count in Counter(doubt for each in found for doubt in each.doubts).most_common():
        print(f"  {count:,} not known: {doubt}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
