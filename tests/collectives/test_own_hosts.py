"""Ranks with a host each: a call takes time of its own host only."""

import asyncio
import random
import sys

import pytest

import acl_py as acl
from acl_py.recorded import OneHostError, program
from acl_py.trace.rows.files import read_trace, save
from acl_py.waiting.turns import current_task_changer
from tests.campaigns import many

HOST, DEVICE = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST


def kernel(us):
    return acl.kernel(cost=acl.Cost(us=us))(lambda: None)


def history(count, rank, device="tiny", **options):
    """What each of *count* ranks returns, on hosts of their own, and the simulation."""

    async def main():
        return await acl.ranks(count, rank, own_hosts=True), acl.current_simulation()

    return acl.run(main, device=device, **options)


def test_calls_of_two_hosts_take_the_same_time_and_those_of_one_host_follow_one_another():
    async def rank(number):
        sim, stream = acl.current_simulation(), await acl.CreateStream()
        op = await kernel(10)[1, stream]()
        queued = sim.now_ns
        await acl.SynchronizeStream(stream)
        return queued, op.start_ns, op.end_ns, sim.now_ns

    async def main(own_hosts):
        return await acl.ranks(2, rank, own_hosts=own_hosts)

    # SetDevice, CreateStream and the launch take 1 us each, the wait 0.3, and the wake-up 2; the kernel 10.
    assert acl.run(main, True, device="tiny") == [(3_000, 3_000, 13_000, 15_000)] * 2
    assert acl.run(main, False, device="tiny") == [(3_000, 3_000, 13_000, 15_000), (6_300, 6_300, 16_300, 18_300)]


def test_a_host_that_is_early_waits_in_its_stream_for_the_one_that_is_late():
    async def rank(number):
        sim, stream = acl.current_simulation(), await acl.CreateStream()
        buffer = await acl.Malloc(4096)
        if number == 3:
            await asyncio.sleep(100e-6)
        called = sim.now_ns
        op = await acl.AllReduce(buffer, buffer, 1024, "float32", acl.ReduceOp.SUM, comms[number], stream)
        await acl.SynchronizeStream(stream)
        return called, op.end_ns

    async def main():
        comms.extend(await acl.CommInitAll(4))
        return await acl.ranks(4, rank, own_hosts=True)

    comms = []
    found = acl.run(main, device="h200")
    late = found[3][0]
    assert [called for called, _ in found] == [late - 100_000] * 3 + [late]
    ends = {end for _, end in found}
    assert len(ends) == 1
    assert ends.pop() > late


async def _random_work(chance):
    """Some calls of one rank; return when each was over."""
    sim, times = acl.current_simulation(), []
    streams = [await acl.CreateStream() for _ in range(2)]
    event, host, far = await acl.CreateEvent(), await acl.MallocHost(1 << 16), await acl.Malloc(1 << 16)
    for _ in range(20):
        stream, nbytes = chance.choice(streams), chance.randrange(1, 1 << 16)
        match chance.randrange(8):
            case 0 | 1:
                await kernel(chance.randrange(1, 40))[1, stream]()
            case 2:
                await acl.MemcpyAsync(far, nbytes, host, nbytes, HOST, stream)
            case 3:
                await acl.Memcpy(host, nbytes, far, nbytes, DEVICE)
            case 4:
                await acl.RecordEvent(event, stream)
            case 5:
                await acl.StreamWaitEvent(stream, event)
            case 6:
                await acl.SynchronizeStream(stream)
            case 7:
                await asyncio.sleep(chance.randrange(30) / 1e6)
        times.append(sim.now_ns)
    await acl.SynchronizeDevice()
    return [*times, sim.now_ns]


def check_apart(seed):
    """Ranks that have nothing in common have the times that each has when it is the only one that does anything."""
    count = random.Random(seed).randrange(2, 6)

    def some(which):
        async def rank(number):
            return await _random_work(random.Random(1000 * seed + number)) if number in which else []

        return history(count, rank, device="h200", trace=False)[0]

    together = some(range(count))
    for number in range(count):
        assert together[number] == some([number])[number], (seed, number)


@pytest.mark.parametrize("seed", range(5))
def test_ranks_that_have_nothing_in_common_have_the_times_that_each_has_alone(seed):
    check_apart(seed)


@pytest.mark.slow
def test_many_ranks_that_have_nothing_in_common_have_the_times_that_each_has_alone():
    for seed in range(100, 100 + many(100)):
        check_apart(seed)


def test_each_host_pays_for_its_first_launch():
    async def rank(number):
        sim, stream = acl.current_simulation(), await acl.CreateStream()
        times = [sim.now_ns]
        for _ in range(2):
            await kernel(1)[1, stream]()
            times.append(sim.now_ns)
        return times

    found, _ = history(3, rank, device="h200")
    assert found[0] == found[1] == found[2]
    begin, first, second = found[0]
    assert first - begin > second - first


def test_a_cancelled_rank_ends_its_call_and_then_what_it_awaits():
    async def rank(number):
        sim, stream = acl.current_simulation(), await acl.CreateStream()
        tasks[number] = asyncio.current_task()
        try:
            if number:
                await kernel(500)[1, stream]()  # up to 3,000 ns, in which it is cancelled
                queued.append(sim.now_ns)
                await acl.SynchronizeStream(stream)
            else:
                await asyncio.sleep(0.5e-6)
                tasks[1].cancel("enough")
        except asyncio.CancelledError as error:
            return sim.now_ns, error.args, tasks[1].cancelling()
        return sim.now_ns

    tasks, queued = {}, []
    assert history(2, rank)[0] == [2_500, (3_300, ("enough",), 1)]
    assert queued == [3_000]


def test_tasks_of_ranks_that_wait_for_one_another_are_named_with_their_lines():
    async def rank(number):
        async with lock:
            if number == 0:
                await asyncio.Event().wait()

    lock = asyncio.Lock()
    with pytest.raises(acl.DeadlockError) as caught:
        history(2, rank)
    text = str(caught.value)
    assert "task 'rank 0': in Event.wait at test_own_hosts.py:" in text
    assert "task 'rank 1': in Lock.acquire at test_own_hosts.py:" in text


def test_a_task_from_before_the_ranks_makes_no_call_while_they_have_hosts_of_their_own():
    async def early():
        await begun.wait()
        await acl.CreateStream()

    async def rank(number):
        begun.set()
        await task

    async def main():
        nonlocal begun, task
        begun, task = asyncio.Event(), asyncio.create_task(early())
        await acl.ranks(2, rank, own_hosts=True)

    begun, task = None, None
    with pytest.raises(ExceptionGroup) as caught:
        acl.run(main, device="tiny")
    text = str(caught.value.exceptions[0])
    assert "while ranks have hosts of their own, a task has made a call that no rank has made" in text


def test_hosts_of_their_own_need_a_simulated_clock_and_a_simulated_host():
    async def rank(number):
        raise AssertionError("it does not begin")

    async def main():
        await acl.ranks(2, rank, own_hosts=True)

    async def in_real_time():
        async with acl.simulate(device="tiny", clock="real"):
            await main()

    with pytest.raises(RuntimeError, match=r"take turns on a simulated clock, and this event loop has a real one"):
        asyncio.run(in_real_time())
    with pytest.raises(ValueError, match=r"needs a simulated host: leave out host_time='measured'"):
        acl.run(main, device="tiny", host_time="measured")


def test_the_host_is_one_again_behind_the_ranks():
    async def rank(number):
        await acl.CreateStream()

    async def main():
        sim = acl.current_simulation()
        await acl.ranks(2, rank, own_hosts=True)
        times = [sim.now_ns]
        await asyncio.gather(acl.CreateStream(), acl.CreateStream())
        return [*times, sim.now_ns]

    assert acl.run(main, device="tiny") == [2_000, 4_000]


def test_the_critical_path_stays_on_the_host_whose_call_it_comes_from():
    async def rank(number):
        stream = await acl.CreateStream()
        for _ in range(3 + number):
            await kernel(1)[1, stream]()
        if number:
            await kernel(50)[1, stream]()
        await acl.SynchronizeStream(stream)

    from acl_py.causes.path import critical_path, makespan_ns
    from acl_py.causes.slack import slacks

    _, sim = history(2, rank)
    timeline = sim.trace.timeline()
    path = critical_path(timeline)
    calls = [timeline.calls[part.call] for part in path if part.call is not None]
    assert {call.caller for call in calls} == {"task 'rank 1'"}
    assert [call.name for call in calls] == ["SetDevice", "CreateStream", *["LaunchKernel"] * 5, "SynchronizeStream"]
    assert sum(part.ns for part in path) == makespan_ns(timeline) == 59_000
    slack = dict(zip([(op.device, op.end_ns) for op in timeline.ops], slacks(timeline, path), strict=True))
    assert slack[1, 57_000] == 0
    assert slack[0, 6_000] > 0


def test_a_run_with_several_hosts_is_no_stream_program(tmp_path):
    async def rank(number):
        await acl.CreateStream()

    _, sim = history(2, rank)
    save(sim.trace.timeline(), tmp_path / "run.acl")
    for timeline in (sim.trace.timeline(), read_trace(tmp_path / "run.acl")):
        with pytest.raises(OneHostError, match=r"its ranks had hosts of their own, and a stream program has one host"):
            program(timeline)


def test_what_a_rank_raises_while_another_task_resumes_it_comes_out_of_its_own_task():
    async def rank(number):
        stream = await acl.CreateStream()
        for _ in range(3):
            await kernel(1)[1, stream]()
        tasks.append((number, asyncio.current_task().get_name()))
        if number == 1:
            raise ValueError("enough")
        await acl.SynchronizeStream(stream)
        await asyncio.sleep(1)

    tasks = []
    with pytest.raises(ExceptionGroup) as caught:
        history(2, rank)
    [error] = caught.value.exceptions
    assert str(error) == "enough"
    assert tasks == [(0, "rank 0"), (1, "rank 1")]


def test_ranks_on_hosts_of_their_own_meet_at_what_asyncio_has():
    async def rank(number):
        sim, stream = acl.current_simulation(), await acl.CreateStream()
        for _ in range(number):
            await kernel(1)[1, stream]()
        times = [sim.now_ns]
        async with barrier:
            times.append(sim.now_ns)
        await acl.CreateStream()
        await asyncio.sleep(0)
        return [*times, sim.now_ns]

    async def main():
        nonlocal barrier
        barrier = asyncio.Barrier(2)
        return await acl.ranks(2, rank, own_hosts=True)

    barrier = None
    assert acl.run(main, device="tiny") == [[2_000, 3_000, 4_000], [3_000, 3_000, 4_000]]


def test_a_run_of_ranks_has_the_same_trace_each_time():
    async def rank(number):
        return await _random_work(random.Random(number))

    def rows():
        timeline = history(4, rank, device="h200")[1].trace.timeline()
        return [*timeline.ops, *((call.name, call.caller, call.enter_ns, call.exit_ns) for call in timeline.calls)]

    assert rows() == rows()


def test_a_simulation_that_begins_late_in_its_loop_lets_its_hosts_sleep_as_one_that_begins_at_once():
    async def rank(number):
        stream, times = await acl.CreateStream(), []
        for _ in range(4):
            await layer[1, stream]()
            await asyncio.sleep((number + 1) * 1e-6)
            times.append(acl.current_simulation().now_ns)
        await acl.SynchronizeStream(stream)
        return times, acl.current_simulation().now_ns

    async def main(late_s):
        await asyncio.sleep(late_s)
        async with acl.simulate(device="h200"):
            return await acl.ranks(4, rank, own_hosts=True)

    def times(late_s):
        with asyncio.Runner(loop_factory=acl.new_event_loop) as runner:
            return runner.run(main(late_s))

    layer = kernel(3)
    assert times(0.005) == times(0)


def test_a_python_whose_asyncio_cannot_change_the_current_task_is_named(monkeypatch):
    monkeypatch.delattr(asyncio.tasks, "_current_tasks" if sys.version_info < (3, 12) else "_swap_current_task")
    with pytest.raises(RuntimeError, match=r"need to change the current task of asyncio, which Python 3\.\d+ does not"):
        current_task_changer()
