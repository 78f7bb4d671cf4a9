"""Shows: a pipeline of two buffers: copies in, work and copies out side by side, events between the streams.

Scenario: a long array goes through the card in pieces, once with one stream and once with three. Events measure the
times; the results must be equal.
"""

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE = 1, 8
PIECE, PIECES, WORK = 4 << 20, 12, 8


def check(ret):
    assert ret == 0, f"ret={ret}"


def made(pair):
    thing, ret = pair
    check(ret)
    return thing


def event():
    return made(acl.rt.create_event_ex_with_flag(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE))


def work(to, source, stream):
    """In place of a kernel: copy the piece back and forth inside the card, and leave it in *to*."""
    for _ in range(WORK):
        check(acl.rt.memcpy_async(to, PIECE, source, PIECE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream))


def run(host, back, buffers, streams):
    copy_in, compute, copy_out = streams
    begin, end = event(), event()
    arrived, computed, gone = ([event() for _ in buffers] for _ in range(3))
    check(acl.rt.record_event(begin, copy_in))
    for index in range(PIECES):
        slot = index % len(buffers)
        source, result = buffers[slot]
        if index >= len(buffers):  # the slot is free once its last piece is copied out
            check(acl.rt.stream_wait_event(copy_in, gone[slot]))
        check(acl.rt.memcpy_async(source, PIECE, host + index * PIECE, PIECE, ACL_MEMCPY_HOST_TO_DEVICE, copy_in))
        check(acl.rt.record_event(arrived[slot], copy_in))
        check(acl.rt.stream_wait_event(compute, arrived[slot]))
        work(result, source, compute)
        check(acl.rt.record_event(computed[slot], compute))
        check(acl.rt.stream_wait_event(copy_out, computed[slot]))
        check(acl.rt.memcpy_async(back + index * PIECE, PIECE, result, PIECE, ACL_MEMCPY_DEVICE_TO_HOST, copy_out))
        check(acl.rt.record_event(gone[slot], copy_out))
    check(acl.rt.record_event(end, copy_out))
    check(acl.rt.synchronize_stream(copy_out))
    took = made(acl.rt.event_elapsed_time(begin, end))
    for each in (begin, end, *arrived, *computed, *gone):
        check(acl.rt.destroy_event(each))
    return took


check(acl.init())
check(acl.rt.set_device(0))
total = PIECE * PIECES
host, back = made(acl.rt.malloc_host(total)), made(acl.rt.malloc_host(total))
values = acl.util.ptr_to_numpy(host, (total // 4,), 5)
results = acl.util.ptr_to_numpy(back, (total // 4,), 5)
values[:] = expected = np.arange(total // 4, dtype=np.int32)
buffers = [[made(acl.rt.malloc(PIECE, ACL_MEM_MALLOC_HUGE_FIRST)) for _ in range(2)] for _ in range(2)]
streams = [made(acl.rt.create_stream()) for _ in range(3)]

times = {}
for name, chosen in {"one stream": streams[:1] * 3, "three streams": streams}.items():
    results[:] = 0
    times[name] = run(host, back, buffers, chosen)
    print(f"{name}: {times[name]:.2f} ms, right: {np.array_equal(results, expected)}")
print(f"gain: {times['one stream'] / times['three streams']:.1f}")

for each in streams:
    check(acl.rt.destroy_stream(each))
for each in (host, back):
    check(acl.rt.free_host(each))
for source, result in buffers:
    check(acl.rt.free(source))
    check(acl.rt.free(result))
check(acl.rt.reset_device(0))
check(acl.finalize())
