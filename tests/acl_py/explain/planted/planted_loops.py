"""More planted mistakes: contexts, executables and graphs in loops, the same loop in two tasks, and one stream."""

import asyncio

from planted_pipeline import D2H, H2D, MIB, Pipeline, scale, tiny

import acl_py
from acl_py import (
    Array,
    Cost,
    CreateContext,
    CreateStream,
    DestroyContext,
    DestroyStream,
    Free,
    FreeHost,
    GraphDestroy,
    GraphExecDestroy,
    GraphInstantiate,
    GraphLaunch,
    In,
    InOut,
    Malloc,
    MallocHost,
    MemcpyAsync,
    MemsetAsync,
    Out,
    SynchronizeDevice,
    SynchronizeStream,
    kernel,
)
from acl_py.causes.findings import Pitfall


@kernel(cost=Cost(us=45))
def idle():
    """A kernel without memory."""


class OneContext(Pipeline):
    async def run(self):
        await self.begin()
        for _ in range(6):
            await self.work()
        await self.end()

    async def begin(self):
        self.context = await CreateContext(0)
        self.stream = await CreateStream()

    async def work(self):
        await idle[1, self.stream]()
        await SynchronizeStream(self.stream)

    async def end(self):
        await DestroyStream(self.stream)
        await DestroyContext(self.context)


class ContextEachStep(OneContext):
    pitfall, edit = Pitfall.IN_LOOP, "1 in place of 6 contexts, 1 in place of 6 streams"
    mended = OneContext

    async def run(self):
        for _ in range(6):
            self.context = await CreateContext(0)  # planted
            self.stream = await CreateStream()
            await self.work()
            await self.end()


class OneExecutable(Pipeline):
    async def run(self):
        self.stream, self.data = await CreateStream(), await Malloc(MIB)
        graph = await self.captured()
        executable = await GraphInstantiate(graph)
        for _ in range(10):
            await GraphLaunch(executable, self.stream)
            await SynchronizeStream(self.stream)
        await GraphExecDestroy(executable)
        await GraphDestroy(graph)

    async def captured(self):
        async with acl_py.capture(self.stream) as graph:
            for _ in range(20):
                await tiny[1, self.stream](Array(self.data))
        return graph


class ExecutableEachStep(OneExecutable):
    pitfall, edit = Pitfall.IN_LOOP, "1 in place of 10 executables"
    mended = OneExecutable

    async def run(self):
        self.stream, self.data = await CreateStream(), await Malloc(MIB)
        graph = await self.captured()
        for _ in range(10):
            executable = await GraphInstantiate(graph)  # planted
            await GraphLaunch(executable, self.stream)
            await SynchronizeStream(self.stream)
            await GraphExecDestroy(executable)
        await GraphDestroy(graph)


class CapturedEachStep(OneExecutable):
    pitfall, edit = Pitfall.IN_LOOP, "1 in place of 10 graphs, 1 in place of 10 executables"
    mended = OneExecutable

    async def run(self):
        self.stream, self.data = await CreateStream(), await Malloc(MIB)
        for _ in range(10):
            async with acl_py.capture(self.stream) as graph:  # planted
                for _ in range(20):
                    await tiny[1, self.stream](Array(self.data))
            executable = await GraphInstantiate(graph)
            await GraphLaunch(executable, self.stream)
            await SynchronizeStream(self.stream)
            await GraphExecDestroy(executable)
            await GraphDestroy(graph)


class TwoTasks(Pipeline):
    async def run(self):
        await asyncio.gather(self.worker(), self.worker())

    async def worker(self):
        stream, host = await CreateStream(), await MallocHost(MIB)
        device, scratch = await Malloc(MIB), await Malloc(MIB)
        for _ in range(8):
            await self.round(stream, host, device, scratch)
        await Free(scratch)

    async def round(self, stream, host, device, scratch):
        await MemcpyAsync(device, MIB, host, MIB, H2D, stream)
        await scale[1, stream](Array(scratch))
        await scale[1, stream](Array(device))
        await MemcpyAsync(host, MIB, device, MIB, D2H, stream)
        await SynchronizeStream(stream)


class ScratchOfTwoTasks(TwoTasks):
    pitfall, edit = Pitfall.IN_LOOP, "2 in place of 16 buffers on the device"
    mended = TwoTasks

    async def worker(self):
        stream, host, device = await CreateStream(), await MallocHost(MIB), await Malloc(MIB)
        for _ in range(8):
            scratch = await Malloc(MIB)  # planted
            await self.round(stream, host, device, scratch)
            await Free(scratch)


@kernel(cost=Cost(us=2))
def square(data: InOut):
    """A kernel of few microseconds."""


@kernel(cost=Cost(us=1))
def add(sums: Out, data: In):
    """Another one, which reads what the first has written."""


@kernel(cost=Cost(us=5))
def all_three(data: InOut, sums: Out):
    """What square() twice and add() do."""


class OneKernel(Pipeline):
    """The host reads the result of each step, so there is no graph of several steps."""

    async def run(self):
        self.stream, self.data, self.sums = await CreateStream(), await Malloc(MIB), await Malloc(MIB)
        await MemsetAsync(self.data, MIB, 0, MIB, self.stream)
        for _ in range(12):
            await self.launch()
            await SynchronizeStream(self.stream)

    async def launch(self):
        await all_three[132, self.stream](Array(self.data), Array(self.sums))


class ThreeKernels(OneKernel):
    pitfall, edit = Pitfall.SMALL_KERNELS, "Make one kernel of each chain: 12 launches in place of 36"
    mended = OneKernel

    async def launch(self):
        await square[132, self.stream](Array(self.data))  # planted
        await square[132, self.stream](Array(self.data))
        await add[132, self.stream](Array(self.sums), Array(self.data))


class StreamOfEachSlot(Pipeline):
    async def run(self):
        streams = await self.made()
        hosts, data = [[await make(2 * MIB) for _ in range(4)] for make in (MallocHost, Malloc)]
        for chunk in range(12):
            host, device, stream = hosts[chunk % 4], data[chunk % 4], streams[chunk % len(streams)]
            await MemcpyAsync(device, 2 * MIB, host, 2 * MIB, H2D, stream)
            await scale[132, stream](Array(device))
            await MemcpyAsync(host, 2 * MIB, device, 2 * MIB, D2H, stream)
        await SynchronizeDevice()

    async def made(self):
        return [await CreateStream() for _ in range(4)]


class OneStream(StreamOfEachSlot):
    pitfall, edit = Pitfall.ONE_STREAM, "Spread it over 4 streams"
    mended = StreamOfEachSlot

    async def made(self):
        return [await CreateStream()]  # planted


class LateResults(Pipeline):
    """The memory for a result is allocated when it is needed first."""

    pitfall, edit = Pitfall.LATE_PINNED, "Allocate it before the first work"
    mended, in_window = Pipeline, True

    async def begin(self):
        await super().begin()
        for result in self.result:
            await FreeHost(result)
        self.result = [None] * self.slots

    async def download(self, chunk, slot):
        if self.result[slot] is None:
            self.result[slot] = await MallocHost(self.size)  # planted
        await super().download(chunk, slot)


class ResultsOnce(Pipeline):
    """Each chunk has memory for its result, which stays."""

    async def begin(self):
        await super().begin()
        self.results = [await MallocHost(self.size) for _ in range(self.chunks)]

    async def download(self, chunk, slot):
        self.result[slot] = self.results[chunk]
        await super().download(chunk, slot)


class ResultOfEachChunk(ResultsOnce):
    pitfall, edit = Pitfall.LATE_PINNED, "Allocate it before the first work"
    mended, in_window = ResultsOnce, True
    begin = Pipeline.begin

    async def download(self, chunk, slot):
        self.result[slot] = await MallocHost(self.size)  # planted
        await Pipeline.download(self, chunk, slot)


@kernel(cost=Cost(us=100), exclusive=True)
def long_one(data: InOut):
    """Each block takes a core for itself."""


@kernel(cost=Cost(us=20), exclusive=True)
def short_one(data: InOut):
    """Another one, of one wave."""


class Urgent(Pipeline):
    """Short kernels, each with a download behind it, run beside long ones of eight waves."""

    async def run(self):
        self.long, self.short = await CreateStream(), await self.made()
        work, host, device = await Malloc(MIB), await MallocHost(16 * MIB), await Malloc(16 * MIB)
        for _ in range(4):
            await long_one[8 * 132, self.long](Array(work))
            await short_one[132, self.short](Array(device))
            await MemcpyAsync(host, 16 * MIB, device, 16 * MIB, D2H, self.short)
        await SynchronizeDevice()

    async def made(self):
        return await CreateStream(priority=-5)


class AsUrgentAsOthers(Urgent):
    pitfall, edit = Pitfall.PRIORITY, "Make their stream with priority -5, the most urgent"
    mended = Urgent

    async def made(self):
        return await CreateStream()  # planted
