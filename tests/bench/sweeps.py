"""What a sweep costs and gains: two workers against one, and what a point costs beside its own run.

A machine that others use has no two free cores, so each row also has what processor time says: how much of it the runs
took, and how evenly the points fell on the workers. On an idle machine both are the same.
"""

import os
from collections import Counter
from statistics import median
from time import perf_counter, process_time

import acl_py
from tests.bench.measure import say, show

POINTS, RUNS = 200, 3  # of 50 ms
SMALL = 10_000  # points of 1 ms


async def busy(number, ms):
    """Use the processor for so long; return the process."""
    until = process_time() + ms / 1000
    while process_time() < until:
        sum(range(100))
    return {"pid": os.getpid(), "number": number}


def processor_s():
    """The processor time of this process and of all that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def timed(points, ms, used=processor_s, **options):
    """Sweep; return seconds of wall clock and of the processor, and how many points the busiest worker had."""
    begin, begun = perf_counter(), used()
    result = acl_py.sweep(busy, {"number": range(points), "ms": ms}, **options)
    wall_s, cpu_s = perf_counter() - begin, used() - begun
    assert [row.returned["number"] for row in result] == list(range(points))
    return wall_s, cpu_s, max(Counter(row.returned["pid"] for row in result).values())


def main():
    speed()
    say("")
    cost("a pool of two", 1.5, workers=2)
    on_dask()


def speed():
    """Two workers against one, in turn."""
    rows, walls, shares = [], [], []
    timed(4, 1, workers=2)
    for number in range(1, RUNS + 1):
        one_s, one_cpu_s, _ = timed(POINTS, 50, workers=1)
        two_s, two_cpu_s, most = timed(POINTS, 50, workers=2)
        walls.append(one_s / two_s)
        shares.append(one_cpu_s / two_cpu_s * POINTS / most)
        rows.append((f"run {number}", *(f"{each:.2f}" for each in (one_s, two_s, walls[-1], shares[-1]))))
    rows.append(("median", "", "", f"{median(walls):.2f}", f"{median(shares):.2f}"))
    show(
        f"{POINTS} points of 50 ms: two workers against one (1.7)",
        ("", "one, s", "two, s", "times as fast", "by processor time"),
        rows,
    )


def cost(what, bound, **options):
    """What a point costs beside its own run, in processor time."""
    _, alone_s, _ = timed(SMALL // 10, 1, workers=1)
    _, few_s, _ = timed(20, 1, **options)
    begun = process_time()
    wall_s, many_s, _ = timed(SMALL, 1, **options)
    here_ms = (process_time() - begun) / SMALL * 1000
    _, again_s, _ = timed(SMALL // 10, 1, workers=1)
    own_ms = (alone_s + again_s) / (SMALL // 10) / 2 * 1000
    beside_ms = (many_s - few_s) / (SMALL - 20) * 1000 - own_ms
    say(
        f"{what}: {beside_ms:.2f} ms of a processor ({bound}) for each of {SMALL:,} points beside its own run of "
        f"{own_ms:.2f} ms; {here_ms:.2f} ms in the process that sweeps; all in {wall_s:.1f} s")  # fmt: skip


def on_dask():
    try:
        import distributed
    except ImportError:
        say("Dask is not installed")
        return
    workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**workers) as cluster, distributed.Client(cluster) as client:

        def used():
            return process_time() + sum(client.run(process_time).values())

        cost("Dask, two workers", 3.0, used=used, executor=client.get_executor(pure=False))
