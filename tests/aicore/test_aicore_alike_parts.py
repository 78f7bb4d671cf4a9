"""Blocks that do several things: each kind is recorded once, however the blocks are divided before, and what a block
that runs by itself changes is seen by those behind it.
"""

from functools import partial

import numpy as np
import pytest
from alike import TILE, check_same, numbers, ub
from cores import launch

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, KernelType
from device_model.aicore.core.tensors import GlobalTensor, float32
from device_model.aicore.cube.matmul_tiling import TCubeTiling
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.elementwise import Adds
from tests.bench.rows.matmuls import multiply

SIDE = 224  # of a product: three parts of 64, and one of 32


def copy_by_ways(x, y, ways):
    """Copy a tile, after a branch for each of *ways*: its number of the block, from the lowest bit on, decides."""
    block, left = GetBlockIdx(), 0
    for way in range(ways):
        if block // 2**way % 2:
            left += 1
    x, y = (GlobalTensor(float32).SetGlobalBuffer(each)[block * TILE :] for each in (x, y))
    for _ in range(1 + left):
        DataCopy(ub(0), x, TILE)
    SetFlag(HardEvent.MTE2_MTE3, 0)
    WaitFlag(HardEvent.MTE2_MTE3, 0)
    DataCopy(y, ub(0), TILE)


def test_shorter_parts_at_two_edges_of_a_product_are_recorded_apart():
    """Of 4 x 4 parts 9 are whole, 3 and 3 are short in one direction, and one in both, which runs by itself.

    Three runs find out that parts differ, and three are recorded.
    """
    tiling = TCubeTiling(
        SIDE, SIDE, 64, 64, 64, 64, 64, 32, 64, 64, 2, 2, step_ka=1, step_kb=1, db_l0a=2, db_l0b=2, db_l0c=1
    )
    a, b = numbers(2, SIDE * 64, np.float16)
    factors = [a.reshape(SIDE, 64), b.reshape(64, SIDE), np.zeros((SIDE, SIDE), np.float16)]
    assert tiling.used_core_num == 16
    assert check_same(multiply, factors, tiling, False, blocks=16, kind=KernelType.AIC_ONLY) == 7


def test_four_ways_of_sixteen_blocks_cost_three_failures():
    """Two branches make four parts of 4 blocks: three runs find that blocks differ, and four are recorded."""
    assert check_same(copy_by_ways, numbers(2), 2, blocks=16) == 7


def test_blocks_that_are_divided_too_often_run_one_by_one():
    """With 12 blocks three runs may fail. Three branches divide them further: three runs fail, and each runs alone."""
    assert check_same(copy_by_ways, numbers(2), 3, blocks=12) == 3 + 12


class Switch:
    is_on = False


def switches(at, x):
    """Block *at* sets an attribute of a class, which this block and those behind it read."""
    if GetBlockIdx() == at:
        Switch.is_on = True
    Adds(ub(1), ub(0), float(Switch.is_on), TILE)
    DataCopy(GlobalTensor(float32).SetGlobalBuffer(x)[GetBlockIdx() * TILE], ub(1), TILE)


def turns(at, x):
    """Each block turns an attribute of a class from false to true or back; the one behind block *at* adds 2."""
    Switch.is_on = not Switch.is_on
    value = 2.0 if GetBlockIdx() > at else 0.0
    Adds(ub(1), ub(0), float(Switch.is_on) + value, TILE)
    DataCopy(GlobalTensor(float32).SetGlobalBuffer(x)[GetBlockIdx() * TILE], ub(1), TILE)


@pytest.mark.parametrize(
    ("kernel", "written"),
    [(partial(switches, 3), [0, 0, 0, 1, 1, 1, 1, 1]), (partial(turns, 6), [1, 0, 1, 0, 1, 0, 1, 2])],
    ids=["one block sets it", "each block turns it"],
)
def test_an_attribute_that_some_blocks_set_is_seen_by_the_blocks_behind_them(kernel, written):
    """A block that is alone with its branch runs by itself: so block 3 makes its change after the others were recorded.

    The first record finds out that block 7 differs, and the second one turns back what the first one has turned.
    """
    Switch.is_on = False
    x = np.zeros(8 * TILE, np.float32)
    launch(kernel, x, blocks=8, hazards=False, fill=bytes(2))
    assert x[::TILE].tolist() == written
