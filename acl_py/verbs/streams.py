"""Streams: which one an argument means; create and destroy them, wait for them and query them."""

from enum import Enum, IntFlag

from acl_py.calls.acts import Asked, Destroyed, Made, Plain, Synchronised
from acl_py.calls.table import verb
from acl_py.errors import DeviceError, Kind
from acl_py.runtime.calls import Call, begin
from acl_py.runtime.runtime import Limit
from acl_py.runtime.scopes import Scope
from acl_py.sites import Site
from acl_py.verbs.waits import Status, answered, limit_of
from acl_py.waiting.deadlocks import Waiting
from device_model import handles
from device_model.completions import NOTHING
from device_model.errors import shown
from device_model.integers import Integer, integer
from device_model.names import check_name
from device_model.rules import Destroy, EventClass, ForeignStream, HostCall
from device_model.streams import LegacyStream, Stream


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
    stream = resolve_any(scope, stream)
    if stream.update is not None and queues:
        stream.update.check(name, scope.runtime.error, is_kernel=is_kernel)
    if scope.runtime.captures.running:
        scope.runtime.captures.refuse_legacy(scope.runtime, stream, name)
        if stream.branch is not None:
            if not captures:
                scope.runtime.captures.refuse_stream(scope.runtime, stream, name)
            scope.runtime.captures.check_lost(scope.runtime, stream.branch.capture)
            stream.branch.capture.check_groups(stream, name, scope.runtime.error, is_kernel=is_kernel)
    return stream


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
