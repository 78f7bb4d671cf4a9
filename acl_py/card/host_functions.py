"""Python functions in their turn in a stream: host functions, and the bodies of array kernels.

The driver calls them in a thread of its own. They must make no call; a verb in one is refused. What one raises is kept:
its operation has failed, and the next call that waits for the stream raises it.

The sanitizer is told in the thread of the loop, when the operation has ended, what a function has touched.
"""

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from acl_py.card.driver import launch_host_func
from acl_py.runtime.scopes import Barred
from device_model.errors import INTERRUPTS
from device_model.ops import Op
from device_model.work import HostFunction

if TYPE_CHECKING:
    from acl_py.card.contexts import CardDevice
    from acl_py.card.streams import CardStream

_NUMBERS = count(1)
_WAITING: dict[int, Callable[[], None]] = {}  # by the number that the driver hands to `_call`
_LASTING: dict[int, Callable[[], None]] = {}  # the same for those of graphs, which are called at each launch


def _call(number: int) -> None:
    (_LASTING.get(number) or _WAITING.pop(number))()


_IN_C = ctypes.CFUNCTYPE(None, ctypes.c_size_t)(_call)
_RUN = ctypes.cast(_IN_C, ctypes.c_void_p)


class _Running(threading.local):
    """What the thread runs: the host function *op*. Its *accesses* to memory are kept, unless they are told now."""

    op: Op | None = None
    accesses: list[Callable[[], None]] | None = None


running = _Running()


class HostFunctions:
    """Queues Python functions on one card."""

    def __init__(self, device: "CardDevice") -> None:
        self._device = device
        self._driver = device.driver
        self._accesses: dict[Op, list[Callable[[], None]]] = {}  # of functions that have run, for the sanitizer
        self._kept: list[int] | None = None  # gets the numbers of those that last
        self._lasting: dict[int, None] = {}
        self._launch = launch_host_func()

    @contextmanager
    def kept(self, numbers: list[int]) -> Iterator[None]:
        """Let what is queued inside last, as it becomes a part of a graph, until `forget`; *numbers* gets it."""
        self._kept = numbers
        try:
            yield
        finally:
            self._kept = None

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget functions of graphs, which no launch can call any more."""
        for number in numbers:
            del _LASTING[number], self._lasting[number]

    def close(self) -> None:
        """Forget all functions of graphs."""
        self.forget([*self._lasting])

    def queue(self, stream: "CardStream", op: Op) -> None:
        """Queue a host function."""
        self._queue(stream, lambda: self._perform(op))

    def queue_body(self, stream: "CardStream", op: Op) -> None:
        """Queue the body of an array kernel: bytes are copied to the host, computed there, and copied back."""
        work, memory, cu = op.work, self._device.runtime.memory, self._driver.cu
        for allocation, start, stop in dict.fromkeys((*work.reads(), *work.writes())):
            mirror = memory.mirror(allocation)
            if mirror != allocation.address:
                self._driver(cu.cuMemcpyAsync, mirror + start, allocation.address + start, stop - start, stream.handle)
        self._queue(stream, lambda: self._perform(op))
        for allocation, start, stop in work.writes():
            mirror = memory.mirror(allocation)
            if mirror != allocation.address:
                self._driver(cu.cuMemcpyAsync, allocation.address + start, mirror + start, stop - start, stream.handle)

    def _queue(self, stream: "CardStream", function: Callable[[], None]) -> None:
        number = next(_NUMBERS)
        if self._kept is not None:
            _LASTING[number] = function
            self._lasting[number] = None
            self._kept.append(number)
        else:
            _WAITING[number] = function
        try:
            code = self._launch(int(stream.handle), _RUN, number)
            if code:
                raise self._driver.error(code, "cuLaunchHostFunc")
        except BaseException:
            _WAITING.pop(number, None)
            raise

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
