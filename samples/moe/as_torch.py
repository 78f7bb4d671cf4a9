"""The mixture-of-experts layer as torch calls it: times without results, from what each stage takes alone.

A stage is several calls of torch: the gate five, the routing about ten. What they take on the device and on the host is
given (tests/conformance/data/moe.json has it for an H200). What follows is computed: the copies, the streams and events
around the stages, the waits, and what runs at the same time.

The dispatch waits for its stream: in all measured jobs its calls take the host 21 to 28 us more than the device. So the
pipeline is one in name only, because the host waits for the routing of each batch. Naive and pipelined make three calls
for each expert. Batched makes the same three calls for all experts at once, in one stream.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import acl_py as acl
from acl_py import Array, Cost, MemcpyKind, Stream

LANES = 3
VIEW_US = 2.3  # measured: a view or a slice of a tensor (torch 2.11, Python 3.12)
STREAM_US = 12  # measured: `with torch.cuda.stream(...)`, 9.3 on one host and 15.6 on another
LAUNCH_US = 8.5  # of the overlay: what a stage's launch takes here
SYNC_US = 9.6  # of the profile: a wait for a stream, and to go on after it
CORES = 132


@dataclass(frozen=True)
class Job:
    """A layer and its tokens by their sizes, and what the stages take: stages[name]["device" or "host"] in us."""

    tokens: int
    width: int
    hidden: int
    experts: int
    batch: int
    capacity: int
    stages: Mapping[str, Mapping[str, float]]

    @property
    def parts(self) -> Iterator[slice]:
        return (slice(at, at + self.batch) for at in range(0, self.tokens, self.batch))


@dataclass(frozen=True)
class Memory:
    """Pinned memory of the host, and memory of the device with the same content."""

    tokens: np.ndarray
    output: np.ndarray
    weights: np.ndarray
    batches: list[Array]  # one for each lane
    layer: Array


async def set_up(job: Job, lanes: int = 1) -> Memory:
    shape = job.tokens, job.width
    tokens, output = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    weights = np.zeros((2 * job.experts, job.width * job.hidden), np.float32)
    for array in (tokens, output, weights):
        await acl.HostRegister(array)
    batches = [Array(await acl.Malloc(4 * job.batch * job.width), np.float32) for _ in range(lanes)]
    layer = Array(await acl.Malloc(weights.nbytes), np.float32, weights.shape)
    return Memory(tokens, output, weights, batches, layer)


async def use(stream: Stream) -> Stream:
    """Make *stream* the current one."""
    await acl.HostWork(STREAM_US)
    return stream


async def copy(dst: Array | np.ndarray, src: Array | np.ndarray, stream: Stream) -> None:
    await acl.HostWork(VIEW_US)
    await acl.MemcpyAsync(dst, src.nbytes, src, src.nbytes, MemcpyKind.DEFAULT, stream)


async def load(memory: Memory, streams: Sequence[Stream]) -> None:
    """Copy the weights of each expert in its stream."""
    for number, stream in enumerate(streams):
        await use(stream)
        for row in (2 * number, 2 * number + 1):
            await copy(memory.layer[row], memory.weights[row], stream)


async def run(job: Job, stage: str, stream: Stream, views: int = 0) -> None:
    """Make the calls of *stage*, on tensors of which some are views."""
    times = job.stages[stage]
    await acl.HostWork(max(times["host"] - LAUNCH_US, 0) + views * VIEW_US)
    await KERNELS[stage][CORES, stream](times["device"])


async def dispatch(job: Job, stream: Stream) -> None:
    """Copy the tokens to the rows of their experts, and wait for it."""
    times = job.stages["dispatch"]
    await acl.HostWork(max(times["host"] - times["device"] - LAUNCH_US - SYNC_US, 0))
    await KERNELS["dispatch"][CORES, stream](times["device"])
    await acl.SynchronizeStream(stream)


def kernel(name: str):
    """Return a kernel that takes so many microseconds, on all SMs."""

    def idle(us):
        pass

    idle.__name__ = name
    return acl.kernel(cost=lambda us: Cost(us=us), exclusive=True)(idle)


KERNELS = {name: kernel(name) for name in ("gate", "route", "dispatch", "feed_forward", "combine")}


@acl.kernel(cost=lambda job: Cost.matmul(job.capacity, job.hidden, 2 * job.width, "float32", job.experts))
def all_experts(job):
    """Two products for each expert, one behind the other: as much as one of the depth of both."""


async def naive(job: Job) -> float:
    memory, sim = await set_up(job), acl.current_simulation()
    lane, *experts = [await acl.CreateStream() for _ in range(1 + job.experts)]
    start = sim.now_ns
    await load(memory, experts)
    await acl.SynchronizeDevice()
    for part in job.parts:
        await use(lane)
        await copy(memory.batches[0], memory.tokens[part], lane)
        await run(job, "gate", lane)
        await acl.SynchronizeStream(lane)
        await run(job, "route", lane)
        await acl.SynchronizeStream(lane)
        await use(lane)
        await dispatch(job, lane)
        for stream in experts:
            await acl.SynchronizeStream(stream)
        for stream in experts:
            await use(stream)
            await run(job, "feed_forward", stream, views=4)
        for stream in experts:
            await acl.SynchronizeStream(stream)
        await use(lane)
        await run(job, "combine", lane)
        await copy(memory.output[part], memory.batches[0], lane)
        await acl.SynchronizeStream(lane)
    return (sim.now_ns - start) / 1000


async def pipelined(job: Job) -> float:
    memory, sim = await set_up(job, LANES), acl.current_simulation()
    streams = [await acl.CreateStream() for _ in range(LANES + job.experts)]
    lanes, experts = streams[:LANES], streams[LANES:]
    routed, computed = await acl.CreateEvent(timing=False), await acl.CreateEvent(timing=False)
    start = sim.now_ns
    await load(memory, experts)
    for number, part in enumerate(job.parts):
        lane, batch = await use(lanes[number % LANES]), memory.batches[number % LANES]
        await copy(batch, memory.tokens[part], lane)
        await run(job, "gate", lane)
        await run(job, "route", lane)
        await dispatch(job, lane)
        await acl.RecordEvent(routed, lane)
        for stream in experts:
            await use(stream)
            await acl.StreamWaitEvent(stream, routed)
            await run(job, "feed_forward", stream, views=4)
            await acl.RecordEvent(computed, stream)
            await acl.StreamWaitEvent(lane, computed)
        await use(lane)
        await run(job, "combine", lane)
        await copy(memory.output[part], batch, lane)
    await acl.SynchronizeDevice()
    return (sim.now_ns - start) / 1000


async def batched(job: Job) -> float:
    memory, sim = await set_up(job), acl.current_simulation()
    lane = await acl.CreateStream()
    start = sim.now_ns
    await load(memory, [lane] * job.experts)
    await use(lane)
    for part in job.parts:
        await copy(memory.batches[0], memory.tokens[part], lane)
        await run(job, "gate", lane)
        await run(job, "route", lane)
        await dispatch(job, lane)
        await acl.HostWork(job.stages["feed_forward"]["host"] - LAUNCH_US)
        await all_experts[CORES, lane](job)
        await run(job, "combine", lane)
        await copy(memory.output[part], memory.batches[0], lane)
    await acl.SynchronizeDevice()
    return (sim.now_ns - start) / 1000


VERSIONS = {"naive": naive, "pipelined": pipelined, "batched": batched}


def job_of(row: Mapping[str, Any]) -> Job:
    """Return the job of a row of moe.json."""
    names = ("tokens", "width", "hidden", "experts", "batch", "capacity")
    return Job(**{name: row[name] for name in names}, stages=row["stages_us"])


def times_of(job: Job) -> dict[str, float]:
    """Return the microseconds of each version on an H200."""
    return {name: acl.run(version, job, device="h200", overlay="torch") for name, version in VERSIONS.items()}


# The wide layer of moe.py, with what its stages took on an H200, and the whole jobs there.
WIDE = Job(
    4096, 256, 1024, 8, 512, 128,
    {
        "gate": {"device": 21.87, "host": 82.42},
        "route": {"device": 175.31, "host": 94.28},
        "dispatch": {"device": 4.97, "host": 26.04},
        "feed_forward": {"device": 16.81, "host": 48.44},
        "combine": {"device": 6.48, "host": 27.6},
    },
)  # fmt: skip
CARD = {"naive": 9_577, "pipelined": 7_987}
