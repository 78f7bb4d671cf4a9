"""A small server: workers, each with a stream, scale vectors of clients. test_small_server.py tests it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import numpy.typing as npt

import acl_py as acl

WIDTH = 1 << 18  # numbers of a vector
SIZE = 4 * WIDTH

Vector = npt.NDArray[np.float32]


@acl.kernel(cost=acl.Cost(us=60))
def scale(x: acl.InOut):
    """Multiply a vector by three."""
    np.multiply(x, 3, out=x)


class SmallServer:
    """Answers vectors. A request that the device refuses is answered with the error, and the next one is served."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Vector, asyncio.Future[Vector]]] = asyncio.Queue()

    async def ask(self, vector: Vector) -> Vector:
        """Return three times *vector*.

        Raises:
            AclError: The device has refused the request.
        """
        answer: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()
        await self._queue.put((vector, answer))
        return await answer

    async def work(self) -> None:
        """Serve one request after another, with memory and a stream of its own."""
        stream = await acl.CreateStream()
        host = await acl.MallocHost(SIZE)
        try:
            while True:
                vector, answer = await self._queue.get()
                try:
                    answer.set_result(await self._serve(vector, host, stream))
                except acl.AclError as error:
                    answer.set_exception(error)
        finally:
            await acl.SynchronizeStream(stream)
            await acl.FreeHost(host)
            await acl.DestroyStream(stream)

    async def _serve(self, vector: Vector, host: acl.Buffer, stream: acl.Stream) -> Vector:
        numbers = host.numpy(np.float32)
        numbers[:] = vector
        device = await acl.MallocAsync(SIZE, stream)
        try:
            await acl.MemcpyAsync(device, SIZE, host, SIZE, acl.MemcpyKind.HOST_TO_DEVICE, stream)
            await scale[16, stream](acl.Array(device, np.float32))
            await acl.MemcpyAsync(host, SIZE, device, SIZE, acl.MemcpyKind.DEVICE_TO_HOST, stream)
        finally:
            await acl.FreeAsync(device, stream)
        await acl.SynchronizeStream(stream)
        return numbers.copy()


@asynccontextmanager
async def serving(workers: int) -> AsyncIterator[SmallServer]:
    """Run a server with so many workers in the block."""
    server = SmallServer()
    tasks = [asyncio.create_task(server.work(), name=f"worker {number}") for number in range(workers)]
    try:
        yield server
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
