"""Kernels in PTX that wait while simulated time goes on: for a flag, a time, other blocks, other launches."""

import asyncio

import numpy as np
import pytest
from waits import CYCLES_PER_MS, DELAY, SET, SPIN, kernel, load, numbers, run, zeros

import acl_py as acl
from acl_py import AclError, Kind, MemcpyKind
from acl_py.ptx import KernelHangError

UP = MemcpyKind.HOST_TO_DEVICE
STAMP = "mov.u64 %e, %globaltimer; st.global.u64"


async def two():
    """Return two streams."""
    return await acl.CreateStream(), await acl.CreateStream()


def texts(op):
    """The findings of a launch."""
    return [finding.text for finding in op.work.result.findings]


def test_a_delay_by_the_clock_ends_after_its_time():
    async def main():
        y, module = await zeros(), await load(DELAY)
        op = await module["delay"][1, 32](y)
        await acl.SynchronizeDevice()
        return op.end_ns - op.start_ns, await numbers(y, np.uint64, 1), texts(op)

    assert run(main) == (20_001_045, [20 * CYCLES_PER_MS + 51], [])


def test_a_kernel_waits_for_a_flag_that_a_copy_sets(capsys):
    async def main():
        y, module, (one, two_) = await zeros(), await load(SPIN), await two()
        flag = await acl.MallocHost(4)
        flag.numpy(np.uint32)[0] = 7
        spin = await module["spin"][1, 32, one](y)
        copy = await acl.MemcpyAsync(y, 4, flag, 4, UP, two_)
        await acl.SynchronizeStream(one)
        return (spin.start_ns, spin.end_ns), copy.end_ns, await numbers(y, np.uint32, 2), texts(spin)

    assert run(main, sanitize=True) == ((41_700, 45_928), 45_000, [7, 7], [])
    assert "race" not in capsys.readouterr().err


def test_a_kernel_waits_for_a_flag_that_a_kernel_of_another_stream_sets(capsys):
    async def main():
        y, module, (one, two_) = await zeros(), await load(SPIN, DELAY, SET), await two()
        spin = await module["spin"][1, 32, one](y)
        delay = await module["delay"][1, 32, two_](y[32:])
        flag = await module["set"][1, 1, two_](y)
        await acl.SynchronizeStream(one)
        return [(op.start_ns, op.end_ns) for op in (spin, delay, flag)]

    assert run(main, sanitize=True) == [(37_700, 20_047_643), (43_900, 20_044_945), (20_045_695, 20_046_689)]
    assert "race" not in capsys.readouterr().err


def test_a_kernel_waits_for_a_flag_that_the_host_sets_in_its_own_memory():
    async def main():
        module, one = await load(SPIN), await acl.CreateStream()
        shared = await acl.MallocHost(64)
        words = shared.numpy(np.uint32)
        words[:2] = 0
        spin = await module["spin"][1, 32, one](shared)
        await asyncio.sleep(0.005)
        words[0] = 3
        await acl.SynchronizeStream(one)
        return (spin.start_ns, spin.end_ns), words[:2].tolist()

    assert run(main) == ((20_800, 5_024_202), [3, 3])


def test_the_host_sees_what_a_kernel_that_waits_has_stored():
    body = "st.volatile.global.u32 [%y+4], 1; L: ld.volatile.global.u32 %r, [%y]; setp.eq.u32 %p, %r, 0; @%p bra L;"

    async def main():
        module, one = await load(kernel("k", body)), await acl.CreateStream()
        shared = await acl.MallocHost(64)
        words = shared.numpy(np.uint32)
        words[:2] = 0
        op = await module["k"][1, 1, one](shared)
        looks = 0
        while not words[1] and looks < 100:
            looks += 1
            await asyncio.sleep(1e-5)
        words[0] = 1
        await acl.SynchronizeStream(one)
        return looks, op.start_ns, op.end_ns

    assert run(main) == (1, 20_800, 34_219)


PING = kernel(
    "ping",
    """mov.u32 %n, 0;
    N: st.volatile.global.u32 [%y], 1;
    L: ld.volatile.global.u32 %r, [%z]; setp.eq.u32 %p, %r, 0; @%p bra L; st.volatile.global.u32 [%z], 0;
    add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 5; @%p bra N;""",
    "z",
)
PONG = kernel(
    "pong",
    """mov.u32 %n, 0;
    L: ld.volatile.global.u32 %r, [%y]; setp.eq.u32 %p, %r, 0; @%p bra L; st.volatile.global.u32 [%y], 0;
    st.volatile.global.u32 [%z], 1;
    add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 5; @%p bra L;""",
    "z",
)


def test_two_launches_pass_a_flag_to_and_fro(capsys):
    async def main():
        y, module, (one, two_) = await zeros(), await load(PING, PONG), await two()
        ping = await module["ping"][1, 1, one](y, y[8:])
        pong = await module["pong"][1, 1, two_](y, y[8:])
        await acl.SynchronizeDevice()
        return [(op.start_ns, op.end_ns) for op in (ping, pong)], texts(ping) + texts(pong)

    assert run(main, sanitize=True) == ([(37_700, 48_108), (43_900, 47_157)], [])
    assert "race" not in capsys.readouterr().err


GRID = kernel(
    "grid",
    f"""mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
    setp.ne.u32 %p, %b, 3; @%p bra W;
    mov.u64 %c, %clock64;
    K: mov.u64 %d, %clock64; sub.u64 %d, %d, %c; setp.lt.u64 %p, %d, {CYCLES_PER_MS}; @%p bra K;
    W: bar.sync 0; setp.ne.u32 %p, %t, 0; @%p bra E;
    membar.gl; atom.add.global.u32 %r, [%y], 1;
    L: ld.volatile.global.u32 %r, [%y]; setp.lt.u32 %p, %r, 132; @%p bra L;
    E: bar.sync 0; mul.wide.u32 %c, %b, 8; add.u64 %c, %c, %y; {STAMP} [%c+8], %e;""",
)


def test_a_barrier_of_the_grid_ends_when_its_last_block_has_come():
    async def main():
        y, module = await zeros(2048), await load(GRID)
        op = await module["grid"].cooperative()[132, 128](y)
        await acl.SynchronizeDevice()
        behind = [stamp - op.start_ns for stamp in (await numbers(y, np.uint64, 133))[1:]]
        return op.end_ns - op.start_ns, min(behind), max(behind), texts(op)

    assert run(main) == (1_001_583, 1_000_811, 1_000_819, [])


ROTATION = kernel(
    "rotate",
    """mov.u32 %t, %ctaid.x; add.u32 %n, %t, 1; rem.u32 %n, %n, 132;
    mul.wide.u32 %c, %n, 8; add.u64 %c, %c, %y; ld.global.u64 %d, [%c];
    mov.u32 %b, %envreg1; cvt.u64.u32 %e, %b; shl.b64 %e, %e, 32; mov.u32 %b, %envreg2; cvt.u64.u32 %c, %b;
    or.b64 %e, %e, %c; setp.eq.u64 %p, %e, 0; @%p trap;
    setp.eq.u32 %p, %t, 0; selp.b32 %b, 2147483517, 1, %p;
    atom.add.release.gpu.u32 %r, [%e+4], %b;
    L: ld.acquire.gpu.u32 %b, [%e+4]; xor.b32 %b, %b, %r; setp.gt.s32 %p, %b, -1; @%p bra L;
    mul.wide.u32 %c, %t, 8; add.u64 %c, %c, %y; st.global.u64 [%c], %d;""",
)


def test_a_cooperative_launch_has_a_workspace_in_which_its_blocks_count_themselves():
    """The registers with its address are 0 in every other launch."""

    async def main():
        y, module = await zeros(2048), await load(ROTATION)
        values = np.arange(256, dtype=np.uint64)
        await acl.Memcpy(y, 2048, values, 2048, acl.MemcpyKind.HOST_TO_DEVICE)
        ops = [await module["rotate"].cooperative()[132, 1](y) for _ in range(2)]
        await acl.SynchronizeDevice()
        rotated = await numbers(y, np.uint64, 132)
        await module["rotate"][132, 1](y)
        with pytest.raises(acl.AclError, match="trap"):
            await acl.SynchronizeDevice()
        return rotated, [text for op in ops for text in texts(op)]

    assert run(main) == ([(each + 2) % 132 for each in range(132)], [])


PRODUCER_AND_CONSUMER = kernel(
    "both",
    f"""mov.u32 %b, %ctaid.x; mov.u32 %n, 0; setp.ne.u32 %p, %b, 0; @%p bra C;
    P: mov.u64 %c, %clock64;
    K: mov.u64 %d, %clock64; sub.u64 %d, %d, %c; setp.lt.u64 %p, %d, {CYCLES_PER_MS // 10}; @%p bra K;
    add.u32 %n, %n, 1; st.global.u32 [%y+16], %n; membar.gl; st.volatile.global.u32 [%y], %n;
    R: ld.volatile.global.u32 %r, [%y+4]; setp.ne.u32 %p, %r, %n; @%p bra R; setp.lt.u32 %p, %n, 3; @%p bra P; ret;
    C: add.u32 %n, %n, 1;
    Q: ld.volatile.global.u32 %r, [%y]; setp.ne.u32 %p, %r, %n; @%p bra Q;
    mul.wide.u32 %c, %n, 8; add.u64 %c, %c, %y; {STAMP} [%c+24], %e; membar.gl;
    st.volatile.global.u32 [%y+4], %n; setp.lt.u32 %p, %n, 3; @%p bra C;""",
)


def test_a_block_consumes_what_another_one_produces_each_time_when_it_is_there():
    async def main():
        y, module = await zeros(), await load(PRODUCER_AND_CONSUMER)
        op = await module["both"][2, 1](y)
        await acl.SynchronizeDevice()
        stamps = (await numbers(y, np.uint64, 7))[4:]
        return [stamp - op.start_ns for stamp in stamps], op.end_ns - op.start_ns, texts(op)

    assert run(main) == ([100_804, 201_862, 302_919], 304_186, [])


BACKOFF = kernel(
    "backoff",
    f"""mov.u32 %n, 8;
    L: ld.volatile.global.u32 %r, [%y]; setp.ne.u32 %p, %r, 0; @%p bra D;
    nanosleep.u32 %n; shl.b32 %n, %n, 1; min.u32 %n, %n, 256; bra L;
    D: st.global.u32 [%y+4], %n; {STAMP} [%y+8], %e;""",
)


def test_lanes_that_sleep_longer_and_longer_wake_up_behind_the_flag():
    async def main():
        y, module, (one, two_) = await zeros(), await load(BACKOFF, DELAY, SET), await two()
        op = await module["backoff"][1, 32, one](y)
        await module["delay"][1, 32, two_](y[32:])
        flag = await module["set"][1, 1, two_](y)
        await acl.SynchronizeDevice()
        words, stamps = await numbers(y, np.uint32, 2), await numbers(y, np.uint64, 2)
        return op.start_ns, op.end_ns, flag.end_ns, stamps[1] - flag.end_ns, words

    assert run(main) == (37_700, 20_047_797, 20_046_689, 344, [1, 256])


def test_a_sleep_takes_as_long_as_it_says():
    async def main():
        y = await zeros()
        body = f"{STAMP} [%y], %e; nanosleep.u32 5000; {STAMP} [%y+8], %e;"
        await (await load(kernel("k", body)))["k"][1, 1](y)
        await acl.SynchronizeDevice()
        first, second = await numbers(y, np.uint64, 2)
        return second - first

    assert run(main) == 5_013  # with what the instructions take


def test_the_timer_of_the_card_goes_up_from_kernel_to_kernel():
    async def main():
        y, one = await zeros(), await acl.CreateStream()
        module = await load(kernel("k", f"{STAMP} [%y], %e;"))
        ops = [await module["k"][1, 1, one](y[8 * number :]) for number in range(3)]
        await acl.SynchronizeStream(one)
        return [(op.start_ns, stamp) for op, stamp in zip(ops, await numbers(y, np.uint64, 3), strict=True)]

    assert run(main) == [(32_300, 32_542), (38_500, 38_742), (44_700, 44_942)]


def test_a_flag_that_nothing_sets_is_a_hang_with_its_line():
    async def main():
        y, module = await zeros(), await load(SPIN)
        await module["spin"][1, 32](y)
        with pytest.raises(AclError) as caught:
            await acl.SynchronizeDevice()
        assert caught.value.kind is Kind.LAUNCH_FAILURE
        assert isinstance(caught.value.__cause__, KernelHangError)
        return str(caught.value.__cause__)

    text = (
        "block 0, thread 0 and 31 more: the loop in PTX line 6 repeats without end, and nothing is left that could end"
    )
    assert run(main).startswith(text)


def test_launches_that_do_not_fit_beside_each_other_hang():
    async def main():
        y, module, (one, two_) = await zeros(), await load(SPIN, SET), await two()
        await module["spin"][264, 1024, one](y)
        await module["set"][1, 1, two_](y)
        with pytest.raises(AclError, match="repeats without end"):
            await acl.SynchronizeDevice()

    run(main)


def test_launches_fit_beside_each_other_if_the_one_that_waits_leaves_room():
    async def main():
        y, module, (one, two_) = await zeros(), await load(SPIN, SET), await two()
        spin = await module["spin"][132, 1024, one](y)
        flag = await module["set"][1, 1, two_](y)
        await acl.SynchronizeDevice()
        return [(op.start_ns, op.end_ns) for op in (spin, flag)]

    assert run(main) == [(37_700, 45_842), (43_900, 44_894)]


def test_a_cancelled_wait_leaves_the_kernel_waiting():
    async def main():
        y, module, (one, two_) = await zeros(), await load(SPIN, SET), await two()
        spin = await module["spin"][1, 32, one](y)

        async def stopped():
            async with asyncio.TaskGroup() as group:
                group.create_task(acl.SynchronizeStream(one))
                await asyncio.sleep(0.001)
                raise ValueError("stop")

        with pytest.raises(ExceptionGroup):
            await stopped()
        flag = await module["set"][1, 1, two_](y)
        await acl.SynchronizeStream(one)
        return spin.start_ns, flag.start_ns, spin.end_ns

    assert run(main) == (37_700, 1_043_900, 1_045_949)


def test_an_aborted_kernel_gives_back_its_cores():
    async def main():
        y, module, (one, two_) = await zeros(), await load(SPIN, SET), await two()
        spin = await module["spin"][264, 1024, one](y)
        await asyncio.sleep(0.001)
        await acl.StreamAbort(one)
        after = await module["set"][132, 1024, two_](y)
        await acl.SynchronizeStream(two_)
        return spin.start_ns, spin.end_ns, after.start_ns

    assert run(main) == (37_700, 1_036_000, 1_045_200)


def test_a_reset_ends_a_kernel_that_waits():
    async def main():
        y, module = await zeros(), await load(SPIN)
        await module["spin"][264, 1024](y)
        await asyncio.sleep(0.001)
        await acl.ResetDevice(0)
        await acl.SetDevice(0)
        y, module = await zeros(), await load(SET)
        await module["set"][1, 1](y)
        await acl.SynchronizeDevice()
        return await numbers(y, np.uint32, 1)

    assert run(main) == [1]


def test_a_kernel_that_only_tells_the_time_still_races():
    async def main():
        y, module, (one, two_) = await zeros(), await load(DELAY, SET), await two()
        await module["delay"][1, 32, one](y)
        await module["set"][1, 1, two_](y)
        await acl.SynchronizeDevice()
        return [finding.kind.name for finding in acl.current_simulation().findings]

    assert run(main, sanitize=True) == ["RACE"]
