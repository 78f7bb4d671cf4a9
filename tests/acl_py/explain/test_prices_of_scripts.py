"""Prices of programs in Python, in two versions: before, and after a person's edit.

The first version is run and recorded. The price of its finding, found without its Python, is the difference of the
real runs, to the nanosecond.
"""

import asyncio
from functools import partial

import numpy as np
import pytest
from histories import D2H, H2D, busy

import acl_py as acl
from acl_py.causes.findings import Pitfall
from acl_py.explain.edits import parse_all
from acl_py.explain.prices import prices
from acl_py.explain.recordings import asker_of

SIZE = 4 << 20
kernel, other = busy("kernel", 200), busy("other", 200)
LEGACY = acl.LEGACY_STREAM


async def memory(*, pinned):
    """A stream and memory; to make it takes longer if it is pinned, so the run counts from here on."""
    host = await acl.MallocHost(SIZE) if pinned else np.zeros(SIZE, np.uint8)
    made = host, await acl.Malloc(SIZE), await acl.CreateStream()
    acl.mark("begin")
    return made


def run(script, edited, rules):
    """The recording of a version, and how long it takes with a last synchronisation."""

    async def main():
        last = await script(edited)
        await acl.SynchronizeDevice()  # what has not ended is not in a recording
        if last is not None:
            await last()
        timeline = acl.current_simulation().trace.timeline()
        return timeline, timeline.end_ns - max((mark.begin_ns for mark in timeline.marks), default=0)

    return acl.run(main, device="ascend910b3" if rules == "acl" else "h200", rules=rules, workers=1)


# --- the scripts


async def legacy_kernel(edited):
    stream, own = await acl.CreateStream(), await acl.CreateStream(nonblocking=True)
    await kernel[1, stream]()
    await other[1, own if edited else None]()
    await kernel[1, stream]()


async def legacy_kernels_in_a_loop(edited):
    stream, own = await acl.CreateStream(), await acl.CreateStream(nonblocking=True)
    for _ in range(3):
        await kernel[1, stream]()
        await other[1, own if edited else LEGACY]()


async def legacy_fill(edited):
    stream, own = await acl.CreateStream(), await acl.CreateStream(nonblocking=True)
    device = await acl.Malloc(SIZE)
    await kernel[1, stream]()
    await acl.MemsetAsync(device, SIZE, 0, SIZE, own if edited else None)
    await kernel[1, stream]()


async def nonblocking_streams(edited):
    streams = [await acl.CreateStream(nonblocking=edited) for _ in range(2)]
    await kernel[1, streams[0]]()
    await other[1]()
    await kernel[1, streams[1]]()


async def pageable_upload(edited):
    host, device, stream = await memory(pinned=edited)
    other_stream = await acl.CreateStream()
    await acl.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
    await kernel[1, other_stream]()


async def pageable_download(edited):
    host, device, stream = await memory(pinned=edited)
    await kernel[1, stream]()
    await acl.MemcpyAsync(host, SIZE, device, SIZE, D2H, stream)
    await acl.HostWork(300)


async def pageable_in_a_loop(edited):
    host, device, stream = await memory(pinned=edited)
    for _ in range(4):
        await acl.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
        await kernel[1, stream]()


async def pageable_in_tasks(edited):
    async def one(host, device, stream):
        await acl.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
        await kernel[1, stream]()
        await acl.SynchronizeStream(stream)

    ways = [await memory(pinned=edited) for _ in range(2)]
    await asyncio.gather(*(one(*way) for way in ways))


async def free_in_the_middle(edited):
    stream, device = await acl.CreateStream(), await acl.Malloc(SIZE)
    await kernel[1, stream]()
    if not edited:
        await acl.Free(device)
    await acl.HostWork(100)
    await kernel[1, stream]()
    return partial(acl.Free, device) if edited else None


async def free_host_in_the_middle(edited):
    stream, pinned = await acl.CreateStream(), await acl.MallocHost(4096)
    await kernel[1, stream]()
    if not edited:
        await acl.FreeHost(pinned)
    await acl.HostWork(100)
    await kernel[1, stream]()
    return partial(acl.FreeHost, pinned) if edited else None


async def synchronous_upload(edited):
    host, device, _ = await memory(pinned=True)
    for _ in range(3):
        if edited:
            await acl.MemcpyAsync(device, SIZE, host, SIZE, H2D)
        else:
            await acl.Memcpy(device, SIZE, host, SIZE, H2D)
        await kernel[1]()


async def destroyed_stream(edited):
    one, two = await acl.CreateStream(), await acl.CreateStream()
    await kernel[1, one]()
    if not edited:
        await acl.DestroyStream(one)
    await other[1, two]()
    await acl.HostWork(50)
    return partial(acl.DestroyStream, one) if edited else None


SCRIPTS = [
    (legacy_kernel, "cuda", Pitfall.LEGACY),
    (legacy_kernels_in_a_loop, "cuda", Pitfall.LEGACY),
    (legacy_fill, "cuda", Pitfall.LEGACY),
    (pageable_upload, "cuda", Pitfall.PAGEABLE),
    (pageable_download, "cuda", Pitfall.PAGEABLE),
    (pageable_in_a_loop, "cuda", Pitfall.PAGEABLE),
    (pageable_upload, "acl", Pitfall.PAGEABLE),
    (pageable_download, "acl", Pitfall.PAGEABLE),
    (pageable_in_a_loop, "acl", Pitfall.PAGEABLE),
    (pageable_in_tasks, "cuda", Pitfall.PAGEABLE),
    (free_in_the_middle, "cuda", Pitfall.FREE),
    (free_host_in_the_middle, "cuda", Pitfall.FREE),
    (synchronous_upload, "cuda", Pitfall.SYNC_COPY),
    (synchronous_upload, "acl", Pitfall.SYNC_COPY),
    (destroyed_stream, "acl", Pitfall.DESTROY),
]
EDITS = [
    (nonblocking_streams, "cuda", "nonblocking"),
    (pageable_upload, "cuda", "pinned"),
    (pageable_in_a_loop, "acl", "pinned"),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("script", "rules", "pitfall"), SCRIPTS)
def test_the_price_is_the_difference_of_the_real_runs(script, rules, pitfall):
    (before, before_ns), (_, after_ns) = (run(script, edited, rules) for edited in (False, True))
    asker = asker_of(before, "script")
    assert asker.case.notes == ()
    gains = [each.answer.gain_ns for each in prices(asker, before) if each.finding.pitfall is pitfall]
    assert before_ns - after_ns in gains


@pytest.mark.parametrize(("script", "rules", "edit"), EDITS)
def test_a_what_if_is_the_difference_of_the_real_runs(script, rules, edit):
    (before, before_ns), (_, after_ns) = (run(script, edited, rules) for edited in (False, True))
    assert asker_of(before, "script").ask(parse_all(edit)).gain_ns == before_ns - after_ns
