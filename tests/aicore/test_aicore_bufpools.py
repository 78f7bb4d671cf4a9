"""Pools of a kernel's own: a TBufPool that divides its bytes in its own way."""

import numpy as np
import pytest
from cores import SPEC, found, launch
from instructions import after, half

from device_model.aicore.core.names import HardEvent, TPosition
from device_model.aicore.core.tensors import GlobalTensor
from device_model.aicore.flags.bufpool import TBufPool
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.elementwise import Adds
from device_model.kernel.findings import KernelError


class Apart(TBufPool):
    """Its buffers have 32 bytes between them."""

    def InitBuffer(self, target, first, length=None):
        count, length = (1, first) if length is None else (first, length)
        handle, address = self.GetBufHandle(self.GetCurBufSize()), self.GetCurAddr()
        target.InitStartBufHandle(handle, count, length)
        for number in range(count):
            target.InitBufHandle(self, number, handle, address + number * (length + 32), length)
        self.SetCurAddr(address + count * (length + 32))
        self.SetCurBufSize(self.GetCurBufSize() + count)


def test_a_pool_with_gaps_gives_queues_and_buffers_their_bytes():
    x, y, seen = np.arange(64, dtype=half), np.zeros(64, half), []

    def kernel(x, y):
        pipe, pool, queue, room = TPipe(), Apart(TPosition.VECCALC, 4), TQue(TPosition.VECIN, 2), TBuf()
        pipe.InitBufPool(pool, 512)
        pool.InitBuffer(queue, 2, 64)
        pool.InitBuffer(room, 128)
        seen.append((pool.GetCurAddr(), pool.GetCurBufSize()))
        result = room.Get(half)
        for part in range(2):
            local = queue.AllocTensor(half)
            seen.append(local.GetPhyAddr())
            DataCopy(local, GlobalTensor(half).SetGlobalBuffer(x)[32 * part :], 32)
            queue.EnQue(local)
        for part in range(2):
            local = queue.DeQue(half)
            Adds(result[32 * part :], local, 1, 32)
            queue.FreeTensor(local)
        after(HardEvent.V_MTE3)
        DataCopy(GlobalTensor(half).SetGlobalBuffer(y), result, 64)
        seen.append(result.GetPhyAddr())
        pool.Reset()
        seen.append((pool.GetCurAddr(), pool.GetCurBufSize()))
        with pytest.raises(KernelError, match="no buffers"):
            queue.AllocTensor(half)  # they went back with Reset()

    result = launch(kernel, x, y)
    assert found(result) == []
    assert y.tolist() == (x + 1).tolist()
    assert seen == [(352, 3), 0, 96, 192, (0, 0)]
    # Once for each InitStartBufHandle, as for each InitBuffer of a TPipe.
    issued = [each for each in result.programs[0].instructions if each.name == "DataCopy"]
    assert issued[0].scalar >= 2 * SPEC.init_buffer


def test_two_queues_may_share_the_bytes_of_a_pool():
    def kernel():
        pipe, pool = TPipe(), TBufPool()
        pipe.InitBufPool(pool, 64)
        queues = [TQue(TPosition.VECIN, 1) for _ in range(2)]
        for queue in queues:
            queue.InitStartBufHandle(pool.GetBufHandle(0), 1, 64)
            queue.InitBufHandle(pool, 0, pool.GetBufHandle(0), pool.GetCurAddr(), 64)
            local = queue.AllocTensor(half)
            assert (local.GetPhyAddr(), local.GetSize()) == (0, 32)
            queue.FreeTensor(local)

    launch(kernel)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda pool, queue, room: pool.GetBufHandle(4), r"GetBufHandle\(4\) of .*; it was made for 4"),
        (lambda pool, queue, room: pool.SetCurAddr(544), r"SetCurAddr\(544\).*a multiple of 32 from 0 to 512"),
        (lambda pool, queue, room: pool.SetCurAddr(16), r"SetCurAddr\(16\)"),
        (lambda pool, queue, room: pool.SetCurBufSize(5), r"SetCurBufSize\(5\).*made for 4"),
        (lambda pool, queue, room: TBufPool().GetCurAddr(), "without memory"),
        (lambda pool, queue, room: queue.InitStartBufHandle(0, 0, 64), "InitStartBufHandle of 0 x 64 bytes"),
        (lambda pool, queue, room: queue.InitStartBufHandle(0, 1, 48), "the bytes a multiple of 32"),
        (lambda pool, queue, room: queue.InitBufHandle(pool, 0, 0, 0, 64), "InitStartBufHandle has said 0 buffers"),
        (
            lambda pool, queue, room: (queue.InitStartBufHandle(0, 2, 64), queue.InitBufHandle(pool, 1, 0, 0, 64)),
            "has said 2 buffers of 64 bytes with handle 0, and the next one is 0",
        ),
        (
            lambda pool, queue, room: (
                queue.InitStartBufHandle(0, 2, 64),
                queue.InitBufHandle(pool, 0, 0, 0, 64),
                queue.InitBufHandle(pool, 1, 0, 0, 64),
            ),
            "another of its buffers begins there",
        ),
        (
            lambda pool, queue, room: (queue.InitStartBufHandle(1, 1, 64), queue.InitBufHandle(pool, 0, 0, 0, 64)),
            "with handle 0; .*with handle 1",
        ),
        (lambda pool, queue, room: room.InitStartBufHandle(0, 2, 64), "a TBuf has 1"),
        (lambda pool, queue, room: room.InitBufHandle(pool, 0, 0, 0, 64), "has said 0 of 0 bytes"),
        (
            lambda pool, queue, room: (room.InitStartBufHandle(0, 1, 64), room.InitBufHandle(pool, 0, 0, 480, 64)),
            "has bytes 0 to 512",
        ),
    ],
)
def test_what_a_pool_refuses(call, message):
    def kernel():
        pipe, pool = TPipe(), TBufPool()
        pipe.InitBufPool(pool, 512)
        call(pool, TQue(TPosition.VECIN, 1), TBuf())

    with pytest.raises(KernelError, match=f"(?s){message}"):
        launch(kernel)
