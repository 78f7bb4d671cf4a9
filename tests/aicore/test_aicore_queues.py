"""Queues: which flags they set, how buffers go round, what memory they take."""

import numpy as np
import pytest
from cores import SPEC, found, launch, names, work

from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, bfloat16, float32, half
from device_model.aicore.flags.queues import TBuf, TQue, TQueBind
from device_model.aicore.flags.tpipe import GetTPipePtr, TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.elementwise import Adds, Muls
from device_model.kernel.findings import KernelError

P = TPosition


def flags(result, core=0):
    return [name for name in names(result, core) if "Flag" in name]


TABLE = [
    (lambda: TQue(P.VECIN, 1), KernelType.AIV_ONLY, "MTE2_V", "V_MTE2"),
    (lambda: TQue(P.VECOUT, 1), KernelType.AIV_ONLY, "V_MTE3", "MTE3_V"),
    (lambda: TQueBind(P.VECIN, P.VECOUT, 1), KernelType.AIV_ONLY, "MTE2_MTE3", "MTE3_MTE2"),
    (lambda: TQue(P.A1, 1), KernelType.AIC_ONLY, "MTE2_MTE1", "MTE1_MTE2"),
    (lambda: TQue(P.B1, 1), KernelType.AIC_ONLY, "MTE2_MTE1", "MTE1_MTE2"),
    (lambda: TQue(P.C1, 1), KernelType.AIC_ONLY, "MTE2_MTE1", "MTE1_MTE2"),
    (lambda: TQue(P.A2, 1), KernelType.AIC_ONLY, "MTE1_M", "M_MTE1"),
    (lambda: TQue(P.B2, 1), KernelType.AIC_ONLY, "MTE1_M", "M_MTE1"),
    (lambda: TQue(P.C2, 1), KernelType.AIC_ONLY, "MTE1_M", "M_MTE1"),
    (lambda: TQue(P.C2PIPE2GM, 1), KernelType.AIC_ONLY, "MTE1_FIX", "FIX_MTE1"),
    (lambda: TQue(P.CO1, 1), KernelType.AIC_ONLY, "M_FIX", "FIX_M"),
]


@pytest.mark.parametrize(("make", "kind", "full", "free"), TABLE, ids=lambda value: value if type(value) is str else "")
def test_a_round_through_a_queue_sets_the_flags_of_its_position(make, kind, full, free):
    def kernel():
        pipe, queue = TPipe(), make()
        pipe.InitBuffer(queue, 1, 64)
        for _ in range(2):
            queue.EnQue(queue.AllocTensor(half))
            queue.FreeTensor(queue.DeQue())

    result = launch(kernel, kind=kind)
    round_ = [f"SetFlag<{full}>", f"WaitFlag<{full}>", f"SetFlag<{free}>", f"WaitFlag<{free}>"]
    preset = 3 if kind is KernelType.AIC_ONLY else 0
    assert flags(result) == ["SetFlag<M_MTE1>"] * preset + round_ * 2 + ["WaitFlag<M_MTE1>"] * preset
    assert names(result)[-1] == "PipeBarrier<ALL>"
    assert found(result) == []


def test_a_queue_within_the_vector_pipe_needs_no_flags():
    def kernel():
        pipe, queue = TPipe(), TQue(P.VECCALC, 1)
        pipe.InitBuffer(queue, 1, 64)
        tensor = queue.AllocTensor(half)
        queue.EnQue(tensor)
        queue.FreeTensor(queue.DeQue())

    assert names(launch(kernel)) == ["PipeBarrier<ALL>"]


def test_two_buffers_let_the_next_copy_start_while_the_first_tile_is_computed():
    """With one buffer the second copy waits for V_MTE2, with two only the third does."""

    def kernel(x, count):
        pipe, queue = TPipe(), TQue(P.VECIN, 1)
        pipe.InitBuffer(queue, count, 64)
        for _ in range(3):
            tensor = queue.AllocTensor(half)
            DataCopy(tensor, GlobalTensor(half).SetGlobalBuffer(x), 32)
            queue.EnQue(tensor)
            tensor = queue.DeQue()
            work(Pipe.V, "Use", None, tensor)
            queue.FreeTensor(tensor)

    x = np.ones(32, np.float16)
    turn = ["DataCopy", "SetFlag<MTE2_V>", "WaitFlag<MTE2_V>", "Use", "SetFlag<V_MTE2>"]
    waits = ["WaitFlag<V_MTE2>"]
    assert names(launch(kernel, x, 1)) == turn + (waits + turn) * 2 + waits + ["PipeBarrier<ALL>"]
    assert names(launch(kernel, x, 2)) == turn * 2 + waits + turn + waits * 2 + ["PipeBarrier<ALL>"]


def test_a_wait_is_paired_with_its_set():
    def kernel():
        pipe, queue = TPipe(), TQue(P.VECIN, 2)
        pipe.InitBuffer(queue, 2, 64)
        first, second = queue.AllocTensor(half), queue.AllocTensor(half)
        queue.EnQue(first)
        queue.EnQue(second)
        assert queue.GetTensorCountInQue() == 2
        assert queue.HasTensorInQue()
        assert not queue.HasIdleBuffer()
        assert queue.DeQue() is first
        assert queue.DeQue() is second
        queue.FreeTensor(second)
        queue.FreeTensor(first)
        assert queue.HasIdleBuffer()

    a, b, wait_a, wait_b, free_b, free_a, drain_a, drain_b, _ = launch(kernel).programs[0].instructions
    assert [wait_a.waits, wait_b.waits, drain_a.waits, drain_b.waits] == [(a,), (b,), (free_a,), (free_b,)]


def test_the_queue_verbs_cost_the_scalar_pipe():
    def kernel():
        pipe, queue = TPipe(), TQue(P.VECIN, 1)
        pipe.InitBuffer(queue, 1, 64)
        queue.EnQue(queue.AllocTensor(half))
        queue.FreeTensor(queue.DeQue())

    set_, wait, free, *_ = launch(kernel).programs[0].instructions
    assert [set_.scalar, wait.scalar, free.scalar] == [
        SPEC.init_buffer + SPEC.alloc_tensor + SPEC.enque,
        SPEC.deque,
        SPEC.free_tensor,
    ]


def test_buffers_lie_one_after_another_rounded_up_to_32_bytes():
    def kernel():
        pipe, queue, buffer, last = TPipe(), TQue(P.VECIN, 1), TBuf(), TQue(P.VECOUT, 1)
        pipe.InitBuffer(queue, 2, 33)
        pipe.InitBuffer(buffer, 10)
        pipe.InitBuffer(last, 1, 32)
        one, two = queue.AllocTensor(half), queue.AllocTensor(float32)
        assert [(each.address, each.size, each.dtype) for each in (one, two)] == [(0, 32, half), (64, 16, float32)]
        assert buffer.Get(float32).span[1:] == (128, 160)
        assert buffer.GetWithOffset(4, 16, half).span[1:] == (144, 152)
        assert last.AllocTensor(half).address == 160
        assert GetTPipePtr() is pipe

    assert [rule for rule, _ in found(launch(kernel))] == ["TENSOR_NOT_FREED"] * 3


def test_a_tensor_may_be_dequeued_as_another_type():
    def kernel():
        pipe, queue = TPipe(), TQue(P.VECIN, 1)
        pipe.InitBuffer(queue, 1, 64)
        queue.EnQue(queue.AllocTensor(half))
        tensor = queue.DeQue(float32)
        assert (tensor.dtype, tensor.size) == (float32, 16)
        queue.FreeTensor(tensor)

    assert found(launch(kernel)) == []


def test_phases_may_each_have_a_tpipe_of_their_own():
    def kernel():
        for _ in range(3):
            pipe, queue = TPipe(), TQue(P.VECIN, 1)
            pipe.InitBuffer(queue, 2, 90_000)
            queue.FreeTensor(queue.AllocTensor(bfloat16))
            pipe.Destroy()
            pipe.Destroy()  # once more is nothing

    assert found(launch(kernel)) == []


def test_queues_and_pipes_refuse_what_they_cannot_do():
    def kernel():
        with pytest.raises(KernelError, match="has no TPipe"):
            GetTPipePtr()
        with pytest.raises(KernelError, match="no buffers"):
            TQue(P.VECIN, 1).AllocTensor(half)
        with pytest.raises(KernelError, match="a queue at GM"):
            TQue(P.GM, 1)
        with pytest.raises(KernelError, match="has no memory"):
            TBuf().Get(half)
        pipe, queue, other = TPipe(), TQue(P.VECIN, 1), TQue(P.VECIN, 1)
        with pytest.raises(TypeError, match="InitBuffer takes"):
            pipe.InitBuffer(queue, 64)
        with pytest.raises(KernelError, match="must be 1 or more"):
            pipe.InitBuffer(queue, 0, 64)
        pipe.InitBuffer(queue, 1, 64)
        pipe.InitBuffer(other, 1, 64)
        tensor = queue.AllocTensor(half)
        with pytest.raises(KernelError, match="not a tensor of"):
            other.FreeTensor(tensor)
        queue.EnQue(tensor)
        with pytest.raises(KernelError, match="still enqueued"):
            queue.FreeTensor(tensor)
        with pytest.raises(KernelError, match="enqueued already"):
            queue.EnQue(tensor)
        queue.FreeTensor(queue.DeQue())

    assert found(launch(kernel)) == []


def test_queues_and_buffers_may_be_given_other_memory_in_the_next_phase():
    def kernel(x, z):
        g, h = GlobalTensor().SetGlobalBuffer(x), GlobalTensor().SetGlobalBuffer(z)
        pipe, queue, out, scratch = TPipe(), TQue(P.VECIN, 1), TQue(P.VECOUT, 1), TBuf()
        for phase, (count, size) in enumerate(((2, 64), (1, 32))):
            pipe.InitBuffer(queue, count, size * 4)
            pipe.InitBuffer(out, 1, size * 4)
            pipe.InitBuffer(scratch, size * 4)
            assert scratch.Get(float32).address == (count + 1) * size * 4
            for at in range(0, 64, size):
                tensor = queue.AllocTensor(float32)
                DataCopy(tensor, g[at:], size)
                queue.EnQue(tensor)
                tensor, result = queue.DeQue(), out.AllocTensor(float32)
                Adds(scratch.Get(float32), tensor, 1, size)
                Muls(result, scratch.Get(float32), 2, size)
                queue.FreeTensor(tensor)
                out.EnQue(result)
                result = out.DeQue()
                DataCopy(h[64 * phase + at :], result, size)
                out.FreeTensor(result)
            pipe.Reset()
        pipe.Destroy()
        pipe.Init()
        assert pipe.AllocEventID(HardEvent.MTE2_V) == 0
        with pytest.raises(KernelError, match="has a TPipe already"):
            pipe.Init()

    x, z = np.arange(64, dtype=np.float32), np.zeros(128, np.float32)
    result = launch(kernel, x, z)
    assert z.tolist() == [*(2 * (x + 1))] * 2
    assert found(result) == []
