"""Why each operation did not start earlier, from the rows of a trace.

A row has when the operation was ready, what it had waited for until then, and when it started. If it started when it
was ready, what made it ready is the reason. If it started later, its engine was late, and it waited for the operation
that the engine ran before.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from device_model.completions import Nanoseconds, Why
from device_model.queues import HardwareQueue
from device_model.streams import Stream
from device_model.work import Lane


class Row(NamedTuple):
    """The row of an operation; *serial* is its number in the order of queuing.

    *number* stands for its stream, site and label, *caller* for the task or thread that called, *dst* and *src* for the
    memory at both ends, *dst* of a kernel for what its launches have in common; *called* to *end* are times.

    It was *ready* because of *why*, and waited for the operation with the serial number *after*; -1 for none.
    """

    serial: int
    number: int
    caller: int
    dst: int
    src: int
    dst_offset: int
    src_offset: int
    bytes: int
    called: Nanoseconds
    queued: Nanoseconds
    ready: Nanoseconds
    start: Nanoseconds
    end: Nanoseconds
    why: int
    after: int


def reasons(
    rows: Sequence[Row], places: Sequence[tuple[Stream, Lane]], index_of: Mapping[int, int]
) -> Iterator[tuple[Why, int | None]]:
    """Yield why the operation of each row did not start earlier, and the index of the operation that it waited for.

    *places* are by the number of a row, *index_of* by serial number. An operation that never ended has no row.
    """
    for row in rows:
        after = index_of.get(row.after)
        why = Why(row.why)
        if row.start > row.ready and after is not None:
            why = _late(row, rows[after], places)
        yield why, after


def _late(row: Row, before: Row, places: Sequence[tuple[Stream, Lane]]) -> Why:
    """Return why the engine that ran *before* started the operation of *row* after it was ready.

    If *before* stood ahead of it in one hardware queue, in another stream, and had to wait itself while the other was
    ready, then the shared queue is the reason.
    """
    stream, lane = places[row.number]
    if lane is Lane.COMPUTE:
        return Why.CORES
    if row.ready >= before.end:
        return Why.GAP
    other, _ = places[before.number]
    waited = row.ready < before.start == before.ready
    if waited and other is not stream and _queue(other, lane) is _queue(stream, lane):
        return Why.QUEUE
    return Why.ENGINE


def _queue(stream: Stream, lane: Lane) -> HardwareQueue:
    return stream.queues[lane]
