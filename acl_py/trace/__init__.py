"""The recorder of operations and host calls, and the views of its traces: charts, Chrome traces, summaries."""

from acl_py.trace.files import TraceFileError as TraceFileError
from acl_py.trace.files import read_trace as read_trace
from acl_py.trace.recorder import Trace as Trace
from acl_py.trace.rows import Call as Call
from acl_py.trace.rows import Operation as Operation
from acl_py.trace.rows import Strike as Strike
from acl_py.trace.rows import Timeline as Timeline
from device_model.completions import Why as Why
