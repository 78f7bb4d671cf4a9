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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model import memory
from device_model.aicore.core.findings import Finding, KernelError, Rule
from device_model.aicore.core.memories import GlobalMemory
from device_model.aicore.core.names import BLOCK, CoreType, KernelType
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.core.tensors import GlobalBuffer
from device_model.aicore.runner import Result, run
from device_model.aicore.timing.play import Timeline
from device_model.errors import DeviceError, Kind
from device_model.memory import Allocation
from device_model.work import CoreKernel, Extent, Label, Occupation, check_alive

Bytes = npt.NDArray[np.uint8]
_POISON = np.frombuffer(memory.POISON * 4, np.uint64)[0]


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
    """How a core kernel is run: on which cores, and with which of the options of `runner.run`."""

    kind: KernelType = KernelType.AIV_ONLY
    hazards: bool = True
    weak: bool = False
    auto_sync: bool = False


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

    __slots__ = ("_arguments", "_contents_read", "_failure", "_images", "_written", "blocks", "cores", "function",
                 "label", "limit_ns", "nbytes", "options", "released", "result", "spec")  # fmt: skip

    granule = BLOCK

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
        self.released: Sequence[tuple[int, int]] = ()
        self._arguments = arguments
        self._failure: DeviceError | None = None
        self._images: dict[Allocation, _Image] = {}
        self._contents_read: Sequence[Extent] | None = None  # by instructions, once they are known; the next too
        self._written: Sequence[Extent] | None = None
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

    def contents_read(self) -> Sequence[Extent]:
        """Return the bytes that instructions have read before they wrote them; without hazards, as declared."""
        return self.reads() if self._contents_read is None else self._contents_read

    def bytes_written(self) -> Sequence[Extent]:
        """Return all bytes of Out arguments, and those of InOut arguments that instructions have written."""
        return self.writes() if self._written is None else self._written

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
                auto_sync=options.auto_sync,
            )
            for image in self._images.values():
                image.check()
                image.find_unwritten(self.result)
            if options.hazards:
                self._contents_read = [extent for image in self._images.values() for extent in image.contents_read()]
                self._written = [extent for image in self._images.values() for extent in image.written()]
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
        self.released = tuple(Counter(ends[-self.cores :]).items())
        return Occupation(duration, self.released)

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
            self._images[allocation] = _Image(allocation, arguments, hazards=self.options.hazards)
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

    __slots__ = ("_allocation", "_before", "_only_read", "_only_written", "_private", "memory")

    def __init__(self, allocation: Allocation, arguments: Sequence[Argument], *, hazards: bool) -> None:
        self._allocation = allocation
        # Ranges of bytes to publish, with their old contents if only changes are published.
        self._before: list[tuple[int, int, Bytes | None]] = []
        self._only_read: list[Argument] = []  # In arguments in an allocation that others write
        self._only_written: list[Argument] = []
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
        self._only_written = [argument for argument in arguments if not argument.is_read]
        self.memory = GlobalMemory(private, key, name, _empty_ranges(private, arguments) if hazards else ())

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

    def find_unwritten(self, result: Result) -> None:
        """Report the bytes of Out arguments that no block wrote, with an instruction that wrote beside them."""
        shadow = self.memory.shadow
        for name, _, start, stop, *_ in self._only_written:
            gaps = list(shadow.unwritten(start, stop))
            if not gaps:
                continue
            first, last = gaps[0]
            missing = sum(stop - start for start, stop in gaps)
            writer = shadow.writer_of(first - 1) or shadow.writer_of(last)
            finding = Finding(
                Rule.UNWRITTEN_OUT,
                f"{self.memory.name}[{first}:{last}] is never written, and the argument {name} is Out, so the host "
                f"gets garbage there; {writer or 'no instruction'} writes beside it, and {missing} of {stop - start} "
                "bytes are missing; write all of them, or declare the argument InOut",
                str(result.programs[writer.core]) if writer else "all blocks",
                (writer.site,) if writer else (),
                (writer,) if writer else (),
                f"a write to GM {name}",
            )
            result.findings.add((Rule.UNWRITTEN_OUT, name), finding)

    def contents_read(self) -> Iterator[Extent]:
        """Yield the bytes that were read before the launch wrote them."""
        for start, stop, length, stride in self.memory.shadow.reads:
            for at in range(start, stop, max(stride, 1)):
                yield self._allocation, at, at + length

    def written(self) -> Iterator[Extent]:
        """Yield the bytes that are published: all of Out arguments, and what was written of InOut arguments."""
        for start, stop, before in self._before:
            ranges = ((start, stop),) if before is None else self.memory.shadow.written(start, stop)
            for first, last in ranges:
                yield self._allocation, first, last

    def publish(self) -> None:
        """Copy the results of the launch to the allocation."""
        for start, stop, before in self._before:
            into = memory.array(self._allocation, start, np.uint8, stop - start)
            written = self._private[start:stop]
            if before is None:
                into[:] = written
            else:
                np.copyto(into, written, where=written != before)


def _empty_ranges(private: Bytes, arguments: Sequence[Argument]) -> list[tuple[int, int]]:
    """Return the ranges of *arguments* that hold nothing before the launch, in their order.

    These are Out arguments, and blocks of InOut arguments that still hold the poison of unwritten memory.
    """
    read = [(argument.start, argument.stop) for argument in arguments if argument.is_read]
    ranges: list[tuple[int, int]] = []
    for _, _, start, stop, _, is_read, is_written in arguments:
        if is_read and is_written:
            ranges += _poisoned(private, start, stop)
        elif is_written:
            parts = [(start, stop)]
            for first, last in read:
                parts = [
                    (low, high)
                    for begin, end in parts
                    for low, high in ((begin, min(end, first)), (max(begin, last), end))
                    if low < high
                ]
            ranges += parts
    return _joined(ranges)


def _poisoned(private: Bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the runs of whole blocks in *private*[*start*:*stop*] that hold nothing but poison."""
    first, last = start + -start % BLOCK, stop - stop % BLOCK
    words = private[first : max(first, last)].view(np.uint64).reshape(-1, BLOCK // 8)
    if not (words[:, 0] == _POISON).any():  # so it is with nearly all arguments
        return []
    edges = np.flatnonzero(np.diff((words == _POISON).all(axis=1), prepend=False, append=False))
    return [(first + begin * BLOCK, first + end * BLOCK) for begin, end in edges.reshape(-1, 2).tolist()]


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return *ranges* in their order, with those that overlap made one."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def cores_of(kind: KernelType, blocks: int, spec: CoreSpec) -> int:
    """Return the AI cores that *blocks* blocks need; the vector cores of an AI core are given out together."""
    cubes, vectors = spec.cores[CoreType.AIC], spec.cores[CoreType.AIV]
    if kind.cubes:
        return min(blocks, cubes)
    return -(-min(blocks, vectors) * cubes // vectors)
