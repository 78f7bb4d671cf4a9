"""Launches of thread blocks: how many an SM holds, and when each block runs."""

import sys

import numpy as np
import pytest

from acl_py import cta
from device_model.cta.launch import Machine, Options, Parameter, run_on_arrays
from device_model.profile import load
from device_model.sm.card import Card
from device_model.sm.instructions import Op, Row, Unit
from device_model.sm.occupancy import resident_blocks

SPEC = load("h200").sm


def chain(count):
    """A block of one warp that takes *count* chained multiply-adds."""
    frame = sys._getframe(1)
    return [Row(Op.FMA, "fma", 1, frame.f_code, frame.f_lasti, count=count, chains=1)]


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "expected"),
    [
        (32, 16, 0, 32),  # no more than 32 blocks
        (1024, 32, 0, 2),  # 64 warps
        (256, 64, 0, 4),  # 65,536 registers
        (256, 65, 0, 3),  # a warp gets registers by 256
        (128, 32, 48 * 1024, 4),  # 228 KB, of which each block takes 1 KB in addition
        (128, 32, 227 * 1024, 1),
        (1024, 128, 0, 0),
    ],
)
def test_occupancy_is_the_least_of_four_limits(threads, registers, shared, expected):
    assert resident_blocks(threads, registers, shared, SPEC) == expected


def test_blocks_whose_instructions_wait_for_others_are_timed_on_their_own():
    """Both issue a load and two additions; in the second block the last addition needs the load."""

    def block(needed):
        frame = sys._getframe()
        place = frame.f_code, frame.f_lasti
        return [
            Row(Op.LDS_32, "ld.shared", 1, *place, writes=(1,)),
            Row(Op.FMA, "add", 1, *place, count=16, writes=(2,)),
            Row(Op.FMA, "add", 1, *place, count=16, chains=1, reads=(needed,)),
        ]

    card = Card(2, 1, SPEC)
    card.add(block(2))
    card.add(block(1))
    (_, first), (_, second) = card.play().spans
    assert first < second


def test_blocks_beyond_the_places_wait_for_one():
    card = Card(4, 2, SPEC)
    for _ in range(9):
        card.add(chain(100))
    timeline = card.play()
    one = timeline.spans[0][1]
    assert timeline.spans == [(0, one)] * 8 + [(one, 2 * one)]
    assert timeline.resident == 2
    assert timeline.cycles == 2 * one


def test_a_long_block_keeps_its_place_and_others_go_on():
    card = Card(2, 1, SPEC)
    for count in (300, 100, 100, 100):
        card.add(chain(count))
    first, *others = card.play().spans
    assert [start for start, _ in others] == pytest.approx([0, 100 * 4.507, 200 * 4.507], rel=0.01)
    assert first[1] == pytest.approx(300 * 4.507, rel=0.01)


def test_blocks_share_an_sm_only_if_there_are_more_than_sms():
    """Independent multiply-adds of five blocks of a warp meet on a scheduler; those of four do not."""

    def launched(blocks):
        card = Card(1, 8, SPEC)
        for _ in range(blocks):
            rows = chain(64)
            rows[0].chains = 0
            card.add(rows)
        return card.play().cycles

    assert launched(4) == pytest.approx(launched(1))
    assert launched(5) == pytest.approx(2 * launched(1), rel=0.1)


def test_an_sm_with_one_block_more_takes_longer():
    """Nine blocks on two SMs: in the first SM two warps share a scheduler."""
    card = Card(2, 8, SPEC)
    for _ in range(9):
        rows = chain(64)
        rows[0].chains = 0
        card.add(rows)
    ends = [end for _, end in card.play().spans]
    assert max(ends[0::2]) > 1.8 * max(ends[1::2])


@pytest.mark.parametrize(("op", "unit"), [(Op.FMA, Unit.FMA), (Op.SFU, Unit.SFU)])
def test_the_part_of_the_time_that_units_work(op, unit):
    card = Card(1, 1, SPEC)
    rows = chain(64)
    rows[0].chains, rows[0].op = 0, op
    card.add(rows * 100)
    busy = card.play().busy
    assert busy[unit] == pytest.approx(1 / 4, rel=0.01)  # one scheduler of four
    assert busy[Unit.LSU] == 0


@pytest.mark.slow
def test_blocks_are_of_other_kinds_by_their_memory_and_not_by_chance():
    """A product by tiles: its 64 blocks have the same instructions, though lines compute equal indices in some of them.

    `first + x` is `column` in the step that begins at the block's first column. Four kinds are left, because the first
    block of each row and of each column finds its tiles in DRAM and not in the L2.
    """
    side, blocks = 8, 8

    def product(a, b, c):
        y, x = divmod(cta.tid, side)
        row, column = cta.block[1] * side + y, cta.block[0] * side + x
        s, t = cta.shared(np.float32, (side, side)), cta.shared(np.float32, (side, side))
        total = cta.zeros()
        for first in range(0, blocks * side, side):
            s[y, x], t[y, x] = a[row, first + x], b[first + y, column]
            cta.syncthreads()
            for k in range(side):
                total = cta.fma(s[y, k], t[k, x], total)
            cta.syncthreads()
        c[row, column] = total

    length = blocks * side
    a, b = (np.random.default_rng(seed).random((length, length), np.float32) for seed in (0, 1))
    c = np.zeros_like(a)
    parameters = [Parameter("a", True, False), Parameter("b", True, False), Parameter("c", False, True)]
    result = run_on_arrays(
        product, (blocks, blocks, 1), (a, b, c), parameters=parameters, machine=Machine(SPEC, 132, 0),
        options=Options(threads=side * side, hazards=False),
    )  # fmt: skip
    assert np.allclose(c, a @ b)
    kinds = result.timeline.card.kinds
    assert len(kinds) == 4
    # A quotient and a remainder; two numbers for the row and the column, but none for the block's first ones, which are
    # constants; of each step two indices, two loads and stores, two barriers and three instructions for each product.
    assert [len(rows) for rows in kinds] == [2 + 2 + blocks * (8 + 3 * side) + 1] * 4
