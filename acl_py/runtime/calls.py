"""How a call of a verb begins: what the calling task sees, the line that calls, and the time.

    async def GetMemInfo(attribute: int = 0) -> tuple[int, int]:
        scope, runtime, site, enter = begin()
        ...                                 check the arguments: refuse the call, or go on
        runtime.pay(runtime.costs.memory_info)
        runtime.called(GetMemInfo.__name__, enter, site)

`begin` gives a tuple, not a record with methods: making a record takes 0.2 us more, which is 7 % of SynchronizeStream
on an idle stream. The four verbs that programs call most (MemcpyAsync, LaunchKernel, RecordEvent and StreamWaitEvent)
have the lines of `begin` written out, and so has `recall` of collectives (verbs/elements.py).
"""

from inspect import iscoroutinefunction
from sys import _getframe
from typing import TYPE_CHECKING, TypeAlias

from acl_py.runtime.scopes import Scope, current_scope, present_scope
from acl_py.sites import Site, site_of
from device_model.completions import Nanoseconds
from device_model.errors import shown

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime

# The scope of the calling task, its runtime, the line that calls the verb, and the host time at the start.
Call: TypeAlias = "tuple[Scope, Runtime, Site, Nanoseconds]"


def check_function(role: str, function: object) -> None:
    """Refuse what cannot be called, and a coroutine function: nothing would await what a call of it returns."""
    if not callable(function):
        raise TypeError(f"{role} must be callable, not {shown(function)}")
    if iscoroutinefunction(function):
        name = getattr(function, "__name__", repr(function))
        raise TypeError(f"{role} cannot wait, and coroutine function {name} does: await it in a task instead")


def begin(name: str | None = None) -> Call:
    """Begin a call of the verb that calls this function.

    Args:
        name: What fault rules and messages call the verb; by default the name of the function.

    Raises:
        AclError: As every verb does; see acl_py.verbs.
    """
    # A runtime that has ended has lost its contexts, so check_call() refuses the call; no need to ask current_scope().
    scope = present_scope() or current_scope()
    runtime = scope.runtime
    if scope.context.alert:
        runtime.check_call(scope.context, name or _getframe(1).f_code.co_name)
    return scope, runtime, site_of(_getframe(2)), runtime.host_ns


def begin_without_context(name: str | None = None) -> Call:
    """Begin a call as `begin` does, of a verb that also works when the current context has failed or is gone."""
    scope = current_scope()
    runtime = scope.runtime
    if scope.context.alert:
        runtime.check_call(scope.context, name or _getframe(1).f_code.co_name, needs_context=False)
    return scope, runtime, site_of(_getframe(2)), runtime.host_ns
