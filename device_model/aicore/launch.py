"""The launch of a kernel for AI cores (kernel/launch.py has what is the same for all kinds of kernels).

A launch takes all its AI cores at once, because blocks may wait for one another, and gives each core back when the last
block on it has ended. If there are more blocks than cores, they run in waves on the launch's own timeline.

A launch finds in the L2 of its device what launches before it have left there (caches.py). Launches at the same time do
not slow each other down through the bandwidth of the memory: the one that starts first is played first, as if alone.
`runner.run_beside` plays launches together.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from device_model.aicore.core.findings import Rule
from device_model.aicore.core.memories import ZEROS, GlobalMemory
from device_model.aicore.core.names import CoreType, KernelType
from device_model.aicore.core.packed import int4b_t
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.core.tensors import GlobalBuffer
from device_model.aicore.runner import Result, run
from device_model.aicore.timing.l2 import Cache
from device_model.errors import Kind
from device_model.kernel import launch
from device_model.kernel.findings import Finding, KernelError
from device_model.kernel.images import Argument, Image
from device_model.memory import Allocation
from device_model.work import Label


class Options(NamedTuple):
    """How a core kernel is run: on which cores, and with which of the options of `runner.run`."""

    kind: KernelType = KernelType.AIV_ONLY
    hazards: bool = True
    weak: bool = False
    auto_sync: bool = False


class L2s(Protocol):
    """The L2 of each device."""

    def of(self, device: int, nbytes: int) -> Cache:
        """Return the L2 of *device*, which has *nbytes*."""


class Launch(launch.KernelLaunch[GlobalMemory]):
    """A core kernel with its blocks and arguments: the work of one operation.

    Args:
        label: The name of the kernel, for reports.
        function: The kernel.
        blocks: The number of blocks.
        arguments: `Argument` records for device memory, or plain values, which the kernel gets unchanged.
        spec: The cores of the card.
        ai_cores: The number of AI cores of the device.
        l2s: What earlier work left in the L2 of each device; that of the first argument in device memory is used.
        options: How the kernel is run.
        limit_ns: A kernel that takes longer fails after this time, and its results are lost; 0 means no limit.
        values: Whether its instructions compute.

    Attributes:
        result: The result of the run; None before it.
        cores: The number of AI cores that the launch takes.
    """

    __slots__ = ("_l2s", "function", "options", "spec")

    result: Result | None

    def __init__(
        self,
        label: Label,
        function: Callable[..., object],
        blocks: int,
        arguments: Sequence[Any],
        spec: CoreSpec,
        ai_cores: int,
        l2s: L2s,
        options: Options,
        limit_ns: int = 0,
        *,
        values: bool = True,
    ) -> None:
        cores = min(cores_of(options.kind, blocks, spec), ai_cores)
        super().__init__(label, blocks, cores, arguments, hazards=options.hazards, limit_ns=limit_ns, values=values)
        self._l2s = l2s
        self.function = function
        self.spec = spec
        self.options = options

    @property
    def failure_kind(self) -> Kind:  # type: ignore[override]
        """The kind of error with which a launch on these cores fails."""
        return Kind.CUBE_FAILURE if self.options.kind.cubes else Kind.LAUNCH_FAILURE

    @property
    def timeout_kind(self) -> Kind:  # type: ignore[override]
        """The kind of error with which a launch on these cores fails if it takes too long."""
        return Kind.CUBE_TIMEOUT if self.options.kind.cubes else Kind.OP_EXECUTE_TIMEOUT

    def execute(self, arguments: Sequence[Any]) -> Result:
        """Run all blocks on *arguments*, and check what they wrote."""
        kind, hazards, weak, auto_sync = self.options
        self.result = run(
            self.function,
            self.blocks,
            arguments,
            self.spec,
            kind=kind,
            hazards=hazards,
            weak=weak,
            auto_sync=auto_sync,
            values=self.values,
            l2=self._l2(),
        )
        self._check_images(self.result)
        doubtful = [finding for finding in self.result.findings if finding.rule is Rule.UNWRITTEN_READ]
        if doubtful and self.values and self._is_same_with_zeros():
            for finding in doubtful:
                finding.is_harmless = True
        return self.result

    def _check_images(self, result: Result) -> None:
        """Check what the blocks have written to the arguments."""
        for image in self._images.values():
            _check_inputs(image)
            _find_unwritten(image, result)

    def _is_same_with_zeros(self) -> bool:
        """Run the kernel again with zeros for all unwritten bytes; return whether its results are the same."""
        first, self._images = self._images, {}
        try:
            arguments = self._views()
            for image in self._images.values():
                for start, stop in image.memory.shadow.unwritten(0, image.memory.size):
                    image.memory.bytes[start:stop] = 0
            kind, _, weak, auto_sync = self.options
            run(
                self.function, self.blocks, arguments, self.spec,
                kind=kind, hazards=weak or auto_sync, weak=weak, auto_sync=auto_sync, timing=False, fill=ZEROS,
            )  # fmt: skip
            return all(_is_same(image, self._images[allocation]) for allocation, image in first.items())
        except Exception:  # it depends on these bytes whether the kernel comes to its end
            return False
        finally:
            self._images = first

    def _l2(self) -> Cache | None:
        device = next((each.device for each in self._images if each.device >= 0), None)
        return None if device is None else self._l2s.of(device, self.spec.l2_bytes)

    def image(self, allocation: Allocation, arguments: Sequence[Argument]) -> Image[GlobalMemory]:
        """Return *allocation* as GM."""
        return Image(allocation, arguments, GlobalMemory, hazards=self.options.hazards, values=self.values)

    def view(self, argument: Argument, memory: GlobalMemory) -> GlobalBuffer:
        """Return *argument* as a buffer in GM.

        Raises:
            TypeError: It is an array of int4, of which NumPy gives each element a byte, and a card half of one.
        """
        if argument.dtype == int4b_t:
            raise TypeError("an argument of int4 has a byte for each element: pass int8, two elements in each byte")
        return GlobalBuffer(memory, argument.start, argument.stop - argument.start, argument.dtype, argument.shape)

    def free_times(self, result: Result) -> Sequence[tuple[int, int]]:
        """Return how long each AI core is taken: until the last of its cube and vector cores is done."""
        timeline = result.timeline
        assert timeline is not None, "a launch is timed"
        vectors = self.spec.cores[CoreType.AIV] // self.spec.cores[CoreType.AIC]
        until: dict[int, float] = {}
        for name, cycles in timeline.free_cycles.items():
            core_type, number = name.split()
            ai_core = int(number) // vectors if core_type == "AIV" else int(number)
            until[ai_core] = max(cycles, until.get(ai_core, 0.0))
        duration = timeline.duration_ns
        ends = sorted(min(duration, round(cycles * timeline.ns_per_cycle)) for cycles in until.values())
        ends += [duration] * (self.cores - len(ends))
        return tuple(Counter(ends[-self.cores :]).items())


def _is_same(image: Image[GlobalMemory], other: Image[GlobalMemory]) -> bool:
    """Whether the bytes that the launch has written to *image* are the same in *other*."""
    one, two = image.memory.bytes, other.memory.bytes
    return all(
        np.array_equal(one[start:stop], two[start:stop])
        for start, stop in image.memory.shadow.written(0, image.memory.size)
    )


def _check_inputs(image: Image[GlobalMemory]) -> None:
    """Raise KernelError if a block changed an In argument: the change would be lost."""
    for argument, at in image.changed_inputs():
        writer = image.memory.shadow.writer_of(at) or "the kernel"
        raise KernelError(
            f"{writer} writes to GM {argument.name}, which the kernel declares as In", "declare it as Out or InOut"
        )


def _find_unwritten(image: Image[GlobalMemory], result: Result) -> None:
    """Report the bytes of Out arguments that no block wrote, with an instruction that wrote beside them."""
    shadow = image.memory.shadow
    for argument, gaps in image.unwritten_outputs():
        name = argument.name
        first, last = gaps[0]
        missing = sum(stop - start for start, stop in gaps)
        writer = shadow.writer_of(first - 1) or shadow.writer_of(last)
        finding = Finding(
            Rule.UNWRITTEN_OUT,
            f"{image.memory.name}[{first}:{last}] is never written, and the argument {name} is Out, so the host "
            f"gets garbage there; {writer or 'no instruction'} writes beside it, and {missing} of "
            f"{argument.stop - argument.start} bytes are missing; write all of them, or declare the argument InOut",
            str(result.programs[writer.core]) if writer and writer.core < len(result.programs) else "all blocks",
            (writer.site,) if writer else (),
            (writer,) if writer else (),
            f"a write to GM {name}",
        )
        result.findings.add((Rule.UNWRITTEN_OUT, name), finding)


def cores_of(kind: KernelType, blocks: int, spec: CoreSpec) -> int:
    """Return the AI cores that *blocks* blocks need; the vector cores of an AI core are given out together."""
    cubes, vectors = spec.cores[CoreType.AIC], spec.cores[CoreType.AIV]
    if kind.cubes:
        return min(blocks, cubes)
    return -(-min(blocks, vectors) * cubes // vectors)
