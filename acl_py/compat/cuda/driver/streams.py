"""Streams."""

from collections.abc import Coroutine
from typing import Any

import acl_py as native
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_HANDLE, INVALID_VALUE, NOT_READY, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.runtime.scopes import current_scope
from acl_py.verbs.streams import resolve_any
from device_model.contexts import Context
from device_model.events import Event
from device_model.memory import Buffer
from device_model.streams import Stream

_NONBLOCKING = 1
_EXTERNAL = 1  # of a wait in a capture
_NO_BARRIER = 1  # of a write of a value; all of them come in order here
_FLUSH = 1 << 30  # of a wait for a value: remote writes before it are seen; all are here


def stream_of(driver: Driver, given: Any) -> Stream:
    """Return the stream that a call names: 0 and the handles of default streams stand for those of the context, so
    there must be one.
    """
    if not isinstance(given, Stream) and (context := driver.thread.context).error is not None:
        raise driver.runtime.context_error(context)
    return resolve_any(current_scope(), given)


@answers("cuStreamCreate")
async def create(driver: Driver, flags: int) -> native.Stream:
    """Create a stream."""
    return await create_with_priority(driver, flags, 0)


@answers("cuStreamCreateWithPriority")
async def create_with_priority(driver: Driver, flags: int, priority: int) -> native.Stream:
    """Create a stream with a priority."""
    if flags & ~_NONBLOCKING:
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of streams")
    name = driver.names.name("stream")
    return await native.CreateStream(nonblocking=bool(flags), priority=priority, name=name)


@answers("cuStreamDestroy_v2")
async def destroy(driver: Driver, stream: Any) -> None:
    """Destroy a stream; its work goes on."""
    if not isinstance(stream, Stream):
        raise RefusedError(INVALID_HANDLE, "the default streams are destroyed with their context")
    await native.DestroyStream(stream)
    driver.handles.forget(stream)


@answers("cuStreamSynchronize")
async def synchronize(_: Driver, stream: Any) -> None:
    """Wait for the work of a stream."""
    await native.SynchronizeStream(stream)


@answers("cuStreamQuery", question=NOT_READY)
async def query(_: Driver, stream: Any) -> None:
    """Whether the work of a stream is done: 600 if it is not."""
    if await native.StreamQuery(stream) is native.Status.NOT_READY:
        raise RefusedError(NOT_READY, "the stream has work")


@answers("cuStreamWaitEvent")
def wait_event(_: Driver, stream: Any, event: Event, flags: int) -> Coroutine[Any, Any, Any]:
    """Let the work that comes next in a stream wait for an event."""
    if flags & ~_EXTERNAL:
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of waits")
    return native.StreamWaitEvent(stream, event, external=bool(flags))


@answers("cuStreamWriteValue64", "cuStreamWriteValue64_v2")
async def write_value(driver: Driver, stream: Any, address: int, value: int, flags: int) -> None:
    """Write eight bytes when a stream comes to this."""
    if flags & ~_NO_BARRIER:
        raise RefusedError(INVALID_VALUE, f"there are no flags {flags:#x} of writes")
    await native.ValueWrite(_word(driver, address), value, 0, stream)


@answers("cuStreamWaitValue64", "cuStreamWaitValue64_v2")
async def wait_value(driver: Driver, stream: Any, address: int, value: int, flags: int) -> None:
    """Let the work that comes next in a stream wait until eight bytes compare with a value."""
    await native.ValueWait(_word(driver, address), value, flags & ~_FLUSH, stream)


def _word(driver: Driver, address: int) -> Buffer:
    return driver.runtime.memory.at(address, 8, "the word")


@answers("cuStreamGetPriority")
async def get_priority(_: Driver, stream: Any) -> int:
    """The priority of a stream."""
    return await native.StreamGetPriority(stream)


@answers("cuStreamGetFlags")
async def get_flags(driver: Driver, stream: Any) -> int:
    """Whether a stream takes no part in the order of the legacy stream."""
    found = stream_of(driver, stream)
    return 0 if found.is_blocking or found is found.context.legacy else _NONBLOCKING


@answers("cuStreamGetId")
async def get_id(driver: Driver, stream: Any) -> int:
    """A number that no other stream has."""
    return driver.handle("stream", stream_of(driver, stream))


@answers("cuStreamGetCtx", reads=True)
async def get_context(driver: Driver, stream: Any) -> Context:
    """The context of a stream."""
    return stream_of(driver, stream).context


@answers("cuStreamGetDevice", reads=True)
async def get_device(driver: Driver, stream: Any) -> int:
    """The device of a stream."""
    return stream_of(driver, stream).context.device.ordinal
