"""Verbs on what handles stand for."""

from collections.abc import Callable, Coroutine
from typing import Any

from acl_py.compat.acl.face.handles import Things
from acl_py.compat.acl.face.session import Session
from acl_py.runtime.scopes import current
from acl_py.verbs.streams import resolve
from device_model.streams import Stream

Running = Coroutine[Any, Any, object]  # what a function gives that `runs` it
_Verb = Callable[[Any], Coroutine[Any, Any, Any]]


async def resolved(here: Session, handle: int) -> Stream:
    """The stream of *handle*, also where that is the default one."""
    return resolve(current(), here.streams[handle])


async def end(here: Session, verb: _Verb, things: Things[Any], handle: int) -> None:
    """Let *verb* end one of *things*; its handle stands for nothing from then on."""
    await verb(things[handle])
    here.forget(handle)
