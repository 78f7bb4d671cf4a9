"""Host functions: Python functions that take their turn in a stream."""

from collections.abc import Callable, Sequence
from sys import _getframe

from acl_py.runtime import current
from acl_py.sites import site_of
from acl_py.streams import StreamLike, resolve
from device_model.ops import HostFunction, Lane, Op
from device_model.scheduler import Completion


async def LaunchHostFunc(
    stream: StreamLike, function: Callable[..., object], args: Sequence[object] = (), *, us: float = 0
) -> Completion:
    """Queue a call of *function* with *args* in *stream*; what is queued behind it waits for its end.

    The functions of all streams run on one thread, one at a time, each for *us* microseconds of simulated time. They
    must not call the runtime. One that raises is a failure of its stream's context.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    found = resolve(scope, stream)
    if not callable(function):
        raise TypeError(f"a host function must be callable, not {function!r}")
    if not us >= 0:
        raise ValueError(f"a host function cannot take {us} us")
    op = Op(HostFunction(function, tuple(args), round(us * 1000)), Lane.HOST, 0, site)
    runtime.submit(found, op, runtime.costs.host_function, runtime.profile.latency.host_function_start)
    runtime.called("LaunchHostFunc", enter, site)
    return op
