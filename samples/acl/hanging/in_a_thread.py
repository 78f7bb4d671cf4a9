"""Hangs: a worker waits for two streams that wait for each other, while the main thread joins the worker."""

import threading

import acl

ACL_EVENT_SYNC = 1


def worker(context):
    acl.rt.set_context(context)
    first, _ = acl.rt.create_stream()
    second, _ = acl.rt.create_stream()
    one, _ = acl.rt.create_event_with_flag(ACL_EVENT_SYNC)
    two, _ = acl.rt.create_event_with_flag(ACL_EVENT_SYNC)
    acl.rt.stream_wait_event(first, two)
    acl.rt.record_event(one, first)
    acl.rt.stream_wait_event(second, one)
    acl.rt.record_event(two, second)
    acl.rt.synchronize_stream(second)


acl.init()
acl.rt.set_device(0)
context, ret = acl.rt.get_context()
thread = threading.Thread(target=worker, args=(context,), name="worker")
thread.start()
thread.join()
print("not reached")
