"""docs/errors.md: every case with its message, and all codes."""

import re
from itertools import groupby

from acl_py import AclError, Kind, codes
from device_model.rules import ACL, CUDA
from tests.acl_py.misuse.accused import ACCUSED, COUNT, DEVICE, finding_of
from tests.acl_py.misuse.cases import CASES, PRELUDE
from tests.acl_py.misuse.run import run

HEAD = """\
# Errors

This page lists {count} mistakes. Each has the code that makes it and the message that it gets. Messages name lines of
`example.py`, which begins with these two:

```python
{prelude}
```

Kernels are called `work` and `double`, and `call(stream)` queues one for a node of a graph. The device has a few
megabytes, and the rules are CUDA's, if nothing else is said. A call that fails changes nothing. The runtime can be used
afterwards; if the device itself has failed, after `ResetDevice()`. This page is printed by
`python -m tests.acl_py.misuse`, and a test compares it with that. `acl-py explain-error CODE` explains a code.

Sections: {sections}.
"""

CORES = f"""\
## Core kernels

A mistake in a kernel on AI cores that a card would get through is a finding: the kernel goes on, and the message goes
to standard error. Each of these {len(ACCUSED)} kernels begins in the first line of `example.py`, and is launched on
{DEVICE}. Its arguments have {COUNT} elements, and the host has filled only the first one.
"""

TAIL = """\
## All codes

Those that a simulation can give, without fault rules; `acl-py explain-error` knows the other {others}, too.

| code | CUDA | ACL | what is wrong |
| --- | --- | --- | --- |
"""


def page():
    sections = [
        *(noun.capitalize() for noun, _ in groupby(CASES, key=lambda case: case.noun)),
        "Core kernels",
        "All codes",
    ]
    links = " ·\n".join(f"[{each}](#{each.lower().replace(' ', '-')})" for each in sections)
    parts = [HEAD.format(count=len(CASES) + len(ACCUSED), prelude=PRELUDE.strip(), sections=links)]
    for noun, cases in groupby(CASES, key=lambda case: case.noun):
        parts.append(f"## {noun.capitalize()}\n")
        for case in cases:
            rules = ", under ACL's rules" if case.rules == "acl" and "ACL" not in case.title else ""
            parts.append(
                f"**{case.title}{rules}**\n\n```python\n{case.code.strip()}\n```\n\n{_told(run(case).error)}\n"
            )
    parts.append(CORES)
    parts += [f"**{case.title}**\n\n```python\n{case.code}\n```\n\n> {finding_of(case)}\n" for case in ACCUSED]
    rows = [_row(kind, CUDA.codes[kind], ACL.codes[kind]) for kind in Kind]
    given = {(vendor, rules.codes[kind].value) for vendor, rules in (("cuda", CUDA), ("acl", ACL)) for kind in Kind}
    parts.append(TAIL.format(others=len(codes.table()) - len(given)) + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(kind, cuda, acl):
    return f"| {cuda.value} / {acl.value} | {cuda.name} | {acl.name} | {kind.value} |"


def _told(error):
    name = "" if isinstance(error, AclError) else f"{type(error).__name__}: "
    # What differs from run to run:
    told = re.sub("0x7[0-9a-f]{9,}", "0x...", str(error))
    if "\n" in told:  # its lines must stay lines
        return f"```text\n{name}{told}\n```"
    return "> " + (name + told).replace("<", "\\<").replace("](", "]\\(")
