"""Signals that arrive in the middle of a call: their handlers run behind it.

Python runs the handler of a signal between any two instructions of the main thread. A handler that raises there, as
Ctrl-C does, would leave a verb half done: an operation that is the tail of its stream and stands in no queue. So the
first simulation of a process puts a `_Guard` around each handler that is written in Python, and around those that the
program sets later. A guard looks at the frame that the signal has interrupted:

* In the program's own code, or in that of a library, the handler runs at once.
* In the middle of a call the signal is *held*. Its handler runs where the state is whole: in a wait, between two
  instants of the device, and at the end of the call. It may raise, and it may make calls itself.
* In a function that the device calls, such as a kernel, the signal is held, too. On a card a kernel does not fail when
  the host gets a signal. If the function goes on for `PATIENCE_S` more, the handler runs inside it: it may be a loop
  without an end.

A call costs nothing for this, and so the end of some calls is not noticed. A thread sends the first held signal again
every `REMINDER_S`; the guard takes it as a reminder, and looks again where the main thread is. Code of a debugger, of a
tracer or of `PyThreadState_SetAsyncExc` is not held.

Python in a browser has no threads, and Windows no `pthread_kill`: there all handlers run at once.
"""

import _thread
import asyncio
import os
import signal
import sys
import threading
import time
from asyncio import base_events, events, selector_events
from collections.abc import Callable
from importlib import import_module
from types import CodeType, FrameType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from acl_py.sites import MODEL, PACKAGE, is_installed

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Handler = Callable[[int, FrameType | None], Any]

PATIENCE_S = 1.0  # how long a signal is held inside a function that the device calls
REMINDER_S = 0.005
# The folders of code that does something whole, or not at all, for the user's code that calls it.
_ROOMS = (MODEL, *(f"{PACKAGE}{room}{os.sep}" for room in ("runtime", "verbs", "waiting", "compat")))
# An event loop takes a callback off its queue and then runs it: an exception between the two would lose the callback.
_LOOPS = tuple(module.__file__ for module in (base_events, events, selector_events))


class _Held(NamedTuple):
    """A signal that waits: its handler, and the real time since when."""

    handler: _Handler
    since: float


held: dict[int, _Held] = {}  # by number, in order of arrival: a run of a device ends when it sees this growing
when_held: list[Callable[[], None]] = []  # called for each signal that is held: arrange for `admit`
_reminders: set[int] = set()  # the signals that are on their way as reminders; nothing iterates it


def admit() -> None:
    """Run the handlers of the signals that are held, if this is the main thread. The caller's state is whole.

    What a handler raises comes out; the other signals stay held.
    """
    while held and _is_main():
        number = next(iter(held))
        unguarded(held.pop(number).handler, number, _outside(sys._getframe(1)))


def unguarded(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Return what a *function* of the user returns that is called while the state is whole: in it no signal is held."""
    return function(*args, **kwargs)


# Where the user's code may run inside of ours although no call is under way.
_OUTSIDE: tuple[CodeType, ...] = (unguarded.__code__, asyncio.Handle._run.__code__)

_system: Any = import_module("_signal")  # the functions of `signal` call those of this module
_set_handler, _get_handler = _system.signal, _system.getsignal


def guard() -> None:
    """Hold signals that arrive in calls from now on, if this is the main thread. A second call does nothing."""
    if not hasattr(signal, "pthread_kill") or _system.signal is _set or not _is_main():
        return
    _system.signal, _system.getsignal = _set, _get
    for number in signal.valid_signals():
        handler = _get_handler(number)
        if callable(handler):
            _set_handler(number, _Guard(handler))


def _set(number: int, handler: Any, /) -> Any:
    """Stand for signal.signal()."""
    return _bare(_set_handler(number, _Guard(handler) if callable(handler) else handler))


def _get(number: int, /) -> Any:
    """Stand for signal.getsignal()."""
    return _bare(_get_handler(number))


def _bare(handler: Any) -> Any:
    """Return *handler* as the program knows it."""
    return handler.handler if isinstance(handler, _Guard) else handler


class _Guard:
    """A handler of the program, which runs where no call is under way."""

    __slots__ = ("handler",)

    def __init__(self, handler: _Handler) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if number in _reminders:
            _reminders.discard(number)
            if number in held and (not _is_inside(frame) or (_is_overdue(number) and _is_in_function(frame))):
                admit()
        elif _is_inside(frame):
            _keep(number, self.handler)
        else:
            unguarded(self.handler, number, frame)


def _keep(number: int, handler: _Handler) -> None:
    """Keep a signal for later. As with signals that the system holds, two of one number are one."""
    if number in held:
        return
    held[number] = _Held(handler, time.monotonic())
    for arrange in when_held:
        arrange()
    begun = _thread.allocate_lock()
    begun.acquire()
    try:
        _thread.start_new_thread(_remind, (number, held[number], begun))  # threading.Thread would take locks here
    except RuntimeError:  # no thread begins while Python ends; then the end of the call, or the next wait, must do
        return
    # Until it runs, it has the number of this thread in Python 3.11, and gets what is to be raised in this one.
    begun.acquire()


def _remind(number: int, signal_: _Held, begun: "_thread.LockType") -> None:
    """Send the signal *number* again and again while it is held; say first that this thread has *begun*."""
    begun.release()
    main = threading.main_thread().ident
    assert main is not None, "the main thread runs"
    time.sleep(REMINDER_S)
    while held.get(number) is signal_:
        _reminders.add(number)
        signal.pthread_kill(main, number)
        time.sleep(REMINDER_S)


def _is_overdue(number: int) -> bool:
    return time.monotonic() - held[number].since >= PATIENCE_S


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _is_inside(frame: FrameType | None) -> bool:
    """Whether *frame* is that of a call, or of what a call has called, or of an event loop between two callbacks."""
    if frame is not None and frame.f_code.co_filename in _LOOPS:
        return True
    while frame is not None and frame.f_code not in _OUTSIDE:
        if frame.f_code.co_filename.startswith(_ROOMS):
            return True
        frame = frame.f_back
    return False


def _outside(frame: FrameType | None) -> FrameType | None:
    """Return the nearest frame from *frame* on that is not inside a call."""
    while frame is not None and _is_inside(frame):
        frame = frame.f_back
    return frame


def _is_in_function(frame: FrameType | None) -> bool:
    """Whether *frame* is that of a function that the device calls, and not of a library that the device uses."""
    function = None
    while frame is not None and not frame.f_code.co_filename.startswith(_ROOMS):
        function, frame = frame, frame.f_back
    return function is not None and not is_installed(function.f_code.co_filename)
