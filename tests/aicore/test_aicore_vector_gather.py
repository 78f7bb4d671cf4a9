"""Vector instructions that gather and rearrange."""

import numpy as np
import pytest
from cores import found, prewritten
from hypothesis import given
from hypothesis import strategies as st
from instructions import floats, half, in_ub, issued, normal, on_core, same, seeds, single, vector

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.gather import (
    Brcb,
    BrcbRepeatParams,
    Gather,
    GatherMask,
    GatherMaskParams,
    Transpose,
)
from device_model.kernel.findings import KernelError


@given(
    seed=seeds,
    dtype=st.sampled_from([half, single, np.dtype(np.int16), np.dtype(np.uint32)]),
    count=st.integers(1, 200),
)
def test_gather_takes_bytes_offsets(seed, dtype, count):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 99, 512).astype(dtype)
    index = rng.integers(0, 500, 200)
    offsets = (index * dtype.itemsize).astype(np.uint32)
    base = 12 * dtype.itemsize
    result, launched = vector(lambda d, a, o: Gather(d, a, o, base, count), np.zeros(200, dtype), x, offsets)
    assert same(result[:count], x[index[:count] + 12])
    assert not result[count:].any()
    assert found(launched) == []


def test_gather_outside_of_its_source_is_refused():
    with pytest.raises(KernelError, match=r"offset 400 from .*multiples of 4 below 256"):
        vector(
            lambda d, a, o: Gather(d, a, o, 0, 1), np.zeros(8, single), np.zeros(64, single), np.full(8, 400, np.uint32)
        )


@given(seed=seeds, dtype=floats, repeats=st.integers(1, 4), pattern=st.integers(0, 7), counted=st.booleans())
def test_gather_mask_packs_what_the_pattern_picks(seed, dtype, repeats, pattern, counted):
    lanes = 256 // dtype.itemsize
    each = 40 if counted else lanes
    x = normal(seed, 4 * lanes, dtype)
    bits = np.random.default_rng(seed).integers(0, 256, 256).astype(np.uint8)
    rows = x[: repeats * lanes].reshape(repeats, lanes)[:, :each]
    lane = np.arange(each)
    fixed = {1: lane % 2 == 0, 2: lane % 2 == 1, 3: lane % 4 == 0, 4: lane % 4 == 1, 5: lane % 4 == 2, 6: lane % 4 == 3}
    if pattern == 0:
        picked = np.unpackbits(bits, bitorder="little").reshape(-1, 256)[:repeats, :each].astype(bool)
        expected = rows[picked]
    else:
        expected = rows[:, fixed.get(pattern, lane >= 0)].ravel()
    counts = []

    def gather(d, a, p):
        chosen = p if pattern == 0 else pattern
        params = GatherMaskParams(1, repeats, 8, 1)  # a repeat's bits are 32 bytes on
        counts.append(GatherMask(d, a, chosen, counted, each, params))

    user = bits.view(np.uint16 if dtype == half else np.uint32)
    result, _ = vector(gather, np.zeros(512, dtype), x, user)
    assert counts == [len(expected)]
    assert same(result[: counts[0]], expected)


@given(seed=seeds, dtype=floats, each=st.integers(1, 200), picks=st.data())
def test_gather_mask_goes_by_its_strides(seed, dtype, each, picks):
    """Blocks and repeats of the source with gaps; a pattern begins again, or goes on, in each repeat."""
    per_block = 32 // dtype.itemsize
    block_stride, repeats = picks.draw(st.integers(1, 3)), picks.draw(st.integers(1, 3))
    repeat_stride, bits_stride = picks.draw(st.integers(0, 9)), picks.draw(st.integers(0, 3))
    pattern = picks.draw(st.integers(0, 7))
    x = normal(seed, 4096, dtype)
    bits = np.random.default_rng(seed).integers(0, 256, 256).astype(np.uint8)
    taken = []
    for repeat in range(repeats):
        for lane in range(each):
            at = repeat * repeat_stride * per_block + lane // per_block * block_stride * per_block + lane % per_block
            bit = repeat * bits_stride * 256 + lane
            by_bit = bool(bits[bit // 8] >> bit % 8 & 1)
            if [by_bit, lane % 2 == 0, lane % 2 == 1, *(lane % 4 == first for first in range(4)), True][pattern]:
                taken.append(x[at])
    counts = []

    def gather(d, a, p):
        params = GatherMaskParams(block_stride, repeats, repeat_stride, bits_stride)
        counts.append(GatherMask(d, a, pattern or p, True, each, params))

    user = bits.view(np.uint16 if dtype == half else np.uint32)
    result, launched = vector(gather, np.zeros(1024, dtype), x, user)
    assert counts == [len(taken)]
    assert same(result[: len(taken)], np.array(taken, dtype))
    assert not result[len(taken) :].any()
    assert found(launched) == []


def test_a_fixed_pattern_touches_only_what_it_picks():
    """The other half of the buffer may be on its way out meanwhile."""
    x = np.arange(128, dtype=np.float32)
    _, launched = vector(
        lambda d, a: GatherMask(d, a, 1, False, 0, GatherMaskParams(1, 2, 8, 0)), np.zeros(128, single), x
    )
    (gather,) = launched.programs[0].instructions
    assert gather.name == "GatherMask"

    def kernel():
        tile = prewritten(LocalTensor(single, TPosition.VECCALC, 0, 256))
        GatherMask(tile, tile[128:], 1, False, 0, GatherMaskParams(1, 2, 8, 0))

    assert found(on_core(kernel)) == []


def gathered_by(bits, size=64, places=(0, 8192, 16_384)):
    """64 floats by a tensor of bits; destination, source and bits at these bytes of UB."""

    def kernel():
        dst, src = in_ub(np.zeros(size, single), places[0]), in_ub(np.ones(64, single), places[1])
        GatherMask(dst, src, in_ub(bits, places[2]), False, 0, GatherMaskParams())

    return found(on_core(kernel))


def test_gather_mask_says_what_does_not_fit():
    some, ones = np.full(2, 0x01010101, np.uint32), np.full(2, 0xFFFFFFFF, np.uint32)
    assert gathered_by(some, size=8) == gathered_by(ones) == []
    with pytest.raises(KernelError, match="make dst large enough for all selected"):
        gathered_by(ones, size=8)
    with pytest.raises(KernelError, match="it must be aligned to 32 bytes and have 8 of them"):
        gathered_by(ones[:1])
    with pytest.raises(KernelError, match="it must be aligned to 32 bytes and have 8 of them"):
        gathered_by(ones, places=(0, 8192, 16_388))
    with pytest.raises(KernelError, match="pattern 8; fixed patterns are 1 to 7"):
        vector(
            lambda d, a: GatherMask(d, a, 8, False, 0, GatherMaskParams()), np.zeros(64, single), np.ones(64, single)
        )
    assert gathered_by(some, places=(128, 0, 16_384)) == [("PARTIAL_OVERLAP", "")]


def test_gather_mask_reads_all_its_bits_may_write_all_of_dst_and_takes_its_repeats():
    def kernel(x):
        dst, src = in_ub(np.zeros(128, single), 0), in_ub(np.ones(128, single), 8192)
        bits, gm = in_ub(np.ones(16, np.uint32), 16_384), GlobalTensor().SetGlobalBuffer(x)
        DataCopy(bits[8:], gm, 8)  # those of the second repeat
        DataCopy(dst[120:], GlobalTensor(single).SetGlobalBuffer(x), 8)
        GatherMask(dst, src, bits, False, 0, GatherMaskParams(1, 2, 8, 1))
        two = issued()
        GatherMask(dst, src, bits, False, 0, GatherMaskParams(1, 1, 8, 1))
        assert two[2] == 2 * issued()[2]

    assert found(on_core(kernel, np.zeros(8, np.uint32))) == [("RAW", "MTE2_V"), ("WAW", "MTE2_V")]


def test_brcb_transpose():
    x = np.arange(16, dtype=np.float32)
    result, _ = vector(lambda d, a: Brcb(d, a, 2, BrcbRepeatParams(1, 8)), np.zeros(128, single), x)
    assert same(result, np.repeat(x, 8))
    matrix = np.arange(256).astype(half)
    turned, _ = vector(Transpose, np.zeros(256, half), matrix)
    assert same(turned, matrix.reshape(16, 16).T.ravel())


@pytest.mark.parametrize(("apart", "rules"), [(8, []), (6, ["PARTIAL_OVERLAP"])], ids=["behind", "ahead"])
def test_a_gather_in_place_may_write_what_it_has_read(apart, rules):
    """With repeats that follow each other the results stay behind what is read; with closer ones they overtake it."""
    x = np.arange(256, dtype=single)

    def kernel():
        tensor = in_ub(x, 0)
        GatherMask(tensor, tensor, 7, True, 64, GatherMaskParams(1, 4, apart, 0))
        seen.append(tensor.view.copy())

    seen = []
    launched = on_core(kernel)
    assert [rule for rule, _ in found(launched)] == rules
    if not rules:
        assert seen[0].tolist() == x.tolist()
