"""`acl-py demo`: one job in four versions, with a timeline of what each version waits for.

The job: a batch of images goes through one layer of a network, chunk by chunk: to the device, through a kernel, back.
The versions differ in three things only: whether the host waits for each copy, whether its memory is pinned, and how
many streams share the chunks. The result is really computed and compared with NumPy's; the times are simulated.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table
from rich.text import Text

from acl_py.running import simulate
from acl_py.simulation import Simulation
from acl_py.tools.demo_cores import heading, screen
from acl_py.trace.page import Page, Run
from acl_py.trace.views.chart import styled_lanes
from acl_py.verbs.copies import Memcpy, MemcpyAsync, MemcpyKind
from acl_py.verbs.devices import SynchronizeDevice
from acl_py.verbs.kernels import Array, Cost, In, LaunchKernel, Out, kernel
from acl_py.verbs.memory import Malloc, MallocHost
from acl_py.verbs.streams import CreateStream

TITLE = "One job, four ways"
DEVICE = "h200"
CHUNKS = 8
IMAGES = 1024  # in a chunk
SIZE = 1024  # numbers in an image, before the layer and after it
CHUNK = IMAGES * SIZE * 4  # bytes
BLOCKS = 1024
MIB = 1 << 20
BAR = 20  # columns

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Version:
    """One version of the job."""

    title: str
    synchronous: bool = False
    pinned: bool = False
    streams: int = 1


# Double buffering fills one set of buffers while the kernel works on the other. The copies back take as long as the
# copies in, so a third set keeps both copy engines busy.
VERSIONS = (
    Version("synchronous, pageable memory", synchronous=True),
    Version("asynchronous, pageable memory"),
    Version("asynchronous, pinned memory", pinned=True),
    Version("the same over three streams", pinned=True, streams=3),
)


@dataclass(frozen=True)
class Outcome:
    """The result of a version. Times are simulated nanoseconds from the first copy on."""

    sim: Simulation
    result: Floats
    start_ns: int
    queued_ns: int  # until the host has queued everything
    total_ns: int


def _flops(x: Array, w: Array, _: Array) -> float:
    return 2 * x.shape[0] * x.shape[1] * w.shape[1]


@kernel(cost=Cost(flops=_flops))
def layer(x: In, w: In, y: Out) -> None:
    """A dense layer with a ReLU."""
    np.maximum(x @ w, 0, out=y)


async def do(version: Version, images: Floats, weights: Floats) -> Outcome:
    """Do the job in this *version*."""
    async with simulate(device=DEVICE) as sim:
        w = await _on_device(version, weights)
        source, result = await _host_memory(version, images)
        # Each stream has two buffers of its own, one for inputs and one for outputs.
        ways = [(await CreateStream(), await Malloc(CHUNK), await Malloc(CHUNK)) for _ in range(version.streams)]
        start = sim.now_ns
        for chunk in range(CHUNKS):
            stream, x, y = ways[chunk % len(ways)]
            part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
            args = [Array(buffer, np.float32, (IMAGES, SIZE)) for buffer in (x, w, y)]
            if version.synchronous:
                await Memcpy(x, CHUNK, source[part], CHUNK, MemcpyKind.HOST_TO_DEVICE)
                await LaunchKernel(layer, BLOCKS, args)
                await Memcpy(result[part], CHUNK, y, CHUNK, MemcpyKind.DEVICE_TO_HOST)
            else:
                await MemcpyAsync(x, CHUNK, source[part], CHUNK, MemcpyKind.HOST_TO_DEVICE, stream)
                await LaunchKernel(layer, BLOCKS, args, stream)
                await MemcpyAsync(result[part], CHUNK, y, CHUNK, MemcpyKind.DEVICE_TO_HOST, stream)
        queued = sim.now_ns
        await SynchronizeDevice()
        numbers = result.numpy(np.float32) if version.pinned else result.view(np.float32)
        return Outcome(sim, numbers.reshape(images.shape), start, queued - start, sim.now_ns - start)


async def _on_device(version: Version, weights: Floats) -> Any:
    """Return device memory with the *weights*, once they are there."""
    w, nbytes = await Malloc(weights.nbytes), weights.nbytes
    if not version.pinned:
        await Memcpy(w, nbytes, weights, nbytes, MemcpyKind.HOST_TO_DEVICE)
        return w
    pinned = await MallocHost(nbytes)
    pinned.numpy(np.float32, weights.shape)[:] = weights
    await MemcpyAsync(w, nbytes, pinned, nbytes, MemcpyKind.HOST_TO_DEVICE)
    await SynchronizeDevice()
    return w


async def _host_memory(version: Version, images: Floats) -> tuple[Any, Any]:
    """Return the host memory of the inputs and of the outputs, as bytes."""
    if not version.pinned:
        return images.reshape(-1).view(np.uint8), np.zeros(images.nbytes, np.uint8)
    source, result = await MallocHost(images.nbytes), await MallocHost(images.nbytes)
    source.numpy(np.float32, images.shape)[:] = images
    return source, result


def main() -> Page:
    """Do the job in each version; draw the timelines and explain them. Return them as a page."""
    console = screen()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (CHUNKS * IMAGES, SIZE)).astype(np.float32)
    weights = rng.integers(-1, 2, (SIZE, SIZE)).astype(np.float32)  # whole numbers: sums are exact in any order
    expected = np.maximum(images @ weights, 0)
    console.print(Text(TITLE, style="bold"))
    console.print(_task(images))
    outcomes = []
    for number, version in enumerate(VERSIONS, start=1):
        outcome = asyncio.run(do(version, images, weights))
        if not np.array_equal(outcome.result, expected):
            raise AssertionError(f"version {number}, {version.title}: the result differs from NumPy's")
        outcomes.append(outcome)
        console.print()
        console.print(heading(number, version.title, _us(outcome.total_ns), console.width))
        console.print(styled_lanes(outcome.sim.trace, console.width, since_ns=outcome.start_ns))
    console.print()
    console.print(_table(outcomes))
    console.print()
    console.print(_why(outcomes[-1].sim))
    return page(outcomes)


def page(outcomes: Sequence[Outcome]) -> Page:
    """Return the page of *outcomes*: the timelines of all versions on one axis, which begins with the first copy.

    They end where the times that are printed do: the host has synchronised with the device.
    """
    return Page([_run(version, outcome) for version, outcome in zip(VERSIONS, outcomes, strict=True)], TITLE)


def _run(version: Version, outcome: Outcome) -> Run:
    start = outcome.start_ns
    return Run(version.title, outcome.sim.trace.timeline(), since_ns=start, until_ns=start + outcome.total_ns)


def _task(images: Floats) -> str:
    return (
        f"{len(images):,} images of {SIZE:,} numbers, {images.nbytes // MIB} MiB, go through one layer of a network on "
        f"a simulated {DEVICE}, in {CHUNKS} chunks of {CHUNK // MIB} MiB: "
        "to the device, through a kernel, back to the host."
    )


def _table(outcomes: list[Outcome]) -> Table:
    slowest = max(outcome.total_ns for outcome in outcomes)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column()
    table.add_column()
    table.add_column("simulated", justify="right")
    table.add_column(width=BAR)
    table.add_column("speed-up", justify="right", style="bold")
    table.add_column("host free after", justify="right")
    for number, (version, outcome) in enumerate(zip(VERSIONS, outcomes, strict=True), start=1):
        bar = Text("█" * round(BAR * outcome.total_ns / slowest), style="green")
        speedup = f"{outcomes[0].total_ns / outcome.total_ns:.2f} x"
        times = f"{_us(outcome.total_ns)} us", f"{_us(outcome.queued_ns)} us"
        table.add_row(str(number), version.title, times[0], bar, speedup, times[1])
    return table


def _why(sim: Simulation) -> str:
    pinning = sum(call.exit_ns - call.enter_ns for call in sim.trace.calls if call.name == MallocHost.__name__)
    return (
        "The device cannot reach pageable memory, so in versions 1 and 2 the host copies every byte through small"
        " pinned buffers, and MemcpyAsync is asynchronous in name only. With pinned memory the host is free. Version 3"
        " then waits for its one stream, which does one operation after another. Version 4, double-buffered over"
        " several streams, waits only for the copy engines, which work in both directions at once.\n"
        f"The clock started after MallocHost, which took {pinning / 1e6:.1f} ms: pin memory once, and reuse it."
    )


def _us(ns: int) -> str:
    return f"{ns / 1000:,.1f}"
