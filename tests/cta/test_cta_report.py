"""What a launch made of the card: occupancy, traffic by level, bank conflicts by line, hidden copies."""

import sys

import numpy as np
import pytest

import acl_py as acl
from acl_py import cta
from device_model.cta.report import report
from device_model.profile import load
from device_model.sm.card import Card
from device_model.sm.instructions import Op, Row
from device_model.sm.occupancy import Occupancy

SPEC = load("h200").sm
SMS = load("h200").cores.count


@cta.kernel(threads=32)
def every_second(x: cta.In, y: cta.Out):
    s, t = cta.shared(np.float32, 64), cta.tid
    s[t * 2] = x[t]  # words 0 and 32 of a bank: 2 phases
    y[t] = s[t * 2 - t % 2 * 2]  # lanes 2i and 2i + 1 read word 4i: banks 0, 4, 8, ..., 2 phases
    with cta.where(t < 16):
        y[t] = s[t * 2]  # half of the lanes, no conflict


async def launched(kernel, grid, *shapes):
    async with acl.simulate(device="h200"):
        arrays = [acl.Array(await acl.Malloc(4 * int(np.prod(shape))), np.float32, shape) for shape in shapes]
        for array in arrays:
            await acl.Memset(array.buffer, array.nbytes, 0, array.nbytes)
        launch = await kernel[grid](*arrays)
        await acl.SynchronizeDevice()
    return launch.work.result


async def test_conflicts_are_counted_by_line():
    told = (await launched(every_second, 3, (32,), (32,))).report()
    first = every_second.function.__code__.co_firstlineno
    assert [(line.site.line - first, *line[1:]) for line in told.conflicts] == [
        (3, "st.shared.32", 3, 6, 3),
        (4, "ld.shared.32", 3, 6, 3),
    ]
    assert told.conflicts[0].ways == 2
    assert told.shared.nbytes == 3 * 3 * 128  # three passes in each block
    assert "ld.shared.32, 2.0 ways, 3 of 6 phases" in str(told)


async def test_a_line_is_one_line_however_often_it_runs():
    """Before Python 3.13 the interpreter moves f_lasti of a subscript once it has specialised it."""

    @cta.kernel(threads=32)
    def hundred_times(x: cta.In, y: cta.Out):
        s, t = cta.shared(np.float32, 64), cta.tid
        s[t * 2] = x[t]
        for _ in range(100):
            y[t] = s[t * 2]

    told = (await launched(hundred_times, 1, (32,), (32,))).report()
    assert [(line.name, line.phases) for line in told.conflicts] == [("ld.shared.32", 200), ("st.shared.32", 2)]


async def test_sectors_are_hits_from_their_second_use_on():
    told = (await launched(every_second, 3, (32,), (32,))).report()
    first, other = 4 + 4, 4 + 2 + 4 + 4 + 2  # x and y; in later blocks all of it is there
    assert told.sectors == 3 * (4 + 4 + 2)
    assert told.hits == told.sectors - first
    assert other > first
    assert told.l2.nbytes == 32 * told.sectors
    assert told.dram.nbytes == 32 * first
    ns = told.duration_us * 1000
    assert told.l2.gb_per_s == pytest.approx(32 * told.sectors / ns)
    assert told.dram.share == pytest.approx(32 * first / (ns * SPEC.dram_bytes_permille / 1000 * SPEC.khz / 1e6))
    assert told.hidden is None
    assert "copies" not in str(told)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limiters"),
    [
        (32, 16, 0, 32, ["blocks"]),
        (1024, 32, 0, 2, ["threads", "registers"]),
        (256, 65, 0, 3, ["registers"]),
        (128, 32, 48 * 1024, 4, ["shared memory"]),
    ],
)
def test_occupancy_names_what_limits_it(threads, registers, shared, blocks, limiters):
    fits = Occupancy(threads, registers, shared, SPEC)
    assert (fits.blocks, fits.limiters) == (blocks, limiters)
    assert fits.share == blocks * threads / 2048


def row(op, **what):
    frame = sys._getframe(1)
    return Row(op, op.name, 1, frame.f_code, frame.f_lasti, **what)


def told_of(*rows, blocks=1):
    fits = Occupancy(32, 32, 0, SPEC)
    card = Card(SMS, fits.blocks, SPEC)
    for _ in range(blocks):
        card.add(rows)
    return report(card.play(), fits, SPEC)


def test_a_copy_is_hidden_as_long_as_a_warp_does_something_else():
    copy = row(Op.CP_ASYNC, sectors=16, phases=4), row(Op.COMMIT)
    on_its_way = SPEC.l2_permille / 1000
    bare = told_of(*copy, row(Op.WAIT_GROUP))
    assert bare.copy_us == pytest.approx(on_its_way * 1000 / SPEC.khz)
    assert bare.hidden == pytest.approx(2 / on_its_way)  # the issue of the copy and of the commit
    covered = told_of(*copy, row(Op.FMA, count=100), row(Op.WAIT_GROUP))
    assert covered.hidden == pytest.approx(102 / on_its_way)
    assert told_of(*copy, row(Op.FMA, count=1000), row(Op.WAIT_GROUP)).hidden == pytest.approx(1)


def test_waves_count_how_often_blocks_fill_the_card():
    assert told_of(row(Op.FMA), blocks=SMS * 32).waves == 1
    assert told_of(row(Op.FMA), blocks=SMS * 48).waves == 1.5


def test_a_launch_that_was_stopped_has_no_report():
    from device_model.cta.runner import Result

    with pytest.raises(ValueError, match="has no times"):
        Result().report()
