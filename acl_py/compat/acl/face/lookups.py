"""Verbs on the objects behind handles, and waits within functions."""

from collections.abc import Callable, Coroutine
from typing import Any

from acl_py.compat.acl.face.handles import Things
from acl_py.compat.acl.face.session import Session
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.sites import called_function
from acl_py.verbs.streams import StreamLike, resolve, synchronize
from acl_py.verbs.waits import limit_of
from device_model.streams import Stream

Running = Coroutine[Any, Any, object]  # what a function decorated with `runs` returns
_Verb = Callable[[Any], Coroutine[Any, Any, Any]]


async def resolved(here: Session, handle: int) -> Stream:
    """Return the stream of *handle*; for 0 that is the default stream."""
    scope, _, site, _ = begin()
    return resolve(scope, here.streams[handle], called_function(site))


async def end(here: Session, verb: _Verb, things: Things[Any], handle: int) -> None:
    """End one of *things* with *verb*, and then its handle."""
    await verb(things[handle])
    here.forget(handle)


async def wait_within_call(stream: StreamLike, timeout_ms: int = -1) -> None:
    """Wait for the work of *stream*; traces and messages name the function that the script has called."""
    _, runtime, site, _ = call = begin("SynchronizeStream")
    limit = limit_of(runtime, timeout_ms, Kind.STREAM_TIMEOUT)
    await synchronize(call, called_function(site), stream, limit)
