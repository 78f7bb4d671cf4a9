"""The Conv3D object: convolutions over depth, height and width on cube cores."""

from dataclasses import replace

import numpy as np
import pytest
from convolutions import convolved, in_fractals, in_planes
from cores import SPEC, found, launch
from instructions import bfloat16, half, single

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor
from device_model.aicore.cube.conv3d import Conv3D, ConvFormat, ConvType
from device_model.aicore.cube.conv3d_tiling import conv3d_tiling
from device_model.aicore.flags.tpipe import TPipe
from device_model.kernel.findings import KernelError

AIC = KernelType.AIC_ONLY
GM = TPosition.GM
FORMATS = ConvFormat.NDC1HWC0, ConvFormat.FRACTAL_Z_3D, ConvFormat.NDC1HWC0


def kinds(dtype, bias=None):
    """The types of input, weights, output and, with a *bias*, that one."""
    return [ConvType(GM, each, dtype) for each in FORMATS] + (
        [] if bias is None else [ConvType(GM, ConvFormat.ND, bias)]
    )


def gm(array, dtype):
    return GlobalTensor(dtype).SetGlobalBuffer(array)


def convolve(x, w, bias, y, dtype, tiling, images):
    """Each core its part: output channels side by side, then planes, then places."""
    TPipe()
    has_bias = bias is not None
    conv = Conv3D(*kinds(dtype, (half if dtype == half else single) if has_bias else None))
    conv.Init(tiling)
    area, high, wide = tiling.org_ho * tiling.org_wo, tiling.org_hi, tiling.org_wi
    across, deep = -(-tiling.org_co // tiling.single_core_co), -(-tiling.org_do // tiling.single_core_do)
    rest, column = divmod(GetBlockIdx(), across)
    row, plane = divmod(rest, deep)
    left, first, place = column * tiling.single_core_co, plane * tiling.single_core_do, row * tiling.single_core_m
    conv.SetSingleOutputShape(
        min(tiling.single_core_co, tiling.org_co - left),
        min(tiling.single_core_do, tiling.org_do - first),
        min(tiling.single_core_m, area - place),
    )
    conv.SetInputStartPosition(first * tiling.stride_d, place)
    conv.SetWeight(gm(w, dtype)[left * 16 :])
    if has_bias:
        conv.SetBias(gm(bias, half if dtype == half else single)[left:])
    depth = max(first * tiling.stride_d - tiling.pad_head, 0)
    top = max(place // tiling.org_wo * tiling.stride_h - tiling.pad_up, 0)
    columns = -(-tiling.org_co // 16)
    for image in range(images):
        start = ((image * tiling.org_di + depth) * tiling.ci1 * high + top) * wide * 16
        conv.SetInput(gm(x, dtype)[min(start, gm(x, dtype).size) :])
        at = ((image * tiling.org_do + first) * columns + left // 16) * area + place
        conv.IterateAll(gm(y, dtype)[at * 16 :])
        conv.End()


def of_card(**sizes):
    """A card with smaller memories, so that a small convolution has many pieces."""
    return replace(SPEC, **{f"{name}_bytes": size for name, size in sizes.items()})


NARROW = of_card(l1=24_576, l0a=8_192, l0b=4_096, l0c=16_384)
FLAT = of_card(l1=49_152, l0a=4_096, l0b=8_192, l0c=8_192)
CASES = [  # images, channels and size, output channels and filter, padding, stride, dilation, type, bias, parts, card
    (1, (16, 1, 5, 6), (16, 1, 3, 3), (0, 0, 1, 1, 1, 1), (1, 1, 1), (1, 1, 1), half, False, (1, 1, 1), SPEC),
    (2, (20, 3, 7, 5), (40, 2, 3, 2), (1, 0, 1, 2, 0, 1), (1, 2, 1), (1, 1, 2), half, True, (2, 2, 2), SPEC),
    (1, (7, 4, 6, 6), (8, 3, 2, 3), (1, 1, 0, 0, 1, 2), (2, 1, 3), (2, 2, 1), bfloat16, True, (1, 2, 1), SPEC),
    (1, (33, 2, 9, 8), (50, 2, 3, 3), (0, 1, 1, 1, 1, 1), (1, 1, 1), (1, 1, 1), half, True, (1, 1, 2), NARROW),
    (1, (40, 3, 8, 9), (33, 3, 3, 2), (1, 1, 1, 0, 0, 1), (1, 1, 2), (1, 2, 1), bfloat16, False, (1, 1, 1), NARROW),
    (1, (24, 2, 9, 9), (48, 1, 2, 2), (0, 0, 0, 1, 1, 0), (1, 1, 1), (1, 1, 1), half, True, (1, 1, 1), FLAT),
    # Weights stay in L1, of which the last plane of the first image needs only a part.
    (2, (16, 2, 4, 4), (16, 2, 2, 2), (0, 1, 0, 0, 0, 0), (1, 1, 1), (1, 1, 1), half, False, (1, 1, 1), SPEC),
    # Places that see nothing but padding: planes before the input, planes behind it, and rows below it.
    (1, (16, 1, 2, 3), (16, 1, 1, 2), (2, 2, 0, 3, 0, 0), (1, 1, 1), (1, 1, 1), half, True, (1, 5, 1), SPEC),
    (1, (16, 1, 2, 3), (16, 2, 1, 1), (1, 1, 2, 2, 0, 0), (1, 1, 1), (2, 1, 1), half, False, (1, 1, 1), SPEC),
    (1, (16, 1, 1, 1), (16, 1, 1, 1), (0, 0, 0, 0, 0, 0), (1, 1, 1), (1, 1, 1), half, True, (1, 1, 1), SPEC),
]


def operands(images, shape, filters, dtype, *, has_bias):
    """Small whole numbers, of which sums are exact."""
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (images, *shape)).astype(dtype)
    w = rng.integers(-3, 4, (filters[0], shape[0], *filters[1:])).astype(dtype)
    bias = rng.integers(-3, 4, filters[0]).astype(half if dtype == half else single) if has_bias else None
    return x, w, bias


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_convolution_equals_numpy(case):
    images, shape, filters, padding, stride, dilation, dtype, has_bias, parts, spec = case
    x, w, bias = operands(images, shape, filters, dtype, has_bias=has_bias)
    expected = in_planes(convolved(x, w, bias, padding, stride, dilation).astype(dtype))
    _, do, _, ho, wo, _ = expected.shape
    columns = -(-filters[0] // 16)  # of fractals
    single_shape = min(-(-columns // parts[0]) * 16, filters[0]), -(-do // parts[1]), -(-ho * wo // parts[2])
    tiling = conv3d_tiling(
        spec, shape, filters, dtype, padding=padding, stride=stride, dilation=dilation,
        single_output_shape=single_shape,
    )  # fmt: skip
    blocks = -(-filters[0] // single_shape[0]) * -(-do // single_shape[1]) * -(-ho * wo // single_shape[2])
    y = np.full(expected.shape, 7, dtype)
    args = in_planes(x), in_fractals(w), bias, y, dtype, tiling, images
    result = launch(convolve, *args, blocks=blocks, kind=AIC, spec=spec)
    assert np.array_equal(y.astype(single), expected.astype(single))
    assert found(result) == []


# Sizes of pieces that no search gives for a convolution this small: pixels and weights come in several copies each, of
# which pieces take parts, in both orders.
@pytest.mark.parametrize(
    ("m", "n", "k", "planes", "order", "buffers"),
    [(32, 16, 32, (1, 2), 0, (2, 2)), (32, 16, 48, (2, 1), 1, (2, 1)), (16, 32, 144, (3, 2), 0, (1, 2))],
)
def test_any_sizes_of_pieces_give_the_same(m, n, k, planes, order, buffers):
    shape, filters, padding, stride, dilation = (40, 3, 13, 11), (70, 2, 3, 3), (1, 0, 1, 2, 0, 1), (1, 2, 1), (1, 1, 2)
    x, w, bias = operands(1, shape, filters, half, has_bias=True)
    expected = in_planes(convolved(x, w, bias, padding, stride, dilation).astype(half))
    tiling = conv3d_tiling(SPEC, shape, filters, half, padding=padding, stride=stride, dilation=dilation)
    tiling = replace(
        tiling, m_l0=m, n_l0=n, k_l0=k, m_al1=2 * m, n_bl1=2 * n, k_al1=planes[0] * tiling.plane_k,
        k_bl1=planes[1] * tiling.plane_k, al1_full_load=False, bl1_full_load=False, db_al1=buffers[0],
        db_bl1=buffers[1], iterate_mn_order=order,
    )  # fmt: skip
    y = np.zeros(expected.shape, half)
    result = launch(convolve, in_planes(x), in_fractals(w), bias, y, half, tiling, 1, kind=AIC)
    assert np.array_equal(y, expected)
    assert found(result) == []


def test_the_cube_is_busy_most_of_the_time():
    """Of 128 channels and a filter of 3 x 3 x 3, a product of all fractals takes most of the time."""
    shape, filters, padding = (128, 2, 28, 28), (128, 3, 3, 3), (1, 1, 1, 1, 1, 1)
    tiling = conv3d_tiling(SPEC, shape, filters, half, padding=padding)
    x, w, y = (
        np.zeros((1, 2, 8, 28, 28, 16), half),
        np.zeros((216, 8, 16, 16), half),
        np.zeros((1, 2, 8, 784, 16), half),
    )
    result = launch(convolve, x, w, None, y, half, tiling, 1, kind=AIC, values=False, hazards=False)
    # Each plane of the output sums over two planes of the input: the third one is padding.
    fractals = 2 * 784 // 16 * 8 * 2 * 8 * 9
    busy = sum(each.cycles for each in result.programs[0].instructions if each.name == "Mmad")
    assert busy == fractals
    assert fractals / 1.85 / result.timeline.duration_ns > 0.7


def test_a_larger_pad_or_stride_is_refused_with_its_name():
    for options, message in (
        ({"stride": (1, 64, 1)}, r"stride \(1, 64, 1\): it is 3 integers from 1 to 63"),
        ({"dilation": (1, 1, 0)}, r"dilation \(1, 1, 0\): it is 3 integers from 1 to 255"),
        ({"padding": (0, 0, 256, 0, 0, 0)}, r"padding \(0, 0, 256, 0, 0, 0\): it is 6 integers from 0 to 255"),
        ({"padding": (0, 0, 0, 0)}, "padding .*: it is 6 integers"),
        ({"dilation": (1, 3, 1)}, "the filter spans 7 rows, and the padded input has 5"),
        ({"single_output_shape": (16, 1, 13)}, r"single_output_shape \(16, 1, 13\): it is at most \(16, 1, 12\)"),
    ):
        with pytest.raises(ValueError, match=message):
            conv3d_tiling(SPEC, (16, 1, 5, 6), (16, 1, 3, 3), half, **options)
    conv3d_tiling(SPEC, (16, 300, 5, 6), (16, 1, 3, 3), half, padding=(300, 0, 0, 0, 0, 0), stride=(100, 1, 1))
    with pytest.raises(ValueError, match=r"weight_shape .*: rows and columns are 1 to 255"):
        conv3d_tiling(SPEC, (16, 1, 300, 6), (16, 1, 256, 3), half)
    with pytest.raises(TypeError, match="conv3d_tiling of float32: a convolution takes half or bfloat16"):
        conv3d_tiling(SPEC, (16, 1, 5, 6), (16, 1, 3, 3), single)
    with pytest.raises(ValueError, match=r"9000 columns of pixels and 3 x 3 weights .* narrower parts"):
        conv3d_tiling(SPEC, (16, 1, 9, 9000), (16, 1, 3, 3), half)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda conv, x, w, y: Conv3D(*kinds(single)), "a Conv3D with input .*; it takes half or bfloat16"),
        (
            lambda conv, x, w, y: Conv3D(*kinds(half, single)),
            "a Conv3D of float16 with bias .*; it is float16 in GM, ND",
        ),
        (
            lambda conv, x, w, y: Conv3D(kinds(half)[1], *kinds(half)[1:]),
            "with input .*; it is float16 in GM, NDC1HWC0",
        ),
        (lambda conv, x, w, y: Conv3D(*kinds(half)).SetSingleOutputShape(1, 1, 1), r"without a tiling; call Init\(\)"),
        (lambda conv, x, w, y: conv.Init(TILING), "a second time"),
        (
            lambda conv, x, w, y: conv.SetWeight(gm(w, bfloat16)),
            "SetWeight with .*; weight is a GlobalTensor of float16",
        ),
        (lambda conv, x, w, y: conv.SetBias(gm(w, half)), "SetBias of .*; it was made without a bias"),
        (lambda conv, x, w, y: conv.SetInputStartPosition(2, 0), "di_start_pos 2; it is 0 to 0"),
        (lambda conv, x, w, y: conv.SetInputStartPosition(0, 12), "m_start_pos 12; it is 0 to 11"),
        (lambda conv, x, w, y: conv.SetSingleOutputShape(17, 1, 12), "single_co 17; it is 1 to 16, as the tiling has"),
        (lambda conv, x, w, y: conv.IterateAll(gm(y, half)), r"without input; call SetInput\(\) first"),
        (
            lambda conv, x, w, y: (
                conv.SetInput(gm(x, half)[16:]),
                conv.SetWeight(gm(w, half)),
                conv.IterateAll(gm(y, half)),
            ),
            "IterateAll with input .*; this core needs 480 elements",
        ),
        (
            lambda conv, x, w, y: (
                conv.SetInput(gm(x, half)),
                conv.SetWeight(gm(w, half)),
                conv.SetInputStartPosition(0, 1),
                conv.IterateAll(gm(y, half)),
            ),
            "12 places from di_start_pos 0 and m_start_pos 1 on; the output has 1 planes of 12 places",
        ),
        (lambda conv, x, w, y: conv.End(), r"End of .* without IterateAll\(\)"),
    ],
)
def test_what_a_convolution_cannot_do_is_refused(change, message):
    def kernel(x, w, y):
        TPipe()
        conv = Conv3D(*kinds(half))
        conv.Init(TILING)
        change(conv, x, w, y)

    arrays = np.zeros(480, half), np.zeros(9 * 256, half), np.zeros(12 * 16, half)
    with pytest.raises(KernelError, match=message):
        launch(kernel, *arrays, kind=AIC)


TILING = conv3d_tiling(SPEC, (16, 1, 5, 6), (16, 1, 3, 3), half)


def test_a_vector_core_and_a_core_without_a_tpipe_are_refused():
    for kind, message in ((KernelType.AIV_ONLY, "only cube cores have it"), (AIC, "has no TPipe; make one first")):
        with pytest.raises(KernelError, match=message):
            launch(lambda: Conv3D(*kinds(half)).Init(TILING), kind=kind)
