"""Random programs of ranks, right and wrong ones, run by one task, or by a task or a thread for each rank.

A program says, for each rank, which calls it makes: in which communicator, in which of its two streams, and which of
them in one group. Each call has memory of its own, so that results can be compared.
"""

import random
import threading
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

import acl_py
from acl_py import CollectiveKind as Kind
from acl_py import DeadlockError, ReduceOp
from acl_py.options import Options
from acl_py.runtime.blocking import finish, take_part
from device_model.profile import load
from tests.threaded import runtime_of

STREAMS = 2
ROOMS = (0, 24, 16 << 20)
_ROOTED = (Kind.BROADCAST, Kind.REDUCE, Kind.SCATTER)
_REDUCING = (Kind.ALL_REDUCE, Kind.REDUCE, Kind.REDUCE_SCATTER)
_KINDS = (*_ROOTED, *_REDUCING, Kind.ALL_GATHER, Kind.ALL_TO_ALL, Kind.BARRIER)


class Ask(NamedTuple):
    """A call: of the communicator *comm* of this rank, with *count* int32 elements, seeded with *seed*."""

    comm: int
    kind: Kind
    count: int
    root: int
    op: ReduceOp
    peer: int
    seed: int


class Part(NamedTuple):
    """*asks* that one rank queues as one operation of its stream *stream*: more than one are Sends and Recvs."""

    stream: int
    asks: tuple[Ask, ...]


class Program(NamedTuple):
    """*members[c]* are the devices of communicator c, in the order of its ranks; *parts[d]* what device d queues.

    A rank has *room* bytes for what another one has sent and it has not received.
    """

    members: tuple[tuple[int, ...], ...]
    parts: tuple[tuple[Part, ...], ...]
    room: int


def random_program(seed):
    """A program for 2 to 4 devices and up to 2 communicators; about half of them have a mistake."""
    chance = random.Random(seed)
    devices = chance.randint(2, 4)
    members = [tuple(range(devices))]
    if chance.random() < 0.6:
        some = chance.sample(range(devices), chance.randint(2, devices))
        members.append(tuple(some))
    parts = [[] for _ in range(devices)]
    for step in range(chance.randint(1, 8)):
        comm = chance.randrange(len(members))
        if chance.random() < 0.7:
            _add_collective(chance, parts, members, comm, step)
        else:
            _add_pairs(chance, parts, members, comm, step)
    for _ in range(chance.choice((0, 0, 1, 2))):
        _spoil(chance, parts)
    return Program(tuple(members), tuple(map(tuple, parts)), chance.choice(ROOMS))


def _add_collective(chance, parts, members, comm, step):
    kind, count = chance.choice(_KINDS), chance.randint(1, 5)
    root, op = chance.randrange(len(members[comm])), chance.choice((ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN))
    for rank, device in enumerate(members[comm]):
        ask = Ask(comm, kind, count, root, op, -1, 1000 * step + rank)
        parts[device].append(Part(chance.randrange(STREAMS), (ask,)))


def _add_pairs(chance, parts, members, comm, step):
    """Sends and their Recvs; those of one rank are one part, in any order, or a part each."""
    group = members[comm]
    asks = [[] for _ in group]
    for number in range(chance.randint(1, 3)):
        source, target = chance.randrange(len(group)), chance.randrange(len(group))
        count, seed = chance.randint(1, 5), 1000 * step + 100 + number
        asks[source].append(Ask(comm, Kind.SEND, count, 0, ReduceOp.SUM, target, seed))
        asks[target].append(Ask(comm, Kind.RECV, count, 0, ReduceOp.SUM, source, seed))
    apart = chance.random() < 0.3
    for rank, device in enumerate(group):
        chance.shuffle(asks[rank])
        for together in [[ask] for ask in asks[rank]] if apart else filter(None, [asks[rank]]):
            parts[device].append(Part(chance.randrange(STREAMS), tuple(together)))


def _spoil(chance, parts):
    """Make one mistake: leave a part out, let two change places, or let one be about something else."""
    device = chance.choice([device for device, each in enumerate(parts) if each] or [0])
    queued = parts[device]
    if not queued:
        return
    place = chance.randrange(len(queued))
    match chance.randrange(4):
        case 0:
            del queued[place]
        case 1:
            other = chance.randrange(len(queued))
            queued[place], queued[other] = queued[other], queued[place]
        case 2:
            ask = queued[place].asks[0]
            changed = ask._replace(count=ask.count + 1)
            queued[place] = queued[place]._replace(asks=(changed, *queued[place].asks[1:]))
        case 3:
            queued[place] = queued[place]._replace(stream=1 - queued[place].stream)


def data(seed, count):
    """The elements that a call with this seed sends."""
    return np.random.default_rng(seed).integers(-100, 100, count, np.int32)


def sizes(ask, ranks, rank):
    """How many elements a call reads and writes."""
    n = ask.count
    table = {
        Kind.ALL_REDUCE: (n, n), Kind.REDUCE: (n, n if rank == ask.root else 0), Kind.BROADCAST: (n, 0),
        Kind.ALL_GATHER: (n, n * ranks), Kind.REDUCE_SCATTER: (n * ranks, n), Kind.ALL_TO_ALL: (n * ranks, n * ranks),
        Kind.SCATTER: (n * ranks if rank == ask.root else 0, n), Kind.BARRIER: (0, 0), Kind.SEND: (n, 0),
        Kind.RECV: (0, n),
    }  # fmt: skip
    return table[ask.kind]


async def call(ask, comm, rank, ranks, send, recv, stream):
    """Make the call."""
    n, kind = ask.count, ask.kind
    match kind:
        case Kind.ALL_REDUCE:
            await acl_py.AllReduce(send, recv, n, "int32", ask.op, comm, stream)
        case Kind.REDUCE:
            await acl_py.Reduce(send, recv, n, "int32", ask.op, ask.root, comm, stream)
        case Kind.REDUCE_SCATTER:
            await acl_py.ReduceScatter(send, recv, n, "int32", ask.op, comm, stream)
        case Kind.BROADCAST:
            await acl_py.Broadcast(send, n, "int32", ask.root, comm, stream)
        case Kind.ALL_GATHER:
            await acl_py.AllGather(send, recv, n, "int32", comm, stream)
        case Kind.SCATTER:
            await acl_py.Scatter(send, recv, n, "int32", ask.root, comm, stream)
        case Kind.ALL_TO_ALL:
            await acl_py.AlltoAll(send, n, "int32", recv, n, "int32", comm, stream)
        case Kind.BARRIER:
            await acl_py.Barrier(comm, stream)
        case Kind.SEND:
            await acl_py.Send(send, n, "int32", ask.peer, comm, stream)
        case Kind.RECV:
            await acl_py.Recv(recv, n, "int32", ask.peer, comm, stream)


class Rig:
    """A run of *program*: its communicators, streams and memory, and what has become of each call."""

    def __init__(self, program):
        self.program = program
        self.comms = []
        self.streams = []
        self.buffers = {}  # by device, part and ask: what is sent, what is received, as arrays of the host

    async def set_up(self):
        for devices in self.program.members:
            self.comms.append(dict(zip(devices, await acl_py.CommInitAll(devices), strict=True)))
        for device, parts in enumerate(self.program.parts):
            await acl_py.SetDevice(device)
            self.streams.append([await acl_py.CreateStream() for _ in range(STREAMS)])
            for place, part in enumerate(parts):
                for index, ask in enumerate(part.asks):
                    await self._allocate((device, place, index), ask, device)

    async def _allocate(self, key, ask, device):
        ranks, rank = len(self.program.members[ask.comm]), self.program.members[ask.comm].index(device)
        reads, writes = sizes(ask, ranks, rank)
        send, recv = [await acl_py.Malloc(4 * max(1, count)) for count in (reads, writes)]
        await acl_py.Memcpy(send, 4 * reads, data(ask.seed, reads), 4 * reads, acl_py.MemcpyKind.HOST_TO_DEVICE)
        self.buffers[key] = send, recv

    async def queue(self, device, place):
        """Queue a part of *device*."""
        part = self.program.parts[device][place]
        if len(part.asks) == 1:
            await self._call(device, place, 0)
        else:
            async with acl_py.group():
                for index in range(len(part.asks)):
                    await self._call(device, place, index)

    async def _call(self, device, place, index):
        part = self.program.parts[device][place]
        ask = part.asks[index]
        members = self.program.members[ask.comm]
        comm = self.comms[ask.comm][device]
        send, recv = self.buffers[device, place, index]
        await call(ask, comm, members.index(device), len(members), send, recv, self.streams[device][part.stream])

    async def finish(self, device):
        for stream in self.streams[device]:
            await acl_py.SynchronizeStream(stream)

    async def received(self):
        """What each call has received, as bytes."""
        found = {}
        for key, (send, recv) in self.buffers.items():
            ask = self.program.parts[key[0]][key[1]].asks[key[2]]
            members = self.program.members[ask.comm]
            _, writes = sizes(ask, len(members), members.index(key[0]))
            source, count = (send, ask.count) if ask.kind is Kind.BROADCAST else (recv, writes)
            into = np.empty(count, np.int32)
            if count:
                await acl_py.Memcpy(into, 4 * count, source, 4 * count, acl_py.MemcpyKind.DEVICE_TO_HOST)
            found[key] = tuple(into.tolist())
        return found


def in_one_task(program, seed, run=None):
    """Run *program* in one task, with the calls of all ranks in a random order: what was received, or the hang; or what
    *run* gives of it.
    """
    chance = random.Random(seed)

    async def main():
        rig = Rig(program)
        await rig.set_up()
        todo = [device for device, parts in enumerate(program.parts) for _ in parts]
        chance.shuffle(todo)
        places = [0] * len(program.parts)
        for device in todo:
            await rig.queue(device, places[device])
            places[device] += 1
        for device in range(len(program.parts)):
            await rig.finish(device)
        return await rig.received()

    return (run or partial(_outcome, program))(main)


def in_tasks(program, _seed, run=None):
    """Run *program* with a task for each device, as `in_one_task`."""

    async def main():
        rig = Rig(program)
        await rig.set_up()

        async def rank(device):
            for place in range(len(program.parts[device])):
                await rig.queue(device, place)
            await rig.finish(device)

        try:
            await acl_py.ranks(len(program.parts), rank)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return await rig.received()

    return (run or partial(_outcome, program))(main)


@cache
def _profile(room):
    h200 = load("h200")
    pairs = replace(h200.collectives.pairs, buffer_bytes=room)
    return replace(h200, collectives=replace(h200.collectives, pairs=pairs))


def _outcome(program, main):
    try:
        return acl_py.run(main, device=_profile(program.room), rules="cuda", workers=1, trace=False)
    except DeadlockError as error:
        return str(error)


def in_threads(program, _seed):
    """Run *program* with a thread for each device."""
    rig, hangs = Rig(program), []
    with runtime_of(Options(_profile(program.room), "cuda", workers=1, trace=False)) as runtime:
        finish(rig.set_up())

        def rank(device):
            take_part(runtime)
            try:
                finish(acl_py.SetDevice(device))
                for place in range(len(program.parts[device])):
                    finish(rig.queue(device, place))
                finish(rig.finish(device))
            except DeadlockError as error:
                hangs.append(str(error))

        threads = [threading.Thread(target=rank, args=(device,)) for device in range(len(program.parts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return hangs[0] if hangs else finish(rig.received())
