"""CUDA arrays: what they are asked for, and bytes that go there and back. No package is needed."""

import ctypes
import struct

import pytest

from acl_py.compat.acl.face.session import current_session
from acl_py.compat.cuda.runtime.structures import PEER_PLANES, PLANES
from tests.cuda.calling import OUT
from tests.cuda.test_runtime import DEFAULT, DEVICE_TO_HOST, HOST_TO_DEVICE, over

DEVICE_TO_DEVICE = 3
BYTE, FLOAT, HALF, NV12 = 1, 0x20, 0x10, 0xB0
LAYERED, CUBEMAP, GATHER, SPARSE = 1, 4, 8, 0x40
ROWS, BOXES = struct.Struct("<QQII"), struct.Struct("<QQQIII4x")
CHANNELS = struct.Struct("<5i")
SIGNED, UNSIGNED, FLOATING = range(3)


@pytest.fixture
def runtime(cuda):
    """The runtime of a tiny device."""
    return over(cuda)


def rows(width, height=0, format_=BYTE, channels=1):
    """Return a new description of an array."""
    return ROWS.pack(width, height, format_, channels)


def box(width, height=0, depth=0, flags=0, format_=BYTE, channels=1):
    """Return a new description of an array of three dimensions."""
    return BOXES.pack(width, height, depth, format_, channels, flags)


def copied(cuda, array, dst, src, size):
    """Copy a box of bytes between *array* and the host: *dst* and *src* are a position or a buffer."""
    ends = []
    for end in (src, dst):
        if isinstance(end, tuple):
            ends += [*end, 0, 3, 0, 0, array, 0, 0, 0]
        else:
            ends += [0, 0, 0, 0, 1, ctypes.addressof(end), 0, 0, 0, size[0], size[1]]
    return cuda("cuMemcpy3D_v2", struct.pack("<4QI4x6Q4QI4x6Q3Q", *ends, *size))


def test_an_array_has_the_form_that_it_was_made_with(cuda):
    code, array = cuda.get("cuArray3DCreate_v2", OUT, box(8, 4, 2, 0, FLOAT, 2))
    found, of_rows = ctypes.create_string_buffer(40), ctypes.create_string_buffer(24)
    codes = [cuda("cuArray3DGetDescriptor_v2", found, array), cuda("cuArrayGetDescriptor_v2", of_rows, array)]
    assert (code, codes, found.raw, of_rows.raw) == (0, [0, 0], box(8, 4, 2, 0, FLOAT, 2), rows(8, 4, FLOAT, 2))
    assert [cuda("cuArrayDestroy", array), cuda("cuArrayDestroy", array)] == [0, 400]
    assert cuda("cuArray3DGetDescriptor_v2", found, array) == 400


@pytest.mark.parametrize(
    ("form", "code"),
    [
        (box(0), 1),
        (box(8, channels=3), 1),
        (box(8, format_=4), 1),
        (box(8, 8, format_=NV12, channels=4), 801),
        (box(8, 8, flags=SPARSE), 801),
        (box(8, flags=0x200), 1),
        (box(8, 0, 8), 1),
        (box(8, 0, 8, LAYERED), 0),
        (box(8, 8, 0, LAYERED), 1),
        (box(8, 8, 6, CUBEMAP), 0),
        (box(8, 8, 12, CUBEMAP), 1),
        (box(8, 8, 12, CUBEMAP | LAYERED), 0),
        (box(8, 4, 6, CUBEMAP), 1),
        (box(8, 8, 0, GATHER), 0),
        (box(8, 0, 0, GATHER), 1),
        (box(8, 8, 8, GATHER), 1),
        (box(131072), 0),
        (box(131073), 1),
        (box(131072, 2), 0),
        (box(2, 65537), 1),
        (box(16384, 1, 1), 0),
        (box(16385, 1, 1), 1),
        (box(2, 2, 16385), 0),
        (box(32768, 0, 1, LAYERED), 0),
        (box(32769, 0, 1, LAYERED), 1),
        (box(2, 0, 2049, LAYERED), 1),
        (box(32769, 2, 0, GATHER), 1),
        (box(2, 2, 2052, CUBEMAP | LAYERED), 1),
    ],
)
def test_what_an_array_may_be(cuda, form, code):
    """Measured, but for those that are not simulated."""
    assert cuda.get("cuArray3DCreate_v2", OUT, form)[0] == code


def test_boxes_go_to_an_array_and_back(cuda):
    _, array = cuda.get("cuArray3DCreate_v2", OUT, box(4, 3, 2, channels=2))
    whole, part = ctypes.create_string_buffer(bytes(range(48)), 48), ctypes.create_string_buffer(8)
    assert copied(cuda, array, (0, 0, 0), whole, (8, 3, 2)) == 0
    assert copied(cuda, array, part, (2, 1, 0), (4, 1, 2)) == 0
    assert list(part.raw) == [10, 11, 12, 13, 34, 35, 36, 37]
    assert [copied(cuda, array, part, at, size) for at, size in (
        ((2, 1, 0), (8, 1, 1)),  # wider than the rest of the row
        ((0, 3, 0), (4, 1, 1)),
        ((0, 0, 1), (4, 1, 2)),
        ((1, 0, 0), (3, 1, 1)),  # parts of elements
        ((9, 0, 0), (0, 1, 1)),  # nothing
    )] == [1, 1, 1, 0, 0]  # fmt: skip


def test_a_copy_of_planes_that_fails_has_copied_none(cuda):
    device, source = cuda.allocate(64), ctypes.create_string_buffer(b"x" * 64, 64)
    assert cuda("cuMemsetD8_v2", device, 0, 64) == 0
    ends = *(0, 0, 0, 0, 1, ctypes.addressof(source), 0, 0, 0, 32, 1), *(0, 0, 0, 0, 2, 0, device, 0, 0, 32, 1)
    assert cuda("cuMemcpy3D_v2", struct.pack("<4QI4x6Q4QI4x6Q3Q", *ends, 32, 1, 3)) == 1
    back = ctypes.create_string_buffer(64)
    assert (cuda("cuMemcpyDtoH_v2", back, device, 64), back.raw) == (0, bytes(64))


def test_bytes_go_to_the_first_row_of_an_array_and_to_another(cuda):
    (_, array), (_, other) = [cuda.get("cuArrayCreate_v2", OUT, rows(16)) for _ in range(2)]
    device, stream = cuda.allocate(16), cuda.get("cuStreamCreate", OUT, 0)[1]
    source, back = ctypes.create_string_buffer(b"0123456789abcdef", 16), ctypes.create_string_buffer(16)
    assert [
        cuda("cuMemcpyHtoA_v2", array, 0, source, 16),
        cuda("cuMemcpyAtoA_v2", other, 4, array, 0, 12),
        cuda("cuMemcpyAtoD_v2", device, other, 4, 4),
        cuda("cuMemcpyDtoA_v2", other, 12, device, 4),
        cuda("cuMemcpyHtoAAsync_v2", other, 0, source, 4, stream),
        cuda("cuMemcpyAtoHAsync_v2", back, other, 0, 8, stream),
        cuda("cuStreamSynchronize", stream),
        cuda("cuMemcpyAtoH_v2", ctypes.addressof(back) + 8, other, 8, 8),
    ] == [0] * 8
    assert back.raw == b"0123" + b"0123" + b"4567" + b"0123"
    _, plane = cuda.get("cuArrayCreate_v2", OUT, rows(8, 8))
    assert [
        cuda("cuMemcpyHtoA_v2", array, 8, source, 16),
        cuda("cuMemcpyDtoA_v2", array, 0, source, 16),
        cuda("cuMemcpyHtoA_v2", plane, 0, source, 8),
        cuda("cuMemcpyHtoA_v2", plane, 0, source, 16),  # more than a row
        cuda("cuMemcpyHtoA_v2", plane, 0, source, 0),
        cuda("cuMemcpyHtoA_v2", device, 0, source, 16),
    ] == [1, 1, 0, 1, 0, 400]


def test_the_runtime_describes_channels(runtime):
    kinds = (8, 8, 0, 0, UNSIGNED), (32, 32, 32, 32, FLOATING), (16, 0, 0, 0, SIGNED)
    for each in kinds:
        code, array = runtime.get("cudaMallocArray", OUT, CHANNELS.pack(*each), 8, 4, 2)
        channels, extent, flags = (ctypes.create_string_buffer(size) for size in (20, 24, 4))
        assert (code, runtime("cudaArrayGetInfo", channels, extent, flags, array)) == (0, 0)
        found = CHANNELS.unpack(channels), struct.unpack("<3Q", extent), struct.unpack("<I", flags)
        assert found == (each, (8, 4, 0), (2,))
        assert (runtime("cudaGetChannelDesc", channels, array), CHANNELS.unpack(channels)) == (0, each)
        assert [runtime("cudaFreeArray", array), runtime("cudaFreeArray", 0)] == [0, 0]
    wrong = [(8, 8, 8, 0, UNSIGNED), (8, 16, 0, 0, UNSIGNED), (0, 8, 0, 0, SIGNED), (64, 0, 0, 0, FLOATING)]
    wrong += [(0, 0, 0, 0, 3), (8, 8, 8, 0, 4)]
    codes = [runtime.get("cudaMallocArray", OUT, CHANNELS.pack(*each), 8, 0, 0)[0] for each in wrong]
    assert codes == [20] * 5 + [801]
    assert "cudaErrorInvalidChannelDescriptor (20)" in next(current_session().failures.lines())


def test_the_runtime_copies_rows_and_bytes_of_arrays(runtime):
    (_, array), (_, other) = [runtime.get("cudaMallocArray", OUT, CHANNELS.pack(8, 0, 0, 0, 1), 8, 2, 0) for _ in "12"]
    (_, stream), source = runtime.get("cudaStreamCreate", OUT), ctypes.create_string_buffer(b"0123456789abcdef", 16)
    back = ctypes.create_string_buffer(16)
    assert [
        runtime("cudaMemcpyToArray", array, 4, 0, source, 12, HOST_TO_DEVICE),
        runtime("cudaMemcpyToArrayAsync", array, 0, 0, b"WXYZ", 4, HOST_TO_DEVICE, stream),
        runtime("cudaStreamSynchronize", stream),
        runtime("cudaMemcpyArrayToArray", other, 0, 0, array, 0, 0, 16, DEVICE_TO_DEVICE),
        runtime("cudaMemcpy2DArrayToArray", other, 4, 0, array, 0, 0, 4, 2, DEVICE_TO_DEVICE),
        runtime("cudaMemcpy2DToArrayAsync", other, 0, 1, b"--", 2, 2, 1, HOST_TO_DEVICE, stream),
        runtime("cudaMemcpy2DFromArrayAsync", back, 8, other, 4, 0, 4, 2, DEVICE_TO_HOST, stream),
        runtime("cudaStreamSynchronize", stream),
        runtime("cudaMemcpyFromArray", ctypes.addressof(back) + 4, other, 0, 0, 4, DEVICE_TO_HOST),
        runtime("cudaMemcpyFromArrayAsync", ctypes.addressof(back) + 12, other, 0, 1, 4, DEVICE_TO_HOST, stream),
        runtime("cudaMemcpy2DToArray", other, 0, 0, source, 8, 8, 3, HOST_TO_DEVICE),
        runtime("cudaMemcpy2DToArray", other, 0, 0, source, 8, 8, 2, DEVICE_TO_HOST),
    ] == [0] * 10 + [1, 21]
    assert back.raw == b"WXYZ" + b"WXYZ" + b"4567" + b"--67"


def test_the_runtime_counts_elements_of_arrays_in_copies_of_planes(runtime):
    form = CHANNELS.pack(16, 0, 0, 0, UNSIGNED)
    extent = type("S", (ctypes.Structure,), {"_fields_": [("x", ctypes.c_uint64 * 3)]})
    code, array = runtime.get("cudaMalloc3DArray", OUT, form, extent((ctypes.c_uint64 * 3)(4, 2, 2)), 0)
    source, back = ctypes.create_string_buffer(bytes(range(32)), 32), ctypes.create_string_buffer(8)
    to_array = *(0, 0, 0, 0, ctypes.addressof(source), 8, 8, 2), *(array, 0, 0, 0, 0, 0, 0, 0), *(4, 2, 2)
    from_array = *(array, 2, 1, 0, 0, 0, 0, 0), *(0, 0, 0, 0, ctypes.addressof(back), 4, 4, 1), *(2, 1, 2)
    codes = [
        code,
        runtime("cudaMemcpy3DPeer", PEER_PLANES.pack(*to_array)),
        runtime("cudaMemcpy3D", PLANES.pack(*from_array, 2)),
    ]
    assert (codes, list(back.raw)) == ([0, 0, 0], [12, 13, 14, 15, 28, 29, 30, 31])
    _, bytes_ = runtime.get("cudaMallocArray", OUT, CHANNELS.pack(8, 0, 0, 0, UNSIGNED), 8, 0, 0)
    between = *(array, 0, 0, 0, 0, 0, 0, 0), *(bytes_, 0, 0, 0, 0, 0, 0, 0), *(2, 1, 1)
    assert runtime("cudaMemcpy3D", PLANES.pack(*between, DEFAULT)) == 1


def test_a_node_of_a_graph_copies_to_an_array(runtime, cuda):
    form = CHANNELS.pack(16, 0, 0, 0, UNSIGNED)
    (_, array), (_, graph) = runtime.get("cudaMallocArray", OUT, form, 4, 2, 0), runtime.get("cudaGraphCreate", OUT, 0)
    (_, host) = runtime.get("cudaMallocHost", OUT, 16)
    ctypes.memmove(host, bytes(range(16)), 16)
    node = PLANES.pack(*(0, 0, 0, 0, host, 8, 8, 2), *(array, 1, 0, 0, 0, 0, 0, 0), *(2, 2, 1), HOST_TO_DEVICE)
    code, added = runtime.get("cudaGraphAddMemcpyNode", OUT, graph, 0, 0, node)
    read = ctypes.create_string_buffer(PLANES.size)
    assert (code, runtime("cudaGraphMemcpyNodeGetParams", added, read)) == (0, 0)
    fields = PLANES.unpack(read)
    assert (fields[8:10], fields[16:]) == ((array, 1), (2, 2, 1, HOST_TO_DEVICE))
    (_, executable) = runtime.get("cudaGraphInstantiate", OUT, graph, 0)
    back = ctypes.create_string_buffer(8)
    assert [
        runtime("cudaGraphLaunch", executable, 0),
        runtime("cudaMemcpy2DFromArray", back, 4, array, 2, 0, 4, 2, DEVICE_TO_HOST),
    ] == [0, 0]
    assert list(back.raw) == [0, 1, 2, 3, 8, 9, 10, 11]
