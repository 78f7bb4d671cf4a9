"""Loads from L1 to L0A and L0B: LoadData, fractal by fractal, and LoadDataWithTranspose. Both run on MTE1."""

from collections.abc import Iterator, Sequence
from enum import Enum
from operator import index as integer
from typing import NamedTuple

import numpy as np

from device_model.aicore.core.machine import Core
from device_model.aicore.core.memories import Range
from device_model.aicore.core.names import Pipe, Space
from device_model.aicore.core.packed import int4b_t, pack, unpack
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.cube import im2col
from device_model.aicore.cube.im2col import LoadData3DParamsV2
from device_model.aicore.cube.mmad import FRACTAL, PRODUCTS, ROW, SIDE, Array, CubePlan, cube_unit, k0
from device_model.kernel.findings import KernelError

MAX_REPEATS = 255
MOST_PIXELS = 32767  # of an image, down and across


def repeats_of(count: int) -> Iterator[tuple[int, int]]:
    """Yield the first of *count* fractals, and the number of them, of each LoadData that brings them."""
    for start in range(0, count, MAX_REPEATS):
        yield start, min(MAX_REPEATS, count - start)


class LoadData2DParams(NamedTuple):
    """Fractals to load (Ascend C: LoadData2DParams).

    Attributes:
        start_index: The number of the first fractal in the source.
        repeat_times: How many fractals are loaded, 1 to 255.
        src_stride: From one fractal to the next in the source, in fractals.
        dst_gap: Fractals between two loaded ones in the destination.
        if_transpose: Whether each fractal is transposed; for 16-bit types.
    """

    start_index: int = 0
    repeat_times: int = 1
    src_stride: int = 1
    dst_gap: int = 0
    if_transpose: bool = False


class LoadData2dTransposeParams(NamedTuple):
    """Squares to load and transpose (Ascend C: LoadData2dTransposeParams).

    A square is one fractal of a 16-bit type, two fractals of float side by side, or two of int8 or four of int4b_t one
    below the other.

    Attributes:
        start_index: The number of the first square in the source.
        repeat_times: How many squares are loaded, 1 to 255.
        src_stride: From one square to the next in the source, in squares.
        dst_gap: Fractals between the first fractals of two squares in the destination.
        dst_frac_gap: Fractals between the fractals of a square in the destination.
    """

    start_index: int = 0
    repeat_times: int = 1
    src_stride: int = 1
    dst_gap: int = 0
    dst_frac_gap: int = 0


class FmatrixMode(Enum):
    """Which factor SetFmatrix is for (Ascend C: FmatrixMode)."""

    FMATRIX_LEFT = 0
    FMATRIX_RIGHT = 1


def LoadData(
    dst: LocalTensor,
    src: LocalTensor,
    params: LoadData2DParams | LoadData3DParamsV2,
    *,
    is_set_fmatrix: bool = True,
    is_set_padding: bool = True,
) -> None:
    """Load fractals, or a part of an unrolled image, from L1 to L0A or L0B (Ascend C: LoadData).

    Runs on MTE1. Order it after MTE2, which fills L1, and before M with flags or queues.

    Args:
        dst: The tensor in L0A (A2) or L0B (B2), starting at a multiple of 512 bytes.
        src: The tensor in L1 (A1, B1), starting at a multiple of 32 bytes, of the same type.
        params: `LoadData2DParams` for fractals, or `LoadData3DParamsV2` for an image (`im2col`).
        is_set_fmatrix: Whether the size of an image and its padding are those in *params*; else those of SetFmatrix.
        is_set_padding: Whether the added pixels have the value in *params*; else that of SetLoadDataPaddingValue.

    Raises:
        KernelError: The core is not a cube core, a type, place or parameter is impossible, or a tensor is too small.
    """
    unit = cube_unit()
    if isinstance(params, LoadData3DParamsV2):
        params = _with_settings(params, is_set_fmatrix=is_set_fmatrix, is_set_padding=is_set_padding)
        if not params.is_nothing:
            unit.issue(("LoadData", dst, src, params), lambda: _plan_image(unit.core, dst, src, params))
        return
    unit.issue(("LoadData", dst, src, params), lambda: _plan_load(unit.core, dst, src, params))


def SetFmatrix(
    l1_h: int, l1_w: int, pad_list: Sequence[int], fmatrix_mode: FmatrixMode = FmatrixMode.FMATRIX_LEFT
) -> None:
    """Set the size of the image for LoadData with is_set_fmatrix=False (Ascend C: SetFmatrix).

    Args:
        l1_h: Rows of the image in L1, 1 to 32767.
        l1_w: Columns of the image, 1 to 32767.
        pad_list: Pixels added around the image: left, right, top, bottom, 0 to 255 each.
        fmatrix_mode: FMATRIX_LEFT; Atlas A2 and A3 use it for both factors.

    Raises:
        KernelError: The core is not a cube core, or a number or mode is impossible.
    """
    unit = cube_unit()
    for name, size in (("l1_h", l1_h), ("l1_w", l1_w)):
        if not 1 <= integer(size) <= MOST_PIXELS:
            raise KernelError(f"SetFmatrix with {name} {size}", f"it is 1 to {MOST_PIXELS}")
    left, right, top, bottom = map(integer, pad_list)
    if not all(0 <= pixels <= 255 for pixels in (left, right, top, bottom)):
        raise KernelError(
            f"SetFmatrix with pad_list {tuple(pad_list)}", "it is left, right, top, bottom, 0 to 255 each"
        )
    if fmatrix_mode is not FmatrixMode.FMATRIX_LEFT:
        raise KernelError(f"SetFmatrix with {fmatrix_mode}", "Atlas A2 and A3 have FMATRIX_LEFT only, for both factors")
    unit.fmatrix = integer(l1_h), integer(l1_w), (left, right, top, bottom)


def SetLoadDataPaddingValue(pad_value: float) -> None:
    """Set the value of the pixels that LoadData with is_set_padding=False adds (Ascend C: SetLoadDataPaddingValue).

    Raises:
        KernelError: The core is not a cube core.
    """
    cube_unit().load_padding = pad_value


def _with_settings(params: LoadData3DParamsV2, *, is_set_fmatrix: bool, is_set_padding: bool) -> LoadData3DParamsV2:
    unit = cube_unit()
    if not is_set_padding:
        params = params._replace(pad_value=unit.load_padding)
    if is_set_fmatrix:
        return params
    if unit.fmatrix is None:
        raise KernelError("LoadData with is_set_fmatrix=False", "call SetFmatrix() first")
    high, wide, pads = unit.fmatrix
    return params._replace(l1_h=high, l1_w=wide, pad_list=pads)


def _plan_image(core: Core, dst: LocalTensor, src: LocalTensor, params: LoadData3DParamsV2) -> CubePlan:
    _check_load("LoadData", dst, src, 1)
    if src.dtype is int4b_t:
        raise KernelError("LoadData of an image of int4b_t", "it takes the other types here")
    return im2col.plan(core, dst, src, params)


def _plan_load(core: Core, dst: LocalTensor, src: LocalTensor, params: LoadData2DParams) -> CubePlan:
    _check_load("LoadData", dst, src, params.repeat_times)
    if params.if_transpose and src.dtype.itemsize != 2:
        raise KernelError(
            f"LoadData of {src.dtype} with if_transpose", "it takes 16-bit types; use LoadDataWithTranspose()"
        )
    at = params.start_index + params.src_stride * np.arange(params.repeat_times)
    to = (1 + params.dst_gap) * np.arange(params.repeat_times)
    into, out_of = _by_fractal("LoadData", "dst", dst, to), _by_fractal("LoadData", "src", src, at)
    if params.if_transpose:

        def compute() -> None:
            into[to] = out_of[at].reshape(-1, SIDE, SIDE).transpose(0, 2, 1).reshape(-1, SIDE * SIDE)

    else:

        def compute() -> None:
            into[to] = out_of[at]

    return CubePlan(Pipe.MTE1, "LoadData", *_load_cost(core, dst, len(at)), _touch(src, at), _touch(dst, to), compute)


def LoadDataWithTranspose(dst: LocalTensor, src: LocalTensor, params: LoadData2dTransposeParams) -> None:
    """Load squares from L1 to L0B or L0A, each transposed (Ascend C: LoadDataWithTranspose).

    Runs on MTE1. It brings B, which lies row by row in GM, into the order of L0B.

    Args:
        dst: The tensor in L0B (B2) or L0A (A2), starting at a multiple of 512 bytes.
        src: The tensor in L1 (A1, B1), starting at a multiple of 32 bytes, of the same type.
        params: The squares.

    Raises:
        KernelError: The core is not a cube core, a type, place or parameter is impossible, or a tensor is too small.
    """
    unit = cube_unit()
    unit.issue(("LoadDataWithTranspose", dst, src, params), lambda: _plan_transposed(unit.core, dst, src, params))


def _plan_transposed(core: Core, dst: LocalTensor, src: LocalTensor, params: LoadData2dTransposeParams) -> CubePlan:
    name = "LoadDataWithTranspose"
    _check_load(name, dst, src, params.repeat_times)
    width = k0(src.dtype)
    if src.dtype is int4b_t and dst.memory.space is Space.L0A:
        raise KernelError(f"{name} of int4b_t to {dst!r}", "it goes to L0B (B2)")
    each = max(width, SIDE) // min(width, SIDE)  # fractals in a square
    repeats = np.arange(params.repeat_times)
    squares = params.start_index + params.src_stride * repeats
    at = (squares[:, None] * each + np.arange(each)).ravel()
    to = (repeats[:, None] * (1 + params.dst_gap) + np.arange(each) * (1 + params.dst_frac_gap)).ravel()
    into, out_of = _by_fractal(name, "dst", dst, to), _by_fractal(name, "src", src, at)

    def compute() -> None:
        loaded = unpack(out_of[at]) if src.dtype is int4b_t else out_of[at]
        pieces = loaded.reshape(-1, each, SIDE, width)
        if width < SIDE:  # beside each other
            side = pieces.transpose(0, 2, 1, 3).reshape(-1, SIDE, SIDE).transpose(0, 2, 1)
            turned = side.reshape(-1, SIDE, each, width).transpose(0, 2, 1, 3)
        else:  # one below the other
            turned = pieces.reshape(-1, each * SIDE, width).transpose(0, 2, 1)
        turned = turned.reshape(len(to), -1)
        into[to] = pack(turned) if src.dtype is int4b_t else turned

    return CubePlan(Pipe.MTE1, name, *_load_cost(core, dst, len(at)), _touch(src, at), _touch(dst, to), compute)


def _check_load(name: str, dst: LocalTensor, src: LocalTensor, repeats: int) -> None:
    if src.memory.space is not Space.L1 or dst.memory.space not in (Space.L0A, Space.L0B):
        raise KernelError(f"{name} from {src!r} to {dst!r}", "it goes from L1 (A1, B1) to L0A (A2) or L0B (B2)")
    if dst.dtype != src.dtype or dst.dtype.name not in PRODUCTS:
        raise KernelError(f"{name} from {src.dtype} to {dst.dtype}", f"both are of one of {', '.join(PRODUCTS)}")
    if src.address % ROW or dst.address % FRACTAL:
        raise KernelError(
            f"{name} from byte {src.address} of L1 to byte {dst.address} of {dst.memory.name}",
            f"L1 is addressed in multiples of {ROW} bytes, L0A and L0B of {FRACTAL}",
        )
    if not 0 < repeats <= MAX_REPEATS:
        raise KernelError(f"{name} with {repeats} repeats", f"an instruction takes 1 to {MAX_REPEATS}")


def _by_fractal(name: str, role: str, tensor: LocalTensor, numbers: Array) -> Array:
    """Return *tensor* as an array of fractals; raise KernelError if *numbers* are not all in it."""
    count = tensor.nbytes // FRACTAL
    if numbers.min() < 0 or numbers.max() >= count:
        raise KernelError(
            f"{name}: {role} has {count} fractals and the instruction reaches number {numbers.max()}",
            "check start_index, strides and gaps",
        )
    view = tensor.view
    return view[: count * FRACTAL // view.itemsize].reshape(count, -1)


def _touch(tensor: LocalTensor, numbers: Array) -> tuple[Range, ...]:
    """Return the bytes of fractals *numbers* of *tensor*."""
    numbers = np.unique(numbers)
    step = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
    start = tensor.address + int(numbers[0]) * FRACTAL
    stop = tensor.address + int(numbers[-1] + 1) * FRACTAL
    if step == 1 and len(numbers) == numbers[-1] - numbers[0] + 1:
        return ((tensor.memory, start, stop),)
    if (np.diff(numbers) == step).all():
        return ((tensor.memory, start, stop, FRACTAL, step * FRACTAL),)
    first = tensor.address + numbers * FRACTAL
    return tuple((tensor.memory, int(at), int(at) + FRACTAL) for at in first)


def _load_cost(core: Core, dst: LocalTensor, count: int) -> tuple[int, int]:
    rate = core.spec.local_copy_bytes_per_cycle[Space.L1, dst.memory.space]
    return core.spec.load_issue, -(-count * FRACTAL // rate)
