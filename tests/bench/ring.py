"""The workload of the dispatch tables: streams in a ring, each with copies, a kernel and an event per round.

Per round each stream gets a copy of 4 KB to the device, a kernel of 5 us that really adds one to 1,024 floats, a copy
back and an event record; after the round each next stream waits for its neighbour's event. (Were the wait issued at
once, the ring would be one serial chain.) An operation is a copy or a kernel: 5 host calls per 3 operations.

    python -m tests.bench.ring MODEL OPERATIONS STREAMS

runs one configuration in this process and prints a JSON object. MODEL is one of `MODELS`. All of them are one thread
that never sleeps, so processor time is what the clock would show if nobody else used the machine.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time

import numpy as np

import acl_py
from device_model.profile import load

NBYTES = 4096
DECODED = 100_000  # operations of which the records are looked at
FLOATS = NBYTES // 4
KERNEL_US = 5
ONE = np.float32(1)

PROFILE = load("h200")
SUBMIT_NS = PROFILE.latency.submit_copy  # for kernels it is the same
H2D_NS, D2H_NS = PROFILE.copies.h2d[NBYTES], PROFILE.copies.d2h[NBYTES]
KERNEL_NS = KERNEL_US * 1000 + PROFILE.latency.block + PROFILE.latency.kernel_drain


@dataclass
class Result:
    """One run: *ops* operations took *seconds* of processor and *simulated_ns* of simulated time."""

    model: str
    ops: int
    streams: int
    seconds: float
    simulated_ns: int
    mean_end_ns: float = 0  # of an operation, counted from the first call; 0: not known
    peak_kib: int = 0

    @property
    def us_per_op(self):
        return self.seconds / self.ops * 1e6


def rounds_of(ops, streams):
    """How many rounds it takes to reach *ops* operations."""
    return -(-ops // (3 * streams))


def check(hosts, rounds):
    """Each stream has added one per round, on the device and in order, or else the numbers here mean nothing."""
    for index, host in enumerate(hosts):
        assert (host == index % 7 + rounds).all(), f"stream {index} computed {host[:4]} after {rounds} rounds"


@acl_py.kernel(cost=acl_py.Cost(us=KERNEL_US))
def add_one(x: acl_py.InOut) -> None:
    np.add(x, ONE, out=x)


async def ours(ops, count, sharing):
    """The ring through the public API; every *sharing* streams use the same memory (and then race)."""
    rounds = rounds_of(ops, count)
    owners = count // sharing
    pinned = await acl_py.MallocHost(NBYTES * owners)
    hosts = [pinned[i * NBYTES : (i + 1) * NBYTES] for i in range(owners)]
    devices = [await acl_py.Malloc(NBYTES) for _ in range(owners)]
    for index, host in enumerate(hosts):
        host.numpy(np.float32)[:] = index % 7
    streams = [await acl_py.CreateStream() for _ in range(count)]
    events = [await acl_py.CreateEvent(timing=False) for _ in range(count)]
    arguments = [(acl_py.Array(device, np.float32),) for device in devices]
    memory = list(zip(hosts, devices, arguments, strict=True)) * sharing
    lanes = [(stream, *own, event) for stream, own, event in zip(streams, memory, events, strict=True)]
    neighbours = list(zip(streams, events[-1:] + events[:-1], strict=True))
    to_device, to_host = acl_py.MemcpyKind.HOST_TO_DEVICE, acl_py.MemcpyKind.DEVICE_TO_HOST
    copy, launch, record, wait = acl_py.MemcpyAsync, acl_py.LaunchKernel, acl_py.RecordEvent, acl_py.StreamWaitEvent

    await acl_py.SynchronizeDevice()
    simulation = acl_py.current_simulation()
    simulated = simulation.now_ns
    begin = process_time()
    for _ in range(rounds):
        for stream, host, device, args, event in lanes:
            await copy(device, NBYTES, host, NBYTES, to_device, stream)
            await launch(add_one, 1, args, stream)
            await copy(host, NBYTES, device, NBYTES, to_host, stream)
            await record(event, stream)
        for stream, event in neighbours:
            await wait(stream, event)
    await acl_py.SynchronizeDevice()
    seconds = process_time() - begin
    if sharing == 1:
        check([host.numpy(np.float32) for host in hosts], rounds)
    return Result("ours", 3 * count * rounds, count, seconds, simulation.now_ns - simulated)


def run_ours(ops, streams, *, trace=False, sharing=1, decoded=DECODED, **options):
    async def main():
        async with acl_py.simulate(trace=trace, workers=1, **options) as sim:
            result = await ours(ops, streams, sharing)
            result.peak_kib = peak_kib()  # before the rows are decoded
            if trace and ops <= decoded:
                ends = [op.end_ns for op in sim.trace.ops]
                assert len(ends) == result.ops, f"{sim.trace!r} of {result.ops} operations"
                result.mean_end_ns = sum(ends) / result.ops - (sim.now_ns - result.simulated_ns)
            return result

    return asyncio.run(main())


def run_traced(ops, streams):
    return run_ours(ops, streams, trace=True)


def run_recorded(ops, streams):
    return run_ours(ops, streams, trace=True, decoded=0)


def run_sharing(ops, streams):
    return run_ours(ops, streams, sharing=max(1, streams // 8))


def run_sanitized(ops, streams):
    return run_ours(ops, streams, sanitize="device")


def run_asyncio(ops, streams):
    from tests.bench.peer_asyncio import run

    return run(ops, streams)


def run_simpy(ops, streams):
    from tests.bench.peer_simpy import run

    return run(ops, streams)


MODELS: dict[str, Callable[[int, int], Result]] = {
    "ours": run_ours,
    "ours traced": run_traced,
    "ours recorded": run_recorded,  # traced, and nobody reads the trace
    "ours sanitized": run_sanitized,
    "ours, shared memory": run_sharing,  # eight buffers for all streams
    "asyncio": run_asyncio,
    "simpy": run_simpy,
}


def peak_kib():
    """The most memory this process has had. Not ru_maxrss: that of a child begins with its parent's."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def main():
    model, ops, streams = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    result = MODELS[model](ops, streams)
    result.model = model
    result.peak_kib = result.peak_kib or peak_kib()
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
