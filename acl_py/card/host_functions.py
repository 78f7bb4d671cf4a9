"""Python functions in their turn in a stream: host functions, and the bodies of array kernels.

The driver calls them in a thread of its own. They must make no call; a verb in one is refused. What one raises is kept:
its operation has failed, and the next call that waits for the stream raises it.

The sanitizer is told in the thread of the loop, when the operation has ended, what a function has touched.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from acl_py.runtime.scopes import Barred
from device_model.errors import INTERRUPTS
from device_model.ops import Op
from device_model.work import D2H, H2D, HostFunction

if TYPE_CHECKING:
    from acl_py.card.contexts import CardDevice
    from acl_py.card.streams import CardStream


class _Running(threading.local):
    """What the thread runs: the host function *op*. Its *accesses* to memory are kept, unless they are told now."""

    op: Op | None = None
    accesses: list[Callable[[], None]] | None = None


running = _Running()


class HostFunctions:
    """Queues Python functions on one card; how, is the vendor's own."""

    def __init__(self, device: "CardDevice") -> None:
        self._device = device
        self._accesses: dict[Op, list[Callable[[], None]]] = {}  # of functions that have run, for the sanitizer

    def queue(self, stream: "CardStream", op: Op) -> None:
        """Queue a host function."""
        self.call(stream, lambda: self._perform(op))

    def queue_body(self, stream: "CardStream", op: Op) -> None:
        """Queue the body of an array kernel: bytes are copied to the host, computed there, and copied back."""
        work, memory, driver = op.work, self._device.runtime.memory, self._device.driver
        for allocation, start, stop in dict.fromkeys((*work.reads(), *work.writes())):
            mirror = memory.mirror(allocation)
            if mirror != allocation.address:
                driver.copy_bytes(mirror + start, allocation.address + start, stop - start, D2H, stream.handle)
        self.call(stream, lambda: self._perform(op))
        for allocation, start, stop in work.writes():
            mirror = memory.mirror(allocation)
            if mirror != allocation.address:
                driver.copy_bytes(allocation.address + start, mirror + start, stop - start, H2D, stream.handle)

    def call(self, stream: "CardStream", function: Callable[[], None]) -> None:
        """Queue a call of *function*, in a thread of the driver."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what was made for the functions."""

    def _perform(self, op: Op) -> None:
        """Call the function of *op*, in a thread of the driver: nothing may be raised there."""
        if isinstance(op.work, HostFunction):
            running.op, running.accesses = op, []
        try:
            Barred(self._device.runtime, op.work).run(op.work.perform)
        except BaseException as error:
            op.error = op.work.failure(error)
            stream: Any = op.stream
            if stream.error is None:
                stream.error = op.error
            if isinstance(error, INTERRUPTS):
                self._device.scheduler.raise_later(error)
        finally:
            if running.accesses:
                self._accesses[op] = running.accesses
            running.op = running.accesses = None

    def tell(self, op: Op) -> None:
        """Tell the sanitizer what the host function *op*, which has ended, has touched."""
        accesses = self._accesses.pop(op, ())
        running.op = op
        try:
            for access in accesses:
                access()
        finally:
            running.op = None
