"""Task groups: kernels of a captured graph that its launches can be told to do with other arguments, as ACL has it.

Between its begin and its end a *group* takes note of the kernels that one stream adds to a capture. Later a stream that
does not capture begins an *update*: it takes as many kernels as the group has and runs none of them. The end of the
update is a step of that stream. At its turn the nodes take over the new work, and so do launches that are queued and
have not begun with them. So an update can run beside a launch, if the graph waits for it with an external event.

Sources: CANN's pages on aclmdlRICaptureTaskGrpBegin and its three siblings, "task update" in its programming guide, and
its published runtime (context_aclgraph.cc, stream_capture.cc).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from device_model.completions import Completion
from device_model.errors import Fail, Kind
from device_model.graphs.graph import Node
from device_model.handles import Handle
from device_model.ops import Op
from device_model.steps import Step, StepKind
from device_model.streams import Stream
from device_model.work import Work

if TYPE_CHECKING:
    from device_model.device import Device


class NewWork:
    """The new *work* of a node, which line *site* launched. *row* is the number of its capture in a trace."""

    __slots__ = ("row", "site", "work")

    def __init__(self, work: Work, site: object) -> None:
        self.work = work
        self.site = site
        self.row = -1


class TaskGroup(Handle):
    """The kernels that *stream* adds to a capture from *made*, a line of the host, on."""

    __slots__ = ("device", "made", "name", "nodes", "row", "update")

    def __init__(self, stream: Stream, name: str, made: object) -> None:
        self.name = name
        self.device: Device = stream.context.device
        self.made = made
        self.row = -1  # its number in a trace
        self.nodes: list[Node] = []
        self.update: Update | None = None  # that has begun and not ended

    def __repr__(self) -> str:
        count = f"{len(self.nodes)} kernel{'' if len(self.nodes) == 1 else 's'}"
        return f"<{self.name} of {count} begun at {self.made}>"


class Update:
    """Takes the kernels that are launched in *stream* as new work for the nodes of *group*, from line *site* on."""

    def __init__(self, group: TaskGroup, stream: Stream, site: object) -> None:
        self.group = group
        self.stream = stream
        self.site = site
        self.works: list[NewWork] = []
        group.update = stream.update = self
        stream.home = None

    def __repr__(self) -> str:
        return f"<update of {self.group.name} by {self.stream.name} begun at {self.site}>"

    def check(self, call: str, fail: Fail, *, is_kernel: bool) -> None:
        """Refuse work that the group cannot take over: all but kernels, and more kernels than it has."""
        if not is_kernel:
            raise fail(
                Kind.GROUP_WORK,
                f"{call}() on {self.stream.name} during the {repr(self)[1:-1]}, which takes kernels only",
                "make this call after CaptureTaskUpdateEnd(), or on another stream",
            )
        if len(self.works) == len(self.group.nodes):
            raise fail(
                Kind.GROUP_UPDATE,
                f"{call}() on {self.stream.name}: the {repr(self)[1:-1]} has new work for all of {self.group!r}",
                "launch as many kernels as between CaptureTaskGrpBegin() and CaptureTaskGrpEnd()",
            )

    def take(self, op: Op) -> NewWork:
        """Take *op*, which is not queued, as the new work of the next node. Nothing is left to wait for."""
        op.stream = self.stream
        op.done, op.end_ns = True, self.stream.scheduler.now
        self.works.append(NewWork(op.work, op.site))
        return self.works[-1]

    def close(self) -> None:
        """Let the stream queue its work again, and the group be updated again."""
        self.group.update = self.stream.update = None
        if self.stream.destroyed is None:
            self.stream.home = self.stream.context

    def queue(self, site: object) -> Step:
        """Queue the step at which the nodes take over the new work."""
        name = self.group.name
        return self.stream.step(StepKind.UPDATE, name, f"update of {name}", site, self._apply())

    def _apply(self) -> Iterator[Completion]:
        self.group.device.updates += 1
        changed = dict(zip(self.group.nodes, self.works, strict=True))
        for node, new in changed.items():
            node.work, node.site, node.row = new.work, new.site, new.row
        for launch in self.group.device.launches:
            for op in launch.unfinished():
                node = op.entry.node
                if node in changed and op in op.queue.fifo:
                    new = changed[node]
                    op.work, op.site, op.capture, op.nbytes = new.work, new.site, new.row, new.work.nbytes
        yield from ()
