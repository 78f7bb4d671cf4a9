"""Turns: the right to make a call, which one thread has at a time."""

import asyncio
import threading
from contextlib import AbstractContextManager
from typing import Any, Protocol

from acl_py.compat.acl.face.options import SessionOptions
from acl_py.runtime.blocking import BlockingBridge
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Barred, scope_var


class Turn(AbstractContextManager[object], Protocol):
    """The right to make a call, which one thread has at a time; that thread may take it again inside the call."""

    def acquire(self) -> object:
        """Begin a call; waits while another thread makes one."""

    def release(self) -> object:
        """End the call."""

    def _is_owned(self) -> bool:
        """Whether the calling thread is in the middle of a call: a finalizer calls. The name is that of `RLock`."""


class _NoTurn:
    """The turn of a call in the function of a kernel, a model or an operator. Its verb is refused and changes nothing,
    so it waits for no other call.

    Such a function may run in a worker thread. The thread that has the turn waits for its end.
    """

    def acquire(self) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing."""

    def _is_owned(self) -> bool:
        """Return False: the verb is refused, whatever is under way."""
        return False

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


NO_TURN = _NoTurn()


class GuestTurn:
    """The turn inside a simulation: the thread of the event loop drives the device, and the loop stands still."""

    def __init__(self, runtime: Runtime, options: SessionOptions) -> None:
        self._runtime = runtime
        # A kernel may run in a worker thread: then the thread that makes the first call is not known yet.
        self._thread = None if is_barred() else threading.get_ident()
        self._blocking = BlockingBridge(runtime, alone=True)
        self._blocking.on_hang = options.on_hang
        self._usual: list[Any] = []  # bridges to restore, the innermost last

    def acquire(self) -> None:
        """Begin a call."""
        if self._thread is None:
            self._thread = threading.get_ident()
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                "acl was called in a thread that belongs to a simulation of another thread's event loop: "
                "call it from that loop, or outside the simulation"
            )
        self._blocking.lock.acquire()
        self._usual.append(self._runtime.bridge)
        self._runtime.bridge = self._blocking

    def release(self) -> None:
        """End the call."""
        usual = self._runtime.bridge = self._usual.pop()
        self._blocking.lock.release()
        if self._runtime.waiters and asyncio._get_running_loop() is not None:
            usual.arm()  # the call may have completed what other tasks wait for

    def _is_owned(self) -> bool:
        return self._blocking.is_calling()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()


def is_barred() -> bool:
    """Whether the function of a kernel, a model or an operator calls."""
    scope = scope_var.get()
    return scope is not None and isinstance(scope.context, Barred)
