"""Wording: what findings call memory, work and lines, which edge is missing, and what to do."""

from collections.abc import Sequence

from acl_py.findings import Access, Span, access_at
from acl_py.sanitizer.shadow import HostAccess, LifeCall, Use
from acl_py.sites import called_function
from acl_py.wording import freeing, reword, words_at
from device_model.collectives.cliques import Communicator
from device_model.contexts import Context
from device_model.errors import listed
from device_model.events import Event
from device_model.graphs.executable import Executable
from device_model.graphs.graph import Graph
from device_model.memory import Allocation, Space
from device_model.signals import Notify
from device_model.streams import Stream, UnorderedStream
from device_model.work import Copy, Fill, HostFunction, Work

_SHOWN = 3  # ranges in a fix
HANDLES = {Stream: "stream", Event: "event", Notify: "notify", Context: "context", Communicator: "communicator"}
_DESTROYED = {**HANDLES, Graph: "graph", Executable: "executable"}  # what a call may name too late


def buffer_text(allocation: Allocation) -> str:
    """Return what findings call *allocation*: its name, or the line that made it."""
    if allocation.given_name is not None:
        return repr(allocation.given_name)
    return f"the memory made at {allocation.made}" if allocation.made is not None else allocation.name


def handle_text(handle: object) -> str:
    """Return what findings call a stream, an event, a graph and so on: its name, or the line that made it."""
    kind = next(word for type_, word in _DESTROYED.items() if isinstance(handle, type_))
    name, made = getattr(handle, "given_name", None), getattr(handle, "made", None)
    if name is not None:
        return f"{kind} {name!r}"
    return f"the {kind} made at {made}" if made is not None else f"the {kind}"


def work_text(work: Work | HostAccess | LifeCall, *, writes: bool) -> str:
    """Return what findings call *work*: "kernel 'add'", "h2d 'weights'", "host read"."""
    if isinstance(work, LifeCall):
        return work.name
    if isinstance(work, HostAccess):
        return work.by or ("host write" if writes else "host read")
    if isinstance(work, Copy):
        names = [end.given_name for end in (work.dst, work.src) if end.given_name is not None]
        return f"{work.label.kind} {names[0]!r}" if names else work.label.kind
    if isinstance(work, Fill):
        return "fill" if work.dst.given_name is None else f"fill {work.dst.given_name!r}"
    if isinstance(work, HostFunction):
        return f"host function {work.label.name!r}"
    return f"{work.label.kind} {work.label.name!r}"


def stream_text(stream: Stream) -> str:
    """Return what a fix calls *stream*."""
    return stream.given_name or stream.name


def access_of(use: Use, stack: tuple[str, ...], *, writes: bool) -> Access:
    """Return *use*, to which *stack* led, as findings have it."""
    stream, site = _stream_of(use), use.site
    name = "" if stream is None else stream.name
    what = work_text(use.work, writes=writes)
    if isinstance(use.work, LifeCall):
        what = called_function(site, what)
    return access_at(site, what, writes=writes, caller=use.caller, stream=name, stack=stack, at_ns=use.at_ns)


def _stream_of(use: Use) -> Stream | None:
    return None if isinstance(use.stream, UnorderedStream) else use.stream


def subject_of(access: Access) -> str:
    """Return how a sentence names *access*."""
    where = f" on {access.stream}" if access.stream else ""
    return f"{access.what}{where} ({access.site})"


def edge_of(earlier: Use, later: Use) -> tuple[str, str]:
    """Return the edge that is missing between two accesses, in words, and what to do, as code."""
    function = _words(earlier.site) or _words(later.site)  # of acl or CUDA, in a script
    before, behind = _stream_of(earlier), _stream_of(later)
    if before is None:
        what = "access" if behind is None else "operation"
        return (
            f"the {what} at {later.site} does not wait for what {earlier.caller} did at {earlier.site}",
            f"let {later.caller} await {earlier.caller} before {later.site}",
        )
    given = f"`{stream_text(before)}` was given at {earlier.site}"
    if behind is None:
        fix = f"SynchronizeStream({stream_text(before)}) before {later.site}"
        return f"the host does not wait for what {given}", reword(fix, function) if function else fix
    record, wait = f"record on `{stream_text(before)}`", f"wait on `{stream_text(behind)}`"
    if function:
        record = reword(f"RecordEvent(event, {stream_text(before)})", function)
        wait = reword(f"StreamWaitEvent({stream_text(behind)}, event)", function)
    return (
        f"`{stream_text(behind)}` does not wait for what {given}",
        f"{record} after {earlier.site}, {wait} before {later.site}",
    )


def _words(site: object) -> str:
    """Return the words of the script that made a call at *site*, for `reword`; "" for a program of verbs."""
    return words_at(getattr(site, "file", ""), called_function(site, ""))


def take_out(again: Access) -> str:
    """Return the fix of a call that ends a life a second time."""
    return f"take out {again.what} at {again.site}"


def end_later(end: Access, use: Access) -> str:
    """Return the fix of a life that ends before its last use."""
    return f"move {end.what} from {end.site} behind {use.site}"


def write_first(spans: Sequence[Span], reader: Access, space: Space) -> str:
    """Return the fix of a read of *spans* that nothing has written."""
    how = "fill or copy to" if space is Space.DEVICE else "write"
    return f"{how} {listed(spans, _SHOWN, ' and {:,} more ranges')} before {reader.site}"


def end_behind(ender: str, names: Sequence[str], made: object, last: Use | None) -> str:
    """Return the fix of a leak: what to call, and behind which line, if the *last* use is known."""
    given = ", ".join(map(repr, names)) or f"what {made} made"
    maker = called_function(made, "")
    call = f"{freeing(maker)}({given})" if freeing(maker) else f"{ender}({given})"
    if maker:
        call = reword(call, _words(made))
    if last is None:
        return f"{call} before the program ends"
    return f"{call} after {last.site}" if last.stream is None else f"{call} when the work of {last.site} is over"
