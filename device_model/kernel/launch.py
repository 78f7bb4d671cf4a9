"""The launch of a kernel on simulated cores, as the rest of the device sees it.

The duration of such a kernel is known only after running it, so it runs at its simulated start. Its results must not be
visible before its simulated end. Therefore it works on private images of the allocations that it may write, and
publishes them at its end. Of an Out argument all bytes are published. Of an InOut argument only the bytes that changed
are, so that several launches at the same time may each write a part of one buffer.
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from device_model import memory
from device_model.core_kernels import CoreKernel, Occupation, Pause
from device_model.errors import DeviceError
from device_model.kernel.images import BLOCK, Argument, Image, Memory
from device_model.kernel.results import Result
from device_model.memory import Allocation
from device_model.twins import twin
from device_model.work import Extent, Label, check_alive

M = TypeVar("M", bound=Memory)


class KernelLaunch(CoreKernel, Generic[M]):
    """A kernel with its blocks and arguments: the work of one operation. Each kind of kernel has a class of its own.

    Args:
        label: The name of the kernel, for reports.
        blocks: The number of blocks.
        cores: The number of cores that the launch takes.
        arguments: `Argument` records for device memory, or plain values, which the kernel gets unchanged.
        hazards: Whether accesses are checked.
        limit_ns: A kernel that takes longer fails after this time, and its results are lost; 0 means no limit.
        values: Whether its instructions compute; without values it has times only.

    Attributes:
        result: The result of the run; None before it.
    """

    __slots__ = ("_arguments", "_contents_read", "_failure", "_hazards", "_images", "_written", "blocks", "cores",
                 "label", "limit_ns", "nbytes", "released", "result", "values")  # fmt: skip

    granule = BLOCK

    def __init__(
        self,
        label: Label,
        blocks: int,
        cores: int,
        arguments: Sequence[Any],
        *,
        hazards: bool,
        limit_ns: int,
        values: bool = True,
    ) -> None:
        self.values = values
        self.label = label
        self.limit_ns = limit_ns
        self.blocks = blocks
        self.cores = cores
        self.result: Result | None = None
        self.released: Sequence[tuple[int, int]] = ()
        self._arguments = arguments
        self._hazards = hazards
        self._failure: DeviceError | None = None
        self._images: dict[Allocation, Image[M]] = {}
        self._contents_read: Sequence[Extent] | None = None  # by instructions, once they are known; the next too
        self._written: Sequence[Extent] | None = None
        self.nbytes = sum(stop - start for _, start, stop in (argument.extent for argument in self._in_memory()))

    # What each kind of kernel does in its own way

    def execute(self, arguments: Sequence[Any]) -> Result:
        """Run all blocks on *arguments* and time them; an error may have the result so far as `result`."""
        raise NotImplementedError  # pragma: no cover - each kind of kernel has its own

    def image(self, allocation: Allocation, arguments: Sequence[Argument]) -> Image[M]:
        """Return *allocation*, of which *arguments* are parts, as the kernel sees it."""
        raise NotImplementedError  # pragma: no cover - each kind of kernel has its own

    def view(self, argument: Argument, memory: M) -> object:
        """Return *argument*, which lies in *memory*, as the kernel gets it."""
        raise NotImplementedError  # pragma: no cover - each kind of kernel has its own

    def free_times(self, result: Any) -> Sequence[tuple[int, int]]:
        """Return when cores become free: (nanoseconds after the start, number of cores) each."""
        raise NotImplementedError  # pragma: no cover - each kind of kernel has its own

    # What the device asks

    def again(self) -> "KernelLaunch[M]":
        """Return a launch for one more operation, which may run beside this one."""
        other: KernelLaunch[M] = twin(self, type(self))
        other._images = {}
        return other

    def _in_memory(self) -> list[Argument]:
        return [
            each
            for argument in self._arguments
            for each in (argument if isinstance(argument, list) else (argument,))
            if isinstance(each, Argument)
        ]

    def reads(self) -> Sequence[Extent]:
        """The bytes that the arguments declare as read."""
        return tuple(argument.extent for argument in self._in_memory() if argument.is_read)

    def writes(self) -> Sequence[Extent]:
        """The bytes that the arguments declare as written."""
        return tuple(argument.extent for argument in self._in_memory() if argument.is_written)

    def contents_read(self) -> Sequence[Extent]:
        """Return the bytes that instructions have read before they wrote them; without hazards, as declared."""
        return self.reads() if self._contents_read is None else self._contents_read

    def bytes_written(self) -> Sequence[Extent]:
        """Return all bytes of Out arguments, and those of InOut arguments that instructions have written."""
        return self.writes() if self._written is None else self._written

    def run(self, start_ns: int) -> Occupation | Pause:  # noqa: ARG002 - blocks do not ask for the time
        """Run all blocks on the present contents of the memory; `perform` raises the error if one stops them.

        A launch that fails ends at its start: nothing is known about when a card notices the failure.
        """
        try:
            self.result = self.execute(self._views())
            self._note_accesses()
        except BaseException as error:
            self.result = getattr(error, "result", self.result)
            return self._stopped(self.failure(error))
        return self._occupation(self.result)

    def _note_accesses(self) -> None:
        """Keep which bytes the blocks have read and written."""
        if self._hazards:
            self._contents_read = [extent for image in self._images.values() for extent in image.contents_read()]
            self._written = [extent for image in self._images.values() for extent in image.written()]

    def _occupation(self, result: Result) -> Occupation:
        """Return how long the launch takes, which has this *result*; it fails if that is too long."""
        timeline = result.timeline
        assert timeline is not None, "a launch is timed"
        if 0 < self.limit_ns < timeline.duration_ns:
            return self._stopped(self.out_of_time(timeline.duration_ns), self.limit_ns)
        self.released = self.free_times(result)
        return Occupation(timeline.duration_ns, self.released)

    def _stopped(self, failure: DeviceError, after_ns: int = 0) -> Occupation:
        self._failure = failure
        self._images.clear()
        return Occupation(after_ns, ((after_ns, self.cores),))

    def perform(self) -> None:
        """Publish the results of the blocks, or raise the error that stopped them."""
        if self._failure is not None:
            raise self._failure
        for allocation in self._images:
            check_alive(f"kernel {self.label}", "argument", allocation)
        for image in self._images.values():
            image.publish()
        self._images.clear()
        if not self.values:
            for allocation, start, stop in self.bytes_written():
                memory.forget(allocation, start, stop, f"kernel {self.label}")

    def _views(self) -> list[Any]:
        """Return the arguments as the kernel gets them."""
        of_allocation: dict[Allocation, list[Argument]] = {}
        for argument in self._in_memory():
            of_allocation.setdefault(argument.allocation, []).append(argument)
        for allocation, arguments in of_allocation.items():
            check_alive(f"kernel {self.label}", "argument", allocation)
            self._images[allocation] = self.image(allocation, arguments)
        return [
            [self._view(each) for each in argument] if isinstance(argument, list) else self._view(argument)
            for argument in self._arguments
        ]

    def _view(self, argument: Any) -> Any:
        if not isinstance(argument, Argument):
            return argument
        return self.view(argument, self._images[argument.allocation].memory)
