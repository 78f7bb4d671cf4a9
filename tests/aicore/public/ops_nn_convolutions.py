"""Kernels after folders of ops-nn that convolve, forwards and back."""

import numpy as np
from convolutions import by_input, by_weights, convolved, in_fractals, in_planes

from acl_py import asc
from public.asc_devkit_products import CUBE, SPEC
from public.cases import Data, follows, gm

HALF = np.float16
CHANNELS = 16  # of a plane


def _conv3d_data(rng):
    x, w = (rng.integers(-3, 4, shape).astype(HALF) for shape in ((2, 20, 3, 6, 7), (40, 20, 2, 3, 3)))
    bias = rng.integers(-3, 4, 40).astype(HALF)
    padding, stride, dilation = (1, 0, 1, 1, 1, 1), (1, 1, 2), (1, 1, 1)
    y = in_planes(convolved(x, w, bias, padding, stride, dilation).astype(HALF))
    tiling = asc.conv3d_tiling(
        SPEC, x.shape[1:], (40, *w.shape[2:]), HALF, padding=padding, stride=stride, dilation=dilation,
        single_output_shape=(32, 2, 16),
    )  # fmt: skip
    return Data({"x": in_planes(x), "w": in_fractals(w), "bias": bias, "batch": 2, "tiling": tiling}, {"y": y})


@follows("ops-nn/conv/conv3d_v2/op_kernel", _conv3d_data, blocks=8)
@asc.kernel(kind=CUBE)
def conv3d_v2(x: asc.In, w: asc.In, bias: asc.In, y: asc.InOut, batch: int, tiling: asc.TConv3DApiTiling):
    """Each core has some output channels, planes and places of all images, and the last cores of each have fewer."""
    area = tiling.org_ho * tiling.org_wo
    along_n, along_d = -(-tiling.org_co // tiling.single_core_co), -(-tiling.org_do // tiling.single_core_do)
    rest, n_index = divmod(asc.GetBlockIdx(), along_n)
    m_index, d_index = divmod(rest, along_d)
    n_start, d_start = n_index * tiling.single_core_co, d_index * tiling.single_core_do
    m_start = m_index * tiling.single_core_m
    planes = asc.ConvFormat.NDC1HWC0
    kinds = [
        asc.ConvType(asc.TPosition.GM, layout, asc.half)
        for layout in (planes, asc.ConvFormat.FRACTAL_Z_3D, planes, asc.ConvFormat.ND)
    ]
    asc.TPipe()
    conv = asc.Conv3D(*kinds)
    conv.Init(tiling)
    single = tiling.single_core_co, tiling.single_core_do, tiling.single_core_m
    mine = (
        min(single[0], tiling.org_co - n_start), min(single[1], tiling.org_do - d_start), min(single[2], area - m_start)
    )  # fmt: skip
    if mine != single:
        conv.SetSingleOutputShape(*mine)
    conv.SetInputStartPosition(d_start * tiling.stride_d, m_start)
    conv.SetWeight(gm(w, asc.half, n_start * CHANNELS))
    conv.SetBias(gm(bias, asc.half, n_start))
    plane = tiling.ci1 * tiling.org_hi * tiling.org_wi * CHANNELS
    first = max(d_start * tiling.stride_d - tiling.pad_head, 0) * plane
    first += max(m_start // tiling.org_wo * tiling.stride_h - tiling.pad_up, 0) * tiling.org_wi * CHANNELS
    of_output = -(-tiling.org_co // CHANNELS) * area * CHANNELS
    for image in range(batch):
        conv.SetInput(gm(x, asc.half, image * tiling.org_di * plane + first))
        at = (image * tiling.org_do + d_start) * of_output + n_start * area + m_start * CHANNELS
        conv.IterateAll(gm(y, asc.half, at))
        conv.End()


def _input_gradient_data(rng):
    padding, stride = (1, 0, 1, 1, 1, 1), (1, 2, 1)
    w = rng.integers(-2, 3, (24, 40, 2, 3, 3)).astype(HALF)
    dy = rng.integers(-2, 3, (2, 24, 3, 4, 6)).astype(HALF)
    dx = in_planes(by_input(dy, w, (3, 8, 6), padding, stride, (1, 1, 1)).astype(HALF))
    tiling = asc.conv3d_backprop_input_tiling(
        SPEC, (40, 3, 8, 6), (24, 2, 3, 3), HALF, padding=padding, stride=stride, single_input_shape=(16, 3, 18)
    )
    return Data({"dy": in_planes(dy), "w": in_fractals(w), "batch": 2, "tiling": tiling}, {"dx": dx})


@follows("ops-nn/conv/conv3d_backprop_input_v2/op_kernel/arch22", _input_gradient_data, blocks=9)
@asc.kernel(kind=CUBE)
def conv3d_backprop_input_v2(dy: asc.In, w: asc.In, dx: asc.InOut, batch: int, tiling: asc.TConv3DBackpropInputTiling):
    """Each core has some input channels and rows of all images, and the last cores of each have fewer."""
    planes, sizes = asc.ConvFormat.NDC1HWC0, asc.ConvFormat.ND
    kinds = [
        asc.ConvType(asc.TPosition.GM, layout, asc.int32 if layout is sizes else asc.half)
        for layout in (asc.ConvFormat.FRACTAL_Z_3D, sizes, planes, planes)
    ]
    asc.TPipe()
    gradient = asc.Conv3DBackpropInput(*kinds)
    gradient.Init(tiling)
    along_n = -(-tiling.cin // tiling.single_core_cin)
    m_index, n_index = divmod(asc.GetBlockIdx(), along_n)
    first_row, n_start = m_index * (tiling.single_core_m // tiling.wi), n_index * tiling.single_core_cin
    start = first_row - tiling.backprop_pad_up
    aligned = 0 if start < 0 else -(-start // tiling.stride_h)
    if aligned >= tiling.ho:
        gradient.End()
        return
    area = tiling.hi * tiling.wi
    gradient.SetStartPosition(0, start)
    gradient.SetSingleShape(
        min(tiling.single_core_m, area - first_row * tiling.wi), tiling.k,
        min(tiling.single_core_cin, tiling.cin - n_start),
    )  # fmt: skip
    of_weights = n_start * tiling.hk * tiling.wk * tiling.cout1 * CHANNELS
    of_dy = tiling.dout * tiling.cout1 * tiling.ho * tiling.wo * CHANNELS
    of_dx = tiling.di * tiling.cin1 * area * CHANNELS
    for image in range(batch):
        gradient.SetGradOutput(gm(dy, asc.half, image * of_dy + aligned * tiling.wo * CHANNELS))
        gradient.SetWeight(gm(w, asc.half, of_weights))
        gradient.IterateAll(gm(dx, asc.half, image * of_dx + n_start * area + first_row * tiling.wi * CHANNELS), 0)
    gradient.End()


def _weight_gradient_data(rng):
    padding, stride = (1, 0, 1, 1, 1, 1), (1, 1, 1)
    x = rng.integers(-2, 3, (2, 40, 3, 6, 6)).astype(HALF)
    dy = rng.integers(-2, 3, (2, 24, 3, 6, 6)).astype(HALF)
    dw = in_fractals(by_weights(x, dy, (2, 3, 3), padding, stride, (1, 1, 1)).astype(np.float32))
    tiling = asc.conv3d_backprop_filter_tiling(
        SPEC, (40, 3, 6, 6), (24, 2, 3, 3), HALF, padding=padding, stride=stride, single_shape=(16, 3, 4)
    )
    given = {"x": in_planes(x), "dy": in_planes(dy), "dw": np.zeros_like(dw), "batch": 2, "tiling": tiling}
    return Data(given, {"dw": dw})


@follows("ops-nn/conv/conv3d_backprop_filter_v2/op_kernel/arch22", _weight_gradient_data, blocks=4)
@asc.kernel(kind=CUBE)
def conv3d_backprop_filter_v2(x: asc.In, dy: asc.In, dw: asc.InOut, batch: int, tiling: asc.TConv3DBpFilterTiling):
    """Each core has some output channels and rows, and adds up all images and planes that the filter sees."""
    planes, sizes = asc.ConvFormat.NDC1HWC0, asc.ConvFormat.ND
    layouts = (planes, asc.half), (sizes, asc.int32), (planes, asc.half), (asc.ConvFormat.FRACTAL_Z_3D, asc.float32)
    asc.TPipe()
    gradient = asc.Conv3DBackpropFilter(*(asc.ConvType(asc.TPosition.GM, *each) for each in layouts))
    gradient.Init(tiling)
    whole = tiling.whole
    k_index, m_index = divmod(asc.GetBlockIdx(), -(-whole.org_co // tiling.single_core_m))
    rows = tiling.single_core_k // whole.org_wo
    top, start = m_index * tiling.single_core_m, k_index * rows
    m, k = min(tiling.single_core_m, whole.org_co - top), min(rows, whole.org_ho - start) * whole.org_wo
    first = max(start * whole.stride_h - whole.pad_up, 0) * whole.org_wi
    cout1, area = -(-whole.org_co // CHANNELS), whole.org_ho * whole.org_wo
    plane = whole.ci1 * whole.org_hi * whole.org_wi
    for image in range(batch):
        for depth in range(whole.org_do):
            for tap in range(whole.kernel_d):
                source = depth * whole.stride_d - whole.pad_head + tap * whole.dilation_d
                if not 0 <= source < whole.org_di:
                    continue
                of_dy = ((image * whole.org_do + depth) * cout1 + top // CHANNELS) * area + start * whole.org_wo
                gradient.SetInput(gm(x, asc.half, ((image * whole.org_di + source) * plane + first) * CHANNELS))
                gradient.SetGradOutput(gm(dy, asc.half, of_dy * CHANNELS))
                gradient.SetSingleShape(m, tiling.single_core_n, k)
                gradient.SetStartPosition(start)
                of_dw = (tap * whole.ci1 * whole.taps * cout1 * CHANNELS + top) * CHANNELS
                gradient.IterateAll(gm(dw, asc.float32, of_dw), 1)  # adds
    gradient.End()
