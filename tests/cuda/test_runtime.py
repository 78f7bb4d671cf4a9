"""Functions of the runtime, called in C as the package's own code calls them: no package is needed."""

import ctypes
import struct
import sys
import threading
from types import ModuleType

import pytest

from acl_py.compat.acl.face.session import current_session
from acl_py.compat.cuda.runtime import replacing, structures, table
from acl_py.compat.cuda.runtime.entries import answered
from acl_py.verbs.copies import MemcpyKind
from tests.cuda.calling import OUT, PTX, Cuda

HOST_TO_DEVICE, DEVICE_TO_HOST, DEFAULT = 1, 2, 4


class Runtime(Cuda):
    """Functions of the runtime; the calls are those of `Cuda`."""

    def __init__(self):
        self.functions = replacing.functions(
            {name: len(each.signature.parameters) for name, each in table.read().items()}
            | {"cudaCreateTextureObject": 4}
        )
        self.library = self

    def __getitem__(self, name):
        return ctypes.CFUNCTYPE(ctypes.c_int)(self.functions.address(name))


_made = []


@pytest.fixture
def runtime(cuda):
    """The runtime of a tiny device; no context is current in the thread."""
    return over(cuda)


@pytest.fixture
def runtime_of_h200(h200):
    """The runtime of an H200, on which kernels in PTX run."""
    return over(h200)


def over(cuda):
    cuda("cuCtxSetCurrent", 0)
    _made[:] = _made or [Runtime()]
    _made[0].functions.put()
    return _made[0]


def test_each_function_of_the_table_is_the_drivers_or_has_a_coroutine(runtime):
    own = {name for name, each in table.read().items() if not each.same}
    assert own - {"cudaGetLastError", "cudaPeekAtLastError"} == answered()


def test_the_first_call_makes_the_primary_context_current(runtime, cuda):
    assert runtime.get("cudaGetDevice", OUT) == (0, 0)
    assert cuda.get("cuCtxGetCurrent", OUT) == (0, 0)
    code, address = runtime.get("cudaMalloc", OUT, 64)
    assert (code, address > 0) == (0, True)
    assert cuda.get("cuCtxGetDevice", OUT) == (0, 0)
    assert runtime("cudaSetDevice", 1) == 0
    assert (runtime.get("cudaGetDevice", OUT), cuda.get("cuCtxGetDevice", OUT)) == ((0, 1), (0, 1))
    assert (runtime("cudaSetDevice", 2), runtime("cudaGetLastError")) == (101, 101)
    assert runtime.get("cudaGetDevice", OUT) == (0, 1)


def test_a_context_of_the_drivers_is_used_where_one_is_current(runtime, cuda):
    code, context = cuda.get("cuCtxCreate_v2", OUT, 0, 1)
    assert (code, runtime.get("cudaGetDevice", OUT)) == (0, (0, 1))
    assert runtime.get("cudaMalloc", OUT, 64)[0] == 0
    assert cuda.get("cuCtxGetCurrent", OUT) == (0, context)


def test_bytes_go_to_the_device_and_back(runtime):
    data, back = ctypes.create_string_buffer(b"0123456789abcdef", 16), ctypes.create_string_buffer(16)
    (_, address), (_, stream) = runtime.get("cudaMalloc", OUT, 16), runtime.get("cudaStreamCreate", OUT)
    codes = [
        runtime("cudaMemcpyAsync", address, data, 16, HOST_TO_DEVICE, stream),
        runtime("cudaMemsetAsync", address, ord("x"), 4, stream),
        runtime("cudaMemcpyAsync", back, address, 16, DEVICE_TO_HOST, stream),
        runtime("cudaStreamSynchronize", stream),
        runtime("cudaMemcpy", back, back, 0, DEFAULT),
        runtime("cudaFree", address),
    ]
    assert (codes, back.raw) == ([0] * 6, b"xxxx456789abcdef")
    assert runtime("cudaMemcpy", back, data, 16, 7) == 21
    assert runtime("cudaMemcpy", back, data, 16, HOST_TO_DEVICE) == 21


def test_rows_and_planes_keep_what_lies_between_them(runtime):
    data, back = ctypes.create_string_buffer(bytes(range(32)), 32), ctypes.create_string_buffer(32)
    code, address, pitch = runtime.get("cudaMallocPitch", OUT, OUT, 8, 4)
    assert (code, pitch) == (0, 512)
    assert runtime("cudaMemset2D", address, pitch, 0xAB, 8, 4) == 0
    assert runtime("cudaMemcpy2D", address, pitch, data, 8, 4, 4, HOST_TO_DEVICE) == 0
    planes = structures.PLANES.pack(
        *(0, 0, 0, 0, address, pitch, 8, 2), *(0, 0, 0, 0, ctypes.addressof(back), 8, 8, 2), *(8, 2, 2), DEFAULT
    )
    assert runtime("cudaMemcpy3D", planes) == 0
    rows = [bytes(range(8 * row, 8 * row + 4)) + b"\xab" * 4 for row in range(4)]
    assert back.raw == b"".join(rows)
    assert runtime("cudaMemset2D", address, 4, 0, 8, 4) == 1


def test_structures_by_value(runtime):
    pitched, back = ctypes.create_string_buffer(32), ctypes.create_string_buffer(16)
    places = [ctypes.c_uint64 * 3, ctypes.c_uint64 * 4]
    extent, pointer = (type("S", (ctypes.Structure,), {"_fields_": [("x", each)]}) for each in places)
    assert runtime("cudaMalloc3D", pitched, extent(places[0](8, 2, 2))) == 0
    address, pitch, width, height = struct.unpack("<4Q", pitched)
    assert (pitch, width, height) == (512, 8, 2)
    where = pointer(places[1](address, pitch, width, height))
    assert runtime("cudaMemset3D", where, 0x107, extent(places[0](8, 2, 2))) == 0
    assert runtime("cudaMemset3D", where, 7, extent(places[0](8, 2, 1 << 40))) == 1
    assert runtime("cudaMemcpy2D", back, 4, address, pitch, 4, 4, DEVICE_TO_HOST) == 0
    assert back.raw == b"\x07" * 16


def test_the_last_error_is_kept_for_each_thread_until_it_is_taken(runtime):
    _, event = runtime.get("cudaEventCreate", OUT)
    assert (runtime("cudaEventRecord", 77, 0), runtime("cudaEventSynchronize", event)) == (400, 0)
    others = []
    thread = threading.Thread(target=lambda: others.append(runtime("cudaGetLastError")))
    thread.start()
    thread.join()
    taken = [runtime(name) for name in ("cudaPeekAtLastError", "cudaGetLastError", "cudaGetLastError")]
    assert (others, taken) == ([0], [400, 400, 0])


def test_not_ready_is_an_answer_and_no_error(runtime):
    (_, address), (_, host) = runtime.get("cudaMalloc", OUT, 1 << 20), runtime.get("cudaMallocHost", OUT, 1 << 20)
    assert runtime("cudaMemcpyAsync", address, host, 1 << 20, DEFAULT, 0) == 0
    assert (runtime("cudaStreamQuery", 0), runtime("cudaGetLastError")) == (600, 0)
    assert (runtime("cudaDeviceSynchronize"), runtime("cudaStreamQuery", 0)) == (0, 0)


def test_streams_1_and_2_are_the_default_ones(runtime):
    assert [runtime("cudaStreamSynchronize", each) for each in range(3)] == [0, 0, 0]
    assert runtime("cudaStreamSynchronize", 3) == 400
    assert "cudaErrorInvalidResourceHandle (400)" in next(current_session().failures.lines())


def test_a_reset_ends_all_memory_and_the_next_call_has_a_new_context(runtime):
    _, address = runtime.get("cudaMalloc", OUT, 64)
    assert (runtime("cudaDeviceReset"), runtime("cudaFree", address)) == (0, 1)
    assert runtime.get("cudaMalloc", OUT, 64)[0] == 0


def test_a_failed_kernel_loses_the_device_and_stays_the_last_error(runtime_of_h200, h200):
    runtime, cuda = runtime_of_h200, h200
    runtime("cudaFree", 0)
    function = cuda.function(PTX)
    value, count = ctypes.c_uint32(1), ctypes.c_uint32(1)
    wrong = ctypes.c_uint64(0x1000)
    arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(each) for each in (wrong, value, count)))
    assert cuda("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0) == 0
    assert runtime("cudaDeviceSynchronize") == 700
    assert [runtime("cudaGetLastError") for _ in range(2)] == [700, 700]
    assert (runtime("cudaDeviceReset"), runtime.get("cudaMalloc", OUT, 64)[0]) == (0, 700)


def test_what_is_known_of_addresses(runtime):
    (_, address), (_, host) = runtime.get("cudaMalloc", OUT, 64), runtime.get("cudaMallocHost", OUT, 64)
    (_, shared), pageable = runtime.get("cudaMallocManaged", OUT, 64, 1), ctypes.create_string_buffer(64)
    found, kinds = ctypes.create_string_buffer(88), []
    for each in (ctypes.addressof(pageable), host, address, shared):
        assert runtime("cudaPointerGetAttributes", found, each) == 0
        kinds.append(struct.unpack_from("<iiQQ", found)[0])
    assert kinds == [0, 1, 2, 3]


def test_properties_are_the_attributes_of_the_driver(runtime_of_h200):
    runtime = runtime_of_h200
    found = ctypes.create_string_buffer(1008)
    assert runtime("cudaGetDeviceProperties", found, 0) == 0
    assert found.value == current_session().runtime.profile.description.partition(",")[0].encode()
    assert runtime("cudaGetDeviceProperties", found, 9) == 101
    code, count = runtime.get("cudaDeviceGetAttribute", OUT, 10, 0)
    assert (code, count) == (0, 32)


@pytest.mark.parametrize(
    ("version", "nbytes", "places"),
    [("13.5.0", 1008, {384: 132, 720: 1}), ("12.9.1", 1032, {388: 132, 744: 1})],
)
def test_properties_have_the_layout_of_the_version_of_the_package(
    runtime_of_h200, monkeypatch, version, nbytes, places
):
    package = ModuleType("cuda.bindings")
    package.__version__ = version
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    found = ctypes.create_string_buffer(b"\xff" * 1100, 1100)
    assert runtime_of_h200("cudaGetDeviceProperties", found, 0) == 0  # SMs, and whether it has memory pools
    assert {place: struct.unpack_from("<i", found, place)[0] for place in places} == places
    assert found.raw[nbytes - 1 :] == b"\0" + b"\xff" * (1100 - nbytes)


def test_kernels_of_libraries(runtime_of_h200):
    runtime = runtime_of_h200
    code, library = runtime.get("cudaLibraryLoadData", OUT, PTX.encode(), 0, 0, 0, 0, 0, 0)
    assert code == 0
    code, kernel = runtime.get("cudaLibraryGetKernel", OUT, library, b"add")
    assert code == 0
    assert runtime.get("cudaFuncGetParamCount", kernel, OUT) == (0, 3)
    assert runtime("cudaFuncSetAttribute", kernel, 8, 1024) == 0
    found = ctypes.create_string_buffer(144)
    assert runtime("cudaFuncGetAttributes", found, kernel) == 0
    assert struct.unpack_from("<i", found, 44) == (1024,)
    assert runtime.get("cudaGetKernel", OUT, kernel) == (0, kernel)


def test_what_is_not_simulated_is_801_by_name(runtime):
    assert [runtime("cudaCreateTextureObject"), runtime("cudaGetLastError")] == [801, 801]
    assert list(current_session().unsupported) == ["cudaCreateTextureObject"]


def test_graphs_nodes_and_contexts_have_numbers_of_their_own(runtime):
    (_, graph), (_, other) = [runtime.get("cudaGraphCreate", OUT, 0) for _ in "12"]
    nodes = [runtime.get("cudaGraphAddEmptyNode", OUT, each, 0, 0)[1] for each in (graph, graph, other)]
    executables = [runtime.get("cudaGraphInstantiate", OUT, each, 0)[1] for each in (graph, other)]
    _, context = runtime.get("cudaDeviceGetExecutionCtx", OUT, 1)
    assert runtime.get("cudaDeviceGetExecutionCtx", OUT, 2)[0] == 101
    calls = {
        "cudaGraphGetId": (graph, other), "cudaGraphNodeGetToolsId": nodes, "cudaGraphNodeGetLocalId": nodes[:2],
        "cudaGraphExecGetId": executables, "cudaExecutionCtxGetId": [context],
    }  # fmt: skip
    for name, things in calls.items():
        found = [runtime.get(name, each, OUT) for each in things]
        assert [code for code, _ in found] == [0] * len(things)
        assert len(set(found)) == len(things)
    assert [runtime.get("cudaGraphNodeGetContainingGraph", each, OUT) for each in nodes] == [
        (0, graph), (0, graph), (0, other),
    ]  # fmt: skip
    assert [runtime.get("cudaExecutionCtxGetDevice", OUT, each) for each in (context, 0)] == [(0, 1), (1, 0)]


def test_structures_of_graphs_go_there_and_back():
    ends = [*(0, 1, 2, 3, 4096, 64, 64, 2), *(0, 4, 5, 6, 8192, 32, 32, 3), 7, 8, 9]
    for kind in MemcpyKind(0), MemcpyKind(1), MemcpyKind(4):
        back = structures.planes_of_runtime(structures.planes_of_driver(ends, kind))
        assert structures.PLANES.unpack(back) == (*ends, kind)
    launch = structures.KERNEL.pack(77, *range(1, 7), 128, 9, 10)
    for is_kernel in (False, True):
        assert structures.kernel_of_runtime(structures.kernel_of_driver(launch, is_kernel=is_kernel)) == launch


def test_copies_without_a_stream_take_that_of_the_thread_in_a_program_that_wants_it(cuda, monkeypatch):
    monkeypatch.setenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "1")
    runtime = Runtime()
    device, host = cuda.allocate(64), cuda.get("cuMemAllocHost_v2", OUT, 64)[1]
    row = *(0, 0, 0, 0), device, 8, 8, 1, *(0, 0, 0, 0), host, 8, 8, 1, *(8, 1, 1)
    where = type("S", (ctypes.Structure,), {"_fields_": [("x", ctypes.c_uint64 * 4)]})
    extent = type("S", (ctypes.Structure,), {"_fields_": [("x", ctypes.c_uint64 * 3)]})
    box = where((ctypes.c_uint64 * 4)(device, 8, 8, 1)), 0, extent((ctypes.c_uint64 * 3)(8, 1, 1))
    calls = {
        "cudaMemcpy": (device, host, 64, DEFAULT),
        "cudaMemcpy2D": (device, 8, host, 8, 4, 4, DEFAULT),
        "cudaMemcpy3D": (structures.PLANES.pack(*row, DEFAULT),),
        "cudaMemcpy3DPeer": (structures.PEER_PLANES.pack(*row),),
        "cudaMemcpyPeer": (device, 0, device + 32, 0, 8),
        "cudaMemcpyPeerAsync": (device, 0, device + 32, 0, 8, 0),
        "cudaMemset": (device, 0, 64),
        "cudaMemset2D": (device, 8, 0, 4, 1),
        "cudaMemset3D": box,
    }
    for name, arguments in calls.items():
        assert (name, runtime(name, *arguments), runtime("cudaDeviceSynchronize")) == (name, 0, 0)
    streams = [row.stream for row in current_session().trace.timeline().ops]
    assert streams == ["per_thread"] * 4 + ["legacy"] * 2 + ["per_thread"] * 3


def test_a_function_with_another_number_of_arguments_than_the_table_has_is_not_simulated(cuda):
    others = replacing.functions({"cudaMalloc": 3, "cudaFree": 1})
    address = ctypes.c_uint64()
    malloc = ctypes.CFUNCTYPE(ctypes.c_int)(others.address("cudaMalloc"))
    assert malloc(ctypes.byref(address), ctypes.c_uint64(64), ctypes.c_uint64(0)) == 801
    assert address.value == 0
