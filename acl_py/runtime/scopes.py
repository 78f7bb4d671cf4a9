"""What the calling task sees of a simulation: the runtime, the current context and the last error.

These are context variables, so a new task inherits them and then changes its own. `begin` in calls.py, the first line
of most verbs, reads them.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from acl_py.errors import AclError, Kind
from device_model.contexts import Context
from device_model.error_codes import Code
from device_model.rules import CUDA
from device_model.streams import Stream

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime

SUCCESS = Code(0, "success")


class Scope:
    """What a task sees: its runtime and its current context. It is replaced, not changed, except by `Barred.run`."""

    __slots__ = ("context", "runtime")

    context: Context

    def __init__(self, runtime: "Runtime", context: "Context | Barred") -> None:
        self.runtime = runtime
        self.context = context  # type: ignore[assignment]  # a verb that meets a Barred is refused before it uses it

    @property
    def default(self) -> Stream:
        """The stream for work that names none."""
        return self.context.default


class ThreadScope(Scope):
    """What a thread and all its tasks see. It is changed in place when another context becomes current.

    `is_per_thread` is whether a call without a stream means the default stream of the thread, whatever the rules say.
    """

    __slots__ = ("is_per_thread",)

    def __init__(self, runtime: "Runtime", context: "Context | Barred") -> None:
        super().__init__(runtime, context)
        self.is_per_thread = False

    @property
    def default(self) -> Stream:
        """The stream for work that names none."""
        named = self.context.per_thread if self.is_per_thread else None
        return named or self.context.default


class Barred:
    """Replaces the current context while kernel *who* runs. Its `alert` is set, so every verb takes the slow path, and
    is refused there.
    """

    __slots__ = ("alert", "scope", "who")

    def __init__(self, runtime: "Runtime", who: object) -> None:
        self.alert = True
        self.who = who
        self.scope = Scope(runtime, self)

    def run(self, function: Callable[..., object], *args: Any) -> None:
        """Call *function*, and refuse every verb that it calls."""
        scope = scope_var.get()
        if scope is None:  # in a worker thread, a callback of the loop, or a block of a core kernel
            token = scope_var.set(self.scope)
            try:
                function(*args)
            finally:
                scope_var.reset(token)
            return
        # In place, because replacing the scope costs several times as much.
        context, scope.context = scope.context, self  # type: ignore[assignment]
        try:
            function(*args)
        finally:
            scope.context = context


scope_var: ContextVar[Scope | None] = ContextVar("acl_py_scope", default=None)
present_scope = scope_var.get  # bound once: the scope of the calling task, or None
last_error: ContextVar[Code] = ContextVar("acl_py_last_error", default=SUCCESS)
opened: list[Scope] = []  # made by open(), for tasks that inherited no scope; the last one counts


def current_scope() -> Scope:
    """Return the scope of the calling task; AclError if no simulation runs here or its runtime has ended."""
    scope = scope_var.get()
    if scope is None:
        if not opened:
            raise AclError(
                Kind.NOT_INITIALIZED,
                CUDA.codes[Kind.NOT_INITIALIZED],
                "no simulation is running here",
                "call verbs inside acl_py.run(main), `async with acl_py.simulate()`, or after sim = acl_py.open()",
            )
        scope = opened[-1]
    if scope.runtime.closed is not None:
        raise scope.runtime.error(Kind.FINALIZED, scope.runtime.closed, "start a new simulation")
    return scope


def change(scope: Scope, context: Context) -> None:
    """Make *context* current for the calling task and the tasks it makes later, or for the whole calling thread."""
    if type(scope) is ThreadScope:
        scope.context = context
        return
    new = Scope(scope.runtime, context)
    if scope_var.get() is None:
        opened[-1] = new
    else:
        scope_var.set(new)
