"""Runs the blocks of a kernel, each on a simulated core, in one Python thread.

Each block is a strand (kernel/strands.py), which runs until it ends or waits for another core. When no block can go on,
the first wait with a time limit is given up, and if there is none, the kernel ends with a KernelHangError. The times of
the instructions are worked out afterwards, by `timing.play`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.aicore.alike.groups import groups_of
from device_model.aicore.core.findings import KernelAssertionError
from device_model.aicore.core.machine import BlockStrand, Core
from device_model.aicore.core.memories import POISON, GlobalMemory
from device_model.aicore.core.names import CoreType, KernelType
from device_model.aicore.core.program import Direction, Message, Program
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.core.tensors import DTYPES, GlobalBuffer
from device_model.aicore.cube.mmad import CubeUnit
from device_model.aicore.flags import sync
from device_model.aicore.flags.crossing import Crossing
from device_model.aicore.timing.l2 import Cache
from device_model.aicore.timing.play import Timeline, play
from device_model.kernel import strands
from device_model.kernel.blas import one_thread
from device_model.kernel.findings import Findings, KernelHangError
from device_model.kernel.garbage import no_collections
from device_model.kernel.results import Write


@dataclass
class Result:
    """The result of a launch.

    Attributes:
        programs: The instructions of each core.
        findings: The mistakes that were found.
        spec: The cores that it ran on.
        messages: The messages of printf and DumpTensor, in the order of the blocks.
        timeline: The times; None if the launch was not timed or did not end.
    """

    programs: list[Program]
    findings: Findings
    spec: CoreSpec = field(repr=False)
    messages: list[Message] = field(default_factory=list)
    timeline: Timeline | None = None

    @property
    def output(self) -> str:
        """The text that printf and DumpTensor wrote."""
        return "".join(f"{message}\n" for message in self.messages)

    def writes(self) -> list[Write]:
        """Return the copies to GM in the order of their ends; the launch must be timed. SetValue() is left out."""
        copies = [
            Write(each, program, number, flow.key, flow.start, flow.length, flow.rows, flow.stride)
            for program in self.programs
            for number, each in enumerate(program.instructions)
            if (flow := each.flow) is not None and flow.direction is Direction.WRITE
        ]
        return sorted(copies, key=lambda copy: copy.instruction.end)


def run(
    kernel: Callable[..., object],
    block_dim: int,
    args: Sequence[Any],
    spec: CoreSpec,
    *,
    kind: KernelType = KernelType.AIV_ONLY,
    hazards: bool = True,
    weak: bool = False,
    auto_sync: bool = False,
    timing: bool = True,
    values: bool = True,
    fill: bytes = POISON,
    l2: Cache | None = None,
) -> Result:
    """Run a kernel on simulated cores.

    Args:
        kernel: The function, called once for each core of each block. If it changes nothing outside of it, one call may
            stand for several blocks that take the same steps (`alike`).
        block_dim: The number of blocks.
        args: Its arguments. A NumPy array stands for memory in GM: the kernel gets a `GlobalBuffer` over its bytes, and
            changes them in place.
        spec: The cores.
        kind: The cores that a block has.
        hazards: Whether to check that accesses to the same bytes are ordered.
        weak: Whether a read that is not ordered after a write sees the old bytes. Needs *hazards*.
        auto_sync: Whether flags between the scalar pipe and others are inserted where accesses to UB need them, as the
            vendor's compiler can do. Needs *hazards*.
        timing: Whether to work out the times of the instructions.
        values: Whether instructions compute. Without values a kernel that looks at what memory holds cannot go on.
        fill: Two bytes that local memories hold everywhere before their first write.
        l2: What earlier launches with the same arguments left in the L2, to which this one adds; by default it is
            empty.

    Raises:
        KernelError: The kernel cannot go on.
        ValueError: *block_dim* is below 1, or *weak* or *auto_sync* is set without *hazards*.
        Exception: Anything that the kernel raises. Every error has the result so far as its attribute `result`.
    """
    with no_collections():
        result = _run(
            Beside(kernel, block_dim, _arguments(args, {}, "argument"), kind), spec,
            hazards=hazards, weak=weak, auto_sync=auto_sync, timing=timing, values=values, fill=fill,
            l2=l2,
        )  # fmt: skip
        if timing:
            result.timeline = play(result.programs, spec, l2)
            finish_late(result.programs)
    return result


def finish_late(programs: Sequence[Program]) -> None:
    """Do what had to wait for the times of the instructions."""
    for program in programs:
        for finish in program.late:
            finish()
        program.late.clear()


class Beside(NamedTuple):
    """One of several launches that run side by side, on cores of one type; see `run`."""

    kernel: Callable[..., object]
    block_dim: int
    args: Sequence[Any]
    kind: KernelType = KernelType.AIV_ONLY


def run_beside(
    launches: Sequence[Beside], spec: CoreSpec, *, values: bool = True, l2: Cache | None = None
) -> list[Result]:
    """Run kernels that begin at the same time; return their results, of which each has the timeline of all.

    They share HBM, the L2 and the lines that several cores read, and a core that two of them want runs the blocks of
    the first one first. An array that several get is one allocation. Each kernel finds what those before it in
    *launches* have computed, and no order between accesses of two launches is checked. A GetValue() of GM sees a word
    of another launch when that has written it back with DataCacheCleanAndInvalid(), and waits until then. So does
    ReadGmByPassDCache(), also for a word of WriteGmByPassDCache().

    Args:
        launches: The kernels.
        spec: The cores.
        values: Whether instructions compute; see `run`.
        l2: What is in the L2; see `run`.

    Raises:
        KernelError: A kernel cannot go on.
        ValueError: A kernel has blocks of cube and vector cores.
    """
    if mixed := [each for each in launches if each.kind.cubes and each.kind.vectors]:
        raise ValueError(f"{mixed[0].kernel} is {mixed[0].kind}: side by side run kernels of AIC_ONLY and AIV_ONLY")
    memories: dict[int, GlobalMemory] = {}
    with no_collections():
        results = [
            _run(each._replace(args=_arguments(each.args, memories, f"launch {number}, argument")), spec, values=values)
            for number, each in enumerate(launches)
        ]
        programs = [program for result in results for program in result.programs]
        for index, program in enumerate(programs):
            program.index = index
        timeline = play(programs, spec, l2)
        finish_late(programs)
    for result in results:
        result.timeline = timeline
    return results


def _run(
    launch: Beside,
    spec: CoreSpec,
    *,
    hazards: bool = False,
    weak: bool = False,
    auto_sync: bool = False,
    timing: bool = True,
    values: bool = True,
    fill: bytes = POISON,
    l2: Cache | None = None,
) -> Result:
    """Run all blocks of a kernel, without times; the arguments are what the kernel gets."""
    placed = place(launch, spec, hazards=hazards, weak=weak, auto_sync=auto_sync, values=values, fill=fill)
    with one_thread():
        _execute(placed, spec if timing else None, l2)
    return placed.result


class Placed(NamedTuple):
    """A launch whose blocks have their cores: *kernel* runs on each of those of *crossing*, and fills *result*.

    *make* makes one more core of this launch.
    """

    result: Result
    crossing: Crossing
    kernel: Callable[[], object]
    make: Callable[[Program], Core]


def place(
    launch: Beside,
    spec: CoreSpec,
    *,
    hazards: bool = False,
    weak: bool = False,
    auto_sync: bool = False,
    values: bool = True,
    fill: bytes = POISON,
) -> Placed:
    """Give the blocks of *launch* their cores; the options are those of `run`."""
    kernel, block_dim, args, kind = launch
    if block_dim < 1:
        raise ValueError(f"a kernel needs 1 block or more, not {block_dim}")
    if weak and not hazards:
        raise ValueError("weak=True needs hazards=True: the checks tell which reads see old bytes")
    if auto_sync and not hazards:
        raise ValueError("auto_sync=True needs hazards=True: the checks tell which accesses need a flag")
    result = Result([], Findings(), spec)
    crossing = Crossing(spec.cores)
    make = partial(
        Core,
        spec=spec,
        block_dim=block_dim,
        ratio=max(kind.vectors, 1),
        crossing=crossing,
        findings=result.findings,
        messages=result.messages,
        hazards=hazards,
        weak=weak,
        auto_sync=auto_sync,
        values=values,
        fill=fill,
    )
    for block in range(block_dim):
        for core_type, count in ((CoreType.AIC, kind.cubes), (CoreType.AIV, kind.vectors)):
            for sub_block in range(count):
                program = Program(len(result.programs), core_type, block, sub_block)
                result.programs.append(program)
                crossing.cores.append(make(program))
    return Placed(result, crossing, partial(kernel, *args), make)


def run_together(launches: Sequence[Placed], give_up: Callable[[Sequence[BlockStrand]], object]) -> None:
    """Run the blocks of *launches*, whose servers meet, without times.

    *give_up* is called with the blocks that are left if none can go on.

    Raises:
        Exception: Anything that a kernel raises; the error has the results of its launch so far as `result`.
    """
    with no_collections(), one_thread():
        try:
            with np.errstate(all="ignore"):
                cores = [(each, core) for each in launches for core in each.crossing.cores]
                blocks = [BlockStrand(core, partial(_block_of, each, core)) for each, core in cores]
                strands.run(blocks, lambda waiting: _end_limit(waiting) or give_up(waiting))
            for each in launches:
                each.crossing.finish()
        finally:
            for each in launches:
                each.crossing.cores.clear()


def _execute(placed: Placed, spec: CoreSpec | None, l2: Cache | None) -> None:
    """Run all blocks; with a *spec*, a failed assertion names its cycle."""
    result, crossing, kernel, _ = placed
    try:
        # A core computes infinities without warnings. NumPy 2 keeps this setting by greenlet, NumPy 1 by thread, so
        # it is made here and in each block.
        with np.errstate(all="ignore"):
            groups = groups_of(crossing.cores, kernel, _block)
            strands.run([BlockStrand(core, _task(core, kernel, groups)) for core in crossing.cores], _give_up)
        crossing.finish()
    except BaseException as error:
        error.result = result  # type: ignore[attr-defined]
        if spec is not None and isinstance(error, KernelAssertionError):
            play(result.programs, spec, l2)  # for the cycle in its message
        raise
    finally:
        crossing.cores.clear()  # breaks reference cycles: the memories of cores are large


def _task(core: Core, kernel: Callable[[], object], groups: Mapping[int, Callable[..., None]]) -> Callable[[], None]:
    """Return what runs the block of *core*: by itself, or as one of a group."""
    alone = partial(_block, core, kernel)
    return partial(groups[core.index], alone) if core.index in groups else alone


def _block(core: Core, kernel: Callable[[], object]) -> None:
    try:
        with np.errstate(all="ignore"):
            kernel()
            for close in core.closing:
                close()
            core.closing.clear()  # breaks reference cycles
        if core.tpipe is not None:
            core.tpipe.Destroy()
        if isinstance(core.unit, CubeUnit):
            core.unit.unit_flags.finish()
        sync.finish(core)
    except BaseException as error:
        error.add_note(f"in {core.program} of the kernel")
        raise
    core.program.tail_scalar = core.scalar
    core.memories.clear()  # they are large, and there may be thousands of blocks
    core.unit = None


def _block_of(launch: Placed, core: Core) -> None:
    try:
        _block(core, launch.kernel)
    except BaseException as error:
        error.result = launch.result  # type: ignore[attr-defined]
        raise


def _end_limit(waiting: Sequence[BlockStrand]) -> bool:
    """End the first wait with a time limit; return whether there was one."""
    for strand in waiting:
        if strand.can_give_up:
            strand.give_up()
            return True
    return False


def _give_up(waiting: Sequence[BlockStrand]) -> None:
    """End the first wait with a time limit, or the kernel: no block can go on."""
    if _end_limit(waiting):
        return
    hang = KernelHangError(
        "blocks wait for each other, and none can continue: "
        + "; ".join(f"{strand.core.program} in {strand.where}" for strand in waiting[:8])
        + (f"; and {len(waiting) - 8} more" if len(waiting) > 8 else ""),
        "every block must call the same SyncAll(), and each CrossCoreWaitFlag() needs its CrossCoreSetFlag()",
    )
    waiting[0].throw(hang)  # so that the traceback shows its wait


def _arguments(args: Sequence[Any], memories: dict[int, GlobalMemory], what: str) -> list[Any]:
    """Return *args* with each array, and those in lists, replaced by a buffer in GM.

    Arrays over one memory share their allocation, of those in *memories*, too. Messages call them *what* and a number.
    """
    return [_argument(arg, f"{what} {index}", memories) for index, arg in enumerate(args)]


def _argument(arg: Any, name: str, memories: dict[int, GlobalMemory]) -> Any:
    if isinstance(arg, np.ndarray):
        return _buffer(arg, name, memories)
    if isinstance(arg, list | tuple) and any(isinstance(each, np.ndarray) for each in arg):
        return [_argument(each, f"{name}[{place}]", memories) for place, each in enumerate(arg)]
    return arg


def _buffer(array: npt.NDArray[Any], name: str, memories: dict[int, GlobalMemory]) -> GlobalBuffer:
    if not array.flags.c_contiguous or array.dtype not in DTYPES:
        raise TypeError(f"{name} must be a contiguous array of a type that cores have, not {array.dtype} {array.shape}")
    root = array
    while isinstance(root.base, np.ndarray) and root.base.flags.c_contiguous:
        root = root.base
    memory = memories.get(id(root))
    if memory is None:
        data = root.reshape(-1).view(np.uint8)
        memory = memories[id(root)] = GlobalMemory(data, name)
    offset = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return GlobalBuffer(memory, offset, array.nbytes, array.dtype, array.shape)
