"""Hosts: which task makes a call, and what tasks know of one another: which calls of other tasks are over.

A task that wakes another one hands on all that it knows, whether it awaits, creates or gathers it, or uses a future, a
queue, a lock or an event. This goes through `call_soon` of the event loop, which is wrapped while a simulation is
sanitized. The function that the loop then calls is a step of a task, or a callback, which hands on what it was given.
Callbacks of one object, such as a `gather` or a task group that counts the tasks that are done, also hand on what the
callbacks before them were given. If no task sleeps, handovers.py sees what is handed on.

The simulator wakes tasks too, when their work is done. That hands on nothing: the task that lets simulated time pass is
not the one that is waited for. Neither does a timer.

The simulator does not see what threads tell one another. So it takes the calls of all threads other than that of the
event loop as ordered: each call comes after all calls that were made before it. Without an event loop, all threads are
one host.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import Thread, get_ident
from typing import Any
from weakref import WeakKeyDictionary, ref

from acl_py.callers import Callers, Role, current_caller, task_of
from acl_py.order.actors import Host
from acl_py.order.clocks import Point
from acl_py.order.order import Order
from acl_py.sanitizer import handovers
from acl_py.sanitizer.handovers import WatchedFuture, WatchedTask, hands_on, watchers
from acl_py.sites import is_foreign, task_types
from acl_py.waiting.host_queues import put_method
from device_model.observe import Hooks
from device_model.ops import Op

_METHODS = ("call_soon", "call_soon_threadsafe")
_ENDS_LOOP = "run_until_complete"  # part of the name of the callback that ends such a run, in asyncio and in uvloop

THREADS = "what threads tell one another is not seen: their calls count as ordered as they were made"
RECORDED = (
    "what the tasks of a recorded program told one another is not in it: their calls count as ordered as they were made"
)
NO_OWNER = "what some callbacks of the event loop tell one another is not seen"
OTHER_ANYIO = "what tasks find without sleeping is not seen where this version of anyio is not understood"
NO_TASKS = "what the tasks of this event loop tell one another is not seen: their calls count as ordered as they ran"


class Given:
    """What a host knew when it gave it: *point*. *row* is for the recorder."""

    __slots__ = ("point", "row")

    def __init__(self, point: Point) -> None:
        self.point = point
        self.row = -1


Gifts = Sequence[Given]


class Hosts:
    """The hosts of one program.

    *inside* returns the host function that runs at the moment and what it knows, or None. *note* is called with what
    cannot be seen, and *callers* has the names of tasks and threads. *hooks* are called for each new host and each
    handover.
    """

    def __init__(
        self,
        order: Order,
        inside: Callable[[], tuple[Op, Point] | None],
        note: Callable[[str], None],
        callers: Callers,
        hooks: Hooks,
    ) -> None:
        self._order = order
        self._inside = inside
        self._note = note
        self._hooks = hooks
        self._main = order.host()  # the thread of the event loop; all threads if there is none
        self._home = get_ident()
        self._beside: Host | None = None  # all threads beside that of the event loop, once one has made a call
        self._threads: set[Thread] = set()
        self._tasks: WeakKeyDictionary[asyncio.Task[Any], Host] = WeakKeyDictionary()
        self._roles: dict[Role, Host] = {}
        self._ended: list[Host] = []  # of tasks that are gone
        self._ends: dict[ref[asyncio.Task[Any]], Host] = {}
        self._callback: Gifts = ()  # what the callback that runs was given
        self._given: WeakKeyDictionary[Any, dict[int, Given]] = WeakKeyDictionary()  # by what callbacks belong to
        self._left: WeakKeyDictionary[Any, dict[object, dict[int, Given]]] = WeakKeyDictionary()
        self._callers = callers
        self._recorded = False
        self._waker: Point | None = None  # the last host function that woke a task
        self.loop = asyncio._get_running_loop()
        self.latest: object = None  # the last task that called, its thread and its host
        self.thread = -1
        self.host = self._main
        self.are_watched = self.loop is not None and self._watch(self.loop)  # the tasks are hosts of their own

    # --- who calls

    def current(self) -> Host:
        """Return the host that makes the present call."""
        if get_ident() == self.thread and task_of(self.loop) is self.latest:
            return self.host
        caller = current_caller()
        if isinstance(caller, Role):
            host = self._roles.get(caller) or self._role(caller)
        elif isinstance(caller, Thread):
            host = self._of_thread(caller)
        else:
            host = self._tasks.get(caller) or self._task(caller, None)
            if self.loop is not None and self._beside is None:
                self.latest, self.thread, self.host = caller, get_ident(), host
        if self._beside is not None and host is not self._beside:
            self._learn(host, (self._of(self._beside),), is_seen=False)
        if not host.name:
            host.name = self._callers.name(caller)
        if self._hooks.hosted is not None:
            self._hooks.hosted(host.number)
        return host

    def _role(self, role: Role) -> Host:
        """Return the host of a task of a stream program, which knows nothing of others."""
        host = self._roles[role] = self._main if self._recorded else self._order.host()
        return host

    def _of_thread(self, thread: Thread) -> Host:
        is_beside = self.loop is not None and get_ident() != self._home
        if thread not in self._threads:
            self._threads.add(thread)
            if is_beside or len(self._threads) > 1:
                self._note(THREADS)
        if not is_beside:
            return self._main
        if self._beside is None:
            self._beside, self.thread = self._order.host(), -1
            self._order.expect_several_hosts()
        self._learn(self._beside, [self._of(host) for host in self._everybody()], is_seen=False)
        return self._beside

    def _task(self, task: "asyncio.Task[Any]", by: Gifts | None) -> Host:
        """Return a new host for *task*, which was made by a host that knew *by*.

        Without *by*, its maker was not seen: it began before the simulation, or where tasks are not seen. Then it comes
        after everything that other hosts did.
        """
        if self.loop is None or self.loop not in watchers:
            return self._main
        if by is None and not self._tasks:
            host = self._main  # the first one: what it did as a thread was before
        else:
            gifts = [self._of(host) for host in self._everybody()] if by is None else by
            host = self._fresh([each.point for each in gifts])
            self._learn(host, gifts, is_seen=by is not None)
            self._order.expect_several_hosts()
        self._tasks[task] = host
        if host is not self._main:
            self._ends[ref(task, self._end)] = host
        return host

    def _everybody(self) -> list[Host]:
        return [self._main, *self._tasks.values(), *self._roles.values()]

    def _fresh(self, points: Sequence[Point]) -> Host:
        """Return a host; its number is that of one that has ended, if *points* have all that it did."""
        if self._ended:
            old = self._ended[-1]
            if any(point.clock.get(old.number, 0) >= old.count for point in points):
                return self._order.again(self._ended.pop())
        return self._order.host()

    def _end(self, end: "ref[asyncio.Task[Any]]") -> None:
        self._ended.append(self._ends.pop(end))

    def may_wait_for(self, function: Point) -> bool:
        """Whether something may wait for *function*, a host function that has run, by means of Python: it has woken a
        task, or several threads make calls.
        """
        return (
            self._beside is not None
            or len(self._threads) > 1
            or (self._waker is not None and self._waker[:2] == function[:2])
        )

    # --- what they hand on

    def _of(self, host: Host) -> Given:
        """Return what *host* knows, for others."""
        given = Given(host.point())
        if self._hooks.gave is not None:
            self._hooks.gave(given, host.number, None)
        return given

    def _of_function(self, function: Op, point: Point) -> Given:
        """Return what the host *function* that runs knows, for others."""
        given, self._waker = Given(point), point
        if self._hooks.gave is not None:
            self._hooks.gave(given, point.actor, function)
        return given

    def _learn(self, host: Host, gifts: Gifts, *, is_seen: bool = True) -> None:
        """Let *host* know what others gave; if that is not *is_seen*, it is taken for granted that they did."""
        if self._hooks.took is not None:
            for each in gifts:
                self._hooks.took(each, host.number, is_seen)
        self._order.learn(host, [each.point for each in gifts])

    def give(self) -> Gifts:
        """Return what the running code knows, for others."""
        inside = self._inside()
        if inside is not None:
            return (self._of_function(*inside),)
        caller = current_caller()
        if isinstance(caller, Thread) and asyncio._get_running_loop() is self.loop is not None:
            return self._callback
        return (self._of(self.current()),)

    def take(self, gifts: Gifts) -> None:
        """Let the host that makes the present call know what others gave."""
        self._learn(self.current(), gifts)

    def play(self, tasks: int, *, recorded: bool) -> None:
        """Be ready for a stream program with a number of *tasks*, which begin without knowing of each other.

        What the tasks of a *recorded* program told one another was not recorded, so they count as one host.
        """
        self.close()
        self._recorded, self.are_watched = recorded, not recorded
        self._order.has_several_hosts = False
        if tasks > 1 and recorded:
            self._note(RECORDED)
        elif tasks > 1:
            self._order.expect_several_hosts()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Watch what the tasks of *loop* hand on, and return whether that is possible."""
        if loop in watchers:
            watchers[loop].append(self)
            return True
        watching = [self]
        for name in _METHODS:
            try:
                setattr(loop, name, _wrapped(getattr(loop, name), watching))
            except AttributeError:  # a loop that takes no attributes
                self._note(NO_TASKS)
                return False
        loop.create_future = partial(WatchedFuture, loop=loop)  # type: ignore[method-assign]
        if not watchers:
            missing = handovers.watch()
            if missing:
                self._note(f"{OTHER_ANYIO}: {', '.join(missing)}")
        watchers[loop], task_types[loop] = watching, WatchedTask
        return True

    def close(self) -> None:
        """Watch no longer; the last one gives the loop its own methods back."""
        loop, self.loop, self.thread = self.loop, None, -1
        if loop is None or self not in watchers.get(loop, ()):
            return
        watchers[loop].remove(self)
        if not watchers[loop]:
            del watchers[loop], task_types[loop]
            for name in _METHODS:
                put_method(loop, name, getattr(loop, name).__wrapped__)
            del vars(loop)["create_future"]
            if not watchers:
                handovers.end()

    def leave(self, thing: object, item: object = None) -> None:
        """Leave what the running code knows with *thing*, or with this *item* in it."""
        left = self._left.setdefault(thing, {}).setdefault(item, {})
        left.update((each.point.actor, each) for each in self.give())

    def take_up(self, thing: object, item: object = None) -> None:
        """Let the running task know what was left with *thing*, or what it knew at its end if it is a task."""
        if self.loop is None or task_of(self.loop) is None or self._inside() is not None:
            return
        if isinstance(thing, asyncio.Task):
            host = self._tasks.get(thing)
            gifts: Gifts = () if host is None else (self._of(host),)
        else:
            left = self._left.get(thing, {})
            found = left.get(item, {}) if item is None else left.pop(item, {})
            gifts = (*found.values(), *self._given.get(thing, {}).values())
        if gifts:
            self._learn(self.current(), gifts)

    def hand(self, owner: object, callback: Callable[..., object], *args: object) -> Callable[..., object]:
        """Hand on what the running code knows to the task that *callback* is a step of, or to *callback* itself, which
        belongs to *owner*. A callback that gets a task which is done is also handed what that one knew.
        """
        if not args and owner is task_of(self.loop) and self._inside() is None:
            return callback  # the task goes on later, and tells itself nothing new
        gifts = self.give()
        host = self._tasks.get(args[0]) if args and isinstance(args[0], asyncio.Task) else None
        if host is not None:
            gifts = (*gifts, self._of(host))
        if _ENDS_LOOP in getattr(callback, "__qualname__", ""):
            self._learn(self._main, gifts)  # what comes behind the loop's run comes behind the task that it was for
        if isinstance(owner, asyncio.Task):
            host = self._tasks.get(owner)
            if host is None:
                self._task(owner, gifts)
            else:
                self._learn(host, gifts)
            return callback
        return _Handed(self, callback, owner, gifts) if gifts else callback

    def run(self, handed: "_Handed", args: tuple[Any, ...]) -> object:
        """Call a callback that was given something."""
        given = {each.point.actor: each for each in handed.gifts}
        try:
            given = {**self._given.get(handed.owner, {}), **given}
            self._given[handed.owner] = given
        except TypeError:  # an object without weak references, or a hash: its callbacks do not know of each other
            self._note(NO_OWNER)
        before, self._callback = self._callback, tuple(given.values())
        try:
            return handed.callback(*args)
        finally:
            self._callback = before


def _wrapped(call: Callable[..., asyncio.Handle], watching: list[Hosts]) -> Callable[..., asyncio.Handle]:
    def call_soon(callback: Callable[..., object], *args: Any, **options: Any) -> asyncio.Handle:
        if hands_on(sys._getframe(1)):
            owner = _owner(callback)
            for hosts in watching:
                callback = hosts.hand(owner, callback, *args)
        return call(callback, *args, **options)

    vars(call_soon).update(__wrapped__=call, over=lambda other: _wrapped(other, watching))  # for host_queues.py
    return call_soon


def _owner(callback: Callable[..., object]) -> object:
    """Return the object whose method *callback* is, or in whose method a library made it, as anyio's task groups do.

    It is the task if the method goes on with a step of one, as those of asyncio do, and of own_hosts.py.
    """
    code, cells = getattr(callback, "__code__", None), getattr(callback, "__closure__", None)
    if code is not None and cells and "self" in code.co_freevars and is_foreign(code):
        return cells[code.co_freevars.index("self")].cell_contents
    owner = getattr(callback, "__self__", callback)
    return getattr(owner, "task_of_strand", owner)


class _Handed:
    """A callback, what it belongs to, and what it was given."""

    __slots__ = ("_hosts", "callback", "gifts", "owner")

    def __init__(self, hosts: Hosts, callback: Callable[..., object], owner: object, gifts: Gifts) -> None:
        self._hosts = hosts
        self.callback = callback
        self.owner = owner
        self.gifts = gifts

    def __call__(self, *args: Any) -> object:
        return self._hosts.run(self, args)

    def __repr__(self) -> str:
        return repr(self.callback)
