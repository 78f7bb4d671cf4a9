"""Advice about long runs: chosen in the first part, judged and run again in the whole."""

import pytest
from small import SIZE, chosen, read, recorded, write

import acl_py
from acl_py.advice import parts

ROUNDS, LATE = 100, 5


async def loop():
    """Two streams hand a buffer to and fro. The host waits for nothing in each round, and again in some late ones."""
    one, two = [await acl_py.CreateStream(nonblocking=True) for _ in range(2)]
    there, back = [await acl_py.CreateEvent() for _ in range(2)]
    x = await acl_py.Malloc(SIZE)
    for number in range(ROUNDS):
        await write[1, one](x)
        await acl_py.RecordEvent(there, one)
        await acl_py.StreamWaitEvent(two, there)
        await read[1, two](x)
        await acl_py.RecordEvent(back, two)
        await acl_py.StreamWaitEvent(one, back)
        await acl_py.SynchronizeEvent(there)
        if number >= ROUNDS - LATE:
            await acl_py.SynchronizeStream(two)
    await acl_py.SynchronizeDevice()


@pytest.fixture
def short_parts(monkeypatch):
    """Runs of 80 operations are long."""
    monkeypatch.setattr(parts, "FEWEST_OPS", 20)


def pieces(found):
    return {(each.way.line.called, each.way.line.count, each.way.form.name) for each in found.advice}


def test_a_long_run_gets_the_advice_that_its_first_part_shows(short_parts):
    timeline = recorded(loop)
    found = chosen(timeline)
    assert found.first_ops is not None
    assert found.first_ops < len(timeline.ops) // 4 + 1
    assert pieces(found) == {("SynchronizeEvent", ROUNDS, "REMOVE"), ("SynchronizeStream", LATE, "REMOVE")}
    assert sum(each.added_ns for each in found.advice) == found.together.gain_ns


@pytest.mark.slow
def test_it_is_the_advice_of_a_look_at_the_whole(monkeypatch):
    timeline = recorded(loop)
    whole = chosen(timeline)
    monkeypatch.setattr(parts, "FEWEST_OPS", 20)
    by_part = chosen(timeline)
    assert whole.first_ops is None
    assert pieces(by_part) == pieces(whole)
    assert by_part.together.gain_ns == whole.together.gain_ns
    needed = [{each.line.called for each in found.verdicts if each.pair} for found in (whole, by_part)]
    assert needed == [{"StreamWaitEvent"}] * 2


async def late_read():
    """The host waits in each round, and reads the last result only."""
    stream, x, host = await acl_py.CreateStream(), await acl_py.Malloc(SIZE), await acl_py.MallocHost(SIZE)
    for _ in range(ROUNDS):
        await write[1, stream](x)
        await acl_py.MemcpyAsync(host, SIZE, x, SIZE, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)
        await acl_py.SynchronizeStream(stream)
    assert host.numpy()[0] == 1
    await acl_py.SynchronizeDevice()


def test_what_is_needed_only_behind_the_part_stays(short_parts):
    found = chosen(recorded(late_read))
    assert found.first_ops is not None
    assert pieces(found) == {("SynchronizeStream", ROUNDS - 1, "LAST")}
