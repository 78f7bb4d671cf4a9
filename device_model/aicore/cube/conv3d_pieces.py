"""How a convolution is computed, piece by piece: the product, and the way of its operands to L1 and L0.

Of each piece of the output, MTE2 brings rows of pixels and weights to L1. MTE1 unrolls the pixels to L0A (im2col) and
loads the weights to L0B, M multiplies, and FIX stores. Each memory has slots (`slots`), so that the pipes overlap.
Planes of the input that are all padding are left out of the sums; a piece that sees nothing else is multiplied with
zeros in L0A.
"""

from collections.abc import Iterator
from typing import NamedTuple

from device_model.aicore.core.names import BLOCK, HardEvent, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, dtype_of, float32
from device_model.aicore.cube.conv3d_operands import Operands
from device_model.aicore.cube.conv3d_part import Part, Rows
from device_model.aicore.cube.conv3d_tiling import C0, TConv3DApiTiling
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


class Pixels(NamedTuple):
    """What L1 has of the input: planes of 16 channels from *plane* on, for places from row *top* of the output on."""

    plane: int
    planes: int
    top: int
    rows: Rows


class Weights(NamedTuple):
    """What L1 has of the weights: planes from *plane* on, of *wide* output channels from *left* on."""

    plane: int
    planes: int
    left: int
    wide: int


def copy_planes(dst: LocalTensor, src: GlobalTensor, count: int, length: int, gap: int) -> None:
    """Copy *count* planes of *length* blocks of 32 bytes, *gap* blocks apart, one behind the other."""
    if gap <= _MOST and length <= _MOST:
        DataCopy(dst, src, DataCopyParams(count, length, gap, 0))
        return
    for number in range(count):
        DataCopy(dst[number * length * C0 :], src[number * (length + gap) * C0 :], length * C0)


class Pieces(Operands):
    """The pieces of the output of a convolution, of which a core computes its part."""

    _tiling: TConv3DApiTiling | None = None
    _part: Part
    _is_open = False

    def _init(self, tiling: TConv3DApiTiling) -> None:
        """Set the tiling and make the buffers.

        Raises:
            KernelError: The core is not a cube core, it has no TPipe, Init was called before, or memories are full.
        """
        cube_unit()  # raises on other cores
        if self._tiling is not None:
            raise KernelError(f"Init of {self!r} a second time", "call it once")
        pipe = GetTPipePtr()
        self._tiling = tiling
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

    def _begin(self) -> None:
        """Open the flags, if End() has closed them, and forget what L1 holds."""
        if not self._is_open:
            for slot in self._all_slots:
                slot.flag.open()
            self._is_open = True
        for slot in (*self._a1, *self._b1):
            slot.holds = None

    def _close(self) -> None:
        """Wait for all flags, and give back their ids."""
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

    # A piece of the output

    def _compute(self, plane: int, first: int, left: int, rows: int, wide: int) -> Slot:
        """Issue what computes a piece of plane *plane*; return its slot in L0C."""
        tiling = self._tiled
        result = self._c[self._results % len(self._c)]
        self._results += 1
        result.flag.wait_empty()
        bias = self._load_bias(left, wide)
        is_seen = bool(self._part.inside(plane)) and self._part.rows(first, rows).high > 0
        is_first = True
        for planes in self._part.sums(plane):
            k, stop = planes.start * tiling.plane_k, planes.stop * tiling.plane_k
            while k < stop:
                pixels = self._pixels(plane, first, k, planes) if is_seen else None
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
                self._multiply(result, pair, b2, bias if is_first else None, (rows, wide, depth), is_first=is_first)
                pair.flag.emptied()
                is_first, k = False, k + depth
        result.flag.filled()
        return result

    @staticmethod
    def _multiply(
        result: Slot, pair: Slot, b2: LocalTensor, bias: Slot | None, sizes: tuple[int, int, int], *, is_first: bool
    ) -> None:
        """Add a product to the result; the first one replaces what is there, or adds to the *bias*."""
        rows, wide, depth = sizes
        # With m of 1 Mmad would read a vector and not fractals.
        params = MmadParams(rows if rows > 1 else SIDE, wide, depth, is_first)
        if bias is not None:
            Mmad(result.tensor, pair.tensor, b2, bias.tensor, params)
            bias.flag.emptied()
        else:
            Mmad(result.tensor, pair.tensor, b2, params)

    # L1

    def _pixels(self, plane: int, first: int, k: int, needed: range) -> Slot:
        """Return the slot in L1 with the pixels for places from *first* on and the sums from *k* on.

        They are of planes that are *needed*, of which k is in one.
        """
        tiling = self._tiled
        part, step = first // tiling.m_al1, tiling.k_al1 // tiling.plane_k
        chunk = k // tiling.k_al1
        slot, is_loaded = find(self._a1, (plane, part, chunk, needed.start))
        if is_loaded:
            return slot
        begin = part * tiling.m_al1
        of_core = self._part
        rows = of_core.rows(begin, min(tiling.m_al1, of_core.m - begin))
        planes = range(max(chunk * step, needed.start), min((chunk + 1) * step, needed.stop))
        slot.chunk = Pixels(planes.start, len(planes), (of_core.place + begin) // tiling.org_wo, rows)
        self._fetch_pixels(slot.tensor, plane, planes, rows)
        slot.flag.filled()
        return slot

    def _fetch_pixels(self, dst: LocalTensor, plane: int, planes: range, rows: Rows) -> None:
        """Copy rows of planes of 16 channels to L1."""
        tiling, of_core = self._tiled, self._part
        length = rows.high * tiling.org_wi  # in blocks of 32 bytes
        for run in of_core.runs(planes):
            source = of_core.source(plane, run.start) * tiling.org_hi + rows.first - of_core.first_row
            copy_planes(
                dst[(run.start - planes.start) * length * C0 :],
                self._given["input"][source * tiling.org_wi * C0 :],
                len(run),
                length,
                (tiling.org_hi - rows.high) * tiling.org_wi,
            )

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
        slot.chunk = Weights(chunk * step, planes, begin, wide)
        self._fetch_weights(slot.tensor, slot.chunk)
        slot.flag.filled()
        return slot

    def _fetch_weights(self, dst: LocalTensor, part: Weights) -> None:
        """Copy weights to L1."""
        tiling = self._tiled
        columns = fractals(tiling.org_co) * SIDE
        source = self._given["weight"][(part.plane * tiling.taps * columns + part.left) * C0 :]
        copy_planes(dst, source, part.planes * tiling.taps, part.wide, columns - part.wide)

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
