"""acl.rt: callbacks, time-outs and errors."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import acl_py as native
from acl_py.compat.acl.face.binding import gives, runs, takes
from acl_py.compat.acl.face.lookups import Running
from acl_py.compat.acl.face.session import INVALID_PARAM, SUCCESS, OwnSession, Session, mine, session
from acl_py.compat.acl.face.tracebacks import traceback_text
from acl_py.errors import Kind
from acl_py.runtime.calls import begin_without_context
from acl_py.runtime.scopes import last_error
from acl_py.verbs.callbacks import end_report, take_report
from acl_py.verbs.kernels import Launches
from acl_py.waiting.browser import running_loop
from acl_py.waiting.interrupts import unguarded

_INTERVAL_US = 1  # resolution of the time limit of kernels
_NO_REPORT = Kind.REPORT_TIMEOUT, Kind.NOT_A_SUBSCRIBER  # not yet: threads ask before and after they have a stream
_UNKNOWN = 0xFFFFFFFF  # the answer when nothing is known of a task


# --- callbacks


@runs("kk")
def subscribe_report(here: Session, thread: int, stream: int) -> Running:
    """Subscribe *thread* to a stream: it runs the stream's callbacks when it calls process_report."""
    return native.SubscribeReport(thread, here.streams[stream])


@runs("kk")
def unsubscribe_report(here: Session, thread: int, stream: int) -> Running:
    """End subscribe_report."""
    return native.UnsubscribeReport(thread, here.streams[stream])


@takes("i")
def process_report(timeout: int) -> int:
    """Run the next callback of this thread's streams; wait for one for *timeout* milliseconds."""
    here = session()
    report, ret = here.call(take_report(timeout), _NO_REPORT)
    if ret:
        return ret
    try:
        report.call()  # other threads may make calls meanwhile, and so may the callback itself
    finally:
        here.ret(end_report(report))
    return SUCCESS


@runs("OOik")
def launch_callback(
    here: Session, function: Callable[[Any], object], user_data: Any, block: int, stream: int
) -> Running:
    """Queue a callback, which the stream's subscriber runs with *user_data*; what it raises is printed."""
    if not callable(function):
        raise TypeError("parameter must be callable")

    def call(data: Any) -> None:
        try:
            function(data)
        except Exception as error:
            print(traceback_text(error), file=sys.stderr)

    call.__name__ = getattr(function, "__name__", type(function).__name__)
    return native.LaunchCallback(call, user_data, block, here.streams[stream])


# --- time-outs


@runs("u")
def set_op_wait_timeout(here: Session, seconds: int) -> Running:  # noqa: ARG001 - all of these get one
    """Limit how long a stream may wait; 0 is no limit."""
    return native.SetOpWaitTimeOut(seconds)


@runs("u")
def set_op_execute_time_out(here: Session, seconds: int) -> Running:
    """Limit how long a kernel may run; 0 is the longest limit that the card has."""
    ns = here.runtime.limit_ns("seconds", seconds, 10**9)
    return _limit("SetOpExecuteTimeOut", ns or here.longest_kernel_ns)


@gives("k")
def set_op_execute_timeout_v2(here: Session, us: int) -> int:
    """Limit how long a kernel may run, in microseconds; return the limit that is now in force."""
    ns = here.runtime.limit_ns("us", us, 1000)
    here.run(_limit("SetOpExecuteTimeOutV2", ns or here.longest_kernel_ns))
    return here.runtime.state(Launches).limit_ns // 1000


@gives("")
def get_op_timeout_interval(here: Session) -> int:  # noqa: ARG001
    """Return the resolution of that limit, in microseconds."""
    return _INTERVAL_US


@gives("")
def get_op_execute_timeout(here: Session) -> int:
    """Return how long a kernel may run, in milliseconds."""
    return here.runtime.state(Launches).limit_ns // 10**6


async def _limit(name: str, ns: int) -> None:
    _, runtime, site, enter = begin_without_context(name)
    runtime.pay(runtime.costs.other)
    runtime.state(Launches).limit(ns)
    runtime.called(name, enter, site)


# --- errors


def _last(verb: Callable[[], Any], level: int) -> int:
    here = session()
    if level:
        return here.refuse(INVALID_PARAM, f"there is no level {level} of errors but 0, that of the thread")
    asks_for_thread = isinstance(here, OwnSession) and running_loop() is not None
    if asks_for_thread:
        last_error.set(mine.error)  # another task's, if that failed last
    value, ret = here.call(verb())
    if asks_for_thread:
        mine.error = last_error.get()
    return ret or value


@takes("|i")
def peek_at_last_error(level: int = 0) -> int:
    """Return the code of this thread's last error and keep it."""
    return _last(native.PeekAtLastError, level)


@takes("i")
def get_last_error(level: int) -> int:
    """Return the code of this thread's last error and clear it."""
    return _last(native.GetLastError, level)


@runs("|O")
def set_exception_info_callback(here: Session, function: Callable[[int], object] | None = None) -> Running:
    """Call *function* for each failed task, with a handle for what is known of the task; None ends that.

    It runs at the end of the call in which the task failed. If it raises, the traceback is printed, and it is not
    called again.
    """
    if function is None:
        return native.SetExceptionInfoCallback(None)
    if not callable(function):
        raise TypeError(
            "acl.rt.set_exception_info_callback args parse failed: the argument is neither callable nor None"
        )
    return native.SetExceptionInfoCallback(_ExceptionCallback(here, function).failed)


class _ExceptionCallback:
    """Calls a script's function for failed tasks."""

    def __init__(self, here: Session, function: Callable[[int], object]) -> None:
        self._here = here
        self._function: Callable[[int], object] | None = function

    def failed(self, info: native.ExceptionInfo) -> None:
        """Note a failure for the end of the call; a script's function must not run inside the device."""
        failure = Failure(info, _number(self._here, info))
        self._here.make_due(lambda: self._call(failure))

    def _call(self, failure: "Failure") -> None:
        if self._function is None:
            return
        handle = self._here.handle(failure)
        try:
            unguarded(self._function, handle)
        except Exception as error:
            self._function = None
            print(traceback_text(error), file=sys.stderr)
        finally:
            self._here.forget(handle)


class Failure:
    """What is known of a failed task, and its number."""

    def __init__(self, info: native.ExceptionInfo, task: int) -> None:
        self.info = info
        self.task = task


def _number(here: Session, info: native.ExceptionInfo) -> int:
    """How many tasks of its stream ended before it: streams keep their order."""
    if here.trace is None:
        return 0
    stream, device = info.stream.name, info.device
    return sum(op.stream == stream and op.device == device for op in here.trace.ops)


def _of_exception(handle: int, read: Callable[[Failure], int]) -> int:
    failure = session().find(handle, Failure)
    return _UNKNOWN if failure is None else read(failure) & _UNKNOWN


@takes("k")
def get_task_id_from_exception_info(handle: int) -> int:
    """The number of the task in its stream."""
    return _of_exception(handle, lambda failure: failure.task)


@takes("k")
def get_stream_id_from_exception_info(handle: int) -> int:
    """The number of its stream."""
    return _of_exception(handle, lambda failure: failure.info.stream.id)


@takes("k")
def get_thread_id_from_exception_info(handle: int) -> int:
    """The thread in whose call the task failed; its low 32 bits."""
    return _of_exception(handle, lambda _: threading.get_ident())


@takes("k")
def get_device_id_from_exception_info(handle: int) -> int:
    """The number of its device."""
    return _of_exception(handle, lambda failure: failure.info.device)


@takes("k")
def get_error_code_from_exception_info(handle: int) -> int:
    """Its code."""
    return _of_exception(handle, lambda failure: failure.info.code)
