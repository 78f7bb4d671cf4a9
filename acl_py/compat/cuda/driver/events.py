"""Events."""

from collections.abc import Coroutine
from typing import Any

import acl_py as native
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, NOT_READY, RefusedError
from acl_py.compat.cuda.face.state import Driver
from device_model.events import Event

_BLOCKING, _NO_TIMING, _SHARED = 1, 2, 4
_EXTERNAL = 1


@answers("cuEventCreate")
async def create(driver: Driver, flags: int) -> Any:
    """Create an event."""
    if flags & ~(_BLOCKING | _NO_TIMING | _SHARED) or flags & (_NO_TIMING | _SHARED) == _SHARED:
        raise RefusedError(INVALID_VALUE, f"events with the flags {flags:#x}: one for other processes has no timing")
    if flags & _SHARED:
        raise driver.runtime.error(native.Kind.NOT_SUPPORTED, "an event for other processes", "leave the flag 4 out")
    return await native.CreateEvent(timing=not flags & _NO_TIMING, blocking=bool(flags & _BLOCKING))


@answers("cuEventDestroy_v2")
async def destroy(driver: Driver, event: Event) -> None:
    """Destroy an event; waits for it hold."""
    await native.DestroyEvent(event)
    driver.handles.forget(event)


@answers("cuEventRecord")
def record(_: Driver, event: Event, stream: Any) -> Coroutine[Any, Any, Any]:
    """Record an event in a stream."""
    return native.RecordEvent(event, stream)


@answers("cuEventRecordWithFlags")
async def record_with_flags(_: Driver, event: Event, stream: Any, flags: int) -> None:
    """Record an event, in a capture also as a node."""
    if flags & ~_EXTERNAL:
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of records")
    await native.RecordEvent(event, stream, external=bool(flags))


@answers("cuEventQuery", question=NOT_READY)
async def query(_: Driver, event: Event) -> None:
    """Whether the recorded work is done: 600 if it is not."""
    if await native.EventQuery(event) is native.Status.NOT_READY:
        raise RefusedError(NOT_READY, "the event has not taken place")


@answers("cuEventSynchronize")
async def synchronize(_: Driver, event: Event) -> None:
    """Wait for an event."""
    await native.SynchronizeEvent(event)


@answers("cuEventElapsedTime", "cuEventElapsedTime_v2")
async def elapsed_time(_: Driver, start: Event, end: Event) -> float:
    """Milliseconds from one event to another."""
    return await native.EventElapsedTime(start, end)
