"""Threads of a script: waits that another thread's call ends, hangs, and many calls at the same time."""

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from card import D2H, H2D, content, done, made, module, now, work
from script_threads import N, at_once

from acl_py import DeadlockError
from acl_py.compat.acl.face.session import session
from acl_py.waiting import threads
from tests import forks

pytestmark = pytest.mark.usefixtures("often")


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


def test_a_daemon_thread_that_is_never_stopped_keeps_nobody():
    ready, over = threading.Event(), threading.Event()

    def loop():
        acl.rt.set_device(0)
        ready.set()
        while not over.is_set():
            acl.rt.process_report(100)

    thread = threading.Thread(target=loop, daemon=True)
    with module() as acl:
        thread.start()
        assert ready.wait(30)
        done(acl.rt.subscribe_report(thread.ident, 0))
        done(acl.rt.synchronize_device())
        acl.rt.unsubscribe_report(thread.ident, 0)
    assert thread.is_alive()
    over.set()  # else it would take half of the time of all further tests
    thread.join()


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
    return forks.run("-m", "acl_py", "run", script, *args)


# The hanging sample polling_thread.py is the same story as with 100; polls count as a hang only after six real seconds.
@pytest.mark.parametrize("timeout", ["-1", pytest.param("100", marks=pytest.mark.slow)])
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


FORKS = """
import os, sys
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not Path("/proc/self/syscall").exists(), reason="the system does not tell who sleeps at a lock")
def test_so_does_the_main_thread_of_a_process_that_the_script_has_forked(tmp_path):
    """Python does not know its number in the system: it has that of the first process."""
    ended = run_script(tmp_path, FORKS + BEGINNING + WAITS_FOR_A_LOCK, "-1")
    assert (ended.returncode, "acl.rt.process_report(" in ended.stderr) == (3, True)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("timeout", ["-1", "100"])
@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])
def test_threads_that_wake_one_another_are_not_taken_for_a_hang(tmp_path, timeout, kind):
    ended = run_script(tmp_path, BEGINNING + HANDS_OVER, timeout, kind)
    assert (ended.returncode, ended.stdout) == (0, "0 0\n"), ended.stderr


# --- time-outs of process_report, and the clock


def test_time_outs_of_process_report_do_not_move_the_clock(acl):
    """A report thread asks every 2 ms while the main thread does something else."""
    stream, answers, thrice = made(acl.rt.create_stream()), [], threading.Event()

    def loop(args):
        while args:
            answers.append(acl.rt.process_report(2))
            if answers.count(507012) == 3:
                thrice.set()

    args = [True]
    tid = made(acl.util.start_thread(loop, args))
    done(acl.rt.subscribe_report(tid, stream))
    before = now()
    assert thrice.wait(30)
    assert now() == before
    called = []
    done(acl.rt.launch_callback(called.append, "x", 1, stream), acl.rt.synchronize_stream(stream))
    assert called == ["x"]
    args.clear()
    done(acl.util.stop_thread(tid), acl.rt.unsubscribe_report(tid, stream))
    assert {*answers} <= {0, 507012, 107012}


@pytest.mark.slow
@pytest.mark.parametrize("step", [0.01, 0.02, 0.03, 0.04])
def test_a_wait_goes_on_when_the_time_of_a_thread_at_a_callback_is_over(acl, monkeypatch, step):
    """Whatever the clock says at each look: the thread asks for a report once, and then for none."""
    stream, asked, may_end = made(acl.rt.create_stream()), threading.Event(), threading.Event()

    def asks_once(args):
        acl.rt.process_report(args[0])
        asked.set()
        may_end.wait()

    tid = made(acl.util.start_thread(asks_once, [1]))
    done(acl.rt.subscribe_report(tid, stream))
    assert asked.wait(30)
    source, target = made(acl.rt.malloc_host(8)), made(acl.rt.malloc(8, 0))
    ticks = count()
    monkeypatch.setattr(time, "monotonic", lambda: step * next(ticks))
    for number in range(20):
        session().bridge.expect(tid)
        session().bridge.after_call.clear()  # the main thread is quick
        assert (number, acl.rt.memcpy(target, 8, source, 8, H2D)) == (number, 0)
    may_end.set()
    done(acl.util.stop_thread(tid), acl.rt.unsubscribe_report(tid, stream))


def test_what_a_call_made_due_is_done_by_its_own_thread(acl):
    """Also if the call of another thread ends first."""
    doers = []
    session().make_due(lambda: doers.append(threading.current_thread()))
    other = threading.Thread(target=lambda: made(acl.rt.get_run_mode()))
    other.start()
    other.join()
    assert doers == []
    made(acl.rt.get_run_mode())
    assert doers == [threading.current_thread()]


def test_time_in_which_a_thread_gets_no_processor_does_not_count(monkeypatch, tmp_path):
    """The system says for each thread for how long it ran, and for how long it was kept waiting, in nanoseconds."""
    (tmp_path / "7").mkdir()
    monkeypatch.setattr(threads, "_TASKS", tmp_path)
    now, fair = [100.0], threads.Fair()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def elapsed(seconds, kept_ns):
        now[0] += seconds
        (tmp_path / "7" / "schedstat").write_text(f"0 {kept_ns} 1\n", encoding="utf-8")
        return fair.elapsed(100.0)

    assert elapsed(0, 5_000_000_000) == 0  # what was before does not count either
    assert elapsed(1, 5_000_000_000) == 1
    assert elapsed(2, 6_500_000_000) == 1.5
    assert elapsed(1, 6_500_000_000) == 2.5


CALLBACKS = """\
import sys, threading, time
import acl
acl.init()
acl.rt.set_device(0)
context, _ = acl.rt.get_context()
stream, _ = acl.rt.create_stream()
runs, seen, last = [True], [], threading.Event()

def report(args):
    acl.rt.set_context(context)
    while runs:
        acl.rt.process_report(args[0])

def got(number):
    acl.rt.memcpy(host, SIZE, device, SIZE, 2)
    seen.append(number)
    if len(seen) == 10:
        last.set()

SIZE = 1 << 20
thread, _ = acl.util.start_thread(report, [5])
acl.rt.subscribe_report(thread, stream)
device, _ = acl.rt.malloc(SIZE, 0)
host, _ = acl.rt.malloc_host(SIZE)
time.sleep(float(sys.argv[1]))
for number in range(10):
    acl.rt.memcpy_async(device, SIZE, host, SIZE, 1, stream)
    acl.rt.launch_callback(got, number, int(sys.argv[2]), stream)
acl.rt.synchronize_stream(stream)
last.wait()
time.sleep(float(sys.argv[1]))
runs.clear()
acl.util.stop_thread(thread)
acl.rt.unsubscribe_report(thread, stream)
print(seen)
"""


@pytest.mark.slow
@pytest.mark.parametrize("block", [0, 1])
def test_two_runs_of_a_program_with_callbacks_print_the_same_time(run, block):
    """However long its threads wait for one another, and however many time-outs there are meanwhile."""
    ended = [run(CALLBACKS, pause, block) for pause in (0, 0.03, 0)]
    assert [each.stdout for each in ended] == [f"{[*range(10)]}\n"] * 3
    [headline] = {each.stderr.splitlines()[0] for each in ended}
    assert headline.endswith("us of simulated time")
    assert not any("failed:" in each.stderr for each in ended)
