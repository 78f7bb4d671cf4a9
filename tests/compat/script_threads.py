"""Threads of a script under test: one for a call, several at once, and one that runs callbacks."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from card import done, made

N = 256


def in_thread(function, *args):
    """What *function* gives, or raises, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result(30)


def at_once(count, function):
    """What *function* gives in *count* threads that start together, called with their numbers."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait(30)
        return function(number)

    with ThreadPoolExecutor(count) as pool:
        return [each.result(60) for each in [pool.submit(run, number) for number in range(count)]]


@contextmanager
def report_thread(acl, stream, timeout=100):
    """A thread that runs the callbacks of *stream*, in the manner of the vendor's samples."""
    context, running = made(acl.rt.get_context()), [True]

    def loop(args):
        (ms,) = args
        done(acl.rt.set_context(context))
        while running[0]:
            acl.rt.process_report(ms)

    tid = made(acl.util.start_thread(loop, [timeout]))
    done(acl.rt.subscribe_report(tid, stream))
    yield tid
    running[0] = False
    done(acl.rt.unsubscribe_report(tid, stream), acl.util.stop_thread(tid))
