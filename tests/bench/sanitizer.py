"""What the sanitizer costs, part "device": processor time for each operation, and memory for each that is queued."""

import gc
import tracemalloc
from statistics import median
from time import process_time

import acl_py
from tests.bench.measure import interleaved, say, show, spread, target
from tests.bench.ring import ours

OPS = 24_000
RUNS = 5
LIMITS_US = {8: 1.5, 1000: 3.0}  # by the number of streams: at most
LIVE = 900  # operations that wait, for the memory of each
LIVE_BYTES = 200
FLAT_OPS = (10_000, 1_000_000)  # what is kept after each number of operations is to be the same


def main():
    _times()
    _memory()


def _times():
    configurations = {(streams, part): (streams, part) for streams in LIMITS_US for part in (False, "device")}
    seconds = interleaved(configurations, RUNS, _seconds)
    rows = []
    for streams, limit in LIMITS_US.items():
        off, on = ([run / OPS * 1e6 for run in seconds[streams, part]] for part in (False, "device"))
        more = median(each - other for each, other in zip(on, off, strict=True))
        rows.append((streams, spread(off), spread(on), target(more, limit)))
    show(f"The sanitizer, over {OPS:,} operations", ("streams", "us off", "us on", "us more per operation"), rows)


def _seconds(streams, part):
    gc.collect()
    begin = process_time()
    acl_py.run(ours, OPS, streams, 1, workers=1, trace=False, sanitize=part)
    return process_time() - begin


def _memory():
    more = (_live("device") - _live(False)) / LIVE
    say(f"  bytes for each operation that is queued  {target(more, LIVE_BYTES, form='{:.0f}')}")
    few, many = (_kept(ops) for ops in FLAT_OPS)
    say(f"  bytes kept after {FLAT_OPS[0]:,} operations {few:,}, after {FLAT_OPS[1]:,} operations {many:,}")
    say("")


def _live(part):
    """The bytes that a program takes while LIVE kernels wait in one stream."""

    async def program():
        x, y = await acl_py.Malloc(64), await acl_py.Malloc(64)
        await acl_py.LaunchKernel(_wait, 1)
        tracemalloc.start()
        for _ in range(LIVE):
            await acl_py.LaunchKernel(_read, 1, (x, y))
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return taken

    return acl_py.run(program, trace=False, sanitize=part)


def _kept(ops):
    """The bytes that the sanitizer keeps after a number of operations, with waits of streams and hosts between them."""

    async def program():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        event, x, y = await acl_py.CreateEvent(), await acl_py.Malloc(64), await acl_py.Malloc(64)
        for index in range(ops // 2):
            await acl_py.LaunchKernel(_read, 1, (x, y), one)
            await acl_py.RecordEvent(event, one)
            await acl_py.StreamWaitEvent(two, event)
            await acl_py.LaunchKernel(_read, 1, (y, x), two)
            await acl_py.RecordEvent(event, two)
            await acl_py.StreamWaitEvent(one, event)
            if index == 1000:
                gc.collect()
                tracemalloc.start()
            if index % 100 == 99:
                await acl_py.SynchronizeDevice()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return kept

    return acl_py.run(program, trace=False, sanitize="device")


@acl_py.kernel(cost=acl_py.Cost(us=1_000_000))
def _wait() -> None:
    pass


@acl_py.kernel(cost=acl_py.Cost(us=1))
def _read(x: acl_py.In, y: acl_py.Out) -> None:
    pass
