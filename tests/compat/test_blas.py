"""acl.blas: products of matrices and vectors, with and without handles; what is refused."""

import numpy as np
import pytest
from card import content, done, made

from acl_py.compat.acl.face.session import session

H2D = 1
N, T, NZ = range(3)  # aclTransType
A = np.arange(-6, 6, dtype=np.float16).reshape(3, 4)
B = np.arange(20, dtype=np.float16).reshape(4, 5) / 4
C = np.ones((3, 5), np.float16)


def upload(acl, values):
    """The address of a copy in device memory."""
    array = np.ascontiguousarray(values)
    address = made(acl.rt.malloc(array.nbytes, 0))
    done(acl.rt.memcpy(address, array.nbytes, array.ctypes.data, array.nbytes, H2D))
    return address


def download(acl, address, like):
    """What is there, with the shape and the dtype of an array."""
    return np.frombuffer(content(acl, address, like.nbytes), like.dtype).reshape(like.shape)


def numbers(acl, dtype, *values):
    """Addresses of single numbers."""
    return [upload(acl, np.array(value, dtype)) for value in values]


def test_hgemm_waits_in_its_stream(acl):
    (alpha, beta), c = numbers(acl, np.float16, 2, 3), upload(acl, C)
    done(acl.blas.hgemm(N, N, N, 3, 5, 4, alpha, upload(acl, A), -1, upload(acl, B), -1, beta, c, -1, 0, 0))
    done(acl.rt.synchronize_stream(0))
    assert np.array_equal(download(acl, c, C), 2 * (A @ B) + 3 * C)


@pytest.mark.parametrize(("trans_a", "trans_b"), [(N, T), (T, N), (T, T)])
def test_transposed_matrices_lie_there_so(acl, trans_a, trans_b):
    alpha, beta = numbers(acl, np.float32, 1, 0)
    a, b = upload(acl, A.T if trans_a else A), upload(acl, B.T if trans_b else B)
    c = upload(acl, C.astype(np.float32))
    done(acl.blas.gemm_ex(trans_a, trans_b, N, 3, 5, 4, alpha, a, -1, 1, b, -1, 1, beta, c, -1, 0, 0, 0))
    done(acl.rt.synchronize_stream(0))
    assert np.array_equal(download(acl, c, C.astype(np.float32)), A.astype(np.float32) @ B)


def test_bytes_are_summed_in_32_bits(acl):
    a, b = np.full((2, 64), 127, np.int8), np.full((64, 3), -128, np.int8)
    c = np.arange(6, dtype=np.int32).reshape(2, 3)
    (alpha, beta), place = numbers(acl, np.int32, 2, -1), upload(acl, c)
    done(acl.blas.s8gemm(N, N, N, 2, 3, 64, alpha, upload(acl, a), -1, upload(acl, b), -1, beta, place, -1, 0, 0))
    done(acl.rt.synchronize_stream(0))
    assert np.array_equal(download(acl, place, c), np.full((2, 3), -2 * 64 * 127 * 128) - c)


def test_a_matrix_and_a_vector(acl):
    x, y = A[0], np.zeros(3, np.float16)
    alpha, beta = numbers(acl, np.float16, 1, 0)
    a, vector = upload(acl, A), upload(acl, x)
    for function, kinds in ((acl.blas.hgemv, ()), (acl.blas.gemv_ex, (1,))):
        place = upload(acl, y)
        done(function(N, 3, 4, alpha, a, -1, *kinds, vector, -1, *kinds, beta, place, -1, *kinds, 0, 0))
        done(acl.rt.synchronize_stream(0))
        assert np.array_equal(download(acl, place, y), A @ x)
    small, place = np.array([[1, -2], [3, 4]], np.int8), upload(acl, np.zeros(2, np.int32))
    one, zero = numbers(acl, np.int32, 1, 0)
    done(acl.blas.s8gemv(N, 2, 2, one, upload(acl, small), -1, upload(acl, small[0]), -1, zero, place, -1, 0, 0))
    done(acl.rt.synchronize_stream(0))
    assert download(acl, place, np.zeros(2, np.int32)).tolist() == [5, -5]


def test_handles_go_with_execute_with_handle(acl):
    handles = [
        made(acl.blas.create_handle_for_hgemm(N, N, N, 3, 5, 4, 0)),
        made(acl.blas.create_handle_for_gemm_ex(N, N, N, 3, 5, 4, 1, 1, 1, 0)),
    ]
    for handle in handles:
        arrays = A, B, C, np.array(1, np.float16), np.array(1, np.float16)
        buffers = [acl.create_data_buffer(upload(acl, each), each.nbytes) for each in arrays]
        done(acl.op.execute_with_handle(handle, buffers, [buffers[2]], 0), acl.rt.synchronize_stream(0))
        assert np.array_equal(download(acl, acl.get_data_buffer_addr(buffers[2]), C), A @ B + C)
        acl.op.destroy_handle(handle)
    for answer in (
        acl.blas.create_handle_for_s8gemm(N, N, N, 1, 1, 1, 0),
        acl.blas.create_handle_for_gemv_ex(N, 3, 4, 1, 1, 1, 0),
        acl.blas.create_handle_for_hgemv(N, 3, 4, 0),
        acl.blas.create_handle_for_s8gemv(N, 3, 4, 0),
    ):
        acl.op.destroy_handle(made(answer))


@pytest.mark.parametrize(
    ("trans", "sizes", "leading", "precision", "ret"),
    [
        ((N, N, T), (1, 1, 1), (-1, -1, -1), 0, 100000),
        ((3, N, N), (1, 1, 1), (-1, -1, -1), 0, 100000),
        ((N, N, N), (0, 1, 1), (-1, -1, -1), 0, 100000),
        ((N, N, N), (1, 1, 1), (1, -1, -1), 0, 100000),
        ((N, N, N), (1, 1, 1), (-1, 1, -1), 0, 100000),
        ((N, N, N), (1, 1, 1), (-1, -1, 1), 0, 100000),
        ((N, N, N), (1, 1, 1), (-1, -1, -1), 1, 100000),
        ((NZ, N, N), (1, 1, 1), (-1, -1, -1), 0, 207000),
    ],
)
def test_what_is_refused(acl, trans, sizes, leading, precision, ret):
    place, (lda, ldb, ldc) = upload(acl, np.zeros(4, np.float16)), leading
    assert acl.blas.hgemm(*trans, *sizes, place, place, lda, place, ldb, place, place, ldc, precision, 0) == ret
    if leading == (-1, -1, -1):
        assert acl.blas.create_handle_for_hgemm(*trans, *sizes, precision) == (0, ret)


def test_an_address_of_0_and_memory_that_is_too_small(acl):
    place = upload(acl, np.zeros(4, np.float16))
    assert acl.blas.hgemm(N, N, N, 1, 1, 1, place, 0, -1, place, -1, place, place, -1, 0, 0) == 100000
    assert acl.blas.hgemm(N, N, N, 9, 9, 9, place, place, -1, place, -1, place, place, -1, 0, 0) == 107000


def test_nothing_is_left_behind(acl):
    place = upload(acl, np.zeros(64, np.float16))
    before = len(session().objects)
    acl.blas.hgemm(N, N, N, 1, 1, 1, place, place, -1, place, -1, place, place, -1, 0, 0)
    acl.blas.hgemm(N, N, N, 99, 99, 99, place, place, -1, place, -1, place, place, -1, 0, 0)
    handle = made(acl.blas.create_handle_for_hgemm(N, N, N, 1, 1, 1, 0))
    acl.op.destroy_handle(handle)
    assert len(session().objects) == before
