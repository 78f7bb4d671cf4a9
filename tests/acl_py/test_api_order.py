"""Random programs against the guaranteed order: what the API promises is kept, results are those of sequential NumPy.

The oracle is naive: for every stream and event the set of all operations that what comes next has to wait for.
"""

import numpy as np
import pytest
from histories import busy, tiny
from hypothesis import given, settings
from hypothesis import strategies as st

import acl_py as acl
from tests.campaigns import many

LEGACY, PER_THREAD, BLOCKING, OTHER, NONBLOCKING = range(5)
STREAMS = range(5)
EVENTS = range(3)


class Oracle:
    """What every stream has to wait for, as sets of operations."""

    def __init__(self):
        self.before = {stream: frozenset() for stream in STREAMS}
        self.events = {}
        self.tails = dict(self.before)  # the same, as of the last call on the stream: a sync looks at no more

    def _enter(self, stream):
        """Legacy work comes behind all blocking streams."""
        if stream == LEGACY:
            for other in (PER_THREAD, BLOCKING, OTHER):
                self.before[LEGACY] |= self.before[other]

    def _leave(self, stream):
        """And all blocking streams behind it."""
        self.tails[stream] = self.before[stream]
        if stream == LEGACY:
            for other in (PER_THREAD, BLOCKING, OTHER):
                self.before[other] |= self.before[LEGACY]

    def queue(self, stream, op):
        self._enter(stream)
        before = self.before[stream]
        self.before[stream] = before | {op}
        self._leave(stream)
        return before

    def record(self, event, stream):
        self._enter(stream)
        self.events[event] = self.before[stream]
        self._leave(stream)

    def wait(self, stream, event):
        if event not in self.events:  # never recorded: no effect at all
            return
        self._enter(stream)
        self.before[stream] |= self.events[event]
        self._leave(stream)

    def synced(self, stream):
        """What a synchronisation of *stream* waits for."""
        streams = (LEGACY, PER_THREAD, BLOCKING, OTHER) if stream == LEGACY else (stream,)
        return frozenset().union(*(self.tails[each] for each in streams))

    def would_wait_for(self, stream):
        """All that work queued there now would come behind."""
        copy = Oracle()
        copy.before = dict(self.before)
        return copy.queue(stream, None)


async def _streams():
    return {
        LEGACY: acl.LEGACY_STREAM,
        PER_THREAD: acl.PER_THREAD_STREAM,
        BLOCKING: await acl.CreateStream(),
        OTHER: await acl.CreateStream(priority=-1),
        NONBLOCKING: await acl.CreateStream(nonblocking=True),
    }


EXCLUSIVE = acl.kernel(cost=acl.Cost(us=7), exclusive=True)(lambda: None)
KERNELS = [busy("quick", 1), busy("slow", 30), busy("none", 0)]
STEP = st.one_of(
    st.tuples(st.just("launch"), st.sampled_from(STREAMS), st.integers(0, 2)),
    st.tuples(st.just("exclusive"), st.sampled_from(STREAMS), st.integers(1, 9)),
    st.tuples(st.just("copy"), st.sampled_from(STREAMS), st.integers(0, 4)),
    st.tuples(st.just("host"), st.sampled_from(STREAMS), st.integers(0, 9)),
    st.tuples(st.just("record"), st.sampled_from(STREAMS), st.sampled_from(EVENTS)),
    st.tuples(st.just("wait"), st.sampled_from(STREAMS), st.sampled_from(EVENTS)),
    st.tuples(st.just("sync"), st.sampled_from(STREAMS), st.just(0)),
    st.tuples(st.just("work"), st.just(0), st.integers(0, 40)),
)


async def _run_ordered(steps):
    streams, oracle = await _streams(), Oracle()
    events = [await acl.CreateEvent() for _ in EVENTS]
    x, y, host = await acl.Malloc(50_000), await acl.Malloc(50_000), await acl.MallocHost(50_000)
    pageable = np.zeros(50_000, np.uint8)
    ops, edges = {}, []

    def queued(op, stream):
        ops[len(ops)] = op
        edges.append((oracle.queue(stream, len(ops) - 1), len(ops) - 1))

    for what, where, n in steps:
        stream = streams[where]
        match what:
            case "launch":
                queued(await acl.LaunchKernel(KERNELS[n], 2, (), stream), where)
            case "exclusive":
                queued(await acl.LaunchKernel(EXCLUSIVE, n, (), stream), where)
            case "copy":
                size = 1_000 * (n + 1)
                dst, src = [(x, host), (host, x), (x, y), (x, pageable), (host, y)][n]
                queued(await acl.MemcpyAsync(dst, size, src, size, acl.MemcpyKind.DEFAULT, stream), where)
            case "host":
                queued(await acl.LaunchHostFunc(stream, int, us=n), where)
            case "record":
                await acl.RecordEvent(events[n], stream)
                oracle.record(n, where)
            case "wait":
                await acl.StreamWaitEvent(stream, events[n])
                oracle.wait(where, n)
            case "sync":
                await acl.SynchronizeStream(stream)
                assert all(ops[op].done for op in oracle.synced(where))
            case "work":
                await acl.HostWork(n)
    for stream in (BLOCKING, OTHER, NONBLOCKING):
        await acl.DestroyStream(streams[stream])
    await acl.SynchronizeDevice()
    for before, op in edges:
        assert ops[op].done
        assert ops[op].start_ns >= max([ops[op].queued_ns, *(ops[each].end_ns for each in before)])
    sim = acl.current_simulation()
    assert [op.end_ns for op in sim.trace.ops] == sorted(op.end_ns for op in sim.trace.ops)
    assert len(sim.trace.ops) == len(ops)
    assert sim.runtime.unfinished() == []


def _check(program, steps):
    for rules in ("cuda", "cuda_per_thread"):
        acl.run(program, steps, device="tiny", rules=rules, workers=1)


@given(st.lists(STEP, max_size=60))
def test_every_promised_order_is_kept(steps):
    _check(_run_ordered, steps)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(800))
@given(st.lists(STEP, max_size=120))
def test_every_promised_order_is_kept_in_many_programs(steps):
    _check(_run_ordered, steps)


@acl.kernel(cost=acl.Cost(us=3))
def add(x: acl.In, y: acl.InOut, n):
    y += x + n


@acl.kernel(cost=acl.Cost(us=5))
def scale(x: acl.In, y: acl.Out, n):
    y[:] = x * n


@acl.kernel(cost=acl.Cost(us=9))
def own(x: acl.InOut, n):
    x += n


VALUES = 8
DEVICE_BUFFERS, HOST_BUFFERS = 3, 2
BUFFERS = range(DEVICE_BUFFERS + HOST_BUFFERS)
ON_DEVICE = st.integers(0, DEVICE_BUFFERS - 1)
DATA_STEP = st.tuples(
    st.sampled_from(["add", "scale", "own", "copy", "fill", "host"]),
    st.sampled_from(STREAMS),
    st.sampled_from(BUFFERS),
    st.sampled_from(BUFFERS),
    st.integers(0, 5),
)


async def _run_data(steps):
    """Waits are added where the order that a race-free program needs is not promised yet."""
    streams, oracle, count = await _streams(), Oracle(), 0
    nbytes = 4 * VALUES
    memory = [await (acl.Malloc if i < DEVICE_BUFFERS else acl.MallocHost)(nbytes) for i in BUFFERS]
    arrays = [acl.Array(buffer, np.uint32) for buffer in memory]
    model = [np.full(VALUES, i, np.uint32) for i in BUFFERS]
    for buffer, values in zip(memory, model, strict=True):
        await acl.Memcpy(buffer, nbytes, values.copy(), nbytes, acl.MemcpyKind.DEFAULT)
    await acl.SynchronizeDevice()
    event = await acl.CreateEvent()
    touched = [[] for _ in BUFFERS]  # (operation, stream, writes) for each buffer

    async def make_race_free(where, reads, writes):
        for buffer in {*reads, *writes}:
            for op, stream, wrote in touched[buffer]:
                if (wrote or buffer in writes) and op not in oracle.would_wait_for(where):
                    await acl.RecordEvent(event, streams[stream])
                    oracle.record(0, stream)
                    await acl.StreamWaitEvent(streams[where], event)
                    oracle.wait(where, 0)

    for what, where, i, j, n in steps:
        if what in ("add", "scale", "copy") and i == j:
            continue
        if what == "host" and j < DEVICE_BUFFERS:
            continue
        if what == "copy" and i >= DEVICE_BUFFERS and j >= DEVICE_BUFFERS:
            continue
        reads, writes = ([i], [j]) if what in ("add", "scale", "copy") else ([], [j])
        await make_race_free(where, reads, writes)
        stream = streams[where]
        match what:
            case "add":
                await acl.LaunchKernel(add, 1, (arrays[i], arrays[j], n), stream)
                model[j] += model[i] + np.uint32(n)
            case "scale":
                await acl.LaunchKernel(scale, 1, (arrays[i], arrays[j], n), stream)
                model[j][:] = model[i] * np.uint32(n)
            case "own":
                await acl.LaunchKernel(own, 1, (arrays[j], n), stream)
                model[j] += np.uint32(n)
            case "copy":
                await acl.MemcpyAsync(memory[j], nbytes, memory[i], nbytes, acl.MemcpyKind.DEFAULT, stream)
                model[j][:] = model[i]
            case "fill":
                await acl.MemsetAsync(memory[j], nbytes, n, nbytes, stream)
                model[j].view(np.uint8)[:] = n
            case "host":
                view = memory[j].numpy(np.uint32)
                await acl.LaunchHostFunc(stream, np.add, (view, np.uint32(n), view))
                model[j] += np.uint32(n)
        oracle.queue(where, count)
        for buffer in {*reads, *writes}:
            touched[buffer].append((count, where, buffer in writes))
        count += 1
    await acl.SynchronizeDevice()
    for buffer, values in zip(memory, model, strict=True):
        result = np.zeros(VALUES, np.uint32)
        await acl.Memcpy(result, nbytes, buffer, nbytes, acl.MemcpyKind.DEFAULT)
        assert result.tolist() == values.tolist()


@given(st.lists(DATA_STEP, max_size=40))
def test_results_of_race_free_programs_are_those_of_sequential_numpy(steps):
    _check(_run_data, steps)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(500))
@given(st.lists(DATA_STEP, max_size=80))
def test_results_of_many_race_free_programs_are_those_of_sequential_numpy(steps):
    _check(_run_data, steps)


@tiny
async def test_the_oracle_is_not_empty():
    oracle = Oracle()
    oracle.queue(BLOCKING, 1)
    oracle.queue(NONBLOCKING, 2)
    oracle.record(0, NONBLOCKING)
    assert oracle.queue(LEGACY, 3) == {1}
    oracle.wait(OTHER, 0)
    assert oracle.queue(OTHER, 4) == {1, 2, 3}
    assert oracle.queue(NONBLOCKING, 5) == {2}
