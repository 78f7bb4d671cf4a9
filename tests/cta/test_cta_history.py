"""What the warps of a block did and when: as data, in the trace, and in its views."""

import json
import sys

import numpy as np
import pytest

import acl_py as acl
from acl_py import cta
from acl_py.trace import chrome, msprof_op, pipes
from device_model.profile import load
from device_model.sm.card import Card
from device_model.sm.history import Kind, Pipe, count, history
from device_model.sm.instructions import Op, Row
from device_model.sm.warps import play

SPEC = load("h200").sm
TILE, TILES = 128, 4


def row(op, name, warps=1, **what):
    frame = sys._getframe(1)
    return Row(op, name, warps, frame.f_code, frame.f_lasti, **what)


def told(instructions):
    return [(each.name, each.pipe.name, round(each.start), round(each.end)) for each in instructions]


def test_a_row_is_at_the_schedulers_and_in_its_unit():
    rows = [row(Op.LDS_32, "ld", phases=4, writes=(1,)), row(Op.FMA, "fma", count=20, reads=(1,), writes=(2,))]
    [instructions] = history([rows], SPEC)
    ready = SPEC.lds + SPEC.phase * 4  # of the load
    assert told(instructions) == [
        ("ld (warp 0)", "ISSUE", 0, 1),
        ("ld (warp 0)", "LSU", 0, 4),
        ("fma x 20 (warp 0)", "ISSUE", ready, ready + 20),
        ("fma x 20 (warp 0)", "FMA", ready, ready + 20),
    ]
    load, multiply = instructions[1], instructions[3]
    assert (load.waits, multiply.waits) == ((), (load,))
    assert count(rows) == len(instructions)


def test_a_copy_is_on_its_way_until_a_wait_for_its_group_ends():
    rows = [
        row(Op.CP_ASYNC, "cp.async", phases=4, sectors=16),
        row(Op.COMMIT, "commit"),
        row(Op.WAIT_GROUP, "wait"),
    ]
    [instructions] = history([rows], SPEC)
    arrival = (
        SPEC.l2_permille / 1000 + 16 * 32 / (SPEC.sm_bytes_permille / 1000) * 0
    )  # the first request waits for none
    copy, wait = instructions[2], instructions[-1]
    assert (copy.pipe, copy.flow.nbytes, copy.start, copy.end) == (Pipe.MEM, 512, 0, arrival)
    assert (wait.kind, wait.start, wait.end, wait.waits) == (Kind.WAIT, 2, arrival + SPEC.group + 1, (copy,))


def test_a_barrier_ends_for_all_with_the_last_arrival():
    rows = [row(Op.FMA, "fma", 1, count=50), row(Op.BARRIER, "bar", 3, number=2)]
    [instructions] = history([rows], SPEC)
    first, last = [each for each in instructions if each.kind is Kind.BARRIER]
    assert (first.warp, last.warp) == (1, 0)
    assert first.start < last.start
    assert first.end == last.end == last.start + SPEC.barrier_arrival + SPEC.barrier_permille / 1000
    assert (first.waits, last.waits) == ((last,), ())


def test_a_wait_for_a_phase_waits_for_its_last_arrival():
    rows = [
        row(Op.FMA, "fma", 1, count=50),
        row(Op.ARRIVE, "arrive", 1, key=7),
        row(Op.WAIT_PHASE, "wait", 2, key=7),
        row(Op.FMA, "fma", 4, count=200),
        row(Op.WAIT_PHASE, "late", 4, key=7),
    ]
    [instructions] = history([rows], SPEC)
    by_name = {each.row.name: each for each in instructions}
    arrive = by_name["arrive"]
    assert arrive.kind is Kind.SET
    assert [by_name[name].waits for name in ("wait", "late")] == [(arrive,), (arrive,)]
    assert by_name["wait"].end == arrive.start + SPEC.barrier_arrival + SPEC.mbarrier_permille / 1000
    assert by_name["late"].end == by_name["late"].start + SPEC.lds + SPEC.phase  # the phase is long over


def test_noting_changes_no_time():
    rows = [
        row(Op.CP_ASYNC, "cp.async", 15, count=3, phases=4, sectors=16, misses=8),
        row(Op.COMMIT, "commit", 15),
        row(Op.WAIT_GROUP, "wait", 15),
        row(Op.BARRIER, "bar", 15, number=4),
        row(Op.MMA, "mma", 15, count=40, writes=(1,)),
        row(Op.SFU, "exp2", 15, count=9, reads=(1,), chains=1),
    ]
    ended = [max(each.end for each in block) for block in history([rows] * 2, SPEC, 132)]
    assert all(end <= cycles for end, cycles in zip(ended, play([rows] * 2, SPEC, 132).cycles, strict=True))


def test_blocks_of_one_kind_have_the_same_history_each_from_its_own_start():
    rows = [row(Op.FMA, "fma", count=10, writes=(1,)), row(Op.FMA, "fma", reads=(1,))]
    card = Card(2, 1, SPEC)
    for _ in range(5):
        card.add(rows)
    timeline = card.play()
    assert [placing.sm for placing in timeline.placings] == [0, 1, 0, 1, 0]
    for block, (start, _) in enumerate(timeline.spans):
        instructions = timeline.instructions(block)
        assert len(instructions) == timeline.count(block) == 4
        assert instructions[0].start == start
        assert instructions[3].waits == (instructions[1],)


@cta.kernel(threads=TILE)
def scale(x: cta.In, y: cta.Out):
    s, t = cta.shared(np.float32, (2, TILE)), cta.tid
    pipe = cta.pipeline(2)
    for i in range(TILES + 1):
        if i < TILES:
            pipe.producer_acquire()
            cta.memcpy_async(s[i % 2], x[i], 16)
            pipe.producer_commit()
        if i:
            pipe.consumer_wait()
            cta.syncthreads()
            y[i - 1, t] = s[(i - 1) % 2, t] * 2
            pipe.consumer_release()
            cta.syncthreads()


async def traced(kept):
    async with acl.simulate(device="h200", instructions=kept) as sim:
        values = np.arange(TILES * TILE, dtype=np.float32)
        x, y = [acl.Array(await acl.Malloc(values.nbytes), np.float32, (TILES, TILE)) for _ in range(2)]
        await acl.Memcpy(x, x.nbytes, values, values.nbytes, acl.MemcpyKind.HOST_TO_DEVICE)
        launch = await scale[2](x, y)
        await acl.SynchronizeDevice()
    return sim, launch


async def test_a_trace_keeps_instructions_of_blocks_if_asked():
    sim, launch = await traced(10_000)
    rows, op = sim.trace.instructions, sim.trace.ops[-1]
    assert [len(program.instructions) for program in launch.work.result.programs] == [len(rows) // 2] * 2
    assert {(row.core, row.block) for row in rows} == {("SM 0", 0), ("SM 1", 1)}
    assert all(op.start_ns <= row.start_ns <= row.end_ns <= op.end_ns for row in rows)
    copies = [row for row in rows if row.pipe == "MEM" and row.name.startswith("cp.async") and row.block == 0]
    assert sum(row.bytes for row in copies) == TILES * TILE * 4
    assert {rows[row.waited_for].pipe for row in rows if row.kind == "wait" and row.waited_for is not None} == {"MEM"}
    assert all(row.site.startswith("test_cta_history.py:") for row in rows)
    assert op.cores.left_out == 0


async def test_a_trace_says_how_many_it_left_out():
    sim, launch = await traced(100)
    whole = sum(len(program.instructions) for program in launch.work.result.programs)
    assert len(sim.trace.instructions) == 100
    assert sim.trace.ops[-1].cores.left_out == whole - 100
    assert not (await traced(0))[0].trace.instructions


async def test_the_views_show_the_units_of_an_sm(tmp_path):
    sim, _ = await traced(10_000)
    lanes = [line.split()[0] for line in pipes.lanes(sim.trace, core="SM 1").splitlines() if line.endswith(" %")]
    assert lanes == ["ISSUE", "LSU", "MEM", "FMA"]
    chrome.write(sim.trace, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"SM 0 LSU", "SM 0 MEM", "SM 1 ISSUE"} <= named
    with pytest.raises(ValueError, match="no instructions of kernels on AI cores"):
        msprof_op.write(sim.trace, tmp_path / "op.json")
