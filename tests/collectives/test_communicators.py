"""The lives of communicators, groups, and what reaches the other ranks when one fails."""

import asyncio
from contextlib import suppress

import numpy as np
import pytest

import acl_py as acl
from acl_py import AclError, Kind, ReduceOp, faults
from tests.collectives.ranked import THERE, cards, rank_on, ranks_of, reduce_all, two_ranks


@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_a_task_for_each_rank_makes_its_communicator_and_sums(rules):
    async def main():
        info = await acl.GetRootInfo()

        async def rank(number):
            comm = await acl.CommInitRootInfo(4, info, number)
            mine = await rank_on(number, comm)
            await reduce_all(mine)
            await acl.SynchronizeStream(mine.stream)
            sizes = await acl.GetRankId(comm), await acl.GetRankSize(comm), await mine.values()
            await acl.CommDestroy(comm)
            return sizes

        return await acl.ranks(4, rank)

    device = "h200" if rules == "cuda" else "ascend910b3"
    assert acl.run(main, device=device, rules=rules) == [(rank, 4, [10.0] * 4) for rank in range(4)]


@cards
async def test_destroying_a_communicator_waits_for_what_was_queued_with_it():
    sim = acl.current_simulation()
    zero, one = await ranks_of(await acl.CommInitAll(2))
    await acl.SetDevice(0)
    await acl.kernel(cost=acl.Cost(us=900_000))(lambda: None)[1, zero.stream]()
    for rank in (zero, one):
        await reduce_all(rank)
    began = sim.now_ns
    await acl.CommDestroy(one.comm)
    assert sim.now_ns - began > 1_300_000_000  # 900 ms of the kernel, 500 of the call
    assert one.stream.idle
    with pytest.raises(AclError, match=r"takes part in nothing any more; make a new communicator") as caught:
        await reduce_all(one)
    assert caught.value.kind is Kind.INVALID_COLLECTIVE


@cards
async def test_an_aborted_communicator_ends_what_waits_on_all_ranks_with_an_error():
    zero, one = await ranks_of(await acl.CommInitAll(2))
    await reduce_all(zero)
    await acl.CommAbort(one.comm)
    with pytest.raises(AclError) as caught:
        await acl.SynchronizeStream(zero.stream)
    assert caught.value.kind is Kind.REMOTE_FAILURE
    assert "ncclRemoteError (6)" in str(caught.value)
    assert (
        "rank 1 of comm 1, on device 1, takes part in nothing any more: it was aborted at test_communicators.py:"
        in str(caught.value)
    )
    assert await acl.GetCommAsyncError(zero.comm) is Kind.REMOTE_FAILURE


@cards
async def test_split_makes_a_communicator_for_each_colour_in_the_order_of_the_keys():
    comms = await acl.CommInitAll(4)

    async def rank(number):
        made = await acl.CommSplit(comms[number], -1 if number == 3 else number % 2, -number)
        return None if made is None else (await acl.GetRankId(made), await acl.GetRankSize(made))

    assert await acl.ranks(4, rank) == [(1, 2), (0, 1), (0, 2), None]


@cards
async def test_nothing_of_a_group_is_queued_before_its_end():
    sim = acl.current_simulation()
    async with two_ranks() as ranks:
        await acl.GroupStart()
        done = [await acl.AllReduce(r.array, r.array, None, None, ReduceOp.SUM, r.comm, r.stream) for r in ranks]
        assert [rank.stream.idle for rank in ranks] == [True, True]
        queued = sim.now_ns
        await acl.GroupEnd()
        assert [op.queued_ns > queued for op in done] == [True, True]
        await done[1]
        assert await ranks[0].values() == [3.0] * 4


@cards
async def test_streams_of_one_group_are_joined_before_and_after_it():
    """Asked of an H200: a group over two streams joins both."""
    sim = acl.current_simulation()
    async with two_ranks() as (zero, one):
        await acl.SetDevice(0)
        other = await acl.CreateStream()
        spare = acl.Array(await acl.Malloc(16), np.float32)
        await acl.kernel(cost=acl.Cost(us=400))(lambda: None)[1, other]()
        async with acl.group():
            await acl.Broadcast(zero.array, None, None, 0, zero.comm, zero.stream)
            await acl.Broadcast(spare, None, None, 1, zero.comm, other)
            await acl.Broadcast(one.array, None, None, 0, one.comm, one.stream)
            await acl.Broadcast(one.array, None, None, 1, one.comm, one.stream)
        await acl.SynchronizeStream(zero.stream)
        ends = {op.stream: op.end_ns for op in sim.trace.ops if op.kind == "collective" and op.device == 0}
        kernel = next(op for op in sim.trace.ops if op.kind == "kernel")
        first = min(op.start_ns for op in sim.trace.ops if op.kind == "collective" and op.device == 0)
        assert first >= kernel.end_ns
        assert other.idle
        assert len(ends) == 2


@cards
async def test_a_group_that_ends_with_an_error_queues_nothing_and_the_next_one_works():
    async with two_ranks() as ranks:
        with suppress(ZeroDivisionError):
            async with acl.group():
                await reduce_all(ranks[0])
                1 / 0  # noqa: B018 - the error
        async with acl.group():
            for rank in ranks:
                await reduce_all(rank)
        await acl.SynchronizeStream(ranks[0].stream)
        assert await ranks[1].values() == [3.0] * 4


@cards
async def test_a_group_with_memory_that_was_freed_meanwhile_queues_nothing():
    zero, _ = await ranks_of(await acl.CommInitAll(2))
    await acl.SetDevice(0)
    buffer = await acl.Malloc(16)
    await acl.GroupStart()
    await reduce_all(zero)
    await acl.Broadcast(buffer, 4, "float32", 0, zero.comm, zero.stream)
    await acl.Free(buffer)
    with pytest.raises(AclError, match=r"freed at test_communicators\.py"):
        await acl.GroupEnd()
    assert zero.stream.idle


@cards
async def test_a_captured_collective_takes_its_next_number_at_each_launch():
    async with two_ranks() as (zero, one):
        graphs = []
        for rank in (zero, one):
            await acl.SetDevice(rank.index)
            await acl.BeginCapture(rank.stream, acl.CaptureMode.RELAXED)
            await reduce_all(rank)
            await reduce_all(rank)
            graphs.append(await acl.GraphInstantiate(await acl.EndCapture(rank.stream)))
        for _ in range(2):
            for rank, executable in zip((zero, one), graphs, strict=True):
                await acl.SetDevice(rank.index)
                await acl.GraphLaunch(executable, rank.stream)
        for rank in (zero, one):
            await reduce_all(rank)
        await acl.SynchronizeStream(zero.stream)
        assert await zero.values() == await one.values() == [3.0 * 2**4] * 4


@cards
async def test_a_cancelled_wait_leaves_the_collective_where_it_is():
    async with two_ranks() as (zero, one):
        await reduce_all(zero)
        waiting = asyncio.create_task(acl.SynchronizeStream(zero.stream))
        await acl.Sleep(10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await reduce_all(one)
        await acl.SynchronizeStream(one.stream)
        assert await zero.values() == [3.0] * 4


@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_a_lost_device_reaches_the_other_ranks_as_the_error_of_their_vendor(rules):
    async def main():
        ranks = await ranks_of(await acl.CommInitAll(4))
        await acl.SetDevice(0)
        await reduce_all(ranks[0])
        await acl.SetDevice(3)
        with acl.current_simulation().fault(faults.lose_device(call="CreateStream")), suppress(AclError):
            await acl.CreateStream()
        await acl.SetDevice(0)
        with pytest.raises(AclError) as caught:
            await acl.SynchronizeStream(ranks[0].stream)
        return caught.value.kind, str(caught.value)

    kind, text = acl.run(main, device="h200" if rules == "cuda" else "ascend910b3", rules=rules)
    assert kind is Kind.REMOTE_FAILURE
    assert "rank 3 of comm 1, on device 3, takes part in nothing any more: its device is lost" in text
    assert ("ncclRemoteError" if rules == "cuda" else "SUSPECT_REMOTE_ERROR") in text


@pytest.mark.parametrize("rules", ["cuda", "acl"])
@pytest.mark.parametrize(
    "at", [{}, {"since_us": 40_000}, {"since_us": 150_000}], ids=["at once", "in the init", "then"]
)
def test_a_device_that_is_lost_by_its_number_reaches_the_other_ranks(rules, at):
    """It is lost before the communicator is made, while it is, and while ranks wait in an AllReduce."""

    async def reduce(rank):
        await acl.SetDevice(rank.index)
        try:
            await reduce_all(rank)
            await acl.SynchronizeStream(rank.stream)
        except AclError as error:
            return error
        return None

    async def main():
        sim = acl.current_simulation()
        with sim.fault(faults.lose_device(3, **at)) as rule:
            comms = await acl.CommInitAll(4)
            ranks = [await rank_on(device, comm) for device, comm in enumerate(comms[:3])]
            assert sim.now_ns < 150_000_000
            errors = await asyncio.gather(*map(reduce, ranks))
            await acl.SetDevice(3)
            with pytest.raises(AclError) as caught:
                await acl.Malloc(4)
        assert (rule.seen, rule.struck) == (1, 1)
        return errors, caught.value

    errors, own = acl.run(main, device="h200" if rules == "cuda" else "ascend910b3", rules=rules)
    assert own.kind is Kind.DEVICE_LOST
    assert "lose_device(device=3" in str(own)
    assert [error.kind for error in errors] == [Kind.REMOTE_FAILURE] * 3
    code = "ncclRemoteError" if rules == "cuda" else "SUSPECT_REMOTE_ERROR"
    assert all(code in str(error) and "rank 3 of comm 1, on device 3, takes part" in str(error) for error in errors)


@cards
async def test_a_hang_in_the_making_of_a_communicator_names_the_ranks_that_lack():
    info = await acl.GetRootInfo()

    async def rank(number):
        await acl.SetDevice(number)
        await acl.CommInitRootInfo(4, info, number)

    results = await asyncio.gather(*map(rank, (0, 2)), return_exceptions=True)
    assert [type(each) for each in results] == [acl.DeadlockError] * 2
    assert "ranks 1, 3 of 4 call CommInitRootInfo(): nothing queued or running can end this wait" in str(results[0])


@cards
async def test_a_rank_whose_kernel_fails_reaches_the_others():
    zero, one = await ranks_of(await acl.CommInitAll(2))

    @acl.kernel(cost=acl.Cost(us=5))
    def broken():
        raise ValueError("no luck")

    await broken[1, one.stream]()
    for rank in (one, zero):
        await acl.SetDevice(rank.index)
        await reduce_all(rank)
    with pytest.raises(AclError, match=r"rank 1 of comm 1.*its context has failed"):
        await acl.SynchronizeStream(zero.stream)


@cards(rules="acl", device="ascend910b3")
async def test_an_aborted_stream_reaches_the_other_ranks():
    zero, one = await ranks_of(await acl.CommInitAll(2))
    await acl.SetDevice(1)
    await acl.kernel(cost=acl.Cost(us=500))(lambda: None)[1, one.stream]()
    await reduce_all(one)
    await acl.StreamAbort(one.stream)
    await acl.SetDevice(0)
    with pytest.raises(AclError, match="stream 's1' was aborted"):
        await reduce_all(zero)


@cards
async def test_a_part_that_fails_reaches_the_other_ranks():
    sim = acl.current_simulation()
    zero, one = await ranks_of(await acl.CommInitAll(2))
    with sim.fault(faults.fail(op="collective", name="AllReduce", nth=2)):
        for rank in (zero, one):
            await reduce_all(rank)
    with pytest.raises(AclError, match="injected by fault rule"):
        await acl.SynchronizeStream(one.stream)
    await acl.SetDevice(0)
    with pytest.raises(AclError, match=r"rank 1 of comm 1.*its part has failed: injected by fault rule") as caught:
        await acl.SynchronizeStream(zero.stream)
    assert caught.value.kind is Kind.REMOTE_FAILURE


@cards
async def test_a_part_that_a_rule_corrupts_leaves_the_others_theirs():
    ranks = await ranks_of(await acl.CommInitAll(4))
    into = []
    with acl.current_simulation().fault(faults.corrupt(op="collective", name="AlltoAll", nth=3)):
        for rank in ranks:
            await acl.SetDevice(rank.index)
            into.append(acl.Array(await acl.Malloc(16), "float32"))
            await acl.AlltoAll(rank.array, 1, "float32", into[-1], 1, "float32", rank.comm, rank.stream)
    found = []
    for rank, array in zip(ranks, into, strict=True):
        await acl.SynchronizeStream(rank.stream)
        found.append(np.empty(4, np.float32))
        await acl.Memcpy(found[-1], 16, array, 16, THERE)
    assert [each.tolist() for each in found[:2] + found[3:]] == [[1.0, 2.0, 3.0, 4.0]] * 3
    assert [one == other for one, other in zip(found[2].tolist(), [1.0, 2.0, 3.0, 4.0], strict=True)].count(False) == 1


@cards
async def test_a_part_that_a_rule_lets_hang_is_named_in_the_hang_of_the_others():
    zero, one = await ranks_of(await acl.CommInitAll(2))
    with acl.current_simulation().fault(faults.hang(op="collective", nth=2)):
        for rank in (zero, one):
            await reduce_all(rank)
        with pytest.raises(acl.DeadlockError, match=r"rank 1 on device 1 has queued AllReduce 1.*not had its turn"):
            await acl.SynchronizeStream(zero.stream)


def test_a_communicator_that_is_not_destroyed_is_a_leak():
    async def main():
        await acl.CommInitAll(2)
        return acl.current_simulation()

    sim = acl.run(main, device="h200", rules="cuda", sanitize="leaks")
    [finding] = sim.findings
    assert finding.text.startswith("2 communicators never destroyed, made at test_communicators.py:")
    assert "CommDestroy" in (finding.fix or "")


@cards
async def test_a_part_that_a_fault_rule_corrupts_has_received_what_the_others_have_and_one_wrong_byte():
    async with two_ranks() as (zero, one):
        with acl.current_simulation().fault(faults.corrupt(op="collective", nth=1)):
            await reduce_all(zero)
            await reduce_all(one)
            await acl.SynchronizeStream(zero.stream)
            await acl.SynchronizeStream(one.stream)
        right, wrong = await one.values(), await zero.values()
        assert right == [3.0] * 4
        assert [value == 3.0 for value in wrong] == [True, True, False, True]


@cards
async def test_a_completion_that_is_kept_does_not_keep_the_bytes_of_its_result():
    async with two_ranks() as (zero, one):
        arguments = [(each.array, each.array, None, None, ReduceOp.SUM, each.comm, each.stream) for each in (zero, one)]
        kept = [await acl.AllReduce(*each) for each in arguments]
        await acl.SynchronizeStream(zero.stream)
        await acl.SynchronizeStream(one.stream)
        [[(exchange, _)], _] = [op.work.seats for op in kept]
        assert exchange.results == []
