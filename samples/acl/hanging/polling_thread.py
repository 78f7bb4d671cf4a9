"""Hangs: the report thread keeps polling, but the stream that the main thread waits for cannot continue."""

import acl

ACL_EVENT_SYNC = 1
running = True


def report(context):
    acl.rt.set_context(context)
    while running:
        acl.rt.process_report(100)


acl.init()
acl.rt.set_device(0)
context, ret = acl.rt.get_context()
stream, ret = acl.rt.create_stream()
thread, ret = acl.util.start_thread(report, context)
acl.rt.subscribe_report(thread, stream)
event, ret = acl.rt.create_event_with_flag(ACL_EVENT_SYNC)
acl.rt.stream_wait_event(stream, event)
acl.rt.synchronize_stream(stream)
print("not reached")
