"""AIPP: the pixels that a model gets of the bytes of an image."""

import numpy as np
import pytest

from acl_py.compat.acl.aipp.files import parse
from acl_py.compat.acl.aipp.inputs import StaticInput, Wanted
from acl_py.compat.acl.aipp.pixels import FORMATS, AippError, Area, Colours, Source, process

TO_RGB = Colours((256, 0, 359, 256, -88, -183, 256, 454, 0), (0, 128, 128), (16, 16, 16))  # of JPEG, as documented
FLOAT = np.dtype("float32")


def static(text, *dims, dtype="float32", layout="NCHW"):
    """The input of these dims with the operator *text*."""
    return StaticInput.of(
        *parse(f"aipp_op {{ aipp_mode : static {text} }}", "a.cfg"), Wanted.of("x", dtype, dims, layout)
    )


def image(form, width, height, seed=1):
    """The bytes of an image."""
    return np.random.default_rng(seed).integers(0, 256, FORMATS[form].nbytes(width, height), np.uint8)


@pytest.mark.parametrize("luma", range(0, 256, 15))
def test_colours_of_jpeg_are_those_of_pillow_within_one(luma):
    pillow = pytest.importorskip("PIL.Image")
    u, v = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    yuv = np.stack([np.full_like(u, luma), u, v], -1)
    theirs = np.asarray(pillow.fromarray(yuv, "YCbCr").convert("RGB"))
    assert np.abs(TO_RGB.convert(yuv, is_yuv=True).astype(int) - theirs).max() == 1


def test_a_matrix_rounds_down_and_keeps_within_a_byte():
    values = np.array([[[100, 129, 127]], [[255, 255, 255]], [[0, 0, 0]]], np.uint8)
    # 100 + (359 * -1 >> 8), 100 + (-88 + 183) / 256, 100 + 454 / 256: 98.6, 100.4, 101.8
    assert TO_RGB.convert(values, is_yuv=True).tolist() == [[[98, 100, 101]], [[255, 120, 255]], [[0, 135, 0]]]


def test_the_second_bias_is_for_what_comes_of_rgb():
    to_gray = Colours((76, 150, 30, 0, 0, 0, 0, 0, 0), (99, 99, 99), (5, 6, 7))
    assert to_gray.convert(np.array([[[10, 20, 30]]], np.uint8), is_yuv=False).tolist() == [[[18 + 5, 6, 7]]]


def test_chroma_is_that_of_two_by_two_pixels():
    data = np.array([1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40], np.uint8)  # 4x2: luma, then two pairs
    source = Source(FORMATS["YUV420SP_U8"], 4, 2)
    assert source.pixels(data).tolist() == [
        [[1, 10, 20], [2, 10, 20], [3, 30, 40], [4, 30, 40]],
        [[5, 10, 20], [6, 10, 20], [7, 30, 40], [8, 30, 40]],
    ]


@pytest.mark.parametrize(
    ("form", "swaps", "turns", "expected"),
    [
        ("RGB888_U8", False, True, [1, 2, 3]),
        ("RGB888_U8", True, False, [3, 2, 1]),
        ("XRGB8888_U8", False, False, [1, 2, 3, 4]),
        ("XRGB8888_U8", False, True, [2, 3, 4, 1]),
        ("XRGB8888_U8", True, True, [4, 3, 2, 1]),
        ("XRGB8888_U8", True, False, [3, 2, 1, 4]),
        ("YUV400_U8", True, True, [1]),
    ],
)
def test_channels_change_places(form, swaps, turns, expected):
    source = Source(FORMATS[form], 2, 1, None, swaps, turns)
    data = np.arange(1, 2 * FORMATS[form].channels + 1, dtype=np.uint8)
    assert source.pixels(data)[0, 0].tolist() == expected


def test_values_are_shifted_and_scaled_in_the_type_of_the_model():
    area = Area(mean=(10, 20, 30, 0), least=(0.5, 0, 1, 0), scale=(2.0, 0.1, 1 / 255, 1))
    data = np.array([11, 5, 255, 200, 130, 0], np.uint8)
    source = Source(FORMATS["RGB888_U8"], 2, 1)
    half = [float(np.float16(each)) for each in (0.1, 1 / 255)]
    expected = [[0.5 * 2, -15 * half[0], 224 * half[1]], [189.5 * 2, 110 * half[0], -31 * half[1]]]
    for dtype in ("float32", "float16"):
        given = process(data, source, [area], 3, np.dtype(dtype))
        assert np.array_equal(given[0, 0], np.array(expected, np.float32).astype(dtype))
    assert process(data, source, [area], 3, np.dtype("int8"))[0, 0].tolist() == [[1, -15, 127], [127, 110, -30]]
    assert process(data, source, [area], 3, np.dtype("uint8"))[0, 0].tolist() == [[11, 5, 255], [200, 130, 0]]


def test_each_image_of_a_batch_has_an_area_of_its_own():
    source = Source(FORMATS["YUV400_U8"], 3, 2)
    areas = [Area((0, 0, 2, 1)), Area((1, 1, 2, 1)), Area((2, 0, 1, 1), border=(0, 0, 1, 0), filling=-1.5)]
    given = process(np.arange(18, dtype=np.uint8), source, areas, 1, FLOAT)
    assert given[..., 0].tolist() == [[[0, 1]], [[10, 11]], [[-1.5, 14]]]


def test_a_static_input_does_all_steps_in_the_documented_order():
    """Against the same steps in plain loops."""
    made = static(
        """input_format : YUV420SP_U8 src_image_size_w : 8 src_image_size_h : 6 rbuv_swap_switch : true
        crop : true load_start_pos_w : 2 load_start_pos_h : 2 crop_size_w : 5 crop_size_h : 3
        csc_switch : true matrix_r0c0 : 256 matrix_r0c1 : 0 matrix_r0c2 : 359 matrix_r1c0 : 256 matrix_r1c1 : -88
        matrix_r1c2 : -183 matrix_r2c0 : 256 matrix_r2c1 : 454 matrix_r2c2 : 0 input_bias_0 : 0
        mean_chn_0 : 100 min_chn_1 : 2.5 var_reci_chn_2 : 0.5
        padding : true left_padding_size : 1 bottom_padding_size : 2 padding_value : 7""",
        *(1, 3, 5, 6),
    )
    data = image("YUV420SP_U8", 8, 6)
    expected = np.full((1, 3, 5, 6), 7.0, np.float32)
    for row in range(3):
        for column in range(5):
            y, x = row + 2, column + 2
            v, u = (int(data[48 + y // 2 * 8 + x // 2 * 2 + which]) - 128 for which in (0, 1))
            luma = int(data[y * 8 + x])
            mixed = luma + (359 * v >> 8), luma + (-88 * u - 183 * v >> 8), luma + (454 * u >> 8)
            red, green, blue = (min(max(each, 0), 255) for each in mixed)
            expected[0, :, row, column + 1] = red - 100, green - 2.5, blue * 0.5
    assert made.dims == (1, 9, 8, 1)
    assert made.image_dims == (1, 6, 8, 3)
    assert np.array_equal(made(data), expected)


@pytest.mark.parametrize(
    ("text", "dims", "layout", "expected"),
    [
        ("RGB888_U8", (2, 3, 4, 6), "NCHW", (2, 4, 6, 3)),
        ("RGB888_U8", (2, 8, 6, 3), "ND", (2, 8, 6, 3)),
        ("XRGB8888_U8 ax_swap_switch : true", (-1, 4, 6, 3), "NHWC", (-1, 4, 6, 4)),
        ("YUV400_U8", (1, 1, 4, 6), "NCHW", (1, 4, 6, 1)),
        ("RGB888_U8 padding : true top_padding_size : 1 right_padding_size : 2", (1, 3, 4, 6), "NCHW", (1, 3, 4, 3)),
        ("RGB888_U8 src_image_size_w : 9 crop : true load_start_pos_w : 3", (1, 3, 4, 6), "NCHW", (1, 4, 9, 3)),
        ("YUV420SP_U8 csc_switch : true", (1, 1, 4, 6), "NCHW", (1, 6, 6, 1)),  # to GRAY: the first channel
    ],
)
def test_what_a_file_leaves_out_is_as_the_model_wants_it(text, dims, layout, expected):
    made = static(f"input_format : {text}", *dims, layout=layout)
    assert made.dims == expected
    count = 2 if dims[0] == -1 else dims[0]
    whole = np.zeros((count, *expected[1:]), np.uint8)
    assert made(whole).shape == (count, *dims[1:])


def test_colours_that_a_file_leaves_out_are_those_of_the_template():
    """YUV of BT.601 narrow to BGR, and RGB to YUV."""
    from_yuv = static("input_format : YUV420SP_U8 csc_switch : true", 1, 2, 2, 3, layout="NHWC")
    assert from_yuv(np.array([81, 81, 81, 81, 90, 240], np.uint8))[0, 0, 0].tolist() == [0, 0, 254]  # red
    from_rgb = static("input_format : RGB888_U8 csc_switch : true", 1, 2, 2, 3, layout="NHWC")
    assert from_rgb(np.array([255, 0, 0] * 4, np.uint8))[0, 0, 0].tolist() == [65 + 16, -38 + 128, 111 + 128]


@pytest.mark.parametrize(
    ("text", "dims", "complaint"),
    [
        ("RGB888_U8 src_image_size_w : 8", (1, 3, 4, 6), "makes images of 8x4 pixels, and input x takes 6x4"),
        ("YUV420SP_U8", (1, 3, 4, 7), "7x4 pixels; in YUV420SP_U8 both must be even"),
        ("YUV420SP_U8 src_image_size_w : 8 crop : true load_start_pos_w : 1", (1, 3, 4, 6), "begin at even places"),
        ("RGB888_U8 src_image_size_w : 8 crop : true load_start_pos_w : 3", (1, 3, 4, 6), "6x4 pixels from 3, 0; stay"),
        ("YUV400_U8 csc_switch : true", (1, 1, 4, 6), "no colours to convert"),
        ("YUV400_U8", (1, 3, 4, 6), "takes 3 channels, and YUV400_U8 gives 1"),
        ("RGB888_U8", (1, 3, -1, -1), "no fixed height and width"),
        ("RGB888_U8 padding : true left_padding_size : 1", (1, 3, 4, 1081), "1081 pixels wide; keep within 1080"),
        ("RGB888_U8", (1, 3, 4, 1), "source has 1x4 pixels; give it a width of 2"),
    ],
)
def test_settings_that_do_not_go_with_the_model_are_refused(text, dims, complaint):
    with pytest.raises(AippError, match=r"a\.cfg, line 1: ") as caught:
        static(f"input_format : {text}", *dims)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "dims", "layout", "complaint"),
    [
        ("int64", (1, 3, 4, 6), "NCHW", "input x is int64; AIPP gives uint8, int8, float16, float32"),
        ("float32", (1, 12), "ND", r"dims \[1, 12\] in ND; AIPP is for images"),
        ("float32", (1, 5, 4, 6), "NCHW", "has 5 channels"),
    ],
)
def test_aipp_is_for_images(dtype, dims, layout, complaint):
    with pytest.raises(AippError, match=complaint):
        Wanted.of("x", dtype, dims, layout)


def test_too_few_bytes_are_an_error():
    with pytest.raises(AippError, match="2 images take 36 bytes, and there are 35"):
        process(np.zeros(35, np.uint8), Source(FORMATS["RGB888_U8"], 3, 2), [Area()] * 2, 3, FLOAT)
