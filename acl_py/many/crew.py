"""Who runs a function at many points: this process, a pool of processes, or an executor of the caller.

The answers do not depend on it. A worker that dies costs its points only: those that were in flight run again, one at a
time, and a point whose worker dies once more is given up. So is a point that another executor gives up twice.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass
from itertools import islice
from platform import node
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from acl_py.many.batches import batches_of, error_of
from device_model.engines.workers import default_workers

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

Point = TypeVar("Point")
Answer = TypeVar("Answer")
Lost = Callable[[Any, str], Any]  # makes the answer for a point that was given up, from the point and the reason
Placed = tuple[int, Any]  # a point and its place

_AHEAD = 4  # points in flight for each worker, so that none waits for the next one
_OF_OTHERS = 256  # in flight in an executor of the caller whose workers are not known
_DIED = (
    "its worker has died twice: it was ended from outside, had no memory left, or runs a script that makes workers "
    'outside of `if __name__ == "__main__":`'
)


class WorkerError(Exception):
    """A worker that cannot run the points, or a point that no worker could run."""


class Answered(NamedTuple):
    """What a run has returned."""

    answer: Any

    def taken(self) -> Any:
        """Return it."""
        return self.answer


class Raised(NamedTuple):
    """What a run has raised; the exceptions of an executor are another thing."""

    error: Exception

    def taken(self) -> Any:
        """Raise it.

        Raises:
            Exception: Always.
        """
        raise self.error


class GivenUp(NamedTuple):
    """A *point* that no worker could run, for the reason *why*; *lost* makes its answer."""

    point: Any
    why: str
    lost: Lost

    def taken(self) -> Any:
        """Return what stands for the answer."""
        return self.lost(self.point, self.why)


class Refused(NamedTuple):
    """The answer of a *worker* whose *version* is not the one that has *begun*."""

    worker: str
    version: str
    begun: str

    def taken(self) -> Any:
        """Refuse the worker.

        Raises:
            WorkerError: Always.
        """
        raise WorkerError(
            f"worker {self.worker} has acl_py {self.version}, and this process {self.begun}: "
            "install the same version in both places"
        )


Ended = Answered | Raised | GivenUp | Refused


@dataclass(frozen=True)
class Task:
    """A run of *function* in this or another process, which has to have the *version* of acl_py that has begun."""

    function: Callable[[Any], Any]
    version: str

    def __call__(self, point: Any) -> Answered | Raised | Refused:
        """Run the function at *point*."""
        if _version() != self.version:
            return Refused(node(), _version(), self.version)
        try:
            return Answered(self.function(point))
        except Exception as error:
            return Raised(error)


def raise_lost(point: Any, why: str) -> Any:
    """Raise an error for a point that was given up.

    Raises:
        WorkerError: Always.
    """
    raise WorkerError(f"{point!r}: {why}")


class Crew:
    """Runs functions at many points, in *workers* processes or in *executor*, until it is closed.

    One worker is this process. No executor and no number of workers: one for each processor. In an executor at most
    *ahead* points are in flight; None: as many as it needs. One of Dask gets them in batches.

    Raises:
        ValueError: *workers* is below 1, or there is an executor, too.
    """

    def __init__(
        self, executor: Executor | None = None, workers: int | None = None, *, ahead: int | None = None
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be 1 or more, not {workers}")
        if executor is not None and workers is not None:
            raise ValueError("an executor has its own workers: give executor or workers, not both")
        self.workers = workers or default_workers()
        self.is_here = executor is None and self.workers == 1
        self.has_pool = executor is None  # of its own
        self._ahead = ahead
        self._executor = executor
        self._batches = batches_of(executor)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of the pool at once. An executor of the caller stays as it is."""
        if self._pool is not None:
            from acl_py.many.pools import stop

            stop(self._pool)
            self._pool = None
        if self._batches is not None:
            self._batches.close()

    @property
    def ahead(self) -> int:
        """How many points may be in flight."""
        if self.has_pool:
            return _AHEAD * self.workers
        return self._ahead or (_OF_OTHERS if self._batches is None else self._batches.ahead)

    def begin(self, task: Task, point: Any) -> "Future[Any]":
        """Begin a run. Where the pool is broken, the future fails.

        Raises:
            BrokenExecutor: The caller's executor takes no more work.
        """
        if self._batches is not None:
            return self._batches.submit(task, point)
        if self._executor is not None:
            return self._executor.submit(task, point)
        if self._pool is None:
            from acl_py.many.pools import pool_of  # late: it takes a while, and few programs have a pool

            self._pool = pool_of(self.workers)
        try:
            return self._pool.submit(task, point)
        except BrokenExecutor as error:
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def cancel(self, futures: "Iterable[Future[Any]]") -> None:
        """Do without what has not begun of the runs of *futures*."""
        for future in futures:
            future.cancel()
        if self._batches is not None:
            self._batches.drop()

    def in_order(
        self, function: Callable[[Point], Answer], points: Iterable[Point], lost: Lost = raise_lost
    ) -> Generator[Answer, None, None]:
        """Yield the answer at each of *points*, in their order; see `as_they_end`."""
        early: dict[int, Ended] = {}
        following = 0
        for place, ended in self._ended(function, points, lost):
            early[place] = ended
            while following in early:
                yield early.pop(following).taken()
                following += 1

    def as_they_end(
        self, function: Callable[[Point], Answer], points: Iterable[Point], lost: Lost = raise_lost
    ) -> Iterator[tuple[int, Answer]]:
        """Yield the place of each of *points* with the answer there, as the runs end.

        *points* are taken when there is room for them, so an iterator can make them as it learns from answers. One that
        has no further point for the moment is asked again behind the next answer.

        Raises:
            WorkerError: A worker has another version of acl_py; or, by *lost*, a point was given up.
            BrokenExecutor: The caller's executor takes no more work.
            Exception: What *function* raises.
        """
        for place, ended in self._ended(function, points, lost):
            yield place, ended.taken()

    def _ended(
        self, function: Callable[[Point], Answer], points: Iterable[Point], lost: Lost
    ) -> Iterator[tuple[int, Ended]]:
        source, task = enumerate(points), Task(function, _version())
        if self.is_here:
            while following := list(islice(source, 1)):
                ((place, point),) = following
                yield place, task(point)
            return
        flight = _Flight(self, task, lost)
        try:
            while flight.fill(source):
                yield from flight.land()
        finally:
            flight.cancel()


class _Flight:
    """The runs of *task* that a *crew* has begun and whose answers are not taken."""

    def __init__(self, crew: Crew, task: Task, lost: Lost) -> None:
        self._crew = crew
        self._task = task
        self._lost = lost
        self._flying: dict[Future[Any], Placed] = {}
        self._landed: SimpleQueue[Future[Any]] = SimpleQueue()  # of those in flight, the ones that have ended
        self._given_up: list[Placed] = []  # by an executor, and not tried again yet

    def fill(self, source: Iterator[Placed]) -> bool:
        """Begin runs at further points, if there is room for them; return whether there is anything to wait for."""
        for place, point in islice(source, max(self._crew.ahead - len(self._flying), 0)):
            future = self._crew.begin(self._task, point)
            self._flying[future] = place, point
            future.add_done_callback(self._landed.put)
        return bool(self._flying or self._given_up)

    def cancel(self) -> None:
        """Do without what has not begun."""
        self._crew.cancel(self._flying)

    def land(self) -> Iterator[tuple[int, Ended]]:
        """Wait until a run has ended, and yield places with what came of them.

        What the executor gave up runs again behind all others, alone: a worker that died may have had others, too.
        """
        if not self._flying:
            given_up, self._given_up = self._given_up, []
            for place, point in given_up:
                yield place, self._alone(self._crew, point)
            return
        suspects = []
        for future in sorted(self._ended(), key=self._flying.__getitem__):
            placed, error = self._flying.pop(future), error_of(future)
            if error is None:
                yield placed[0], future.result()
            elif not isinstance(error, BrokenExecutor):
                self._given_up.append(placed)
            elif self._crew.has_pool:
                suspects.append(placed)
            else:
                raise error
        yield from self._one_by_one(suspects)

    def _ended(self) -> "list[Future[Any]]":
        """Wait until a run has ended; return all that have."""
        ended = [self._landed.get()]
        ended += [self._landed.get() for _ in range(self._landed.qsize())]
        if self._crew.has_pool and any(isinstance(error_of(future), BrokenExecutor) for future in ended):
            # All that is in a broken pool fails, or has just ended.
            ended += [self._landed.get() for _ in range(len(self._flying) - len(ended))]
            self._crew.close()
        return ended

    def _one_by_one(self, suspects: Iterable[Placed]) -> Iterator[tuple[int, Ended]]:
        """Run points of which one has ended a worker: one at a time, in a new process after each death."""
        with Crew(workers=1) as lone:
            for place, point in suspects:
                yield place, self._alone(lone, point)

    def _alone(self, crew: Crew, point: Any) -> Ended:
        """Return the outcome of a run beside which nothing runs."""
        try:
            ended: Ended = crew.begin(self._task, point).result()
        except BrokenExecutor:
            if not crew.has_pool:
                raise
            crew.close()
            return GivenUp(point, _DIED, self._lost)
        except (Exception, CancelledError) as error:
            return GivenUp(point, f"the worker: {type(error).__name__}: {error}", self._lost)
        return ended


def _version() -> str:
    from acl_py import __version__  # late: the package may be in the middle of its import

    return __version__
