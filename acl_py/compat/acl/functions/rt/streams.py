"""acl.rt: streams."""

from typing import Any

import acl_py as native
from acl_py.compat.acl.face.binding import gives, runs, takes
from acl_py.compat.acl.face.lookups import Running, end, resolved
from acl_py.compat.acl.face.session import NOT_SUPPORTED, PARAM_INVALID, Session, session
from device_model.streams import Stream

_COMPLETE, _NOT_READY = 0, 1
# aclrtStreamAttr, and the names that the dict of its value has.
_FAILURE_MODE, _OVERFLOW, _TAG, _PRIORITY = 1, 2, 3, 5
_NAMES = {_FAILURE_MODE: "failureMode", _OVERFLOW: "overflowSwitch", _TAG: "userCustomTag"}
_RESERVED = 4  # words in the value of another attribute
_FLAGS = sum(native.StreamFlag)


@gives("")
def create_stream(here: Session) -> int:
    """Create a stream in the current context."""
    return here.handle(here.run(native.CreateStream()))


@gives("ii")
def create_stream_with_config(here: Session, priority: int, flag: int) -> int:
    """Create a stream with a priority and flags; unknown flags have no effect.

    Documented: aclrtCreateStreamWithConfig.
    """
    unknown = flag & 0xFFFFFFFF & ~_FLAGS
    if unknown:
        here.warn_once(f"acl.rt.create_stream_with_config ignores the unknown flag {unknown:#x}")
    return here.handle(here.run(native.CreateStreamWithConfig(priority & 0xFFFFFFFF, flag & _FLAGS)))


def _end(here: Session, verb: Any, handle: int) -> Running:
    if not handle:
        raise here.error(PARAM_INVALID, "the default stream is destroyed with its context")
    return end(here, verb, here.streams, handle)


@runs("k")
def destroy_stream(here: Session, handle: int) -> Running:
    """Wait for the work of a stream and destroy it."""
    return _end(here, native.DestroyStream, handle)


@runs("k")
def destroy_stream_force(here: Session, handle: int) -> Running:
    """Drop the work of a stream and destroy it."""
    return _end(here, native.DestroyStreamForce, handle)


@runs("k")
def synchronize_stream(here: Session, handle: int) -> Running:
    """Wait for the work of a stream; return the code of its first failure since the last wait."""
    return native.SynchronizeStream(here.streams[handle])


@runs("ki")
def synchronize_stream_with_timeout(here: Session, handle: int, timeout: int) -> Running:
    """Wait for the work of a stream for at most *timeout* milliseconds."""
    return native.SynchronizeStreamWithTimeout(here.streams[handle], timeout)


@gives("k")
def stream_query(here: Session, handle: int) -> int:
    """Return whether the work of a stream has ended: 0 yes, 1 no."""
    status = here.run(native.StreamQuery(here.streams[handle]))
    return _NOT_READY if status is native.Status.NOT_READY else _COMPLETE


@runs("k")
async def stream_abort(here: Session, handle: int) -> None:
    """Drop the work of a stream."""
    await native.StreamAbort(await resolved(here, handle))


@gives("k")
def stream_get_id(here: Session, handle: int) -> int:
    """Return the number of a stream; that of the default stream is 0."""
    stream: Stream = here.run(resolved(here, handle))
    return stream.id


@gives("")
def get_stream_available_num(here: Session) -> int:
    """Return how many more streams can be created on the device."""
    available: int = here.run(native.GetStreamAvailableNum())
    return available


# --- attributes


@runs("ku")
def set_stream_failure_mode(here: Session, handle: int, mode: int) -> Running:
    """Set whether a stream goes on after a failure (0), or stops with its whole context (1)."""
    return native.SetStreamFailureMode(here.streams[handle], mode)


@takes("ku")
def set_stream_overflow_switch(handle: int, flag: int) -> int:
    """Turn the check for overflows on or off; it has no effect, because numbers become infinity here."""
    return set_stream_attribute(handle, _OVERFLOW, {_NAMES[_OVERFLOW]: flag})


@takes("k")
def get_stream_overflow_switch(handle: int) -> tuple[int, int]:
    """Return what set_stream_overflow_switch set."""
    value, ret = get_stream_attribute(handle, _OVERFLOW)
    return value[_NAMES[_OVERFLOW]], ret


@runs("kkk")
def get_overflow_status(here: Session, address: int, size: int, stream: int) -> Running:
    """Queue the writing of the overflow status, which is always 0, to device memory."""
    return native.MemsetAsync(address, size, 0, size, here.streams[stream])


@runs("k")
def reset_overflow_status(here: Session, handle: int) -> Running:
    """Clear the overflow status, which is always clear here."""
    return resolved(here, handle)


@runs("kid")
async def set_stream_attribute(here: Session, handle: int, attribute: int, value: dict[str, Any]) -> None:
    """Set the failure mode (1), the overflow switch (2) or the tag (3) of a stream, from the one item of *value*."""
    stream = await resolved(here, handle)
    name = _NAMES.get(attribute)
    if name is None:
        raise here.error(NOT_SUPPORTED, f"attribute {attribute} of a stream cannot be set")
    number = value.get(name)
    if not isinstance(number, int):  # the binding then reads the empty structure: 0
        here.warn_once(
            f"acl.rt.set_stream_attribute() found no int {name!r} in the dict for attribute {attribute}: 0 is set"
        )
        number = 0
    if number < 0:
        raise ValueError(f"acl.rt.set_stream_attribute: {name} must be unsigned, 0 or more, not {number}")
    if attribute == _FAILURE_MODE:
        await native.SetStreamFailureMode(stream, number)
    elif attribute == _OVERFLOW and number not in (0, 1):
        raise here.error(PARAM_INVALID, f"the overflow switch is 0 or 1, not {number}")
    else:
        here.notes[_key(here, stream, attribute)] = number


@takes("ki")
def get_stream_attribute(handle: int, attribute: int) -> tuple[dict[str, Any], int]:
    """Return the failure mode (1), the overflow switch (2), the tag (3) or the priority (5) of a stream."""
    here = session()
    stream, code = here.call(resolved(here, handle))
    number = 0
    if code:
        pass
    elif attribute == _FAILURE_MODE:
        number = int(stream.stops_on_failure)
    elif attribute == _PRIORITY:
        number = stream.priority
    elif attribute in _NAMES:
        number = here.notes.get(_key(here, stream, attribute), 0)
    else:
        code = here.refuse(PARAM_INVALID, f"there is no attribute {attribute} of a stream")
    if attribute in _NAMES:
        return {_NAMES[attribute]: number}, code
    return {"reserved": [number, *[0] * (_RESERVED - 1)]}, code


def _key(here: Session, stream: Stream, attribute: int) -> tuple[str, int, int]:
    return "attribute", here.handle(stream), attribute
