"""acl.blas: products of matrices, C = alpha A B + beta C, and of a matrix and a vector. They are the operator GEMM.

Matrices lie row by row, A is m x k, B is k x n. All addresses are of the device, alpha's and beta's too, which have the
data type of C. What the vendor reserves has one value: leading dimensions -1, the precision 0.
"""

from collections.abc import Sequence
from typing import Self

from acl_py.compat.acl.face.binding import takes
from acl_py.compat.acl.face.session import INVALID_PARAM, NOT_SUPPORTED, SUCCESS, Session, session
from acl_py.compat.acl.functions.base import data_buffers, tensors
from acl_py.compat.acl.functions.op import attributes, operators

_PLAIN, _TRANSPOSED, _FRACTAL = range(3)  # aclTransType
_FLOAT16, _INT8, _INT32 = 1, 2, 3  # aclDataType
_ND = 2  # a format
_RESERVED = -1  # of a leading dimension


def _refused(here: Session, trans: Sequence[int], sizes: Sequence[int], precision: int) -> int:
    """The code for what all of these functions take, 0 if it is well."""
    if min(sizes) <= 0:
        return here.refuse(INVALID_PARAM, f"m, n and k must be 1 or more, not {', '.join(map(str, sizes))}")
    *factors, product = trans
    if not all(_PLAIN <= each <= _FRACTAL for each in factors) or product not in (_PLAIN, _FRACTAL):
        return here.refuse(
            INVALID_PARAM, f"transpose flags must be 0, 1 or 2, and 0 or 2 for C, not {', '.join(map(str, trans))}"
        )
    if precision:
        return here.refuse(INVALID_PARAM, f"the precision is 0, not {precision}")
    if _FRACTAL in trans:
        return here.refuse(NOT_SUPPORTED, "matrices in fractal format are not simulated")
    return SUCCESS


class _Gemm:
    """The operator with its descriptions and attributes, for as long as a call needs them."""

    def __init__(self, trans: Sequence[int], sizes: Sequence[int], dtypes: Sequence[int]) -> None:
        m, n, k = sizes
        turn_a, turn_b = (each == _TRANSPOSED for each in trans[:2])
        of_a, of_b, of_c = dtypes
        self.descs = [
            tensors.create_tensor_desc(of_a, [k, m] if turn_a else [m, k], _ND),
            tensors.create_tensor_desc(of_b, [n, k] if turn_b else [k, n], _ND),
            tensors.create_tensor_desc(of_c, [m, n], _ND),
            tensors.create_tensor_desc(of_c, [], _ND),  # of alpha and beta
        ]
        self.attr = attributes.create_attr()
        for name, turn in (("transpose_a", turn_a), ("transpose_b", turn_b)):
            attributes.set_attr_bool(self.attr, name, turn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.descs:
            tensors.destroy_tensor_desc(each)
        attributes.destroy_attr(self.attr)

    @property
    def inputs(self) -> list[int]:
        """A, B, C, alpha and beta."""
        return [*self.descs, self.descs[-1]]

    def execute(self, addresses: Sequence[int], stream: int) -> int:
        """Queue it; *addresses* are those of the inputs."""
        sizes = map(tensors.get_tensor_desc_size, self.inputs)
        buffers = [data_buffers.create_data_buffer(*each) for each in zip(addresses, sizes, strict=True)]
        try:
            return operators.execute_v2("GEMM", self.inputs, buffers, [self.descs[2]], [buffers[2]], self.attr, stream)
        finally:
            for each in buffers:
                data_buffers.destroy_data_buffer(each)

    def handle(self) -> tuple[int, int]:
        """A handle for acl.op.execute_with_handle."""
        handle: tuple[int, int] = operators.create_handle("GEMM", self.inputs, [self.descs[2]], self.attr)
        return handle


@takes("iiiiiikkiikiikkiiik")
def gemm_ex(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, alpha: int,
    a: int, lda: int, dtype_a: int, b: int, ldb: int, dtype_b: int, beta: int, c: int, ldc: int, dtype_c: int,
    precision: int, stream: int,
) -> int:  # fmt: skip
    """Queue C = alpha A B + beta C; a *trans* of 1 is for a matrix that lies there transposed."""
    here, trans, addresses = session(), (trans_a, trans_b, trans_c), (a, b, c, alpha, beta)
    if not all(addresses):
        return here.refuse(INVALID_PARAM, "an address is 0")
    code = _refused(here, trans, (m, n, k), precision)
    if code:
        return code
    if (lda, ldb, ldc) != (_RESERVED,) * 3:
        return here.refuse(INVALID_PARAM, f"leading dimensions are -1, not {lda}, {ldb} and {ldc}")
    with _Gemm(trans, (m, n, k), (dtype_a, dtype_b, dtype_c)) as gemm:
        return gemm.execute(addresses, stream)


@takes("iiiiiiiiii")
def create_handle_for_gemm_ex(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int,
    dtype_a: int, dtype_b: int, dtype_c: int, precision: int,
) -> tuple[int, int]:  # fmt: skip
    """Make a handle for acl.op.execute_with_handle, whose inputs are A, B, C, alpha and beta, and whose output is C."""
    trans = trans_a, trans_b, trans_c
    code = _refused(session(), trans, (m, n, k), precision)
    if code:
        return 0, code
    with _Gemm(trans, (m, n, k), (dtype_a, dtype_b, dtype_c)) as gemm:
        return gemm.handle()


@takes("iiiiiikkikikkiik")
def hgemm(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, alpha: int,
    a: int, lda: int, b: int, ldb: int, beta: int, c: int, ldc: int, precision: int, stream: int,
) -> int:  # fmt: skip
    """gemm_ex of float16."""
    half = _FLOAT16
    return gemm_ex(trans_a, trans_b, trans_c, m, n, k, alpha, a, lda, half, b, ldb, half, beta, c, ldc, half,
                   precision, stream)  # fmt: skip


@takes("iiiiiii")
def create_handle_for_hgemm(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, precision: int
) -> tuple[int, int]:
    """create_handle_for_gemm_ex of float16."""
    half = _FLOAT16
    return create_handle_for_gemm_ex(trans_a, trans_b, trans_c, m, n, k, half, half, half, precision)


@takes("iiiiiikkikikkiik")
def s8gemm(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, alpha: int,
    a: int, lda: int, b: int, ldb: int, beta: int, c: int, ldc: int, precision: int, stream: int,
) -> int:  # fmt: skip
    """gemm_ex of int8, whose product is int32."""
    return gemm_ex(trans_a, trans_b, trans_c, m, n, k, alpha, a, lda, _INT8, b, ldb, _INT8, beta, c, ldc, _INT32,
                   precision, stream)  # fmt: skip


@takes("iiiiiii")
def create_handle_for_s8gemm(
    trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, precision: int
) -> tuple[int, int]:
    """create_handle_for_gemm_ex of int8, whose product is int32."""
    return create_handle_for_gemm_ex(trans_a, trans_b, trans_c, m, n, k, _INT8, _INT8, _INT32, precision)


# --- of a matrix and a vector, which is a matrix of one column


@takes("iiikkiikiikkiiik")
def gemv_ex(
    trans_a: int, m: int, n: int, alpha: int, a: int, lda: int, dtype_a: int, x: int, incx: int, dtype_x: int,
    beta: int, y: int, incy: int, dtype_y: int, precision: int, stream: int,
) -> int:  # fmt: skip
    """Queue y = alpha A x + beta y; A is m x n."""
    return gemm_ex(trans_a, _PLAIN, _PLAIN, m, 1, n, alpha, a, lda, dtype_a, x, incx, dtype_x, beta, y, incy, dtype_y,
                   precision, stream)  # fmt: skip


@takes("iiiiiii")
def create_handle_for_gemv_ex(
    trans_a: int, m: int, n: int, dtype_a: int, dtype_x: int, dtype_y: int, precision: int
) -> tuple[int, int]:
    """Make a handle for acl.op.execute_with_handle, whose inputs are A, x, y, alpha and beta, and whose output is y."""
    return create_handle_for_gemm_ex(trans_a, _PLAIN, _PLAIN, m, 1, n, dtype_a, dtype_x, dtype_y, precision)


@takes("iiikkikikkiik")
def hgemv(
    trans_a: int, m: int, n: int, alpha: int, a: int, lda: int, x: int, incx: int, beta: int, y: int, incy: int,
    precision: int, stream: int,
) -> int:  # fmt: skip
    """gemv_ex of float16."""
    return hgemm(trans_a, _PLAIN, _PLAIN, m, 1, n, alpha, a, lda, x, incx, beta, y, incy, precision, stream)


@takes("iiii")
def create_handle_for_hgemv(trans_a: int, m: int, n: int, precision: int) -> tuple[int, int]:
    """create_handle_for_gemv_ex of float16."""
    return create_handle_for_hgemm(trans_a, _PLAIN, _PLAIN, m, 1, n, precision)


@takes("iiikkikikkiik")
def s8gemv(
    trans_a: int, m: int, n: int, alpha: int, a: int, lda: int, x: int, incx: int, beta: int, y: int, incy: int,
    precision: int, stream: int,
) -> int:  # fmt: skip
    """gemv_ex of int8, whose product is int32."""
    return s8gemm(trans_a, _PLAIN, _PLAIN, m, 1, n, alpha, a, lda, x, incx, beta, y, incy, precision, stream)


@takes("iiii")
def create_handle_for_s8gemv(trans_a: int, m: int, n: int, precision: int) -> tuple[int, int]:
    """create_handle_for_gemv_ex of int8, whose product is int32."""
    return create_handle_for_s8gemm(trans_a, _PLAIN, _PLAIN, m, 1, n, precision)
