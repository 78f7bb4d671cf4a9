"""What an operation costs: the ring of ring.py, ours and two peers that simulate the same, in time and in memory; and
what a node of a graph costs.

The ratios to the peers scatter by 12 % from run to run, so they have no target: count.py has it, in bytecodes.
"""

from statistics import median
from time import process_time

import acl_py as acl
from tests.bench.measure import fresh, interleaved, ratio, say, show, spread, target

SMALL, LARGE = 100_000, 1_000_000
STREAMS, MANY_STREAMS = 8, 10_000
MIB = 1024


def main():
    memory = _against_peers()
    _streams()
    _memory(memory)
    _graphs()


def _against_peers():
    """Both sizes; returns the runs of the large one, whose memory is of interest, too."""
    models = ("ours", "ours traced", "asyncio", "simpy")
    small = interleaved({model: (model, SMALL, STREAMS) for model in models}, 7, fresh)
    _dispatch_table(small, SMALL)
    large = interleaved({model: (model, LARGE, STREAMS) for model in models}, 2, fresh)
    _dispatch_table(large, LARGE)
    return large


def _dispatch_table(results, ops):
    seconds = {model: [result.seconds for result in runs] for model, runs in results.items()}
    us = {model: [result.us_per_op for result in runs] for model, runs in results.items()}
    runs = len(us["ours"])
    rows = [
        (
            model,
            spread(us[model]),
            f"{1e6 / median(us[model]):,.0f}",
            f"{median(us[model]) * 3 / 5:.2f}",
            f"{results[model][0].simulated_ns / 1e6:,.3f}",
            f"{results[model][0].mean_end_ns / 1e6:,.3f}" if results[model][0].mean_end_ns else "",
        )
        for model in results
    ]
    show(
        f"Dispatch: {ops:,} operations (copies of 4 KB, kernels) on {STREAMS} streams, {runs} runs in turn",
        ("model", "us per operation", "operations/s", "us per host call", "simulated ms", "an operation ends at, mean"),
        rows,
    )
    added = median(traced - bare for traced, bare in zip(us["ours traced"], us["ours"], strict=True))
    say(f"  ours : simpy    {ratio(seconds['ours'], seconds['simpy']):.3f}")
    say(f"  ours : asyncio  {ratio(seconds['ours'], seconds['asyncio']):.3f}")
    say(f"  tracing adds    {target(added, 0.6)} us per operation, host calls included\n")


def _streams():
    few, many, shared = (
        f"{STREAMS} streams",
        f"{MANY_STREAMS:,} streams, each with memory of its own",
        f"{MANY_STREAMS:,} streams, eight buffers for all",
    )
    configurations = {
        few: ("ours", LARGE, STREAMS),
        many: ("ours", LARGE, MANY_STREAMS),
        shared: ("ours, shared memory", LARGE, MANY_STREAMS),
    }
    results = interleaved(configurations, 3, fresh)
    us = {name: [result.us_per_op for result in runs] for name, runs in results.items()}
    show(
        f"Streams: {LARGE:,} operations, tracing off, 3 runs in turn",
        ("", "us per operation"),
        [(name, spread(runs)) for name, runs in us.items()],
    )
    say(f"  {MANY_STREAMS:,} : {STREAMS}                 {target(ratio(us[many], us[few]), 1.3)}")
    say(f"  the same, eight buffers    {target(ratio(us[shared], us[few]), 1.3)}: the rest is buffers, launches\n")


def _memory(large):
    few = fresh("ours", 10_000, STREAMS)
    bare = median(result.peak_kib for result in large["ours"])
    traced = median(result.peak_kib for result in large["ours traced"])
    per_op = (traced - bare) * 1024 / large["ours"][0].ops
    show(
        "Memory: the most that the process had",
        ("run", "MiB"),
        [
            (f"{few.ops:,} operations", f"{few.peak_kib / MIB:.1f}"),
            (f"{large['ours'][0].ops:,} operations", f"{bare / MIB:.1f}"),
            (f"{large['ours'][0].ops:,} operations, traced", f"{traced / MIB:.1f}"),
        ],
    )
    say(f"  a hundred times the work adds  {target((bare - few.peak_kib) / MIB, 10, form='{:.1f}')} MiB")
    say(f"  tracing adds                   {target(per_op, 120, form='{:.0f}')} bytes per operation\n")


NODES, LAUNCHES = 100, 100


@acl.kernel(cost=acl.Cost(us=2))
def _step():
    pass


async def launches(number, branches=1):
    """The processor time of a node, in microseconds: kernels in so many *branches*, which run at the same time, are
    launched and waited for again and again.

    It is one thread that never sleeps, so this is the real time if nobody else uses the machine.
    """
    stream, *others = streams = [await acl.CreateStream() for _ in range(branches)]
    fork, *joins = [await acl.CreateEvent() for _ in streams]
    async with acl.capture(stream) as graph:
        await acl.RecordEvent(fork, stream)
        for other in others:
            await acl.StreamWaitEvent(other, fork)
        for number_of_node in range(NODES):
            await _step[1, streams[number_of_node % branches]]()
        for other, join in zip(others, joins, strict=True):
            await acl.RecordEvent(join, other)
            await acl.StreamWaitEvent(stream, join)
    executable = await acl.GraphInstantiate(graph)
    begin = process_time()
    for _ in range(number):
        await acl.GraphLaunch(executable, stream)
        await acl.SynchronizeStream(stream)
    return (process_time() - begin) * 1e6 / (NODES * number)


def _graphs():
    kinds = {"bare": (False, 1), "traced": (True, 1), "4 branches": (False, 4), "4 branches, traced": (True, 4)}
    us = interleaved(kinds, 5, _run)
    show(
        f"Graphs: {LAUNCHES} launches of {NODES} kernels, a chain or in branches, 5 runs in turn",
        ("", "us per node"),
        [(name, spread(values)) for name, values in us.items()],
    )
    ratio = median(us["4 branches"]) / median(us["bare"])
    say(f"  a node costs {target(median(us['bare']), 1.2)} us")
    say(f"  one of branches that run at the same time : one of a chain {target(ratio, 5)}\n")


def _run(trace, branches):
    return acl.run(launches, LAUNCHES, branches, device="h200", trace=trace)
