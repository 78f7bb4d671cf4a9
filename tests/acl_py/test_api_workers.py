"""Bodies in threads: they overlap where nobody can tell, and never otherwise."""

import threading

import numpy as np
import pytest
from histories import history

import acl_py as acl

LARGE = 5 << 20
PATIENCE_S = 20  # before a test that waits in vain fails


def _meeting(together):
    """A kernel that notes how many of its kind run; those that should be *together* wait for one another."""
    both, running, seen = threading.Barrier(2), [], []

    def meet(x: acl.InOut):
        running.append(1)
        if together:
            both.wait(PATIENCE_S)
        seen.append(len(running))
        if together:
            both.wait(PATIENCE_S)
        running.pop()

    return meet, seen


async def _two(body, *, same, ordered, size, **options):
    meet = acl.kernel(cost=acl.Cost(us=10), **options)(body)
    a, b = await acl.CreateStream(), await acl.CreateStream()
    x = await acl.Malloc(size)
    y = x if same else await acl.Malloc(size)
    await acl.LaunchKernel(meet, 1, (x,), a)
    await acl.LaunchKernel(meet, 1, (y,), a if ordered else b)
    await acl.SynchronizeDevice()


@pytest.mark.parametrize(
    ("situation", "workers", "together"),
    [
        ({"same": False, "ordered": False, "size": LARGE}, 2, True),
        ({"same": False, "ordered": False, "size": LARGE}, 1, False),
        ({"same": True, "ordered": False, "size": LARGE}, 2, False),
        ({"same": False, "ordered": True, "size": LARGE}, 2, False),
        ({"same": False, "ordered": False, "size": 1000}, 2, False),
        ({"same": False, "ordered": False, "size": LARGE, "serial": True}, 2, False),
    ],
    ids=["independent", "one worker", "common bytes", "ordered", "small", "serial"],
)
def test_large_bodies_overlap_only_if_they_share_no_bytes_and_no_order(situation, workers, together):
    meet, seen = _meeting(together)
    acl.run(lambda: _two(meet, **situation), device="tiny", workers=workers)
    assert seen == ([2, 2] if together else [1, 1])


@pytest.mark.parametrize("is_over", [False, True], ids=["during the launch", "after it"])
def test_memory_of_a_graph_stays_until_the_bodies_of_its_kernels_have_run(is_over):
    """The executable is destroyed while a body waits in a thread for the host."""
    destroyed, sums = threading.Event(), []

    @acl.kernel(cost=acl.Cost(us=10))
    def total(x: acl.InOut):
        destroyed.wait(PATIENCE_S)
        x[:] = 1
        sums.append(int(x.sum()))

    async def program():
        stream = await acl.CreateStream()
        async with acl.capture(stream) as graph:
            scratch = await acl.MallocAsync(LARGE, stream)
            for _ in range(2):
                await total[1, stream](acl.Array(scratch, np.uint8))
            await acl.FreeAsync(scratch, stream)
        executable = await acl.GraphInstantiate(graph)
        await acl.GraphLaunch(executable, stream)
        if is_over:
            destroyed.set()
            await acl.SynchronizeStream(stream)
        await acl.GraphExecDestroy(executable)
        destroyed.set()
        await acl.SynchronizeDevice()

    acl.run(program, device="tiny", workers=2)
    assert sums == [LARGE, LARGE]


def test_bodies_are_over_before_the_host_goes_on():
    """The kernel ends while the host works: what it wrote to pinned memory is there when HostWork returns."""

    async def program():
        seen, streams, host = [], [await acl.CreateStream() for _ in range(3)], await acl.MallocHost(3 * LARGE)
        fill = acl.kernel(cost=acl.Cost(us=10))(_slow_fill)
        for step in range(5):
            for i, stream in enumerate(streams):
                await acl.LaunchKernel(fill, 1, (host[i * LARGE : (i + 1) * LARGE], step), stream)
            await acl.HostWork(20)
            seen.append([int(value) for value in host.numpy()[LARGE - 1 :: LARGE]])
        return seen

    assert acl.run(program, device="tiny", workers=4) == [[step] * 3 for step in range(5)]


def _slow_fill(x: acl.InOut, n):
    for part in np.array_split(x, 50):
        part[:] = n


def test_memory_that_is_freed_behind_a_body_stays_until_the_body_is_over():
    """FreeAsync takes place at the simulated end of the kernel, whose body may still run in its thread then."""
    entered = threading.Event()

    async def program():
        stream, total = await acl.CreateStream(), []

        @acl.kernel(cost=acl.Cost(us=10))
        def read(x: acl.In):
            entered.set()
            total.append(sum(int(part.sum()) for part in np.array_split(x, 200)))

        @acl.kernel(cost=acl.Cost(us=10))
        def ones(x: acl.InOut):
            x[:] = 1

        for _ in range(20):
            x = await acl.MallocAsync(LARGE, stream)
            await acl.LaunchKernel(ones, 1, (x,), stream)
            await acl.LaunchKernel(read, 1, (x,), stream)
            host = await acl.MallocHost(8)
            await acl.MemcpyAsync(host, 8, x, 8, acl.MemcpyKind.DEVICE_TO_HOST, stream)
            await acl.FreeAsync(x, stream)
            await acl.SynchronizeDevice()
            assert host.numpy().tolist() == [1] * 8
        return total

    assert acl.run(program, device="tiny", workers=2) == [LARGE] * 20
    assert entered.is_set()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_failure_in_a_thread_is_found_as_if_there_were_no_threads(workers):
    """The first to end is the failure; what began after it has no effect, be it small or large."""

    @acl.kernel(cost=acl.Cost(us=10))
    def first(x: acl.InOut):
        threading.Event().wait(0.02)
        raise KeyError("first")

    @acl.kernel(cost=acl.Cost(us=12))
    def second(x: acl.InOut):
        raise ValueError("second")

    @acl.kernel(cost=acl.Cost(us=5))
    def write(x: acl.InOut):
        x[:] = 1

    async def program():
        a, b, c = [await acl.CreateStream() for _ in range(3)]
        x, y, host = await acl.Malloc(LARGE), await acl.Malloc(LARGE), await acl.MallocHost(3)
        host.numpy()[:] = 0
        large = await acl.MallocHost(LARGE)
        large.numpy()[-1] = 0
        await acl.LaunchKernel(first, 1, (x,), a)
        await acl.LaunchKernel(second, 1, (y,), b)
        await acl.LaunchKernel(write, 1, (host[0:1],), c)  # beside both
        await acl.LaunchKernel(write, 1, (host[1:2],), a)  # behind the first
        await acl.LaunchKernel(write, 1, (large,), b)  # behind the second
        await acl.LaunchHostFunc(a, host.numpy().__setitem__, (2, 1))
        with pytest.raises(acl.AclError, match="first") as caught:
            await acl.SynchronizeDevice()
        return str(caught.value), host.numpy().tolist(), int(large.numpy()[-1]), history(acl.current_simulation())

    message, small, large, ops = acl.run(program, device="tiny", workers=workers)
    assert "kernel first raised KeyError: 'first'" in message
    assert (small, large) == ([1, 0, 0], 0)
    assert [name for name, *_ in ops] == ["first", "second", "write", "write", "write", "__setitem__"]


@pytest.mark.parametrize("workers", [2, 4])
def test_the_failure_that_ends_first_counts_whichever_body_is_joined_first(workers):
    @acl.kernel(cost=acl.Cost(us=10))
    def first(x: acl.InOut):
        threading.Event().wait(0.02)
        raise KeyError("first")

    @acl.kernel(cost=acl.Cost(us=11))
    def second(x: acl.InOut):
        raise ValueError("second")

    @acl.kernel(cost=acl.Cost(us=30))
    def conflict(x: acl.InOut):
        pass

    async def program():
        a, b, c = [await acl.CreateStream() for _ in range(3)]
        x, y = await acl.Malloc(LARGE), await acl.Malloc(LARGE)
        await acl.LaunchKernel(first, 1, (x,), a)
        await acl.LaunchKernel(second, 1, (y,), b)
        await acl.LaunchKernel(conflict, 1, (y,), c)  # shares bytes with the second only
        await acl.SynchronizeDevice()

    with pytest.raises(acl.AclError, match="first"):
        acl.run(program, device="tiny", workers=workers)


def test_the_default_is_one_worker_per_processor():
    async def program():
        return acl.current_simulation().runtime.workers.count

    assert acl.run(program, device="tiny") >= 1
    assert acl.run(program, device="tiny", workers=3) == 3
