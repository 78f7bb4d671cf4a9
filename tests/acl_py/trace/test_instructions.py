"""What a trace keeps of core kernels, and its views: the pipe chart, the lanes of the Chrome trace, the report."""

import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import acl_py as acl
from acl_py import asc
from acl_py.trace import pipes

DEVICE = "ascend910b1"
TILE = 2048
PER_TILE = ["DataCopy", "SetFlag<MTE2_V>", "WaitFlag<MTE2_V>", "Muls", "SetFlag<V_MTE3>", "SetFlag<V_MTE2>",
            "WaitFlag<V_MTE3>", "DataCopy", "SetFlag<MTE3_V>"]  # fmt: skip


@asc.kernel
def double(x: asc.In, y: asc.Out, tiles: int):
    pipe = asc.TPipe()
    arriving, leaving = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.InitBuffer(arriving, 2, TILE * 2)
    pipe.InitBuffer(leaving, 2, TILE * 2)
    x_gm, y_gm = asc.GlobalTensor(asc.half).SetGlobalBuffer(x), asc.GlobalTensor(asc.half).SetGlobalBuffer(y)
    for tile in range(tiles):
        at = (tile + tiles * asc.GetBlockIdx()) * TILE
        local = arriving.AllocTensor(asc.half)
        asc.DataCopy(local, x_gm[at:], TILE)
        arriving.EnQue(local)
        local, result = arriving.DeQue(asc.half), leaving.AllocTensor(asc.half)
        asc.Muls(result, local, 2, TILE)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        result = leaving.DeQue(asc.half)
        asc.DataCopy(y_gm[at:], result, TILE)
        leaving.FreeTensor(result)


async def traced(*launches, **options):
    """The simulation, after a launch of each (blocks, tiles)."""
    async with acl.simulate(**{"device": DEVICE, "rules": "cuda", "instructions": 10_000} | options) as sim:
        for blocks, tiles in launches:
            x, y = [acl.Array(await acl.Malloc(2 * TILE * blocks * tiles), np.float16) for _ in range(2)]
            await acl.Memset(x.buffer, x.nbytes, 0, x.nbytes)
            await double[blocks](x, y, tiles)
            await acl.SynchronizeDevice()
    return sim


def kernels(sim):
    return [(index, op) for index, op in enumerate(sim.trace.ops) if op.cores is not None]


async def test_instructions_are_kept_when_they_are_asked_for():
    sim = await traced((2, 1))
    rows = sim.trace.instructions
    [(index, op)] = kernels(sim)
    assert {row.operation for row in rows} == {index}
    assert [(row.core, row.block) for row in rows[:1] + rows[-1:]] == [("AIV 0", 0), ("AIV 1", 1)]
    of_block = [row for row in rows if row.block == 0]
    assert [row.name for row in of_block][: len(PER_TILE)] == PER_TILE
    first = of_block[0]
    assert (first.pipe, first.kind, first.bytes) == ("MTE2", "work", 2 * TILE)
    assert first.site.startswith(f"{Path(__file__).name}:")
    assert all(op.start_ns <= row.start_ns <= row.end_ns <= op.end_ns for row in rows)


async def test_what_waits_knows_the_instruction_that_it_waited_for():
    sim = await traced((1, 3))
    rows = sim.trace.instructions
    waits = [row for row in rows if row.kind == "wait"]
    assert len(waits) >= 2 * 3
    for row in waits:
        setter = rows[row.waited_for]
        assert (setter.kind, setter.name) == ("set", row.name.replace("Wait", "Set"))
        assert setter.core == row.core
        assert setter.end_ns <= row.end_ns
    first, _, third = (index for index, row in enumerate(rows) if row.name == "Muls")
    assert rows[third].waited_for == first  # it has the same two buffers
    assert all(row.waited_for is None for row in rows if row.kind != "wait" and row is not rows[third])


async def test_without_being_asked_a_trace_keeps_none():
    sim = await traced((2, 1), instructions=0)
    assert sim.trace.instructions == []
    [(_, op)] = kernels(sim)
    assert op.cores.left_out == 0


async def test_what_exceeds_the_limit_is_left_out_block_by_block_and_counted():
    whole = await traced((2, 2), (4, 2))
    total = [sum(row.operation == index for row in whole.trace.instructions) for index, _ in kernels(whole)]
    of_block = total[0] // 2
    assert total == [2 * of_block, 4 * of_block]
    limit = of_block + 7
    sim = await traced((2, 2), (4, 2), instructions=limit)
    assert [op.cores.left_out for _, op in kernels(sim)] == [count - limit for count in total]
    for index, _ in kernels(sim):
        kept = [row.block for row in sim.trace.instructions if row.operation == index]
        assert kept == [0] * of_block + [1] * 7
    assert f"; {sum(total) - 2 * limit:,} instructions are not in the trace" in sim.report()
    assert "are not in the trace" not in whole.report()


async def test_the_same_launch_leaves_the_same_rows():
    assert (await traced((3, 2))).trace.instructions == (await traced((3, 2))).trace.instructions


@pytest.mark.parametrize("options", [{"instructions": -1}, {"instructions": 5, "trace": False}])
async def test_a_limit_that_makes_no_sense_is_refused(options):
    with pytest.raises(ValueError, match=r"instructions=.* is how many instructions of each launch the trace keeps"):
        await traced(**options)


async def test_a_launch_tells_how_busy_the_pipes_of_its_cores_were():
    sim = await traced((2, 4))
    [(_, op)] = kernels(sim)
    assert op.cores.blocks == 2
    busy = op.cores.busy_us
    assert set(busy) == {"aiv_time", "vec", "scalar", "mte2", "mte3"}
    assert all(0 < us <= busy["aiv_time"] < (op.end_ns - op.start_ns) / 1000 for us in busy.values())
    [line] = [line for line in sim.report().splitlines() if "  kernel " in line]
    assert line.startswith(f"  kernel double: 1 launch, {(op.end_ns - op.start_ns) / 1000:,.1f} us: aiv_time ")


# --- Chrome


async def test_the_chrome_trace_has_a_lane_per_core_and_pipe(chrome_events):
    sim = await traced((2, 2))
    events = chrome_events(sim.trace)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["cat"].startswith("pipe"):
            slices[names[event["pid"], event["tid"]]].append(event)
    lanes = [f"AIV {core} {pipe}" for core in range(2) for pipe in ("S", "MTE2", "V", "MTE3")]
    assert [name for name in names.values() if name.startswith("AIV") and "(" not in name] == lanes
    assert sum(map(len, slices.values())) == len(sim.trace.instructions)
    for of_lane in slices.values():
        for one, other in pairwise(of_lane):
            assert one["ts"] + one["dur"] <= other["ts"] + 1e-9
    copy = slices["AIV 1 MTE2"][0]
    assert (copy["name"], copy["args"]["block"], copy["args"]["bytes"]) == ("DataCopy", 1, 2 * TILE)
    wait = next(event for event in slices["AIV 1 V"] if event["cat"] == "pipe wait")
    assert wait["args"]["waited_for"].startswith("SetFlag<MTE2_V> of AIV 1 at test_instructions.py:")


async def test_the_slice_of_a_launch_tells_of_its_pipes_and_of_what_is_left_out(chrome_events):
    sim = await traced((2, 2), instructions=10)
    [launch] = [event for event in chrome_events(sim.trace) if event["ph"] == "X" and event["cat"] == "kernel"]
    [(_, op)] = kernels(sim)
    assert launch["args"]["blocks"] == 2
    assert launch["args"]["vec_us"] == round(op.cores.busy_us["vec"], 3)
    assert launch["args"]["instructions_left_out"] == op.cores.left_out > 0


# --- the pipe chart


@pytest.mark.parametrize("width", [60, 80, 100, 120])
async def test_no_line_is_too_long_and_the_right_hand_column_is_straight(width):
    sim = await traced((1, 6))
    lines = pipes.lanes(sim.trace, width).splitlines()
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if line.endswith((" %", "busy"))]
    assert len(rows) == 4
    assert len({len(row) for row in rows}) == 1


async def test_a_core_and_a_launch_can_be_chosen():
    @asc.kernel
    def uneven(times: int):
        tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, TILE)
        for _ in range(times + asc.GetBlockIdx()):
            asc.Duplicate(tile, 0.0, TILE)

    async with acl.simulate(device=DEVICE, instructions=100) as sim:
        for times in (1, 5):
            await uneven[2](times)
        await acl.SynchronizeDevice()
    assert pipes.lanes(sim.trace) == pipes.lanes(sim.trace, operation=1, core="AIV 0")
    pictures = [pipes.lanes(sim.trace, operation=op, core=core) for op in (0, 1) for core in ("AIV 0", "AIV 1")]
    assert [text.count("Duplicate") for text in pictures] == [1, 2, 5, 6]
    assert len(set(pictures)) == 4


async def test_copies_that_overlap_are_each_counted_once():
    """The middles of all five copies are in the columns of the first, which has its name there."""

    @asc.kernel
    def loads(x: asc.In):
        tiles = [asc.LocalTensor(asc.half, asc.TPosition.VECIN, 2 * TILE * each, TILE) for each in range(5)]
        for tile in tiles:
            asc.DataCopy(tile, asc.GlobalTensor(asc.half).SetGlobalBuffer(x), TILE)

    async with acl.simulate(device=DEVICE, instructions=100) as sim:
        await loads[1](acl.Array(await acl.Malloc(2 * TILE), np.float16))
        await acl.SynchronizeDevice()
    [row] = [line for line in pipes.lanes(sim.trace).splitlines() if line.startswith("MTE2")]
    assert re.sub(" +", " ", re.sub("[»›│]+", "-", row)) == "MTE2 - DataCopy - 4 × DataCopy - 100 %"


async def test_what_the_trace_does_not_have_is_refused():
    sim = await traced((2, 1))
    with pytest.raises(
        ValueError, match=r"no instructions of core AIV 7 in operation 1: it has those of AIV 0, AIV 1$"
    ):
        pipes.lanes(sim.trace, core="AIV 7")
    with pytest.raises(ValueError, match=r"no instructions of operation 5: it has those of operation 1$"):
        pipes.lanes(sim.trace, operation=5)
    sim = await traced((1, 1), instructions=0)
    with pytest.raises(ValueError, match=r"^the trace has no instructions: launch .* start the simulation with instr"):
        pipes.lanes(sim.trace)
