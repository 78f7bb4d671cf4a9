"""The Conv3D object: a convolution over depth, height and width, computed by a cube core as a matrix product.

The input lies in GM as planes of 16 channels (NDC1HWC0), and so does the output. The weights lie as fractals of 16
output and 16 input channels, ordered by plane of the filter, plane of channels, row and column of the filter, and
output channels (FRACTAL_Z_3D).

Of each piece of the output, MTE2 brings rows of pixels and weights to L1. MTE1 unrolls the pixels to L0A (im2col) and
loads the weights to L0B, M multiplies, and FIX stores. Each memory has slots (`slots`), so that the pipes overlap.
Planes of the input that are all padding are left out of the sums; a piece that sees nothing else is multiplied with
zeros in L0A.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from operator import index as integer
from typing import NamedTuple

import numpy.typing as npt

from device_model.aicore.core.names import BLOCK, HardEvent, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, bfloat16, dtype_of, float32, half
from device_model.aicore.cube.conv3d_part import Part, Rows
from device_model.aicore.cube.conv3d_tiling import C0, TConv3DApiTiling
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams, QuantMode
from device_model.aicore.cube.im2col import LoadData3DParamsV2
from device_model.aicore.cube.loads import LoadData, LoadData2DParams, repeats_of
from device_model.aicore.cube.mmad import SIDE, Mmad, MmadParams, cube_unit, fractals
from device_model.aicore.cube.slots import Slot, buffer, find, slots
from device_model.aicore.flags.tpipe import GetTPipePtr
from device_model.aicore.moving.constants import InitConstValueParams, fill_local
from device_model.aicore.moving.copies import (
    DataCopy,
    DataCopyExtParams,
    DataCopyPad,
    DataCopyPadExtParams,
    DataCopyParams,
)
from device_model.kernel.findings import KernelError

_MOST = 65535  # of a length and a gap of DataCopy, in blocks
_TABLE_BLOCK = 64  # bytes of a block in copies to BT


class ConvFormat(Enum):
    """The layout of an operand of a convolution (Ascend C: ConvFormat)."""

    ND = 0  # a number for each output channel
    NDC1HWC0 = 1  # planes of 16 channels, of each plane of the input or output
    FRACTAL_Z_3D = 2  # fractals of 16 output and 16 input channels


@dataclass(frozen=True, slots=True)
class ConvType:
    """The position, layout and type of an operand of a Conv3D (Ascend C: ConvType)."""

    position: TPosition
    format: ConvFormat
    dtype: npt.DTypeLike


_FORMATS = {
    "input": ConvFormat.NDC1HWC0, "weight": ConvFormat.FRACTAL_Z_3D, "output": ConvFormat.NDC1HWC0,
    "bias": ConvFormat.ND,
}  # fmt: skip
_BIASES = {half: half, bfloat16: float32}  # the type of the bias, by that of the other operands


class _Pixels(NamedTuple):
    """What L1 has of the input: planes of 16 channels from *plane* on, for places from row *top* of the output on."""

    plane: int
    planes: int
    top: int
    rows: Rows


class _Weights(NamedTuple):
    """What L1 has of the weights: planes from *plane* on, of *wide* output channels from *left* on."""

    plane: int
    planes: int
    left: int
    wide: int


class Conv3D:
    """A convolution over depth, height and width, on a cube core (Ascend C: Conv3D).

    Call Init, then SetWeight, SetBias if there is one, SetInputStartPosition and SetSingleOutputShape, and for each
    image SetInput, IterateAll and End. Each core gives the addresses at which its own part begins.

    Args:
        input_: The type of the input: in GM, NDC1HWC0, half or bfloat16.
        weight: The type of the weights: in GM, FRACTAL_Z_3D, of the same type.
        output: The type of the output: in GM, NDC1HWC0, of the same type.
        bias: The type of the bias, if there is one: in GM, ND, half for half and float for bfloat16.

    Raises:
        KernelError: A position, layout or type is impossible.
    """

    def __init__(self, input_: ConvType, weight: ConvType, output: ConvType, bias: ConvType | None = None) -> None:
        self.dtype = dtype_of(input_.dtype)
        self._types = {"input": input_, "weight": weight, "output": output} | ({"bias": bias} if bias else {})
        if self.dtype not in _BIASES:
            raise KernelError(f"a Conv3D with input {input_}", "it takes half or bfloat16")
        for name, each in self._types.items():
            dtype = _BIASES[self.dtype] if name == "bias" else self.dtype
            if (each.position, each.format) != (TPosition.GM, _FORMATS[name]) or dtype_of(each.dtype) != dtype:
                raise KernelError(
                    f"a Conv3D of {self.dtype} with {name} {each}", f"it is {dtype} in GM, {_FORMATS[name].name}"
                )
        self._given: dict[str, GlobalTensor] = {}
        self._tiling: TConv3DApiTiling | None = None
        self._is_open = False
        self._has_iterated = False

    def __repr__(self) -> str:
        return f"<Conv3D of {self.dtype}>"

    def Init(self, tiling: TConv3DApiTiling) -> None:
        """Set the tiling and make the buffers (Ascend C: Init); no pipe waits.

        Args:
            tiling: What `conv3d_tiling` returned.

        Raises:
            KernelError: The core is not a cube core, it has no TPipe, Init was called before, or memories are full.
        """
        cube_unit()  # raises on other cores
        if self._tiling is not None:
            raise KernelError(f"Init of {self!r} a second time", "call it once")
        pipe = GetTPipePtr()
        self._tiling = tiling
        self._part = Part(tiling, 0, 0, tiling.single_core_co, tiling.single_core_do, tiling.single_core_m)
        load, free = HardEvent.MTE2_MTE1, HardEvent.MTE1_MTE2
        taken, emptied = HardEvent.MTE1_M, HardEvent.M_MTE1
        a1 = tiling.pixels(tiling.m_al1) * tiling.k_al1 // tiling.plane_k
        self._a1 = slots(pipe, TPosition.A1, tiling.db_al1, a1, self.dtype, load, free)
        self._b1 = slots(pipe, TPosition.B1, tiling.db_bl1, tiling.k_bl1 * tiling.n_bl1, self.dtype, load, free)
        self._a2 = slots(pipe, TPosition.A2, 2, tiling.m_l0 * tiling.k_l0, self.dtype, taken, emptied)
        self._b2 = [buffer(pipe, TPosition.B2, tiling.k_l0 * tiling.n_l0, self.dtype) for _ in range(2)]
        size = tiling.m_l0 * tiling.n_l0
        self._c = slots(pipe, TPosition.CO1, tiling.db_l0c, size, float32, HardEvent.M_FIX, HardEvent.FIX_M)
        self._bias: tuple[Slot, Slot] | None = None
        if "bias" in self._types:
            dtype = dtype_of(self._types["bias"].dtype)
            wide = -(-tiling.n_l0 * dtype.itemsize // _TABLE_BLOCK) * _TABLE_BLOCK // dtype.itemsize
            (staged,) = slots(pipe, TPosition.C1, 1, wide, dtype, load, free)
            (table,) = slots(pipe, TPosition.C2, 1, -(-tiling.n_l0 // 32) * 32, float32, taken, emptied)
            self._bias = staged, table
        self._pieces = self._results = 0
        self._is_open = True

    @property
    def _tiled(self) -> TConv3DApiTiling:
        if self._tiling is None:
            raise KernelError(f"{self!r} without a tiling", "call Init() first")
        return self._tiling

    @property
    def _all_slots(self) -> list[Slot]:
        return [*self._a1, *self._b1, *self._a2, *self._c, *(self._bias or ())]

    def SetInput(self, input_: GlobalTensor) -> None:
        """Set the input (Ascend C: SetInput): its first plane and row that this core needs, of one image."""
        self._set("input", input_)

    def SetWeight(self, weight: GlobalTensor) -> None:
        """Set the weights (Ascend C: SetWeight), from the first output channel of this core on."""
        self._set("weight", weight)

    def SetBias(self, bias: GlobalTensor) -> None:
        """Set the bias (Ascend C: SetBias), from the first output channel of this core on."""
        self._set("bias", bias)

    def _set(self, name: str, tensor: GlobalTensor) -> None:
        self._check(f"Set{name.title()}", name, tensor)
        self._given[name] = tensor

    def _check(self, call: str, name: str, tensor: GlobalTensor) -> None:
        type_ = self._types.get(name)
        if type_ is None:
            raise KernelError(f"{call} of {self!r}", "it was made without a bias: give the type of the bias")
        if not isinstance(tensor, GlobalTensor) or tensor.dtype != dtype_of(type_.dtype):
            raise KernelError(f"{call} with {tensor!r}", f"{name} is a GlobalTensor of {dtype_of(type_.dtype)}")

    def SetInputStartPosition(self, di_start_pos: int, m_start_pos: int) -> None:
        """Set where the part of this core begins (Ascend C: SetInputStartPosition); 0 and 0 before.

        Args:
            di_start_pos: The first plane that it needs, counted from the first plane of padding on: its first plane of
                the output times stride_d.
            m_start_pos: Its first place in each plane of the output.

        Raises:
            KernelError: The output has no such plane or place.
        """
        tiling = self._tiled
        at = integer(di_start_pos), integer(m_start_pos)
        most = (tiling.org_do - 1) * tiling.stride_d, tiling.org_ho * tiling.org_wo - 1
        for name, start, last in zip(("di_start_pos", "m_start_pos"), at, most, strict=True):
            if not 0 <= start <= last:
                raise KernelError(f"SetInputStartPosition with {name} {start}", f"it is 0 to {last}")
        if at[0] % tiling.stride_d:
            raise KernelError(
                f"SetInputStartPosition with di_start_pos {at[0]}", f"it is a multiple of stride_d, {tiling.stride_d}"
            )
        self._part = self._part._replace(depth=at[0], place=at[1])

    def SetSingleOutputShape(self, single_co: int, single_do: int, single_m: int) -> None:
        """Set how much this core computes (Ascend C: SetSingleOutputShape), where it is less than the tiling says.

        Args:
            single_co: Output channels.
            single_do: Planes of the output.
            single_m: Places of each plane.

        Raises:
            KernelError: One is below 1 or above what the tiling has.
        """
        tiling = self._tiled
        sizes = integer(single_co), integer(single_do), integer(single_m)
        most = tiling.single_core_co, tiling.single_core_do, tiling.single_core_m
        for name, size, limit in zip(("single_co", "single_do", "single_m"), sizes, most, strict=True):
            if not 1 <= size <= limit:
                raise KernelError(f"SetSingleOutputShape with {name} {size}", f"it is 1 to {limit}, as the tiling has")
        self._part = self._part._replace(co=sizes[0], do=sizes[1], m=sizes[2])

    def IterateAll(self, output: GlobalTensor) -> None:
        """Compute the part of this core for one image (Ascend C: IterateAll).

        No pipe waits: FIX stores the output. Order it before other pipes and cores that read it.

        Args:
            output: The output, from the first element of this core on.

        Raises:
            KernelError: An operand is not set, or too small, or the part reaches beyond the output.
        """
        tiling = self._tiled
        self._check("IterateAll", "output", output)
        missing = [name for name in self._types if name != "output" and name not in self._given]
        if missing:
            raise KernelError(f"IterateAll of {self!r} without {missing[0]}", f"call Set{missing[0].title()}() first")
        self._check_sizes(output)
        if not self._is_open:
            for slot in self._all_slots:
                slot.flag.open()
            self._is_open = True
        self._has_iterated = True
        for slot in (*self._a1, *self._b1):
            slot.holds = None
        part = self._part
        for plane in range(part.do):
            for first, left in self._order(part.m, part.co):
                rows, wide = min(tiling.m_l0, part.m - first), min(tiling.n_l0, part.co - left)
                result = self._compute(plane, first, left, rows, wide)
                at = (plane * fractals(tiling.org_co) + left // SIDE) * tiling.org_ho * tiling.org_wo + first
                mode = QuantMode.F322F16 if self.dtype == half else QuantMode.F322BF16
                params = FixpipeParams(wide, rows, 0, tiling.org_ho * tiling.org_wo, mode)
                Fixpipe(output[at * SIDE :], result.tensor, params, CO2Layout.NZ)
                result.flag.emptied()

    def End(self) -> None:
        """Wait for all flags, and give back their ids (Ascend C: End), after each IterateAll.

        Raises:
            KernelError: IterateAll was not called before.
        """
        if not self._has_iterated:
            raise KernelError(f"End of {self!r} without IterateAll()", "call it after IterateAll()")
        self._has_iterated = False
        for slot in self._all_slots:
            slot.flag.close()
        self._is_open = False

    def _order(self, m: int, co: int) -> Iterator[tuple[int, int]]:
        """Yield the first place and the first channel of each piece."""
        tiling = self._tiled
        if tiling.iterate_mn_order:
            yield from ((first, left) for first in range(0, m, tiling.m_l0) for left in range(0, co, tiling.n_l0))
        else:
            yield from ((first, left) for left in range(0, co, tiling.n_l0) for first in range(0, m, tiling.m_l0))

    def _check_sizes(self, output: GlobalTensor) -> None:
        """Raise KernelError if the part reaches beyond the output, or an operand is too small for it."""
        tiling, part = self._tiled, self._part
        area = tiling.org_ho * tiling.org_wo
        if part.depth // tiling.stride_d + part.do > tiling.org_do or part.place + part.m > area:
            raise KernelError(
                f"IterateAll of {part.do} planes and {part.m} places from di_start_pos {part.depth} and m_start_pos "
                f"{part.place} on",
                f"the output has {tiling.org_do} planes of {area} places",
            )
        needed = part.elements()
        for name, tensor in (self._given | {"output": output}).items():
            if tensor.size < needed[name]:
                raise KernelError(
                    f"IterateAll with {name} {tensor!r}", f"this core needs {needed[name]} elements from its first on"
                )

    # A piece of the output

    def _compute(self, plane: int, first: int, left: int, rows: int, wide: int) -> Slot:
        """Issue what computes a piece of plane *plane*; return its slot in L0C."""
        tiling = self._tiled
        result = self._c[self._results % len(self._c)]
        self._results += 1
        result.flag.wait_empty()
        bias = self._load_bias(left, wide)
        needed = self._part.planes(plane)
        is_seen = bool(self._part.inside(plane)) and self._part.rows(first, rows).high > 0
        k, stop = needed.start * tiling.plane_k, needed.stop * tiling.plane_k
        begin = k
        while k < stop:
            pixels = self._pixels(plane, first, k) if is_seen else None
            weights = self._weights(left, k)
            taken = [slot for slot in (pixels, weights) if slot is not None]
            ends = [(slot.chunk.plane + slot.chunk.planes) * tiling.plane_k for slot in taken]
            depth = min(tiling.k_l0, stop - k, *(end - k for end in ends))
            pair, b2 = self._a2[self._pieces % 2], self._b2[self._pieces % 2]
            self._pieces += 1
            pair.flag.wait_empty()
            if pixels is None:
                fill_local(pair.tensor, InitConstValueParams(1, fractals(rows) * depth // C0))
            else:
                self._load_pixels(pair.tensor, pixels, first, rows, k, depth)
            self._load_weights(b2, weights, left, wide, k, depth)
            for slot, end in zip(taken, ends, strict=True):
                if k + depth in (stop, end):
                    slot.flag.emptied()
            pair.flag.filled()
            # With m of 1 Mmad would read a vector and not fractals.
            params = MmadParams(rows if rows > 1 else SIDE, wide, depth, k == begin)
            if k == begin and bias is not None:
                Mmad(result.tensor, pair.tensor, b2, bias.tensor, params)
                bias.flag.emptied()
            else:
                Mmad(result.tensor, pair.tensor, b2, params)
            pair.flag.emptied()
            k += depth
        result.flag.filled()
        return result

    # L1

    def _pixels(self, plane: int, first: int, k: int) -> Slot:
        """Return the slot in L1 with the pixels for places from *first* on and the sums from *k* on."""
        tiling = self._tiled
        part, step = first // tiling.m_al1, tiling.k_al1 // tiling.plane_k
        chunk = k // tiling.k_al1
        slot, is_loaded = find(self._a1, (plane, part, chunk))
        if is_loaded:
            return slot
        begin = part * tiling.m_al1
        of_core = self._part
        rows = of_core.rows(begin, min(tiling.m_al1, of_core.m - begin))
        needed = of_core.planes(plane)
        planes = range(max(chunk * step, needed.start), min((chunk + 1) * step, needed.stop))
        slot.chunk = _Pixels(planes.start, len(planes), (of_core.place + begin) // tiling.org_wo, rows)
        length = rows.high * tiling.org_wi  # in blocks of 32 bytes
        for run in of_core.runs(planes):
            source = of_core.source(plane, run.start) * tiling.org_hi + rows.first - of_core.first_row
            self._copy(
                slot.tensor[(run.start - planes.start) * length * C0 :],
                self._given["input"][source * tiling.org_wi * C0 :],
                len(run),
                length,
                (tiling.org_hi - rows.high) * tiling.org_wi,
            )
        slot.flag.filled()
        return slot

    @staticmethod
    def _copy(dst: LocalTensor, src: GlobalTensor, count: int, length: int, gap: int) -> None:
        """Copy *count* rows of *length* blocks of 32 bytes, *gap* blocks apart, one after the other."""
        if gap <= _MOST and length <= _MOST:
            DataCopy(dst, src, DataCopyParams(count, length, gap, 0))
            return
        for number in range(count):
            DataCopy(dst[number * length * C0 :], src[number * (length + gap) * C0 :], length * C0)

    def _weights(self, left: int, k: int) -> Slot:
        """Return the slot in L1 with the weights of the channels from *left* on and the sums from *k* on."""
        tiling = self._tiled
        part, chunk = left // tiling.n_bl1, k // tiling.k_bl1
        slot, is_loaded = find(self._b1, (part, chunk))
        if is_loaded:
            return slot
        begin = part * tiling.n_bl1
        wide = fractals(min(tiling.n_bl1, self._part.co - begin)) * SIDE
        step = tiling.k_bl1 // tiling.plane_k
        planes = min(step, tiling.planes - chunk * step)
        slot.chunk = _Weights(chunk * step, planes, begin, wide)
        columns = fractals(tiling.org_co) * SIDE
        source = self._given["weight"][(chunk * step * tiling.taps * columns + begin) * C0 :]
        self._copy(slot.tensor, source, planes * tiling.taps, wide, columns - wide)
        slot.flag.filled()
        return slot

    def _load_bias(self, left: int, wide: int) -> Slot | None:
        """Return the slot in BT with the bias of a piece's channels."""
        if self._bias is None:
            return None
        staged, table = self._bias
        bias = self._given["bias"]
        staged.flag.wait_empty()
        # BT is filled in blocks of 64 bytes, GM is copied in blocks of 32.
        nbytes = wide * bias.dtype.itemsize
        blocks = -(-nbytes // _TABLE_BLOCK)
        is_odd = -(-nbytes // BLOCK) % 2 == 1
        pads = DataCopyPadExtParams(is_odd, 0, BLOCK // bias.dtype.itemsize if is_odd else 0, 0)
        DataCopyPad(staged.tensor, bias[left:], DataCopyExtParams(1, nbytes), pads)
        staged.flag.filled()
        table.flag.wait_empty()
        DataCopy(table.tensor, staged.tensor, DataCopyParams(1, blocks))
        staged.flag.emptied()
        table.flag.filled()
        return table

    # L0

    def _load_pixels(self, a2: LocalTensor, slot: Slot, first: int, rows: int, k: int, depth: int) -> None:
        """Unroll the pixels of *rows* places from *first* on, and of the sums from *k* on."""
        tiling, chunk = self._tiled, slot.chunk
        start = self._part.place + first - chunk.top * tiling.org_wo
        places = chunk.rows.above + chunk.rows.high + chunk.rows.below - (tiling.kernel_h - 1) * tiling.dilation_h - 1
        size = (places // tiling.stride_h + 1) * tiling.org_wo
        extent = min(fractals(rows) * SIDE, size - start)
        params = LoadData3DParamsV2(
            chunk.rows.high, tiling.org_wi, chunk.planes * C0, depth, extent, k - chunk.plane * tiling.plane_k, start,
            (tiling.pad_left, tiling.pad_right, chunk.rows.above, chunk.rows.below), tiling.stride_w, tiling.stride_h,
            tiling.kernel_w, tiling.kernel_h, tiling.dilation_w, tiling.dilation_h,
        )  # fmt: skip
        LoadData(a2, slot.tensor, params)

    def _load_weights(self, b2: LocalTensor, slot: Slot, left: int, wide: int, k: int, depth: int) -> None:
        """Load the weights of *wide* channels from *left* on, and of the sums from *k* on."""
        tiling, chunk = self._tiled, slot.chunk
        across, columns = fractals(chunk.wide), fractals(wide)
        begin = (k - chunk.plane * tiling.plane_k) // C0 * across + (left - chunk.left) // SIDE
        rows = depth // C0
        if across == columns:
            for start, count in repeats_of(rows * columns):
                LoadData(b2[start * SIDE * C0 :], slot.tensor, LoadData2DParams(begin + start, count))
            return
        for row in range(rows):
            LoadData(b2[row * columns * SIDE * C0 :], slot.tensor, LoadData2DParams(begin + row * across, columns))
