"""When failures show through the module, and in which words."""

import threading

import pytest
from card import broken, content, done, launch, made, now, work

from acl_py import DeadlockError

CONTINUE, STOP = 0, 1


@pytest.fixture
def stream(acl):
    return made(acl.rt.create_stream())


# --- asynchronous failures


def test_an_asynchronous_call_says_only_that_it_is_issued(acl, stream):
    device, pinned = made(acl.rt.malloc(64, 0)), made(acl.rt.malloc_host(64))
    work("long", 100, stream)
    done(acl.rt.memcpy_async(device, 64, pinned, 64, 1, stream))
    done(acl.rt.free(device))
    assert acl.rt.peek_at_last_error(0) == 0  # nobody knows yet
    assert acl.rt.synchronize_stream(stream) == 507053


def test_continue_on_failure_stores_the_code_runs_later_tasks_and_tells_once(acl, stream):
    launch(broken, stream)
    later = work("later", 10, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    assert (later.done, later.error) == (True, None)
    done(acl.rt.synchronize_stream(stream))  # cleared
    work("new", 10, stream)
    done(acl.rt.synchronize_stream(stream))


@pytest.mark.parametrize("how", ["device", "event", "stream_with_timeout"])
def test_every_synchronisation_that_touches_the_stream_tells(acl, stream, how):
    event = made(acl.rt.create_event())
    launch(broken, stream)
    done(acl.rt.record_event(event, stream))
    if how == "device":
        assert acl.rt.synchronize_device() == 507035
    elif how == "event":
        assert acl.rt.synchronize_event(event) == 507035
    else:
        assert acl.rt.synchronize_stream_with_timeout(stream, 1000) == 507035
    done(acl.rt.synchronize_stream(stream))


def test_another_stream_does_not_notice(acl, stream):
    other = made(acl.rt.create_stream())
    launch(broken, stream)
    work("good", 10, other)
    done(acl.rt.synchronize_stream(other))
    assert acl.rt.synchronize_stream(stream) == 507035


def test_stop_on_failure_drops_what_remains_takes_no_new_tasks_and_the_context_with_it(acl, stream):
    other, device = made(acl.rt.create_stream()), made(acl.rt.malloc(64, 0))
    done(acl.rt.memset(device, 64, 1, 64), acl.rt.set_stream_failure_mode(stream, STOP))
    launch(broken, stream)
    done(acl.rt.memset_async(device, 64, 2, 64, stream))
    assert [acl.rt.synchronize_stream(stream), acl.rt.synchronize_stream(stream)] == [507035, 507035]  # sticky
    assert acl.rt.memset_async(device, 64, 3, 64, stream) == 507035
    assert acl.rt.memset_async(device, 64, 3, 64, other) == 507035
    done(acl.rt.reset_device(0), acl.rt.set_device(0))
    made(acl.rt.create_stream())


@pytest.mark.parametrize(("mode", "result"), [(CONTINUE, 2), (STOP, None)])
def test_the_vendors_example_of_failure_modes(acl, stream, mode, result):
    """A task fails between one that sets 1 and one that sets 2: 2 when the stream goes on."""
    device = made(acl.rt.malloc(64, 0))
    done(acl.rt.memset(device, 64, 1, 64), acl.rt.set_stream_failure_mode(stream, mode))
    launch(broken, stream)
    done(acl.rt.memset_async(device, 64, 2, 64, stream))
    assert acl.rt.synchronize_stream(stream) == 507035
    if result:
        assert set(content(acl, device, 64)) == {result}


def test_the_failure_mode_is_settable_once(acl, stream):
    done(acl.rt.set_stream_failure_mode(stream, CONTINUE), acl.rt.set_stream_failure_mode(stream, STOP))
    assert acl.rt.set_stream_failure_mode(stream, CONTINUE) == 207000
    assert acl.rt.set_stream_failure_mode(stream, 2) == 107000


def test_the_failure_mode_of_the_default_stream_can_be_set_on_an_a2(acl):
    done(acl.rt.set_stream_failure_mode(0, STOP))


# --- the last error


def test_peek_reads_and_get_reads_and_resets(acl, stream):
    launch(broken, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    assert [acl.rt.peek_at_last_error(0), acl.rt.peek_at_last_error()] == [507035, 507035]
    assert [acl.rt.get_last_error(0), acl.rt.get_last_error(0), acl.rt.peek_at_last_error(0)] == [507035, 0, 0]


def test_the_last_error_is_overwritten_by_every_failing_call(acl, stream):
    launch(broken, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    assert acl.rt.free(0) == 100000
    assert acl.rt.peek_at_last_error(0) == 100000
    assert acl.rt.synchronize_stream(0xBAD) == 107017
    assert acl.rt.get_last_error(0) == 107017


def test_a_call_that_succeeds_does_not_reset_the_last_error(acl, stream):
    assert acl.rt.free(0) == 100000
    done(acl.rt.synchronize_stream(stream))
    assert acl.rt.get_last_error(0) == 100000


def test_each_thread_has_a_last_error_of_its_own(acl):
    assert acl.rt.free(0) == 100000
    seen = []

    def other():
        acl.rt.set_device(0)
        seen.append(acl.rt.peek_at_last_error(0))
        seen.append(acl.rt.synchronize_stream(0xBAD))
        seen.append(acl.rt.get_last_error(0))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [0, 107017, 107017]
    assert acl.rt.get_last_error(0) == 100000


def test_the_recent_message_says_what_was_wrong_and_is_given_once(acl, stream):
    launch(broken, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    message = acl.get_recent_err_msg()
    assert "broken" in message
    assert acl.get_recent_err_msg() is None


# --- exception callbacks


def test_an_exception_callback_is_told_of_each_failed_task_and_the_last_one_set_wins(acl, stream):
    told = []

    def callback(info):
        told.append({
            name: getattr(acl.rt, f"get_{name}_from_exception_info")(info)
            for name in ("task_id", "stream_id", "thread_id", "device_id", "error_code")
        })  # fmt: skip

    done(acl.rt.set_exception_info_callback(lambda _: told.append("the first")))
    done(acl.rt.set_exception_info_callback(callback))
    launch(broken, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    (info,) = told
    assert info["stream_id"] == made(acl.rt.stream_get_id(stream))
    assert (info["device_id"], info["error_code"]) == (0, 507035)
    assert all(type(value) is int for value in info.values())


def test_a_query_in_which_the_task_fails_tells_too(acl, stream):
    told = []
    done(acl.rt.set_exception_info_callback(lambda _: told.append(acl.rt.stream_query(stream))))
    launch(broken, stream)
    for _ in range(100):
        if not told:
            acl.rt.stream_query(stream)
    assert len(told) == 1


@pytest.mark.parametrize("nothing", [(), (None,)])
def test_no_exception_callback_any_more(acl, stream, nothing):
    told = []
    done(acl.rt.set_exception_info_callback(told.append), acl.rt.set_exception_info_callback(*nothing))
    launch(broken, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    assert told == []


# --- time-outs of tasks


def test_op_wait_timeout_surfaces_at_the_next_sync_as_107020(acl, stream):
    event = made(acl.rt.create_event_with_flag(1))
    done(acl.rt.set_op_wait_timeout(2))
    begin = now()
    done(acl.rt.stream_wait_event(stream, event))
    op = work("later", 10, stream)
    assert acl.rt.synchronize_stream(stream) == 107020
    assert (op.done, now() - begin) == (True, pytest.approx(2e9, abs=20_000))


def test_op_wait_timeout_applies_to_waits_issued_afterwards_and_the_last_wins(acl, stream):
    event = made(acl.rt.create_event_with_flag(1))
    done(acl.rt.stream_wait_event(stream, event), acl.rt.set_op_wait_timeout(1))  # too late for that wait
    work("never", 10, stream)
    with pytest.raises(DeadlockError):
        acl.rt.synchronize_stream(stream)
    done(acl.rt.record_event(event, 0), acl.rt.synchronize_stream(stream), acl.rt.reset_event(event, 0))
    done(acl.rt.set_op_wait_timeout(5))
    begin = now()
    done(acl.rt.synchronize_stream(0), acl.rt.stream_wait_event(stream, event))
    assert acl.rt.synchronize_stream(stream) == 107020
    assert now() - begin == pytest.approx(5e9, abs=20_000)


def test_op_execute_timeout_of_a_task_that_overruns(acl, stream):
    done(acl.rt.set_op_execute_time_out(1))
    begin = now()
    work("endless", 5_000_000, stream)
    work("short", 10, stream)
    assert acl.rt.synchronize_stream(stream) in (507014, 507034)  # AI core, vector core
    assert now() - begin == pytest.approx(1e9, abs=20_000)
    done(acl.rt.set_op_execute_time_out(0))  # the maximum
    op = work("long", 5_000_000, stream)
    done(acl.rt.synchronize_stream(stream))
    assert op.error is None


# --- which layer tells of wrong arguments


def test_invalid_arguments_of_the_c_layer_are_100000_and_of_the_runtime_107000(acl):
    device = made(acl.rt.malloc(64, 0))
    of_the_c_layer = [
        acl.rt.free(0),
        acl.rt.free_host(0),
        acl.rt.memcpy(0, 64, device, 64, 2),
        acl.rt.process_report(0),
    ]
    of_the_runtime = [
        acl.rt.memcpy(device, 1, device + 8, 2, 3), acl.rt.destroy_stream(0), acl.rt.set_stream_failure_mode(0, 9),
        acl.rt.synchronize_stream_with_timeout(0, 0),
    ]  # fmt: skip
    assert (set(of_the_c_layer[:3]), set(of_the_runtime)) == ({100000}, {107000})
    assert of_the_c_layer[3] in (100000, 107012)
