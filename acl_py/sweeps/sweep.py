"""`sweep`: a program at many points."""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from acl_py.many.crew import Crew
from acl_py.sweeps.points import Grid, Point, Program, check, points_of
from acl_py.sweeps.progress import Progress
from acl_py.sweeps.rows import Row, Sweep
from acl_py.sweeps.running import Job
from acl_py.sweeps.store import Store, check_points, state_of

Tell = Callable[[Row, int, int], object]  # called with each row, how many have ended, and how many there are


def sweep(
    program: Program,
    grid: Grid,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    store: str | Path | None = None,
    traces: str | Path | None = None,
    progress: bool = False,
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
            `overlay`, `changes` (text in the form of an overlay, or "links=2x"), `seed` and `faults` (texts) are
            options of the simulation; every other name is a parameter of *program*.
        executor: Where to run: any executor of concurrent.futures, such as `dask.distributed.Client.get_executor()`.
            None: a pool of processes, which import the module of *program*; a script keeps its own call of `sweep`
            behind `if __name__ == "__main__":`.
        workers: How many processes the pool has; None: one for each processor. 1: this process runs all points.
        store: A file that keeps each row when it ends, or an address that fsspec knows ("s3://bucket/out.jsonl"), where
            rows are written once a second. Rows that it has are not run again, unless *program*, what it refers to in
            its module, the profile of the card, or acl_py has changed; then a warning says so.
        traces: A folder for the trace of each point, or an address that fsspec knows. Rows have the paths.
        progress: Whether to show on the standard error how far the sweep is.
        tell: Called with each row that ends, how many have ended, and how many there are.

    Returns:
        A row for each point, in the order of the points. A point that fails has its error in its row.

    Raises:
        TypeError: *program* is no coroutine function of a module, or has no such parameter; a value cannot go to
            another process, or, with a store, has no form in JSON.
        ValueError: A card, rules, an overlay or a fault rule that there is not; a grid without points; workers below 1,
            or beside an executor; a *store* of another program.
        OSError: The store cannot be written.
        WorkerError: A worker has another version of acl_py.
        KeyboardInterrupt: Ctrl-C; the store has all rows that have ended.
    """
    points = points_of(grid)
    check(program, points)
    crew = Crew(executor, 1 if executor is None and len(points) == 1 else workers)
    name = f"{program.__module__}.{program.__qualname__}"
    job = Job(program, "" if traces is None else str(traces))
    with crew, Progress() if progress else nullcontext() as shown:
        return swept(
            job, name, lambda: state_of(program), points, crew, store, [each for each in (shown, tell) if each]
        )


def swept(
    job: Callable[[Point], Row],
    name: str,
    state: Callable[[], str],
    points: Sequence[dict[str, Any]],
    crew: Crew,
    store: str | Path | None = None,
    tell: Sequence[Tell] = (),
    say: Callable[[str], object] = lambda text: warnings.warn(text, stacklevel=4),
) -> Sweep:
    """Return the rows that *job* makes at *points*, on *crew*. In a store the program is *name*, as *state* says.

    *say* is called with what a user should know about the store.
    """
    if store is None:
        return _swept(job, points, crew, None, tell)
    check_points(points)
    with closing(Store(store, name, state())) as kept:
        stale = sum(kept.is_stale(point) for point in points)
        if stale:
            say(
                f"{store}: {stale:,} of {len(points):,} points run again: the program, its module, the card or acl_py "
                "has changed since"
            )
        return _swept(job, points, crew, kept, tell)


def _swept(
    job: Callable[[Point], Row],
    points: Sequence[dict[str, Any]],
    crew: Crew,
    store: Store | None,
    tell: Sequence[Tell],
) -> Sweep:
    known = {index: row for index, point in enumerate(points) if store and (row := store.row(point))}
    waiting: dict[str, list[int]] = {}  # equal points run once
    for index, point in enumerate(points):
        if index not in known:
            waiting.setdefault(repr(point), []).append(index)
    places = list(waiting.values())
    wanted = [points[equal[0]] for equal in places]
    for place, row in crew.as_they_end(job, wanted, lambda point, why: Row(point, error=why)):
        known |= dict.fromkeys(places[place], row)
        if store is not None:
            store.add(row)
        for each in tell:
            each(row, len(known), len(points))
    return Sweep(tuple(known[index] for index in range(len(points))))
