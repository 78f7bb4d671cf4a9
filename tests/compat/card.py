"""What the tests of the rows share: the module on a device, its answers, and work whose times are known.

On the tiny device one byte takes one nanosecond, nothing has a latency, calls take 1000 ns (a synchronisation 300, a
query 700, a wake-up 2000).
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module

import histories

import acl_py
from acl_py.compat.acl import install, uninstall
from acl_py.compat.acl.face.session import session
from acl_py.runtime.blocking import finish
from device_model.profile import load

SYNC, TIME_LINE = 0x1, 0x8  # of events
BOARD = replace(load("tiny"), run_mode=0, devices=1)  # the tiny device as a board without a host
H2H, H2D, D2H, D2D, DEFAULT = range(5)


@contextmanager
def module(device="tiny", *, limits=None, **options):
    """`acl` on *device*, some of whose *limits* are others, initialised and with device 0 current."""
    if limits:
        profile = load(device)
        device = replace(profile, limits=replace(profile.limits, **limits))
    install(**{"device": device, "rules": "acl", "workers": 1} | options)
    interrupt, guard = signal.getsignal(signal.SIGINT), signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        acl = import_module("acl")
        for name in ("rt", "util", "mdl", "op"):
            import_module(f"acl.{name}")
        assert (acl.init(), acl.rt.set_device(0)) == (0, 0)
        yield acl
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, guard)
        signal.signal(signal.SIGINT, interrupt)  # acl.util.start_thread has changed it
        uninstall()


def _give_up(*_: object) -> None:
    raise TimeoutError("the program under test hangs")


def made(answer):
    """What a function gave besides its ret, which must tell of success."""
    *values, ret = answer
    assert ret == 0, answer
    return values[0] if len(values) == 1 else tuple(values)


def done(*rets):
    """All of these calls succeeded."""
    assert rets == (0,) * len(rets), rets


def now():
    """Nanoseconds of simulated time."""
    return session().runtime.host_ns


def launch(kernel, stream=0, *args):
    """Queue a native kernel in a stream of the module."""
    return finish(acl_py.LaunchKernel(kernel, 1, args, session().objects[stream] if stream else None))


def work(name, us, stream=0):
    """Queue work that takes *us* microseconds."""
    return launch(histories.busy(name, us), stream)


@acl_py.kernel(cost=acl_py.Cost(us=10))
def broken():
    """A kernel with a bug."""
    raise ZeroDivisionError("a bug")


def times(begin, *ops):
    """Name, start and end of operations, counted from *begin*, in the order in which they started."""
    rows = [(op.work.label.name, op.start_ns - begin, op.end_ns - begin) for op in ops]
    return sorted(rows, key=lambda row: (row[1], row[2], row[0]))


def content(acl, address, count):
    """The bytes at any address."""
    out = bytes(count)
    done(acl.rt.memcpy(acl.util.bytes_to_ptr(out), count, address, count, DEFAULT))
    return out


def each(*answers: tuple[int, int]) -> Iterator[int]:
    """`made` for several."""
    return map(made, answers)
