"""The bridge of hosts that are threads: without an event loop, a thread drives the device until its wait is over.

Every verb is a coroutine that suspends only in its runtime's bridge. With this bridge it never suspends, so `finish`
runs a verb to its end in one step. The blocking faces (the drop-in module, replay) use the same verbs as coroutines.

Several threads share one runtime, with one lock and one host clock. A verb holds the lock from its first line to its
last, so calls take place one after the other, in the order in which the threads make them. A wait drives the device at
once: simulated time does not wait for threads that are busy elsewhere. When nothing is scheduled any more, another
thread has to act; only then the wait releases the lock, and it looks again after every call. If no thread is left that
could act (threads.py), it is a deadlock. The current context and the last error are context variables, so each thread
has its own. Every time is exact for the order of calls; that order, with several threads, is up to the system.

If nothing is scheduled on a device and another thread could act, two things take real time:

* The time limit of a wait. Without it, a thread that polls for callbacks would let years of simulated time pass.
* A query that answers "not yet".

A thread that waits for callbacks, one that asks `rest` and is not the main thread, is no part of the program's time. If
nothing but such waits is scheduled, their limits end in real time and the clock stays. Such a thread drives the device
only if no other thread makes calls. While it is at a callback, the others drive it no further, and their waits do not
end, for `_TURN_S` at most. So the order of calls does not depend on how fast the system wakes a thread. Time in which a
thread gets no processor does not count (`Fair`).

A thread that only polls, with queries or with waits that have a limit, wakes no other thread. After ten thousand such
calls in a row, with all other threads blocked, their waits are a deadlock. The thread may poll until a time on the wall
clock, so these calls must have taken some seconds, too.
"""

import threading
import time
import warnings
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from functools import partial
from math import inf
from typing import Any, TypeVar

from acl_py.errors import DeadlockError, Kind
from acl_py.runtime.runtime import Limited, Runtime
from acl_py.runtime.scopes import SUCCESS, ThreadScope, last_error, scope_var
from acl_py.waiting.browser import running_loop
from acl_py.waiting.deadlocks import Waiting
from acl_py.waiting.interrupts import admit, guard, held, unguarded
from acl_py.waiting.loops import outside_of
from acl_py.waiting.threads import GRACE_S, Company, Fair, Thread, is_hopeless
from device_model.completions import Completion, FirstOf, Nanoseconds
from device_model.contexts import Context
from device_model.scheduler import check_clock

_T = TypeVar("_T")
_INSTANTS = 1 << 62  # no limit
_POLL_LIMIT = 10_000  # queries in a row that were answered "not yet", or limits that ran out, with nothing scheduled
_POLL_S = 6.0  # real seconds that they must have taken: programs that give up by the clock do so sooner
_NAP_S = 0.001  # after such a query
_NO_LOCK = nullcontext()
# Real seconds in which no thread lacks a processor: how long threads wait for one that is at a callback, if it does not
# wait for a device itself; and how long no call is a pause.
_TURN_S, _PAUSE_S = 0.3, 0.05
_WARN_S = 10.0  # other threads may take their time


class _Waiter:
    """A thread whose wait only a call of another thread can end."""

    __slots__ = ("completion", "error", "since", "thread", "warned")

    def __init__(self, completion: Completion) -> None:
        self.completion = completion
        self.thread = threading.current_thread()
        self.since = time.monotonic()
        self.warned = False
        self.error: Exception | None = None  # set when its wait can never end

    @property
    def is_blocked(self) -> bool:
        """Whether it has neither an error to raise nor a completion that is done."""
        return self.error is None and not self.completion.done


class BlockingBridge:
    """A bridge (see bridge.py) for hosts that are threads; *alone*, the calling thread is known to be the only one."""

    def __init__(self, runtime: Runtime, *, alone: bool = False) -> None:
        self.runtime = runtime
        self.lock = threading.RLock()
        self.on_hang: Callable[[DeadlockError], None] | None = None  # called with each hang before a thread raises it
        # What calls made due: by a thread, which does it at the end of its call, without the lock. Faces see to that.
        self.after_call: list[tuple[int, Callable[[], object]]] = []
        self.polling_s = _POLL_S  # real seconds that queries, or waits that run out, must have taken in vain
        self._calls = threading.Condition(self.lock)  # notified at each call
        self._company = None if alone else Company()
        self._waiters: dict[_Waiter, None] = {}  # in order of arrival
        self._holders: list[Thread] = []
        self._called_s = 0.0  # when a thread last called while others waited
        self._fruitless = 0  # queries in a row
        self._polling_since = 0.0
        self._warned_of_polls = False
        self._ran_out = 0  # waits whose limit ran out, in a row
        self._running_out_since = 0.0
        self._ran_out_at = 0  # how much had been scheduled then
        self._resting: dict[Completion, Completion | None] = {}  # the waits of threads for callbacks, by their limits
        self._fair = Fair()
        self._at_callback: dict[Thread, float] = {}  # the threads at a callback, or on their way to it, and since when

    def __repr__(self) -> str:
        return f"<BlockingBridge waiting={len(self._waiters)} held={len(self._holders)}>"

    def admit(self) -> None:
        """Count the calling thread among those that make calls."""
        guard()
        if self._company is not None:
            self._company.admit(threading.current_thread())

    def is_calling(self) -> bool:
        """Whether the calling thread is in the middle of a call."""
        lock: Any = self.lock
        return bool(lock._is_owned())

    def close(self) -> None:
        """Wake the threads that wait, since the runtime has ended. Hold the lock if other threads may call."""
        with self.lock:
            self._calls.notify_all()

    def reach(self, cost: Nanoseconds) -> Nanoseconds:
        """Return the host time after a call of *cost*, which is at the horizon of `Runtime` or beyond."""
        host_ns = self.runtime.host_ns + cost
        check_clock(host_ns)
        return host_ns

    def arm(self) -> None:
        """Let waiting threads look again when the call that is being made is over."""
        self._called_s = time.monotonic()
        self._calls.notify_all()
        if self._at_callback or (self._resting and self._is_at_callback()):
            self.after_call.append((threading.get_ident(), self._let_callbacks_end))  # another thread goes first

    def expect(self, number: int) -> None:
        """Note that the thread with this number has a stream now: it will wait for callbacks."""
        thread = next((each for each in threading.enumerate() if each.ident == number), None)
        if self._company is not None and thread is not None and thread is not threading.current_thread():
            self._at_callback[thread] = time.monotonic()
            self.after_call.append((threading.get_ident(), self._let_callbacks_end))

    async def wait(self, completion: Completion, waiting: Callable[[], Waiting]) -> None:
        """Run the device until *completion* is done; wait for other threads once nothing is scheduled. *waiting* makes
        the record of the wait, if it is needed.

        Raises what `Runtime.deadlock` makes if nothing can ever complete it.
        """
        if self._holders and threading.current_thread() in self._holders:
            raise RuntimeError(
                "a wait for the device inside HostThread(), where no simulated time passes: wait after it"
            )
        if self._run(completion):
            self._let_callbacks_end()
            self._look_at_limit(completion, waiting)
            return
        waiter = _Waiter(completion)
        self._waiters[waiter] = None
        self.runtime.waiters[waiter] = waiting()
        try:
            while not self._run(completion):
                self._look(waiter)
                if waiter.error is not None:
                    raise waiter.error
                self._calls.wait(self._nap_s())
        finally:
            del self._waiters[waiter], self.runtime.waiters[waiter]
        self._let_callbacks_end()
        self._look_at_limit(completion, waiting)

    async def rest(self, limit_ns: Nanoseconds | None, due: Completion, what: str, site: object) -> None:
        """Wait until *due*, a callback, for *limit_ns* at most, in a thread that does nothing but run callbacks:
        what it waits in vain takes no time of the program's.
        """
        runtime, thread, since = self.runtime, threading.current_thread(), self.runtime.host_ns
        self._at_callback.pop(thread, None)
        self._calls.notify_all()  # the others may go on
        until = due if limit_ns is None else Limited(runtime, due, limit_ns)
        self._resting[until] = until.timer if isinstance(until, Limited) else None
        try:
            await self.wait(until, partial(Waiting, runtime.callers, what, until, site))
        finally:
            del self._resting[until]
            if isinstance(until, Limited):
                until.end()
            runtime.skip_real_time()
            self._at_callback[thread] = time.monotonic()
        if due.done:
            runtime.end_wait(due, since)
            runtime.pay(runtime.costs.wake)

    async def breathe(self) -> None:
        """Do nothing: other threads run by themselves."""

    def forgive_polls(self) -> None:
        """Note that a thread has read the clock: a loop of polls may end by it, so they begin to count again."""
        self._fruitless = self._ran_out = 0

    def poll_succeeded(self) -> None:
        """Note that a query was answered "done"."""
        self._fruitless = 0

    def poll_failed(self, waiting: Any = None) -> None:
        """Note that a query was answered "not yet"; raise if no later query can be answered otherwise.

        While something is scheduled, one can: queries cost host time, so a polling loop moves time on by itself.
        """
        if not self.runtime.scheduler.is_empty:
            self._fruitless = 0
            return
        self._fruitless += 1
        now = time.monotonic()
        if self._fruitless == 1:
            self._polling_since, self._warned_of_polls = now, False
        polled_s = now - self._polling_since
        helpers = [*self._helpers(), *self._outside()]
        if helpers and polled_s < self._patience_s:
            if polled_s >= _WARN_S and not self._warned_of_polls:
                self._warned_of_polls = True
                what = f'{waiting} answers "not yet" again and again, and nothing is scheduled on a device'
                warnings.warn(f"{what}\n{_hope(helpers)}", RuntimeWarning, stacklevel=1)
            self._calls.wait(_NAP_S)
        elif self._fruitless >= _POLL_LIMIT and polled_s >= self._polling_patience_s:
            self._fruitless = 0
            if not self.runtime.end_hangs():
                raise self._tell(self.runtime.deadlock(waiting))

    async def in_thread(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Run *function* here, while simulated time stands still and other threads may call."""
        self._holders.append(threading.current_thread())
        try:
            with _Unlocked(self.lock):
                return unguarded(function, *args, **kwargs)
        finally:
            self._holders.remove(threading.current_thread())

    # --- what a wait does

    def _run(self, completion: Completion) -> bool:
        runtime, scheduler = self.runtime, self.runtime.scheduler
        try:
            while True:
                if held:
                    self._admit_signals()
                if not (runtime.limits or self._holders or self._at_callback or self._resting):
                    if scheduler.run_until(completion, _INSTANTS, inf, held) or scheduler.is_empty:
                        break
                elif completion.done or self._must_stop(completion):
                    break
                elif not self._end_rest():
                    scheduler.run_until(completion, 1)
        finally:
            if scheduler.now > runtime.host_ns:
                runtime.host_ns = scheduler.now
                if self._waiters:  # the device may have completed what they wait for
                    self._calls.notify_all()
        return completion.done

    def _admit_signals(self) -> None:
        """Run the handlers of signals that are held, with the lock free: a handler may make calls.

        The main thread may be waiting for the lock; then its call, which holds them, goes first.
        """
        with _Unlocked(self.lock):
            admit()
            if held:
                time.sleep(_NAP_S)

    def _must_stop(self, completion: Completion) -> bool:
        """Whether the wait for *completion* must stop driving the device. It must if nothing is scheduled, time is
        held, or another thread is at a callback or makes calls. It also must if only time limits are scheduled and
        another thread could act before they are over.
        """
        limits, scheduler = self.runtime.limits, self.runtime.scheduler
        if self._holders or scheduler.is_empty:
            return True
        if completion in self._resting:
            if self._fair.elapsed(self._called_s) < _PAUSE_S and self._helpers():
                return True
        elif self._is_at_callback():
            return True
        if not limits or not self._only_limits():
            return False
        return time.monotonic() < limits[next(scheduler.subjects())] and bool(self._helpers())

    def _end_rest(self) -> bool:
        """End the first wait for callbacks, at the time that it is, if nothing else is scheduled."""
        scheduler = self.runtime.scheduler
        timers = self._resting.values()
        if not timers or not all(subject in timers for subject in scheduler.subjects()):
            return False
        timer = next(scheduler.subjects())
        scheduler.cancel(timer)
        timer.complete(scheduler.now)
        scheduler.settle()
        return True

    def _is_at_callback(self) -> bool:
        """Whether another thread is at a callback, or on its way to one or from one, and has been for a short time."""
        now, here = time.monotonic(), threading.current_thread()
        for waiter in self._waiters:
            if waiter.completion in self._resting and waiter.completion.done:
                self._at_callback.setdefault(waiter.thread, now)
        waiting = [waiter.thread for waiter in self._waiters]
        late = [
            each
            for each, since in self._at_callback.items()
            if (self._fair.elapsed(since) >= _TURN_S and each not in waiting) or not each.is_alive()
        ]
        for thread in late:
            del self._at_callback[thread]
        return any(thread is not here for thread in self._at_callback)

    def _let_callbacks_end(self) -> None:
        """Wait, for a short time, until the threads that run callbacks wait for the next ones."""
        if not (self._resting or self._at_callback):
            return
        if threading.current_thread() in self._at_callback:  # it was in a call, which may have taken long
            self._at_callback[threading.current_thread()] = time.monotonic()
            return
        with self.lock:
            while self._is_at_callback():
                self._calls.wait(_NAP_S)

    def _nap_s(self) -> float:
        """Return the real seconds until a waiting thread looks again: up to the first limit, if there are limits."""
        if self._at_callback:
            return _NAP_S
        if self._resting and not self.runtime.scheduler.is_empty:
            return _PAUSE_S
        first = min(self.runtime.limits.values(), default=inf)
        return min(GRACE_S, max(_NAP_S, first - time.monotonic()))

    def _look(self, waiter: _Waiter) -> None:
        """Give all waiting threads an error if their waits can never end."""
        runtime = self.runtime
        if runtime.closed is not None:
            waiter.error = runtime.error(Kind.FINALIZED, runtime.closed, "end the threads before their runtime ends")
            return
        if not (self._holders or (runtime.scheduler.is_empty and not runtime.limits)):
            return  # what is scheduled, or a time limit of some thread, will end a wait
        if self._is_at_callback():
            return  # it has a short time to come back
        helpers = self._helpers()
        stuck_s = time.monotonic() - max(waiter.since, self._called_s)
        if self._company is None or is_hopeless(helpers, stuck_s) or stuck_s >= self._patience_s:
            self._give_up(_hope(helpers) if helpers else "")
        elif stuck_s >= _WARN_S and not waiter.warned:
            waiter.warned = True
            warnings.warn(f"{runtime.describe_hang()}\n{_hope(helpers)}", RuntimeWarning, stacklevel=1)

    def _look_at_limit(self, completion: Completion, waiting: Callable[[], Waiting]) -> None:
        """Check, after a wait, whether its limit ran out again and again and no other thread can ever be woken."""
        if (
            not self.runtime.limits
            or not isinstance(completion, FirstOf)
            or completion.first not in self.runtime.limits
        ):
            self._ran_out = 0
            return
        scheduled, before = self.runtime.scheduler.sequence, self._ran_out_at
        self._ran_out_at = scheduled
        # The program stands still if only this limit was scheduled meanwhile, and only limits are scheduled now.
        if scheduled > before + 1 or not self._only_limits():
            self._ran_out = 0
            return
        self._ran_out += 1
        now = time.monotonic()
        if self._ran_out == 1:
            self._running_out_since = now
        if self._ran_out < _POLL_LIMIT or now - self._running_out_since < self._polling_patience_s:
            return
        self._ran_out = 0
        if not self._helpers():
            note = f"meanwhile {waiting()} has run out, again and again: more than {_POLL_LIMIT:,} such waits in a row"
            self._give_up(note)
            error = self.runtime.deadlock(waiting)
            error.add_note(note)
            raise self._tell(error)

    def _only_limits(self) -> bool:
        return all(subject in self.runtime.limits for subject in self.runtime.scheduler.subjects())

    def _give_up(self, note: str) -> None:
        """Give each waiting thread a new error, with *note*; if kernels wait for what never happens, end only those."""
        if self.runtime.end_hangs():
            self._calls.notify_all()
            return
        blocked = [waiter for waiter in self._waiters if waiter.is_blocked]
        for waiter in blocked:
            error = self.runtime.deadlock(self.runtime.waiters[waiter])
            if note:
                error.add_note(note)
            waiter.error = self._tell(error)
        self._calls.notify_all()

    def _tell(self, error: DeadlockError) -> DeadlockError:
        if self.on_hang is not None:
            self.on_hang(error)
        return error

    def _helpers(self) -> list[str]:
        """Name the threads that could act while the calling thread cannot."""
        if self._company is None:
            return []
        limits = self.runtime.limits
        blocked = [
            waiter.thread
            for waiter in self._waiters
            if waiter.is_blocked and waiter.completion not in limits  # a thread that only sleeps acts afterwards
        ]
        return self._company.could_act([threading.current_thread(), *blocked])

    def _outside(self) -> list[str]:
        """Name what could happen in an event loop between two queries of one of its tasks."""
        loop = None if self._company is None else running_loop()
        return [] if loop is None else list(outside_of(loop))

    @property
    def _patience_s(self) -> float:
        return inf if self.runtime.hang_after is None else self.runtime.hang_after

    @property
    def _polling_patience_s(self) -> float:
        return min(self.polling_s, self._patience_s)


class _Unlocked:
    """Releases *lock* for a block, however often the calling thread has taken it."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._state = self._lock._release_save()

    def __exit__(self, *_: object) -> None:
        self._lock._acquire_restore(self._state)


def _hope(helpers: list[str]) -> str:
    return f"what might still wake it: {', '.join(helpers)}"


def take_part(runtime: Runtime, context: Context | None = None) -> None:
    """Let the calling thread use *runtime*: *context*, by default the primary one of device 0, is current in it, and
    it has had no error yet.
    """
    bridge = runtime.bridge
    assert isinstance(bridge, BlockingBridge), f"{runtime!r} is one of an event loop"
    bridge.admit()
    with bridge.lock:
        scope_var.set(ThreadScope(runtime, runtime.device(0).primary if context is None else context))
    last_error.set(SUCCESS)


def finish(verb: Coroutine[Any, Any, _T]) -> _T:
    """Run *verb*, on a runtime with a `BlockingBridge`, to its end."""
    scope = scope_var.get()
    bridge = None if scope is None else scope.runtime.bridge
    with bridge.lock if isinstance(bridge, BlockingBridge) else _NO_LOCK:
        try:
            verb.send(None)
        except StopIteration as end:
            result: _T = end.value
            return result
    verb.close()
    raise RuntimeError("a verb of a blocking runtime suspended: it belongs to a simulation in an event loop")
