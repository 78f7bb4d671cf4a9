"""The gradient of a convolution by its weights: Conv3DBackpropFilter and its tiling.

It is a product. Its rows (m) are the output channels, its columns (n) the planes of 16 input channels and the taps of
the filter, and its sums (k) run over the places of one plane of the output. MTE2 brings rows of both operands to L1.
MTE1 transposes the gradient to L0A, and unrolls the pixels to L0B (im2col). The result lies as weights do, in float.

One product is that of one plane of the output. A kernel goes over images and planes, and adds in GM.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import index as integer
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.names import HardEvent, Space, TPosition
from device_model.aicore.core.tensors import GlobalTensor, bfloat16, dtype_of, float32, half, int32
from device_model.aicore.cube.conv3d_operands import ConvFormat, ConvType, Role
from device_model.aicore.cube.conv3d_part import Part, Rows
from device_model.aicore.cube.conv3d_pieces import copy_planes
from device_model.aicore.cube.conv3d_steps import Steps, Store
from device_model.aicore.cube.conv3d_tiling import C0, Asked, TConv3DApiTiling, whole_convolution
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams
from device_model.aicore.cube.im2col import LoadData3DParamsV2
from device_model.aicore.cube.loads import LoadData
from device_model.aicore.cube.mmad import SIDE, Mmad, MmadParams, cube_unit, fractals
from device_model.aicore.cube.slots import Slot, buffer, find, slots
from device_model.aicore.flags.tpipe import GetTPipePtr
from device_model.aicore.moving.constants import InitConstValueParams, fill_local
from device_model.kernel.findings import KernelError

_ASKED = Asked("conv3d_backprop_filter_tiling", "single_shape")
_BYTES = 2  # of an element of the operands
_SIDES = (256, 128, 64, 32, 16)  # of pieces in L0C


@dataclass(frozen=True, slots=True)
class TConv3DBpFilterTiling:
    """The tiling of the gradient of a convolution by its weights, on one core. All sizes are in elements.

    Attributes:
        whole: The convolution; its sizes of pieces are 0.
        single_core_m: Output channels that one core computes.
        single_core_n: Columns that one core computes: for each plane of 16 channels of the input, 16 for each tap. The
            planes follow each other in the input, over the planes of the filter.
        single_core_k: Places over which one core sums, in whole rows of the output.
        base_m: Output channels of a piece in L0C.
        base_n: Columns of a piece in L0C.
        base_k: The length of the sums of one Mmad.
        step_k: Rows of the output that one copy brings to L1.
        db_l0c: The number of buffers in L0C, 1 or 2.
    """

    whole: TConv3DApiTiling
    single_core_m: int
    single_core_n: int
    single_core_k: int
    base_m: int
    base_n: int
    base_k: int
    step_k: int
    db_l0c: int

    @property
    def rows(self) -> int:
        """Rows of the input for *step_k* rows of the output."""
        whole = self.whole
        return min(whole.org_hi, (self.step_k - 1) * whole.stride_h + (whole.kernel_h - 1) * whole.dilation_h + 1)

    @property
    def planes(self) -> int:
        """Planes of 16 channels that a piece takes columns of, at most."""
        step, all_ = self.whole.plane_k, -(-self.single_core_n // self.whole.plane_k)
        if self.base_n % step == 0 or step % self.base_n == 0:
            return min(-(-self.base_n // step), all_)
        return min((self.base_n - C0) // step + 2, all_)

    @property
    def l1_bytes(self) -> int:
        """The bytes of L1 that two copies of both operands take."""
        a = self.base_m * self.step_k * self.whole.org_wo
        return 2 * _BYTES * (a + self.planes * self.rows * self.whole.org_wi * C0)


def conv3d_backprop_filter_tiling(
    spec: Any,
    input_shape: Sequence[int],
    weight_shape: Sequence[int],
    dtype: npt.DTypeLike,
    *,
    padding: Sequence[int] = (0, 0, 0, 0, 0, 0),
    stride: Sequence[int] = (1, 1, 1),
    dilation: Sequence[int] = (1, 1, 1),
    single_shape: Sequence[int] | None = None,
) -> TConv3DBpFilterTiling:
    """Return the fastest tiling of the gradient of a convolution by its weights (Ascend C: Conv3dBpFilterTiling).

    Args:
        spec: The cores of the card: `profile.aicore`.
        input_shape: Input channels, planes, rows, columns.
        weight_shape: Output channels, and planes, rows and columns of the filter.
        dtype: The type of the input and of the gradient by the output: half or bfloat16.
        padding: Zeros around the input: before and behind it, above and below, left and right.
        stride: From one place of the filter to the next: planes, rows, columns.
        dilation: From one element of the filter to the next: planes, rows, columns.
        single_shape: What one core computes: output channels, planes of 16 input channels over the planes of the
            filter, and rows of a plane of the output over which it sums; by default all. With a dilation of planes,
            planes of the filter do not follow each other in the input: by default there is one.

    Raises:
        ValueError: A size is out of range, or no pieces fit L1.
        TypeError: The cube does not convolve this type.
    """
    if dtype_of(dtype) not in (half, bfloat16):
        raise TypeError(f"conv3d_backprop_filter_tiling of {dtype_of(dtype)}: a convolution takes half or bfloat16")
    whole = whole_convolution(_ASKED, input_shape, weight_shape, padding, stride, dilation)
    most = whole.org_co, whole.planes if whole.dilation_d == 1 else whole.ci1, whole.org_ho
    single = most if single_shape is None else tuple(map(integer, single_shape))
    if len(single) != 3 or any(not 1 <= one <= all_ for one, all_ in zip(single, most, strict=True)):
        raise ValueError(f"conv3d_backprop_filter_tiling with single_shape {single}: it is 1 to {most}")
    sizes = single[0], single[1] * whole.plane_k, single[2] * whole.org_wo
    best = min(_tilings(spec, whole, sizes), key=lambda tiling: _price(spec, tiling), default=None)
    if best is None:
        raise ValueError(
            f"conv3d_backprop_filter_tiling: a row of the output, of {whole.org_wo} columns, and the rows of the input "
            f"that it needs, of {whole.org_wi}, do not fit the {spec.space_bytes[Space.L1]} bytes of L1: cut the input "
            "into narrower parts"
        )
    return best


def _tilings(spec: Any, whole: TConv3DApiTiling, sizes: tuple[int, int, int]) -> Iterator[TConv3DBpFilterTiling]:
    """Yield the tilings that fit the memories, each with as many rows in L1 as there is room for."""
    space = spec.space_bytes
    half_a, half_b = (space[each] // 2 // _BYTES for each in (Space.L0A, Space.L0B))
    for m, n in product(_SIDES, _SIDES):
        k = min(half_a // m, half_b // n) // SIDE * SIDE
        if m > fractals(sizes[0]) * SIDE or n > sizes[1] or m * n * 4 > space[Space.L0C] or not k:
            continue
        for step in range(sizes[2] // whole.org_wo, 0, -1):
            base_k = min(k, fractals(step * whole.org_wo) * SIDE)
            buffers = 2 if 2 * m * n * 4 <= space[Space.L0C] else 1
            tiling = TConv3DBpFilterTiling(whole, *sizes, m, n, base_k, step, buffers)
            if tiling.l1_bytes <= space[Space.L1]:
                yield tiling
                break


def _price(spec: Any, tiling: TConv3DBpFilterTiling) -> tuple[float, int]:
    """Return the cycles of the slowest of Mmad, LoadData and copies, and the bytes from GM."""
    rates, whole = spec.local_copy_bytes_per_cycle, tiling.whole
    m, n = fractals(tiling.single_core_m) * SIDE, tiling.single_core_n
    down, across = -(-m // tiling.base_m), -(-n // tiling.base_n)
    rows = tiling.single_core_k // whole.org_wo
    steps = -(-rows // tiling.step_k)
    pieces = down * across * steps * -(-tiling.step_k * whole.org_wo // tiling.base_k)
    mmad = m * n * tiling.single_core_k // (SIDE * SIDE * C0) + pieces * spec.mmad_startup
    a, b = (size * tiling.single_core_k * _BYTES for size in (m * across, n * down))
    load = a / rates[Space.L1, Space.L0A] + b / rates[Space.L1, Space.L0B] + 2 * pieces * spec.load_issue
    # With two copies in L1 or less, all that a piece needs stays for the next one.
    nbytes = a if steps > 2 else a // across
    nbytes += (
        down * (1 if steps * across <= 2 else across) * tiling.planes * steps * tiling.rows * whole.org_wi * C0 * _BYTES
    )
    return max(mmad, load, nbytes / spec.l1_read_gbps * spec.mhz / 1000), nbytes


def _roles(dtype: np.dtype[Any]) -> dict[str, Role]:
    """Return what each operand is, of a convolution of *dtype*."""
    planes = Role(ConvFormat.NDC1HWC0, dtype)
    return {
        "input": planes, "weight_size": Role(ConvFormat.ND, int32), "grad_output": planes,
        "grad_weight": Role(ConvFormat.FRACTAL_Z_3D, np.dtype(np.float32)),
    }  # fmt: skip


class Conv3DBackpropFilter(Steps):
    """The gradient of a convolution by its weights, on a cube core (Ascend C: Conv3DBackpropFilter).

    Call Init, and for each plane of the output of each image SetGradOutput, SetInput, SetSingleShape and
    SetStartPosition, then Iterate and GetTensorC in turn, or IterateAll. Call End at the end.

    Args:
        input_: The type of the input: in GM, NDC1HWC0, half or bfloat16.
        weight_size: The type of the sizes of the weights, which are in the tiling: in GM, ND, int32.
        grad_output: The type of the gradient by the output: in GM, NDC1HWC0, of the type of the input.
        grad_weight: The type of the result: in GM, FRACTAL_Z_3D, float.

    Raises:
        KernelError: A position, layout or type is impossible.
    """

    _result = "grad_weight"

    def __init__(self, input_: ConvType, weight_size: ConvType, grad_output: ConvType, grad_weight: ConvType) -> None:
        types = {"input": input_, "weight_size": weight_size, "grad_output": grad_output, "grad_weight": grad_weight}
        super().__init__(types, "input", _roles)
        self._tiling: TConv3DBpFilterTiling | None = None

    def Init(self, tiling: TConv3DBpFilterTiling) -> None:
        """Set the tiling and make the buffers (Ascend C: Init); no pipe waits.

        Args:
            tiling: What `conv3d_backprop_filter_tiling` returned.

        Raises:
            KernelError: The core is not a cube core, it has no TPipe, Init was called before, or memories are full.
        """
        cube_unit()  # raises on other cores
        if self._tiling is not None:
            raise KernelError(f"Init of {self!r} a second time", "call it once")
        pipe, whole = GetTPipePtr(), tiling.whole
        self._tiling = tiling
        self._single = tiling.single_core_m, tiling.single_core_n, tiling.single_core_k
        self._row = 0
        load, free = HardEvent.MTE2_MTE1, HardEvent.MTE1_MTE2
        a1 = tiling.base_m * tiling.step_k * whole.org_wo
        b1 = tiling.planes * tiling.rows * whole.org_wi * C0
        self._a1 = slots(pipe, TPosition.A1, 2, a1, self.dtype, load, free)
        self._b1 = slots(pipe, TPosition.B1, 2, b1, self.dtype, load, free)
        taken, emptied = HardEvent.MTE1_M, HardEvent.M_MTE1
        self._a2 = slots(pipe, TPosition.A2, 2, tiling.base_m * tiling.base_k, self.dtype, taken, emptied)
        self._b2 = [buffer(pipe, TPosition.B2, tiling.base_k * tiling.base_n, self.dtype) for _ in range(2)]
        size = tiling.base_m * tiling.base_n
        self._c = slots(pipe, TPosition.CO1, tiling.db_l0c, size, float32, HardEvent.M_FIX, HardEvent.FIX_M)
        self._pieces = self._results = 0
        self._is_open = True

    @property
    def _tiled(self) -> TConv3DBpFilterTiling:
        if self._tiling is None:
            raise KernelError(f"{self!r} without a tiling", "call Init() first")
        return self._tiling

    @property
    def _all_slots(self) -> list[Slot]:
        return [*self._a1, *self._b1, *self._a2, *self._c]

    def SetGradOutput(self, grad_output: GlobalTensor) -> None:
        """Set the gradient by one plane of the output (Ascend C: SetGradOutput).

        Args:
            grad_output: Its first channel and row of this core, a multiple of 16 and the row of SetStartPosition.

        Raises:
            KernelError: It is of another type.
        """
        self._set("grad_output", grad_output)

    def SetInput(self, input_: GlobalTensor) -> None:
        """Set the input (Ascend C: SetInput).

        Args:
            input_: The first plane of 16 channels that this core needs for this plane of the output, from the first row
                on: max(ho_start_idx * stride_h - pad_up, 0).

        Raises:
            KernelError: It is of another type.
        """
        self._set("input", input_)

    def SetSingleShape(self, single_core_m: int, single_core_n: int, single_core_k: int) -> None:
        """Set how much this core computes (Ascend C: SetSingleShape), where it is less than the tiling says.

        Args:
            single_core_m: Output channels.
            single_core_n: Columns: all taps of whole planes of 16 input channels.
            single_core_k: Places over which it sums, in whole rows of the output.

        Raises:
            KernelError: One is below 1, above what the tiling has, or not whole.
        """
        tiling = self._tiled
        units = 1, tiling.whole.plane_k, tiling.whole.org_wo
        sizes = integer(single_core_m), integer(single_core_n), integer(single_core_k)
        most = tiling.single_core_m, tiling.single_core_n, tiling.single_core_k
        for name, size, limit, unit in zip("mnk", sizes, most, units, strict=True):
            if not 1 <= size <= limit or size % unit:
                raise KernelError(
                    f"SetSingleShape with single_core_{name} {size}",
                    f"it is 1 to {limit}, as the tiling has, and a multiple of {unit}",
                )
        self._single = sizes

    def SetStartPosition(self, ho_start_idx: int) -> None:
        """Set the first row of the output over which this core sums (Ascend C: SetStartPosition); 0 before.

        Raises:
            KernelError: The output has no such row.
        """
        last = self._tiled.whole.org_ho - 1
        if not 0 <= integer(ho_start_idx) <= last:
            raise KernelError(f"SetStartPosition with ho_start_idx {ho_start_idx}", f"it is 0 to {last}")
        self._row = integer(ho_start_idx)

    def GetTensorC(
        self,
        output: GlobalTensor,
        en_atomic: int = 1,
        sequential: bool = False,  # Ascend C's order
    ) -> None:
        """Store the piece that Iterate has computed (Ascend C: GetTensorC); FIX does so.

        Args:
            output: The gradient by the weights, from the first columns and output channel of this core on.
            en_atomic: 1 adds to what is there, and 0 overwrites it.
            sequential: Whether *output* is the piece itself: for each 16 columns, its output channels alone.

        Raises:
            KernelError: There is no piece, *output* is of another type or too small, or *en_atomic* is another number.
        """
        self._get(output, en_atomic, sequential=sequential)

    def IterateAll(self, output: GlobalTensor, en_atomic: int = 1) -> None:
        """Compute and store the part of this core; see Iterate and GetTensorC."""
        while self.Iterate():
            self.GetTensorC(output, en_atomic)

    def _close(self) -> None:
        for slot in self._all_slots:
            slot.flag.close()
        self._is_open = False

    # The pieces

    def _steps(self) -> Iterator[Store]:
        tiling, (m, n, k) = self._tiled, self._single
        self._check_given("Iterate", ("input", "grad_output"))
        rows = k // tiling.whole.org_wo
        if self._row + rows > tiling.whole.org_ho:
            raise KernelError(
                f"Iterate of {rows} rows from row {self._row} on", f"the output has {tiling.whole.org_ho} rows"
            )
        self._check_sizes("Iterate", self._given, self._needed())
        if not self._is_open:
            for slot in self._all_slots:
                slot.flag.open()
            self._is_open = True
        for slot in (*self._a1, *self._b1):
            slot.holds = None
        for top in range(0, m, tiling.base_m):
            for left in range(0, n, tiling.base_n):
                high, wide = fractals(min(tiling.base_m, m - top)) * SIDE, min(tiling.base_n, n - left)
                yield partial(self._stored, self._compute(top, left, high, wide, rows), (top, left), (high, wide))

    def _stored(
        self,
        slot: Slot,
        at: tuple[int, int],
        size: tuple[int, int],
        output: GlobalTensor,
        alone: bool,
    ) -> None:
        (top, left), (high, wide) = at, size
        columns, needed = fractals(self._tiled.whole.org_co) * SIDE, self._needed()
        start = left * columns + top * C0
        if alone:
            start, columns = 0, high
            needed["grad_weight"] = wide * high
        self._check_sizes("GetTensorC", {"grad_weight": output}, needed)
        Fixpipe(output[start:], slot.tensor, FixpipeParams(wide, high, 0, columns), CO2Layout.NZ)
        slot.flag.emptied()

    @property
    def _part(self) -> Part:
        whole = self._tiled.whole
        return Part(whole, 0, self._row * whole.org_wo, self._single[0], 1, self._single[2])

    def _needed(self) -> dict[str, int]:
        """Return how many elements of each operand this core needs, from its first one on."""
        whole, (m, n, k), part = self._tiled.whole, self._single, self._part
        rows, planes = part.rows(0, k), n // whole.plane_k
        last = rows.first + rows.high - part.first_row if rows.high else 0
        columns = fractals(whole.org_co) * SIDE
        return {
            "grad_output": ((fractals(m) - 1) * whole.org_ho * whole.org_wo + k) * C0,
            "input": ((planes - 1) * whole.org_hi + last) * whole.org_wi * C0 if last else 0,
            "grad_weight": ((n // C0 - 1) * columns + fractals(m) * SIDE) * C0,
        }

    def _compute(self, top: int, left: int, high: int, wide: int, rows: int) -> Slot:
        """Issue what computes a piece, over *rows* rows of the output; return its slot in L0C."""
        tiling, wo = self._tiled, self._tiled.whole.org_wo
        result = self._c[self._results % len(self._c)]
        self._results += 1
        result.flag.wait_empty()
        for row in range(0, rows, tiling.step_k):
            places = min(tiling.step_k, rows - row) * wo
            seen = self._part.rows(row * wo, places)
            gradient = self._gradient(top, high, row, places)
            pixels = self._pixels(left, wide, row, seen) if seen.high else None
            for start in range(0, places, tiling.base_k):
                depth = min(tiling.base_k, places - start)
                pair, b2 = self._a2[self._pieces % 2], self._b2[self._pieces % 2]
                self._pieces += 1
                pair.flag.wait_empty()
                # The places are the pixels of an image of one row, and its channels the rows of the product.
                transposed = LoadData3DParamsV2(1, places, high, high, depth, 0, start, en_transpose=True)
                LoadData(pair.tensor, gradient.tensor, transposed)
                if pixels is None:
                    fill_local(b2, InitConstValueParams(1, fractals(depth) * fractals(wide)))
                else:
                    LoadData(b2, pixels.tensor, self._unrolled(pixels, left, wide, start, depth))
                pair.flag.filled()
                Mmad(result.tensor, pair.tensor, b2, MmadParams(high, wide, depth, row == start == 0))
                pair.flag.emptied()
            for slot in (gradient, pixels):
                if slot is not None:
                    slot.flag.emptied()
        result.flag.filled()
        return result

    def _unrolled(self, pixels: Slot, left: int, wide: int, start: int, depth: int) -> LoadData3DParamsV2:
        """Return how the pixels of *depth* places are unrolled, for *wide* columns from *left* on."""
        whole, (plane, planes, rows) = self._tiled.whole, pixels.chunk
        return LoadData3DParamsV2(
            rows.high, whole.org_wi, planes * C0, wide, depth, left - plane * whole.plane_k, start,
            (whole.pad_left, whole.pad_right, rows.above, rows.below), whole.stride_w, whole.stride_h,
            whole.kernel_w, whole.kernel_h, whole.dilation_w, whole.dilation_h,
        )  # fmt: skip

    # L1

    def _gradient(self, top: int, high: int, row: int, places: int) -> Slot:
        """Return the slot in L1 with the gradient of *high* channels from *top* on, and *places* from *row* on."""
        slot, is_loaded = find(self._a1, (top, row))
        if not is_loaded:
            whole = self._tiled.whole
            area = whole.org_ho * whole.org_wo
            source = self._given["grad_output"][(top // SIDE * area + row * whole.org_wo) * C0 :]
            copy_planes(slot.tensor, source, high // SIDE, places, area - places)
            slot.flag.filled()
        return slot

    def _pixels(self, left: int, wide: int, row: int, rows: Rows) -> Slot:
        """Return the slot in L1 with the pixels for *wide* columns from *left* on, and for places from *row* on."""
        whole = self._tiled.whole
        plane, stop = left // whole.plane_k, -(-(left + wide) // whole.plane_k)
        slot, is_loaded = find(self._b1, (plane, stop, row))
        if not is_loaded:
            slot.chunk = plane, stop - plane, rows
            first = plane * whole.org_hi + rows.first - self._part.first_row
            source = self._given["input"][first * whole.org_wi * C0 :]
            gap = (whole.org_hi - rows.high) * whole.org_wi
            copy_planes(slot.tensor, source, stop - plane, rows.high * whole.org_wi, gap)
            slot.flag.filled()
        return slot
