"""What a session did, in words: its times, what it asked for in vain, and what it never gave back."""

from collections.abc import Iterator

from acl_py.compat.acl.rt_binaries import Function
from acl_py.compat.acl.rt_kernel_args import KernelArgs, KernelArgument
from acl_py.compat.acl.session import Session
from acl_py.trace.summary import summarize, told
from device_model.contexts import Context
from device_model.errors import DeviceError
from device_model.events import Event
from device_model.streams import Stream

_SHOWN = 8  # of the leaks of one sort


def report(session: Session) -> str:
    """The summary of *session*: simulated time, the use of engines and streams, waits, findings, leaks."""
    lines = [summarize(session.runtime, session.trace, ())]
    lines += [f"  finding: {finding}" for finding in findings(session)]
    return "\n".join([*lines, *told(leaks(session))])


def findings(session: Session) -> list[str]:
    """What a card would do, or suffer, and this did not: a line each."""
    return [*(f"acl.{name} is not simulated: it gave 207000" for name in session.unsupported), *session.warned]


def leaks(session: Session) -> list[str]:
    """What was never given back, a line each: memory, also that which a reset had to free, and handles."""
    memory = session.runtime.memory
    return [
        *(f"{allocation!r} was never freed" for allocation in memory.leaks()),
        *(f"{allocation!r}: only the reset freed it" for allocation in memory.left_to_reset),
        *_handles(session),
    ]


def _handles(session: Session) -> Iterator[str]:
    """Things that a destroy function is for and that are still there, by kind."""
    kinds: dict[str, list[str]] = {}
    for thing in session.objects.values():
        if _is_owned(thing):
            made = getattr(thing, "made", None)
            kinds.setdefault(_name(thing), []).append("" if made is None else f"{made}")
    for name, places in kinds.items():
        where = ", ".join(dict.fromkeys(place for place in places[:_SHOWN] if place))
        several = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
        count = f"{len(places):,} {several if len(places) > 1 else name}"
        yield f"{count} never destroyed{f', made at {where}' if where else ''}"


def _is_owned(thing: object) -> bool:
    if isinstance(thing, Context):
        return not thing.primary and thing.destroyed is None
    if isinstance(thing, Stream):
        return thing is not thing.context.default
    return not isinstance(thing, DeviceError | Function | KernelArgs | KernelArgument)


def _name(thing: object) -> str:
    """The class in words: a DataBuffer is a data buffer, an event of whatever class an event."""
    if isinstance(thing, Event):
        return "event"
    name = type(thing).__name__.lstrip("_")
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
