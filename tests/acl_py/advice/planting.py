"""Needless waits that are planted in random programs: does advice take as many out again, and is the run as short?

The oracle of the sanitizer, which shares no code with advice, says which planted waits are needless. Others are taken
out again before advice is asked: a wait that is the first behind a host function or behind bytes that the host uses
unseen, or behind which something is told, is not known to be needless. Programs whose order rests on how their tasks
take turns are left out.

`python -m tests.acl_py.advice.planting FIRST LAST` prints what became of the waits, and which did not go.
"""

import sys
from dataclasses import dataclass, replace
from random import Random

from acl_py.advice.choosing import Chooser
from acl_py.advice.pieces import Form
from acl_py.causes.path import makespan_ns
from acl_py.errors import DeadlockError
from acl_py.explain.cases import EditError
from acl_py.explain.recordings import asker_of
from acl_py.programs.format import parse
from tests.acl_py.advice.campaign import Edits, is_right, marked
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.promises import Promises, end, enter, leave
from tests.sanitizer.oracle.reading import overlap, read
from tests.sanitizer.oracle.running import run
from tests.sanitizer.oracle.verdicts import pairs

_MOST = 5  # planted waits
_WAITS = ("sync_stream", "sync_device", "sync_event", "sync_op")
_TELLS = ("query_stream", "query_event", "query_waits", "elapsed", "timestamp")


@dataclass(frozen=True)
class Planted:
    """What became of *count* planted waits in the program *name*: how many waits *more* are left than in the program
    without them after its own advice, and how much longer that run is. Planted ones that *stayed* have their places,
    and why they are not known to be needless.
    """

    name: str
    count: int
    more: int
    longer_ns: int
    stayed: tuple[tuple[int, str], ...]

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


def needless(document, rules, places):
    """Those of the planted waits at *places* that are needless in the eyes of the oracle; None if the program has pairs
    without order without them, or if it does not end.
    """
    try:
        made = run(parse(document), rules).run
        calls = read(parse(document), rules, made)
    except DeadlockError:
        return None
    order = [index for index in made.order if index not in places]
    if pairs(calls) or pairs(read(parse(document), rules, replace(made, order=order))):
        return None
    promises = Promises(calls)
    return {call.index for call in calls if call.index in places and not _shows(call, calls, promises)}


def _shows(wait, calls, promises):
    """Whether the host learns by *wait* that work is over which it may use unseen, or which it may tell of before its
    next wait.
    """
    learned = [
        entry
        for entry in promises.entries
        if promises.is_before(end(entry), leave(wait)) and not promises.is_before(end(entry), enter(wait))
    ]
    if any(_is_unseen(entry, calls) for entry in learned):
        return True
    own = [call for call in calls[wait.place + 1 :] if call.task == wait.task]
    until = next((place for place, call in enumerate(own) if call.step.op in _WAITS), len(own))
    handed = {call.after for call in calls if call.task != wait.task}
    tells = any(call.step.op in _TELLS or call.index in handed for call in own[:until])
    return bool(learned) and (tells or wait.index in handed)


def _is_unseen(entry, calls):
    """Whether the host may use what *entry* did, unseen: a function, plain arrays, or memory that it did not read."""
    if entry.role == "callback" or entry.call.step.op == "host_func" or "g" in entry.call.step.fields.values():
        return True
    return any(_is_unread(access, entry, calls) for access in entry.accesses if access.writes)


def _is_unread(written, entry, calls):
    """Whether the host was not seen to read what *entry* has *written* to its memory, before it is written again."""
    if written.life.space == "device":
        return False
    for call in calls[entry.call.place + 1 :]:
        own = () if call.entry is None else call.entry.accesses
        for access in (*call.accesses, *own):
            if access.life is written.life and overlap(access.bytes, written.bytes):
                if not access.writes and access in call.accesses:
                    return False
                if access.writes:
                    return True
    return True


def advised(document, rules):
    """What is said about a program: how many waits it has with all advice, how long its run is then, and the verdicts,
    by step; None if it waits without end or has races.
    """
    program = marked(parse(document))
    try:
        ran = run(program, rules)
        if pairs(read(program, rules, ran.run)):
            return None
        timeline = ran.trace.timeline()
        asker = asker_of(timeline, "random")
        chosen = Chooser(asker, timeline).choose()
    except (DeadlockError, EditError):
        return None
    edits = Edits(program, rules, asker, timeline)
    left = len(chosen.verdicts) + sum(each.way.form is not Form.REMOVE for each in chosen.advice)
    done_ns = makespan_ns(run(edits.with_advice(chosen.advice), rules).trace.timeline())
    return left, done_ns, {edits.step_of(each.line): each for each in chosen.verdicts}


def outcome(seed, rules):
    """What became of the waits that are planted in a right random program; None if it has none."""
    rng = Random(f"{seed} {rules} planted")
    document = programs.program(seed, rules)
    more, places = planted(document, rng)
    kept = needless(more, rules, places) if places else None
    while kept is not None and kept != places:  # without some waits, others may be the first behind something
        more, moved = _without(more, places - kept)
        places = {moved[place] for place in kept}
        kept = needless(more, rules, places) if places else None
    if not kept or not all(is_right(parse(each), rules) for each in (document, more)):
        return None
    before = advised(document, rules)
    after = advised(more, rules) if before is not None else None
    if after is None:
        return None
    (left, done_ns, _), (left_after, after_ns, verdicts) = before, after
    stayed = [(place, str(verdicts[place].doubt or "")) for place in sorted(places & verdicts.keys())]
    return Planted(f"{seed} {rules}", len(places), left_after - left, after_ns - done_ns, tuple(stayed))


def _without(document, gone):
    """*document* without the planted waits *gone*, and the new places of all other steps."""
    kept = [index for index in range(len(document["steps"])) if index not in gone]
    places = {index: place for place, index in enumerate(kept)}
    steps = [dict(document["steps"][index]) for index in kept]
    for step in steps:
        if "after" in step:
            step["after"] = places[step["after"]]
    return document | {"steps": steps}, places


def outcomes(seeds):
    """What became of the waits in all programs that have some."""
    return [each for seed in seeds for rules in programs.RULES if (each := outcome(seed, rules)) is not None]


def main(first, last):
    """Print what became of the waits in the programs with these numbers."""
    found = outcomes(range(first, last))
    undone = sum(each.is_undone for each in found)
    print(f"{len(found):,} programs with {sum(each.count for each in found):,} planted waits")
    print(f"as few waits and as short: {undone:,} ({undone / len(found):.1%})")
    for each in found:
        if not each.is_undone:
            print(f"{each.name}: {each.more:+} waits, {each.longer_ns:+,} ns; stayed: {each.stayed}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
