"""Shows: threads: a context that several share, a thread without one, and an event from one thread to another.

Scenario: two workers take jobs from a queue, each with a stream in the context that they share; a third thread, made by
acl.util, has no context until it sets one.
"""

import queue
import threading

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_EVENT_SYNC = 1
SIZE = 4096


def check(ret):
    if ret != 0:
        raise RuntimeError(f"ret={ret}: {acl.get_recent_err_msg()}")


def worker(context, jobs, results):
    check(acl.rt.set_context(context))
    stream, ret = acl.rt.create_stream()
    check(ret)
    host, ret = acl.rt.malloc_host(SIZE)
    check(ret)
    device, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_HUGE_FIRST)
    check(ret)
    view = acl.util.ptr_to_numpy(host, (SIZE,), 2)
    while (job := jobs.get()) is not None:
        check(acl.rt.memset_async(device, SIZE, job, SIZE, stream))
        check(acl.rt.memcpy_async(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream))
        check(acl.rt.synchronize_stream(stream))
        results[job] = int(view.astype(np.int64).sum())
    check(acl.rt.free(device))
    check(acl.rt.free_host(host))
    check(acl.rt.destroy_stream(stream))


def without_context(seen):
    seen.append(("malloc without a context", acl.rt.malloc(SIZE, ACL_MEM_MALLOC_HUGE_FIRST)))
    check(acl.rt.set_device(0))
    pointer, ret = acl.rt.malloc(SIZE, ACL_MEM_MALLOC_HUGE_FIRST)
    seen.append(("malloc with one", pointer != 0, ret))
    check(acl.rt.free(pointer))
    check(acl.rt.reset_device(0))


def main():
    check(acl.init())
    check(acl.rt.set_device(0))
    context, ret = acl.rt.get_context()
    check(ret)

    jobs, results = queue.Queue(), {}
    workers = [threading.Thread(target=worker, args=(context, jobs, results)) for _ in range(2)]
    for thread in workers:
        thread.start()
    for job in range(1, 21):
        jobs.put(job)
    for _ in workers:
        jobs.put(None)
    for thread in workers:
        thread.join()
    print("all right:", results == {job: job * SIZE for job in range(1, 21)})

    seen = []
    thread, ret = acl.util.start_thread(without_context, seen)
    check(ret)
    check(acl.util.stop_thread(thread))
    for each in seen:
        print(*each)

    # A stream of one thread waits for an event that another thread records later.
    event, ret = acl.rt.create_event_with_flag(ACL_EVENT_SYNC)
    check(ret)
    stream, ret = acl.rt.create_stream()
    check(ret)
    check(acl.rt.stream_wait_event(stream, event))

    def record():
        check(acl.rt.set_context(context))
        check(acl.rt.record_event(event, 0))

    recorder = threading.Thread(target=record)
    recorder.start()
    check(acl.rt.synchronize_stream(stream))
    recorder.join()
    print("the event came from another thread")
    check(acl.rt.destroy_event(event))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(0))
    check(acl.finalize())


main()
