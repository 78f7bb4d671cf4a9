"""The host itself: work and sleep in simulated time, threads, and the last error of a task."""

from collections.abc import Callable
from sys import _getframe
from typing import ParamSpec, TypeVar

from acl_py.runtime.scopes import SUCCESS, here, last_error
from acl_py.sites import site_of
from device_model.scheduler import nanoseconds

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def HostWork(us: float) -> None:
    """Keep the host busy for *us* microseconds: the other tasks of the loop do not get on meanwhile."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    runtime.pay(nanoseconds("us of HostWork()", us, 1000))
    runtime.called("HostWork", enter, site)


async def Sleep(us: float) -> None:
    """Let the calling task rest for *us* microseconds of simulated time, and others run."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    delay = nanoseconds("us of Sleep()", us, 1000)
    runtime.pay(0)
    if delay:
        timer = runtime.scheduler.timer(runtime.host_ns + delay)
        try:
            await runtime.busy_until(timer, f"Sleep({us})", site)
        finally:
            runtime.scheduler.cancel(timer)  # who is cancelled sleeps no longer
    else:
        await runtime.bridge.breathe()
    runtime.called("Sleep", enter, site)


async def HostThread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run *function* in a thread while simulated time stands still, and return what it returns."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    result: _T = await runtime.bridge.in_thread(function, *args, **kwargs)
    runtime.pay(0)
    runtime.called("HostThread", enter, site)
    return result


async def GetLastError() -> int:
    """The code of this task's last error, which is thereby forgotten; 0 if there was none."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    runtime.pay(runtime.costs.other)
    runtime.called("GetLastError", enter, site)
    code = last_error.get().value
    last_error.set(SUCCESS)
    return code


async def PeekAtLastError() -> int:
    """The code of this task's last error, which stays."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    runtime.pay(runtime.costs.other)
    runtime.called("PeekAtLastError", enter, site)
    return last_error.get().value
