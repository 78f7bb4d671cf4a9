"""Folded ranks: those that are alike are a class, and the first one of each class runs for all."""

import asyncio
from dataclasses import replace

import pytest

import acl_py as acl
from acl_py import AclError, Kind, ReduceOp, faults
from device_model.links.spec import Network
from tests.campaigns import many
from tests.collectives import folded
from tests.collectives.folded import kernel, outcomes, profile, random_program


def check(seed, ranks):
    """Compare a program in full with the folded one, to the nanosecond; return how many ranks have run."""
    program = random_program(seed, ranks)
    full, all_ran = outcomes(program, own_hosts=True)
    found, ran = outcomes(program, fold=True, alike=program.key)
    assert all_ran == ranks
    assert ran <= ranks // 4, (seed, ran)
    for rank, (one, other) in enumerate(zip(full, found, strict=True)):
        assert one == other, (seed, ranks, rank)
    return ran


@pytest.mark.parametrize("seed", range(30))
def test_a_folded_program_has_the_times_of_the_program_in_full(seed):
    check(seed, 8 if seed % 3 else 16)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hundreds_of_folded_programs_have_the_times_of_the_programs_in_full():
    for seed in range(1_000, 1_000 + many(300)):
        check(seed, (8, 16, 64)[seed % 3 if seed % 5 else 0])


def run(main, ranks=4, **options):
    return acl.run(main, device=profile(ranks), **{"values": False} | options)


async def reduce(comm, stream, count=1024):
    buffer = await acl.Malloc(4 * count)
    return await acl.AllReduce(buffer, buffer, count, "float32", ReduceOp.SUM, comm, stream)


def test_the_report_and_the_tasks_say_for_how_many_ranks_one_has_run():
    async def rank(number):
        stream = await acl.CreateStream()
        await kernel(10)[1, stream]()
        await reduce(comms[number], stream)
        await acl.SynchronizeStream(stream)
        return number

    async def main():
        comms.extend(await acl.CommInitAll(12))
        assert await acl.ranks(12, rank, fold=True, alike=lambda number: number == 5) == [0] * 5 + [5] + [0] * 6
        return acl.current_simulation().report()

    comms = []
    report = run(main, 12).splitlines()
    assert "  folded: 12 ranks in 2 classes; rank 0 for 11, 5 for 1" in report
    assert [line for line in report if line.startswith("  task 'rank")] == [
        "  task 'rank 0 and 10 more': 6 calls, 34.2 us in 1 synchronisation",
        "  task 'rank 5': 6 calls, 34.2 us in 1 synchronisation",
    ]


def test_a_folded_rank_destroys_the_communicators_of_all_for_which_it_stands():
    async def rank(number):
        await reduce(comms[number], await acl.CreateStream())
        await acl.CommDestroy(comms[number])

    async def main():
        comms.extend(await acl.CommInitAll(8))
        await acl.ranks(8, rank, fold=True)
        return acl.current_simulation().report()

    comms = []
    assert "communicator" not in run(main, 8)  # none is left
    assert all(comm.destroyed is not None for comm in comms)


def test_communicators_go_on_behind_folded_ranks():
    async def rank(number):
        stream = await acl.CreateStream()
        await reduce(comms[number], stream)
        async with acl.group():
            await acl.Send(await acl.Malloc(64), 16, "float32", (number + 1) % 4, comms[number], stream)
            await acl.Recv(await acl.Malloc(64), 16, "float32", (number - 1) % 4, comms[number], stream)
        await acl.SynchronizeStream(stream)

    async def main():
        comms.extend(await acl.CommInitAll(4))
        for options in ({"fold": True}, {"own_hosts": True}, {"fold": True, "alike": lambda number: number % 2 // 2}):
            await acl.ranks(4, rank, **options)

    comms = []
    run(main)


def test_a_check_runs_more_ranks_and_names_the_first_one_that_is_not_like_its_class():
    async def rank(number):
        ran.append(number)
        stream = await acl.CreateStream()
        await kernel(10 if number != 11 else odd)[1, stream]()
        await reduce(comms[number], stream)
        await acl.SynchronizeStream(stream)

    async def main():
        comms[:], ran[:] = await acl.CommInitAll(12), []
        await acl.ranks(12, rank, fold="check")

    comms, ran, odd = [], [], 10
    run(main, 12)
    assert ran == [0, 1, 6, 11]
    odd = 12
    with pytest.raises(RuntimeError) as caught:
        run(main, 12)
    assert "rank 11 is not like rank 0, which would stand for it: rank 11 had <lambda> at " in str(caught.value)
    assert "tell them apart with alike=" in str(caught.value)


def test_ranks_of_a_fold_reach_each_other_by_messages_alone():
    async def on_another_device(number):
        await acl.SetDevice((number + 1) % 4)

    async def with_an_event(number):
        await acl.StreamWaitEvent(await acl.CreateStream(), event)

    async def with_memory(number):
        await acl.Memcpy(memory, 16, await acl.Malloc(16), 16, acl.MemcpyKind.DEVICE_TO_DEVICE)

    async def splitting(number):
        await acl.CommSplit(comms[number], 0, 0)

    async def some(number):
        await acl.CommInitRootInfo(2, await acl.GetRootInfo(), number % 2)

    async def unequal(number):
        buffer = await acl.Malloc(64)
        peer = 3 if number == 0 else 0
        await acl.Send(buffer, 16, "float32", peer, comms[number])

    async def main(rank, text, alike):
        nonlocal event, memory
        comms[:] = await acl.CommInitAll(4)
        await acl.SetDevice(3)
        event, memory = await acl.CreateEvent(), await acl.Malloc(16)
        await acl.RecordEvent(event, await acl.CreateStream())
        with pytest.raises(ExceptionGroup) as caught:
            await acl.ranks(4, rank, fold=True, alike=alike)
        error = caught.value.exceptions[0]
        assert isinstance(error, AclError)
        assert text in str(error)
        return error.kind

    event, memory, comms = None, None, []
    for rank, text, kind in (
        (on_another_device, "SetDevice() of rank 0 with a device, which is on device 1", Kind.NOT_PERMITTED),
        (with_an_event, "StreamWaitEvent() of rank 0 with <Event", Kind.NOT_PERMITTED),
        (with_memory, "a copy of rank 0 with memory, which is on device 3", Kind.NOT_PERMITTED),
        (splitting, "CommSplit() of folded ranks, of which most make no call", Kind.NOT_SUPPORTED),
        (some, "CommInitRootInfo() of folded ranks, of which most make no call", Kind.NOT_SUPPORTED),
        (unequal, "ranks that send to each other must stand for equally many", Kind.INVALID_COLLECTIVE),
    ):
        alike = (lambda number: number == 3) if rank is unequal else None
        assert run(lambda rank=rank, text=text, alike=alike: main(rank, text, alike)) is kind, rank


def test_a_program_that_writes_what_all_ranks_share_is_not_folded():
    async def rank(number):
        nonlocal total
        total += number

    async def inside(number):
        def add():
            nonlocal total
            total += number

        add()

    async def alone(number):
        own = 0

        def add():
            nonlocal own
            own += 1

        add()
        return own

    async def main(program):
        return await acl.ranks(4, program, fold=True)

    total = 0
    for program in (rank, inside):
        with pytest.raises(ValueError, match=r"writes total, which all ranks share \(line \d+\), and only some"):
            run(lambda program=program: main(program))
    assert run(lambda: main(alone)) == [1] * 4
    assert total == 0


async def nothing(number):
    return number


@pytest.mark.parametrize(
    ("options", "how", "text"),
    [
        ({"fold": True}, {"values": True}, "fold needs a run without values"),
        ({"fold": True}, {"sanitize": True}, "fold leaves out most ranks"),
        ({"fold": True}, {"host_time": "measured"}, "fold needs a simulated host"),
        ({"fold": "some"}, {}, "fold must be True, False or 'check', not 'some'"),
        ({"alike": abs}, {}, "alike= says which ranks are folded: pass fold=True"),
    ],
)
def test_what_cannot_be_folded_is_refused_before_any_rank_runs(options, how, text):
    with pytest.raises(ValueError, match=text):
        run(lambda: asyncio.wait_for(acl.ranks(4, nothing, **options), 1), **how)


@pytest.mark.parametrize("fault", [faults.lose_device(3, since_us=5_000), "ecc"])
def test_a_rank_with_a_fault_rule_of_its_own_is_a_class_of_its_own(fault):
    async def rank(number):
        ran.append(number)
        try:
            await acl.MemsetAsync(buffers[number], 64, 0, 64)
            await asyncio.sleep(0.01)
            await acl.SynchronizeDevice()
        except acl.AclError as error:
            return error.kind
        return None

    async def main(fault, **options):
        for number in range(4):
            await acl.SetDevice(number)
            buffers[number] = await acl.Malloc(64)
        rule = faults.ecc_error(buffers[3]) if fault == "ecc" else fault
        with acl.current_simulation().fault(rule):
            return await acl.ranks(4, rank, **options)

    ran, buffers = [], {}
    text = r"fold: fault rule .* is for device 3, whose rank is one of 4 that are alike: give it a key of its own"
    with pytest.raises(ValueError, match=text):
        run(lambda: main(fault, fold=True), 4)
    assert ran == []
    full = run(lambda: main(fault, own_hosts=True), 4)
    assert full[:3] == [None] * 3
    assert full[3] is not None
    ran.clear()
    assert run(lambda: main(fault, fold=True, alike=lambda number: number == 3), 4) == full
    assert ran == [0, 3]


def test_a_group_that_may_share_network_cards_with_its_like_is_not_folded():
    async def rank(number):
        await reduce(comms[number % 4], await acl.CreateStream())

    async def main():
        await acl.CommInitAll([4, 5, 6, 7])
        comms.extend(await acl.CommInitAll([0, 1, 2, 3]))
        await acl.ranks(8, rank, fold=True)

    comms = []
    links = replace(profile(8).links, network=Network(2, 2, 50 * 10**9, 1_000))
    with pytest.raises(ValueError, match=r"reaches over servers, and has only 4 of the 8 ranks for which the one on"):
        acl.run(main, device=replace(profile(8), links=links), values=False)


def test_the_same_seed_gives_the_same_program():
    assert random_program(7, 16) == folded.random_program(7, 16)


def test_ranks_whose_peers_are_at_several_distances_are_not_alike():
    """The channels of a Send depend on the distance: in a circle of some ranks the last one has another one."""

    async def rank(number):
        await acl.Send(await acl.Malloc(64), 16, "float32", (number + 1) % 4, comms[number])

    async def main():
        comms.extend(await acl.CommInitAll(8))
        with pytest.raises(ExceptionGroup) as caught:
            await acl.ranks(8, rank, fold=True, alike=lambda number: number // 4)
        return str(caught.value.exceptions[0])

    comms = []
    assert "for which the rank on device 0 stands have their peers at several distances in comm 1" in run(main, 8)


def test_messages_of_a_ring_share_the_link_into_a_rank_with_those_of_another_class():
    """The first rank sends to the second one; what comes into this one comes into the first one, too."""

    async def rank(number):
        kind, place = divmod(number, 4)
        buffer, streams = await acl.Malloc(1 << 27), [await acl.CreateStream() for _ in range(2)]
        if kind == 0:
            ops = [await acl.Send(buffer, 1 << 25, "float32", number + 4, world[number], streams[0])]
        else:
            ops = [await acl.Recv(buffer, 1 << 25, "float32", number - 4, world[number], streams[0])]
            async with acl.group():
                await acl.Send(buffer, 1 << 25, "float32", (place + 1) % 4, ring[place], streams[1])
                ops.append(await acl.Recv(buffer, 1 << 25, "float32", (place - 1) % 4, ring[place], streams[1]))
        await acl.SynchronizeDevice()
        return [(op.start_ns, op.end_ns) for op in ops]

    async def main(**options):
        world[:], ring[:] = await acl.CommInitAll(8), await acl.CommInitAll(range(4, 8))
        return await acl.ranks(8, rank, **options)

    world, ring = [], []
    full = run(lambda: main(own_hosts=True), 8)
    assert run(lambda: main(fold=True, alike=lambda number: number // 4), 8) == full
