"""Settings for work that fails or takes too long: failure modes, limits and a callback. Most are ACL's only."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from acl_py.calls.table import verb
from acl_py.errors import DeviceError, Kind
from acl_py.runtime.calls import begin, begin_without_context, check_function
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.kernels import Launches
from acl_py.verbs.records import WaitLimit
from acl_py.verbs.streams import StreamLike, resolve
from device_model.completions import Nanoseconds
from device_model.errors import code_of
from device_model.integers import Integer, is_integer
from device_model.observe import Observer
from device_model.ops import Op
from device_model.rules import KernelFailure
from device_model.streams import Stream


class FailureMode(IntEnum):
    """aclrt's failure modes of a stream, with their values."""

    CONTINUE = 0  # later work runs; the next synchronisation tells of the failure
    STOP = 1  # nothing more runs in the whole context, and every call that touches it fails


@verb(acl="aclrtSetStreamFailureMode", is_setting=True)
async def SetStreamFailureMode(stream: StreamLike, mode: int) -> None:
    """Set what happens after work of *stream* has failed.

    Stands for aclrtSetStreamFailureMode; CUDA has no such call: there each failure is that of the whole context.

    Args:
        stream: The stream; None is the default one.
        mode: FailureMode.CONTINUE, as at first: later work runs. FailureMode.STOP: nothing more runs in the whole
            context, and every call that touches it fails. STOP cannot be taken back.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules, or to take STOP back; INVALID_VALUE for another *mode*;
            INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    _check_rules(runtime, SetStreamFailureMode.__name__)
    stream = resolve(scope, stream, SetStreamFailureMode.__name__, queues=False)
    if mode not in tuple(FailureMode):
        raise runtime.error(Kind.INVALID_VALUE, f"failure mode {mode!r}", f"use one of {list(FailureMode)}")
    if stream.stops_on_failure and mode == FailureMode.CONTINUE:
        raise runtime.error(
            Kind.NOT_SUPPORTED, f"{stream!r} stops on failure, which cannot be taken back", "create another stream"
        )
    runtime.pay(runtime.costs.other)
    if mode == FailureMode.STOP:
        stream.stop_on_failure()
    runtime.called(SetStreamFailureMode.__name__, enter, site)


@verb(acl="aclrtSetOpWaitTimeout", is_setting=True)
async def SetOpWaitTimeOut(seconds: Integer) -> None:
    """Limit how long a stream waits for an event, a notify or a value.

    Stands for aclrtSetOpWaitTimeout; CUDA has no such call. The limit holds for all waits of streams that are queued
    from now on. When one is over, the next synchronisation of its stream raises OP_WAIT_TIMEOUT.

    Args:
        seconds: Whole seconds of simulated time; 0, as at first, is no limit.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; INVALID_VALUE if *seconds* is not a whole number, 0 or more.
    """
    _, runtime, site, enter = begin_without_context()
    limit_ns = _limit_ns(runtime, SetOpWaitTimeOut.__name__, seconds)
    runtime.pay(runtime.costs.other)
    runtime.state(WaitLimit).ns = limit_ns
    runtime.called(SetOpWaitTimeOut.__name__, enter, site)


@verb(acl="aclrtSetOpExecuteTimeOut", is_setting=True)
async def SetOpExecuteTimeOut(seconds: Integer) -> None:
    """Limit how long a kernel may run.

    Stands for aclrtSetOpExecuteTimeOut; CUDA has no such call. The limit holds for all launches from now on. A kernel
    that would run longer fails after that time with OP_EXECUTE_TIMEOUT, on a cube core with CUBE_TIMEOUT.

    Args:
        seconds: Whole seconds of simulated time; 0, as at first, is no limit.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; INVALID_VALUE if *seconds* is not a whole number, 0 or more.
    """
    _, runtime, site, enter = begin_without_context()
    limit_ns = _limit_ns(runtime, SetOpExecuteTimeOut.__name__, seconds)
    runtime.pay(runtime.costs.other)
    runtime.state(Launches).limit(limit_ns)
    runtime.called(SetOpExecuteTimeOut.__name__, enter, site)


def _limit_ns(runtime: Runtime, name: str, seconds: Integer) -> Nanoseconds:
    _check_rules(runtime, name)
    if not is_integer(seconds) or seconds < 0:
        raise runtime.error(Kind.INVALID_VALUE, f"{seconds!r} seconds", "use a whole number, 0 or more")
    return runtime.limit_ns("seconds", int(seconds), 10**9)


@dataclass(frozen=True, slots=True)
class ExceptionInfo:
    """A failed task: its operation, stream and device, its code, and what was wrong."""

    op: Op
    stream: Stream
    device: int
    code: int
    what: str


class _ExceptionCallback:
    """The observer that calls a runtime's exception callback, if one is set."""

    __slots__ = ("teller",)

    def __init__(self) -> None:
        self.teller: _Teller | None = None


class _Teller(Observer):
    def __init__(self, runtime: Runtime, callback: Callable[[ExceptionInfo], object]) -> None:
        self._runtime = runtime
        self._callback = callback

    def failed(self, op: Op, error: DeviceError) -> None:
        own = code_of(error)
        code = self._runtime.rules.codes[error.kind].value if own is None else own
        self._callback(ExceptionInfo(op, op.stream, op.stream.context.device.ordinal, code, error.what))


@verb(acl="aclrtSetExceptionInfoCallback")
async def SetExceptionInfoCallback(callback: Callable[[ExceptionInfo], object] | None) -> None:
    """Let *callback* be called for each task on a device that fails, at that instant.

    Stands for aclrtSetExceptionInfoCallback; CUDA has no such call. The last callback that was set counts. It must not
    call verbs.

    Args:
        callback: A function of one ExceptionInfo, or None to end it.

    Waits:
        all rules: For nothing.

    Raises:
        TypeError: *callback* cannot be called, or is a coroutine function.

    Example:
        await SetExceptionInfoCallback(lambda info: print(info.op, info.code, info.what))
    """
    _, runtime, site, enter = begin_without_context()
    if callback is not None:
        check_function("an exception callback", callback)
    runtime.pay(runtime.costs.other)
    current_callback = runtime.state(_ExceptionCallback)
    if current_callback.teller is not None:
        runtime.hooks.remove(current_callback.teller)
        current_callback.teller = None
    if callback is not None:
        current_callback.teller = _Teller(runtime, callback)
        runtime.hooks.add(current_callback.teller)
    runtime.called(SetExceptionInfoCallback.__name__, enter, site)


def _check_rules(runtime: Runtime, name: str) -> None:
    if runtime.rules.kernel_failure is not KernelFailure.PER_STREAM:
        raise runtime.error(
            Kind.NOT_SUPPORTED, f"{name}() under rules {runtime.rules.name}", "a failure there is the whole context's"
        )
