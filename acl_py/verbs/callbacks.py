"""Host functions and callbacks: Python functions that are called in their turn in a stream.

A host function (CUDA's) runs on a thread of the runtime. A callback (ACL's) runs in the task or thread that has
subscribed to its stream, while that is in ProcessReport().
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from enum import IntEnum
from inspect import isawaitable
from typing import Any

from acl_py.calls.acts import CallbackBegan, CallbackEnded, HandedOver, Plain, Queued
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.blocking import BlockingBridge
from acl_py.runtime.calls import Call, begin, begin_without_context, check_function
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.signals import check_signals
from acl_py.verbs.streams import StreamLike, resolve
from device_model.completions import NOTHING, Completion, Nanoseconds, Need
from device_model.errors import shown
from device_model.integers import Integer, is_integer
from device_model.ops import Op
from device_model.scheduler import nanoseconds
from device_model.steps import Step, StepKind, Turn
from device_model.streams import Stream
from device_model.work import HostFunction, Lane

_QUEUE = "queue one with LaunchCallback(), or give ProcessReport() a time limit"  # to break a deadlock
_CALLBACK = "callback "  # how the names of their steps begin
Rest = Callable[[Nanoseconds | None, Completion, str, object], Coroutine[Any, Any, None]]  # see BlockingBridge.rest


class CallbackBlock(IntEnum):
    """aclrtCallbackBlockType, with its values."""

    NO_BLOCK = 0  # work behind the callback does not wait for it
    BLOCK = 1


@verb(acl="aclrtLaunchHostFunc", cuda="cudaLaunchHostFunc", step="host_func")
async def LaunchHostFunc(
    stream: StreamLike, function: Callable[..., object], args: Sequence[object] = (), *, us: float = 0
) -> Completion:
    """Queue a call of *function* in *stream*; work behind it waits for its end.

    Stands for aclrtLaunchHostFunc and cudaLaunchHostFunc. The functions of all streams run on one thread of the
    runtime, one at a time. They must not call the runtime, and must not wait for a task or thread that does. They run
    where the device is driven, so such a wait would never end. An exception in one is a failure of the work, as in a
    kernel; KeyboardInterrupt and SystemExit also come out of the call that runs the device.

    Args:
        stream: The stream; None is the default one.
        function: An ordinary function.
        args: Its arguments.
        us: How many microseconds of simulated time it takes.

    Waits:
        all rules: For nothing.

    Returns:
        The completion of the call.

    Raises:
        AclError: STREAM_SUBSCRIBED if the stream has a subscriber and so takes callbacks only; INVALID_HANDLE,
            FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *function* cannot be called, or is a coroutine function; *stream* is not a stream.
        ValueError: *us* is not a finite number, 0 or more.

    Example:
        await LaunchHostFunc(stream, print, ["the copies are done"], us=20)
    """
    scope, runtime, site, enter = begin()
    stream = resolve(scope, stream, LaunchHostFunc.__name__, captures=True)
    check_function("a host function", function)
    duration_ns = nanoseconds("us of a host function", us, 1000)
    if stream in subscribers_of(runtime):
        raise runtime.error(
            Kind.STREAM_SUBSCRIBED, f"{stream!r} has a subscriber", "use LaunchCallback(), or another stream"
        )
    op = Op(HostFunction(function, tuple(args), duration_ns), Lane.HOST, 0, site)
    runtime.submit(stream, op, runtime.cost_of("host_function"), 0)
    runtime.called(LaunchHostFunc.__name__, enter, site, Queued(op.work, stream))
    return op


class _Subscriptions:
    """The subscriber of each stream that has one."""

    __slots__ = ("subscribers",)

    def __init__(self) -> None:
        self.subscribers: dict[Stream, Subscriber] = {}


def subscribers_of(runtime: Runtime) -> "dict[Stream, Subscriber]":
    """Return the subscriber of each stream that has one; the caller may change it. Destroyed streams leave it here."""
    subscribers = runtime.state(_Subscriptions).subscribers
    for stream in [each for each in subscribers if each.destroyed or each.context.destroyed]:
        del subscribers[stream]
    return subscribers


class Subscriber:
    """The task or thread that runs the callbacks of some streams, and the callbacks that are due, in order."""

    __slots__ = ("_runtime", "arrived", "ready", "who")

    def __init__(self, runtime: Runtime, who: object) -> None:
        self._runtime = runtime
        self.who = who
        self.ready: deque[Callback] = deque()
        self.arrived = Need("a callback is due", self._coming, _QUEUE)  # done when there is one more

    def line_up(self, callback: "Callback", now: int) -> None:
        """Add *callback*, whose turn in its stream has come."""
        self.ready.append(callback)
        arrived, self.arrived = self.arrived, Need("a callback is due", self._coming, _QUEUE)
        arrived.complete(now)

    def _coming(self) -> Completion | None:
        streams = [stream for stream, subscriber in subscribers_of(self._runtime).items() if subscriber is self]
        return next((step for stream in streams for step in stream.steps if step.what.startswith(_CALLBACK)), None)


class Callback:
    """A function that the subscriber of a stream is to call."""

    __slots__ = ("block", "function", "over", "runtime", "stream", "taken_at", "turn", "user_data")

    def __init__(
        self, runtime: Runtime, stream: Stream, block: int, function: Callable[[Any], object], user_data: object
    ) -> None:
        self.runtime = runtime
        self.stream = stream
        self.block = block
        self.function = function
        self.user_data = user_data
        self.over = Completion()
        self.turn: Step  # its step in the stream
        self.taken_at: Any  # the line that calls ProcessReport()

    def call(self) -> object:
        """Call the function, and return what it returns."""
        return self.function(self.user_data)


@verb(acl="aclrtSubscribeReport", step="subscribe")
async def SubscribeReport(subscriber: "asyncio.Task[Any] | int | None", stream: StreamLike = None) -> None:
    """Let *subscriber* run the callbacks of *stream*.

    Stands for aclrtSubscribeReport; CUDA has no such call. The subscriber has to call ProcessReport(). A stream has one
    subscriber; the streams of a subscriber must be of one device.

    Args:
        subscriber: A task, the number of a thread, or None for the calling task.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; STREAM_SUBSCRIBED if the stream has a subscriber; NOT_A_SUBSCRIBER
            if *subscriber* has streams of another device; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream*
            cannot be used here.
        TypeError: *stream* is not a stream.

    Example:
        await SubscribeReport(None, stream)
        await LaunchCallback(print, "stream is here", CallbackBlock.NO_BLOCK, stream)
        await ProcessReport(100)  # prints it
        await UnsubscribeReport(None, stream)
    """
    scope, runtime, site, enter = begin()
    check_signals(runtime, SubscribeReport.__name__)
    stream = resolve(scope, stream, SubscribeReport.__name__)
    who = _who(subscriber)
    subscribers = subscribers_of(runtime)
    if stream in subscribers:
        raise runtime.error(
            Kind.STREAM_SUBSCRIBED,
            f"{stream!r} has a subscriber: {_called(runtime, subscribers[stream].who)}",
            "UnsubscribeReport() that one first",
        )
    others = [(stream, each) for stream, each in subscribers.items() if each.who == who]
    for other, _ in others:
        if other.context.device is not stream.context.device:
            raise runtime.error(
                Kind.NOT_A_SUBSCRIBER,
                f"{_called(runtime, who)} has subscribed to {other!r}, which is of another device than {stream!r}",
                "use one subscriber for each device",
            )
    runtime.pay(runtime.costs.other)
    subscribers[stream] = others[0][1] if others else Subscriber(runtime, who)
    if isinstance(runtime.bridge, BlockingBridge) and isinstance(who, int):
        runtime.bridge.expect(who)
    runtime.called(SubscribeReport.__name__, enter, site, Plain((stream,)))


@verb(acl="aclrtUnSubscribeReport", step="unsubscribe")
async def UnsubscribeReport(subscriber: "asyncio.Task[Any] | int | None", stream: StreamLike = None) -> None:
    """Let *subscriber* run the callbacks of *stream* no longer.

    Stands for aclrtUnSubscribeReport; CUDA has no such call.

    Args:
        subscriber: The task or the number of the thread, or None for the calling task.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; NOT_A_SUBSCRIBER if *subscriber* has not subscribed to the stream;
            INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    check_signals(runtime, UnsubscribeReport.__name__)
    stream = resolve(scope, stream, UnsubscribeReport.__name__)
    subscribers = subscribers_of(runtime)
    known = subscribers.get(stream)
    if known is None or known.who != _who(subscriber):
        raise runtime.error(
            Kind.NOT_A_SUBSCRIBER,
            f"{_called(runtime, _who(subscriber))} has not subscribed to {stream!r}",
            "SubscribeReport() first",
        )
    runtime.pay(runtime.costs.other)
    del subscribers[stream]
    runtime.called(UnsubscribeReport.__name__, enter, site, Plain((stream,)))


@verb(acl="aclrtLaunchCallback", step="launch_callback")
async def LaunchCallback(
    function: Callable[[Any], object], user_data: object, block: int, stream: StreamLike = None
) -> Completion:
    """Queue a call of *function* with *user_data* in *stream*, which the subscriber of the stream makes in
    ProcessReport().

    Stands for aclrtLaunchCallback; cudaLaunchHostFunc runs its functions on a thread of the runtime instead. A
    coroutine function is awaited. An exception in the function comes out of ProcessReport(). The function may call
    verbs, though the vendor advises against those that wait. SubscribeReport() has an example.

    Args:
        function: A function or coroutine function of one argument.
        user_data: Its argument.
        block: CallbackBlock.BLOCK lets work behind the callback wait for its end, CallbackBlock.NO_BLOCK does not.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Returns:
        The completion of the callback's turn in the stream.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; NO_SUBSCRIBER if the stream has none; INVALID_VALUE for another
            *block*; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *function* cannot be called, or *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    check_signals(runtime, LaunchCallback.__name__)
    stream = resolve(scope, stream, LaunchCallback.__name__)
    if not callable(function):
        raise TypeError(f"a callback must be callable, not {shown(function)}")
    if block not in tuple(CallbackBlock):
        raise runtime.error(Kind.INVALID_VALUE, f"block type {block!r}", "use CallbackBlock.BLOCK or NO_BLOCK")
    subscriber = subscribers_of(runtime).get(stream)
    if subscriber is None:
        raise runtime.error(
            Kind.NO_SUBSCRIBER, f"{stream!r} has no thread to run its callbacks", "call SubscribeReport() for it first"
        )
    runtime.pay(runtime.costs.host_function)
    callback = Callback(runtime, stream, int(block), function, user_data)
    function_name = str(getattr(function, "__name__", function))
    what = f"{_CALLBACK}{function_name}"
    turn = _turn(runtime, subscriber, callback)
    remedy = "let the stream's subscriber call ProcessReport()"
    callback.turn = stream.step(StepKind.CALLBACK, function_name, what, site, turn, remedy=remedy)
    runtime.scheduler.settle()
    runtime.called(LaunchCallback.__name__, enter, site, HandedOver(stream, int(block)))
    return callback.turn


def _turn(runtime: Runtime, subscriber: Subscriber, callback: Callback) -> Iterator[Completion]:
    subscriber.line_up(callback, runtime.scheduler.now)
    if callback.block == CallbackBlock.BLOCK:
        yield callback.over


@verb(acl="aclrtProcessReport", step="process_report")
async def ProcessReport(timeout: Integer) -> None:
    """Run the next callback of the streams that the calling task or thread has subscribed to.

    Stands for aclrtProcessReport; CUDA has no such call. SubscribeReport() has an example.

    Args:
        timeout: Milliseconds of simulated time to wait for a callback, 1 or more; -1 is no limit.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: Until a callback is due, at most *timeout*, and until it has run.

    Raises:
        AclError: REPORT_TIMEOUT if no callback came in time; NOT_A_SUBSCRIBER if the caller has no stream; NULL_POINTER
            for a *timeout* of 0 or below -1; NOT_SUPPORTED under CUDA's rules.
        DeadlockError: No callback can ever come, and there is no limit.
        BaseException: Whatever the callback raises.
    """
    report = await _take(begin_without_context(), timeout)
    try:
        result = report.call()
        if isawaitable(result):
            await result
    finally:
        await end_report(report)


async def take_report(timeout: Integer) -> "Callback":
    """Wait for the next callback and return it: the first half of ProcessReport().

    It is for faces that call the function themselves, without the lock of the runtime. They must call `end_report`
    afterwards. In a thread beside the main one, a call that no callback ends takes no time and is not recorded. How
    many of them there are is up to the system.
    """
    call = begin_without_context(ProcessReport.__name__)
    bridge = call[1].bridge
    if isinstance(bridge, BlockingBridge) and threading.current_thread() is not threading.main_thread():
        return await _take(call, timeout, bridge.rest)
    return await _take(call, timeout)


async def end_report(report: "Callback") -> None:
    """Let the stream of *report*, which was called, go on if it waits for that.

    Recordings have this as a call of its own: what the host does before it belongs to the callback.
    """
    runtime = report.runtime
    enter = runtime.host_ns
    report.over.complete(runtime.scheduler.now)
    runtime.scheduler.settle()
    runtime.pay(0)
    runtime.called("EndReport", enter, report.taken_at, CallbackEnded(report.stream, report.block))


async def _take(call: Call, timeout: Integer, rest: Rest | None = None) -> "Callback":
    _, runtime, site, enter = call
    check_signals(runtime, ProcessReport.__name__)
    if not is_integer(timeout) or not (timeout == -1 or timeout > 0):
        raise runtime.error(Kind.NULL_POINTER, f"timeout {timeout!r}", "it is in milliseconds: -1, or more than 0")
    timeout = int(timeout)
    subscriber = _subscriber(runtime)
    if subscriber is None:
        raise runtime.error(
            Kind.NOT_A_SUBSCRIBER,
            f"{_called(runtime, _who(None))} has not subscribed to any stream",
            "SubscribeReport() first",
        )
    limit_ns = None if timeout < 0 else runtime.limit_ns("timeout", timeout, 10**6)
    if rest is None:
        runtime.pay(runtime.costs.other)
    what = f"ProcessReport({timeout})"
    act: CallbackBegan[Stream] = CallbackBegan(timeout)

    def note() -> None:
        if rest is None or act.stream is not None:
            runtime.called(ProcessReport.__name__, enter, site, act)

    try:
        if rest is None:
            await _wait_for_callback(runtime, subscriber, limit_ns, what, site)
        elif not subscriber.ready:
            await rest(limit_ns, subscriber.arrived, what, site)
        if not subscriber.ready:
            raise runtime.error(
                Kind.REPORT_TIMEOUT,
                f"no callback came in {timeout} ms",
                "wait longer, or see what its stream waits for",
            )
        if rest is not None:
            runtime.pay(runtime.costs.other)
        callback = subscriber.ready.popleft()
        callback.taken_at = site
        act = CallbackBegan(timeout, callback.stream)
        # All work before it is done.
        await runtime.wait(NOTHING, what, site, (Turn(callback.turn),), sleeps=False)
    except GeneratorExit:
        raise
    except BaseException:
        note()
        raise
    note()
    return callback


async def _wait_for_callback(
    runtime: Runtime, subscriber: Subscriber, limit_ns: Nanoseconds | None, what: str, site: Any
) -> None:
    end_ns = None if limit_ns is None else runtime.host_ns + limit_ns
    while not subscriber.ready and (end_ns is None or runtime.host_ns < end_ns):
        left_ns = None if end_ns is None else end_ns - runtime.host_ns
        await runtime.wait(subscriber.arrived, what, site, limit_ns=left_ns)


def _subscriber(runtime: Runtime) -> Subscriber | None:
    callers = (_who(None), threading.get_ident())
    return next((each for each in subscribers_of(runtime).values() if each.who in callers), None)


def _called(runtime: Runtime, who: object) -> str:
    return runtime.callers.name(who) if isinstance(who, asyncio.Task) else f"thread {who}"


def _who(subscriber: object) -> object:
    if subscriber is not None:
        return subscriber
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.get_ident() if task is None else task
