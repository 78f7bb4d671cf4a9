"""What the steps of captures need to know of the launches of a run."""

from bisect import bisect_right
from collections import defaultdict
from itertools import chain
from operator import attrgetter

import numpy as np

from acl_py.calls.acts import GraphLaunched
from acl_py.trace.rows.columns import op_columns
from acl_py.trace.rows.timeline import Call, Launched, Ref, Timeline

Run = tuple[int, tuple[tuple[int, int], ...]]  # of a core kernel: its nanoseconds, and when it gave back how many cores


class Graphs:
    """The launches of graphs in *timeline*.

    `runs` are those of core kernels in launches, in the order of their starts, by the number of the capture.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.runs: defaultdict[int, list[Run]] = defaultdict(list)
        nodes = [timeline.ops[place] for place in np.flatnonzero(op_columns(timeline.ops).launch >= 0).tolist()]
        for op in sorted(nodes, key=attrgetter("start_ns")):
            if op.cores is not None:
                self.runs[op.cores.number].append((op.end_ns - op.start_ns, op.cores.released))
        self._functions = [op for op in nodes if op.kind == "host_function" and (op.reads or op.writes)]
        self._launches: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # by caller and stream
        for index, launch in enumerate(timeline.launches):
            self._launches[launch.by, launch.in_stream].append(index)

    def launch_of(self, call: Call) -> int | None:
        """Return the launch that *call* has queued, as an index; None if it has queued none."""
        assert isinstance(call.act, GraphLaunched), f"{call.name} launches a graph"
        stream = call.act.stream
        assert isinstance(stream, Ref), "a launch is in a stream"
        launches = self._timeline.launches
        own = self._launches[call.by, stream.handle]
        place = bisect_right(own, call.exit_ns, key=lambda index: launches[index].queued_ns) - 1
        return own[place] if place >= 0 and launches[own[place]].queued_ns >= call.enter_ns else None

    def touched(self, function: Launched, site: str) -> Launched:
        """Return *function* with the bytes that the host function captured at *site* has touched in all launches."""
        runs = [op for op in self._functions if op.site == site]
        reads, writes = (dict.fromkeys(chain(*(getattr(op, name) for op in runs))) for name in ("reads", "writes"))
        return function._replace(reads=(*reads,), writes=(*writes,))
