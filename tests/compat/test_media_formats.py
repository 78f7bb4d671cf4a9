"""How images lie in memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import nv12, packed

from acl_py.compat.acl.functions.media.formats import FORMATS, MediaError

NUMBERS = sorted(FORMATS)


def image_of(width, height, seed=3):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def test_nv12_is_luma_and_then_pairs_of_u_and_v():
    luma = np.arange(64, dtype=np.uint8).reshape(4, 16)
    chroma = np.arange(100, 132, dtype=np.uint8).reshape(2, 8, 2)
    memory = np.frombuffer(nv12(luma, chroma, (32, 6), fill=9), np.uint8)
    image = FORMATS[1].read(memory, 16, 4, 32, 6)
    assert (image[..., 0] == luma).all()
    assert image[0, 0].tolist() == [0, 100, 101]
    assert image[1, 1].tolist() == [17, 100, 101]  # the same pair for a block of four
    assert image[2, 2].tolist() == [34, 118, 119]
    assert (FORMATS[2].read(memory, 16, 4, 32, 6)[..., 1:] == image[..., :0:-1]).all()  # NV21: V before U


@pytest.mark.parametrize(
    ("number", "row"),
    [
        (7, [10, 30, 20, 40]),  # YUYV
        (8, [30, 10, 40, 20]),  # UYVY
        (9, [10, 40, 20, 30]),  # YVYU
        (10, [40, 10, 30, 20]),  # VYUY
    ],
)
def test_packed_422_shares_chroma_between_two_pixels(number, row):
    memory = np.zeros(32 * 2, np.uint8)
    FORMATS[number].write(memory, np.array([[[10, 30, 40], [20, 30, 40]]], np.uint8), 32, 2)
    assert memory[:4].tolist() == row
    assert FORMATS[number].read(memory, 2, 1, 32, 2)[0].tolist() == [[10, 30, 40], [20, 30, 40]]


@pytest.mark.parametrize(
    ("number", "row"),
    [(12, [1, 2, 3]), (13, [3, 2, 1]), (14, [0, 1, 2, 3]), (15, [0, 3, 2, 1]), (16, [1, 2, 3, 0]), (17, [3, 2, 1, 0])],
)
def test_packed_rgb_has_its_bytes_in_the_order_of_its_name(number, row):
    memory = np.zeros(64 * 2, np.uint8)
    FORMATS[number].write(memory, np.array([[[1, 2, 3]]], np.uint8), 64, 2)
    assert memory[: len(row)].tolist() == row
    assert FORMATS[number].read(memory, 1, 1, 64, 2)[0, 0].tolist() == [1, 2, 3]


def test_alpha_is_written_where_the_image_has_it():
    memory = np.zeros(64 * 2, np.uint8)
    FORMATS[16].write(memory, np.array([[[1, 2, 3, 200]]], np.uint8), 64, 2)
    assert memory[:4].tolist() == [1, 2, 3, 200]


def test_grey_has_no_chroma():
    memory = np.zeros(16 * 2, np.uint8)
    FORMATS[0].write(memory, np.array([[[7, 1, 2]]], np.uint8), 16, 2)
    assert FORMATS[0].read(memory, 1, 1, 16, 2)[0, 0].tolist() == [7, 128, 128]


def test_shared_chroma_is_the_rounded_mean():
    image = np.zeros((2, 2, 3), np.uint8)
    image[..., 1] = [[0, 1], [1, 1]]  # 0.75
    image[..., 2] = [[0, 0], [0, 1]]  # 0.25
    memory = np.zeros(16 * 2 * 3 // 2, np.uint8)
    FORMATS[1].write(memory, image, 16, 2)
    assert memory[32:34].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("number", "strides", "nbytes"),
    [
        (0, (112, 50), 112 * 50),
        (1, (112, 50), 112 * 50 * 3 // 2),
        (3, (112, 50), 112 * 50 * 2),
        (5, (112, 50), 112 * 50 * 3),
        (7, (224, 50), 224 * 50),
        (11, (336, 50), 336 * 50),
        (12, (336, 50), 336 * 50),
        (14, (448, 50), 448 * 50),
        (1000, (112, 50), 112 * 50 * 2),
    ],
)
def test_strides_and_sizes_are_the_vendors(number, strides, nbytes):
    """For 100 by 49 pixels: 16 pixels and two rows are what strides are aligned to."""
    assert FORMATS[number].strides(100, 49) == strides
    assert FORMATS[number].nbytes(*strides) == nbytes


@given(
    number=st.sampled_from(NUMBERS),
    width=st.integers(1, 12),
    height=st.integers(1, 6),
    wider=st.integers(0, 3),
    taller=st.integers(0, 3),
    seed=st.integers(0, 9),
)
def test_what_was_written_is_read_back_and_padding_stays(number, width, height, wider, taller, seed):
    form = FORMATS[number]
    width, height = width * form.multiples[0], height * form.multiples[1]
    width_stride, height_stride = form.strides(width, height)
    width_stride, height_stride = width_stride + 16 * wider, height_stride + 2 * taller
    memory = np.full(form.nbytes(width_stride, height_stride), 0xA5, np.uint8)
    form.write(memory, image_of(width, height, seed), width_stride, height_stride)
    once = form.read(memory, width, height, width_stride, height_stride)
    again = np.full_like(memory, 0xA5)
    form.write(again, once, width_stride, height_stride)
    assert (again == memory).all()
    luma = memory[: width_stride * height_stride].reshape(height_stride, width_stride)
    assert (luma[height:] == 0xA5).all()
    assert (luma[:, width * form.pixel_bytes :] == 0xA5).all()


@given(number=st.sampled_from([5, 6, 11, 12, 13, 14, 15, 16, 17]), seed=st.integers(0, 9))
def test_formats_that_share_nothing_lose_nothing(number, seed):
    form, image = FORMATS[number], image_of(21, 5, seed)
    strides = form.strides(21, 5)
    memory = np.zeros(form.nbytes(*strides), np.uint8)
    form.write(memory, image, *strides)
    assert (form.read(memory, 21, 5, *strides) == image).all()


@pytest.mark.parametrize(
    ("number", "shape", "story"),
    [
        (1, (15, 8, 16, 8), "multiples of 2 and 2"),
        (7, (15, 8, 32, 8), "multiples of 2 and 1"),
        (1, (32, 8, 16, 8), "width stride 16 for 32 pixels of 1 bytes; use 32"),
        (1, (32, 8, 40, 8), "use 32, or a larger multiple of 16"),
        (12, (32, 8, 32, 8), "width stride 32 for 32 pixels of 3 bytes; use 96"),
        (12, (32, 8, 96, 6), "height stride 6 for 8 rows; use 8"),
        (12, (32, 8, 96, 9), "use 8, or a larger even number"),
    ],
)
def test_strides_that_do_not_fit_are_refused(number, shape, story):
    with pytest.raises(MediaError, match=story):
        FORMATS[number].check("the source", *shape)


def test_the_helper_of_these_tests_packs_like_the_formats():
    image = image_of(21, 4)
    memory = np.zeros(FORMATS[12].nbytes(96, 4), np.uint8)
    FORMATS[12].write(memory, image, 96, 4)
    assert memory.tobytes() == packed(image)
