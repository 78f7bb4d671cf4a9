"""acl.util as its vendor would test it: host memory as addresses and back, and threads."""

import threading
import warnings

import numpy as np
import pytest
from card import D2H, H2D, done, made

# NumPy's type numbers, as scripts write them down.
TYPES = {1: np.int8, 2: np.uint8, 3: np.int16, 4: np.uint16, 5: np.int32, 6: np.uint32, 11: np.float32, 12: np.float64,
         23: np.float16, 0: np.bool_, 7: np.int64, 8: np.uint64}  # fmt: skip


def numpy_to_ptr(acl, array):
    """What the binding warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return acl.util.numpy_to_ptr(array)


def test_bytes_to_ptr_is_the_address_inside_the_bytes(acl):
    data = bytes(range(64))
    pointer = acl.util.bytes_to_ptr(data)
    assert type(pointer) is int
    assert acl.util.ptr_to_bytes(pointer, 64) == data
    assert acl.util.ptr_to_bytes(pointer + 8, 8) == data[8:16]


def test_scripts_write_into_bytes_and_read_them_with_frombuffer(acl):
    device, result = made(acl.rt.malloc(64, 0)), bytes(64)
    done(acl.rt.memset(device, 64, 7, 64))
    done(acl.rt.memcpy(acl.util.bytes_to_ptr(result), 64, device, 64, D2H))
    assert (np.frombuffer(result, np.uint8) == 7).all()


def test_the_usual_way_of_acllite_in_and_out(acl):
    """An image as bytes to the device, and back into a fresh bytes object."""
    image = np.arange(300, dtype=np.float32).reshape(1, 3, 10, 10)
    data = image.tobytes()
    size = len(data)
    device = made(acl.rt.malloc(size, 2))
    done(acl.rt.memcpy(device, size, acl.util.bytes_to_ptr(data), size, H2D))
    host = made(acl.rt.malloc_host(size))
    done(acl.rt.memcpy(host, size, device, size, D2H))
    assert (np.frombuffer(acl.util.ptr_to_bytes(host, size), np.float32).reshape(image.shape) == image).all()
    done(acl.rt.free_host(host), acl.rt.free(device))


@pytest.mark.parametrize("wrong", ["text", 1, None, bytearray(8), np.zeros(8), [1]])
def test_bytes_to_ptr_takes_bytes(acl, wrong):
    with pytest.raises((TypeError, ValueError)):
        acl.util.bytes_to_ptr(wrong)


def test_ptr_to_bytes_is_a_copy(acl):
    host = made(acl.rt.malloc_host(8))
    view = acl.util.ptr_to_numpy(host, (8,), 2)
    view[:] = 1
    copy = acl.util.ptr_to_bytes(host, 8)
    view[:] = 2
    assert (copy, type(copy)) == (bytes([1] * 8), bytes)
    assert acl.util.ptr_to_bytes(host, 0) == b""


@pytest.mark.parametrize(("number", "dtype"), TYPES.items(), ids=lambda each: getattr(each, "__name__", str(each)))
def test_ptr_to_numpy_is_a_view_of_any_type_by_its_number(acl, number, dtype):
    array = np.array([[1, 0, 1], [0, 1, 1]], dtype)
    view = acl.util.ptr_to_numpy(numpy_to_ptr(acl, array), (2, 3), number)
    assert (view.dtype, view.shape) == (array.dtype, (2, 3))
    assert (view == array).all()
    view[0, 1] = 1
    assert array[0, 1] == 1
    array[1, 0] = 1
    assert view[1, 0] == 1


@pytest.mark.parametrize("shape", [[2, 3], 6, None, "6"])
def test_the_shape_is_a_tuple(acl, shape):
    array = np.zeros(6, np.uint8)
    with pytest.raises((TypeError, ValueError)):
        acl.util.ptr_to_numpy(array.ctypes.data, shape, 2)


@pytest.mark.parametrize("number", [-1, 17, 999])
def test_a_type_number_that_is_none(acl, number):
    array = np.zeros(6, np.uint8)
    with pytest.raises((TypeError, ValueError)):
        acl.util.ptr_to_numpy(array.ctypes.data, (6,), number)


def test_numpy_to_ptr_is_deprecated_and_gives_the_address_of_the_data(acl):
    array = np.arange(4, dtype=np.int32)
    with pytest.warns(DeprecationWarning, match="numpy_contiguous_to_ptr|bytes_to_ptr"):
        pointer = acl.util.numpy_to_ptr(array)
    assert pointer == array.ctypes.data


def test_numpy_to_ptr_of_a_part(acl):
    array = np.arange(16, dtype=np.int32)
    assert numpy_to_ptr(acl, array[4:]) == array.ctypes.data + 16


@pytest.mark.parametrize("wrong", [[1, 2], b"12", 1, None])
def test_numpy_functions_take_arrays(acl, wrong):
    for name in ("numpy_to_ptr", "numpy_contiguous_to_ptr"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            with pytest.raises((TypeError, ValueError)):
                getattr(acl.util, name)(wrong)


def test_numpy_contiguous_to_ptr(acl):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    pointer, same = acl.util.numpy_contiguous_to_ptr(array)
    assert pointer == same.ctypes.data
    assert np.shares_memory(same, array)
    pointer, other = acl.util.numpy_contiguous_to_ptr(array.T)
    assert (pointer, other.flags.c_contiguous) == (other.ctypes.data, True)
    assert (other == array.T).all()
    assert not np.shares_memory(other, array)


def test_read_only_arrays_have_addresses_too(acl):
    array = np.frombuffer(bytes(range(8)), np.uint8)
    device = made(acl.rt.malloc(8, 0))
    done(acl.rt.memcpy(device, 8, numpy_to_ptr(acl, array), 8, H2D))
    out = bytes(8)
    done(acl.rt.memcpy(acl.util.bytes_to_ptr(out), 8, device, 8, D2H))
    assert out == bytes(range(8))


# --- threads


def test_threads(acl):
    seen, args = [], [1, "two", None]
    tid = made(acl.util.start_thread(lambda given: seen.append((given, threading.get_ident())), args))
    done(acl.util.stop_thread(tid))
    assert (seen, type(tid)) == ([(args, tid)], int)
    assert seen[0][0] is args


@pytest.mark.parametrize("wrong", [None, 1, "function", [print]])
def test_start_thread_takes_a_callable(acl, wrong):
    with pytest.raises((TypeError, ValueError)):
        acl.util.start_thread(wrong, [1])


def test_start_thread_takes_two_arguments(acl):
    with pytest.raises(TypeError):
        acl.util.start_thread(print)


@pytest.mark.parametrize("wrong", [None, "1", 1.0])
def test_stop_thread_takes_an_int(acl, wrong):
    with pytest.raises(TypeError):
        acl.util.stop_thread(wrong)


def test_stop_thread_tells_what_was_raised_with_its_lines(acl):
    def function(_):
        raise KeyError("a bug of the script")

    tid = made(acl.util.start_thread(function, [1]))
    with pytest.raises(RuntimeError, match="a bug of the script") as caught:
        acl.util.stop_thread(tid)
    assert "KeyError" in str(caught.value)


def test_a_thread_with_the_wrong_number_of_parameters(acl):
    tid = made(acl.util.start_thread(lambda: None, [1]))
    with pytest.raises(RuntimeError, match="TypeError"):
        acl.util.stop_thread(tid)
