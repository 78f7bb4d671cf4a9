"""TransDataTo5HD: blocks of 32 bytes that become columns."""

import numpy as np
import pytest
from cores import found
from instructions import half, in_ub, issued, on_core, same, single

from device_model.aicore.vector.transdata import TransDataTo5HD, TransDataTo5HDParams
from device_model.kernel.findings import KernelError


def transposed(array, params, src_step, dst_step, size, *, by_address=False):
    """Blocks of *array* that are *src_step* elements apart, transposed to blocks *dst_step* elements apart."""
    seen = []

    def kernel():
        src, dst = in_ub(array, 0), in_ub(np.zeros(size, array.dtype), 65_536)
        places = [[tensor[each * step :] for each in range(16)] for tensor, step in ((dst, dst_step), (src, src_step))]
        if by_address:
            TransDataTo5HD(*[[each.GetPhyAddr() for each in some] for some in places], params, array.dtype)
        else:
            TransDataTo5HD(*places, params)
        seen.extend((dst.view.copy(), issued()))

    result = on_core(kernel)
    assert found(result) == []
    return seen


@pytest.mark.parametrize("by_address", [False, True])
@pytest.mark.parametrize("dtype", [half, np.dtype(np.int16), np.dtype(np.uint16)], ids=str)
def test_blocks_of_16_bits_become_columns(dtype, by_address):
    x = np.arange(256).astype(dtype)
    result, cost = transposed(x, TransDataTo5HDParams(), 16, 16, 256, by_address=by_address)
    assert same(result.reshape(16, 16), x.reshape(16, 16).T)
    assert cost == ("TransDataTo5HD", 25, 2)


@pytest.mark.parametrize("dtype", [single, np.dtype(np.int32), np.dtype(np.uint32)], ids=str)
def test_blocks_of_32_bits_become_columns_of_two_blocks(dtype):
    x = np.arange(128).astype(dtype)
    result, _ = transposed(x, TransDataTo5HDParams(), 8, 8, 128)
    assert same(result.reshape(8, 16), x.reshape(16, 8).T)


@pytest.mark.parametrize("dst_high", [False, True])
@pytest.mark.parametrize("src_high", [False, True])
def test_blocks_of_8_bits_are_transposed_by_halves(src_high, dst_high):
    x = np.arange(512).astype(np.int8)
    result, _ = transposed(x, TransDataTo5HDParams(dst_high, src_high), 32, 32, 512)
    expected = np.zeros((16, 32), np.int8)
    expected[:, 16 * dst_high : 16 * dst_high + 16] = x.reshape(16, 32)[:, 16 * src_high : 16 * src_high + 16].T
    assert same(result.reshape(16, 32), expected)


def test_repeats_bring_channels_last():
    """16 planes of 8 x 16 halves: repeat r takes block r of each plane, and writes 16 blocks."""
    planes = np.arange(16 * 128, dtype=np.float16).reshape(16, 128)
    result, cost = transposed(planes, TransDataTo5HDParams(False, False, 8, 16, 1), 128, 16, 16 * 128)
    assert same(result.reshape(128, 16), planes.T)
    assert cost == ("TransDataTo5HD", 25, 16)


def test_a_single_repeat_begins_a_stride_behind_its_places_and_none_does_nothing():
    x = np.arange(512, dtype=np.float16)
    result, _ = transposed(x, TransDataTo5HDParams(False, False, 1, 16, 16), 16, 16, 512)
    assert same(result[256:].reshape(16, 16), x[256:].reshape(16, 16).T)
    assert not result[:256].any()
    nothing, cost = transposed(x, TransDataTo5HDParams(False, False, 0, 16, 16), 16, 16, 512)
    assert not nothing.any()
    assert cost == ("TransDataTo5HD", 25, 0)


@pytest.mark.parametrize(
    ("params", "change", "error", "message"),
    [
        ({}, lambda dst, src: (dst[:15], src), KernelError, "dst_list has 15 places.*it takes 16"),
        ({}, lambda dst, src: (dst, [*src[:15], src[15][1:]]), KernelError, "each is a multiple of 32"),
        ({}, lambda dst, src: (dst, [each.GetPhyAddr() for each in src]), TypeError, "tensors or addresses, not both"),
        ({}, lambda *some: [[each.GetPhyAddr() for each in tensors] for tensors in some], TypeError, "needs the type"),
        (
            {},
            lambda dst, src: (dst, [each.ReinterpretCast(np.int16) for each in src]),
            KernelError,
            "src_list is int16",
        ),
        ({"repeat_times": 256}, lambda *some: some, KernelError, "256 repeats.*takes 0 to 255"),
        ({"src_rep_stride": -1}, lambda *some: some, KernelError, "a stride of -1 blocks in src_list"),
        ({"repeat_times": 9, "dst_rep_stride": 999}, lambda *some: some, KernelError, "reaches byte .* it has 196608"),
        ({"src_high_half": True}, lambda *some: some, KernelError, "only types of 8 bits have halves"),
    ],
)
def test_what_it_refuses(params, change, error, message):
    def kernel():
        tensors = [in_ub(np.zeros(256, half), address) for address in (0, 65_536)]
        lists = change(*[[tensor[16 * each :] for each in range(16)] for tensor in tensors])
        TransDataTo5HD(*lists, TransDataTo5HDParams(**params))

    with pytest.raises(error, match=f"(?s){message}"):
        on_core(kernel)


def test_a_block_that_is_read_while_it_may_still_be_written_is_found():
    x = np.zeros(256, half)

    def kernel():
        src = in_ub(x, 0)
        dst = in_ub(x, 65_536)
        lists = [[tensor[16 * each :] for each in range(16)] for tensor in (dst, src)]
        TransDataTo5HD(*lists, TransDataTo5HDParams())
        dst.GetValue(3)

    assert found(on_core(kernel)) == [("RAW", "V_S")]
