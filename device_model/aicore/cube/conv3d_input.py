"""The gradient of a convolution by its input: Conv3DBackpropInput and its tiling.

It is a convolution, too. Its input is the gradient of the output, spread out with zeros by the strides; its filter is
the filter turned around, with input and output channels exchanged; and it has a stride of 1. So `conv3d_pieces`
computes it. MTE2 fills L1 with zeros and copies pixels between them, and MTE1 transposes the fractals of the filter.
Planes between which the strides put zeros are left out of the sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import index as integer
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.names import PIPE_MTE2
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half, int32
from device_model.aicore.cube.conv3d_operands import ConvFormat, ConvType, Role
from device_model.aicore.cube.conv3d_part import Part, Rows
from device_model.aicore.cube.conv3d_pieces import Pieces, Weights, copy_planes
from device_model.aicore.cube.conv3d_steps import Steps, Store
from device_model.aicore.cube.conv3d_tiling import C0, Asked, TConv3DApiTiling, fastest, whole_convolution
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams, QuantMode
from device_model.aicore.cube.loads import LoadData, LoadData2DParams
from device_model.aicore.cube.mmad import SIDE, fractals
from device_model.aicore.cube.slots import Slot
from device_model.aicore.flags.sync import PipeBarrier
from device_model.aicore.moving.constants import InitConstValueParams, fill_local
from device_model.aicore.moving.copies import DataCopy, DataCopyParams
from device_model.kernel.findings import KernelError

_ASKED = Asked("conv3d_backprop_input_tiling", "single_input_shape")
_FRACTAL = SIDE * C0  # elements


@dataclass(frozen=True, slots=True)
class TConv3DBackpropInputTiling:
    """The tiling of the gradient of a convolution by its input, on one core. All sizes are in elements.

    Attributes:
        cin: Channels of the input.
        cout: Channels of the output.
        dout: Planes of the output.
        ho: Rows of a plane of the output.
        wo: Columns of a plane of the output.
        di: Planes of the input.
        hi: Rows of a plane of the input.
        wi: Columns of a plane of the input.
        dk: Planes of the filter.
        hk: Rows of the filter.
        wk: Columns of the filter.
        stride_d: Planes from one place of the filter to the next.
        stride_h: Rows from one place of the filter to the next.
        stride_w: Columns from one place of the filter to the next.
        single_core_cin: Channels of the input that one core computes.
        single_core_din: Planes of the input that one core computes.
        single_core_m: Places of each of these planes that one core computes, in whole rows.
        spread: The convolution of the spread gradient, as it is computed, with the sizes of its pieces.
    """

    cin: int
    cout: int
    dout: int
    ho: int
    wo: int
    di: int
    hi: int
    wi: int
    dk: int
    hk: int
    wk: int
    stride_d: int
    stride_h: int
    stride_w: int
    single_core_cin: int
    single_core_din: int
    single_core_m: int
    spread: TConv3DApiTiling

    @property
    def cin1(self) -> int:
        """Planes of 16 channels of the input."""
        return fractals(self.cin)

    @property
    def cout1(self) -> int:
        """Planes of 16 channels of the output."""
        return fractals(self.cout)

    @property
    def backprop_pad_up(self) -> int:
        """Rows of zeros above the spread gradient."""
        return self.spread.pad_up

    @property
    def k(self) -> int:
        """The length of the sums."""
        return self.spread.planes * self.spread.plane_k


def conv3d_backprop_input_tiling(
    spec: Any,
    input_shape: Sequence[int],
    weight_shape: Sequence[int],
    dtype: npt.DTypeLike,
    *,
    padding: Sequence[int] = (0, 0, 0, 0, 0, 0),
    stride: Sequence[int] = (1, 1, 1),
    dilation: Sequence[int] = (1, 1, 1),
    single_input_shape: Sequence[int] | None = None,
) -> TConv3DBackpropInputTiling:
    """Return the fastest tiling of the gradient of a convolution by its input (Ascend C: Conv3DBpInputTiling).

    Args:
        spec: The cores of the card: `profile.aicore`.
        input_shape: Input channels, planes, rows, columns.
        weight_shape: Output channels, and planes, rows and columns of the filter.
        dtype: The type of the filter and of both gradients: half or bfloat16.
        padding: Zeros around the input: before and behind it, above and below, left and right. It is no more than the
            filter reaches beyond its first element.
        stride: From one place of the filter to the next: planes, rows, columns.
        dilation: From one element of the filter to the next: planes, rows, columns.
        single_input_shape: What one core computes: input channels, planes, and places of a plane, in whole rows; by
            default all.

    Raises:
        ValueError: A size is out of range, or the padding too large, or no pieces fit L1.
        TypeError: The cube does not convolve this type.
    """
    all_ = whole_convolution(_ASKED, input_shape, weight_shape, padding, stride, dilation)
    sizes, outs = (all_.org_di, all_.org_hi, all_.org_wi), (all_.org_do, all_.org_ho, all_.org_wo)
    kernel, strides = (all_.kernel_d, all_.kernel_h, all_.kernel_w), (all_.stride_d, all_.stride_h, all_.stride_w)
    spans = [(kernel[axis] - 1) * dilation[axis] for axis in range(3)]
    pads: list[int] = []
    for axis, span in enumerate(spans):
        before, behind = padding[2 * axis : 2 * axis + 2]
        if max(before, behind) > span:
            raise ValueError(
                f"conv3d_backprop_input_tiling with padding {tuple(padding)}: of {('planes', 'rows', 'columns')[axis]} "
                f"it is at most {span}, as far as the filter reaches beyond its first element"
            )
        pads += [span - before, sizes[axis] - (outs[axis] - 1) * strides[axis] - 1 + before]
    spread = whole_convolution(
        _ASKED,
        (all_.org_co, *((out - 1) * step + 1 for out, step in zip(outs, strides, strict=True))),
        (all_.org_ci, *kernel),
        pads,
        (1, 1, 1),
        dilation,
        single_input_shape,
    )
    spread = fastest(_ASKED, spec, spread, dtype)
    if spread.single_core_m % all_.org_wi:
        raise ValueError(
            f"conv3d_backprop_input_tiling with single_input_shape {single_input_shape}: a core computes whole rows, "
            f"of {all_.org_wi} places"
        )
    return TConv3DBackpropInputTiling(
        all_.org_ci, all_.org_co, *outs, *sizes, *kernel, *strides, spread.single_core_co, spread.single_core_do,
        spread.single_core_m, spread,
    )  # fmt: skip


def _roles(dtype: np.dtype[Any]) -> dict[str, Role]:
    """Return what each operand is, of a convolution of *dtype*."""
    planes = Role(ConvFormat.NDC1HWC0, dtype)
    return {
        "weight": Role(ConvFormat.FRACTAL_Z_3D, dtype), "input_size": Role(ConvFormat.ND, int32),
        "grad_output": planes, "grad_input": planes,
    }  # fmt: skip


class Conv3DBackpropInput(Pieces, Steps):
    """The gradient of a convolution by its input, on a cube core (Ascend C: Conv3DBackpropInput).

    Call Init, SetSingleShape, SetStartPosition, and for each image SetGradOutput and SetWeight, then Iterate and
    GetTensorC in turn, or IterateAll. Call End at the end.

    Args:
        weight: The type of the weights: in GM, FRACTAL_Z_3D, half or bfloat16.
        input_size: The type of the sizes of the input, which are in the tiling: in GM, ND, int32.
        grad_output: The type of the gradient by the output: in GM, NDC1HWC0, of the type of the weights.
        grad_input: The type of the result: in GM, NDC1HWC0, of the same type.

    Raises:
        KernelError: A position, layout or type is impossible.
    """

    _result = "grad_input"

    def __init__(self, weight: ConvType, input_size: ConvType, grad_output: ConvType, grad_input: ConvType) -> None:
        types = {"weight": weight, "input_size": input_size, "grad_output": grad_output, "grad_input": grad_input}
        super().__init__(types, "weight", _roles)
        self._sizes: TConv3DBackpropInputTiling | None = None

    def Init(self, tiling: TConv3DBackpropInputTiling) -> None:
        """Set the tiling and make the buffers (Ascend C: Init); no pipe waits.

        Args:
            tiling: What `conv3d_backprop_input_tiling` returned.

        Raises:
            KernelError: The core is not a cube core, it has no TPipe, Init was called before, or memories are full.
        """
        self._init(tiling.spread)
        self._sizes = tiling
        self._part = Part(
            tiling.spread, 0, 0, tiling.single_core_cin, tiling.single_core_din, tiling.single_core_m,
            (tiling.stride_d, tiling.stride_h, tiling.stride_w),
        )  # fmt: skip

    @property
    def _of(self) -> TConv3DBackpropInputTiling:
        if self._sizes is None:
            raise KernelError(f"{self!r} without a tiling", "call Init() first")
        return self._sizes

    def SetGradOutput(self, grad_output: GlobalTensor) -> None:
        """Set the gradient by the output (Ascend C: SetGradOutput), of one image.

        Args:
            grad_output: Its first plane, from the first row on that this core needs: row
                ceil(max(cur_ho_start_idx, 0) / stride_h).

        Raises:
            KernelError: It is of another type.
        """
        self._set("grad_output", grad_output)

    def SetWeight(self, weight: GlobalTensor) -> None:
        """Set the weights (Ascend C: SetWeight), from the first input channel of this core on, a multiple of 16."""
        self._set("weight", weight)

    def SetSingleShape(
        self, single_shape_m: int, single_shape_k: int, single_shape_n: int, single_shape_din: int | None = None
    ) -> None:
        """Set how much this core computes (Ascend C: SetSingleShape), where it is less than the tiling says.

        Args:
            single_shape_m: Places of each plane, in whole rows.
            single_shape_k: The length of the sums, which are not divided: `tiling.k`.
            single_shape_n: Input channels.
            single_shape_din: Planes; by default those of the tiling.

        Raises:
            KernelError: One is below 1 or above what the tiling has, or another length of the sums.
        """
        tiling = self._of
        din = tiling.single_core_din if single_shape_din is None else single_shape_din
        for name, size, limit in (
            ("single_shape_m", single_shape_m, tiling.single_core_m),
            ("single_shape_n", single_shape_n, tiling.single_core_cin),
            ("single_shape_din", din, tiling.single_core_din),
        ):
            if not 1 <= integer(size) <= limit:
                raise KernelError(f"SetSingleShape with {name} {size}", f"it is 1 to {limit}, as the tiling has")
        if single_shape_m % tiling.wi:
            raise KernelError(
                f"SetSingleShape with single_shape_m {single_shape_m}", f"it is whole rows of {tiling.wi} places"
            )
        if single_shape_k != tiling.k:
            raise KernelError(f"SetSingleShape with single_shape_k {single_shape_k}", f"sums are whole: {tiling.k}")
        self._part = self._part._replace(co=single_shape_n, do=din, m=single_shape_m)

    def SetStartPosition(self, cur_din_start_idx: int, cur_ho_start_idx: int) -> None:
        """Set where the part of this core begins (Ascend C: SetStartPosition); the first plane and row before.

        Args:
            cur_din_start_idx: Its first plane of the input.
            cur_ho_start_idx: Its first row of the input, minus the `backprop_pad_up` of the tiling.

        Raises:
            KernelError: The input has no such plane or row.
        """
        tiling = self._of
        din, row = integer(cur_din_start_idx), integer(cur_ho_start_idx) + tiling.backprop_pad_up
        if not 0 <= din < tiling.di:
            raise KernelError(f"SetStartPosition with cur_din_start_idx {din}", f"it is 0 to {tiling.di - 1}")
        if not 0 <= row < tiling.hi:
            least = -tiling.backprop_pad_up
            what = f"SetStartPosition with cur_ho_start_idx {cur_ho_start_idx}"
            raise KernelError(what, f"it is {least} to {least + tiling.hi - 1}")
        self._part = self._part._replace(depth=din, place=row * tiling.wi)

    def GetTensorC(
        self,
        output: GlobalTensor,
        en_atomic: int = 0,
        sequential: bool = False,  # Ascend C's order
    ) -> None:
        """Store the piece that Iterate has computed (Ascend C: GetTensorC); FIX does so.

        Args:
            output: The gradient by the input: of one image its first plane, from the first channel and row of this core
                on.
            en_atomic: 0 overwrites, and 1 adds.
            sequential: Whether *output* is the piece itself: planes of 16 channels, of its places alone.

        Raises:
            KernelError: There is no piece, *output* is of another type or too small, or *en_atomic* is another number.
        """
        self._get(output, en_atomic, sequential=sequential)

    def IterateAll(self, output: GlobalTensor, en_atomic: int = 0) -> None:
        """Compute and store the part of this core; see Iterate and GetTensorC."""
        while self.Iterate():
            self.GetTensorC(output, en_atomic)

    # The pieces

    def _steps(self) -> Iterator[Store]:
        tiling, part = self._of, self._part
        self._check_given("Iterate", ("grad_output", "weight"))
        if part.depth + part.do > tiling.di or part.place + part.m > tiling.hi * tiling.wi:
            raise KernelError(
                f"Iterate of {part.do} planes and {part.m} places from plane {part.depth} and place {part.place} on",
                f"the input has {tiling.di} planes of {tiling.hi * tiling.wi} places",
            )
        self._check_sizes("Iterate", self._given, self._needed())
        self._begin()
        pieces = tiling.spread
        for plane in range(part.do):
            for first, left in self._order(part.m, part.co):
                rows, wide = min(pieces.m_l0, part.m - first), min(pieces.n_l0, part.co - left)
                slot = self._compute(plane, first, left, rows, wide)
                yield partial(self._stored, slot, (plane, first, left), (rows, wide))

    def _stored(
        self,
        slot: Slot,
        at: tuple[int, int, int],
        size: tuple[int, int],
        output: GlobalTensor,
        alone: bool,
    ) -> None:
        tiling, part, (plane, first, left), (rows, wide) = self._of, self._part, at, size
        area = tiling.hi * tiling.wi
        start = ((part.depth + plane) * tiling.cin1 + left // SIDE) * area + first
        needed = self._needed()
        if alone:
            start, area = 0, rows
            needed["grad_input"] = fractals(wide) * rows * C0
        self._check_sizes("GetTensorC", {"grad_input": output}, needed)
        mode = QuantMode.F322F16 if self.dtype == half else QuantMode.F322BF16
        Fixpipe(output[start * C0 :], slot.tensor, FixpipeParams(wide, rows, 0, area, mode), CO2Layout.NZ)
        slot.flag.emptied()

    def _first_row(self) -> int:
        """Return the row with which the gradient by the output begins, as the kernel gives it."""
        return -(-self._part.first_row // self._of.stride_h)

    def _needed(self) -> dict[str, int]:
        """Return how many elements of each operand this core needs, from its first one on."""
        tiling, part = self._of, self._part
        rows = part.rows(0, part.m)
        last = (rows.first + rows.high - 1) // tiling.stride_h - self._first_row()
        spread = tiling.spread
        depths = [
            part.depth + plane - spread.pad_head + kd * spread.dilation_d
            for plane in range(part.do)
            for kd in part.inside(plane)
        ]
        seen = bool(depths) and rows.high > 0 and last >= 0
        planes = (max(depths) // tiling.stride_d + 1) * tiling.cout1 - 1 if seen else 0
        weights = (tiling.dk - 1) * tiling.cin1 + fractals(part.co)
        of_output = ((part.depth + part.do - 1) * tiling.cin1 + fractals(part.co) - 1) * tiling.hi * tiling.wi + part.m
        return {
            "grad_output": (planes * tiling.ho + last + 1) * tiling.wo * C0 if seen else 0,
            "weight": weights * spread.taps * tiling.cout1 * _FRACTAL,
            "grad_input": of_output * C0,
        }

    # L1

    def _fetch_pixels(self, dst: LocalTensor, plane: int, planes: range, rows: Rows) -> None:
        """Copy rows of planes of 16 channels to L1, spread out with zeros."""
        tiling, part, spread = self._of, self._part, self._of.spread
        step_h, step_w = tiling.stride_h, tiling.stride_w
        size = rows.high * spread.org_wi  # of a plane, in blocks
        if (step_h, step_w) != (1, 1):
            fill_local(dst, InitConstValueParams(1, size * len(planes)))
            PipeBarrier(PIPE_MTE2)
        first = -(-rows.first // step_h)
        count = (rows.first + rows.high - 1) // step_h - first + 1
        if count <= 0:  # all rows are zeros
            return
        below = (first * step_h - rows.first) * spread.org_wi
        for run in self._runs(planes):
            kd, channels = divmod(run.start, tiling.cout1)
            depth = (part.depth + plane - spread.pad_head + kd * spread.dilation_d) // tiling.stride_d
            at = ((depth * tiling.cout1 + channels) * tiling.ho + first - self._first_row()) * tiling.wo
            for number in range(len(run)):
                to = dst[((run.start - planes.start + number) * size + below) * C0 :]
                self._spread(to, self._given["grad_output"][(at + number * tiling.ho * tiling.wo) * C0 :], count)

    def _spread(self, dst: LocalTensor, src: GlobalTensor, count: int) -> None:
        """Copy *count* rows of a plane of 16 channels, as far apart as the strides say."""
        tiling, wide = self._of, self._of.spread.org_wi
        if tiling.stride_w == 1:
            DataCopy(dst, src, DataCopyParams(count, tiling.wo, 0, (tiling.stride_h - 1) * wide))
            return
        for row in range(count):
            params = DataCopyParams(tiling.wo, 1, 0, tiling.stride_w - 1)
            DataCopy(dst[row * tiling.stride_h * wide * C0 :], src[row * tiling.wo * C0 :], params)

    def _fetch_weights(self, dst: LocalTensor, part: Weights) -> None:
        """Copy weights to L1: of each plane of the filter, for each 16 input channels, all taps of the planes."""
        tiling, taps = self._of, self._of.spread.taps
        given, columns = self._given["weight"], part.wide // SIDE
        for run in self._runs(range(part.plane, part.plane + part.planes)):
            kd, channels = divmod(run.start, tiling.cout1)
            at = ((tiling.dk - 1 - kd) * tiling.cin1 + part.left // SIDE) * taps * tiling.cout1
            start = (run.start - part.plane) * taps * columns
            if len(run) == tiling.cout1:
                copy_planes(dst[start * _FRACTAL :], given[at * _FRACTAL :], 1, columns * taps * len(run) * SIDE, 0)
                continue
            for column in range(columns):
                source = given[(at + column * taps * tiling.cout1 + channels) * _FRACTAL :]
                to = dst[(start + column * taps * len(run)) * _FRACTAL :]
                copy_planes(to, source, taps, len(run) * SIDE, (tiling.cout1 - len(run)) * SIDE)

    def _runs(self, planes: range) -> Iterator[range]:
        """Yield those of *planes* that belong to each plane of the filter."""
        cout1, start = self._of.cout1, planes.start
        while start < planes.stop:
            end = min((start // cout1 + 1) * cout1, planes.stop)
            yield range(start, end)
            start = end

    # L0

    def _load_weights(self, b2: LocalTensor, slot: Slot, left: int, wide: int, k: int, depth: int) -> None:
        """Load the weights of *wide* input channels from *left* on, each fractal transposed, and the last tap first."""
        chunk, taps, columns = slot.chunk, self._of.spread.taps, fractals(wide)
        runs = {number: run for run in self._runs(range(chunk.plane, chunk.plane + chunk.planes)) for number in run}
        for row in range(depth // C0):
            number, tap = divmod(k // C0 + row, taps)
            run = runs[number]
            start = (run.start - chunk.plane) * taps * (chunk.wide // SIDE)
            column = (left - chunk.left) // SIDE * taps + taps - 1 - tap
            params = LoadData2DParams(start + column * len(run) + number - run.start, columns, taps * len(run), 0, True)
            LoadData(b2[row * columns * _FRACTAL :], slot.tensor, params)
