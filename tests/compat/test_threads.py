"""Several threads and one `acl`: contexts, waits that other threads end, callbacks, and calls at the same time."""

import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from card import D2H, H2D, broken, content, done, launch, made, module, work

from acl_py import DeadlockError

N = 256


@pytest.fixture(autouse=True)
def often():
    """Threads take turns much more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_thread(function, *args):
    """What *function* gives, or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result(30)


def at_once(count, function):
    """What *function* gives in *count* threads that start together, called with their numbers."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait(30)
        return function(number)

    with ThreadPoolExecutor(count) as pool:
        return [each.result(60) for each in [pool.submit(run, number) for number in range(count)]]


@contextmanager
def report_thread(acl, stream, timeout=100):
    """A thread that runs the callbacks of *stream*, in the manner of the vendor's samples."""
    context, running = made(acl.rt.get_context()), [True]

    def loop(args):
        (ms,) = args
        done(acl.rt.set_context(context))
        while running[0]:
            acl.rt.process_report(ms)

    tid = made(acl.util.start_thread(loop, [timeout]))
    done(acl.rt.subscribe_report(tid, stream))
    yield tid
    running[0] = False
    done(acl.rt.unsubscribe_report(tid, stream), acl.util.stop_thread(tid))


# --- contexts


def test_a_new_thread_has_no_context_until_it_sets_one(acl):
    context, stream = made(acl.rt.get_context()), made(acl.rt.create_stream())

    def without():
        return [
            acl.rt.get_context(), acl.rt.get_device(), acl.rt.create_stream(), acl.rt.create_event(),
            acl.rt.malloc(N, 0), acl.rt.synchronize_stream(stream), acl.rt.synchronize_stream(0),
            acl.rt.synchronize_device(),
        ]  # fmt: skip

    rets = [answer[-1] if isinstance(answer, tuple) else answer for answer in in_thread(without)]
    assert rets == [107002] * len(rets)

    def with_context():
        done(acl.rt.set_context(context))
        return acl.rt.get_context(), acl.rt.synchronize_stream(stream)

    def with_device():
        done(acl.rt.set_device(0))
        return acl.rt.get_context(), acl.rt.synchronize_stream(stream)

    def with_one_of_its_own():
        mine = made(acl.rt.create_context(0))
        return acl.rt.get_context() == (mine, 0), mine != context, acl.rt.synchronize_stream(stream)

    assert in_thread(with_context) == in_thread(with_device) == ((context, 0), 0)
    assert in_thread(with_one_of_its_own) == (True, True, 107003)
    assert acl.rt.get_context() == (context, 0)  # this thread's is still the same


def test_functions_that_need_no_context_work_in_a_new_thread(acl):
    def calls():
        return acl.rt.get_device_count(), acl.rt.get_run_mode(), acl.rt.peek_at_last_error(0), acl.get_recent_err_msg()

    assert in_thread(calls) == ((2, 0), (1, 0), 0, None)


def test_each_thread_may_use_a_device_of_its_own(acl):
    def use(device):
        done(acl.rt.set_device(device))
        stream, address = made(acl.rt.create_stream()), made(acl.rt.malloc(N, 0))
        done(acl.rt.memset_async(address, N, device + 1, N, stream), acl.rt.synchronize_stream(stream))
        answer = acl.rt.get_device(), set(content(acl, address, N))
        done(acl.rt.free(address), acl.rt.destroy_stream(stream), acl.rt.reset_device(device))
        return answer

    assert at_once(2, use) == [((0, 0), {1}), ((1, 0), {2})]


def test_the_last_error_and_its_message_are_each_threads_own(acl):
    assert acl.rt.free(0) == 100000

    def other():
        before = acl.rt.peek_at_last_error(0), acl.get_recent_err_msg()
        return before, acl.rt.synchronize_stream(0), acl.rt.get_last_error(0)

    assert in_thread(other) == ((0, None), 107002, 107002)
    assert acl.rt.get_last_error(0) == 100000
    assert "100000" in acl.get_recent_err_msg()


# --- acl.util.start_thread


def test_start_thread_gives_the_number_that_the_thread_knows_itself_by(acl):
    seen = []
    tid = made(acl.util.start_thread(lambda args: seen.append((args, threading.get_ident())), ["a", 1]))
    done(acl.util.stop_thread(tid))
    assert seen == [(["a", 1], tid)]


def test_start_thread_without_arguments_calls_without_arguments(acl):
    seen = []
    done(acl.util.stop_thread(made(acl.util.start_thread(lambda: seen.append("called"), None))))
    assert seen == ["called"]


def test_stop_thread_joins(acl):
    go, seen = threading.Event(), []

    def function():
        go.wait(30)
        seen.append("the end")

    tid = made(acl.util.start_thread(function, None))
    threading.Timer(0.05, go.set).start()
    done(acl.util.stop_thread(tid))
    assert seen == ["the end"]


def test_stop_thread_raises_what_the_function_raised_as_text(acl):
    tid = made(acl.util.start_thread(lambda: 1 / 0, None))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        acl.util.stop_thread(tid)


def test_stop_thread_of_what_was_not_started(acl):
    tid = made(acl.util.start_thread(lambda: None, None))
    done(acl.util.stop_thread(tid))
    assert acl.util.stop_thread(tid) != 0
    assert acl.util.stop_thread(12345) != 0


# --- waits that another thread's callback ends


@pytest.mark.parametrize("timeout", [100, -1, 1])
def test_a_report_thread_may_poll_or_wait_for_ever(acl, timeout):
    stream, seen = made(acl.rt.create_stream()), []
    if timeout > 0:
        with report_thread(acl, stream, timeout):
            for number in range(5):
                done(acl.rt.launch_callback(seen.append, number, 1, stream))
            done(acl.rt.synchronize_stream(stream))
    else:
        context = made(acl.rt.get_context())

        def loop():
            done(acl.rt.set_context(context))
            while len(seen) < 5:  # 107012 until it has subscribed
                acl.rt.process_report(-1)

        tid = made(acl.util.start_thread(loop, None))
        done(acl.rt.subscribe_report(tid, stream))
        for number in range(5):
            done(acl.rt.launch_callback(seen.append, number, 1, stream))
        done(acl.rt.synchronize_stream(stream), acl.util.stop_thread(tid))
    assert seen == list(range(5))


WAITS = {
    "synchronize_stream": lambda acl, s: acl.rt.synchronize_stream(s.stream),
    "synchronize_stream_with_timeout": lambda acl, s: acl.rt.synchronize_stream_with_timeout(s.stream, -1),
    "synchronize_device": lambda acl, s: acl.rt.synchronize_device(),
    "synchronize_device_with_timeout": lambda acl, s: acl.rt.synchronize_device_with_timeout(-1),
    "synchronize_event": lambda acl, s: acl.rt.synchronize_event(s.event),
    "synchronize_event_with_timeout": lambda acl, s: acl.rt.synchronize_event_with_timeout(s.event, -1),
    "destroy_stream": lambda acl, s: acl.rt.destroy_stream(s.stream),
    "memcpy_async of pageable memory": lambda acl, s: acl.rt.memcpy_async(s.device, N, s.pageable, N, H2D, s.stream),
    "memcpy": lambda acl, s: acl.rt.memcpy(s.pageable, N, s.device, N, D2H),
    "malloc": lambda acl, s: acl.rt.malloc(N, 0)[1],
    "free": lambda acl, s: acl.rt.free(s.device),
    "a full stream": lambda acl, s: max(acl.rt.memset_async(s.device, N, 1, N, s.stream) for _ in range(17)),
    "reset_device": lambda acl, s: acl.rt.reset_device(0) or acl.rt.set_device(0),
}


class Scene:
    """A stream with a blocking callback, an event behind it, and memory."""

    def __init__(self, acl):
        self.stream, self.event = made(acl.rt.create_stream()), made(acl.rt.create_event())
        self.device, self.array = made(acl.rt.malloc(N, 0)), np.zeros(N, np.uint8)
        self.pageable = self.array.ctypes.data
        self.seen = []


@pytest.mark.parametrize("name", WAITS)
def test_no_blocking_call_keeps_the_callback_from_running_that_would_end_it(acl, name):
    scene = Scene(acl)
    context, over = made(acl.rt.get_context()), threading.Event()

    def loop():
        done(acl.rt.set_context(context))
        while not over.is_set():
            acl.rt.process_report(50)

    tid = made(acl.util.start_thread(loop, None))
    try:
        done(acl.rt.subscribe_report(tid, scene.stream))
        done(acl.rt.launch_callback(lambda _: scene.seen.append(1), None, 1, scene.stream))
        done(acl.rt.record_event(scene.event, scene.stream))
        done(WAITS[name](acl, scene))
        if name not in ("destroy_stream", "reset_device"):
            done(acl.rt.synchronize_stream(scene.stream))
        if name != "reset_device":
            assert scene.seen == [1]
    finally:
        over.set()
        acl.util.stop_thread(tid)


def test_a_callback_that_wakes_the_main_thread_by_other_means(acl):
    stream, results = made(acl.rt.create_stream()), queue.Queue()
    with report_thread(acl, stream):
        for number in range(10):
            work("some", 10, stream)
            done(acl.rt.launch_callback(results.put, number, 0, stream))
        assert [results.get(timeout=30) for _ in range(10)] == list(range(10))


def test_a_callback_may_launch_the_next_one_and_queue_work(acl):
    stream, device, seen = made(acl.rt.create_stream()), made(acl.rt.malloc(N, 0)), []
    over = threading.Event()

    def callback(left):
        seen.append(left)
        if left:
            done(acl.rt.memset_async(device, N, left, N, stream))
            done(acl.rt.launch_callback(callback, left - 1, 0, stream))
        else:
            over.set()

    with report_thread(acl, stream):
        done(acl.rt.launch_callback(callback, 3, 0, stream))
        assert over.wait(30)
        done(acl.rt.synchronize_stream(stream))
    assert (seen, set(content(acl, device, N))) == ([3, 2, 1, 0], {1})


def test_a_callback_that_synchronises_its_own_stream_from_within_is_told_of_the_deadlock(acl):
    stream = made(acl.rt.create_stream())
    done(acl.rt.subscribe_report(threading.get_ident(), stream))
    seen = []

    def callback(_):
        with pytest.raises(DeadlockError):
            acl.rt.synchronize_stream(stream)
        seen.append("told")

    done(acl.rt.launch_callback(callback, None, 1, stream), acl.rt.process_report(-1))
    assert seen == ["told"]


def test_callbacks_of_several_streams_and_threads(acl):
    streams = [made(acl.rt.create_stream()) for _ in range(4)]
    context, running, seen = made(acl.rt.get_context()), [True], []

    def loop(_):
        done(acl.rt.set_context(context))
        while running[0]:
            acl.rt.process_report(10)

    tids = [made(acl.util.start_thread(loop, number)) for number in range(2)]
    for number, stream in enumerate(streams):
        done(acl.rt.subscribe_report(tids[number % 2], stream))
    for turn in range(10):
        for number, stream in enumerate(streams):
            callback = lambda data: seen.append((*data, threading.get_ident()))  # noqa: E731
            done(acl.rt.launch_callback(callback, (number, turn), turn % 2, stream))
    for stream in streams:
        done(acl.rt.launch_callback(lambda _: None, None, 1, stream), acl.rt.synchronize_stream(stream))
    running[0] = False
    done(*map(acl.util.stop_thread, tids))
    for number in range(4):
        assert [row[1:] for row in seen if row[0] == number] == [(turn, tids[number % 2]) for turn in range(10)]


def test_other_threads_may_call_while_a_callback_runs(acl):
    """The callback waits for what the main thread does through the module meanwhile."""
    stream, started, go = made(acl.rt.create_stream()), threading.Event(), threading.Event()
    seen = []

    def callback(_):
        started.set()
        seen.append(go.wait(30))

    with report_thread(acl, stream):
        done(acl.rt.launch_callback(callback, None, 1, stream))
        assert started.wait(30)
        address, other = made(acl.rt.malloc(N, 0)), made(acl.rt.create_stream())
        done(acl.rt.memset_async(address, N, 3, N, other), acl.rt.synchronize_stream(other))
        assert set(content(acl, address, N)) == {3}
        assert acl.rt.stream_query(stream) == (1, 0)
        go.set()
        done(acl.rt.synchronize_stream(stream))
    assert seen == [True]


def test_a_wait_with_a_limit_for_a_callback_that_takes_longer(acl):
    stream, event, go = made(acl.rt.create_stream()), made(acl.rt.create_event()), threading.Event()
    with report_thread(acl, stream):
        done(acl.rt.launch_callback(lambda _: go.wait(30), None, 1, stream), acl.rt.record_event(event, stream))
        assert acl.rt.synchronize_stream_with_timeout(stream, 20) == 507046
        assert acl.rt.synchronize_event_with_timeout(event, 20) == 507047
        assert acl.rt.synchronize_device_with_timeout(20) == 507046
        go.set()
        done(acl.rt.synchronize_stream_with_timeout(stream, 60_000))


@pytest.mark.parametrize("how", ["stream_query", "query_event", "query_event_status"])
def test_a_loop_of_queries_ends_when_a_callback_in_another_thread_is_over(acl, how):
    stream, event, seen = made(acl.rt.create_stream()), made(acl.rt.create_event()), []
    with report_thread(acl, stream):
        done(acl.rt.launch_callback(seen.append, 1, 1, stream), acl.rt.record_event(event, stream))
        if how == "stream_query":
            while acl.rt.stream_query(stream) != (0, 0):
                pass
        elif how == "query_event":
            while acl.rt.query_event(event) != (0, 0):
                pass
        else:
            while acl.rt.query_event_status(event) != (1, 0):
                pass
    assert seen == [1]


def test_a_loop_of_queries_that_nothing_can_end_is_told():
    with module(hang_after=0.1) as acl:
        event = made(acl.rt.create_event())  # never recorded

        def poll():
            while acl.rt.query_event_status(event) == (0, 0):
                pass

        with pytest.raises(DeadlockError):
            poll()


def test_an_exception_callback_may_make_calls(acl):
    stream, other, seen = made(acl.rt.create_stream()), made(acl.rt.create_stream()), []

    def callback(info):
        address = made(acl.rt.malloc(N, 0))
        done(acl.rt.memset(address, N, 1, N), acl.rt.synchronize_stream(other))
        seen.append((acl.rt.get_error_code_from_exception_info(info), set(content(acl, address, N))))

    done(acl.rt.set_exception_info_callback(callback))
    launch(broken, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    assert seen == [(507035, {1})]


# --- waits that another thread's call ends


def test_a_wait_for_a_record_that_another_thread_makes_later(acl):
    context, stream = made(acl.rt.get_context()), made(acl.rt.create_stream())
    event, device = made(acl.rt.create_event_with_flag(1)), made(acl.rt.malloc(N, 0))
    done(acl.rt.stream_wait_event(stream, event), acl.rt.memset_async(device, N, 5, N, stream))

    def record():
        done(acl.rt.set_context(context), acl.rt.record_event(event, 0))

    timer = threading.Timer(0.05, record)
    timer.start()
    done(acl.rt.synchronize_stream(stream))
    timer.join()
    assert set(content(acl, device, N)) == {5}


def test_two_threads_wait_for_the_same_stream(acl):
    context, stream = made(acl.rt.get_context()), made(acl.rt.create_stream())
    ops = [work("long", 1_000, stream) for _ in range(3)]

    def wait(_):
        return acl.rt.set_context(context), acl.rt.synchronize_stream(stream), all(op.done for op in ops)

    assert at_once(4, wait) == [(0, 0, True)] * 4


def test_threads_that_hand_buffers_to_each_other(acl):
    """A pipeline of three threads: one fills, one adds on the device, one reads."""
    context, filled, copied, results = made(acl.rt.get_context()), queue.Queue(2), queue.Queue(2), []

    def fill():
        done(acl.rt.set_context(context))
        for number in range(1, 11):
            address = made(acl.rt.malloc(N, 0))
            done(acl.rt.memset(address, N, number, N))
            filled.put(address)
        filled.put(None)

    def copy():
        done(acl.rt.set_context(context))
        stream = made(acl.rt.create_stream())
        while (address := filled.get(timeout=30)) is not None:
            other = made(acl.rt.malloc(N, 0))
            done(acl.rt.memcpy_async(other, N, address, N, 3, stream), acl.rt.synchronize_stream(stream))
            done(acl.rt.free(address))
            copied.put(other)
        copied.put(None)
        done(acl.rt.destroy_stream(stream))

    def read():
        done(acl.rt.set_context(context))
        while (address := copied.get(timeout=30)) is not None:
            results.append(set(content(acl, address, N)))
            done(acl.rt.free(address))

    free = made(acl.rt.get_mem_info(1))
    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(function) for function in (fill, copy, read)]:
            each.result(60)
    assert results == [{number} for number in range(1, 11)]
    assert made(acl.rt.get_mem_info(1)) == free


# --- hangs are found, whoever waits


def test_a_report_thread_that_waits_for_ever_while_the_main_thread_joins_it_is_told(acl):
    tid_known = threading.Event()

    def loop():
        done(acl.rt.set_device(0))
        tid_known.wait(30)
        acl.rt.process_report(-1)

    tid = made(acl.util.start_thread(loop, None))
    done(acl.rt.subscribe_report(tid, 0))
    tid_known.set()
    with pytest.raises(RuntimeError, match="DeadlockError"):
        acl.util.stop_thread(tid)


def test_a_callback_whose_report_thread_is_gone_is_a_deadlock(acl):
    stream = made(acl.rt.create_stream())
    tid = made(acl.util.start_thread(lambda: None, None))
    done(acl.rt.subscribe_report(tid, stream), acl.util.stop_thread(tid))
    done(acl.rt.launch_callback(print, None, 1, stream))
    with pytest.raises(DeadlockError, match="callback print"):
        acl.rt.synchronize_stream(stream)


def test_two_threads_that_wait_for_each_other_are_both_told(acl):
    context, flags = made(acl.rt.get_context()), [made(acl.rt.create_event_with_flag(1)) for _ in range(2)]
    told = []

    def wait(number):
        done(acl.rt.set_context(context))
        stream = made(acl.rt.create_stream())
        done(acl.rt.stream_wait_event(stream, flags[number]))
        try:
            acl.rt.synchronize_stream(stream)
        except DeadlockError as error:
            told.append("SynchronizeStream" in str(error))

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [True, True]


# --- many calls at the same time


def test_init_in_many_threads_succeeds_once():
    with module() as acl:
        done(acl.finalize())
        assert sorted(at_once(8, lambda _: acl.init())) == [0] + [100002] * 7


def test_one_object_has_one_handle_whoever_asks(acl):
    context = made(acl.rt.get_context())

    def ask(_):
        done(acl.rt.set_device(0))
        return [acl.rt.get_context()[0] for _ in range(50)] + [acl.rt.ctx_get_current_default_stream()[0]]

    answers = at_once(8, ask)
    assert {handle for answer in answers for handle in answer[:-1]} == {context}
    assert len({answer[-1] for answer in answers}) == 1


def test_handles_are_never_given_twice(acl):
    def make(_):
        handles = []
        done(acl.rt.set_device(0))
        for _ in range(50):
            handles += [made(acl.rt.create_event()), acl.create_data_buffer(1, 1), acl.mdl.create_dataset()]
        return handles

    handles = [handle for each in at_once(6, make) for handle in each]
    assert len(set(handles)) == len(handles) == 900


def test_every_thread_on_its_own_stream_and_memory(acl):
    """Copies there and back, with everything made and ended by eight threads at the same time."""
    context, free = made(acl.rt.get_context()), made(acl.rt.get_mem_info(1))

    def use(number):
        done(acl.rt.set_context(context))
        for turn in range(20):
            stream, event = made(acl.rt.create_stream()), made(acl.rt.create_event())
            device, pinned = made(acl.rt.malloc(N, 0)), made(acl.rt.malloc_host(N))
            data, out = bytes([number, turn]) * (N // 2), bytes(N)
            done(acl.rt.memcpy_async(device, N, acl.util.bytes_to_ptr(data), N, H2D, stream))
            done(acl.rt.memcpy_async(pinned, N, device, N, D2H, stream), acl.rt.record_event(event, stream))
            done(acl.rt.synchronize_event(event))
            done(acl.rt.memcpy(acl.util.bytes_to_ptr(out), N, pinned, N, 0))
            assert out == data
            done(acl.rt.destroy_event(event), acl.rt.destroy_stream(stream), acl.rt.free(device))
            done(acl.rt.free_host(pinned))

    at_once(8, use)
    assert made(acl.rt.get_mem_info(1)) == free


def test_a_pool_of_threads_with_the_context_of_the_main_one(acl):
    context = made(acl.rt.get_context())

    def use(value):
        address = made(acl.rt.malloc(N, 0))
        done(acl.rt.memset(address, N, value, N))
        result = set(content(acl, address, N))
        done(acl.rt.free(address))
        return result

    with ThreadPoolExecutor(4, initializer=acl.rt.set_context, initargs=(context,)) as pool:
        assert list(pool.map(use, range(40))) == [{value} for value in range(40)]


def test_a_daemon_thread_that_is_never_stopped_keeps_nobody(acl):
    ready = threading.Event()

    def loop():
        acl.rt.set_device(0)
        ready.set()
        while acl.rt.process_report(100) in (107012, 507012):  # until the session ends
            pass

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    assert ready.wait(30)
    done(acl.rt.subscribe_report(thread.ident, 0))
    done(acl.rt.synchronize_device())
    acl.rt.unsubscribe_report(thread.ident, 0)


# --- threads that wait for one another outside of the module: in a process of its own, without the tests' own signals

BEGINNING = """
import queue, sys, threading
import acl
sys.setswitchinterval(1e-6)
acl.init()
acl.rt.set_device(0)
context, _ = acl.rt.get_context()
stream, _ = acl.rt.create_stream()
timeout, over = int(sys.argv[1]), threading.Event()

def loop():
    acl.rt.set_context(context)
    while not over.is_set():
        acl.rt.process_report(timeout)

tid, _ = acl.util.start_thread(loop, None)
acl.rt.subscribe_report(tid, stream)
"""
WAITS_FOR_EVER = """
over.wait()  # and nobody launches a callback
"""
WAITS_FOR_A_LOCK = """
lock = threading.Lock()
lock.acquire()
acl.rt.launch_callback(lambda _: lock.release(), None, 1, stream)
lock.acquire()
lock.acquire()  # and nobody releases it any more
"""
WAITS_AT_A_QUEUE = """
box = queue.SimpleQueue()
acl.rt.launch_callback(box.put, None, 1, stream)
box.get()
box.get()  # and nobody puts anything into it any more
"""
HANDS_OVER = """
kind = getattr(queue, sys.argv[2])
requests, results = kind(), kind()

def serve():
    acl.rt.set_context(context)
    while (item := requests.get()) is not None:
        acl.rt.launch_callback(results.put, item, item % 2, stream)

server = threading.Thread(target=serve)
server.start()
for number in range(300):
    requests.put(number)
    assert results.get() == number
requests.put(None)
server.join()
acl.rt.launch_callback(lambda _: over.set(), None, 1, stream)
print(acl.rt.synchronize_stream(stream), acl.util.stop_thread(tid))
"""


def run_script(tmp_path, text, *args):
    script = tmp_path / "script.py"
    script.write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "acl_py", "run", str(script), *args], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("timeout", ["-1", "100"])
def test_a_main_thread_that_waits_for_a_callback_nobody_launches(tmp_path, timeout):
    """Whether its report thread waits for ever or asks again and again."""
    ended = run_script(tmp_path, BEGINNING + WAITS_FOR_EVER, timeout)
    assert ended.returncode == 3
    assert "acl.rt.process_report(" in ended.stderr


@pytest.mark.skipif(not Path("/proc/self/syscall").exists(), reason="the system does not tell who sleeps at a lock")
@pytest.mark.parametrize("waits", [WAITS_FOR_A_LOCK, WAITS_AT_A_QUEUE], ids=["lock", "queue"])
def test_a_main_thread_that_waits_for_what_no_callback_gives_it(tmp_path, waits):
    ended = run_script(tmp_path, BEGINNING + waits, "-1")
    assert ended.returncode == 3
    assert "acl.rt.process_report(" in ended.stderr
    line = len((BEGINNING + waits).splitlines())
    assert f"the main thread: script.py:{line}, in <module>" in ended.stderr


@pytest.mark.parametrize("timeout", ["-1", "100"])
@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])
def test_threads_that_wake_one_another_are_not_taken_for_a_hang(tmp_path, timeout, kind):
    ended = run_script(tmp_path, BEGINNING + HANDS_OVER, timeout, kind)
    assert (ended.returncode, ended.stdout) == (0, "0 0\n"), ended.stderr
