"""Clients of the server sample over memory streams; `python served.py [uvloop]` prints what they and the device did.

The clients are in the program, so nothing is outside: test_server.py runs this in several processes, on both loops, and
compares what it prints.
"""

import sys
from math import inf

import anyio
import numpy as np
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.stapled import StapledObjectStream
from server import Policy, Report, random_load, serving, talk

import acl_py as acl

CLIENTS, QUESTIONS, WIDTH = 40, 3, 24


def connection():
    """The two ends of a connection in memory."""
    (to_server, from_client), (to_client, from_server) = (anyio.create_memory_object_stream[bytes](inf) for _ in "ab")
    return StapledObjectStream(to_server, from_server), StapledObjectStream(to_client, from_client)


async def client(number, end, vectors, history):
    """Ask one question after another, with random patience; every fifth client falls silent within a request."""
    sim, received = acl.current_simulation(), BufferedByteReceiveStream(end)
    async with end:
        await anyio.sleep(sim.rng.uniform(0, 500e-6))
        try:
            for vector in vectors:
                patience_us = np.float32(sim.rng.uniform(20, 250))
                question = patience_us.tobytes() + vector.tobytes()
                await end.send(question[:10])
                await anyio.sleep(1e-6)
                if number % 5 == 4 and vector is vectors[-1]:
                    break
                await end.send(question[10:])
                answer = await received.receive_exactly(vector.nbytes)
                history.append((number, "answered", sim.now_ns, answer.hex()))
            await received.receive_exactly(1)
        except anyio.IncompleteRead:
            history.append((number, "hung up on", sim.now_ns))


async def served():
    """Return what each client heard and when, and all operations and calls of the simulation."""
    load = random_load(0, clients=CLIENTS * QUESTIONS, width=WIDTH, hidden=32, every_us=1, patience_us=(20, 250))
    history, policy, report = [], Policy("small", batch=4, streams=2), Report()
    async with serving(policy, load, report) as inbox, anyio.create_task_group() as group:
        for number in range(CLIENTS):
            ours, theirs = connection()
            group.start_soon(talk, policy, inbox, report, WIDTH, theirs)
            vectors = load.vectors[number * QUESTIONS : (number + 1) * QUESTIONS]
            group.start_soon(client, number, ours, list(vectors), history)
    trace = acl.current_simulation().trace
    ops = [(op.name, op.stream, op.queued_ns, op.start_ns, op.end_ns) for op in trace.ops]
    return history, [request.latency_us for request in report.requests], ops, trace.calls


def everything(uvloop=False):
    return acl.run(served, device="h200", uvloop=uvloop)


if __name__ == "__main__":
    print(everything("uvloop" in sys.argv))
