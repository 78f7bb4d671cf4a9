"""Runs on a card: what a program sees of it."""

import asyncio
import os
import sys
from collections import Counter
from itertools import count

import numpy as np
import pytest

import acl_py
from acl_py import faults
from acl_py.calls.table import all_verbs
from acl_py.card.cuda.runtime import refused
from acl_py.compat.acl.face.session import current_session
from acl_py.errors import AclError, Kind
from tests.card.kernels import SPIN
from tests.cuda.calling import PTX
from tests.forks import ROOT

pytestmark = pytest.mark.filterwarnings("error")
KIND = acl_py.MemcpyKind.DEFAULT
NBYTES = 4096
TASKS = 40


@acl_py.kernel(cost=acl_py.Cost(us=5))
def double(x: acl_py.InOut) -> None:
    x *= 2


async def upload(values):
    buffer = await acl_py.Malloc(values.nbytes)
    await acl_py.Memcpy(buffer, values.nbytes, values, values.nbytes, KIND)
    return buffer


async def download(buffer, stream=None):
    values = np.zeros(buffer.nbytes // 4, np.uint32)
    await acl_py.MemcpyAsync(values, values.nbytes, buffer, values.nbytes, KIND, stream)
    await acl_py.SynchronizeStream(stream)
    return values


def test_streams_and_events_order_work_as_on_the_model(card):
    async def main():
        first, second = await acl_py.CreateStream(), await acl_py.CreateStream(nonblocking=True)
        start, ready, end = [await acl_py.CreateEvent() for _ in range(3)]
        pinned = await acl_py.MallocHost(NBYTES)
        pinned.numpy(np.uint32)[:] = np.arange(NBYTES // 4)
        buffer = await acl_py.Malloc(NBYTES)
        add = (await acl_py.ptx.load(PTX))["add"]
        await acl_py.RecordEvent(start, first)
        await acl_py.MemcpyAsync(buffer, NBYTES, pinned, NBYTES, KIND, first)
        await acl_py.RecordEvent(ready, first)
        await acl_py.StreamWaitEvent(second, ready)
        added = await add[8, 128, second](buffer, np.uint32(5), np.uint32(NBYTES // 4))
        await acl_py.RecordEvent(end, second)
        await acl_py.MemsetAsync(buffer, NBYTES, 0, NBYTES, first)  # waited for by none of what follows
        await added
        await acl_py.SynchronizeEvent(end)
        assert await acl_py.QueryEventStatus(ready) is acl_py.Status.COMPLETE
        assert await acl_py.EventElapsedTime(start, end) > 0
        await acl_py.SynchronizeDevice()
        assert await acl_py.StreamQuery(first) is acl_py.Status.COMPLETE
        return await download(buffer, second)

    on_model = acl_py.run(main, device="h200")
    assert acl_py.run(main, device=card).tolist() == on_model.tolist()


def test_an_event_that_is_recorded_again_stands_for_its_last_record(card):
    async def main():
        stream, event, order = await acl_py.CreateStream(), await acl_py.CreateEvent(), []
        buffer = await upload(np.zeros(NBYTES // 4, np.uint32))
        first = await acl_py.MemsetAsync(buffer, NBYTES, 1, NBYTES, stream)
        earlier = await acl_py.RecordEvent(event, stream)
        await acl_py.LaunchHostFunc(stream, order.append, ("host",))
        later = await acl_py.RecordEvent(event, stream)
        await acl_py.MemsetAsync(buffer, NBYTES, 2, NBYTES, stream)
        await asyncio.gather(acl_py.SynchronizeEvent(event), _after(earlier, order, "earlier"))
        assert (first.done, earlier.done, later.done) == (True, True, True)
        assert sorted(order) == ["earlier", "host"]
        return (await download(buffer, stream))[0]

    assert acl_py.run(main, device=card) == 0x02020202


def test_what_is_waited_for_needs_nothing_that_was_queued_behind_it(card):
    """Work behind a wait for another stream: the host does not wait for that one."""

    async def main():
        first, second, event = await acl_py.CreateStream(), await acl_py.CreateStream(), await acl_py.CreateEvent()
        buffer, spin = await acl_py.Malloc(NBYTES), (await acl_py.ptx.load(SPIN))["spin"]
        await spin[1, 1, second](50_000_000)
        await acl_py.RecordEvent(event, second)
        filled = await acl_py.MemsetAsync(buffer, NBYTES, 1, NBYTES, first)
        await acl_py.StreamWaitEvent(first, event)
        await acl_py.MemsetAsync(buffer, NBYTES, 2, NBYTES, first)
        await filled
        return await acl_py.QueryEventStatus(event)

    assert acl_py.run(main, device=card) is acl_py.Status.NOT_READY


def test_a_record_is_over_although_its_event_is_recorded_elsewhere(card):
    async def main():
        first, second, event = await acl_py.CreateStream(), await acl_py.CreateStream(), await acl_py.CreateEvent()
        buffer, spin = await acl_py.Malloc(NBYTES), (await acl_py.ptx.load(SPIN))["spin"]
        await acl_py.MemsetAsync(buffer, NBYTES, 1, NBYTES, first)
        earlier = await acl_py.RecordEvent(event, first)
        await spin[1, 1, second](50_000_000)
        await acl_py.RecordEvent(event, second)
        await acl_py.StreamWaitEvent(first, event)
        await earlier
        return await acl_py.QueryEventStatus(event)

    assert acl_py.run(main, device=card) is acl_py.Status.NOT_READY


async def _wait(event):
    await acl_py.StreamWaitEvent(None, event)


async def _record(_):
    await acl_py.RecordEvent(await acl_py.CreateEvent(), None)


async def _work(event):
    await (await acl_py.ptx.load(SPIN))["spin"][1, 1](50_000_000)
    await acl_py.RecordEvent(event, None)


@pytest.mark.parametrize("queue", [_wait, _record, _work])
def test_what_is_waited_for_needs_nothing_of_the_legacy_stream_behind_it(card, queue):
    async def main():
        blocking, other = await acl_py.CreateStream(), await acl_py.CreateStream(nonblocking=queue is _wait)
        event, buffer = await acl_py.CreateEvent(), await acl_py.Malloc(NBYTES)
        await (await acl_py.ptx.load(SPIN))["spin"][1, 1, other](50_000_000)
        await acl_py.RecordEvent(event, other)
        filled = await acl_py.MemsetAsync(buffer, NBYTES, 1, NBYTES, blocking)
        await queue(event)
        await acl_py.MemsetAsync(buffer, NBYTES, 3, NBYTES, blocking)
        await filled
        return await acl_py.QueryEventStatus(event)

    assert acl_py.run(main, device=card) is acl_py.Status.NOT_READY


async def _after(completion, order, name):
    await completion
    order.append(name)


@pytest.mark.parametrize("uvloop", [False, True], ids=["asyncio", "uvloop"])
def test_tasks_wait_side_by_side(card, uvloop):
    async def one(number):
        stream = await acl_py.CreateStream()
        buffer = await acl_py.Malloc(NBYTES)
        for _ in range(5):
            await (await acl_py.MemsetAsync(buffer, NBYTES, number, NBYTES, stream))
        return (await download(buffer, stream))[0] & 0xFF

    async def main():
        return await asyncio.gather(*map(one, range(12)))

    assert acl_py.run(main, device=card, uvloop=uvloop) == [*range(12)]


def test_the_legacy_stream_waits_for_blocking_streams(card):
    async def main():
        blocking, told = await acl_py.CreateStream(), []
        await acl_py.LaunchHostFunc(blocking, told.append, (1,))
        await acl_py.LaunchHostFunc(None, told.append, (2,))
        await acl_py.LaunchHostFunc(blocking, told.append, (3,))
        await acl_py.SynchronizeStream()
        behind_legacy = told[:2]
        await acl_py.SynchronizeStream(blocking)
        return behind_legacy, told

    assert acl_py.run(main, device=card) == ([1, 2], [1, 2, 3])


@pytest.mark.parametrize(
    ("bodies", "values"), [("host", [0, 4, 8, 12]), ("time", [0, 1, 2, 3])], ids=["on the host", "their time only"]
)
def test_a_body_in_python_runs_on_the_host_or_takes_its_time(card, bodies, values):
    async def main():
        stream, buffer = await acl_py.CreateStream(), await upload(np.arange(4, dtype=np.uint32))
        for _ in range(2):
            await double[8, stream](acl_py.Array(buffer, np.uint32))
        return await download(buffer, stream)

    assert acl_py.run(main, device=card, bodies=bodies).tolist() == values


def test_a_body_on_the_host_uses_memory_that_is_freed_behind_it(card):
    async def main():
        stream = await acl_py.CreateStream()
        buffer = await acl_py.MallocAsync(16, stream)
        await acl_py.MemsetAsync(buffer, 16, 1, 16, stream)
        launched = await double[1, stream](acl_py.Array(buffer, np.uint32))
        values = np.zeros(4, np.uint32)
        await acl_py.MemcpyAsync(values, 16, buffer, 16, KIND, stream)
        await acl_py.FreeAsync(buffer, stream)
        await launched
        await acl_py.SynchronizeStream(stream)
        return set(values.tolist())

    assert acl_py.run(main, device=card, bodies="host") == {0x02020202}


def test_the_trace_has_the_operations_with_their_times_by_the_card(card):
    async def main():
        stream = await acl_py.CreateStream(name="work")
        buffer = await upload(np.zeros(NBYTES // 4, np.uint32))
        await acl_py.MemsetAsync(buffer, NBYTES, 1, NBYTES, stream)
        await (await acl_py.ptx.load(PTX))["add"][8, 128, stream](buffer, np.uint32(5), np.uint32(NBYTES // 4))
        await download(buffer, stream)
        return acl_py.current_simulation().trace

    trace = acl_py.run(main, device=card)
    on_stream = [op for op in trace.ops if op.stream == "stream 'work'"]
    assert [op.name for op in on_stream] == ["fill", "add", "d2h"]
    times = [time for op in on_stream for time in (op.start_ns, op.end_ns)]
    assert times == sorted(times)
    assert [call.name for call in trace.calls][-2:] == ["MemcpyAsync", "SynchronizeStream"]


def test_a_bare_address_of_the_card_is_memory_for_a_body(card):
    async def main():
        buffer = await upload(np.full(4, 0x01010101, np.uint32))
        await double[1](buffer.address)
        return set((await download(buffer)).tolist())

    assert acl_py.run(main, device=card, bodies="host") == {0x02020202}


def test_a_pool_keeps_as_much_after_a_run_as_before(card):
    """The pool is the driver's, which other libraries of the process use, too."""

    async def threshold(nbytes=None):
        if nbytes is not None:
            await acl_py.SetMemPoolThreshold(nbytes)
        context = await acl_py.GetCurrentContext()
        return context.device.runtime.memory.pool(0).release_threshold

    async def main():
        context = await acl_py.GetCurrentContext()
        driver, cu = context.driver, context.driver.cu
        driver(cu.cuDevicePrimaryCtxRetain, 0)  # as a library that lives in the context
        return await threshold(1 << 20), await threshold(0), await threshold(1 << 21)

    before = acl_py.run(threshold, device=card)
    assert acl_py.run(main, device=card) == (1 << 20, 0, 1 << 21)
    assert acl_py.run(threshold, device=card) == before


def test_a_body_in_python_is_refused_by_default(card):
    async def main():
        await double[8](acl_py.Array(await upload(np.arange(4, dtype=np.uint32)), np.uint32))

    with pytest.raises(AclError, match=r"kernel double has a body in Python, which no card runs; .*bodies='host'"):
        acl_py.run(main, device=card)


def test_what_a_host_function_raises_comes_out_of_the_next_wait(card):
    async def main():
        stream = await acl_py.CreateStream()
        await acl_py.LaunchHostFunc(stream, lambda: 1 / 0)
        with pytest.raises(AclError, match="raised ZeroDivisionError") as caught:
            await acl_py.SynchronizeStream(stream)
        await acl_py.SynchronizeStream(stream)
        return type(caught.value.__cause__)

    assert acl_py.run(main, device=card) is ZeroDivisionError


def test_a_host_function_makes_no_call(card):
    async def verb():
        await acl_py.Malloc(8)

    def call():
        verb().send(None)

    async def main():
        stream = await acl_py.CreateStream()
        with pytest.raises(AclError, match=r"Malloc\(\) inside"):
            await (await acl_py.LaunchHostFunc(stream, call))

    acl_py.run(main, device=card)


def test_pinned_memory_stays_as_long_as_there_are_arrays_over_it(card):
    async def main():
        pinned = await acl_py.MallocHost(8)
        array = pinned.numpy()
        array[:] = 7
        await acl_py.FreeHost(pinned)
        with pytest.raises(AclError, match="no longer alive"):
            pinned.numpy()
        return array

    assert acl_py.run(main, device=card).tolist() == [7] * 8


def test_stream_ordered_memory_comes_and_goes_with_its_stream(card):
    async def main():
        stream = await acl_py.CreateStream()
        await acl_py.SetMemPoolThreshold(1 << 20)
        buffer = await acl_py.MallocAsync(NBYTES, stream)
        await acl_py.MemsetAsync(buffer, NBYTES, 3, NBYTES, stream)
        values = np.zeros(NBYTES, np.uint8)
        await acl_py.MemcpyAsync(values, NBYTES, buffer, NBYTES, KIND, stream)
        await acl_py.FreeAsync(buffer, stream)
        with pytest.raises(AclError, match="was freed already"):
            await acl_py.FreeAsync(buffer, stream)
        await acl_py.SynchronizeStream(stream)
        return set(values.tolist())

    assert acl_py.run(main, device=card) == {3}


def test_other_libraries_find_memory_and_streams(card):
    async def main():
        stream, buffer = await acl_py.CreateStream(), await acl_py.Malloc(64)
        array = acl_py.Array(buffer, np.float32, (4, 4))
        interface = array[1].__cuda_array_interface__
        version, handle = stream.__cuda_stream__()
        return interface["data"][0] - buffer.address, interface["shape"], interface["typestr"], version, handle > 2

    assert acl_py.run(main, device=card) == (16, (4,), "<f4", 0, True)


@pytest.mark.parametrize("name", ["__cuda_array_interface__", "__dlpack__", "__dlpack_device__"])
def test_memory_of_the_model_is_not_offered_to_other_libraries(name):
    async def main():
        buffer = await acl_py.Malloc(64)
        assert not hasattr(buffer, name)
        with pytest.raises(AttributeError, match="only acl_py can use it"):
            getattr(acl_py.Array(buffer, np.float32), name)

    acl_py.run(main)


def test_the_codes_of_the_card_are_errors_with_advice(card):
    async def main():
        with pytest.raises(AclError, match=r"cuMemAlloc\(\) answers 2: out of memory; free memory") as caught:
            await acl_py.Malloc(1 << 50)
        assert (caught.value.kind, await acl_py.GetLastError()) == (Kind.OUT_OF_MEMORY, 2)
        buffer = await acl_py.Malloc(64)
        await acl_py.Free(buffer)
        with pytest.raises(AclError, match="which was freed already"):
            await acl_py.Free(buffer)

    acl_py.run(main, device=card)


def test_a_wait_that_is_cancelled_leaves_the_work(card):
    async def main():
        stream, told = await acl_py.CreateStream(), []
        await acl_py.LaunchHostFunc(stream, told.append, (1,))
        waiting = asyncio.create_task(acl_py.SynchronizeStream(stream))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await acl_py.SynchronizeStream(stream)
        return told

    assert acl_py.run(main, device=card) == [1]


def test_nothing_is_left_of_a_hundred_runs(card):
    """What the driver gave a run is given back, also what the program has not freed."""

    async def main():
        await acl_py.CreateStream()
        event = await acl_py.CreateEvent()
        await acl_py.RecordEvent(event)
        pinned, buffer = await acl_py.MallocHost(64), await acl_py.Malloc(64)
        await acl_py.MallocAsync(64)
        await acl_py.MemcpyAsync(buffer, 64, pinned, 64, KIND)

    for _ in range(100):
        acl_py.run(main, device=card)
    if (session := current_session()) is not None:  # of the simulated driver
        [device] = session.runtime.devices
        assert session.runtime.memory.leaks() == []
        assert device.primary.streams == {}


def test_every_verb_that_a_card_does_not_do_is_refused_by_name(card):
    async def main():
        context = await acl_py.GetCurrentContext()
        runtime = context.device.runtime
        for name in refused():
            with pytest.raises(AclError, match=rf"{name}\(\) on a card; .") as caught:
                runtime.check_call(context, name)
            assert caught.value.kind is Kind.NOT_SUPPORTED

    acl_py.run(main, device=card)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"effects": "weak"}, "effects='weak' with device='cuda:0'"),
        ({"overlay": "torch"}, "calls take the time that they take"),
        ({"clock": "simulated"}, "time is real"),
        ({"rules": "acl"}, "it has those of CUDA"),
        ({"bodies": "gpu"}, "bodies must be one of"),
    ],
)
def test_options_without_a_meaning_on_a_card_are_refused(card, options, text):
    with pytest.raises(ValueError, match=text):
        acl_py.run(asyncio.sleep, 0, device=card, **options)


def test_calls_can_be_made_to_fail(card):
    async def main():
        guard = acl_py.current_simulation().fault(faults.fail(call="Malloc", kind=Kind.OUT_OF_MEMORY))
        with pytest.raises(AclError, match="injected by"):
            await acl_py.Malloc(64)
        guard.remove()
        return guard.rules[0].struck, (await acl_py.Malloc(64)).nbytes

    assert acl_py.run(main, device=card) == (1, 64)


@pytest.mark.parametrize("rule", [faults.delay(call="Malloc", us=5), faults.fail(op="h2d"), faults.hang(op="h2d")])
def test_rules_that_bend_the_work_of_a_card_are_refused(card, rule):
    async def main():
        simulation = acl_py.current_simulation()
        with pytest.raises(ValueError, match="only calls can be made to fail"):
            simulation.fault(rule)
        assert simulation.runtime.faults.rules == []

    acl_py.run(main, device=card)


def test_managed_memory_is_filled_when_memset_returns(card):
    """A fill in the default stream and a kernel in a non-blocking stream: only the wait of Memset() orders them."""

    async def main():
        stream = await acl_py.CreateStream(nonblocking=True)
        add = (await acl_py.ptx.load(PTX))["add"]
        shared = await acl_py.MallocManaged(NBYTES)
        await acl_py.Memset(shared, NBYTES, 0, NBYTES)
        await add[8, 128, stream](shared, np.uint32(3), np.uint32(NBYTES // 4))
        await acl_py.SynchronizeStream(stream)
        return set(shared.numpy(np.uint32).tolist())

    assert acl_py.run(main, device=card) == {3}


def test_a_wait_of_the_legacy_stream_is_a_barrier_also_for_an_event_that_is_over(card):
    async def main():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        beside, event, told = await acl_py.CreateStream(nonblocking=True), await acl_py.CreateEvent(), []
        word = await acl_py.Malloc(8)
        await acl_py.MemsetAsync(word, 8, 0, 8, beside)
        await acl_py.RecordEvent(event, beside)
        await acl_py.SynchronizeEvent(event)
        await acl_py.ValueWait(word, 1, acl_py.Compare.EQ, one)
        await acl_py.LaunchHostFunc(one, told.append, ("before",))
        await acl_py.StreamWaitEvent(None, event)
        await acl_py.LaunchHostFunc(two, told.append, ("behind",))
        await acl_py.LaunchHostFunc(beside, told.append, ("beside",))
        await acl_py.SynchronizeStream(beside)
        await acl_py.ValueWrite(word, 1, 0, beside)
        await acl_py.SynchronizeDevice()
        return told

    assert acl_py.run(main, device=card) == acl_py.run(main, device="h200") == ["beside", "before", "behind"]


def test_a_function_that_an_old_driver_does_not_have(card):
    def cuNewer():
        raise RuntimeError('Function "cuNewer" not found')  # as cuda.bindings does

    def cuListed():
        raise RuntimeError("List is too small: 0 < 1")  # cuda.bindings of wrong arguments

    async def main():
        context = await acl_py.GetCurrentContext()
        with pytest.raises(AclError, match=r"this driver of CUDA has no cuNewer\(\); update the driver"):
            context.driver(cuNewer)
        with pytest.raises(RuntimeError, match="List is too small"):
            context.driver(cuListed)

    acl_py.run(main, device=card)


def test_a_card_that_is_not_there(card):
    with pytest.raises(AclError, match=r"there is no 'cuda:99': this machine has \d+ cards"):
        acl_py.run(asyncio.sleep, 0, device="cuda:99")


def test_bodies_are_for_cards():
    with pytest.raises(ValueError, match="bodies='host' is for cards"):
        acl_py.run(asyncio.sleep, 0, bodies="host")


def test_the_environment_names_the_device_of_any_program(card, monkeypatch):
    monkeypatch.setenv("ACL_PY_DEVICE", card)

    async def main():
        return acl_py.current_simulation().runtime.takes_guests

    assert acl_py.run(main, device="h200") is False


def test_a_child_of_fork_is_refused(card):
    async def main():
        stream = await acl_py.CreateStream()

        pid = os.fork()
        if pid == 0:
            try:
                acl_py.SynchronizeStream(stream).send(None)
            except AclError as error:
                os._exit(7 if "a child of fork" in str(error) else 1)
            os._exit(2)
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        await acl_py.SynchronizeStream(stream)
        return os.waitstatus_to_exitcode(status)

    assert acl_py.run(main, device=card) == 7


def test_the_page_names_every_verb_that_a_card_does():
    page = (ROOT / "docs" / "card.md").read_text()
    rows = page.split("| verb | call of the driver |")[1].split("\n\n")[0].splitlines()[2:]
    named = [name.strip() for row in rows for name in row.split("|")[1].split(",")]
    assert sorted(named) == sorted(set(all_verbs()) - set(refused()))


@pytest.mark.parametrize(("exclusive", "waves"), [(True, 2), (False, 1)])
def test_a_block_that_has_a_core_to_itself_leaves_no_room_for_another(card, exclusive, waves):
    @acl_py.kernel(cost=acl_py.Cost(us=500), exclusive=exclusive)
    def long() -> None:
        """Compute."""

    async def main():
        start, end = await acl_py.CreateEvent(), await acl_py.CreateEvent()
        cores = acl_py.current_simulation().runtime.profile.cores.count
        stream = await acl_py.CreateStream()
        await (await long[1, stream]())  # the first launch loads the kernel
        await acl_py.RecordEvent(start, stream)
        await long[cores + 1, stream]()
        await acl_py.RecordEvent(end, stream)
        await acl_py.SynchronizeEvent(end)
        return await acl_py.EventElapsedTime(start, end)

    assert waves * 0.5 <= acl_py.run(main, device=card, bodies="time") < waves * 0.5 + 0.2


def test_a_wait_that_is_over_leaves_no_look_in_the_loop(card):
    async def main():
        nothing, stream = (await acl_py.ptx.load(SPIN))["nothing"], await acl_py.CreateStream()
        loop = asyncio.get_running_loop()
        loop.call_soon(int)  # something else can run, so the wait goes through the loop
        await (await nothing[1, 32, stream]())
        return list(loop._ready)

    assert acl_py.run(main, device=card) == []


def test_one_turn_of_the_loop_wakes_a_few_tasks_and_not_all(card):
    async def main():
        nothing = (await acl_py.ptx.load(SPIN))["nothing"]
        loop, turn, woken = asyncio.get_running_loop(), count(), Counter()

        def tick():
            now[0] = next(turn)
            if woken.total() < TASKS:
                loop.call_soon(tick)

        async def wait(op):
            await op
            woken[now[0]] += 1

        now = [0]
        ops = [await nothing[1, 32, await acl_py.CreateStream()]() for _ in range(TASKS)]
        tick()
        await asyncio.gather(*map(wait, ops))
        return woken

    woken = acl_py.run(main, device=card)
    assert woken.total() == TASKS
    assert max(woken.values()) <= 8


async def entered(call):
    """Await *call*; return how often each function of Python was entered, by its name."""
    names = Counter()
    sys.setprofile(lambda frame, what, _: names.update([frame.f_code.co_qualname] if what == "call" else []))
    try:
        await call
    finally:
        sys.setprofile(None)
    return names


def test_a_check_asks_for_faults_only_if_there_are_rules(card):
    async def main():
        event = await acl_py.CreateEvent()
        before = await entered(acl_py.RecordEvent(event))
        with acl_py.current_simulation().fault(faults.fail(call="Malloc", kind=Kind.OUT_OF_MEMORY)):
            return before["Faults.of_call"], (await entered(acl_py.RecordEvent(event)))["Faults.of_call"]

    assert acl_py.run(main, device=card) == (0, 1)


def test_a_wait_behind_a_wait_needs_no_mark(card):
    async def main():
        first, second = await acl_py.CreateStream(), await acl_py.CreateStream()
        buffer, event = await acl_py.Malloc(NBYTES), await acl_py.CreateEvent()
        await acl_py.MemsetAsync(buffer, NBYTES, 0, NBYTES, first)
        await acl_py.RecordEvent(event, first)
        marks = []
        for has_work in (True, False, True):
            if has_work:
                await acl_py.MemsetAsync(buffer, NBYTES, 1, NBYTES, second)
            marks.append((await entered(acl_py.StreamWaitEvent(second, event)))["CudaDriver.record"])
        await acl_py.SynchronizeStream(second)
        return marks

    assert acl_py.run(main, device=card, trace=False) == [1, 0, 1]
