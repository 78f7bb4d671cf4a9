"""The recorder of operations and host calls, and the views of its traces: charts, Chrome traces, summaries."""

from acl_py.trace.recorder import Call as Call
from acl_py.trace.recorder import Operation as Operation
from acl_py.trace.recorder import Strike as Strike
from acl_py.trace.recorder import Trace as Trace
from device_model.completions import Why as Why
