"""The driver of one simulation: what its calls share, and the current context of each thread.

Calls go to the session of the process, the same one that calls of the module `acl` use, or to the simulation of the
native API in which the thread is. Each thread has a stack of contexts of its own. During a call that is the scope in
which verbs run; after it the caller has its own scope back.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context as ContextVariables
from typing import Any

from acl_py.compat.acl.face import session as sessions
from acl_py.compat.acl.face.session import OwnSession, Session
from acl_py.compat.cuda.face.codes import INVALID_CONTEXT, NOT_PERMITTED, RefusedError
from acl_py.compat.cuda.face.handles import Handles
from acl_py.compat.cuda.face.names import Names
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Barred, Scope, ThreadScope, opened, scope_var
from acl_py.verbs.streams import LEGACY_STREAM, PER_THREAD_STREAM, StreamLike
from device_model.contexts import Context
from device_model.memory import Buffer
from device_model.streams import Stream

_PER_THREAD = 2  # the handle of the default stream of the thread
CARD, RULES = "h200", "cuda"  # where no option says otherwise


class Thread:
    """The contexts of one thread: that of *scope* is current, and *below* are those that it comes back to.

    Its calls are run with variables of their own, in which *scope* is that of the verbs.
    """

    __slots__ = ("below", "driver", "nowhere", "outer", "pending", "run", "runtime", "scope", "session", "turn")

    def __init__(self, driver: "Driver") -> None:
        self.nowhere = driver.nowhere
        self.driver, self.session, self.runtime = driver, driver.session, driver.runtime
        self.turn, self.pending = driver.session.turn, driver.session.pending  # those of the session
        self.scope = ThreadScope(driver.runtime, driver.nowhere)
        self.below: list[Context] = []
        self.outer: Scope | None = None  # that of the call which found that the thread comes here
        variables = ContextVariables()
        variables.run(scope_var.set, self.scope)
        self.run = variables.run
        driver.join()

    @property
    def context(self) -> Context:
        """The current context.

        Raises:
            RefusedError: There is none, or the device calls: a host function must not call the driver.
        """
        context: Context | Barred = self.scope.context
        if isinstance(context, Barred):
            raise RefusedError(NOT_PERMITTED, f"a call inside {context.who!r}")
        if context is self.nowhere:
            raise RefusedError(
                INVALID_CONTEXT, "no context is current in this thread: call cuCtxSetCurrent() in it first"
            )
        return context

    @property
    def has_context(self) -> bool:
        """Whether a context is current."""
        return self.scope.context is not self.nowhere

    @contextmanager
    def inside(self, context: Context) -> Iterator[None]:
        """Make a call in *context*, whichever is current."""
        before, self.scope.context = self.scope.context, context
        try:
            yield
        finally:
            self.scope.context = before

    def anywhere(self) -> AbstractContextManager[None]:
        """Make a call that needs no context of its own: without a current one it is made in that of device 0."""
        return nullcontext() if self.has_context else self.inside(self.scope.runtime.device(0).primary)

    def push(self) -> None:
        """Keep the current context, if there is one, below the one that comes next."""
        if self.has_context:
            self.below.append(self.context)

    def pop(self) -> None:
        """Go back to the context below the current one."""
        self.scope.context = self.below.pop() if self.below else self.nowhere


class _Threads(threading.local):
    """What a driver knows of the calling thread."""

    def __init__(self, driver: "Driver") -> None:
        self.mine = Thread(driver)


class Driver:
    """What the calls on one runtime share."""

    def __init__(self, session: Session) -> None:
        self.session = session
        session.words = "cu"
        self.runtime: Runtime = session.runtime
        self.nowhere = sessions.nowhere(session.runtime, "call cuCtxSetCurrent() in it first")
        self.handles = Handles()
        self.names = Names()
        self.tables = self.handles.tables
        # Of copies between living allocations: by both addresses, and bytes.
        self.ends: dict[tuple[int, ...], tuple[Buffer, Buffer]] = session.runtime.memory.known
        self._threads = _Threads(self)
        self.retained: dict[int, int] = {}  # how often the primary context of each device was retained
        self.lost: dict[int, int] = {}  # the code with which the primary context of a device was lost
        self.physicals: dict[Any, Any] = {}  # memory that is mapped by the program, and who holds it
        self.visible: int | None = None  # how many devices the program sees, from the first cuInit() on
        self.notes: dict[Any, Any] = {}  # settings without an effect here, for programs to read back

    def __repr__(self) -> str:
        return f"<Driver of {self.runtime!r}>"

    def join(self) -> None:
        """Count the calling thread among those that make calls."""
        if isinstance(self.session, OwnSession):
            self.session.bridge.admit()

    @property
    def thread(self) -> Thread:
        """The contexts of the calling thread."""
        return self._threads.mine

    def handle(self, kind: str, thing: Any) -> int:
        """Return the handle of *thing*."""
        return self.handles.handle(kind, thing)

    def stream(self, handle: int, default: StreamLike = None) -> StreamLike:
        """Return the stream that *handle* stands for; that is *default* for 0."""
        if handle <= _PER_THREAD:
            return (default, LEGACY_STREAM, PER_THREAD_STREAM)[handle]
        stream: Stream = self.find("stream", handle)
        return stream

    def find(self, kind: str, handle: int) -> Any:
        """Return what *handle* stands for, as `Handles.find`; a context that has failed says so first."""
        self.check_context()
        return self.handles.find(kind, handle)

    def check_context(self) -> None:
        """Raise AclError if the current context has failed: every call says so before anything else."""
        context: Context | Barred = self.thread.scope.context
        if not isinstance(context, Barred) and context is not self.nowhere and context.error is not None:
            raise self.runtime.context_error(context)


class _Face:
    """The driver of a runtime."""

    __slots__ = ("driver",)

    def __init__(self) -> None:
        self.driver: Driver | None = None


class _Near(threading.local):
    """What the last call of the calling thread was made with."""

    thread: Thread | None = None


near = _Near()
_last: tuple[Scope | None, Driver | None] = None, None  # the scope of the last call, and its driver


def thread_here(scope: Scope | None) -> Thread:
    """Return the contexts of the calling thread at the driver of its calls, whose *scope* that is. Until that has
    another scope, or the driver ends, they are `near`.
    """
    thread = driver_here(scope).thread
    thread.outer = scope
    near.thread = thread
    return thread


def driver_here(scope: Scope | None) -> Driver:
    """Return the driver of the calling thread's calls, whose *scope* that is; the first call begins the session of the
    process.
    """
    global _last
    known, driver = _last
    if driver is None or scope is not known or driver.runtime.closed is not None or opened:
        driver = _driver_of(scope)
        _last = scope, driver
    return driver


def _driver_of(scope: Scope | None) -> Driver:
    try:
        sessions.prefer(CARD, RULES)
        session = sessions.session()
    finally:
        scope_var.set(scope)
    face = session.runtime.state(_Face)
    if face.driver is None:
        face.driver = Driver(session)
    return face.driver
