"""Threads: the blocking core under several of them, and simulations in the event loops of several threads."""

import asyncio
import queue
import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from histories import busy

import acl_py
import acl_py as acl
import acl_py.runtime.blocking
from acl_py.options import Options
from acl_py.runtime.blocking import finish, take_part
from acl_py.runtime.scopes import scope_var
from device_model.observe import Observer
from tests.threaded import runtime_of

A = busy("A", 10)


@contextmanager
def program(rules="cuda", **options):
    """A runtime for threads, in which the calling one takes part; whatever it left waiting would be an error."""
    with runtime_of(Options("tiny", rules, workers=1, **options)) as runtime:
        yield runtime
    assert (runtime.waiters, runtime.limits, runtime.unfinished()) == ({}, {}, [])


class Outcome(threading.Thread):
    """A thread that takes part in a runtime; `outcome` waits for its end and gives what it returned, or raises that."""

    def __init__(self, runtime, function, *args):
        super().__init__()
        self._work = (runtime, function, args)
        self.start()

    def run(self):
        runtime, function, args = self._work
        take_part(runtime)
        try:
            self._result, self._error = function(*args), None
        except Exception as error:
            self._error = error

    def outcome(self):
        self.join()
        if self._error is not None:
            raise self._error
        return self._result


def until(condition):
    """Let other threads run until they have come so far."""
    while not condition():
        threading.Event().wait(0.001)


def until_somebody_waits(runtime):
    until(lambda: runtime.waiters)


def stuck_stream():
    """A stream whose work waits for an event."""
    stream, event = finish(acl.CreateStream()), finish(acl.CreateEventWithFlag(acl.EventFlag.SYNC))
    finish(acl.StreamWaitEvent(stream, event))
    finish(acl.LaunchKernel(A, 1, (), stream))
    return stream, event


def test_a_thread_waits_for_what_another_one_does():
    with program("acl") as runtime:
        stream, event = stuck_stream()
        waiter = Outcome(runtime, lambda: finish(acl.SynchronizeStream(stream)))
        until_somebody_waits(runtime)
        before = runtime.host_ns
        finish(acl.RecordEvent(event))
        waiter.outcome()
        assert runtime.host_ns == before + 1_000 + 10_000 + 2_000


def test_threads_that_all_wait_are_a_deadlock_and_each_is_told():
    with program("acl") as runtime:
        streams = [stuck_stream()[0] for _ in range(3)]
        threads = [Outcome(runtime, lambda stream=stream: finish(acl.SynchronizeStream(stream))) for stream in streams]
        errors = []
        for thread in threads:
            with pytest.raises(acl.DeadlockError, match=r"^thread [234]: SynchronizeStream") as caught:
                thread.outcome()
            errors.append(caught.value)
        assert {str(error).partition(":")[0] for error in errors} == {"thread 2", "thread 3", "thread 4"}
        assert [f"on stream {number}" in error.chain[-1] for number, error in enumerate(errors, 1)] == [True] * 3
        assert len(set(map(id, errors))) == 3
        finish(acl_py.StreamAbort(streams[0]))  # the runtime is good for more
        for stream in streams[1:]:
            finish(acl_py.DestroyStreamForce(stream))


def test_a_thread_outside_any_call_may_still_act():
    """Nobody is called dead while one thread waits for something else: only `hang_after` makes it an error."""
    with program("acl", hang_after=0.3) as runtime:
        stream, event = stuck_stream()
        go = threading.Event()

        def bystander():
            go.wait(60)
            finish(acl.RecordEvent(event))

        helper = Outcome(runtime, bystander)
        with pytest.raises(acl.DeadlockError) as caught:
            finish(acl.SynchronizeStream(stream))
        assert caught.value.__notes__ == [f"what might still wake it: thread {helper.name!r}"]
        waiter = Outcome(runtime, lambda: finish(acl.SynchronizeStream(stream)))
        until_somebody_waits(runtime)
        go.set()
        helper.outcome()
        waiter.outcome()


def test_threads_that_wait_for_another_one_to_wake_them_cannot_act():
    """Not if nobody is left who could: the only thread that is awake waits for a record."""
    with program("acl"):
        stream, record = stuck_stream()
        morning, box = threading.Event(), queue.Queue()
        threads = [threading.Thread(target=wait) for wait in (morning.wait, box.get)]
        for thread in threads:
            thread.start()
        with pytest.raises(acl.DeadlockError) as caught:
            finish(acl.SynchronizeStream(stream))
        assert not hasattr(caught.value, "__notes__")
        morning.set()
        box.put(None)
        for thread in threads:
            thread.join()
        finish(acl.RecordEvent(record))
        finish(acl.SynchronizeStream(stream))


def test_a_daemon_that_was_there_before_counts_once_it_takes_part():
    begin, took_part, act, box = threading.Event(), threading.Event(), threading.Event(), []

    def daemon():
        begin.wait()
        take_part(box[0])
        took_part.set()
        act.wait()
        finish(acl.RecordEvent(box[1]))

    thread = threading.Thread(target=daemon, daemon=True)
    thread.start()
    with program("acl") as runtime:
        stream, event = stuck_stream()
        box += [runtime, event]
        with pytest.raises(acl.DeadlockError):
            finish(acl.SynchronizeStream(stream))  # it might be anybody's, and does nothing for ever
        begin.set()
        took_part.wait()
        waiter = Outcome(runtime, lambda: finish(acl.SynchronizeStream(stream)))
        until_somebody_waits(runtime)
        act.set()
        waiter.outcome()
        thread.join()


def test_a_wait_that_only_another_thread_could_end_is_warned_of_once(monkeypatch):
    monkeypatch.setattr(acl_py.runtime.blocking, "_WARN_S", 0.01)
    with program("acl") as runtime:
        stream, event = stuck_stream()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            waiter = Outcome(runtime, lambda: finish(acl.SynchronizeStream(stream)))
            until(lambda: caught)
            finish(acl.RecordEvent(event))
            waiter.outcome()
        (warning,) = caught
        assert "what might still wake it: thread 'MainThread'" in str(warning.message)


def test_a_thread_that_joins_a_dead_one_is_dead_too():
    with program("acl") as runtime:
        stream, _ = stuck_stream()
        inner = Outcome(runtime, lambda: finish(acl.SynchronizeStream(stream)))
        outer = Outcome(runtime, inner.join)
        outer.outcome()
        with pytest.raises(acl.DeadlockError):
            inner.outcome()
        finish(acl_py.StreamAbort(stream))


def test_workers_of_a_pool_that_all_wait_are_a_deadlock():
    with program("acl") as runtime:
        stream, _ = stuck_stream()

        def wait():
            take_part(runtime)
            with pytest.raises(acl.DeadlockError):
                finish(acl.SynchronizeStream(stream))
            return "told"

        with ThreadPoolExecutor(3) as pool:
            told = [pool.submit(wait) for _ in range(3)]
        assert [each.result() for each in told] == ["told"] * 3
        finish(acl_py.StreamAbort(stream))


def test_a_poll_for_what_another_thread_does():
    with program("acl") as runtime:
        _, event = stuck_stream()

        def poll():
            while finish(acl.QueryEventWaitStatus(event)) is acl.Status.NOT_READY:
                pass

        before = runtime.host_ns
        poller = Outcome(runtime, poll)
        until(lambda: runtime.host_ns > before)
        finish(acl.RecordEvent(event))
        poller.outcome()
        _, never = stuck_stream()
        event = never
        runtime.hang_after = 0.1
        with pytest.raises(acl.DeadlockError):
            poll()
        finish(acl.RecordEvent(never))
        finish(acl.SynchronizeDevice())


def test_a_poll_that_is_answered_not_yet_may_be_followed_by_the_call_that_helps():
    with program("acl") as runtime:
        stream, event = stuck_stream()
        assert [finish(acl.QueryEventWaitStatus(event)) for _ in range(100)] == [acl.Status.NOT_READY] * 100
        finish(acl.RecordEvent(event))
        finish(acl.SynchronizeStream(stream))
        assert runtime.scheduler.is_empty


def test_callbacks_are_run_by_the_thread_that_asks_for_them_and_its_limit_lets_no_time_pass():
    """While the main thread is outside any call, a limit of a thread is one of real time."""
    with program("acl") as runtime:
        stream, ran = finish(acl.CreateStream()), []

        def subscriber(stop):
            finish(acl.SubscribeReport(threading.get_ident(), stream))
            while not stop.is_set():
                finish(acl.ProcessReport(60_000))

        def callback(number):
            ran.append((number, threading.current_thread()))

        stop = threading.Event()
        thread = Outcome(runtime, subscriber, stop)
        until_somebody_waits(runtime)
        for number in range(5):
            finish(acl.LaunchKernel(A, 1, (), stream))
            finish(acl.LaunchCallback(callback, number, acl.CallbackBlock.BLOCK, stream))
        finish(acl.SynchronizeStream(stream))
        stop.set()
        if thread.is_alive():
            finish(acl.LaunchCallback(ran.append, "last", acl.CallbackBlock.NO_BLOCK, stream))
        thread.outcome()
        assert ran[:5] == [(number, thread) for number in range(5)]
        assert runtime.host_ns < 1_000_000


def test_a_limit_is_over_at_once_where_nobody_else_could_act():
    with program("acl") as runtime:
        stream, _ = stuck_stream()
        waiter = Outcome(runtime, lambda: finish(acl.SynchronizeStreamWithTimeout(stream, 3_600_000)))
        with pytest.raises(acl.AclError, match=r"has waited 3.6e\+06 ms"):
            waiter.outcome()
        assert runtime.host_ns > 3_600_000_000_000
        finish(acl_py.StreamAbort(stream))


def test_each_thread_has_a_context_and_a_last_error_of_its_own():
    with program() as runtime:
        main = scope_var.get().context

        def other():
            finish(acl.SetDevice(1))
            context = finish(acl.CreateContext(1))
            with pytest.raises(acl.AclError):
                finish(acl.Malloc(1 << 60))
            turn.wait()
            return context, finish(acl_py.GetCurrentContext()), finish(acl.GetDevice()), finish(acl.GetLastError())

        turn = threading.Event()
        thread = Outcome(runtime, other)
        turn.set()
        made, current, device, code = thread.outcome()
        assert (made is current, device, code) == (True, 1, runtime.rules.codes[acl.Kind.OUT_OF_MEMORY].value)
        assert (scope_var.get().context, finish(acl.GetDevice()), finish(acl.PeekAtLastError())) == (main, 0, 0)


def test_a_host_thread_lets_others_call_while_time_is_held():
    with program("acl") as runtime:
        stream = finish(acl.CreateStream())
        called, entered = threading.Event(), threading.Event()

        def work():
            entered.set()
            called.wait()
            with pytest.raises(RuntimeError, match="where no simulated time passes"):
                finish(acl.SynchronizeStream(stream))
            return runtime.host_ns

        holder = Outcome(runtime, lambda: finish(acl.HostThread(work)))
        entered.wait()
        finish(acl.LaunchKernel(A, 1, (), stream))
        queued = runtime.host_ns
        waiter = Outcome(runtime, lambda: finish(acl.SynchronizeStream(stream)))
        until_somebody_waits(runtime)
        called.set()
        assert holder.outcome() == queued + 2 * 300  # for the calls that wait; the kernel ends later
        waiter.outcome()
        assert runtime.host_ns == queued + 10_000 + 2_000


def test_a_runtime_that_ends_takes_nobody_with_it():
    with program("acl") as runtime:
        stream, _ = stuck_stream()
        waiter = Outcome(runtime, lambda: finish(acl.SynchronizeStream(stream)))
        until_somebody_waits(runtime)
        finish(acl_py.DestroyStreamForce(finish(acl.CreateStream())))
        with runtime.bridge.lock:
            finish(acl_py.StreamAbort(stuck_stream()[0]))
            runtime.close("closed meanwhile")
        with pytest.raises(acl.AclError, match="closed meanwhile; end the threads before"):
            waiter.outcome()
        stream.context.device.abort(
            stream, acl.AclError(acl.Kind.UNKNOWN, runtime.rules.codes[acl.Kind.UNKNOWN], "over")
        )


@acl.kernel(cost=acl.Cost(us=50))
def add(x: acl.InOut, by: int):
    x += by


class Count(Observer):
    """Counts operations that have ended."""

    ended = 0

    def op_ended(self, op):
        self.ended += 1


def stress(threads, rounds, seed):
    """Every thread has memory and a stream of its own, all share one more of each; what comes out is known."""
    size, count = 64, Count()
    with program() as runtime:
        runtime.hooks.add(count)
        shared_stream, shared = finish(acl.CreateStream()), acl.Array(finish(acl.Malloc(8 * size)), np.int64)
        finish(acl_py.MemsetAsync(shared.buffer, shared.buffer.nbytes, 0, shared.buffer.nbytes, shared_stream))
        finish(acl.SynchronizeDevice())

        def work(number):
            chance = random.Random(f"{seed} {number}")
            stream, event = finish(acl.CreateStream()), finish(acl.CreateEvent())
            host, device = finish(acl.MallocHost(8 * size)), acl.Array(finish(acl.Malloc(8 * size)), np.int64)
            ours = host.numpy(np.int64)
            ours[:] = number
            expected, given, queued = ours.copy(), 0, 0
            finish(acl.MemcpyAsync(device.buffer, 8 * size, host, 8 * size, acl.MemcpyKind.HOST_TO_DEVICE, stream))
            queued += 1
            for _ in range(rounds):
                what = chance.randrange(6)
                if what <= 1:
                    by = chance.randrange(100)
                    finish(acl.LaunchKernel(add, 1, (device, by), stream))
                    expected += by
                    queued += 1
                elif what == 2:
                    by = chance.randrange(100)
                    finish(acl.LaunchKernel(add, 1, (shared, by), shared_stream))
                    given += by
                    queued += 1
                elif what == 3:
                    finish(acl.RecordEvent(event, stream))
                    finish(acl.StreamWaitEvent(shared_stream, event))
                elif what == 4:
                    finish(
                        acl.MemcpyAsync(host, 8 * size, device.buffer, 8 * size, acl.MemcpyKind.DEVICE_TO_HOST, stream)
                    )
                    queued += 1
                    finish(acl.SynchronizeStream(stream))
                    assert (ours == expected).all()
                else:
                    finish(acl.Sleep(chance.randrange(30_000_000)))
            finish(acl.SynchronizeStream(stream))
            return given, queued

        results = [thread.outcome() for thread in [Outcome(runtime, work, number) for number in range(threads)]]
        finish(acl.SynchronizeDevice())
        out = finish(acl.MallocHost(8 * size))
        finish(acl_py.Memcpy(out, 8 * size, shared.buffer, 8 * size, acl.MemcpyKind.DEVICE_TO_HOST))
        total = sum(given for given, _ in results)
        assert (out.numpy(np.int64) == total).all()
        queued = sum(queued for _, queued in results)
        assert count.ended == queued + 2  # the first fill and the last copy
        return runtime.host_ns, queued


def test_many_threads_for_an_hour_of_simulated_time():
    host_ns, queued = stress(threads=8, rounds=200, seed=1)
    assert host_ns > 3_600 * 10**9
    assert queued > 500


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_many_threads_for_a_day_of_simulated_time(seed):
    host_ns, _ = stress(threads=16, rounds=4_000, seed=seed)
    assert host_ns > 24 * 3_600 * 10**9


# --- event loops in threads


async def _mixed(seed):
    """Tasks that compute and wait for one another; the history is a function of the seed alone."""
    sim, log, chance = acl.current_simulation(), [], random.Random(seed)
    events = [await acl.CreateEvent() for _ in range(4)]
    queue = asyncio.Queue(2)

    async def task(number):
        stream = await acl.CreateStream()
        for _ in range(30):
            await acl.LaunchKernel(busy(f"k{number}", chance.randrange(1, 50)), 1, (), stream)
            await acl.RecordEvent(events[number], stream)
            await acl.StreamWaitEvent(stream, events[chance.randrange(4)])
            if chance.random() < 0.3:
                await (queue.put(number) if number % 2 else asyncio.sleep(0))
            if number == 0 and not queue.empty():
                queue.get_nowait()
            if chance.random() < 0.5:
                await acl.SynchronizeStream(stream)
            log.append((number, sim.now_ns))

    async def drain():
        while True:
            log.append(("got", await queue.get()))

    drainer = asyncio.create_task(drain())
    await asyncio.gather(*map(task, range(4)))
    drainer.cancel()
    return log, [(op.name, op.start_ns, op.end_ns) for op in sim.trace.ops]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("uvloop", [False, True], ids=["asyncio", "uvloop"])
def test_a_simulation_in_each_of_two_threads_is_as_it_is_alone(uvloop):
    def run(seed):
        return acl_py.run(_mixed, seed, device="tiny", workers=1, uvloop=uvloop)

    alone = [run(seed) for seed in range(4)]
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(run, range(4))) == alone


def test_a_hang_in_the_loop_of_a_thread_that_is_joined_is_certain():
    async def main():
        stream, event = await acl.CreateStream(), await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
        await acl.StreamWaitEvent(stream, event)
        with pytest.raises(acl.DeadlockError):
            await acl.SynchronizeStream(stream)
        return "told"

    told = []
    thread = threading.Thread(target=lambda: told.append(acl_py.run(main, device="tiny", rules="acl")))
    thread.start()
    thread.join()
    assert told == ["told"]


def test_a_wait_in_the_loop_of_a_foreign_thread_is_refused():
    """to_thread() hands the context variables on, and the simulation with them."""

    async def main():
        await acl.LaunchKernel(A, 1, ())
        with pytest.raises(RuntimeError, match=r"belongs to the event loop of another: .*run_coroutine_threadsafe"):
            await asyncio.to_thread(asyncio.run, acl.SynchronizeDevice())

        def ask():
            return asyncio.run_coroutine_threadsafe(acl.GetDevice(), loop).result()

        loop = asyncio.get_running_loop()
        assert await asyncio.to_thread(ask) == 0
        await acl.SynchronizeDevice()

    acl_py.run(main, device="tiny", workers=1)
