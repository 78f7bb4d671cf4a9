"""Events stand for the work of a stream up to a point: create, destroy and query them, wait for them, take times."""

from enum import IntFlag

from acl_py.calls.acts import Asked, Destroyed, Made, Plain, Synchronised
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import Call, begin
from acl_py.runtime.runtime import Limit
from acl_py.runtime.scopes import Scope
from acl_py.verbs.waits import Status, answered, limit_of
from acl_py.waiting.deadlocks import Waiting
from device_model import handles
from device_model.completions import NOTHING
from device_model.errors import shown
from device_model.events import Event
from device_model.integers import Integer, integer
from device_model.names import check_name
from device_model.rules import EventClass, HostCall


class EventFlag(IntFlag):
    """aclrtEvent's flags, with their values."""

    SYNC = 0x1  # streams can wait for it
    CAPTURE_STREAM_PROGRESS = 0x2
    TIME_LINE = 0x8  # it has times
    DEVICE_USE_ONLY = 0x10
    EXTERNAL = 0x20  # streams can wait for it, and no host: for graphs; of CreateEventWithFlag, and by itself
    IPC = 0x40  # by itself


_HERE = EventFlag.SYNC | EventFlag.CAPTURE_STREAM_PROGRESS | EventFlag.TIME_LINE | EventFlag.EXTERNAL


@verb(acl="aclrtCreateEvent", cuda="cudaEventCreate", step="create_event")
async def CreateEvent(*, timing: bool = True, blocking: bool = False, name: str | None = None) -> handles.Event:
    """Create an event in the current context.

    Stands for aclrtCreateEvent and cudaEventCreateWithFlags. A record takes a picture of the work in a stream, and the
    last record counts. Under CUDA's rules a wait for an event without a record has no effect; under ACL's rules it is
    refused.

    Args:
        timing: False for an event that is not used with EventElapsedTime().
        blocking: True lets a host that has to wait in SynchronizeEvent() sleep, so that it wakes later
            (cudaEventBlockingSync; measured: event-blocking-sync).
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        all rules: For nothing (measured: create-event-busy).

    Returns:
        The event.

    Raises:
        TypeError: *name* is not a str.
        ValueError: *name* is empty, too long or not printable.
    """
    call = begin()
    check_name(name)
    event = _create(call, CreateEvent.__name__, None, timing=bool(timing), waitable=True, name=name)
    event.blocking = bool(blocking)
    return event


@verb(acl="aclrtCreateEventWithFlag", step="create_event")
async def CreateEventWithFlag(flag: Integer, *, name: str | None = None) -> handles.Event:
    """Create a flag event: a record sets it, ResetEvent() clears it, and a wait lasts until it is set.

    Stands for aclrtCreateEventWithFlag; CUDA has no such events. A wait is also ended by a record that is made after
    it.

    Args:
        flag: EventFlag.SYNC, combined with EventFlag.TIME_LINE for an event with times; or EventFlag.EXTERNAL alone.
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Returns:
        The event.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules, or for a flag that needs other processes; NO_EVENT_LEFT if all event
            ids of the device are in use; INVALID_VALUE for flags that make no event.
        TypeError: *flag* is not an EventFlag or an int, or *name* is not a str.
        ValueError: *name* is empty, too long or not printable.

    Example:
        ready = await CreateEventWithFlag(EventFlag.SYNC)
        await StreamWaitEvent(stream, ready)  # holds the stream, although there is no record yet
        await RecordEvent(ready, other)
        await ResetEvent(ready, stream)  # behind the wait: ready for the next round
    """
    return _create_with(begin(), CreateEventWithFlag.__name__, EventClass.FLAG, flag, name)


@verb(acl="aclrtCreateEventExWithFlag", step="create_event")
async def CreateEventExWithFlag(flag: Integer, *, name: str | None = None) -> handles.Event:
    """Create a snapshot event, which behaves as CUDA's events do.

    Stands for aclrtCreateEventExWithFlag; under CUDA's rules CreateEvent() makes such events. The wait for one that was
    never recorded has no effect.

    Args:
        flag: EventFlag.SYNC, EventFlag.TIME_LINE or both.
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Returns:
        The event.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules, or for a flag that needs other processes; INVALID_VALUE for flags
            that make no such event.
        TypeError: *flag* is not an EventFlag or an int, or *name* is not a str.
        ValueError: *name* is empty, too long or not printable.
    """
    return _create_with(begin(), CreateEventExWithFlag.__name__, EventClass.SNAPSHOT, flag, name)


def _create_with(call: Call, verb: str, class_: EventClass, flag: Integer, name: str | None) -> Event:
    _, runtime, _, _ = call
    if len(runtime.rules.events) == 1:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"{verb}() under rules {runtime.rules.name}, which have one class of events",
            "use CreateEvent(), or rules='acl'",
        )
    check_name(name)
    flag = integer("flag", flag, "an EventFlag")
    if not 0 < flag < 0x80 or flag & 0x4 or flag & EventFlag.DEVICE_USE_ONLY:
        raise runtime.error(
            Kind.INVALID_VALUE, f"{flag:#x} makes no event for a host", "use EventFlag.SYNC, with TIME_LINE for times"
        )
    if any(flag & alone and flag != alone for alone in (EventFlag.EXTERNAL, EventFlag.IPC)):
        raise runtime.error(Kind.INVALID_VALUE, f"{EventFlag(flag)!r}: EXTERNAL and IPC stand alone", "use one of them")
    if flag & EventFlag.EXTERNAL and class_ is EventClass.SNAPSHOT:
        raise runtime.error(
            Kind.INVALID_VALUE, f"{verb}() makes no EXTERNAL events", "use CreateEventWithFlag(EventFlag.EXTERNAL)"
        )
    if flag & ~_HERE:
        raise runtime.error(
            Kind.NOT_SUPPORTED, f"{EventFlag(flag)!r} needs other processes", "use SYNC and TIME_LINE only"
        )
    waitable = bool(flag & (EventFlag.SYNC | EventFlag.EXTERNAL))
    event = _create(call, verb, class_, timing=bool(flag & EventFlag.TIME_LINE), waitable=waitable, name=name)
    event.external = bool(flag & EventFlag.EXTERNAL)
    return event


def _create(
    call: Call, verb: str, class_: EventClass | None, *, timing: bool, waitable: bool, name: str | None
) -> Event:
    scope, runtime, site, enter = call
    ids = scope.context.device.event_ids
    if class_ is EventClass.FLAG and not ids.free:
        raise runtime.error(
            Kind.NO_EVENT_LEFT,
            f"all {ids.limit} events of {scope.context.device!r} are in use",
            "destroy those that are not needed, or wait for records that are pending",
        )
    runtime.pay(runtime.costs.create_event)
    event = scope.context.create_event(class_, timing=timing, waitable=waitable, made=site, name=name)
    runtime.called(verb, enter, site, Made(None, event))
    return event


@verb(acl="aclrtDestroyEvent", cuda="cudaEventDestroy", step="destroy_event")
async def DestroyEvent(event: handles.Event) -> None:
    """Destroy *event*.

    Stands for aclrtDestroyEvent and cudaEventDestroy. Streams that wait for it keep waiting for the work that it stood
    for (measured: destroy-event-busy).

    Args:
        event: The event.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_HANDLE if *event* is destroyed or of another simulation.
        TypeError: *event* is not an event.
    """
    scope, runtime, site, enter = begin()
    event = check_event(scope, event)
    runtime.pay(runtime.costs.destroy_event)
    event.destroy(site)
    runtime.called(DestroyEvent.__name__, enter, site, Destroyed(event))


@verb(acl="aclrtQueryEventWaitStatus", step="query_waits")
async def QueryEventWaitStatus(event: handles.Event) -> Status:
    """Return whether all waits of streams for *event* are over.

    Stands for aclrtQueryEventWaitStatus; CUDA has no such call. A loop of queries that can never end raises
    DeadlockError.

    Args:
        event: The event; not a snapshot event, which does not count its waits.

    Waits:
        all rules: For nothing; an answer of NOT_READY lets other tasks run first.

    Returns:
        Status.COMPLETE, also if there was no wait, or Status.NOT_READY.

    Raises:
        AclError: NOT_SUPPORTED for a snapshot event, which all are under CUDA's rules, or one created with EXTERNAL;
            INVALID_HANDLE if *event* is destroyed or of another simulation.
        DeadlockError: The answer has been NOT_READY again and again, and can never change.
        TypeError: *event* is not an event.
    """
    scope, runtime, site, enter = begin()
    event = _check_host(scope, event, QueryEventWaitStatus.__name__)
    if event.class_ is EventClass.SNAPSHOT:
        raise runtime.error(Kind.NOT_SUPPORTED, f"{event!r} does not count its waits", "ask QueryEventStatus()")
    runtime.pay(runtime.costs.query)
    done = not event.waits
    await answered(
        scope,
        NOTHING if done else None,
        lambda: Waiting(runtime.callers, f"QueryEventWaitStatus({event.name})", NOTHING, site),
        (),
    )
    runtime.called(QueryEventWaitStatus.__name__, enter, site, Asked(event, int(done), of_waits=1))
    return Status.COMPLETE if done else Status.NOT_READY


@verb(acl="aclrtEventGetTimestamp", step="timestamp")
async def GetEventTimestamp(event: handles.Event) -> int:
    """Return when the last record of *event* took place.

    Stands for aclrtEventGetTimestamp; CUDA has no such call.

    Args:
        event: The event, which must have completed.

    Waits:
        all rules: For nothing.

    Returns:
        Whole microseconds of simulated time.

    Raises:
        AclError: NO_TIMING if the event was created without timing; NOT_RECORDED if it was never recorded; NO_TIME_YET
            if the record has not completed; CAPTURED_EVENT or INVALID_VALUE if it was made in a capture; INVALID_HANDLE
            if *event* is destroyed or of another simulation.
        TypeError: *event* is not an event.
    """
    scope, runtime, site, enter = begin()
    event = check_event(scope, event)
    runtime.captures.refuse_event(runtime, event, GetEventTimestamp.__name__)
    runtime.pay(runtime.costs.elapsed)
    try:
        _check_time(scope, event)
    finally:
        runtime.called(GetEventTimestamp.__name__, enter, site, Plain((event,)))
    return event.timestamp_ns() // 1000


@verb(acl="aclrtGetEventAvailNum")
async def GetEventAvailNum() -> int:
    """Return how many event ids the current device has left.

    Stands for aclrtGetEventAvailNum; CUDA has no such call.

    Waits:
        all rules: For nothing.

    Returns:
        The number of ids.
    """
    scope, runtime, site, enter = begin()
    runtime.brief_call(GetEventAvailNum.__name__, enter, site)
    return scope.context.device.event_ids.free


@verb(
    acl="aclrtQueryEventStatus",
    cuda="cudaEventQuery",
    does=HostCall.QUERIES,
    aliases=("EventQuery",),
    step="query_event",
)
async def QueryEventStatus(event: handles.Event) -> Status:
    """Return whether the last record of *event* has completed.

    Stands for aclrtQueryEventStatus and cudaEventQuery; also called EventQuery. A loop of queries that can never end
    raises DeadlockError.

    Args:
        event: The event.

    Waits:
        all rules: For nothing; an answer of NOT_READY lets other tasks run first.

    Returns:
        Status.COMPLETE or Status.NOT_READY. A snapshot event that was never recorded is complete (measured:
        query-never-recorded); events of the other classes, which ACL has, are not.

    Raises:
        AclError: The kind of the failure if the context of the event has failed; NOT_SUPPORTED for an event created
            with EXTERNAL; INVALID_HANDLE if *event* is destroyed or of another simulation.
        DeadlockError: The answer has been NOT_READY again and again, and can never change.
        TypeError: *event* is not an event.
    """
    scope, runtime, site, enter = begin()
    event = _check_host(scope, event, QueryEventStatus.__name__)
    runtime.pay(runtime.costs.query)
    done = event.done and (event.work is not None or event.class_ is EventClass.SNAPSHOT)
    work = event.work or NOTHING
    poll = Waiting(runtime.callers, f"QueryEventStatus({event.name})", work, site)
    await answered(scope, work if done else None, lambda: poll, (event,))
    runtime.called(QueryEventStatus.__name__, enter, site, Asked(event, int(done)))
    runtime.check_context(event.context)
    return Status.COMPLETE if done else Status.NOT_READY


@verb(
    acl="aclrtSynchronizeEvent",
    cuda="cudaEventSynchronize",
    does=HostCall.SYNCHRONISES,
    aliases=("EventSynchronize",),
    step="sync_event",
)
async def SynchronizeEvent(event: handles.Event) -> None:
    """Wait until the last record of *event* has completed.

    Stands for aclrtSynchronizeEvent and cudaEventSynchronize; also called EventSynchronize.

    Args:
        event: The event.

    Waits:
        all rules: For the work that the last record stands for, and not for work queued later (measured:
            sync-event-partial); for nothing if there was no record. A host that has to wait for an event created with
            *blocking* wakes later.

    Raises:
        AclError: The kind of the failure if the context of the event, or under ACL's rules the stream of the record,
            has failed; NOT_SUPPORTED for an event created with EXTERNAL; INVALID_HANDLE if *event* is destroyed or of
            another simulation.
        DeadlockError: The work can never complete.
        TypeError: *event* is not an event.
    """
    await _synchronize(begin(), SynchronizeEvent.__name__, event, None)


@verb(
    acl="aclrtSynchronizeEventWithTimeout",
    cuda="cudaEventSynchronize",
    does=HostCall.SYNCHRONISES,
    step="sync_event",
)
async def SynchronizeEventWithTimeout(event: handles.Event, timeout: Integer) -> None:
    """Wait as SynchronizeEvent() does, for at most *timeout* milliseconds.

    Stands for aclrtSynchronizeEventWithTimeout; CUDA has no such call.

    Args:
        event: The event.
        timeout: Milliseconds of simulated time, 1 or more; -1 is no limit.

    Waits:
        all rules: For the work that the last record stands for, at most *timeout*.

    Raises:
        AclError: EVENT_TIMEOUT if the time is over, in which case the work goes on; INVALID_VALUE for a *timeout* of 0
            or below -1; NOT_SUPPORTED for an event created with EXTERNAL; the kind of the failure if the context or the
            stream has failed; INVALID_HANDLE if *event* is destroyed or of another simulation.
        DeadlockError: The work can never complete, and there is no limit.
        TypeError: *timeout* is not an int, or *event* is not an event.
    """
    _, runtime, _, _ = call = begin()
    limit = limit_of(runtime, timeout, Kind.EVENT_TIMEOUT)
    await _synchronize(call, SynchronizeEventWithTimeout.__name__, event, limit)


async def _synchronize(call: Call, name: str, event: handles.Event, limit: Limit | None) -> None:
    scope, runtime, site, _ = call
    event = _check_host(scope, event, name)
    streams = () if event.stream is None else (event.stream,)
    what = f"{name}({event.name})"
    asleep_ns = runtime.costs.wake_asleep if event.blocking else 0
    work = event.work or NOTHING
    await runtime.synchronize(
        name, work, what, site, event.context, streams, Synchronised(event), limit, asleep_ns, (event,)
    )


def _check_host(scope: Scope, event: handles.Event, name: str) -> Event:
    """Return *event*, which a call of *name* asks; refuse one that a host can neither wait for nor query."""
    event = check_event(scope, event)
    if scope.context.alert or event.captured is not None:
        scope.runtime.captures.refuse_event(scope.runtime, event, name)
    if event.external:
        raise scope.runtime.error(
            Kind.NOT_SUPPORTED, f"{event!r} was created with EXTERNAL", "synchronise with its stream instead"
        )
    return event


@verb(acl="aclrtEventElapsedTime", cuda="cudaEventElapsedTime", step="elapsed")
async def EventElapsedTime(start: handles.Event, end: handles.Event) -> float:
    """Return the time from the record of *start* to the record of *end*.

    Stands for aclrtEventElapsedTime and cudaEventElapsedTime.

    Args:
        start: An event with timing, whose record has completed.
        end: Another of the same device.

    Waits:
        all rules: For nothing: synchronise with *end* first.

    Returns:
        Milliseconds, negative if *end* came before *start* (measured: elapsed-reversed). Work of other streams may have
        run in between (measured: elapsed-cross-stream).

    Raises:
        AclError: NO_TIMING if one was created without timing; NOT_RECORDED if one was never recorded; NO_TIME_YET if a
            record has not completed; INVALID_HANDLE if one is destroyed, of another simulation, or if they are of
            different devices.
        TypeError: One is not an event.
    """
    scope, runtime, site, enter = begin()
    start, end = check_event(scope, start), check_event(scope, end)
    for event in (start, end):
        runtime.captures.refuse_event(runtime, event, EventElapsedTime.__name__)
    if start.context.device is not end.context.device:
        raise runtime.error(
            Kind.INVALID_HANDLE,
            f"{start!r} and {end!r} are of different devices, whose clocks have nothing to do with one another",
            "take both times on one device",
        )
    runtime.pay(runtime.costs.elapsed)
    try:
        for event in (start, end):
            _check_time(scope, event)
    finally:
        runtime.called(EventElapsedTime.__name__, enter, site, Plain((start, end)))
    return end.ms_since(start)


def _check_time(scope: Scope, event: Event) -> None:
    if not event.timing:
        raise scope.runtime.error(
            Kind.NO_TIMING,
            f"{event!r} was created without timing",
            "create it with CreateEvent(timing=True), or EventFlag.TIME_LINE",
        )
    if event.work is None:
        raise scope.runtime.error(
            Kind.NOT_RECORDED, f"{event!r} has no time", "record it on a stream with RecordEvent() first"
        )
    if not event.done:
        raise scope.runtime.error(Kind.NO_TIME_YET, f"{event!r} has no time yet", "synchronise with it before asking")


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


EventQuery = QueryEventStatus
EventSynchronize = SynchronizeEvent
