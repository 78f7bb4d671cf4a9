"""The pool that runs the bodies of operations in threads, without a trace of that in any result.

A body takes effect at the simulated end of its operation, and ends are processed in order. A large body may run in a
thread while the simulation goes on. Before another body runs, these bodies in flight are joined:

* those that share bytes with it, if one of the two writes them;
* those that ended before it started, in simulated time, because it may have been ordered after them;
* those that ended before one of these, so that failures are found in the order of the operations.

All bodies are joined before control returns to the host. Bodies that neither share bytes nor are ordered cannot tell
which of them ran first. So the result of a program is the same for every number of workers. A failure keeps the same
bodies from running, too: a body that started after the failure is not decided on before the failed one is joined.

To hand a body to a thread costs about 50 us, so small bodies run in the thread of the simulation.
"""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from device_model.errors import DeviceError
from device_model.memory import Allocation
from device_model.ops import Op
from device_model.scheduler import Scheduler
from device_model.work import Extent, Work

HAS_THREADS = sys.platform != "emscripten"  # Python in a browser has none
INLINE_BYTES = 4 << 20  # smaller bodies are not worth a hand-over (see the head of this file)


def default_workers() -> int:
    """Return the number of processors that this process may use."""
    if not HAS_THREADS:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Runs bodies, at most *count* at once. A body that raises makes its operation fail when it is joined."""

    __slots__ = ("_pool", "_scheduler", "count", "flying")
    inline_bytes = INLINE_BYTES  # while no body is in flight, the device itself runs smaller ones

    def __init__(self, scheduler: Scheduler, count: int | None = None) -> None:
        self._scheduler = scheduler
        self.count = default_workers() if count is None else count
        if self.count < 1:
            raise ValueError(f"workers must be 1 or more, not {count}")
        if not HAS_THREADS:
            self.count = 1
        self._pool: ThreadPoolExecutor | None = None
        self.flying: list[tuple[Op, Future[DeviceError | None]]] = []

    def run(self, op: Op) -> None:
        """Run the body of *op*, now or in a thread. `join_all` runs before a host could tell the difference."""
        if self.flying:
            self._join_before(op)
            context = op.stream.context
            if context.error is not None and op.start_ns >= context.failed_ns:  # one of those joined just now failed
                op.error = context.error
                return
        if self.count == 1 or op.nbytes < INLINE_BYTES or op.work.alone:
            error = perform(op)
            if error is not None:
                self.join_all()  # one in flight that ended earlier may have failed too, and counts first
            note_failure(op, error)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="acl_py-worker")
        if len(self.flying) >= self.count:
            self._join()
        self.flying.append((op, self._pool.submit(perform, op)))
        self._scheduler.before_return = self.join_all

    def prepare(self, op: Op) -> None:  # noqa: ARG002 - it may read anything
        """Bring memory to where *op* finds it, which runs now although it has not ended."""
        if self.flying:
            self.join_all()

    def flush(self, allocation: Allocation | None = None) -> None:  # noqa: ARG002 - few are in flight
        """Let all operations that have ended have their effect on *allocation*; None: on all memory."""
        self.join_all()

    def join_all(self) -> None:
        """Wait for all bodies in flight, in the order of their operations."""
        while self.flying:
            self._join()
        self._scheduler.before_return = None

    def close(self) -> None:
        """Wait for all bodies in flight and end the threads."""
        self.join_all()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _join(self) -> None:
        op, future = self.flying[0]
        try:
            error = future.result()
        except KeyboardInterrupt as interrupt:  # the body goes on in its thread, so wait for it all the same
            self._scheduler.raise_later(interrupt)
            error = future.result()
        self.flying.pop(0)
        note_failure(op, error)

    def _join_before(self, op: Op) -> None:
        if op.work.alone:
            self.join_all()
            return
        flying = self.flying
        for last in reversed(range(len(flying))):
            other = flying[last][0]
            if other.end_ns <= op.start_ns or share(op.work, other.work):
                for _ in range(last + 1):
                    self._join()
                return


def share(one: Work, other: Work) -> bool:
    """Whether *one* writes bytes that *other* touches, or touches bytes that *other* writes."""
    return (
        overlap(one.writes(), other.writes())
        or overlap(one.writes(), other.reads())
        or overlap(one.reads(), other.writes())
    )


def overlap(these: Sequence[Extent], those: Sequence[Extent]) -> bool:
    """Whether an extent of *these* and one of *those* have bytes in common."""
    return any(
        a.address + start < b.address + b_stop and b.address + b_start < a.address + stop
        for a, start, stop in these
        for b, b_start, b_stop in those
    )


def perform(op: Op) -> DeviceError | None:
    """Run the body of *op*, and return how it has failed."""
    try:
        op.work.perform()
    except BaseException as error:
        return op.work.failure(error)
    return None


def note_failure(op: Op, error: DeviceError | None) -> None:
    """Mark *op* as failed if its body has failed with *error*."""
    if error is not None:
        op.stream.context.mark_failed(op, error)
