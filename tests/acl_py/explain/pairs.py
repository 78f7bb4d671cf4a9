"""Scripts in two versions, before and after a person's edit: is an edit worth what the recording of `before` says?

`python -m tests.acl_py.explain.pairs` prints a table: the price, which is known without a look at `after`, and the real
difference of the two runs.
"""

import asyncio
from dataclasses import replace
from functools import cache

import numpy as np

import acl_py
from acl_py import (
    Array,
    Cost,
    CreateEvent,
    CreateStream,
    DestroyStream,
    Free,
    HostRegister,
    HostUnregister,
    HostWork,
    In,
    InOut,
    Malloc,
    MallocHost,
    Memcpy,
    MemcpyAsync,
    Memset,
    MemsetAsync,
    RecordEvent,
    StreamWaitEvent,
    SynchronizeDevice,
    SynchronizeEvent,
    SynchronizeStream,
    kernel,
)
from acl_py.causes.findings import Pitfall
from acl_py.causes.path import makespan_ns
from acl_py.explain.edits import parse_all
from acl_py.explain.prices import prices
from acl_py.explain.recordings import asker_of
from device_model.curves import Curve
from device_model.profile import load

MIB = 1 << 20
_, H2D, D2H, D2D, DEFAULT, *_ = acl_py.MemcpyKind


@kernel(cost=Cost(us=100))
def layer(data: InOut):
    """One layer of a network, in place."""


@kernel(cost=Cost(us=40))
def norm(data: InOut):
    """A short kernel."""


@kernel(cost=Cost(us=3))
def tiny(data: InOut):
    """A very short kernel."""


@kernel(cost=Cost(us=150))
def expert(tokens: In, rows: InOut):
    """One expert of a mixture: it reads all tokens, and changes its own rows."""


async def put(device, host, stream=None, size=None):
    await MemcpyAsync(device, size or device.nbytes, host, size or device.nbytes, H2D, stream)


async def get(host, device, stream=None, size=None):
    await MemcpyAsync(host, size or device.nbytes, device, size or device.nbytes, D2H, stream)


@kernel(cost=Cost(us=40), exclusive=True)
def wide(data: InOut):
    """Each of its blocks has a core to itself."""


@kernel(cost=Cost(us=60))
def mix(results: In, tokens: InOut):
    """The tokens of the next layer, from the results of all experts."""


@kernel(cost=Cost(bytes=lambda data: 30 * data.nbytes))
def scan(data: InOut):
    """It takes as long as its data are large."""


class Pair:
    """Two versions of a script. *asks* is the finding whose price is meant, or the text of a what-if.

    The time of the calls in *once* is not in a price: answers say so.
    """

    asks: Pitfall | str
    once: tuple[str, ...] = ()
    device = "h200"
    rules: str | None = None
    device_after = None
    rules_after: str | None = None

    @staticmethod
    async def before() -> None:
        raise NotImplementedError

    @staticmethod
    async def after() -> None:
        raise NotImplementedError


# --- pageable memory


class PinnedUpload(Pair):
    """An array that is filled and uploaded again and again becomes pinned memory."""

    asks, once = Pitfall.PAGEABLE, ("MallocHost",)

    async def before():
        stream, device = await CreateStream(), await Malloc(8 * MIB)
        batch = np.zeros(8 * MIB, np.uint8)
        for number in range(4):
            batch[:] = number
            await put(device, batch, stream)
            await layer[132, stream](Array(device))
            await SynchronizeStream(stream)

    async def after():
        stream, device = await CreateStream(), await Malloc(8 * MIB)
        batch = await MallocHost(8 * MIB)
        for number in range(4):
            batch.numpy()[:] = number
            await put(device, batch, stream)
            await layer[132, stream](Array(device))
            await SynchronizeStream(stream)


class PinnedDownload(Pair):
    """Results go to an array, and the host works while they are on their way."""

    asks, once = Pitfall.PAGEABLE, ("MallocHost",)

    async def before():
        stream, device = await CreateStream(), await Malloc(4 * MIB)
        result = np.zeros(4 * MIB, np.uint8)
        for _ in range(5):
            await layer[132, stream](Array(device))
            await get(result, device, stream)
            await HostWork(120)
            await SynchronizeStream(stream)

    async def after():
        stream, device = await CreateStream(), await Malloc(4 * MIB)
        result = await MallocHost(4 * MIB)
        for _ in range(5):
            await layer[132, stream](Array(device))
            await get(result, device, stream)
            await HostWork(120)
            await SynchronizeStream(stream)


class Registered(Pair):
    """Weights that a library has loaded into an array are registered once."""

    asks, once = Pitfall.PAGEABLE, ("HostRegister",)

    async def before():
        weights = np.zeros(16 * MIB, np.uint8)
        copies, compute = await CreateStream(nonblocking=True), await CreateStream(nonblocking=True)
        device, data = await Malloc(16 * MIB), await Malloc(MIB)
        await put(device, weights, copies)
        for _ in range(6):
            await layer[132, compute](Array(data))
        await SynchronizeDevice()

    async def after():
        weights = np.zeros(16 * MIB, np.uint8)
        await HostRegister(weights)
        copies, compute = await CreateStream(nonblocking=True), await CreateStream(nonblocking=True)
        device, data = await Malloc(16 * MIB), await Malloc(MIB)
        await put(device, weights, copies)
        for _ in range(6):
            await layer[132, compute](Array(data))
        await SynchronizeDevice()


class BothWays(Pair):
    """A double buffer with arrays on both sides gets pinned memory on both sides."""

    asks, once = "pinned", ("MallocHost",)

    @staticmethod
    async def job(sources, results):
        streams = [await CreateStream(), await CreateStream()]
        devices = [await Malloc(4 * MIB), await Malloc(4 * MIB)]
        for number in range(8):
            side = number % 2
            await SynchronizeStream(streams[side])
            await put(devices[side], sources[side], streams[side])
            await layer[132, streams[side]](Array(devices[side]))
            await get(results[side], devices[side], streams[side])
        await SynchronizeDevice()

    async def before():
        sources = [np.ones(4 * MIB, np.uint8) for _ in range(2)]
        results = [np.empty(4 * MIB, np.uint8) for _ in range(2)]
        await BothWays.job(sources, results)

    async def after():
        sources = [await MallocHost(4 * MIB) for _ in range(2)]
        results = [await MallocHost(4 * MIB) for _ in range(2)]
        await BothWays.job(sources, results)


class TwoTasks(Pair):
    """A producer uploads arrays and hands them to a consumer through a queue; the arrays become pinned memory.

    In the run the consumer goes on as soon as the producer sleeps in a copy. In the edited script the copy no longer
    sleeps, so the producer synchronises first.
    """

    asks, once = Pitfall.PAGEABLE, ("MallocHost",)

    @staticmethod
    async def job(hosts):
        queue: asyncio.Queue = asyncio.Queue(2)
        devices = [await Malloc(4 * MIB) for _ in hosts]

        async def produce():
            stream = await CreateStream(nonblocking=True)
            for number in range(8):
                device = devices[number % len(devices)]
                await put(device, hosts[number % len(hosts)], stream)
                await SynchronizeStream(stream)
                await queue.put(device)
            await queue.put(None)

        async def consume():
            stream = await CreateStream(nonblocking=True)
            while (device := await queue.get()) is not None:
                await layer[132, stream](Array(device))
                await SynchronizeStream(stream)

        await asyncio.gather(produce(), consume())

    async def before():
        await TwoTasks.job([np.ones(4 * MIB, np.uint8) for _ in range(4)])

    async def after():
        await TwoTasks.job([await MallocHost(4 * MIB) for _ in range(4)])


class Requests(Pair):
    """A server: requests come by the clock, and each is answered by a task of its own."""

    asks, once = "pinned", ("MallocHost",)

    @staticmethod
    async def job(hosts):
        devices = [await Malloc(2 * MIB) for _ in hosts]
        streams = [await CreateStream(nonblocking=True) for _ in hosts]
        free: asyncio.Queue = asyncio.Queue()
        for slot in range(len(hosts)):
            free.put_nowait(slot)

        async def answer(number):
            await asyncio.sleep(number * 150e-6)
            slot = await free.get()
            await put(devices[slot], hosts[slot], streams[slot])
            await layer[132, streams[slot]](Array(devices[slot]))
            await get(hosts[slot], devices[slot], streams[slot])
            await SynchronizeStream(streams[slot])
            free.put_nowait(slot)

        await asyncio.gather(*(answer(number) for number in range(10)))

    async def before():
        await Requests.job([np.ones(2 * MIB, np.uint8) for _ in range(3)])

    async def after():
        await Requests.job([await MallocHost(2 * MIB) for _ in range(3)])


class PageableUnderACL(Pair):
    """Under ACL's rules an asynchronous copy from an array waits for its stream; from pinned memory it does not."""

    asks, once, device = Pitfall.PAGEABLE, ("MallocHost",), "ascend910b3"

    async def before():
        stream, device = await CreateStream(), await Malloc(4 * MIB)
        batch = np.zeros(4 * MIB, np.uint8)
        for _ in range(4):
            await put(device, batch, stream)
            await layer[20, stream](Array(device))
            await HostWork(80)
        await SynchronizeStream(stream)

    async def after():
        stream, device = await CreateStream(), await Malloc(4 * MIB)
        batch = await MallocHost(4 * MIB)
        for _ in range(4):
            await put(device, batch, stream)
            await layer[20, stream](Array(device))
            await HostWork(80)
        await SynchronizeStream(stream)


# --- the default stream


class OwnStream(Pair):
    """Statistics run in the default stream, and so hold up two streams of work; they get a stream of their own."""

    asks, once = Pitfall.LEGACY, ("CreateStream",)

    async def before():
        streams = [await CreateStream() for _ in range(2)]
        data, counts = [await Malloc(MIB) for _ in streams], await Malloc(MIB)
        for _ in range(5):
            for stream, each in zip(streams, data, strict=True):
                await layer[60, stream](Array(each))
            await norm[8, None](Array(counts))
        await SynchronizeDevice()

    async def after():
        statistics = await CreateStream(nonblocking=True)
        streams = [await CreateStream() for _ in range(2)]
        data, counts = [await Malloc(MIB) for _ in streams], await Malloc(MIB)
        for _ in range(5):
            for stream, each in zip(streams, data, strict=True):
                await layer[60, stream](Array(each))
            await norm[8, statistics](Array(counts))
        await SynchronizeDevice()


class NonblockingUploads(Pair):
    """Uploads for later run in a blocking stream beside the model in the default stream."""

    asks = "nonblocking"

    @staticmethod
    async def job(uploads):
        host, later, data = await MallocHost(8 * MIB), await Malloc(8 * MIB), await Malloc(MIB)
        for _ in range(4):
            await put(later, host, uploads)
            await layer[132, None](Array(data))
            await layer[132, None](Array(data))
        await SynchronizeDevice()

    async def before():
        await NonblockingUploads.job(await CreateStream())

    async def after():
        await NonblockingUploads.job(await CreateStream(nonblocking=True))


class PerThread(Pair):
    """The script is built for per-thread default streams."""

    asks, rules_after = "per-thread", "cuda_per_thread"

    async def before():
        stream = await CreateStream()
        one, other = await Malloc(MIB), await Malloc(MIB)
        for _ in range(5):
            await layer[60, stream](Array(one))
            await norm[60, None](Array(other))
        await SynchronizeDevice()

    after = before


# --- frees and destroys


class FreeAtTheEnd(Pair):
    """Each round takes and frees scratch memory; the frees move behind the last synchronisation."""

    asks = Pitfall.FREE

    async def before():
        stream, data = await CreateStream(), await Malloc(MIB)
        for _ in range(5):
            scratch = await Malloc(MIB)
            await layer[132, stream](Array(scratch))
            await norm[132, stream](Array(data))
            await Free(scratch)
            await HostWork(60)
        await SynchronizeStream(stream)

    async def after():
        stream, data = await CreateStream(), await Malloc(MIB)
        scratches = []
        for _ in range(5):
            scratches.append(await Malloc(MIB))
            await layer[132, stream](Array(scratches[-1]))
            await norm[132, stream](Array(data))
            await HostWork(60)
        await SynchronizeStream(stream)
        for scratch in scratches:
            await Free(scratch)


class UnregisterAtTheEnd(Pair):
    """Each array is registered for its upload; it is unregistered at the end instead of in the loop."""

    asks = Pitfall.FREE

    async def before():
        stream, device = await CreateStream(), await Malloc(4 * MIB)
        for array in [np.ones(4 * MIB, np.uint8) for _ in range(4)]:
            await HostRegister(array)
            await put(device, array, stream)
            for _ in range(6):
                await layer[132, stream](Array(device))
            await HostUnregister(array)
        await SynchronizeStream(stream)

    async def after():
        stream, device = await CreateStream(), await Malloc(4 * MIB)
        arrays = [np.ones(4 * MIB, np.uint8) for _ in range(4)]
        for array in arrays:
            await HostRegister(array)
            await put(device, array, stream)
            for _ in range(6):
                await layer[132, stream](Array(device))
        await SynchronizeStream(stream)
        for array in arrays:
            await HostUnregister(array)


class DestroyAtTheEnd(Pair):
    """Under ACL's rules destroying a stream waits for its work."""

    asks, device = Pitfall.DESTROY, "ascend910b3"

    async def before():
        data = [await Malloc(MIB) for _ in range(4)]
        for each in data:
            stream = await CreateStream()
            await layer[5, stream](Array(each))
            await norm[5, stream](Array(each))
            await DestroyStream(stream)
        await SynchronizeDevice()

    async def after():
        data, streams = [await Malloc(MIB) for _ in range(4)], []
        for each in data:
            streams.append(await CreateStream())
            await layer[5, streams[-1]](Array(each))
            await norm[5, streams[-1]](Array(each))
        await SynchronizeDevice()
        for stream in streams:
            await DestroyStream(stream)


# --- synchronous calls


class AsynchronousUpload(Pair):
    """A synchronous upload in the loop becomes an asynchronous one, in the default stream."""

    asks = Pitfall.SYNC_COPY

    async def before():
        host, device = await MallocHost(8 * MIB), await Malloc(8 * MIB)
        for _ in range(4):
            await Memcpy(device, device.nbytes, host, host.nbytes, H2D)
            await layer[132, None](Array(device))
            await HostWork(50)
        await SynchronizeDevice()

    async def after():
        host, device = await MallocHost(8 * MIB), await Malloc(8 * MIB)
        for _ in range(4):
            await put(device, host)
            await layer[132, None](Array(device))
            await HostWork(50)
        await SynchronizeDevice()


class AsynchronousDownload(Pair):
    """A synchronous download of each result becomes an asynchronous one in the stream that computes it."""

    asks = Pitfall.SYNC_COPY

    async def before():
        stream = await CreateStream()
        hosts = [await MallocHost(2 * MIB) for _ in range(6)]
        devices = [await Malloc(2 * MIB) for _ in hosts]
        for host, device in zip(hosts, devices, strict=True):
            await layer[132, stream](Array(device))
            await Memcpy(host, host.nbytes, device, device.nbytes, D2H)
        await SynchronizeDevice()

    async def after():
        stream = await CreateStream()
        hosts = [await MallocHost(2 * MIB) for _ in range(6)]
        devices = [await Malloc(2 * MIB) for _ in hosts]
        for host, device in zip(hosts, devices, strict=True):
            await layer[132, stream](Array(device))
            await get(host, device, stream)
        await SynchronizeDevice()


class AsynchronousFill(Pair):
    """Under ACL's rules a synchronous fill keeps the host."""

    asks, device = Pitfall.SYNC_COPY, "ascend910b3"

    async def before():
        stream, data = await CreateStream(), await Malloc(32 * MIB)
        for _ in range(5):
            await Memset(data, data.nbytes, 0, data.nbytes)
            await layer[20, stream](Array(data))
            await SynchronizeStream(stream)

    async def after():
        stream, data = await CreateStream(), await Malloc(32 * MIB)
        for _ in range(5):
            await MemsetAsync(data, data.nbytes, 0, data.nbytes, stream)
            await layer[20, stream](Array(data))
            await SynchronizeStream(stream)


# --- more streams


class TwoStreams(Pair):
    """Two jobs that have nothing to do with each other take a stream each."""

    asks, once = "streams=2", ("CreateStream",)

    @staticmethod
    async def job(streams):
        hosts = [await MallocHost(4 * MIB) for _ in range(2)]
        devices = [await Malloc(4 * MIB) for _ in hosts]
        for _ in range(4):
            for stream, host, device in zip(streams, hosts, devices, strict=True):
                await put(device, host, stream)
                await layer[60, stream](Array(device))
                await get(host, device, stream)
        await SynchronizeDevice()

    async def before():
        await TwoStreams.job([await CreateStream(nonblocking=True)] * 2)

    async def after():
        await TwoStreams.job([await CreateStream(nonblocking=True), await CreateStream(nonblocking=True)])


class Chunks(Pair):
    """A large batch goes through in chunks; with three streams, copies both ways and kernels overlap."""

    asks, once = "streams=3", ("CreateStream",)

    @staticmethod
    async def job(streams):
        size = 32 * MIB // 8
        source, result = await MallocHost(32 * MIB), await MallocHost(32 * MIB)
        device = await Malloc(32 * MIB)
        for number in range(8):
            part, stream = slice(number * size, (number + 1) * size), streams[number % len(streams)]
            await put(device[part], source[part], stream)
            await layer[132, stream](Array(device[part]))
            await get(result[part], device[part], stream)
        await SynchronizeDevice()

    async def before():
        await Chunks.job([await CreateStream(nonblocking=True)])

    async def after():
        await Chunks.job([await CreateStream(nonblocking=True) for _ in range(3)])


class InChunks(Pair):
    """A copy in, a kernel and a copy out become eight chunks of each, in three streams."""

    asks, once = "chunks=8, streams=3", ("CreateStream",)

    @staticmethod
    async def job(streams, chunks):
        size = 64 * MIB // chunks
        source, result = await MallocHost(64 * MIB), await MallocHost(64 * MIB)
        device = await Malloc(64 * MIB)
        for number in range(chunks):
            part, stream = slice(number * size, (number + 1) * size), streams[number % len(streams)]
            await put(device[part], source[part], stream)
            await scan[132, stream](Array(device[part]))
            await get(result[part], device[part], stream)
        await SynchronizeDevice()

    async def before():
        await InChunks.job([await CreateStream(nonblocking=True)], 1)

    async def after():
        await InChunks.job([await CreateStream(nonblocking=True) for _ in range(3)], 8)


class Experts(Pair):
    """A mixture of experts: a gate, then four experts that read the same tokens, then a mix; the host waits between."""

    asks, once = "streams=4", ("CreateStream",)

    @staticmethod
    async def job(streams):
        tokens, results = await Malloc(MIB), await Malloc(4 * MIB)
        parts = [results[number * MIB : (number + 1) * MIB] for number in range(4)]
        for _ in range(3):
            await norm[36, streams[0]](Array(tokens))
            await SynchronizeStream(streams[0])
            for number, part in enumerate(parts):
                await expert[24, streams[number % len(streams)]](Array(tokens), Array(part))
            for stream in streams:
                await SynchronizeStream(stream)
            await mix[36, streams[0]](Array(results), Array(tokens))
        await SynchronizeStream(streams[0])

    async def before():
        await Experts.job([await CreateStream(nonblocking=True)])

    async def after():
        await Experts.job([await CreateStream(nonblocking=True) for _ in range(4)])


# --- kernels, and the device


@kernel(cost=Cost(us=50))
def faster_layer(data: InOut):
    """The layer, by a person who has halved its time."""


class FasterKernel(Pair):
    """A person has made one kernel twice as fast."""

    asks = "kernel:layer=0.5x"

    @staticmethod
    async def job(one_layer):
        copies, compute = await CreateStream(), await CreateStream()
        host, devices = await MallocHost(4 * MIB), [await Malloc(4 * MIB) for _ in range(2)]
        uploaded = [await CreateEvent() for _ in devices]
        done = [await CreateEvent() for _ in devices]
        for number in range(6):
            side = number % 2
            await StreamWaitEvent(copies, done[side])
            await put(devices[side], host, copies)
            await RecordEvent(uploaded[side], copies)
            await StreamWaitEvent(compute, uploaded[side])
            await one_layer[132, compute](Array(devices[side]))
            await norm[132, compute](Array(devices[side]))
            await RecordEvent(done[side], compute)
        await SynchronizeDevice()

    async def before():
        await FasterKernel.job(layer)

    async def after():
        await FasterKernel.job(faster_layer)


def with_faster_uploads():
    """The card on a link of twice the speed towards it: copies of no bytes take as long as before."""
    card = load("h200")
    (_, fixed), *_ = points = card.copies.h2d.points
    uploads = Curve([(size, round(fixed + (ns - fixed) / 2)) for size, ns in points])
    return replace(card, copies=replace(card.copies, h2d=uploads))


class FasterUploads(Pair):
    """The card gets a link of twice the speed."""

    asks, device_after = "h2d=2x", staticmethod(with_faster_uploads)

    async def before():
        stream, host, device = await CreateStream(), await MallocHost(16 * MIB), await Malloc(16 * MIB)
        for _ in range(4):
            await put(device, host, stream)
            await layer[132, stream](Array(device))
            await get(host, device, stream, 4 * MIB)
        await SynchronizeStream(stream)

    after = before


class MoreCores(Pair):
    """Kernels of many blocks, on a card with twice the cores."""

    asks, device = "cores=40", "ascend910b3"

    @staticmethod
    def device_after():
        card = load("ascend910b3")
        return replace(card, cores=replace(card.cores, count=40))

    async def before():
        streams = [await CreateStream() for _ in range(3)]
        data = [await Malloc(MIB) for _ in streams]
        for _ in range(3):
            for stream, each in zip(streams, data, strict=True):
                await wide[30, stream](Array(each))
        await SynchronizeDevice()

    after = before


class DeeperQueues(Pair):
    """The host launches many short kernels; a deeper queue lets it go on to other work."""

    asks = Pitfall.FULL_QUEUE

    @staticmethod
    def device_after():
        card = load("h200")
        return replace(card, queues=replace(card.queues, depth=1 << 20))

    async def before():
        stream, data = await CreateStream(), await Malloc(MIB)
        for _ in range(1500):
            await norm[132, stream](Array(data))
        await HostWork(55_000)
        await SynchronizeStream(stream)

    after = before


class MoreQueues(Pair):
    """Nine streams share eight hardware queues, none of them empty: short work stands behind a wait for an event."""

    asks = Pitfall.SHARED_QUEUE

    @staticmethod
    def device_after():
        card = load("h200")
        return replace(card, queues=replace(card.queues, compute=64, copy=64))

    async def before():
        streams, event = [await CreateStream(nonblocking=True) for _ in range(9)], await CreateEvent()
        data = [await Malloc(MIB) for _ in streams]
        await layer[10, streams[1]](Array(data[1]))
        await RecordEvent(event, streams[1])
        await layer[10, streams[1]](Array(data[1]))
        for i in (0, *range(2, 8)):
            await StreamWaitEvent(streams[i], event)
            await norm[10, streams[i]](Array(data[i]))
        for _ in range(5):
            await layer[10, streams[8]](Array(data[8]))
        await SynchronizeDevice()

    after = before


class OtherCard(Pair):
    """The same script on another card; the times of its kernels are said in microseconds."""

    asks, device = "device=ascend310p3", "ascend910b3"

    @staticmethod
    def device_after():
        return load("ascend310p3")

    async def before():
        stream, host, device = await CreateStream(), await MallocHost(8 * MIB), await Malloc(8 * MIB)
        event = await CreateEvent()
        for _ in range(3):
            await put(device, host, stream)
            await layer[8, stream](Array(device))
            await get(host, device, stream)
            await RecordEvent(event, stream)
            await SynchronizeEvent(event)

    after = before


class PinnedAndStreams(Pair):
    """Two edits together: pinned memory, and a stream for each half."""

    asks, once = "pinned, streams=2", ("MallocHost", "CreateStream")

    @staticmethod
    async def job(hosts, streams):
        devices = [await Malloc(8 * MIB) for _ in hosts]
        for _ in range(3):
            for host, device, stream in zip(hosts, devices, streams, strict=True):
                await put(device, host, stream)
                await layer[60, stream](Array(device))
        await SynchronizeDevice()

    async def before():
        stream = await CreateStream(nonblocking=True)
        await PinnedAndStreams.job([np.ones(8 * MIB, np.uint8) for _ in range(2)], [stream] * 2)

    async def after():
        streams = [await CreateStream(nonblocking=True) for _ in range(2)]
        await PinnedAndStreams.job([await MallocHost(8 * MIB) for _ in range(2)], streams)


PAIRS: list[type[Pair]] = Pair.__subclasses__()


def timeline_of(program, device, rules=None):
    """The recording of a version of a script."""

    async def main():
        await program()
        return acl_py.current_simulation().trace.timeline()

    return acl_py.run(main, device=device, rules=rules, workers=1)


@cache
def recording(pair):
    return timeline_of(pair.before, pair.device, pair.rules)


def answer_of(pair):
    """What explain says of the recording of `before` alone; of two ways out of one line, the one that is worth more."""
    timeline = recording(pair)
    asker = asker_of(timeline, pair.__name__)
    if not isinstance(pair.asks, Pitfall):
        return asker.ask(parse_all(pair.asks))
    found = [each for each in prices(asker, timeline) if each.finding.pitfall is pair.asks]
    assert found, f"there is no finding of {pair.asks}"
    assert len({each.finding.site for each in found}) == 1, "one line"
    assert len({each.answer.gain_ns for each in found}) <= len({each.finding.edit for each in found}), (
        "one price an edit"
    )
    return max((each.answer for each in found), key=lambda answer: answer.gain_ns)


def real_gain(pair):
    """By how much `after` is shorter than `before`, without the calls that answers say they leave out."""
    device = pair.device if pair.device_after is None else pair.device_after()
    timelines = recording(pair), timeline_of(pair.after, device, pair.rules_after or pair.rules)
    before, after = (
        makespan_ns(each) - sum(call.exit_ns - call.enter_ns for call in each.calls if call.name in pair.once)
        for each in timelines
    )
    return before - after


def table():
    lines = [f"{'script':<24} {'asked':<22} {'now, us':>10} {'price, us':>10} {'real, us':>10} {'difference':>10}"]
    for pair in PAIRS:
        answer, real = answer_of(pair), real_gain(pair)
        off = answer.gain_ns - real
        share = "none" if not off else f"{100 * off / abs(real):+.2f} %" if real else f"{off:+} ns"
        times = f"{answer.before_ns / 1000:10,.1f} {answer.gain_ns / 1000:10,.3f} {real / 1000:10,.3f}"
        lines.append(f"{pair.__name__:<24} {pair.asks:<22} {times} {share:>10}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
