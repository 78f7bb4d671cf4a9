"""Reads of the fields of an operation that is over, by the program and by nobody else, are in a recording."""

from linecache import getline

import pytest
from small import SIZE, write

import acl_py
from device_model.compiled import IS_COMPILED

pytestmark = pytest.mark.skipif(IS_COMPILED, reason="objects with C fields keep their class, so no read is seen")


async def reads(kept):
    """Read fields of an operation while it goes on, and behind its end."""
    stream, x = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
    op = await write[1, stream](x)
    assert not op.done
    await op
    assert op.done
    assert op.start_ns < op.end_ns
    kept.append(op)
    return acl_py.current_simulation().trace.timeline()


def seen(timeline):
    """The lines that have read a clock."""
    rows = [each for each in timeline.accesses if each.after is None and not each.extents]
    return [getline(row.file, row.line).strip() for row in rows]


@pytest.mark.parametrize("sanitize", ["device,host", "device"])
def test_what_the_program_reads_is_seen_while_the_host_is_watched(sanitize):
    kept = []
    timeline = acl_py.run(reads, kept, device="tiny", sanitize=sanitize)
    (op,) = kept
    assert (op.start_ns, op.end_ns, op.done) == (timeline.ops[0].start_ns, timeline.ops[0].end_ns, True)
    read = ["assert op.done", *["assert op.start_ns < op.end_ns"] * 2]
    assert seen(timeline) == (read if sanitize == "device,host" else [])
