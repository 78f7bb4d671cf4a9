"""Verbs on what handles stand for."""

from collections.abc import Callable, Coroutine
from typing import Any

from acl_py.compat.acl.handles import Things
from acl_py.compat.acl.session import Session
from acl_py.scopes import current
from acl_py.streams import resolve
from device_model.streams import Stream

Running = Coroutine[Any, Any, object]  # what a function gives that `runs` it
_Verb = Callable[[Any], Coroutine[Any, Any, Any]]


async def resolved(here: Session, handle: int) -> Stream:
    """The stream of *handle*, also where that is the default one."""
    return resolve(current(), here.streams[handle])


def made(here: Session, verb: Running) -> tuple[int, int]:
    """The handle of what *verb* makes, and its code."""
    thing, ret = here.call(verb)
    return (0 if ret else here.handle(thing)), ret


async def end(here: Session, verb: _Verb, things: Things[Any], handle: int) -> None:
    """Let *verb* end one of *things*; its handle stands for nothing from then on."""
    await verb(things[handle])
    here.forget(handle)


def asked(here: Session, verb: _Verb, things: Things[Any], handle: int, failure: Any = 0) -> tuple[Any, int]:
    """What *verb* says of one of *things*; *failure* with the code if it fails."""

    async def ask() -> Any:
        return await verb(things[handle])

    value, ret = here.call(ask())
    return (failure if ret else value), ret
