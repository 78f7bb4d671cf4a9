"""Mistakes of kernels that ask for collectives: found at their line, or an error that names ranks and handles."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from core_kernels import on_device, read, simulation

import acl_py as acl
from acl_py import asc

FP16, FP64 = asc.HcclDataType.HCCL_DATA_TYPE_FP16, asc.HcclDataType.HCCL_DATA_TYPE_FP64
SUM, PROD = asc.HcclReduceOp.HCCL_REDUCE_SUM, asc.HcclReduceOp.HCCL_REDUCE_PROD
N = 64
HERE = "# here"
PLANTED, STOPPED = [], []


def opened(context=None):
    hccl = asc.Hccl()
    hccl.InitV2(context or asc.GetHcclContext(), "tiling")
    hccl.SetCcTilingV2(0)
    return hccl


def ub():
    return asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, N)


def gm(argument):
    return asc.GlobalTensor(asc.half).SetGlobalBuffer(argument)


async def on_two_ranks(kernel, blocks=1, ranks=(0, 1), values=True):
    """Launch *kernel* on *ranks* of two; return the findings, and the error of each rank that fails."""
    async with simulation(values=values) as sim:
        comms = await acl.CommInitAll(2, name="pair")
        for device in ranks:
            await acl.SetDevice(device)
            x, y = [await on_device(np.ones(N, np.float16)) for _ in range(2)]
            await kernel[blocks](x, y, comms[device])
        errors = {}
        for device in ranks:
            await acl.SetDevice(device)
            try:
                await acl.SynchronizeDevice()
            except acl.AclError as error:
                errors[device] = error
        return list(sim.findings), errors


def line_of(kernel):
    lines, first = inspect.getsourcelines(kernel.function)
    (number,) = [first + place for place, line in enumerate(lines) if HERE in line]
    return number


# Mistakes that a card gets through, with wrong results or a server that is never free


def planted(rule, missing, blocks=1):
    """Add the kernel below: the rule that it breaks at the marked line, and what it lacks."""

    def add(kernel):
        PLANTED.append(pytest.param(kernel, rule, missing, blocks, id=kernel.name))
        return kernel

    return add


@planted("RAW", "Hccl.Wait")
@asc.kernel
def reads_before_it_waits(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    handle = hccl.AllReduce(x, y, N, FP16, SUM, commit=True)
    asc.DataCopy(ub(), gm(y), N)  # here
    asc.PipeBarrier(asc.PIPE_ALL)
    hccl.Wait(handle)
    hccl.Finalize()


@planted("RAW", "Hccl.Wait")
@asc.kernel
def reads_a_window_before_it_waits(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    window = hccl.GetWindowsInAddr(hccl.GetRankId()).of_type(asc.half)
    handle = hccl.AllReduce(x, window, N, FP16, SUM, commit=True)
    asc.DataCopy(ub(), gm(window), N)  # here
    asc.PipeBarrier(asc.PIPE_ALL)
    hccl.Wait(handle)
    hccl.Finalize()


@planted("RAW", "a barrier of all cores and pipes before Hccl.Commit")
@asc.kernel
def commits_before_it_has_written(x: asc.InOut, y: asc.InOut, comm: object):
    hccl = opened()
    handle = hccl.AllReduce(x, y, N, FP16, SUM)
    asc.DataCopy(gm(x), ub_of_ones(), N)  # here
    hccl.Commit(handle)
    hccl.Wait(handle)
    hccl.Finalize()


def ub_of_ones():
    tile = ub()
    asc.Duplicate(tile, 1.0, N)
    asc.SetFlag(asc.HardEvent.V_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.V_MTE3, 0)
    return tile


@planted("WAR", "Hccl.Wait, or a barrier of all cores and pipes before Hccl.Commit")
@asc.kernel
def lets_the_server_write_what_it_still_reads(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    handle = hccl.AllReduce(x, y, N, FP16, SUM)
    asc.DataCopy(ub(), gm(y), N)  # here
    hccl.Commit(handle)
    hccl.Wait(handle)
    asc.PipeBarrier(asc.PIPE_ALL)
    hccl.Finalize()


@planted("NOT_FINALIZED", "Finalize")
@asc.kernel
def never_finalizes(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    handle = hccl.AllReduce(x, y, N, FP16, SUM, commit=True)  # here
    hccl.Wait(handle)


@planted("FINALIZED_EARLY", "SyncAll before Finalize", blocks=2)
@asc.kernel
def finalizes_while_another_core_may_wait(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    handle = hccl.AllReduce(x, y, N, FP16, SUM, commit=True)
    hccl.Wait(handle)  # here
    hccl.Finalize()


@pytest.mark.parametrize("values", [True, False], ids=["values", "without values"])
@pytest.mark.parametrize(("kernel", "rule", "missing", "blocks"), PLANTED)
async def test_a_planted_mistake_is_found_once_at_its_line(kernel, rule, missing, blocks, values):
    findings, errors = await on_two_ranks(kernel, blocks, values=values)
    assert errors == {}
    assert [(each.rule.name, each.missing) for each in findings] == [(rule, missing)]
    assert f"{Path(__file__).name}:{line_of(kernel)}" in findings[0].sites


async def test_in_weak_mode_the_server_sends_the_old_bytes_and_a_core_reads_the_old_ones():
    @asc.kernel(weak=True)
    def hurries(x: asc.InOut, y: asc.InOut, z: asc.Out, comm: object):
        hccl, tile = opened(), ub_of_ones()
        asc.DataCopy(gm(x), tile, N)  # the server need not see these ones,
        handle = hccl.AllReduce(x, y, N, FP16, SUM, commit=True)
        asc.PipeBarrier(asc.PIPE_ALL)
        asc.DataCopy(tile, gm(y), N)  # nor need the core see what the server writes
        asc.PipeBarrier(asc.PIPE_ALL)
        asc.DataCopy(gm(z), tile, N)
        asc.PipeBarrier(asc.PIPE_ALL)
        hccl.Wait(handle)
        hccl.Finalize()

    async with simulation() as sim:
        results = []
        for device, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device)
            x, y, z = [await on_device(np.full(N, number, np.float16)) for number in (10, 30, 0)]
            await hurries[1](x, y, z, comm)
            results.append((y, z))
        for device, (y, z) in enumerate(results):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()
            assert (set((await read(y)).tolist()), set((await read(z)).tolist())) == ({20.0}, {30.0})
        assert {finding.missing for finding in sim.findings} == {
            "Hccl.Wait", "a barrier of all cores and pipes before Hccl.Commit"
        }  # fmt: skip


# Mistakes that end the launch: on the rank that makes them, and with it on the other one


def stops(text, rank=0, blocks=1, ranks=(0, 1)):
    """Add the kernel below: a pattern of the error of *rank*."""

    def add(kernel):
        STOPPED.append(pytest.param(kernel, text, rank, blocks, ranks, id=kernel.name))
        return kernel

    return add


@stops(r"Commit\(0\) on block 0 \(AIV\), which has prepared 0 tasks")
@asc.kernel
def commits_what_it_has_not_prepared(x: asc.In, y: asc.InOut, comm: object):
    opened().Commit(0)


@stops(r"Wait\(0\) of AllReduce on block 0 \(AIV\), which has committed 0 turns and waited for 0")
@asc.kernel
def waits_for_what_it_has_not_committed(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    hccl.Wait(hccl.AllReduce(x, y, N, FP16, SUM))


@stops(r"Commit\(0\) of AllReduce, whose 1 turns are all committed")
@asc.kernel
def commits_once_too_often(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    hccl.Commit(hccl.AllReduce(x, y, N, FP16, SUM, commit=True))


@stops(
    r"turn 1 of comm 'pair': rank 0 asks for AllReduce of 64 float16 \(sum\) at .*, and rank 1 asks for AllReduce of",
    rank=1,
)
@asc.kernel
def reduces_another_number_on_each_rank(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    hccl.AllReduce(x, y, N >> hccl.GetRankId(), FP16, SUM, commit=True)


@stops(r"AllGather of 32 float16 at .*, and rank 1 asks for AlltoAll of 32 float16", rank=1)
@asc.kernel
def asks_for_something_else_on_each_rank(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    ask = hccl.AlltoAll if hccl.GetRankId() else hccl.AllGather
    ask(x, y, N // 2, FP16, 0, commit=True)


@stops(r"rank 0 sends 2 bytes to rank 1, which expects 4", rank=1)
@asc.kernel
def expects_more_than_is_sent(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    hccl.AlltoAllV(x, [1, 1], [0, 1], FP16, y, [2, 1] if hccl.GetRankId() else [1, 1], [0, 2], FP16, commit=True)


@stops(
    r"rank 0 of comm 'pair', block 0 \(AIV\) in Wait\(0\) of AllReduce at .*handle 0 at .* waits for rank 1: rank 1 "
    r"has not committed AllReduce of 64 float16 \(sum\), handle 0"
)
@asc.kernel
def commits_on_rank_0_only(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    handle = hccl.AllReduce(x, y, N, FP16, SUM, commit=not hccl.GetRankId())
    if not hccl.GetRankId():
        hccl.Wait(handle)


@stops(r"in Finalize of AllReduce at .*rank 0 has committed 1 of 2 turns of AllReduce of 32 float16 \(sum\), handle 0")
@asc.kernel
def forgets_to_commit_the_second_turn(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    handle = hccl.AllReduce(x, y, N // 2, FP16, SUM, 2)
    hccl.Commit(handle)
    hccl.Wait(handle)
    hccl.Finalize()


@stops(
    r"comes_on_one_rank of rank 0 of comm 'pair'> waits for launch 1 with comm 'pair' of rank 1 \(device 1\)",
    ranks=(0,),
)
@asc.kernel
def comes_on_one_rank(x: asc.In, y: asc.InOut, comm: object):
    opened().Finalize()


@stops(r"AllReduce is message 64 of rank 0 of comm 'pair'")
@asc.kernel
def prepares_more_than_there_is_room_for(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    for _ in range(64):
        hccl.AllReduce(x, y, N, FP16, SUM)


@stops(r"AllReduce of HCCL_DATA_TYPE_FP64 with op")
@asc.kernel
def adds_what_a_card_does_not_add(x: asc.In, y: asc.InOut, comm: object):
    opened().AllReduce(x, y, 1, FP64, SUM)


@stops(r"with op <HcclReduceOp.HCCL_REDUCE_PROD")
@asc.kernel
def multiplies(x: asc.In, y: asc.InOut, comm: object):
    opened().AllReduce(x, y, N, FP16, PROD)


@stops(r"Hccl.AllReduce of HCCL_DATA_TYPE_FP16 with op None; a card has HCCL_REDUCE_SUM")
@asc.kernel
def combines_nothing(x: asc.In, y: asc.InOut, comm: object):
    opened().AllReduce(x, y, N, FP16, None, commit=True)


@stops(r"Hccl.AllReduce of data_type \[3\]; give it an HcclDataType")
@asc.kernel
def names_no_type(x: asc.In, y: asc.InOut, comm: object):
    opened().AllReduce(x, y, N, [3], SUM)


@stops(r"AlltoAllV with send_counts 3; give a list")
@asc.kernel
def gives_one_number_for_all_ranks(x: asc.In, y: asc.InOut, comm: object):
    opened().AlltoAllV(x, 3, [0, 3], FP16, y, [3, 3], [0, 3], FP16)


@stops(r"index must be an int, not <HcclContext of rank 0 of comm 'pair'>;")
@asc.kernel
def asks_for_the_context_of_a_context(x: asc.In, y: asc.InOut, comm: object):
    asc.GetHcclContext(comm)


@stops(r"src_group_id must be an int, not 'second'")
@asc.kernel
def names_a_communicator_by_a_text(x: asc.In, y: asc.InOut, comm: object):
    opened().InterHcclGroupSync("second", 0)


@stops(r"core 0 of rank 0 has prepared no other task; core 0 of rank 1 has prepared no other task", blocks=2)
@asc.kernel
def prepares_on_the_second_core_only(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    if asc.GetBlockIdx() == 1:
        hccl.Wait(hccl.AllReduce(x, y, N, FP16, SUM, commit=True))


@stops(r"the recv_buf of AllGather takes bytes 128:256 of <GlobalBuffer GM y\[0\]")
@asc.kernel
def gathers_more_than_fits(x: asc.In, y: asc.InOut, comm: object):
    opened().AllGather(x, y, N, FP16, 0)


@stops(r"a stride_count of 8 with 32 elements for each rank")
@asc.kernel
def gathers_parts_that_overlap(x: asc.In, y: asc.InOut, comm: object):
    opened().AllGather(x, y, N // 2, FP16, 8)


@stops(r"Hccl.AllReduce with repeat=256")
@asc.kernel
def asks_for_too_many_turns(x: asc.In, y: asc.InOut, comm: object):
    opened().AllReduce(x, y, 1, FP16, SUM, 256)


@stops(r"Hccl.AllReduce\(\) without a tiling")
@asc.kernel
def sets_no_tiling(x: asc.In, y: asc.InOut, comm: object):
    hccl = asc.Hccl()
    hccl.InitV2(asc.GetHcclContext(), "tiling")
    hccl.AllReduce(x, y, N, FP16, SUM)


@stops(r"Hccl.GetRankId without a communicator")
@asc.kernel
def has_no_communicator_yet(x: asc.In, y: asc.InOut, comm: object):
    asc.Hccl().GetRankId()


@stops(r"GetHcclContext\(1\) in a launch with 1 communicators")
@asc.kernel
def asks_for_a_second_communicator(x: asc.In, y: asc.InOut, comm: object):
    asc.GetHcclContext(1)


@stops(r"a second Hccl object of comm 'pair' on block 0")
@asc.kernel
def makes_two_objects(x: asc.In, y: asc.InOut, comm: object):
    opened(), opened()


@stops(r"GetWindowsInAddr\(1\) on rank 0")
@asc.kernel
def reaches_into_another_card(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    hccl.GetWindowsInAddr(1 - hccl.GetRankId())


@stops(r"Hccl\(<HcclServerType.HCCL_SERVER_TYPE_CCU: 1>\); Atlas A2 and A3 have HCCL_SERVER_TYPE_AICPU only")
@asc.kernel
def asks_for_the_server_of_another_card(x: asc.In, y: asc.InOut, comm: object):
    asc.Hccl(asc.HcclServerType.HCCL_SERVER_TYPE_CCU)


@stops(r"writes to GM x, which the kernel declares as In")
@asc.kernel
def receives_into_an_input(x: asc.In, y: asc.InOut, comm: object):
    opened().AllReduce(y, x, N, FP16, SUM, commit=True)


@pytest.mark.parametrize(("kernel", "text", "rank", "blocks", "ranks"), STOPPED)
async def test_a_mistake_ends_the_launches_of_all_ranks(kernel, text, rank, blocks, ranks):
    _, errors = await on_two_ranks(kernel, blocks, ranks)
    assert sorted(errors) == list(ranks)
    with pytest.raises(acl.AclError, match=text):
        raise errors[rank]
    for other in ranks:
        if other != rank:
            assert errors[other].kind is acl.Kind.REMOTE_FAILURE
            assert f"of rank {rank} of comm 'pair'> has failed" in str(errors[other])


async def test_tasks_of_cube_and_vector_cores_are_refused():
    @asc.kernel(kind=asc.KernelType.MIX_AIC_1_1)
    def prepares_on_both(x: asc.In, y: asc.InOut, comm: object):
        opened().AllReduce(x, y, N, FP16, SUM)

    _, errors = await on_two_ranks(prepares_on_both)
    with pytest.raises(acl.AclError, match=r"AllReduce on block 0 \(AIV\), and block 0 \(AIC\) has prepared tasks"):
        raise errors[0]


async def test_a_communicator_of_another_device_is_refused_at_the_launch():
    async with simulation():
        comms = await acl.CommInitAll(2, name="pair")
        x, y = [await on_device(np.ones(N, np.float16)) for _ in range(2)]
        with pytest.raises(acl.AclError, match="on device 0 with <rank 1 of comm 'pair' on device 1") as raised:
            await never_finalizes[1](x, y, comms[1])
        assert raised.value.kind is acl.Kind.INVALID_COLLECTIVE


async def test_a_destroyed_communicator_is_refused_at_the_launch():
    async with simulation():
        comms = await acl.CommInitAll(2, name="pair")
        await acl.CommDestroy(comms[0])
        x, y = [await on_device(np.ones(N, np.float16)) for _ in range(2)]
        with pytest.raises(acl.AclError, match="takes part in nothing any more"):
            await never_finalizes[1](x, y, comms[0])


async def test_launches_in_another_order_on_each_rank_name_the_ranks_that_are_missing():
    async with simulation(rules="acl"):
        ones, twos = await acl.CommInitAll(2, name="one"), await acl.CommInitAll(2, name="two")
        for device, order in enumerate(((ones, twos), (twos, ones))):
            await acl.SetDevice(device)
            x, y = [await on_device(np.ones(N, np.float16)) for _ in range(2)]
            for comms in order:
                await meets[1](x, y, comms[device])
        await acl.SetDevice(0)
        text = r"waits for launch 1 with comm 'one' of rank 1 \(device 1\); launch the same kernels in the same order"
        with pytest.raises(acl.AclError, match=text):
            await acl.SynchronizeDevice()


def test_folded_ranks_are_refused_by_name():
    async def program():
        comms = await acl.CommInitAll(4, name="four")

        async def main(rank):
            x, y = [acl.Array(await acl.Malloc(2 * N), np.float16) for _ in range(2)]
            await never_finalizes[1](x, y, comms[0])

        await acl.ranks(4, main, fold=True)

    with pytest.raises(ExceptionGroup) as raised:
        acl.run(program, device="ascend910b1", values=False)
    (error,) = raised.value.exceptions
    assert "whose ranks are folded" in str(error)
    assert error.kind is acl.Kind.NOT_SUPPORTED


@asc.kernel
def meets(x: asc.In, y: asc.InOut, comm: object):
    hccl = opened()
    hccl.Wait(hccl.AllReduce(x, y, N, FP16, SUM, commit=True))
    hccl.Finalize()


@asc.kernel
def fails(x: asc.In):
    raise ValueError("no such luck")


async def test_a_rank_whose_context_has_failed_ends_the_launches_of_the_others():
    async with simulation():
        comms = await acl.CommInitAll(2, name="pair")
        for device in (1, 0):
            await acl.SetDevice(device)
            x, y = [await on_device(np.ones(N, np.float16)) for _ in range(2)]
            if device == 0:
                await fails[1](x)
            await meets[1](x, y, comms[device])
        with pytest.raises(acl.AclError, match="no such luck"):
            await acl.SynchronizeDevice()
        await acl.SetDevice(1)
        lost = "rank 0 of comm 'pair', on device 0, takes part in nothing any more: its context has failed"
        with pytest.raises(acl.AclError, match=lost) as raised:
            await acl.SynchronizeDevice()
        assert raised.value.kind is acl.Kind.REMOTE_FAILURE


async def test_a_launch_that_is_aborted_while_it_waits_ends_those_that_come_later():
    async with simulation(rules="acl"):
        comms = await acl.CommInitAll(2, name="pair")
        stream = await acl.CreateStream(name="s0")
        x, y = [await on_device(np.ones(N, np.float16)) for _ in range(2)]
        await meets[1, stream](x, y, comms[0])
        await acl.StreamAbort(stream)
        await acl.SetDevice(1)
        x, y = [await on_device(np.ones(N, np.float16)) for _ in range(2)]
        await meets[1](x, y, comms[1])
        with pytest.raises(acl.AclError, match=r"rank 0 of comm 'pair', on device 0, .*: stream 's0' was aborted"):
            await acl.SynchronizeDevice()


async def test_the_time_limit_of_kernels_holds_for_the_wait_for_other_ranks():
    async with simulation(rules="acl"):
        await acl.SetOpExecuteTimeOut(1)
        comms = await acl.CommInitAll(2, name="pair")
        x, y = [await on_device(np.ones(N, np.float16)) for _ in range(2)]
        launch = await meets[1](x, y, comms[0])
        await acl.SetDevice(1)
        x, y = [await on_device(np.ones(N, np.float16)) for _ in range(2)]
        await acl.Sleep(2_000_000)
        assert launch.end_ns - launch.start_ns == 10**9
        await acl.SetDevice(0)
        with pytest.raises(acl.AclError, match=r"would have run 1 s, longer than SetOpExecuteTimeOut\(\) allows"):
            await acl.SynchronizeDevice()
        await acl.SetDevice(1)
        await meets[1](x, y, comms[1])
        with pytest.raises(acl.AclError, match=r"rank 0 .* its launch has taken too long"):
            await acl.SynchronizeDevice()
