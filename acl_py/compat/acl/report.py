"""The summary of a session: its times, what is not simulated, what failed, and what was never given back."""

from collections.abc import Iterator, Sequence

from acl_py.compat.acl.face.failed_calls import printable
from acl_py.compat.acl.face.handles import word_for
from acl_py.compat.acl.face.session import Session, brought_in
from acl_py.compat.acl.face.wording import reword
from acl_py.compat.acl.functions.rt.binaries import Function, LoadedBinary
from acl_py.compat.acl.functions.rt.kernel_args import KernelArgs, KernelArgument
from acl_py.compat.acl.standins.loading import LoadedModel
from acl_py.sanitizer.findings import Findings
from acl_py.trace.summary import SYNCHRONISATIONS, leak_lines, summarize
from device_model.contexts import Context
from device_model.errors import DeviceError
from device_model.memory import Allocation, Origin, Physical, Space, size_text
from device_model.streams import Stream

_WAITS = (*SYNCHRONISATIONS, "acl.")  # the functions that wait within their call
_SHOWN = 8  # places where things of one kind were made
_NEVER = {Origin.REGISTERED: "unregistered", Origin.MAPPED: "unmapped"}
_ENDED = {LoadedModel: "unloaded", LoadedBinary: "unloaded", Physical: "freed"}


def report(session: Session) -> str:
    """Return the summary of *session*: simulated time, engines, streams, waits, findings, code, failures, leaks."""
    found = session.runtime.state(Findings)
    mistakes = () if found.is_quiet else found  # a report of its own follows
    lines = [reword(summarize(session.runtime, session.trace, mistakes, (), _WAITS))]
    lines += [f"  finding: {finding}" for finding in findings(session)]
    lines += [f"  code: {printable(line)}" for line in brought_in]
    lines += session.failures.lines()
    return "\n".join([*lines, *leak_lines(leaks(session))])


def findings(session: Session) -> list[str]:
    """Return a line for each finding: functions that are not simulated, and mistakes that a card would let pass."""
    return [*(f"acl.{name} is not simulated: it returned 207000" for name in session.unsupported), *session.warned]


def leaks(session: Session) -> list[str]:
    """Return a line for each kind of leak and each line of code that made it: memory, also memory that a reset had to
    free, and handles.
    """
    memory = session.runtime.memory
    return [*_memory([*memory.leaks(), *memory.left_to_reset]), *_handles(session)]


def _memory(allocations: Sequence[Allocation]) -> Iterator[str]:
    """Group memory by the line that made it, and by the reset that freed it."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for each in allocations:
        place = "device" if each.space is Space.DEVICE else "pinned"
        never = _NEVER.get(each.origin, "freed") + ("" if each.freed is None else f" before the reset at {each.freed}")
        made = "" if each.made is None else f", made at {each.made}"
        groups.setdefault((place, never, made), []).append(each.nbytes)
    for (place, never, made), sizes in groups.items():
        count = f"{len(sizes):,} allocation{'s' if len(sizes) > 1 else ''}"
        yield f"{count} of {place} memory, {size_text(sum(sizes))}, never {never}{made}"


def _handles(session: Session) -> Iterator[str]:
    """Group objects that were never destroyed by kind."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for thing in session.objects.values():
        if _is_owned(thing):
            made, never = getattr(thing, "made", None), _ENDED.get(type(thing), "destroyed")
            kinds.setdefault((word_for(type(thing)), never), []).append("" if made is None else f"{made}")
    for (name, never), places in kinds.items():
        known = list(dict.fromkeys(place for place in places if place))
        where = ", ".join([*known[:_SHOWN], *["..."] * (len(known) > _SHOWN)])
        several = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
        count = f"{len(places):,} {several if len(places) > 1 else name}"
        yield f"{count} never {never}{f', made at {where}' if where else ''}"


def _is_owned(thing: object) -> bool:
    if getattr(thing, "destroyed", None) is not None:  # by a native verb, which does not end handles
        return False
    if isinstance(thing, Context):
        return not thing.primary
    if isinstance(thing, Stream):
        return thing is not thing.context.default
    return not isinstance(thing, DeviceError | Function | KernelArgs | KernelArgument)
