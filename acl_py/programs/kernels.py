"""The kernels and host functions of stream programs: those of the script that ran the measured programs on a card, and
those of recorded programs. The latter have a name, times and the bytes that they declare, and compute nothing.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from acl_py.errors import DeviceError, Kind
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.kernels import Cost, InOut, KernelFunction, Launchable, kernel
from device_model.completions import Nanoseconds
from device_model.core_kernels import CoreKernel, Occupation
from device_model.work import Extent, Kernel, Label, Work

FAULT_US = 151_000.0  # from a bad address to the error (measured: sticky_error, the wait after the poke)


def host_function() -> None:
    """Do nothing: the function only takes time."""


def add(counter: Any, by: int) -> None:
    """Add *by* to *counter*, an array of one int, which wraps around."""
    counter += np.int32(by)


@cache
def spin(us: float, exclusive: bool) -> KernelFunction[...]:
    """Return a kernel that only keeps each block busy for *us* microseconds."""

    def spin() -> None:
        """Touch nothing."""

    return kernel(cost=Cost(us=us), exclusive=exclusive)(spin)


@kernel(cost=Cost(us=0))
def increment(counter: InOut, by: int) -> None:
    """Add *by* to one int, as one thread of one block."""
    add(counter, by)


@cache
def touch(cost: Cost) -> KernelFunction[...]:
    """Return a kernel that reads and writes as many bytes as *cost* says, and changes none."""

    def touch() -> None:
        """Change nothing."""

    return kernel(cost=cost)(touch)


@cache
def poke(address: int) -> KernelFunction[...]:
    """Return a kernel that writes to *address*: always a bad one, as programs know no address of simulated memory."""

    def poke() -> None:
        """Fault."""
        raise DeviceError(Kind.ILLEGAL_ADDRESS, f"a kernel wrote to {address:#x}, where the device has no memory")

    return kernel(cost=Cost(us=FAULT_US))(poke)


@cache
def callback(name: str) -> Callable[[Callable[[], None] | None], None]:
    """Return a function called *name* that calls its argument, if it is not None."""

    def callback(touch: Callable[[], None] | None) -> None:
        """Call *touch*."""
        if touch is not None:
            touch()

    callback.__name__ = name
    return callback


_WITHOUT_BODY = vars(Launchable(host_function))  # to look at its parameters takes longer than to make its launch


class Recorded(Launchable[...]):
    """A kernel of a recorded program: each block is busy for *block_ns*, and its bytes are those that were declared."""

    def __init__(
        self,
        label: Label,
        reads: Sequence[Extent],
        writes: Sequence[Extent],
        block_ns: Nanoseconds,
        exclusive: bool,
    ) -> None:
        vars(self).update(_WITHOUT_BODY)
        self.label, self.name = label, label.name
        self.reads, self.writes = reads, writes
        self.block_ns, self.exclusive = block_ns, exclusive

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Work:  # noqa: ARG002 - it has none
        """Return the work of a launch."""
        return Kernel(
            self.label, blocks, self.block_ns, host_function, self.reads, self.writes,
            _touched(self.reads, self.writes), exclusive=self.exclusive, serial=False,
        )  # fmt: skip


class RecordedOnCores(Launchable[...]):
    """A core kernel of a recorded program, which takes *cores* AI cores at once.

    *runs* say when it gives them back: the first for its first run, and so on, the last one for all that follow. Only a
    graph runs it several times.
    """

    def __init__(
        self, label: Label, reads: Sequence[Extent], writes: Sequence[Extent], runs: Sequence[Occupation], cores: int
    ) -> None:
        vars(self).update(_WITHOUT_BODY)
        self.label, self.name = label, label.name
        self.reads, self.writes = reads, writes
        self.runs, self.cores = deque(runs), cores

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Work:  # noqa: ARG002 - it has none
        """Return the work of a launch."""
        return _OnCores(self, blocks)


class _OnCores(CoreKernel):
    """The work of one launch of *kernel*."""

    __slots__ = ("_kernel", "blocks", "cores", "label", "nbytes", "result")

    def __init__(self, kernel: RecordedOnCores, blocks: int) -> None:
        self._kernel = kernel
        self.label, self.blocks, self.cores = kernel.label, blocks, kernel.cores
        self.nbytes = _touched(kernel.reads, kernel.writes)
        self.result = None

    def run(self, start_ns: int) -> Occupation:  # noqa: ARG002 - it takes as long at any time
        """Return how long the kernel takes: nothing is computed."""
        runs = self._kernel.runs
        return runs.popleft() if len(runs) > 1 else runs[0]

    def perform(self) -> None:
        """Do nothing."""

    def reads(self) -> Sequence[Extent]:
        """Return the bytes that the kernel declared as read."""
        return self._kernel.reads

    def writes(self) -> Sequence[Extent]:
        """Return the bytes that the kernel declared as written."""
        return self._kernel.writes


def _touched(reads: Sequence[Extent], writes: Sequence[Extent]) -> int:
    """Return the number of bytes in *reads* and *writes*; those in both count once."""
    return sum(stop - start for _, start, stop in dict.fromkeys((*reads, *writes)))
