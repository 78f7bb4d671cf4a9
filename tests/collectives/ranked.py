"""What the tests of collectives share: ranks on cards with a stream and memory each."""

from contextlib import asynccontextmanager
from functools import partial, wraps

import numpy as np

import acl_py as acl

HERE, THERE = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST


def cards(program=None, **options):
    """Make a coroutine function a test that runs on eight cards under CUDA's rules."""
    if program is None:
        return partial(cards, **options)

    @wraps(program)
    def test(*args, **kwargs):
        return acl.run(partial(program, *args, **kwargs), **{"device": "h200", "rules": "cuda", "workers": 1} | options)

    return test


class Rank:
    """A rank: its communicators, a stream, and an array of 4 float32 in which all elements are its number plus 1."""

    def __init__(self, index, comm, stream, array):
        self.index = index
        self.comm = comm
        self.stream = stream
        self.array = array

    async def values(self):
        """The elements of its array."""
        into = np.empty(4, np.float32)
        await acl.Memcpy(into, 16, self.array, 16, THERE)
        return into.tolist()


async def rank_on(device, comm):
    """Make the stream and the memory of one rank; its device is current then."""
    await acl.SetDevice(device)
    stream, buffer = await acl.CreateStream(name=f"s{device}"), await acl.Malloc(16)
    await acl.Memcpy(buffer, 16, np.full(4, device + 1, np.float32), 16, HERE)
    await acl.SynchronizeDevice()
    return Rank(device, comm, stream, acl.Array(buffer, np.float32))


async def ranks_of(comms):
    """Make a rank for each of *comms*."""
    return [await rank_on(device, comm) for device, comm in enumerate(comms)]


async def reduce_all(rank, comm=None, stream=None):
    """Let *rank* take part in an AllReduce, in place."""
    await acl.AllReduce(rank.array, rank.array, None, None, acl.ReduceOp.SUM, comm or rank.comm, stream or rank.stream)


@asynccontextmanager
async def two_ranks():
    """Two ranks, whose communicators are destroyed at the end."""
    ranks = await ranks_of(await acl.CommInitAll(2, name="pair"))
    yield ranks
    for rank in ranks:
        await acl.CommDestroy(rank.comm)
