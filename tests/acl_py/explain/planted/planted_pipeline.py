"""A pipeline of three streams, and how it is recorded: twelve chunks go through three slots."""

import acl_py
from acl_py import (
    Array,
    Cost,
    CreateEvent,
    CreateStream,
    InOut,
    Malloc,
    MallocHost,
    MemcpyAsync,
    RecordEvent,
    StreamWaitEvent,
    SynchronizeDevice,
    kernel,
)

MIB = 1 << 20
CHUNKS, SLOTS, SIZE = 12, 3, 2 * MIB
_, H2D, D2H, D2D, *_ = acl_py.MemcpyKind


@kernel(cost=Cost(us=45))
def scale(data: InOut):
    """The first kernel of a chunk."""


@kernel(cost=Cost(us=45))
def shift(data: InOut):
    """The second kernel of a chunk."""


@kernel(cost=Cost(us=10))
def norm(data: InOut):
    """A short kernel."""


@kernel(cost=Cost(us=3))
def tiny(data: InOut):
    """A very short kernel."""


class Pipeline:
    """The right program. A planted mistake is a class that does one of its parts in another way."""

    chunks, slots, size = CHUNKS, SLOTS, SIZE

    async def run(self):
        await self.begin()
        for chunk in range(self.chunks):
            slot = chunk % self.slots
            await self.step(chunk, slot)
        await self.end()

    async def begin(self):
        self.up, self.compute, self.down = [await CreateStream() for _ in range(3)]
        self.arrived, self.done, self.free = [[await CreateEvent() for _ in range(self.slots)] for _ in range(3)]
        self.source, self.result = [[await MallocHost(self.size) for _ in range(self.slots)] for _ in range(2)]
        self.device = [await Malloc(self.size) for _ in range(self.slots)]

    async def step(self, chunk, slot):
        if chunk >= self.slots:
            await StreamWaitEvent(self.up, self.free[slot])
        await self.upload(chunk, slot)
        await RecordEvent(self.arrived[slot], self.up)
        await StreamWaitEvent(self.compute, self.arrived[slot])
        await self.work(chunk, slot)
        await self.record_done(slot)
        await StreamWaitEvent(self.down, self.done[slot])
        await self.download(chunk, slot)
        await RecordEvent(self.free[slot], self.down)

    async def upload(self, chunk, slot):
        await MemcpyAsync(self.device[slot], self.size, self.source[slot], self.size, H2D, self.up)

    async def work(self, chunk, slot):
        await scale[132, self.compute](Array(self.device[slot]))
        await shift[132, self.compute](Array(self.device[slot]))

    async def record_done(self, slot):
        await RecordEvent(self.done[slot], self.compute)

    async def download(self, chunk, slot):
        await MemcpyAsync(self.result[slot], self.size, self.device[slot], self.size, D2H, self.down)

    async def end(self):
        await SynchronizeDevice()


def recording(pipeline, device="h200", rules=None, sanitize=None):
    """The recording of a run of *pipeline*, a class."""

    async def main():
        await pipeline().run()
        return acl_py.current_simulation().trace.timeline()

    return acl_py.run(main, device=device, rules=rules, workers=1, sanitize=sanitize)
