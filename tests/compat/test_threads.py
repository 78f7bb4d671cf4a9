"""Several threads and one `acl`: contexts, waits that other threads end, callbacks, and calls at the same time."""

import queue
import threading

import numpy as np
import pytest
from card import D2H, H2D, broken, content, done, launch, made, module, work
from script_threads import N, at_once, in_thread, report_thread

import acl_py
from acl_py import DeadlockError

pytestmark = pytest.mark.usefixtures("often")


# --- functions in worker threads


@pytest.mark.parametrize(("workers", "is_worker"), [(1, False), (2, True)])
def test_an_operator_that_calls_is_refused_in_a_worker_thread_too(run, workers, is_worker):
    """The thread that has the turn waits for the worker: a call that waited for the turn would hang."""
    script = """\
        import threading
        import acl
        from acl_py.compat.acl import register_op

        @register_op("Calls")
        def calls(x):
            print(threading.current_thread().name.startswith("acl_py-worker"))
            print(acl.rt.malloc(64, 0), acl.rt.memset(source, 8, 1, 8), acl.rt.synchronize_device())
            print(acl.rt.device_get_stream_priority_range(), acl.rt.get_device())
            print(acl.get_recent_err_msg().partition(";")[0])
            print(acl.rt.pointer_get_attributes(source)[0]["location"], acl.data_type_size(0))
            return x + 1

        acl.init(), acl.rt.set_device(0)
        n = 4 << 20
        source, target = acl.rt.malloc(n, 0)[0], acl.rt.malloc(n, 0)[0]
        acl.rt.memset(source, n, 7, n)
        desc = acl.create_tensor_desc(4, [n], 2)
        data = [acl.create_data_buffer(each, n) for each in (source, target)]
        print(acl.op.execute_v2("Calls", [desc], data[:1], [desc], data[1:], 0, 0), acl.rt.synchronize_device())
        out = bytes(n)
        print(acl.rt.memcpy(acl.util.bytes_to_ptr(out), n, target, n, 2), set(out))
        """
    ran = run(script, options=("--workers", str(workers)))
    assert ran.stdout.splitlines() == [
        str(is_worker),
        "(0, 207006) 207006 207006",
        "(0, 0, 207006) (0, 207006)",
        "ACL_ERROR_RT_NO_PERMISSION (207006): acl.rt.get_device() inside <kernel Calls>",
        "{'id': 0, 'type': 1} 4",
        "0 0",
        "0 {8}",
    ]
    assert "acl.rt.malloc() at script.py" in ran.stderr


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


def test_an_exception_callback_comes_after_the_call_even_if_a_kernel_calls_meanwhile(acl):
    """The refused call of the kernel ran the callback, in the middle of the other call."""
    seen = []

    @acl_py.kernel(cost=acl_py.Cost(us=20))
    def calls():
        seen.append(("kernel", acl.rt.malloc(N, 0)))

    done(acl.rt.set_exception_info_callback(lambda _: seen.append(("callback", acl.rt.malloc(N, 0)[1]))))
    launch(broken)
    done(acl.rt.set_device(1))
    launch(calls)
    done(acl.rt.synchronize_device())
    assert seen == [("kernel", (0, 207006)), ("callback", 0)]
