"""The questions that were asked of two and of four H200s (collectives.json, "semantics"), and what they answered.

How long it takes to make communicators is left out: on the card it says nothing about waits (`comm_init_syncs`).

Times from a millisecond on agree within 10 %. Shorter ones are the host's; that they are short is the answer.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import acl_py as acl
from acl_py import DeadlockError
from tests.collectives.ranked import cards, ranks_of, reduce_all

_FILE = Path(__file__).parents[1] / "conformance" / "data" / "collectives.json"
ANSWERS = {number: json.loads(_FILE.read_text())[name]["semantics"] for number, name in ((2, "two"), (4, "four"))}
BUSY = {us: acl.kernel(cost=acl.Cost(us=us))(lambda: None) for us in (1_000, 5_000)}
each_number = pytest.mark.parametrize("number", [2, 4])


def answer(number, question):
    """What *number* cards answered."""
    return ANSWERS[number][question]["answer"]


def check_us(ns, measured_us):
    """A time of the simulation is that of the card, or both are short."""
    if measured_us < 1_000:
        assert ns < 1_000_000
    else:
        assert ns / 1_000 == pytest.approx(measured_us, rel=0.1)


async def made(number):
    return await ranks_of(await acl.CommInitAll(number))


async def busy(rank, us, stream=None):
    """Queue *us* of work on the device of *rank*."""
    await acl.SetDevice(rank.index)
    return await BUSY[us][1, stream or rank.stream]()


async def another_stream(rank, **options):
    await acl.SetDevice(rank.index)
    return await acl.CreateStream(**options)


async def all_reduce(ranks, comms=None, streams=None):
    """Let all ranks reduce, in one group."""
    async with acl.group():
        for place, rank in enumerate(ranks):
            comm = None if comms is None else comms[place]
            await reduce_all(rank, comm, None if streams is None else streams[place])


async def wait_for(ranks):
    for rank in ranks:
        await acl.SetDevice(rank.index)
        await acl.SynchronizeDevice()


def parts(stream=None):
    """The parts of collectives, in the order of their ends; of *stream* only if it is given."""
    ops = acl.current_simulation().trace.ops
    return [op for op in ops if op.kind == "collective" and (stream is None or op.stream == stream.name)]


def host_ns():
    return acl.current_simulation().runtime.host_ns


def begin_of_work():
    return min(op.start_ns for op in acl.current_simulation().trace.ops if op.kind == "kernel")


@each_number
@cards
async def test_asynchronous(number):
    ranks = await made(number)
    await busy(ranks[0], 5_000)
    before = host_ns()
    await all_reduce(ranks)
    check_us(host_ns() - before, answer(number, "asynchronous")["host_us"])
    await wait_for(ranks)
    check_us(parts()[-1].end_ns - begin_of_work(), answer(number, "asynchronous")["total_us"])


@each_number
@cards
async def test_waits_for_slowest(number):
    ranks = await made(number)
    beside = await another_stream(ranks[0])
    await busy(ranks[1], 5_000)
    await all_reduce(ranks)
    other = await busy(ranks[0], 1_000, beside)
    await wait_for(ranks)
    [held] = parts(ranks[0].stream)
    check_us(held.end_ns - held.start_ns, answer(number, "waits_for_slowest")["rank0_held_us"])
    check_us(other.end_ns - other.start_ns, answer(number, "waits_for_slowest")["other_stream_us"])


@each_number
@cards
async def test_send_returns_early(number):
    for nbytes, measured_us in list(answer(number, "send_returns_early").items())[1:]:  # the first made the connection
        zero, one, *_ = await made(number)
        await acl.SetDevice(0)
        source = await acl.Malloc(int(nbytes))
        await acl.Memset(source, int(nbytes), 0, int(nbytes))
        await busy(one, 5_000)
        target = await acl.Malloc(int(nbytes))
        async with acl.group():
            await acl.Send(source, int(nbytes), "uint8", 1, zero.comm, zero.stream)
            await acl.Recv(target, int(nbytes), "uint8", 0, one.comm, one.stream)
        await wait_for((zero, one))
        [send] = parts(zero.stream)[-1:]
        check_us(send.end_ns - send.start_ns, measured_us)


@each_number
@cards
async def test_without_group(number):
    ranks = await made(number)
    for rank, measured_us in zip(ranks, answer(number, "without_group")["host_us"], strict=True):
        before = host_ns()
        await reduce_all(rank)
        check_us(host_ns() - before, measured_us)
    await wait_for(ranks)


@each_number
@pytest.mark.parametrize("question", ["same_comm_two_streams", "two_comms_two_streams"])
@cards
async def test_two_collectives_in_two_streams(number, question):
    ranks = await made(number)
    comms = None if question == "same_comm_two_streams" else await acl.CommInitAll(number)
    others = [await another_stream(rank) for rank in ranks]
    await busy(ranks[0], 5_000)
    await all_reduce(ranks)
    await all_reduce(ranks, comms, others)
    await wait_for(ranks)
    check_us(parts(others[0])[0].end_ns - begin_of_work(), answer(number, question)["second_us"])


@each_number
@pytest.mark.parametrize(
    ("question", "own_streams"),
    [("two_comms_opposite_order", False), ("two_comms_opposite_order_two_streams", True)],
)
@cards
async def test_two_communicators_in_opposite_orders(number, question, own_streams):
    ranks = await made(number)
    comms = await acl.CommInitAll(number)
    others = [await another_stream(rank) if own_streams else rank.stream for rank in ranks]
    for rank, comm, other in zip(ranks, comms, others, strict=True):
        calls = [(rank.comm, rank.stream), (comm, other)]
        for each in reversed(calls) if rank.index else calls:
            await reduce_all(rank, *each)
    await outcome(ranks, answer(number, question))


async def outcome(ranks, expected):
    """All ranks come to an end, or hang, as *expected*."""
    if expected == "hangs":
        with pytest.raises(DeadlockError):
            await wait_for(ranks)
    else:
        assert expected == "completed"
        await wait_for(ranks)


@each_number
@cards
async def test_missing_rank(number):
    ranks = await made(number)
    for rank in ranks[:-1]:
        await reduce_all(rank)
    await outcome(ranks, answer(number, "missing_rank"))


@each_number
@cards
async def test_different_counts(number):
    ranks = await made(number)
    for rank in ranks:
        count = 2 if rank.index else 4
        await acl.AllReduce(rank.array, rank.array, count, "float32", acl.ReduceOp.SUM, rank.comm, rank.stream)
    await outcome(ranks, answer(number, "different_counts"))


@each_number
@cards
async def test_different_collectives(number):
    ranks = await made(number)
    await reduce_all(ranks[0])
    for rank in ranks[1:]:
        await acl.Broadcast(rank.array, None, None, 0, rank.comm, rank.stream)
    await outcome(ranks, answer(number, "different_collectives"))


@each_number
@cards
async def test_recv_before_send(number):
    ranks = await made(number)
    for rank in ranks[:2]:
        await acl.SetDevice(rank.index)
        into = await acl.Malloc(16)
        await acl.Recv(into, 4, "float32", 1 - rank.index, rank.comm, rank.stream)
        await acl.Send(rank.array, None, None, 1 - rank.index, rank.comm, rank.stream)
    await outcome(ranks, answer(number, "recv_before_send"))


@each_number
@cards
async def test_group_over_two_streams(number):
    ranks = await made(number)
    others = [await another_stream(rank) for rank in ranks]
    await busy(ranks[0], 5_000)
    async with acl.group():
        for rank, other in zip(ranks, others, strict=True):
            await reduce_all(rank)
            await reduce_all(rank, None, other)
    await wait_for(ranks)
    measured_us = answer(number, "group_over_two_streams")["stream1_us"]
    check_us(parts(others[0])[0].end_ns - begin_of_work(), measured_us)


@each_number
@pytest.mark.parametrize("kind", ["blocking", "nonblocking"])
@cards
async def test_legacy_stream(number, kind):
    ranks = await made(number)
    streams = [await another_stream(rank, nonblocking=kind == "nonblocking") for rank in ranks]
    await acl.SetDevice(0)
    await BUSY[5_000][1, acl.LEGACY_STREAM]()
    await all_reduce(ranks, None, streams)
    await wait_for(ranks)
    check_us(parts(streams[0])[0].end_ns - begin_of_work(), answer(number, "legacy_stream")[kind])


@each_number
@cards
async def test_values(number):
    """Sums after a kernel of the same stream has written what is summed up."""
    ranks = await made(number)
    for rank in ranks:
        await acl.SetDevice(rank.index)
        await acl.MemsetAsync(rank.array, 16, rank.index + 1, 16, rank.stream)
    await all_reduce(ranks)
    await wait_for(ranks)
    values = [np.frombuffer(bytes([rank.index + 1] * 16), np.float32) for rank in ranks]
    is_right = [await rank.values() for rank in ranks] == [np.sum(values, axis=0, dtype=np.float32).tolist()] * number
    assert is_right == answer(number, "values")["right"]
