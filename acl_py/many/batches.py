"""Batches: an executor of Dask gets several points in each of its tasks, because its scheduler and its client take some
milliseconds for a task.

A batch ends after a fifth of a second, with or without all of its points. Each answer comes back at once, as an event
of Dask. So a worker that dies costs the points that it has not finished, and they alone run again. Dask begins the task
of a dead worker again elsewhere. A batch that has begun before refuses that: its finished points must not run twice.
"""

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, wait
from dataclasses import dataclass
from threading import Lock, RLock
from time import monotonic, perf_counter
from typing import Any
from uuid import uuid4

from acl_py.late_imports import import_late, imported

_BATCH_S = 0.2  # how long a batch runs
_PAUSE_S = 0.01  # between two events of a batch; answers between go together, as an event costs about a millisecond
_MOST_BYTES = 1 << 14  # of an answer that becomes an event; the scheduler keeps the last thousand of these
_AHEAD = 4  # batches for each thread of the cluster: two are with Dask, and the points of two more wait here
_END_S = 10  # how long the end of the last batches may take
_COUNT_S = 1.0  # how long a number of threads is believed, as clusters grow and shrink

Numbered = tuple[int, Any]  # a point and its number
Answer = tuple[int, bytes]  # the answer at the point of a number, pickled


class WorkerDiedError(Exception):
    """A worker has died with a batch."""


@dataclass(frozen=True)
class _Batch:
    """A task of Dask: a *run* of each of *points*. The answers are events of *topic*, too."""

    __name__ = "acl_py_batch"  # by which Dask calls its tasks; otherwise it writes all points into a text

    run: Callable[[Any], Any]
    points: tuple[Numbered, ...]
    topic: str

    def __call__(self) -> tuple[float, list[Answer]]:
        """Run points for a while; return for how many seconds, and numbers with answers.

        Raises:
            WorkerDiedError: Dask has begun this batch before.
        """
        distributed, cloudpickle = import_late("distributed"), import_late("cloudpickle")
        worker = distributed.get_worker()
        _mark(distributed.get_client(), worker.get_current_task())
        answers: list[Answer] = []
        events = _Events(worker, self.topic)
        begin = perf_counter()
        for number, point in self.points:
            answer = number, cloudpickle.dumps(self.run(point))
            answers.append(answer)
            if len(answer[1]) > _MOST_BYTES or perf_counter() - begin > _BATCH_S:
                break
            events.add(answer)
        return perf_counter() - begin, answers


class _Events:
    """Sends the answers of a batch from *worker*, in events of *topic*."""

    def __init__(self, worker: Any, topic: str) -> None:
        self._worker = worker
        self._topic = topic
        self._lock = Lock()  # batches run in another thread than the loop of the worker
        self._unsent: list[Answer] = []
        self._due_s = 0.0  # of the loop's time: when the next event may go

    def add(self, answer: Answer) -> None:
        """Send an answer as soon as it may go, also while the batch does something else."""
        with self._lock:
            self._unsent.append(answer)
            is_first = len(self._unsent) == 1
        if is_first:
            self._worker.loop.add_callback(self._begin)

    def _begin(self) -> None:
        loop = self._worker.loop
        loop.call_at(max(self._due_s, loop.time()), self._send)

    def _send(self) -> None:
        with self._lock:
            answers, self._unsent = self._unsent, []
        self._worker.log_event(self._topic, answers)
        self._due_s = self._worker.loop.time() + _PAUSE_S


def _mark(client: Any, key: str) -> None:
    """Note that the task *key* has begun, until Dask forgets it.

    Raises:
        WorkerDiedError: It had begun before.
    """
    if client.get_metadata([key, "begun"], False):
        raise WorkerDiedError("it has died with this point, or with another one of its batch")
    client.set_metadata([key, "begun"], True)


class Batches:
    """Runs points on the cluster of *executor*, which is one of Dask, several points in a task."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self._client = executor._client  # there is no public way to it, and only a client gets events
        self._topic = f"acl_py {uuid4().hex}"
        self._lock = RLock()  # answers come in the thread of the client
        self._waiting: deque[tuple[Callable[[Any], Any], Numbered]] = deque()  # not with Dask yet
        self._batches: dict[Future[Any], _Batch] = {}  # with Dask
        self._futures: dict[int, Future[Any]] = {}  # of points without an answer, by number
        self._count = 0
        self._size = 1  # of the next batches: what the last one would have done in its time
        self._threads, self._counted_s = 1, -_COUNT_S
        self._client.subscribe_topic(self._topic, lambda event: self._take(event[1]))

    @property
    def ahead(self) -> int:
        """How many points may be in flight."""
        if monotonic() - self._counted_s >= _COUNT_S:
            self._threads = sum(self._client.nthreads().values()) or 1
            self._counted_s = monotonic()
        return _AHEAD * self._threads * self._size

    def submit(self, run: Callable[[Any], Any], point: Any) -> "Future[Any]":
        """Run *point* in one of the next batches."""
        future: Future[Any] = Future()
        with self._lock:
            self._count += 1
            self._futures[self._count] = future
            self._waiting.append((run, (self._count, point)))
            self._send()
        return future

    def drop(self) -> None:
        """Do without what has not begun of the runs whose futures are cancelled."""
        with self._lock:
            unwanted = {number for number, future in self._futures.items() if future.cancelled()}
            batches = [
                future
                for future, batch in self._batches.items()
                if (left := {number for number, _ in self._without_answer(batch.points)}) and left <= unwanted
            ]
            for number in unwanted:
                del self._futures[number]
        for future in batches:
            future.cancel()

    def close(self) -> None:
        """Do without all that has not ended. The executor stays as it is."""
        for future in list(self._futures.values()):
            future.cancel()
        self.drop()
        wait(list(self._batches), _END_S)  # all their answers are here
        self._client.unsubscribe_topic(self._topic)

    def _send(self) -> None:
        """Begin batches, as long as Dask has fewer than two for each thread."""
        while self._waiting and len(self._batches) < 2 * self._threads:
            share = -(-len(self._waiting) // self._threads)  # the last batches are small, so that all threads have some
            run = self._waiting[0][0]
            points: list[Numbered] = []
            while self._waiting and self._waiting[0][0] is run and len(points) < min(self._size, share):
                points.append(self._waiting.popleft()[1])
            self._begin(_Batch(run, tuple(self._without_answer(points)), self._topic))

    def _begin(self, batch: _Batch) -> None:
        if not batch.points:
            return
        try:
            future = self._executor.submit(batch)
        except Exception as error:  # raised in a thread of the client, it would be lost
            self._lose(batch, error)
            return
        self._batches[future] = batch
        future.add_done_callback(self._ended)

    def _ended(self, future: "Future[Any]") -> None:
        """Take the answers of a batch. The points that it has not run are the first ones of the next batch."""
        with self._lock:
            batch, error = self._batches.pop(future), error_of(future)
            if error is not None:
                self._lose(batch, error)
            else:
                seconds, answers = future.result()
                self._take(answers)
                self._size = int(len(answers) * _BATCH_S / seconds) or 1
                self._waiting.extendleft((batch.run, each) for each in reversed([*self._without_answer(batch.points)]))
            self._send()

    def _take(self, answers: Iterable[Answer]) -> None:
        for number, pickled in answers:
            with self._lock:
                future = self._futures.pop(number, None)
            if future is None or not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(pickle.loads(pickled))
            except Exception as error:
                future.set_exception(error)

    def _lose(self, batch: _Batch, error: BaseException) -> None:
        """Let all points of *batch* fail that have no answer."""
        for number, _ in [*self._without_answer(batch.points)]:
            future = self._futures.pop(number)
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

    def _without_answer(self, points: Iterable[Numbered]) -> Iterator[Numbered]:
        return (each for each in points if each[0] in self._futures)


def batches_of(executor: Executor | None) -> Batches | None:
    """Return what runs points on the cluster of *executor*, or None if that is not one of Dask."""
    dask = imported("distributed.cfexecutor")
    return Batches(executor) if dask is not None and isinstance(executor, dask.ClientExecutor) else None


def error_of(future: "Future[Any]") -> BaseException | None:
    """Return why *future*, which is done, has no result; None if it has one."""
    return CancelledError() if future.cancelled() else future.exception()
