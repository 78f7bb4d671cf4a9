"""Runs random programs with kernels that mix their bytes, and tells what the host and the memory have seen."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

import acl_py as acl
from acl_py.programs import kernels
from acl_py.programs.format import Program
from acl_py.verbs.kernels import Array
from device_model import memory
from device_model.observe import Observer
from device_model.work import Kernel, Label, Lane
from tests.sanitizer.oracle.promises import Promises
from tests.sanitizer.oracle.reading import Run, read
from tests.sanitizer.oracle.running import FILE, World, source
from tests.sanitizer.oracle.verdicts import pairs


class Mixing(kernels.Recorded):
    """A kernel that adds what it reads to what it writes, so that no two orders have the same result.

    It adds what it has read to *totals*.
    """

    def __init__(self, totals, *args, **options):
        super().__init__(*args, **options)
        self.totals = totals

    def work(self, runtime, blocks, args):
        plain = super().work(runtime, blocks, args)
        return Kernel(
            plain.label, blocks, plain.block_ns, self._mix, plain.read, plain.written, plain.nbytes,
            exclusive=plain.exclusive, serial=False,
        )  # fmt: skip

    def _mix(self):
        total = 1 + int(self.name[1:])
        for cells in map(_cells, self.reads):
            total += int(cells.astype(np.int64) @ np.arange(1, cells.size + 1))
        self.totals.append(total)
        for cells in map(_cells, self.writes):
            cells[:] = (cells.astype(np.int64) * 3 + total + np.arange(cells.size)) % 256


def _cells(extent):
    allocation, start, stop = extent
    return memory.array(allocation, start, np.dtype(np.uint8), stop - start)


class Filling(Observer):
    """Gives each byte of new memory a value of its own, as far as there are enough."""

    def __init__(self):
        self._count = 0

    def allocated(self, allocation, since):
        self._count += 1
        cells = memory.array(allocation, 0, np.dtype(np.uint8), allocation.nbytes)
        cells[:] = (np.arange(allocation.nbytes) * 7 + 50 * self._count) % 256


@dataclass(frozen=True)
class Seen:
    """What a run has done: the order and the answers of its calls, when operations ran, what the host and each kernel
    have read, and all bytes in the end.
    """

    run: Run
    times: list[Any]
    reads: dict[str, list[int]]
    bytes: dict[str, bytes]


def see(program: Program, rules: str, effects: str, numbers: Sequence[int] = ()) -> Seen:
    """Run *program* under *rules*. *numbers* are those of its steps in the program that it was made from."""
    text, _ = source(program, rules)
    world, seen = World(program.steps), defaultdict(list)

    def look(value):
        seen["host"].append(int(value))

    def kernel(name, us, reads, writes):
        parts = [
            [(part.allocation, part.offset, part.offset + part.nbytes) for part in each] for each in (reads, writes)
        ]
        name = f"k{numbers[int(name[1:])]}" if numbers else name
        label = Label("kernel", Lane.COMPUTE, name)
        return Mixing(seen[name], label, *parts, int(us * 1000), exclusive=False)

    scope = {
        "kernel": kernel, "int": look, "suppress": suppress, "acl": acl, "asyncio": asyncio, "np": np, "Array": Array,
        "increment": kernels.increment, "w": world,
    }  # fmt: skip
    exec(compile(text, FILE, "exec"), scope)

    async def main():
        acl.current_simulation().observe(Filling())
        await scope["main"]()
        return acl.current_simulation().trace

    trace = acl.run(main, device="tiny", rules=rules, effects=effects)
    times = [(op.name, op.stream, op.start_ns, op.end_ns) for op in trace.ops]
    return Seen(world.made, times, seen, {name: _bytes(buffer) for name, buffer in scope["b"].items()})


def _bytes(buffer):
    if isinstance(buffer, np.ndarray):
        return buffer.tobytes()
    return bytes(buffer.allocation.view)


def is_racy(program: Program, rules: str, run: Run) -> bool:
    """Whether the oracle finds two accesses in no order, in what *run* did."""
    calls = read(program, rules, run)
    return any(not (pair.relies and pair.fault.value == "free in use") for pair in pairs(calls, Promises(calls)))
