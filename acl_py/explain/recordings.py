"""Recordings as cases: the program of a run, which can be run again with edits."""

from dataclasses import replace

from acl_py import recorded
from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case, EditError
from acl_py.explain.whatif import Asker, settled
from acl_py.programs.format import ProgramError, parse
from acl_py.trace.rows.timeline import Timeline
from device_model.errors import printable
from device_model.overlay import load as lay
from device_model.profile import DeviceProfile, ProfileError, load, names
from device_model.rules import RULES

_USUAL = {"cuda": "h200", "acl": "ascend910b3"}  # the profile that stands for cards of no other one, by their rules
_LONGEST = 200  # characters of the name of a program


def case_of(timeline: Timeline, name: str, model: DeviceProfile | None = None) -> Case:
    """Return the program of the run in *timeline*, which is called *name*.

    Its device is the *model*, or else the profile of the run; of a run on a card the nearest one, as a note says.

    Raises:
        EditError: the program cannot be run again; the message says why.
    """
    try:
        own = _own(timeline) if model is None else None
        device, rules = model or own or load(_nearest(timeline)), RULES[timeline.rules]
    except ProfileError as error:
        raise EditError(f"the run cannot be repeated: {error}") from error
    except KeyError as error:
        raise EditError(f"the run cannot be repeated: there are no rules {timeline.rules!r}") from error
    # A run may have had more devices than the profile: install(devices=...), or --devices.
    used = {handle.device for handle in timeline.handles} | {buffer.device for buffer in timeline.buffers}
    device = replace(device, devices=max(device.devices, 1 + max(used, default=0)))
    try:
        with settled():
            program = parse(recorded.program(timeline, printable(name)[:_LONGEST] or "run"))
    except (ProgramError, recorded.OneHostError) as error:
        raise EditError(f"the run cannot be repeated: {error}") from error
    case = Case(program, device, rules)
    if own is not None:
        return case
    ran = printable(timeline.device)
    return case.noting(f"what {ran} itself would take: the prices are those of the model, {device.name}")


def _own(timeline: Timeline) -> DeviceProfile | None:
    """Return the profile of the run with its overlay; None for a run on a card."""
    name = timeline.device
    if name not in names() and not name.endswith(".toml"):
        return None
    return lay(timeline.overlay, load(name)) if timeline.overlay else load(name)


def _nearest(timeline: Timeline) -> str:
    """Return the name of the profile that is nearest to the card of the run."""
    words = timeline.device.lower().split()
    usual = _USUAL.get(timeline.rules.partition("_")[0], timeline.device)
    return next((name for name in names() if name in words), usual)


def asker_of(timeline: Timeline, name: str, model: DeviceProfile | None = None) -> Asker:
    """Return an asker for the program of the run in *timeline*, which is called *name*; *model* is as in `case_of`.

    If a replay of the unchanged program differs from the run, a note of the case says so.

    Raises:
        EditError: the program cannot be run again; the message says why.
    """
    case = case_of(timeline, name, model)
    try:
        asker = Asker(case)
    except ProgramError as error:
        raise EditError(f"the run cannot be repeated: {error}") from error
    except DeadlockError as error:
        raise EditError("the program of this recording ends in a deadlock") from error
    if _work(asker.plain_timeline) != _work(timeline):
        asker.case = asker.case.noting("the program of this recording does not repeat the run to the nanosecond")
    return asker


def _work(timeline: Timeline) -> list[tuple[str, int, int]]:
    return sorted((op.name, op.start_ns, op.end_ns) for op in timeline.ops)
