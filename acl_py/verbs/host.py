"""The host itself: work and sleep in simulated time, threads, and the last error of a task."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from acl_py.calls.acts import SLEPT
from acl_py.calls.table import verb
from acl_py.runtime.calls import begin_without_context, check_function
from acl_py.runtime.scopes import SUCCESS, last_error
from device_model.scheduler import nanoseconds

_P = ParamSpec("_P")
_T = TypeVar("_T")


@verb(step="host_work")
async def HostWork(us: float) -> None:
    """Keep the host busy for *us* microseconds of simulated time; on a card, of real time.

    Stands for the program's own work on the host; no vendor has such a call. Other tasks do not run meanwhile.

    Args:
        us: Microseconds, 0 or more.

    Waits:
        all rules: For nothing; the devices go on meanwhile.

    Raises:
        ValueError: *us* is not a finite number, 0 or more.
    """
    _, runtime, site, enter = begin_without_context()
    runtime.work(nanoseconds("us of HostWork()", us, 1000))
    runtime.called(HostWork.__name__, enter, site, SLEPT)


@verb(step="sleep")
async def Sleep(us: float) -> None:
    """Let the calling task rest for *us* microseconds of simulated time while other tasks run; on a card, of real time.

    Stands for the program's own sleep; no vendor has such a call. On a loop with a simulated clock asyncio.sleep()
    takes simulated time, too (docs/time.md); on others it waits in real time.

    Args:
        us: Microseconds, 0 or more. Sleep(0) lets other tasks run once.

    Waits:
        all rules: Until the time is over.

    Raises:
        ValueError: *us* is not a finite number, 0 or more.
    """
    _, runtime, site, enter = begin_without_context()
    delay = nanoseconds("us of Sleep()", us, 1000)
    runtime.pay(0)
    if delay:
        timer = runtime.scheduler.timer(runtime.host_ns + delay)
        try:
            await runtime.wait(timer, f"Sleep({us})", site, sleeps=False)
        finally:
            runtime.scheduler.cancel(timer)  # a task that is cancelled does not sleep on
    else:
        await runtime.bridge.breathe()
    runtime.called(Sleep.__name__, enter, site, SLEPT)


@verb()
async def HostThread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run *function* in a thread while simulated time stands still.

    Stands for the program's own slow work, such as reading a file; no vendor has such a call. Other tasks go on
    meanwhile until they wait for a device. The function must not wait for a device.

    Args:
        function: An ordinary function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Waits:
        all rules: For nothing in simulated time, which stands still until the function has returned.

    Returns:
        Whatever *function* returns.

    Raises:
        TypeError: *function* cannot be called, or is a coroutine function.
        BaseException: Whatever *function* raises.

    Example:
        size = await HostThread(len, b"read from a file")
    """
    _, runtime, site, enter = begin_without_context()
    check_function("the function of HostThread()", function)
    result: _T = await runtime.bridge.in_thread(function, *args, **kwargs)
    runtime.pay(0)
    runtime.called(HostThread.__name__, enter, site)
    return result


@verb(acl="aclrtGetLastError", cuda="cudaGetLastError")
async def GetLastError() -> int:
    """Return the code of the last error of the calling task, and forget it.

    Stands for aclrtGetLastError and cudaGetLastError.

    Waits:
        all rules: For nothing.

    Returns:
        The code under the rules in force; 0 if there was no error.
    """
    _, runtime, site, enter = begin_without_context()
    runtime.brief_call(GetLastError.__name__, enter, site)
    code = last_error.get().value
    last_error.set(SUCCESS)
    return code


@verb(acl="aclrtPeekAtLastError", cuda="cudaPeekAtLastError")
async def PeekAtLastError() -> int:
    """Return the code of the last error of the calling task, and keep it.

    Stands for aclrtPeekAtLastError and cudaPeekAtLastError.

    Waits:
        all rules: For nothing.

    Returns:
        The code under the rules in force; 0 if there was no error.
    """
    _, runtime, site, enter = begin_without_context()
    runtime.brief_call(PeekAtLastError.__name__, enter, site)
    return last_error.get().value
