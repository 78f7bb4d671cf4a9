"""The other way to wait: no event loop, the calling thread drives the device until what it waits for is done.

Every verb is a coroutine that suspends only in its runtime's bridge. With this bridge it never suspends, so `finish`
runs a verb to its end in one step: the blocking faces (the drop-in module, replay) use the same verbs as everybody
else.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from acl_py.bridge import Host
from device_model.scheduler import Completion

_T = TypeVar("_T")
_INSTANTS = 1 << 62  # as many as it takes


class BlockingBridge:
    """A bridge (see bridge.py) for a host that is one thread and runs nothing else."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def close(self) -> None:
        """Nothing to let go of."""

    def arm(self) -> None:
        """There is no loop to tell."""

    async def wait(self, completion: Completion, waiting: Any) -> None:
        """Run the device until *completion* is done; if nothing is scheduled any more, it never will be."""
        host = self.host
        if not completion.done and not host.scheduler.run_until(completion, _INSTANTS):
            raise host.deadlock(waiting)
        host.host_ns = max(host.host_ns, host.scheduler.now)

    async def breathe(self) -> None:
        """Nobody else can run."""

    def poll_succeeded(self) -> None:
        """Queries cost host time, so a polling loop moves on by itself."""

    def poll_failed(self, waiting: Any = None) -> None:
        """A device with nothing to do will never answer otherwise."""
        if not self.host.scheduler.heap:
            raise self.host.deadlock(waiting)

    async def in_thread(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """The calling thread waits anyway."""
        return function(*args, **kwargs)


def finish(verb: Coroutine[Any, Any, _T]) -> _T:
    """Run *verb*, on a runtime with a `BlockingBridge`, to its end."""
    try:
        verb.send(None)
    except StopIteration as end:
        result: _T = end.value
        return result
    verb.close()
    raise RuntimeError("a verb of a blocking runtime suspended: it belongs to a simulation in an event loop")
