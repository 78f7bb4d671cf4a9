"""The recorder of operations and host calls, and the views of its traces: charts, Chrome traces, summaries."""

import importlib as _importlib
import typing
from types import ModuleType as _ModuleType

from acl_py.trace.rows.files import TraceFileError as TraceFileError
from acl_py.trace.rows.files import read_trace as read_trace
from acl_py.trace.rows.recorder import Trace as Trace
from acl_py.trace.rows.timeline import Call as Call
from acl_py.trace.rows.timeline import Operation as Operation
from acl_py.trace.rows.timeline import Strike as Strike
from acl_py.trace.rows.timeline import Timeline as Timeline
from device_model.completions import Why as Why

if typing.TYPE_CHECKING:
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


def __getattr__(name: str) -> _ModuleType:
    """Return the view *name*, which is loaded when it is first used."""
    if name in _VIEWS:
        return _importlib.import_module(f"acl_py.trace.views.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
