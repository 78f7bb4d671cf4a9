"""What `import mstx` finds where `import acl` finds the simulated module: marks and ranges for profilers.

They are in every trace: as rows of the calling thread and, if a stream is given, also as rows of the stream, with the
times at which its work reached them.
"""

from acl_py.compat.acl.functions.prof.mstx import get_tool_id as get_tool_id
from acl_py.compat.acl.functions.prof.mstx import mark as mark
from acl_py.compat.acl.functions.prof.mstx import range_end as range_end
from acl_py.compat.acl.functions.prof.mstx import range_start as range_start
