"""Captures: streams that take work as nodes of a graph, and run none of it.

A capture begins on one stream, its *origin*. Other streams are drawn in when they wait for an event that was recorded
in it. Each has a `Branch`, whose *frontier* are the nodes that its next node depends on. `Stream.branch` is the branch
of a stream that captures; such a stream has no `home`, so every verb looks twice at it.

A capture that has met a call which it cannot hold is *lost*: it takes no more work, and its end gives no graph
(measured: capture-*, 40 programs on an H200).
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from device_model.errors import Fail, Kind
from device_model.events import Event
from device_model.graphs.graph import Graph, Node, NodeKind, ancestors, kind_of
from device_model.graphs.groups import TaskGroup
from device_model.handles import Handle
from device_model.memory import Allocation
from device_model.ops import Op
from device_model.streams import Stream
from device_model.work import Work

if TYPE_CHECKING:
    from device_model.contexts import Context


class CaptureMode(IntEnum):
    """Which calls beside a capture are refused as unsafe, and lose it."""

    GLOBAL = 0  # those of every host whose own mode is GLOBAL, and of the host that captures
    THREAD_LOCAL = 1  # those of the host that captures
    RELAXED = 2  # none


class CaptureStatus(IntEnum):
    """Whether a stream captures; the values are those of cudaStreamCaptureStatus."""

    NONE = 0
    ACTIVE = 1
    INVALIDATED = 2


class Branch:
    """The part of *stream* in a capture: its *frontier* are the nodes that its next node depends on.

    *since* is the line that brought the stream in, *group* the task group that has begun and not ended.
    """

    __slots__ = ("capture", "frontier", "group", "since", "stream")

    def __init__(self, capture: "Capture", stream: Stream, frontier: Iterable[Node], since: object) -> None:
        self.capture = capture
        self.stream = stream
        self.frontier = dict.fromkeys(frontier)
        self.since = since
        self.group: TaskGroup | None = None
        stream.branch = self
        stream.home = None

    def add(
        self, kind: NodeKind, site: object, work: Work | None = None, subject: Event | Allocation | None = None
    ) -> Node:
        """Add a node behind the frontier, which it then is itself."""
        node = self.capture.graph.add(kind, self.frontier, site, work, subject)
        node.stream = self.stream
        self.frontier = {node: None}
        if self.group is not None:
            self.group.nodes.append(node)
        return node

    def leave(self) -> None:
        """Let the stream run its work again."""
        self.stream.branch = None
        if self.stream.destroyed is None:
            self.stream.home = self.stream.context


class Captured(Handle):
    """What a record in a capture leaves in its event: the frontier of the stream at that place."""

    __slots__ = ("capture", "frontier")

    def __init__(self, branch: Branch) -> None:
        self.capture = branch.capture
        self.frontier = tuple(branch.frontier)


class Capture:
    """Takes the work of some streams as the nodes of *graph*.

    *owner* is the host that began it, at *site*. Its first nodes depend on *dependencies*.
    """

    def __init__(
        self,
        graph: Graph,
        origin: Stream,
        mode: CaptureMode,
        owner: object,
        site: object,
        dependencies: Iterable[Node] = (),
    ) -> None:
        self.graph = graph
        self.origin = origin
        self.mode = mode
        self.owner = owner
        self.site = site
        self.lost: str | None = None  # which call lost it
        self.group_error: tuple[Kind, str, str] | None = None  # what no task group of it survives
        self._groups = 0  # how many were begun
        self.branches: dict[Stream, Branch] = {}
        self.draw_in(origin, dependencies, site)

    def __repr__(self) -> str:
        state = f", lost by {self.lost}" if self.lost is not None else ""
        return f"<capture of {self.origin.name} begun at {self.site}{state}>"

    @property
    def status(self) -> CaptureStatus:
        """Whether it still takes work."""
        return CaptureStatus.ACTIVE if self.lost is None else CaptureStatus.INVALIDATED

    def has_blocking_stream_of(self, context: "Context") -> bool:
        """Whether a stream of it takes part in the default-stream rule of *context*."""
        return any(stream.context is context and stream.is_blocking for stream in self.branches)

    def draw_in(self, stream: Stream, frontier: Iterable[Node], site: object) -> None:
        """Let *stream*, which does not capture yet, take part from now on, behind *frontier*."""
        self.branches[stream] = Branch(self, stream, frontier, site)

    def lose(self, call: str) -> None:
        """Take no more work. *call* says which call at which line did that; the first one counts."""
        if self.lost is None:
            self.lost = call

    def check(self, fail: Fail) -> None:
        """Refuse a call for a stream of a capture that is lost."""
        if self.lost is not None:
            raise fail(
                Kind.CAPTURE_INVALIDATED,
                f"{self!r} takes no more work",
                "end it with EndCapture(), and capture again without that call",
            )

    def check_groups(self, stream: Stream, call: str, fail: Fail, *, is_kernel: bool) -> None:
        """Refuse *call*, which would add a node for *stream*, if that breaks a task group; the group's end then fails.

        All streams with work must have a group of their own while one of them has (documented: aclError 107034).
        """
        group = self.branches[stream].group
        begun = [each.group for each in self.branches.values() if each.group is not None]
        if group is None and begun:
            self.group_error = (
                Kind.GROUP_INTERRUPTED,
                f"{call}() on {stream.name} interrupts {begun[0]!r}",
                "call CaptureTaskGrpEnd() before there is work on other streams of the capture",
            )
        elif group is not None and not is_kernel:
            self.group_error = (
                Kind.GROUP_WORK,
                f"{call}() on {stream.name} in {group!r}, which takes kernels only",
                "end the group with CaptureTaskGrpEnd() first",
            )
        else:
            return
        raise fail(*self.group_error)

    def begin_group(self, stream: Stream, site: object) -> None:
        """Let the next kernels of *stream* be a task group."""
        self._groups += 1
        self.branches[stream].group = TaskGroup(stream, f"task group {self._groups} of {self.graph.name}", site)

    def end_group(self, stream: Stream, fail: Fail) -> TaskGroup:
        """End the task group of *stream*, and return it unless it is broken."""
        branch = self.branches[stream]
        group, branch.group = branch.group, None
        assert group is not None, f"{stream!r} has no task group"
        self.check(fail)
        if self.group_error is not None:
            raise fail(*self.group_error)
        return group

    def result(self, stream: Stream, site: object, fail: Fail) -> Graph:
        """Return the graph of the capture, which *stream* ends; refuse a stream that cannot, and work that is lost."""
        if stream is not self.origin:
            self.lose(f"EndCapture({stream.name}) at {site}")
            raise fail(
                Kind.CAPTURE_UNMATCHED,
                f"EndCapture() of {stream!r}, which an event drew into {self!r} at {self.branches[stream].since}",
                f"end the capture on {self.origin.name}, where it began",
            )
        self.check(fail)
        self._check_ended(fail)
        origin = self.branches[stream]
        joined = ancestors(origin.frontier)
        for branch in self.branches.values():
            for node in branch.frontier:
                if node not in joined:
                    raise fail(
                        Kind.CAPTURE_UNJOINED,
                        f"{node!r} in {branch.stream.name}, drawn in at {branch.since}, is not joined to {self!r}",
                        f"record an event on {branch.stream.name} behind it, and let {self.origin.name} wait for that",
                    )
        return self.graph

    def _check_ended(self, fail: Fail) -> None:
        """Refuse the end of a capture in which a task group goes on."""
        for branch in self.branches.values():
            if branch.group is not None:
                raise fail(
                    Kind.GROUP_STATUS,
                    f"EndCapture() of {self!r} before the end of {branch.group!r}",
                    f"call CaptureTaskGrpEnd() on {branch.stream.name} first",
                )

    def close(self) -> None:
        """Let all of its streams run their work again."""
        for branch in self.branches.values():
            branch.leave()

    # --- records and waits

    def record_at_launch(self, stream: Stream, event: Event, site: object) -> None:
        """Add a node that records *event* at each launch; it stays an event outside of this capture."""
        self.branches[stream].add(NodeKind.RECORD, site, subject=event)

    def wait_at_launch(self, stream: Stream, event: Event, site: object) -> None:
        """Add a node that waits at each launch for the record of *event* that is its last one then."""
        self.branches[stream].add(NodeKind.WAIT, site, subject=event)

    def record(self, stream: Stream, event: Event) -> None:
        """Note the frontier of *stream* in *event*, which then belongs to this capture."""
        event.captured = Captured(self.branches[stream])
        event.home = None

    def wait(self, stream: Stream, event: Event, site: object, fail: Fail) -> None:
        """Let the next node of *stream*, which captures here, wait for *event*."""
        captured = event.captured
        call = f"StreamWaitEvent({stream.name}, {event.name}) at {site}"
        if captured is None:
            if event.work is None:
                return  # never recorded: no effect, as outside a capture
            self.lose(call)
            raise fail(
                Kind.CAPTURE_ISOLATION,
                f"{event!r} was recorded outside {self!r}",
                "record it inside the capture, or wait before BeginCapture(); an external wait may cross its border",
            )
        if captured.capture is not self:
            self.lose(call)
            captured.capture.lose(call)
            raise fail(
                Kind.CAPTURE_MERGE,
                f"{event!r} was recorded in {captured.capture!r}, which is not {self!r}",
                "capture both into one graph, or launch two graphs one after the other",
            )
        self.branches[stream].frontier.update(dict.fromkeys(captured.frontier))


def take(branch: Branch, op: Op) -> Node:
    """Add *op*, which a verb would have queued in the stream of *branch*, as a node. Nothing is left to wait for."""
    op.stream = branch.stream
    op.done, op.end_ns = True, branch.stream.scheduler.now
    return branch.add(kind_of(op.work), op.site, op.work)
