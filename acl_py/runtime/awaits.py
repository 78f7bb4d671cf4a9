"""What `await` of a completion does: it waits for the completion, as a call does, and finds the failure of its work."""

from collections.abc import Generator
from sys import _getframe
from types import FrameType
from typing import TYPE_CHECKING, Any

from acl_py.calls.acts import Synchronised
from acl_py.errors import Kind
from acl_py.runtime.scopes import current_scope
from acl_py.sites import site_of
from device_model.completions import Completion, Nanoseconds
from device_model.ops import Op
from device_model.streams import Stream

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime


def awaited(completion: Completion) -> Generator[Any, None, Completion]:
    """Wait for *completion* and return it; raise the failure of its context, or of its operation."""
    scope = current_scope()
    runtime, stream = scope.runtime, completion.stream
    if scope.context.alert:
        runtime.refuse_nested(scope.context, "await")
    context = scope.context
    if isinstance(stream, Stream):
        if stream.scheduler is not runtime.scheduler:
            what = f"{completion!r} belongs to another simulation"
            raise runtime.error(Kind.INVALID_HANDLE, what, "await it in its own simulation")
        context = stream.context
    waits, enter, hooks = not completion.done, runtime.host_ns, runtime.hooks
    try:
        yield from runtime.wait(completion, None, None, (completion,)).__await__()
    except GeneratorExit:
        raise
    except BaseException:
        _note_await(runtime, completion, enter, _getframe(1), waits=waits)
        raise
    if (hooks.call if waits else hooks.noticed) is not None:
        _note_await(runtime, completion, enter, _getframe(1), waits=waits)
    if context.error is not None:
        raise runtime.context_error(context)
    if isinstance(completion, Op) and completion.error is not None:
        raise runtime.operation_error(completion.error)
    return completion


def _note_await(
    runtime: "Runtime", completion: Completion, enter: Nanoseconds, frame: FrameType, *, waits: bool
) -> None:
    if waits:
        runtime.called("await", enter, site_of(frame), Synchronised())
    elif runtime.hooks.noticed is not None:
        runtime.hooks.noticed(completion, site_of(frame))
