"""Logs: structlog events of what a run does. Off by default.

    acl_py.log.enable()                    # or `acl-py run --log console SCRIPT`

Events are at debug level, and these: each call by its name; `queued`, `begun` and `ended` for each operation; `waited`
for each wait of the host, with its cause; `failed`, and `fault` for fault rules. Mistakes that are found are warnings,
`finding`. Fields are `sim_us`, the time on the host's and the device's common clock when it happened; `task`, `line`,
and `stream` and `op` by name. `begun` and `ended` are written together when the operation has ended, because a start
may be known before its time; `sim_us` orders them.

Context variables of structlog are those of the task that made the call, also in the events of its operations.
"""

import contextvars
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from acl_py.callers import Callers, current_caller
from acl_py.calls.acts import leaves
from acl_py.calls.table import verb_of
from device_model.completions import Completion, Nanoseconds
from device_model.device import Device
from device_model.errors import DeviceError
from device_model.events import Event
from device_model.faults import Rule
from device_model.observe import Hooks, Observer
from device_model.ops import Op
from device_model.streams import Stream

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime
    from device_model.observe import Subject

_logger: Any = None
_running: "WeakSet[Runtime]" = WeakSet()


def enable(logger: Any = None) -> None:
    """Log what simulations do from now on: those that run, and those that start later.

    Args:
        logger: A structlog logger; None is structlog's own, named "acl_py", as it is configured now.
    """
    global _logger
    import structlog  # here, because its import takes as long as NumPy's

    disable()
    # Bound once: the lazy proxy that get_logger() gives costs ten times as much per event.
    _logger = structlog.get_logger("acl_py").bind() if logger is None else logger
    for runtime in list(_running):
        runtime.state(_Place).start(runtime, _logger)


def disable() -> None:
    """Log nothing from now on."""
    global _logger
    _logger = None
    for runtime in list(_running):
        runtime.state(_Place).stop(runtime.hooks)


def listen(runtime: "Runtime") -> None:
    """Log what *runtime*, which is new, does, now or as soon as logging is enabled."""
    _running.add(runtime)
    if _logger is not None:
        runtime.state(_Place).start(runtime, _logger)


def warn(event: str, **about: object) -> bool:
    """Log a warning; return False if logging is not enabled."""
    return note("warning", event, **about)


def note(level: str, event: str, **about: object) -> bool:
    """Log *event* at *level*, the name of a method of structlog's loggers; return False if logging is not enabled."""
    if _logger is None:
        return False
    getattr(_logger, level)(event, **about)
    return True


class _Place:
    """Where a runtime keeps its log."""

    def __init__(self) -> None:
        self._log: _Log | None = None

    def start(self, runtime: "Runtime", logger: Any) -> None:
        """Log what *runtime* does to *logger*."""
        self._log = _Log(runtime, logger)
        runtime.hooks.add(self._log)

    def stop(self, hooks: Hooks) -> None:
        """Log no more of what *hooks* tell."""
        if self._log is not None:
            hooks.remove(self._log)
            self._log = None


class _Log(Observer):
    """The events of one runtime."""

    def __init__(self, runtime: "Runtime", logger: Any) -> None:
        self._runtime = runtime
        self._callers: Callers = runtime.callers
        self._write: Callable[..., None] = logger.debug
        # By operation: the task that queued it and its context variables, until it has ended.
        self._origins: dict[Op, tuple[str, contextvars.Context]] = {}
        self._awaited: dict[str, tuple[Sequence[Subject], bool]] = {}  # by task: what it waits for

    def call(self, name: str, enter_ns: Nanoseconds, exit_ns: Nanoseconds, site: object, act: Any) -> None:
        """Log a call."""
        stream = next((each for each in leaves(act) if isinstance(each, Stream)), None)
        self._call(name, enter_ns, exit_ns, site, stream)

    def recorded(self, event: Event, stream: Stream, enter_ns: int, site: object, completion: Completion) -> None:  # noqa: ARG002
        """Log a call of RecordEvent."""
        self._call("RecordEvent", enter_ns, stream.scheduler.now, site, stream, event_name=event.name)

    def waited(self, event: Event, stream: Stream, enter_ns: int, site: object, completion: Completion) -> None:  # noqa: ARG002
        """Log a call of StreamWaitEvent."""
        self._call("StreamWaitEvent", enter_ns, stream.scheduler.now, site, stream, event_name=event.name)

    def _call(
        self, name: str, enter_ns: int, exit_ns: int, site: object, stream: Stream | None, **about: object
    ) -> None:
        if stream is not None:
            about["stream"] = stream.name
        self._write(
            name, sim_us=exit_ns / 1000, took_us=(exit_ns - enter_ns) / 1000, task=self._task(), **about, line=str(site)
        )

    def op_queued(self, op: Op) -> None:
        """Log a call of MemcpyAsync or LaunchKernel, if it was one, and that *op* is queued."""
        if op.called_ns >= 0:
            self._call(verb_of(op.work.label), op.called_ns, op.queued_ns, op.site, op.stream)
        task = self._task()
        self._origins[op] = task, contextvars.copy_context()
        self._write("queued", sim_us=op.queued_ns / 1000, task=task, **_about(op), line=str(op.site))

    def op_ended(self, op: Op) -> None:
        """Log when *op* began and ended, in the context of the task that queued it."""
        task, context = self._origins.pop(op, ("", None))
        values = {**({"task": task} if task else {}), **_about(op)}
        for event, at_ns in (("begun", op.start_ns), ("ended", op.end_ns)):
            if context is None:  # a part of a copy, or a node: no call has queued it by itself
                self._write(event, sim_us=at_ns / 1000, **values)
            else:
                context.run(self._write, event, sim_us=at_ns / 1000, **values)

    def awaiting(self, subjects: "Sequence[Subject]", completion: Completion, promised: bool) -> None:  # noqa: ARG002
        """Keep what the caller waits for."""
        self._awaited[self._task()] = subjects, promised

    def synchronized(self, completion: Completion) -> None:  # noqa: ARG002
        """Forget what the caller waited for: it was done, and the caller has slept or did not have to."""
        self._awaited.pop(self._task(), None)

    def host_waited(self, completion: Completion, since_ns: Nanoseconds) -> None:
        """Log a wait of the host, and its cause."""
        task = self._task()
        subjects, promised = self._awaited.pop(task, ((), True))
        end_ns = max(since_ns, completion.end_ns) if completion.done else self._runtime.host_ns
        named = ", ".join(_named(each) for each in subjects) or str(completion)
        self._write(
            "waited",
            sim_us=end_ns / 1000,
            waited_us=(end_ns - since_ns) / 1000,
            task=task,
            cause=named,
            implicit=not promised,
        )

    def failed(self, op: Op, error: DeviceError) -> None:
        """Log that *op* failed."""
        self._write("failed", sim_us=op.end_ns / 1000, **_about(op), line=str(op.site), error=str(error))

    def fault(self, rule: Rule, subject: "Op | str", at_ns: Nanoseconds) -> None:
        """Log that a fault rule struck."""
        what = subject if isinstance(subject, str) else str(subject.work.label)
        self._write("fault", sim_us=at_ns / 1000, rule=str(rule), subject=what)

    def _task(self) -> str:
        return self._callers.name(current_caller())


def _about(op: Op) -> dict[str, object]:
    return {"op": str(op.work.label), "stream": op.stream.name}


def _named(subject: object) -> str:
    """Return what a wait is for."""
    if isinstance(subject, Op):
        return f"{subject.work.label} of {subject.stream.name}"
    if isinstance(subject, Device):
        return f"device {subject.ordinal}"
    return str(getattr(subject, "name", subject))
