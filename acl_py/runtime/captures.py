"""What captures forbid: calls that would wait for a capture, or that must not be made beside one.

`Captures` knows the captures that run in a simulation, and the capture mode of each host, which is a task or a thread.
As long as one runs, calls are on alert, and `check` sees each of them.
"""

from sys import _getframe
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from acl_py.callers import current_caller
from acl_py.calls.table import all_verbs
from acl_py.errors import Kind
from acl_py.runtime import injection
from acl_py.sites import called_function, site_of
from device_model.contexts import Context
from device_model.events import Event
from device_model.graphs.capture import Capture, CaptureMode
from device_model.graphs.graph import Condition
from device_model.rules import HostCall, SyncCopy
from device_model.streams import Stream

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime

_UNSAFE = "is unsafe beside a capture: it may wait for the device"
_LATER = "make this call after EndCapture(), or before BeginCapture()"


class Captures:
    """The captures that run in one simulation, and the modes of its hosts."""

    __slots__ = ("_graphs", "_modes", "acting", "conditions", "running")

    def __init__(self) -> None:
        self.running: list[Capture] = []
        self.conditions: dict[int, Condition] = {}  # by number, for kernels that set them
        self.acting: object = None  # the host for which a stream program makes the present call, if not its main one
        self._graphs = 0  # how many were made
        self._modes: WeakKeyDictionary[Any, CaptureMode] = WeakKeyDictionary()

    def host(self) -> object:
        """Return the host that makes the present call: a task or a thread."""
        return self.acting or current_caller()

    def exchange(self, mode: CaptureMode) -> CaptureMode:
        """Set the mode of the calling host, and return the one that it had.

        The first exchange of a host answers THREAD_LOCAL, though until then the host is forbidden what GLOBAL forbids
        (measured: capture-other-thread-exchanged, capture-other-thread-global).
        """
        host = self.host()
        before = self._modes.get(host, CaptureMode.THREAD_LOCAL)
        self._modes[host] = mode
        return before

    def next_number(self) -> int:
        """Return the number of the next graph, counted from 1."""
        self._graphs += 1
        return self._graphs

    def check(self, runtime: "Runtime", context: Context, name: str) -> None:
        """Refuse a call of *name* in *context* that a running capture forbids; the capture is then lost."""
        verb = all_verbs().get(name)
        does = None if verb is None else verb.does
        if does is HostCall.COPIES and runtime.rules.sync_copy is SyncCopy.IN_DEFAULT_STREAM:
            self.refuse_legacy(runtime, context.default, name)
        if does is HostCall.WAITS_FOR_DEVICE:
            ours = [each for each in self.running if each.origin.context.device is context.device]
            self._refuse(runtime, ours, name, "would wait for the work of a capture, which never runs")
        if verb is not None and verb.noun != "events":  # those look at their event first: see refuse_event
            self._refuse_unsafe(runtime, does, name)

    def begin(self, runtime: "Runtime", capture: Capture) -> None:
        """Note a capture that has begun; calls are on alert until the last one is over."""
        self.running.append(capture)
        self._watch(runtime)

    def end(self, runtime: "Runtime", capture: Capture) -> None:
        """Forget *capture*, whose streams run their work again."""
        capture.close()
        self.running.remove(capture)
        self._watch(runtime)

    def leave(self, runtime: "Runtime", stream: Stream) -> None:
        """End the capture that began on *stream*, which will be destroyed, or the update that it takes.

        Nothing tells that a capture is gone (measured: capture-destroy-stream). One that began elsewhere goes on, and
        its end asks whether the work of *stream* is joined.
        """
        if stream.branch is not None:
            if stream is stream.branch.capture.origin:
                self.end(runtime, stream.branch.capture)
            else:
                stream.branch.leave()
        if stream.update is not None:
            stream.update.close()

    @staticmethod
    def _watch(runtime: "Runtime") -> None:
        for device in runtime.devices:
            injection.update_alerts(runtime, device)

    def refuse_stream(self, runtime: "Runtime", stream: Stream, name: str) -> None:
        """Refuse a call of *name* for *stream*, which captures, because it cannot become a node."""
        assert stream.branch is not None, f"{stream!r} does not capture"
        capture = stream.branch.capture
        self.check_lost(runtime, capture)
        self._refuse(runtime, [capture], name, f"on {stream!r} cannot be captured")

    @staticmethod
    def check_lost(runtime: "Runtime", capture: Capture) -> None:
        """Refuse a call for a stream of *capture* if it is lost."""
        capture.check(runtime.refuse)

    def refuse_event(self, runtime: "Runtime", event: Event, name: str) -> None:
        """Refuse a call of *name* that asks *event*, if a capture forbids it."""
        if event.captured is not None:
            self.refuse_captured(runtime, event, name)
        elif self.running:
            self._refuse_unsafe(runtime, all_verbs()[name].does, name)

    def refuse_pageable(self, runtime: "Runtime", name: str) -> None:
        """Refuse a call of *name* that copies pageable memory in a stream, if a capture forbids it."""
        self._refuse_unsafe(runtime, HostCall.COPIES_PAGEABLE, name, "of pageable memory ")

    def refuse_captured(self, runtime: "Runtime", event: Event, name: str) -> None:
        """Refuse a call of *name* on *event*, whose last record was made in a capture."""
        assert event.captured is not None, f"{event!r} was not recorded in a capture"
        capture = event.captured.capture
        if capture in self.running:
            capture.lose(_call(name))
            raise runtime.refuse(
                Kind.CAPTURED_EVENT, f"{name}() on {event!r}, which was recorded in {capture!r}", _LATER
            )
        raise runtime.refuse(
            Kind.INVALID_VALUE,
            f"{name}() on {event!r}, which was recorded in {capture!r}: such a record ends with its capture",
            "record the event again, or with external=True, so that each launch of the graph records it",
        )

    def refuse_legacy(self, runtime: "Runtime", stream: Stream, name: str, *, loses: bool = True) -> None:
        """Refuse a call of *name* for the default *stream*, if it is the legacy stream of a context in which a blocking
        stream captures.
        """
        for capture in self.running:
            if stream is stream.context.legacy and capture.has_blocking_stream_of(stream.context):
                if loses:
                    capture.lose(_call(name))
                raise runtime.refuse(
                    Kind.CAPTURE_IMPLICIT,
                    f"{name}() on {stream!r}, which would wait for {capture!r}",
                    "use a stream made with nonblocking=True for the capture or for this call",
                )

    def _refuse_unsafe(self, runtime: "Runtime", does: HostCall | None, name: str, what: str = "") -> None:
        if does in runtime.rules.unsafe_in_capture:
            self._refuse(runtime, self._forbidding(), name, f"{what}{_UNSAFE}")

    def _forbidding(self) -> list[Capture]:
        """Return the captures that forbid unsafe calls of the calling host."""
        host = self.host()
        mode = self._modes.get(host, CaptureMode.GLOBAL)
        if mode is CaptureMode.RELAXED:
            return []
        return [
            each
            for each in self.running
            if (each.owner is host and each.mode is not CaptureMode.RELAXED)
            or (mode is CaptureMode.GLOBAL and each.mode is CaptureMode.GLOBAL)
        ]

    def _refuse(self, runtime: "Runtime", captures: list[Capture], name: str, why: str) -> None:
        if not captures:
            return
        first = repr(captures[0])
        for capture in captures:
            capture.lose(_call(name))
        raise runtime.refuse(Kind.CAPTURE_UNSUPPORTED, f"{name}() {why}: {first} is lost", _LATER)


def _call(name: str) -> str:
    site = site_of(_getframe(1))
    return f"{called_function(site, '') or name}() at {site}"
