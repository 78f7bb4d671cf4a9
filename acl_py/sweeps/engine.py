"""Where the points of a sweep run: in this process, in a pool of processes, or in an executor of the caller.

A worker that dies costs its points only. The points that were in flight then run again, one at a time; a point whose
worker dies once more is listed as failed. So are points that another executor gives up.
"""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from itertools import islice
from threading import Thread
from types import NoneType

from acl_py.sweeps.points import Point
from acl_py.sweeps.rows import Row
from acl_py.sweeps.running import Job
from device_model.engines.workers import default_workers

_AHEAD = 4  # points in flight for each worker, so that none waits for the next one
_OF_OTHERS = 256  # in flight in an executor of the caller, whose workers are not known


def rows_of(job: Job, points: Sequence[Point], executor: Executor | None, workers: int | None) -> Iterator[Row]:
    """Yield a row for each of *points*, as they end.

    Raises:
        BrokenExecutor: The caller's executor takes no more work.
    """
    if executor is not None:
        yield from _in(executor, job, points, _OF_OTHERS)
    elif workers == 1 or len(points) == 1:
        yield from map(job, points)
    else:
        yield from _in_pools(job, points, workers or default_workers())


def _in(executor: Executor, job: Job, points: Sequence[Point], ahead: int) -> Iterator[Row]:
    """Yield the rows as they end, with at most *ahead* points in flight.

    A point that the executor gives up runs again behind all others, alone: a worker that dies may have had others, too.
    """
    left, given_up = iter(points), []
    flying: dict[Future[Row], Point] = {executor.submit(job, point): point for point in islice(left, ahead)}
    while flying:
        ended, _ = wait(flying, return_when=FIRST_COMPLETED)
        for future in ended:
            point = flying.pop(future)
            if isinstance(future.exception(), NoneType | BrokenExecutor):
                yield future.result()
            else:
                given_up.append(point)
            for following in islice(left, 1):
                flying[executor.submit(job, following)] = following
    for point in given_up:
        yield _row(executor.submit(job, point), point)


def _row(future: "Future[Row]", point: Point) -> Row:
    """Return the row of a run that has ended; what the executor itself raises is the failure of the point."""
    try:
        return future.result()
    except BrokenExecutor:
        raise
    except Exception as error:
        return Row(point, error=f"the worker: {type(error).__name__}: {error}")


def _in_pools(job: Job, points: Sequence[Point], workers: int) -> Iterator[Row]:
    """Yield the rows of *points*, in a pool of processes, and after the death of a worker in a new one."""
    left = list(points)
    while left:
        done: list[Point] = []
        pool = _pool(min(workers, len(left)))
        try:
            for row in _in(pool, job, left, _AHEAD * workers):
                done.append(row.point)
                yield row
            left = []
        except BrokenExecutor:
            left = [point for point in left if point not in done]
            suspects, left = left[: _AHEAD * workers], left[_AHEAD * workers :]
            yield from _one_by_one(job, suspects)
        finally:
            _stop(pool)


def _one_by_one(job: Job, points: Sequence[Point]) -> Iterator[Row]:
    """Yield the rows of points of which one has ended a worker: one at a time, in a new process after each death."""
    left = deque(points)
    while left:
        pool = _pool(1)
        try:
            while left:
                point = left.popleft()
                yield _row(pool.submit(job, point), point)
        except BrokenExecutor:
            yield Row(point, error="its worker has died twice: it was ended from outside, or had no memory left")
        finally:
            _stop(pool)


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _follow_parent)


def _follow_parent() -> None:
    """Leave Ctrl-C to the process that has begun the sweep, which ends its workers; end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End a pool at once: what still runs is not wanted any more."""
    processes = list((pool._processes or {}).values())  # there is no public way to end them
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()
