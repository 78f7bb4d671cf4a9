"""The Matmul object: C = A * B + bias, requested by vector cores and computed by the cube core of their block.

In a mixed kernel every core makes the object and registers it. Registration is where the cube core works: it serves the
requests of its vector cores until all of them have called End(), and then leaves the kernel. A vector core sends a
message and a cross-core flag, and waits for a flag back. Results for UB go through a workspace in GM, because the cores
share no other memory. While a vector core works on a piece of C, the cube core computes the next one.

In a kernel on cube cores alone there are no requests: the object computes in the call itself.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from operator import index as integer
from typing import Any, NamedTuple

import numpy.typing as npt

from device_model.aicore.core.machine import Core, running
from device_model.aicore.core.names import CoreType, HardEvent, Pipe, Space, TPosition
from device_model.aicore.core.tensors import GlobalBuffer, GlobalTensor, LocalTensor, dtype_of, whole
from device_model.aicore.cube.matmul_cube import Cube, Job, MatmulCallBackFunc, Operand
from device_model.aicore.cube.matmul_tiling import WORKSPACE_TILES, TCubeTiling
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag
from device_model.aicore.flags.sync import AllocEventID, ReleaseEventID, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.atomics import SetAtomicAdd, SetAtomicMax, SetAtomicMin, SetAtomicNone
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError

ASK, ANSWER = 0, 1  # cross-core flags
MESSAGE_WORDS = 8  # words of 8 bytes, one cache line, written and read by the scalar pipes


class CubeFormat(Enum):
    """The layout of a matrix in GM."""

    ND = 0  # row by row


@dataclass(frozen=True, slots=True)
class MatmulType:
    """The position, layout and type of a matrix of a Matmul, and whether it is transposed (Ascend C: MatmulType)."""

    position: TPosition
    format: CubeFormat
    dtype: npt.DTypeLike
    is_trans: bool = False


class _Message(NamedTuple):
    """A request of a vector core: a piece of *job* to *dst*, all pieces (*piece* None), or the end (*job* None)."""

    job: Job | None
    piece: int | None = None
    dst: GlobalTensor | None = None
    row: int = 0  # elements from one row of dst to the next
    atomic: int = 0  # how C is combined with the contents of dst
    others: "tuple[_Message, ...]" = ()  # whole products that follow, of a batch


# What enAtomic means: 0 overwrites.
_ATOMICS = {1: SetAtomicAdd, 2: SetAtomicMax, 3: SetAtomicMin}
_NO_CALL_BACK = MatmulCallBackFunc()


class _Rows(NamedTuple):
    """The sizes of the whole matrices, from which follows how far apart their rows are."""

    org_m: int
    org_n: int
    org_ka: int
    org_kb: int
    org_kc: int  # columns of C


class Matmul:
    """C = A * B + bias, computed by the cube core of a block (Ascend C: Matmul).

    Call REGIST_MATMUL_OBJ, SetTensorA and SetTensorB, then Iterate and GetTensorC in turn or IterateAll, and then End.

    Args:
        a: The type of A, in GM.
        b: The type of B, in GM and of the same dtype.
        c: The type of C, in GM or UB.
        bias: The type of the bias, if there is one.
        call_back: Functions that copy in place of the object.

    Raises:
        KernelError: A position, or a pair of types, is impossible.
    """

    def __init__(
        self,
        a: MatmulType,
        b: MatmulType,
        c: MatmulType,
        bias: MatmulType | None = None,
        *,
        call_back: MatmulCallBackFunc = _NO_CALL_BACK,
    ) -> None:
        self.a, self.b, self.c = a, b, c
        self._call_back = call_back
        self._info: tuple[Any, Any] = (None, None)  # what callbacks are told
        self.bias = bias
        dtypes = dtype_of(a.dtype), dtype_of(b.dtype)
        if dtypes[0] != dtypes[1] or a.position.space is not Space.GM or b.position.space is not Space.GM:
            raise KernelError(f"a Matmul of {a} and {b}", "A and B are of one type and in GM")
        if a.is_trans and dtypes[0].itemsize != 2:
            raise KernelError(
                f"a Matmul with A of {dtypes[0]} transposed", "only 16-bit types can be; transpose it in GM"
            )
        if c.position.space not in (Space.GM, Space.UB):
            raise KernelError(f"a Matmul with C {c}", "C goes to GM, or to UB: VECIN, VECOUT or VECCALC")
        self.dtype = dtypes[0]
        self._tiling: TCubeTiling | None = None
        self._core: Core | None = None
        self._cube: Cube | None = None  # on cube cores
        self._workspace: GlobalTensor | None = None
        self._operands: dict[str, tuple[GlobalTensor, bool]] = {}  # the tensor, and whether it is transposed
        self._bias: GlobalTensor | None = None
        self._quant: GlobalTensor | float | None = None
        self._batches = 1, 1
        self._shape: tuple[int, int, int] | None = None
        self._rows = _Rows(0, 0, 0, 0, 0)
        self._is_reshaped = False
        self._is_asked = False  # whether the cube core owes an answer
        self._job: Job | None = None
        self._jobs = 0
        self._index = -1

    def __repr__(self) -> str:
        shape = self._shape or "not registered"
        return f"<Matmul {self.dtype} {shape}, piece {self._index}>"

    def Init(self, pipe: TPipe, tiling: TCubeTiling, workspace: GlobalBuffer | None = None) -> None:
        """Set the tiling, and on cube cores make the buffers (Ascend C: Init). REGIST_MATMUL_OBJ calls this.

        Raises:
            KernelError: The buffers do not fit, or the workspace is smaller than `tiling.workspace_bytes`.
        """
        core = running()
        self._core, self._tiling = core, tiling
        self._shape = tiling.single_core_m, tiling.single_core_n, tiling.single_core_k
        self._rows = _Rows(tiling.m, tiling.n, tiling.ka, tiling.kb, tiling.n)
        if core.core_type is CoreType.AIC:
            core.scalar += core.spec.matmul_init
            # What is computed ahead for a vector core may never be asked for: nothing would empty its blocks.
            self._cube = Cube(pipe, tiling, self.dtype, self._call_back, unit_flags=not _vectors_of(core))
        elif workspace is not None:
            dtype = dtype_of(self.c.dtype)
            vectors = core.block_dim * core.ratio
            number = core.program.block * core.ratio + core.program.sub_block
            size = WORKSPACE_TILES * tiling.base_m * tiling.base_n
            if workspace.nbytes < vectors * size * dtype.itemsize:
                raise KernelError(
                    f"a workspace of {workspace.nbytes} bytes for a Matmul",
                    f"give it {vectors * size * dtype.itemsize}: TCubeTiling.workspace_bytes({vectors})",
                )
            self._workspace = GlobalTensor(dtype).SetGlobalBuffer(workspace)[number * size : (number + 1) * size]

    def SetTensorA(self, tensor: GlobalTensor, is_transpose: bool | None = None) -> None:
        """Set A for the next product (Ascend C: SetTensorA).

        Args:
            tensor: The first element of this core's part of A. Rows are as far apart as in the whole A of the tiling,
                or of SetOrgShape.
            is_transpose: Whether A is stored transposed; by default as its MatmulType says.

        Raises:
            KernelError: The tensor is not in GM or not of A's type, or the MatmulType does not allow a transposed A.
        """
        self._set("A", tensor, self.a, is_transpose)

    def SetTensorB(self, tensor: GlobalTensor, is_transpose: bool | None = None) -> None:
        """Set B for the next product (Ascend C: SetTensorB).

        Args:
            tensor: The first element of this core's part of B. Rows are as far apart as in the whole B of the tiling,
                or of SetOrgShape.
            is_transpose: Whether B is stored transposed; by default as its MatmulType says.

        Raises:
            KernelError: The tensor is not in GM or not of B's type, or the MatmulType does not allow a transposed B.
        """
        self._set("B", tensor, self.b, is_transpose)

    def _set(self, name: str, tensor: GlobalTensor, type_: MatmulType, is_transpose: bool | None) -> None:
        assert self._tiled
        if not isinstance(tensor, GlobalTensor) or tensor.dtype != self.dtype:
            raise KernelError(f"SetTensor{name} with {tensor!r}", f"it is a GlobalTensor of {self.dtype}")
        is_trans = type_.is_trans if is_transpose is None else is_transpose
        if is_trans and not type_.is_trans:
            raise KernelError(f"SetTensor{name} transposed", f"say so in the MatmulType of {name}: is_trans=True")
        self._operands[name] = tensor, is_trans
        self._job = None

    def SetBias(self, tensor: GlobalTensor) -> None:
        """Set the bias for the next product (Ascend C: SetBias).

        Args:
            tensor: The bias, in GM: an element for each column of this core's part of C.

        Raises:
            KernelError: The Matmul has no MatmulType for a bias, or its tiling has none.
        """
        if self.bias is None or not self._tiled.is_bias:
            raise KernelError(
                "SetBias on a Matmul without bias", "give it a MatmulType for it, and a tiling with is_bias"
            )
        self._bias = tensor
        self._job = None

    def DisableBias(self) -> None:
        """Let the next product have no bias (Ascend C: DisableBias, ClearBias), until SetBias sets one again."""
        self._bias = None
        self._job = None

    ClearBias = DisableBias  # the older name

    def SetQuantScalar(self, scale: float) -> None:
        """Multiply C by one factor when it is stored (Ascend C: SetQuantScalar).

        With it, C may be half where A and B are int8, and int8 or uint8 for all types; see `fixpipe`.

        Args:
            scale: The factor.
        """
        self._quant = float(scale)
        self._job = None

    def SetQuantVector(self, words: GlobalTensor) -> None:
        """Multiply each column of C by its own factor when it is stored (Ascend C: SetQuantVector).

        Args:
            words: The factors, in GM: a uint64 for each column of this core's part of C, see `fixpipe`.

        Raises:
            KernelError: *words* is not a GlobalTensor of uint64.
        """
        if not isinstance(words, GlobalTensor) or words.dtype != "uint64":
            raise KernelError(f"SetQuantVector with {words!r}", "it is a GlobalTensor of uint64")
        self._quant = words
        self._job = None

    def SetUserDefInfo(self, tiling: Any) -> None:
        """Set the last argument but one of callbacks, from the next product on (Ascend C: SetUserDefInfo)."""
        self._info = tiling, self._info[1]
        self._job = None

    def SetSelfDefineData(self, data: Any) -> None:
        """Set the last argument of callbacks, from the next product on (Ascend C: SetSelfDefineData)."""
        self._info = self._info[0], data
        self._job = None

    def SetSingleShape(self, single_m: int, single_n: int, single_k: int) -> None:
        """Set the size of this core's product, if it is smaller than the tiling's (Ascend C: SetSingleShape).

        Args:
            single_m: Rows of C.
            single_n: Columns of C.
            single_k: Columns of A.

        Raises:
            KernelError: A size is below 1 or larger than the tiling's.
        """
        most = self._tiled.single_core_m, self._tiled.single_core_n, self._tiled.single_core_k
        shape = single_m, single_n, single_k
        if not all(0 < size <= limit for size, limit in zip(shape, most, strict=True)):
            raise KernelError(f"SetSingleShape{shape}", f"each is 1 to that of the tiling, {most}")
        self._shape = shape
        self._job = None

    def SetTail(self, tail_m: int = -1, tail_n: int = -1, tail_k: int = -1) -> None:
        """Set the size of this core's product; -1 leaves a size unchanged (Ascend C: SetTail).

        Raises:
            KernelError: A size is below 1 or larger than the tiling's.
        """
        assert self._shape is not None or self._tiled
        shape = [old if new == -1 else new for old, new in zip(self._sizes, (tail_m, tail_n, tail_k), strict=True)]
        self.SetSingleShape(*shape)

    def SetOrgShape(
        self, org_m: int, org_n: int, org_ka: int, org_kb: int | None = None, org_kc: int | None = None
    ) -> None:
        """Set the size of the whole matrices in GM, if it is not the tiling's (Ascend C: SetOrgShape).

        It says how far apart rows are in GM, from the next product on.

        Args:
            org_m: Rows of A.
            org_n: Columns of B.
            org_ka: Columns of A.
            org_kb: Rows of B; as many as A has columns by default.
            org_kc: Columns of C; by default, or for 0, as many as B has.

        Raises:
            KernelError: A size is below 1, or the object is not registered. The next product raises it if it is larger
                than the whole matrices.
        """
        sizes = org_m, org_n, org_ka, org_ka if org_kb is None else org_kb, org_kc or org_n
        rows = _Rows._make(map(integer, sizes))
        assert self._tiled
        for name, size in zip(_Rows._fields, rows, strict=True):
            if size < 1:
                raise KernelError(f"SetOrgShape: {name} is {size}", "a size is 1 or more")
        self._rows = rows
        self._is_reshaped = True
        self._job = None

    @property
    def _tiled(self) -> TCubeTiling:
        if self._tiling is None:
            raise KernelError(
                f"{self!r} has no tiling", "register it first: REGIST_MATMUL_OBJ(pipe, workspace, mm, tiling)"
            )
        return self._tiling

    @property
    def _sizes(self) -> tuple[int, int, int]:
        assert self._shape is not None
        return self._shape

    @property
    def _pieces(self) -> tuple[int, int]:
        """The number of pieces of C down and across."""
        m, n, _ = self._sizes
        return -(-m // self._tiled.base_m), -(-n // self._tiled.base_n)

    def _started(self) -> Job:
        """Return the current product; after operands have been set, a new one."""
        if self._job is None:
            if len(self._operands) < 2:
                raise KernelError(f"{self!r} has no operands", "call SetTensorA() and SetTensorB() first")
            if self._is_reshaped:
                self._check_part()
            self._jobs += 1
            number = running().program.sub_block, self._jobs
            (a, a_trans), (b, b_trans), rows = self._operands["A"], self._operands["B"], self._rows
            operands = (
                Operand(a, a_trans, rows.org_m if a_trans else rows.org_ka),
                Operand(b, b_trans, rows.org_kb if b_trans else rows.org_n),
            )
            self._job = Job(number, *operands, self._bias, self._quant, *self._sizes, self._info)
            self._index = -1
        return self._job

    def _check_part(self) -> None:
        m, n, k = self._sizes
        for name, size, part in zip(_Rows._fields, self._rows, (m, n, k, k, n), strict=True):
            if part > size:
                raise KernelError(
                    f"{self!r} after SetOrgShape with {name} {size}, and this core's part of it is {part}",
                    "a part is no larger than the whole: call SetSingleShape(), or SetOrgShape() with the whole size",
                )

    def Iterate(self) -> bool:
        """Go to the next piece of C, down its columns first (Ascend C: Iterate). No pipe waits.

        Returns:
            True; False after the last piece. The next call then begins a new product.

        Raises:
            KernelError: A or B is not set.
        """
        self._started()
        down, across = self._pieces
        self._index += 1
        if self._index < down * across:
            return True
        self._job = None
        return False

    def GetTensorC(self, dst: GlobalTensor | LocalTensor, en_atomic: int = 0, *, sequential: bool = False) -> None:
        """Store the current piece of C in GM or in UB (Ascend C: GetTensorC).

        A vector core waits until its cube core has stored the piece. The vector pipe may then use a piece in UB without
        a flag.

        Args:
            dst: In GM, the first element of this core's C, in which the piece goes to its place. In UB, the piece; its
                rows are base_n elements apart.
            en_atomic: How the piece is combined with the contents of GM: 0 overwrites them, 1 adds to them, 2 keeps the
                larger number and 3 the smaller one.
            sequential: Whether *dst* in GM is the piece itself, with rows base_n elements apart.

        Raises:
            KernelError: There is no current piece, *dst* is not of C's type and position, *en_atomic* is no such
                number or *dst* not in GM, or a piece for UB has no workspace.
        """
        if self._job is None or self._index < 0:
            raise KernelError("GetTensorC without a piece", "call Iterate() first, and go on only while it is True")
        tiling = self._tiled
        if isinstance(dst, GlobalTensor):
            self._check_c(dst, Space.GM)
            self._fetch(
                dst if sequential else dst[self._offset(self._index) :],
                tiling.base_n if sequential else self._rows.org_kc,
                _checked_atomic(en_atomic),
            )
            return
        self._check_c(dst, Space.UB)
        if en_atomic:
            raise KernelError(f"GetTensorC to UB with en_atomic {en_atomic}", "only C in GM is combined: give 0")
        if self._workspace is None:
            raise KernelError(
                "GetTensorC to UB without a workspace", "give REGIST_MATMUL_OBJ a buffer in GM of workspace_bytes()"
            )
        size = tiling.base_m * tiling.base_n
        start = self._index % WORKSPACE_TILES * size
        tile = self._workspace[start : start + size]
        self._fetch(tile, tiling.base_n)
        rows = min(tiling.base_m, self._sizes[0] - self._index % self._pieces[0] * tiling.base_m)
        for event, copy in ((HardEvent.V_MTE2, True), (HardEvent.MTE2_V, False)):
            event_id = AllocEventID(event)
            SetFlag(event, event_id)
            WaitFlag(event, event_id)
            ReleaseEventID(event, event_id)
            if copy:
                DataCopy(dst, tile, rows * tiling.base_n)

    def IterateAll(self, dst: GlobalTensor, en_atomic: int = 0, *, sync: bool = True) -> None:
        """Compute all pieces of C and store them in GM (Ascend C: IterateAll).

        A vector core waits until its cube core has stored all of them; without *sync*, at WaitIterateAll() or at its
        next request.

        Args:
            dst: The first element of this core's C.
            en_atomic: How C is combined with the contents of GM: 0 overwrites them, 1 adds to them, 2 keeps the larger
                number and 3 the smaller one.
            sync: Whether to wait.

        Raises:
            KernelError: A or B is not set, *dst* is not of C's type and position, or *en_atomic* is no such number.
        """
        job = self._started()
        self._check_c(dst, Space.GM)
        message = _Message(job, None, dst, self._rows.org_kc, _checked_atomic(en_atomic))
        if self._cube is not None:
            _compute(self._cube, message)
        else:
            self._send(message, Pipe.MTE3)
            if sync:
                self.WaitIterateAll()
        self._job = None

    def SetBatchNum(self, batch_a: int, batch_b: int) -> None:
        """Set how many matrices A and B are, for an IterateBatch that does not say so (Ascend C: SetBatchNum).

        Raises:
            KernelError: A number is below 1, or they differ and none is 1.
        """
        batches = whole("SetBatchNum: batch_a", batch_a), whole("SetBatchNum: batch_b", batch_b)
        if min(batches) < 1 or (1 not in batches and batches[0] != batches[1]):
            raise KernelError(f"a batch of {batch_a} A and {batch_b} B", "as many of both, or one of one of them")
        self._batches = batches

    def IterateBatch(
        self,
        dst: GlobalTensor,
        batch_a: int | None = None,
        batch_b: int | None = None,
        *,
        matrix_stride_a: int = 0,
        matrix_stride_b: int = 0,
        matrix_stride_c: int = 0,
        en_atomic: int = 0,
        is_bias_batch: bool = True,
        sync: bool = True,
    ) -> None:
        """Compute several products of the same shape and store them in GM (Ascend C: IterateBatch).

        The matrices of a batch lie one behind the other, each as SetTensorA and SetTensorB say of the first (the layout
        NORMAL). A vector core sends one request for all of them.

        Args:
            dst: The first element of this core's C in the first product.
            batch_a: How many matrices A are; by default what SetBatchNum has set.
            batch_b: How many matrices B are: as many, or one of one of them, which is used in all products.
            matrix_stride_a: Elements from one A to the next; 0 for those of the whole matrix.
            matrix_stride_b: The same for B.
            matrix_stride_c: The same for C.
            en_atomic: As for IterateAll.
            is_bias_batch: Whether each product has a bias of its own, behind the one before.
            sync: Whether to wait; otherwise WaitIterateBatch does.

        Raises:
            KernelError: A number is impossible, A or B is not set, or *dst* is not of C's type and position.
        """
        if batch_a is not None or batch_b is not None:
            self.SetBatchNum(1 if batch_a is None else batch_a, 1 if batch_b is None else batch_b)
        self._started()
        self._check_c(dst, Space.GM)
        rows, atomic = self._rows, _checked_atomic(en_atomic)
        strides = (
            matrix_stride_a or rows.org_m * rows.org_ka,
            matrix_stride_b or rows.org_kb * rows.org_n,
            matrix_stride_c or rows.org_m * rows.org_kc,
        )
        firsts, bias = dict(self._operands), self._bias
        messages = []
        for batch in range(max(self._batches)):
            for name, stride, count in zip("AB", strides, self._batches, strict=False):
                tensor, is_trans = firsts[name]
                self._operands[name] = tensor[batch * stride if count > 1 else 0], is_trans
            if bias is not None:
                self._bias = bias[batch * rows.org_n if is_bias_batch else 0]
            self._job = None
            messages.append(_Message(self._started(), None, dst[batch * strides[2]], rows.org_kc, atomic))
        self._operands, self._bias, self._job = firsts, bias, None
        message = messages[0]._replace(others=tuple(messages[1:]))
        if self._cube is not None:
            _compute(self._cube, message)
            return
        self._send(message, Pipe.MTE3)
        if sync:
            self.WaitIterateAll()

    def WaitIterateBatch(self) -> None:
        """Wait until C of the last IterateBatch is stored (Ascend C: WaitIterateBatch); on a cube core it is."""
        self.WaitIterateAll()

    def WaitIterateAll(self) -> None:
        """Wait until C of the last IterateAll is stored (Ascend C: WaitIterateAll); on a cube core it is."""
        if self._is_asked:
            self._answer()

    def End(self) -> None:
        """End the requests of this core (Ascend C: End).

        A vector core waits until the other vector cores of its block have ended theirs too.
        """
        if self._cube is not None:
            self._cube.close()
            self._cube = None
            return
        while not self._ask(_Message(None), Pipe.S):
            pass

    def _check_c(self, dst: GlobalTensor | LocalTensor, space: Space) -> None:
        if dst.dtype != dtype_of(self.c.dtype) or self.c.position.space is not space:
            raise KernelError(f"C of {self.c} to {dst!r}", "it goes where its MatmulType says, with that type")

    def _offset(self, index: int) -> int:
        column, row = divmod(index, self._pieces[0])
        return row * self._tiled.base_m * self._rows.org_kc + column * self._tiled.base_n

    def _fetch(self, dst: GlobalTensor, row: int, atomic: int = 0) -> None:
        message = _Message(self._started(), self._index, dst, row, atomic)
        if self._cube is not None:
            _compute(self._cube, message)
            return
        # What this core wrote to GM before (its A, say), and read of the workspace, is done when the flag is set.
        self._ask(message, Pipe.MTE3 if self._index == 0 else Pipe.MTE2)

    def _ask(self, message: _Message, pipe: Pipe) -> bool:
        """Send a message to the cube core and wait until it is done; return True if the cube core has ended."""
        self._send(message, pipe)
        return self._answer()

    def _send(self, message: _Message, pipe: Pipe) -> None:
        self.WaitIterateAll()
        core = running()
        program = core.program
        core.scalar += MESSAGE_WORDS * core.spec.set_value
        core.crossing.mail.setdefault(("ask", program.block, program.sub_block), deque()).append(message)
        CrossCoreSetFlag(2, pipe, ASK)
        self._is_asked = True

    def _answer(self) -> bool:
        core = running()
        program = core.program
        CrossCoreWaitFlag(ANSWER)
        self._is_asked = False
        return bool(core.crossing.mail["answer", program.block, program.sub_block].popleft())


def REGIST_MATMUL_OBJ(pipe: TPipe, workspace: GlobalBuffer | None, matmul: Matmul, tiling: TCubeTiling) -> bool:
    """Register a Matmul object, and on the cube cores of a mixed kernel serve all requests (REGIST_MATMUL_OBJ).

        if REGIST_MATMUL_OBJ(pipe, workspace, mm, tiling):
            return

    Args:
        pipe: The TPipe of this core, which gives cube cores their buffers.
        workspace: `tiling.workspace_bytes(cores)` of GM for results that go to UB; None if none do.
        matmul: The object.
        tiling: Its tiling.

    Returns:
        True on a cube core that has served its vector cores and has nothing left to do; False on all other cores.

    Raises:
        KernelError: The kernel runs on vector cores alone, the buffers do not fit, or the workspace is too small.
    """
    core = running()
    matmul.Init(pipe, tiling, workspace)
    vectors = _vectors_of(core)
    if core.core_type is CoreType.AIV:
        if all(each.core_type is CoreType.AIV for each in core.crossing.cores):
            raise KernelError("a Matmul on vector cores alone", "launch the kernel as MIX_AIC_1_2, or on cube cores")
        return False
    if not vectors:
        return False
    _serve(core, matmul, len(vectors))
    return True


def _vectors_of(core: Core) -> list[Core]:
    """Return the vector cores of the block of *core*."""
    block = core.program.block
    return [each for each in core.crossing.cores if each.core_type is CoreType.AIV and each.program.block == block]


def _serve(core: Core, matmul: Matmul, vectors: int) -> None:
    """Serve the requests of the vector cores of the block until all of them have ended."""
    mail = core.crossing.mail
    block = core.program.block
    cube = matmul._cube
    assert cube is not None
    ahead: dict[int, _Ahead] = {}  # for each vector core, the piece computed before it asked
    has_ended = False
    while not has_ended:
        CrossCoreWaitFlag(ASK)
        core.scalar += MESSAGE_WORDS * core.spec.get_value
        messages = [mail["ask", block, sub].popleft() for sub in range(vectors)]
        has_ended = all(message.job is None for message in messages)
        # Pieces that are there leave L0C before others are computed.
        for sub, message in enumerate(messages):
            if sub in ahead:
                known = ahead.pop(sub)
                if message[:2] == known[:2]:
                    _store(cube, message, known.result)
                    messages[sub] = message._replace(dst=None)
        for message in messages:
            if message.dst is not None:
                _compute(cube, message)
        for sub in range(vectors):
            mail.setdefault(("answer", block, sub), deque()).append(has_ended)
        CrossCoreSetFlag(2, Pipe.FIX, ANSWER)
        for sub, message in enumerate(messages):
            if message.piece is not None and len(ahead) < cube.results:
                down, across = cube.pieces(message.job)
                following = message.piece + 1
                if following < down * across:
                    result = cube.compute(message.job, following % down, following // down)
                    ahead[sub] = _Ahead(message.job, following, result)
    cube.close()


class _Ahead(NamedTuple):
    """A piece that was computed before its request."""

    job: Job
    piece: int
    result: Any


def _compute(cube: Cube, message: _Message) -> None:
    """Compute and store the piece that *message* requests, or all pieces."""
    assert message.job is not None
    assert message.dst is not None
    down, across = cube.pieces(message.job)
    if message.piece is not None:
        _store(cube, message, cube.compute(message.job, message.piece % down, message.piece // down))
        return
    for index in range(down * across):
        at = index % down * cube.tiling.base_m * message.row + index // down * cube.tiling.base_n
        _compute(cube, message._replace(piece=index, dst=message.dst[at:]))
    for other in message.others:
        _compute(cube, other)


def _checked_atomic(en_atomic: int) -> int:
    if en_atomic not in (0, *_ATOMICS):
        raise KernelError(
            f"en_atomic {en_atomic!r}", "0 overwrites, 1 adds, 2 keeps the larger and 3 the smaller number"
        )
    return en_atomic


def _store(cube: Cube, message: _Message, result: Any) -> None:
    job, index, dst, row, atomic, _ = message
    assert job is not None
    assert index is not None
    assert dst is not None
    down, _ = cube.pieces(job)
    column = index // down
    m = min(cube.tiling.base_m, job.m - index % down * cube.tiling.base_m)
    n = min(cube.tiling.base_n, job.n - column * cube.tiling.base_n)
    if atomic:
        _ATOMICS[atomic](dst.dtype)
    cube.store(result, job, column, dst, m, n, row)
    if atomic:
        SetAtomicNone()
