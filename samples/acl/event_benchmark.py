"""Shows: a benchmark with events: bandwidth of copies by size, pinned and pageable, and of both directions at once.

Scenario: the first table that people print on a new card.
"""

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE = 1, 8
ROUNDS = 10
MAX = 64 << 20


def check(ret):
    assert ret == 0, f"ret={ret}"


def made(pair):
    thing, ret = pair
    check(ret)
    return thing


def milliseconds(stream, queue, *arguments):
    """Return the milliseconds that ROUNDS calls of *queue* take, by the clock of the device."""
    start = made(acl.rt.create_event_ex_with_flag(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE))
    end = made(acl.rt.create_event_ex_with_flag(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE))
    check(acl.rt.record_event(start, stream))
    for _ in range(ROUNDS):
        check(queue(*arguments))
    check(acl.rt.record_event(end, stream))
    check(acl.rt.synchronize_stream(stream))
    took = made(acl.rt.event_elapsed_time(start, end))
    check(acl.rt.destroy_event(start))
    check(acl.rt.destroy_event(end))
    return took / ROUNDS


def gigabytes_per_second(size, took_ms):
    return size / took_ms / 1e6


check(acl.init())
check(acl.rt.set_device(0))
stream, other = made(acl.rt.create_stream()), made(acl.rt.create_stream())
first, second = made(acl.rt.malloc(MAX, ACL_MEM_MALLOC_HUGE_FIRST)), made(acl.rt.malloc(MAX, ACL_MEM_MALLOC_HUGE_FIRST))
pinned, back = made(acl.rt.malloc_host(MAX)), made(acl.rt.malloc_host(MAX))
array = np.ones(MAX, np.uint8)
for memory in (second, pinned):
    check(acl.rt.memset(memory, MAX, 1, MAX))
pageable = acl.util.numpy_contiguous_to_ptr(array)[0]

print("       size   H2D pinned   D2H pinned  H2D pageable      D2D   (GB/s)")
size = 4096
while size <= MAX:
    ways = [
        (first, pinned, ACL_MEMCPY_HOST_TO_DEVICE),
        (pinned, first, ACL_MEMCPY_DEVICE_TO_HOST),
        (first, pageable, ACL_MEMCPY_HOST_TO_DEVICE),
        (second, first, ACL_MEMCPY_DEVICE_TO_DEVICE),
    ]
    cells = []
    for to, source, kind in ways:
        took = milliseconds(stream, acl.rt.memcpy_async, to, size, source, size, kind, stream)
        cells.append(gigabytes_per_second(size, took))
    print(f"{size:>11} {cells[0]:12.1f} {cells[1]:12.1f} {cells[2]:13.1f} {cells[3]:8.1f}")
    size *= 16


def both_ways():
    check(acl.rt.memcpy_async(first, MAX, pinned, MAX, ACL_MEMCPY_HOST_TO_DEVICE, stream))
    return acl.rt.memcpy_async(back, MAX, second, MAX, ACL_MEMCPY_DEVICE_TO_HOST, other)


one = milliseconds(stream, acl.rt.memcpy_async, first, MAX, pinned, MAX, ACL_MEMCPY_HOST_TO_DEVICE, stream)
both = milliseconds(stream, both_ways)
check(acl.rt.synchronize_device())
print(f"both directions at once take {both / one:.1f} times as long as one")

for host in (pinned, back):
    check(acl.rt.free_host(host))
for device in (first, second):
    check(acl.rt.free(device))
for each in (stream, other):
    check(acl.rt.destroy_stream(each))
check(acl.rt.reset_device(0))
check(acl.finalize())
