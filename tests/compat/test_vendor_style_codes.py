"""The codes that a script meets first, each brought about once, and the layer that gives it: 100000 the C interface,
107000 the runtime's parameters, 207000 its resources and features, 507000 the device.
"""

import threading

import pytest
from card import broken, done, launch, made, module, work

from acl_py.codes import find

N = 64


def unsubscribed(acl):
    return acl.rt.launch_callback(print, None, 0, made(acl.rt.create_stream()))


def subscribed_twice(acl):
    done(acl.rt.subscribe_report(1, 0))
    return acl.rt.subscribe_report(2, 0)


def another_context(acl):
    stream = made(acl.rt.create_stream())
    made(acl.rt.create_context(0))
    return acl.rt.synchronize_stream(stream)


def no_context(acl):
    done(acl.rt.reset_device(0))
    return acl.rt.create_stream()


def not_complete(acl):
    event = made(acl.rt.create_event())
    work("long", 1_000)
    done(acl.rt.record_event(event, 0))
    return acl.rt.event_elapsed_time(event, event)


def never_recorded(acl):
    event = made(acl.rt.create_event())
    return acl.rt.event_elapsed_time(event, event)


def waited_in_vain(acl):
    done(acl.rt.set_op_wait_timeout(1))
    done(acl.rt.stream_wait_event(0, made(acl.rt.create_event_with_flag(1))))
    return acl.rt.synchronize_stream(0)


def ran_too_long(acl):
    done(acl.rt.set_op_execute_time_out(1))
    work("long", 2_000_000)
    return acl.rt.synchronize_stream(0)


def aborted(acl):
    stream = made(acl.rt.create_stream())
    work("long", 1_000, stream)
    done(acl.rt.stream_abort(stream))
    return acl.rt.synchronize_stream(stream)


def host_to_host(acl):
    a, b = made(acl.rt.malloc_host(N)), made(acl.rt.malloc_host(N))
    return acl.rt.memcpy_async(a, N, b, N, 0, 0)


def full(acl):
    stream, device = made(acl.rt.create_stream_with_config(0, 4)), made(acl.rt.malloc(N, 0))
    return [acl.rt.memset_async(device, N, 0, N, stream) for _ in range(17)][-1]


def nothing_reported(acl):
    done(acl.rt.subscribe_report(threading.get_ident(), 0))
    return acl.rt.process_report(1)


def raised(acl):
    launch(broken)
    return acl.rt.synchronize_stream(0)


def freed_too_early(acl):
    device = made(acl.rt.malloc(N, 0))
    work("long", 1_000)
    done(acl.rt.memset_async(device, N, 0, N, 0), acl.rt.free(device))
    return acl.rt.synchronize_stream(0)


def too_slow(acl):
    work("long", 10_000)
    return acl.rt.synchronize_stream_with_timeout(0, 1)


def event_too_slow(acl):
    event = made(acl.rt.create_event())
    work("long", 10_000)
    done(acl.rt.record_event(event, 0))
    return acl.rt.synchronize_event_with_timeout(event, 1)


def registered_twice(acl):
    address = acl.util.bytes_to_ptr(HOST)
    made(acl.rt.host_register(address, N, 0))
    return acl.rt.host_register(address, N, 0)


HOST = bytes(N)
CODES = {
    "SUCCESS": (0, lambda acl: acl.rt.synchronize_device()),
    "INVALID_PARAM": (100000, lambda acl: acl.rt.free(0)),
    "REPEAT_INITIALIZE": (100002, lambda acl: acl.init()),
    "REPEAT_FINALIZE": (100037, lambda acl: acl.finalize() or acl.finalize()),
    "PARAM_INVALID": (107000, lambda acl: acl.rt.destroy_stream(0)),
    "PARAM_INVALID of a wait": (107000, lambda acl: acl.rt.stream_wait_event(0, made(acl.rt.create_event()))),
    "INVALID_DEVICEID": (107001, lambda acl: acl.rt.set_device(99)),
    "CONTEXT_NULL": (107002, no_context),
    "STREAM_CONTEXT": (107003, another_context),
    "EVENT_TIMESTAMP_INVALID": (107006, not_complete),
    "STREAM_SUBSCRIBE": (107011, subscribed_twice),
    "THREAD_SUBSCRIBE": (107012, lambda acl: acl.rt.process_report(1)),
    "STREAM_NO_CB_REG": (107015, unsubscribed),
    "INVALID_HANDLE": (107017, lambda acl: acl.rt.synchronize_stream(0xBAD)),
    "TASK_TIMEOUT": (107020, waited_in_vain),
    "STREAM_ABORT": (107023, aborted),
    "FEATURE_NOT_SUPPORT": (207000, host_to_host),
    "MEMORY_ALLOCATION": (207001, lambda acl: acl.rt.malloc(1 << 40, 0)),
    "INTERNAL_ERROR": (507000, never_recorded),
    "STREAM_TASK_FULL": (507002, full),
    "REPORT_TIMEOUT": (507012, nothing_reported),
    "VECTOR_CORE_TIMEOUT": (507034, ran_too_long),
    "VECTOR_CORE_EXCEPTION": (507035, raised),
    "STREAM_SYNC_TIMEOUT": (507046, too_slow),
    "EVENT_SYNC_TIMEOUT": (507047, event_too_slow),
    "DEVICE_MEM_ERROR": (507053, freed_too_early),
    "HOST_MEMORY_ALREADY_REGISTERED": (507910, registered_twice),
    "HOST_MEMORY_NOT_REGISTERED": (507911, lambda acl: acl.rt.host_unregister(acl.util.bytes_to_ptr(HOST))),
}
LIMITED = {
    "NO_EVENT_RESOURCE": (207007, "events", lambda acl: acl.rt.create_event_with_flag(1)),
    "NO_STREAM_RESOURCE": (207008, "streams", lambda acl: acl.rt.create_stream()),
    "NO_NOTIFY_RESOURCE": (207009, "notifies", lambda acl: acl.rt.create_notify(0)),
}


@pytest.mark.parametrize("name", CODES)
def test_the_code_its_message_and_the_last_error(acl, name):
    code, provoke = CODES[name]
    answer = provoke(acl)
    assert (answer[-1] if isinstance(answer, tuple) else answer) == code
    if isinstance(answer, tuple):
        assert answer[:-1] == (0,) * (len(answer) - 1)
    if code:
        assert acl.rt.peek_at_last_error(0) == code
        message = acl.get_recent_err_msg()
        assert str(code) in message
        assert any(entry.name in message for entry in find(str(code)))


@pytest.mark.parametrize("name", LIMITED)
def test_the_codes_of_what_is_used_up(name):
    code, limit, make = LIMITED[name]
    with module(limits={limit: 2}) as acl:
        answers = [make(acl) for _ in range(3)]
        assert answers[-1] == (0, code)
        assert answers[0][1] == 0
        assert acl.rt.get_last_error(0) == code
