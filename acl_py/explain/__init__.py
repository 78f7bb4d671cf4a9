"""Explanations of a recording: what a run waited for, how much that was, and what would change it.

`sim.trace.timeline()`, or `read_trace()` of a saved file, gives the recording. `AsyncProfiler` measures stages while a
program runs.
"""

from acl_py.causes.findings import Finding as Finding
from acl_py.causes.findings import Pitfall as Pitfall
from acl_py.causes.findings import findings as findings
from acl_py.causes.lines import Line as Line
from acl_py.causes.lines import by_line as by_line
from acl_py.causes.lines import path_text as path_text
from acl_py.causes.path import Cause as Cause
from acl_py.causes.path import Part as Part
from acl_py.causes.path import critical_path as critical_path
from acl_py.causes.relation import Relation as Relation
from acl_py.causes.slack import slacks as slacks
from acl_py.explain.profiler import AsyncProfiler as AsyncProfiler
from acl_py.explain.stages import Stage as Stage
from acl_py.trace.rows.overlaps import HiddenCopies as HiddenCopies
from acl_py.trace.rows.overlaps import Overlap as Overlap
from acl_py.trace.rows.overlaps import hidden_copies as hidden_copies
