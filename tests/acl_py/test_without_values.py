"""Runs without values: the times, the order and the findings of order are those of a run with values; what needs a
value is refused by name.
"""

from functools import partial

import numpy as np
import pytest
from histories import history
from hypothesis import given
from hypothesis import strategies as st

import acl_py as acl
from acl_py import AclError, Array, Cost, In, InOut, Kind, MemcpyKind, Out, ReduceOp, asc, cta, faults, ptx
from acl_py.explain.optimiser import document
from acl_py.programs.format import ProgramError, parse
from acl_py.programs.replay import replay
from tests.collectives import programs

N, NBYTES = 256, 1024
UP, DOWN, ACROSS = MemcpyKind.HOST_TO_DEVICE, MemcpyKind.DEVICE_TO_HOST, MemcpyKind.DEVICE_TO_DEVICE
ran = []


@acl.kernel(cost=Cost(us=5))
def double(x: In, y: Out):
    ran.append("double")
    np.multiply(x, 2, out=y)


@acl.block_kernel(cost=lambda x: Cost(bytes=x.nbytes))
def increment(block, x: InOut):
    ran.append("increment")
    x[block] += 1


@cta.kernel(threads=64)
def add_blocks(x: cta.In, y: cta.Out, count: int):
    """Loads, shared memory, a barrier, a shuffle, and a store: none of it depends on what is loaded."""
    i = cta.block[0] * 64 + cta.tid
    s = cta.shared(np.float32, 64)
    with cta.where(i < count):
        s[cta.tid] = np.exp(x[i]) + cta.shfl_xor(x[i], 1)
    cta.syncthreads()
    with cta.where(i < count):
        y[i] = cta.select(s[63 - cta.tid] > 1, s[cta.tid], 0.0)


@asc.kernel
def add_tiles(x: asc.In, y: asc.Out):
    pipe, tile = asc.TPipe(), 128
    arriving, leaving = asc.TQue(asc.TPosition.VECIN, 2), asc.TQue(asc.TPosition.VECOUT, 2)
    for queue in (arriving, leaving):
        pipe.InitBuffer(queue, 2, tile * 4)
    for at in range(tile * asc.GetBlockIdx(), N, tile * asc.GetBlockNum()):
        local = arriving.AllocTensor(asc.float32)
        asc.DataCopy(local, asc.GlobalTensor(asc.float32).SetGlobalBuffer(x)[at:], tile)
        arriving.EnQue(local)
        local, result = arriving.DeQue(asc.float32), leaving.AllocTensor(asc.float32)
        asc.Exp(result, local, tile)
        asc.Adds(result, result, 1.0, tile)
        leaving.EnQue(result)
        arriving.FreeTensor(local)
        result = leaving.DeQue(asc.float32)
        asc.DataCopy(asc.GlobalTensor(asc.float32).SetGlobalBuffer(y)[at:], result, tile)
        leaving.FreeTensor(result)


HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
TRIPLE = (
    HEAD
    + """
.visible .entry triple(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p, %q; .reg .u32 %i, %b, %t, %n, %v; .reg .u64 %x, %y, %o;
    mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %i, %b, %t, %i;
    ld.param.u32 %n, [n]; setp.ge.u32 %p, %i, %n; @%p ret;
    ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; mul.wide.u32 %o, %i, 4; add.u64 %x, %x, %o; add.u64 %y, %y, %o;
    ld.global.u32 %v, [%x]; setp.gt.u32 %q, %v, 7; selp.u32 %v, %v, 7, %q; @%q add.u32 %v, %v, 1;
    st.global.u32 [%y], %v; ret;
}
"""
)


class Program:
    """What random steps work on: two streams, three buffers, an event, and host memory."""

    def __init__(self, kernels):
        self.kernels = kernels

    async def run(self, steps):
        self.streams = [await acl.CreateStream(), await acl.CreateStream()]
        self.buffers = [await acl.Malloc(NBYTES) for _ in range(3)]
        self.host = await acl.MallocHost(NBYTES)
        self.array = np.zeros(N, np.float32)
        self.event = await acl.CreateEvent()
        self.module = await ptx.load(TRIPLE) if triple in self.kernels else None
        for kind, number, first, second in steps:
            await getattr(self, kind)(number, self.streams[number % 2], self.buffers[first], self.buffers[second])
        await acl.SynchronizeDevice()
        sim = acl.current_simulation()
        return history(sim), sim.now_ns, [(each.kind, each.text) for each in sim.findings]

    async def copy(self, number, stream, x, y):
        size = NBYTES >> number
        source, target, kind = ((x, y, ACROSS), (self.host, x, UP), (x, self.host, DOWN))[number % 3]
        await acl.MemcpyAsync(target, size, source, size, kind, stream)

    async def pageable(self, number, stream, x, _):
        if number % 2:
            await acl.MemcpyAsync(x, NBYTES, self.array, NBYTES, UP, stream)
        else:
            await acl.Memcpy(self.array, NBYTES, x, NBYTES, DOWN)

    async def fill(self, number, stream, x, _):
        await acl.MemsetAsync(x, NBYTES, number, NBYTES, stream)

    async def write(self, number, stream, x, _):
        await acl.ValueWrite(x, number, 0, stream)

    async def event_between(self, _, stream, *__):
        other = self.streams[stream is self.streams[0]]
        await acl.RecordEvent(self.event, stream)
        await acl.StreamWaitEvent(other, self.event)

    async def wait(self, _, stream, *__):
        await acl.SynchronizeStream(stream)

    async def launch(self, number, stream, x, y):
        await self.kernels[number % len(self.kernels)](self, stream, Array(x, np.float32), Array(y, np.float32))


async def array_kernel(_, stream, x, y):
    await double[4, stream](x, y)


async def block_kernel(_, stream, x, __):
    await increment[8, stream](x)


async def thread_blocks(_, stream, x, y):
    await add_blocks[N // 64, stream](x, y, N - 5)


async def tiles(_, stream, x, y):
    await add_tiles[3, stream](x, y)


async def triple(program, stream, x, y):
    await program.module["triple"][N // 128, 128, stream](x, y, N - 5)


KINDS = ("copy", "pageable", "fill", "write", "event_between", "wait", "launch")
STEPS = st.lists(
    st.tuples(st.sampled_from((*KINDS, "launch")), st.integers(0, 5), st.integers(0, 2), st.integers(0, 2)),
    min_size=1, max_size=10,
)  # fmt: skip


def both(main, **options):
    """What *main* returns with values and without."""
    return [acl.run(main, workers=1, values=values, **options) for values in (True, False)]


@given(STEPS)
def test_programs_with_kernels_of_a_gpu_have_the_same_times_and_races_without_values(steps):
    program = Program((array_kernel, block_kernel, thread_blocks, triple))
    with_values, without = both(partial(program.run, steps), device="h200", sanitize="device,host")
    assert without == with_values


@given(STEPS)
def test_programs_with_kernels_of_ai_cores_have_the_same_times_and_races_without_values(steps):
    program = Program((array_kernel, block_kernel, tiles))
    with_values, without = both(partial(program.run, steps), device="ascend910b1", sanitize="device,host")
    assert without == with_values


@pytest.mark.parametrize("seed", range(12))
def test_programs_of_ranks_end_at_the_same_times_without_values(seed):
    def outcome(main, values):
        async def timed():
            try:
                await main()
            finally:
                histories.append((history(acl.current_simulation()), acl.current_simulation().now_ns))

        try:
            acl.run(timed, values=values, workers=1)
        except acl.DeadlockError as error:
            histories.append(str(error))

    program = programs.random_program(seed)
    histories = []
    for values in (True, False):
        programs.in_tasks(program, seed, partial(outcome, values=values))
    half = len(histories) // 2
    assert histories[:half] == histories[half:]


async def test_no_bytes_move_and_no_function_of_an_array_kernel_runs():
    ran.clear()
    async with acl.simulate(device="tiny", values=False) as sim:
        x, y = await acl.Malloc(NBYTES), await acl.Malloc(NBYTES)
        back = np.full(N, 7, np.float32)
        await acl.Memcpy(x, NBYTES, np.ones(N, np.float32), NBYTES, UP)
        await double[4](Array(x, np.float32), Array(y, np.float32))
        await increment[8](Array(y, np.float32))
        await acl.Memcpy(back, NBYTES, y, NBYTES, DOWN)
        assert not sim.values
        assert "values are off: no bytes have moved, and findings about bytes are off" in sim.report()
    assert not ran
    assert (back == 7).all()


async def test_host_functions_run_and_memory_that_is_gone_fails_as_with_values():
    called = []
    async with acl.simulate(device="tiny", rules="cuda", values=False):
        stream, x = await acl.CreateStream(), await acl.MallocAsync(NBYTES)
        await acl.LaunchHostFunc(stream, called.append, [1])
        await acl.SynchronizeStream(stream)
        await acl.FreeAsync(x)
        with pytest.raises(AclError, match="freed"):
            await acl.MemsetAsync(x, NBYTES, 0, NBYTES, stream)
    assert called == [1]


async def test_a_run_without_values_takes_no_memory_for_what_devices_hold():
    async with acl.simulate(device="h200", values=False):
        x, y = await acl.Malloc(60 << 30), await acl.Malloc(60 << 30)
        await acl.Memset(x, 60 << 30, 1, 60 << 30)
        await acl.MemcpyAsync(y, 60 << 30, x, 60 << 30, ACROSS)
        await acl.SynchronizeDevice()


def refusal(parts):
    return pytest.raises(AclError, match="(?s)" + ".*".join(parts))


async def test_what_asks_for_a_value_of_the_host_is_refused_by_name():
    async with acl.simulate(device="h200", values=False):
        host, x = await acl.MallocHost(NBYTES), await acl.Malloc(NBYTES)
        managed = await acl.MallocManaged(NBYTES)
        for name, buffer in (("pinned", host), ("managed", managed)):
            with refusal((r"numpy\(\) of <Allocation " + name, "values=False", "current_simulation")) as raised:
                buffer.numpy()
            assert raised.value.kind is Kind.NOT_SUPPORTED
        with refusal((r"numpy\(\)",)):
            np.asarray(host)
        with refusal((r"ValueWait\(\) needs a value", "values=False")):
            await acl.ValueWait(x, 1)
        graph = await acl.GraphCreate()
        with refusal(("a conditional node needs a value",)):
            await acl.GraphAddIfNode(graph)
        with refusal(("a conditional node needs a value",)):
            await acl.GraphAddConditionalNode(graph, acl.Condition(0), acl.NodeKind.WHILE)
        assert not graph.nodes


async def test_a_fault_that_changes_bytes_is_refused():
    async with acl.simulate(device="tiny", values=False) as sim:
        with pytest.raises(ValueError, match=r"corrupt.* changes bytes, and values=False"):
            sim.fault(faults.corrupt(op="h2d"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effects": "weak"}, "effects='weak' with values=False"),
        ({"sanitize": "device,digest"}, "the part digest looks at bytes"),
        ({"sanitize": "uninitialised"}, "the part uninitialised looks at bytes"),
    ],
)
def test_options_that_look_at_bytes_are_refused(options, message):
    async def main():
        pass

    with pytest.raises(ValueError, match=message):
        acl.run(main, values=False, **options)


def test_values_is_true_or_false():
    async def main():
        pass

    with pytest.raises(TypeError, match="values must be True or False, not 0"):
        acl.run(main, values=0)


# --- kernels that look at what memory holds


@cta.kernel(threads=32)
def branches(x: cta.In, y: cta.Out):
    with cta.where(x[cta.tid] > 0):
        y[cta.tid] = 1.0


@cta.kernel(threads=32)
def indexes(x: cta.In, y: cta.Out):
    y[x[cta.tid].astype(np.int32)] = 1.0


@cta.kernel(threads=32)
def indexes_by_parts(x: cta.In, y: cta.Out):
    """The ids of a register are those of its last four parts; the first one was loaded."""
    parts = cta.full(8, 0, np.int32)
    parts[:, 0] = x[cta.tid].astype(np.int32)
    for part in range(1, 8):
        parts[:, part] = cta.tid
    y[parts[:, 0]] = 1.0


@cta.kernel(threads=32)
def indexes_a_stack(x: cta.In, y: cta.Out):
    y[np.stack([cta.tid, x[cta.tid].astype(np.int32)], axis=1)[:, 1]] = 1.0


@cta.kernel(threads=32)
def shuffles_by_value(x: cta.In, y: cta.Out):
    y[cta.shfl(cta.tid, x[cta.tid].astype(np.int32))] = 1.0


@cta.kernel(threads=32)
def votes(x: cta.In, y: cta.Out):
    with cta.where(cta.any_sync(x[cta.tid] > 0)):
        y[cta.tid] = 1.0


@cta.kernel(threads=32)
def adds_atomically(x: cta.InOut, y: cta.Out):
    y[cta.atomic_add(x.at[cta.tid], 1.0).astype(np.int32)] = 1.0


@cta.kernel(threads=32)
def prints(x: cta.In, y: cta.Out):
    cta.printf("%f", x[cta.tid])
    y[cta.tid] = 0.0


@cta.kernel(threads=32)
def copies_so_many(x: cta.In, y: cta.Out):
    s = cta.shared(np.float32, (32,))
    cta.cp_async(s.at[cta.tid], x.at[cta.tid], 4, src_size=x[cta.tid].astype(np.int32))
    cta.wait_all()
    y[cta.tid] = s[cta.tid]


OF_BLOCKS = {
    branches: r"where\(\)",
    indexes: "an index of <global y",
    indexes_by_parts: "an index of <global y",
    indexes_a_stack: "an index of <global y",
    shuffles_by_value: "an index of <global y",
    votes: r"where\(\)",
    adds_atomically: "an index of <global y",
    prints: r"printf\(\)",
    copies_so_many: "the size of a copy",
}


@pytest.mark.parametrize("kernel", OF_BLOCKS, ids=lambda each: each.name)
async def test_a_thread_block_kernel_that_needs_what_it_has_loaded_fails_by_name(kernel):
    async with acl.simulate(device="h200", values=False):
        x, y = [Array(await acl.Malloc(NBYTES), np.float32) for _ in range(2)]
        await kernel[1](x, y)
        with refusal((OF_BLOCKS[kernel] + r".* at test_without_values.py:\d+ depends on what memory holds",)):
            await acl.SynchronizeDevice()


@asc.kernel
def reads_a_number(x: asc.In, y: asc.Out):
    if asc.GlobalTensor(asc.float32).SetGlobalBuffer(x).GetValue(0) > 0:
        asc.PipeBarrier(asc.Pipe.ALL)


@asc.kernel
def gathers(x: asc.In, y: asc.Out):
    dst, src, offsets = (asc.LocalTensor(kind, asc.TPosition.VECCALC, 1024 * place, 64)
                         for place, kind in enumerate((asc.float32, asc.float32, asc.uint32)))  # fmt: skip
    asc.Gather(dst, src, offsets, 0, 64)


@asc.kernel
def dumps(x: asc.In, y: asc.Out):
    asc.DumpTensor(asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 64), 1, 8)


OF_CORES = {reads_a_number: r"GetValue\(0\)", gathers: "Gather by the offsets", dumps: "DumpTensor"}


@pytest.mark.parametrize("kernel", OF_CORES, ids=lambda each: each.name)
async def test_a_kernel_of_ai_cores_that_looks_at_memory_fails_by_name(kernel):
    async with acl.simulate(device="ascend910b1", values=False):
        x, y = [Array(await acl.Malloc(NBYTES), np.float32) for _ in range(2)]
        await kernel[1](x, y)
        with refusal((OF_CORES[kernel] + r".* at test_without_values.py:\d+ needs values",)):
            await acl.SynchronizeDevice()


def body(code):
    return HEAD + (
        ".visible .entry k(.param .u64 x, .param .u64 y) {\n"
        ".reg .pred %p; .reg .u32 %v, %w; .reg .u64 %x, %y, %o; .shared .align 4 .b8 s[128];\n"
        "ld.param.u64 %x, [x]; ld.param.u64 %y, [y];\n" + code + "\nret; }\n"
    )


INTO = "add.u64 %y, %y, %o; st.global.u32 [%y], %v;"
LOOKS = {
    "a branch": (
        "ld.global.u32 %v, [%x]; setp.eq.u32 %p, %v, 0;\n@%p bra done;\nst.global.u32 [%y], %v;\ndone:",
        "whether bra is done depends on what memory holds, in PTX line 8",
    ),
    "a guard of a store": (
        "ld.global.u32 %v, [%x]; setp.eq.u32 %p, %v, 0;\n@%p st.global.u32 [%y], %v;",
        "whether st.global.u32 is done depends on",
    ),
    "an address": (
        "ld.global.u32 %v, [%x]; mul.wide.u32 %o, %v, 4; add.u64 %y, %y, %o; st.global.u32 [%y], %v;",
        "the address of st.global.u32 depends on",
    ),
    "an address through shared memory": (
        "ld.global.u32 %v, [%x]; st.shared.u32 [s], %v; ld.shared.u32 %w, [s]; mul.wide.u32 %o, %w, 4;" + INTO,
        "the address of st.global.u32 depends on",
    ),
    "an address from an atomic": (
        "atom.global.add.u32 %v, [%x], 1; mul.wide.u32 %o, %v, 4; add.u64 %y, %y, %o; st.global.u32 [%y], %v;",
        "the address of st.global.u32 depends on",
    ),
}


@pytest.mark.parametrize("name", LOOKS)
async def test_a_kernel_in_ptx_that_needs_what_memory_holds_is_refused_at_its_launch(name):
    code, message = LOOKS[name]
    async with acl.simulate(device="h200", values=False):
        x, y = await acl.Malloc(NBYTES), await acl.Malloc(NBYTES)
        module = await ptx.load(body(code))
        with refusal(("<PTX kernel k> with values=False: " + message,)):
            await module["k"][1, 32](x, y)


def test_a_kernel_in_ptx_may_keep_what_it_knows_in_shared_memory():
    code = (
        "mov.u32 %w, %tid.x; st.shared.u32 [s], 3; ld.shared.u32 %w, [s]; mul.wide.u32 %o, %w, 4; add.u64 %y, %y, %o;\n"
        "ld.global.u32 %v, [%x]; st.global.u32 [%y], %v;"
    )

    async def main():
        x, y = await acl.Malloc(NBYTES), await acl.Malloc(NBYTES)
        module = await ptx.load(body(code))
        launched = await module["k"][1, 32](x, y)
        await acl.SynchronizeDevice()
        return [(start, stop) for each, start, stop in launched.work.writes() if each is y.allocation], launched.end_ns

    with_values, without = both(main, device="h200")
    assert without == with_values
    assert without[0] == [(12, 16)]


def test_collectives_reduce_nothing_and_graphs_run_without_values():
    async def main():
        comms = await acl.CommInitAll(2)
        for device, comm in enumerate(comms):
            await acl.SetDevice(device)
            stream, x = await acl.CreateStream(), await acl.Malloc(NBYTES)
            async with acl.capture(stream) as captured:
                await acl.AllReduce(x, x, N, "float32", ReduceOp.SUM, comm, stream)
                await double[4, stream](Array(x, np.float32), Array(x, np.float32))
            executable = await acl.GraphInstantiate(captured)
            await acl.GraphLaunch(executable, stream)
        for device in range(2):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()
        return history(acl.current_simulation())

    with_values, without = both(main, device="h200")
    assert without == with_values
    assert len(without) == 4


def test_a_stream_program_may_say_that_it_has_no_values():
    program = {
        "id": "large",
        "buffers": {"d": {"space": "device", "bytes": 1 << 36}, "p": {"space": "pinned", "bytes": 1 << 36}},
        "values": False,
        "steps": [{"op": "memcpy", "dst": "d", "src": "p", "bytes": 1 << 36}],
    }
    parsed = parse(program)
    assert not parsed.values
    assert parse(document(parsed)) == parsed
    assert replay(parsed).makespan_us > 1e6
    with pytest.raises(ProgramError, match="values: must be true or false, not 0"):
        parse(program | {"values": 0})
