"""Shows: a pool of device memory: one malloc, whose blocks are reused once their event has been reached.

Scenario: sixteen requests share four blocks; get_mem_info shows the free memory.
"""

from collections import deque

import acl

ACL_HBM_MEM = 1
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_EVENT_SYNC = 1
BLOCK, BLOCKS, REQUESTS = 8 << 20, 4, 16


def check(ret):
    assert ret == 0, f"ret={ret}"


def free_mib():
    free, total, ret = acl.rt.get_mem_info(ACL_HBM_MEM)
    check(ret)
    assert free <= total
    return free / (1 << 20)


class Pool:
    """Blocks of one allocation. A block that is returned with an event is free once the event has been reached."""

    def __init__(self, size, count):
        self.slab, ret = acl.rt.malloc(size * count, ACL_MEM_MALLOC_HUGE_FIRST)
        check(ret)
        self.blocks = deque(self.slab + index * size for index in range(count))
        self.pending = deque()
        self.waits = 0

    def take(self):
        self._collect()
        if not self.blocks:
            self.waits += 1
            check(acl.rt.synchronize_event(self.pending[0][1]))
            self._collect()
        return self.blocks.popleft()

    def give(self, block, stream):
        event, ret = acl.rt.create_event_ex_with_flag(ACL_EVENT_SYNC)
        check(ret)
        check(acl.rt.record_event(event, stream))
        self.pending.append((block, event))

    def _collect(self):
        while self.pending:
            block, event = self.pending[0]
            status, ret = acl.rt.query_event_status(event)
            check(ret)
            if status == 0:  # not yet: the codes are the reverse of query_event
                break
            check(acl.rt.destroy_event(event))
            self.pending.popleft()
            self.blocks.append(block)

    def release(self):
        self._collect()
        assert not self.pending
        check(acl.rt.free(self.slab))


check(acl.init())
check(acl.rt.set_device(0))
before = free_mib()
pool = Pool(BLOCK, BLOCKS)
print(f"the pool took {before - free_mib():.0f} MiB")

streams = []
for _ in range(2):
    stream, ret = acl.rt.create_stream()
    check(ret)
    streams.append(stream)
host, ret = acl.rt.malloc_host(REQUESTS * BLOCK)
check(ret)
results, ret = acl.rt.malloc_host(REQUESTS * BLOCK)
check(ret)
acl.util.ptr_to_numpy(host, (REQUESTS, BLOCK), 2)[:] = [[number] for number in range(REQUESTS)]

for number in range(REQUESTS):
    stream = streams[number % 2]
    block = pool.take()
    check(acl.rt.memcpy_async(block, BLOCK, host + number * BLOCK, BLOCK, ACL_MEMCPY_HOST_TO_DEVICE, stream))
    check(acl.rt.memcpy_async(results + number * BLOCK, BLOCK, block, BLOCK, ACL_MEMCPY_DEVICE_TO_HOST, stream))
    pool.give(block, stream)
check(acl.rt.synchronize_device())
rows = acl.util.ptr_to_numpy(results, (REQUESTS, BLOCK), 2)
print("all requests right:", all((rows[number] == number).all() for number in range(REQUESTS)))
print("a request had to wait for a block:", pool.waits > 0)

too_much, ret = acl.rt.malloc(1 << 50, ACL_MEM_MALLOC_HUGE_FIRST)
print("too much:", too_much, ret)
pool.release()
print(f"free memory is as before: {free_mib() == before}")
for stream in streams:
    check(acl.rt.destroy_stream(stream))
check(acl.rt.free_host(host))
check(acl.rt.free_host(results))
check(acl.rt.reset_device(0))
check(acl.finalize())
