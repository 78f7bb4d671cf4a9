"""Host callbacks through the module: who runs them, when, and what waits."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
from card import D2H, done, made, module, now, work

import acl_py
from acl_py import DeadlockError
from acl_py.runtime.blocking import finish

NO_BLOCK, BLOCK = 0, 1


@contextmanager
def report_thread(acl, *streams, by="start_thread"):
    """A thread in the manner of the vendor's samples: it processes reports until it is told to stop."""
    context, running = made(acl.rt.get_context()), [True]

    def loop(timeout):
        assert acl.rt.set_context(context) == 0
        while running[0]:
            acl.rt.process_report(timeout)

    if by == "start_thread":
        tid = made(acl.util.start_thread(loop, 100))
    else:
        thread = threading.Thread(target=loop, args=(100,))
        thread.start()
        tid = thread.ident
    for stream in streams:
        done(acl.rt.subscribe_report(tid, stream))
    try:
        yield tid
    finally:
        for stream in streams:
            acl.rt.unsubscribe_report(tid, stream)
        running[0] = False
        if by == "start_thread":
            done(acl.util.stop_thread(tid))
        else:
            thread.join()


def here():
    return threading.get_ident()


# --- launching


@pytest.mark.parametrize("block", [NO_BLOCK, BLOCK])
def test_an_unsubscribed_stream_takes_no_callback_whatever_the_block_flag(acl, block):
    stream = made(acl.rt.create_stream())
    assert acl.rt.launch_callback(print, None, block, stream) == 107015
    done(acl.rt.subscribe_report(here(), stream))
    done(acl.rt.launch_callback(lambda _: None, None, block, stream), acl.rt.process_report(-1))
    done(acl.rt.unsubscribe_report(here(), stream))
    assert acl.rt.launch_callback(print, None, block, stream) == 107015


@pytest.mark.parametrize("by", ["start_thread", "threading"])
def test_a_callback_runs_in_the_subscribed_thread_with_exactly_one_argument(acl, by):
    stream, seen = made(acl.rt.create_stream()), []
    with report_thread(acl, stream, by=by) as tid:
        done(acl.rt.launch_callback(lambda *args: seen.append((args, here())), ["data", 1], BLOCK, stream))
        done(acl.rt.synchronize_stream(stream))
    assert seen == [((["data", 1],), tid)]


def test_the_default_stream_can_be_subscribed(acl):
    done(acl.rt.subscribe_report(here(), 0))
    seen = []
    done(acl.rt.launch_callback(seen.append, 7, BLOCK, 0), acl.rt.process_report(-1), acl.rt.synchronize_stream(0))
    assert seen == [7]


# --- who has subscribed


def test_one_thread_per_stream(acl):
    stream = made(acl.rt.create_stream())
    done(acl.rt.subscribe_report(here(), stream))
    assert acl.rt.subscribe_report(here(), stream) == 107011
    assert acl.rt.subscribe_report(here() + 1, stream) == 107011
    done(acl.rt.unsubscribe_report(here(), stream), acl.rt.subscribe_report(here(), stream))


def test_many_streams_of_one_device_per_thread(acl):
    seen, streams = [], [made(acl.rt.create_stream()) for _ in range(4)]
    for stream in streams:
        done(acl.rt.subscribe_report(here(), stream))
        done(acl.rt.launch_callback(seen.append, stream, NO_BLOCK, stream))
    done(*(acl.rt.process_report(-1) for _ in streams))
    assert seen == streams
    done(acl.rt.set_device(1))
    assert acl.rt.subscribe_report(here(), made(acl.rt.create_stream())) != 0  # of another device


def test_a_thread_that_has_not_subscribed_cannot_process_reports(acl):
    assert acl.rt.process_report(100) == 107012
    done(acl.rt.subscribe_report(here() + 1, 0))  # somebody else has
    assert acl.rt.process_report(100) == 107012


def test_unsubscribing_what_was_not_subscribed(acl):
    assert acl.rt.unsubscribe_report(here(), 0) == 107012
    done(acl.rt.subscribe_report(here(), 0))
    assert acl.rt.unsubscribe_report(here() + 1, 0) == 107012


# --- process_report


@pytest.mark.parametrize("timeout", [0, -2, -100])
def test_process_report_takes_minus_1_or_more_than_0(acl, timeout):
    done(acl.rt.subscribe_report(here(), 0))
    assert acl.rt.process_report(timeout) == 100000


def test_nothing_within_the_time_limit(acl):
    done(acl.rt.subscribe_report(here(), 0))
    begin = now()
    assert acl.rt.process_report(100) == 507012
    assert now() - begin == pytest.approx(100_000_000, abs=10_000)


def test_process_report_gives_one_callback_at_a_time_in_order(acl):
    seen = []
    done(acl.rt.subscribe_report(here(), 0))
    for number in range(3):
        done(acl.rt.launch_callback(seen.append, number, NO_BLOCK, 0))
    for count in range(3):
        done(acl.rt.process_report(-1))
        assert seen == list(range(count + 1))


# --- what waits


def test_the_vendors_unit_test_of_a_blocking_callback_of_two_seconds(acl):
    """A callback of two seconds of simulated host work; the synchronisation takes as long."""
    stream = made(acl.rt.create_stream())
    with report_thread(acl, stream):
        begin = now()
        done(acl.rt.launch_callback(lambda _: finish(acl_py.HostWork(2_000_000)), None, BLOCK, stream))
        done(acl.rt.synchronize_stream(stream))
        assert now() - begin == pytest.approx(2e9, abs=1e7)


@pytest.mark.parametrize(("block", "waits"), [(BLOCK, True), (NO_BLOCK, False)])
def test_later_tasks_wait_for_a_blocking_callback_only(acl, block, waits):
    stream, seen = made(acl.rt.create_stream()), []
    done(acl.rt.subscribe_report(here(), stream))
    before = work("before", 10, stream)

    def callback(data):
        seen.append((data, before.done))
        finish(acl_py.HostWork(100))

    done(acl.rt.launch_callback(callback, "data", block, stream))
    after = work("after", 10, stream)
    done(acl.rt.process_report(-1), acl.rt.synchronize_stream(stream))
    assert seen == [("data", True)]
    assert (after.start_ns - before.end_ns >= 100_000) is waits


def test_callbacks_without_block_keep_their_order_among_themselves(acl):
    stream, seen = made(acl.rt.create_stream()), []
    with report_thread(acl, stream):
        for number in range(8):
            work("some", 10, stream)
            done(acl.rt.launch_callback(seen.append, number, number % 2, stream))
        done(acl.rt.synchronize_stream(stream))
        acl.rt.synchronize_device()
    assert seen == list(range(8))


def test_a_blocking_callback_that_nobody_runs_is_a_deadlock(acl):
    stream = made(acl.rt.create_stream())
    done(acl.rt.subscribe_report(here(), stream), acl.rt.launch_callback(print, None, BLOCK, stream))
    with pytest.raises(DeadlockError, match="callback print"):
        acl.rt.synchronize_stream(stream)


# --- what a callback may do


def test_a_callback_may_copy_and_free_as_the_vendors_resnet50_sample_does(acl):
    n, stream, results = 64, made(acl.rt.create_stream()), []
    device = made(acl.rt.malloc(n, 0))
    done(acl.rt.memset(device, n, 7, n))

    def callback(addresses):
        for address in addresses:
            host = made(acl.rt.malloc_host(n))
            done(acl.rt.memcpy(host, n, address, n, D2H))
            results.append(set(acl.util.ptr_to_bytes(host, n)))
            done(acl.rt.free_host(host), acl.rt.free(address))

    with report_thread(acl, stream):
        done(acl.rt.launch_callback(callback, [device], BLOCK, stream), acl.rt.synchronize_stream(stream))
    assert results == [{7}]
    assert acl.rt.free(device) == 107000  # it is gone


def test_an_exception_in_a_callback_is_only_logged(acl, capsys):
    stream, seen = made(acl.rt.create_stream()), []
    done(acl.rt.subscribe_report(here(), stream))
    done(acl.rt.launch_callback(lambda _: 1 / 0, None, BLOCK, stream))
    done(acl.rt.launch_callback(seen.append, "next", BLOCK, stream))
    done(acl.rt.process_report(-1), acl.rt.process_report(-1), acl.rt.synchronize_stream(stream))
    assert seen == ["next"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_callback_sees_arrays_that_are_filled_by_then(acl):
    n, stream = 64, made(acl.rt.create_stream())
    device, host = made(acl.rt.malloc(n, 0)), made(acl.rt.malloc_host(n))
    view, seen = acl.util.ptr_to_numpy(host, (n,), 2), []
    view[:] = 0
    done(acl.rt.memset_async(device, n, 9, n, stream), acl.rt.memcpy_async(host, n, device, n, D2H, stream))
    with report_thread(acl, stream):
        done(acl.rt.launch_callback(lambda array: seen.append(array.copy()), view, NO_BLOCK, stream))
        done(acl.rt.synchronize_stream(stream))
        acl.rt.launch_callback(lambda _: None, None, BLOCK, stream)
        done(acl.rt.synchronize_stream(stream))
    (array,) = seen
    assert (array == np.full(n, 9)).all()


def test_an_ended_session_ends_the_wait_of_its_report_threads():
    answers = []
    with module() as acl:
        context = made(acl.rt.get_context())

        def loop():
            acl.rt.set_context(context)
            answers.append(acl.rt.process_report(-1))

        thread = threading.Thread(target=loop)
        thread.start()
        done(acl.rt.subscribe_report(thread.ident, 0))
    thread.join(30)
    assert not thread.is_alive()
