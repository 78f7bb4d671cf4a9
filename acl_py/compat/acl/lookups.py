"""From handles to the objects that verbs take."""

from collections.abc import Callable, Coroutine
from typing import Any

from acl_py.compat.acl.session import INVALID_HANDLE, INVALID_PARAM, Session
from acl_py.scopes import current
from acl_py.streams import resolve
from device_model.streams import Stream

_Verb = Callable[..., Coroutine[Any, Any, Any]]


class Missing:
    """Stands where a handle stands for nothing: with the code of that."""

    def __init__(self, code: int, what: str) -> None:
        self.code = code
        self.what = what


_NULL = Missing(INVALID_PARAM, "a handle is 0")
_STALE = Missing(INVALID_HANDLE, "a handle is not, or no longer, that of such an object")


def stream_of(here: Session, handle: int) -> Any:
    """The stream of *handle*, None for the default one, or a Missing."""
    if not handle:
        return None
    stream = here.objects.get(handle)
    return stream if type(stream) is Stream else here.find(handle, Stream) or _STALE


def thing_of(here: Session, handle: int, kind: type) -> Any:
    """The *kind* of *handle*, or a Missing."""
    thing = here.objects.get(handle)
    if isinstance(thing, kind):
        return thing
    return _STALE if handle else _NULL


async def _resolved(stream: Any) -> Stream:
    return resolve(current(), stream)


def found(here: Session, handle: int) -> tuple[Any, int]:
    """The stream of *handle*, also where that is the default one, and 0; or None and a code."""
    stream = stream_of(here, handle)
    code = missing(here, stream)
    return (None, code) if code else here.call(_resolved(stream))


def missing(here: Session, *things: Any) -> int:
    """The code of the first of *things* that is missing; 0 if none is."""
    for thing in things:
        if type(thing) is Missing:
            return here.refuse(thing.code, thing.what)
    return 0


def run(here: Session, verb: _Verb, *things: Any) -> int:
    """The code of *verb* with *things*, none of which may be missing."""
    for thing in things:
        if type(thing) is Missing:
            return here.refuse(thing.code, thing.what)
    return here.ret(verb(*things))


def made(here: Session, verb: Coroutine[Any, Any, Any]) -> tuple[int, int]:
    """The handle of what *verb* makes, and its code."""
    thing, ret = here.call(verb)
    return (0 if ret else here.handle(thing)), ret


def end(here: Session, verb: _Verb, handle: int, kind: type) -> int:
    """Let *verb* end the *kind* of *handle*, which stands for nothing from then on."""
    ret = run(here, verb, thing_of(here, handle, kind))
    if not ret:
        here.forget(handle)
    return ret


def asked(here: Session, verb: _Verb, handle: int, kind: type, failure: Any = 0) -> tuple[Any, int]:
    """What *verb* says of the *kind* of *handle*; *failure* with the code if it fails."""
    thing = thing_of(here, handle, kind)
    code = missing(here, thing)
    if code:
        return failure, code
    value, ret = here.call(verb(thing))
    return (failure if ret else value), ret
