"""Hangs: a stream waits for an event that is never recorded.

A level-flag event may be waited for before its record; here the record was forgotten.
"""

import acl

ACL_EVENT_SYNC = 1

acl.init()
acl.rt.set_device(0)
stream, ret = acl.rt.create_stream()
event, ret = acl.rt.create_event_with_flag(ACL_EVENT_SYNC)
acl.rt.stream_wait_event(stream, event)
pointer, ret = acl.rt.malloc(64, 0)
acl.rt.memset_async(pointer, 64, 0, 64, stream)
print("queued, now wait")
acl.rt.synchronize_stream(stream)
print("not reached")
