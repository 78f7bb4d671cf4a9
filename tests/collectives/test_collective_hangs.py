"""Ranks that wait for each other for ever, as cards do, and what the error says."""

import re

import numpy as np
import pytest

import acl_py as acl
from acl_py import AclError, DeadlockError, Kind
from tests.collectives.ranked import cards, ranks_of, reduce_all, two_ranks


def lines_of(error):
    """The lines of an error, without the columns in front, and with numbers of lines as "N"."""
    return [re.sub(r"\.py:\d+", ".py:N", line.strip()) for line in str(error).splitlines()]


@cards
async def test_two_communicators_in_opposite_orders_on_one_stream_each_hang_in_a_circle():
    """vllm-ascend 3582, 15500 and 16450: collectives of two groups in other orders on two ranks."""
    first, second = await acl.CommInitAll(2, name="tp"), await acl.CommInitAll(2, name="ep")
    zero, one = await ranks_of(first)
    await reduce_all(zero)
    await reduce_all(zero, second[0])
    await reduce_all(one, second[1])
    await reduce_all(one)
    with pytest.raises(DeadlockError) as caught:
        await acl.SynchronizeStream(zero.stream)
    lines = lines_of(caught.value)
    assert "rank 0 on device 0 waits in AllReduce 1 of 4 float32 (sum) (ranked.py:N)" in lines
    assert (
        "rank 1 on device 1 has queued AllReduce 1 of 4 float32 (sum) (ranked.py:N), which has not had its turn"
        in lines
    )
    assert [line for line in lines if "mismatch" in line] == []
    assert lines[-1] == (
        "to break it: let all ranks make their collectives in the same order, or take a stream for each communicator"
    )
    assert any("which closes the circle" in line for line in lines)


@cards
async def test_opposite_orders_on_streams_of_their_own_complete():
    """Asked of an H200."""
    first, second = await acl.CommInitAll(2), await acl.CommInitAll(2)
    zero, one = await ranks_of(first)
    others = []
    for rank in (zero, one):
        await acl.SetDevice(rank.index)
        others.append(await acl.CreateStream())
    await reduce_all(zero)
    await reduce_all(zero, second[0], others[0])
    await reduce_all(one, second[1], others[1])
    await reduce_all(one)
    for rank, other in zip((zero, one), others, strict=True):
        await acl.SynchronizeStream(rank.stream)
        await acl.SynchronizeStream(other)


@cards
async def test_a_rank_that_never_calls_is_named():
    """A rank that fails, or leaves its loop, before its call."""
    ranks = await ranks_of(await acl.CommInitAll(4, name="dp"))
    for rank in ranks:
        await reduce_all(rank)
    for rank in ranks[:3]:
        await reduce_all(rank)
    with pytest.raises(DeadlockError) as caught:
        await acl.SynchronizeStream(ranks[1].stream)
    lines = lines_of(caught.value)
    start = lines.index("comm 'dp', 4 ranks:")
    assert lines[start:] == [
        "comm 'dp', 4 ranks:",
        "rank 0 on device 0 waits in AllReduce 2 of 4 float32 (sum) (ranked.py:N)",
        "rank 1 on device 1 waits in AllReduce 2 of 4 float32 (sum) (ranked.py:N)",
        "rank 2 on device 2 waits in AllReduce 2 of 4 float32 (sum) (ranked.py:N)",
        "rank 3 on device 3 has called nothing behind AllReduce 1 of 4 float32 (sum) (ranked.py:N)",
        "first mismatch: rank 0 has called AllReduce 2 of 4 float32 (sum) (ranked.py:N), and rank 3 not",
        "to break it: let rank 3 make the same call as rank 0",
    ]


@cards
async def test_ranks_that_call_something_else_are_named_with_both_calls():
    zero, one = await ranks_of(await acl.CommInitAll(2))
    await acl.Barrier(zero.comm, zero.stream)
    await acl.Barrier(one.comm, one.stream)
    await acl.AllReduce(zero.array, zero.array, 3, None, acl.ReduceOp.MAX, zero.comm, zero.stream)
    await acl.Broadcast(one.array, 3, None, 0, one.comm, one.stream)
    with pytest.raises(DeadlockError) as caught:
        await acl.SynchronizeStream(zero.stream)
    assert lines_of(caught.value)[-2:] == [
        (
            "first mismatch: rank 0 has called AllReduce 2 of 3 float32 (max) (test_collective_hangs.py:N), and rank 1 "
            "Broadcast 2 of 3 float32 with root 0 (test_collective_hangs.py:N)"
        ),
        "to break it: let rank 1 make the same call as rank 0",
    ]


@pytest.mark.parametrize(
    "change",
    [{"dtype": "int32"}, {"op": acl.ReduceOp.MIN}, {"count": 2}],
    ids=["type", "reduction", "count"],
)
@cards
async def test_calls_that_differ_in_one_thing_hang(change):
    """Counts were asked of an H200; types and reductions are assumed to."""
    zero, one = await ranks_of(await acl.CommInitAll(2))
    for rank, asked in ((zero, {}), (one, change)):
        count, dtype = asked.get("count", 4), asked.get("dtype", "float32")
        op = asked.get("op", acl.ReduceOp.SUM)
        await acl.AllReduce(rank.array, rank.array, count, dtype, op, rank.comm, rank.stream)
    with pytest.raises(DeadlockError, match="first mismatch: rank 0 has called AllReduce 1 of 4 float32"):
        await acl.SynchronizeStream(zero.stream)


@cards
async def test_receives_before_sends_on_both_sides_hang_and_in_a_group_they_do_not():
    """NCCL's guide on groups; asked of an H200."""
    zero, one = await ranks_of(await acl.CommInitAll(2))
    spare = [await acl.Malloc(16)]
    await acl.SetDevice(0)
    spare.insert(0, await acl.Malloc(16))
    async with acl.group():
        for rank, into in zip((zero, one), spare, strict=True):
            await acl.Recv(into, 4, "float32", 1 - rank.index, rank.comm, rank.stream)
            await acl.Send(rank.array, None, None, 1 - rank.index, rank.comm, rank.stream)
    for rank, into, other in zip((zero, one), spare, (2, 1), strict=True):
        await acl.SynchronizeStream(rank.stream)
        got = np.empty(4, np.float32)
        await acl.Memcpy(got, 16, into, 16, acl.MemcpyKind.DEVICE_TO_HOST)
        assert got.tolist() == [other] * 4
    for rank, into in zip((zero, one), spare, strict=True):
        await acl.Recv(into, 4, "float32", 1 - rank.index, rank.comm, rank.stream)
        await acl.Send(rank.array, None, None, 1 - rank.index, rank.comm, rank.stream)
    with pytest.raises(DeadlockError) as caught:
        await acl.SynchronizeStream(zero.stream)
    lines = lines_of(caught.value)
    assert "rank 0 on device 0 waits in Recv 2 from rank 1 of 4 float32 (test_collective_hangs.py:N)" in lines
    assert any("which closes the circle" in line for line in lines)


@cards
async def test_a_send_that_nobody_receives_is_named_with_what_is_missing():
    zero, _ = await ranks_of(await acl.CommInitAll(2))
    await acl.SetDevice(0)
    send = "Send 1 to rank 1 of 17,825,792 uint8"
    large = await acl.Malloc(17 << 20)  # a small one would end
    await acl.Send(large, 17 << 20, "uint8", 1, zero.comm, zero.stream)
    with pytest.raises(DeadlockError) as caught:
        await acl.SynchronizeStream(zero.stream)
    assert lines_of(caught.value)[-2:] == [
        f"first mismatch: rank 0 has called {send} (test_collective_hangs.py:N), and rank 1 not",
        f"to break it: let rank 1 call Recv() with what fits {send.replace(' 1', '', 1)}",
    ]


@cards
async def test_making_a_communicator_waits_for_all_ranks():
    info = await acl.GetRootInfo()
    with pytest.raises(DeadlockError, match=r"CommInitRootInfo\(\) of rank 0 waits for the other ranks"):
        await acl.CommInitRootInfo(2, info, 0)


@cards(device="ascend910b3", rules="acl")
async def test_under_acls_rules_a_rank_waits_half_an_hour_and_the_synchronisation_fails():
    sim = acl.current_simulation()
    zero, one = await ranks_of(await acl.CommInitAll(2, name="dp"))
    await acl.SetDevice(0)
    began = sim.now_ns
    await reduce_all(zero)
    with pytest.raises(AclError) as caught:
        await acl.SynchronizeStream(zero.stream)
    assert caught.value.kind is Kind.COLLECTIVE_TIMEOUT
    assert str(caught.value).startswith("ACL_ERROR_RT_FFTS_PLUS_TIMEOUT (507048): ")
    assert "EI0002: ranks of comm 'dp' have waited 1800 s for the others" in str(caught.value)
    assert "for the others: rank 0 has called AllReduce 1 of 4 float32 (sum) (ranked.py:" in str(caught.value)
    assert 1_800 <= (sim.now_ns - began) / 1e9 < 1_800.001
    with pytest.raises(AclError):  # the communicator takes part in nothing any more
        await reduce_all(zero)
    assert await acl.GetCommAsyncError(one.comm) is Kind.COLLECTIVE_TIMEOUT


@pytest.mark.parametrize(("seconds", "given"), [("7", None), ("7", 3)])
def test_the_limit_is_that_of_the_environment_or_of_the_program(monkeypatch, seconds, given):
    monkeypatch.setenv("HCCL_EXEC_TIMEOUT", seconds)

    async def main():
        sim = acl.current_simulation()
        [zero, _] = await ranks_of(await acl.CommInitAll(2))
        await acl.SetDevice(0)
        began = sim.now_ns
        await reduce_all(zero)
        with pytest.raises(AclError, match="EI0002"):
            await acl.SynchronizeStream(zero.stream)
        return round((sim.now_ns - began) / 1e9)

    assert acl.run(main, device="ascend910b3", rules="acl", hccl_timeout_s=given) == (given or int(seconds))


def test_a_limit_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("HCCL_EXEC_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="HCCL_EXEC_TIMEOUT='soon' must be a whole number of seconds"):
        acl.run(lambda: acl.CommInitAll(2), device="ascend910b3", rules="acl")


@cards(device="ascend910b3", rules="acl")
async def test_under_acls_rules_making_a_communicator_has_a_limit():
    info = await acl.GetRootInfo()
    with pytest.raises(AclError) as caught:
        await acl.CommInitRootInfo(3, info, 1)
    assert caught.value.kind is Kind.COLLECTIVE_TIMEOUT
    assert "rank 1 has waited 120 s for others; of 3 ranks only 1 have called" in str(caught.value)


@cards
async def test_a_late_rank_holds_only_the_stream_of_the_others():
    """Asked of an H200: the host returns at once, and other streams go on."""
    sim = acl.current_simulation()
    async with two_ranks() as (zero, one):
        await acl.SetDevice(0)
        free = await acl.CreateStream()
        await reduce_all(zero)
        queued = sim.now_ns
        kernel = acl.kernel(cost=acl.Cost(us=50))(lambda: None)
        await kernel[1, free]()
        await acl.SynchronizeStream(free)
        assert sim.now_ns - queued < 100_000
        assert not zero.stream.idle
        await acl.SetDevice(1)
        await reduce_all(one)
        await acl.SynchronizeStream(one.stream)
        assert zero.stream.idle
        assert await zero.values() == await one.values() == [3.0] * 4


@cards
async def test_two_collectives_of_one_communicator_in_two_streams_run_in_order():
    """Asked of an H200; of two communicators they run side by side."""
    sim = acl.current_simulation()
    zero, one = await ranks_of(await acl.CommInitAll(2))
    for rank in (zero, one):
        await acl.SetDevice(rank.index)
        await reduce_all(rank)
        await reduce_all(rank, stream=await acl.CreateStream())
    await acl.SynchronizeDevice()
    first, second = sorted(
        (op.start_ns, op.end_ns) for op in sim.trace.ops if op.kind == "collective" and op.device == 1
    )
    assert first[1] <= second[0]
