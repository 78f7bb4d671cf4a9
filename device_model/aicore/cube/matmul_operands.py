"""What a Matmul object multiplies: the types, places and sizes of A, B, C and the bias.

`Product` has the calls that set them. The next product begins with what was set last.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from operator import index as integer
from typing import Any, NamedTuple

import numpy.typing as npt

from device_model.aicore.core.machine import Core, running
from device_model.aicore.core.names import BLOCK, HardEvent, Space, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, dtype_of
from device_model.aicore.cube.matmul_chunks import Operand
from device_model.aicore.cube.matmul_cube import Cube, Job, MatmulCallBackFunc
from device_model.aicore.cube.matmul_tiling import MatmulPolicy, TCubeTiling
from device_model.aicore.cube.mmad import PRODUCTS, SIDE, k0
from device_model.aicore.flags.sync import pass_flag
from device_model.aicore.moving.copies import DataCopyExtParams, DataCopyPad
from device_model.kernel.findings import KernelError

_NO_CALL_BACK = MatmulCallBackFunc()


class CubeFormat(Enum):
    """The layout of a matrix."""

    ND = 0  # row by row
    NZ = 1  # columns of fractals, of 32 bytes a row (C of float: of 16 numbers); a matrix in L1 always lies so


@dataclass(frozen=True, slots=True)
class MatmulType:
    """The position, layout and type of a matrix of a Matmul, and whether it is transposed (Ascend C: MatmulType)."""

    position: TPosition
    format: CubeFormat
    dtype: npt.DTypeLike
    is_trans: bool = False


class WholeSizes(NamedTuple):
    """The sizes of the whole matrices, from which follows how far apart their rows are."""

    org_m: int
    org_n: int
    org_ka: int
    org_kb: int
    org_kc: int  # columns of C


class _Stored(NamedTuple):
    """How a matrix is stored: `Operand.row`, the elements of all of it, and whether in NZ."""

    row: int
    elements: int
    is_nz: bool


class Product:
    """The operands and sizes of a Matmul; see `matmul.Matmul`, which computes the product."""

    def __init__(
        self,
        a: MatmulType,
        b: MatmulType,
        c: MatmulType,
        bias: MatmulType | None = None,
        *,
        call_back: MatmulCallBackFunc = _NO_CALL_BACK,
        policy: MatmulPolicy = MatmulPolicy.NORMAL,
    ) -> None:
        self.a, self.b, self.c = a, b, c
        self._policy = MatmulPolicy(policy)
        self._call_back = call_back
        self._info: tuple[Any, Any] = (None, None)  # what callbacks are told
        self.bias = bias
        dtypes = dtype_of(a.dtype), dtype_of(b.dtype)
        if dtypes[0] != dtypes[1] or not {a.position.space, b.position.space} <= {Space.GM, Space.L1, Space.UB}:
            raise KernelError(f"a Matmul of {a} and {b}", "A and B are of one type, and in GM, L1 or UB")
        if bias is not None and (bias.format is not CubeFormat.ND or bias.position.space not in (Space.GM, Space.UB)):
            raise KernelError(f"a Matmul with the bias {bias}", "it is ND, and in GM or UB")
        if a.is_trans and dtypes[0].itemsize != 2:
            raise KernelError(
                f"a Matmul with A of {dtypes[0]} transposed", "only 16-bit types can be; transpose it in GM"
            )
        if c.position.space not in (Space.GM, Space.UB, Space.L0C):
            raise KernelError(f"a Matmul with C {c}", "C goes to GM, to UB (VECIN, VECOUT or VECCALC), or to L0C (CO1)")
        total = PRODUCTS.get(dtypes[0].name)
        if c.position.space is Space.L0C and (c.format is not CubeFormat.NZ or dtype_of(c.dtype).name != total):
            raise KernelError(f"a Matmul of {dtypes[0]} with C {c}", f"at CO1 it is {total} in NZ")
        self.dtype = dtypes[0]
        self._tiling: TCubeTiling | None = None
        self._core: Core | None = None
        self._registered: Any = None  # without a tiling: the TPipe and the workspace
        self._cube: Cube | None = None  # on cube cores
        self._workspace: GlobalTensor | None = None
        self._operands: dict[str, tuple[GlobalTensor | LocalTensor, bool]] = {}  # and whether it is transposed
        self._rooms: dict[str, GlobalTensor] = {}  # the parts of the workspace, by operand
        self._bias: GlobalTensor | None = None
        self._quant: GlobalTensor | float | None = None
        self._index_of_b: GlobalTensor | None = None  # of a sparse B
        self._batches = 1, 1
        self._shape: tuple[int, int, int] | None = None
        self._rows = WholeSizes(0, 0, 0, 0, 0)
        self._is_reshaped = False
        self._number = 0  # among the objects that were registered together
        self._line: deque[Any] = deque()  # of this core, the objects that wait for an answer, in their order
        self._owed = 0  # answers of the cube core that were not waited for
        self._later: deque[Any] = deque()  # batches that are not requested yet
        self._parts: deque[GlobalTensor] = deque()  # where the batches go that GetBatchTensorC has not returned
        self._part_size = 0  # their elements
        self._job: Job | None = None
        self._jobs = 0
        self._index = -1

    def __repr__(self) -> str:
        shape = self._shape or "not registered"
        return f"<Matmul {self.dtype} {shape}, piece {self._index}>"

    def SetTensorA(self, tensor: GlobalTensor | LocalTensor, is_transpose: bool | None = None) -> None:
        """Set A for the next product (Ascend C: SetTensorA).

        A in UB is copied to the workspace in GM, on MTE3 and after the vector pipe: cores share no other memory. A in
        L1 is read where it is, in kernels on cube cores alone; order it after MTE2 with a queue or flags.

        Args:
            tensor: The first element of this core's part of A. In GM, rows (in NZ, columns of fractals) are as far
                apart as in the whole A of the tiling, or of SetOrgShape. In UB and L1 the part lies alone.
            is_transpose: Whether A is stored transposed; by default as its MatmulType says.

        Raises:
            KernelError: The tensor is not where A's MatmulType says or not of its type, it is too small, or the
                MatmulType does not allow a transposed A.
        """
        self._set("A", tensor, self.a, is_transpose)

    def SetTensorB(self, tensor: GlobalTensor | LocalTensor, is_transpose: bool | None = None) -> None:
        """Set B for the next product (Ascend C: SetTensorB).

        Args:
            tensor: The first element of this core's part of B; as for SetTensorA. In L1, B of float is stored
                transposed, and each column of fractals of other B has whole squares: of 32 rows of int8, 64 of int4b_t.
            is_transpose: Whether B is stored transposed; by default as its MatmulType says.

        Raises:
            KernelError: The tensor is not where B's MatmulType says or not of its type, it is too small, or the
                MatmulType does not allow a transposed B.
        """
        self._set("B", tensor, self.b, is_transpose)

    def _set(self, name: str, tensor: GlobalTensor | LocalTensor, type_: MatmulType, is_transpose: bool | None) -> None:
        assert self._tiled
        self._check_place(f"SetTensor{name}", tensor, type_)
        is_trans = type_.is_trans if is_transpose is None else is_transpose
        if is_trans and not type_.is_trans:
            raise KernelError(f"SetTensor{name} transposed", f"say so in the MatmulType of {name}: is_trans=True")
        if isinstance(tensor, LocalTensor):
            needed = self._stored(name, is_trans=is_trans).elements
            if tensor.size < needed:
                raise KernelError(f"SetTensor{name} with {tensor!r}", f"this core's part of it has {needed} elements")
            if type_.position.space is Space.UB:
                tensor = self._through_gm(name.lower(), tensor, needed)
            elif name == "B" and not is_trans and k0(self.dtype) < SIDE:
                raise KernelError(f"SetTensorB with {tensor!r}", f"B of {self.dtype} in L1 is stored transposed")
        self._operands[name] = tensor, is_trans
        self._job = None

    def _check_place(self, call: str, tensor: GlobalTensor | LocalTensor, type_: MatmulType) -> None:
        space, dtype = type_.position.space, dtype_of(type_.dtype)
        kind = GlobalTensor if space is Space.GM else LocalTensor
        if not isinstance(tensor, kind) or tensor.memory.space is not space or tensor.dtype != dtype:
            where = "" if space is Space.GM else f" in {space}"
            raise KernelError(f"{call} with {tensor!r}", f"it is a {kind.__name__} of {dtype}{where}")

    def _through_gm(self, name: str, tensor: LocalTensor, size: int) -> GlobalTensor:
        """Copy the first *size* elements of *tensor* in UB to the workspace, behind the vector pipe; return them."""
        room = self._rooms.get(name)
        if room is None:
            raise KernelError(
                f"{tensor!r} for a Matmul without a workspace",
                f"give REGIST_MATMUL_OBJ a buffer in GM of workspace_bytes(..., {name}={tensor.dtype})",
            )
        pass_flag(HardEvent.V_MTE3)
        part = room[:size]
        DataCopyPad(part, tensor, DataCopyExtParams(1, part.nbytes))
        return part

    def SetBias(self, tensor: GlobalTensor | LocalTensor) -> None:
        """Set the bias for the next product (Ascend C: SetBias).

        Args:
            tensor: The bias: an element for each column of this core's part of C. From UB it is copied, as A is.

        Raises:
            KernelError: The Matmul has no MatmulType for a bias, or its tiling has none, or the tensor is not where the
                MatmulType says.
        """
        if self.bias is None or not self._tiled.is_bias:
            raise KernelError(
                "SetBias on a Matmul without bias", "give it a MatmulType for it, and a tiling with is_bias"
            )
        self._check_place("SetBias", tensor, self.bias)
        if isinstance(tensor, LocalTensor):
            tensor = self._through_gm("bias", tensor, self._sizes[1])
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

    def SetSparseIndex(self, index_global: GlobalTensor) -> None:
        """Set the indices of a sparse B, of which every 4 numbers along k hold 2 (Ascend C: SetSparseIndex).

        B is int8, in GM, transposed and half as long; see `sparse`. It is for kernels on cube cores alone, and without
        a bias.

        Args:
            index_global: The indices in GM, uint8: for every 64 numbers along k, 8 bytes for each column of the whole
                B, whose number is rounded up to 16.

        Raises:
            KernelError: It is of another type, or the Matmul is of other types or has vector cores or a bias.
        """
        if not isinstance(index_global, GlobalTensor) or index_global.dtype != "uint8":
            raise KernelError(f"SetSparseIndex with {index_global!r}", "it is a GlobalTensor of uint8")
        in_gm = self.b.position.space is Space.GM and self.b.format is CubeFormat.ND and self.b.is_trans
        if self.dtype.name != "int8" or not in_gm or self.a.is_trans or self._tiled.is_bias or self._cube is None:
            raise KernelError(
                f"SetSparseIndex on {self!r} of {self.a} and {self.b}",
                "A and B are int8, B is ND in GM and transposed, there is no bias, and the kernel is AIC_ONLY",
            )
        tiling, step = self._tiled, 2 * k0(self.dtype)
        if tiling.single_core_k > tiling.base_k and tiling.base_k % step:
            raise KernelError(
                f"SetSparseIndex with a tiling with base_k {tiling.base_k}", f"it must be a multiple of {step}"
            )
        self._index_of_b = index_global
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
        rows = WholeSizes._make(map(integer, sizes))
        assert self._tiled
        for name, size in zip(WholeSizes._fields, rows, strict=True):
            if size < 1:
                raise KernelError(f"SetOrgShape: {name} is {size}", "a size is 1 or more")
        self._rows = rows
        self._is_reshaped = True
        self._job = None

    @property
    def _tiled(self) -> TCubeTiling:
        if self._tiling is None:
            raise KernelError(
                f"{self!r} has no tiling",
                "register it first: REGIST_MATMUL_OBJ(pipe, workspace, mm, tiling), or call Init(tiling)",
            )
        return self._tiling

    @property
    def _sizes(self) -> tuple[int, int, int]:
        assert self._shape is not None
        return self._shape

    @property
    def _width_of_c(self) -> int:
        """The columns of a fractal of C in NZ; 0 for C row by row."""
        if self.c.format is CubeFormat.ND:
            return 0
        itemsize = dtype_of(self.c.dtype).itemsize
        return SIDE if itemsize == 4 else BLOCK // itemsize

    @property
    def _row_of_c(self) -> int:
        """From one row of C in GM to the next, in elements; in NZ, the rows of a column of fractals."""
        return -(-self._rows.org_m // SIDE) * SIDE if self._width_of_c else self._rows.org_kc

    @property
    def _elements_of_c(self) -> int:
        """The elements of the whole C in GM; in NZ, of whole fractals."""
        width = self._width_of_c
        columns = -(-self._rows.org_kc // width) * width if width else self._rows.org_m
        return columns * self._row_of_c

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
            operands = self._operand("A"), self._operand("B")
            self._job = Job(
                number, *operands, self._bias, self._quant, *self._sizes, self._info, self._width_of_c,
                self._index_of_b, self._rows.org_n, self._policy,
            )  # fmt: skip
            self._index = -1
        return self._job

    def _operand(self, name: str) -> Operand:
        tensor, is_trans = self._operands[name]
        stored = self._stored(name, is_trans=is_trans)
        if stored.is_nz:
            self._check_pieces(name, is_trans=is_trans)
        if (self.a if name == "A" else self.b).position.space is not Space.GM and stored.elements > tensor.size:
            raise KernelError(
                f"{self!r}: {name} has {tensor.size} elements, and this core's part of it {stored.elements}",
                "call SetSingleShape() or SetTail() before SetTensorA() and SetTensorB()",
            )
        return Operand(tensor, is_trans, stored.row, stored.is_nz)

    def _stored(self, name: str, *, is_trans: bool) -> "_Stored":
        """Return how A or B is stored."""
        type_ = self.a if name == "A" else self.b
        space, width = type_.position.space, k0(self.dtype)
        m, n, ka, kb = self._rows[:4]
        if space is not Space.GM:
            (m, n, ka), kb = self._sizes, self._sizes[2]
        if self._index_of_b is not None:
            kb //= 2
        down, across = (m, ka) if name == "A" else (kb, n)
        if is_trans:
            down, across = across, down
        if type_.format is CubeFormat.ND and space is not Space.L1:
            return _Stored(across, down * across, is_nz=False)
        # Squares of int8 and int4b_t are transposed as a whole.
        tall = max(width, SIDE) if space is Space.L1 and name == "B" and not is_trans else SIDE
        height = -(-down // tall) * tall
        return _Stored(height, height * -(-across // width) * width, is_nz=True)

    def _check_pieces(self, name: str, *, is_trans: bool) -> None:
        """Raise KernelError unless the pieces of A or B in NZ begin at whole fractals."""
        tiling, (m, n, k), width = self._tiled, self._sizes, k0(self.dtype)
        down, across = ((m, "base_m"), (k, "base_k")) if name == "A" else ((k, "base_k"), (n, "base_n"))
        if is_trans:
            down, across = across, down
        for (size, field), side in ((down, SIDE), (across, width)):
            base = getattr(tiling, field)
            if size > base and base % side:
                raise KernelError(
                    f"a tiling with {field} {base} for {name} of {self.dtype} in NZ", f"it must be a multiple of {side}"
                )

    def _check_part(self) -> None:
        m, n, k = self._sizes
        for name, size, part in zip(WholeSizes._fields, self._rows, (m, n, k, k, n), strict=True):
            if part > size:
                raise KernelError(
                    f"{self!r} after SetOrgShape with {name} {size}, and this core's part of it is {part}",
                    "a part is no larger than the whole: call SetSingleShape(), or SetOrgShape() with the whole size",
                )
