"""The launch of a core kernel, as the rest of the device sees it.

The duration of a core kernel is known only after running it, so it runs at its simulated start. Its results must not be
visible before its simulated end. Therefore it works on private images of the allocations that it may write, and
publishes them at its end. Of an Out argument all bytes are published. Of an InOut argument only the bytes that changed
are, so that several launches at the same time may each write a part of one buffer.

A launch takes all its AI cores at once, because blocks may wait for one another, and gives each core back when the last
block on it has ended. If there are more blocks than cores, they run in waves on the launch's own timeline. Launches at
the same time do not slow each other down through the memory's bandwidth or the L2: that is not modelled.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model import memory
from device_model.aicore.core.findings import KernelError
from device_model.aicore.core.memories import GlobalMemory
from device_model.aicore.core.names import CoreType, KernelType
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.core.tensors import GlobalBuffer
from device_model.aicore.runner import Result, run
from device_model.aicore.timing.play import Timeline
from device_model.errors import DeviceError, Kind
from device_model.memory import Allocation
from device_model.work import CoreKernel, Extent, Label, Occupation, check_alive

Bytes = npt.NDArray[np.uint8]


class Argument(NamedTuple):
    """An argument in device memory: bytes *start* to *stop* of *allocation*, elements of *dtype*."""

    name: str
    allocation: Allocation
    start: int
    stop: int
    dtype: np.dtype[Any]
    is_read: bool
    is_written: bool

    @property
    def extent(self) -> Extent:
        """The bytes of the argument."""
        return (self.allocation, self.start, self.stop)


class Options(NamedTuple):
    """How a core kernel is run: on which cores, with checks for hazards or without, and in weak mode or not."""

    kind: KernelType = KernelType.AIV_ONLY
    hazards: bool = True
    weak: bool = False


class Launch(CoreKernel):
    """A core kernel with its blocks and arguments: the work of one operation.

    Args:
        label: The name of the kernel, for reports.
        function: The kernel.
        blocks: The number of blocks.
        arguments: `Argument` records for device memory, or plain values, which the kernel gets unchanged.
        spec: The cores of the card.
        ai_cores: The number of AI cores of the device.
        options: How the kernel is run.
        limit_ns: A kernel that takes longer fails after this time, and its results are lost; 0 means no limit.

    Attributes:
        result: The result of the run; None before it.
        cores: The number of AI cores that the launch takes.
    """

    __slots__ = ("_arguments", "_failure", "_images", "blocks", "cores", "function", "label", "limit_ns", "nbytes",
                 "options", "result", "spec")  # fmt: skip

    def __init__(
        self,
        label: Label,
        function: Callable[..., object],
        blocks: int,
        arguments: Sequence[Any],
        spec: CoreSpec,
        ai_cores: int,
        options: Options,
        limit_ns: int = 0,
    ) -> None:
        self.label = label
        self.limit_ns = limit_ns
        self.function = function
        self.blocks = blocks
        self.spec = spec
        self.options = options
        self.result: Result | None = None
        self._arguments = arguments
        self._failure: DeviceError | None = None
        self._images: dict[Allocation, _Image] = {}
        self.nbytes = sum(stop - start for _, start, stop in (argument.extent for argument in self._in_memory()))
        self.cores = min(cores_of(options.kind, blocks, spec), ai_cores)

    def _in_memory(self) -> list[Argument]:
        return [argument for argument in self._arguments if isinstance(argument, Argument)]

    def reads(self) -> Sequence[Extent]:
        """The bytes that the arguments declare as read."""
        return tuple(argument.extent for argument in self._in_memory() if argument.is_read)

    def writes(self) -> Sequence[Extent]:
        """The bytes that the arguments declare as written."""
        return tuple(argument.extent for argument in self._in_memory() if argument.is_written)

    def run(self) -> Occupation:
        """Run all blocks on the present contents of the memory; `perform` raises the error if one stops them.

        A launch that fails ends at its start: nothing is known about when a card notices the failure.
        """
        options = self.options
        try:
            self.result = run(
                self.function,
                self.blocks,
                self._views(),
                self.spec,
                kind=options.kind,
                hazards=options.hazards,
                weak=options.weak,
            )
            for image in self._images.values():
                image.check()
        except BaseException as error:
            self.result = getattr(error, "result", self.result)
            return self._stopped(self.failure(error))
        timeline = self.result.timeline
        assert timeline is not None, "a launch is timed"
        if 0 < self.limit_ns < timeline.duration_ns:
            failure = DeviceError(
                Kind.CUBE_TIMEOUT if options.kind.cubes else Kind.OP_EXECUTE_TIMEOUT,
                f"kernel {self.label} would have run {timeline.duration_ns / 1e9:g} s, longer than "
                "SetOpExecuteTimeOut() allows",
                "split its work, or set a longer limit",
            )
            return self._stopped(failure, self.limit_ns)
        return self._occupation(timeline)

    @property
    def failure_kind(self) -> Kind:  # type: ignore[override]
        """The kind of error with which a launch on these cores fails."""
        return Kind.CUBE_FAILURE if self.options.kind.cubes else Kind.LAUNCH_FAILURE

    def _stopped(self, failure: DeviceError, after_ns: int = 0) -> Occupation:
        self._failure = failure
        self._images.clear()
        return Occupation(after_ns, ((after_ns, self.cores),))

    def _occupation(self, timeline: Timeline) -> Occupation:
        """Return how long each AI core is held: until the last of its cube and vector cores is done."""
        vectors = self.spec.cores[CoreType.AIV] // self.spec.cores[CoreType.AIC]
        until: dict[int, float] = {}
        for name, cycles in timeline.free_cycles.items():
            core_type, number = name.split()
            ai_core = int(number) // vectors if core_type == "AIV" else int(number)
            until[ai_core] = max(cycles, until.get(ai_core, 0.0))
        duration = timeline.duration_ns
        ends = sorted(min(duration, round(cycles * timeline.ns_per_cycle)) for cycles in until.values())
        ends += [duration] * (self.cores - len(ends))
        return Occupation(duration, tuple(Counter(ends[-self.cores :]).items()))

    def perform(self) -> None:
        """Publish the results of the blocks, or raise the error that stopped them."""
        if self._failure is not None:
            raise self._failure
        for allocation in self._images:
            check_alive(f"kernel {self.label}", "argument", allocation)
        for image in self._images.values():
            image.publish()
        self._images.clear()

    def _views(self) -> list[Any]:
        """Return the arguments as the kernel gets them."""
        of_allocation: dict[Allocation, list[Argument]] = {}
        for argument in self._in_memory():
            of_allocation.setdefault(argument.allocation, []).append(argument)
        for allocation, arguments in of_allocation.items():
            check_alive(f"kernel {self.label}", "argument", allocation)
            self._images[allocation] = _Image(allocation, arguments)
        return [
            GlobalBuffer(
                self._images[argument.allocation].memory, argument.start, argument.stop - argument.start, argument.dtype
            )
            if isinstance(argument, Argument)
            else argument
            for argument in self._arguments
        ]


class _Image:
    """One allocation as a launch sees it: the memory itself if it is only read, or a private copy if it is written."""

    __slots__ = ("_allocation", "_before", "_only_read", "_private", "memory")

    def __init__(self, allocation: Allocation, arguments: Sequence[Argument]) -> None:
        self._allocation = allocation
        # Ranges of bytes to publish, with their old contents if only changes are published.
        self._before: list[tuple[int, int, Bytes | None]] = []
        self._only_read: list[Argument] = []  # In arguments in an allocation that others write
        name = "/".join(dict.fromkeys(argument.name for argument in arguments))
        key = (allocation.device, allocation.serial)
        if not any(argument.is_written for argument in arguments):
            for argument in arguments:
                memory.warm(allocation, argument.start, argument.stop - argument.start)
            view = np.frombuffer(allocation.view, np.uint8)
            view.flags.writeable = False
            self.memory = GlobalMemory(view, key, name)
            return
        # As large as the allocation, so that addresses agree. Pages that no argument names are not touched, and take no
        # memory.
        private = self._private = np.frombuffer(memory.create_mapping(max(1, allocation.nbytes)), np.uint8)
        for argument in arguments:
            _, start, stop = argument.extent
            if argument.is_written and not argument.is_read:
                memory.write_poison(private.data, start, stop)
        for argument in arguments:  # after the poison: an In argument may have the same bytes
            if argument.is_read:
                _, start, stop = argument.extent
                private[start:stop] = memory.array(allocation, start, np.uint8, stop - start)
        for argument in arguments:
            if argument.is_written:
                _, start, stop = argument.extent
                self._before.append((start, stop, private[start:stop].copy() if argument.is_read else None))
        self._only_read = [argument for argument in arguments if not argument.is_written]
        self.memory = GlobalMemory(private, key, name)

    def check(self) -> None:
        """Raise KernelError if a block changed an In argument: the change would be lost."""
        for name, _, start, stop, *_ in self._only_read:
            changed = self._private[start:stop] != memory.array(self._allocation, start, np.uint8, stop - start)
            for first, last, _ in self._before:  # where another argument may be written
                changed[max(first - start, 0) : max(last - start, 0)] = False
            if changed.any():
                at = start + int(changed.argmax())
                writer = self.memory.shadow.writer_of(at) or "the kernel"
                raise KernelError(
                    f"{writer} writes to GM {name}, which the kernel declares as In", "declare it as Out or InOut"
                )

    def publish(self) -> None:
        """Copy the results of the launch to the allocation."""
        for start, stop, before in self._before:
            into = memory.array(self._allocation, start, np.uint8, stop - start)
            written = self._private[start:stop]
            if before is None:
                into[:] = written
            else:
                np.copyto(into, written, where=written != before)


def cores_of(kind: KernelType, blocks: int, spec: CoreSpec) -> int:
    """Return the AI cores that *blocks* blocks need; the vector cores of an AI core are given out together."""
    cubes, vectors = spec.cores[CoreType.AIC], spec.cores[CoreType.AIV]
    if kind.cubes:
        return min(blocks, cubes)
    return -(-min(blocks, vectors) * cubes // vectors)
