"""Recorded programs: the stream program of a run. It makes the same calls at the same times, to the nanosecond.

What is no interaction with a device is host time. A call that the format has becomes a step. Any other call becomes
host work with its name, and the time in which the host did nothing until a task went on by itself becomes a sleep of
that task.

What the program cannot keep is in its `notes`: decisions of the host that depend on times, and calls whose effect the
format does not have.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from acl_py.calls.acts import CallbackBegan
from acl_py.recorded.acts import acts_of, note_acts
from acl_py.recorded.host_order import Item, order_of
from acl_py.recorded.names import Fields, unique
from acl_py.recorded.translations import Translator
from acl_py.trace.rows.columns import call_columns
from acl_py.trace.rows.timeline import OWN_HOSTS, Timeline
from acl_py.whole_files import write_text


class OneHostError(ValueError):
    """A run with several hosts cannot be a stream program."""


def program(timeline: Timeline, name: str = "recorded") -> Fields:
    """Return the stream program called *name* of the run in *timeline*, as a JSON document (docs/programs/recorded.md).

    `acl_py.programs.format.parse` checks it, and `acl_py.programs.replay.replay` runs it on `timeline.device`, with
    `timeline.overlay` if there is one, under `timeline.rules`.

    Raises:
        OneHostError: ranks had hosts of their own.
    """
    if timeline.host_time == OWN_HOSTS:
        raise OneHostError(
            "its ranks had hosts of their own, and a stream program has one host: run it with ranks(..., "
            "own_hosts=False) to record it"
        )
    translator = Translator(timeline)
    acts = acts_of(timeline, translator)
    _note_run(timeline, translator)
    steps = _steps(timeline, order_of(acts))
    head = {"id": name, "device": timeline.device, "rules": timeline.rules, "gap_us": 0}
    if timeline.overlay:
        head["overlay"] = timeline.overlay
    return head | {"notes": list(translator.notes)} | translator.names.used() | {"steps": steps}


def notes_of(timeline: Timeline) -> list[str]:
    """Return the notes of the program of the run in *timeline*: what prices and edited runs do not contain."""
    translator = Translator(timeline)
    note_acts(timeline, translator)
    _note_run(timeline, translator)
    return list(translator.notes)


def not_known(notes: Iterable[str]) -> list[str]:
    """Return a line of text for each of *notes*."""
    return [f"  not known: {note}" for note in notes]


def write(timeline: Timeline, path: Path) -> None:
    """Write the program of the run in *timeline* to the file *path*, as JSON with a line for each step."""
    document = program(timeline)
    steps = ",\n  ".join(json.dumps(step) for step in document.pop("steps"))
    head = json.dumps(document, indent=1).removesuffix("\n}")
    write_text(path, f'{head},\n "steps": [\n  {steps}\n ]\n}}\n')


def _note_run(timeline: Timeline, translator: Translator) -> None:
    """Add the notes that are not about single calls."""
    if timeline.strikes:
        translator.note("faults were injected: the calls and operations that they struck are as without them")
    for failure in timeline.failures:
        translator.note(
            f"{failure.site}: {failure.name} failed; in the program, neither it nor what failed because of it does"
        )
    if timeline.host_time == "measured":
        translator.note(
            "the run counted the real time between two calls (host_time='measured'), and the program has it only in "
            "its host work"
        )
    kinds = call_columns(timeline.calls).kinds
    has_callbacks = any(isinstance(kind.act, CallbackBegan) and kind.function for kind in kinds)
    calls = timeline.calls if has_callbacks else ()
    hosts = {call.by for call in calls if isinstance(call.act, CallbackBegan) and call.function}
    if hosts - {call.by for call in calls[:1]}:
        translator.note(
            "a thread of the script waited for callbacks, which took no time of the script's; in the program it does"
        )
    if timeline.error:
        translator.note(f"the run ended with an error: {timeline.error.splitlines()[0]}")


def _steps(timeline: Timeline, items: list[Item]) -> list[Fields]:
    """Return the steps of *items*, which are in their order."""
    steps: list[Fields] = []
    tasks = _tasks(timeline)
    for item in items:
        item.index = len(steps)
        fields: Fields = {"op": "resume"} if item.fields is None else dict(item.fields)
        if len(tasks) > 1:
            fields["task"] = tasks[item.act.caller]
        if item.after is not None:
            fields["after"] = item.after.index
        if item.act.site:
            fields["site"] = item.act.site
        steps.append(fields)
    return steps


def _tasks(timeline: Timeline) -> dict[int, str]:
    """Return a name for each caller; those of one name get numbers."""
    callers = {call.by: call.caller for call in sorted(timeline.calls, key=lambda call: call.by)}
    for op in timeline.ops:
        callers.setdefault(op.by, op.caller)
    for access in timeline.accesses:
        callers.setdefault(access.by, access.caller)
    return dict(zip(callers, unique(list(callers.values())), strict=True))
