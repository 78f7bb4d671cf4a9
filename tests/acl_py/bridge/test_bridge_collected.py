"""Coroutines of ours that Python collects while they wait: their loop is gone, and the collector comes at any time.

Whatever they raise goes to sys.unraisablehook, whose traceback parses lines; on Python 3.11 that ends with SystemError
if the collector came while Python parses something else, as pytest does for each assertion that fails.
"""

import asyncio
import gc
import sys

import pytest

import acl_py as acl
from acl_py import faults
from acl_py.sanitizer import watch
from device_model.observe import Observer


@acl.kernel(cost=acl.Cost(us=100))
def step():
    pass


class Told(Observer):
    """Notes what it is told."""

    def __init__(self):
        self.names = []

    def call(self, name, enter_ns, exit_ns, site, about):
        self.names.append(name)

    def host_waited(self, completion, since_ns):
        self.names.append("host_waited")


async def synchronizes(stream):
    await acl.SynchronizeStream(stream)


async def synchronizes_for_a_time(stream):
    await acl.SynchronizeStreamWithTimeout(stream, 1_000_000)


async def has_a_time_out(stream):
    async with asyncio.timeout(1_000):
        await acl.SynchronizeStream(stream)


async def awaits_completion(stream):
    await (await step[8, stream]())


async def fills_the_queue(stream):
    while True:
        await step[8, stream]()


async def sleeps(stream):
    await acl.Sleep(1_000_000_000)


async def frees(stream):
    await acl.Free(await acl.Malloc(64))


async def takes_a_report(stream):
    await acl.SubscribeReport(asyncio.current_task(), stream)
    await acl.ProcessReport(-1)


async def holds(stream):
    with acl.current_simulation().runtime.bridge.hold():
        await asyncio.Event().wait()


async def has_a_simulation(stream):
    async with acl.simulate(device="tiny") as sim:
        sim.fault(faults.hang(op="kernel"))
        stream = await acl.CreateStream()
        await step[8, stream]()
        await acl.SynchronizeStream(stream)


WORKERS = [
    synchronizes, synchronizes_for_a_time, has_a_time_out, awaits_completion, fills_the_queue, sleeps, frees,
    takes_a_report, holds, has_a_simulation,
]  # fmt: skip


@pytest.mark.parametrize("cancels", [False, True], ids=["pending", "cancelled"])
@pytest.mark.parametrize("worker", WORKERS, ids=lambda worker: worker.__name__)
def test_a_coroutine_that_is_collected_raises_nothing_and_tells_no_observer(worker, cancels, monkeypatch):
    """A fault `hang`, a time-out, and workers that are cancelled but not awaited."""
    gc.collect()  # what other tests have left
    told, tasks, raised = Told(), [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: raised.append(repr(each.exc_value)))
    monkeypatch.setattr(watch, "followers", [])  # the plugin keeps the last simulation, for the report of a failure

    async def main():
        rules = "acl" if worker is takes_a_report else "cuda"
        async with acl.simulate(device="tiny", rules=rules) as sim:
            sim.observe(told)
            sim.fault(faults.hang(op="kernel"))
            streams = [await acl.CreateStream() for _ in "12"]
            for stream in streams:
                await step[8, stream]()
            tasks[:] = [asyncio.create_task(worker(stream)) for stream in streams]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            assert [task.done() for task in tasks] == [False, False]

    loop = acl.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # asyncio tells of tasks that are pending at the end
    loop.run_until_complete(main())
    told.names.clear()
    for task in tasks:
        if cancels:
            task.cancel()
    loop.close()
    task = tasks.clear()
    del loop, main
    gc.collect()
    assert not any(
        isinstance(each, asyncio.Task) and each.get_coro().__name__ == worker.__name__ for each in gc.get_objects()
    )
    assert (raised, told.names) == ([], [])
