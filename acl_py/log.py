"""Logs: one structlog event per call, at debug level, off by default.

Configure structlog and the level as you like and turn it on with `acl_py.log.enable()` before a simulation starts.
"""

from typing import Any

import structlog

_logger: Any = None


def enable(logger: Any = None) -> None:
    """From the next simulation on log each call; to *logger*, or structlog's own."""
    global _logger
    _logger = structlog.get_logger("acl_py").bind() if logger is None else logger


def disable() -> None:
    """From the next simulation on log nothing."""
    global _logger
    _logger = None


def calls() -> Any:
    """The logger for calls, None when they are not logged: one test per call."""
    return _logger
