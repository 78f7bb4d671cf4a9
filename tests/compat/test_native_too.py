"""Both interfaces on one device: the module inside a simulation of the native API, and native verbs in its session."""

import asyncio
import signal
import threading

import numpy as np
import pytest

import acl_py
from acl_py import DeadlockError, MemcpyKind
from acl_py.compat.acl import handle_of, install, object_of, uninstall
from acl_py.compat.acl.face.session import GuestSession, session
from acl_py.compat.acl.report import leaks
from acl_py.runtime.blocking import finish


@pytest.fixture
def module():
    interrupt = signal.getsignal(signal.SIGINT)
    yield install(device="tiny", rules="acl")
    uninstall()
    signal.signal(signal.SIGINT, interrupt)  # acl.util.start_thread has changed it


@acl_py.kernel(cost=acl_py.Cost(us=100))
def double(x: acl_py.In, out: acl_py.Out) -> None:
    np.multiply(x, 2, out=out)


async def test_streams_memory_and_time_are_the_same(module):
    acl = module
    async with acl_py.simulate(device="tiny", rules="acl") as sim:
        assert acl.rt.get_device() == (0, 0)  # the simulation's
        stream, _ = acl.rt.create_stream()
        address, _ = acl.rt.malloc(64, 0)
        data = np.arange(16, dtype=np.int32).tobytes()
        assert acl.rt.memcpy(address, 64, acl.util.bytes_to_ptr(data), 64, 1) == 0
        x = acl_py.Array(object_of(address), np.int32)
        out = await acl_py.Malloc(64)
        await double[1, object_of(stream)](x, acl_py.Array(out, np.int32))
        begin = sim.now_ns
        assert acl.rt.synchronize_stream(stream) == 0
        assert sim.now_ns - begin > 90_000
        result = bytes(64)
        assert acl.rt.memcpy(acl.util.bytes_to_ptr(result), 64, handle_of(out), 64, 2) == 0
        assert (np.frombuffer(result, np.int32) == 2 * np.arange(16)).all()
        names = [call.name for call in sim.trace.calls]
        assert names.count("SynchronizeStream") == 1


async def test_a_native_stream_has_a_handle(module):
    acl = module
    async with acl_py.simulate(device="tiny", rules="acl"):
        stream = await acl_py.CreateStream()
        handle = handle_of(stream)
        assert (handle, object_of(handle)) == (handle_of(stream), stream)
        assert acl.rt.stream_get_id(handle) == (stream.id, 0)
        assert acl.rt.destroy_stream(handle) == 0
        with pytest.raises(LookupError, match="neither a handle nor the address"):
            object_of(handle)
        with pytest.raises(acl_py.AclError):
            await acl_py.SynchronizeStream(stream)


async def test_what_a_native_verb_destroyed_is_no_leak(module):
    acl = module
    async with acl_py.simulate(device="tiny", rules="acl"):
        stream, event = acl.rt.create_stream()[0], acl.rt.create_event()[0]
        context = acl.rt.create_context(0)[0]
        assert [line.partition(",")[0] for line in leaks(session())] == [
            f"1 {kind} never destroyed" for kind in ("stream", "event", "context")
        ]
        await acl_py.DestroyContext(object_of(context))
        acl.rt.set_device(0)
        await acl_py.DestroyStream(object_of(stream))
        await acl_py.DestroyEvent(object_of(event))
        assert leaks(session()) == []


async def test_a_call_that_blocks_completes_what_other_tasks_wait_for(module):
    """They run when it is over, at the time that it has become by then."""
    acl, seen = module, []

    async def other(sim, stream):
        await acl_py.SynchronizeStream(stream)
        seen.append(("other", sim.now_ns >= 300_000))

    async with acl_py.simulate(device="tiny", rules="acl") as sim, asyncio.TaskGroup() as group:
        mine, its = await acl_py.CreateStream(), await acl_py.CreateStream()
        x = acl_py.Array(await acl_py.Malloc(64))
        await double[1, its](x, x)
        for _ in range(3):
            await double[1, mine](x, x)
        group.create_task(other(sim, its))
        await asyncio.sleep(0)
        assert acl.rt.synchronize_stream(handle_of(mine)) == 0
        seen.append(("main", sim.now_ns >= 300_000))
    assert seen == [("main", True), ("other", True)]


async def test_a_wait_for_another_task_is_a_hang(module):
    """The event loop stands still while a call of the module blocks: nobody could record the event."""
    acl = module
    async with acl_py.simulate(device="tiny", rules="acl"):
        event, _ = acl.rt.create_event_with_flag(1)
        stream, _ = acl.rt.create_stream()
        assert acl.rt.stream_wait_event(stream, event) == 0
        with pytest.raises(DeadlockError, match="SynchronizeStream"):
            acl.rt.synchronize_stream(stream)
        assert acl.rt.record_event(event, 0) == 0  # somebody does in the end
        assert acl.rt.synchronize_stream(stream) == 0


async def test_each_simulation_has_handles_of_its_own(module):
    acl = module
    async with acl_py.simulate(device="tiny", rules="acl"):
        first = session()
        stream, _ = acl.rt.create_stream()
        assert isinstance(first, GuestSession)
    async with acl_py.simulate(device="tiny", rules="acl"):
        assert session() is not first
        assert acl.rt.synchronize_stream(stream) == 107017
    assert acl.rt.get_device() == (0, 107002)  # outside: the session of the process


async def test_the_last_error_is_that_of_both(module):
    acl = module
    async with acl_py.simulate(device="tiny", rules="acl"):
        assert acl.rt.synchronize_stream(0xBAD) == 107017
        assert await acl_py.PeekAtLastError() == 107017
        with pytest.raises(acl_py.AclError):
            await acl_py.ResetDevice(99)
        assert acl.rt.get_last_error(0) == 107001


async def test_another_thread_cannot_use_the_simulation_of_a_loop(module):
    acl = module
    async with acl_py.simulate(device="tiny", rules="acl"):
        tid, _ = acl.util.start_thread(lambda _: acl.rt.set_device(0), 0)
        with pytest.raises(RuntimeError, match="another thread's event loop"):
            acl.util.stop_thread(tid)


async def test_a_kernel_in_a_worker_thread_may_be_the_first_that_calls(module):
    """It is refused, and the simulation remains that of its loop."""
    acl, answers = module, []

    @acl_py.kernel(cost=acl_py.Cost(us=1))
    def calls(_: acl_py.In) -> None:
        answers.append((threading.current_thread() is threading.main_thread(), acl.rt.malloc(64, 0)))

    async with acl_py.simulate(device="tiny", rules="acl", workers=2):
        await calls[1, None](acl_py.Array(await acl_py.Malloc(4 << 20), np.uint8))
        await acl_py.SynchronizeDevice()
        assert answers == [(False, (0, 207006))]
        assert acl.rt.malloc(64, 0)[1] == 0


async def test_a_simulation_that_is_open_is_found(module):
    acl = module
    sim = acl_py.open(device="tiny", rules="acl")
    try:
        address, ret = acl.rt.malloc(64, 0)
        assert (ret, session().runtime) == (0, sim.runtime)
        assert acl.rt.free(address) == 0
    finally:
        await sim.close()
    assert acl.rt.malloc(64, 0) == (0, 107002)


def test_native_verbs_in_the_session_of_the_process(module):
    acl = module
    assert acl.rt.set_device(0) == 0
    buffer = finish(acl_py.Malloc(64))
    assert acl.rt.memset(handle_of(buffer), 64, 9, 64) == 0
    out = np.zeros(64, np.uint8)
    finish(acl_py.Memcpy(out, 64, buffer, 64, MemcpyKind.DEVICE_TO_HOST))
    assert (out == 9).all()
    assert acl.rt.free(handle_of(buffer)) == 0


def test_two_threads_share_the_session_of_the_process(module):
    acl, seen = module, []
    assert acl.rt.set_device(0) == 0
    stream, _ = acl.rt.create_stream()
    context, _ = acl.rt.get_context()

    def other():
        seen.append(acl.rt.synchronize_stream(stream))
        acl.rt.set_context(context)
        seen.append(acl.rt.synchronize_stream(stream))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [107002, 0]
