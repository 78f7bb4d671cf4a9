"""Who waits at which barrier: what threads know after it, and whether they waited at one."""

from collections.abc import Callable

import numpy as np

from device_model.ptx.checks.lines import Lines
from device_model.ptx.checks.order import Order
from device_model.ptx.lanes.group import WARP, Array, Group, Ints, Lanes

Found = Callable[[int, int, int, int], None]  # block of the group, thread, its line, the line of the others


class Arrivals:
    """The barriers of a group; *found* is told of a block whose threads wait at different lines."""

    __slots__ = ("_everybody", "_found", "_group", "_lines", "_order", "_some")

    def __init__(self, group: Group, order: Order, lines: Lines, found: Found) -> None:
        self._group = group
        self._order = order
        self._lines = lines
        self._found = found
        self._everybody: dict[int, bool] = {}  # barriers at which all lanes have arrived together
        self._some: dict[int, tuple[Array, Array]] = {}  # by barrier: of each lane its line, and when it arrived

    def arrive(self, at: Lanes, number: int, line: int, now: int) -> None:
        """The lanes arrive at a barrier in *line*, after the access *now*."""
        if at.index is None and number not in self._some:
            self._everybody[number] = True
            return
        if number not in self._some:
            shape = self._group.blocks, self._group.threads
            self._some[number] = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for table, value in zip(self._some[number], (line, now + 1), strict=True):
            table.reshape(-1)[slice(None) if at.index is None else at.index] = value

    def release(self, number: int, blocks: Array, now: int) -> None:
        """The barrier is complete in *blocks*, a mask, after the access *now*."""
        if self._everybody.pop(number, False):
            self._order.barrier(blocks, now + 1)
            return
        lines, when = self._some[number]
        rows = np.flatnonzero(blocks)
        if self._lines.barrier(int(lines[rows[0]].max())).is_counted:
            self._part(rows, lines[rows], when[rows])
        else:
            self._compare(rows, lines[rows])
            self._order.barrier(blocks, now + 1)
        lines[rows] = 0
        when[rows] = 0
        if not lines.any():
            del self._some[number]

    def _compare(self, rows: Ints, lines: Array) -> None:
        """Tell of the first of the blocks *rows* whose threads are not all in one of *lines*."""
        last = lines.max(1)
        first = np.where(lines > 0, lines, last[:, None]).min(1)
        wrong = np.flatnonzero(first != last)
        if len(wrong):
            row = wrong[0]
            thread = int((lines[row] == first[row]).argmax())
            self._found(int(rows[row]), thread, int(first[row]), int(last[row]))

    def _part(self, rows: Ints, lines: Array, when: Array) -> None:
        warps = -(-self._group.threads // WARP)
        whole = np.zeros((2, len(rows), warps * WARP), np.int64)
        whole[:, :, : self._group.threads] = lines, when
        by_warp = whole.reshape(2, len(rows), warps, WARP).max(3)
        used = sorted({int(line) for line in np.unique(by_warp[0]) if line})
        waiting = [line for line in used if not self._lines.barrier(line).arrives]
        self._order.part(rows, by_warp[1], np.isin(by_warp[0], waiting))
