"""Tasks that a rank makes are of its host: their calls follow one another, as in a simulation of their own."""

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import replace

import anyio
import pytest

import acl_py as acl
from acl_py.causes.path import critical_path
from device_model.profile import load
from tests.campaigns import many
from tests.collectives.folded import kernel

HOST, DEVICE = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST
CARDS = replace(load("h200"), devices=8)


class Work:
    """What the tasks of one rank do; *done* has what each did when, in the order in which it was done."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.done = []
        self.made = 0

    def note(self, what):
        task = asyncio.current_task()
        self.done.append((acl.current_simulation().now_ns, task and task.get_name(), what))

    async def run(self):
        """Do it all."""
        self.lock, self.queue, self.event = asyncio.Lock(), asyncio.Queue(2), asyncio.Event()
        self.streams = [await acl.CreateStream() for _ in range(2)]
        self.near, self.far = await acl.MallocHost(1 << 16), await acl.Malloc(1 << 16)
        asyncio.current_task().set_name("first")
        await self.some(12, 3)
        await acl.SynchronizeDevice()
        self.note("end")
        return [*self.done]  # what cancelled tasks do later is nothing that a rank does

    async def some(self, steps, depth):
        """Do so many things, and make tasks which make tasks, so deep."""
        chance = self.chance
        for _ in range(steps):
            kind = chance.randrange(14)
            try:
                await self.step(kind, depth)
            except (asyncio.CancelledError, TimeoutError) as error:
                self.note(type(error).__name__)
                if isinstance(error, asyncio.CancelledError):
                    raise
            self.note(kind)

    async def step(self, kind, depth):
        """Do one thing of a *kind*."""
        chance, stream = self.chance, self.chance.choice(self.streams)
        match kind:
            case 0 | 1:
                await kernel(chance.randrange(1, 40))[1, stream]()
            case 2:
                await acl.SynchronizeStream(stream)
            case 3:
                await acl.Memcpy(self.near, 1 << 12, self.far, 1 << 12, DEVICE)
            case 4:
                await asyncio.sleep(chance.randrange(40) / 1e6)
            case 5:
                async with self.lock:
                    await acl.MemcpyAsync(self.far, 1 << 14, self.near, 1 << 14, HOST, stream)
                    await acl.SynchronizeStream(stream)
            case 6:
                self.event.set()
                self.event = asyncio.Event()
                asyncio.get_running_loop().call_soon(self.note, "called")
                await acl.RecordEvent(await acl.CreateEvent(), stream)
            case 7:
                async with asyncio.timeout(chance.randrange(1, 60) / 1e6):
                    await self.event.wait()
            case 8:
                await asyncio.wait_for(acl.SynchronizeStream(stream), chance.randrange(1, 60) / 1e6)
            case 9 if depth:
                await asyncio.gather(*(self.child(depth) for _ in range(2)))
            case 10 if depth:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.child(depth))  # one: a group keeps a set, and cancels in any order
                    await self.some(2, depth - 1)
            case 11 if depth:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self.child, depth)
                    await anyio.sleep(chance.randrange(30) / 1e6)
                    if chance.random() < 0.5:
                        tasks.cancel_scope.cancel()
            case 12 if depth:
                task = asyncio.create_task(self.child(depth))
                await kernel(3)[1, stream]()
                task.cancel("enough")
                await asyncio.wait([task])
            case 13 if depth:
                task = asyncio.create_task(self.child(depth))
                async with asyncio.timeout(chance.randrange(1, 60) / 1e6):
                    await task
            case _:
                await asyncio.sleep(0)

    async def child(self, depth):
        """Do something in a task that was made for it."""
        self.made += 1
        asyncio.current_task().set_name(f"child {self.made}")
        self.note("begin")
        await self.some(3, depth - 1)


def alone(seed, number):
    """What the tasks of one rank do in a simulation of their own, which has one host."""

    async def main():
        await acl.SetDevice(number)
        return await Work(seed).run()

    return acl.run(main, device=CARDS, values=False, trace=False)


def together(seeds, **options):
    """What they do as ranks of one simulation."""

    async def main():
        return await acl.ranks(len(seeds), lambda number: Work(seeds[number]).run(), **options)

    return acl.run(main, device=CARDS, values=False, trace=False)


def check(seed):
    """Eight ranks of two kinds do what each of them does alone, on hosts of their own and folded."""
    seeds = [2 * seed + number % 2 for number in range(8)]
    expected = [alone(each, number) for number, each in enumerate(seeds[:2])] * 4
    assert together(seeds, own_hosts=True) == expected, seed
    assert together(seeds, fold=True, alike=lambda number: number % 2) == expected, seed


@pytest.mark.parametrize("seed", [23, 59, 64, 69])
def test_tasks_of_a_rank_do_what_they_do_in_a_simulation_of_their_own(seed):
    check(seed)


@pytest.mark.slow
def test_hundreds_of_ranks_with_tasks_do_what_they_do_in_a_simulation_of_their_own():
    for seed in range(1_000, 1_000 + many(200)):
        check(seed)


def test_a_task_waits_while_another_one_of_its_host_is_in_a_call():
    async def rank(number):
        async with asyncio.TaskGroup() as tasks:
            for name in ("one", "other"):
                tasks.create_task(launch(number), name=name)

    async def launch(number):
        sim, stream = acl.current_simulation(), await acl.CreateStream()
        await kernel(10)[1, stream]()
        found.append((number, asyncio.current_task().get_name(), sim.now_ns))
        await acl.SynchronizeStream(stream)
        found.append((number, asyncio.current_task().get_name(), sim.now_ns))

    async def main():
        await acl.ranks(2, rank, own_hosts=True)
        return acl.current_simulation().trace.timeline()

    found = []
    timeline = acl.run(main, device="tiny")
    # SetDevice takes 1 us, and each task 2 for its stream and its launch, 0.3 for the wait, and 2 for the wake-up.
    times = [("one", 3_000), ("other", 5_300), ("one", 15_000), ("other", 17_300)]
    assert sorted(found) == sorted((number, name, time) for number in range(2) for name, time in times)
    assert sorted((call.enter_ns, call.caller, call.name) for call in timeline.calls if "1" in call.caller) == [
        (0, "task 'rank 1'", "SetDevice"),
        (1_000, "task 'one' of rank 1", "CreateStream"),
        (2_000, "task 'one' of rank 1", "LaunchKernel"),
        (3_000, "task 'one' of rank 1", "SynchronizeStream"),
        (3_300, "task 'other' of rank 1", "CreateStream"),
        (4_300, "task 'other' of rank 1", "LaunchKernel"),
        (5_300, "task 'other' of rank 1", "SynchronizeStream"),
    ]
    path = [timeline.calls[part.call].caller for part in critical_path(timeline) if part.call is not None]
    own, one, other = "task 'rank 1'", "task 'one' of rank 1", "task 'other' of rank 1"
    assert path == [own, one, one, one, other, other, other]  # it stays on one host


def test_tasks_that_a_rank_leaves_behind_are_cancelled_at_its_end():
    async def rank(number):
        asyncio.create_task(work(number), name="forgotten")  # noqa: RUF006 - it is alive until the rank ends
        await asyncio.sleep(5e-6)
        return number

    async def work(number):
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await acl.CreateStream()
            ended.append((number, acl.current_simulation().now_ns))
            raise

    async def main():
        return await acl.ranks(2, rank, own_hosts=True), acl.current_simulation().now_ns

    ended = []
    assert acl.run(main, device="tiny") == ([0, 1], 7_000)
    assert ended == [(0, 7_000), (1, 7_000)]


def test_tasks_of_a_rank_that_wait_for_one_another_are_named_with_their_rank():
    async def rank(number):
        event = asyncio.Event()
        await asyncio.gather(*(event.wait() for _ in range(2)))

    async def main():
        await acl.ranks(2, rank, own_hosts=True)

    with pytest.raises(acl.DeadlockError) as caught:
        acl.run(main, device="tiny")
    text = str(caught.value)
    assert "task 'rank 0': in test_tasks_of_ranks" not in text
    assert text.count("of rank 0: in Event.wait at test_tasks_of_ranks.py:") == 2, text
    assert text.count("of rank 1: in Event.wait at test_tasks_of_ranks.py:") == 2, text


class Connecting(Coroutine):
    """A coroutine with attributes of its own, as drivers of databases have it."""

    def __init__(self, host):
        self.host = host
        self._calls = acl.CreateStream()

    def send(self, value):
        return self._calls.send(value)

    def throw(self, *error):
        return self._calls.throw(*error)

    def __await__(self):
        return self._calls.__await__()


def test_a_coroutine_that_calls_something_else_its_host_is_of_no_rank():
    async def main():
        await asyncio.create_task(Connecting("localhost"), name="connects")
        return acl.current_simulation().trace.calls[-1].caller

    assert acl.run(main, device="tiny") == "task 'connects'"


def test_tasks_of_ranks_that_wait_for_a_device_in_vain_are_named_once():
    async def rank(number):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(receive(number), name="receiver")

    async def receive(number):
        await acl.Recv(await acl.Malloc(64), 16, "float32", 1 - number, comms[number])
        await acl.SynchronizeDevice()

    async def main():
        comms.extend(await acl.CommInitAll(2))
        await acl.ranks(2, rank, own_hosts=True)

    comms = []
    with pytest.raises(ExceptionGroup) as caught:
        acl.run(main, device="h200")
    error = caught.value.exceptions[0].exceptions[0]
    assert isinstance(error, acl.DeadlockError)
    lines = [line for line in str(error).splitlines() if line.startswith("  task 'receiver' of rank")]
    assert [line.partition(" at ")[0] for line in lines] == [
        f"  task 'receiver' of rank {number}: SynchronizeDevice() of <Device {number} h200>" for number in range(2)
    ]


def test_a_task_that_is_cancelled_before_it_begins_has_done_nothing():
    async def rank(number):
        task = asyncio.create_task(acl.CreateStream())
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled(), acl.current_simulation().now_ns

    assert acl.run(lambda: acl.ranks(2, rank, own_hosts=True), device="tiny") == [(True, 1_000)] * 2


def sanitized(*steps):
    """The findings where two ranks, on hosts of their own and on one, have two tasks that copy to the same bytes."""

    async def rank(_):
        far, near = await acl.Malloc(64), await acl.MallocHost(64)
        await acl.Memset(far, 64, 1, 64)
        near.numpy("u1")[:] = 1
        streams, queue = [await acl.CreateStream() for _ in range(2)], asyncio.Queue()
        await asyncio.gather(copied(far, near, streams[1], asyncio.Queue()), acl.HostWork(5))
        async with asyncio.TaskGroup() as tasks:
            for number, (stream, step) in enumerate(zip(streams, steps, strict=True)):
                tasks.create_task(step(far, near, stream, queue), name=f"copies {number}")
        await acl.Free(far)
        await acl.FreeHost(near)
        for stream in streams:
            await acl.DestroyStream(stream)

    async def main(own_hosts):
        loop = asyncio.get_running_loop()
        await asyncio.create_task(acl.HostWork(1))  # from here on the sanitizer watches the loop
        before = vars(loop).copy()
        await acl.ranks(2, rank, own_hosts=own_hosts)
        assert vars(loop).keys() == before.keys()
        return loop, acl.current_simulation()

    found = []
    for own_hosts in (True, False):
        loop, sim = acl.run(main, own_hosts, device=CARDS, sanitize=True)
        assert not {"call_soon", "call_soon_threadsafe", "create_future"} & vars(loop).keys()
        found.append({finding.kind.value for finding in sim.findings})
    assert found[0] == found[1]
    return found[0]


async def copied(far, near, stream, queue):
    """Copy, wait for the copy, and tell another task."""
    await acl.MemcpyAsync(far, 64, near, 64, HOST, stream)
    await acl.SynchronizeStream(stream)
    await queue.put("copied")


async def copied_behind(far, near, stream, queue):
    """Copy when the other task has."""
    await queue.get()
    await copied(far, near, stream, queue)


def test_the_sanitizer_sees_what_tasks_of_a_rank_tell_one_another():
    assert sanitized(copied, copied_behind) == set()
    assert sanitized(copied, copied) == {"race"}
