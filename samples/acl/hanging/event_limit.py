"""Hangs: events of the first kind take a hardware id at each record, and the ids of the card run out.

A stream that cannot continue holds them all. In the next record, the host waits for an id.
"""

import acl

ACL_EVENT_SYNC = 1

acl.init()
acl.rt.set_device(0)
gate, ret = acl.rt.create_event_with_flag(ACL_EVENT_SYNC)
stream, ret = acl.rt.create_stream()
acl.rt.stream_wait_event(stream, gate)
left, ret = acl.rt.get_event_avail_num()
for number in range(left + 1):
    event, ret = acl.rt.create_event()
    ret = acl.rt.record_event(event, stream)
    if ret != 0:
        raise SystemExit(f"record {number} failed: {ret}")
acl.rt.record_event(gate, 0)
print("not reached")
