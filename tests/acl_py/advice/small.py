"""Small programs for advice, on the tiny device, and what is said about each of their lines."""

from linecache import getline

import acl_py
from acl_py.advice.choosing import Chooser
from acl_py.causes.findings import BARRIERS, Pitfall, findings
from acl_py.explain.recordings import asker_of

SIZE = 4096
H2D, D2H = acl_py.MemcpyKind.HOST_TO_DEVICE, acl_py.MemcpyKind.DEVICE_TO_HOST


@acl_py.kernel(cost=acl_py.Cost(us=20))
def write(x: acl_py.Out):
    """Fill *x*."""
    x[:] = 1


@acl_py.kernel(cost=acl_py.Cost(us=20))
def read(x: acl_py.In):
    """Look at *x*."""


def recorded(program, sanitize="device,host", **options):
    """The recording of *program*."""

    async def main():
        await program()
        return acl_py.current_simulation().trace.timeline()

    return acl_py.run(main, **{"device": "tiny", "workers": 1} | options, sanitize=sanitize)


def chosen(timeline):
    """All that advice says about *timeline*, as `acl-py report` asks for it."""
    found = findings(timeline)
    barriers = {index for each in found if each.pitfall in BARRIERS for index in each.calls}
    has_legacy = any(each.pitfall is Pitfall.LEGACY for each in found)
    return Chooser(asker_of(timeline, "program"), timeline, barriers, has_legacy=has_legacy).choose()


def said(program, **options):
    """What is said about each line of *program* that waits, by its source: the form of the advice, the doubt, "needed",
    or "stays".
    """
    result = chosen(recorded(program, **options))
    file = program.__code__.co_filename

    def source(line):
        return getline(file, int(line.site.rpartition(":")[2])).strip().removeprefix("await ").replace("acl_py.", "")

    answers = {source(each.way.line): each.way.form.name for each in result.advice}
    for verdict in result.verdicts:
        what = verdict.doubt.name if verdict.doubt else "needed" if verdict.pair else "stays"
        answers.setdefault(source(verdict.line), what)
    return answers


async def two_streams(**options):
    """Two streams, and an event."""
    return await acl_py.CreateStream(**options), await acl_py.CreateStream(**options), await acl_py.CreateEvent()
