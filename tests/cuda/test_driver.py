"""Functions of the driver, through ctypes: what they return and write, and what the device did meanwhile."""

import ctypes
import gc
import struct
import threading
from dataclasses import replace

import pytest

import acl_py
from acl_py.compat.acl.face.session import current_session
from acl_py.compat.acl.report import report
from acl_py.compat.cuda.face import exports
from acl_py.compat.cuda.face.calls import answered
from acl_py.compat.cuda.face.wrappers import wrapped
from acl_py.compat.cuda.library.signatures import read
from device_model.profile import load
from tests.cuda.calling import EMPTY, OUT, PTX, Cuda, pointers
from tests.cuda.conftest import driver
from tests.cuda.hostile import Hostile

ASSERT = """.extern .func __assertfail
(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 size);
"""
CALL = """
mov.u64 %x, counter; .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
st.param.b64 [a], %x; st.param.b64 [b], %x; st.param.b32 [c], 7; st.param.b64 [d], %x; st.param.b64 [e], 1;
call.uni __assertfail, (a, b, c, d, e);
"""


def device_history():
    """The operations of the session in the order of their ends: kind, begin and end."""
    return [(row.name, row.start_ns, row.end_ns) for row in current_session().trace.timeline().ops]


def test_each_function_that_is_answered_is_one_of_the_library(cuda):
    assert answered() <= read().keys()
    assert len(answered()) > 150


def test_bytes_go_to_the_device_and_back_in_the_order_of_a_stream(cuda):
    code, stream = cuda.get("cuStreamCreate", OUT, 1)
    assert code == 0
    (_, source), (_, target) = cuda.get("cuMemAllocHost_v2", OUT, 1000), cuda.get("cuMemAllocHost_v2", OUT, 1000)
    device = cuda.allocate(1000)
    ctypes.memset(source, 7, 1000)
    codes = [
        cuda("cuMemcpyHtoDAsync_v2", device, source, 1000, stream),
        cuda("cuMemsetD8Async", device + 500, 9, 500, stream),
        cuda("cuMemcpyDtoHAsync_v2", target, device, 1000, stream),
        cuda("cuStreamQuery", stream),
        cuda("cuStreamSynchronize", stream),
        cuda("cuStreamQuery", stream),
    ]
    assert codes == [0, 0, 0, 600, 0, 0]
    assert ctypes.string_at(target, 1000) == bytes([7]) * 500 + bytes([9]) * 500
    assert [name for name, *_ in device_history()] == ["h2d", "fill", "d2h"]
    begins, ends = [each[1] for each in device_history()], [each[2] for each in device_history()]
    assert (ends[0] <= begins[1], ends[1] <= begins[2]) == (True, True)


def test_events_order_streams_and_have_times(cuda):
    streams = [cuda.get("cuStreamCreate", OUT, 1)[1] for _ in range(2)]
    (_, first), (_, second) = cuda.get("cuEventCreate", OUT, 0), cuda.get("cuEventCreate", OUT, 0)
    device = cuda.allocate(4096)
    elapsed = ctypes.c_float()
    assert cuda("cuEventElapsedTime_v2", ctypes.byref(elapsed), first, second) == 400  # never recorded
    codes = [
        cuda("cuEventRecord", first, streams[0]),
        cuda("cuMemsetD8Async", device, 1, 4096, streams[0]),
        cuda("cuEventRecord", second, streams[0]),
        cuda("cuStreamWaitEvent", streams[1], second, 0),
        cuda("cuMemsetD8Async", device, 2, 4096, streams[1]),
        cuda("cuEventQuery", second),
        cuda("cuEventSynchronize", second),
        cuda("cuStreamSynchronize", streams[1]),
        cuda("cuEventElapsedTime_v2", ctypes.byref(elapsed), first, second),
    ]
    assert codes == [0, 0, 0, 0, 0, 600, 0, 0, 0]
    (_, begin, end), (_, next_begin, _) = device_history()
    assert (end - begin, next_begin >= end, round(elapsed.value * 1e6)) == (4096, True, 4096 + 1000)  # and a call


def test_each_thread_has_a_stack_of_contexts(cuda):
    _, primary = cuda.get("cuCtxGetCurrent", OUT)
    code, own = cuda.get("cuCtxCreate_v4", OUT, 0, 0, 1)
    assert (code, cuda.get("cuCtxGetCurrent", OUT)) == (0, (0, own))
    assert cuda.get("cuCtxGetDevice", OUT) == (0, 1)
    assert cuda("cuCtxPushCurrent_v2", primary) == 0
    assert cuda.get("cuCtxGetDevice", OUT) == (0, 0)
    seen = []
    thread = threading.Thread(target=lambda: seen.extend([cuda.get("cuCtxGetCurrent", OUT), cuda("cuCtxSynchronize")]))
    thread.start()
    thread.join()
    assert seen == [(0, 0), 201]
    pops = [cuda.get("cuCtxPopCurrent_v2", OUT) for _ in range(4)]
    assert pops == [(0, primary), (0, own), (0, primary), (201, 0)]
    assert (cuda("cuCtxDestroy_v2", own), cuda("cuCtxSetCurrent", own)) == (0, 201)


def test_kernels_run_with_the_arguments_of_both_forms(h200):
    function = h200.function()
    device = h200.allocate(4000)
    assert h200("cuMemsetD32_v2", device, 0, 1000) == 0
    arguments = pointers(ctypes.c_uint64(device), ctypes.c_uint32(5), ctypes.c_uint32(1000))
    shape = 4, 1, 1, 256, 1, 1, 0
    assert h200("cuLaunchKernel", function, *shape, 0, arguments, None) == 0
    buffer = ctypes.create_string_buffer(struct.pack("<QII", device, 2, 500), 16)
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(ctypes.c_size_t(16)), 0)
    size = ctypes.c_size_t(16)
    extra[3] = ctypes.addressof(size)
    assert h200("cuLaunchKernel", function, *shape, 0, None, extra) == 0
    config = ctypes.create_string_buffer(struct.pack("<7I4xQQI4x", *shape, 0, 0, 0), 56)
    arguments = pointers(ctypes.c_uint64(device), ctypes.c_uint32(1), ctypes.c_uint32(250))
    assert h200("cuLaunchKernelEx", config, function, arguments, None) == 0
    result = (ctypes.c_uint32 * 1000)()
    assert h200("cuMemcpyDtoH_v2", result, device, 4000) == 0
    assert list(result) == [8] * 250 + [7] * 250 + [5] * 500


def test_a_library_has_kernels_and_variables_in_each_context(h200):
    code, library = h200.get("cuLibraryLoadData", OUT, wrapped(PTX.encode()), None, None, 0, None, None, 0)
    assert code == 0
    code, kernel = h200.get("cuLibraryGetKernel", OUT, library, b"add")
    assert code == 0
    (code, address, nbytes) = h200.get("cuLibraryGetGlobal", OUT, OUT, library, b"counter")
    assert (code, nbytes) == (0, 8)
    assert h200.get("cuLibraryGetKernelCount", OUT, library) == (0, 1)
    assert [h200.get("cuKernelGetParamInfo", kernel, number, OUT, OUT) for number in range(4)] == [
        (0, 0, 8), (0, 8, 4), (0, 12, 4), (1, 0, 0),
    ]  # fmt: skip
    arguments = pointers(ctypes.c_uint64(address), ctypes.c_uint32(3), ctypes.c_uint32(2))
    assert h200("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, 0, arguments, None) == 0
    result = (ctypes.c_uint32 * 2)()
    assert (h200("cuMemcpyDtoH_v2", result, address, 8), list(result)) == (0, [3, 3])
    assert (h200("cuLibraryUnload", library), h200("cuLibraryUnload", library)) == (0, 400)


@pytest.mark.parametrize("before", [("cuCtxSetCurrent", 0), ("cuDevicePrimaryCtxReset_v2", 0)])
def test_a_library_is_unloaded_without_a_context_too(h200, before):
    code, library = h200.get("cuLibraryLoadData", OUT, PTX.encode(), None, None, 0, None, None, 0)
    assert (code, h200(*before), h200("cuLibraryUnload", library)) == (0, 0, 0)


def test_kernels_of_a_file_are_named_without_a_context_and_asked_with_one(h200, tmp_path):
    images = {"text": (PTX.encode(), 0), "wrapped": (wrapped(PTX.encode()), 0), "code": (b"\x7fELF" + bytes(200), 209)}
    _, context = h200.get("cuCtxPopCurrent_v2", OUT)
    for name, (image, expected) in images.items():
        (tmp_path / name).write_bytes(image)
        arguments = str(tmp_path / name).encode(), None, None, 0, None, None, 0
        code, library = h200.get("cuLibraryLoadFromFile", OUT, *arguments)
        assert code == expected
        if not code:
            code, kernel = h200.get("cuLibraryGetKernel", OUT, library, b"add")
            assert (code, h200.get("cuLibraryGetKernel", OUT, library, b"sub")[0]) == (0, 500)
            assert h200.get("cuKernelGetParamInfo", kernel, 0, OUT, OUT)[0] == 201
    h200("cuCtxPushCurrent_v2", context)
    assert h200.get("cuKernelGetParamInfo", kernel, 0, OUT, OUT) == (0, 0, 8)


def test_machine_code_has_a_stand_in_where_there_is_ptx_beside_its_file(h200, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = b"\x7fELF\x02\x01\x01" + bytes(range(200))
    (tmp_path / "kernels.cubin").write_bytes(code)

    def loaded():
        images = ("cuModuleLoad", b"kernels.cubin"), ("cuModuleLoadData", code), ("cuModuleLoadData", code[:-1] + b"x")
        return [h200.get(name, OUT, image) for name, image in images]

    assert [result for result, _ in loaded()] == [209] * 3
    (tmp_path / "kernels.cubin.ptx").write_text(PTX)
    found = loaded()
    assert [result for result, _ in found] == [0, 0, 209]
    assert [h200.get("cuModuleGetFunction", OUT, module, b"add")[0] for _, module in found] == [0, 0, 400]
    said = "\n".join(current_session().failures.lines())
    assert "load PTX instead, or put it beside the file, as kernels.cubin.ptx" in said
    assert "write the image to a file kernels.cubin in the current folder, and its PTX to kernels.cubin.ptx" in said


def test_a_handle_that_is_none_is_said_in_words(cuda):
    _, stream = cuda.get("cuStreamCreate", OUT, 0)
    wrong = ("cuEventRecord", stream, 0), ("cuGraphLaunch", stream, 0), ("cuMemRelease", 7), ("cuModuleUnload", 7)
    assert [cuda(*call) for call in wrong] == [400, 1, 400, 400]
    said = "\n".join(current_session().failures.lines())
    kinds = ["an event, but of a stream", "an executable graph, but of a stream", "a piece of memory", "a module"]
    assert [each for each in kinds if f"is no handle of {each}\n" in f"{said}\n"] == kinds


def test_dynamic_shared_memory_that_is_available_is_what_a_kernel_may_have(h200):
    function = h200.function()
    assert h200.get("cuOccupancyAvailableDynamicSMemPerBlock", OUT, function, 2, 64) == (0, 48 << 10)
    assert h200("cuFuncSetAttribute", function, 8, 100 << 10) == 0
    assert h200.get("cuOccupancyAvailableDynamicSMemPerBlock", OUT, function, 2, 64) == (0, 100 << 10)
    assert h200.get("cuOccupancyAvailableDynamicSMemPerBlock", OUT, function, 4, 64) == (0, 57344)


def test_a_module_that_ends_gives_back_the_memory_of_its_variables_when_its_kernels_are_over(h200):
    _, empty, _ = h200.get("cuMemGetInfo_v2", OUT, OUT)
    _, module = h200.get("cuModuleLoadData", OUT, PTX.encode())
    _, function = h200.get("cuModuleGetFunction", OUT, module, b"add")
    _, address, _ = h200.get("cuModuleGetGlobal_v2", OUT, OUT, module, b"counter")
    assert h200.get("cuMemGetInfo_v2", OUT, OUT)[1] < empty
    arguments = pointers(ctypes.c_uint64(address), ctypes.c_uint32(3), ctypes.c_uint32(2))
    assert h200("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, arguments, None) == 0
    assert (h200("cuModuleUnload", module), h200("cuModuleUnload", module)) == (0, 400)
    assert (h200("cuCtxSynchronize"), h200.get("cuMemGetInfo_v2", OUT, OUT)[1]) == (0, empty)
    assert h200("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, arguments, None) == 400
    assert h200("cuMemcpyDtoH_v2", (ctypes.c_uint32 * 2)(), address, 8) == 1


@pytest.mark.parametrize(
    ("image", "code"),
    [
        (b"no code", 200),
        (b"\x7fELF\x02\x01\x01" + bytes(100), 209),
        (b"\x50\xed\x55\xba" + bytes(100), 209),
        (PTX.replace("mov.u32", "move.u32").encode(), 218),
        (PTX.replace("ret;\n}", "wgmma.fence.sync.aligned; ret;\n}").encode(), 801),
        (PTX.replace("ret;\n}", "ret;").encode(), 218),
        (PTX.replace("sm_90", "sm_120").encode(), 218),
        (PTX.replace("8.0", "9.1").encode(), 222),
        (PTX.replace("8.0", "2.9").encode(), 801),
        (PTX.replace("ret;\n}", "barrier.cluster.arrive; ret;\n}").encode(), 801),
        (PTX.replace(".global", ".global .texref t;\n.global", 1).encode(), 801),
        (PTX.replace("ret;\n}", "a_word_that_is_not_supported; ret;\n}").encode(), 218),
        (None, 1),
    ],
)
def test_an_image_that_cannot_be_used_has_a_code(h200, image, code):
    assert h200.get("cuModuleLoadData", OUT, image) == (code, 0)


def test_launches_that_do_not_fit_and_names_that_are_not_there_have_codes(h200):
    function = h200.function()
    arguments = pointers(ctypes.c_uint64(0), ctypes.c_uint32(5), ctypes.c_uint32(0))
    shapes = [(0, 1, 1, 32, 1, 1, 0), (1, 1, 1, 1025, 1, 1, 0), (1, 1, 1, 32, 1, 65, 0), (1, 1, 1, 32, 1, 1, 50000)]
    assert [h200("cuLaunchKernel", function, *shape, 0, arguments, None) for shape in shapes] == [1, 1, 1, 1]
    assert h200("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, None, None) == 1
    assert h200("cuLaunchKernel", 4711, 1, 1, 1, 32, 1, 1, 0, 0, arguments, None) == 400
    _, module = h200.get("cuModuleLoadData", OUT, PTX.encode())
    assert h200.get("cuModuleGetFunction", OUT, module, b"sub") == (500, 0)
    assert h200.get("cuModuleGetGlobal_v2", OUT, None, module, b"x") == (500, 0)


def test_a_launch_with_too_few_arguments_says_how_many_the_kernel_takes(h200):
    function, only = h200.function(), ctypes.c_uint64(0)
    arguments = (ctypes.c_void_p * 3)(ctypes.addressof(only), None, None)
    assert h200("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, arguments, None) == 1
    assert (
        "CUDA_ERROR_INVALID_VALUE (1): kernel add takes 3 arguments, and nothing is at 0x0, where the 4 bytes of "
        "argument 2 should be: pass all of them"
    ) in report(current_session())


def test_a_kernel_that_leaves_memory_loses_the_context_for_good(h200):
    function = h200.function()
    assert h200("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, _at(64), None) == 0
    codes = [h200("cuCtxSynchronize"), h200("cuStreamSynchronize", 0), h200.get("cuMemAlloc_v2", OUT, 8)[0]]
    assert codes == [700, 700, 700]
    assert h200("cuDevicePrimaryCtxReset_v2", 0) == 0
    assert h200.get("cuDevicePrimaryCtxRetain", OUT, 0) == (700, 0)


def test_what_fails_in_a_lost_context_is_told_once_and_has_no_leaks(h200):
    h200.get("cuMemAlloc_v2", OUT, 8)
    h200("cuLaunchKernel", h200.function(), 1, 1, 1, 32, 1, 1, 0, 0, _at(64), None)
    h200("cuCtxSynchronize")
    h200("cuStreamSynchronize", 0)
    kernel, wait, same, leaks = report(current_session()).splitlines()[-4:]
    assert kernel.startswith("  failed: kernel add, submitted at ")
    assert "cuCtxSynchronize()" in wait
    assert wait.endswith("; only a new process gets another context")
    assert same.startswith("    the same answer: cuStreamSynchronize() at ")
    assert leaks == "  leaks are not listed, because a context was lost: nothing in it can be freed or destroyed"


def test_memory_that_a_reset_frees_in_a_lost_context_is_no_leak(h200):
    h200.get("cuMemAlloc_v2", OUT, 8)
    h200("cuLaunchKernel", h200.function(), 1, 1, 1, 32, 1, 1, 0, 0, _at(64), None)
    assert (h200("cuCtxSynchronize"), h200("cuDevicePrimaryCtxReset_v2", 0)) == (700, 0)
    assert "leak" not in report(current_session())


def _at(address):
    return pointers(ctypes.c_uint64(address), ctypes.c_uint32(5), ctypes.c_uint32(1))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("ld.param.u64 %x, [x]; ld.global.u32 %v, [%x+2];", 716),
        ("ld.param.u64 %x, [x]; atom.global.add.u32 %v, [%x+2], 1;", 716),
        ("trap;", 719),
        (CALL, 710),
    ],
)
def test_what_stops_a_kernel_has_the_code_of_a_card(h200, body, code):
    head, _, _ = PTX.partition("mov.u32 %b")
    _, address = h200.get("cuMemAlloc_v2", OUT, 64)
    function = h200.function(f"{head.replace('.visible', f'{ASSERT}.visible')} {body} ret;\n}}")
    arguments = pointers(ctypes.c_uint64(address), ctypes.c_uint32(5), ctypes.c_uint32(1))
    assert h200("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, 0, arguments, None) == 0
    assert [h200("cuCtxSynchronize"), h200("cuStreamSynchronize", 0)] == [code, code]


def test_functions_are_found_by_their_names_with_versions_and_streams_of_threads(cuda):
    def found(name, version, flags=0):
        code, address, status = cuda.get("cuGetProcAddress_v2", name, OUT, version, flags, OUT)
        names = [each for each in EXPORTED if address and exports.address(each) == address]
        return code, names, status

    assert found(b"cuMemAlloc", 13000) == (0, ["cuMemAlloc_v2"], 0)
    assert found(b"cuMemAlloc", 3000) == (0, ["cuMemAlloc"], 0)
    assert found(b"cuCtxCreate", 12000) == (0, ["cuCtxCreate_v3"], 0)
    assert found(b"cuGetProcAddress", 13000) == (0, ["cuGetProcAddress_v2"], 0)
    assert found(b"cuGetProcAddress", 11030) == (0, ["cuGetProcAddress"], 0)
    assert found(b"cuStreamSynchronize", 13000, 1) == (0, ["cuStreamSynchronize"], 0)
    assert found(b"cuStreamSynchronize", 13000, 2) == (0, ["cuStreamSynchronize_ptsz"], 0)
    assert found(b"cuMemcpyHtoD", 7000, 2) == (0, ["cuMemcpyHtoD_v2_ptds"], 0)
    assert found(b"cuInit", 13000, 2) == (0, ["cuInit"], 0)
    assert found(b"cuLibraryLoadData", 11000) == (0, [], 2)
    assert found(b"cuNothing", 13000) == (0, [], 1)


EXPORTED = [name for signature in read().values() for name in signature.names]


def test_stream_0_is_that_of_the_thread_where_a_program_asked_for_it(cuda):
    device = cuda.allocate(64)
    assert cuda("cuMemsetD8Async_ptsz", device, 1, 64, 0) == 0
    assert cuda("cuMemsetD8Async", device, 1, 64, 0) == 0
    assert cuda("cuMemsetD8Async", device, 1, 64, 1) == 0
    assert cuda("cuMemsetD8Async_ptsz", device, 1, 64, 2) == 0
    assert cuda("cuCtxSynchronize") == 0
    rows = current_session().trace.timeline().ops
    assert [row.stream for row in rows] == ["per_thread", "legacy", "legacy", "per_thread"]


def test_a_function_of_the_host_runs_in_its_stream_and_must_not_call_the_driver(cuda):
    seen = []

    def function(data):
        seen.append((data, cuda("cuCtxSynchronize")))

    kept = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(function)
    address = ctypes.cast(kept, ctypes.c_void_p).value
    assert cuda("cuLaunchHostFunc", 0, address, 42) == 0
    assert (seen, cuda("cuCtxSynchronize"), seen) == ([(42, 800)], 0, [(42, 800)])
    assert cuda("cuLaunchHostFunc", 0, 0, 42) == 1


def test_what_is_not_simulated_is_801_by_name_and_said_once(cuda, capfd):
    assert [cuda.get("cuTexRefCreate", OUT) for _ in range(2)] == [(801, 0)] * 2
    assert capfd.readouterr().err == "acl: cuTexRefCreate is not simulated: it returns 801\n"


def test_an_exception_is_raised_behind_the_call_and_not_in_c(cuda, monkeypatch):
    monkeypatch.setattr(acl_py, "SynchronizeDevice", fail)
    with pytest.raises(LookupError, match="of a verb"):
        cuda("cuCtxSynchronize")
    with pytest.raises(LookupError, match="of a verb"):
        print(list(map(cuda.library.cuCtxSynchronize, range(3))))  # no Python runs between these calls
    caught = []
    _, context = cuda.get("cuCtxGetCurrent", OUT)

    def in_thread():
        cuda("cuCtxSetCurrent", context)
        try:
            cuda("cuCtxSynchronize")
        except LookupError as error:
            caught.append(str(error))

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert caught == ["of a verb"]


async def fail():
    raise LookupError("of a verb")


@pytest.mark.parametrize("error", [ZeroDivisionError("1"), OverflowError("2"), KeyboardInterrupt()])
def test_an_exception_on_its_way_goes_on_behind_a_call_of_a_destructor_in_c(cuda, error):
    device, (_, event) = cuda.allocate(1 << 20), cuda.get("cuEventCreate", OUT, 0)
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.argtypes, new_capsule.restype = [ctypes.c_void_p] * 3, ctypes.py_object
    waiting = ctypes.cast(cuda.library.cuCtxSynchronize, ctypes.c_void_p)
    for _ in range(3):
        assert cuda("cuMemsetD8Async", device, 1, 1 << 20, 0) == cuda("cuEventRecord", event, 0) == 0
        assert cuda("cuEventQuery", event) == 600
        with pytest.raises(type(error)) as caught:
            print(new_capsule(1, None, waiting), failing(error))  # the capsule ends on the way of the exception
        assert (caught.value, caught.value.__context__, caught.traceback[-1].name) == (error, None, "failing")
        assert len(caught.traceback) == 2
        assert cuda("cuEventQuery", event) == 0
        error = error.with_traceback(None)


def failing(error):
    for _ in range(1000):  # garbage is due then, and is collected where the next function begins
        [[]].append([])
    raise error


@pytest.mark.parametrize("seed", range(3))
def test_calls_that_no_program_should_make_have_codes(h200, seed, capfd):
    h200.function()
    codes = Hostile(h200, seed).run(500)
    assert codes.keys() >= {0, 1, 101, 201, 400, 801}
    capfd.readouterr()
    assert isinstance(Cuda("libcuda.so").get("cuCtxGetCurrent", OUT)[0], int)


class Held:
    """An object of a package, which ends *memory* when it is collected, wherever that happens."""

    def __init__(self, cuda, memory, codes):
        self.cuda, self.memory, self.codes = cuda, memory, codes
        self.itself = self

    def __del__(self):
        self.codes.append(self.cuda("cuMemFree_v2", self.memory))


def test_a_finalizer_in_the_middle_of_a_call_is_put_off_to_its_end(cuda, monkeypatch):
    codes = []
    Held(cuda, cuda.allocate(64), codes)
    _, free, _ = cuda.get("cuMemGetInfo_v2", OUT, OUT)
    seen = []

    async def collect():
        gc.collect()
        seen.append((list(codes), current_session().runtime.memory.free_bytes(0)))

    monkeypatch.setattr(acl_py, "SynchronizeDevice", collect)
    assert cuda("cuCtxSynchronize") == 0
    assert (seen, codes) == ([([0], free)], [0])
    assert cuda.get("cuMemGetInfo_v2", OUT, OUT)[1] > free


def test_a_finalizer_in_the_middle_of_a_call_gets_an_answer_if_it_only_reads(cuda, monkeypatch):
    _, context = cuda.get("cuCtxGetCurrent", OUT)
    answers = []

    async def look():
        answers.extend([cuda.get("cuCtxGetCurrent", OUT), cuda.get("cuCtxGetDevice", OUT)])

    monkeypatch.setattr(acl_py, "SynchronizeDevice", look)
    assert (cuda("cuCtxSynchronize"), answers) == (0, [(0, context), (0, 0)])


def test_a_copy_takes_the_memory_that_is_at_an_address_now(cuda):
    source, device = ctypes.create_string_buffer(b"first", 64), cuda.allocate(64)
    _, target = cuda.get("cuMemAllocHost_v2", OUT, 64)
    codes = []
    for text in (b"first", b"second"):
        source.value = text
        codes.append([
            cuda("cuMemHostRegister_v2", source, 64, 0),
            cuda("cuMemcpyHtoDAsync_v2", device, source, 64, 0),
            cuda("cuMemcpyDtoHAsync_v2", target, device, 64, 0),
            cuda("cuCtxSynchronize"),
            cuda("cuMemHostUnregister", source),
        ])  # fmt: skip
        assert ctypes.string_at(target) == text
    assert codes == [[0] * 5] * 2
    assert (cuda("cuMemFree_v2", device), cuda("cuMemcpyDtoHAsync_v2", target, device, 64, 0)) == (0, 1)


def test_a_copy_of_no_bytes_does_nothing_wherever_its_ends_are(cuda):
    assert (cuda("cuMemcpyHtoDAsync_v2", 0, 0, 0, 0), cuda("cuMemcpyDtoH_v2", 0, 0, 0)) == (0, 0)
    assert device_history() == []


def test_copies_take_pinned_memory_for_memory_of_a_device_and_no_other_memory_of_the_host(cuda):
    _, pinned = cuda.get("cuMemAllocHost_v2", OUT, 64)
    pageable = ctypes.create_string_buffer(64)
    device = cuda.allocate(64)
    codes = [
        cuda("cuMemcpyDtoH_v2", pageable, pinned, 64),
        cuda("cuMemcpyHtoD_v2", pinned, pageable, 64),
        cuda("cuMemcpyDtoD_v2", pinned, device, 64),
        cuda("cuMemcpyHtoD_v2", pageable, device, 64),
        cuda("cuMemcpyDtoH_v2", device, pageable, 64),
        cuda("cuMemcpyDtoDAsync_v2", device, pageable, 64, 0),
    ]
    assert codes == [0, 0, 0, 1, 1, 1]


def test_the_linker_joins_texts_and_limits_registers(h200):
    other = PTX.replace("add(", "sub(").replace("add.u32 %w, %w, %v", "sub.u32 %w, %w, %v").replace("counter", "other")
    keys, values = (ctypes.c_uint32 * 1)(0), (ctypes.c_uint64 * 1)(4)
    code, link = h200.get("cuLinkCreate_v2", 1, keys, values, OUT)
    assert code == 0
    for text in (PTX, other):
        assert h200("cuLinkAddData_v2", link, 1, text.encode(), len(text), b"a", 0, None, None) == 0
    library = b"!<arch>\n" + bytes(100)  # cooperative groups ask for one, and need nothing of it
    assert h200("cuLinkAddData_v2", link, 4, library, len(library), b"b", 0, None, None) == 0
    assert h200("cuLinkAddData_v2", link, 3, library, len(library), b"c", 0, None, None) == 801
    code, image, nbytes = h200.get("cuLinkComplete", link, OUT, OUT)
    assert code == 0
    code, module = h200.get("cuModuleLoadData", OUT, image)
    assert code == 0
    assert [h200.get("cuModuleGetFunction", OUT, module, name)[0] for name in (b"add", b"sub")] == [0, 0]
    assert ctypes.string_at(image, nbytes).count(b".maxnreg 4") == 2
    assert (h200("cuLinkDestroy", link), h200("cuLinkDestroy", link)) == (0, 400)
    code, link = h200.get("cuLinkCreate_v2", 0, None, None, OUT)
    assert (code, h200("cuLinkAddData_v2", link, 1, b"none", 4, b"a", 0, None, None)) == (0, 200)


def test_the_linker_takes_files_as_what_lies_in_memory(h200, tmp_path):
    files = {"a.ptx": PTX.encode(), "none.ptx": b"none", "device.a": b"!<arch>\n" + bytes(100), "a.o": b"an object"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    _, link = h200.get("cuLinkCreate_v2", 0, None, None, OUT)
    given = [(1, "a.ptx", 0), (4, "device.a", 0), (1, "none.ptx", 200), (1, "lost.ptx", 301), (4, "lost.a", 301)]
    for kind, name, code in [*given, (3, "a.o", 801), (4, "a.o", 801)]:
        path = str(tmp_path / name).encode()
        assert h200("cuLinkAddFile_v2", link, kind, path, 0, None, None) == code, name
    code, image, _ = h200.get("cuLinkComplete", link, OUT, OUT)
    assert code == 0
    _, module = h200.get("cuModuleLoadData", OUT, image)
    assert h200.get("cuModuleGetFunction", OUT, module, b"add")[0] == 0


def test_cooperative_blocks_that_do_not_all_fit_are_720(h200):
    function = h200.function()
    device = h200.allocate(64)
    arguments = pointers(ctypes.c_uint64(device), ctypes.c_uint32(5), ctypes.c_uint32(0))
    codes = [
        h200("cuLaunchCooperativeKernel", function, blocks, 1, 1, 1024, 1, 1, 0, 0, arguments) for blocks in (264, 265)
    ]
    assert codes == [0, 720]
    config = struct.pack("<7I4xQQI4x", 265, 1, 1, 1024, 1, 1, 0, 0, ctypes.addressof(COOPERATIVE), 1)
    assert h200("cuLaunchKernelEx", ctypes.create_string_buffer(config), function, arguments, None) == 720
    assert h200.get("cuOccupancyMaxActiveBlocksPerMultiprocessor", OUT, function, 1024, 0) == (0, 2)


def test_clusters_have_one_block(h200):
    function = h200.function()

    def asked(threads, cluster):
        attribute = ctypes.create_string_buffer(struct.pack("<I4x3I", 4, cluster, 1, 1), 72)
        data = struct.pack("<7I4xQQI4x", 64, 1, 1, threads, 1, 1, 0, 0, ctypes.addressof(attribute), 1)
        config, arguments = ctypes.create_string_buffer(data), pointers(*(ctypes.c_uint64(0) for _ in "abc"))
        names = ("cuOccupancyMaxActiveClusters", "cuOccupancyMaxPotentialClusterSize")
        found = [h200.get(name, OUT, function, config) for name in names]
        return found, h200("cuLaunchKernelEx", config, function, arguments, None)

    assert asked(1024, 1) == ([(0, 264), (0, 1)], 0)
    assert asked(1024, 2) == ([(0, 0), (0, 1)], 801)
    assert asked(2048, 1) == ([(0, 0), (0, 0)], 1)


GRID_SYNC = """
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle (.param .b32 scope);
.extern .func (.param .b32 r) cudaCGSynchronize (.param .b64 handle, .param .b32 flags);
.visible .entry k(.param .u64 x)
{
    .reg .u64 %x, %o, %p, %h; .reg .u32 %b, %n, %v;
    ld.param.u64 %x, [x]; mov.u32 %b, %ctaid.x; mov.u32 %n, %nctaid.x; mul.wide.u32 %o, %b, 4; add.u64 %o, %x, %o;
    { .param .b32 s; .param .b64 r; st.param.b32 [s], 1; call (r), cudaCGGetIntrinsicHandle, (s);
      ld.param.b64 %h, [r]; }
    st.global.u32 [%o], %b;
    { .param .b64 h; .param .b32 f; .param .b32 r; st.param.b64 [h], %h; st.param.b32 [f], 0;
      call (r), cudaCGSynchronize, (h, f); }
    sub.u32 %n, %n, 1; sub.u32 %b, %n, %b; mul.wide.u32 %p, %b, 4; add.u64 %p, %x, %p; ld.global.u32 %v, [%p];
    { .param .b64 h; .param .b32 f; .param .b32 r; st.param.b64 [h], %h; st.param.b32 [f], 0;
      call (r), cudaCGSynchronize, (h, f); }
    st.global.u32 [%o], %v; ret;
}
"""


def test_a_grid_waits_for_itself_where_a_text_asks_the_device_runtime_for_it(h200):
    function = h200.function(GRID_SYNC, b"k")
    device, found = h200.allocate(32), (ctypes.c_uint32 * 8)()
    for _ in range(2):
        assert (
            h200("cuLaunchCooperativeKernel", function, 8, 1, 1, 64, 1, 1, 0, 0, pointers(ctypes.c_uint64(device))) == 0
        )
        assert h200("cuMemcpyDtoH_v2", found, device, 32) == 0
        assert list(found) == [7, 6, 5, 4, 3, 2, 1, 0]


HEAP = """
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 nbytes);
.extern .func free (.param .b64 place);
.visible .entry k(.param .u64 x, .param .u64 nbytes)
{
    .reg .u64 %x, %m, %n; .reg .u32 %t, %v; .reg .pred %p;
    ld.param.u64 %x, [x]; ld.param.u64 %n, [nbytes]; mov.u32 %t, %tid.x; mul.wide.u32 %m, %t, 4; add.u64 %x, %x, %m;
    { .param .b64 n; .param .b64 r; st.param.b64 [n], %n; call (r), malloc, (n); ld.param.b64 %m, [r]; }
    mov.u32 %v, 99; setp.eq.u64 %p, %m, 0; @%p bra OUT;
    st.u32 [%m], %t; bar.sync 0; ld.u32 %v, [%m];
    { .param .b64 m; st.param.b64 [m], %m; call free, (m); }
OUT:
    st.global.u32 [%x], %v; ret;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("nbytes", "expected"), [(100_000, list(range(8))), (9 << 20, [99] * 8)])
def test_kernels_have_a_heap_that_is_free_again_when_all_is_given_back(h200, nbytes, expected):
    function = h200.function(HEAP, b"k")
    device, found = h200.allocate(32), (ctypes.c_uint32 * 8)()
    for _ in range(12):
        arguments = pointers(ctypes.c_uint64(device), ctypes.c_uint64(nbytes))
        assert h200("cuLaunchKernel", function, 1, 1, 1, 8, 1, 1, 0, 0, arguments, None) == 0
        assert h200("cuMemcpyDtoH_v2", found, device, 32) == 0
        assert list(found) == expected


COOPERATIVE = ctypes.create_string_buffer(struct.pack("<I4xi60x", 2, 1), 72)


def test_finalizers_get_results_because_no_call_begins_a_collection(h200):
    codes = []

    class Owner:
        def __init__(self):
            self.itself = self

        def __del__(self):
            codes.append(h200.get("cuCtxGetCurrent", OUT)[0])

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(5):
            Owner()
            h200.function()
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert (codes, gc.isenabled()) == ([0] * 5, True)


def test_the_version_is_a_value_of_the_profile_and_bounds_ptx_and_functions():
    profile = replace(load("h200"), driver=12090)
    with driver(profile) as cuda:
        assert cuda.get("cuDriverGetVersion", OUT) == (0, 12090)
        assert cuda.get("cuModuleLoadData", OUT, PTX.replace("8.0", "8.9").encode())[0] == 222
        assert cuda.get("cuModuleLoadData", OUT, PTX.replace("8.0", "8.8").encode())[0] == 0
        found = [cuda.get("cuGetProcAddress_v2", b"cuCtxGetDevice", OUT, asked, 0, OUT) for asked in (12090, 13000)]
        assert found[0] == found[1]


def test_codes_have_names_and_words(cuda):
    def text(name, code):
        result, address = cuda.get(name, code, OUT)
        return ctypes.string_at(address).decode() if result == 0 else result

    known = [(text("cuGetErrorName", code), text("cuGetErrorString", code)) for code in (0, 101, 700, 719, 915)]
    assert known == [
        ("CUDA_SUCCESS", "no error"),
        ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
        ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
        ("CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "invalid resource configuration"),
    ]
    assert (text("cuGetErrorName", 77), text("cuGetErrorString", 77)) == (1, 1)


def test_nothing_has_no_name(h200):
    function = h200.function()
    code, address = h200.get("cuFuncGetName", OUT, function)
    assert (code, ctypes.string_at(address)) == (0, b"add")
    asked = [(name, handle) for name in ("cuFuncGetName", "cuKernelGetName") for handle in (0, 7)]
    assert [h200.get(name, OUT, handle)[0] for name, handle in asked] == [1, 400, 1, 400]


def test_a_call_without_a_context_is_made_in_that_of_the_object_it_names(h200):
    """Measured: only calls that name none are refused."""
    function, device = h200.function(EMPTY, b"empty"), h200.allocate(64)
    (_, stream), (_, event) = h200.get("cuStreamCreate", OUT, 1), h200.get("cuEventCreate", OUT, 0)
    _, module = h200.get("cuModuleLoadData", OUT, EMPTY.encode())
    _, array = h200.get("cuArrayCreate_v2", OUT, struct.pack("<QQII", 16, 0, 1, 1))
    _, pinned = h200.get("cuMemAllocHost_v2", OUT, 64)
    _, other = h200.get("cuCtxCreate_v2", OUT, 0, 1)
    _, far = h200.get("cuStreamCreate", OUT, 1)
    assert (h200.get("cuCtxPopCurrent_v2", OUT), h200("cuCtxSetCurrent", 0)) == ((0, other), 0)
    calls = {
        "cuStreamQuery": (stream,), "cuEventRecord": (event, stream), "cuStreamWaitEvent": (stream, event, 0),
        "cuLaunchKernel": (function, *[1] * 6, 0, stream, 0, 0), "cuMemsetD8Async": (device, 0, 8, stream),
        "cuStreamSynchronize": (far,), "cuEventSynchronize": (event,), "cuArrayDestroy": (array,),
        "cuModuleUnload": (module,), "cuEventDestroy_v2": (event,), "cuStreamDestroy_v2": (stream,),
        "cuMemFree_v2": (device,), "cuMemFreeHost": (pinned,),
    }  # fmt: skip
    assert {name: h200(name, *arguments) for name, arguments in calls.items()} == dict.fromkeys(calls, 0)
    assert [h200("cuStreamSynchronize", 0), h200.get("cuEventCreate", OUT, 0)[0]] == [201, 201]
    assert h200.get("cuCtxGetCurrent", OUT) == (0, 0)


@pytest.mark.parametrize(
    "name", ["cuStreamGetId", "cuStreamGetCtx", "cuStreamGetDevice", "cuStreamGetFlags", "cuStreamIsCapturing"]
)
def test_a_default_stream_is_that_of_a_context_and_without_one_there_is_none(h200, name):
    """One that was given a handle would call for its own context in each call that names it, without end."""
    _, stream = h200.get("cuStreamCreate", OUT, 1)
    assert h200("cuCtxSetCurrent", 0) == 0
    assert [h200.get(name, each, OUT)[0] for each in (0, 1, 2, stream)] == [201, 201, 201, 0]


def test_a_stream_has_the_flags_that_it_was_made_with(cuda):
    """The default streams have those of a stream that waits for the legacy one."""
    cuda.begin()
    made = {flags: cuda.get("cuStreamCreate", OUT, flags)[1] for flags in (0, 1)}
    assert [cuda.get("cuStreamGetFlags", made[flags], OUT) for flags in made] == [(0, 0), (0, 1)]
    assert [cuda.get("cuStreamGetFlags", stream, OUT) for stream in (0, 1, 2)] == [(0, 0)] * 3
