"""What parts of collectives cost the processor, and what the start of many devices does.

Each round all ranks call AllReduce() of 4 KiB in place, in a stream of each rank; one task makes the calls. A part is
one rank's call, with all that follows from it.

The bounds of a part are shares of an operation of SimPy's ring (peer_simpy.py), which runs in turn with the parts: a
machine that is slow today is slow for both. They stand for 12 and 20 us where that operation takes 18.4 us.
"""

import asyncio
from dataclasses import replace
from statistics import median
from time import process_time

import numpy as np

import acl_py
from device_model.profile import load
from tests.bench.measure import fresh, interleaved, ratio, say, show, spread, target

NBYTES = 4096
FLOATS = NBYTES // 4
MOST = {8: 12 / 18.4, 64: 20 / 18.4}  # of a part, by ranks, in operations of SimPy
PARTS = 16_000  # of a run
SIMPY_OPS, SIMPY_STREAMS = 30_000, 8
RUNS = 5
DEVICES, MOST_START_S = 512, 0.5


def card(devices):
    """The H200's profile with so many devices."""
    return replace(load("h200"), devices=devices)


def part_us(ranks, parts):
    """The processor time of a part, in microseconds."""
    return asyncio.run(_parts(ranks, max(1, parts // ranks)))


async def _parts(ranks, rounds):
    async with acl_py.simulate(device=card(ranks), trace=False, workers=1):
        comms = await acl_py.CommInitAll(ranks)
        lanes = []
        for device, comm in enumerate(comms):
            await acl_py.SetDevice(device)
            buffer = await acl_py.Malloc(NBYTES)
            await acl_py.Memset(buffer, NBYTES, 0, NBYTES)
            lanes.append((device, comm, buffer, await acl_py.CreateStream()))
        begin = process_time()
        for _ in range(rounds):
            for _, comm, buffer, stream in lanes:
                await acl_py.AllReduce(buffer, buffer, FLOATS, np.float32, acl_py.ReduceOp.SUM, comm, stream)
        for device, *_ in lanes:
            await acl_py.SetDevice(device)
            await acl_py.SynchronizeDevice()
        return (process_time() - begin) / rounds / ranks * 1e6


def start_s(devices):
    """The processor time of a simulation of so many devices that does nothing but take each once."""
    begin = process_time()
    asyncio.run(_start(devices))
    return process_time() - begin


async def _start(devices):
    async with acl_py.simulate(device=card(devices), trace=False, workers=1):
        for device in range(devices):
            await acl_py.SetDevice(device)


def simpy_us():
    """The processor time of an operation of SimPy's ring, in microseconds."""
    return fresh("simpy", SIMPY_OPS, SIMPY_STREAMS).us_per_op


def main():
    """Print both tables, with their bounds."""
    parts = {f"{ranks} ranks": (part_us, ranks, PARTS) for ranks in MOST}
    runs = interleaved(parts | {"SimPy": (simpy_us,)}, RUNS, lambda function, *arguments: function(*arguments))
    simpy = runs.pop("SimPy")
    show(
        f"A part of an AllReduce of {NBYTES >> 10} KiB, and an operation of SimPy's ring: processor time",
        ("", "us", "operations of SimPy"),
        [
            (name, spread(us), target(ratio(us, simpy), most))
            for (name, us), most in zip(runs.items(), MOST.values(), strict=True)
        ]
        + [("SimPy", spread(simpy), "")],
    )
    starts = [start_s(DEVICES) for _ in range(RUNS)]
    say(f"start of {DEVICES} devices, s: {spread(starts)}; {target(median(starts), MOST_START_S)}")
