"""Addresses as scripts take them: of bytes that they keep, of temporaries, of arrays that are not contiguous."""

import numpy as np
import pytest
from card import content, made

from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.report import findings, leaks

H2D = 1
N = 64


def test_a_copy_from_a_temporary_finds_its_bytes(acl):
    array = np.arange(N, dtype=np.uint8)
    device = made(acl.rt.malloc(N, 0))
    for turn in range(20):
        pointer = acl.util.bytes_to_ptr((array + turn).tobytes())
        assert acl.rt.memcpy(device, N, pointer, N, H2D) == 0
        assert content(acl, device, N) == (array + turn).tobytes()


def test_a_helper_function_may_return_the_address_of_its_bytes(acl):
    def address_of(array):
        data = array.tobytes()
        return acl.util.bytes_to_ptr(data)

    arrays = [np.full(16, value, np.uint8) for value in range(8)]
    addresses = [address_of(array) for array in arrays]
    for array, address in zip(arrays, addresses, strict=True):
        assert acl.util.ptr_to_bytes(address, 16) == array.tobytes()


def test_a_temporary_is_a_finding_once_a_line(acl):
    array = np.zeros(N, np.uint8)
    for _ in range(3):
        acl.util.bytes_to_ptr(array.tobytes())
    kept = array.tobytes()
    acl.util.bytes_to_ptr(kept)
    (finding,) = [each for each in findings(session()) if "temporary" in each]
    assert finding.startswith("acl.util.bytes_to_ptr() at test_outside_addresses.py:")


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_of_arrays_only_those_that_own_their_values_can_be_temporaries(acl):
    array = np.zeros((N, N), np.uint8)
    acl.util.numpy_to_ptr(array)
    acl.util.numpy_to_ptr(array[3])
    assert not [each for each in findings(session()) if "temporary" in each]
    acl.util.numpy_to_ptr(array.copy())
    (finding,) = [each for each in findings(session()) if "temporary" in each]
    assert finding.startswith("acl.util.numpy_to_ptr() at")


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_an_array_that_is_not_contiguous_is_warned_of(acl):
    array = np.arange(8, dtype=np.uint8)
    with pytest.warns(UserWarning, match="not contiguous"):
        address = acl.util.numpy_to_ptr(array[::2])
    assert address == array.ctypes.data


def test_a_constant_of_an_operator_is_copied_when_it_is_set(acl):
    """A script's constant is often a local bytes object, which is gone when the operator runs."""
    ND, FLOAT, INT32 = 2, 0, 3
    x = np.zeros(100, np.float32)
    x[41] = 1
    source, result = made(acl.rt.malloc(400, 0)), made(acl.rt.malloc(4, 0))
    assert acl.rt.memcpy(source, 400, x.ctypes.data, 400, H2D) == 0
    inputs = [acl.create_tensor_desc(FLOAT, [100], ND), acl.create_tensor_desc(INT32, [1], ND)]
    output = acl.create_tensor_desc(INT32, [1], ND)
    dimension = np.zeros(1, np.int32)
    assert acl.set_tensor_const(inputs[1], dimension.ctypes.data, 4) == 0
    dimension[0] = 77
    buffers = [acl.create_data_buffer(source, 400), acl.create_data_buffer(0, 0)]
    outputs = [acl.create_data_buffer(result, 4)]
    assert acl.op.execute_v2("ArgMaxV2", inputs, buffers, [output], outputs, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    assert np.frombuffer(content(acl, result, 4), np.int32)[0] == 41


def test_a_constant_that_is_nowhere_is_refused(acl):
    desc = acl.create_tensor_desc(0, [4], 2)
    assert [acl.set_tensor_const(desc, address, 16) for address in (0, 8)] == [100000, 100000]
    assert acl.set_tensor_const(0, 0, 0) == 100000


@pytest.mark.parametrize("nbytes", [N, 1 << 17])
def test_an_array_over_pinned_memory_may_be_looked_at_after_it_was_freed(acl, nbytes):
    """Scripts do so; the memory is freed for the module, and stays mapped for the array."""
    host = made(acl.rt.malloc_host(nbytes))
    array = acl.util.ptr_to_numpy(host, (nbytes,), 2)
    part = acl.util.ptr_to_numpy(host + 8, (2, 2), 11)
    array[:] = 7
    assert part.view(np.uint32).tolist() == [[0x07070707] * 2] * 2
    assert acl.rt.free_host(host) == 0
    assert not leaks(session())
    assert (array.sum(), part.shape) == (7 * nbytes, (2, 2))
    assert acl.rt.free_host(host) == 107000


def test_an_array_that_begins_in_pinned_memory_may_go_beyond_its_end(acl):
    """Of the process' memory more is there than was asked for, and the binding looks at nothing else."""
    host = made(acl.rt.malloc_host(100))
    assert acl.util.ptr_to_numpy(host, (4,), 2)[:].shape == (4,)
    assert acl.util.ptr_to_numpy(host + 96, (8,), 2).shape == (8,)


def test_registered_memory_is_free_to_go_while_an_array_lies_over_it(acl):
    memory = np.arange(1 << 16, dtype=np.uint8)
    address = memory.ctypes.data
    assert acl.rt.host_register(address, memory.nbytes, 0) == (address, 0)
    array = acl.util.ptr_to_numpy(address, (16,), 2)
    assert acl.rt.host_unregister(address) == 0
    memory[:16] = 7
    assert array.tolist() == [7] * 16
