"""Random pipelines that are right: their results are NumPy's, and nothing is found in them, weak mode or not."""

import numpy as np
import pytest
from cores import found, launch, vector

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import HardEvent, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32
from device_model.aicore.flags.crossing import SyncAll
from device_model.aicore.flags.queues import TBuf, TQue, TQueBind
from device_model.aicore.flags.sync import AllocEventID, PipeBarrier, ReleaseEventID, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy

STEPS = (np.add, np.maximum, np.minimum, np.subtract)


class Plan:
    """What a random pipeline does."""

    def __init__(self, seed):
        chance = np.random.default_rng(seed)
        self.inputs = int(chance.integers(1, 4))
        self.buffers = int(chance.integers(1, 4))
        self.tiles = int(chance.integers(1, 6))
        self.blocks = int(chance.integers(1, 5))
        self.tile = 8 * int(chance.integers(1, 9))
        self.steps = [STEPS[at] for at in chance.integers(0, len(STEPS), chance.integers(1, 5))]
        self.sources = [int(at) for at in chance.integers(0, self.inputs, len(self.steps))]
        self.scratch = bool(chance.integers(0, 2))
        self.in_place = bool(chance.integers(0, 2))
        self.x = chance.integers(-9, 9, (self.inputs, self.blocks * self.tiles * self.tile)).astype(np.float32)

    def expected(self):
        value = self.x[0]
        for step, source in zip(self.steps, self.sources, strict=True):
            value = step(value, self.x[source])
        return value

    def compute(self, out, inputs, scratch):
        """The steps, by way of *scratch* if there is one."""
        at = inputs[0]
        for index, (step, source) in enumerate(zip(self.steps, self.sources, strict=True)):
            last = index == len(self.steps) - 1
            to = out if last or not self.scratch else scratch
            vector(step, to, at, inputs[source])
            at = to


def gm_of(plan, buffers):
    size = plan.tiles * plan.tile
    return [GlobalTensor(float32).SetGlobalBuffer(buffer[size * GetBlockIdx() :], size) for buffer in buffers]


def with_queues(plan, z, *xs):
    *inputs, out = gm_of(plan, (*xs, z))
    pipe, nbytes = TPipe(), plan.tile * 4
    queues = [TQue(TPosition.VECIN, plan.buffers) for _ in inputs]
    results, scratch = TQue(TPosition.VECOUT, 1), TBuf()
    for queue in (*queues, results):
        pipe.InitBuffer(queue, min(plan.buffers, 2), nbytes)
    pipe.InitBuffer(scratch, nbytes)
    for tile in range(plan.tiles):
        at = tile * plan.tile
        for queue, x in zip(queues, inputs, strict=True):
            tensor = queue.AllocTensor(float32)
            DataCopy(tensor, x[at:], plan.tile)
            queue.EnQue(tensor)
        loaded = [queue.DeQue() for queue in queues]
        result = results.AllocTensor(float32)
        plan.compute(result, loaded, scratch.Get(float32))
        results.EnQue(result)
        for queue, tensor in zip(queues, loaded, strict=True):
            queue.FreeTensor(tensor)
        result = results.DeQue()
        DataCopy(out[at:], result, plan.tile)
        results.FreeTensor(result)


def with_flags(plan, z, *xs):
    """Static tensors; each of the buffers has an id of its own, and all are preset."""
    *inputs, out = gm_of(plan, (*xs, z))
    nbytes = plan.tile * 4
    address = iter(range(0, 1 << 17, nbytes))
    loaded = [
        [LocalTensor(float32, TPosition.VECIN, next(address), plan.tile) for _ in inputs] for _ in range(plan.buffers)
    ]
    results = [LocalTensor(float32, TPosition.VECOUT, next(address), plan.tile) for _ in range(plan.buffers)]
    scratch = LocalTensor(float32, TPosition.VECCALC, next(address), plan.tile)
    for slot in range(plan.buffers):
        SetFlag(HardEvent.V_MTE2, slot)
        SetFlag(HardEvent.MTE3_V, slot)
    for tile in range(plan.tiles):
        slot, at = tile % plan.buffers, tile * plan.tile
        WaitFlag(HardEvent.V_MTE2, slot)
        for tensor, x in zip(loaded[slot], inputs, strict=True):
            DataCopy(tensor, x[at:], plan.tile)
        SetFlag(HardEvent.MTE2_V, slot)
        WaitFlag(HardEvent.MTE2_V, slot)
        WaitFlag(HardEvent.MTE3_V, slot)
        plan.compute(results[slot], loaded[slot], scratch)
        SetFlag(HardEvent.V_MTE2, slot)
        SetFlag(HardEvent.V_MTE3, slot)
        WaitFlag(HardEvent.V_MTE3, slot)
        DataCopy(out[at:], results[slot], plan.tile)
        SetFlag(HardEvent.MTE3_V, slot)
    for slot in range(plan.buffers):
        WaitFlag(HardEvent.V_MTE2, slot)
        WaitFlag(HardEvent.MTE3_V, slot)


def with_barriers(plan, z, *xs):
    """No overlap at all: PipeBarrier<ALL> between the stages."""
    *inputs, out = gm_of(plan, (*xs, z))
    nbytes = plan.tile * 4
    loaded = [LocalTensor(float32, TPosition.VECIN, index * nbytes, plan.tile) for index in range(plan.inputs)]
    result, scratch = (LocalTensor(float32, TPosition.VECCALC, 65536 + at, plan.tile) for at in (0, nbytes))
    for tile in range(plan.tiles):
        at = tile * plan.tile
        for tensor, x in zip(loaded, inputs, strict=True):
            DataCopy(tensor, x[at:], plan.tile)
        PipeBarrier(Pipe.ALL)
        plan.compute(result, loaded, scratch)
        PipeBarrier(Pipe.ALL)
        DataCopy(out[at:], result, plan.tile)
        PipeBarrier(Pipe.ALL)


def through_ub_and_back(plan, z, *xs):
    """The first input goes through UB without a vector instruction, then each block works on its neighbour's part."""
    *inputs, out = gm_of(plan, (*xs, z))
    pipe, through = TPipe(), TQueBind(TPosition.VECIN, TPosition.VECOUT, 1)
    pipe.InitBuffer(through, plan.buffers, plan.tile * 4)
    for tile in range(plan.tiles):
        tensor = through.AllocTensor(float32)
        DataCopy(tensor, inputs[0][tile * plan.tile :], plan.tile)
        through.EnQue(tensor)
        tensor = through.DeQue()
        DataCopy(out[tile * plan.tile :], tensor, plan.tile)
        through.FreeTensor(tensor)
    pipe.Destroy()
    SyncAll()
    size = plan.tiles * plan.tile
    mine = size * ((GetBlockIdx() + 1) % GetBlockNum())
    *inputs, out = (GlobalTensor(float32).SetGlobalBuffer(buffer[mine:], size) for buffer in (*xs, z))
    loaded = [LocalTensor(float32, TPosition.VECIN, index * 8192, plan.tile) for index in range(plan.inputs)]
    result, scratch = (LocalTensor(float32, TPosition.VECCALC, 65536 + at, plan.tile) for at in (0, 8192))
    for tile in range(plan.tiles):
        at = tile * plan.tile
        event_id = AllocEventID(HardEvent.MTE2_V)
        DataCopy(loaded[0], out[at:], plan.tile)
        for tensor, x in zip(loaded[1:], inputs[1:], strict=True):
            DataCopy(tensor, x[at:], plan.tile)
        SetFlag(HardEvent.MTE2_V, event_id)
        WaitFlag(HardEvent.MTE2_V, event_id)
        ReleaseEventID(HardEvent.MTE2_V, event_id)
        plan.compute(result, loaded, scratch)
        SetFlag(HardEvent.V_MTE3, 0)
        WaitFlag(HardEvent.V_MTE3, 0)
        DataCopy(out[at:], result, plan.tile)
        PipeBarrier(Pipe.ALL)


KERNELS = (with_queues, with_flags, with_barriers, through_ub_and_back)


@pytest.mark.one_in(7)
@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_a_right_pipeline_computes_what_numpy_does_and_nothing_is_found(kernel, seed):
    plan = Plan(seed)
    z = np.zeros(plan.x.shape[1], np.float32)
    xs = [np.ascontiguousarray(row) for row in plan.x]
    result = launch(kernel, plan, z, *xs, blocks=plan.blocks, weak=bool(seed % 2))
    assert found(result) == []
    np.testing.assert_array_equal(z, plan.expected())
