"""Shows: a graph whose work changes from launch to launch: an update of the executable, or nodes that ask a condition.

Scenario: a mixture-of-experts layer gets a few tokens at a time, so most of its eight experts get none. Which ones is
known only behind the gate, on the device. Three versions run the same kernels and are compared with plain NumPy. With
calls, the host waits for the counts and launches the experts that have work, each for the rows that it got. With an
update, all experts of a step are captured for its counts, and an executable takes that graph over: the shape of a graph
must stay, so an expert without tokens runs for one row. With conditions there is one graph for the whole step: a
kernel behind the gate says which experts have work, each is the body of an IF node, and the host never waits between.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
from kernels import ALL, ONE, combine, dispatch, feed_forward, gate, route
from layer import digits, forward, trained
from versions import Job, Lane, create_lane, like, queue_copy

import acl_py as acl
from acl_py import Array, In

Step = Callable[[], Awaitable[object]]


@acl.kernel(serial=True)
def decide(count: In, conditions):
    """Let the experts that have tokens run."""
    for has_work, condition in zip(count > 0, conditions, strict=True):
        condition.set(has_work)


@dataclass(frozen=True)
class Model:
    """The weights on the device, the memory of a step, and pinned memory for tokens, counts and results."""

    lane: Lane
    weights: Array
    up: Array
    down: Array
    tokens: Array
    counts: Array
    output: Array

    @property
    def experts(self) -> range:
        return range(len(self.up))

    async def route(self) -> None:
        """Queue the part of a step before the experts."""
        lane = self.lane
        await queue_copy(lane.tokens, self.tokens, lane.stream)
        await gate[ALL, lane.stream](lane.tokens, self.weights, lane.chosen, lane.share)
        await route[ALL, lane.stream](lane.chosen, lane.row, lane.source, lane.count)

    async def run(self, expert: int, rows: int) -> None:
        """Queue one expert, for that many rows."""
        lane = self.lane
        mine, results = lane.rows[expert][:rows], lane.results[expert][:rows]
        await dispatch[ONE, lane.stream](lane.tokens, lane.source[expert][:rows], mine)
        await feed_forward[ONE, lane.stream](mine, self.up[expert], self.down[expert], results)

    async def mix(self) -> None:
        """Queue the part behind the experts."""
        lane = self.lane
        await combine[ALL, lane.stream](lane.results, lane.chosen, lane.row, lane.share, lane.output)
        await queue_copy(self.output, lane.output, lane.stream)

    async def count(self) -> list[int]:
        """Wait until it is known how many tokens each expert got."""
        await queue_copy(self.counts, self.lane.count, self.lane.stream)
        await acl.SynchronizeStream(self.lane.stream)
        return self.counts.buffer.numpy(np.int32).tolist()


async def set_up(job: Job) -> Model:
    lane, layer = await create_lane(job), job.layer
    weights = [await like(array) for array in (layer.gate, layer.up, layer.down)]
    for array, values in zip(weights, (layer.gate, layer.up, layer.down), strict=True):
        await acl.Memcpy(array, array.nbytes, values, values.nbytes, acl.MemcpyKind.DEFAULT)
    pinned = [
        Array(await acl.MallocHost(array.nbytes), array.dtype, array.shape)
        for array in (lane.tokens, lane.count, lane.output)
    ]
    return Model(lane, *weights, *pinned)


# --- the versions


async def with_calls(model: Model) -> Step:
    async def step() -> None:
        await model.route()
        for expert, rows in enumerate(await model.count()):
            if rows:
                await model.run(expert, rows)
        await model.mix()

    return step


async def with_update(model: Model) -> Step:
    stream = model.lane.stream

    async def experts(counts: list[int]) -> acl.Graph:
        async with acl.capture(stream) as graph:
            for expert, rows in enumerate(counts):
                await model.run(expert, max(rows, 1))
            await model.mix()
        return graph

    async with acl.capture(stream) as graph:
        await model.route()
    first = await acl.GraphInstantiate(graph)
    second = await acl.GraphInstantiate(await experts([1] * len(model.experts)))

    async def step() -> None:
        await acl.GraphLaunch(first, stream)
        graph = await experts(await model.count())
        await acl.GraphExecUpdate(second, graph)
        await acl.GraphDestroy(graph)
        await acl.GraphLaunch(second, stream)

    return step


async def with_conditions(model: Model) -> Step:
    lane, conditions = model.lane, []
    async with acl.capture(lane.stream) as graph:
        await model.route()
        await decide[1, lane.stream](lane.count, conditions)
    behind = graph.nodes[-1:]
    for expert in model.experts:
        node = await acl.GraphAddIfNode(graph, behind)
        conditions.append(node.condition)
        await acl.BeginCaptureToGraph(lane.stream, node.body)
        await model.run(expert, lane.source.shape[1])
        await acl.EndCapture(lane.stream)
    await acl.BeginCaptureToGraph(lane.stream, graph, graph.nodes[-len(conditions) :])
    await model.mix()
    await acl.EndCapture(lane.stream)
    executable = await acl.GraphInstantiate(graph)
    return lambda: acl.GraphLaunch(executable, lane.stream)


VERSIONS = {"calls": with_calls, "update": with_update, "conditions": with_conditions}


async def serve(job: Job, version: Callable[[Model], Awaitable[Step]]) -> tuple[np.ndarray, float]:
    """Return the output for all tokens, and how many steps are done in a second."""
    sim, output, model = acl.current_simulation(), job.create_output(), await set_up(job)
    step = await version(model)
    model.tokens.buffer.numpy(np.float32)[:] = job.tokens[: job.batch].ravel()
    await step()  # what only the first step costs
    await acl.SynchronizeDevice()
    start = sim.now_ns
    for part in job.parts:
        model.tokens.buffer.numpy(np.float32)[:] = job.tokens[part].ravel()
        await step()
        await acl.SynchronizeStream(model.lane.stream)
        output[part] = model.output.buffer.numpy(np.float32).reshape(output[part].shape)
    return output, len(list(job.parts)) * 1e9 / (sim.now_ns - start)


def main() -> None:
    layer = trained()
    job = Job(layer, digits()[0][:400], batch=4)
    expected = forward(layer, job.tokens)
    print(f"{len(job.tokens)} tokens, {job.batch} at a time, {layer.top_k} of {layer.experts} experts each", end="")
    print("; steps a second")
    for name, version in VERSIONS.items():
        output, rate = acl.run(serve, job, version, device="h200")
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)
        print(f"  {name:10} {rate:8,.0f}")


if __name__ == "__main__":
    main()
