"""Events in streams: a stream records an event, waits for it, or clears its flag."""

from sys import _getframe

from acl_py.calls.acts import Cleared
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.folds import refuse_shared
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Scope, current_scope, present_scope
from acl_py.sites import Site, site_of
from acl_py.verbs.capturing import record_in_capture, wait_in_capture
from acl_py.verbs.events import check_event
from acl_py.verbs.hot import record, wait
from acl_py.verbs.streams import StreamLike, resolve
from device_model import handles
from device_model.compiled import IS_COMPILED
from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.events import CountedEvent, Event, FlagEvent
from device_model.rules import EventClass
from device_model.streams import Stream


class WaitLimit:
    """How long a stream may wait for an event, a notify or a value in memory: *ns*, or 0 for no limit."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns: Nanoseconds = 0


@verb(acl="aclrtRecordEvent", cuda="cudaEventRecord", aliases=("EventRecord",), step="record")
async def RecordEvent(event: handles.Event, stream: StreamLike = None, *, external: bool = False) -> Completion:
    """Let *event* stand for all work that is queued in *stream* so far.

    Stands for aclrtRecordEvent and cudaEventRecord. The record replaces the one before. It takes no time on the device
    and no room in a queue. On the legacy stream it counts as work of the default stream, which is a barrier to all
    blocking streams (measured: legacy-event-only).

    Args:
        event: The event.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's. If it captures,
            streams of the capture may wait for the record, and no others.
        external: In a capture: record at each launch of the graph, as with cudaEventRecordExternal. Elsewhere it
            changes nothing.

    Waits:
        cuda, cuda_per_thread: For nothing.
        acl: Only if all event ids of the device are taken by records that are pending, until one of them is over.

    Returns:
        The completion of that work; in a capture one that is done.

    Raises:
        AclError: INVALID_HANDLE if *event* is destroyed, of another simulation or of another device than *stream*;
            CAPTURE_INVALIDATED if the capture of *stream* is lost;
            NOT_SUPPORTED if it does not suit a stream that waits for a model; INVALID_HANDLE, FOREIGN_STREAM or
            NOT_SUPPORTED if *stream* cannot be used here.
        DeadlockError: No event id can ever become free.
        TypeError: *event* is not an event, or *stream* is not a stream.

    Example:
        start, end = await CreateEvent(), await CreateEvent()
        await RecordEvent(start, stream)
        await LaunchKernel(work, 8, (), stream)
        await RecordEvent(end, stream)
        await SynchronizeEvent(end)
        print(await EventElapsedTime(start, end), "ms")
    """
    if IS_COMPILED:
        recorded = record(_getframe(1), event, stream)
        if recorded is not None:
            return recorded
    scope = present_scope() or current_scope()  # begin(), written out: this is the hot path
    runtime, context = scope.runtime, scope.context
    if context.alert:
        runtime.check_call(context, RecordEvent.__name__)
    enter = runtime.host_ns
    site = site_of(_getframe(1))
    if (
        type(stream) is not context.stream_type
        or stream.home is not context
        or type(event) is not context.event_type
        or event.home is not context
    ):
        stream, event = await _resolve_record(scope, stream, event, site)
        if stream.branch is not None:
            return record_in_capture(runtime, RecordEvent.__name__, stream.branch, event, site, external=external)
        if event.captured is not None:
            event.leave_capture()
    runtime.pay(runtime.record_cost if not runtime.cold else runtime.cost_of("record"))
    completion = event.record(stream, site)
    hooks = runtime.hooks
    if hooks.recorded is not None:
        hooks.recorded(event, stream, enter, site, completion)
    return completion


async def _resolve_record(scope: Scope, stream: StreamLike, event: handles.Event, site: Site) -> tuple[Stream, Event]:
    """Return the stream and the event of a record, when the event can be recorded."""
    stream = resolve(scope, stream, RecordEvent.__name__, captures=True)
    event = check_event(scope, event)
    if event.context.device is not stream.context.device:
        raise scope.runtime.error(
            Kind.INVALID_HANDLE,
            f"{event!r} and {stream!r} are of different devices",
            "record an event on a stream of its own device",
        )
    if type(event) is not scope.context.event_type:
        await _get_ready(scope, event, stream, site)
    return stream, event


async def _get_ready(scope: Scope, event: Event, stream: Stream, site: Site) -> None:
    """Wait until an event id is free for the next record of *event*, which holds it until the record is over."""
    check_bound(scope.runtime, stream, event)
    while isinstance(event, CountedEvent) and not event.ids.free:
        what = f"RecordEvent({event.name}) waits for an event id"
        await scope.runtime.wait(event.ids.until_free(), what, site, sleeps=False)
        scope.runtime.check_stream(stream)
        check_event(scope, event)


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


@verb(acl="aclrtResetEvent", step="reset")
async def ResetEvent(event: handles.Event, stream: StreamLike = None) -> Completion:
    """Clear the flag of *event* when *stream* comes to the reset.

    Stands for aclrtResetEvent; CUDA has no such call. Use the stream that waits for the event, behind the wait: if two
    streams wait, an early reset can leave the other one waiting without end. For an event of CreateEvent() under ACL's
    rules the documentation leaves the effect open; here it has none.

    Args:
        event: The event, of CreateEventWithFlag().
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        all rules: For nothing.

    Returns:
        The completion of the reset.

    Raises:
        AclError: NOT_SUPPORTED if the event has no flag, which is so under CUDA's rules, or does not suit a stream that
            waits for a model; INVALID_HANDLE if *event* is destroyed or of another simulation; INVALID_HANDLE,
            FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *event* is not an event, or *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream = resolve(scope, stream, ResetEvent.__name__)
    event = check_event(scope, event)
    check_bound(runtime, stream, event)
    if event.class_ is EventClass.SNAPSHOT or not event.waitable:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"{event!r} has no flag to clear",
            "events of CreateEventWithFlag(EventFlag.SYNC) have one, under rules='acl'",
        )
    runtime.pay(runtime.costs.record)
    completion = event.reset(stream, site) if isinstance(event, FlagEvent) else stream.turn()
    runtime.called(ResetEvent.__name__, enter, site, Cleared(event, stream))
    return completion


def check_bound(runtime: Runtime, stream: Stream, event: Event) -> None:
    """Refuse an event that a stream which waits for a model cannot use."""
    if stream.bound and event.class_ is not EventClass.FLAG:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"{event!r} on {stream!r}, whose work waits for a model",
            "use an event of CreateEventWithFlag(), which has a flag of its own",
        )


EventRecord = RecordEvent
