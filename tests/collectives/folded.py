"""Random programs of ranks that are alike, but for one, run in full and folded.

Ranks stand in *stages* of equally many, one behind the other in a pipeline. Those of a stage have a communicator, and
all ranks have one. In half of the programs one rank is odd: it has more to do, or its copies or its links are slow, or
one of its kernels fails, and the others may wait for it in vain. Then the ranks at its place in the other stages, which
send to it, are classes of their own, too.
"""

import random
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import acl_py as acl
from acl_py import AclError, DeadlockError, faults
from device_model.profile import load

HOST = acl.MemcpyKind.HOST_TO_DEVICE


class Program(NamedTuple):
    """*steps* of each stage; *odd* is a rank, or -1, and *oddity* what is odd about it."""

    ranks: int
    stages: int
    steps: tuple[tuple[tuple[str, int, int], ...], ...]
    odd: int
    oddity: str

    @property
    def width(self):
        """How many ranks a stage has."""
        return self.ranks // self.stages

    def key(self, rank):
        """Ranks with equal keys are alike."""
        stage, place = divmod(rank, self.width)
        return stage, self.odd >= 0 and place == self.odd % self.width


def random_program(seed, ranks):
    """A program in which the equal ranks are at least four to a class."""
    chance = random.Random(seed)
    odd = chance.randrange(ranks) if chance.random() < 0.6 else -1
    stages = chance.choice((1, 2, 4)[: ranks.bit_length() - 3])  # with an odd rank there are two classes to a stage
    steps = [[] for _ in range(stages)]
    for _ in range(chance.randrange(3, 12)):
        match chance.randrange(5):
            case 0:
                step = "world", chance.randrange(5), chance.randrange(1, 1 << 18)
                for each in steps:
                    each.append(step)
            case 1:
                kind, count = chance.randrange(5), chance.randrange(1, 1 << 18)
                chance.choice(steps).append(("group", kind, count))
            case 2 if odd < 0:
                chance.choice(steps).append(
                    ("ring", chance.randrange(1, ranks // stages), chance.randrange(1, 1 << 16))
                )
            case 3 if stages > 1:
                here, count = chance.randrange(stages - 1), chance.randrange(1, 1 << 16)
                steps[here].append(("send", 1, count))
                steps[here + 1].append(("recv", -1, count))
            case _:
                for _ in range(3):
                    step = chance.choice((("kernel", chance.randrange(2), chance.randrange(1, 60)),
                                          ("copy", chance.randrange(2), chance.randrange(1, 1 << 20)),
                                          ("event", 0, 0), ("wait", chance.randrange(2), 0)))  # fmt: skip
                    chance.choice(steps).append(step)
    oddity = chance.choice(("load", "slow copies", "slow link", "failure"))
    return Program(ranks, stages, tuple(map(tuple, steps)), odd, oddity)


@cache
def kernel(us):
    """A kernel that takes so long."""
    return acl.kernel(cost=acl.Cost(us=us))(lambda: None)


@cache
def profile(ranks):
    """An H200 server with so many cards."""
    return replace(load("h200"), devices=ranks)


class Run:
    """What ranks of *program* share, and what each of them does."""

    def __init__(self, program):
        self.program = program

    async def set_up(self):
        """Make the communicators."""
        program = self.program
        self.world = await acl.CommInitAll(program.ranks)
        stages = [range(stage * program.width, (stage + 1) * program.width) for stage in range(program.stages)]
        self.groups = [await acl.CommInitAll(each) for each in stages]

    async def rank(self, rank):
        """Do what *rank* does; return the time after each step, and the times of what it has queued."""
        sim, program = acl.current_simulation(), self.program
        stage, place = divmod(rank, program.width)
        is_odd = rank == program.odd
        ops, times = [], []
        names = [f"{'odd' if is_odd else 'even'} {number}" for number in range(2)]
        streams = [await acl.CreateStream(name=name) for name in names]
        talk, event = await acl.CreateStream(name="talk"), await acl.CreateEvent()
        host, far = await acl.MallocHost(1 << 20), await acl.Malloc(1 << 24)
        into = await acl.Malloc(1 << 24)
        try:
            for what, which, size in program.steps[stage]:
                match what:
                    case "world":
                        ops.append(await collective(which, (far, into), size, self.world[rank], talk))
                    case "group":
                        ops.append(await collective(which, (far, into), size, self.groups[stage][place], talk))
                    case "ring":
                        comm = self.groups[stage][place]
                        async with acl.group():
                            await acl.Send(far, size, "float32", (place + which) % program.width, comm, talk)
                            ops.append(
                                await acl.Recv(far, size, "float32", (place - which) % program.width, comm, talk)
                            )
                    case "send":
                        peer = rank + program.width
                        ops.append(await acl.Send(far, size, "float32", peer, self.world[rank], talk))
                    case "recv":
                        peer = rank - program.width
                        ops.append(await acl.Recv(far, size, "float32", peer, self.world[rank], talk))
                    case "kernel":
                        more = 35 if is_odd and program.oddity == "load" else 0
                        ops.append(await kernel(size + more)[1, streams[which]]())
                    case "copy":
                        ops.append(await acl.MemcpyAsync(far, size, host, size, HOST, streams[which]))
                    case "event":
                        await acl.RecordEvent(event, streams[0])
                        await acl.StreamWaitEvent(talk, event)
                    case "wait":
                        await acl.SynchronizeStream((*streams, talk)[which])
                times.append(sim.now_ns)
            await acl.SynchronizeDevice()
        except AclError as error:
            times.append(str(error.kind))
        except DeadlockError:
            times.append("hangs")
        times.append(sim.now_ns)
        return times, [(op.start_ns, op.end_ns) for op in ops]


async def collective(which, buffers, count, comm, stream):
    """Queue a collective of the kind *which*."""
    (buffer, into), size = buffers, len(comm.clique)
    match which:
        case 0 | 1:
            return await acl.AllReduce(buffer, into, count, "float32", acl.ReduceOp.SUM, comm, stream)
        case 2:
            return await acl.AllGather(buffer, into, max(1, count // size), "int32", comm, stream)
        case 3:
            each = max(1, count // size)
            return await acl.AlltoAll(buffer, each, "int8", into, each, "int8", comm, stream)
        case _:
            return await acl.Broadcast(buffer, count, "float32", 0, comm, stream)


def outcomes(program, **options):
    """Run *program*; return what each rank has done, and how many ranks have run."""

    async def main():
        run, ran = Run(program), []
        await run.set_up()

        async def rank(number):
            ran.append(number)
            return await run.rank(number)

        return await acl.ranks(program.ranks, rank, **options), len(ran)

    oddity = {
        "slow link": faults.slow_link(program.odd, 8) if program.odd >= 0 else None,
        "slow copies": faults.delay(us=40, stream="odd *", op="h2d"),
        "failure": faults.fail(stream="odd *", op="kernel", nth=2),
    }.get(program.oddity)
    if oddity is None:
        return acl.run(main, device=profile(program.ranks), values=False, trace=False)

    async def faulty():
        with acl.current_simulation().fault(oddity):
            return await main()

    return acl.run(faulty, device=profile(program.ranks), values=False, trace=False)
