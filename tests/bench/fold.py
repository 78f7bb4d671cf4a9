"""What folding saves: a step of 1,024 ranks in 16 pipeline stages, of which 16 run.

In a micro-batch a rank receives from the stage before, launches kernels, and sends to the stage behind; then the 64
ranks of its stage sum up. A call is one launch, Recv, Send or AllReduce of one rank that runs. In full there would be
64 times as many.

A micro-batch takes a device longer than its host. So the queues fill: after some 15,000 calls of each rank, all hosts
wait for room in them, twice in a micro-batch. From then on a call takes a third more processor time. A part of
that is known: the hosts are out of step, so each call lets the devices act, where all hosts were at one instant before.
"""

import json
import subprocess
import sys
from dataclasses import replace
from math import inf
from time import process_time

import acl_py
from acl_py.waiting import bridge
from device_model.compiled import CORE
from device_model.profile import load
from tests.bench.measure import show, target
from tests.bench.ring import peak_kib

RANKS, STAGES = 1_024, 16
CALLS = 100_000  # of each rank
KERNELS = 46  # of a micro-batch; a Recv, a Send and an AllReduce are beside them
LAYER_US = 1  # less than a launch takes
MOST_S, MOST_MIB = 20.0, 1_000


@acl_py.kernel(cost=acl_py.Cost(us=LAYER_US))
def layer():
    """One layer: here only its time counts."""


class Step:
    """A step of all ranks."""

    def __init__(self):
        self.width = RANKS // STAGES

    async def run(self):
        """Run it folded; return what it took, as JSON has it."""
        self.world = await acl_py.CommInitAll(RANKS)
        stages = [range(stage * self.width, (stage + 1) * self.width) for stage in range(STAGES)]
        self.groups = [await acl_py.CommInitAll(each) for each in stages]
        begin, ran = process_time(), []

        async def rank(number):
            ran.append(number)
            await self.rank(number)

        await acl_py.ranks(RANKS, rank, fold=True, alike=lambda number: number // self.width)
        sim = acl_py.current_simulation()
        return {"s": process_time() - begin, "classes": len(ran), "ms": sim.now_ns / 1e6}

    async def rank(self, number):
        """Do what one rank does."""
        stage, place = divmod(number, self.width)
        world, group = self.world[number], self.groups[stage][place]
        stream, x = await acl_py.CreateStream(), await acl_py.Malloc(1 << 22)
        for _ in range(CALLS // (KERNELS + 3)):
            if stage:
                await acl_py.Recv(x, 1 << 18, "float32", number - self.width, world, stream)
            for _ in range(KERNELS):
                await layer[132, stream]()
            if stage < STAGES - 1:
                await acl_py.Send(x, 1 << 18, "float32", number + self.width, world, stream)
            await acl_py.AllReduce(x, x, 1 << 10, "float32", acl_py.ReduceOp.SUM, group, stream)
        await acl_py.SynchronizeStream(stream)


def launches(ops, hosts):
    """Launch *ops* kernels on *hosts* that stand for eight ranks each. It is a model of tests.bench.instructions."""
    bridge.TRIP_S = inf  # a turn of the loop every 10 ms of real time would be one for each few instructions

    async def rank(_):
        stream = await acl_py.CreateStream()
        for _ in range(ops // hosts):
            await layer[132, stream]()
        await acl_py.SynchronizeStream(stream)

    async def main():
        await acl_py.ranks(8 * hosts, rank, fold=True, alike=lambda number: number // 8)

    acl_py.run(main, device=replace(load("h200"), devices=8 * hosts), values=False, trace=False, workers=1)


def run_here():
    """Run the step in this process, and print what it took."""
    card = replace(load("h200"), devices=RANKS)
    took = acl_py.run(Step().run, device=card, values=False, trace=False, workers=1)
    print(json.dumps(took | {"MiB": peak_kib() / 1024}))


def main():
    """Print what a step takes, in a process of its own."""
    program = f"from tests.bench import fold; fold.RANKS, fold.STAGES, fold.CALLS = {RANKS}, {STAGES}, {CALLS}; "
    done = subprocess.run(
        [sys.executable, "-c", program + "fold.run_here()"], check=True, stdout=subprocess.PIPE, text=True
    )
    took = json.loads(done.stdout)
    calls = took["classes"] * CALLS
    rows = [
        ("classes", took["classes"], ""),
        ("processor time, s", f"{took['s']:.1f}", target(took["s"], MOST_S)),
        ("of a call, us", f"{took['s'] / calls * 1e6:.1f}", ""),
        ("peak memory, MiB", f"{took['MiB']:.0f}", target(took["MiB"], MOST_MIB)),
        ("simulated time, ms", f"{took['ms']:.1f}", ""),
    ]
    show(f"a step of {CALLS:,} calls on each of {RANKS:,} ranks, {CORE}", ("", "", "bound"), rows)
