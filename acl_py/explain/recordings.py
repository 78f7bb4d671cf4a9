"""Recordings as cases: the program of a run, which can be run again with edits."""

from dataclasses import replace

from acl_py import recorded
from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case, EditError
from acl_py.explain.whatif import Asker
from acl_py.programs.format import ProgramError, parse
from acl_py.trace.rows.timeline import Timeline
from device_model.errors import printable
from device_model.overlay import load as lay
from device_model.profile import ProfileError, load
from device_model.rules import RULES

_LONGEST = 200  # characters of the name of a program


def case_of(timeline: Timeline, name: str) -> Case:
    """Return the program of the run in *timeline*, which is called *name*.

    Raises:
        EditError: the program cannot be run again; the message says why.
    """
    try:
        device, rules = load(timeline.device), RULES[timeline.rules]
        if timeline.overlay:
            device = lay(timeline.overlay, device)
    except ProfileError as error:
        raise EditError(f"the run cannot be repeated: {error}") from error
    except KeyError as error:
        raise EditError(f"the run cannot be repeated: there are no rules {timeline.rules!r}") from error
    # A run may have had more devices than the profile: install(devices=...), or --devices.
    used = {handle.device for handle in timeline.handles} | {buffer.device for buffer in timeline.buffers}
    device = replace(device, devices=max(device.devices, 1 + max(used, default=0)))
    try:
        program = parse(recorded.program(timeline, printable(name)[:_LONGEST] or "run"))
    except ProgramError as error:
        raise EditError(f"the run cannot be repeated: {error}") from error
    return Case(program, device, rules)


def asker_of(timeline: Timeline, name: str) -> Asker:
    """Return an asker for the program of the run in *timeline*, which is called *name*.

    If a replay of the unchanged program differs from the run, a note of the case says so.

    Raises:
        EditError: the program cannot be run again; the message says why.
    """
    case = case_of(timeline, name)
    try:
        asker = Asker(case)
    except ProgramError as error:
        raise EditError(f"the run cannot be repeated: {error}") from error
    except DeadlockError as error:
        raise EditError("the program of this recording ends in a deadlock") from error
    if _work(asker.timeline) != _work(timeline):
        asker.case = asker.case.noting("the program of this recording does not repeat the run to the nanosecond")
    return asker


def _work(timeline: Timeline) -> list[tuple[str, int, int]]:
    return sorted((op.name, op.start_ns, op.end_ns) for op in timeline.ops)
