"""What collectives compute: the sum of many ranks is that of one rank behind the other, to the last bit."""

import numpy as np
import pytest

from device_model.collectives import results
from device_model.collectives.calls import Call, CollectiveKind, ReduceOp
from device_model.dtypes import as_dtype
from device_model.memory import Memory

STEPS = {ReduceOp.SUM: np.add, ReduceOp.PROD: np.multiply, ReduceOp.MAX: np.maximum, ReduceOp.MIN: np.minimum}


def reduced(rows, op):
    """What each rank of an AllReduce gets, whose memory has one of *rows*."""
    memory = Memory([1 << 24] * len(rows), 256, AssertionError)
    calls = []
    for device, row in enumerate(rows):
        buffer = memory.malloc(device, row.nbytes, None)
        buffer.allocation.warm(0, row.nbytes)
        buffer.allocation.view[: row.nbytes] = row.view(np.uint8).data
        extent = (buffer.allocation, 0, row.nbytes)
        calls.append(Call(CollectiveKind.ALL_REDUCE, row.size, row.dtype, op, sends=(extent,), receives=(extent,)))
    return [bytes(received) for [received] in results.results(calls)]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("op", STEPS)
def test_ranks_are_combined_in_their_order_however_many_elements_there_are(op, dtype):
    chance, dtype = np.random.default_rng(7), as_dtype(dtype)
    is_whole = dtype.kind in "iu"
    wide = np.float32 if dtype.itemsize == 2 and not is_whole else dtype
    for ranks, count in ((2, 5), (8, 1), (9, 2), (17, 3), (64, 1), (64, 1000), (33, 9000)):
        values = chance.standard_normal((ranks, count)) * 100
        rows = [row.astype(np.int64 if is_whole else dtype).astype(dtype) for row in values]
        expected = rows[0]
        with np.errstate(all="ignore"):
            for row in rows[1:]:
                expected = STEPS[op](expected.astype(wide), row.astype(wide)).astype(dtype)
        assert reduced(rows, op) == [expected.tobytes()] * ranks
