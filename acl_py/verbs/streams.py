"""Streams: create and destroy them, wait for them, and let them wait for events."""

from enum import Enum, IntFlag
from sys import _getframe
from typing import NoReturn

from acl_py.calls.acts import Asked, Destroyed, Made, Plain, Synchronised
from acl_py.calls.table import verb
from acl_py.errors import DeviceError, Kind
from acl_py.runtime.calls import Call, begin
from acl_py.runtime.folds import refuse_shared
from acl_py.runtime.runtime import Limit, Runtime, Subjects
from acl_py.runtime.scopes import Scope, current_scope, present_scope
from acl_py.sites import Site, site_of
from acl_py.verbs.capturing import wait_in_capture
from acl_py.verbs.hot import wait
from acl_py.waiting.deadlocks import Poll, Waiting
from device_model import handles
from device_model.compiled import IS_COMPILED
from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.errors import shown
from device_model.events import Event
from device_model.integers import Integer, integer
from device_model.names import check_name
from device_model.rules import Destroy, EventClass, ForeignStream, HostCall
from device_model.streams import LegacyStream, Stream


class Status(Enum):
    """The answer of a query.

    It is neither true nor false: in C the answer "complete" is 0, and in PyTorch it is True.
    """

    COMPLETE = "complete"
    NOT_READY = "not ready"

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} is neither true nor false: ask whether the answer `is Status.COMPLETE`")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            raise TypeError(
                f"{self} is not a number to compare with {other!r}: ask whether the answer `is Status.COMPLETE`"
            )
        return super().__eq__(other)

    __hash__ = Enum.__hash__  # a class with an __eq__ of its own has none otherwise


class NamedStream(Enum):
    """The streams that every context has."""

    LEGACY = "the legacy default stream"
    PER_THREAD = "the per-thread default stream"


class StreamFlag(IntFlag):
    """aclrt's stream flags, with their values."""

    FAST_LAUNCH = 0x1
    FAST_SYNC = 0x2
    PERSISTENT = 0x4
    HUGE = 0x8
    CPU_SCHEDULE = 0x10
    DEVICE_USE_ONLY = 0x20


_STREAM_FLAGS = 0x3F
_BOUND = StreamFlag.PERSISTENT | StreamFlag.CPU_SCHEDULE | StreamFlag.DEVICE_USE_ONLY


class WaitLimit:
    """How long a stream may wait for an event, a notify or a value in memory: *ns*, or 0 for no limit."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns: Nanoseconds = 0


LEGACY_STREAM = NamedStream.LEGACY
PER_THREAD_STREAM = NamedStream.PER_THREAD

# A stream as verbs take it; None is the default stream, which the rules choose.
StreamLike = handles.Stream | NamedStream | None


def resolve(
    scope: Scope, stream: StreamLike, name: str, *, captures: bool = False, is_kernel: bool = False, queues: bool = True
) -> Stream:
    """Return the stream that *stream* means in *scope* for a call of the verb *name*; refuse one that cannot be used
    there.

    A stream that captures can be used if the verb *captures*: its work can become a node of a graph. During the update
    of a task group a verb that *queues* may queue only kernels.
    """
    found = resolve_any(scope, stream)
    if found.update is not None and queues:
        found.update.check(name, scope.runtime.error, is_kernel=is_kernel)
    if scope.runtime.captures.running:
        scope.runtime.captures.refuse_legacy(scope.runtime, found, name)
        if found.branch is not None:
            if not captures:
                scope.runtime.captures.refuse_stream(scope.runtime, found, name)
            scope.runtime.captures.check_lost(scope.runtime, found.branch.capture)
            found.branch.capture.check_groups(found, name, scope.runtime.error, is_kernel=is_kernel)
    return found


def resolve_any(scope: Scope, stream: StreamLike) -> Stream:
    """Return the stream that *stream* means in *scope*, whether it captures or not; refuse one that is gone."""
    context = scope.context
    if isinstance(stream, Stream) and stream.home is context and context.error is None:
        return stream  # most streams; the rest of the function would find the same, more slowly
    if stream is None:
        return context.default
    if isinstance(stream, NamedStream):
        named = context.legacy if stream is LEGACY_STREAM else context.per_thread
        if named is None:
            raise scope.runtime.error(
                Kind.NOT_SUPPORTED,
                f"rules {scope.runtime.rules.name} have no such thing as {stream.value}",
                "use None, the default stream",
            )
        return named
    if not isinstance(stream, Stream):
        raise TypeError(f"a stream must be what CreateStream() gave, None or PER_THREAD_STREAM, not {shown(stream)}")
    if stream.scheduler is not scope.runtime.scheduler:
        raise scope.runtime.error(
            Kind.INVALID_HANDLE,
            f"{stream!r} belongs to another simulation",
            "create streams in the simulation that uses them",
        )
    scope.runtime.check_stream(stream)
    if stream.context is not context and scope.runtime.rules.foreign_stream is ForeignStream.REFUSED:
        raise scope.runtime.error(
            Kind.FOREIGN_STREAM,
            f"{stream!r} belongs to {stream.context!r}, and {context!r} is current",
            "SetCurrentContext() to its context first",
        )
    return stream


@verb(acl="aclrtCreateStream", cuda="cudaStreamCreate", step="create_stream")
async def CreateStream(*, nonblocking: bool = False, priority: Integer = 0, name: str | None = None) -> handles.Stream:
    """Create a stream in the current context.

    Stands for aclrtCreateStream and cudaStreamCreateWithPriority.

    Args:
        nonblocking: True for a stream that takes no part in the default-stream rule of CUDA's legacy stream.
        priority: The smaller, the more urgent: kernels of an urgent stream get the next free cores, at block
            boundaries. It is clamped to the range of DeviceGetStreamPriorityRange().
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        all rules: For nothing.

    Returns:
        The stream.

    Raises:
        AclError: NO_STREAM_LEFT if all streams of the device are in use.
        TypeError: *priority* is not an int, or *name* is not a str.
        ValueError: *name* is empty, too long or not printable.

    Example:
        uploads = await CreateStream(name="uploads")  # stream 'uploads' in every message and view
    """
    call = begin()
    check_name(name)
    priority = integer("priority", priority)
    return _create(
        call, CreateStream.__name__, nonblocking=bool(nonblocking), priority=priority, bound=False, name=name
    )


@verb(acl="aclrtCreateStreamWithConfig")
async def CreateStreamWithConfig(priority: Integer, flag: Integer, *, name: str | None = None) -> handles.Stream:
    """Create a stream with aclrt's configuration.

    Stands for aclrtCreateStreamWithConfig; CUDA has no such call.

    Args:
        priority: 0, the most urgent, to 7; it is clamped to this range.
        flag: 0, or members of StreamFlag combined. FAST_LAUNCH and FAST_SYNC change nothing here. The work of a
            PERSISTENT, CPU_SCHEDULE or DEVICE_USE_ONLY stream waits for a model to run it, and a host that synchronises
            with such a stream does not wait.
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Returns:
        The stream.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; NO_STREAM_LEFT if all streams of the device are in use;
            INVALID_VALUE for an unknown *flag*.
        TypeError: *priority* or *flag* is not an int, or *name* is not a str.
        ValueError: *name* is empty, too long or not printable.

    Example:
        urgent = await CreateStreamWithConfig(0, StreamFlag.FAST_LAUNCH | StreamFlag.FAST_SYNC)
    """
    _, runtime, _, _ = call = begin()
    if EventClass.FLAG not in runtime.rules.events:
        raise runtime.error(
            Kind.NOT_SUPPORTED, f"CreateStreamWithConfig() under rules {runtime.rules.name}", "use CreateStream()"
        )
    check_name(name)
    priority, flag = integer("priority", priority), integer("flag", flag)
    if flag < 0 or flag & ~_STREAM_FLAGS:
        raise runtime.error(Kind.INVALID_VALUE, f"stream flag {flag:#x}", f"use {list(StreamFlag)}")
    bound = bool(flag & _BOUND)
    return _create(call, CreateStreamWithConfig.__name__, nonblocking=True, priority=priority, bound=bound, name=name)


def _create(call: Call, verb: str, *, nonblocking: bool, priority: int, bound: bool, name: str | None) -> Stream:
    scope, runtime, site, enter = call
    ids = scope.context.device.stream_ids
    if not ids.free:
        raise runtime.error(
            Kind.NO_STREAM_LEFT,
            f"all {ids.limit} streams of {scope.context.device!r} are in use",
            "destroy those that are not needed, or share them",
        )
    runtime.pay(runtime.costs.create_stream)
    stream = scope.context.create_stream(nonblocking=nonblocking, priority=priority, made=site, bound=bound, name=name)
    runtime.called(verb, enter, site, Made(None, stream))
    return stream


@verb(acl="aclrtDeviceGetStreamPriorityRange", cuda="cudaDeviceGetStreamPriorityRange")
async def DeviceGetStreamPriorityRange() -> tuple[int, int]:
    """Return the range of stream priorities.

    Stands for aclrtDeviceGetStreamPriorityRange and cudaDeviceGetStreamPriorityRange.

    Waits:
        all rules: For nothing.

    Returns:
        The least and the most urgent priority: (0, -5) under CUDA's rules, (7, 0) under ACL's.
    """
    _, runtime, site, enter = begin()
    runtime.brief_call(DeviceGetStreamPriorityRange.__name__, enter, site)
    return runtime.rules.priorities


@verb(acl="aclrtStreamGetPriority", cuda="cudaStreamGetPriority")
async def StreamGetPriority(stream: StreamLike = None) -> int:
    """Return the priority of *stream*, clamped as it was when the stream was created.

    Stands for aclrtStreamGetPriority and cudaStreamGetPriority.

    Args:
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        all rules: For nothing.

    Returns:
        The priority; a smaller one is more urgent.

    Raises:
        AclError: INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream = resolve_any(scope, stream)
    runtime.brief_call(StreamGetPriority.__name__, enter, site, Asked(stream))
    return stream.priority


@verb(acl="aclrtGetStreamAvailableNum")
async def GetStreamAvailableNum() -> int:
    """Return how many more streams can be created on the current device.

    Stands for aclrtGetStreamAvailableNum; CUDA has no such call.

    Waits:
        all rules: For nothing.

    Returns:
        The number of streams.
    """
    scope, runtime, site, enter = begin()
    runtime.brief_call(GetStreamAvailableNum.__name__, enter, site)
    return scope.context.device.stream_ids.free


@verb(acl="aclrtDestroyStream", cuda="cudaStreamDestroy", step="destroy_stream")
async def DestroyStream(stream: handles.Stream) -> None:
    """Destroy *stream*; its work completes.

    Stands for aclrtDestroyStream and cudaStreamDestroy. A call that is cancelled while it waits has destroyed nothing.

    Args:
        stream: The stream, as CreateStream() returned it.

    Waits:
        cuda, cuda_per_thread: For nothing (measured: destroy-stream-busy).
        acl: For all work of the stream.

    Raises:
        AclError: DEFAULT_STREAM for a default stream; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream*
            cannot be used here.
        DeadlockError: Under ACL's rules, the work can never complete.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream = _destroyable(scope, stream)
    runtime.captures.leave(runtime, stream)
    runtime.pay(runtime.costs.destroy_stream)
    if runtime.rules.destroy is Destroy.WAITS and not stream.bound:
        await runtime.wait(stream.backlog(), f"DestroyStream({stream.name})", site, (stream,))
        runtime.check_stream(stream)  # refuses it if another task has destroyed it
    stream.context.destroy_stream(stream, site)
    runtime.called(DestroyStream.__name__, enter, site, Destroyed(stream))


def _destroyable(scope: Scope, stream: StreamLike) -> Stream:
    stream = resolve_any(scope, stream)
    if stream.id not in stream.context.streams:
        raise scope.runtime.error(
            Kind.DEFAULT_STREAM, f"{stream!r} is a default stream", "only what CreateStream() gave can be destroyed"
        )
    return stream


@verb(acl="aclrtDestroyStreamForce")
async def DestroyStreamForce(stream: handles.Stream) -> None:
    """Destroy *stream* and drop the work that is queued in it.

    Stands for aclrtDestroyStreamForce; CUDA has no such call. Work that runs ends without effect.

    Args:
        stream: The stream, as CreateStream() returned it.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: DEFAULT_STREAM for a default stream; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream*
            cannot be used here.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream = _destroyable(scope, stream)
    runtime.captures.leave(runtime, stream)
    runtime.pay(runtime.costs.destroy_stream)
    stream.context.device.abort(stream, _aborted(stream, site))
    stream.context.destroy_stream(stream, site)
    runtime.called(DestroyStreamForce.__name__, enter, site, Destroyed(stream, forced=1))


@verb(acl="aclrtStreamAbort")
async def StreamAbort(stream: handles.Stream) -> None:
    """Drop the work that is queued in *stream*, and let the work that runs end without effect.

    Stands for aclrtStreamAbort; CUDA has no such call. The next synchronisation with the stream raises STREAM_ABORTED.
    Streams that wait for events of dropped work go on: such an event counts as reached.

    Args:
        stream: The stream; None is the default one.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream = resolve(scope, stream, StreamAbort.__name__, queues=False)
    runtime.pay(runtime.costs.other)
    stream.context.device.abort(stream, _aborted(stream, site))
    runtime.called(StreamAbort.__name__, enter, site, Plain((stream,)))


def _aborted(stream: Stream, site: Site) -> DeviceError:
    return DeviceError(Kind.STREAM_ABORTED, f"{stream!r} was aborted at {site}", "queue its work again if it is needed")


@verb(
    acl="aclrtSynchronizeStream",
    cuda="cudaStreamSynchronize",
    does=HostCall.SYNCHRONISES,
    step="sync_stream",
)
async def SynchronizeStream(stream: StreamLike = None) -> None:
    """Wait until all work that is queued in *stream* has completed.

    Stands for aclrtSynchronizeStream and cudaStreamSynchronize.

    Args:
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        cuda, cuda_per_thread: For the work of the stream. Of the legacy stream, also for the work of all blocking
            streams of its context, but not of non-blocking ones (measured: legacy-sync, legacy-sync-nonblocking).
        acl: For the work of the stream.

    Raises:
        AclError: The kind of the failure if the context of the stream has failed, or under ACL's rules the stream
            itself; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        DeadlockError: The work can never complete.
        TypeError: *stream* is not a stream.
    """
    await synchronize(begin(), SynchronizeStream.__name__, stream, None)


@verb(
    acl="aclrtSynchronizeStreamWithTimeout",
    cuda="cudaStreamSynchronize",
    does=HostCall.SYNCHRONISES,
    step="sync_stream",
)
async def SynchronizeStreamWithTimeout(stream: StreamLike, timeout: Integer) -> None:
    """Wait as SynchronizeStream() does, for at most *timeout* milliseconds.

    Stands for aclrtSynchronizeStreamWithTimeout; CUDA has no such call, and its rules give the code of
    cudaErrorTimeout.

    Args:
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.
        timeout: Milliseconds of simulated time, 1 or more; -1 is no limit.

    Waits:
        cuda, cuda_per_thread: For the work of the stream, and of the legacy stream also for that of all blocking
            streams, at most *timeout*.
        acl: For the work of the stream, at most *timeout*.

    Raises:
        AclError: STREAM_TIMEOUT if the time is over, in which case the work goes on and the error says what blocks it;
            INVALID_VALUE for a *timeout* of 0 or below -1; the kind of the failure if the context or the stream has
            failed; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        DeadlockError: The work can never complete, and there is no limit.
        TypeError: *timeout* is not an int, or *stream* is not a stream.

    Example:
        try:
            await SynchronizeStreamWithTimeout(stream, 20)
        except AclError as error:
            print(error)  # what the stream waits for
    """
    _, runtime, _, _ = call = begin()
    limit = limit_of(runtime, timeout, Kind.STREAM_TIMEOUT)
    await synchronize(call, SynchronizeStreamWithTimeout.__name__, stream, limit)


async def synchronize(call: Call, name: str, stream: StreamLike, limit: Limit | None) -> None:
    """Wait for the work of *stream* in a *call* of the function *name*, which traces and messages then show."""
    scope, runtime, site, _ = call
    stream = resolve(scope, stream, name, queues=False)
    what = f"{name}({stream.name})"
    work = NOTHING if stream.bound else stream.backlog()
    await runtime.synchronize(
        name, work, what, site, stream.context, (stream,), Synchronised(stream), limit, subjects=(stream,),
        freed_in=None if isinstance(stream, LegacyStream) else stream,
    )  # fmt: skip


def limit_of(runtime: Runtime, timeout: Integer, kind: Kind) -> Limit | None:
    """Return the limit of a wait of *timeout* milliseconds; None for -1, which is no limit."""
    timeout = integer("timeout", timeout, "a whole number of milliseconds")
    if timeout == 0 or timeout < -1:
        raise runtime.error(
            Kind.INVALID_VALUE, f"a time-out of {timeout} ms", "use -1 for no limit, or a number above 0"
        )
    return None if timeout == -1 else Limit(runtime.limit_ns("timeout", timeout, 10**6), kind)


@verb(acl="aclrtStreamQuery", cuda="cudaStreamQuery", does=HostCall.QUERIES, step="query_stream")
async def StreamQuery(stream: StreamLike = None) -> Status:
    """Return whether all work that is queued in *stream* has completed.

    Stands for aclrtStreamQuery and cudaStreamQuery. A loop of queries that can never end raises DeadlockError.

    Args:
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        all rules: For nothing; an answer of NOT_READY lets other tasks run first.

    Returns:
        Status.COMPLETE or Status.NOT_READY. Of the legacy stream, whether the work of all blocking streams has
        completed, too (measured: legacy-query).

    Raises:
        AclError: The kind of the failure if the context of the stream has failed; INVALID_HANDLE, FOREIGN_STREAM or
            NOT_SUPPORTED if *stream* cannot be used here.
        DeadlockError: The answer has been NOT_READY again and again, and can never change.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream = resolve(scope, stream, StreamQuery.__name__, queues=False)
    runtime.pay(runtime.costs.query)
    idle = stream.idle
    known = stream.tail if idle else NOTHING if stream.bound else None
    await answered(
        scope,
        known,
        lambda: Waiting(runtime.callers, f"StreamQuery({stream.name})", stream.backlog(), site),
        (stream,) if idle else (),
    )
    runtime.called(StreamQuery.__name__, enter, site, Asked(stream, int(known is not None)))
    runtime.check_context(stream.context)
    return Status.NOT_READY if known is None else Status.COMPLETE


async def answered(scope: Scope, known: Completion | None, poll: Poll, subjects: Subjects) -> None:
    """Follow up the answer of a query of *subjects*. *known* is the completion that it proved to be done, or None.

    None lets other tasks run, and raises DeadlockError if such answers can never change; *poll* describes the query.
    """
    runtime = scope.runtime
    if known is None:
        runtime.bridge.poll_failed(poll)
        await runtime.bridge.breathe()
        return
    runtime.bridge.poll_succeeded()
    await runtime.wait(known, None, None, subjects, sleeps=False)


@verb(acl="aclrtStreamWaitEvent", cuda="cudaStreamWaitEvent", step="wait")
async def StreamWaitEvent(stream: StreamLike, event: handles.Event, *, external: bool = False) -> None:
    """Let the work that is queued in *stream* from now on wait for the last record of *event*.

    Stands for aclrtStreamWaitEvent and cudaStreamWaitEvent. The host does not wait. A record that is made later does
    not count (measured: wait-then-rerecord), and a wait for an event that was never recorded has no effect (measured:
    wait-never-recorded). Under ACL's rules it is refused. An event of CreateEventWithFlag() is a level instead: the
    wait lasts until a record, also one made later, has set it. On the legacy stream a wait holds all blocking streams
    (measured: legacy-wait-only), if its event was ever recorded.

    Args:
        stream: The stream that waits; None is the default one. If it captures, its next node waits for the record,
            which was made in the same capture; a stream that does not is drawn into the capture of the record.
        event: The event.
        external: In a capture: wait at each launch for the record that is the last one then, as cudaEventWaitExternal
            lets. Elsewhere it changes nothing.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: WAIT_WITHOUT_RECORD under ACL's rules; NOT_SUPPORTED if the event was created without SYNC, or does
            not suit a stream that waits for a model; CAPTURE_ISOLATION, CAPTURE_MERGE or CAPTURE_INVALIDATED in a
            capture; INVALID_VALUE for a record of a capture that is over; INVALID_HANDLE if *event* is destroyed or of
            another simulation; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream, or *event* is not an event.

    Example:
        await LaunchKernel(work, 8, (), stream)
        await RecordEvent(event, stream)
        await StreamWaitEvent(other, event)
        await LaunchKernel(work, 8, (), other)  # begins when the first has ended
    """
    if IS_COMPILED and wait(_getframe(1), event, stream):
        return
    scope = present_scope() or current_scope()  # begin(), written out: this is the hot path
    runtime, context = scope.runtime, scope.context
    if context.alert:
        runtime.check_call(context, StreamWaitEvent.__name__)
    enter = runtime.host_ns
    site = site_of(_getframe(1))
    if (
        type(stream) is not context.stream_type
        or stream.home is not context
        or type(event) is not context.event_type
        or event.home is not context  # a captured record has no home either
    ):
        stream, event = _resolve_wait(scope, stream, event)
        if stream.branch is not None or event.captured is not None:
            wait_in_capture(runtime, StreamWaitEvent.__name__, stream, event, site, external=external)
            return
    runtime.pay(runtime.wait_cost if not runtime.cold else runtime.cost_of("wait"))
    work = event.work
    if type(event) is not Event:
        work = event.hold_back(stream, site, runtime.state(WaitLimit).ns)
        runtime.scheduler.settle()
    elif work is not None:
        stream.wait(work)
    hooks = runtime.hooks
    if hooks.waited is not None:
        hooks.waited(event, stream, enter, site, work or NOTHING)


def _resolve_wait(scope: Scope, stream: StreamLike, event: handles.Event) -> tuple[Stream, Event]:
    """Return the stream and the event of a wait; refuse a wait that the class of *event* does not allow."""
    stream = resolve(scope, stream, StreamWaitEvent.__name__, captures=True)
    context = scope.context
    if type(event) is not context.event_type or event.home is not context:
        event = check_event(scope, event)
        refuse_shared(scope.runtime, "StreamWaitEvent()", repr(event), event.context.device.ordinal)
        _check_wait(scope.runtime, stream, event)
    return stream, event


def _check_wait(runtime: Runtime, stream: Stream, event: Event) -> None:
    """Refuse a wait that the class of *event* does not allow."""
    check_bound(runtime, stream, event)
    if not event.waitable:
        raise runtime.error(
            Kind.NOT_SUPPORTED, f"{event!r} was created without SYNC", "create it with EventFlag.SYNC to wait for it"
        )
    if event.work is None and event.captured is None and event.class_ is EventClass.RECORDED:
        raise runtime.error(
            Kind.WAIT_WITHOUT_RECORD,
            f"{event!r} has nothing to wait for",
            "record it first, or create it with CreateEventExWithFlag(), whose events need no record",
        )


def check_bound(runtime: Runtime, stream: Stream, event: Event) -> None:
    """Refuse an event that a stream which waits for a model cannot use."""
    if stream.bound and event.class_ is not EventClass.FLAG:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"{event!r} on {stream!r}, whose work waits for a model",
            "use an event of CreateEventWithFlag(), which has a flag of its own",
        )


def check_event(scope: Scope, event: object) -> Event:
    """Return *event*; refuse anything but a living event of this simulation, whose context has not failed."""
    context = scope.context
    if type(event) is context.event_type and event.home is context and context.error is None:
        return event  # most events; the rest of the function would find nothing either
    if not isinstance(event, Event):
        raise TypeError(f"an event must be what CreateEvent() gave, not {shown(event)}")
    if event.context.device.scheduler is not scope.runtime.scheduler:
        raise scope.runtime.error(
            Kind.INVALID_HANDLE,
            f"{event!r} belongs to another simulation",
            "create events in the simulation that uses them",
        )
    if event.destroyed is not None:
        what = f"{event!r} is gone"
        raise scope.runtime.error(Kind.INVALID_HANDLE, what, "create one with CreateEvent()", dead=event)
    scope.runtime.check_context(event.context)
    return event
