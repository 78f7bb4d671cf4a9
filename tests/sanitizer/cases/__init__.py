"""Named cases: the rows of the documents as small programs, each with the findings that the document expects.

CS rows are the published cases of PyTorch's stream sanitizer; DS rows are about default streams, EV about events and MP
about memory pools; NPU rows are problems that users of ACL have reported. HS rows are what the tests of other
sanitizers try besides, about hosts and streams. TK rows are our own, about tasks.
`ABSENT` lists the rows that are not programs here, with the reason.
"""

from tests.sanitizer.cases import acl_reports, default_streams, events, host_and_streams, pools, stream_cases, tasks
from tests.sanitizer.cases.case import Case

CASES: list[Case] = [
    *stream_cases.CASES,
    *default_streams.CASES,
    *events.CASES,
    *pools.CASES,
    *acl_reports.CASES,
    *host_and_streams.CASES,
    *tasks.CASES,
]
ABSENT: dict[str, str] = {**events.ABSENT, **pools.ABSENT, **acl_reports.ABSENT}
