"""Chakra execution traces: `python -m tests.chakra DIR`, tests, and what they share."""

from dataclasses import replace
from pathlib import Path

import acl_py as acl
from acl_py.programs.chakra import program
from acl_py.programs.chakra_files import read
from acl_py.programs.replay import replay
from device_model.profile import DeviceProfile, load

# By the number that the schema gives a collective.
VERBS = {
    0: lambda n, x, y, comm, stream, _: acl.AllReduce(x, y, n // 4, "float32", acl.ReduceOp.SUM, comm, stream),
    2: lambda n, x, y, comm, stream, _: acl.AllGather(x, y, n // 4, "float32", comm, stream),
    6: lambda n, x, y, comm, stream, ranks: acl.AlltoAll(
        x, n // 4 // ranks, "float32", y, n // 4 // ranks, "float32", comm, stream
    ),
    7: lambda n, x, y, comm, stream, ranks: acl.ReduceScatter(
        x, y, n // 4 // ranks, "float32", acl.ReduceOp.SUM, comm, stream
    ),
}


def card(ranks: int) -> DeviceProfile:
    """An H200 server with so many cards."""
    h200 = load("h200")
    return replace(h200, devices=max(ranks, h200.devices))


def of_trace(path: Path, ranks: int) -> list[int]:
    """How long each collective of a trace lasts, from its last rank's turn to its end, in nanoseconds."""
    return lengths(replay(program(path, device=card(ranks)), device=card(ranks)).trace.ops, ranks)


def of_verbs(kind: int, nbytes: int, ranks: int) -> list[int]:
    """The same of a program that calls the verb."""

    async def main():
        async def rank(number):
            stream = await acl.CreateStream()
            x, y = await acl.Malloc(nbytes), await acl.Malloc(nbytes * ranks)
            await VERBS[kind](nbytes, x, y, comms[number], stream, ranks)
            await acl.SynchronizeStream(stream)

        comms = await acl.CommInitAll(ranks)
        await acl.ranks(ranks, rank)
        return acl.current_simulation().trace.ops

    return lengths(acl.run(main, device=card(ranks), values=False), ranks)


def lengths(ops, ranks):
    """How long each meeting of *ranks* parts lasts."""
    parts = [op for op in ops if op.kind == "collective"]
    meetings = [parts[first : first + ranks] for first in range(0, len(parts), ranks)]
    return [max(op.end_ns for op in each) - max(op.start_ns for op in each) for each in meetings]


def collectives_of(file: Path) -> list[tuple[int, int]]:
    """The kind and the bytes of each collective of one rank."""
    nodes = [node.attributes for node in read(file) if "comm_type" in node.attributes]
    return [(each["comm_type"], each["comm_size"]) for each in nodes]
