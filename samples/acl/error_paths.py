"""Shows: what failing calls return: codes, the last error of the thread, and its message. Nothing is raised.

Scenario: the tests of a wrapper library, which turns codes into exceptions of its own.
"""

import acl

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
ACL_EVENT_SYNC = 1
NAMES = {
    100000: "invalid parameter",
    100002: "initialised already",
    100037: "finalised already",
    107000: "parameter out of its range",
    107001: "no such card",
    107002: "no context",
    107012: "no subscriber",
    107015: "no callback thread for the stream",
    107017: "stale handle",
    207000: "not supported",
    207001: "out of memory",
    507046: "time limit reached",
}


class AclError(Exception):
    """A code that is not 0."""


def call(function, *arguments):
    """The wrapper: return the value, or raise for a code."""
    result = function(*arguments)
    *values, ret = result if isinstance(result, tuple) else (result,)
    if ret != 0:
        raise AclError(f"{ret} {NAMES.get(ret, '?')}")
    return values[0] if len(values) == 1 else values


def attempt(what, function, *arguments):
    try:
        call(function, *arguments)
        print(f"{what}: fine")
    except AclError as error:
        print(f"{what}: {error}")


attempt("memory before a device is set", acl.rt.malloc, 64, ACL_MEM_MALLOC_HUGE_FIRST)
call(acl.init)
attempt("init again", acl.init)
attempt("a card that does not exist", acl.rt.set_device, 99)
call(acl.rt.set_device, 0)

memory = call(acl.rt.malloc, 1024, ACL_MEM_MALLOC_HUGE_FIRST)
attempt("no bytes", acl.rt.malloc, 0, ACL_MEM_MALLOC_HUGE_FIRST)
attempt("more memory than the card has", acl.rt.malloc, 1 << 50, ACL_MEM_MALLOC_HUGE_FIRST)
attempt("free nothing", acl.rt.free, 0)
attempt("a copy larger than its destination", acl.rt.memcpy, memory, 16, memory, 32, ACL_MEMCPY_DEVICE_TO_DEVICE)
attempt("copy nothing", acl.rt.memcpy, 0, 16, 0, 0, ACL_MEMCPY_HOST_TO_DEVICE)

stream = call(acl.rt.create_stream)
event = call(acl.rt.create_event)
attempt("a wait for an event without a record", acl.rt.stream_wait_event, stream, event)
newer = call(acl.rt.create_event_ex_with_flag, ACL_EVENT_SYNC)
attempt("the same with a newer kind of event", acl.rt.stream_wait_event, stream, newer)
attempt("a reset of the newer kind", acl.rt.reset_event, newer, stream)
attempt("a callback without a thread to run it", acl.rt.launch_callback, print, "never", 1, stream)
attempt("a report without a subscription", acl.rt.process_report, 100)
call(acl.rt.destroy_stream, stream)
attempt("a stream after its destruction", acl.rt.synchronize_stream, stream)
attempt("destroying the default stream", acl.rt.destroy_stream, 0)

print("last error:", acl.rt.peek_at_last_error(0), acl.rt.get_last_error(0), acl.rt.get_last_error(0))
print("has a message:", bool(acl.get_recent_err_msg()), "and then:", acl.get_recent_err_msg())

# To reach a time limit is an ordinary result.
slow = call(acl.rt.create_stream)
gate = call(acl.rt.create_event_with_flag, ACL_EVENT_SYNC)
call(acl.rt.stream_wait_event, slow, gate)
attempt("a wait with a limit", acl.rt.synchronize_stream_with_timeout, slow, 50)
call(acl.rt.record_event, gate, 0)
attempt("the same after the record of the event", acl.rt.synchronize_stream_with_timeout, slow, 50)

for wrong in (lambda: acl.rt.malloc("64", 0), lambda: acl.rt.free(None), lambda: acl.rt.set_device(device=0)):
    try:
        wrong()
    except TypeError as error:
        print("TypeError:", "keyword" in str(error))

for each in (event, newer, gate):
    call(acl.rt.destroy_event, each)
call(acl.rt.destroy_stream, slow)
call(acl.rt.free, memory)
call(acl.rt.reset_device, 0)
attempt("memory after the reset", acl.rt.malloc, 64, ACL_MEM_MALLOC_HUGE_FIRST)
call(acl.finalize)
attempt("finalize again", acl.finalize)
