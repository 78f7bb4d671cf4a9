"""Events: snapshots of a stream's work, to wait for, to ask about and to take times from."""

from sys import _getframe

from acl_py.errors import Kind
from acl_py.runtime import Scope, current, here, scope_var
from acl_py.sites import site_of
from acl_py.streams import Status, StreamLike, answered, check_event, resolve
from device_model.events import Event as Event
from device_model.scheduler import NOTHING, Completion
from device_model.streams import Stream


async def CreateEvent(*, timing: bool = True) -> Event:
    """Create an event in the current context; without *timing* it cannot be used for EventElapsedTime."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    runtime.pay(runtime.costs.create_event)
    event = scope.context.create_event(timing=bool(timing), made=site)
    runtime.called("CreateEvent", enter, site)
    return event


async def DestroyEvent(event: Event) -> None:
    """Destroy *event*; streams that wait for it keep what it stood for (measured: destroy-event-busy)."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    check_event(scope, event)
    runtime.pay(runtime.costs.destroy_event)
    event.destroy(site)
    runtime.called("DestroyEvent", enter, site)


async def RecordEvent(event: Event, stream: StreamLike = None) -> Completion:
    """Let *event* stand for all that was queued in *stream* up to now, whatever it stood for before.

    Returns the completion of that work. On the legacy stream a record counts as work of the default stream.
    """
    scope = scope_var.get() or here()  # current(), written out: this is the hot path
    runtime = scope.runtime
    if scope.context.error is not None:
        raise runtime.lost(scope.context)
    enter = runtime.host_ns
    site = site_of(_getframe(1))
    if type(stream) is not Stream or stream.home is not scope.context:
        stream = resolve(scope, stream)
    if type(event) is not Event or event.home is not scope.context:
        check_event(scope, event)
    if event.context.device is not stream.context.device:
        raise runtime.fail(
            Kind.INVALID_HANDLE,
            f"{event!r} and {stream!r} are of different devices",
            "record an event on a stream of its own device",
        )
    runtime.pay(runtime.costs.record)
    completion = event.record(stream)
    hooks = runtime.hooks
    if hooks.recorded is not None:
        hooks.recorded(event, stream)
    call = runtime.hooks.call
    if call is not None:
        call("RecordEvent", enter, runtime.host_ns, site)
    return completion


async def QueryEventStatus(event: Event) -> Status:
    """Has the last record of *event* completed? If there was none: yes."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    check_event(scope, event)
    runtime.pay(runtime.costs.query)
    done = event.done
    await answered(scope, (event.work or NOTHING) if done else None, f"QueryEventStatus({event!r})", site)
    runtime.called("QueryEventStatus", enter, site)
    if event.context.error is not None:
        raise runtime.lost(event.context)
    return Status.COMPLETE if done else Status.NOT_READY


async def SynchronizeEvent(event: Event) -> None:
    """Wait until the last record of *event* has completed; if there was none, for nothing."""
    scope = current()
    check_event(scope, event)
    what = f"SynchronizeEvent({event!r})"
    await scope.runtime.synchronize(
        "SynchronizeEvent", event.work or NOTHING, what, site_of(_getframe(1)), event.context
    )


async def EventElapsedTime(start: Event, end: Event) -> float:
    """Milliseconds from the record of *start* to that of *end*, negative if they came the other way round.

    Raises:
        AclError: one was never recorded, was created without timing, or has not completed.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    for event in (start, end):
        check_event(scope, event)
    if start.context.device is not end.context.device:
        raise runtime.fail(
            Kind.INVALID_HANDLE,
            f"{start!r} and {end!r} are of different devices, whose clocks have nothing to do with one another",
            "take both times on one device",
        )
    runtime.pay(runtime.costs.elapsed)
    try:
        for event in (start, end):
            _check_time(scope, event)
    finally:
        runtime.called("EventElapsedTime", enter, site)
    return (end.timestamp_ns() - start.timestamp_ns()) / 1e6


def _check_time(scope: Scope, event: Event) -> None:
    if not event.timing:
        raise scope.runtime.fail(
            Kind.NO_TIMING, f"{event!r} was created without timing", "create it with CreateEvent(timing=True)"
        )
    if event.work is None:
        raise scope.runtime.fail(
            Kind.NOT_RECORDED, f"{event!r} has no time", "record it on a stream with RecordEvent() first"
        )
    if not event.work.done:
        raise scope.runtime.fail(Kind.NOT_READY, f"{event!r} has no time yet", "synchronise with it before asking")


EventRecord = RecordEvent
EventQuery = QueryEventStatus
EventSynchronize = SynchronizeEvent
