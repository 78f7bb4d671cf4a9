"""acl_py.ptx: modules are loaded, and their kernels launched like every other."""

from itertools import pairwise

import numpy as np
import pytest

import acl_py as acl
from acl_py import AclError, Kind, MemcpyKind, ptx

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
TRIPLE = (
    HEAD
    + """
.global .align 4 .u32 factor = 3;
.visible .entry triple(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p; .reg .u32 %i, %b, %t, %n, %v, %f; .reg .u64 %x, %y, %o;
    mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %i, %b, %t, %i;
    ld.param.u32 %n, [n]; setp.ge.u32 %p, %i, %n; @%p ret;
    ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; mul.wide.u32 %o, %i, 4; add.u64 %x, %x, %o; add.u64 %y, %y, %o;
    ld.global.u32 %f, [factor];
    ld.global.u32 %v, [%x]; mul.lo.u32 %v, %v, %f; st.global.u32 [%y], %v; ret;
}
"""
)
N = 1000
UP, DOWN = MemcpyKind.HOST_TO_DEVICE, MemcpyKind.DEVICE_TO_HOST


async def filled(values):
    buffer = await acl.Malloc(values.nbytes)
    await acl.Memcpy(buffer, values.nbytes, values, values.nbytes, UP)
    return buffer


async def back(buffer, dtype=np.uint32, count=N):
    values = np.empty(count, dtype)
    await acl.Memcpy(values, values.nbytes, buffer, values.nbytes, DOWN)
    return values


def run(main, **options):
    return acl.run(main, device="h200", rules="cuda", **options)


def kernel(body, parameters=".param .u64 y"):
    return f"{HEAD}.visible .entry k({parameters}) {{ .reg .u64 %a; ld.param.u64 %a, [y]; {body} ret; }}"


def test_a_reset_frees_the_variables_of_modules_once():
    async def main():
        module = await ptx.load(TRIPLE)
        before, _ = await acl.GetMemInfo()
        await acl.ResetDevice(0)
        after, _ = await acl.GetMemInfo()
        await module.unload()
        return before < after == (await acl.GetMemInfo())[0]

    assert run(main)


def test_a_kernel_runs_in_its_stream_and_what_it_stores_is_there_behind_it():
    async def main():
        values = np.arange(N, dtype=np.uint32)
        x, y, stream = await filled(values), await acl.Malloc(values.nbytes), await acl.CreateStream()
        module = await ptx.load(TRIPLE)
        assert list(module) == ["triple"]
        op = await module["triple"][4, 256, stream](acl.Array(x, np.uint32), y, N)
        await acl.SynchronizeStream(stream)
        assert np.array_equal(await back(y), values * 3)
        assert op.work.result.timeline.duration_ns == op.end_ns - op.start_ns
        return [finding.text for finding in op.work.result.findings]

    assert run(main) == []


def test_each_launch_of_a_kernel_that_touches_nothing_takes_the_time_of_its_own_shape():
    async def main():
        module, stream = await ptx.load(f"{HEAD}.visible .entry k() {{ ret; }}"), await acl.CreateStream()
        shapes = [(1, 32), (1, 32), (1000, 1024), (1, 32), (1000, 1024)]
        ops = [await module["k"][grid, block, stream]() for grid, block in shapes]
        await acl.SynchronizeStream(stream)
        one, other = (ops[number].work.result for number in (0, 1))
        one.messages.append((0, 0, "a result of its own"))
        assert other.messages == []
        return [op.end_ns - op.start_ns for op in ops]

    small, large = 993, 3033
    assert run(main) == [small, small, large, small, large]


def test_a_launch_whose_time_is_known_before_its_start_holds_its_sms_to_its_end():
    async def main():
        module = await ptx.load(f"{HEAD}.visible .entry k() {{ ret; }}")
        one, other = await acl.CreateStream(), await acl.CreateStream()
        history = []
        for _ in range(2):  # the first of all launches runs its lanes
            op = await module["k"][10_000, 1024, one]()
            before = op.work.result
            beside = await module["k"][1, 32, other]()
            await acl.SynchronizeDevice()
            history.append((before, op.end_ns - op.start_ns, beside.start_ns - op.end_ns))
            assert op.work.result.timeline.duration_ns == op.end_ns - op.start_ns
        return history

    assert run(main) == [(None, 22_815, 0)] * 2


def test_a_launch_whose_time_is_known_before_its_start_takes_none_behind_a_failure():
    async def main():
        module = await ptx.load(f"{HEAD}.visible .entry k() {{ ret; }} .visible .entry bad() {{ trap; }}")
        stream = await acl.CreateStream()
        await module["k"][1, 32, stream]()
        await module["k"][10_000, 1024, stream]()
        bad, op = await module["bad"][1, 32, stream](), await module["k"][1, 32, stream]()
        for _ in range(2):
            with pytest.raises(acl.AclError, match="trap"):
                await acl.SynchronizeDevice()
        return op.start_ns - bad.end_ns, op.end_ns - op.start_ns, op.work.result

    assert run(main) == (750, 0, None)


def test_a_variable_of_a_module_is_memory_that_the_host_can_change():
    async def main():
        x, y = await filled(np.ones(N, np.uint32)), await acl.Malloc(4 * N)
        module = await ptx.load(TRIPLE)
        seven = np.array([7], np.uint32)
        await acl.Memcpy(module.variable("factor"), 4, seven, 4, UP)
        await module["triple"][(4, 1), 256](x, y, N)
        await acl.SynchronizeDevice()
        assert (await back(y)).tolist() == [7] * N
        with pytest.raises(KeyError, match="there is no variable 'other' in the module; it has factor"):
            module.variable("other")

    run(main)


def test_what_does_not_fit_is_refused_before_the_launch():
    async def main():
        x = await acl.Malloc(4 * N)
        launch = (await ptx.load(TRIPLE))["triple"]
        with pytest.raises(TypeError, match="kernel triple takes 3 arguments, not 2"):
            await launch[4, 256](x, x)
        with pytest.raises(
            ValueError, match=r"argument 2 of kernel triple is 4294967296, and \.u32 holds -2147483648 to"
        ):
            await launch[4, 256](x, x, 1 << 32)
        with pytest.raises(TypeError, match=r"argument 2 of kernel triple is 1\.5"):
            await launch[4, 256](x, x, 1.5)
        for where, what in (((4, (1, 1, 65)), "blocks of"), (((4, 70000), 256), "grid of"), ((4, 2048), "blocks of")):
            with pytest.raises(AclError, match=what) as caught:
                await launch[where](x, x, N)
            assert caught.value.kind is Kind.INVALID_LAUNCH
        with pytest.raises(AclError, match="host memory that the device cannot reach"):
            await launch[4, 256](np.ones(4, np.uint32), x, N)
        with pytest.raises(AclError, match=r"call allow_shared\(50000\) of the kernel before"):
            await launch[4, 256, None, 50000](x, x, N)
        launch.allow_shared(50000)
        await launch[4, 256, None, 50000](x, x, 0)
        launch.allow_shared(0)  # a shape that was launched before is checked again
        with pytest.raises(AclError, match=r"call allow_shared\(50000\) of the kernel before"):
            await launch[4, 256, None, 50000](x, x, 0)
        with pytest.raises(TypeError, match=r"is launched as kernel\[grid, block, stream, shared\]"):
            launch[4]
        await acl.SynchronizeDevice()

    run(main)


@pytest.mark.parametrize(
    ("given", "error", "what"),
    [
        (None, TypeError, "a module is the text of PTX, as str or bytes, not None"),
        ([TRIPLE], TypeError, "as str or bytes, not ["),
        ("kernels.ptx", ptx.PtxError, "does not begin with .version, as PTX does; give the text itself"),
        (b"\x7fELF\x02", ptx.PtxError, "this is machine code (a cubin), and PTX is a text; compile to PTX"),
        (b"\x50\xed\x55\xba\x01", ptx.PtxError, "a container of machine code (a fatbin)"),
    ],
)
def test_what_is_no_text_of_ptx_is_refused(given, error, what):
    async def main():
        with pytest.raises(error) as caught:
            await ptx.load(given)
        return str(caught.value)

    assert what in run(main)


def test_a_text_may_be_bytes_of_any_kind():
    async def main():
        return [[*await ptx.load(kind(TRIPLE.encode()))] for kind in (bytes, bytearray, memoryview)]

    assert run(main) == [["triple"]] * 3


def test_arguments_have_no_names_and_numbers_too_large_for_a_float_are_infinite():
    text = kernel(".reg .f32 %f; ld.param.f32 %f, [f]; st.global.f32 [%a], %f;", ".param .u64 y, .param .f32 f")

    async def main():
        y, module = await acl.Malloc(4), await ptx.load(text)
        with pytest.raises(TypeError, match="takes its arguments in their order, without names such as f"):
            await module["k"][1, 1](y, f=1.0)
        await module["k"][1, 1](y, 1e300)
        await acl.SynchronizeDevice()
        return (await back(y, np.float32, 1)).tolist()

    assert run(main) == [np.inf]


@pytest.mark.parametrize("nbytes", [-1, 10**9])
def test_no_more_shared_memory_is_allowed_than_a_block_has(nbytes):
    async def main():
        module = await ptx.load(TRIPLE)
        with pytest.raises(AclError, match=r"bytes of dynamic shared memory; a block of it has 0 to 232448 bytes"):
            module["triple"].allow_shared(nbytes)

    run(main)


@pytest.mark.parametrize(("source", "options", "what"), [(5, (), "must be a str, not 5"), ("", "-G", "sequence of")])
def test_a_compiler_gets_a_text_and_a_sequence_of_options(source, options, what):
    with pytest.raises(TypeError, match=what):
        ptx.compile(source, options)


def test_structures_and_scalars_of_numpy_are_passed_as_their_bytes():
    body = """
        .reg .u32 %v; .reg .f64 %d; ld.param.u32 %v, [s+8]; st.global.u32 [%a], %v;
        ld.param.f64 %d, [d]; st.global.f64 [%a+8], %d;"""

    async def main():
        y = await acl.Malloc(16)
        record = np.array((5, 77, 0), [("a", "u8"), ("b", "u4"), ("c", "u4")])
        launch = (await ptx.load(kernel(body, ".param .u64 y, .param .align 8 .b8 s[16], .param .f64 d")))["k"]
        await launch[1, 1](y, record, np.float64(2.5))
        await acl.SynchronizeDevice()
        held = await back(y, np.uint8, 16)
        assert (held[:4].view(np.uint32)[0], held[8:].view(np.float64)[0]) == (77, 2.5)
        with pytest.raises(ValueError, match=r"argument 1 of kernel k has 3 bytes, and the parameter is \.align 8"):
            await launch[1, 1](y, b"abc", 1.0)

    run(main)


def test_an_access_out_of_bounds_is_an_error_of_the_launch_with_its_line():
    async def main():
        y = await acl.Malloc(16)
        await (await ptx.load(kernel(".reg .u32 %t; mov.u32 %t, 1;\nst.global.u32 [%a+16], %t;")))["k"][1, 1](y)
        with pytest.raises(AclError) as caught:
            await acl.SynchronizeDevice()
        assert caught.value.kind is Kind.ILLEGAL_ADDRESS
        assert "block 0, thread 0: an access of 4 bytes" in str(caught.value)
        assert "in PTX line 5" in str(caught.value)

    run(main)


def test_a_race_in_shared_memory_is_a_finding_of_the_simulation():
    body = """
        .shared .b8 s[256]; .reg .u32 %t, %r, %n; mov.u32 %t, %tid.x; shl.b32 %r, %t, 2;
        st.shared.u32 [%r], %t;
        xor.b32 %n, %r, 128; ld.shared.u32 %n, [%n]; add.u64 %a, %a, 0; st.global.u32 [%a], %n;"""

    async def main():
        y = await acl.Malloc(256)
        await (await ptx.load(kernel(body)))["k"][1, 64](y)
        await acl.SynchronizeDevice()
        return [finding.missing for finding in acl.current_simulation().findings]

    assert "bar.sync" in run(main)


def test_two_streams_that_touch_the_same_bytes_are_a_race_and_those_beside_them_are_none():
    async def main():
        first, second = await acl.CreateStream(), await acl.CreateStream()
        x, y, host = await filled(np.ones(N, np.uint32)), await acl.Malloc(8 * N), await acl.MallocHost(4 * N)
        await acl.Memset(y, 8 * N, 0, 8 * N)
        launch = (await ptx.load(TRIPLE))["triple"]
        await launch[4, 256, first](x, y, N)
        await acl.MemcpyAsync(host, 4 * N, y[4 * N :], 4 * N, DOWN, second)
        await acl.SynchronizeDevice()
        beside = len(acl.current_simulation().findings)
        await launch[4, 256, first](x, y, N)
        await acl.MemcpyAsync(host, 4 * N, y, 4 * N, DOWN, second)
        await acl.SynchronizeDevice()
        races = [finding.text for finding in acl.current_simulation().findings]
        for each in (first, second):
            await acl.DestroyStream(each)
        for each in (x, y):
            await acl.Free(each)
        await acl.FreeHost(host)
        return beside, races

    beside, races = run(main, sanitize=True)
    assert beside == 0
    assert len(races) == 1
    assert "kernel 'triple'" in races[0]


def test_what_lanes_print_is_written_when_the_kernel_ends(capsys):
    text = (
        HEAD + ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
        ".global .align 1 .b8 f[4] = {104, 105, 10};\n.visible .entry k() { .reg .u64 %f; mov.u64 %f, f;"
        "{ .param .b64 p0; st.param.b64 [p0], %f; .param .b64 p1; st.param.b64 [p1], 0; .param .b32 r0;"
        "call (r0), vprintf, (p0, p1); } ret; }"
    )

    async def main():
        await (await ptx.load(text))["k"][1, 2]()
        await acl.SynchronizeDevice()

    run(main)
    assert capsys.readouterr().out == "hi\nhi\n"


def test_a_table_of_functions_holds_what_calls_through_registers_need():
    text = (
        HEAD
        + """
        .func (.param .u32 r) one() { st.param.u32 [r], 1; ret; }
        .func (.param .u32 r) two() { st.param.u32 [r], 2; ret; }
        .global .align 8 .u64 table[2] = {one, two};
        .visible .entry k(.param .u64 y) {
        .reg .u64 %a, %o, %f; .reg .u32 %t, %v; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 8; mov.u64 %f, table;
        add.u64 %f, %f, %o; ld.global.u64 %f, [%f]; ld.param.u64 %a, [y]; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o;
        { .param .u32 r0; proto: .callprototype (.param .u32 _) _ (); call (r0), %f, (), proto;
        ld.param.u32 %v, [r0]; } st.global.u32 [%a], %v; ret; }"""
    )

    async def main():
        y = await acl.Malloc(8)
        await (await ptx.load(text))["k"][1, 2](y)
        await acl.SynchronizeDevice()
        return (await back(y, count=2)).tolist()

    assert run(main) == [1, 2]


def test_a_cooperative_launch_has_no_more_blocks_than_the_card_holds():
    async def main():
        y = await acl.Malloc(16)
        launch = (await ptx.load(kernel("")))["k"].cooperative()
        await launch[132, 1024](y)
        with pytest.raises(AclError, match="the card holds 264"):
            await launch[265, 1024](y)
        await acl.SynchronizeDevice()

    run(main)


def test_a_card_without_sms_has_no_modules():
    async def main():
        with pytest.raises(AclError, match="profile ascend910b1 does not describe any"):
            await ptx.load(TRIPLE)

    acl.run(main, device="ascend910b1", rules="cuda")


def test_a_launch_behind_a_free_in_its_stream_order_still_has_its_memory():
    async def main():
        stream = await acl.CreateStream()
        x = await filled(np.ones(N, np.uint32))
        y = await acl.MallocAsync(4 * N, stream)
        host = await acl.MallocHost(4 * N)
        await (await ptx.load(TRIPLE))["triple"][4, 256, stream](x, y, N)
        await acl.MemcpyAsync(host, 4 * N, y, 4 * N, DOWN, stream)
        await acl.FreeAsync(y, stream)
        await acl.SynchronizeStream(stream)
        return host.numpy(np.uint32).tolist()

    assert run(main) == [3] * N


def test_a_trace_covers_very_many_ranges_by_fewer_and_the_launch_knows_them_all():
    byte = kernel(
        ".reg .u32 %i, %t, %b; .reg .u64 %o; .reg .u16 %v; mov.u32 %b, %ctaid.x; mov.u32 %t, %tid.x;"
        "mad.lo.u32 %i, %b, 512, %t; mul.wide.u32 %o, %i, 8; add.u64 %a, %a, %o; ld.global.u8 %v, [%a];"
    )

    async def main():
        y = await filled(np.zeros(8 * 8192, np.uint8))
        op = await (await ptx.load(byte))["k"][16, 512](y)
        await acl.SynchronizeDevice()
        return op.work.reads(), acl.current_simulation().trace.ops[-1].reads

    exact, kept = run(main)
    assert [(start, stop) for _, start, stop in exact] == [(8 * each, 8 * each + 1) for each in range(8192)]
    assert len(kept) == 4096
    assert (kept[0].start, kept[-1].stop) == (0, 8 * 8191 + 1)
    assert all(one.stop < two.start for one, two in pairwise(kept))


@pytest.mark.parametrize(("apart", "found"), [(4, []), (0, ["RACE"])])
@pytest.mark.parametrize("in_graph", [False, True], ids=["streams", "graph"])
def test_kernels_that_have_not_run_yet_race_only_for_the_bytes_that_they_touch(in_graph, apart, found):
    async def main():
        buffer, pinned = await acl.Malloc(1 << 20), await acl.MallocHost(1 << 20)
        streams = [await acl.CreateStream(nonblocking=True) for _ in "12"]
        store = (await ptx.load(kernel("st.global.u32 [%a], 7;")))["k"]
        if in_graph:
            graph = await acl.GraphCreate()
            for place in (0, apart):
                await acl.GraphAddNode(graph, lambda stream, place=place: store[1, 1, stream](buffer + place))
            executable = await acl.GraphInstantiate(graph)
            for _ in range(2):
                await acl.GraphLaunch(executable, streams[0])
        else:
            for number, (stream, place) in enumerate(zip(streams, (0, apart), strict=True)):
                half = 1 << 19
                await acl.MemcpyAsync(pinned + number * half, half, buffer + half, half, DOWN, stream)
                await store[1, 1, stream](buffer + place)
        await acl.SynchronizeDevice()
        return [finding.kind.name for finding in acl.current_simulation().findings]

    assert run(main, sanitize="device") == found
