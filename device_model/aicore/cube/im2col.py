"""LoadData that unrolls an image, so that a convolution becomes a matrix product (im2col).

A filter moves over the image. The pixels that it covers at one place become one row of a matrix; the product of this
matrix with the filter's weights is the convolution.

In L1 the image lies as C1 planes of H x W pixels of k0 channels (NC1HWC0). The rows of the matrix are the places of the
filter, row by row of the image. Its columns are ordered by plane, row of the filter, column of the filter, and channel
in the plane. An instruction loads a part of the matrix: to L0A as the left factor, plain or transposed, or to L0B as
the right factor. With an image of 1 x m pixels and a filter of 1 x 1, the matrix is the image itself, as m rows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.machine import Core
from device_model.aicore.core.names import Pipe, Space
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.cube.mmad import FRACTAL, SIDE, Array, CubePlan, fractals, k0
from device_model.kernel.findings import KernelError


class LoadData3DParamsV2(NamedTuple):
    """Parameters of LoadData that unrolls an image (Ascend C: LoadData3DParamsV2). An extent of 0 loads nothing.

    Attributes:
        l1_h: Rows of the image in L1, in pixels.
        l1_w: Columns of the image, in pixels.
        channel_size: Channels of a pixel, a multiple of k0 (32 bytes).
        k_extension: How many columns of the matrix are loaded; columns beyond its end are 0.
        m_extension: How many rows of the matrix are loaded; rows beyond its end are 0.
        k_start_pt: The first column that is loaded, a multiple of k0.
        m_start_pt: The first row that is loaded.
        pad_list: Pixels added around the image: left, right, top, bottom, 0 to 255 each.
        stride_w: Pixels from one place of the filter to the next in a row, 1 to 63.
        stride_h: The same in a column.
        filter_w: Columns of the filter.
        filter_h: Rows of the filter.
        dilation_filter_w: Pixels from one column of the filter to the next, 1 to 255.
        dilation_filter_h: Pixels from one row of the filter to the next, 1 to 255.
        en_transpose: Whether L0A gets the transposed matrix; for types of 16 and 32 bits.
        pad_value: The value of the added pixels.
    """

    l1_h: int = 0
    l1_w: int = 0
    channel_size: int = 0
    k_extension: int = 0
    m_extension: int = 0
    k_start_pt: int = 0
    m_start_pt: int = 0
    pad_list: tuple[int, int, int, int] = (0, 0, 0, 0)
    stride_w: int = 1
    stride_h: int = 1
    filter_w: int = 1
    filter_h: int = 1
    dilation_filter_w: int = 1
    dilation_filter_h: int = 1
    en_transpose: bool = False
    pad_value: float = 0

    @property
    def is_nothing(self) -> bool:
        """True if it loads nothing."""
        extents = self.l1_h, self.l1_w, self.channel_size, self.k_extension, self.m_extension
        return 0 in (*extents, self.filter_h, self.filter_w)


# The range of each parameter. Parameters that are not listed are checked by the bytes that they reach.
_LIMITS = {
    "l1_h": (0, 32767), "l1_w": (0, 32767), "channel_size": (0, 65535), "k_extension": (0, 65535),
    "m_extension": (0, 65535), "k_start_pt": (0, 65535), "m_start_pt": (0, 32767), "stride_w": (1, 63),
    "stride_h": (1, 63), "filter_w": (0, 255), "filter_h": (0, 255), "dilation_filter_w": (1, 255),
    "dilation_filter_h": (1, 255),
}  # fmt: skip


def plan(core: Core, dst: LocalTensor, src: LocalTensor, params: LoadData3DParamsV2) -> CubePlan:
    """Plan the instruction that loads the part of the matrix that *params* describe."""
    width = k0(src.dtype)
    _check(dst, src, params, width)
    matrix = _unroll(src, params, width)
    down, across = fractals(params.m_extension), fractals(params.k_extension, width)
    if dst.memory.space is Space.L0B or params.en_transpose:
        # Transposed, the rows of the matrix lie along the short side of a fractal.
        down, across = fractals(params.m_extension, width), fractals(params.k_extension)
    nbytes = down * across * FRACTAL
    if nbytes > dst.nbytes:
        raise KernelError(
            f"LoadData of {params.m_extension} x {params.k_extension} to {dst!r}", f"it needs {nbytes} bytes"
        )
    target = dst.view[: nbytes // dst.dtype.itemsize]
    if dst.memory.space is Space.L0B:
        cells, is_transposed = target.reshape(down, across, SIDE, width).transpose(0, 3, 1, 2), False
        shape = down * width, across * SIDE
    elif params.en_transpose:
        cells, is_transposed = target.reshape(across, down, SIDE, width).transpose(0, 2, 1, 3), True
        shape = across * SIDE, down * width
    else:
        cells, is_transposed = target.reshape(down, across, SIDE, width).transpose(0, 2, 1, 3), False
        shape = down * SIDE, across * width

    def compute() -> None:
        part = matrix()
        part = part.T if is_transposed else part
        whole = np.zeros(shape, dst.dtype)
        whole[: part.shape[0], : part.shape[1]] = part
        cells[...] = whole.reshape(cells.shape)

    used = params.channel_size * params.l1_h * params.l1_w * src.dtype.itemsize
    rate = core.spec.local_copy_bytes_per_cycle[Space.L1, dst.memory.space]
    return CubePlan(
        Pipe.MTE1,
        "LoadData",
        core.spec.load_issue,
        -(-nbytes // rate),
        ((src.memory, src.address, src.address + used),),
        ((dst.memory, dst.address, dst.address + nbytes),),
        compute,
    )


def _check(dst: LocalTensor, src: LocalTensor, params: LoadData3DParamsV2, width: int) -> None:
    for name, (least, most) in _LIMITS.items():
        if not least <= getattr(params, name) <= most:
            raise KernelError(f"LoadData with {name}={getattr(params, name)}", f"it is {least} to {most}")
    if len(params.pad_list) != 4 or not all(0 <= pixels <= 255 for pixels in params.pad_list):
        raise KernelError(f"LoadData with pad_list={params.pad_list}", "it is left, right, top, bottom, 0 to 255 each")
    if params.channel_size % width:
        raise KernelError(
            f"LoadData of {params.channel_size} channels of {src.dtype}",
            f"give whole blocks of {width}; fewer channels, packed in one block, are not modelled",
        )
    if src.dtype.itemsize == 1 and (params.en_transpose or dst.memory.space is Space.L0B):
        raise KernelError(f"LoadData of {src.dtype}, transposed or to L0B", "it takes 16 and 32 bits")
    if params.channel_size * params.l1_h * params.l1_w > src.size:
        raise KernelError(
            f"LoadData of {params.l1_h} x {params.l1_w} pixels of {params.channel_size} channels from {src!r}",
            "the image must fit in it",
        )
    high, wide = _places(params)
    if high < 1 or wide < 1:
        raise KernelError(f"LoadData with {params}", "the filter, with its dilation, is larger than the padded image")
    rows, columns = high * wide, params.channel_size * params.filter_h * params.filter_w
    for name, start, extent, size, step in (
        ("m", params.m_start_pt, params.m_extension, rows, SIDE),
        ("k", params.k_start_pt, params.k_extension, columns, width),
    ):
        if start + extent > -(-size // step) * step:
            raise KernelError(
                f"LoadData from {name}_start_pt {start} on, {name}_extension {extent}", f"the matrix has {size}"
            )
        if start + extent < size and extent % step and not (name == "m" and src.dtype.itemsize == 4):
            raise KernelError(
                f"LoadData with {name}_extension {extent}", f"it is a multiple of {step}, or goes up to the end, {size}"
            )
    if params.k_start_pt % width:
        raise KernelError(f"LoadData with k_start_pt {params.k_start_pt}", f"it is a multiple of {width}")


def _places(params: LoadData3DParamsV2) -> tuple[int, int]:
    """Return how many places the filter has down and across the padded image."""
    left, right, top, bottom = params.pad_list
    high = params.l1_h + top + bottom - (params.filter_h - 1) * params.dilation_filter_h - 1
    wide = params.l1_w + left + right - (params.filter_w - 1) * params.dilation_filter_w - 1
    return high // params.stride_h + 1, wide // params.stride_w + 1


def _unroll(src: LocalTensor, params: LoadData3DParamsV2, width: int) -> Callable[[], Array]:
    """Return a function that makes the part of the matrix that *params* describe."""
    planes = params.channel_size // width
    image = src.view[: params.channel_size * params.l1_h * params.l1_w].reshape(planes, params.l1_h, params.l1_w, width)
    left, right, top, bottom = params.pad_list
    high, wide = _places(params)
    rows = np.arange(params.m_start_pt, min(params.m_start_pt + params.m_extension, high * wide))
    taps = params.filter_h * params.filter_w
    columns = np.arange(params.k_start_pt, min(params.k_start_pt + params.k_extension, planes * taps * width))
    block, channel = np.divmod(columns, width)
    plane, tap = np.divmod(block, taps)
    tap_row, tap_column = np.divmod(tap, params.filter_w)
    place_row, place_column = np.divmod(rows[:, None], wide)
    y = place_row * params.stride_h + tap_row * params.dilation_filter_h
    x = place_column * params.stride_w + tap_column * params.dilation_filter_w
    around: Any = ((0, 0), (top, bottom), (left, right), (0, 0))

    def unroll() -> Array:
        padded: Array = np.pad(image, around, constant_values=params.pad_value)
        part: Array = padded[plane, y, x, channel]
        return part

    return unroll
