"""Python functions in streams of CUDA: cuLaunchHostFunc, and those of graphs, which are called at each launch."""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from acl_py.card.cuda.driver import launch_host_func
from acl_py.card.host_functions import HostFunctions

if TYPE_CHECKING:
    from acl_py.card.cuda.contexts import CudaDevice
    from acl_py.card.streams import CardStream

_NUMBERS = count(1)
_WAITING: dict[int, Callable[[], None]] = {}  # by the number that the driver hands to `_call`
_LASTING: dict[int, Callable[[], None]] = {}  # the same for those of graphs, which are called at each launch


def _call(number: int) -> None:
    (_LASTING.get(number) or _WAITING.pop(number))()


_IN_C = ctypes.CFUNCTYPE(None, ctypes.c_size_t)(_call)
_RUN = ctypes.cast(_IN_C, ctypes.c_void_p)


class CudaFunctions(HostFunctions):
    """Queues Python functions on one card of NVIDIA."""

    def __init__(self, device: "CudaDevice") -> None:
        super().__init__(device)
        self._driver = device.driver
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

    def call(self, stream: "CardStream", function: Callable[[], None]) -> None:
        """Queue a call of *function*."""
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
