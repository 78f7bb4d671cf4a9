"""The sanitizer: an observer that finds what a program gets right only by the times of one run. See docs/sanitizer.md.

`Simulation.findings` has what it found.
"""

from acl_py.findings import Access as Access
from acl_py.findings import Finding as Finding
from acl_py.findings import Kind as Kind
from acl_py.findings import Span as Span
