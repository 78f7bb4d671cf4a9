"""What a Matmul object multiplies: the types, places and sizes of A, B, C and the bias.

`Product` has the calls that set them. The next product begins with what was set last.
"""

from dataclasses import dataclass
from enum import Enum
from operator import index as integer
from typing import Any, NamedTuple

import numpy.typing as npt

from device_model.aicore.core.machine import Core, running
from device_model.aicore.core.names import Space, TPosition
from device_model.aicore.core.tensors import GlobalTensor, dtype_of
from device_model.aicore.cube.matmul_cube import Cube, Job, MatmulCallBackFunc, Operand
from device_model.aicore.cube.matmul_tiling import TCubeTiling
from device_model.kernel.findings import KernelError

_NO_CALL_BACK = MatmulCallBackFunc()


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


class WholeSizes(NamedTuple):
    """The sizes of the whole matrices, from which follows how far apart their rows are."""

    org_m: int
    org_n: int
    org_ka: int
    org_kb: int
    org_kc: int  # columns of C


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
        self._rows = WholeSizes(0, 0, 0, 0, 0)
        self._is_reshaped = False
        self._is_asked = False  # whether the cube core owes an answer
        self._job: Job | None = None
        self._jobs = 0
        self._index = -1

    def __repr__(self) -> str:
        shape = self._shape or "not registered"
        return f"<Matmul {self.dtype} {shape}, piece {self._index}>"

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
        for name, size, part in zip(WholeSizes._fields, self._rows, (m, n, k, k, n), strict=True):
            if part > size:
                raise KernelError(
                    f"{self!r} after SetOrgShape with {name} {size}, and this core's part of it is {part}",
                    "a part is no larger than the whole: call SetSingleShape(), or SetOrgShape() with the whole size",
                )
