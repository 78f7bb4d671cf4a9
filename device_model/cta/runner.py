"""Runs the blocks of a kernel one after the other, in one Python thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

from device_model.cta import copies
from device_model.cta.block import Block
from device_model.cta.names import Dim3
from device_model.kernel.blas import one_thread
from device_model.kernel.findings import Findings
from device_model.kernel.garbage import no_collections


@dataclass
class Result:
    """The result of a launch.

    Attributes:
        blocks: The instructions of each block, in `rows`.
        findings: The mistakes that were found.
    """

    blocks: list[Block] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)


def run(
    kernel: Callable[..., object],
    grid: Dim3,
    args: Sequence[Any],
    *,
    threads: int,
    capacity: int,
    is_dynamic: bool,
    hazards: bool = True,
) -> Result:
    """Run a kernel, one block after the other.

    Args:
        kernel: The function, called once for each block.
        grid: The number of blocks in each direction.
        args: Its arguments: tensors and plain values.
        threads: The threads of a block.
        capacity: The bytes of shared memory of a block; *is_dynamic* if the kernel has asked for so many.
        is_dynamic: See *capacity*.
        hazards: Whether accesses are checked.

    Raises:
        KernelError: The kernel cannot go on.
        Exception: Anything that the kernel raises. Every error has the result so far as its attribute `result`.
    """
    result = Result()
    try:
        with no_collections(), one_thread():
            for number in range(prod(grid)):
                block = Block(
                    number, grid, threads, result.findings, capacity=capacity, is_dynamic=is_dynamic, hazards=hazards
                )
                result.blocks.append(block)
                block.run(partial(_whole, block, kernel, args))
                block.forget()
    except BaseException as error:
        error.result = result  # type: ignore[attr-defined]
        raise
    return result


def _whole(block: Block, kernel: Callable[..., object], args: Sequence[Any]) -> None:
    kernel(*args)
    block.finish()
    if block.hazards:
        copies.finish(block)
