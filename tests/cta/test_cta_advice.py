"""Advice by replay, and that whoever follows it saves what it says; and what threads print."""

from inspect import signature

import numpy as np
import pytest

import acl_py as acl
from acl_py import cta
from device_model.cta.launch import Machine, Options, Parameter, run_on_arrays
from device_model.kernel.findings import KernelError
from device_model.profile import load

PROFILE = load("h200")
MACHINE = Machine(PROFILE.sm, PROFILE.cores.count, 0)
TILES, TILE = 12, 1024


def run(function, *arguments, grid=1, **options):
    parameters = [Parameter(name, True, True) for name in signature(function).parameters]
    return run_on_arrays(function, grid, arguments, machine=MACHINE, options=Options(**options), parameters=parameters)


def cycles(result):
    return result.timeline.card.cycles


def saved(result, advice):
    """The cycles that an advice promises."""
    return advice.saved_us * 1000 / result.timeline.ns_per_cycle


def shared_rows(x, y, width):
    """Each thread reads down its own row of shared memory."""
    s, t = cta.shared(np.float32, (128, width)), cta.tid
    for i in range(32):
        s[t, i] = x[i, t]
    total = cta.zeros()
    for i in range(32):
        total = total + s[t, i]
    y[t] = total


def test_whoever_pads_rows_saves_what_the_advice_says():
    x, y = np.ones((32, 128), np.float32), np.zeros(128, np.float32)
    conflicting, padded = (run(shared_rows, x, y, width) for width in (32, 33))
    [advice] = cta.advise(conflicting)
    assert advice.guideline is cta.Guideline.BANKS_APART
    assert [(case.name, case.count, case.what) for case in advice.cases] == [
        ("st.shared.32", 4 * 32, "takes 32.0 phases for each pass"),
        ("ld.shared.32", 4 * 32, "takes 32.0 phases for each pass"),
    ]
    assert saved(conflicting, advice) == pytest.approx(cycles(conflicting) - cycles(padded))
    assert saved(conflicting, advice) > 1000
    assert "BANKS_APART costs" in str(advice)
    assert cta.advise(padded) == []


def staged(x, y, stages, work):
    """Copies of tiles, and arithmetic for each."""
    s, t = cta.shared(np.float32, (stages, TILE)), cta.tid
    pipe = cta.pipeline(stages)

    def load(tile):
        pipe.producer_acquire()
        cta.cp_async(s.at[tile % stages, t * 4], x.at[tile, t * 4], 16)
        pipe.producer_commit()

    for tile in range(stages - 1):
        load(tile)
    total = cta.zeros()
    for tile in range(TILES):
        if tile + stages - 1 < TILES:
            load(tile + stages - 1)
        pipe.consumer_wait()
        cta.syncthreads()
        value = s[tile % stages, t]
        for _ in range(work):
            value = cta.fma(value, 2, 1)
        total = total + value
        cta.syncthreads()
        pipe.consumer_release()
    y[t] = total


def test_a_stage_more_saves_what_the_advice_says():
    x, y = np.ones((TILES, TILE), np.float32), np.zeros(256, np.float32)
    results = [run(staged, x, y, stages, 100, threads=256) for stages in (1, 2)]
    [advice] = [each for each in cta.advise(results[0]) if each.guideline is cta.Guideline.MORE_STAGES]
    gain = cycles(results[0]) - cycles(results[1])
    assert gain > 0.3 * cycles(results[0])
    assert saved(results[0], advice) == pytest.approx(gain, rel=0.1)


def test_a_stage_that_hides_all_leaves_nothing_to_save():
    x, y = np.ones((TILES, TILE), np.float32), np.zeros(256, np.float32)
    result = run(staged, x, y, 2, 400, threads=256)
    [advice] = [each for each in cta.advise(result) if each.guideline is cta.Guideline.MORE_STAGES]
    assert saved(result, advice) < 0.02 * cycles(result)


def chain(y):
    value = cta.full((), 1)
    for _ in range(40):
        value = cta.fma(value, 2, 1)
    y[cta.tid] = value


@pytest.mark.slow
def test_room_for_a_block_more_saves_what_the_advice_says():
    y = np.zeros(128, np.float32)
    grid = MACHINE.sms * 6
    three, four = (run(chain, y, grid=grid, threads=128, registers=registers) for registers in (168, 128))
    assert (three.timeline.occupancy.blocks, four.timeline.occupancy.blocks) == (3, 4)
    [advice] = cta.advise(three)
    assert advice.guideline is cta.Guideline.MORE_BLOCKS
    assert saved(three, advice) == pytest.approx(cycles(three) - cycles(four))
    assert advice.cases[0].what == "has 3 blocks on an SM, limited by registers"


def test_a_launch_without_times_has_no_advice():
    with pytest.raises(ValueError, match="has no times"):
        cta.advise(cta.Result())


def talk(x):
    value = x[cta.tid]
    cta.printf("begins\n")
    with cta.where(cta.tid % 40 == 7):
        cta.printf("%d of %s: %.1f %lld", cta.tid, "x", value, cta.block[0])


def test_each_active_thread_prints_with_its_cycle():
    result = run(talk, np.arange(64, dtype=np.float32), grid=2, threads=64)
    lines = result.output.splitlines()
    assert len(lines) == 2 * (64 + 2)
    assert [line for line in lines if " of x" in line] == [
        f"[block {block}, thread {thread}, cycle {cycle(result, block, thread):.0f}] {thread} of x: {thread}.0 {block}"
        for block in (0, 1)
        for thread in (7, 47)
    ]


def cycle(result, block, thread):
    """When the warp of *thread* has issued the comparison before its message."""
    issued = [each for each in result.programs[block].instructions if each.pipe.name == "ISSUE"]
    return [each.end for each in issued if each.warp == thread // 32][-1]


def test_blocks_of_a_grid_in_several_directions_print_their_place():
    def hello():
        with cta.where(cta.tid == 3):
            cta.printf("hello")

    result = run(hello, grid=(1, 2, 1), threads=32)
    assert [line.split(", thread 3")[0] for line in result.output.splitlines()] == [
        "[block (0, 0, 0)",
        "[block (0, 1, 0)",
    ]


def test_printing_takes_no_time_and_needs_a_value_for_each_thread():
    def silent(x):
        cta.select(cta.tid % 40 == 7, x[cta.tid], 0)

    def crooked(x):
        cta.printf("%f", np.zeros(3))

    x = np.arange(64, dtype=np.float32)
    assert cycles(run(talk, x, threads=64)) <= cycles(run(silent, x, threads=64))
    with pytest.raises(KernelError, match=r"printf\(\) at test_cta_advice.py:\d+ of an array of shape \(3,\)"):
        run(crooked, x, threads=64)


async def test_what_is_printed_comes_out_at_the_end_of_the_launch(capsys):
    @cta.kernel(threads=32)
    def hello():
        with cta.where(cta.tid == 0):
            cta.printf("hello from block %d", cta.block[0])

    async with acl.simulate(device="h200"):
        await hello[2]()
        assert capsys.readouterr().out == ""
        await acl.SynchronizeDevice()
    out = capsys.readouterr().out
    assert [line.split("] ")[1] for line in out.splitlines()] == ["hello from block 0", "hello from block 1"]
