"""Shows: many small kernels as one graph, which costs the host one call in place of one for each operation.

Scenario: attention over one short sequence after the other, as a server gets them: copy in, the five stages of
five_stages.py, copy out. The kernels take some microseconds each, so the calls of the host decide. The first version
makes all calls for each sequence: seven from C, twelve in torch, where they also take longer. The second one captures
them once and launches the graph; the copies read and write the same pinned memory each time. Both run one sequence at a
time, then queue all of them and wait once. All results are compared with attention in float64.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import numpy as np
from five_stages import Floats, Job, create_slot, launch, put, random_job, reference
from stages import AS_TORCH, FROM_C

import acl_py as acl
from acl_py import Buffer, MemcpyKind, Stream

Step = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Stage:
    """What each step uses: pinned memory for a sequence and its result, a stream, and the calls of a step."""

    x: Buffer
    y: Buffer
    stream: Stream
    calls: Step


async def set_up(job: Job) -> Stage:
    into, out, slot = await put(job.into), await put(job.out), await create_slot(job)
    x, y = await acl.MallocHost(slot.x.nbytes), await acl.MallocHost(slot.y.nbytes)
    stream = await acl.CreateStream()

    async def calls() -> None:
        await acl.MemcpyAsync(slot.x, slot.x.nbytes, x, x.nbytes, MemcpyKind.HOST_TO_DEVICE, stream)
        for stage in job.frame.stages(slot, into, out, job.causal):
            await launch(stage, stream)
        await acl.MemcpyAsync(y, y.nbytes, slot.y, slot.y.nbytes, MemcpyKind.DEVICE_TO_HOST, stream)

    return Stage(x, y, stream, calls)


async def as_calls(stage: Stage) -> Step:
    return stage.calls


async def as_graph(stage: Stage) -> Step:
    """Capture the calls of a step; return the launch of their graph."""
    async with acl.capture(stage.stream) as graph:
        await stage.calls()
    executable = await acl.GraphInstantiate(graph)
    await acl.GraphUpload(executable, stage.stream)
    return lambda: acl.GraphLaunch(executable, stage.stream)


VERSIONS = {"calls": as_calls, "graph": as_graph}


async def serve(job: Job, version: Callable[[Stage], Awaitable[Step]]) -> tuple[Floats, float, float]:
    """Return the results, and how many sequences a second are done one at a time, and queued."""
    sim, stage = acl.current_simulation(), await set_up(job)
    step, y = await version(stage), np.empty_like(job.x)
    stage.x.numpy(np.float32)[:] = job.x[0].ravel()
    await step()  # what only the first step costs
    await acl.SynchronizeStream(stage.stream)
    start = sim.now_ns
    for number, sequence in enumerate(job.x):
        stage.x.numpy(np.float32)[:] = sequence.ravel()
        await step()
        await acl.SynchronizeStream(stage.stream)
        y[number] = stage.y.numpy(np.float32).reshape(sequence.shape)
    alone = sim.now_ns - start
    for _ in job.x:
        await step()
    await acl.SynchronizeStream(stage.stream)
    queued = sim.now_ns - start - alone
    return y, len(job.x) * 1e9 / alone, len(job.x) * 1e9 / queued


def main() -> None:
    job = random_job(0, 100, 16, 64, heads=4, chunk=1, causal=True)
    sequences, length, width = job.x.shape
    print(f"{sequences} sequences of {length}, {width} wide, {job.heads} heads; sequences a second")
    expected = reference(job.x, job.into, job.out, job.heads, job.causal)
    for title, frame in (("as torch calls it", AS_TORCH), ("from C", FROM_C)):
        print(title)
        for name, version in VERSIONS.items():
            y, alone, queued = acl.run(serve, replace(job, frame=frame), version, device="h200", overlay=frame.overlay)
            np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
            print(f"  {name}: {alone:8,.0f} one at a time, {queued:8,.0f} queued")


if __name__ == "__main__":
    main()
