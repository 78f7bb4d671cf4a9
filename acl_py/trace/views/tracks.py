"""Tracks: slices that belong together in a viewer, such as the calls of a task or the operations of a stream.

Viewers lose one of two slices that overlap in one lane without nesting. So a track has a second lane where its slices
overlap. Slices come in the order of their ends, as the rows of a trace do. Each goes to the free lane that was busy
last. This needs no sorting, and no more lanes than any other choice.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from acl_py.trace.rows.columns import CallColumns, Ints, OpColumns, StepColumns
from acl_py.trace.rows.reading import host_rows, stream_ids

_ALL = 1 << 62  # above the number of every lane


class Track:
    """Slices with one label in the process *pid*, in as many lanes as they need; *numbers* gives each lane a number."""

    __slots__ = ("_free", "_numbers", "label", "lanes", "pid")

    def __init__(self, pid: int, label: str, numbers: Iterator[int]) -> None:
        self.pid = pid
        self.label = label
        self.lanes = [next(numbers)]
        self._numbers = numbers
        self._free: list[tuple[float, int]] = [(-1, self.lanes[0])]  # the last end in each lane, in order, and the lane

    def place(self, start: float, end: float) -> int:
        """Return the number of the lane of the next slice."""
        free = self._free
        if free[-1][0] <= start:  # the common case
            lane = free[-1][1]
            free[-1] = end, lane
            return lane
        before = bisect_right(free, (start, _ALL))
        if before:
            lane = free.pop(before - 1)[1]
        else:
            lane = next(self._numbers)
            self.lanes.append(lane)
        free.append((end, lane))
        return lane

    def slice(self, what: str, begin_ns: int, end_ns: int, rest: str) -> str:
        """Return the next slice as a JSON object: *what* it is, where and when, and the *rest*."""
        lane = self.place(begin_ns, end_ns)
        times = f'"ts":{begin_ns / 1000:.3f},"dur":{(end_ns - begin_ns) / 1000:.3f}'
        return f'{{"ph":"X",{what},"pid":{self.pid},"tid":{lane},{times},{rest}}}'

    @property
    def end(self) -> float:
        """The end of the last slice, -1 if there is none."""
        return self._free[-1][0]

    def names(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the name of each lane: the label, with a number from the second lane on."""
        for place, lane in enumerate(self.lanes, start=1):
            yield lane, self.label if place == 1 else f"{self.label} ({place})"


class Tracks(NamedTuple):
    """Tracks, and for each kind of row the place *of* its track among them."""

    tracks: Sequence[Track]
    of: Ints


def place(tracks: Sequence[Track], which: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the number of the lane of each slice; *which* has the place of its track in *tracks*."""
    if not len(which):
        return np.zeros(0, np.int64)
    order = np.argsort(which, kind="stable")
    track, starts_in, ends_in = which[order], starts[order], ends[order]
    is_first = np.append(True, track[1:] != track[:-1])
    before = np.append(0, ends_in[:-1])
    before[is_first] = [tracks[each].end for each in track[is_first].tolist()]
    if (before > starts_in).any():
        rows = zip(which.tolist(), starts.tolist(), ends.tolist(), strict=True)
        return np.array([tracks[each].place(start, end) for each, start, end in rows], np.int64)
    is_last = np.append(is_first[1:], True)
    lanes = np.zeros(len(tracks), np.int64)
    for each, end in zip(track[is_last].tolist(), ends_in[is_last].tolist(), strict=True):
        lanes[each] = tracks[each].place(end, end)
    return lanes[which]


def host_tracks(calls: CallColumns, pid: int, numbers: Iterator[int]) -> Tracks:
    """Return the tracks of tasks and threads, and for each of the callers the place of its track; some share one."""
    rows = host_rows(calls)
    tracks = [Track(pid, "calls" if len(rows) == 1 else row.label, numbers) for row in rows]
    track_of = {caller: place for place, row in enumerate(rows) for caller in row.callers}
    return Tracks(tracks, np.array([track_of.get(caller, -1) for caller in calls.callers], np.int64))


def stream_tracks(
    queued: Sequence[OpColumns | StepColumns], pid_of: Callable[[int], int], numbers: Iterator[int]
) -> dict[tuple[int, str], Track]:
    """Return the track of each device and stream. Its first lane has the number of the stream (`stream_ids`)."""
    ids = stream_ids(*queued)
    order = {stream: place for place, stream in enumerate(ids)}
    streams = {(kind.device, kind.stream) for columns in queued for kind in columns.kinds}
    keys = sorted(streams, key=lambda key: (key[0], order[key[1]]))
    return {key: Track(pid_of(key[0]), key[1], chain([ids[key[1]]], numbers)) for key in keys}
