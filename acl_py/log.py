"""Logs: one structlog event per call, at debug level, and a warning per mistake found in a kernel. Off by default.

Configure structlog as you like and turn the events on with `acl_py.log.enable()` before a simulation starts.
"""

from typing import Any

from acl_py.calls.acts import PLAIN
from acl_py.calls.table import verb_of
from device_model.completions import Completion
from device_model.events import Event
from device_model.observe import Hooks, Observer
from device_model.ops import Op
from device_model.streams import Stream

_logger: Any = None


def enable(logger: Any = None) -> None:
    """Log each call of simulations that start from now on.

    Args:
        logger: A structlog logger; None is structlog's own, named "acl_py".
    """
    global _logger
    import structlog  # here, because its import takes as long as NumPy's

    # Bound once: the lazy proxy that get_logger() gives costs ten times as much per event.
    _logger = structlog.get_logger("acl_py").bind() if logger is None else logger


def disable() -> None:
    """Log no call of simulations that start from now on."""
    global _logger
    _logger = None


def listen(hooks: Hooks) -> None:
    """Log the calls of a new simulation if logging is enabled."""
    if _logger is not None:
        hooks.add(_CallLog(_logger))


def warn(event: str, **about: object) -> bool:
    """Log a warning; return False if logging is not enabled."""
    return note("warning", event, **about)


def note(level: str, event: str, **about: object) -> bool:
    """Log *event* at *level*, the name of a method of structlog's loggers; return False if logging is not enabled."""
    if _logger is None:
        return False
    getattr(_logger, level)(event, **about)
    return True


class _CallLog(Observer):
    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def op_queued(self, op: Op) -> None:
        if op.called_ns >= 0:
            self.call(verb_of(op.work.label), op.called_ns, op.queued_ns, op.site, PLAIN)

    def recorded(self, event: Event, stream: Stream, enter_ns: int, site: object, completion: Completion) -> None:  # noqa: ARG002
        self.call("RecordEvent", enter_ns, stream.scheduler.now, site, PLAIN)

    def waited(self, event: Event, stream: Stream, enter_ns: int, site: object, completion: Completion) -> None:  # noqa: ARG002
        self.call("StreamWaitEvent", enter_ns, stream.scheduler.now, site, PLAIN)

    def call(self, name: str, enter_ns: int, exit_ns: int, site: object, act: object) -> None:  # noqa: ARG002
        self._logger.debug(name, enter_ns=enter_ns, exit_ns=exit_ns, site=str(site))
