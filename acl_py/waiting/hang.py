"""Whether something outside the simulation can still wake the program.

If nothing can, a wait with nothing scheduled is certainly a hang.

The outside is everything that neither the device nor a task of the program decides: a timer of the loop, a socket, a
pipe, a child process, another thread. Things from before the simulation (the sockets of a notebook's kernel, its
daemon threads and tasks) wake no task of the program. An `Outside` is therefore made when a simulation begins, and
later compares.

Both kinds of mistake have a price, and one is higher. If something harmless counts as outside, the report comes late
and as a warning only. If something outside is missed, a correct program gets an error. So everything that is not
understood counts as outside.
"""

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from contextvars import Context
from typing import Protocol
from weakref import WeakSet

from acl_py.callers import Callers, described, is_given_by_python
from acl_py.waiting.loops import Listening, call_in_real_time, live_timers, shows_all
from acl_py.waiting.tasks import Future, Task, is_blocked, waits_inside
from acl_py.waiting.threads import GRACE_S, Company, Strangers, has_signal_handlers, is_hopeless

# Real seconds between looks while only the outside can help, and until the warning.
LOOK_S = 1.0
HELD_PATIENCE_S = 10.0  # until the warning while a task holds time, because a hold announces a longer wait


_DESCRIPTOR = "a socket, pipe or child process"
_SIGNAL = "a handler of a signal"


class Outside:
    """Everything around a loop when the simulation began. It refers to the loop's tasks weakly."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._listening = Listening(loop)
        self._company = Company()
        self._strangers = Strangers()
        self._tasks = WeakSet(asyncio.all_tasks(loop))

    def could_wake(
        self, loop: asyncio.AbstractEventLoop, waits: Container[Future], own_timer: asyncio.TimerHandle | None
    ) -> list[str]:
        """Return, in words, what could still wake the program; an empty list if nothing can.

        *waits* are the futures of tasks that wait for a device. The caller's *own_timer* and the calling task do not
        count.
        """
        return [
            *live_timers(loop, own_timer),
            *self._new_descriptors(loop),
            *self._company.could_act([threading.current_thread()]),
            *self._tasks_on_their_own(loop, waits),
        ]

    def could_wake_tasks(self, loop: asyncio.AbstractEventLoop, own_timer: asyncio.TimerHandle | None) -> list[str]:
        """Do what `could_wake` does while no task waits for a device: tasks from before the simulation count, too.

        Stricter than that: it is not certain if a signal has a handler.
        """
        words = [
            *live_timers(loop, own_timer),
            *self._new_descriptors(loop),
            *self._company.could_act([threading.current_thread()]),
            *([_SIGNAL] if has_signal_handlers() else []),
        ]
        if not all(waits_inside(task, ()) for task in asyncio.all_tasks(loop)):
            words += self._could_complete_futures(loop)
        return list(dict.fromkeys(words))

    def must_poll(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether *loop* listens to something new, so that it has to poll before it is known what can run."""
        return self._listening.has_grown(loop, signals=False)

    def is_pending(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether a descriptor, a child process or a thread may still act: what a timer in simulated time waits for."""
        return self.must_poll(loop) or self._could_threads_act()

    def _could_threads_act(self) -> bool:
        return not self._company.are_others_idle() and bool(self._company.could_act([threading.current_thread()]))

    def is_shut_for_all(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether tasks of *loop* wait, all of them for one another, and nothing could ever end that.

        Also nothing that was there before the simulation: the loop may be one of others.
        """
        tasks = asyncio.all_tasks(loop)
        return (
            bool(tasks)
            and self._listening.is_empty(loop)
            and not Company(everybody=True).could_act([threading.current_thread()])
            and not any(live_timers(loop, None))
            and not has_signal_handlers()
            and (all(waits_inside(task, ()) for task in tasks) or not any(self._could_complete_futures(loop)))
        )

    def _new_descriptors(self, loop: asyncio.AbstractEventLoop) -> Iterator[str]:
        if self._listening.has_grown(loop):
            yield _DESCRIPTOR

    def _tasks_on_their_own(self, loop: asyncio.AbstractEventLoop, waits: Container[Future]) -> list[str]:
        asking = asyncio.current_task(loop)
        tasks = [
            task
            for task in asyncio.all_tasks(loop)
            if task is not asking and task not in self._tasks and not waits_inside(task, waits)
        ]
        if all(map(is_blocked, tasks)) and not (tasks and any(self._could_complete_futures(loop))):
            return []
        # all_tasks() is a set: no order of its own
        return sorted("a task" if is_given_by_python(task.get_name()) else described(task) for task in tasks)

    def _could_complete_futures(self, loop: asyncio.AbstractEventLoop) -> Iterator[str]:
        """Say in words what, besides timers, could complete a bare future; yield nothing if nothing can."""
        if not shows_all(loop):
            yield "an event loop that does not show all that it listens to"
        elif not self._listening.is_empty(loop):
            yield _DESCRIPTOR
        yield from Company(everybody=True).could_act([threading.current_thread()])
        if self._strangers.could_act():
            yield "a thread that Python does not list"
        if has_signal_handlers():
            yield _SIGNAL


class Waiters(Protocol):
    """The waits of one runtime."""

    @property
    def patience_s(self) -> float:
        """The real seconds that these waits may last while only the outside can end them."""

    def describe(self) -> str:
        """Say what each waiter waits for; "" if there is no need to."""

    def give_up(self, circumstances: str) -> None:
        """End all waits, each with a new error that gets *circumstances* as a note."""


class Vigil:
    """The watch over a simulation in which nothing is scheduled or time is held.

    It reports a hang, or calls *look_again* later.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, look_again: Callable[[], None], context: Context) -> None:
        self._look_again = look_again
        self._context = context
        # The real time since when no task could go on; None again after a call, or when simulated time has passed.
        self.since: float | None = None
        self.was_hopeless = False  # at the last look
        self._warned = False
        self._timer: asyncio.TimerHandle | None = None
        self.begin(loop)

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start with a new simulation: everything around it now was there before it."""
        self.outside = Outside(loop)

    def rest(self) -> None:
        """Cancel the timer, because no task waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_watching(self) -> bool:
        """Whether the next look is already set."""
        return self._timer is not None

    def is_certain(self) -> bool:
        """Whether nothing outside could help at the last look, either; the caller found that nothing can now.

        One look is not enough. A thread may hand a call over and end after the loop was seen empty and before threads
        are counted. uvloop shows that call only as a task, a turn later.
        """
        was_hopeless, self.was_hopeless = self.was_hopeless, True
        return was_hopeless

    def start_again(self) -> None:
        """Note that something has happened."""
        self.since, self.was_hopeless = None, False

    def helpers(self, loop: asyncio.AbstractEventLoop, waits: Container[Future]) -> list[str]:
        """Return, in words, what outside could still wake the program."""
        return self.outside.could_wake(loop, waits, self._timer)

    def helpers_of_tasks(self, loop: asyncio.AbstractEventLoop) -> list[str]:
        """Return, in words, what outside could still wake a program of which no task waits for a device."""
        return self.outside.could_wake_tasks(loop, self._timer)

    def keep(
        self,
        loop: asyncio.AbstractEventLoop,
        waiting: Collection[Waiters],
        holders: Collection[Task | None],
        helpers: list[str],
        look_s: float,
        callers: Callers,
    ) -> None:
        """End the waits that are hopeless or too long; for the others look again in *look_s* seconds at most.
        *callers* has the names of tasks.

        Called when no task could go on. The timer in between avoids a busy loop.
        """
        now = time.monotonic()
        if self.since is None:
            self.since, self._warned = now, False
        stuck_s = now - self.since
        hopeless = is_hopeless(helpers, stuck_s)
        if hopeless and not self.is_certain():
            self._look_again()
            return
        patient = []
        for each in waiting:
            if hopeless or stuck_s >= each.patience_s:
                each.give_up(_circumstances(holders, helpers, callers))
            else:
                patient.append(each)
        if not patient:
            return
        self.rest()
        delay_s = min(look_s if helpers else GRACE_S, *(each.patience_s - stuck_s for each in patient))
        self._timer = call_in_real_time(loop, delay_s, self._come_back, self._context)
        if stuck_s >= (HELD_PATIENCE_S if holders else LOOK_S) and not self._warned:
            self._warned = True
            report = [text for each in patient if (text := each.describe())]
            if report:
                text = "\n".join([*report, _circumstances(holders, helpers, callers)])
                warnings.warn(text, RuntimeWarning, stacklevel=1)

    def _come_back(self) -> None:
        self._timer = None
        self._look_again()


def _circumstances(holders: Iterable[Task | None], helpers: list[str], callers: Callers) -> str:
    """Say what holds simulated time, and what could still end the waits; "" if nothing does."""
    lines = [f"simulated time is held by {'no task' if task is None else callers.name(task)}" for task in holders]
    if helpers:
        lines.append(f"what might still wake it: {', '.join(helpers)}")
    return "\n".join(lines)
