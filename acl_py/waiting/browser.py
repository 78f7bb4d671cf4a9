"""The event loop of Python in a browser (Pyodide, whose platform is Emscripten).

Python has no sockets, threads, child processes and signals there, and nothing of the page reaches it before it returns
to the page. So a loop needs no selector: it runs what is ready, a clock makes timers ready in simulated time, and once
nothing is left, nothing can come.

Pyodide has a loop of its own, which runs callbacks between two returns to the page. It counts as running always, also
while no task of it runs. A `BrowserLoop` sets it aside while it runs itself.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, NoReturn

IN_BROWSER = sys.platform == "emscripten"

# What asyncio's loops offer, by what that needs.
_NEEDS = {
    "threads": ("run_in_executor",),
    "sockets": (
        *("create_connection", "create_server", "create_unix_connection", "create_unix_server", "getaddrinfo"),
        *("create_datagram_endpoint", "connect_accepted_socket", "getnameinfo", "sendfile", "sock_accept"),
        *("sock_connect", "sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall"),
        *("sock_sendfile", "sock_sendto", "start_tls"),
    ),
    "file descriptors to wait for": ("add_reader", "add_writer", "connect_read_pipe", "connect_write_pipe"),
    "child processes": ("subprocess_exec", "subprocess_shell"),
    "signals": ("add_signal_handler",),
}


class _StuckError(Exception):
    """Nothing can run any more: *error* says what waits."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _Nothing:
    """Stands for the selector of a loop that listens to nothing."""

    def __init__(self, deadlock: Callable[[], Exception]) -> None:
        self._deadlock = deadlock

    def select(self, timeout_s: float | None) -> tuple[()]:
        """Wait for the next timer in real time; raise _StuckError if there is none, because nothing else can come."""
        if timeout_s is None:
            raise _StuckError(self._deadlock())
        if timeout_s > 0:
            time.sleep(timeout_s)
        return ()

    def get_map(self) -> Mapping[int, object]:
        """Return the descriptors to which the loop listens: none."""
        return {}


class BrowserLoop(asyncio.BaseEventLoop):
    """A loop of asyncio without a selector. What it cannot do raises RuntimeError with what is missing.

    *deadlock* makes the error for the moment at which all tasks wait, and nothing can come.
    """

    def __init__(self, deadlock: Callable[[], Exception]) -> None:
        super().__init__()
        self._selector = _Nothing(deadlock)

    def run_forever(self) -> None:
        """Run until stop() is called."""
        with page_set_aside():
            super().run_forever()

    def run_until_complete(self, future: Any) -> Any:
        """Run until *future*, or the task of that coroutine, is done, and return its result.

        If nothing can run before that, all tasks are cancelled, and an error says what they waited for.
        """
        with page_set_aside():
            try:
                return super().run_until_complete(future)
            except _StuckError as stuck:
                tasks = asyncio.all_tasks(self)
                for task in tasks:
                    task.cancel()
                with suppress(_StuckError):  # a task that goes on waiting
                    super().run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
                raise stuck.error from None

    def _process_events(self, _: tuple[()]) -> None:
        """Do nothing: the selector reports no events."""

    def _write_to_self(self) -> None:
        """Do nothing: no other thread could wait for the loop to wake."""


def _refuses(name: str, needs: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise RuntimeError(f"{name}() of the event loop needs {needs}, and Python in a browser has none")

    return refuse


for _needs, _names in _NEEDS.items():
    for _name in _names:
        setattr(BrowserLoop, _name, _refuses(_name, _needs))


def hears_nothing(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether nothing from outside can reach the tasks of *loop*."""
    return isinstance(loop, BrowserLoop)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running loop; None if there is none, or only that of the page."""
    loop = asyncio._get_running_loop()
    return None if loop is None or (IN_BROWSER and not hears_nothing(loop)) else loop


def page_set_aside() -> AbstractContextManager[None]:
    """Let the loop of the page not count as running within the block."""
    return set_aside() if running_loop() is None else nullcontext()


@contextmanager
def set_aside() -> Iterator[None]:
    """Let no loop and no task count as running within the block; a running loop stands still meanwhile."""
    running = asyncio._get_running_loop()
    task = None if running is None else asyncio.current_task(running)
    if running is not None and task is not None:  # since Python 3.14 a thread has one running task at most
        asyncio.tasks._leave_task(running, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)
        if running is not None and task is not None:
            asyncio.tasks._enter_task(running, task)
