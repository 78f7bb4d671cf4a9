"""What a script's own modules find as `time` if their clock is simulated: that of the host, which their calls move.

`time`, `monotonic` and `perf_counter` answer from the host clock of the session, which begins with the first reading if
no call of `acl` has begun it. Each reading costs the host what a call costs that does almost nothing (`host.other` of
the profile), so a loop that polls until some time ends. `sleep` lets simulated time pass. Everything else is Python's.

Three things stay real:

* `sleep` in a thread other than the main one.
* All of `time` in the function of a kernel, a model or an operator. It stands for the device, and takes no host time.
* All of `time` in a thread of a simulation of the native API, other than that of its event loop. It makes no calls.

A sleep is like the limit of a wait: while another thread could act and devices have nothing to do, it takes real time.
Without that, the time-out of a main thread that waits for a worker would be over before the worker has begun.
"""

import asyncio
import sys
import threading
import time as python
from operator import index
from typing import SupportsIndex

from acl_py.calls.acts import SLEPT
from acl_py.compat.acl.face.session import OwnSession, Session, own_session, session
from acl_py.runtime.calls import begin_without_context
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Barred, opened, scope_var
from acl_py.sites import site_of
from device_model.completions import Nanoseconds
from device_model.errors import shown
from device_model.scheduler import nanoseconds

__all__ = [name for name in dir(python) if not name.startswith("_")]
globals().update({name: getattr(python, name) for name in __all__})  # those that are not defined below stay Python's

NS = 1_000_000_000  # of a second
EPOCH_NS = 946_684_800 * NS  # when the host clock is 0, it is 2000-01-01 00:00:00 UTC: the same in every run


def time() -> float:
    """Return the time in seconds since 1970: 2000-01-01 00:00:00 UTC plus the host clock."""
    return time_ns() / NS


def time_ns() -> int:
    """Return `time()` in nanoseconds."""
    now = _read()
    return python.time_ns() if now is None else EPOCH_NS + now


def monotonic() -> float:
    """Return the host clock in seconds."""
    return monotonic_ns() / NS


def monotonic_ns() -> int:
    """Return the host clock in nanoseconds."""
    now = _read()
    return python.monotonic_ns() if now is None else now


def perf_counter() -> float:
    """Return the host clock in seconds."""
    return perf_counter_ns() / NS


def perf_counter_ns() -> int:
    """Return the host clock in nanoseconds."""
    now = _read()
    return python.perf_counter_ns() if now is None else now


def sleep(seconds: float, /) -> None:
    """Let *seconds* of simulated time pass; of real time in a thread other than the main one, and in a kernel.

    Raises:
        TypeError: *seconds* is not a number.
        ValueError: It is negative, not a number, or longer than simulated time.
    """
    if threading.current_thread() is not threading.main_thread() or _is_device_code():
        python.sleep(seconds)
        return
    if not isinstance(seconds, float | SupportsIndex):
        raise TypeError(f"the seconds of time.sleep() must be a number, not {shown(seconds)}")
    number = seconds if isinstance(seconds, float) else index(seconds)
    session().run(_rest(nanoseconds("the seconds of time.sleep()", number, NS), f"time.sleep({number})"))


def _read() -> Nanoseconds | None:
    """Pay for a reading, and return the host clock; None where `time` is Python's."""
    if _is_device_code():
        return None
    here = _session()
    if isinstance(here, OwnSession):
        return _read_own(here)
    if asyncio._get_running_loop() is None:
        return None
    with here.turn:
        _pay(here.runtime)
        return here.runtime.host_ns


def _read_own(here: OwnSession) -> Nanoseconds:
    """Pay for a reading, unless another thread makes a call now.

    That call may be running a function that waits for the calling thread, so this thread must not wait for its end.
    """
    bridge, runtime = here.bridge, here.runtime
    if bridge.lock.acquire(blocking=False):
        try:
            bridge.forgive_polls()
            _pay(runtime)
        finally:
            bridge.lock.release()
    return runtime.host_ns


def _pay(runtime: Runtime) -> None:
    runtime.pay(runtime.costs.other)
    if runtime.hooks.timed is not None:
        runtime.hooks.timed(site_of(sys._getframe()))


def _session() -> Session:
    """Return the session of the calling thread. To read a clock a thread need not join the session of the process."""
    return own_session() if scope_var.get() is None and not opened else session()


def _is_device_code() -> bool:
    """Whether a device calls: a kernel, a model or an operator runs, or a host function of the native API."""
    scope = scope_var.get()
    if scope is None:
        return False
    return isinstance(scope.context, Barred) or scope.context.device.calling is not None


async def _rest(delay: Nanoseconds, what: str) -> None:
    """Do what the verb Sleep does, with the timer as a limit: see the head of this file."""
    _, runtime, site, enter = begin_without_context()
    runtime.pay(0)
    timer = runtime.scheduler.timer(runtime.host_ns + delay)
    runtime.limits[timer] = python.monotonic() + delay / NS
    try:
        await runtime.wait(timer, what, site, sleeps=False)
    finally:
        del runtime.limits[timer]
        runtime.scheduler.cancel(timer)
    runtime.called("time.sleep", enter, site, SLEPT)
