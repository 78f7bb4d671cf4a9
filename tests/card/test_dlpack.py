"""Memory of a card in the words of DLPack, as a consumer in C reads them."""

import asyncio
import ctypes

import ml_dtypes
import numpy as np
import pytest

import acl_py
from acl_py.card.cuda.dlpack import capsule
from tests.card.kernels import SPIN
from tests.cuda.calling import PTX

pytestmark = pytest.mark.filterwarnings("error")


class Managed(ctypes.Structure):
    """DLManagedTensor, written down a second time."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64), ("manager", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]  # fmt: skip


pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_USED = b"used_dltensor"


def read(given):
    """Return what a capsule says, as one does that takes it over, and let go of it."""
    at = pointer_of(given, b"dltensor")
    tensor = Managed.from_address(at)
    shape, strides = tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim]
    said = tensor.data, [*tensor.device], (tensor.code, tensor.bits, tensor.lanes), shape, strides
    rename(given, _USED)
    tensor.deleter(at)
    return said


def test_an_array_tells_where_it_is_and_what_it_holds(card):
    async def main():
        array = acl_py.Array(await acl_py.Malloc(96), np.float32, (4, 2, 3))
        data, device, type_, shape, strides = read(array[1:].__dlpack__(max_version=(1, 2), dl_device=(2, 0)))
        assert (data - array.buffer.address, device, type_) == (24, [2, 0], (2, 32, 1))
        assert (shape, strides) == ([3, 2, 3], [6, 3, 1])
        assert array.__dlpack_device__() == array.buffer.__dlpack_device__() == (2, 0)
        assert read(array.buffer.__dlpack__(stream=-1))[2:] == ((1, 8, 1), [96], [1])

    acl_py.run(main, device=card)


@pytest.mark.parametrize(
    ("dtype", "said"),
    [("?", (6, 8, 1)), ("i8", (0, 64, 1)), ("c16", (5, 128, 1)), (ml_dtypes.bfloat16, (4, 16, 1)), ("f2", (2, 16, 1))],
)
def test_types_have_the_numbers_of_the_protocol(dtype, said):
    assert read(capsule(64, 1, np.dtype(dtype), ()))[1:] == ([2, 1], said, [], [])


@pytest.mark.parametrize("dtype", ["M8[s]", "V3", "i4,f4", ">f4", "S4"])
def test_types_that_the_protocol_does_not_have_are_refused(dtype):
    with pytest.raises(BufferError, match="DLPack has no type for"):
        capsule(64, 0, np.dtype(dtype), (1,))


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({"copy": True}, BufferError, "use MemcpyAsync"),
        ({"dl_device": (1, 0)}, BufferError, r"the memory is on \(2, 0\)"),
        ({"stream": 0}, ValueError, "give the driver's handle of a stream, 1, 2, -1 or None"),
        ({"stream": "mine"}, ValueError, "stream='mine' of __dlpack__"),
    ],
)
def test_what_memory_cannot_be_handed_over_as_is_refused(card, asked, error, text):
    async def main():
        with pytest.raises(error, match=text):
            (await acl_py.Malloc(8)).__dlpack__(**asked)

    acl_py.run(main, device=card)


def test_memory_is_handed_over_in_any_thread(card):
    async def main():
        stream, buffer = await acl_py.CreateStream(), await acl_py.Malloc(64)
        await acl_py.MemsetAsync(buffer, 64, 3, 64, stream)
        data, *_ = read(await asyncio.to_thread(buffer.__dlpack__))
        await acl_py.SynchronizeStream(stream)
        return data - buffer.address

    assert acl_py.run(main, device=card) == 0


def test_the_stream_of_the_consumer_waits_for_the_work_of_the_run(card):
    async def main():
        driver = (await acl_py.GetCurrentContext()).driver
        stream, buffer = await acl_py.CreateStream(nonblocking=True), await acl_py.Malloc(4096)
        module, kernels = await acl_py.ptx.load(SPIN), await acl_py.ptx.load(PTX)
        theirs = driver(driver.cu.cuStreamCreate, 1)
        await acl_py.MemsetAsync(buffer, 4096, 0, 4096, stream)
        await module["spin"][1, 1, stream](20_000_000)
        await kernels["add"][8, 128, stream](buffer, np.uint32(5), np.uint32(1024))
        read(buffer.__dlpack__(stream=int(theirs)))
        copied = (ctypes.c_uint32 * 1024)()
        driver(driver.cu.cuMemcpyDtoHAsync, ctypes.addressof(copied), buffer.address, 4096, theirs)
        driver(driver.cu.cuStreamSynchronize, theirs)
        driver(driver.cu.cuStreamDestroy, theirs)
        return set(copied)

    assert acl_py.run(main, device=card) == {5}
