"""Why each operation did not start earlier, from the rows of a trace.

A row has when the operation was ready, what it had waited for until then, and when it started. If it started when it
was ready, what made it ready is the reason. If it started later, its engine was late, and it waited for the operation
that the engine ran before.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acl_py.trace.rows.columns import Ints, blocks
from acl_py.trace.rows.packing import Numbers
from device_model.completions import Why
from device_model.queues import HardwareQueue
from device_model.streams import Stream
from device_model.work import Lane


class Turns(NamedTuple):
    """The stream, the lane and the hardware queue of each kind of operation, as numbers."""

    stream: Ints
    lane: Ints
    queue: Ints

    @classmethod
    def of(cls, places: Sequence[tuple[Stream, Lane, HardwareQueue]]) -> "Turns":
        """Return the numbers for *places*, which are by the number of a row."""
        streams: Numbers[Stream] = Numbers()
        queues: Numbers[HardwareQueue] = Numbers()
        return cls(
            np.array([streams[stream] for stream, _, _ in places], np.int64),
            np.array([lane for _, lane, _ in places], np.int64),
            np.array([queues[queue] for _, _, queue in places], np.int64),
        )


def reasons(rows: npt.NDArray[Any], after: Ints, turns: Turns) -> npt.NDArray[np.uint8]:
    """Return why the operation of each row did not start earlier.

    *rows* have the fields of `OP`; *after* has the index of the operation that each waited for, or -1.
    """
    why: npt.NDArray[np.uint8] = rows["why"].copy()
    for block in blocks(len(rows)):
        late = block.start + np.flatnonzero((rows["start"][block] > rows["ready"][block]) & (after[block] >= 0))
        if len(late):
            why[late] = _late(rows[late], rows[after[late]], turns)
    return why


def _late(row: npt.NDArray[Any], before: npt.NDArray[Any], turns: Turns) -> Ints:
    """Return why the engine that ran *before* started the operation of *row* after it was ready.

    If *before* stood ahead of it in one hardware queue, in another stream, and had to wait itself while the other was
    ready, then the shared queue is the reason.
    """
    own, other = row["number"], before["number"]
    lane = turns.lane[own]
    in_queue = (turns.stream[own] != turns.stream[other]) & (turns.queue[own] == turns.queue[other])
    waited = (row["ready"] < before["start"]) & (before["start"] == before["ready"])
    return np.select(
        [lane == Lane.COMPUTE, row["ready"] >= before["end"], waited & in_queue],
        [Why.CORES, Why.GAP, Why.QUEUE],
        Why.ENGINE,
    )
