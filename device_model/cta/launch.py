"""The launch of a thread-block kernel (kernel/launch.py has what is the same for all kinds of kernels).

A launch takes an SM for each of its blocks, or all of them, and gives them back when its last block has ended. If there
are more blocks than fit, they run in waves on the launch's own timeline. Launches at the same time do not slow each
other down through the memory's bandwidth or the L2: that is not modelled.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.cta.checks.rules import Rule
from device_model.cta.language.memories import GlobalMemory
from device_model.cta.language.tensors import Tensor
from device_model.cta.runner import Result, Timeline, run
from device_model.kernel import launch
from device_model.kernel.findings import Finding, KernelError
from device_model.kernel.images import Argument, Image
from device_model.memory import Allocation
from device_model.sm.card import Card
from device_model.sm.names import Dim3
from device_model.sm.occupancy import Occupancy
from device_model.sm.spec import SmSpec
from device_model.work import Label


class Options(NamedTuple):
    """What each block of a kernel has.

    Attributes:
        threads: Its threads.
        shared: Its bytes of dynamic shared memory; None if all its arrays are static.
        registers: The registers of each thread.
        hazards: Whether accesses are checked.
    """

    threads: int = 128
    shared: int | None = None
    registers: int = 32
    hazards: bool = True


class Machine(NamedTuple):
    """What a launch runs on: *sms* SMs with the numbers of *spec*, and *overhead_ns* from their end to its end."""

    spec: SmSpec
    sms: int
    overhead_ns: int


class Parameter(NamedTuple):
    """An argument as the kernel declares it: its *name*, and whether the kernel reads and writes it."""

    name: str
    is_read: bool
    is_written: bool


def run_on(
    machine: Machine, options: Options, function: Callable[..., object], grid: Dim3, arguments: Sequence[Any], *,
    has_values: bool = True,
) -> Result:  # fmt: skip
    """Run all blocks of *grid* on *machine*, and time them; raise as `runner.run` does."""
    spec, sms, overhead_ns = machine
    threads, shared, registers, hazards = options
    capacity = spec.block_shared_static if shared is None else shared
    kept: list[tuple[Card, Occupancy]] = []

    def card(used: int) -> Card:
        fits = Occupancy(threads, registers, used, spec)
        if not fits.blocks:
            raise KernelError(
                f"an SM holds no block of {threads} threads with {registers} registers each and {used} bytes of shared "
                "memory",
                "make blocks smaller",
            )
        made = Card(sms, fits.blocks, spec)
        kept.append((made, fits))
        return made

    result = run(
        function,
        grid,
        arguments,
        threads=threads,
        capacity=capacity,
        is_dynamic=shared is not None,
        hazards=hazards,
        card=card,
        has_values=has_values,
    )
    [(played, fits)] = kept
    result.timeline = Timeline(played.play(), spec, fits, overhead_ns)
    return result


def run_on_arrays(
    function: Callable[..., object],
    grid: int | Dim3,
    arguments: Sequence[Any],
    *,
    machine: Machine,
    options: Options,
    parameters: Sequence[Parameter],
) -> Result:
    """Run a kernel as `run_on` does, outside a simulation: NumPy arrays stand for global memory, and are changed.

    The findings are those of a launch: an argument that is only written holds nothing before.
    """
    values = [
        _tensor(each, parameter) if isinstance(each, np.ndarray) else each
        for each, parameter in zip(arguments, parameters, strict=True)
    ]
    result = run_on(machine, options, function, grid if isinstance(grid, tuple) else (grid, 1, 1), values)
    for value, parameter in zip(values, parameters, strict=True):
        if isinstance(value, Tensor) and options.hazards and not parameter.is_read:
            assert isinstance(value.memory, GlobalMemory), "arguments are in global memory"
            gaps = list(value.memory.shadow.unwritten(0, value.nbytes))
            _find_unwritten(result, parameter.name, value.nbytes, gaps)
    return result


def _tensor(array: npt.NDArray[Any], parameter: Parameter) -> Tensor:
    name, is_read, is_written = parameter
    assert array.flags.c_contiguous, f"{name} is in one piece, as a copy of an array is"
    memory = GlobalMemory(array.reshape(-1).view(np.uint8), name, name, () if is_read else ((0, array.nbytes),))
    return Tensor(memory, name, 0, array.dtype, array.shape, is_readable=is_read, is_writable=is_written)


class Launch(launch.KernelLaunch[GlobalMemory]):
    """A thread-block kernel with its grid and arguments: the work of one operation.

    Args:
        label: The name of the kernel, for reports.
        function: The kernel.
        grid: The number of blocks in each direction.
        arguments: `Argument` records for device memory, or plain values, which the kernel gets unchanged.
        machine: The card.
        options: What each block has.
        limit_ns: A kernel that takes longer fails after this time, and its results are lost; 0 means no limit.
        values: Whether its instructions compute.
    """

    __slots__ = ("function", "grid", "machine", "options")

    result: Result | None

    def __init__(
        self,
        label: Label,
        function: Callable[..., object],
        grid: Dim3,
        arguments: Sequence[Any],
        machine: Machine,
        options: Options,
        limit_ns: int = 0,
        *,
        values: bool = True,
    ) -> None:
        blocks = prod(grid)
        super().__init__(
            label, blocks, min(blocks, machine.sms), arguments, hazards=options.hazards, limit_ns=limit_ns,
            values=values,
        )  # fmt: skip
        self.function = function
        self.grid = grid
        self.machine = machine
        self.options = options

    def execute(self, arguments: Sequence[Any]) -> Result:
        """Run all blocks on *arguments*, time them, and check what they wrote."""
        self.result = run_on(
            self.machine, self.options, self.function, self.grid, arguments, has_values=self.values
        )  # fmt: skip
        for image in self._images.values():
            for argument, gaps in image.unwritten_outputs():
                first = argument.start
                inside = [(start - first, stop - first) for start, stop in gaps]
                _find_unwritten(self.result, argument.name, argument.stop - first, inside)
        return self.result

    def image(self, allocation: Allocation, arguments: Sequence[Argument]) -> Image[GlobalMemory]:
        """Return *allocation* as global memory."""
        return Image(allocation, arguments, GlobalMemory, hazards=self.options.hazards)

    def view(self, argument: Argument, memory: GlobalMemory) -> Tensor:
        """Return *argument* as a tensor in global memory."""
        return Tensor(
            memory,
            argument.name,
            argument.start,
            argument.dtype,
            argument.shape,
            is_readable=argument.is_read,
            is_writable=argument.is_written,
        )

    def free_times(self, result: Result) -> Sequence[tuple[int, int]]:
        """Return that all SMs are taken until the last block has ended."""
        assert result.timeline is not None, "a launch is timed"
        return ((result.timeline.duration_ns, self.cores),)


def _find_unwritten(result: Result, name: str, nbytes: int, gaps: Sequence[tuple[int, int]]) -> None:
    """Report the bytes of the Out argument *name* that no block wrote, if there are *gaps*."""
    if not gaps:
        return
    first, last = gaps[0]
    missing = sum(stop - start for start, stop in gaps)
    finding = Finding(
        Rule.UNWRITTEN_OUT,
        f"bytes {first}:{last} of {name} are never written, and the argument is Out, so the host gets garbage there; "
        f"{missing} of {nbytes} bytes are missing; write all of them, or declare the argument InOut",
        "all blocks",
        (),
        (),
        f"a write to {name}",
    )
    result.findings.add((Rule.UNWRITTEN_OUT, name), finding)
