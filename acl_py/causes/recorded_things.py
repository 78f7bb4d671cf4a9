"""The things of a recording by its handles: streams, events and contexts as the relation knows them."""

from typing import Any

from acl_py.calls import acts
from acl_py.calls.acts import Act
from acl_py.order.things import RecordedCommunicator, RecordedContext, RecordedEvent, RecordedStream
from acl_py.trace.rows.columns import CallKind
from acl_py.trace.rows.timeline import Ref, Timeline
from device_model.rules import EventClass


class Things:
    """The things of *timeline*; a context *has_legacy* streams or none."""

    def __init__(self, timeline: Timeline, *, has_legacy: bool) -> None:
        self._timeline = timeline
        self._has_legacy = has_legacy
        # By device and number; a primary context has number 0.
        self._contexts: dict[tuple[int, int], RecordedContext] = {}
        self._streams: dict[int, RecordedStream] = {}  # by handle
        self._events: dict[int, RecordedEvent] = {}  # by handle

    def act_of(self, call: CallKind) -> Act[Any]:
        """Return what *call* did, with things in place of handles, and numbers for those that have none."""
        return acts.mapped(call.act, lambda each: self._thing(each.handle) if isinstance(each, Ref) else each)

    def _thing(self, place: int) -> object:
        handle = self._timeline.handles[place]
        if handle.kind == "stream":
            return self.stream_of(place, handle.device)[0]
        if handle.kind == "event":
            return self.event(place)
        if handle.kind == "communicator":
            rank, ranks, number = (int(handle.options[name]) for name in ("rank", "ranks", "clique"))
            return RecordedCommunicator(rank, ranks, number)
        return self._context(handle.device, handle.number) if handle.kind in ("context", "device") else place

    def stream_of(self, place: int, device: int) -> tuple[RecordedStream, bool]:
        """Return a stream, and whether it is one: work outside streams has one of its own each time."""
        if place in self._streams:
            return self._streams[place], True
        handles = self._timeline.handles
        if not 0 <= place < len(handles):
            self._streams[place] = RecordedStream(self._context(device))
            return self._streams[place], True
        name, options = handles[place].name, handles[place].options
        context = self._context(device, int(options.get("context", 0)))
        if name.startswith("no stream"):
            return RecordedStream(context), False
        is_blocking = context.legacy is not None and not options.get("nonblocking")
        stream = context.legacy if name.startswith("legacy") else None
        self._streams[place] = stream or RecordedStream(context, is_blocking)
        return self._streams[place], True

    def _context(self, device: int, number: int = 0) -> RecordedContext:
        context = self._contexts.get((device, number))
        if context is None:
            context = self._contexts[device, number] = RecordedContext(device)
            context.legacy = RecordedStream(context) if self._has_legacy else None
        return context

    def event(self, place: int) -> RecordedEvent:
        """Return an event."""
        if place not in self._events:
            name = self._timeline.handles[place].options.get("class")
            self._events[place] = RecordedEvent(EventClass.FLAG if name == "flag" else EventClass.SNAPSHOT)
        return self._events[place]
