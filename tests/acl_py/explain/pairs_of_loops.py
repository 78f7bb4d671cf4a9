"""More scripts in two versions: several tasks, several cards, and waits that come again and again in a loop."""

import asyncio
from dataclasses import replace

import numpy as np
from pairs import D2H, H2D, MIB, Pair, faster_layer, get, layer, norm, put, scan

from acl_py import (
    Array,
    CreateEvent,
    CreateStream,
    DestroyStream,
    Free,
    FreeHost,
    HostWork,
    Malloc,
    MallocHost,
    Memcpy,
    Memcpy2dAsync,
    MemcpyAsync,
    RecordEvent,
    SetDevice,
    StreamWaitEvent,
    SynchronizeDevice,
    SynchronizeEvent,
    SynchronizeStream,
)
from acl_py.causes.findings import Pitfall
from device_model.profile import load


class Looped(Pair):
    """A pair of which both versions are one job, with other arguments."""


class DownloadsOfTwoStreams(Looped):
    """Two streams download their results to arrays, one array each; the arrays become pinned memory."""

    asks, once = Pitfall.PAGEABLE, ("MallocHost",)

    @staticmethod
    async def job(results):
        streams = [await CreateStream() for _ in results]
        devices = [await Malloc(8 * MIB) for _ in results]
        for _ in range(3):
            for stream, device, result in zip(streams, devices, results, strict=True):
                await layer[64, stream](Array(device))
                await get(result, device, stream)
        await SynchronizeDevice()

    async def before():
        await DownloadsOfTwoStreams.job([np.zeros(8 * MIB, np.uint8) for _ in range(2)])

    async def after():
        await DownloadsOfTwoStreams.job([await MallocHost(8 * MIB) for _ in range(2)])


class RowsOfAnArray(Looped):
    """The left half of a matrix is downloaded in each round, row by row."""

    asks, once = Pitfall.PAGEABLE, ("MallocHost",)

    @staticmethod
    async def job(matrix):
        stream, device = await CreateStream(), await Malloc(MIB)
        for _ in range(4):
            await norm[32, stream](Array(device))
            await Memcpy2dAsync(matrix, 2048, device, 1024, 1024, 512, D2H, stream)
            await HostWork(20)
        await SynchronizeStream(stream)

    async def before():
        await RowsOfAnArray.job(np.zeros(MIB, np.uint8))

    async def after():
        await RowsOfAnArray.job(await MallocHost(MIB))


class PinnedMemoryOfEachRound(Looped):
    """Each round takes pinned memory and frees it while its upload runs; all of it is freed at the end."""

    asks = Pitfall.FREE

    @staticmethod
    async def job(*, late):
        stream, device, kept = await CreateStream(), await Malloc(8 * MIB), []
        for _ in range(4):
            host = await MallocHost(8 * MIB)
            await put(device, host, stream)
            await layer[132, stream](Array(device))
            if late:
                kept.append(host)
            else:
                await FreeHost(host)
            await HostWork(50)
        await SynchronizeStream(stream)
        for host in kept:
            await FreeHost(host)

    async def before():
        await PinnedMemoryOfEachRound.job(late=False)

    async def after():
        await PinnedMemoryOfEachRound.job(late=True)


class BetweenTwoStreams(Looped):
    """Two streams take turns, and a short kernel of the default stream stands between them."""

    asks, once = Pitfall.LEGACY, ("CreateStream",)

    @staticmethod
    async def job(between):
        streams = [await CreateStream() for _ in range(2)]
        devices = [await Malloc(MIB) for _ in range(3)]
        for _ in range(5):
            await layer[32, streams[0]](Array(devices[0]))
            await norm[16, between](Array(devices[1]))
            await layer[32, streams[1]](Array(devices[2]))
        await SynchronizeDevice()

    async def before():
        await BetweenTwoStreams.job(None)

    async def after():
        await BetweenTwoStreams.job(await CreateStream(nonblocking=True))


class EventsOfTheDefaultStream(Looped):
    """Nothing but a record stands in the default stream, and it holds up both other streams."""

    asks, once = Pitfall.LEGACY, ("CreateStream",)

    @staticmethod
    async def job(between):
        streams = [await CreateStream() for _ in range(2)]
        devices = [await Malloc(MIB) for _ in range(2)]
        event = await CreateEvent()
        for _ in range(4):
            await layer[32, streams[0]](Array(devices[0]))
            await RecordEvent(event, between)
            await StreamWaitEvent(streams[1], event)
            await layer[32, streams[1]](Array(devices[1]))
        await SynchronizeDevice()

    async def before():
        await EventsOfTheDefaultStream.job(None)

    async def after():
        await EventsOfTheDefaultStream.job(await CreateStream(nonblocking=True))


def with_deep_queues():
    """The card, with queues that are never full."""
    card = load("h200")
    return replace(card, queues=replace(card.queues, depth=1_000_000))


class LateBehindAFullQueue(Looped):
    """The host fills the queue of one stream, and comes late with the work of another."""

    asks = Pitfall.FULL_QUEUE
    device_after = staticmethod(with_deep_queues)

    async def before():
        streams = [await CreateStream() for _ in range(2)]
        devices = [await Malloc(MIB) for _ in range(2)]
        for _ in range(1_500):
            await norm[8, streams[0]](Array(devices[0]))
        for _ in range(600):
            await layer[8, streams[1]](Array(devices[1]))
        await SynchronizeDevice()

    after = before


class UploadsPerThread(Looped):
    """Under per-thread rules an array is uploaded in the default stream of the thread."""

    asks, once = Pitfall.PAGEABLE, ("MallocHost",)
    rules = "cuda_per_thread"

    @staticmethod
    async def job(host):
        stream, device, other = await CreateStream(), await Malloc(2 * MIB), await Malloc(MIB)
        for _ in range(4):
            await layer[32, stream](Array(other))
            await put(device, host)
            await norm[32, None](Array(device))
        await SynchronizeDevice()

    async def before():
        await UploadsPerThread.job(np.zeros(2 * MIB, np.uint8))

    async def after():
        await UploadsPerThread.job(await MallocHost(2 * MIB))


async def on_two_cards(round_):
    """Three rounds on each of two cards; *round_* makes the calls of one, with the number of the card and a stream."""
    streams = []
    for card in range(2):
        await SetDevice(card)
        streams.append(await CreateStream())
    for _ in range(3):
        for card, stream in enumerate(streams):
            await SetDevice(card)
            await round_(card, stream)
    for card, stream in enumerate(streams):
        await SetDevice(card)
        await SynchronizeStream(stream)


async def memory_of_two_cards(nbytes):
    memory = []
    for card in range(2):
        await SetDevice(card)
        memory.append(await Malloc(nbytes))
    return memory


class UploadsToTwoCards(Looped):
    """One host uploads arrays to two cards in turn."""

    asks, once = Pitfall.PAGEABLE, ("MallocHost",)

    @staticmethod
    async def job(hosts):
        devices = await memory_of_two_cards(8 * MIB)

        async def upload(card, stream):
            await put(devices[card], hosts[card], stream)
            await layer[64, stream](Array(devices[card]))

        await on_two_cards(upload)

    async def before():
        await UploadsToTwoCards.job([np.zeros(8 * MIB, np.uint8) for _ in range(2)])

    async def after():
        await UploadsToTwoCards.job([await MallocHost(8 * MIB) for _ in range(2)])


class DefaultStreamsOfTwoCards(Looped):
    """Each card has statistics in its default stream; they get a stream of their own on each card."""

    asks, once = Pitfall.LEGACY, ("CreateStream",)

    @staticmethod
    async def job(*, own):
        devices, others = await memory_of_two_cards(MIB), await memory_of_two_cards(MIB)
        statistics = []
        for card in range(2):
            await SetDevice(card)
            statistics.append(await CreateStream(nonblocking=True) if own else None)

        async def compute(card, stream):
            await layer[64, stream](Array(devices[card]))
            await norm[64, statistics[card]](Array(others[card]))

        await on_two_cards(compute)

    async def before():
        await DefaultStreamsOfTwoCards.job(own=False)

    async def after():
        await DefaultStreamsOfTwoCards.job(own=True)


class FreesOnTwoCards(Looped):
    """Each round frees its memory while its kernel runs; the frees move to the end."""

    asks = Pitfall.FREE

    @staticmethod
    async def job(*, late):
        kept = []

        async def compute(card, stream):
            scratch = await Malloc(MIB)
            await layer[64, stream](Array(scratch))
            if late:
                kept.append(scratch)
            else:
                await Free(scratch)

        await on_two_cards(compute)
        for scratch in kept:
            await Free(scratch)

    async def before():
        await FreesOnTwoCards.job(late=False)

    async def after():
        await FreesOnTwoCards.job(late=True)


class SynchronousUploadsToTwoCards(Looped):
    """The host waits for each upload before it turns to the other card."""

    asks = Pitfall.SYNC_COPY

    @staticmethod
    async def job(*, now):
        hosts = [await MallocHost(8 * MIB) for _ in range(2)]
        devices = await memory_of_two_cards(8 * MIB)

        async def upload(card, stream):
            if now:
                await Memcpy(devices[card], 8 * MIB, hosts[card], 8 * MIB, H2D)
            else:
                await put(devices[card], hosts[card], stream)
            await layer[64, stream](Array(devices[card]))

        await on_two_cards(upload)

    async def before():
        await SynchronousUploadsToTwoCards.job(now=True)

    async def after():
        await SynchronousUploadsToTwoCards.job(now=False)


class AwaitedInParts(Looped):
    """The host awaits an upload itself; of four parts it awaits each."""

    asks, once = "chunks=4, streams=2", ("CreateStream",)

    @staticmethod
    async def job(parts, streams):
        host, device, size = await MallocHost(32 * MIB), await Malloc(32 * MIB), 32 * MIB // parts
        copies = []
        for part in range(parts):
            begin, stream = part * size, streams[part % len(streams)]
            place = device[begin : begin + size]
            copies.append(await MemcpyAsync(place, size, host[begin : begin + size], size, H2D, stream))
            await scan[132, stream](Array(place))
        for copy in copies:
            await copy
        await SynchronizeDevice()

    async def before():
        await AwaitedInParts.job(1, [await CreateStream()])

    async def after():
        await AwaitedInParts.job(4, [await CreateStream(nonblocking=True) for _ in range(2)])


class FreesOfTwoTasks(Looped):
    """Two tasks free their memory in each round. Without the frees nothing interrupts the first one."""

    asks = Pitfall.FREE

    @staticmethod
    async def job(*, late):
        kept = []

        async def compute(us):
            stream = await CreateStream()
            for _ in range(3):
                scratch = await Malloc(MIB)
                await layer[8, stream](Array(scratch))
                await HostWork(us)
                if late:
                    kept.append(scratch)
                else:
                    await Free(scratch)

        await asyncio.gather(compute(10), compute(25))
        await SynchronizeDevice()
        for scratch in kept:
            await Free(scratch)

    async def before():
        await FreesOfTwoTasks.job(late=False)

    async def after():
        await FreesOfTwoTasks.job(late=True)


class StreamsOfTwoTasks(Looped):
    """Under ACL's rules two tasks destroy a stream in each round; the streams are destroyed at the end."""

    asks = Pitfall.DESTROY
    device = "ascend910b3"

    @staticmethod
    async def job(*, late):
        kept = []

        async def compute(us):
            for _ in range(3):
                stream, device = await CreateStream(), await Malloc(MIB)
                await layer[8, stream](Array(device))
                await HostWork(us)
                if late:
                    kept.append(stream)
                else:
                    await DestroyStream(stream)

        await asyncio.gather(compute(10), compute(25))
        await SynchronizeDevice()
        for stream in kept:
            await DestroyStream(stream)

    async def before():
        await StreamsOfTwoTasks.job(late=False)

    async def after():
        await StreamsOfTwoTasks.job(late=True)


class KernelOfAProducer(Looped):
    """A producer hands results to a consumer through a queue; its kernel becomes twice as fast."""

    asks = "kernel:layer=0.5x"

    @staticmethod
    async def job(kernel):
        queue: asyncio.Queue = asyncio.Queue(2)

        async def produce():
            stream, device = await CreateStream(), await Malloc(MIB)
            for number in range(5):
                await kernel[8, stream](Array(device))
                await SynchronizeStream(stream)
                await queue.put(number)
            await queue.put(None)

        async def consume():
            stream, device = await CreateStream(), await Malloc(MIB)
            while await queue.get() is not None:
                await norm[8, stream](Array(device))
                await SynchronizeStream(stream)

        await asyncio.gather(produce(), consume())

    async def before():
        await KernelOfAProducer.job(layer)

    async def after():
        await KernelOfAProducer.job(faster_layer)


class ConsumerInTheDefaultStream(Looped):
    """A producer hands events to a consumer, whose kernels run in the default stream."""

    asks, once = Pitfall.LEGACY, ("CreateStream",)

    @staticmethod
    async def job(consuming):
        queue: asyncio.Queue = asyncio.Queue()

        async def produce():
            stream, device = await CreateStream(), await Malloc(MIB)
            for _ in range(5):
                await layer[8, stream](Array(device))
                event = await CreateEvent()
                await RecordEvent(event, stream)
                await queue.put(event)
                await HostWork(20)
            await queue.put(None)

        async def consume():
            device = await Malloc(MIB)
            while (event := await queue.get()) is not None:
                await norm[8, consuming](Array(device))
                await SynchronizeEvent(event)

        await asyncio.gather(produce(), consume())
        await SynchronizeDevice()

    async def before():
        await ConsumerInTheDefaultStream.job(None)

    async def after():
        await ConsumerInTheDefaultStream.job(await CreateStream(nonblocking=True))


PAIRS_OF_LOOPS: list[type[Pair]] = Looped.__subclasses__()
