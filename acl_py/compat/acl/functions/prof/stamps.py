"""acl.prof: stamps, with which a script marks instants and times of the host, for traces and reports; and marks of
streams.

They make the rows that `acl_py.mark` and `acl_py.annotate` make, and cost no simulated time. A trace is always made, so
they need no acl.prof.start().
"""

import threading
from dataclasses import dataclass

from acl_py.compat.acl.face.binding import does, gives, runs, takes
from acl_py.compat.acl.face.failed_calls import printable
from acl_py.compat.acl.face.lookups import resolved
from acl_py.compat.acl.face.session import INVALID_PARAM, Session, session
from acl_py.compat.acl.functions.prof.places import Place, tell
from acl_py.runtime.calls import begin_without_context
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site
from device_model.completions import Nanoseconds

_FAILURE = 500005  # of profiling
_LONGEST = 127  # bytes of a message
_BEGIN, _END = 0, 1  # tags of a step
_UNNAMED = "stamp"  # what traces call a stamp without a message

_Begun = tuple[Nanoseconds, Site]


@dataclass(eq=False, slots=True)
class Stamp:
    """A message, and where the range that was started with it began."""

    message: str = _UNNAMED
    begun: _Begun | None = None


class _Pushed(threading.local):
    """The stamps that the calling thread has pushed, the innermost last."""

    def __init__(self) -> None:
        self.stamps: list[tuple[Stamp, _Begun]] = []


@takes("")
def create_stamp() -> int:
    """Make a stamp."""
    return session().handle(Stamp())


@takes("k")
def destroy_stamp(handle: int) -> None:
    """End a stamp."""
    here = session()
    if here.find(handle, Stamp) is not None:
        here.forget(handle)


@does("ksu")
def set_stamp_trace_message(here: Session, handle: int, message: str, length: int) -> None:
    """Set what traces call a stamp: the first *length* bytes of *message*, at most 127."""
    stamp = _stamp(here, handle)
    if length > _LONGEST:
        raise here.error(_FAILURE, f"the message has {length} bytes, and a stamp holds {_LONGEST}")
    stamp.message = printable(message.encode()[:length].decode(errors="replace")) or _UNNAMED


@runs("k")
async def mark(here: Session, handle: int) -> None:
    """Mark this instant with the message of a stamp."""
    runtime, begun = _now("acl.prof.mark")
    _tell(runtime, _stamp(here, handle), begun)


@runs("k")
async def push(here: Session, handle: int) -> None:
    """Begin a time, which the next `pop` of this thread ends; times may lie in one another."""
    runtime, begun = _now("acl.prof.push")
    runtime.state(_Pushed).stamps.append((_stamp(here, handle), begun))


@runs("")
async def pop(here: Session) -> None:
    """End the time that this thread began last."""
    runtime, _ = _now("acl.prof.pop")
    pushed = runtime.state(_Pushed).stamps
    if not pushed:
        raise here.error(_FAILURE, "this thread has pushed no stamp, or has popped all of them")
    _tell(runtime, *pushed.pop())


@gives("k")
def range_start(here: Session, handle: int) -> int:
    """Begin a time, which `range_stop` ends in any thread; return its number, which is the handle of the stamp."""
    here.run(_start(here, handle))
    return handle


async def _start(here: Session, handle: int) -> None:
    _, begun = _now("acl.prof.range_start")
    _stamp(here, handle).begun = begun


@runs("u")
async def range_stop(here: Session, number: int) -> None:
    """End the time with this number."""
    runtime, _ = _now("acl.prof.range_stop")
    stamp = here.find(number, Stamp)
    if stamp is None or stamp.begun is None:
        raise here.error(_FAILURE, f"no range {number} has been started, or it was stopped already")
    begun, stamp.begun = stamp.begun, None
    _tell(runtime, stamp, begun)


# --- of streams


@runs("sk")
async def mark_ex(here: Session, message: str, stream: int) -> None:
    """Mark the place that the work of a stream has now."""
    _, runtime, site, _ = begin_without_context("acl.prof.mark_ex")
    place = Place.here(runtime, await resolved(here, stream))
    tell(runtime, printable(message) or _UNNAMED, place, place, site)


@dataclass(eq=False, slots=True)
class StepInfo:
    """A step of an iteration, and the place of a stream where it began."""

    begun: Place | None = None


@takes("")
def create_step_info() -> int:
    """Make an object for the times of a step."""
    return session().handle(StepInfo())


@takes("k")
def destroy_step_info(handle: int) -> None:
    """End an object for the times of a step."""
    here = session()
    if here.find(handle, StepInfo) is not None:
        here.forget(handle)


@runs("kik")
async def get_step_timestamp(here: Session, handle: int, tag: int, stream: int) -> None:
    """Begin a step at the place that the work of a stream has now, if *tag* is 0; end it there if *tag* is 1."""
    _, runtime, site, _ = begin_without_context("acl.prof.get_step_timestamp")
    step, place = here.known(handle, StepInfo), Place.here(runtime, await resolved(here, stream))
    if tag not in (_BEGIN, _END):
        raise here.error(INVALID_PARAM, f"a step has the tags 0, its begin, and 1, its end; not {tag}")
    if tag == _BEGIN:
        step.begun = place
        return
    if step.begun is None or step.begun.stream is not place.stream:
        raise here.error(_FAILURE, "the step has not begun in this stream: call it with tag 0 first")
    begun, step.begun = step.begun, None
    tell(runtime, "step", begun, place, site)


def _stamp(here: Session, handle: int) -> Stamp:
    stamp = here.find(handle, Stamp)
    if stamp is None:
        raise here.error(_FAILURE, here.explain(handle, Stamp))
    return stamp


def _now(name: str) -> tuple[Runtime, _Begun]:
    """Begin a call of *name*, which is free: return the time and the line."""
    _, runtime, site, now = begin_without_context(name)
    return runtime, (now, site)


def _tell(runtime: Runtime, stamp: Stamp, begun: _Begun) -> None:
    begin_ns, site = begun
    if runtime.hooks.marked is not None:
        runtime.hooks.marked(stamp.message, begin_ns, runtime.host_ns, site)
