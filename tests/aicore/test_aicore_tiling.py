"""Blocks and tiles cover every unit once, whatever the shape; tiling keys tell variants apart."""

from dataclasses import replace

import numpy as np
import pytest
from cores import SPEC, found, launch
from hypothesis import given
from hypothesis import strategies as st

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.tensors import GlobalTensor, half
from device_model.aicore.flags.stages import Pipe, Pipeline
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopyExtParams, DataCopyPad
from device_model.aicore.shaping.tiling import BlockTiling, TilingKey, block_tiling
from device_model.aicore.vector.elementwise import Adds

sizes = st.integers(1, 5000)


@given(sizes, st.integers(1, 64), st.integers(1, 40), st.integers(1, 9))
def test_every_element_belongs_to_one_tile_of_one_block(length, cores, unit, units_per_tile):
    tiling = block_tiling(length, cores, unit=unit, tile=unit * units_per_tile)
    covered = []
    for block in range(tiling.block_num):
        first, count = tiling.part(block)
        tiles = list(tiling.tiles(block))
        assert sum(size for _, size in tiles) == count > 0
        assert all(0 < size <= tiling.tile for _, size in tiles)
        assert first % unit == 0
        covered += [element for start, size in tiles for element in range(start, start + size)]
    assert covered == list(range(length))


@given(sizes, st.integers(1, 64), st.integers(1, 40))
def test_no_block_has_two_units_more_than_another(length, cores, unit):
    tiling = block_tiling(length, cores, unit=unit)
    units = [-(-tiling.part(block)[1] // unit) for block in range(tiling.block_num)]
    assert units == [tiling.tail_units + 1] * tiling.former_num + [tiling.tail_units] * tiling.tail_num
    assert tiling.block_num == min(cores, tiling.units)
    assert [len(list(tiling.tiles(block))) for block in range(tiling.block_num)] == [1] * tiling.block_num


def test_a_shape_in_numbers():
    tiling = block_tiling(1000, 8, unit=16, tile=48)
    assert (tiling.units, tiling.tail) == (63, 8)
    assert (tiling.former_num, tiling.former_length) == (7, 128)
    assert (tiling.tail_num, tiling.tail_length) == (1, 112)
    assert list(tiling.tiles(0)) == [(0, 48), (48, 48), (96, 32)]
    assert list(tiling.tiles(7)) == [(896, 48), (944, 48), (992, 8)]
    assert tiling.part(8) == (1000, 0)  # a block too many has nothing to do


def test_a_tiling_that_loses_units_is_refused():
    tiling = block_tiling(1000, 8, unit=16)
    with pytest.raises(ValueError, match="gives out 62 units, and there are 63"):
        replace(tiling, former_num=6)
    with pytest.raises(ValueError, match="a tile of 20 elements is not a multiple of the unit, 16"):
        block_tiling(1000, 8, unit=16, tile=20)
    with pytest.raises(ValueError, match="0 elements in units of 1 on 8 cores"):
        block_tiling(0, 8)
    with pytest.raises(ValueError, match="block -1"):
        tiling.part(-1)


def add_one(x, y, tiling: BlockTiling):
    x_gm, y_gm = (GlobalTensor(half).SetGlobalBuffer(each) for each in (x, y))

    def load(tile, a):
        DataCopyPad(a, x_gm[tile[0] :], DataCopyExtParams(1, tile[1] * 2))

    def store(tile, b):
        DataCopyPad(y_gm[tile[0] :], b, DataCopyExtParams(1, tile[1] * 2))

    pipeline = Pipeline(TPipe(), 2)
    pipeline.AddStage(Pipe.MTE2, load, [(half, tiling.tile)])
    pipeline.AddStage(Pipe.V, lambda tile, a, b: Adds(b, a, 1, tile[1]), [(half, tiling.tile)])
    pipeline.AddStage(Pipe.MTE3, store)
    pipeline.Run(tiling.tiles(GetBlockIdx()))


@pytest.mark.parametrize(("length", "cores"), [(1, 48), (31, 2), (12345, 48), (4096, 3)])
def test_a_kernel_goes_through_odd_shapes_with_it(length, cores):
    x = np.arange(length).astype(np.float16)
    y = np.zeros_like(x)
    tiling = block_tiling(length, min(cores, SPEC.vector_cores), unit=16, tile=512)
    assert found(launch(add_one, x, y, tiling, blocks=tiling.block_num)) == []
    np.testing.assert_array_equal(y, x + np.float16(1))


KEY = TilingKey(kind=("full_load", "split", "pad"), dtype=("float16", "float32"), deterministic=(False, True))


def test_a_tiling_key_has_a_digit_for_each_choice():
    assert KEY(kind="split", dtype="float32", deterministic=False) == 1110
    assert KEY.choice(1201) == {"kind": "pad", "dtype": "float16", "deterministic": True}


@given(st.sampled_from(KEY.axes["kind"]), st.sampled_from(KEY.axes["dtype"]), st.booleans())
def test_a_key_gives_back_what_it_was_made_of(kind, dtype, deterministic):
    choice = {"kind": kind, "dtype": dtype, "deterministic": deterministic}
    assert KEY.choice(KEY(**choice)) == choice


@pytest.mark.parametrize("key", [0, 110, 2000, 1300, 11000, -1000])
def test_other_numbers_are_no_keys(key):
    with pytest.raises(ValueError, match=f"{key} is not a key of"):
        KEY.choice(key)


def test_a_key_is_made_of_one_value_of_each_axis():
    with pytest.raises(TypeError, match="takes kind, dtype, deterministic, not kind"):
        KEY(kind="pad")
    with pytest.raises(ValueError, match="kind='none' is not one of 'full_load', 'split', 'pad'"):
        KEY(kind="none", dtype="float16", deterministic=True)
    with pytest.raises(ValueError, match="axis tile of a tiling key has 11 values"):
        TilingKey(tile=range(11))
