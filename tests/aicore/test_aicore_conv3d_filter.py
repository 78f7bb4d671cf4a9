"""Conv3DBackpropFilter: the gradient of a convolution by its weights, on cube cores."""

from dataclasses import replace

import numpy as np
import pytest
from convolutions import by_weights, in_fractals, in_planes
from cores import SPEC, found, launch
from instructions import bfloat16, half, single

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, int32
from device_model.aicore.cube.conv3d_filter import Conv3DBackpropFilter, conv3d_backprop_filter_tiling
from device_model.aicore.cube.conv3d_operands import ConvFormat, ConvType
from device_model.aicore.flags.tpipe import TPipe
from device_model.kernel.findings import KernelError

AIC = KernelType.AIC_ONLY


def kinds(dtype):
    given = (ConvFormat.NDC1HWC0, dtype), (ConvFormat.ND, int32), (ConvFormat.NDC1HWC0, dtype)
    return [ConvType(TPosition.GM, *each) for each in (*given, (ConvFormat.FRACTAL_Z_3D, single))]


def gm(array, dtype):
    return GlobalTensor(dtype).SetGlobalBuffer(array)


def gradient(x, dy, dw, dtype, tiling, images):
    """Each core its part: output channels side by side, then planes of 16 channels, then rows.

    It adds up images, planes of the output, and the planes of the filter, one at a time, that lie in the input.
    """
    TPipe()
    conv = Conv3DBackpropFilter(*kinds(dtype))
    conv.Init(tiling)
    whole, per_row = tiling.whole, tiling.whole.org_wo
    m, n, rows = tiling.single_core_m, tiling.single_core_n // whole.plane_k, tiling.single_core_k // per_row
    rest, column = divmod(GetBlockIdx(), -(-whole.org_co // m))
    row, plane = divmod(rest, -(-whole.ci1 // n))
    top, first, start = column * m, plane * n, row * rows
    sizes = min(m, whole.org_co - top), min(n, whole.ci1 - first), min(rows, whole.org_ho - start)
    conv.SetSingleShape(sizes[0], sizes[1] * whole.plane_k, sizes[2] * per_row)
    conv.SetStartPosition(start)
    cout1, area, hw = -(-whole.org_co // 16), whole.org_ho * per_row, whole.org_hi * whole.org_wi
    seen = max(start * whole.stride_h - whole.pad_up, 0) * whole.org_wi
    for image in range(images):
        for depth in range(whole.org_do):
            at = (image * whole.org_do + depth) * cout1 + top // 16
            conv.SetGradOutput(gm(dy, dtype)[(at * area + start * per_row) * 16 :])
            for kd in range(whole.kernel_d):
                source = depth * whole.stride_d - whole.pad_head + kd * whole.dilation_d
                if 0 <= source < whole.org_di:
                    at = (image * whole.org_di + source) * whole.ci1 + first
                    conv.SetInput(gm(x, dtype)[min((at * hw + seen) * 16, gm(x, dtype).size) :])
                    to = ((kd * whole.ci1 + first) * whole.taps * cout1 * 16 + top) * 16
                    while conv.Iterate():
                        conv.GetTensorC(gm(dw, single)[to:])
    conv.End()


NARROW = replace(SPEC, l1_bytes=12_288, l0a_bytes=4_096, l0b_bytes=8_192, l0c_bytes=8_192)
FLAT = replace(SPEC, l1_bytes=16_384, l0a_bytes=8_192, l0b_bytes=2_048, l0c_bytes=16_384)
CASES = [  # images, input channels and size, output channels and filter, padding, stride, dilation, type, parts, card
    (1, (16, 1, 5, 6), (16, 1, 3, 3), (0, 0, 1, 1, 1, 1), (1, 1, 1), (1, 1, 1), half, (1, 1, 1), SPEC),
    (2, (20, 3, 7, 5), (40, 2, 3, 2), (1, 0, 1, 2, 0, 1), (1, 2, 1), (1, 1, 2), half, (2, 2, 2), SPEC),
    (1, (7, 4, 6, 7), (24, 3, 2, 3), (1, 1, 0, 0, 1, 2), (2, 1, 3), (2, 2, 1), bfloat16, (1, 1, 3), SPEC),
    (1, (40, 2, 9, 8), (50, 2, 3, 3), (0, 1, 1, 1, 1, 1), (1, 1, 1), (1, 1, 1), half, (1, 1, 1), NARROW),
    (1, (48, 1, 12, 9), (70, 1, 3, 2), (0, 0, 1, 0, 0, 1), (1, 1, 1), (1, 2, 1), bfloat16, (1, 3, 1), FLAT),
    # Rows of the output that see nothing but padding.
    (1, (16, 1, 2, 3), (16, 1, 1, 2), (0, 0, 1, 3, 0, 0), (1, 1, 1), (1, 1, 1), half, (1, 1, 6), SPEC),
    (1, (16, 1, 1, 1), (16, 1, 1, 1), (0, 0, 0, 0, 0, 0), (1, 1, 1), (1, 1, 1), half, (1, 1, 1), SPEC),
]


def operands(images, shape, filters, dtype, padding, stride, dilation):
    """Small whole numbers, of which sums are exact; and the gradient."""
    rng = np.random.default_rng(3)
    x = rng.integers(-2, 3, (images, *shape)).astype(dtype)
    outs = [
        (shape[1 + axis] + sum(padding[2 * axis : 2 * axis + 2]) - (filters[1 + axis] - 1) * dilation[axis] - 1)
        // stride[axis] + 1
        for axis in range(3)
    ]  # fmt: skip
    dy = rng.integers(-2, 3, (images, filters[0], *outs)).astype(dtype)
    return x, dy, by_weights(x, dy, filters[1:], padding, stride, dilation)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_gradient_by_the_weights_equals_numpy(case):
    images, shape, filters, padding, stride, dilation, dtype, parts, spec = case
    x, dy, expected = operands(images, shape, filters, dtype, padding, stride, dilation)
    sizes = -(-filters[0] // 16), -(-shape[0] // 16), dy.shape[3]
    m, n, rows = (-(-size // part) for size, part in zip(sizes, parts, strict=True))
    tiling = conv3d_backprop_filter_tiling(
        spec, shape, filters, dtype, padding=padding, stride=stride, dilation=dilation,
        single_shape=(min(16 * m, filters[0]), n, rows),
    )  # fmt: skip
    dw = np.zeros_like(in_fractals(expected.astype(single)))
    blocks = 1
    for size, part in zip(sizes, (m, n, rows), strict=True):
        blocks *= -(-size // part)
    result = launch(
        gradient, in_planes(x), in_planes(dy), dw, dtype, tiling, images, blocks=blocks, kind=AIC, spec=spec
    )
    assert np.array_equal(dw, in_fractals(expected.astype(single)))
    assert found(result) == []


def test_planes_of_the_filter_that_follow_each_other_are_one_product():
    shape, filters = (32, 3, 4, 4), (16, 3, 2, 2)
    x, dy, expected = operands(1, shape, filters, half, (0,) * 6, (1, 1, 1), (1, 1, 1))
    tiling = conv3d_backprop_filter_tiling(SPEC, shape, filters, half)
    assert tiling.single_core_n == 3 * 2 * 2 * 2 * 16

    def kernel(x, dy, dw):
        TPipe()
        conv = Conv3DBackpropFilter(*kinds(half))
        conv.Init(tiling)
        conv.SetInput(gm(x, half))
        conv.SetGradOutput(gm(dy, half))
        conv.IterateAll(gm(dw, single), 0)
        conv.End()

    dw = np.full_like(in_fractals(expected.astype(single)), 7)
    assert found(launch(kernel, in_planes(x), in_planes(dy), dw, kind=AIC)) == []
    assert np.array_equal(dw, in_fractals(expected.astype(single)))


def test_the_cube_is_busy_most_of_the_time():
    """Of 128 channels and a filter of 3 x 3, a product of all fractals takes most of the time."""
    shape, filters = (128, 1, 56, 56), (128, 1, 3, 3)
    tiling = conv3d_backprop_filter_tiling(SPEC, shape, filters, half, padding=(0, 0, 1, 1, 1, 1))
    x, dy = (np.zeros((1, 1, 8, 56, 56, 16), half) for _ in range(2))
    dw = np.zeros((72, 8, 16, 16), single)
    result = launch(gradient, x, dy, dw, half, tiling, 1, kind=AIC, values=False, hazards=False)
    fractals = 56 * 56 // 16 * 8 * 8 * 9
    busy = sum(each.cycles for each in result.programs[0].instructions if each.name == "Mmad")
    assert busy == fractals
    assert fractals / 1.85 / result.timeline.duration_ns > 0.7


SMALL = (16, 1, 4, 4), (16, 1, 3, 3)
TILING = conv3d_backprop_filter_tiling(SPEC, *SMALL, half, padding=(0, 0, 1, 1, 1, 1))


def on_object(steps):
    """Run *steps* with an object, the input, the gradient by the output, and that by the weights, of ones."""

    def kernel(x, dy, dw):
        TPipe()
        conv = Conv3DBackpropFilter(*kinds(half))
        conv.Init(TILING)
        steps(conv, gm(x, half), gm(dy, half), gm(dw, single))
        conv.End()

    dw = np.ones((9, 16, 16), single)
    launch(kernel, np.ones(256, half), np.ones(256, half), dw, kind=AIC)
    return dw


def given(conv, x, dy):
    conv.SetInput(x)
    conv.SetGradOutput(dy)


def test_a_gradient_is_added_unless_the_kernel_says_otherwise():
    def steps(conv, x, dy, dw):
        given(conv, x, dy)
        conv.IterateAll(dw, 0)
        conv.IterateAll(dw)

    rows = np.array([3, 4, 3])
    assert np.array_equal(on_object(steps), 2 * np.outer(rows, rows).reshape(9, 1, 1) * np.ones((1, 16, 16)))


def test_a_piece_may_go_to_a_place_of_its_own():
    def steps(conv, x, dy, dw):
        given(conv, x, dy)
        at = 0
        while conv.Iterate():
            conv.GetTensorC(dw[at:], 0, True)
            at += TILING.base_m * min(TILING.base_n, 144 - at // 16)

    whole = on_object(lambda conv, x, dy, dw: (given(conv, x, dy), conv.IterateAll(dw, 0)))
    assert np.array_equal(on_object(steps), whole)  # as there are 16 output channels


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (lambda conv, *_: conv.Init(TILING), "Init of <Conv3DBackpropFilter of float16> a second time"),
        (lambda conv, *_: conv.SetInput(None), "SetInput with None; input is a GlobalTensor of float16"),
        (lambda conv, *_: conv.SetSingleShape(17, 144, 16), "single_core_m 17; it is 1 to 16, as the tiling has"),
        (lambda conv, *_: conv.SetSingleShape(16, 16, 16), "single_core_n 16; .* and a multiple of 144"),
        (lambda conv, *_: conv.SetSingleShape(16, 144, 6), "single_core_k 6; .* and a multiple of 4"),
        (lambda conv, *_: conv.SetStartPosition(4), "ho_start_idx 4; it is 0 to 3"),
        (lambda conv, *_: conv.Iterate(), r"Iterate of .* without input; call SetInput\(\) first"),
        (
            lambda conv, x, dy, dw: (given(conv, x, dy), conv.SetStartPosition(1), conv.Iterate()),
            "Iterate of 4 rows from row 1 on; the output has 4 rows",
        ),
        (
            lambda conv, x, dy, dw: (given(conv, x[16:], dy), conv.Iterate()),
            "Iterate with input .*; this core needs 256 elements",
        ),
        (
            lambda conv, x, dy, dw: (given(conv, x, dy[16:]), conv.Iterate()),
            "Iterate with grad_output .*; this core needs 256 elements",
        ),
        (
            lambda conv, x, dy, dw: (given(conv, x, dy), conv.IterateAll(dw[16:])),
            "GetTensorC with grad_weight .*; this core needs 2304 elements",
        ),
        (
            lambda conv, x, dy, dw: (given(conv, x, dy), conv.IterateAll(x)),
            "GetTensorC with .*; grad_weight is a GlobalTensor of float32",
        ),
    ],
)
def test_what_cannot_be_is_refused(steps, message):
    with pytest.raises(KernelError, match=message):
        on_object(steps)


def test_types_and_sizes_that_cannot_be_are_refused():
    planes, size, _, weights = kinds(half)
    for types, message in (
        ((kinds(single)[0], size, planes, weights), "with input .*; it takes half or bfloat16"),
        (
            (planes, size, planes, replace(weights, dtype=half)),
            "with grad_weight .*; it is float32 in GM",
        ),
    ):
        with pytest.raises(KernelError, match=message):
            Conv3DBackpropFilter(*types)
    with pytest.raises(ValueError, match=r"single_shape \(17, 1, 2\): it is 1 to \(16, 1, 2\)"):
        conv3d_backprop_filter_tiling(SPEC, *SMALL, half, single_shape=(17, 1, 2))
    with pytest.raises(ValueError, match=r"conv3d_backprop_filter_tiling with stride \(1, 64, 1\): it is 3 integers"):
        conv3d_backprop_filter_tiling(SPEC, *SMALL, half, stride=(1, 64, 1))
    with pytest.raises(ValueError, match=r"a row of the output, of 9000 columns, .* narrower parts"):
        conv3d_backprop_filter_tiling(SPEC, (16, 1, 9, 9002), (16, 1, 3, 3), half)
    with pytest.raises(TypeError, match="a convolution takes half or bfloat16"):
        conv3d_backprop_filter_tiling(SPEC, *SMALL, single)
    # Planes of the filter that a dilation parts are single products.
    apart = conv3d_backprop_filter_tiling(SPEC, (16, 5, 4, 4), (16, 3, 1, 1), half, dilation=(2, 1, 1))
    assert apart.single_core_n == 16
