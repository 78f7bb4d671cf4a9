"""What advice costs: processor seconds for recordings of 1,000 and of 100,000 operations with 30 lines of waits.

Ten lanes each have a pipeline of copies and kernels, with lines of their own: three that wait in each. Four of the
lines are mistakes.
"""

from time import process_time
from types import SimpleNamespace

import acl_py
from acl_py.advice.choosing import Chooser
from acl_py.causes.findings import BARRIERS, Pitfall, findings
from acl_py.explain.recordings import asker_of
from tests.bench.measure import show, target

LIMITS = {1_000: 2, 100_000: 60}  # seconds, by operations
LANES, SLOTS, SIZE, PER_CHUNK = 10, 3, 4096, 4

_CHUNK = """
async def chunk(lane, slot):
    await {upload}
    await acl_py.MemcpyAsync(lane.ins[slot], SIZE, lane.source, SIZE, acl_py.MemcpyKind.HOST_TO_DEVICE, lane.copies)
    await acl_py.RecordEvent(lane.up[slot], lane.copies)
    await {compute}
    await first[1, lane.kernels](acl_py.Array(lane.ins[slot]), acl_py.Array(lane.outs[slot]))
    await second[1, lane.kernels](acl_py.Array(lane.outs[slot]))
    await acl_py.RecordEvent(lane.done[slot], lane.kernels)
    await {download}
    to = lane.result + slot * SIZE
    await acl_py.MemcpyAsync(to, SIZE, lane.outs[slot], SIZE, acl_py.MemcpyKind.DEVICE_TO_HOST, lane.downloads)
    await acl_py.RecordEvent(lane.free[slot], lane.downloads)
"""
_RIGHT = {
    "upload": "acl_py.StreamWaitEvent(lane.copies, lane.free[slot])",
    "compute": "acl_py.StreamWaitEvent(lane.kernels, lane.up[slot])",
    "download": "acl_py.StreamWaitEvent(lane.downloads, lane.done[slot])",
}
_MISTAKES = {  # by lane
    2: {"compute": "acl_py.SynchronizeEvent(lane.up[slot])"},
    4: {"upload": "acl_py.StreamWaitEvent(lane.copies, lane.free[slot - 1])"},
    6: {"download": "acl_py.SynchronizeStream(lane.kernels)"},
    8: {"upload": "acl_py.SynchronizeEvent(lane.free[slot])"},
}


@acl_py.kernel(cost=acl_py.Cost(us=12))
def first(data: acl_py.In, result: acl_py.Out):
    """Read a chunk that was copied in."""


@acl_py.kernel(cost=acl_py.Cost(us=12))
def second(result: acl_py.InOut):
    """Finish its result in place."""


def _chunk_of(number):
    """The function of a lane, with lines that no other lane has."""
    source = "\n" * 100 * number + _CHUNK.format(**_RIGHT | _MISTAKES.get(number, {}))
    names = globals() | {"chunk": None}
    exec(compile(source, "lanes.py", "exec"), names)
    return names["chunk"]


async def _lane(number):
    lane = SimpleNamespace(chunk=_chunk_of(number))
    lane.copies, lane.kernels, lane.downloads = [await acl_py.CreateStream(nonblocking=True) for _ in range(3)]
    lane.source, lane.result = await acl_py.MallocHost(SIZE), await acl_py.MallocHost(SLOTS * SIZE)
    lane.ins, lane.outs = [[await acl_py.Malloc(SIZE) for _ in range(SLOTS)] for _ in range(2)]
    lane.up, lane.done, lane.free = [[await acl_py.CreateEvent() for _ in range(SLOTS)] for _ in range(3)]
    return lane


async def _program(ops):
    lanes = [await _lane(number) for number in range(LANES)]
    for chunk in range(ops // (PER_CHUNK * LANES)):
        for lane in lanes:
            await lane.chunk(lane, chunk % SLOTS)
    await acl_py.SynchronizeDevice()
    return acl_py.current_simulation().trace.timeline()


def main():
    rows = []
    for ops, limit in LIMITS.items():
        timeline = acl_py.run(_program, ops, device="h200", sanitize="device,host", workers=1)
        found = findings(timeline)
        barriers = {index for each in found if each.pitfall in BARRIERS for index in each.calls}
        has_legacy = any(each.pitfall is Pitfall.LEGACY for each in found)
        begin = process_time()
        asker = asker_of(timeline, "lanes")
        made = process_time() - begin
        begin = process_time()
        chosen = Chooser(asker, timeline, barriers, has_legacy=has_legacy).choose()
        seconds = process_time() - begin
        worth = "-"
        if chosen.together is not None:
            worth = f"{chosen.together.gain_ns / chosen.together.worked_ns[0]:.1%}"
        pieces = len(chosen.advice)
        rows.append((f"{len(timeline.ops):,}", pieces, worth, f"{made:.1f}", target(seconds, limit)))
    columns = ("operations", "pieces", "shorter by", "the program of the run", "advice")
    show("Advice about 30 lines of waits, in seconds", columns, rows)


if __name__ == "__main__":
    main()
