"""Shows: notifies and words of memory as signals between streams: the wait may come first, and each signal works once.

Scenario: two streams play ping-pong; a third lets a stream continue when a counter has reached a value.
"""

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_DEVICE_TO_HOST = 2
GEQ, EQ = 0, 1
TURNS = 5


def check(ret):
    assert ret == 0, f"ret={ret}"


def made(pair):
    thing, ret = pair
    check(ret)
    return thing


check(acl.init())
check(acl.rt.set_device(0))
ping, pong = made(acl.rt.create_stream()), made(acl.rt.create_stream())
to_ping, to_pong = made(acl.rt.create_notify()), made(acl.rt.create_notify())
memory = made(acl.rt.malloc(2 * TURNS, ACL_MEM_MALLOC_HUGE_FIRST))

for turn in range(TURNS):
    check(acl.rt.wait_and_reset_notify(to_pong, pong, 0))
    check(acl.rt.memset_async(memory + 2 * turn + 1, 1, turn * 10 + 1, 1, pong))
    check(acl.rt.record_notify(to_ping, pong))
for turn in range(TURNS):
    check(acl.rt.memset_async(memory + 2 * turn, 1, turn * 10, 1, ping))
    check(acl.rt.record_notify(to_pong, ping))
    check(acl.rt.wait_and_reset_notify(to_ping, ping, 0))
check(acl.rt.synchronize_stream(ping))
back = bytes(2 * TURNS)
check(acl.rt.memcpy(acl.util.bytes_to_ptr(back), len(back), memory, len(back), ACL_MEMCPY_DEVICE_TO_HOST))
print("ping and pong:", *back)

word = made(acl.rt.malloc(8, ACL_MEM_MALLOC_HUGE_FIRST))
check(acl.rt.memset(word, 8, 0, 8))
check(acl.rt.value_wait(word, 3, GEQ, pong))
check(acl.rt.memset_async(memory, 1, 99, 1, pong))
seen = []
for value in (1, 2, 3):
    check(acl.rt.value_write(word, value, 0, ping))
    check(acl.rt.synchronize_stream(ping))
    status = made(acl.rt.stream_query(pong))
    seen.append("waits" if status else "is through")
check(acl.rt.synchronize_stream(pong))
print("the counter:", seen[:2])
counter = np.zeros(1, np.uint64)
pointer = acl.util.numpy_contiguous_to_ptr(counter)[0]
check(acl.rt.memcpy(pointer, 8, word, 8, ACL_MEMCPY_DEVICE_TO_HOST))
print("ends at", int(counter[0]))

for notify in (to_ping, to_pong):
    check(acl.rt.destroy_notify(notify))
for stream in (ping, pong):
    check(acl.rt.destroy_stream(stream))
for pointer in (memory, word):
    check(acl.rt.free(pointer))
check(acl.rt.reset_device(0))
check(acl.finalize())
