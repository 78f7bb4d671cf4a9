"""The recorder of operations and host calls, and the views of its traces: charts, Chrome traces, summaries."""

import typing

from acl_py.late_imports import import_late as _import_late
from acl_py.trace.rows.recorder import Trace as Trace
from acl_py.trace.rows.timeline import Call as Call
from acl_py.trace.rows.timeline import Operation as Operation
from acl_py.trace.rows.timeline import Strike as Strike
from acl_py.trace.rows.timeline import Timeline as Timeline
from device_model.completions import Why as Why

if typing.TYPE_CHECKING:
    from acl_py.trace.rows.files import TraceFileError as TraceFileError
    from acl_py.trace.rows.files import read_trace as read_trace
    from acl_py.trace.views import chart as chart
    from acl_py.trace.views import chrome as chrome
    from acl_py.trace.views import figure as figure
    from acl_py.trace.views import kineto as kineto
    from acl_py.trace.views import msprof as msprof
    from acl_py.trace.views import msprof_op as msprof_op
    from acl_py.trace.views import pipes as pipes
    from acl_py.trace.views import summary as summary
    from acl_py.trace.views import table as table

_VIEWS = ("chart", "chrome", "figure", "kineto", "msprof", "msprof_op", "pipes", "summary", "table")
_OF_FILES = ("TraceFileError", "read_trace")


def __getattr__(name: str) -> typing.Any:
    """Return a view, or a name of saved traces; its module is loaded when it is first used."""
    if name in _VIEWS:
        return _import_late(f"acl_py.trace.views.{name}")
    if name in _OF_FILES:
        return getattr(_import_late("acl_py.trace.rows.files"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_VIEWS, *_OF_FILES})
