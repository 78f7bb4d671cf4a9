"""Partners: which parts of collectives wait for one another, and since when all of them have had their turn.

The parts of one collective of all ranks wait for the part that starts last. A Send and its Recv wait for each other,
except that a Send which fits the receiver's buffer may end before its Recv starts.
"""

from collections.abc import Collection
from functools import cached_property

from acl_py.trace.rows.columns import OpColumns
from acl_py.trace.rows.ranks import Delivery, Meeting, deliveries_of, meetings_of
from acl_py.trace.rows.timeline import Timeline


class Partners:
    """The collectives of a recording whose operations are *ops*."""

    def __init__(self, timeline: Timeline, ops: OpColumns) -> None:
        self._timeline = timeline
        self._start, self._end = ops.start_ns.tolist(), ops.end_ns.tolist()
        self._has_any = any(kind.kind == "collective" for kind in ops.kinds)

    @cached_property
    def meetings(self) -> list[Meeting]:
        """The collectives of all ranks."""
        return meetings_of(self._timeline) if self._has_any else []

    @cached_property
    def deliveries(self) -> list[Delivery]:
        """The Sends, each with its Recv."""
        return deliveries_of(self._timeline) if self._has_any else []

    def is_early(self, delivery: Delivery) -> bool:
        """Whether the Send has ended before its Recv started."""
        return bool(self._end[delivery.send] <= self._start[delivery.recv])

    @cached_property
    def of(self) -> dict[int, list[int]]:
        """For each part of a Send or a Recv those that it waits for."""
        partners: dict[int, list[int]] = {}
        for each in self.deliveries:
            if self.is_early(each):
                continue
            partners.setdefault(each.send, []).append(each.recv)
            partners.setdefault(each.recv, []).append(each.send)
        return partners

    @cached_property
    def last(self) -> dict[int, int]:
        """For each part the one that it has waited for longest; itself, if it came last."""
        found: dict[int, int] = {}
        for meeting in self.meetings:
            found |= dict.fromkeys(meeting.ops.values(), self._latest(meeting.ops.values()))
        return found | {op: self._latest([op, *others]) for op, others in self.of.items()}

    def _latest(self, ops: Collection[int]) -> int:
        return max(ops, key=lambda op: (self._start[op], op))
