"""Records of what the card has done find their operations."""

from collections import deque

import pytest

import acl_py
from acl_py.card.activities import Done, matched
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
