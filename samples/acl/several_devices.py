"""Shows: several devices and contexts in one thread: which is current after set_device, create_context and set_context.

Scenario: each card sums its part of an array; a stream belongs to the context in which it was made.
"""

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3


def check(ret):
    assert ret == 0, f"ret={ret}"


check(acl.init())
count, ret = acl.rt.get_device_count()
check(ret)
print("devices:", count)

cards = []
data = np.arange(count * 1000, dtype=np.float32)
for device, part in enumerate(np.split(data, count)):
    check(acl.rt.set_device(device))
    context, ret = acl.rt.create_context(device)
    check(ret)
    stream, ret = acl.rt.create_stream()
    check(ret)
    pinned, ret = acl.rt.malloc_host(part.nbytes)
    check(ret)
    memory, ret = acl.rt.malloc(part.nbytes, ACL_MEM_MALLOC_HUGE_FIRST)
    check(ret)
    acl.util.ptr_to_numpy(pinned, (1000,), 11)[:] = part
    cards.append((device, context, stream, pinned, memory))

for _, context, stream, pinned, memory in cards:  # queue everywhere, then wait everywhere
    check(acl.rt.set_context(context))
    check(acl.rt.memcpy_async(memory, 4000, pinned, 4000, ACL_MEMCPY_HOST_TO_DEVICE, stream))
for device, context, stream, _, memory in cards:
    check(acl.rt.set_context(context))
    check(acl.rt.synchronize_stream(stream))
    current, ret = acl.rt.get_device()
    check(ret)
    back = np.empty(1000, np.float32)
    pointer, back = acl.util.numpy_contiguous_to_ptr(back)
    check(acl.rt.memcpy(pointer, 4000, memory, 4000, ACL_MEMCPY_DEVICE_TO_HOST))
    print(f"device {device}: current is {current}, sum {back.sum():.0f}")

# A stream of one context while another is current.
check(acl.rt.set_context(cards[0][1]))
print("waiting for a stream of another context:", acl.rt.synchronize_stream(cards[-1][2]))

for device, context, stream, pinned, memory in cards:
    check(acl.rt.set_context(context))
    check(acl.rt.free_host(pinned))
    check(acl.rt.free(memory))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.destroy_context(context))
    print(f"device {device}: context after its end:", acl.rt.get_context())
    check(acl.rt.reset_device(device))
check(acl.finalize())
