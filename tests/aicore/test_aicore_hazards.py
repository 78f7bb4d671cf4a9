"""Hazards: random programs against an oracle that knows nothing of clocks, and what weak mode shows."""

import numpy as np
import pytest
from cores import found, launch, prewritten, work
from hypothesis import example, given
from hypothesis import strategies as st

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import EVENT_OF, EVENTS_OF, PIPES, CoreType, HardEvent, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag, SyncAll
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCopy, DataCopyParams
from device_model.aicore.vector.elementwise import Adds
from device_model.aicore.vector.masks import UnaryRepeatParams
from device_model.kernel.findings import KernelError

AIV_PIPES = (Pipe.S, Pipe.V, Pipe.MTE2, Pipe.MTE3)
IN_ORDER = (Pipe.S, Pipe.V)


def bits(ranges):
    mask = 0
    for start, length in ranges:
        mask |= ((1 << length) - 1) << start
    return mask


places = st.tuples(st.integers(0, 5), st.integers(1, 3))  # in units of 32 bytes
touches = st.tuples(
    st.just("touch"), st.sampled_from(AIV_PIPES), st.lists(places, max_size=2), st.lists(places, max_size=1)
).filter(lambda touch: touch[1] in IN_ORDER or not bits(touch[2]) & bits(touch[3]))  # copies never work in place
flags = st.tuples(st.just("flag"), st.sampled_from(EVENTS_OF[CoreType.AIV]))
barriers = st.tuples(st.just("barrier"), st.sampled_from([Pipe.V, Pipe.MTE2, Pipe.MTE3, Pipe.ALL]))
steps = st.lists(touches | touches | flags | barriers, max_size=14)


class Oracle:
    """Happens-before as a graph: an edge for each thing that orders; then every pair that conflicts is looked up."""

    def __init__(self):
        self.reached = []  # by node, the nodes ordered before it, as a bit mask
        self.touched = []  # (node, core, pipe, reads, writes)
        self.races = False

    def node(self, *before):
        mask = 0
        for other in before:
            mask |= self.reached[other] | 1 << other
        self.reached.append(mask)
        return len(self.reached) - 1


class OracleCore:
    """One core of it: which nodes an instruction of each pipe starts behind."""

    def __init__(self, oracle, index):
        self.oracle = oracle
        self.index = index
        self.behind = {pipe: [] for pipe in PIPES}  # nodes ordered before what comes next in the pipe
        self.issued = []  # nodes ordered before whatever is issued
        self.done = {pipe: [] for pipe in PIPES}  # all of the pipe so far

    def touch(self, pipe, reads, writes):
        oracle = self.oracle
        node = oracle.node(*self.behind[pipe], *self.issued, *(self.done[pipe] if pipe in IN_ORDER else ()))
        for other, other_reads, other_writes in oracle.touched:
            conflict = writes & (other_reads | other_writes) or reads & other_writes
            if conflict and not oracle.reached[node] >> other & 1:
                oracle.races = True
        oracle.touched.append((node, reads, writes))
        self.done[pipe].append(node)

    def all_of(self, pipe):
        """A node behind everything in *pipe* so far."""
        return self.oracle.node(*self.behind[pipe], *self.issued, *self.done[pipe])

    def flag(self, source, destination):
        node = self.all_of(source)
        if destination is Pipe.S:
            # What the scalar pipe has done itself is not passed on by issuing.
            self.issued.append(node)
        self.behind[destination].append(node)

    def barrier(self, pipe):
        pipes = PIPES if pipe is Pipe.ALL else (pipe,)
        nodes = [node for each in pipes for node in self.done[each]]
        node = self.oracle.node(*nodes, *(n for each in pipes for n in self.behind[each]), *self.issued)
        if pipe is Pipe.ALL:
            self.issued = [node]
        self.behind[pipe if pipe is not Pipe.ALL else Pipe.S].append(node)
        return node


def tensors(ranges):
    return [LocalTensor(float32, TPosition.VECCALC, start * 32, length * 8) for start, length in ranges]


def do(step, memory=tensors):
    match step:
        case ("touch", pipe, reads, writes):
            work(pipe, "Touch", *(memory(writes) or [None]), *memory(reads), how=lambda *_: 0)
        case ("flag", event):
            SetFlag(event, 0)
            WaitFlag(event, 0)
        case ("barrier", pipe):
            PipeBarrier(pipe)


def ask(core, step):
    match step:
        case ("touch", pipe, reads, writes):
            core.touch(pipe, bits(reads), bits(writes))
        case ("flag", event):
            core.flag(event.source, event.destination)
        case ("barrier", pipe):
            core.barrier(pipe)


SCALAR_STORE = ("touch", Pipe.S, [], [(0, 1)])
VECTOR_STORE = ("touch", Pipe.V, [], [(0, 1)])
THERE_AND_BACK = [("flag", HardEvent.S_MTE2), ("flag", HardEvent.MTE2_S)]  # S hears from MTE2 that it is done itself


@given(steps)
@example([SCALAR_STORE, *THERE_AND_BACK, VECTOR_STORE])
def test_a_race_is_found_exactly_where_the_graph_has_one(program):
    oracle = Oracle()
    core = OracleCore(oracle, 0)
    for step in program:
        ask(core, step)

    def kernel():
        prewritten(LocalTensor(float32, TPosition.VECCALC, 0, 64))
        for step in program:
            do(step)

    result = launch(kernel)
    assert bool(found(result)) == oracle.races


@given(st.lists(st.tuples(steps, steps, st.sampled_from([None, *AIV_PIPES])), min_size=1, max_size=3))
def test_races_between_cores_are_found_exactly_where_the_graph_has_one(phases):
    """Two blocks touch one allocation in GM, in phases that SyncAll divides, or cross-core flags from one pipe."""
    oracle = Oracle()
    cores = [OracleCore(oracle, 0), OracleCore(oracle, 1)]
    for *phase, pipe in phases:
        for core, program in zip(cores, phase, strict=True):
            for step in program:
                ask(core, step)
        met = oracle.node(*(core.barrier(Pipe.ALL) if pipe is None else core.all_of(pipe) for core in cores))
        for core in cores:
            core.issued.append(met)

    def kernel(z):
        def memory(ranges):
            whole = GlobalTensor(float32).SetGlobalBuffer(z)
            return [whole[start * 8 : (start + length) * 8] for start, length in ranges]

        for phase in phases:
            for step in phase[GetBlockIdx()]:
                do(step, memory)
            if phase[2] is None:
                SyncAll()
            else:
                CrossCoreSetFlag(0, phase[2], 0)
                CrossCoreWaitFlag(0)

    result = launch(kernel, np.zeros(64, np.float32), blocks=2)
    assert bool(found(result)) == oracle.races


def sync(event):
    SetFlag(event, 0)
    WaitFlag(event, 0)


def forgotten(x, z):
    a = LocalTensor(float32, TPosition.VECIN, 0, 64)
    b = LocalTensor(float32, TPosition.VECOUT, 256, 64)
    source = GlobalTensor(float32).SetGlobalBuffer(x)
    for tile in range(2):
        DataCopy(a, source[64 * tile :], 64)
        if tile == 0:
            sync(HardEvent.MTE2_V)
        work(Pipe.V, "Copy", b, a)
        PipeBarrier(Pipe.ALL)
        DataCopy(GlobalTensor(float32).SetGlobalBuffer(z)[64 * tile :], b, 64)
        PipeBarrier(Pipe.ALL)


@pytest.mark.parametrize(("weak", "second"), [(False, 2), (True, 1)])
def test_in_weak_mode_the_reader_sees_the_old_bytes(weak, second):
    x = np.repeat(np.float32([1, 2]), 64)
    z = np.zeros(128, np.float32)
    result = launch(forgotten, x, z, weak=weak)
    assert found(result) == [("RAW", "MTE2_V")]
    assert z.tolist() == [1] * 64 + [second] * 64


def test_in_weak_mode_memory_that_was_never_written_reads_as_poison():
    def kernel(x, z):
        a = LocalTensor(float32, TPosition.VECIN, 0, 64)
        DataCopy(a, GlobalTensor(float32).SetGlobalBuffer(x), 64)
        DataCopy(GlobalTensor(float32).SetGlobalBuffer(z), a, 64)

    z = np.zeros(64, np.float32)
    launch(kernel, np.ones(64, np.float32), z, weak=True)
    assert np.isnan(z).all()


def test_in_weak_mode_what_is_computed_in_place_from_old_bytes_stays():
    def kernel(x, z):
        a = LocalTensor(float32, TPosition.VECIN, 0, 64)
        g = GlobalTensor(float32).SetGlobalBuffer(x)
        DataCopy(a, g, 64)
        PipeBarrier(Pipe.ALL)
        DataCopy(a, g[64:], 64)
        work(Pipe.V, "Adds", a, a, how=lambda v: v + 10)
        sync(HardEvent.V_MTE3)
        DataCopy(GlobalTensor(float32).SetGlobalBuffer(z), a, 64)

    z = np.zeros(64, np.float32)
    result = launch(kernel, np.repeat(np.float32([1, 2]), 64), z, weak=True)
    assert found(result) == [("RAW", "MTE2_V")]
    assert z.tolist() == [11] * 64


@pytest.mark.parametrize("first", [0, 16, 48])
def test_in_weak_mode_a_part_of_what_was_written_is_old(first):
    """A write of 64 elements, of which 16 are read too early."""

    def kernel(x, z):
        a, b = LocalTensor(float32, TPosition.VECIN, 0, 64), LocalTensor(float32, TPosition.VECOUT, 256, 16)
        g, out = GlobalTensor(float32).SetGlobalBuffer(x), GlobalTensor(float32).SetGlobalBuffer(z)
        DataCopy(a, g, 64)
        PipeBarrier(Pipe.ALL)
        DataCopy(a, g[64:], 64)
        work(Pipe.V, "Copy", b, a[first : first + 16])
        PipeBarrier(Pipe.ALL)
        DataCopy(out, b, 16)
        DataCopy(out[16:], a, 64)

    x, z = np.arange(128, dtype=np.float32), np.zeros(80, np.float32)
    result = launch(kernel, x, z, weak=True)
    assert found(result) == [("RAW", "MTE2_V")]
    assert z.tolist() == [*x[first : first + 16], *x[64:]]


def test_in_weak_mode_what_was_overwritten_since_is_not_old():
    def kernel(x, z):
        a, b = LocalTensor(float32, TPosition.VECIN, 0, 64), LocalTensor(float32, TPosition.VECOUT, 256, 16)
        g = GlobalTensor(float32).SetGlobalBuffer(x)
        DataCopy(a, g, 64)
        PipeBarrier(Pipe.ALL)
        DataCopy(a, g[64:], 64)
        work(Pipe.V, "Copy", a[16:], a[16:], how=lambda values: values * 0 + 5)
        work(Pipe.V, "Add", b, a[:16], a[16:32], how=lambda first, second: first + second)
        PipeBarrier(Pipe.ALL)
        DataCopy(GlobalTensor(float32).SetGlobalBuffer(z), b, 16)

    x, z = np.arange(128, dtype=np.float32), np.zeros(16, np.float32)
    launch(kernel, x, z, weak=True)
    assert z.tolist() == (x[:16] + 5).tolist()


def test_in_weak_mode_too_what_is_only_read_is_not_written():
    def kernel(x):
        a, b = LocalTensor(float32, TPosition.VECIN, 0, 8), GlobalTensor(float32).SetGlobalBuffer(x)
        DataCopy(a, b, 8)
        DataCopy(b, a, 8)

    x = np.ones(8, np.float32)
    x.flags.writeable = False
    with pytest.raises(KernelError, match="writes to GM argument 0, which the kernel declares as In"):
        launch(kernel, x, weak=True)


def test_the_same_mistake_in_a_loop_and_on_many_cores_is_one_finding_with_a_count():
    def kernel(x):
        a = LocalTensor(float32, TPosition.VECIN, 0, 64)
        b = LocalTensor(float32, TPosition.VECIN, 256, 64)
        for _ in range(5):
            DataCopy(a, GlobalTensor(float32).SetGlobalBuffer(x), 64)
            work(Pipe.V, "Copy", b, a)
            PipeBarrier(Pipe.ALL)

    result = launch(kernel, np.ones(64, np.float32), blocks=3)
    (finding,) = result.findings
    assert (finding.count, finding.missing, finding.where) == (15, "MTE2_V", "block 0 (AIV)")
    assert str(finding).endswith("missing MTE2_V (15 times)")


def test_rows_side_by_side_are_no_conflict():
    """Two copies into one buffer, row by row in turn, share no byte."""

    def kernel(x):
        a = LocalTensor(float32, TPosition.VECIN, 0, 128)
        g = GlobalTensor(float32).SetGlobalBuffer(x)
        DataCopy(a, g, DataCopyParams(8, 1, 0, 1))
        DataCopy(a[8:], g, DataCopyParams(8, 1, 0, 1))

    assert found(launch(kernel, np.ones(128, np.float32))) == []


def test_every_pair_of_pipes_with_an_event_names_it():
    for core_type, events in EVENTS_OF.items():
        for event in events:
            assert EVENT_OF[event.source, event.destination] is event
            assert str(event) == f"{event.source}_{event.destination}"
            assert core_type in CoreType


@pytest.mark.parametrize(
    ("dst", "src", "params"),
    [
        (0, 40, UnaryRepeatParams(1, 1, 8, 8)),  # close before it
        (80, 40, UnaryRepeatParams(1, 1, 8, 8)),
        (8, 0, UnaryRepeatParams(2, 2, 8, 8)),  # in the gaps between its rows
    ],
)
def test_in_weak_mode_only_the_reader_sees_the_old_bytes(dst, src, params):
    """What it reads is there afterwards, whatever lies beside it and is written by the same instruction."""

    def kernel(x, z):
        tile, g = LocalTensor(float32, TPosition.VECCALC, 0, 128), GlobalTensor(float32).SetGlobalBuffer(x)
        tile.view[:] = 7
        DataCopy(tile, g, 128)
        Adds(tile[dst:], tile[src:], 1, 32, 1, params)
        PipeBarrier(Pipe.ALL)
        DataCopy(GlobalTensor(float32).SetGlobalBuffer(z), tile, 128)

    x, z = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    result = launch(kernel, x, z, weak=True)
    assert found(result) == [("RAW", "MTE2_V"), ("WAW", "MTE2_V")]
    written = dst + np.arange(32) % 8 + np.arange(32) // 8 * 8 * params.dst_blk_stride
    x[written] = 8
    assert z.tolist() == x.tolist()


@pytest.mark.parametrize(("first", "expected"), [(8, []), (0, ["WAR"]), (16, ["WAR"])])
def test_rows_read_from_gm_are_remembered_as_rows(first, expected):
    """Nobody had written when they were read; what is written later between them is no conflict."""

    def kernel(x):
        a = prewritten(LocalTensor(float32, TPosition.VECIN, 0, 64))
        g = GlobalTensor(float32).SetGlobalBuffer(x)
        if GetBlockIdx() == 0:
            DataCopy(a, g, DataCopyParams(4, 1, 1, 0))
        else:
            DataCopy(g[first:], a, 8)

    result = launch(kernel, np.ones(64, np.float32), blocks=2)
    assert [rule for rule, _ in found(result)] == expected
