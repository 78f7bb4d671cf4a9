"""The profiler: stages of a running program, and how its copies and kernels overlap."""

from dataclasses import replace
from types import TracebackType
from typing import Self, TextIO

from acl_py.explain.stages import Stage, stages, stages_text
from acl_py.simulation import current_simulation
from acl_py.trace.rows.overlaps import Overlap, overlap
from acl_py.trace.rows.timeline import Timeline
from acl_py.trace.views.shown import shown
from acl_py.verbs.marks import annotate


class AsyncProfiler:
    """Measures stages of a program, and how copies and computation overlap.

        with AsyncProfiler() as profiler:
            profiler.BeginStage("upload")
            await MemcpyAsync(x, x.nbytes, host, x.nbytes, MemcpyKind.HOST_TO_DEVICE, stream)
            profiler.EndStage("upload")
            with acl_py.annotate("compute"):  # a stage as a block
                await layer[64, stream](x, y)
            await SynchronizeDevice()
        profiler.PrintReport()

    It measures from its making, or from the begin of its block, until the end of the block or else until it is asked.
    Stages are marks of the trace, so `annotate` makes them too, and charts show them. A stage has the operations that
    the same task or thread queues in it, even if they run later. What has not ended when the report is made does not
    count: synchronise before. No method waits or takes simulated time.

    Raises:
        AclError: NOT_INITIALIZED if no simulation runs here.
        RuntimeError: the simulation was started with trace=False.
    """

    def __init__(self) -> None:
        self._simulation = current_simulation()
        self._trace = self._simulation.trace
        self._since_ns = self._simulation.now_ns
        self._until_ns: int | None = None  # no end, until the block has ended
        self._open: dict[str, annotate] = {}

    def __repr__(self) -> str:
        return f"<AsyncProfiler since {self._since_ns} ns>"

    def __enter__(self) -> Self:
        self._since_ns, self._until_ns = self._simulation.now_ns, None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._until_ns = self._simulation.now_ns

    def BeginStage(self, name: str) -> None:
        """Begin a stage called *name*. Stages may lie in one another, but not in a stage of the same name.

        Args:
            name: 1 to 200 printable characters.

        Raises:
            RuntimeError: a stage of this name has begun and not ended.
            TypeError: *name* is not a str.
            ValueError: *name* is empty, too long or not printable.
        """
        if name in self._open:
            raise RuntimeError(f"stage {name!r} has begun already: call EndStage({name!r}) first")
        stage = annotate(name)
        stage.__enter__()
        self._open[name] = stage

    def EndStage(self, name: str) -> None:
        """End the stage called *name*. The task that ends it is the one whose operations count.

        Raises:
            RuntimeError: no stage of this name has begun.
        """
        if name not in self._open:
            begun = ", ".join(map(repr, self._open)) or "none"
            raise RuntimeError(f"no stage {name!r} has begun: call BeginStage({name!r}) first; begun are: {begun}")
        self._open.pop(name).__exit__(None, None, None)

    def stages(self) -> list[Stage]:
        """Return the stages that have ended, in the order of their first begin."""
        return stages(self._timeline())

    def overlap(self) -> Overlap:
        """Return how copies and computation overlap, over all operations that were queued and have ended."""
        return overlap(self._timeline().ops)

    def report(self) -> str:
        """Return the report as text: for each stage its calls, times and share; overlap; pipeline efficiency.

        The efficiency is given in two ways: as compute / (compute + transfer), and as the share of the time in which
        the cores computed. The report says why they differ.
        """
        timeline = self._timeline()
        cores = shown("cores", timeline.device, timeline.rules)
        return stages_text(stages(timeline), overlap(timeline.ops), self._end_ns() - self._since_ns, cores)

    def PrintReport(self, file: TextIO | None = None) -> None:
        """Print the report to *file*, by default to the standard output."""
        print(self.report(), file=file)

    def _end_ns(self) -> int:
        return self._simulation.now_ns if self._until_ns is None else self._until_ns

    def _timeline(self) -> Timeline:
        timeline, since, until = self._trace.timeline(), self._since_ns, self._end_ns()
        ops = [op for op in timeline.ops if since < op.queued_ns <= until]  # it is queued at the end of its call
        marks = [mark for mark in timeline.marks if since <= mark.begin_ns and mark.end_ns <= until]
        return replace(timeline, ops=ops, marks=marks)
