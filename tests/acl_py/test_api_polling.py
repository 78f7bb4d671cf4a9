"""Threads that only ask, again and again: they help nobody, and who counts on them is told so."""

import threading
from contextlib import suppress

import pytest
from test_api_threads import Outcome, program, stuck_stream, until

import acl_py as acl
from acl_py.runtime.blocking import finish
from acl_py.verbs.callbacks import subscribers_of


def poller(stream, stop):
    """Run callbacks until *stop*, as report threads do: each time for 100 ms at the longest."""
    finish(acl.SubscribeReport(threading.get_ident(), stream))
    asked = 0
    while not stop.is_set():
        asked += 1
        with suppress(acl.AclError):  # none came in time
            finish(acl.ProcessReport(100))
    return asked


@pytest.mark.slow
def test_a_thread_that_polls_for_callbacks_cannot_save_one_that_waits_for_ever():
    with program("acl") as runtime:
        heard = []
        runtime.bridge.on_hang = heard.append
        runtime.bridge.polling_s = 0.5
        stream, event = stuck_stream()
        stop = threading.Event()
        thread = Outcome(runtime, poller, finish(acl.CreateStream()), stop)
        with pytest.raises(acl.DeadlockError, match=r"the program: SynchronizeStream.*can never end") as caught:
            finish(acl.SynchronizeStream(stream))
        [note] = caught.value.__notes__
        assert "ProcessReport(100) at test_api_polling.py" in note
        assert heard[0] is caught.value
        stop.set()
        with pytest.raises(acl.DeadlockError, match=r"ProcessReport\(100\)"):
            thread.outcome()
        finish(acl.RecordEvent(event))
        finish(acl.SynchronizeStream(stream))


@pytest.mark.slow
def test_a_thread_that_polls_while_the_main_thread_joins_it_is_found():
    with program("acl") as runtime:
        runtime.bridge.polling_s = 0.5
        thread = Outcome(runtime, poller, finish(acl.CreateStream()), threading.Event())
        with pytest.raises(acl.DeadlockError, match=r"ProcessReport\(100\).* can never end"):
            thread.outcome()


def test_a_poller_whose_callbacks_still_come_is_left_alone():
    with program("acl") as runtime:
        stream, stop, ran = finish(acl.CreateStream()), threading.Event(), []
        thread = Outcome(runtime, poller, stream, stop)
        until(lambda: subscribers_of(runtime))
        for number in range(300):
            finish(acl.LaunchCallback(ran.append, number, acl.CallbackBlock.BLOCK, stream))
            finish(acl.SynchronizeStream(stream))
        stop.set()
        assert thread.outcome() >= 300
        assert ran == list(range(300))


@pytest.mark.slow
def test_a_poller_is_waited_for_as_long_as_a_third_thread_could_act():
    with program("acl") as runtime:
        stream, event = stuck_stream()
        stop, gate = threading.Event(), threading.Event()

        def late():
            gate.wait()
            stop.set()
            finish(acl.RecordEvent(event))

        third = Outcome(runtime, late)
        thread = Outcome(runtime, poller, finish(acl.CreateStream()), stop)
        threading.Timer(0.5, gate.set).start()
        finish(acl.SynchronizeStream(stream))
        third.outcome()
        assert thread.outcome() < 100
        assert not runtime.waiters
