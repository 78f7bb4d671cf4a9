"""`sweep`: a program at many points."""

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from acl_py.many.crew import Crew
from acl_py.sweeps.points import Grid, Program, check, points_of
from acl_py.sweeps.rows import Row, Sweep
from acl_py.sweeps.running import Job
from acl_py.sweeps.store import Store

Tell = Callable[[Row, int, int], object]  # called with each row, how many have ended, and how many there are


def sweep(
    program: Program,
    grid: Grid,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    store: str | Path | None = None,
    tell: Tell | None = None,
) -> Sweep:
    """Run *program* at each point of *grid*, each time in a simulation of its own, and compare.

        async def pipeline(streams, chunk):
            for _ in range(streams):
                await MemsetAsync(await Malloc(chunk), chunk, 0, chunk, await CreateStream())
            await SynchronizeDevice()

        if __name__ == "__main__":
            grid = {"streams": [1, 2, 4], "chunk": [1 << 16, 1 << 20], "device": ["h200", "tiny"]}
            result = acl_py.sweep(pipeline, grid)
            print(result, result.best().point)

    The table is the same for any number of workers, and in any order of their ends.

    Args:
        program: A coroutine function of a module, as `acl_py.run` takes it. What it returns is kept, if JSON has a form
            for it.
        grid: A mapping from names to values, for all combinations; or points, each a mapping. `device`, `rules`,
            `overlay`, `changes` (text in the form of an overlay), `seed` and `faults` (texts) are options of the
            simulation; every other name is a parameter of *program*.
        executor: Where to run: any executor of concurrent.futures, such as `dask.distributed.Client.get_executor()`.
            None: a pool of processes, which import the module of *program*; a script keeps its own call of `sweep`
            behind `if __name__ == "__main__":`.
        workers: How many processes the pool has; None: one for each processor. 1: this process runs all points.
        store: A file that keeps each row when it ends. Rows that it has are not run again, unless *program*, what it
            refers to in its module, or acl_py has changed.
        tell: Called with each row that ends, how many have ended, and how many there are.

    Returns:
        A row for each point, in the order of the points. A point that fails has its error in its row.

    Raises:
        TypeError: *program* is no coroutine function of a module, or has no such parameter.
        ValueError: A card, rules, an overlay or a fault rule that there is not; a grid without points; workers below 1;
            a *store* of another program.
        OSError: The store cannot be written.
        KeyboardInterrupt: Ctrl-C; the store has all rows that have ended.
    """
    points = points_of(grid)
    check(program, points)
    crew = Crew(executor, 1 if executor is None and len(points) == 1 else workers)
    kept = None if store is None else Store(store, program)
    try:
        with crew:
            return _swept(Job(program), points, crew, kept, tell)
    finally:
        if kept is not None:
            kept.close()


def _swept(
    job: Job,
    points: list[dict[str, object]],
    crew: Crew,
    store: Store | None,
    tell: Tell | None,
) -> Sweep:
    known = {index: row for index, point in enumerate(points) if store and (row := store.rows.get(store.key(point)))}
    waiting: dict[str, list[int]] = {}  # equal points run once
    for index, point in enumerate(points):
        if index not in known:
            waiting.setdefault(repr(point), []).append(index)
    ended = len(known)
    wanted = [points[places[0]] for places in waiting.values()]
    for _, row in crew.as_they_end(job, wanted, lambda point, why: Row(point, error=why)):
        for index in waiting[repr(row.point)]:
            known[index] = row
            ended += 1
        if store is not None:
            store.add(row)
        if tell is not None:
            tell(row, ended, len(points))
    return Sweep(tuple(known[index] for index in range(len(points))))
