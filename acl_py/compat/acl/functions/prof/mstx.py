"""mstx: what CANN's module of this name does, whose marks and ranges a profiler shows.

Every run is traced, so every mark counts. A range may end in another thread. A stream is given by its handle, or as an
object that has one as `npu_stream`, such as a stream of torch_npu.
"""

import operator
from dataclasses import dataclass
from itertools import count
from typing import Any

from acl_py.compat.acl.face.failed_calls import printable
from acl_py.compat.acl.face.session import Session, session
from acl_py.compat.acl.functions.prof.places import Place, tell
from acl_py.runtime.calls import begin_without_context
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site
from device_model.completions import Nanoseconds
from device_model.streams import Stream

_LONGEST = 255  # bytes of a message
_NO_TOOL = 0


@dataclass(slots=True)
class _Range:
    """A range that has begun."""

    name: str
    begin_ns: Nanoseconds
    site: Site
    place: Place | None


class _Ranges:
    """The ranges of a runtime that have begun, by their numbers."""

    def __init__(self) -> None:
        self.begun: dict[int, _Range] = {}
        self.numbers = count(1)


def mark(message: str, stream: Any = None) -> None:
    """Mark this instant of the calling thread and, if it is given, the place of *stream* that was reached now.

    Raises:
        TypeError: *message* is not a str, or *stream* is neither None nor a stream.
    """
    here, name, number = session(), _name(message), _number(stream)
    here.ret(_mark(here, name, number))


async def _mark(here: Session, name: str, number: int | None) -> None:
    _, runtime, site, now = begin_without_context("mstx.mark")
    _tell_host(runtime, name, now, site)
    place = _place(here, runtime, number, f"mstx.mark() at {site}")
    if place is not None:
        tell(runtime, name, place, place, site)


def range_start(message: str, stream: Any = None) -> int:
    """Begin a range as *message* and return its number, for `range_end`; with a stream it is also one of its work.

    Raises:
        TypeError: *message* is not a str, or *stream* is neither None nor a stream.
    """
    here, name, number = session(), _name(message), _number(stream)
    started, _ = here.call(_start(here, name, number))
    return started or 0


async def _start(here: Session, name: str, number: int | None) -> int:
    _, runtime, site, now = begin_without_context("mstx.range_start")
    ranges = runtime.state(_Ranges)
    begun = next(ranges.numbers)
    ranges.begun[begun] = _Range(name, now, site, _place(here, runtime, number, f"mstx.range_start() at {site}"))
    return begun


def range_end(rangeId: int) -> None:  # noqa: N803 - the vendor's name of the argument
    """End the range with this number. One that did not begin, or has ended, is a finding.

    Raises:
        TypeError: *rangeId* is not an int.
    """
    number = operator.index(rangeId)
    here = session()
    here.ret(_end(here, number))


async def _end(here: Session, number: int) -> None:
    _, runtime, site, _ = begin_without_context("mstx.range_end")
    begun = runtime.state(_Ranges).begun.pop(number, None)
    if begun is None:
        here.warn_once(
            f"mstx.range_end({number}) at {site}: there is no such range, or it has ended; pass what range_start() gave"
        )
        return
    _tell_host(runtime, begun.name, begun.begin_ns, begun.site)
    if begun.place is not None:
        tell(runtime, begun.name, begun.place, Place.here(runtime, begun.place.stream), begun.site)


def get_tool_id() -> int:
    """Return which tool takes the marks: 0, none of the vendor's."""
    return _NO_TOOL


def _name(message: object) -> str:
    if not isinstance(message, str):
        raise TypeError(f"message must be a str, not {type(message).__name__}")
    return printable(message.encode()[:_LONGEST].decode(errors="ignore")) or "mark"


def _number(stream: Any) -> int | None:
    """The handle of *stream*; None if there is none: 0 is no stream here, as in the vendor's module."""
    given = getattr(stream, "npu_stream", stream)
    if given is None:
        return None
    try:
        return operator.index(given) or None
    except TypeError:
        raise TypeError(f"stream must be None or the handle of a stream, not {type(stream).__name__}") from None


def _place(here: Session, runtime: Runtime, number: int | None, call: str) -> Place | None:
    """The place in the stream with this handle. What is not a stream is a finding, and the mark has no place."""
    if number is None:
        return None
    stream = here.find(number, Stream)
    if stream is None:
        here.warn_once(f"{call} counts for the host only: {here.explain(number, Stream)}; pass a stream, or None")
        return None
    return Place.here(runtime, stream)


def _tell_host(runtime: Runtime, name: str, begin_ns: Nanoseconds, site: Site) -> None:
    if runtime.hooks.marked is not None:
        runtime.hooks.marked(name, begin_ns, runtime.host_ns, site)
