"""Lists of kernel arguments through the module: their order, placeholders, updates, memory of the caller's, limits."""

import ctypes
import threading

import numpy as np
import pytest
from card import done, made, module
from hypothesis import given
from hypothesis import strategies as st
from kernel_launches import append, appended, binary_of, download, function_of, kernels_run, upload

from acl_py.compat.acl import Parameter, register_kernel, unregister_kernel
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.report import leaks

X = np.arange(4, dtype=np.int32)


@pytest.fixture
def path(tmp_path):
    """A binary with the kernels add and fill."""
    return binary_of(tmp_path)


@pytest.fixture
def tiled():
    """A kernel whose tiling comes with its arguments, and the tilings that it got."""
    seen = []
    parameters = [
        Parameter("z", "int32", "inout", (4,)),
        Parameter("tiling", "uint32", "in", ("count",)),
        Parameter("count", "uint32"),
        Parameter("more", "uint8", "in"),
    ]

    @register_kernel("tiled.o", parameters, name="tiled", cost_us=1)
    def tile(z, tiling, count, more):
        z += 1
        seen.append((tiling.tolist(), count, bytes(more)))

    yield seen
    unregister_kernel("tiled.o")


def host_bytes(size):
    """Memory of the host, and its address."""
    buffer = ctypes.create_string_buffer(size)
    return buffer, ctypes.addressof(buffer)


def test_a_placeholder_brings_memory_along(acl, tiled):
    function, z = function_of(acl, "tiled.o", "tiled"), upload(acl, X)
    args = made(acl.rt.kernel_args_init(function))
    append(acl, args, z)
    first = made(acl.rt.kernel_args_append_place_holder(args))
    append(acl, args, np.uint32(3))
    second = made(acl.rt.kernel_args_append_place_holder(args))
    tiling = made(acl.rt.kernel_args_get_place_holder_buffer(args, first, 12))
    acl.util.ptr_to_numpy(tiling, (3,), np.dtype(np.uint32).num)[:] = 7, 8, 9
    text = made(acl.rt.kernel_args_get_place_holder_buffer(args, second, 5))
    done(acl.rt.memcpy(text, 5, acl.util.bytes_to_ptr(b"hello"), 5, 0))
    assert tiling % 8 == text % 8 == 0
    done(acl.rt.kernel_args_finalize(args), acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0))
    acl.util.ptr_to_numpy(tiling, (3,), np.dtype(np.uint32).num)[:] = 0  # the launch has what there was
    done(acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0), acl.rt.synchronize_stream(0))
    assert tiled == [([7, 8, 9], 3, b"hello"), ([0, 0, 0], 3, b"hello")]
    assert download(acl, z, np.int32, 4) == (X + 2).tolist()


def test_a_placeholder_has_a_buffer_and_one_that_is_large_enough(acl, tiled):
    function, z = function_of(acl, "tiled.o", "tiled"), upload(acl, X)
    for size, text in ((0, "the placeholder at 8 has no buffer"), (8, "takes 12 bytes, and its placeholder has 8")):
        args = made(acl.rt.kernel_args_init(function))
        append(acl, args, z)
        tiling = made(acl.rt.kernel_args_append_place_holder(args))
        append(acl, args, np.uint32(3))
        append(acl, args, 0)
        if size:
            made(acl.rt.kernel_args_get_place_holder_buffer(args, tiling, size))
        done(acl.rt.kernel_args_finalize(args))
        assert acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0) == 107000
        assert text in acl.get_recent_err_msg()


def test_the_order_of_calls(acl, tiled):
    function = function_of(acl, "tiled.o", "tiled")
    args = made(acl.rt.kernel_args_init(function))
    buffer, address = host_bytes(8)
    value = made(acl.rt.kernel_args_append(args, address, 8))
    holder = made(acl.rt.kernel_args_append_place_holder(args))
    assert acl.rt.kernel_args_get_place_holder_buffer(args, value, 8) == (0, 107000)
    assert acl.rt.kernel_args_get_place_holder_buffer(args, holder, 0) == (0, 100000)
    made(acl.rt.kernel_args_get_place_holder_buffer(args, holder, 8))
    assert acl.rt.kernel_args_append(args, address, 8) == (0, 207000)
    assert acl.rt.kernel_args_append_place_holder(args) == (0, 207000)
    assert acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0) == 107000
    assert "call kernel_args_finalize()" in acl.get_recent_err_msg()
    done(acl.rt.kernel_args_finalize(args))
    assert acl.rt.kernel_args_get_place_holder_buffer(args, holder, 8) == (0, 207000)
    assert acl.rt.kernel_args_append(args, address, 8) == (0, 207000)
    assert buffer.raw == bytes(8)


def test_an_argument_may_be_updated(acl, path):
    fill, z = function_of(acl, path, "fill"), upload(acl, X)
    args = made(acl.rt.kernel_args_init(fill))
    append(acl, args, z)
    values = append(acl, args, np.array([1, 2], np.int16))
    done(acl.rt.kernel_args_finalize(args), acl.rt.launch_kernel_with_config(fill, 1, 0, [], args, 0))
    done(acl.rt.synchronize_stream(0))
    assert download(acl, z, np.int32, 4) == [1, 2, 1, 2]
    new = np.array([3, 4], np.int16)
    assert acl.rt.kernel_args_para_update(args, values, new.ctypes.data, 2) == 107000
    done(acl.rt.kernel_args_para_update(args, values, new.ctypes.data, 4))
    assert acl.rt.launch_kernel_with_config(fill, 1, 0, [], args, 0) == 107000
    assert "the list of arguments was updated" in acl.get_recent_err_msg()
    done(acl.rt.kernel_args_finalize(args), acl.rt.launch_kernel_with_config(fill, 1, 0, [], args, 0))
    done(acl.rt.synchronize_stream(0))
    assert download(acl, z, np.int32, 4) == [3, 4, 3, 4]


def test_a_placeholder_is_not_updated(acl, path):
    args = made(acl.rt.kernel_args_init(function_of(acl, path, "fill")))
    holder = made(acl.rt.kernel_args_append_place_holder(args))
    _, address = host_bytes(8)
    assert acl.rt.kernel_args_para_update(args, holder, address, 8) == 107000


def test_a_thread_has_one_list_and_begins_it_anew(acl, path):
    fill = function_of(acl, path, "fill")
    first = made(acl.rt.kernel_args_init(fill))
    argument = append(acl, first, np.uint32(1))
    assert made(acl.rt.kernel_args_init(fill)) == first
    _, address = host_bytes(4)
    assert acl.rt.kernel_args_para_update(first, argument, address, 4) == 107017
    other = []
    thread = threading.Thread(target=lambda: other.append(made(acl.rt.kernel_args_init(fill))))
    thread.start()
    thread.join()
    assert other[0] != first


def test_a_list_in_memory_of_the_callers(acl, path):
    fill, z = function_of(acl, path, "fill"), upload(acl, X)
    of_list, handle = host_bytes(made(acl.rt.kernel_args_get_handle_mem_size(fill)))
    memory, address = host_bytes(made(acl.rt.kernel_args_get_mem_size(fill, 12)))
    assert len(memory) == 12 + 64 + 2 * 8
    old = 0
    for values in ([1, 2], [3, 4]):
        done(acl.rt.kernel_args_init_by_user_mem(fill, handle, address, len(memory)))
        if old:
            assert acl.rt.kernel_args_para_update(handle, old, address, 8) == 107017  # it went with the list before
        old = append(acl, handle, z)
        append(acl, handle, np.array(values, np.int16))
        buffer, place = host_bytes(8)
        assert acl.rt.kernel_args_append(handle, place, len(buffer)) == (0, 107000)  # the kernel has two
        done(acl.rt.kernel_args_finalize(handle), acl.rt.launch_kernel_with_config(fill, 1, 0, [], handle, 0))
        done(acl.rt.synchronize_stream(0))
        assert download(acl, z, np.int32, 4) == values * 2
    assert bytes(memory)[:12] == np.uint64(z).tobytes() + np.array([3, 4], np.int16).tobytes()
    assert bytes(of_list) == bytes(len(of_list))


def test_memory_of_the_callers_must_be_there_and_large_enough(acl, path):
    fill = function_of(acl, path, "fill")
    _, handle = host_bytes(made(acl.rt.kernel_args_get_handle_mem_size(fill)))
    memory, address = host_bytes(64)
    start = acl.rt.kernel_args_init_by_user_mem
    assert [start(fill, 0, address, 64), start(fill, handle, 0, 64), start(fill, handle, address, 0)] == [100000] * 3
    assert [start(fill, 0xDEAD0, address, 64), start(fill, handle, 0xDEAD0, 64)] == [107000] * 2
    assert start(fill, handle, upload(acl, X), 16) == 107000
    done(start(fill, handle, address, 9))
    append(acl, handle, np.uint64(1))
    _, place = host_bytes(2)
    assert acl.rt.kernel_args_append(handle, place, 2) == (0, 107000)
    assert "room for 2 arguments in 9 bytes" in acl.get_recent_err_msg()
    assert memory.raw[:9] == np.uint64(1).tobytes() + b"\0"


def test_the_limits_of_a_list(acl, path):
    fill = function_of(acl, path, "fill")
    args = made(acl.rt.kernel_args_init(fill))
    _, address = host_bytes(1 << 16)
    for _ in range(128):
        made(acl.rt.kernel_args_append(args, address, 1))
    assert acl.rt.kernel_args_append(args, address, 1) == (0, 107000)
    assert acl.rt.kernel_args_append_place_holder(args) == (0, 107000)
    args = made(acl.rt.kernel_args_init(fill))
    made(acl.rt.kernel_args_append(args, address, (1 << 16) - 16))
    holder = made(acl.rt.kernel_args_append_place_holder(args))
    assert acl.rt.kernel_args_get_place_holder_buffer(args, holder, 9) == (0, 107000)
    made(acl.rt.kernel_args_get_place_holder_buffer(args, holder, 8))


def test_what_is_appended_lies_in_host_memory(acl, path):
    args = made(acl.rt.kernel_args_init(function_of(acl, path, "fill")))
    z = upload(acl, X)
    assert acl.rt.kernel_args_append(args, 0, 8) == (0, 100000)
    assert acl.rt.kernel_args_append(args, z, 0) == (0, 100000)
    assert acl.rt.kernel_args_append(args, z, 8) == (0, 107000)  # the address itself, instead of where it is kept
    assert "lies in device memory: pass the address of bytes of the host" in acl.get_recent_err_msg()
    assert acl.rt.kernel_args_append(args, 0xDEAD0, 8) == (0, 107000)


def test_handles_of_lists_and_arguments_that_are_none(acl, path):
    fill = function_of(acl, path, "fill")
    args = made(acl.rt.kernel_args_init(fill))
    _, address = host_bytes(8)
    for handle, code in ((0, 100000), (0xDEAD0, 107017), (fill, 107017)):
        assert acl.rt.kernel_args_append(handle, address, 8) == (0, code)
        assert acl.rt.kernel_args_append_place_holder(handle) == (0, code)
        assert acl.rt.kernel_args_get_place_holder_buffer(handle, 1, 8) == (0, code)
        assert acl.rt.kernel_args_get_place_holder_buffer(args, handle, 8) == (0, code)
        assert acl.rt.kernel_args_para_update(args, handle, address, 8) == code
        assert acl.rt.kernel_args_finalize(handle) == code
    for handle, code in ((0, 100000), (args, 107017)):
        assert acl.rt.kernel_args_init(handle) == (0, code)
        assert acl.rt.kernel_args_init_by_user_mem(handle, address, address, 8) == code
        assert acl.rt.kernel_args_get_mem_size(handle, 8) == (0, code)
        assert acl.rt.kernel_args_get_handle_mem_size(handle) == (0, code)


def test_an_argument_belongs_to_its_list(acl, path):
    fill = function_of(acl, path, "fill")
    _, handle = host_bytes(made(acl.rt.kernel_args_get_handle_mem_size(fill)))
    _, memory = host_bytes(64)
    done(acl.rt.kernel_args_init_by_user_mem(fill, handle, memory, 64))
    holder = made(acl.rt.kernel_args_append_place_holder(handle))
    args = made(acl.rt.kernel_args_init(fill))
    assert acl.rt.kernel_args_get_place_holder_buffer(args, holder, 8) == (0, 107000)


def test_lists_are_no_leaks(acl, path):
    binary = made(acl.rt.binary_load_from_file(path, []))
    args = made(acl.rt.kernel_args_init(made(acl.rt.binary_get_function(binary, "fill"))))
    append(acl, args, np.uint32(1))
    done(acl.rt.binary_unload(binary))
    assert leaks(session()) == []


# --- the launch


def test_a_launch_may_have_a_limit_of_its_own(acl, path):
    add, x = function_of(acl, path, "add"), upload(acl, X)
    args = appended(acl, add, x, x, x, np.uint32(4))

    def launch(*attributes):
        config = [{"id": key, "value": value} for key, value in attributes]
        return acl.rt.launch_kernel_with_config(add, 1, 0, config, args, 0)

    done(launch((8, 5)), launch((7, 1)), launch((1, 1), (6, 0)), acl.rt.synchronize_stream(0))
    done(launch((8, 4)))
    assert acl.rt.synchronize_stream(0) == 507034  # a vector core took too long
    assert "would have run 5e-06 s" in acl.get_recent_err_msg()
    done(launch(), acl.rt.synchronize_stream(0))
    assert [ns for _, ns, _ in kernels_run()] == [5000, 5000, 5000, 4000, 5000]
    assert [launch((7, 1), (8, 1)), launch((0, 1)), launch((9, 1))] == [107000] * 3
    assert [launch((3, 1)), launch((4, 1))] == [207000] * 2
    for wrong in ([1], [{}], [{"id": 1}]):
        with pytest.raises(TypeError, match="is no dict with ints 'id' and 'value'"):
            acl.rt.launch_kernel_with_config(add, 1, 0, wrong, args, 0)


def test_no_blocks_and_what_is_reserved(acl, path):
    add, x = function_of(acl, path, "add"), upload(acl, X)
    args = appended(acl, add, x, x, x, np.uint32(4))
    assert acl.rt.launch_kernel_with_config(add, 0, 0, [], args, 0) == 100000
    assert acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 8) == 100000
    assert acl.rt.launch_kernel_with_config(add, 2**31, 0, [], args, 0) == 107000


def test_too_few_arguments(acl, path):
    add, x = function_of(acl, path, "add"), upload(acl, X)
    assert acl.rt.launch_kernel_with_config(add, 1, 0, [], appended(acl, add, x, x, x), 0) == 107000
    message = acl.get_recent_err_msg()
    assert "add takes 28 bytes of arguments, and got 24; pass x, y, z, n, each at a multiple of 8 bytes" in message


def test_the_buffer_of_a_placeholder_is_no_argument(acl, tiled):
    function, z = function_of(acl, "tiled.o", "tiled"), upload(acl, X)
    args = made(acl.rt.kernel_args_init(function))
    append(acl, args, z)
    tiling = made(acl.rt.kernel_args_append_place_holder(args))
    made(acl.rt.kernel_args_get_place_holder_buffer(args, tiling, 64))
    done(acl.rt.kernel_args_finalize(args))
    assert acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0) == 107000
    assert "tiled takes 32 bytes of arguments, and got 16" in acl.get_recent_err_msg()


# --- any arguments

NUMBERS = {"int8": np.int8, "uint16": np.uint16, "int32": np.int32, "float32": np.float32, "uint64": np.uint64}


@st.composite
def lists_of_values(draw):
    values = []
    for number in range(draw(st.integers(1, 8))):
        dtype = draw(st.sampled_from(sorted(NUMBERS)))
        count = draw(st.integers(0, 4))
        info = np.finfo(np.float32) if dtype == "float32" else np.iinfo(NUMBERS[dtype])
        element = st.integers(-1000, 1000) if dtype == "float32" else st.integers(int(info.min), int(info.max))
        several = draw(st.lists(element, min_size=max(count, 1), max_size=max(count, 1)))
        values.append((Parameter(f"p{number}", dtype, dims=(count,) if count else None), several))
    return values


@given(lists_of_values())
def test_a_kernel_gets_what_was_appended_one_by_one_or_in_one_piece(values):
    got = []
    register_kernel("any.o", [parameter for parameter, _ in values], name="any", cost_us=1)(
        lambda *args: got.append(args)
    )
    arrays = [np.array(several, NUMBERS[parameter.dtype]) for parameter, several in values]
    block = b""
    for array in arrays:
        block += bytes(-len(block) % 8) + array.tobytes()
    try:
        with module() as acl:
            function = function_of(acl, "any.o", "any")
            device = upload(acl, np.frombuffer(block, np.uint8))
            for args in (arrays, [np.frombuffer(block, np.uint8)]):
                handle = appended(acl, function, *args)
                done(acl.rt.launch_kernel_with_config(function, 1, 0, [], handle, 0))
            done(acl.rt.launch_kernel(function, 1, device, len(block), 0), acl.rt.synchronize_stream(0))
    finally:
        unregister_kernel("any.o")
    wanted = tuple(tuple(several) if parameter.dims else several[0] for parameter, several in values)
    assert got == [wanted] * 3
