"""A collective runs on cores, for which it waits as kernels do; kernels beside it have fewer. A send has its share."""

import acl_py as acl
from device_model.profile import load
from tests.collectives.ranked import cards, reduce_all, two_ranks

H200 = load("h200")
CHANNELS = H200.collectives.channels


def waves_of(us):
    """A kernel whose blocks have a core each for *us*."""
    return acl.kernel(cost=acl.Cost(us=us), exclusive=True)(lambda: None)


@cards
async def test_a_part_waits_for_cores_and_a_kernel_behind_it_has_fewer():
    async with two_ranks() as (zero, one):
        await acl.SetDevice(0)
        beside = await acl.CreateStream()
        first = await waves_of(1_000)[H200.cores.count, beside]()
        async with acl.group():
            for rank in (zero, one):
                await reduce_all(rank)
        second = await waves_of(1_000)[H200.cores.count, beside]()
        await second
        part, _ = [op for op in acl.current_simulation().trace.ops if op.kind == "collective"]
        begin = first.start_ns
        times = [(op.end_ns - begin) // 1_000 for op in (first, part, second)]
        # The collective takes 6 us. Then the second kernel has cores for the last of its blocks.
        assert times == [1_000, 1_007, 2_007]
        assert (second.start_ns - begin) // 1_000 == 1_001


@cards(device="tiny")
async def test_of_two_parts_at_one_instant_the_urgent_one_has_the_cores_first():
    """A kernel has two of the four cores for long, and a part takes two. Both parts wait for a copy."""
    calls = []
    for priority in (0, -5):
        for device, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device)
            calls.append((comm, await acl.CreateStream(priority=priority), acl.Array(await acl.Malloc(16), "float32")))
    await acl.SetDevice(0)
    copies, target, source = await acl.CreateStream(), await acl.Malloc(1 << 16), await acl.MallocHost(1 << 16)
    ready = await acl.CreateEvent()
    await waves_of(1_000)[2, await acl.CreateStream()]()
    copy = await acl.MemcpyAsync(target, 1 << 16, source, 1 << 16, acl.MemcpyKind.HOST_TO_DEVICE, copies)
    await acl.RecordEvent(ready, copies)
    ops = []
    for comm, stream, array in calls:
        if comm.index == 0:
            await acl.StreamWaitEvent(stream, ready)
        ops.append(await acl.AllReduce(array, array, None, None, acl.ReduceOp.SUM, comm, stream))
    for device in range(2):
        await acl.SetDevice(device)
        await acl.SynchronizeDevice()
    usual, _, urgent, _ = [(op.start_ns - copy.end_ns, op.end_ns - copy.end_ns) for op in ops]
    assert (usual, urgent) == ((0, 2_432), (0, 1_216))


@cards
async def test_kernels_that_share_cores_do_not_keep_a_part_waiting():
    async with two_ranks() as (zero, one):
        await acl.SetDevice(0)
        beside = await acl.CreateStream()
        shared = await acl.kernel(cost=acl.Cost(us=1_000), exclusive=False)(lambda: None)[
            4 * H200.cores.count, beside
        ]()
        async with acl.group():
            for rank in (zero, one):
                await reduce_all(rank)
        await acl.SynchronizeStream(zero.stream)
        assert not shared.done


@cards
async def test_collectives_do_not_wait_for_the_cores_of_collectives():
    pairs = [await acl.CommInitAll(2) for _ in range(H200.cores.count // CHANNELS + 1)]
    streams = []
    for device in range(2):
        await acl.SetDevice(device)
        streams.append([(await acl.CreateStream(), acl.Array(await acl.Malloc(16), "float32")) for _ in pairs])
    # All parts of rank 0 come before those of rank 1, so each holds its cores until the last.
    for device, own in enumerate(streams):
        await acl.SetDevice(device)
        for pair, (stream, array) in zip(pairs, own, strict=True):
            await acl.AllReduce(array, array, None, None, acl.ReduceOp.SUM, pair[device], stream)
    for device in range(2):
        await acl.SetDevice(device)
        await acl.SynchronizeDevice()
    for pair in pairs:
        for comm in pair:
            await acl.CommDestroy(comm)


@cards
async def test_a_send_has_its_share_of_the_channels_of_its_communicator():
    """Of four ranks 8 channels of 33.4 bytes a nanosecond, less than the link; of two 16, and the link is the limit."""
    nbytes, took = 1 << 23, []
    for size in (2, 4):
        comms = await acl.CommInitAll(size)
        async with acl.group():
            for rank, call in enumerate((acl.Send, acl.Recv)):
                await acl.SetDevice(rank)
                part = await call(await acl.Malloc(nbytes), nbytes, "uint8", 1 - rank, comms[rank])
        await part
        took.append(part.end_ns - part.start_ns)
        for comm in comms:
            await acl.CommDestroy(comm)
    link = H200.links.switch.out_bytes_per_second * 1_000 / H200.collectives.pairs.wire_permille / 1e9
    slots = [nbytes / 8 / (channels * 33.4) for channels in (16, 8)]
    assert took[1] - took[0] == round(nbytes / (8 * 33.4) - nbytes / link + slots[1] - slots[0])
