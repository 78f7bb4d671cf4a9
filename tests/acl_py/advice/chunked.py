"""The pipeline of three streams: 12 chunks of 2 MiB in 3 slots, on an H200.

Each chunk is copied in, two kernels of 45 us work on it, and it is copied out. Its events say: the chunk is `up`; it is
`done`; its slot is `free`. A pipeline with a mistake is this one with a small change, which the tests mend.
"""

from functools import cache

import numpy as np
from small import chosen

import acl_py
from acl_py import Array, Cost, In, InOut, Out, kernel

CHUNKS, SLOTS, SIZE = 12, 3, 2 << 20
H2D, D2H = acl_py.MemcpyKind.HOST_TO_DEVICE, acl_py.MemcpyKind.DEVICE_TO_HOST


@kernel(cost=Cost(us=45))
def first(data: In, result: Out):
    """Read a chunk that was copied in."""
    np.copyto(result, data)


@kernel(cost=Cost(us=45))
def second(result: InOut):
    """Finish its result in place."""
    result += 1


@kernel(cost=Cost(us=45))
def note(notes: InOut):
    """Work on memory that nothing else uses."""


class Pipeline:
    """The pipeline as it should be; a mistake overrides one of its methods."""

    async def prepare(self):
        """Make all that the loop needs."""
        self.upload, self.compute, self.download = [await acl_py.CreateStream(nonblocking=True) for _ in range(3)]
        self.source, self.result = [await acl_py.MallocHost(CHUNKS * SIZE) for _ in range(2)]
        self.source.numpy()[:] = 1
        self.ins, self.outs = [[Array(await acl_py.Malloc(SIZE)) for _ in range(SLOTS)] for _ in range(2)]
        self.up, self.done, self.free = [[await acl_py.CreateEvent() for _ in range(SLOTS)] for _ in range(3)]

    async def run(self):
        """Run all chunks, and look at the result."""
        await self.prepare()
        for chunk in range(CHUNKS):
            await self.step(chunk, chunk % SLOTS)
        await acl_py.SynchronizeDevice()
        assert (self.result.numpy() == 2).all()
        return acl_py.current_simulation().trace.timeline()

    async def step(self, chunk, slot):
        """Queue the work of one chunk."""
        await self.wait_to_upload(chunk, slot)
        await acl_py.MemcpyAsync(self.ins[slot], SIZE, self.source + chunk * SIZE, SIZE, H2D, self.upload)
        await acl_py.RecordEvent(self.up[slot], self.upload)
        await acl_py.StreamWaitEvent(self.compute, self.up[slot])
        await self.wait_to_compute(chunk, slot)
        await self.queue_kernels(slot)
        await acl_py.StreamWaitEvent(self.download, self.done[slot])
        await acl_py.MemcpyAsync(self.result + chunk * SIZE, SIZE, self.outs[slot], SIZE, D2H, self.download)
        await acl_py.RecordEvent(self.free[slot], self.download)
        await self.end_of_chunk(chunk, slot)

    async def wait_to_upload(self, chunk, slot):
        """Let the upload wait until its slot is read."""
        if chunk >= SLOTS:
            await acl_py.StreamWaitEvent(self.upload, self.done[slot])

    async def wait_to_compute(self, chunk, slot):
        """Let the kernels wait until the slot of their result is copied out."""
        if chunk >= SLOTS:
            await acl_py.StreamWaitEvent(self.compute, self.free[slot])

    async def queue_kernels(self, slot):
        """Queue the kernels, and record that they are done."""
        await first[1, self.compute](self.ins[slot], self.outs[slot])
        await second[1, self.compute](self.outs[slot])
        await acl_py.RecordEvent(self.done[slot], self.compute)

    async def end_of_chunk(self, chunk, slot):
        """Go on at once."""


class SynchronisesCompute(Pipeline):
    """The host waits for the kernels of each chunk."""

    async def end_of_chunk(self, chunk, slot):
        await acl_py.SynchronizeStream(self.compute)


class WaitsForDownload(Pipeline):
    """The upload waits for the download of the chunk before, of which it needs nothing."""

    async def wait_to_upload(self, chunk, slot):
        if chunk >= SLOTS:
            await acl_py.StreamWaitEvent(self.upload, self.free[(chunk - 1) % SLOTS])


class SynchronisesDeviceAtTimes(Pipeline):
    """The host waits for the whole device behind every fourth chunk."""

    async def end_of_chunk(self, chunk, slot):
        if chunk % 4 == 3:
            await acl_py.SynchronizeDevice()


class AwaitsDownload(Pipeline):
    """The host waits for the download of each chunk, which it reads behind the loop."""

    async def end_of_chunk(self, chunk, slot):
        await acl_py.SynchronizeEvent(self.free[slot])


class SynchronisesTwice(Pipeline):
    """The host waits for two streams in each round; each wait hides the other one."""

    async def end_of_chunk(self, chunk, slot):
        await acl_py.SynchronizeStream(self.compute)
        await acl_py.SynchronizeStream(self.download)


class Reused(Pipeline):
    """The results go to one buffer for each slot, which the host reads two chunks later."""

    async def prepare(self):
        await super().prepare()
        self.sums = []

    async def end_of_chunk(self, chunk, slot):
        if chunk >= 2:
            await self.wait_to_read((chunk - 2) % SLOTS)
            self.sums.append(int(self.result.numpy()[(chunk - 2) * SIZE : (chunk - 1) * SIZE].sum()))

    async def wait_to_read(self, slot):
        """Wait for the download of the chunk in *slot*."""
        await acl_py.SynchronizeEvent(self.free[slot])


class ReadsBehindDevice(Reused):
    """It waits for the whole device before it reads."""

    async def wait_to_read(self, slot):
        await acl_py.SynchronizeDevice()


class ReadsBehindStream(Reused):
    """It waits for the whole stream before it reads."""

    async def wait_to_read(self, slot):
        await acl_py.SynchronizeStream(self.download)


class Measured(Pipeline):
    """A third kernel notes something in memory of its own, behind the event that says that the chunk is done."""

    async def prepare(self):
        await super().prepare()
        self.notes = Array(await acl_py.Malloc(SIZE))

    async def queue_kernels(self, slot):
        await first[1, self.compute](self.ins[slot], self.outs[slot])
        await second[1, self.compute](self.outs[slot])
        await acl_py.RecordEvent(self.done[slot], self.compute)
        await note[1, self.compute](self.notes)


class RecordsLate(Measured):
    """The event stands behind the third kernel."""

    async def queue_kernels(self, slot):
        await first[1, self.compute](self.ins[slot], self.outs[slot])
        await second[1, self.compute](self.outs[slot])
        await note[1, self.compute](self.notes)
        await acl_py.RecordEvent(self.done[slot], self.compute)


class DeviceForSlots(Pipeline):
    """The host waits for the device before it fills a slot again, and no stream waits for a slot."""

    async def wait_to_upload(self, chunk, slot):
        if chunk >= SLOTS:
            await acl_py.SynchronizeDevice()

    async def wait_to_compute(self, chunk, slot):
        pass


@cache
def recorded(pipeline, **options):
    """The recording of a run of *pipeline*."""
    return acl_py.run(pipeline().run, **{"device": "h200", "sanitize": "device,host", "workers": 1} | options)


@cache
def advised(pipeline):
    """All that advice says about a run of *pipeline*."""
    return chosen(recorded(pipeline))
