"""Collectives that kernels ask for: what each rank gets, and when, beside what its cores compute."""

from dataclasses import replace

import numpy as np
import pytest
from core_kernels import on_device, read, simulation

import acl_py as acl
from acl_py import asc
from device_model.aicore.timing.play import play
from device_model.profile import load

FP16, FP32, INT32 = (
    asc.HcclDataType.HCCL_DATA_TYPE_FP16,
    asc.HcclDataType.HCCL_DATA_TYPE_FP32,
    asc.HcclDataType.HCCL_DATA_TYPE_INT32,
)
SUM, MAX, MIN = (asc.HcclReduceOp[f"HCCL_REDUCE_{name}"] for name in ("SUM", "MAX", "MIN"))
N = 64  # elements of a turn


def opened(index=0):
    hccl = asc.Hccl()
    hccl.InitV2(asc.GetHcclContext(index), "tiling")
    assert hccl.SetCcTilingV2(0) == asc.HCCL_SUCCESS
    return hccl


def closed(hccl):
    asc.SyncAll()
    hccl.Finalize()


def carried_out(hccl, handle, turns):
    for _ in range(turns):
        hccl.Commit(handle)
    for _ in range(turns):
        assert hccl.Wait(handle) == asc.HCCL_SUCCESS
    closed(hccl)


async def on_ranks(kernel, given, wanted, *args, blocks=2, **options):
    """Run *kernel* with x, y and its communicator on a rank for each of *given*; return what is in y on each."""
    async with simulation(**options) as sim:
        launches, ys = [], []
        for device, (comm, x) in enumerate(zip(await acl.CommInitAll(len(given), name="all"), given, strict=True)):
            await acl.SetDevice(device)
            ys.append(await on_device(wanted.copy()))
            launches.append(await kernel[blocks](await on_device(x), ys[-1], comm, *args))
        results = []
        for device, y in enumerate(ys):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()
            results.append(await read(y))
        assert [str(finding) for finding in sim.findings] == []
    return results, launches


def numbers(ranks, size, dtype=np.float16):
    return list(np.random.default_rng(3).integers(-8, 9, (ranks, size)).astype(dtype))


@asc.kernel
def all_reduce(x: asc.In, y: asc.Out, comm: object, data_type: int, op: int, turns: int):
    hccl = opened()
    handle = hccl.AllReduce(x, y, N, asc.HcclDataType(data_type), asc.HcclReduceOp(op), turns)
    carried_out(hccl, handle, turns)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    ("data_type", "dtype", "op", "combine"),
    [(FP16, np.float16, SUM, np.sum), (FP32, np.float32, MAX, np.max), (INT32, np.int32, MIN, np.min)],
)
async def test_all_ranks_get_what_all_have_together(ranks, data_type, dtype, op, combine):
    xs = numbers(ranks, 3 * N, dtype)
    results, _ = await on_ranks(all_reduce, xs, np.zeros(3 * N, dtype), int(data_type), int(op), 3)
    for result in results:
        assert np.array_equal(result, combine(xs, axis=0).astype(dtype))


@asc.kernel
def all_gather(x: asc.In, y: asc.Out, comm: object, turns: int, stride: int):
    hccl = opened()
    carried_out(hccl, hccl.AllGather(x, y, N, FP16, stride, turns), turns)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("turns", "stride"), [(1, 0), (3, 3 * N)])
async def test_the_elements_of_all_ranks_stand_in_their_order_with_a_stride(ranks, turns, stride):
    xs = numbers(ranks, turns * N)
    results, _ = await on_ranks(all_gather, xs, np.zeros(ranks * turns * N, np.float16), turns, stride)
    for result in results:
        assert np.array_equal(result, np.concatenate(xs))


@asc.kernel
def reduce_scatter(x: asc.In, y: asc.Out, comm: object, turns: int):
    hccl = opened()
    carried_out(hccl, hccl.ReduceScatter(x, y, N, FP32, SUM, turns * N, turns), turns)


@pytest.mark.parametrize("ranks", [2, 4])
async def test_each_rank_gets_its_part_of_the_sum(ranks):
    xs = numbers(ranks, ranks * 2 * N, np.float32)
    results, _ = await on_ranks(reduce_scatter, xs, np.zeros(2 * N, np.float32), 2)
    total = np.sum(xs, axis=0).reshape(ranks, 2 * N)
    assert [result.tolist() for result in results] == total.tolist()


@asc.kernel
def all_to_all(x: asc.In, y: asc.Out, comm: object, turns: int):
    hccl = opened()
    carried_out(hccl, hccl.AlltoAll(x, y, N, FP16, turns * N, turns), turns)


@pytest.mark.parametrize("ranks", [2, 4])
async def test_each_rank_sends_to_each_rank(ranks):
    xs = numbers(ranks, ranks * 2 * N)
    results, _ = await on_ranks(all_to_all, xs, np.zeros(ranks * 2 * N, np.float16), 2)
    sent = np.array(xs).reshape(ranks, ranks, 2 * N)
    assert [result.reshape(ranks, -1).tolist() for result in results] == sent.swapaxes(0, 1).tolist()


@asc.kernel
def all_to_all_v(x: asc.In, y: asc.InOut, comm: object, ranks: int):
    """Rank i sends i + j + 1 elements to rank j, in each of two turns."""
    hccl = opened()
    me = hccl.GetRankId()
    counts = [me + other + 1 for other in range(hccl.GetRankDim())]
    places = [2 * sum(counts[:other]) for other in range(ranks)]
    handle = hccl.AlltoAllV(x, counts, places, FP16, y, counts, places, FP16, 2)
    carried_out(hccl, handle, 2)


@pytest.mark.parametrize("ranks", [2, 4])
async def test_ranks_send_numbers_of_elements_of_their_own(ranks):
    sizes = np.add.outer(np.arange(ranks), np.arange(ranks)) + 1
    xs = numbers(ranks, int(2 * sizes.max() * ranks))
    results, _ = await on_ranks(all_to_all_v, xs, np.zeros(len(xs[0]), np.float16), ranks)
    starts = 2 * (np.cumsum(sizes, axis=1) - sizes)
    for me, result in enumerate(results):
        for other in range(ranks):
            mine, theirs, count = starts[me, other], starts[other, me], 2 * sizes[me, other]
            assert np.array_equal(result[mine : mine + count], xs[other][theirs : theirs + count])


@asc.kernel
def reduced_of_exchanged(x: asc.In, y: asc.InOut, first: object, second: object):
    """What one communicator brings is the input of the other one."""
    one, two = opened(0), opened(1)
    exchanged = one.AlltoAll(x, y, N, FP32)
    two.InterHcclGroupSync(0, exchanged)
    reduced = two.AllReduce(y, y, 2 * N, FP32, SUM)
    one.Commit(exchanged)
    two.Commit(reduced)
    assert two.Query(reduced) == 1
    asc.SyncAll()
    one.Finalize()
    two.Finalize()


async def test_a_task_waits_for_that_of_another_communicator():
    xs = numbers(2, 2 * N, np.float32)
    async with simulation() as sim:
        ys, launches = [], []
        ones, twos = await acl.CommInitAll(2, name="one"), await acl.CommInitAll([1, 0], name="two")
        for device, (first, second) in enumerate(zip(ones, reversed(twos), strict=True)):
            await acl.SetDevice(device)
            ys.append(await on_device(np.zeros(2 * N, np.float32)))
            launches.append(await reduced_of_exchanged[1](await on_device(xs[device]), ys[-1], first, second))
        for device, y in enumerate(ys):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()
            assert np.array_equal(await read(y), np.concatenate([xs[0][:N] + xs[0][N:], xs[1][:N] + xs[1][N:]]))
        assert len(sim.findings) == 0
        # Both are committed at once. The exchange takes 2,000 ns and its bytes. The reduction behind it has two steps.
        commits = [end for name, _, end in story(launches[1]) if name.startswith("Commit")]
        (known,) = [end for name, _, end in story(launches[1]) if name == "Query(0)"]
        assert (commits, known) == ([1224, 1231], 9256)


@asc.kernel
def two_sessions(x: asc.In, y: asc.Out, comm: object):
    for turn in range(2):
        hccl = opened()
        handle = hccl.AllReduce(x + turn * N, y + turn * N, N, FP16, SUM, commit=True)
        assert handle == 0
        assert hccl.Wait(handle) == asc.HCCL_SUCCESS
        closed(hccl)


async def test_a_kernel_may_open_the_communicator_again_when_it_has_finalized():
    xs = numbers(2, 2 * N)
    results, _ = await on_ranks(two_sessions, xs, np.zeros(2 * N, np.float16))
    assert [np.array_equal(result, xs[0] + xs[1]) for result in results] == [True, True]


def story(launch, core=0):
    """What a core has issued: the name, and its start and end in nanoseconds since the start of the launch."""
    timeline, program = launch.work.result.timeline, launch.work.result.programs[core]
    ns = timeline.ns_per_cycle
    return [(each.name, round(each.start * ns), round(each.end * ns)) for each in program.instructions]


async def test_a_turn_begins_on_all_ranks_and_ends_for_all():
    _, (first, second) = await on_ranks(all_gather, numbers(2, 2 * N), np.zeros(4 * N, np.float16), 2, 2 * N, blocks=1)
    late = second.start_ns - first.start_ns
    # A message to the server takes 1,000 ns, one back as long; a turn takes 2,000 ns and 128 bytes at 28 GB/s. The
    # second turn has been committed long before, so it begins when the first one has ended.
    assert story(second) == [
        ("AllGather", 1206, 1206),
        ("Commit(0)", 1212, 1212),
        ("Commit(0)", 1218, 1219),
        ("Wait(0)", 1219, 5219),
        ("Wait(0)", 5219, 7224),
        ("PipeBarrier<ALL>", 7224, 7224),
        ("SyncAll", 7225, 7225),
        ("SyncAll", 7225, 7766),
        ("Finalize", 7766, 7766),
        ("Finalize", 7772, 7773),
    ]
    waits = [(name, end) for name, _, end in story(first) if name == "Wait(0)"]
    assert waits == [("Wait(0)", late + 5219), ("Wait(0)", late + 7224)]
    assert first.end_ns == second.end_ns == second.start_ns + 8273


TILE = 8192  # elements
TILES = 4


@asc.kernel
def doubled_and_gathered(x: asc.In, part: asc.Out, y: asc.Out, comm: object, steps: int, is_in_turn: bool):
    """Double tiles, each *steps* times, and gather each as soon as it is there, or all of them at the end."""
    hccl = opened()
    handle = hccl.AllGather(part, y, TILE, FP32, TILES * TILE, TILES)
    tile = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, TILE)
    for number in range(TILES):
        at = number * TILE
        asc.DataCopy(tile, asc.GlobalTensor(asc.float32).SetGlobalBuffer(x + at), TILE)
        asc.PipeBarrier(asc.PIPE_ALL)
        for _ in range(steps):
            asc.Add(tile, tile, tile, TILE)
        asc.PipeBarrier(asc.PIPE_ALL)
        asc.DataCopy(asc.GlobalTensor(asc.float32).SetGlobalBuffer(part + at), tile, TILE)
        asc.PipeBarrier(asc.PIPE_ALL)
        if is_in_turn:
            hccl.Commit(handle)
    for _ in range(0 if is_in_turn else TILES):
        hccl.Commit(handle)
    for _ in range(TILES):
        hccl.Wait(handle)
    hccl.Finalize()


async def doubled(is_in_turn, steps=10, **options):
    """The ends of the commits and waits of the last rank to come, and when its launch has ended."""
    async with simulation(**options) as sim:
        given = []
        for device, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device)
            x = await on_device(np.full(TILES * TILE, device + 1, np.float32))
            part, y = [await on_device(np.zeros(times * TILES * TILE, np.float32)) for times in (1, 2)]
            given.append((x, part, y, comm))
        launches = []
        for device, each in enumerate(given):
            await acl.SetDevice(device)
            launches.append(await doubled_and_gathered[1](*each, steps, is_in_turn))
        for device, (_, _, y, _) in enumerate(given):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()
            if sim.values:
                expected = np.repeat(np.float32([1, 2]) * 2**steps, TILES * TILE)
                assert np.array_equal(await read(y), expected)
        assert len(sim.findings) == 0
        last = launches[1]
        ends = {
            kind: [end for name, _, end in story(last) if name == f"{kind}(0)"] for kind in ("Commit", "Wait")
        }  # fmt: skip
        return ends, last.end_ns - last.start_ns


async def test_a_tile_that_is_committed_travels_while_the_next_one_is_computed():
    # A turn takes 2,000 ns and 32 KB at 28 GB/s: 3,171 ns. The first one begins 1,000 ns after its commit, the others
    # when the one before has ended, and Wait() knows of each end after 1,000 ns.
    ends, duration = await doubled(is_in_turn=True)
    assert ends == {"Commit": [3564, 5921, 8279, 10636], "Wait": [10637, 11907, 15078, 18249]}
    assert duration == 18_756
    ends, duration = await doubled(is_in_turn=False)
    assert ends == {"Commit": [10617, 10623, 10630, 10636], "Wait": [15789, 18960, 22131, 25302]}
    assert duration == 25_809


async def test_times_are_the_same_without_values():
    assert await doubled(is_in_turn=True, values=False) == await doubled(is_in_turn=True)


@asc.kernel
def waits_beside_copies(x: asc.In, y: asc.Out, comm: object, data: asc.In, times: int):
    """Half of the cores wait for turns and read behind each; the others read all the time."""
    hccl = opened()
    handle = hccl.AllReduce(x, y, N, FP16, SUM, 3, commit=True)
    tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, 16_384)
    mine = asc.GlobalTensor(asc.half).SetGlobalBuffer(data)[asc.GetBlockIdx() * times * 16_384 :]
    for number in range(times):
        if asc.GetBlockIdx() % 2 == 0 and number % 4 == 0:
            hccl.Wait(handle)
        asc.DataCopy(tile, mine[number * 16_384 :], 16_384)
        asc.PipeBarrier(asc.PIPE_ALL)
    asc.SyncAll()
    hccl.Finalize()


async def test_steps_beside_the_clock_give_the_times_of_a_play_that_knows_all_ends():
    # A play that knows the ends schedules what follows a wait early, when it does not know how busy HBM is then.
    card = load("ascend910b1")
    card = replace(card, aicore=replace(card.aicore, queue_ns=0))
    blocks, times = 6, 12
    async with simulation(device=card) as sim:
        given = []
        for device, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device)
            data = await on_device(np.zeros(blocks * times * 16_384, np.float16))
            x, y = [await on_device(np.full(3 * N, device, np.float16)) for _ in range(2)]
            given.append((x, y, comm, data, times))
        launches = []
        for device, each in enumerate(given):
            await acl.SetDevice(device)
            asc.reset_l2()
            launches.append(await waits_beside_copies[blocks](*each))
        await acl.SynchronizeDevice()
        assert len(sim.findings) == 0
    for launch in launches:
        programs = launch.work.result.programs
        stepped = [(each.start, each.end) for program in programs for each in program.instructions]
        waits = [each for each in programs[0].instructions if each.name == "Wait(0)"]
        assert [each.end - each.start > 0 for each in waits] == [True] * 3
        for wait in waits:  # what it has waited for has its time from the server, which a play leaves as it is
            assert wait.waits[0].end < wait.end
        timeline = play(programs, card.aicore)
        at_once = [(each.start, each.end) for program in programs for each in program.instructions]
        assert np.array(stepped) == pytest.approx(np.array(at_once))
        assert timeline.duration_ns == launch.end_ns - launch.start_ns


@asc.kernel
def in_any_order(x: asc.In, y: asc.InOut, comm: object, tasks: tuple, commits: tuple, waits: tuple):
    """Prepare *tasks*, each in a room of its own; commit and wait for turns in the order that this rank was given."""
    hccl = opened()
    me, size = hccl.GetRankId(), hccl.GetRankDim()
    handles = []
    for room, (kind, count, turns) in enumerate(tasks):
        send, recv = x + room * ROOM, y + room * ROOM
        ask = getattr(hccl, kind)
        if kind == "AllReduce":
            handles.append(ask(send, recv, count, FP32, SUM, turns))
        elif kind == "ReduceScatter":
            handles.append(ask(send, recv, count, FP32, SUM, turns * count, turns))
        else:
            handles.append(ask(send, recv, count, FP32, turns * count, turns))
    for task in commits[me]:
        hccl.Commit(handles[task])
    for task in waits[me]:
        hccl.Wait(handles[task])
    assert [hccl.Query(handle) for handle in handles] == [turns for _, _, turns in tasks]
    assert size == len(commits)
    closed(hccl)


ROOM = 4 * 3 * 16  # elements of a task: of four ranks, three turns of up to 16


def expected(kind, parts, rank):
    """What *rank* gets of the elements *parts*[i] of rank i."""
    if kind == "AllReduce":
        return np.sum(parts, axis=0)
    if kind == "AllGather":
        return np.concatenate(parts)
    pieces = [np.split(part, len(parts))[rank] for part in parts]
    return np.sum(pieces, axis=0) if kind == "ReduceScatter" else np.concatenate(pieces)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))])
async def test_tasks_end_in_their_order_whatever_the_order_of_commits_and_waits(seed):
    rng = np.random.default_rng(seed)
    ranks, kinds = int(rng.integers(2, 5)), ("AllReduce", "AllGather", "ReduceScatter", "AlltoAll")
    tasks = tuple(
        (str(rng.choice(kinds)), int(rng.integers(1, 17)), int(rng.integers(1, 4))) for _ in range(rng.integers(1, 6))
    )
    turns = [task for task, (_, _, count) in enumerate(tasks) for _ in range(count)]
    commits, waits = (tuple(tuple(rng.permutation(turns).tolist()) for _ in range(ranks)) for _ in range(2))
    xs = numbers(ranks, len(tasks) * ROOM, np.float32)
    results, launches = await on_ranks(
        in_any_order, xs, np.zeros(len(tasks) * ROOM, np.float32), tasks, commits, waits, blocks=int(rng.integers(1, 4))
    )
    for room, (kind, count, times) in enumerate(tasks):
        sends = count * times * (1 if kind in ("AllReduce", "AllGather") else ranks)
        parts = [x[room * ROOM : room * ROOM + sends] for x in xs]
        for rank, result in enumerate(results):
            wanted = expected(kind, parts, rank)
            assert np.array_equal(result[room * ROOM : room * ROOM + len(wanted)], wanted)
    ends = [launch.end_ns for launch in launches]
    assert max(ends) - min(ends) < 10  # all wait for the last turn, and differ by a few instructions behind it


@pytest.mark.parametrize("is_busy", [False, True])
async def test_a_core_that_has_waited_finds_the_memory_as_busy_as_it_is_then(is_busy):
    @asc.kernel
    def read_after_a_turn(x: asc.In, y: asc.Out, comm: object, data: asc.In):
        hccl = opened()
        handle = hccl.AllReduce(x, y, N, FP16, SUM, commit=True)
        tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, 16_384)
        mine = asc.GlobalTensor(asc.half).SetGlobalBuffer(data)[asc.GetBlockIdx() * 16_384 :]
        if asc.GetBlockIdx() == 0:
            hccl.Wait(handle)
        if asc.GetBlockIdx() == 0 or is_busy:  # the other cores are done long before
            asc.DataCopy(tile, mine, 16_384)
            asc.PipeBarrier(asc.PIPE_ALL)
        closed(hccl)

    async with simulation():
        for device, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device)
            x, y = [await on_device(np.zeros(N, np.float16)) for _ in range(2)]
            data = await on_device(np.zeros(24 * 16_384, np.float16))
            asc.reset_l2()
            launch = await read_after_a_turn[24](x, y, comm, data)
        await acl.SynchronizeDevice()
        assert [end - start for name, start, end in story(launch) if name == "DataCopy"] == [508]


async def test_what_a_turn_has_moved_is_in_the_l2_as_behind_a_collective_of_a_stream():
    size = 16_384

    @asc.kernel
    def reads_what_has_come(x: asc.In, y: asc.InOut, comm: object, other: asc.In):
        hccl = opened()
        hccl.Wait(hccl.AllReduce(x, y, size, FP16, SUM, commit=True))
        tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, size)
        for source in (y, x, other):
            asc.DataCopy(tile, asc.GlobalTensor(asc.half).SetGlobalBuffer(source), size)
            asc.PipeBarrier(asc.PIPE_ALL)
        hccl.Finalize()

    async with simulation():
        for device, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device)
            x, y, other = [await on_device(np.zeros(size, np.float16)) for _ in range(3)]
            asc.reset_l2()
            launch = await reads_what_has_come[1](x, y, comm, other)
        await acl.SynchronizeDevice()
        assert [end - start for name, start, end in story(launch) if name == "DataCopy"] == [287, 286, 508]


async def test_a_kernel_alone_with_its_communicator_of_one_rank():
    x = numbers(1, N)
    results, _ = await on_ranks(all_gather, x, np.zeros(N, np.float16), 1, 0)
    assert np.array_equal(results[0], x[0])


async def test_two_executables_of_a_graph_meet_those_of_the_other_rank():
    @asc.kernel
    def reduce_in_place(x: asc.InOut, comm: object):
        hccl = opened()
        hccl.Wait(hccl.AllReduce(x, x, N, FP16, SUM, commit=True))
        hccl.Finalize()

    async with simulation() as sim:
        xs, launches = [], []
        for device, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device)
            xs.append(await on_device(np.full(N, device + 1, np.float16)))
            streams = [await acl.CreateStream() for _ in range(2)]
            async with acl.capture(streams[0]) as graph:
                await reduce_in_place[1, streams[0]](xs[-1], comm)
            launches.append([(await acl.GraphInstantiate(graph), stream) for stream in streams])
        for device, of_rank in enumerate(launches):
            await acl.SetDevice(device)
            for executable, stream in of_rank:  # the second one begins while the first one waits for the other rank
                await acl.GraphLaunch(executable, stream)
        for device, x in enumerate(xs):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()
            assert (await read(x)).tolist() == [3.0] * N  # both have read x before either has written it
        assert len(sim.findings) == 0


async def test_windows_keep_what_they_hold_between_launches():
    @asc.kernel
    def to_window(x: asc.In, comm: object):
        hccl = opened()
        tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, N)
        asc.DataCopy(tile, asc.GlobalTensor(asc.half).SetGlobalBuffer(x), N)
        asc.PipeBarrier(asc.PIPE_ALL)
        window = hccl.GetWindowsOutAddr(hccl.GetRankId()).of_type(asc.half)
        asc.DataCopy(asc.GlobalTensor(asc.half).SetGlobalBuffer(window), tile, N)
        hccl.Finalize()

    @asc.kernel
    def from_window(y: asc.Out, comm: object):
        hccl = opened()
        window = hccl.GetWindowsOutAddr(hccl.GetRankId())
        hccl.Wait(hccl.AllReduce(window, y, N, FP16, SUM, commit=True))
        hccl.Finalize()

    xs = numbers(2, N)
    async with simulation() as sim:
        ys = []
        for device, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device)
            ys.append(await on_device(np.zeros(N, np.float16)))
            await to_window[1](await on_device(xs[device]), comm)
            await from_window[1](ys[-1], comm)
        for device, y in enumerate(ys):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()
            assert np.array_equal(await read(y), xs[0] + xs[1])
        assert len(sim.findings) == 0
