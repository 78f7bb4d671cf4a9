"""What acl.rt knows of devices and tells of failures: beyond what the tests of the rows and of a vendor ask."""

import os
import threading
import time

import pytest
from card import broken, done, launch, made, module, now, work

from acl_py import DeadlockError
from acl_py.compat.acl.face.session import session
from acl_py.faults import Guard, fail


@pytest.fixture
def stream(acl):
    return made(acl.rt.create_stream())


# --- what a device is


@pytest.fixture
def card():
    with module("ascend910b3") as acl:
        yield acl


@pytest.mark.parametrize(
    ("attribute", "value"), [(101, 20), (102, 20), (201, 40), (301, 64 << 30), (302, 192 << 20), (1, None), (999, None)]
)
def test_numbers_of_a_card(card, attribute, value):
    assert card.rt.get_device_info(0, attribute) == ((0, 107000) if value is None else (value, 0))
    assert card.rt.get_device_info(99, attribute) == (0, 107001)


def test_cores_to_be_had_are_all_cores(card):
    stream = made(card.rt.create_stream())
    for kind, cores in ((0, 20), (1, 40)):
        assert card.rt.get_device_res_limit(0, kind) == (cores, 0)
        assert card.rt.get_stream_res_limit(stream, kind) == (cores, 0)
        assert card.rt.get_res_in_current_thread(kind) == (cores, 0)
    assert card.rt.get_res_in_current_thread(2) == (0, 107000)
    assert card.rt.get_stream_res_limit(0xBAD, 0) == (0, 107017)
    assert card.rt.set_stream_res_limit(stream, 0, 4) == 207000


def test_devices_have_numbers_and_names_of_their_own(card):
    uuids = [tuple(made(card.rt.device_get_uuid(device))["bytes"]) for device in range(8)]
    assert len(set(uuids)) == 8
    assert all(len(uuid) == 16 and all(0 <= byte < 256 for byte in uuid) for uuid in uuids)
    assert card.rt.device_get_uuid(0) == card.rt.device_get_uuid(0)
    assert card.rt.device_get_bare_tgid() == (os.getpid(), 0)


def test_utilisation_is_of_this_instant(acl, stream):
    total = acl.rt.get_mem_info(1)[1]
    rates = made(acl.rt.get_device_utilization_rate(0))
    assert rates == {
        "cube_utilization": 0, "vector_utilization": 0, "aicpu_utilization": 0, "memory_utilization": 0,
        "utilization_extend": 0,
    }  # fmt: skip
    half = made(acl.rt.malloc(total // 2, 0))
    work("long", 1000, stream)
    acl.rt.get_event_avail_num()  # time goes on a little
    rates = made(acl.rt.get_device_utilization_rate(0))
    assert rates["vector_utilization"] > 0
    assert rates["memory_utilization"] in (49, 50)
    done(acl.rt.synchronize_stream(stream), acl.rt.free(half))


def test_a_device_whose_context_is_lost_is_not_well(acl, stream):
    assert acl.rt.query_device_status(0) == (0, 0)
    done(acl.rt.set_stream_failure_mode(stream, 1))
    launch(broken, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    assert acl.rt.query_device_status(0) == (1, 0)


def test_peers():
    with module("ascend910b3", devices=3) as acl:
        assert acl.rt.device_can_access_peer(0, 1) == (1, 0)
        assert acl.rt.device_can_access_peer(0, 0) == (0, 0)
        assert acl.rt.device_can_access_peer(0, 3) == (0, 107001)
        assert acl.rt.device_peer_access_status(0, 1) == (0, 0)
        done(acl.rt.device_enable_peer_access(1, 0))
        assert [acl.rt.device_peer_access_status(*pair)[0] for pair in ((0, 1), (1, 0), (0, 2))] == [1, 0, 0]
        done(acl.rt.device_disable_peer_access(1))
        assert acl.rt.device_disable_peer_access(1) == 107000
        assert (acl.rt.device_enable_peer_access(0, 0), acl.rt.device_enable_peer_access(1, 1)) == (107000, 107000)


def test_parameters_are_kept_for_the_process_and_for_each_context(acl):
    assert acl.rt.get_sys_param_opt(0) == (0, 107021)
    done(acl.rt.set_sys_param_opt(0, 1))
    assert acl.rt.get_sys_param_opt(0) == (1, 0)
    assert acl.rt.ctx_get_sys_param_opt(0) == (0, 107021)
    done(acl.rt.ctx_set_sys_param_opt(0, 1))
    first, second = made(acl.rt.get_context()), made(acl.rt.create_context(0))
    assert acl.rt.ctx_get_sys_param_opt(0) == (0, 107021)
    done(acl.rt.set_context(first))
    assert acl.rt.ctx_get_sys_param_opt(0) == (1, 0)
    assert (acl.rt.set_sys_param_opt(9, 1), acl.rt.set_sys_param_opt(0, 2)) == (107000, 107000)
    done(acl.rt.destroy_context(second))


def test_overflow_is_never_told_of(acl, stream):
    status = made(acl.rt.malloc(64, 0))
    done(acl.rt.memset(status, 64, 9, 64), acl.rt.set_stream_overflow_switch(stream, 1))
    assert acl.rt.get_stream_overflow_switch(stream) == (1, 0)
    done(acl.rt.get_overflow_status(status, 64, stream), acl.rt.synchronize_stream(stream))
    out = bytes(64)
    done(acl.rt.memcpy(acl.util.bytes_to_ptr(out), 64, status, 64, 2), acl.rt.reset_overflow_status(stream))
    assert out == bytes(64)
    assert acl.rt.get_device_sat_mode() == (1, 0)
    done(acl.rt.set_device_sat_mode(0))
    assert acl.rt.get_device_sat_mode() == (0, 0)


def test_device_task_abort_drops_the_work_of_all_streams(acl, stream):
    other, begin = made(acl.rt.create_stream()), now()
    ops = [work("long", 1000, each) for each in (stream, other)]
    done(acl.rt.device_task_abort(0, 1000))
    assert [acl.rt.synchronize_stream(stream), acl.rt.synchronize_stream(other)] == [107023, 107023]
    assert all(op.done for op in ops)
    assert now() - begin < 1_000_000
    done(acl.rt.synchronize_stream(stream))


def test_the_longest_kernel(card):
    assert card.rt.get_op_execute_timeout() == (1_091_000, 0)
    assert card.rt.set_op_execute_timeout_v2(2_500) == (2_500, 0)
    assert card.rt.get_op_timeout_interval() == (1, 0)
    stream = made(card.rt.create_stream())
    work("too long", 3_000, stream)
    assert card.rt.synchronize_stream(stream) == 507034
    done(card.rt.set_op_execute_time_out(0))
    assert card.rt.get_op_execute_timeout() == (1_091_000, 0)


# --- failures


def test_an_exception_callback_is_called_when_the_call_is_over_and_may_make_calls_itself(acl, stream):
    told = []

    def on_failure(info):
        rt = acl.rt
        told.append((rt.get_task_id_from_exception_info(info), rt.get_error_code_from_exception_info(info)))
        told.append(rt.synchronize_stream(other))

    other = made(acl.rt.create_stream())
    done(acl.rt.set_exception_info_callback(on_failure))
    work("fine", 5, stream)
    launch(broken, stream)
    assert told == []
    assert acl.rt.synchronize_stream(stream) == 507035
    assert told == [(1, 507035), 0]  # the second task of its stream
    done(acl.rt.set_exception_info_callback(None))
    launch(broken, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    assert len(told) == 2


def test_an_exception_callback_that_raises_is_told_no_more(acl, stream, capsys):
    told = []

    def on_failure(info):
        told.append(info)
        raise RuntimeError("a bug in the callback")

    done(acl.rt.set_exception_info_callback(on_failure))
    for _ in range(2):
        launch(broken, stream)
        assert acl.rt.synchronize_stream(stream) == 507035
    assert len(told) == 1
    assert capsys.readouterr().err.count("RuntimeError: a bug in the callback") == 1
    assert acl.rt.get_error_code_from_exception_info(told[0]) == 0xFFFFFFFF  # it is valid only while it is called


def test_a_callback_that_waits_for_another_thread_does_not_lock_it_out(acl, stream):
    """While it runs, other threads make calls: here the one that lets it go on."""
    go, seen = threading.Event(), []
    done(acl.rt.subscribe_report(threading.get_ident(), stream))

    def callback(data):
        seen.append(data)
        assert go.wait(30)

    def other():
        while not seen:
            time.sleep(0.001)
        acl.rt.set_device(0)
        seen.append(acl.rt.create_event()[1])
        go.set()

    done(acl.rt.launch_callback(callback, "data", 1, stream))
    thread = threading.Thread(target=other)
    thread.start()
    done(acl.rt.process_report(1000))
    thread.join()
    assert seen == ["data", 0]


def test_a_hang_is_raised_with_its_chain(acl, stream):
    event = made(acl.rt.create_event_with_flag(1))
    done(acl.rt.stream_wait_event(stream, event))
    with pytest.raises(DeadlockError, match=r"SynchronizeStream\(stream 1\)(.|\n)*test_rt.py"):
        acl.rt.synchronize_stream(stream)


def test_calls_stand_in_the_trace_with_the_line_of_the_script(acl, stream):
    address = made(acl.rt.malloc(64, 0))
    done(acl.rt.memset_async(address, 64, 0, 64, stream), acl.rt.synchronize_stream(stream))
    trace = session().trace
    calls = list(trace.calls)[-2:]
    assert [call.name for call in calls] == ["MemsetAsync", "SynchronizeStream"]
    assert {call.file for call in calls} == {__file__}
    (fill,) = [op for op in trace.ops if op.kind == "fill"]
    assert fill.site.startswith("test_rt.py:")
    assert "made at test_rt.py:" in repr(session().runtime.memory.holder(address))


def test_fault_rules_strike_calls_of_the_module_by_their_native_name(acl, stream):
    with Guard(session().runtime, [fail(call="Malloc", kind="OUT_OF_MEMORY", nth=2)]):
        made(acl.rt.malloc(64, 0))
        assert acl.rt.malloc(64, 0) == (0, 207001)
    done(acl.rt.free(made(acl.rt.malloc(64, 0))))
