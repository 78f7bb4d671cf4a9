"""Kernels after folders of ops-nn that convolve."""

import numpy as np
from convolutions import convolved, in_fractals, in_planes

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
