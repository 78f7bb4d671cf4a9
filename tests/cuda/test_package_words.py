"""Fixes in the words of the package that a program imports: numba, cuda.core, or CUDA's runtime for cuda.bindings."""

import pytest

from acl_py.package_words import package_of
from acl_py.wording import reword, words_at

# What messages say by verbs; a message of the driver has the words of the program's file.
TEXTS = (
    "RecordEvent(event, stream 1) after a.py:3, StreamWaitEvent(download, event) before a.py:4",
    "RecordEvent(event, compute (2)) after a.py:3, StreamWaitEvent(download (5), event) before a.py:4",
    "RecordEvent(event, compute) after a.py:3, StreamWaitEvent(legacy, event) before a.py:4",
    "SynchronizeStream(compute) before a.py:9",
    "Free('weights') when the work of a.py:4 is over",
    "FreeHost('result', 'batch') before the program ends",
    "DestroyStream(what a.py:2 made) before the program ends",
    "Use pinned memory: MallocHost() instead of an array, or HostRegister() once",
    "with SynchronizeEvent(), for a record behind the first access:",
    "Use MemcpyAsync() in a stream, and SynchronizeDevice() before the result is used",
)
NUMBA = """\
event.record(`stream 1`) after a.py:3, event.wait(download) before a.py:4
event.record(`compute (2)`) after a.py:3, event.wait(`download (5)`) before a.py:4
event.record(compute) after a.py:3, event.wait(cuda.default_stream()) before a.py:4
compute.synchronize() before a.py:9
del weights, then cuda.current_context().memory_manager.deallocations.clear(), when the work of a.py:4 is over
del result, batch, then cuda.current_context().memory_manager.deallocations.clear(), before the program ends
del what a.py:2 made, then cuda.current_context().deallocations.clear(), before the program ends
Use pinned memory: cuda.pinned_array() instead of an array, or cuda.pinned() once
with event.synchronize(), for a record behind the first access:
Use cudaMemcpyAsync() in a stream, and cuda.synchronize() before the result is used"""
CORE = """\
event = `stream 1`.record() after a.py:3, download.wait(event) before a.py:4
event = `compute (2)`.record() after a.py:3, `download (5)`.wait(event) before a.py:4
event = compute.record() after a.py:3, device.default_stream.wait(event) before a.py:4
compute.sync() before a.py:9
weights.close() when the work of a.py:4 is over
result.close() and batch.close() before the program ends
close() of what a.py:2 made before the program ends
Use pinned memory: LegacyPinnedMemoryResource().allocate() instead of an array, or cudaHostRegister() once
with event.sync(), for a record behind the first access:
Use cudaMemcpyAsync() in a stream, and device.sync() before the result is used"""
RUNTIME = """\
cudaEventRecord(event, stream 1) after a.py:3, cudaStreamWaitEvent(download, event) before a.py:4
cudaEventRecord(event, compute (2)) after a.py:3, cudaStreamWaitEvent(download (5), event) before a.py:4
cudaEventRecord(event, compute) after a.py:3, cudaStreamWaitEvent(legacy, event) before a.py:4
cudaStreamSynchronize(compute) before a.py:9
cudaFree('weights') when the work of a.py:4 is over
cudaFreeHost('result', 'batch') before the program ends
cudaStreamDestroy(what a.py:2 made) before the program ends
Use pinned memory: cudaMallocHost() instead of an array, or cudaHostRegister() once
with cudaEventSynchronize(), for a record behind the first access:
Use cudaMemcpyAsync() in a stream, and cudaDeviceSynchronize() before the result is used"""


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("from numba import cuda, types", NUMBA),
        ("import numba.cuda as nc", NUMBA),
        ("from cuda.core import Device", CORE),
        ("import cuda.core.experimental", CORE),
        ("from cuda.bindings import runtime", RUNTIME),
        ("from numba import cuda\nfrom cuda.core import Device", RUNTIME),  # which of them is not known
        ("import ctypes", RUNTIME),
        ("from . import cuda", RUNTIME),
        ("this is no Python", RUNTIME),
    ],
)
def test_a_message_has_the_words_of_the_package_that_the_program_imports(imports, expected, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(imports)
    words = words_at(str(program), "cuMemAlloc_v2")
    assert "\n".join(reword(text, words) for text in TEXTS) == expected


def test_names_and_folders_with_braces_stay_as_they_are():
    assert reword("Free('h{0}', 'x') before", "cuda.core") == "`h{0}`.close() and x.close() before"
    assert reword("Free('x', what a{b}.py:3 made)", "cuda.core") == "x.close() and what a{b}.py:3 made.close()"


def test_a_program_of_acl_or_without_a_file_keeps_its_words(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("from numba import cuda\nimport acl")
    assert words_at(str(program), "acl.rt.malloc") == "acl.rt.malloc"
    assert package_of("no line of the script") == ""
    assert words_at("no line of the script", "cuMemFree_v2") == "cuMemFree_v2"
