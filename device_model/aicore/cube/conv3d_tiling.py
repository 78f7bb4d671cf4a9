"""The tiling of a convolution over depth, height and width, for one core.

The convolution is a matrix product. Its rows (m) are the places of the filter in one plane of the output, its columns
(n) the output channels, and its sums (k) run over the planes of the filter and of 16 input channels, and over the rows
and columns of the filter. `conv3d_tiling` tries all sizes of pieces that fit. It prices each by the slowest of three
things: Mmad, LoadData, and the copies from GM.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from operator import index as integer
from typing import Any, NamedTuple

import numpy.typing as npt

from device_model.aicore.core.names import Space
from device_model.aicore.core.tensors import bfloat16, dtype_of, half
from device_model.aicore.cube.mmad import SIDE, fractals

C0 = 16  # input channels of a plane: 32 bytes of half or bfloat16
_BYTES = 2  # of an element
_SIDES = (256, 128, 64, 32, 16)  # of pieces in L0C


@dataclass(frozen=True, slots=True)
class TConv3DApiTiling:
    """The tiling of a convolution on one core, with the fields of Ascend C's structure. All sizes are in elements.

    Attributes:
        org_ci: Input channels.
        org_di: Planes of the input.
        org_hi: Rows of a plane of the input.
        org_wi: Columns of a plane of the input.
        org_co: Output channels.
        org_do: Planes of the output.
        org_ho: Rows of a plane of the output.
        org_wo: Columns of a plane of the output.
        kernel_d: Planes of the filter.
        kernel_h: Rows of the filter.
        kernel_w: Columns of the filter.
        stride_d: Planes from one place of the filter to the next.
        stride_h: Rows from one place of the filter to the next.
        stride_w: Columns from one place of the filter to the next.
        dilation_d: Planes of the input from one plane of the filter to the next.
        dilation_h: Rows of the input from one row of the filter to the next.
        dilation_w: Columns of the input from one column of the filter to the next.
        pad_head: Planes of zeros before the input.
        pad_tail: Planes of zeros behind the input.
        pad_up: Rows of zeros above each plane.
        pad_down: Rows of zeros below each plane.
        pad_left: Columns of zeros left of each plane.
        pad_right: Columns of zeros right of each plane.
        single_core_co: Output channels that one core computes.
        single_core_do: Planes of the output that one core computes.
        single_core_m: Places of each of these planes that one core computes, row by row.
        m_l0: Places of a piece of the output in L0C.
        n_l0: Output channels of a piece of the output in L0C.
        k_l0: The length of the sums of one Mmad.
        m_al1: Places whose pixels one copy brings to L1.
        k_al1: The length of the sums for which one copy brings pixels.
        n_bl1: Output channels whose weights one copy brings to L1.
        k_bl1: The length of the sums for which one copy brings weights.
        al1_full_load: Whether L1 holds all pixels that a plane of the output needs.
        bl1_full_load: Whether L1 holds all weights.
        db_al1: The number of buffers for pixels in L1, 1 or 2.
        db_bl1: The number of buffers for weights in L1, 1 or 2.
        db_l0c: The number of buffers in L0C, 1 or 2.
        iterate_mn_order: 0: the pieces with the same channels follow each other. 1: those with the same places do.
    """

    org_ci: int
    org_di: int
    org_hi: int
    org_wi: int
    org_co: int
    org_do: int
    org_ho: int
    org_wo: int
    kernel_d: int
    kernel_h: int
    kernel_w: int
    stride_d: int
    stride_h: int
    stride_w: int
    dilation_d: int
    dilation_h: int
    dilation_w: int
    pad_head: int
    pad_tail: int
    pad_up: int
    pad_down: int
    pad_left: int
    pad_right: int
    single_core_co: int
    single_core_do: int
    single_core_m: int
    m_l0: int = 0
    n_l0: int = 0
    k_l0: int = 0
    m_al1: int = 0
    k_al1: int = 0
    n_bl1: int = 0
    k_bl1: int = 0
    al1_full_load: bool = False
    bl1_full_load: bool = False
    db_al1: int = 1
    db_bl1: int = 1
    db_l0c: int = 1
    iterate_mn_order: int = 0

    @property
    def ci1(self) -> int:
        """Planes of 16 input channels."""
        return -(-self.org_ci // C0)

    @property
    def planes(self) -> int:
        """Planes of 16 channels that a place of the filter sees, over its depth."""
        return self.kernel_d * self.ci1

    @property
    def taps(self) -> int:
        """Elements of a plane of the filter."""
        return self.kernel_h * self.kernel_w

    @property
    def plane_k(self) -> int:
        """The length of the sums over one plane of 16 channels."""
        return self.taps * C0

    def pixels(self, places: int) -> int:
        """Return the elements of one plane of 16 channels that *places* places need at most, in whole rows."""
        down = min(self.org_ho, (places + self.org_wo - 2) // self.org_wo + 1)
        rows = (down - 1) * self.stride_h + (self.kernel_h - 1) * self.dilation_h + 1
        return min(self.org_hi, rows) * self.org_wi * C0


# The ranges of what a LoadData unrolls (LoadData3DParamsV2); along the depth there is no such limit.
_LIMITS = {"stride": (1, 63), "dilation": (1, 255), "padding": (0, 255)}
_ANY = 2**31


def conv3d_tiling(
    spec: Any,
    input_shape: Sequence[int],
    weight_shape: Sequence[int],
    dtype: npt.DTypeLike,
    *,
    padding: Sequence[int] = (0, 0, 0, 0, 0, 0),
    stride: Sequence[int] = (1, 1, 1),
    dilation: Sequence[int] = (1, 1, 1),
    single_output_shape: Sequence[int] | None = None,
) -> TConv3DApiTiling:
    """Return the fastest tiling of a convolution on one core (Ascend C: Conv3dTiling).

    Of equally fast tilings, it takes the one that copies the fewest bytes from GM.

    Args:
        spec: The cores of the card: `profile.aicore`.
        input_shape: Input channels, planes, rows, columns.
        weight_shape: Output channels, and planes, rows and columns of the filter.
        dtype: The type of input, weights and output: half or bfloat16.
        padding: Zeros around the input: before and behind it, above and below, left and right; rows and columns 0 to
            255 each.
        stride: From one place of the filter to the next: planes, rows, columns; rows and columns 1 to 63.
        dilation: From one element of the filter to the next: planes, rows, columns; rows and columns 1 to 255.
        single_output_shape: What one core computes: output channels, planes, and places of a plane; by default all.

    Raises:
        ValueError: A size is out of range, the filter is larger than the padded input, or no pieces fit L1.
        TypeError: The cube does not convolve this type.
    """
    asked = Asked("conv3d_tiling", "single_output_shape")
    whole = whole_convolution(asked, input_shape, weight_shape, padding, stride, dilation, single_output_shape)
    return fastest(asked, spec, whole, dtype)


class Asked(NamedTuple):
    """What a program has called, for messages: the function *name*, where the share of one core is the argument
    *single*.
    """

    name: str
    single: str


def fastest(asked: Asked, spec: Any, whole: TConv3DApiTiling, dtype: npt.DTypeLike) -> TConv3DApiTiling:
    """Return the fastest tiling of *whole*, a convolution of *dtype*; raise as `conv3d_tiling` does."""
    type_ = dtype_of(dtype)
    if type_ not in (half, bfloat16):
        raise TypeError(f"{asked.name} of {type_}: a convolution takes half or bfloat16")
    best = min(_tilings(spec, whole), key=lambda tiling: _price(spec, tiling, type_.name), default=None)
    if best is None:
        raise ValueError(
            f"{asked.name}: {whole.org_wi} columns of pixels and {whole.kernel_h} x {whole.kernel_w} weights of 16 "
            f"channels do not fit the {spec.space_bytes[Space.L1]} bytes of L1: cut the input into narrower parts"
        )
    return best


def whole_convolution(
    asked: Asked,
    input_shape: Sequence[int],
    weight_shape: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    single_shape: Sequence[int] | None = None,
) -> TConv3DApiTiling:
    """Check the sizes of a convolution, and return it without pieces."""
    numbers = partial(_numbers, asked.name)
    ci, *sizes = numbers("input_shape", input_shape, 4, (1, _ANY))
    co, *kernel = numbers("weight_shape", weight_shape, 4, (1, _ANY))
    pads = numbers("padding", padding, 6, _LIMITS["padding"], free=2)
    strides = numbers("stride", stride, 3, _LIMITS["stride"], free=1)
    dilations = numbers("dilation", dilation, 3, _LIMITS["dilation"], free=1)
    if max(kernel[1:]) > 255:
        raise ValueError(f"{asked.name} with weight_shape {tuple(weight_shape)}: rows and columns are 1 to 255")
    outs = []
    for axis in range(3):
        room = sizes[axis] + pads[2 * axis] + pads[2 * axis + 1] - (kernel[axis] - 1) * dilations[axis] - 1
        if room < 0:
            raise ValueError(
                f"{asked.name}: the filter spans {(kernel[axis] - 1) * dilations[axis] + 1} "
                f"{('planes', 'rows', 'columns')[axis]}, and the padded input has "
                f"{sizes[axis] + pads[2 * axis] + pads[2 * axis + 1]}: add padding, or take a smaller dilation"
            )
        outs.append(room // strides[axis] + 1)
    most = co, outs[0], outs[1] * outs[2]
    single = most if single_shape is None else numbers(asked.single, single_shape, 3, (1, _ANY))
    if any(one > all_ for one, all_ in zip(single, most, strict=True)):
        raise ValueError(f"{asked.name} with {asked.single} {tuple(single)}: it is at most {most}")
    fields: list[Any] = [ci, *sizes, co, *outs, *kernel, *strides, *dilations, *pads, *single]
    return TConv3DApiTiling(*fields)


def _numbers(
    caller: str, name: str, given: Sequence[int], count: int, limits: tuple[int, int], free: int = 0
) -> list[int]:
    """Return *given* as integers; the first *free* of them have no upper limit."""
    numbers = [integer(each) for each in given]
    least, most = limits
    if len(numbers) != count or any(
        not least <= each <= (_ANY if place < free else most) for place, each in enumerate(numbers)
    ):
        limit = f"of {least} or more" if most == _ANY else f"from {least} to {most}"
        raise ValueError(f"{caller} with {name} {tuple(given)}: it is {count} integers {limit}")
    return numbers


def _tilings(spec: Any, whole: TConv3DApiTiling) -> Iterator[TConv3DApiTiling]:
    """Yield the tilings that fit the memories."""
    space = spec.space_bytes
    wide_m, wide_n = fractals(whole.single_core_m) * SIDE, fractals(whole.single_core_co) * SIDE
    for m, n, is_a_full, is_b_full, order in product(_SIDES, _SIDES, (False, True), (False, True), (0, 1)):
        if m > wide_m or n > wide_n or m * n * 4 > space[Space.L0C]:
            continue
        half_a, half_b = (space[each] // 2 // _BYTES for each in (Space.L0A, Space.L0B))
        k = min(half_a // m, half_b // n, whole.planes * whole.plane_k) // C0 * C0
        room = space[Space.L1] - n * 4  # a piece of the bias lies beside them
        tiling = replace(
            whole, m_l0=m, n_l0=n, k_l0=k, m_al1=whole.single_core_m if is_a_full else m,
            n_bl1=wide_n if is_b_full else n, al1_full_load=is_a_full, bl1_full_load=is_b_full,
            db_al1=1 if is_a_full else 2, db_bl1=1 if is_b_full else 2, iterate_mn_order=order,
            db_l0c=2 if 2 * m * n * 4 <= space[Space.L0C] else 1,
        )  # fmt: skip
        planes = _planes(tiling, room)
        if planes is not None:
            at_once = min(planes) * whole.plane_k
            pieces = -(-at_once // k)  # as equal as they can be
            k = -(-at_once // pieces // C0) * C0
            yield replace(tiling, k_l0=k, k_al1=planes[0] * whole.plane_k, k_bl1=planes[1] * whole.plane_k)


def _planes(tiling: TConv3DApiTiling, room: int) -> tuple[int, int] | None:
    """Return how many planes of pixels and of weights each buffer in L1 has; None if they do not fit *room* bytes."""
    a = tiling.pixels(tiling.m_al1) * _BYTES * tiling.db_al1
    b = tiling.plane_k * tiling.n_bl1 * _BYTES * tiling.db_bl1
    planes_a = planes_b = tiling.planes
    if tiling.al1_full_load:
        room -= a * planes_a
    if tiling.bl1_full_load:
        room -= b * planes_b
    each = (0 if tiling.al1_full_load else a) + (0 if tiling.bl1_full_load else b)
    most = room // each if each else tiling.planes
    if room < 0 or most < 1:
        return None
    most = min(most, tiling.planes)
    return planes_a if tiling.al1_full_load else most, planes_b if tiling.bl1_full_load else most


class _Price(NamedTuple):
    cycles: float
    nbytes: int


def _price(spec: Any, tiling: TConv3DApiTiling, name: str) -> _Price:
    """Return the cycles of the slowest of Mmad, LoadData and copies, and the bytes from GM."""
    rates = spec.local_copy_bytes_per_cycle
    k = tiling.planes * tiling.plane_k
    down, across = -(-tiling.single_core_m // tiling.m_l0), -(-tiling.single_core_co // tiling.n_l0)
    rows, columns = fractals(tiling.single_core_m), fractals(tiling.single_core_co)
    at_once = min(tiling.k_al1, tiling.k_bl1)
    pieces = down * across * -(-k // at_once) * -(-at_once // tiling.k_l0)
    mmad = rows * columns * (k // C0) * spec.mmad_cycles[name] + pieces * spec.mmad_startup
    a, b = across * rows * SIDE * k * _BYTES, down * columns * SIDE * k * _BYTES
    load = a / rates[Space.L1, Space.L0A] + b / rates[Space.L1, Space.L0B] + 2 * pieces * spec.load_issue
    nbytes = _bytes_from_gm(tiling, down, across)
    # All weights at once stay for the further planes of the output.
    planes = tiling.single_core_do
    copies = (nbytes[0] * planes + nbytes[1] * (1 if tiling.bl1_full_load else planes)) / spec.l1_read_gbps
    total = int(nbytes[0] * planes + nbytes[1] * planes)
    return _Price(max(mmad * planes, load * planes, copies * spec.mhz / 1000), total)


def _bytes_from_gm(tiling: TConv3DApiTiling, down: int, across: int) -> tuple[int, int]:
    """Return the bytes of pixels and of weights that one plane of the output needs from GM."""
    a = tiling.pixels(tiling.m_al1) * tiling.planes * _BYTES * -(-tiling.single_core_m // tiling.m_al1)
    b = tiling.planes * tiling.plane_k * fractals(tiling.single_core_co) * SIDE * _BYTES
    is_a_kept = tiling.al1_full_load or (
        tiling.iterate_mn_order == 1 and tiling.planes * tiling.plane_k <= tiling.db_al1 * tiling.k_al1
    )
    is_b_kept = tiling.bl1_full_load or (
        tiling.iterate_mn_order == 0 and tiling.planes * tiling.plane_k <= tiling.db_bl1 * tiling.k_bl1
    )
    return a if is_a_kept else a * across, b if is_b_kept else b * down
