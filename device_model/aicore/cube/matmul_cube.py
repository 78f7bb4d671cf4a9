"""The cube core's side of a Matmul object: it computes C piece by piece, and orders its pipes with raw flags.

A piece of C is the sum of products of pieces of A and B along k. Data passes from GM through L1 to L0A and L0B (MTE2,
then MTE1), is multiplied into L0C (M), and leaves to GM (FIX). Each memory has slots, so that the pipes overlap:

    L1           chunks of A and chunks of B, each several pieces long; the least recently used one is replaced
    L0A, L0B     pairs of a piece of A and a piece of B, in turn
    L0C          pieces of C, in turn

Each slot has two flags (`slots`). Where each piece of C is stored at once, L0C uses unit flags instead: a
piece leaves block by block while the next one is computed in its place.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.names import BLOCK, HardEvent, Space, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams, QuantMode, SetFixPipeConfig
from device_model.aicore.cube.matmul_chunks import (
    Chunk,
    Operand,
    copy_chunk,
    copy_indices,
    copy_strips,
    load_a,
    load_b,
    load_sparse_b,
)
from device_model.aicore.cube.matmul_tiling import MatmulPolicy, TCubeTiling
from device_model.aicore.cube.mmad import FRACTAL, PRODUCTS, SIDE, Mmad, MmadParams, fractals, k0
from device_model.aicore.cube.slots import Slot, buffer, find, slots
from device_model.aicore.cube.sparse import INDEX_FRACTAL, MmadWithSparse
from device_model.aicore.cube.unit_flags import KEEP, TURN
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy, DataCopyExtParams, DataCopyPad
from device_model.kernel.findings import KernelError

_SHARED = (Space.L0A, Space.L0B, Space.L0C, Space.BT)  # memories of which all products use the same bytes


class DataCopyOutParams(NamedTuple):
    """The arguments of a callback: one piece of C in L0C, in the layout Nz (Ascend C: DataCopyOutParams).

    Attributes:
        c_burst_num: The columns of fractals.
        burst_len: The length of the m rows of each, in blocks of 32 bytes: 2 a row.
        src_stride: Blocks between them.
        dst_stride: From a row of C in GM to the next, in elements.
        ori_n_size: The columns of the piece.
        en_unit_flag: Whether unit flags are used; they never are with a callback.
        quant_scalar: The factor of SetQuantScalar, or None.
    """

    c_burst_num: int
    burst_len: int
    src_stride: int
    dst_stride: int
    ori_n_size: int
    en_unit_flag: bool
    quant_scalar: float | None


class MatmulCallBackFunc(NamedTuple):
    """Functions that copy in place of a Matmul object, on its cube core (Ascend C: MatmulCallBackFunc).

    The last two arguments of each are what SetUserDefInfo and SetSelfDefineData were given.

    Attributes:
        data_copy_out: Stores a piece of C, with pipe FIX: `(gm, co1_local, DataCopyOutParams, info, data)`.
        copy_a1: Copies to L1, with pipe MTE2, as fractals: `(a_matrix, gm, row, col, use_m, use_k, info, data)`. *row*
            and *col* count the copies along m and k.
        copy_b1: The same for B: `(b_matrix, gm, row, col, use_k, use_n, info, data)`.
    """

    data_copy_out: Callable[..., None] | None = None
    copy_a1: Callable[..., None] | None = None
    copy_b1: Callable[..., None] | None = None


class Job(NamedTuple):
    """One product of one core: its number, its operands and its size, and what callbacks are told."""

    number: tuple[int, int]
    a: Operand
    b: Operand
    bias: GlobalTensor | None
    quant: GlobalTensor | float | None  # the factors of C: a word for each column, or one number
    m: int
    n: int
    k: int
    info: tuple[Any, Any] = (None, None)
    width: int = 0  # the columns of a fractal of C in NZ; 0 for C row by row
    sparse_index: GlobalTensor | None = None  # the indices of a sparse B, of *whole_n* columns
    whole_n: int = 0
    policy: MatmulPolicy = MatmulPolicy.NORMAL

    def has(self, row: int, column: int) -> bool:
        """Return whether the piece of C at (*row*, *column*), counted in pieces, is computed."""
        match self.policy:
            case MatmulPolicy.TRIAN_UPPER:
                return row <= column
            case MatmulPolicy.TRIAN_LOWER:
                return row >= column
        return True


class Cube:
    """A cube core that multiplies, with the buffers of a tiling. Jobs may follow each other or alternate by pieces.

    *given* says of A and B whether the kernel itself has brought them to L1, and of C whether it gives the room in L0C.
    Each of the *others*, of which this one becomes the last, has its own part of L1. They share L0, BT and the ids of
    flags: one of them begins when all reads of another one's bytes are done.

    Raises:
        KernelError: The buffers do not fit the memories, base_k is not a multiple of a fractal, or the chunks in L1
            need more event ids than there are.
    """

    def __init__(
        self,
        pipe: TPipe,
        tiling: TCubeTiling,
        dtype: np.dtype[Any],
        call_back: MatmulCallBackFunc,
        *,
        unit_flags: bool,
        given: tuple[bool, bool, bool] = (False, False, False),
        others: "list[Cube] | None" = None,
    ) -> None:
        self._all = [] if others is None else others
        self._close_others()
        taken = pipe.places(_SHARED)
        if self._all:
            pipe.begin_at(self._all[0].start)
        self.start: dict[Space, int] = pipe.places(_SHARED)  # where the bytes of these memories begin
        self._all.append(self)
        self.tiling = tiling
        self._call_back = call_back
        unit_flags = unit_flags and call_back.data_copy_out is None and not given[2]
        self.dtype = dtype
        self.total = np.dtype(PRODUCTS[dtype.name])
        self.width = k0(dtype)
        # Squares of int8 and int4b_t can be wider than the piece that Fixpipe stores, which would leave blocks of L0C
        # full.
        self._has_unit_flags = unit_flags and self.width <= SIDE
        tall = max(self.width, SIDE)  # int8 comes in squares of 32, int4b_t of 64
        deep = -(-tiling.base_k // tall) * tall
        if tiling.single_core_k > tiling.base_k != deep:
            raise KernelError(f"a tiling with base_k {tiling.base_k} for {dtype}", f"it must be a multiple of {tall}")
        piece_a = fractals(tiling.base_m) * SIDE * deep
        piece_b = -(-tiling.base_n // tall) * tall * deep
        # A matrix that the kernel has brought to L1 needs no buffer.
        slots_a = 0 if given[0] else max(tiling.depth_a1 // tiling.step_ka, 1)
        slots_b = 0 if given[1] else max(tiling.depth_b1 // tiling.step_kb, 1)
        if slots_a + slots_b > 6:
            raise KernelError(
                f"a tiling with {slots_a} chunks of A and {slots_b} of B in L1",
                "there are event ids for 6 of both together",
            )
        load, free = HardEvent.MTE2_MTE1, HardEvent.MTE1_MTE2
        self._a1 = slots(pipe, TPosition.A1, slots_a, piece_a * tiling.step_ka, dtype, load, free)
        self._b1 = slots(pipe, TPosition.B1, slots_b, piece_b * tiling.step_kb, dtype, load, free)
        pairs = min(tiling.db_l0a, tiling.db_l0b)
        # Both halves of a pair have one flag.
        self._a2 = slots(pipe, TPosition.A2, pairs, piece_a, dtype, HardEvent.MTE1_M, HardEvent.M_MTE1)
        self._b2 = [buffer(pipe, TPosition.B2, piece_b, dtype) for _ in range(pairs)]
        result = fractals(tiling.base_m) * SIDE * -(-tiling.base_n // tall) * tall
        slots_c = 0 if given[2] else tiling.db_l0c
        self._c = slots(pipe, TPosition.CO1, slots_c, result, self.total, HardEvent.M_FIX, HardEvent.FIX_M)
        self._bias: tuple[Slot, Slot] | None = None
        if tiling.is_bias:
            size = -(-tiling.base_n // tall) * tall
            (staged,) = slots(pipe, TPosition.C1, 1, size, self.total, load, free)
            (table,) = slots(pipe, TPosition.C2, 1, size, self.total, HardEvent.MTE1_M, HardEvent.M_MTE1)
            self._bias = staged, table
        self._pipe = pipe
        pipe.begin_at({space: max(taken[space], place) for space, place in pipe.places(_SHARED).items()})
        self._is_open = True
        self._index_rooms: dict[LocalTensor, LocalTensor] = {}  # made when B is sparse, by the tensors of chunks
        self._quant: tuple[Slot, Slot] | None = None  # made when columns are scaled
        self._loaded = self._results = 0  # pairs and results so far

    def _close_others(self) -> None:
        for other in self._all:
            if other is not self:
                other.close()

    @property
    def results(self) -> int:
        """The number of results that L0C holds."""
        return len(self._c)

    def pieces(self, job: Job) -> tuple[int, int]:
        """Return how many pieces C has down and across."""
        return -(-job.m // self.tiling.base_m), -(-job.n // self.tiling.base_n)

    @property
    def _all_slots(self) -> tuple[Slot, ...]:
        return (*self._a1, *self._b1, *self._a2, *self._c, *(self._bias or ()), *(self._quant or ()))

    def close(self) -> None:
        """Wait for all flags, and release their ids, until the next piece takes ids again."""
        if self._is_open:
            for slot in self._all_slots:
                slot.flag.close()
        self._is_open = False

    def compute_into(self, dst: LocalTensor, job: Job, row: int, column: int, *, adds: bool) -> None:
        """Do as `compute` with the result in *dst* in L0C, added to what is there if *adds*; its user orders M."""
        self._issue(job, row, column, dst, adds=adds)

    def compute(self, job: Job, row: int, column: int) -> Slot:
        """Issue the instructions for the piece of C at (*row*, *column*), counted in pieces; return its slot in L0C."""
        result = self._c[self._results % len(self._c)]
        self._results += 1
        if not self._has_unit_flags:
            result.flag.wait_empty()
        self._issue(job, row, column, result.tensor)
        if not self._has_unit_flags:
            result.flag.filled()
        return result

    def _issue(self, job: Job, row: int, column: int, dst: LocalTensor, *, adds: bool = False) -> None:
        """Issue what computes a piece of C in *dst*."""
        self._close_others()
        if not self._is_open:
            for closed in self._all_slots:
                closed.flag.open()
            self._is_open = True
        tiling = self.tiling
        m = min(tiling.base_m, job.m - row * tiling.base_m)
        n = min(tiling.base_n, job.n - column * tiling.base_n)
        # LoadDataWithTranspose of int8 and int4b_t loads whole squares.
        wide = n if job.b.is_transposed or self.width <= SIDE else -(-n // self.width) * self.width
        bias = self._load_bias(job, column, n, wide)
        pieces = -(-job.k // tiling.base_k)
        for index in range(pieces):
            k = min(tiling.base_k, job.k - index * tiling.base_k)
            slot_a, a1 = self._chunk_a(job, row, m, index // tiling.step_ka)
            slot_b, b1 = self._chunk_b(job, column, n, index // tiling.step_kb)
            pair, b2 = self._a2[self._loaded % len(self._a2)], self._b2[self._loaded % len(self._b2)]
            self._loaded += 1
            pair.flag.wait_empty()
            at_a, at_b = (index % step * tiling.base_k // self.width for step in (tiling.step_ka, tiling.step_kb))
            load_a(a1, pair.tensor, m, k, at_a, is_transposed=job.a.is_transposed)
            if job.sparse_index is None:
                load_b(b1, b2, n, k, at_b, is_transposed=job.b.is_transposed)
            else:
                load_sparse_b(b1, self._indices(b1), b2, n, k // 2, at_b // 2)
            for slot, step in ((slot_a, tiling.step_ka), (slot_b, tiling.step_kb)):
                if slot is not None and ((index + 1) % step == 0 or index + 1 == pieces):
                    slot.flag.emptied()
            pair.flag.filled()
            unit_flag = 0 if not self._has_unit_flags else TURN if index + 1 == pieces else KEEP
            # With m of 1 Mmad would read a vector and not fractals.
            params = MmadParams(m if m > 1 else SIDE, wide, k, index == 0 and not adds, unit_flag)
            if job.sparse_index is not None:
                MmadWithSparse(dst, pair.tensor, b2, params)
            elif index == 0 and bias is not None:
                Mmad(dst, pair.tensor, b2, bias.tensor, params)
                bias.flag.emptied()
            else:
                Mmad(dst, pair.tensor, b2, params)
            pair.flag.emptied()

    def store(self, result: Slot, job: Job, column: int, dst: GlobalTensor, m: int, n: int, row: int) -> None:
        """Store a result to GM: *m* x *n* elements of the pieces' *column*.

        There are *row* elements from one row to the next; in NZ, *row* rows in a column of fractals.
        """
        if self._call_back.data_copy_out is not None:
            blocks = m * SIDE * self.total.itemsize // BLOCK
            quant = job.quant if isinstance(job.quant, float) else None
            told = DataCopyOutParams(fractals(n), blocks, 0, row, n, False, quant)
            self._call_back.data_copy_out(dst, result.tensor, told, *job.info)
            result.flag.emptied()
            return
        mode = self._mode(job, dst)
        words = None
        if isinstance(job.quant, GlobalTensor):
            words = self._load_quant(job.quant, job.number, column, n)
        params = FixpipeParams(
            n, m, 0, row, mode,
            deq_scalar=job.quant if isinstance(job.quant, float) else 1.0,
            unit_flag=TURN if self._has_unit_flags else 0,
        )  # fmt: skip
        Fixpipe(dst, result.tensor, params, CO2Layout.NZ if job.width else CO2Layout.ROW_MAJOR)
        if words is not None:
            words.flag.emptied()
        if not self._has_unit_flags:
            result.flag.emptied()

    def _mode(self, job: Job, dst: GlobalTensor) -> QuantMode:
        factor = {type(None): "", float: "scalar"}.get(type(job.quant), "vector")
        if dst.dtype == self.total and not factor:
            return QuantMode.NoQuant
        for mode in QuantMode:
            source, targets, needed = mode.value
            if source == self.total.name and dst.dtype.name in targets and needed == factor:
                return mode
        what = f"a Matmul of {self.dtype} to C of {dst.dtype}"
        if factor:
            raise KernelError(
                f"{what}, scaled", "half from int8, and bytes, are; leave SetQuantScalar() and SetQuantVector()"
            )
        raise KernelError(what, "say what to multiply it with: SetQuantScalar() or SetQuantVector()")

    def _load_quant(self, quant: GlobalTensor, number: tuple[int, int], column: int, n: int) -> Slot:
        """Return the slot in FB with the words of a piece's columns; load them unless the piece above has done so."""
        if self._quant is None:
            size = fractals(self.tiling.base_n) * SIDE
            load, free = HardEvent.MTE2_MTE1, HardEvent.MTE1_MTE2
            (staged,) = slots(self._pipe, TPosition.C1, 1, size, quant.dtype, load, free)
            (table,) = slots(
                self._pipe, TPosition.C2PIPE2GM, 1, size, quant.dtype, HardEvent.MTE1_FIX, HardEvent.FIX_MTE1
            )
            self._quant = staged, table
        staged, table = self._quant
        if table.holds != (number, column):
            table.holds = number, column
            staged.flag.wait_empty()
            words = quant[column * self.tiling.base_n :]
            DataCopyPad(staged.tensor, words, DataCopyExtParams(1, n * words.dtype.itemsize))
            staged.flag.filled()
            table.flag.wait_empty()
            DataCopy(table.tensor, staged.tensor, fractals(n) * SIDE)
            staged.flag.emptied()
            table.flag.filled()
            SetFixPipeConfig(table.tensor)
        return table

    # Chunks in L1

    def _chunk_a(self, job: Job, row: int, m: int, chunk: int) -> tuple[Slot | None, Chunk]:
        """Return a chunk of A, and its slot; it has none if the kernel has brought A to L1."""
        operand = job.a
        first, long = self._reach(job, chunk, self.tiling.step_ka)
        top = row * self.tiling.base_m
        if isinstance(operand.tensor, LocalTensor):
            return None, self._part(operand.tensor, operand, *((first, top) if operand.is_transposed else (top, first)))
        slot, is_loaded = find(self._a1, (job.number, row, chunk))
        if is_loaded:
            return slot, slot.chunk
        if self._call_back.copy_a1 is not None:
            self._call_back.copy_a1(slot.tensor, operand.tensor, row, chunk, m, long, *job.info)
            slot.chunk = Chunk(slot.tensor, fractals(long if operand.is_transposed else m))
        elif operand.is_transposed:
            slot.chunk = copy_chunk(slot.tensor, operand, first, top, long, m)
        else:
            slot.chunk = copy_chunk(slot.tensor, operand, top, first, m, long)
        slot.flag.filled()
        return slot, slot.chunk

    def _chunk_b(self, job: Job, column: int, n: int, chunk: int) -> tuple[Slot | None, Chunk]:
        """Return a chunk of B, and its slot, as `_chunk_a`."""
        operand = job.b
        first, long = self._reach(job, chunk, self.tiling.step_kb)
        left = column * self.tiling.base_n
        if isinstance(operand.tensor, LocalTensor):
            at = (left, first) if operand.is_transposed else (first, left)
            return None, self._part(operand.tensor, operand, *at)
        slot, is_loaded = find(self._b1, (job.number, column, chunk))
        if is_loaded:
            return slot, slot.chunk
        tall = max(self.width, SIDE)
        if job.sparse_index is not None:
            slot.chunk = copy_chunk(slot.tensor, operand, left, first // 2, n, long // 2)
            depth = fractals(long // 2, self.width)
            copy_indices(
                self._indices(slot.chunk), job.sparse_index, left, first // 2 // self.width, n, depth, job.whole_n
            )
        elif self._call_back.copy_b1 is not None:
            self._call_back.copy_b1(slot.tensor, operand.tensor, chunk, column, long, n, *job.info)
            slot.chunk = Chunk(
                slot.tensor, fractals(n) if operand.is_transposed else fractals(long, tall) * tall // SIDE
            )
        elif operand.is_transposed:
            slot.chunk = copy_chunk(slot.tensor, operand, left, first, n, long)
        elif self.width < SIDE:
            slot.chunk = copy_strips(slot.tensor, operand, first, left, long, n)
        else:
            slot.chunk = copy_chunk(slot.tensor, operand, first, left, long, n, tall)
        slot.flag.filled()
        return slot, slot.chunk

    def _indices(self, chunk: Chunk) -> LocalTensor:
        """Return the room in L1 for the indices of a chunk of a sparse B."""
        room = self._index_rooms.get(chunk.tensor)
        if room is None:
            size = chunk.tensor.nbytes // (FRACTAL // INDEX_FRACTAL)
            room = self._index_rooms[chunk.tensor] = buffer(self._pipe, TPosition.B1, size, np.dtype(np.uint8))
        return room

    def _part(self, tensor: LocalTensor, operand: Operand, row: int, column: int) -> Chunk:
        """Return the part of a matrix in L1 that begins at (*row*, *column*)."""
        return Chunk(tensor, operand.row // SIDE, row // SIDE, column // self.width)

    def _reach(self, job: Job, chunk: int, step: int) -> tuple[int, int]:
        """Return the first element along k of a chunk, and its number of elements along k."""
        first = chunk * step * self.tiling.base_k
        return first, min(step * self.tiling.base_k, job.k - first)

    def _load_bias(self, job: Job, column: int, n: int, wide: int) -> Slot | None:
        if job.bias is None:
            return None
        assert self._bias is not None
        staged, table = self._bias
        staged.flag.wait_empty()
        left = column * self.tiling.base_n
        DataCopyPad(staged.tensor, job.bias[left:], DataCopyExtParams(1, n * self.total.itemsize))
        staged.flag.filled()
        table.flag.wait_empty()
        DataCopy(table.tensor, staged.tensor, -(-wide // SIDE) * SIDE)
        staged.flag.emptied()
        table.flag.filled()
        return table
