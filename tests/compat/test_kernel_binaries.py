"""Binaries of kernels through the module: loading them, their functions, and launches with arguments on the device."""

import ctypes

import numpy as np
import pytest
from card import done, made, module, now
from kernel_launches import (
    append,
    appended,
    binary_of,
    download,
    function_of,
    kernels_run,
    packed,
    upload,
)

import acl_py
from acl_py import asc
from acl_py.compat.acl import Parameter, register_kernel, unregister_kernel
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.report import findings, leaks
from acl_py.findings import Findings

X, Y = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32) * 10
CONTENT = b"the bytes of a binary"


@pytest.fixture
def path(tmp_path):
    """A binary with the kernels add and fill."""
    return binary_of(tmp_path)


# --- launches


def test_a_kernel_runs_in_its_stream_as_any_other(acl, path):
    add = function_of(acl, path, "add")
    stream = made(acl.rt.create_stream())
    x, y, z = upload(acl, X), upload(acl, Y), upload(acl, np.zeros(8, np.int32))
    args = appended(acl, add, x, y, z, np.uint32(8))
    before = now()
    done(acl.rt.launch_kernel_with_config(add, 4, stream, [], args, 0))
    assert now() - before == 1000  # it was queued
    done(acl.rt.synchronize_stream(stream))
    assert download(acl, z, np.int32, 8) == (X + Y).tolist()
    assert kernels_run() == [("add", 5000, 96)]  # a wave of 4 blocks on 4 cores
    (op,) = (op for op in session().trace.ops if op.kind == "kernel")
    assert op.site.startswith("test_kernel_binaries.py:")


def test_blocks_beyond_the_cores_take_a_wave_more(acl, path):
    add = function_of(acl, path, "add")
    x = upload(acl, X)
    for blocks in (1, 4, 5, 9):
        done(acl.rt.launch_kernel_with_config(add, blocks, 0, [], appended(acl, add, x, x, x, np.uint32(8)), 0))
    done(acl.rt.synchronize_device())
    assert [ns for _, ns, _ in kernels_run()] == [5000, 5000, 10000, 15000]


def test_without_a_cost_a_kernel_takes_as_long_as_its_bytes(acl, path):
    fill = function_of(acl, path, "fill")
    z = upload(acl, np.zeros(4, np.int32))
    args = appended(acl, fill, z, np.array([7, -7], np.int16))
    done(acl.rt.launch_kernel_with_config(fill, 4, 0, [], args, 0), acl.rt.synchronize_stream(0))
    assert download(acl, z, np.int32, 4) == [7, -7, 7, -7]
    assert kernels_run() == [("fill", 16, 16)]


def test_arguments_in_device_memory(acl, path):
    add = function_of(acl, path, "add")
    x, y, z = upload(acl, X), upload(acl, Y), upload(acl, np.zeros(8, np.int32))
    block = packed(x, y, z, np.uint32(8))
    args = upload(acl, np.frombuffer(block, np.uint8))
    done(acl.rt.launch_kernel(add, 1, args, len(block), 0), acl.rt.synchronize_stream(0))
    assert download(acl, z, np.int32, 8) == (X + Y).tolist()
    assert acl.rt.launch_kernel(add, 1, args, len(block) - 4, 0) == 107000
    assert "add takes 28 bytes of arguments, and got 24" in acl.get_recent_err_msg()
    assert acl.rt.launch_kernel(add, 0, args, len(block), 0) == 107000
    host = ctypes.create_string_buffer(block, len(block))
    assert acl.rt.launch_kernel(add, 1, ctypes.addressof(host), len(block), 0) == 107000
    assert "kernel_args_init()" in acl.get_recent_err_msg()


def test_arguments_that_are_still_on_their_way_are_refused(acl, path):
    """They would be read too early: a card reads them when the kernel starts."""
    add = function_of(acl, path, "add")
    x, z = upload(acl, X), upload(acl, np.zeros(8, np.int32))
    block = packed(x, x, z, np.uint32(8))
    pinned, place = made(acl.rt.malloc_host(len(block))), made(acl.rt.malloc(96, 0))
    args = place + 32
    acl.util.ptr_to_numpy(pinned, (len(block),), np.dtype(np.uint8).num)[:] = np.frombuffer(block, np.uint8)
    stream = made(acl.rt.create_stream())
    done(acl.rt.memcpy_async(args, 64, pinned, len(block), 1, stream))
    assert acl.rt.launch_kernel(add, 1, args, len(block), stream) == 207000
    assert "yet to be written by <h2d on stream 1" in acl.get_recent_err_msg()
    done(acl.rt.synchronize_stream(stream), acl.rt.launch_kernel(add, 1, args, len(block), stream))
    done(acl.rt.memset_async(x, 32, 0, 32, stream))  # of other memory, and right before and behind them
    done(acl.rt.memset_async(place, 32, 0, 32, stream), acl.rt.memset_async(args + len(block), 4, 0, 4, stream))
    done(acl.rt.launch_kernel(add, 1, args, len(block), stream), acl.rt.synchronize_stream(stream))
    assert download(acl, z, np.int32, 8) == [0] * 8


def test_memory_that_is_not_there_is_named(acl, path):
    add = function_of(acl, path, "add")
    x, gone = upload(acl, X), upload(acl, X)
    done(acl.rt.free(gone))
    for address, count, text in (
        (0x12345, 8, "is a host address, which is neither in an allocation"),
        (x, 9, "which has 32 bytes, not 36"),
        (gone, 8, "freed at test_kernel_binaries.py:"),
    ):
        args = appended(acl, add, address, x, x, np.uint32(count))
        assert acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0) == 107000
        message = acl.get_recent_err_msg()
        assert "argument x of kernel add is " in message
        assert text in message
    done(acl.rt.synchronize_device())
    assert kernels_run() == []


def test_memory_that_is_freed_before_the_kernel_runs_is_an_exception_of_the_core(acl, path):
    add = function_of(acl, path, "add")
    x, z = upload(acl, X), upload(acl, X)
    args = appended(acl, add, x, x, z, np.uint32(8))
    done(acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0), acl.rt.free(z))
    assert acl.rt.synchronize_device() == 507053
    assert "was gone before it ran" in acl.get_recent_err_msg()


def test_a_null_pointer_is_none_and_numbers_are_pythons(acl):
    seen = []
    parameters = [
        Parameter("workspace", "uint8", "inout"),
        Parameter("rest", "float16", "in"),
        Parameter("scale", "bfloat16"),
        Parameter("big", "uint64"),
        Parameter("flag", "bool"),
        Parameter("strides", "int64", dims=(2,)),
        Parameter("part", "float16", "in", ("big - 2", 2)),
    ]

    @register_kernel("odd.o", parameters, name="odd")
    def look(workspace, rest, *others):
        *numbers, part = others
        seen.append((workspace, rest.tolist(), numbers, part.tolist(), rest.flags.writeable))

    try:
        function = function_of(acl, "anywhere/odd.o", "odd")
        memory = upload(acl, np.arange(5, dtype=np.float16))
        values = (np.uint16(0x3FC0), np.uint64(4), np.bool_(True), np.array([-1, 1 << 40]))
        args = appended(acl, function, 0, memory + 2, *values, memory)
        done(acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0), acl.rt.synchronize_device())
    finally:
        unregister_kernel("odd.o")
    assert seen == [(None, [1, 2, 3, 4], [1.5, 4, True, (-1, 1 << 40)], [[0, 1], [2, 3]], False)]


def test_a_number_that_looks_like_an_address_is_a_number(acl):
    seen = []
    register_kernel("n.o", [Parameter("number", "uint64")], name="n", cost_us=1)(seen.append)
    try:
        function, x = function_of(acl, "n.o", "n"), upload(acl, X)
        for number in (x, x + 1000):
            args = appended(acl, function, number)
            done(acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0))
        done(acl.rt.synchronize_stream(0))
    finally:
        unregister_kernel("n.o")
    assert seen == [x, x + 1000]


# --- AI cores


@asc.kernel
def numbered(z: asc.Out, first: int) -> None:
    """Block n writes first + n to its 8 numbers."""
    out = asc.GlobalTensor(np.int32).SetGlobalBuffer(z[8 * asc.GetBlockIdx() :], 8)
    pipe, queue = asc.TPipe(), asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.InitBuffer(queue, 1, 32)
    local = queue.AllocTensor(np.int32)
    asc.Duplicate(local, first + asc.GetBlockIdx(), 8)
    queue.EnQue(local)
    local = queue.DeQue(np.int32)
    asc.DataCopy(out, local, 8)
    queue.FreeTensor(local)


@asc.kernel
def hasty(z: asc.Out) -> None:
    """Stores before the vector unit has computed."""
    out = asc.GlobalTensor(np.int32).SetGlobalBuffer(z, 8)
    pipe, buffer = asc.TPipe(), asc.TBuf(asc.TPosition.VECCALC)
    pipe.InitBuffer(buffer, 32)
    local = buffer.Get(np.int32)
    asc.Duplicate(local, 1, 8)
    asc.DataCopy(out, local, 8)


def test_a_kernel_of_ai_cores_with_blocks_pipes_and_findings(capsys):
    register_kernel("cores.o", [Parameter("z", "int32", "out"), Parameter("first", "int32")])(numbered)
    register_kernel("cores.o", [Parameter("z", "int32", "out")])(hasty)
    try:
        with module("ascend910b3") as acl:
            binary = made(acl.rt.binary_load_from_file("cores.o", []))
            z = upload(acl, np.zeros(24, np.int32))
            function = made(acl.rt.binary_get_function(binary, "numbered"))
            args = appended(acl, function, z, np.int32(5))
            done(acl.rt.launch_kernel_with_config(function, 3, 0, [], args, 0), acl.rt.synchronize_stream(0))
            assert download(acl, z, np.int32, 24) == [5] * 8 + [6] * 8 + [7] * 8
            (op,) = (op for op in session().trace.ops if op.kind == "kernel")
            assert (op.name, op.cores.blocks, op.cores.findings) == ("numbered", 3, ())
            assert op.cores.busy_us["mte3"] > 0
            assert made(acl.rt.get_function_addr(function)) == (0, (1 << 63) + function)
            assert capsys.readouterr().err == ""

            function = made(acl.rt.binary_get_function(binary, "hasty"))
            args = appended(acl, function, z)
            done(acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0), acl.rt.synchronize_stream(0))
            assert "kernel hasty: " in capsys.readouterr().err
            (mistake,) = session().runtime.state(Findings)
            assert mistake.kernel == "hasty"
    finally:
        unregister_kernel("cores.o")


def test_a_card_without_ai_cores_in_its_profile_runs_no_such_kernel(acl):
    register_kernel("cores.o", [Parameter("z", "int32", "out")])(hasty)
    try:
        function = function_of(acl, "cores.o", "hasty")
        args = appended(acl, function, upload(acl, X))
        assert acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0) == 207000
    finally:
        unregister_kernel("cores.o")


def test_where_a_function_runs_is_told_by_its_addresses(acl, path):
    kinds = {
        "AIV_ONLY": (False, True),
        "AIC_ONLY": (True, False),
        "MIX_AIC_1_2": (True, True),
    }
    found = {}
    for kind in kinds:
        register_kernel("kinds.o", [Parameter("z", "int32", "out")], name=kind)(
            asc.kernel(kind=asc.KernelType[kind])(hasty.function)
        )
    try:
        for kind in kinds:
            found[kind] = tuple(map(bool, made(acl.rt.get_function_addr(function_of(acl, "kinds.o", kind)))))
    finally:
        unregister_kernel("kinds.o")
    assert found == kinds
    add = function_of(acl, path, "add")
    assert made(acl.rt.get_function_addr(add)) == ((1 << 63) + add, 0)


def test_a_kernel_of_the_native_api_will_do(acl):
    @acl_py.block_kernel(cost=acl_py.Cost(us=3))
    def each(block, z: acl_py.InOut, step):
        z[block] += step

    register_kernel("blocks.o", [Parameter("z", "int32", "inout"), Parameter("step", "int32")])(each)
    try:
        function = function_of(acl, "blocks.o", "each")
        z = upload(acl, X)
        args = appended(acl, function, z, np.int32(100))
        done(acl.rt.launch_kernel_with_config(function, 2, 0, [], args, 0), acl.rt.synchronize_stream(0))
        assert download(acl, z, np.int32, 4) == [100, 101, 2, 3]
        assert kernels_run() == [("each", 3000, 32)]
    finally:
        unregister_kernel("blocks.o")


# --- failures of a kernel


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ZeroDivisionError('a bug')", "kernel add failed: a bug"),
        ("return x + y", "add returned a value; a kernel writes to its outputs"),
        ("x[0] = 1", "read-only"),
    ],
)
def test_a_function_that_fails_is_an_exception_of_the_core(acl, tmp_path, capsys, body, told):
    path = binary_of(tmp_path, module=f"def add(x, y, z, n):\n    {body}\n\n\ndef fill(z, values): ...\n")
    add, x = function_of(acl, path, "add"), upload(acl, X)
    done(acl.rt.launch_kernel_with_config(add, 1, 0, [], appended(acl, add, x, x, upload(acl, X), np.uint32(8)), 0))
    assert acl.rt.synchronize_stream(0) == 507035
    assert "kernel add raised" in acl.get_recent_err_msg()
    err = capsys.readouterr().err
    assert told in err
    assert 'vectors.py", line 2, in add' in err or "returned a value" in told


def test_what_out_memory_does_not_get_holds_poison(acl, tmp_path):
    path = binary_of(tmp_path, module="def add(x, y, z, n):\n    z[:2] = x[:2]\n\n\ndef fill(z, values): ...\n")
    add, x, z = function_of(acl, path, "add"), upload(acl, X), upload(acl, X)
    done(acl.rt.launch_kernel_with_config(add, 1, 0, [], appended(acl, add, x, x, z, np.uint32(4)), 0))
    done(acl.rt.synchronize_stream(0))
    result = download(acl, z, np.int32, 8)
    assert (result[:2], result[4:]) == ([0, 1], [4, 5, 6, 7])
    assert result[2:4] != [2, 3]
    for first, then in ((x, x + 16), (x + 16, x)):  # an input beside it makes no difference
        done(acl.rt.memcpy(x, 32, acl.util.bytes_to_ptr(X.tobytes()), 32, 1))
        args = appended(acl, add, first, first, then, np.uint32(4))
        done(acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0), acl.rt.synchronize_stream(0))
        assert download(acl, then + 8, np.int32, 2) != X[(then - x) // 4 + 2 :][:2].tolist()


def test_an_output_may_lie_over_an_input(acl, path):
    add, x, y = function_of(acl, path, "add"), upload(acl, X), upload(acl, Y)
    args = appended(acl, add, x, y, x, np.uint32(8))
    done(acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0))
    args = appended(acl, add, x + 4, y, x, np.uint32(7))  # in part
    done(acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0), acl.rt.synchronize_stream(0))
    first = X + Y
    assert download(acl, x, np.int32, 8) == [*(first[1:] + Y[:7]), first[7]]


def test_an_output_may_lie_over_what_is_read_and_written(acl):
    def first_and_last(x, z):
        x += 1
        z[0] = 100

    parameters = [Parameter("x", "int32", "inout", (8,)), Parameter("z", "int32", "out", (8,))]
    register_kernel("k.o", parameters)(first_and_last)
    try:
        function, x = function_of(acl, "k.o", "first_and_last"), upload(acl, X)
        done(acl.rt.launch_kernel_with_config(function, 1, 0, [], appended(acl, function, x, x), 0))
        done(acl.rt.synchronize_stream(0))
        assert download(acl, x, np.int32, 8) == [100, *(X[1:] + 1)]
    finally:
        unregister_kernel("k.o")


def test_without_dims_an_output_keeps_what_is_not_written(acl):
    """Scripts with a memory pool have other things behind it."""

    def first(z):
        z[0] = 7

    register_kernel("k.o", [Parameter("z", "int32", "out")])(first)
    try:
        function, z = function_of(acl, "k.o", "first"), upload(acl, X)
        done(acl.rt.launch_kernel_with_config(function, 1, 0, [], appended(acl, function, z), 0))
        done(acl.rt.synchronize_stream(0))
        assert download(acl, z, np.int32, 8) == [7, *X[1:]]
    finally:
        unregister_kernel("k.o")


def test_on_ai_cores_likewise():
    register_kernel("k.o", [Parameter("z", "int32", "out"), Parameter("first", "int32")])(numbered)
    try:
        with module("ascend910b3") as acl:
            function, z = function_of(acl, "k.o", "numbered"), upload(acl, np.arange(16, dtype=np.int32))
            args = appended(acl, function, z, np.int32(3))
            done(acl.rt.launch_kernel_with_config(function, 1, 0, [], args, 0), acl.rt.synchronize_stream(0))
            assert download(acl, z, np.int32, 16) == [3] * 8 + list(range(8, 16))
    finally:
        unregister_kernel("k.o")


def test_an_argument_that_the_sidecar_does_not_know_is_a_finding(acl, path):
    fill, z = function_of(acl, path, "fill"), upload(acl, X)
    for more in ([], [np.uint32(1)], [np.uint32(1)]):
        args = appended(acl, fill, z, np.array([1, 2], np.int16), *more)
        done(acl.rt.launch_kernel_with_config(fill, 1, 0, [], args, 0))
    (finding,) = findings(session())
    assert finding.endswith("takes 12 bytes of arguments, and got 20: is one undeclared?")
    assert finding.startswith("<function fill of <binary vectors.o loaded at kernel_launches.py:")


def test_a_cost_of_its_own_and_one_of_the_sidecar_are_one_too_many():
    with pytest.raises(ValueError, match="hasty: <core kernel hasty> has its own cost; leave out cost_us and flops"):
        register_kernel("h.o", [Parameter("z", "int32", "out")], cost_us=3)(hasty)


# --- functions and handles


def test_functions_have_one_handle_each_until_their_binary_is_unloaded(acl, path, capsys):
    binary = made(acl.rt.binary_load_from_file(path, []))
    add = made(acl.rt.binary_get_function(binary, "add"))
    assert made(acl.rt.binary_get_function(binary, "add")) == add
    assert acl.rt.binary_get_function(binary, "mul") == (0, 107000)
    assert "has no kernel 'mul'; its kernels are add, fill" in capsys.readouterr().err
    again = made(acl.rt.binary_load_from_file(path, []))
    assert made(acl.rt.binary_get_function(again, "add")) != add
    args = appended(acl, add, 0, 0, 0, np.uint32(0))
    done(acl.rt.binary_unload(binary))
    stale = [
        acl.rt.binary_unload(binary),
        acl.rt.binary_get_function(binary, "add")[1],
        acl.rt.get_function_name(add, 8)[1],
        acl.rt.get_function_addr(add)[-1],
        acl.rt.kernel_args_init(add)[1],
        acl.rt.kernel_args_get_mem_size(add, 8)[1],
        acl.rt.launch_kernel(add, 1, 8, 8, 0),
        acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0),
        acl.rt.register_cpu_func(binary, "a", "b")[1],
    ]
    assert stale == [107017] * len(stale)
    done(acl.rt.binary_unload(again))


def test_null_is_an_error_of_the_c_layer(acl, path):
    add = function_of(acl, path, "add")
    codes = [
        acl.rt.binary_unload(0),
        acl.rt.binary_load(0)[1],
        acl.rt.destroy_binary(0),
        acl.rt.binary_get_function(0, "add")[1],
        acl.rt.get_function_addr(0)[-1],
        acl.rt.launch_kernel(0, 1, 8, 8, 0),
        acl.rt.launch_kernel(add, 1, 0, 8, 0),
        acl.rt.launch_kernel_with_config(0, 1, 0, [], 0, 0),
        acl.rt.launch_kernel_with_config(add, 1, 0, [], 0, 0),
    ]
    assert codes == [100000] * len(codes)


def test_the_name_of_a_function_needs_room(acl, path):
    add = function_of(acl, path, "add")
    assert acl.rt.get_function_name(add, 4) == ("add", 0)
    assert acl.rt.get_function_name(add, 3) == ("", 107000)
    with pytest.raises(ValueError, match="maxLen should be less than 1024"):
        acl.rt.get_function_name(add, 1024)


def test_functions_of_the_ai_cpu_are_none_of_these(acl, path):
    binary = made(acl.rt.binary_load_from_file(path, []))
    assert acl.rt.register_cpu_func(binary, "RunCpuKernel", "Add") == (0, 107000)
    with pytest.raises(ValueError, match="must not be empty"):
        acl.rt.register_cpu_func(binary, "", "Add")


def test_a_stream_that_is_gone_takes_no_kernel(acl, path):
    add, x = function_of(acl, path, "add"), upload(acl, X)
    stream = made(acl.rt.create_stream())
    done(acl.rt.destroy_stream(stream))
    args = appended(acl, add, x, x, x, np.uint32(8))
    assert acl.rt.launch_kernel_with_config(add, 1, stream, [], args, 0) == 107017
    assert acl.rt.launch_kernel(add, 1, x, 32, stream) == 107017


def test_unloading_before_the_kernels_have_ended_is_a_finding(acl, path):
    binary = made(acl.rt.binary_load_from_file(path, []))
    add, x = made(acl.rt.binary_get_function(binary, "add")), upload(acl, X)
    done(acl.rt.launch_kernel_with_config(add, 1, 0, [], appended(acl, add, x, x, x, np.uint32(8)), 0))
    done(acl.rt.binary_unload(binary), acl.rt.synchronize_device())
    (finding,) = findings(session())
    assert "unloads the code of <add on " in finding
    assert "which has not ended" in finding


def test_what_was_never_unloaded_is_a_leak(acl, path):
    made(acl.rt.binary_load_from_file(path, []))
    function_of(acl, path, "add")
    described = acl.rt.create_binary(acl.util.bytes_to_ptr(CONTENT), len(CONTENT))
    told = leaks(session())
    assert len(told) == 2
    assert told[0].startswith("2 loaded binaries never unloaded, made at test_kernel_binaries.py:")
    assert told[1].startswith("1 binary never destroyed, made at ")
    done(acl.rt.destroy_binary(described))


def test_inside_a_simulation_of_the_native_api(acl, path):
    """One device for both: the launch is ordered with native work in the same stream."""

    async def program():
        add = function_of(acl, path, "add")
        x, z = upload(acl, X), upload(acl, X)
        args = appended(acl, add, x, x, z, np.uint32(8))
        done(acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0))
        out = np.zeros(8, np.int32)
        await acl_py.MemcpyAsync(out, 32, z, 32, acl_py.MemcpyKind.DEVICE_TO_HOST)
        await acl_py.SynchronizeDevice()
        return out.tolist()

    assert acl_py.run(program, device="tiny", rules="acl", workers=1) == (2 * X).tolist()


def test_one_append_may_bring_all_arguments(acl, path):
    """As those have it who pack the arguments themselves."""
    add = function_of(acl, path, "add")
    x, z = upload(acl, X), upload(acl, X)
    args = made(acl.rt.kernel_args_init(add))
    append(acl, args, np.frombuffer(packed(x, x, z, np.uint32(8)), np.uint8))
    done(acl.rt.kernel_args_finalize(args), acl.rt.launch_kernel_with_config(add, 1, 0, [], args, 0))
    done(acl.rt.synchronize_stream(0))
    assert download(acl, z, np.int32, 8) == (2 * X).tolist()
