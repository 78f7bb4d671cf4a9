"""Streaks: kernels of a launch that run without an operation each. Nobody can tell that they do, but by the real time.

Random programs run twice: as they are, and with an observer, for which every node is queued at the launch. Then they
run twice with a trace, which has a row for each node in both.
"""

import asyncio
from random import Random

import pytest
from histories import H2D, busy, tiny

import acl_py as acl
from acl_py.trace.rows.recorder import Trace
from device_model.completions import Why
from device_model.engines.workers import INLINE_BYTES
from device_model.observe import Observer
from tests.campaigns import many

CELLS = 16
A, LONG, NOTHING = busy("A", 10), busy("long", 1_000), busy("nothing", 0)
TIMES = (0, 0.5, 1, 2, 2, 5, 40)  # of kernels, in microseconds


class Watcher(Observer):
    """Notes operations that end in *notes*."""

    def __init__(self, notes):
        self.notes = notes

    def op_ended(self, op):
        self.notes.append((op.work.label.name, str(op.site), op.queued_ns, op.start_ns, op.end_ns, _of(op.by), op.why))


class Mourner(Observer):
    """Notes operations that fail."""

    def __init__(self, notes):
        self.notes = notes

    def failed(self, op, error):
        self.notes.append((repr(op), op.queued_ns, op.start_ns, op.end_ns, str(error)))


def _of(op):
    return op if op is None else (repr(op), op.end_ns)


class Program:
    """The random program number *seed*: graphs, and what two tasks do with them and beside them. `notes` has all that
    it could tell.
    """

    def __init__(self, seed):
        self.rng = Random(seed)
        self.sim = acl.current_simulation()
        self.notes = []
        self.kernels = [
            (exclusive, self._kernel(us, exclusive=exclusive)) for us in TIMES for exclusive in (False, True)
        ]
        self.number = 0
        self.breaks = self.rng.random() < 0.4  # some kernels raise

    def _kernel(self, us, *, exclusive):
        @acl.kernel(cost=acl.Cost(us=us), exclusive=exclusive)
        def kernel(buffer: acl.InOut, number):
            self.notes.append((number, self.sim.runtime.scheduler.now))
            buffer[:] = buffer * 3 + number
            if self.woken is not None and number % 5 == 0 and not self.woken.done():
                self.woken.set_result(None)
            if self.breaks and number % 11 == 0:
                raise ValueError(number)

        return kernel

    async def run(self):
        self.woken = None
        self.streams = [await acl.CreateStream() for _ in range(3)]
        self.others = [await acl.CreateStream() for _ in range(2)]
        self.events = [await acl.CreateEvent() for _ in range(3)]
        self.buffer = await acl.Malloc(CELLS)
        self.pinned = await acl.MallocHost(256)
        await acl.Memset(self.buffer, CELLS, 1, CELLS)
        self.groups = []  # of tasks, four kernels each
        self.graphs = [await self._graph() for _ in range(2)]
        self.executables = [await acl.GraphInstantiate(graph) for graph in self.graphs]
        if self.rng.random() < 0.3:
            await asyncio.gather(self._task(8), self._task(8))
        else:
            await self._task(16)
        for stream in (*self.streams, *self.others):
            await self._try(acl.SynchronizeStream, stream)
        self.notes.append(bytes(self.buffer.allocation.view))
        return self.notes

    # --- graphs

    async def _graph(self):
        first, *others = self.streams
        async with acl.capture(first) as graph:
            await self._nodes(first, self.rng.randint(1, 8))
            for other in others:
                if self.rng.random() < 0.4:
                    await self._edge(first, other)
                    await self._nodes(other, self.rng.randint(0, 8))
                    await self._nodes(first, self.rng.randint(0, 8))
                    await self._edge(other, first)
            await self._nodes(first, self.rng.randint(0, 8))
            if self.sim.runtime.rules.name == "acl":
                await acl.CaptureTaskGrpBegin(first)
                for _ in range(4):
                    await self._launch_kernel(first)
                self.groups.append(await acl.CaptureTaskGrpEnd(first))
        if self.rng.random() < 0.3:
            graph = await self._around(graph)
        return graph

    async def _around(self, child):
        """A graph of which *child* is a part, before a body that a kernel may choose."""
        graph = await acl.GraphCreate()
        node = await acl.GraphAddChildGraphNode(graph, child)
        choice = await acl.GraphAddIfNode(graph, [node], default=self.rng.random() < 0.7)
        await acl.BeginCaptureToGraph(self.streams[0], choice.body)
        await self._nodes(self.streams[0], 4, in_body=True)
        await acl.EndCapture(self.streams[0])
        return graph

    async def _edge(self, before, behind):
        event = await acl.CreateEvent()
        await acl.RecordEvent(event, before)
        await acl.StreamWaitEvent(behind, event)

    async def _nodes(self, stream, count, *, in_body=False):
        for _ in range(count):
            chance = self.rng.random() * (0.93 if in_body else 1)
            if chance < 0.85:
                await self._launch_kernel(stream)
            elif chance < 0.9:
                await acl.MemcpyAsync(self.buffer, 4, self.pinned, 4, H2D, stream)
            elif chance < 0.93:
                await acl.MemsetAsync(self.buffer, 2, self._next() % 256, 2, stream)
            elif chance < 0.96:
                await acl.LaunchHostFunc(stream, self.notes.append, [("host", self._next())], us=1)
            elif self.sim.runtime.rules.name == "cuda":
                await acl.RecordEvent(self.events[0], stream, external=True)

    async def _launch_kernel(self, stream):
        exclusive, kernel = self.rng.choice(self.kernels)
        blocks = self.rng.choice((1, 3, 4, 9, 70)) if exclusive else self.rng.choice((1, 8))
        await kernel[blocks, stream](acl.Array(self.buffer), self._next())

    def _next(self):
        self.number += 1
        return self.number

    # --- what the host does

    async def _task(self, count):
        for _ in range(count):
            await self._act()
            self.notes.append((self.sim.now_ns, self.sim.runtime.scheduler.now))

    async def _act(self):
        rng = self.rng
        stream, other, event = (rng.choice(each) for each in (self.streams, self.others, self.events))
        acts = [
            *[lambda: self._try(acl.GraphLaunch, rng.choice(self.executables), stream)] * 8,
            lambda: acl.HostWork(rng.choice((1, 7, 30, 200))),
            lambda: acl.HostWork(rng.choice((1, 7, 30, 200))),
            lambda: self._try(self._launch_kernel, other),
            lambda: self._try(acl.MemcpyAsync, self.buffer, 8, self.pinned, 8, H2D, other),
            lambda: self._try(acl.LaunchHostFunc, other, self.notes.append, ["beside"]),
            lambda: self._try(acl.RecordEvent, event, stream),
            lambda: self._try(acl.StreamWaitEvent, other, event),
            lambda: self._try(acl.SynchronizeStream, stream),
            lambda: self._try(acl.SynchronizeStream, other),
            lambda: self._try(acl.SynchronizeEvent, event),
            lambda: self._try(acl.StreamQuery, stream),
            lambda: self._try(acl.GraphExecUpdate, rng.choice(self.executables), rng.choice(self.graphs)),
            self._update,
            self._look,
            self._wait_for_kernel,
        ]
        if rng.random() < 0.1:
            acts = [self._watch, lambda: self._try(acl.StreamAbort, stream), self._limit]
        await rng.choice(acts)()

    async def _try(self, verb, *args):
        try:
            self.notes.append(str(await verb(*args)))
        except (acl.AclError, acl.DeadlockError) as error:
            self.notes.append(str(error))

    async def _update(self):
        """Change the work of a task group, behind what the stream has to do."""
        if self.groups:
            await self._try(acl.CaptureTaskUpdateBegin, self.others[0], self.rng.choice(self.groups))
            for _ in range(4):
                await self._try(self._launch_kernel, self.others[0])
            await self._try(acl.CaptureTaskUpdateEnd, self.others[0])

    async def _look(self):
        self.notes.append([_state(op) for op in self.sim.runtime.unfinished()])

    async def _watch(self):
        self.sim.runtime.hooks.add(Watcher(self.notes))

    async def _limit(self):
        await self._try(acl.SynchronizeStreamWithTimeout, self.streams[0], 1)

    async def _wait_for_kernel(self):
        """Let a kernel wake this task: no simulated time passes between the two."""
        if self.woken is None:
            self.woken = asyncio.get_running_loop().create_future()
            try:
                waiting = asyncio.ensure_future(acl.SynchronizeStream(self.streams[0]))
                await asyncio.wait([waiting, self.woken], return_when=asyncio.FIRST_COMPLETED)
                self.notes.append(("woken", self.sim.now_ns))
                await asyncio.gather(waiting, return_exceptions=True)
            finally:
                self.woken = None


def _state(op):
    causes = op.blockers, op.ready_ns, _of(op.by), op in op.queue.fifo, op.start_ns
    return repr(op), op.queued_ns, *causes, [type(waiter).__name__ for waiter in op.waiters or ()]


async def play(seed, is_watched, is_traced):
    program = Program(seed)
    program.sim.runtime.hooks.add(Mourner(program.notes))
    if is_watched:
        program.sim.runtime.hooks.add(Watcher([]))
    notes = await program.run()
    return notes, program.sim.trace.timeline() if is_traced else None


def check(seeds):
    for seed in seeds:
        device, rules = Random(seed).choice((("tiny", "cuda"), ("h200", "cuda"), ("h200", "acl"), ("tiny", "acl")))
        for trace in (False, True):
            plain, expected = (
                acl.run(play, seed, is_watched, trace, device=device, rules=rules, trace=trace)
                for is_watched in (False, True)
            )
            assert plain == expected, f"program {seed} on {device}, {rules}, {trace=}"


@tiny(trace=False)
async def test_a_chain_of_kernels_is_scheduled_node_by_node_only_if_somebody_watches():
    sim, stream, scheduled = acl.current_simulation(), await acl.CreateStream(), []
    scheduler = sim.runtime.scheduler
    async with acl.capture(stream) as graph:
        for _ in range(50):
            await A[1, stream]()
    executable = await acl.GraphInstantiate(graph)
    await acl.GraphUpload(executable, stream)
    for observer in (Observer(), Watcher([])):
        sim.runtime.hooks.add(observer)
        begin, before = sim.now_ns, scheduler.sequence
        launch = await acl.GraphLaunch(executable, stream)
        await acl.SynchronizeStream(stream)
        scheduled.append((scheduler.sequence - before, launch.end_ns - begin))
    assert scheduled == [(2, 501_000), (50, 501_000)]


@tiny(trace=False)
async def test_branches_that_leave_room_for_each_other_go_on_at_once_and_end_in_the_order_of_time():
    sim, notes, listed = acl.current_simulation(), [], []
    scheduler, (main, side) = sim.runtime.scheduler, [await acl.CreateStream() for _ in range(2)]
    fork, join = await acl.CreateEvent(), await acl.CreateEvent()

    def timed(name, us):
        @acl.kernel(cost=acl.Cost(us=us))
        def note():
            notes.append((name, scheduler.now))

        return note

    ten, six, alone = timed("ten", 10), timed("six", 6), busy("alone", 1)
    async with acl.capture(main) as graph:
        await acl.RecordEvent(fork, main)
        await acl.StreamWaitEvent(side, fork)
        for _ in range(30):
            await ten[1, main]()
            await six[2, side]()
        await acl.RecordEvent(join, side)
        await acl.StreamWaitEvent(main, join)
        await alone[1, main]()
    executable, [device] = await acl.GraphInstantiate(graph), sim.runtime.devices
    await acl.GraphUpload(executable, main)
    found = []
    for observer in (Observer(), Watcher([])):
        sim.runtime.hooks.add(observer)
        begin, before = sim.now_ns, device.cores.listed
        launch = await acl.GraphLaunch(executable, main)
        await acl.SynchronizeStream(main)
        listed.append(device.cores.listed - before)
        found.append(([(name, at - begin) for name, at in notes], launch.end_ns - begin))
        notes.clear()
    assert found[0] == found[1]
    ends = sorted(
        [(1_000 + 10_000 * n, "ten") for n in range(1, 31)] + [(1_000 + 6_000 * n, "six") for n in range(1, 31)]
    )
    assert [at for _, at in found[0][0]] == [at for at, _ in ends]
    assert (listed[0] < 12, listed[1], device.cores.shared_blocks) == (True, 61, 0)


@tiny(trace=False)
async def test_a_trace_that_begins_during_a_launch_has_the_nodes_that_end_later():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    async with acl.capture(stream) as graph:
        for _ in range(6):
            await A[1, stream]()
    launch = await acl.GraphLaunch(await acl.GraphInstantiate(graph), stream)
    await acl.HostWork(25)
    trace = Trace()
    sim.runtime.hooks.add(trace)
    await acl.SynchronizeStream(stream)
    ends = [launch.end_ns - 10_000 * left for left in (3, 2, 1, 0)]
    assert [(op.name, op.start_ns, op.end_ns) for op in trace.ops] == [("A", end - 10_000, end) for end in ends]


@tiny
async def test_a_node_that_starts_with_its_launch_does_not_wait_for_one_that_takes_no_time():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    async with acl.capture(stream) as graph:
        for kernel in (NOTHING, NOTHING, NOTHING, A, A):
            await kernel[1, stream]()
    await acl.GraphLaunch(await acl.GraphInstantiate(graph), stream)
    await acl.SynchronizeStream(stream)
    assert [op.why for op in sim.trace.ops] == [Why.HOST, Why.HOST, Why.HOST, Why.HOST, Why.ORDER]


@tiny(trace=False)
async def test_a_copy_that_begins_in_the_same_instant_as_a_streak_is_not_late():
    kernels, copies, before = [await acl.CreateStream() for _ in range(3)]
    event, pinned, buffer = await acl.CreateEvent(), await acl.MallocHost(100), await acl.Malloc(100)
    async with acl.capture(kernels) as graph:
        for _ in range(5):
            await A[1, kernels]()
    executable = await acl.GraphInstantiate(graph)
    first = await LONG[1, before]()
    await acl.RecordEvent(event, before)
    for stream in (kernels, copies):
        await acl.StreamWaitEvent(stream, event)
    await acl.GraphLaunch(executable, kernels)
    copy = await acl.MemcpyAsync(buffer, 100, pinned, 100, H2D, copies)
    await acl.SynchronizeDevice()
    assert copy.end_ns - first.end_ns == 100


@tiny(trace=False, rules="acl")
async def test_new_work_of_a_task_group_counts_in_streaks_of_graphs_and_of_bodies():
    one, two = await acl.CreateStream(), await acl.CreateStream()
    graph = await acl.GraphCreate()
    node = await acl.GraphAddIfNode(graph, default=True)
    await acl.BeginCaptureToGraph(one, node.body)
    await acl.CaptureTaskGrpBegin(one)
    for _ in range(3):
        await A[1, one]()
    group = await acl.CaptureTaskGrpEnd(one)
    await acl.EndCapture(one)
    body = await acl.GraphInstantiate(node.body)
    whole = await acl.GraphInstantiate(graph)

    async def update(kernel):
        await acl.CaptureTaskUpdateBegin(two, group)
        for _ in range(3):
            await kernel[1, two]()
        await acl.CaptureTaskUpdateEnd(two)

    async def launch(executable):
        before = await LONG[1, one]()
        return before, await acl.GraphLaunch(executable, one)

    launches = []
    for executable in (body, whole):
        await update(A)
        first = await launch(executable)
        await update(LONG)  # before the launch has begun
        launches += [first, await launch(executable)]
        await acl.SynchronizeDevice()
    assert [launch.end_ns - before.end_ns for before, launch in launches] == [3_000_000] * 4


@tiny(trace=False, workers=2)
async def test_a_failure_in_a_thread_keeps_the_kernels_behind_it_from_running():
    stream, large, ran = await acl.CreateStream(), await acl.Malloc(INLINE_BYTES), []

    @acl.kernel(cost=acl.Cost(us=1))
    def fail(buffer: acl.InOut):
        raise ValueError(buffer.size)

    @acl.kernel(cost=acl.Cost(us=1))
    def note():
        ran.append(None)

    async with acl.capture(stream) as graph:
        await fail[1, stream](acl.Array(large))
        for _ in range(3):
            await note[1, stream]()
    await acl.GraphLaunch(await acl.GraphInstantiate(graph), stream)
    with pytest.raises(acl.AclError, match="ValueError: 4194304"):
        await acl.SynchronizeStream(stream)
    assert not ran


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_random_programs_cannot_tell_that_kernels_ran_in_streaks(first):
    check(range(first, first + 10))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20, 20 + many(200), 100))
def test_many_random_programs_cannot_tell_that_kernels_ran_in_streaks(first):
    """2,000 could not."""
    check(range(first, first + 100))
