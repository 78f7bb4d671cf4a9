"""Order: which accesses to shared memory a thread knows to be over.

Each block has a clock that goes up at each barrier, arrival and commit; an access is stamped with it. A *source* is a
thread (0 to n - 1), or the copies of a thread (n to 2n - 1), which run on their own until their thread waits for them.

A thread knows an access if

* it made the access itself,
* a barrier of the whole block came after the access: one number, the *floor*, says it for all threads,
* it is a copy of its own that it has waited for (`completed`),
* it is a copy, its thread had waited for it, and a barrier of the whole block came after that (`shown`), or
* it learned of the access at a barrier of some threads, such as syncwarp or an mbarrier (`known`, made at the first).

So blocks that only use syncthreads, which are most, need no table of threads by threads.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np

from device_model.sm.names import Bools, Ints

P = ParamSpec("P")
R = TypeVar("R")
Log: TypeAlias = Callable[[Callable[..., object], tuple[Any, ...]], object]


def _logged(method: Callable[Concatenate["Order", P], R]) -> Callable[Concatenate["Order", P], R]:
    """Let the log know of each call of *method*, which changes what threads know."""

    @wraps(method)
    def call(self: "Order", /, *args: P.args, **options: P.kwargs) -> R:
        if self.log is not None:
            self.log(method, args)
        return method(self, *args, **options)

    return call


class Order:
    """What the threads of one block know about each other's accesses.

    *log* is told of each call that changes it: the method and its arguments.
    """

    __slots__ = (
        "_counts",
        "_known",
        "_thresholds",
        "completed",
        "floor",
        "floor_with_copies",
        "handed",
        "last_copy",
        "last_copy_site",
        "log",
        "now",
        "roles_since",
        "shown",
        "threads",
    )

    def __init__(self, threads: int, log: Log | None = None) -> None:
        self.threads = threads
        self.log = log
        self.now = 1
        self.roles_since = 0  # what comes later belongs to roles, if there are any
        self.floor = 0  # all threads know what threads did before
        self.floor_with_copies = 0  # all threads know what threads and copies did before
        self.completed = np.zeros(threads, np.int64)  # by thread: it knows that its copies before are done
        self.shown = np.zeros(threads, np.int64)  # by thread: all threads know that its copies before are done
        self.last_copy = np.zeros(threads, np.int64)  # by thread: the stamp of its last copy, if it has to wait for it
        self.last_copy_site = np.zeros(threads, np.int64)
        self.handed = np.zeros(threads, np.int64)  # by thread: an mbarrier waits for its copies before
        self._known: Ints | None = None  # [thread, source]: the stamp up to which it knows the accesses of the source
        # Groups: [number, thread] is the stamp before which the copies of the group were issued.
        self._thresholds: Ints = np.zeros((8, threads), np.int64)
        self._counts = np.zeros(threads, np.int64)

    def tick(self) -> int:
        """Let accesses from here on be later than all so far; return the new stamp."""
        self.now += 1
        return self.now

    @_logged
    def begin_roles(self) -> None:
        """Let accesses from here on be those of roles."""
        self.roles_since = self.tick()

    # Copies

    @_logged
    def start_copies(self, threads: Ints, site: int) -> None:
        """Let each of *threads* have a copy that it has not waited for, from line *site*."""
        self.last_copy[threads] = self.now
        self.last_copy_site[threads] = site

    @_logged
    def commit(self, threads: Ints) -> None:
        """Make a group of the copies that each of *threads* has issued since its last one."""
        now = self.tick()
        if self._counts.max(initial=0) == len(self._thresholds):
            self._thresholds = np.concatenate([self._thresholds, np.zeros_like(self._thresholds)])
        self._thresholds[self._counts[threads], threads] = now
        self._counts[threads] += 1

    @_logged
    def wait_group(self, threads: Ints, pending: int) -> None:
        """Let each of *threads* wait until at most *pending* of its groups are not done."""
        done = self._counts[threads] - pending
        waiting = threads[done > 0]
        thresholds = self._thresholds[done[done > 0] - 1, waiting]
        self.completed[waiting] = np.maximum(self.completed[waiting], thresholds)

    @_logged
    def wait_all(self, threads: Ints) -> None:
        """Let each of *threads* wait for all of its copies, in groups or not."""
        self.completed[threads] = self.tick()

    @_logged
    def hand_over(self, threads: Ints) -> Ints:
        """Return knowledge that all copies of *threads* so far are done; an mbarrier, not they, waits for them."""
        known = np.zeros(2 * self.threads, np.int64)
        known[self.threads + threads] = self.tick()
        self.last_copy[threads] = 0
        self.handed[threads] = self.now
        return known

    def committed(self, thread: int) -> int:
        """Return the stamp before which all copies of *thread* are in a group."""
        count = self._counts[thread]
        return int(self._thresholds[count - 1, thread]) if count else 0

    # Barriers

    @_logged
    def barrier(self) -> None:
        """Let all threads of the block know what each of them knows and did."""
        self.floor = self.tick()
        is_idle = ((self.last_copy == 0) | (self.last_copy < self.completed)) & (self.handed == 0)
        self.shown = np.where(is_idle, self.floor, self.completed)  # a thread without pending copies has none before
        self.floor_with_copies = min(self.floor, int(self.shown.min()))
        if self._known is not None:
            self._known[:] = self._known.max(axis=0)

    @_logged
    def tell(self, threads: Ints) -> Ints:
        """Return what *threads* know and did so far, by source; what they do from here on comes later."""
        known: Ints = self._table()[threads].max(axis=0)
        now = self.tick()
        known[threads] = now
        copies = self.threads + threads
        known[copies] = np.maximum(known[copies], self.completed[threads])
        return known

    @_logged
    def learn(self, threads: Ints, known: Ints) -> None:
        """Let *threads* know what others have told."""
        table = self._table()
        table[threads] = np.maximum(table[threads], known)

    def join(self, threads: Ints) -> None:
        """Let all of *threads* know what each of them knows and did."""
        self.learn(threads, self.tell(threads))

    def _table(self) -> Ints:
        if self._known is None:
            self._known = np.zeros((self.threads, 2 * self.threads), np.int64)
        return self._known

    # Questions

    def knows(self, threads: Ints, sources: Ints, stamps: Ints) -> Bools:
        """Return for each access, of a *source* with a *stamp*, whether the thread beside it knows that it is over."""
        copies = sources >= self.threads
        makers = np.where(copies, sources - self.threads, sources)
        own = makers == threads
        if copies.any():
            known: Bools = np.where(
                copies,
                (stamps < self.shown[makers]) | (own & (stamps < self.completed[makers])),
                own | (stamps < self.floor),
            )
        else:
            known = own | (stamps < self.floor)
        if self._known is not None:
            known |= stamps < self._known[threads, sources]
        return known
