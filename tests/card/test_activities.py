"""Records of what the card has done find their operations."""

from collections import deque
from enum import IntEnum
from types import SimpleNamespace

import pytest

import acl_py
from acl_py.card.cuda.activities import Activities, Done, matched
from tests.card.kernels import SPIN

KIND = acl_py.MemcpyKind.DEFAULT
COPY, FILL, ADD, SCALE = ("copy", 64), ("fill", 64), ("kernel", "add"), ("kernel", "scale")


def found(marks):
    return [Done(mark, at, at + 1) for at, mark in enumerate(marks)]


@pytest.mark.parametrize(
    ("queued", "records", "times", "left"),
    [
        pytest.param([COPY, ADD], [COPY, ADD], {0: 0, 1: 1}, [], id="each has its record"),
        pytest.param([ADD, ADD], [ADD], {0: 0}, [1], id="the second has none yet"),
        pytest.param([COPY, ADD], [SCALE, COPY, SCALE, ADD], {0: 1, 1: 3}, [], id="another library launches, too"),
        pytest.param([COPY, FILL, ADD], [COPY, ADD], {0: 0, 2: 1}, [], id="one makes no record"),
        pytest.param([COPY], [("copy", 32)], {}, [0], id="other bytes"),
    ],
)
def test_records_are_those_of_the_operations_in_their_order(queued, records, times, left):
    waiting = deque((number, mark) for number, mark in enumerate(queued))
    assert {op: done.start_ns for op, done in matched(waiting, found(records))} == times
    assert [number for number, _ in waiting] == left


def test_a_trace_has_all_operations_whenever_it_is_looked_at(card):
    async def main():
        spin = (await acl_py.ptx.load(SPIN))["spin"]
        stream, buffer = await acl_py.CreateStream(), await acl_py.Malloc(64)
        pinned = await acl_py.MallocHost(64)
        await acl_py.MemcpyAsync(buffer, 64, pinned, 64, KIND, stream)
        await acl_py.MemsetAsync(buffer, 64, 0, 64, stream)
        await (await spin[1, 32, stream](100_000))
        await acl_py.LaunchHostFunc(stream, list)
        await acl_py.SynchronizeStream(stream)
        timeline = acl_py.current_simulation().trace.timeline()
        assert [op.kind for op in timeline.ops] == ["h2d", "fill", "kernel", "host_function"]
        assert all(op.called_ns <= op.start_ns <= op.end_ns for op in timeline.ops)

    acl_py.run(main, device=card)


class Cupti:
    """The functions of the vendor's package that are asked for here; *records* are those of the next flush."""

    ActivityKind = IntEnum("ActivityKind", ["MEMCPY", "MEMCPY2", "MEMSET", "CONCURRENT_KERNEL", "GRAPH_TRACE"])

    def __init__(self):
        self.records = []

    def activity_register_callbacks(self, _, completed):
        self.completed = completed

    def activity_flush_all(self, _):
        self.completed(self.records)
        self.records = []

    def get_stream_id_ex(self, context, handle, per_thread):
        return handle


def test_each_card_gets_the_records_of_its_own_streams_in_whatever_order_they_ask():
    cupti = Cupti()
    records = Activities(cupti)
    cards = [SimpleNamespace(ordinal=number, context_handle=100 + number) for number in range(2)]
    streams = [SimpleNamespace(handle=7, context=SimpleNamespace(device=card)) for card in cards]
    first, second = map(records.place_of, streams)
    kind = cupti.ActivityKind.MEMCPY
    cupti.records = [
        SimpleNamespace(
            kind=kind, device_id=card, stream_id=stream, correlation_id=call, start=at, end=at + 1, bytes=64
        )
        for card, stream, call, at in ((1, 7, 4, 30), (0, 7, 2, 10), (0, 9, 3, 20), (0, 7, 2, 11))
    ]
    assert records.take([first]) == {first: [Done(("copy", 128), 10, 12)]}
    assert records.take([second]) == {second: [Done(("copy", 64), 30, 31)]}
    assert records.take([first, second]) == {first: [], second: []}
