"""LoadData that unrolls an image, for convolutions in the cube."""

import numpy as np
import pytest
from cores import found
from hypothesis import given
from hypothesis import strategies as st
from instructions import after, half, on_core, single

from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.fixpipe import Fixpipe, FixpipeParams
from device_model.aicore.cube.im2col import LoadData3DParamsV2
from device_model.aicore.cube.loads import (
    FmatrixMode,
    LoadData,
    LoadData2DParams,
    SetFmatrix,
    SetLoadDataPaddingValue,
)
from device_model.aicore.cube.mmad import PRODUCTS, Mmad, MmadParams, k0
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError

BYTE = np.dtype(np.int8)


def matrix_of(image, params):
    """Place by place and tap by tap: *image* is channels x rows x columns."""
    left, right, top, bottom = params.pad_list
    width = k0(image.dtype)
    channels, high, wide = image.shape
    rows = []
    for y in range(-top, high + bottom - (params.filter_h - 1) * params.dilation_filter_h, params.stride_h):
        for x in range(-left, wide + right - (params.filter_w - 1) * params.dilation_filter_w, params.stride_w):
            row = []
            for plane in range(channels // width):
                for tap_y in range(params.filter_h):
                    for tap_x in range(params.filter_w):
                        at = y + tap_y * params.dilation_filter_h, x + tap_x * params.dilation_filter_w
                        is_inside = 0 <= at[0] < high and 0 <= at[1] < wide
                        block = range(plane * width, (plane + 1) * width)
                        row += [image[channel, *at] if is_inside else params.pad_value for channel in block]
            rows.append(row)
    return np.array(rows, image.dtype)


def in_l1(image, address=0):
    """*image* as planes of pixels of k0 channels."""
    channels, high, wide = image.shape
    width = k0(image.dtype)
    tensor = LocalTensor(image.dtype, TPosition.A1, address, image.size)
    tensor.view[:] = image.reshape(channels // width, width, high, wide).transpose(0, 2, 3, 1).ravel()
    return tensor


@st.composite
def images(draw):
    """An image, and what is asked of it: all of its matrix, or rows and columns in the middle."""
    dtype = draw(st.sampled_from([half, single, BYTE]))
    width = k0(dtype)
    high, wide = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    params = LoadData3DParamsV2(
        high, wide, width * draw(st.integers(1, 2)),
        pad_list=tuple(draw(st.integers(0, 2)) for _ in range(4)),
        stride_w=draw(st.integers(1, 3)), stride_h=draw(st.integers(1, 3)),
        filter_w=draw(st.integers(1, 3)), filter_h=draw(st.integers(1, 3)),
        dilation_filter_w=draw(st.integers(1, 2)), dilation_filter_h=draw(st.integers(1, 2)),
        pad_value=draw(st.integers(-3, 3)),
    )  # fmt: skip
    left, right, top, bottom = params.pad_list
    down = (high + top + bottom - (params.filter_h - 1) * params.dilation_filter_h - 1) // params.stride_h + 1
    across = (wide + left + right - (params.filter_w - 1) * params.dilation_filter_w - 1) // params.stride_w + 1
    if down < 1 or across < 1:
        return draw(images())
    rows, columns = down * across, params.channel_size * params.filter_h * params.filter_w
    m_start, k_start = draw(st.integers(0, rows - 1)), width * draw(st.integers(0, columns // width - 1))
    # To the end, to the end of its fractal, or whole fractals before.
    m = draw(st.sampled_from([rows - m_start, -(-rows // 16) * 16 - m_start, *range(16, rows - m_start, 16)]))
    k = draw(st.sampled_from([columns - k_start, *range(width, columns - k_start, width)]))
    params = params._replace(m_start_pt=m_start, k_start_pt=k_start, m_extension=m, k_extension=k)
    seed = draw(st.integers(0, 2**32 - 1))
    return np.random.default_rng(seed).integers(-9, 10, (params.channel_size, high, wide)).astype(dtype), params


def left_factor(tensor, rows, columns):
    """A matrix out of L0A: rows of fractals, one beside the other."""
    width = k0(tensor.dtype)
    down, across = -(-rows // 16), -(-columns // width)
    whole = tensor.view[: down * across * 16 * width].reshape(down, across, 16, width).transpose(0, 2, 1, 3)
    return whole.reshape(down * 16, across * width).copy()


def right_factor(tensor, rows, columns):
    """A matrix out of L0B: rows of fractals, each with 16 columns."""
    width = k0(tensor.dtype)
    down, across = -(-rows // width), -(-columns // 16)
    whole = tensor.view[: down * across * 16 * width].reshape(down, across, 16, width).transpose(0, 3, 1, 2)
    return whole.reshape(down * width, across * 16).copy()


@given(images())
def test_a_part_of_the_unrolled_image_is_brought(asked):
    image, params = asked
    m, k = params.m_extension, params.k_extension
    expected = matrix_of(image, params)[params.m_start_pt :, params.k_start_pt :][:m, :k]
    seen = []

    def kernel():
        a1 = in_l1(image)
        a2 = LocalTensor(image.dtype, TPosition.A2, 0, 65536 // image.itemsize)
        LoadData(a2, a1, params)
        seen.append((left_factor(a2, m, k), expected))
        if image.dtype != BYTE:
            LoadData(a2, a1, params._replace(en_transpose=True))
            seen.append((left_factor(a2, k, m), expected.T))
            b2 = LocalTensor(image.dtype, TPosition.B2, 0, 65536 // image.itemsize)
            LoadData(b2, a1, params)
            seen.append((right_factor(b2, m, k), expected))

    on_core(kernel, kind=KernelType.AIC_ONLY, hazards=False)
    for brought, wanted in seen:
        rows, columns = wanted.shape
        assert np.array_equal(brought[:rows, :columns], wanted)
        assert not brought[rows:].any()
        assert not brought[:, columns:].any()


def test_a_convolution():
    """32 channels of 12 x 10 pixels, 32 filters of 3 x 3, padded so that as many pixels come out."""
    rng = np.random.default_rng(3)
    image = rng.integers(-4, 5, (32, 12, 10)).astype(half)
    filters = rng.integers(-4, 5, (32, 32, 3, 3)).astype(half)
    params = LoadData3DParamsV2(12, 10, 32, 288, 120, pad_list=(1, 1, 1, 1), filter_w=3, filter_h=3)
    planes = image.reshape(2, 16, 12, 10).transpose(0, 2, 3, 1)
    # Rows of fractals of 16 x 16, along k: planes, taps, channels.
    taps = filters.reshape(2, 16, 2, 16, 3, 3).transpose(2, 4, 5, 0, 1, 3)
    out = np.zeros((120, 32), single)

    def kernel(x, w, y):
        a1, b1 = (
            LocalTensor(half, TPosition.A1, 0, x.nbytes // 2),
            LocalTensor(half, TPosition.B1, 65536, w.nbytes // 2),
        )
        a2, b2 = LocalTensor(half, TPosition.A2, 0, 128 * 288 // 2), LocalTensor(half, TPosition.B2, 0, w.nbytes // 2)
        c1 = LocalTensor(single, TPosition.CO1, 0, 128 * 32)
        DataCopy(a1, GlobalTensor(half).SetGlobalBuffer(x), x.nbytes // 2)
        DataCopy(b1, GlobalTensor(half).SetGlobalBuffer(w), w.nbytes // 2)
        after(HardEvent.MTE2_MTE1)
        LoadData(b2, b1, LoadData2DParams(0, w.nbytes // 512))
        for part in range(2):  # half of the columns at a time: L0A has no room for all
            if part:
                after(HardEvent.M_MTE1)
            LoadData(a2, a1, params._replace(k_extension=144, k_start_pt=part * 144))
            after(HardEvent.MTE1_M)
            Mmad(c1, a2, b2[part * 144 * 32 :], MmadParams(120, 32, 144, part == 0))
        after(HardEvent.M_FIX)
        Fixpipe(GlobalTensor(single).SetGlobalBuffer(y), c1, FixpipeParams(32, 120))

    result = on_core(kernel, *map(np.ascontiguousarray, (planes, taps)), out, kind=KernelType.AIC_ONLY)
    padded = np.pad(image.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    assert np.array_equal(out.reshape(12, 10, 32), np.einsum("cyxij,ocij->yxo", windows, filters.astype(np.float64)))
    assert found(result) == []
    loads = [each for each in result.programs[0].instructions if each.pipe is Pipe.MTE1 and each.name == "LoadData"]
    assert [each.cycles for each in loads] == [144, 144, 144]  # 128 and 256 bytes a cycle


def test_int8_unrolls_too():
    image = np.random.default_rng(4).integers(-128, 128, (32, 4, 8), BYTE)
    weights = np.random.default_rng(5).integers(-128, 128, (16, 32), BYTE)
    out = np.zeros((32, 16), PRODUCTS["int8"])

    def kernel(x, w, y):
        a1, b1 = in_l1(image), LocalTensor(BYTE, TPosition.B1, 4096, 512)
        a2, b2 = LocalTensor(BYTE, TPosition.A2, 0, 1024), LocalTensor(BYTE, TPosition.B2, 0, 512)
        c1 = LocalTensor(np.int32, TPosition.CO1, 0, 512)
        DataCopy(b1, GlobalTensor(BYTE).SetGlobalBuffer(w), 512)
        after(HardEvent.MTE2_MTE1)
        LoadData(a2, a1, LoadData3DParamsV2(4, 8, 32, 32, 32))
        LoadData(b2, b1, LoadData2DParams())
        after(HardEvent.MTE1_M)
        Mmad(c1, a2, b2, MmadParams(32, 16, 32))
        after(HardEvent.M_FIX)
        Fixpipe(GlobalTensor(np.int32).SetGlobalBuffer(y), c1, FixpipeParams(16, 32))

    on_core(kernel, image, weights, out, kind=KernelType.AIC_ONLY)
    assert np.array_equal(out, image.reshape(32, 32).T.astype(np.int32) @ weights.T.astype(np.int32))


@pytest.mark.parametrize(
    "empty", ["l1_h", "l1_w", "channel_size", "k_extension", "m_extension", "filter_h", "filter_w"]
)
def test_an_extent_of_zero_brings_nothing(empty):
    params = LoadData3DParamsV2(4, 4, 16, 16, 16)._replace(**{empty: 0})
    result = on_core(lambda: load(params), kind=KernelType.AIC_ONLY)
    assert result.programs[0].instructions == []


def load(params, dtype=half, position=TPosition.A2):
    LoadData(LocalTensor(dtype, position, 0, 1024), LocalTensor(dtype, TPosition.A1, 0, 1024), params)


@pytest.mark.parametrize(
    ("params", "dtype", "position", "message"),
    [
        ({"l1_w": 100}, half, TPosition.A2, "the image must fit in it"),
        ({"channel_size": 20}, half, TPosition.A2, "give whole blocks of 16"),
        ({"filter_w": 9}, half, TPosition.A2, "is larger than the padded image"),
        ({"stride_h": 64}, half, TPosition.A2, "stride_h=64; it is 1 to 63"),
        ({"pad_list": (0, 0, 0, 256)}, half, TPosition.A2, "left, right, top, bottom, 0 to 255 each"),
        ({"m_extension": 17}, half, TPosition.A2, "m_extension 17; the matrix has 16"),
        ({"m_extension": 8}, half, TPosition.A2, "it is a multiple of 16, or goes up to the end, 16"),
        ({"k_extension": 8}, half, TPosition.A2, "it is a multiple of 16, or goes up to the end, 16"),
        ({"k_start_pt": 8, "k_extension": 8}, half, TPosition.A2, "k_start_pt 8; it is a multiple of 16"),
        ({"channel_size": 32, "en_transpose": True}, BYTE, TPosition.A2, "it takes 16 and 32 bits"),
        ({"channel_size": 32}, BYTE, TPosition.B2, "it takes 16 and 32 bits"),
        ({}, half, TPosition.CO1, "it goes from L1 (A1, B1) to L0A (A2) or L0B (B2)"),
        (
            {"filter_h": 3, "filter_w": 3, "pad_list": (1, 1, 1, 1), "k_extension": 144},
            half,
            TPosition.A2,
            "it needs 4608",
        ),
    ],
)
def test_what_cannot_be_unrolled_is_refused(params, dtype, position, message):
    with pytest.raises(KernelError) as refused:
        on_core(lambda: load(LoadData3DParamsV2(4, 4, 16, 16, 16)._replace(**params), dtype, position),
                kind=KernelType.AIC_ONLY)  # fmt: skip
    assert message in str(refused.value)


def test_floats_may_end_in_the_middle_of_a_fractal():
    image = np.arange(8 * 4 * 8, dtype=np.float32).reshape(8, 4, 8)
    seen = []

    def kernel():
        a2 = LocalTensor(single, TPosition.A2, 0, 1024)
        LoadData(a2, in_l1(image), LoadData3DParamsV2(4, 8, 8, 8, 8, m_start_pt=8))
        seen.append(left_factor(a2, 8, 8))

    on_core(kernel, kind=KernelType.AIC_ONLY)
    assert np.array_equal(seen[0][:8], image.reshape(8, 32).T[8:16])
    assert not seen[0][8:].any()


def test_the_whole_image_is_read_and_all_fractals_are_written():
    def kernel(x):
        a1, a2 = LocalTensor(half, TPosition.A1, 0, 1024), LocalTensor(half, TPosition.A2, 0, 1024)
        b2, c1 = LocalTensor(half, TPosition.B2, 0, 256), LocalTensor(single, TPosition.CO1, 0, 256)
        b2.view[:] = 0
        DataCopy(a1[1008:], GlobalTensor(half).SetGlobalBuffer(x), 16)  # the last pixel
        LoadData(a2, a1, LoadData3DParamsV2(8, 8, 16, 16, 64))
        Mmad(c1, a2[768:], b2, MmadParams(16, 16, 16))  # the last fractal

    result = on_core(kernel, np.zeros(16, half), kind=KernelType.AIC_ONLY)
    assert found(result) == [("RAW", "MTE2_MTE1"), ("RAW", "MTE1_M")]


def test_the_image_and_its_padding_may_be_set_before():
    image = np.arange(16 * 3 * 4, dtype=half).reshape(16, 3, 4)
    params = LoadData3DParamsV2(
        3, 4, 16, 144, 12, pad_list=(1, 1, 1, 1), filter_w=3, filter_h=3, pad_value=7
    )  # fmt: skip
    seen = []

    def kernel(*, is_set):
        a1, a2 = in_l1(image), LocalTensor(half, TPosition.A2, 0, 16 * 144)
        given = params
        if not is_set:
            SetFmatrix(3, 4, (1, 1, 1, 1), FmatrixMode.FMATRIX_LEFT)
            SetLoadDataPaddingValue(7)
            given = params._replace(l1_h=0, l1_w=0, pad_list=(0, 0, 0, 0), pad_value=0)
        after(HardEvent.MTE2_MTE1)
        LoadData(a2, a1, given, is_set_fmatrix=is_set, is_set_padding=is_set)
        seen.append(a2.view.copy())

    for is_set in (True, False):
        assert found(on_core(lambda is_set=is_set: kernel(is_set=is_set), kind=KernelType.AIC_ONLY)) == []
    assert np.array_equal(*seen)
    assert 7 in seen[0]


def test_settings_of_images_are_checked():
    def load():
        LoadData(LocalTensor(half, TPosition.A2, 0, 512), LocalTensor(half, TPosition.A1, 0, 512),
                 LoadData3DParamsV2(), is_set_fmatrix=False)  # fmt: skip

    for wrong, message in (
        (load, r"LoadData with is_set_fmatrix=False; call SetFmatrix\(\) first"),
        (lambda: SetFmatrix(0, 4, (0, 0, 0, 0)), r"SetFmatrix with l1_h 0; it is 1 to 32767"),
        (lambda: SetFmatrix(1, 4, (0, 0, 0, 256)), r"SetFmatrix with pad_list \(0, 0, 0, 256\); it is left, right"),
        (lambda: SetFmatrix(1, 4, (0, 0, 0, 0), FmatrixMode.FMATRIX_RIGHT), r"Atlas A2 and A3 have FMATRIX_LEFT only"),
    ):
        with pytest.raises(KernelError, match=message):
            on_core(wrong, kind=KernelType.AIC_ONLY)
