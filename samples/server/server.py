"""Shows: a server in anyio on simulated time: dynamic batches over several streams, and clients that give up.

Scenario: requests arrive at random, each with a vector for a small network. Each worker has a stream. It takes the
waiting requests, up to a full batch, and serves them while others queue. So batches grow with the load, without a timer
to tune. Clients lose patience. A client that gives up in the queue costs nothing, because the worker skips its request;
a request on the device is computed, and its answer thrown away. Three servers get the same clients: one request at a
time, batches, and batches over several streams. The time-outs are anyio's own. They ring in simulated time, so the
percentiles are the same on every run. Then the last server answers a real client over TCP, whose silence takes real
time. Each answer is compared with NumPy's.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, prod

import anyio
import numpy as np
import numpy.typing as npt
from anyio.abc import AnyByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

import acl_py as acl
from acl_py import Array, Cost, In, MemcpyKind, Out

Floats = npt.NDArray[np.float32]

LAYERS = 8
BLOCKS = 4  # the layers are small and run one after another, so most SMs stay free for others
PATIENT_US = 10e6  # of the client over TCP
HOST_US = 1  # host work per request: parse it, send the answer


def of_network(x, up, *_):
    """Return the cost of all layers, each of which waits for the one before: that of one product as deep as all."""
    width, hidden = up.shape
    return Cost.matmul(len(x), hidden, 2 * LAYERS * width, "float32")


@acl.kernel(cost=of_network)
def network(x: In, up: In, down: In, y: Out):
    """Apply the same layer several times."""
    y[:] = x
    for _ in range(LAYERS):
        y += np.maximum(y @ up, 0) @ down


@dataclass(frozen=True)
class Policy:
    """The settings of a server."""

    title: str
    batch: int = 1
    streams: int = 1
    silence_s: float = 0.5  # a client on the network that is silent for longer is hung up on


@dataclass(frozen=True)
class Load:
    """The clients: their *vectors*, times and patience, and the network that they ask for."""

    vectors: Floats
    every_us: float  # on average
    patience_us: tuple[float, float]
    up: Floats
    down: Floats


@dataclass(eq=False, repr=False)
class Request:
    vector: Floats
    came_ns: int
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Floats | None = None
    latency_us: float | None = None
    is_started: bool = False
    is_abandoned: bool = False


Inbox = MemoryObjectSendStream[Request]
Queue = MemoryObjectReceiveStream[Request]


@dataclass(repr=False)
class Report:
    """The results of all requests."""

    requests: list[Request] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    ns: int = 0

    @property
    def answers_per_ms(self) -> float:
        return sum(not request.is_abandoned for request in self.requests) / (self.ns / 1e6)

    @property
    def percentiles_us(self) -> tuple[float, float, float]:
        """Return the 50th, 90th and 99th percentile of the latencies of answered requests."""
        answered = [r.latency_us for r in self.requests if not r.is_abandoned]
        p50, p90, p99 = np.percentile(answered or [np.nan], (50, 90, 99))
        return p50, p90, p99

    def abandoned(self, *, is_started: bool) -> int:
        """Return how many clients gave up after the device had started (*is_started*), or before."""
        return sum(request.is_abandoned and request.is_started is is_started for request in self.requests)


# --- the server


@dataclass(frozen=True)
class Worker:
    """Serves one batch after another in its own stream, with memory for the largest batch."""

    stream: acl.Stream
    questions: Floats
    x: Array
    y: Array
    answers: Floats

    @classmethod
    async def create(cls, *shape: int) -> "Worker":
        nbytes = 4 * prod(shape)
        return cls(
            stream=await acl.CreateStream(),
            questions=(await acl.MallocHost(nbytes)).numpy(np.float32, shape),
            x=Array(await acl.Malloc(nbytes), np.float32, shape),
            y=Array(await acl.Malloc(nbytes), np.float32, shape),
            answers=(await acl.MallocHost(nbytes)).numpy(np.float32, shape),
        )

    async def serve(self, batch: list[Request], up: Array, down: Array) -> None:
        """Answer a batch of requests."""
        questions, x, y, answers = (each[: len(batch)] for each in (self.questions, self.x, self.y, self.answers))
        for request, question in zip(batch, questions, strict=True):
            request.is_started = True
            question[:] = request.vector
        await acl.HostWork(HOST_US * len(batch))
        await acl.MemcpyAsync(x, x.nbytes, questions, x.nbytes, MemcpyKind.HOST_TO_DEVICE, self.stream)
        await network[BLOCKS, self.stream](x, up, down, y)
        await acl.MemcpyAsync(answers, y.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST, self.stream)
        await acl.SynchronizeStream(self.stream)
        for request, answer in zip(batch, answers, strict=True):
            if not request.is_abandoned:
                request.answer = answer.copy()
                request.answered.set()


async def work(worker: Worker, limit: int, up: Array, down: Array, queue: Queue, report: Report) -> None:
    """Serve the queue, up to *limit* requests at a time, until it is closed and empty."""
    async for first in queue:
        if batch := fill(first, queue, limit):
            report.batches.append(len(batch))
            await worker.serve(batch, up, down)


def fill(first: Request, queue: Queue, limit: int) -> list[Request]:
    """Return a batch of *first* and other waiting requests, without those whose clients gave up."""
    batch = [] if first.is_abandoned else [first]
    with suppress(anyio.WouldBlock, anyio.EndOfStream):
        while len(batch) < limit:
            request = queue.receive_nowait()
            if not request.is_abandoned:
                batch.append(request)
    return batch


async def ask(request: Request, patience_us: float, inbox: Inbox) -> None:
    """Send a request to the workers, and wait for the answer until the patience of its client runs out."""
    with anyio.move_on_after(patience_us / 1e6):
        await inbox.send(request)
        await request.answered.wait()
    request.is_abandoned = request.answer is None
    request.latency_us = (acl.current_simulation().now_ns - request.came_ns) / 1000


async def talk(policy: Policy, inbox: Inbox, report: Report, width: int, connection: AnyByteStream) -> None:
    """Answer a client on the network; hang up once it gives up, leaves or is silent.

    A request is the client's patience in microseconds and its vector of *width* numbers. All numbers are float32.
    """
    received = BufferedByteReceiveStream(connection)
    async with connection:
        with suppress(TimeoutError, anyio.IncompleteRead, anyio.BrokenResourceError):
            while True:
                with anyio.fail_after(policy.silence_s):
                    numbers = np.frombuffer(await received.receive_exactly(4 + 4 * width), np.float32)
                request = Request(numbers[1:], acl.current_simulation().now_ns)
                report.requests.append(request)
                await ask(request, float(np.nan_to_num(numbers[0])), inbox)
                if request.answer is None:
                    break
                await connection.send(request.answer.tobytes())


@asynccontextmanager
async def serving(policy: Policy, load: Load, report: Report) -> AsyncIterator[Inbox]:
    """Run the workers of a server with *policy*, and yield the inbox for their requests."""
    inbox, queue = anyio.create_memory_object_stream[Request](inf)
    up, down = await put(load.up), await put(load.down)
    workers = [await Worker.create(policy.batch, len(load.up)) for _ in range(policy.streams)]
    async with queue, anyio.create_task_group() as group, inbox:
        for worker in workers:
            group.start_soon(work, worker, policy.batch, up, down, queue, report)
        yield inbox


async def put(host: Floats) -> Array:
    """Return a copy of *host* on the device."""
    device = Array(await acl.Malloc(host.nbytes), host.dtype, host.shape)
    await acl.Memcpy(device, device.nbytes, host, host.nbytes, MemcpyKind.HOST_TO_DEVICE)
    return device


# --- its clients


async def load_test(policy: Policy, load: Load) -> Report:
    """Run the clients of *load* against a server with *policy*."""
    report = Report()
    async with serving(policy, load, report) as inbox:
        await arrive(load, inbox, report)
    return report


async def arrive(load: Load, inbox: Inbox, report: Report) -> None:
    """Start the clients at their times, whatever the load of the server, and wait for the last one."""
    sim = acl.current_simulation()
    start_ns = came_ns = sim.now_ns
    async with anyio.create_task_group() as clients:
        for vector in load.vectors:
            came_ns += round(1000 * sim.rng.exponential(load.every_us))
            if came_ns > sim.now_ns:  # otherwise the host was busy at that time
                await anyio.sleep((came_ns - sim.now_ns) / 1e9)
            request = Request(vector, came_ns)
            report.requests.append(request)
            clients.start_soon(ask, request, sim.rng.uniform(*load.patience_us), inbox)
    report.ns = sim.now_ns - start_ns


async def answer_over_tcp(load: Load) -> tuple[list[Floats], float]:
    """Serve a client on the loopback. Return its answers, and how many ms it was silent before the server hung up."""
    sim, policy, report = acl.current_simulation(), POLICIES[-1], Report()
    async with (
        serving(policy, load, report) as inbox,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, partial(talk, policy, inbox, report, len(load.up)))
        port = listener.extra(SocketAttribute.local_port)
        answers = await anyio.to_thread.run_sync(be_a_client, port, load)
        group.cancel_scope.cancel()
    last = report.requests[-1]
    return answers, (sim.now_ns - last.came_ns) / 1e6 - last.latency_us / 1000


def be_a_client(port: int, load: Load) -> list[Floats]:
    """Send each vector and wait for its answer, in real time; then be silent until the server hangs up."""
    answers = []
    address = "127.0.0.1", port
    with socket.create_connection(address, timeout=10) as connection, connection.makefile("rb") as received:
        for vector in load.vectors:
            connection.sendall(np.float32(PATIENT_US).tobytes() + vector.tobytes())
            answers.append(np.frombuffer(received.read(vector.nbytes), np.float32))
        assert received.read() == b"", "the server says more than was asked"
    return answers


# --- all of it


def reference(load: Load) -> npt.NDArray[np.float64]:
    """Return the answers, computed with plain NumPy in float64."""
    y = load.vectors.astype(np.float64)
    for _ in range(LAYERS):
        y += np.maximum(y @ load.up, 0) @ load.down
    return y


POLICIES = (
    Policy("one at a time, one stream"),
    Policy("batches of up to 32, one stream", batch=32),
    Policy("batches of up to 32, four streams", batch=32, streams=4),
)


def random_load(
    seed: int, clients: int, width: int, hidden: int, every_us: float, patience_us: tuple[float, float]
) -> Load:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((clients, width), np.float32)
    up = rng.standard_normal((width, hidden), np.float32) / np.float32(np.sqrt(width))
    down = rng.standard_normal((hidden, width), np.float32) / np.float32(np.sqrt(hidden))
    return Load(vectors, every_us, patience_us, up, down)


def usual_load() -> Load:
    return random_load(0, clients=1000, width=256, hidden=1024, every_us=4, patience_us=(300, 1500))


def main() -> None:
    load = usual_load()
    expected = reference(load)
    shortest, longest = load.patience_us
    print(
        f"{len(load.vectors):,} clients, one every {load.every_us} us, with patience for {shortest:,} to {longest:,} us"
    )
    print()
    print("                                    answers  gave up in  while  requests   latency in us")
    print("                                     per ms   the queue  served  a batch    p50   p90   p99")
    for policy in POLICIES:
        report = acl.run(load_test, policy, load, device="h200")
        for request, answer in zip(report.requests, expected, strict=True):
            if request.answer is not None:
                np.testing.assert_allclose(request.answer, answer, rtol=1e-4, atol=1e-4)
        print(f"{policy.title:34} {report.answers_per_ms:8.1f} {report.abandoned(is_started=False):11}", end=" ")
        print(f"{report.abandoned(is_started=True):7} {np.mean(report.batches or [0]):9.1f}", end=" ")
        print(*(f"{us:5,.0f}" for us in report.percentiles_us))

    few = replace(load, vectors=load.vectors[:8])
    answers, silence_ms = acl.run(answer_over_tcp, few, device="h200")
    np.testing.assert_allclose(answers, expected[:8], rtol=1e-4, atol=1e-4)
    print(f"\nover TCP, a real client got {len(answers)} answers; hung up on after {silence_ms:.0f} ms of silence")


if __name__ == "__main__":
    main()
