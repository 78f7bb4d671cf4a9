"""docs/errors.md, with all codes, and the pages in docs/errors: every case with its message."""

import re

from acl_py import AclError, Kind, codes
from device_model.rules import ACL, CUDA
from tests.acl_py.misuse.accused import ACCUSED, COUNT, DEVICE, finding_of
from tests.acl_py.misuse.cases import CASES, PRELUDE
from tests.acl_py.misuse.run import run
from tests.parts import Part, listed

CORES = "Core kernels"

HEAD = """\
# Errors

The pages below list {count} mistakes, each with the lines that make it and its message. Messages name lines of
`example.py`, which begins with these two:

```python
{prelude}
```

In these lines, kernels are called `work` and `double`, and `call(stream)` queues one for a node of a graph. The device
has a few megabytes. The rules are those of CUDA, unless the title of a mistake names others.

A call that fails changes nothing, and the program can go on. If the device itself has failed, the program can go on
after `ResetDevice()`. `acl-py explain-error CODE` explains a code. `python -m tests.acl_py.misuse` writes these pages,
and a test compares them with what it prints.

{listed}
"""

PARTS = (
    Part("streams", "Errors of streams, events and waits", "also host functions, signals and deadlocks.",
         ("Streams", "Events", "Host functions", "Signals", "Deadlocks")),
    Part("memory", "Errors of memory and copies", "also managed memory.", ("Memory", "Managed memory", "Copies")),
    Part("kernels", "Errors of kernels and graphs", "also in kernels on AI cores.", ("Kernels", "Graphs", CORES)),
    Part("devices", "Errors of devices and collectives", "what a call says of a device or a communicator.",
         ("Devices", "Collectives")),
    Part("programs", "Errors of simulations, files and scripts", "what a run, a file or a command line refuses.",
         ("Simulations", "Sanitizer", "Files", "Scripts")),
)  # fmt: skip

CORES_HEAD = f"""\
A mistake in a kernel on AI cores that a card would get through is a finding: the kernel goes on, and the message goes
to standard error. Each of these {len(ACCUSED)} kernels begins in the first line of `example.py`, and is launched on
{DEVICE}. Its arguments have {COUNT} elements, and the host has filled only the first one.
"""

TAIL = """\
## All codes

The codes that a simulation can give without fault rules; `acl-py explain-error` also knows {others} others.

| code | CUDA | ACL | what is wrong |
| --- | --- | --- | --- |
"""


def pages():
    """Return the overview and its parts, by their paths in docs/."""
    nouns = {case.noun.capitalize() for case in CASES} | {CORES}
    assert nouns == {section for part in PARTS for section in part.sections}
    rows = [_row(kind, CUDA.codes[kind], ACL.codes[kind]) for kind in Kind]
    given = {(vendor, rules.codes[kind].value) for vendor, rules in (("cuda", CUDA), ("acl", ACL)) for kind in Kind}
    head = HEAD.format(count=len(CASES) + len(ACCUSED), prelude=PRELUDE.strip(), listed=listed("errors", PARTS))
    tail = TAIL.format(others=len(codes.table()) - len(given)) + "\n".join(rows) + "\n"
    return {"errors.md": f"{head}\n{tail}"} | {f"errors/{part.stem}.md": _page(part) for part in PARTS}


def _page(part):
    begin = f"# {part.title}\n\nA part of [Errors](../errors.md), which has the first two lines of `example.py`.\n"
    return "\n".join([begin, *map(_section, part.sections)])


def _section(title):
    if title == CORES:
        parts = [CORES_HEAD]
        parts += [f"**{case.title}**\n\n```python\n{case.code}\n```\n\n> {finding_of(case)}\n" for case in ACCUSED]
    else:
        parts = [_case(case) for case in CASES if case.noun.capitalize() == title]
    return "\n".join([f"## {title}\n", *parts])


def _case(case):
    rules = ", under ACL's rules" if case.rules == "acl" and "ACL" not in case.title else ""
    return f"**{case.title}{rules}**\n\n```python\n{case.code.strip()}\n```\n\n{_told(run(case).error)}\n"


def _row(kind, cuda, acl):
    return f"| {cuda.value} / {acl.value} | {cuda.name} | {acl.name} | {kind.value} |"


def _told(error):
    name = "" if isinstance(error, AclError) else f"{type(error).__name__}: "
    # What differs from run to run:
    told = re.sub("0x7[0-9a-f]{9,}", "0x...", str(error))
    if "\n" in told:  # its lines must stay lines
        return f"```text\n{name}{told}\n```"
    return "> " + (name + told).replace("<", "\\<").replace("](", "]\\(")
