"""1000 Adds of 4096 floats whose operands lie in other banks each time: the vendor's sample of bank conflicts (A2)."""

from functools import partial

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.runner import run
from device_model.aicore.vector.elementwise import Add, BinaryRepeatParams
from device_model.profile import load
from tests.bench.rows import Row

CARD = "ascend910b1"
TICK = 0.02  # us


def adds(addresses, strides):
    x, y, z = (LocalTensor("float32", TPosition.VECCALC, address, 4096) for address in addresses)
    for _ in range(1000):
        Add(z, x, y, 64, 64, BinaryRepeatParams(*strides))


def row(what, ticks, *layout, fitted=False):
    ours = partial(lambda *given: run(partial(adds, *given), 1, (), load(CARD).aicore, hazards=False), *layout)
    return Row("Banks", what, CARD, ticks * TICK, ours, reads="vec", fitted=fitted)


PLAIN = (1, 1, 1, 8, 8, 8)
ROWS = [
    row("apart", 2390, (0, 0x10100, 0x20000), PLAIN),
    row("sources in one bank", 4167, (0, 0x4000, 0x10000), PLAIN),
    row("sources in one group", 4167, (0, 0x10000, 0x14100), PLAIN),
    row("result over a source, in step", 2389, (0, 0x10100, 0x4000), PLAIN),
    row("result over a source, a block on", 3751, (0, 0x10100, 0x4020), PLAIN, fitted=True),
    row("in place", 2390, (0, 0x10100, 0x10100), PLAIN),
    row("in place, one block of a source", 3584, (0, 0x10100, 0x10100), (1, 0, 1, 8, 1, 8)),
    row("in place, one block of each repeat", 2389, (0, 0x10100, 0x10100), (1, 0, 1, 8, 8, 8)),
]
