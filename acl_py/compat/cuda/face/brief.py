"""Calls for which there is no verb: they cost what a call costs that does next to nothing."""

from collections.abc import Callable
from typing import TypeVar

from acl_py.runtime.calls import begin
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site

_R = TypeVar("_R")


async def briefly(name: str, act: Callable[[Runtime, Site], _R]) -> _R:
    """Do *act* as a call of *name*, and return its result."""
    _, runtime, site, enter = begin(name)
    result = act(runtime, site)
    runtime.brief_call(name, enter, site)
    return result
