"""What a unit costs as there are more of them: processor time for each, and the exponent of the whole over a decade.

An exponent of 1 is a cost for each unit that stays; the bounds leave room for caches. Rows are named in the command:
`python -m tests.bench exponents`, or `python -m tests.bench.exponents tasks path` for some of them.
"""

import asyncio
import gc
import sys
from contextlib import redirect_stderr
from io import StringIO
from math import log10
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import acl_py
from acl_py.causes.path import critical_path
from tests.bench.measure import say, show, target

ROUNDS = 5  # the same for each number of units, because the first one of a stream or a task costs more
RUNS = 3
SHARE = 1  # the numbers of units are divided by it


async def _tasks(count, wait):
    async def worker(stream):
        for _ in range(ROUNDS):
            for _ in range(3):
                await acl_py.MemsetAsync(memory, 64, 0, 64, stream)
            await wait(stream)

    memory = await acl_py.Malloc(64)
    streams = [await acl_py.CreateStream() for _ in range(count)]
    begin = process_time()
    await asyncio.gather(*map(worker, streams))
    return (process_time() - begin) / ROUNDS


async def tasks(count):
    """Tasks that queue three fills and wait for their stream."""
    return await _tasks(count, acl_py.SynchronizeStream)


async def tasks_that_yield(count):
    """The same tasks with asyncio.sleep(0) for each wait."""
    return await _tasks(count, lambda _: asyncio.sleep(0))


async def idle(count):
    """SynchronizeDevice beside idle streams: the unit is a call, so its exponent should be 0."""
    streams = [await acl_py.CreateStream() for _ in range(count)]
    memory = await acl_py.Malloc(64)
    begin = process_time()
    for _ in range(100):
        await acl_py.MemsetAsync(memory, 64, 0, 64, streams[0])
        await acl_py.SynchronizeDevice()
    return (process_time() - begin) / 100 * count  # as if each stream took its share


async def streams(count):
    """Operations in turn over streams, each of which is waited for at the end."""
    memory = await acl_py.Malloc(64)
    made = [await acl_py.CreateStream() for _ in range(count)]
    begin = process_time()
    for _ in range(ROUNDS):
        for stream in made:
            await acl_py.MemsetAsync(memory, 64, 0, 64, stream)
    for stream in made:
        await acl_py.SynchronizeStream(stream)
    return (process_time() - begin) / ROUNDS


async def sanitized(count):
    """The same, with memory for each stream, under the sanitizer."""
    made = [(await acl_py.CreateStream(), await acl_py.Malloc(64)) for _ in range(count)]
    begin = process_time()
    for _ in range(ROUNDS):
        for stream, memory in made:
            await acl_py.MemsetAsync(memory, 64, 0, 64, stream)
    return (process_time() - begin) / ROUNDS


async def ring(count):
    """Streams that wait for one another in a ring, under the sanitizer."""
    made = [(await acl_py.CreateStream(), await acl_py.Malloc(64), await acl_py.CreateEvent()) for _ in range(count)]
    begin = process_time()
    for _ in range(ROUNDS):
        for index, (stream, memory, event) in enumerate(made):
            await acl_py.StreamWaitEvent(stream, made[index - 1][2])
            await acl_py.MemsetAsync(memory, 64, 0, 64, stream)
            await acl_py.RecordEvent(event, stream)
    return (process_time() - begin) / ROUNDS


async def finding(count):
    """A race that repeats, under the sanitizer."""
    one, other, memory = await acl_py.CreateStream(), await acl_py.CreateStream(), await acl_py.Malloc(64)
    begin = process_time()
    for _ in range(count):
        await acl_py.MemsetAsync(memory, 64, 0, 64, one)
        await acl_py.MemsetAsync(memory, 64, 0, 64, other)
        await acl_py.SynchronizeDevice()
    return process_time() - begin


async def _recorded(count, view):
    made = [(await acl_py.CreateStream(), await acl_py.Malloc(64)) for _ in range(4)]
    for index in range(count // 4):
        for stream, memory in made:
            await acl_py.MemsetAsync(memory, 64, 0, 64, stream)
        if index % 50 == 49:
            await acl_py.SynchronizeStream(made[index % 4][0])
    await acl_py.SynchronizeDevice()
    simulation = acl_py.current_simulation()
    with TemporaryDirectory() as folder:
        begin = process_time()
        view(simulation, Path(folder) / "file")
        return process_time() - begin


async def path(count):
    """The critical path of a recording, for each operation."""
    return await _recorded(count, lambda simulation, _: critical_path(simulation.trace.timeline()))


async def saved(count):
    """A recording saved, for each operation."""
    return await _recorded(count, lambda simulation, file: simulation.trace.save(file))


async def page(count):
    """A page with explanations, for each operation."""
    return await _recorded(count, lambda simulation, file: simulation.timeline().write(file))


# The greatest number of units, the bound of the exponent, and whether there is a sanitizer, and a trace.
ROWS = {
    tasks: (10_000, None, False, False),
    tasks_that_yield: (10_000, None, False, False),
    idle: (10_000, 0.05, False, False),
    streams: (10_000, 1.05, False, False),
    sanitized: (2_000, 1.05, True, False),
    ring: (2_000, 1.2, True, False),
    finding: (3_000, 1.05, True, False),
    path: (40_000, 1.1, False, True),
    saved: (40_000, 1.05, False, True),
    page: (40_000, 1.05, False, True),
}


def main(names=()):
    rows = {row: _measured(row) for row in ROWS if not names or row.__name__ in names}
    show(
        "The cost of a unit, and the exponent of the whole over the last decade",
        ("units", "us at a hundredth", "us at a tenth", "us", "number", "exponent"),
        [
            (row.__name__.replace("_", " "), *(f"{us:.1f}" for us in each.values()), f"{max(each):,}",
             f"{_exponent(row, each):.2f}")
            for row, each in rows.items()
        ],
    )  # fmt: skip
    for row, each in rows.items():
        bound = ROWS[row][1]
        if bound is not None:
            say(f"  {row.__name__}: {target(_exponent(row, each), bound)}")
    if {tasks, tasks_that_yield} <= rows.keys():
        bound = _exponent(tasks_that_yield, rows[tasks_that_yield]) + 0.05
        say(f"  tasks, beside those that yield: {target(_exponent(tasks, rows[tasks]), bound)}")
    say("")


def _measured(row):
    """The microseconds for each unit, by the number of units."""
    most = ROWS[row][0] // SHARE
    return {count: min(_us(row, count) for _ in range(RUNS)) for count in (most // 100, most // 10, most)}


def _us(row, count):
    _, _, sanitize, trace = ROWS[row]
    gc.collect()
    with redirect_stderr(StringIO()):  # what the sanitizer finds
        seconds = acl_py.run(lambda: row(count), device="h200", sanitize=sanitize or None, trace=trace)
    return seconds / count * 1e6


def _exponent(row, each):
    few, many = sorted(each)[1:]
    whole = log10(each[many] / each[few]) + 1
    return whole - 1 if row is idle else whole


if __name__ == "__main__":
    main(sys.argv[1:])
