"""Tensors: places in memory, their parts, and what the scalar pipe reads and writes."""

import numpy as np
import pytest
from cores import found, launch

from device_model.aicore.core.names import HardEvent, KernelType, Pipe, Space, TPosition
from device_model.aicore.core.tensors import DTYPES, GlobalTensor, LocalTensor, bfloat16, dtype_of, float32, half
from device_model.aicore.flags.allocator import Hardware, LocalMemAllocator
from device_model.aicore.flags.queues import TQue
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy, DataCopyParams
from device_model.aicore.vector.fill import Duplicate
from device_model.kernel.findings import KernelError


def in_kernel(body, *args, kind=KernelType.AIV_ONLY):
    return launch(body, *args, kind=kind)


def test_parts_are_the_same_bytes():
    def kernel():
        whole = LocalTensor(float32, TPosition.VECCALC, 64, 32)
        assert whole[8].span == (whole.memory, 96, 192)
        assert whole[8:16].span == (whole.memory, 96, 128)
        assert whole[8:][8:].span == (whole.memory, 128, 192)
        assert whole[8:16] is whole[8:16]
        whole[8:16].view[:] = 7
        assert whole.view.tolist()[6:18] != [7] * 12
        assert whole.view.tolist()[8:16] == [7] * 8
        assert (len(whole), whole.GetSize(), whole[30:].size, whole[32:].size) == (32, 32, 2, 0)
        for wrong in (33, slice(4, 40), slice(-3, None), slice(9, 8), slice(0, 8, 2)):
            with pytest.raises(KernelError, match=r"outside of it|has no step"):
                whole[wrong]

    in_kernel(kernel)


def test_bytes_may_be_read_as_another_type():
    def kernel():
        words = LocalTensor(np.int32, TPosition.VECCALC, 32, 8)
        words.view[:] = 0x3F80_0000
        floats = words.ReinterpretCast(float32)
        assert floats.view.tolist() == [1.0] * 8
        assert words.ReinterpretCast(half).size == 16
        assert floats.position is TPosition.VECCALC

    in_kernel(kernel)


def test_a_tensor_of_a_queue_keeps_its_new_size_until_the_buffer_is_allocated_again():
    def kernel():
        queue = TQue(TPosition.VECCALC, 1)
        TPipe().InitBuffer(queue, 1, 256)
        tensor = queue.AllocTensor(float32)
        Duplicate(tensor, 1, 64)
        tensor.SetSize(16)
        assert (tensor.GetSize(), tensor.nbytes, len(tensor.view), tensor[8:].size) == (16, 64, 16, 8)
        with pytest.raises(KernelError, match="dst has 16 elements and the instruction reaches element 63"):
            Duplicate(tensor, 1, 64)
        queue.FreeTensor(tensor)
        again = queue.AllocTensor(float32)
        assert again.GetSize() == 64
        Duplicate(again, 2, 64)
        assert again.view.tolist() == [2] * 64
        part = again[8:24]
        part.SetSize(4)
        assert (part.size, again[8:24].size) == (4, 16)
        for wrong in (-1, 192 * 1024):
            with pytest.raises(KernelError, match="elements fit in UB from its address on"):
                again.SetSize(wrong)
        queue.FreeTensor(again)

    in_kernel(kernel)


def test_an_allocator_hands_out_blocks_one_behind_the_other():
    def kernel():
        allocator = LocalMemAllocator()
        first, second = allocator.Alloc(half, 3), allocator.Alloc(float32, 8, TPosition.VECIN)
        assert (first.span[1:], second.span[1:], allocator.GetCurAddr()) == ((0, 6), (32, 64), 64)
        assert (first.position, second.position) == (TPosition.VECCALC, TPosition.VECIN)
        with pytest.raises(KernelError, match=r"Alloc at A1 of .* it lies in L1"):
            allocator.Alloc(half, 16, TPosition.A1)
        for wrong in (0, 196_608):
            with pytest.raises(KernelError, match="64 of 196608 bytes given out"):
                allocator.Alloc(half, wrong)
        with pytest.raises(KernelError, match="a second LocalMemAllocator of UB"):
            LocalMemAllocator(Hardware.UB)

    in_kernel(kernel)


def test_the_address_of_an_element_is_its_place_in_the_memory_or_a_buffer_in_gm():
    numbers = np.arange(32, dtype=np.float32)

    def kernel(x):
        assert LocalTensor(half, TPosition.VECCALC, 64, 32).GetPhyAddr() == 64
        assert LocalTensor(half, TPosition.VECCALC, 64, 32).GetPhyAddr(5) == 74
        whole = GlobalTensor(float32).SetGlobalBuffer(x)
        part = GlobalTensor(float32).SetGlobalBuffer(whole[4:].GetPhyAddr(3), 5)
        assert (part.GetSize(), part.GetValue(0)) == (5, 7)
        with pytest.raises(KernelError, match="it has 32 elements"):
            whole.GetPhyAddr(33)
        with pytest.raises(KernelError, match="call SetGlobalBuffer"):
            GlobalTensor(half).GetPhyAddr()

    in_kernel(kernel, numbers)


def test_local_memory_begins_as_poison_that_shows():
    def kernel():
        for dtype in (half, float32, bfloat16):
            assert np.isnan(LocalTensor(dtype, TPosition.VECCALC, 0, 8).view.astype(np.float32)).all()

    in_kernel(kernel)


@pytest.mark.parametrize(
    ("position", "space", "kind"),
    [
        (TPosition.VECIN, Space.UB, KernelType.AIV_ONLY),
        (TPosition.VECOUT, Space.UB, KernelType.AIV_ONLY),
        (TPosition.A1, Space.L1, KernelType.AIC_ONLY),
        (TPosition.TSCM, Space.L1, KernelType.AIC_ONLY),
        (TPosition.A2, Space.L0A, KernelType.AIC_ONLY),
        (TPosition.B2, Space.L0B, KernelType.AIC_ONLY),
        (TPosition.CO1, Space.L0C, KernelType.AIC_ONLY),
        (TPosition.C2, Space.BT, KernelType.AIC_ONLY),
        (TPosition.C2PIPE2GM, Space.FB, KernelType.AIC_ONLY),
    ],
)
def test_a_position_is_a_memory_of_the_size_of_the_card(position, space, kind):
    def kernel():
        tensor = LocalTensor(np.int8, position, 0, 32)
        size = tensor.memory.size
        assert tensor.memory.space is space
        assert LocalTensor(np.int8, position, size - 32, 32).memory is tensor.memory
        with pytest.raises(KernelError, match=f"outside {space}"):
            LocalTensor(np.int8, position, size - 31, 32)

    in_kernel(kernel, kind=kind)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_scalar_pipe_reads_what_it_wrote(dtype):
    def kernel(z):
        local = LocalTensor(dtype, TPosition.VECCALC, 0, 32)
        local.SetValue(5, 3)
        g = GlobalTensor().SetGlobalBuffer(z)
        g[4:].SetValue(1, local.GetValue(5))
        assert g.GetValue(5) == dtype.type(3)  # of bool, True

    z = np.zeros(8, dtype)
    launch(kernel, z)
    assert z.tolist() == [0, 0, 0, 0, 0, dtype.type(3), 0, 0]


def test_elements_outside_are_refused():
    def kernel(z):
        for tensor in (LocalTensor(half, TPosition.VECCALC, 0, 8), GlobalTensor().SetGlobalBuffer(z)):
            for index in (-1, 8):
                with pytest.raises(KernelError, match="it has 8 elements"):
                    tensor.GetValue(index)
                with pytest.raises(KernelError, match="it has 8 elements"):
                    tensor.SetValue(index, 0)

    launch(kernel, np.zeros(8, np.float16))


def test_a_global_tensor_lies_over_a_buffer_of_the_arguments():
    def kernel(x):
        g = GlobalTensor(np.int16).SetGlobalBuffer(x + 4, 6)
        assert (g.size, g.span[1:], g.dtype) == (6, (16, 28), np.int16)
        assert GlobalTensor().SetGlobalBuffer(x[4:]).dtype == float32
        assert g[2:][2:].view.tolist() == [0, 0x4000]
        with pytest.raises(KernelError, match="do not fit"):
            GlobalTensor(float32).SetGlobalBuffer(x, 9)
        with pytest.raises(KernelError, match="multiples of 4"):
            GlobalTensor(float32).SetGlobalBuffer(GlobalTensor and _bytes_of(x, 2))
        with pytest.raises(KernelError, match="outside"):
            x[9:]
        with pytest.raises(KernelError, match=r"takes x\[n:\]"):
            x[2:4]
        with pytest.raises(TypeError, match="an argument of the kernel"):
            GlobalTensor(float32).SetGlobalBuffer(np.zeros(3))

    launch(kernel, np.full(8, 2.0, np.float32))


def _bytes_of(buffer, offset):
    return type(buffer)(buffer.memory, buffer.address + offset, buffer.nbytes - offset, np.uint8)


def test_arguments_over_one_array_are_one_memory():
    def kernel(x, y):
        assert x.memory is y.memory
        assert (x.address, y.address) == (0, 32)

    x = np.zeros(16, np.float32)
    assert found(launch(kernel, x, x[8:])) == []


def test_only_what_cores_compute_with_is_a_type():
    assert dtype_of("float16") is half or dtype_of("float16") == half
    with pytest.raises(TypeError, match="tensors hold"):
        dtype_of(np.complex64)


def test_offsets_and_sizes_may_be_numpys_integers_however_narrow():
    """A tiling in a NumPy record has such; an address computed in their width would wrap around."""
    a, b = np.uint8(200), np.int16(30_000)

    def kernel(x, z):
        tile = LocalTensor(half, TPosition.VECCALC, b - np.int16(16), np.uint16(512))
        assert (tile[a].address, tile[a : a + np.uint8(8)].nbytes) == (29_984 + 400, 16)
        tile.SetValue(a, 3)
        assert tile.view[200] == 3
        PipeBarrier(Pipe.ALL)
        source = GlobalTensor(half).SetGlobalBuffer(x[b:], b)
        assert (source.address, source[b:].address, source[np.uint32(4)].size) == (60_000, 120_000, 29_996)
        assert (x + b).address == x[int(b) :].address
        pipe, queue = TPipe(), TQue(TPosition.VECOUT, np.int64(1))
        pipe.InitBuffer(queue, np.int8(2), np.uint16(40_000))
        out = queue.AllocTensor(half)
        assert out.nbytes == 40_000
        DataCopy(out, source, np.uint16(16_000))
        SetFlag(HardEvent.MTE2_MTE3, np.int64(0))
        WaitFlag(HardEvent.MTE2_MTE3, np.int64(0))
        DataCopy(GlobalTensor(half).SetGlobalBuffer(z), out, DataCopyParams(np.uint8(200), np.uint8(5)))
        queue.FreeTensor(out)

    x, z = np.arange(60_000).astype(np.float16), np.zeros(16_000, np.float16)
    result = in_kernel(kernel, x, z)
    assert np.array_equal(z, x[30_000:46_000])
    assert found(result) == []
