"""Mistakes planted in the pipeline, and the same programs mended. `# planted` marks the line that a report must name.

A class has the mistake; its base is mended: `Pipeline`, or a class of its own.
"""

import inspect
from pathlib import Path

import numpy as np
from planted_pipeline import CHUNKS, D2D, D2H, H2D, MIB, SIZE, Pipeline, norm, scale, shift, tiny

import acl_py
from acl_py import (
    Array,
    Cost,
    CreateEvent,
    CreateStream,
    DestroyEvent,
    DestroyStream,
    Free,
    GraphInstantiate,
    GraphLaunch,
    HostRegister,
    HostUnregister,
    InOut,
    Malloc,
    MallocHost,
    Memcpy,
    Memcpy2dAsync,
    MemcpyAsync,
    Memset,
    MemsetAsync,
    Out,
    RecordEvent,
    StreamWaitEvent,
    SynchronizeDevice,
    SynchronizeStream,
    kernel,
)
from acl_py.causes.findings import Pitfall


def line_of(pair):
    """The planted line of a class, as a report names it."""
    return lines_from(pair)[0]


def lines_from(pair):
    """The planted line of a class, and the four below it."""
    lines, first = inspect.getsourcelines(pair)
    place = next(
        place
        for place, line in enumerate(lines)
        if line.rstrip().endswith("# planted") and line.lstrip()[0] not in "+-"
    )
    return [f"{Path(inspect.getfile(pair)).name}:{first + place + below}" for below in range(5)]


# --- things made in a loop


class _Arrays(Pipeline):
    """Uploads come from an array of the program, which is registered before."""

    async def begin(self):
        await super().begin()
        self.array = np.zeros(SIZE * CHUNKS, np.uint8)

    def part(self, chunk):
        return self.array[chunk * SIZE : (chunk + 1) * SIZE]

    async def upload(self, chunk, slot):
        await MemcpyAsync(self.device[slot], SIZE, self.part(chunk), SIZE, H2D, self.up)


class RegisteredOnce(_Arrays):
    async def begin(self):
        await super().begin()
        await HostRegister(self.array)

    async def end(self):
        await super().end()
        await HostUnregister(self.array)


class RegisteredInLoop(_Arrays):
    pitfall, edit = Pitfall.IN_LOOP, "Register all of it before the loop"
    mended = RegisteredOnce

    async def step(self, chunk, slot):
        await HostRegister(self.part(chunk))  # planted
        await super().step(chunk, slot)
        await HostUnregister(self.part(chunk))


class SlotsRegisteredOnce(RegisteredOnce):
    """The arrays of the slots are used again for each chunk."""

    def part(self, chunk):
        return super().part(chunk % self.slots)

    async def begin(self):
        await Pipeline.begin(self)
        self.array = np.zeros(SIZE * self.slots, np.uint8)
        for slot in range(self.slots):
            await HostRegister(self.part(slot))

    async def end(self):
        await Pipeline.end(self)
        for slot in range(self.slots):
            await HostUnregister(self.part(slot))


class SlotsRegisteredAnew(SlotsRegisteredOnce):
    pitfall, edit = Pitfall.IN_LOOP, "Register it once, 3 times in place of 12, before the loop"
    mended = SlotsRegisteredOnce
    end = Pipeline.end

    async def begin(self):
        await Pipeline.begin(self)
        self.array = np.zeros(SIZE * self.slots, np.uint8)

    async def step(self, chunk, slot):
        await HostRegister(self.part(chunk))  # planted
        await super().step(chunk, slot)
        await HostUnregister(self.part(chunk))


class OwnDownload(Pipeline):
    """Each download has a stream and an event, made before."""

    size, chunks = MIB // 4, 24

    async def work(self, chunk, slot):
        await RecordEvent(self.done[slot], self.compute)

    async def download(self, chunk, slot):
        await self.download_in(self.extra, self.event, slot)

    async def download_in(self, stream, event, slot):
        await StreamWaitEvent(stream, self.done[slot])
        await MemcpyAsync(self.result[slot], self.size, self.device[slot], self.size, D2H, stream)
        await RecordEvent(event, stream)
        await StreamWaitEvent(self.down, event)

    async def begin(self):
        await super().begin()
        self.extra, self.event = await CreateStream(), await CreateEvent()

    async def end(self):
        await super().end()
        await DestroyEvent(self.event)
        await DestroyStream(self.extra)


class StreamEachStep(OwnDownload):
    pitfall, edit = Pitfall.IN_LOOP, "before the loop and use them again: 1 in place of 24 streams, 1 in place of 24"
    mended = OwnDownload
    diff = """
        - {0}: stream = await CreateStream()  # planted
        + behind planted_pipeline.py:60: stream = await CreateStream()  # planted
        - {1}: event = await CreateEvent()
        + behind planted_pipeline.py:60: event = await CreateEvent()
        - {3}: await DestroyEvent(event)
        + behind planted_pipeline.py:88: await DestroyEvent(event)
        - {4}: await DestroyStream(stream)
        + behind planted_pipeline.py:88: await DestroyStream(stream)
    """
    begin, end = Pipeline.begin, Pipeline.end

    async def download(self, chunk, slot):
        stream = await CreateStream()  # planted
        event = await CreateEvent()
        await self.download_in(stream, event, slot)
        await DestroyEvent(event)
        await DestroyStream(stream)


class WithScratch(Pipeline):
    """The first kernel works on memory that no other part uses."""

    async def begin(self):
        await super().begin()
        self.scratch = await Malloc(self.size)

    async def work(self, chunk, slot):
        await scale[132, self.compute](Array(self.scratch))
        await shift[132, self.compute](Array(self.device[slot]))

    async def end(self):
        await super().end()
        await Free(self.scratch)


class ScratchEachStep(WithScratch):
    pitfall, edit = Pitfall.IN_LOOP, "before the loop and use them again: 1 in place of 12 buffers"
    mended = WithScratch
    begin, end = Pipeline.begin, Pipeline.end

    async def work(self, chunk, slot):
        self.scratch = await Malloc(self.size)  # planted
        await super().work(chunk, slot)
        await Free(self.scratch)


# --- work in the default stream


class KernelWithoutStream(Pipeline):
    pitfall, edit = Pitfall.LEGACY, "Give it the stream of scale"
    mended = Pipeline
    diff = """
        - {0}: await shift[132](Array(self.device[slot]))  # planted
        + {0}: await shift[132, self.compute](Array(self.device[slot]))
    """

    async def work(self, chunk, slot):
        await scale[132, self.compute](Array(self.device[slot]))
        await shift[132](Array(self.device[slot]))  # planted


class FirstKernelWithoutStream(Pipeline):
    """Its producer is the upload, and in that stream it would keep the next upload waiting."""

    pitfall, edit = Pitfall.LEGACY, "Give it the stream of shift"
    mended = Pipeline

    async def work(self, chunk, slot):
        await scale[132](Array(self.device[slot]))  # planted
        await shift[132, self.compute](Array(self.device[slot]))


class Filled(Pipeline):
    """The second kernel adds to memory that is filled before."""

    async def begin(self):
        await super().begin()
        self.sums = [await Malloc(SIZE) for _ in range(self.slots)]

    async def work(self, chunk, slot):
        await self.fill(slot)
        await scale[132, self.compute](Array(self.device[slot]))
        await shift[132, self.compute](Array(self.sums[slot]))

    async def fill(self, slot):
        await MemsetAsync(self.sums[slot], SIZE, 0, SIZE, self.compute)


class FilledInDefaultStream(Filled):
    pitfall, edit = Pitfall.LEGACY, "Give it the stream of shift"
    mended = Filled
    diff = """
        - {0}: await Memset(self.sums[slot], SIZE, 0, SIZE)  # planted
        + {0}: await MemsetAsync(self.sums[slot], SIZE, 0, SIZE, self.compute)
    """

    async def fill(self, slot):
        await Memset(self.sums[slot], SIZE, 0, SIZE)  # planted


class CopiedOnDevice(Filled):
    async def fill(self, slot):
        await MemcpyAsync(self.sums[slot], SIZE, self.device[slot], SIZE, D2D, self.compute)


class CopiedInDefaultStream(CopiedOnDevice):
    pitfall, edit = Pitfall.LEGACY, "Give it the stream of scale"
    mended = CopiedOnDevice

    async def fill(self, slot):
        await MemcpyAsync(self.sums[slot], SIZE, self.device[slot], SIZE, D2D)  # planted


# --- copies and fills in pieces


class Wide(Pipeline):
    """All three streams have work all the time."""

    chunks = 24

    async def work(self, chunk, slot):
        await norm[132, self.compute](Array(self.device[slot]))


class UploadInPieces(Wide):
    pitfall, edit = Pitfall.PIECES, "Make one call of each 16: all of them are one range of bytes"
    mended = Wide

    async def upload(self, chunk, slot):
        device, source, part = self.device[slot], self.source[slot], SIZE // 16
        for begin in range(0, SIZE, part):
            await MemcpyAsync(device + begin, part, source + begin, part, H2D, self.up)  # planted


class DownloadInPieces(Wide):
    pitfall, edit = Pitfall.PIECES, "Make one call of each 16: all of them are one range of bytes"
    mended = Wide

    async def download(self, chunk, slot):
        device, result, part = self.device[slot], self.result[slot], SIZE // 16
        for begin in range(0, SIZE, part):
            await MemcpyAsync(result + begin, part, device + begin, part, D2H, self.down)  # planted


class ByRows(Wide):
    """The upload leaves a gap behind each row on the device."""

    async def upload(self, chunk, slot):
        await Memcpy2dAsync(self.device[slot], SIZE // 32, self.source[slot], SIZE // 64, SIZE // 64, 32, H2D, self.up)


class RowByRow(ByRows):
    pitfall, edit = Pitfall.PIECES, "Make one copy by rows of each 32, with Memcpy2dAsync()"
    mended = ByRows

    async def upload(self, chunk, slot):
        device, source, row = self.device[slot], self.source[slot], SIZE // 64
        for number in range(32):
            await MemcpyAsync(device + 2 * row * number, row, source + row * number, row, H2D, self.up)  # planted


class FilledAtOnce(Wide):
    async def upload(self, chunk, slot):
        await MemsetAsync(self.device[slot], SIZE, 0, SIZE, self.up)


class FilledInPieces(FilledAtOnce):
    pitfall, edit = Pitfall.PIECES, "Make one call of each 8: all of them are one range of bytes"
    mended = FilledAtOnce

    async def upload(self, chunk, slot):
        part = SIZE // 8
        for begin in range(0, SIZE, part):
            await MemsetAsync(self.device[slot] + begin, part, 0, part, self.up)  # planted


# --- launches that repeat


class Layers(Pipeline):
    """Each step launches the same forty kernels, which are in a graph."""

    chunks, layers = 16, 40

    async def begin(self):
        await super().begin()
        self.state = await Malloc(MIB)
        async with acl_py.capture(self.compute) as graph:
            await self.launch_all()
        self.executable = await GraphInstantiate(graph)

    async def launch_all(self):
        for _ in range(self.layers):
            await tiny[132, self.compute](Array(self.state))

    async def work(self, chunk, slot):
        await GraphLaunch(self.executable, self.compute)


class LayersOneByOne(Layers):
    pitfall, edit = Pitfall.REPEATED, "Capture a graph of 40 operations and launch it 16 times; it pays after"
    mended = Layers
    diff = """
        - {0}: await tiny[132, self.compute](Array(self.state))  # planted
        + {0}: the same, captured once
        + before {0}: await BeginCapture(self.compute)
        + behind {0}: await EndCapture(self.compute)
        + behind {0}: await GraphInstantiate(graph)
        + behind {0}: await GraphLaunch(executable, self.compute)
    """

    async def begin(self):
        await Pipeline.begin(self)
        self.state = await Malloc(MIB)

    async def work(self, chunk, slot):
        await self.launch_all()

    async def launch_all(self):
        for _ in range(self.layers):
            await tiny[132, self.compute](Array(self.state))  # planted


# --- results that are fetched one by one


@kernel(cost=Cost(us=45))
def learn(data: InOut, loss: Out):
    """A kernel with a result of one number."""


class Losses(Pipeline):
    """All losses are fetched on their way, and read in the end."""

    async def begin(self):
        await super().begin()
        self.loss, self.losses = await Malloc(4), await MallocHost(4 * self.chunks)

    async def work(self, chunk, slot):
        await scale[132, self.compute](Array(self.device[slot]))
        await learn[132, self.compute](Array(self.device[slot]), Array(self.loss))
        await self.fetch(chunk)

    async def fetch(self, chunk):
        await MemcpyAsync(self.losses + 4 * chunk, 4, self.loss, 4, D2H, self.compute)

    async def end(self):
        await super().end()
        self.seen = self.losses.numpy(np.float32).tolist()


class LossEachStep(Losses):
    pitfall, edit = Pitfall.SYNC_COPY, "into pinned memory with a place for each result"
    mended = Losses
    end = Pipeline.end

    async def begin(self):
        await super().begin()
        self.seen = []

    async def fetch(self, chunk):
        await SynchronizeStream(self.compute)
        await Memcpy(self.losses, 4, self.loss, 4, D2H)  # planted
        self.seen += self.losses.numpy(np.float32)[:1].tolist()


class LossOfPlainArray(LossEachStep):
    """Nobody sees who reads it, and the copy itself does not wait for the kernels, because they are over."""

    pitfall, edit = LossEachStep.pitfall, LossEachStep.edit

    async def fetch(self, chunk):
        await SynchronizeDevice()
        await Memcpy(self.array, 4, self.loss, 4, D2H)  # planted
        self.seen += self.array.tolist()

    async def begin(self):
        await super().begin()
        self.array = np.zeros(1, np.float32)


# --- a record in the wrong stream: what the sanitizer finds, with its fixes


class RecordInWrongStream(Pipeline):
    async def record_done(self, slot):
        await RecordEvent(self.done[slot], self.up)  # planted


class RecordInStreamThatWaits(RecordInWrongStream):
    async def record_done(self, slot):
        await RecordEvent(self.done[slot], self.down)  # planted


WRONG_RECORDS = [RecordInWrongStream, RecordInStreamThatWaits]
