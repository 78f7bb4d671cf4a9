"""Conv3DBackpropInput: the gradient of a convolution by its input, on cube cores."""

from dataclasses import replace

import numpy as np
import pytest
from convolutions import by_input, in_fractals, in_planes
from cores import SPEC, found, launch
from instructions import bfloat16, half, single

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, int32
from device_model.aicore.cube.conv3d_input import Conv3DBackpropInput, conv3d_backprop_input_tiling
from device_model.aicore.cube.conv3d_operands import ConvFormat, ConvType
from device_model.aicore.cube.mmad import fractals
from device_model.aicore.flags.tpipe import TPipe
from device_model.kernel.findings import KernelError

AIC = KernelType.AIC_ONLY
FORMATS = ConvFormat.FRACTAL_Z_3D, ConvFormat.ND, ConvFormat.NDC1HWC0, ConvFormat.NDC1HWC0


def kinds(dtype):
    return [ConvType(TPosition.GM, each, int32 if each is ConvFormat.ND else dtype) for each in FORMATS]


def gm(array, dtype):
    return GlobalTensor(dtype).SetGlobalBuffer(array)


def gradient(dy, w, dx, dtype, tiling, images):
    """Each core its part: input channels side by side, then planes, then rows."""
    TPipe()
    conv = Conv3DBackpropInput(*kinds(dtype))
    conv.Init(tiling)
    across, deep = -(-tiling.cin // tiling.single_core_cin), -(-tiling.di // tiling.single_core_din)
    rest, column = divmod(GetBlockIdx(), across)
    row, plane = divmod(rest, deep)
    left, first, place = column * tiling.single_core_cin, plane * tiling.single_core_din, row * tiling.single_core_m
    area = tiling.hi * tiling.wi
    conv.SetSingleShape(
        min(tiling.single_core_m, area - place), tiling.k, min(tiling.single_core_cin, tiling.cin - left),
        min(tiling.single_core_din, tiling.di - first),
    )  # fmt: skip
    start = place // tiling.wi - tiling.backprop_pad_up
    conv.SetStartPosition(first, start)
    taps = tiling.hk * tiling.wk
    conv.SetWeight(gm(w, dtype)[left // 16 * taps * tiling.cout1 * 256 :])
    top = -(-max(start, 0) // tiling.stride_h) * tiling.wo * 16
    for image in range(images):
        given = gm(dy, dtype)
        conv.SetGradOutput(
            given[min(image * tiling.dout * tiling.cout1 * tiling.ho * tiling.wo * 16 + top, given.size) :]
        )
        to = gm(dx, dtype)[((image * tiling.di * tiling.cin1 + left // 16) * area + place) * 16 :]
        while conv.Iterate():
            conv.GetTensorC(to)
    conv.End()


NARROW = replace(SPEC, l1_bytes=24_576, l0a_bytes=8_192, l0b_bytes=4_096, l0c_bytes=16_384)
CASES = [  # images, input channels and size, output channels and filter, padding, stride, dilation, type, parts, card
    (1, (16, 1, 5, 6), (16, 1, 3, 3), (0, 0, 1, 1, 1, 1), (1, 1, 1), (1, 1, 1), half, (1, 1, 1), SPEC),
    (2, (20, 3, 7, 5), (40, 2, 3, 2), (1, 0, 1, 2, 0, 1), (1, 2, 1), (1, 1, 2), half, (2, 2, 2), SPEC),
    (1, (7, 4, 6, 7), (24, 3, 2, 3), (1, 1, 0, 0, 1, 2), (2, 1, 3), (2, 2, 1), bfloat16, (1, 2, 1), SPEC),
    (1, (40, 5, 9, 8), (50, 3, 3, 3), (0, 1, 1, 1, 1, 1), (2, 2, 2), (1, 1, 1), half, (1, 1, 3), NARROW),
    (1, (48, 2, 8, 9), (33, 3, 3, 2), (1, 1, 1, 0, 0, 1), (1, 1, 1), (1, 2, 1), bfloat16, (3, 1, 1), NARROW),
    # Rows and planes of the input that no place of the filter sees.
    (1, (16, 4, 7, 7), (16, 1, 2, 2), (0, 0, 0, 0, 0, 0), (2, 3, 3), (1, 1, 1), half, (1, 4, 7), SPEC),
    (1, (16, 1, 1, 1), (16, 1, 1, 1), (0, 0, 0, 0, 0, 0), (1, 1, 1), (1, 1, 1), half, (1, 1, 1), SPEC),
]


def operands(images, shape, filters, dtype, padding, stride, dilation):
    """Small whole numbers, of which sums are exact; and the gradient."""
    rng = np.random.default_rng(3)
    w = rng.integers(-2, 3, (filters[0], shape[0], *filters[1:])).astype(dtype)
    outs = [
        (shape[1 + axis] + sum(padding[2 * axis : 2 * axis + 2]) - (filters[1 + axis] - 1) * dilation[axis] - 1)
        // stride[axis] + 1
        for axis in range(3)
    ]  # fmt: skip
    dy = rng.integers(-2, 3, (images, filters[0], *outs)).astype(dtype)
    return dy, w, by_input(dy, w, shape[1:], padding, stride, dilation)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_gradient_by_the_input_equals_numpy(case):
    images, shape, filters, padding, stride, dilation, dtype, parts, spec = case
    dy, w, expected = operands(images, shape, filters, dtype, padding, stride, dilation)
    expected = in_planes(expected.astype(dtype))
    columns, planes, rows = (
        -(-size // part) for size, part in zip((fractals(shape[0]), *shape[1:3]), parts, strict=True)
    )
    single_shape = min(columns * 16, shape[0]), planes, rows * shape[3]
    tiling = conv3d_backprop_input_tiling(
        spec, shape, filters, dtype, padding=padding, stride=stride, dilation=dilation, single_input_shape=single_shape
    )
    blocks = 1
    for size, part in zip((*shape[:2], shape[2] * shape[3]), single_shape, strict=True):
        blocks *= -(-size // part)
    dx = np.full(expected.shape, 7, dtype)
    result = launch(
        gradient, in_planes(dy), in_fractals(w), dx, dtype, tiling, images, blocks=blocks, kind=AIC, spec=spec
    )
    assert np.array_equal(dx.astype(single), expected.astype(single))
    assert found(result) == []


SMALL = (16, 1, 4, 4), (16, 1, 3, 3)
PADDING = (0, 0, 1, 1, 1, 1)
TILING = conv3d_backprop_input_tiling(SPEC, *SMALL, half, padding=PADDING)


def on_object(steps, tiling=TILING):
    """Run *steps* with an object, the gradient by the output, weights, and the gradient by the input, of ones."""

    def kernel(dy, w, dx):
        TPipe()
        conv = Conv3DBackpropInput(*kinds(half))
        conv.Init(tiling)
        steps(conv, gm(dy, half), gm(w, half), gm(dx, half))
        conv.End()

    dx = np.ones(256, half)
    launch(kernel, np.ones(256, half), np.ones(9 * 256, half), dx, kind=AIC)
    return dx


def given(conv, dy, w, dx):
    conv.SetGradOutput(dy)
    conv.SetWeight(w)


def test_a_gradient_is_added_to_what_is_there_and_one_object_makes_several():
    def steps(conv, dy, w, dx):
        given(conv, dy, w, dx)
        conv.IterateAll(dx)
        conv.IterateAll(dx, 1)

    dx = on_object(steps).reshape(4, 4, 16)
    rows = np.array([2, 3, 3, 2])
    assert np.array_equal(dx, 2 * 16 * np.outer(rows, rows)[:, :, None] * np.ones(16))


def test_a_piece_may_go_to_a_place_of_its_own():
    tiling = conv3d_backprop_input_tiling(SPEC, (16, 2, 4, 2), (16, 1, 3, 3), half, padding=PADDING)

    def steps(conv, dy, w, dx):
        given(conv, dy, w, dx)
        for start in (128, 0):  # the first plane behind the second one
            assert conv.Iterate()
            conv.GetTensorC(dx[start:], 0, True)
        assert not conv.Iterate()

    rows = np.array([2, 3, 3, 2])
    assert np.array_equal(
        on_object(steps, tiling).reshape(2, 4, 2, 16), 16 * 2 * rows[:, None, None] * np.ones((2, 4, 2, 16))
    )


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (lambda conv, *_: conv.Init(TILING), "Init of <Conv3DBackpropInput of float16> a second time"),
        (
            lambda conv, *_: conv.SetGradOutput(None),
            "grad_output is a GlobalTensor of float16",
        ),
        (lambda conv, *_: conv.SetSingleShape(17, TILING.k, 16), "single_shape_m 17; it is 1 to 16, as the tiling has"),
        (lambda conv, *_: conv.SetSingleShape(6, TILING.k, 16), "single_shape_m 6; it is whole rows of 4 places"),
        (lambda conv, *_: conv.SetSingleShape(4, 16, 16), "single_shape_k 16; sums are whole: 144"),
        (lambda conv, *_: conv.SetSingleShape(4, TILING.k, 17), "single_shape_n 17; it is 1 to 16"),
        (lambda conv, *_: conv.SetSingleShape(4, TILING.k, 16, 2), "single_shape_din 2; it is 1 to 1"),
        (lambda conv, *_: conv.SetStartPosition(1, -1), "cur_din_start_idx 1; it is 0 to 0"),
        (lambda conv, *_: conv.SetStartPosition(0, 3), "cur_ho_start_idx 3; it is -1 to 2"),
        (lambda conv, *_: conv.Iterate(), r"Iterate of .* without grad_output; call SetGradOutput\(\) first"),
        (lambda conv, *_: conv.Iterate(True), "with en_partial_sum; pieces are whole sums"),
        (lambda conv, dy, w, dx: conv.GetTensorC(dx), r"GetTensorC of .* without a piece; call Iterate\(\) first"),
        (
            lambda conv, dy, w, dx: (given(conv, dy[16:], w, dx), conv.Iterate()),
            "Iterate with grad_output .*; this core needs 256 elements",
        ),
        (
            lambda conv, dy, w, dx: (given(conv, dy, w[16:], dx), conv.Iterate()),
            "Iterate with weight .*; this core needs 2304 elements",
        ),
        (
            lambda conv, dy, w, dx: (given(conv, dy, w, dx), conv.IterateAll(dx[16:])),
            "GetTensorC with grad_input .*; this core needs 256 elements",
        ),
        (
            lambda conv, dy, w, dx: (given(conv, dy, w, dx), conv.SetStartPosition(0, 0), conv.Iterate()),
            "Iterate of 1 planes and 16 places from plane 0 and place 4 on; the input has 1 planes of 16 places",
        ),
        (
            lambda conv, dy, w, dx: (given(conv, dy, w, dx), conv.Iterate(), conv.Iterate()),
            r"Iterate of .* a second time; store the piece before it: call GetTensorC\(\)",
        ),
        (
            lambda conv, dy, w, dx: (given(conv, dy, w, dx), conv.IterateAll(dx, 2)),
            "GetTensorC with en_atomic 2; 0 overwrites, and 1 adds",
        ),
    ],
)
def test_what_cannot_be_is_refused(steps, message):
    with pytest.raises(KernelError, match=message):
        on_object(steps)


def test_types_and_sizes_that_cannot_be_are_refused():
    weight, size, planes, _ = kinds(half)
    for types, message in (
        ((size, size, planes, planes), "with weight .*; it takes half or bfloat16"),
        ((weight, planes, planes, planes), "with input_size .*; it is int32 in GM, ND"),
        ((weight, size, kinds(bfloat16)[2], planes), "with grad_output .*; it is float16 in GM, NDC1HWC0"),
    ):
        with pytest.raises(KernelError, match=message):
            Conv3DBackpropInput(*types)
    with pytest.raises(ValueError, match=r"padding \(0, 0, 3, 0, 0, 0\): of rows it is at most 2, as far"):
        conv3d_backprop_input_tiling(SPEC, *SMALL, half, padding=(0, 0, 3, 0, 0, 0))
    with pytest.raises(ValueError, match=r"single_input_shape \(16, 1, 6\): a core computes whole rows, of 4 places"):
        conv3d_backprop_input_tiling(SPEC, *SMALL, half, padding=PADDING, single_input_shape=(16, 1, 6))
    own = "conv3d_backprop_input_tiling"
    with pytest.raises(TypeError, match=f"{own} of float32: a convolution takes half or bfloat16"):
        conv3d_backprop_input_tiling(SPEC, *SMALL, single)
    with pytest.raises(ValueError, match=rf"{own} with single_input_shape \(16, 1, 20\): it is at most \(16, 1, 16\)"):
        conv3d_backprop_input_tiling(SPEC, *SMALL, half, padding=PADDING, single_input_shape=(16, 1, 20))
    with pytest.raises(ValueError, match=f"{own}: the filter spans 5 rows, and the padded input has 4"):
        conv3d_backprop_input_tiling(SPEC, *SMALL, half, dilation=(1, 2, 1))
