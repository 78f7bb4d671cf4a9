"""The times of instructions, worked out by hand from the profile's numbers."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from cores import launch

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.memories import LocalMemory
from device_model.aicore.core.names import CacheMode, HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.program import Instruction, Kind
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32, half
from device_model.aicore.flags.bypass import DataSyncBarrier, MemDsbT, ReadGmByPassDCache, WriteGmByPassDCache
from device_model.aicore.flags.queues import TBuf
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import (
    DataCacheCleanAndInvalid,
    DataCopy,
    DataCopyExtParams,
    DataCopyPad,
    Nd2NzParams,
)
from device_model.aicore.runner import Beside, run_beside
from device_model.aicore.timing.l2 import Cache
from device_model.aicore.vector.elementwise import Add, Exp
from device_model.kernel.findings import KernelHangError
from device_model.profile import load

# No noise from far cores or a loaded memory, unless a test asks for it; 1 GHz, so that a nanosecond is a cycle.
SPEC = replace(load("ascend910b1").aicore, mhz=1000, latency_spread_ns=0, queue_ns=0, start_interval_ns=0)
INIT = SPEC.schedule_ns + SPEC.init_ns + SPEC.soft_init_ns  # when the first instruction is issued
READ, HIT, WRITE = (SPEC.copy_issue + ns for ns in (SPEC.read_latency_ns, SPEC.hit_latency_ns, SPEC.write_latency_ns))
MB = 1 << 20


def ub(address, size, dtype=half):
    return LocalTensor(dtype, TPosition.VECCALC, address, size)


def played(kernel, *arrays, spec=SPEC, **options):
    return launch(kernel, *arrays, spec=spec, hazards=False, **options)


def copies(result):
    return [each for program in result.programs for each in program.instructions if each.flow is not None]


def took(each):
    return each.end - each.start


def reads(*spans, rows=(), bypass=False):
    """A kernel that reads (first half, halves), one after the other."""

    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        x.SetL2CacheHint(CacheMode(bypass))
        for first, count in spans:
            DataCopy(ub(0, count), x[first:], count)
        for first, params in rows:
            DataCopyPad(ub(0, 65536), x[first:], params)

    return kernel


# One core


def test_copies_behind_each_other_share_the_latency():
    first, second, third = copies(played(reads((0, 8192), (8192, 8192), (16384, 64)), np.zeros(MB, half)))
    data = 16384 / SPEC.read_bytes_per_cycle
    assert first.start == INIT + SPEC.flag_issue
    assert took(first) == READ + data
    assert second.start == first.start + SPEC.copy_issue
    assert second.end == first.end + data
    # A piece of a line takes as long as a whole one.
    assert third.end == second.end + 512 / SPEC.read_bytes_per_cycle


def test_a_flag_behind_a_copy_does_not_hold_back_the_next():
    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        for first in (0, 8192):
            DataCopy(ub(first * 2, 8192), x[first:], 8192)
            SetFlag(HardEvent.MTE2_V, 0)
            WaitFlag(HardEvent.MTE2_V, 0)

    result = played(kernel, np.zeros(MB, half))
    first, second = copies(result)
    assert second.start == first.start + SPEC.copy_issue
    assert second.end == first.end + 16384 / SPEC.read_bytes_per_cycle
    flags = [each for each in result.programs[0].instructions if each.kind is Kind.SET]
    assert [each.end for each in flags] == [first.end, second.end]


def test_a_barrier_behind_a_copy_holds_back_the_next():
    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        DataCopy(ub(0, 8192), x, 8192)
        PipeBarrier(Pipe.MTE2)
        DataCopy(ub(0, 8192), x[8192:], 8192)

    first, second = copies(played(kernel, np.zeros(MB, half)))
    assert second.start == first.end
    assert took(second) == READ + 16384 / SPEC.read_bytes_per_cycle


def test_copy_in_add_and_copy_out_follow_each_other_through_flags():
    def kernel(x, y):
        x, y = (GlobalTensor(half).SetGlobalBuffer(each) for each in (x, y))
        DataCopy(ub(0, 1024), x, 1024)
        SetFlag(HardEvent.MTE2_V, 0)
        WaitFlag(HardEvent.MTE2_V, 0)
        Add(ub(8192, 1024), ub(0, 1024), ub(0, 1024), 1024)
        SetFlag(HardEvent.V_MTE3, 0)
        WaitFlag(HardEvent.V_MTE3, 0)
        DataCopy(y, ub(8192, 1024), 1024)

    result = played(kernel, np.zeros(1024, half), np.zeros(1024, half))
    read, write = copies(result)
    (add,) = (each for each in result.programs[0].instructions if each.name == "Add")
    assert add.start == read.end + SPEC.flag_latency
    assert took(add) == 24 + 8 * 2  # 8 repeats of 256 bytes; both sources lie in one bank group
    assert write.start == add.end + SPEC.flag_latency
    assert took(write) == pytest.approx(WRITE + 2048 / SPEC.write_bytes_per_cycle)
    busy = result.timeline.busy_us
    assert busy["mte2"] == pytest.approx(took(read) / 1000)
    assert busy["vec"] == pytest.approx(took(add) / 1000)
    assert busy["mte3"] == pytest.approx(took(write) / 1000)
    assert busy["aiv_time"] == pytest.approx((write.end - SPEC.schedule_ns - SPEC.init_ns) / 1000)
    assert result.timeline.duration_ns == round(write.end) + SPEC.report_ns


def test_the_start_up_of_a_vector_instruction_hides_behind_the_one_before():
    def kernel():
        Exp(ub(0, 64, float32), ub(4096, 64, float32), 64)
        Exp(ub(8192, 64, float32), ub(12288, 64, float32), 64)  # has nothing to do with it
        Exp(ub(16384, 64, float32), ub(8192, 64, float32), 64)  # reads its result
        PipeBarrier(Pipe.V)
        Exp(ub(20480, 64, float32), ub(24576, 64, float32), 64)

    cold, warm, dependent, barrier, again = played(kernel).programs[0].instructions
    assert [took(each) for each in (cold, warm, dependent, barrier, again)] == [33, 2, 33, 0, 33]


def test_the_start_up_is_paid_anew_behind_a_flag_though_it_was_set_long_ago():
    def kernel(x):
        DataCopy(ub(0, 64), GlobalTensor(half).SetGlobalBuffer(x), 64)
        SetFlag(HardEvent.MTE2_V, 0)
        Exp(ub(65536, 16384, float32), ub(131072, 16384, float32), 16384)
        WaitFlag(HardEvent.MTE2_V, 0)
        Exp(ub(4096, 64, float32), ub(8192, 64, float32), 64)

    *_, long, wait, short = played(kernel, np.zeros(64, half)).programs[0].instructions
    assert wait.end == wait.start == short.start == long.end
    assert (took(long), took(short)) == (31 + 2 * 256, 33)


def test_the_scalar_pipe_is_busy_with_what_it_does_between_instructions():
    def kernel():
        pipe, first, second = TPipe(), TBuf(TPosition.VECCALC), TBuf(TPosition.VECCALC)
        pipe.InitBuffer(first, 64)
        first.Get(half).SetValue(0, 1.0)
        pipe.InitBuffer(second, 64)

    busy = played(kernel).timeline.busy_us
    # At the end of the kernel the TPipe waits for all pipes.
    cycles = SPEC.soft_init_ns + 2 * SPEC.init_buffer + SPEC.set_value + SPEC.barrier_issue
    assert busy["scalar"] == busy["aiv_time"] == pytest.approx(cycles / 1000)


def test_copies_end_however_late_the_clock_is():
    def kernel(x):
        WaitFlag(HardEvent.MTE3_MTE2, 0, timeout_us=5e6)
        for first in range(0, 65536, 8192):
            DataCopy(ub(0, 8192), GlobalTensor(half).SetGlobalBuffer(x)[first:], 8192)

    result = played(kernel, np.zeros(MB, half), spec=replace(SPEC, hbm_gbps=37))
    ends = [each.end for each in copies(result)]
    assert np.diff(ends) == pytest.approx([16384 / 37] * 7, abs=0.01)
    assert ends[0] > 5e9


# The L2


def test_what_was_read_or_written_comes_from_the_l2():
    def kernel(x, y):
        x, y = (GlobalTensor(half).SetGlobalBuffer(each) for each in (x, y))
        for source in (x, x, y):
            DataCopy(ub(0, 16384), source, 16384)
            PipeBarrier(Pipe.MTE2)
        DataCopy(y[16384:], ub(0, 16384), 16384)
        SetFlag(HardEvent.MTE3_MTE2, 0)
        WaitFlag(HardEvent.MTE3_MTE2, 0)
        DataCopy(ub(0, 16384), y[16384:], 16384)

    cold, warm, other, _, written = copies(played(kernel, np.zeros(16384, half), np.zeros(32768, half)))
    from_hbm = READ + 32768 / SPEC.read_bytes_per_cycle
    from_l2 = HIT + 32768 / SPEC.hit_read_gbps
    assert [took(each) for each in (cold, warm, other, written)] == pytest.approx(
        [from_hbm, from_l2, from_hbm, from_l2]
    )


def test_the_l2_forgets_what_was_touched_longest_ago_and_what_bypasses_it():
    spec = replace(SPEC, l2_bytes=2 * 16384)
    blocks = [0, 8192, 0, 16384, 0, 8192]  # the last one was evicted by the third block, as the first was used since

    def kernel(bypass):
        def inner(x):
            x = GlobalTensor(half).SetGlobalBuffer(x)
            x.SetL2CacheHint(CacheMode(bypass))
            for first in blocks:
                DataCopy(ub(0, 8192), x[first:], 8192)
                PipeBarrier(Pipe.MTE2)

        return inner

    x = np.zeros(32768, half)
    cold, hit = READ + 16384 / SPEC.read_bytes_per_cycle, HIT + 16384 / SPEC.hit_read_gbps
    kept = [took(each) for each in copies(played(kernel(False), x, spec=spec))]
    assert kept == pytest.approx([cold, cold, hit, cold, hit, cold])
    assert [took(each) for each in copies(played(kernel(True), x, spec=spec))] == pytest.approx([cold] * 6)


def test_half_a_copy_that_is_in_the_l2_spares_the_memory_half_of_it():
    spec = replace(SPEC, hbm_gbps=10)
    first, second = copies(played(reads((0, 8192), (4096, 8192)), np.zeros(MB, half), spec=spec))
    assert first.end - first.start == READ + 1638.4
    assert second.end - first.end == pytest.approx(819.2)


def test_evicting_written_lines_costs_the_memory_time_beyond_its_buffer():
    spec = replace(SPEC, l2_bytes=65536, hbm_gbps=10, write_back_bytes=0)

    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        for first in range(0, 65536, 8192):
            DataCopy(x[first:], ub(0, 8192), 8192)

    written = copies(played(kernel, np.zeros(MB, half), spec=spec))
    between = np.diff([each.end for each in written])
    # Four fit. Each one after that evicts one, whose 16 KB cost HBM as long as reads.
    assert between == pytest.approx([16384 / SPEC.write_bytes_per_cycle] * 3 + [16384 / 10] * 4)
    buffered = copies(played(kernel, np.zeros(MB, half), spec=replace(spec, write_back_bytes=16384)))
    between = np.diff([each.end for each in buffered])
    # The first eviction fills the buffer. The next finds that 190 ns have drained 1.9 KB, and waits for 12 of 14.1 KB:
    # quarters of a copy.
    assert between[:5] == pytest.approx([16384 / SPEC.write_bytes_per_cycle] * 4 + [12288 / 10])


def test_a_written_byte_costs_more_beside_one_that_is_read():
    spec = replace(SPEC, l2_bytes=65536, hbm_gbps=10, write_back_bytes=16384, write_back_permille=2000)

    def kernel(x, is_read):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        if is_read:
            DataCopy(ub(0, 8192), x, 8192)
            SetFlag(HardEvent.MTE2_MTE3, 0)
            WaitFlag(HardEvent.MTE2_MTE3, 0)
        for first in range(65536, 131072, 8192):
            DataCopy(x[first:], ub(0, 8192), 8192)

    alone, beside = (
        [each for each in copies(played(kernel, np.zeros(MB, half), is_read, spec=spec)) if each.pipe is Pipe.MTE3]
        for is_read in (False, True)
    )
    plain, first = alone[4].end - alone[3].end, beside[4].end - beside[3].end
    # The fifth write evicts 16 KB. They fit in the buffer, unless as many were read before: then they take its place
    # twice. The read is used up then, and the next write evicts what the one before it would have.
    assert plain == pytest.approx(16384 / SPEC.write_bytes_per_cycle)
    assert first == pytest.approx(16384 / 10)
    assert np.diff([each.end for each in alone[6:]]) == pytest.approx(np.diff([each.end for each in beside[6:]]))


def test_a_launch_finds_in_the_l2_what_the_one_before_it_left():
    spec = replace(SPEC, l2_bytes=65536, hbm_gbps=10, write_back_bytes=0)
    x, l2 = np.zeros(MB, half), Cache(65536)

    def kernel(x, is_write):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        for first in range(0, 32768, 8192):
            if is_write:
                DataCopy(x[32768 + first :], ub(0, 8192), 8192)
            else:
                DataCopy(ub(0, 8192), x[first:], 8192)

    def ends(*args):
        return np.diff([each.end for each in copies(played(kernel, x, *args, spec=spec, l2=l2))])

    assert ends(False) == pytest.approx([16384 / 10] * 3)  # from HBM
    assert ends(False) == pytest.approx([16384 / SPEC.hit_read_gbps] * 3)
    assert ends(True) == pytest.approx([16384 / SPEC.write_bytes_per_cycle] * 3)  # what goes is clean
    assert ends(False) == pytest.approx([2 * 16384 / 10] * 3)  # from HBM, which writes as much first


def test_launches_side_by_side_share_the_memory_and_what_is_on_its_way():
    spec = replace(SPEC, hbm_gbps=10)
    a, b = np.zeros(MB, half), np.zeros(MB, half)

    def to_ub(x):
        DataCopy(ub(0, 65536), GlobalTensor(half).SetGlobalBuffer(x), 65536)

    def to_l1(x):
        DataCopy(LocalTensor(half, TPosition.A1, 0, 65536), GlobalTensor(half).SetGlobalBuffer(x), 65536)

    def ends(first, second):
        launches = Beside(to_ub, 1, (first,)), Beside(to_l1, 1, (second,), KernelType.AIC_ONLY)
        results = run_beside(launches, spec)
        assert results[0].timeline is results[1].timeline
        return [copies(result)[0].end - INIT for result in results]

    alone = copies(played(to_ub, a, spec=spec))[0].end - INIT
    apart, same = ends(a, b), ends(a, a)
    assert alone == pytest.approx(READ + 1 + 131072 / 10)
    assert apart[0] == pytest.approx(READ + 1 + 2 * 131072 / 10)
    assert same[0] == pytest.approx(alone, rel=0.01)
    assert same[1] == pytest.approx(alone, rel=0.01)  # it waits for what comes for the other one


def test_a_launch_sees_a_flag_in_memory_when_the_launch_beside_it_has_set_it():
    x, flags = np.zeros(MB, half), np.zeros(32, np.int32)

    def sets(flag, x, flags):
        DataCopy(ub(0, 65536), GlobalTensor(half).SetGlobalBuffer(x), 65536)
        SetFlag(HardEvent.MTE2_S, 0)
        WaitFlag(HardEvent.MTE2_S, 0)
        there = GlobalTensor(np.dtype(np.int32)).SetGlobalBuffer(flags)[flag:]
        there.SetValue(0, 1)
        DataCacheCleanAndInvalid(there)

    def polls(flags):
        assert GlobalTensor(np.dtype(np.int32)).SetGlobalBuffer(flags).GetValue(0) == 1

    def looked(flag):
        """When the flag was written back, and when the look at the first line ended."""
        flags[0] = 1
        writer, reader = run_beside([Beside(sets, 1, (flag, x, flags)), Beside(polls, 2, (flags,))], SPEC)
        return writer.programs[0].instructions[-1].end, reader.programs[1].instructions[-1].end

    flushed, seen = looked(0)
    assert seen == pytest.approx(flushed + SPEC.cross_core + SPEC.flag_issue + SPEC.get_value)
    flushed, seen = looked(16)  # another line
    assert seen < flushed


def test_a_launch_polls_past_the_data_cache_what_the_launch_beside_it_has_written():
    x, flags = np.zeros(MB, half), np.zeros(32, np.int32)

    def sets(x, flags):
        DataCopy(ub(0, 65536), GlobalTensor(half).SetGlobalBuffer(x), 65536)
        DataSyncBarrier(MemDsbT.DDR)
        WriteGmByPassDCache(flags, 1)

    def polls(place, flags):
        while ReadGmByPassDCache(flags[place:]) != 1:
            pass

    def looked(place):
        """When the flag was written, and when the look at *place* ended."""
        flags[:] = 0
        flags[16] = 1  # in another line, which nobody writes
        writer, reader = run_beside([Beside(sets, 1, (x, flags)), Beside(polls, 2, (place, flags))], SPEC)
        return writer.programs[0].instructions[-1].end, reader.programs[1].instructions[-1].end

    written, seen = looked(0)
    assert seen == pytest.approx(written + SPEC.cross_core + SPEC.flag_issue)
    written, seen = looked(16)
    assert seen < written
    with pytest.raises(KernelHangError, match="waits for a write that does not come"):
        looked(1)


def test_launches_of_mixed_blocks_do_not_run_side_by_side():
    with pytest.raises(ValueError, match="MIX_AIC_1_2"):
        run_beside([Beside(lambda: None, 1, (), KernelType.MIX_AIC_1_2)], SPEC)


# Rows


def test_short_rows_and_rows_off_a_line_move_more():
    spec = replace(SPEC, hbm_gbps=10)
    whole = DataCopyExtParams(4, 1024, 1024)
    short = DataCopyExtParams(4, 64, 960)
    kernel = reads(rows=[(0, whole), (16384 + 8, whole), (32768, short), (65536 + 48, short)], bypass=True)
    aligned, off, short, across = copies(played(kernel, np.zeros(MB, half), spec=spec))
    assert took(aligned) == pytest.approx(READ + 4 * 1024 / 10)
    assert off.end - aligned.end == pytest.approx(4 * 3 * 512 / 10)  # each row lies in three lines
    assert short.end - off.end == pytest.approx(4 * 128 / 10)  # a request each
    assert across.end - short.end == pytest.approx(4 * 256 / 10)  # two, for 32 bytes in each


def test_a_core_asks_for_a_piece_of_a_line_at_a_time_and_slower_past_the_l2():
    rows = DataCopyExtParams(64, 128, 896)
    (through,) = copies(played(reads(rows=[(0, rows)]), np.zeros(MB, half)))
    (past,) = copies(played(reads(rows=[(0, rows)], bypass=True), np.zeros(MB, half)))
    pieces = 64 * 512 / SPEC.read_bytes_per_cycle
    assert took(through) == READ + pieces
    assert took(past) == pytest.approx(READ + pieces * SPEC.bypass_row_permille / 1000)


# Cores together


def of_each(halves):
    """A kernel that reads as many halves, each block from a place of its own."""

    def kernel(x):
        DataCopy(ub(0, halves), GlobalTensor(half).SetGlobalBuffer(x)[GetBlockIdx() * halves :], halves)

    return kernel


def test_cores_share_the_memory_evenly_and_no_core_gets_more_than_it_can_take():
    data = np.zeros(MB, half)
    for blocks, rate in ((10, SPEC.read_bytes_per_cycle), (48, SPEC.hbm_gbps / 48)):
        for each in copies(played(of_each(16384), data, blocks=blocks)):
            assert took(each) == pytest.approx(READ + 32768 / rate)


def test_who_begins_later_takes_from_the_others_what_is_fair():
    spec = replace(SPEC, hbm_gbps=64, start_interval_ns=256)
    first, second = copies(played(of_each(16384), np.zeros(MB, half), blocks=2, spec=spec))
    # 256 ns alone move 16,384 of 32,768 bytes; the rest at half the rate, then the second has all.
    assert took(first) == pytest.approx(READ + 256 + 512)
    assert second.start == first.start + 256
    assert second.end == pytest.approx(first.end + 256)


def test_reads_from_hbm_pass_the_l2_too():
    spec = replace(SPEC, hbm_gbps=60, l2_gbps=100)

    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        own = GetBlockIdx() * 32768
        DataCopy(ub(0, 16384), x[own:], 16384)
        PipeBarrier(Pipe.MTE2)
        DataCopy(ub(0, 8192), x[own + GetBlockIdx() * 16384 :], 8192)

    hit, miss = copies(played(kernel, np.zeros(MB, half), blocks=2, spec=spec))[1::2]
    begin, other = hit.start + HIT, miss.start + READ  # of their data
    # Alone it has all of the L2, beside the miss 40 of 100 GB/s.
    assert hit.end == pytest.approx(other + (16384 - (other - begin) * 100) / 40)


def test_what_is_on_its_way_for_one_core_comes_for_others_with_it():
    spec = replace(SPEC, hbm_gbps=20, same_lines_per_us=10**6)

    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        if GetBlockIdx() == 2:
            WaitFlag(HardEvent.MTE2_V, 0, timeout_us=5)  # nobody sets it
            SetFlag(HardEvent.V_MTE2, 0)
            WaitFlag(HardEvent.V_MTE2, 0)
        DataCopy(ub(0, 16384), x, 16384)
        if GetBlockIdx() == 1:
            DataCopy(ub(32768, 8192), x, 8192)

    first, beside, again, later = copies(played(kernel, np.zeros(MB, half), blocks=3, spec=spec))
    assert took(first) == pytest.approx(READ + 32768 / 20)  # HBM gives it once
    assert beside.start == first.start
    assert beside.end == first.end
    assert again.end == pytest.approx(first.end + 16384 / SPEC.hit_read_gbps)  # a hit by then
    assert took(later) == pytest.approx(HIT + 32768 / SPEC.hit_read_gbps)


def test_what_bypasses_the_l2_comes_for_each_core_anew():
    spec = replace(SPEC, hbm_gbps=20, same_lines_per_us=10**6)
    both = copies(played(reads((0, 16384), bypass=True), np.zeros(MB, half), blocks=2, spec=spec))
    assert [took(each) for each in both] == pytest.approx([READ + 2 * 32768 / 20] * 2)


def test_hbm_takes_longer_for_what_goes_to_l1():
    spec = replace(SPEC, hbm_gbps=20, hbm_l1_permille=1500)

    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        DataCopy(LocalTensor(half, TPosition.A1, 0, 16384), x, 16384)
        PipeBarrier(Pipe.MTE2)
        DataCopy(LocalTensor(half, TPosition.A1, 0, 16384), x, 16384)

    miss, hit = copies(played(kernel, np.zeros(MB, half), kind=KernelType.AIC_ONLY, spec=spec))
    assert took(miss) == pytest.approx(READ + 1.5 * 32768 / 20)
    assert took(hit) == pytest.approx(HIT + 32768 / SPEC.l1_read_gbps)
    fast = replace(spec, hbm_gbps=1000)  # a core takes as long as before when HBM has more than it can take
    miss, _ = copies(played(kernel, np.zeros(MB, half), kind=KernelType.AIC_ONLY, spec=fast))
    assert took(miss) == pytest.approx(READ + 32768 / SPEC.l1_read_bytes_per_cycle)


def to_l1(x, address, rows, columns, stride):
    """Rows of a matrix that become fractals in L1."""
    params = Nd2NzParams(1, rows, columns, 0, stride, rows, 1, 0)
    DataCopy(LocalTensor(half, TPosition.A1, address, rows * columns), x, params)


def test_rows_from_hbm_that_become_fractals_come_to_a_core_at_a_rate_of_their_own():
    def kernel(x):
        to_l1(GlobalTensor(half).SetGlobalBuffer(x), 0, 64, 256, 256)
        PipeBarrier(Pipe.MTE2)
        to_l1(GlobalTensor(half).SetGlobalBuffer(x), 0, 64, 256, 256)

    miss, hit = copies(played(kernel, np.zeros(MB, half), kind=KernelType.AIC_ONLY))
    assert took(miss) == pytest.approx(READ + 32768 / SPEC.l1_rows_read_gbps)
    assert took(hit) == pytest.approx(HIT + 32768 / SPEC.l1_read_gbps)


def test_rows_from_hbm_that_several_cores_read_come_faster_than_those_of_one():
    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        to_l1(x, 0, 64, 256, 256)  # both cores begin here
        PipeBarrier(Pipe.MTE2)
        to_l1(x[(1 + GetBlockIdx()) * 16384 :], 0, 64, 256, 256)

    spec = replace(SPEC, same_lines_per_us=10**6, l1_read_bytes_per_cycle=200)
    both = copies(played(kernel, np.zeros(MB, half), blocks=2, kind=KernelType.AIC_ONLY, spec=spec))
    shared, own = both[:2]
    assert took(shared) == pytest.approx(READ + 32768 / SPEC.l1_rows_shared_read_gbps)
    assert took(own) == pytest.approx(READ + 32768 / SPEC.l1_rows_read_gbps)


def test_lines_of_the_l2_that_several_cores_read_come_more_slowly_to_l1():
    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        to_l1(x, 0, 64, 256, 256)  # all cores begin here
        PipeBarrier(Pipe.MTE2)
        for _ in range(2):
            own = x[(1 + GetBlockIdx()) * 16384 :]
            to_l1(own, 32768, 64, 256, 256)
            PipeBarrier(Pipe.MTE2)
        to_l1(x, 0, 64, 256, 256)

    spec = replace(SPEC, same_lines_per_us=10**6)
    both = copies(played(kernel, np.zeros(MB, half), blocks=2, kind=KernelType.AIC_ONLY, spec=spec))
    for _, _, own, shared in (both[:4], both[4:]):
        assert took(own) == pytest.approx(HIT + 32768 / SPEC.l1_read_gbps)
        assert took(shared) == pytest.approx(HIT + 32768 / SPEC.l1_shared_read_gbps)


def test_rows_that_begin_inside_a_sector_or_a_block_come_to_l1_no_faster_than_from_hbm():
    strides = [1024, 1024 + 64, 1024 + 32, 1024 + 8, 1024 + 1]  # lines; and a sector, half of one, half a block, a half

    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        DataCopy(LocalTensor(half, TPosition.A1, 0, 32768), x, 32768)  # now all rows are in the L2
        for stride in strides:
            PipeBarrier(Pipe.MTE2)
            to_l1(x, 0, 16, 256, stride)

    _, *hits = copies(played(kernel, np.zeros(MB, half), kind=KernelType.AIC_ONLY))
    # Of 16 rows of a line: requests of 256 bytes of those that begin at a sector, and of the others. Rows that do not
    # begin at a line take two lines, others inside a sector a request more, and inside a block another one.
    requests = [(16 * 2, 0), (4 * 2 + 12 * 4, 0), (2 * 2 + 6 * 4, 8 * 5), (2 + 4, 6 * 5 + 8 * 6), (2, 15 * 6)]
    assert [took(each) for each in hits] == pytest.approx([
        HIT + 256 * (quick / SPEC.l1_read_gbps + slow / SPEC.l1_rows_read_gbps) for quick, slow in requests
    ])  # fmt: skip


def test_short_rows_come_to_l1_in_whole_requests():
    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        for columns in (256, 128, 64):
            to_l1(x, 0, 64, columns, 256)
            PipeBarrier(Pipe.MTE2)

    _, middle, short = copies(played(kernel, np.zeros(MB, half), kind=KernelType.AIC_ONLY))
    # Rows of 256 and of 128 bytes both take a request of 256 bytes.
    assert [took(middle), took(short)] == pytest.approx([HIT + 64 * 256 / SPEC.l1_read_gbps] * 2)


def test_hbm_takes_longer_for_rows_shorter_than_a_request():
    spec = replace(SPEC, hbm_gbps=20, hbm_l1_permille=1000)

    def kernel(x):
        to_l1(GlobalTensor(half).SetGlobalBuffer(x), 0, 64, 64, 256)

    (miss,) = copies(played(kernel, np.zeros(MB, half), kind=KernelType.AIC_ONLY, spec=spec))
    assert took(miss) == pytest.approx(READ + SPEC.hbm_short_permille / 1000 * 64 * 128 / 20)


def test_a_copy_inside_the_ub_moves_a_block_of_32_bytes_a_cycle():
    def kernel(x):
        DataCopy(ub(0, 1024), GlobalTensor(half).SetGlobalBuffer(x), 1024)
        DataCopy(ub(8192, 1024), ub(0, 1024), 1024)

    (program,) = launch(kernel, np.zeros(MB, half)).programs
    inside = [each for each in program.instructions if each.pipe is Pipe.V and each.name == "DataCopy"]
    assert [each.cycles for each in inside] == [2048 // 32]


CROWDED = replace(SPEC, same_lines_per_us=100)
TOGETHER = 32768 / (0.1 * 512)  # for one of them: 100 pieces of 512 bytes per microsecond
ALONE = READ + 32768 / SPEC.read_bytes_per_cycle


def test_cores_that_ask_for_the_same_lines_share_what_these_give():
    def kernel(x):
        DataCopy(ub(0, 16384), GlobalTensor(half).SetGlobalBuffer(x), 16384)

    (alone,) = copies(played(kernel, np.zeros(MB, half), spec=CROWDED))
    assert took(alone) == ALONE
    first, *others = copies(played(kernel, np.zeros(MB, half), blocks=4, spec=CROWDED))
    assert took(first) == ALONE  # nobody was there before it
    assert [took(each) for each in others] == pytest.approx([HIT + 3 * TOGETHER] * 3)


def test_lines_in_demand_share_it_also_if_they_are_not_the_same():
    def kernel(x):
        DataCopy(ub(0, 16384), GlobalTensor(half).SetGlobalBuffer(x)[GetBlockIdx() // 2 * 16384 :], 16384)

    one, after_one, other, after_other = copies(played(kernel, np.zeros(MB, half), blocks=4, spec=CROWDED))
    assert took(one) == took(other) == ALONE
    assert [took(each) for each in (after_one, after_other)] == pytest.approx([HIT + 2 * TOGETHER] * 2)


def test_a_line_is_in_demand_for_two_thousand_cycles():
    def kernel(x):
        if GetBlockIdx():
            WaitFlag(HardEvent.MTE2_V, 0, timeout_us=later_us)  # nobody sets it
        SetFlag(HardEvent.V_MTE2, 0)
        WaitFlag(HardEvent.V_MTE2, 0)
        DataCopy(ub(0, 16384), GlobalTensor(half).SetGlobalBuffer(x), 16384)

    for later_us, data in ((1.9, TOGETHER), (2.1, 32768 / SPEC.hit_read_gbps)):
        before, after = copies(played(kernel, np.zeros(MB, half), blocks=2, spec=CROWDED))
        assert after.start - before.start == pytest.approx(later_us * 1000)
        assert [took(before), took(after)] == pytest.approx([ALONE, HIT + data])


def test_latency_grows_with_the_load_of_the_memory():
    spec = replace(SPEC, queue_ns=100, hbm_gbps=20)

    def kernel(x):
        x = GlobalTensor(half).SetGlobalBuffer(x)
        DataCopy(ub(0, 16384), x, 16384)
        PipeBarrier(Pipe.MTE2)
        DataCopy(ub(0, 16384), x[16384:], 16384)

    idle, loaded = copies(played(kernel, np.zeros(MB, half), spec=spec))
    assert took(idle) == READ + 1638.4
    assert took(loaded) == pytest.approx(READ + 1638.4 + 100 * 1638.4 / 2000)  # loaded for so much of the last 2 us


def test_cores_are_not_all_as_near_to_the_memory():
    spec = replace(SPEC, latency_spread_ns=10)
    near, far, between = copies(played(of_each(64), np.zeros(MB, half), blocks=3, spec=spec))
    assert took(far) - took(near) == pytest.approx(6.18, abs=0.01)
    assert took(between) - took(near) == pytest.approx(2.36, abs=0.01)


def per_core(result):
    return [[each for each in program.instructions if each.flow is not None] for program in result.programs]


def test_blocks_start_one_after_the_other_and_take_turns_where_there_are_more_than_cores():
    spec = replace(SPEC, start_interval_ns=70)
    result = played(of_each(64), np.zeros(MB, half), blocks=96, spec=spec)
    first, second = per_core(result)[:48], per_core(result)[48:]
    assert [each.start for (each,) in first] == pytest.approx([INIT + SPEC.flag_issue + 70 * at for at in range(48)])
    for (before,), (after,) in zip(first, second, strict=True):
        assert after.start == pytest.approx(before.end + spec.next_block_ns + SPEC.soft_init_ns + SPEC.flag_issue)


def test_cube_cores_read_into_l1_and_have_a_time_of_their_own():
    def kernel(x):
        DataCopy(LocalTensor(half, TPosition.A1, 0, 16384), GlobalTensor(half).SetGlobalBuffer(x), 16384)

    result = played(kernel, np.zeros(16384, half), kind=KernelType.AIC_ONLY)
    (copy,) = copies(result)
    assert took(copy) == READ + 32768 / SPEC.l1_read_bytes_per_cycle
    busy = result.timeline.busy_us
    assert list(busy) == ["aic_time", "scalar", "mac", "mte1", "mte2", "mte3", "fixpipe"]  # idle pipes too
    assert {name for name, us in busy.items() if us} == {"aic_time", "scalar", "mte2"}


# Memory


def test_a_launch_leaves_no_circles():
    """Nobody collects garbage during one, and each of its blocks, of which there may be thousands, has 192 KB of UB."""

    def kernel(x):
        x, a = GlobalTensor(half).SetGlobalBuffer(x), ub(0, 64)
        for turn in range(3):
            DataCopy(a, x[64 * turn :], 64)
            SetFlag(HardEvent.MTE2_V, 0)
            WaitFlag(HardEvent.MTE2_V, 0)
            Add(a, a, a, 64)
            SetFlag(HardEvent.V_MTE2, 0)
            WaitFlag(HardEvent.V_MTE2, 0)

    def alive():
        return sum(type(each) in {Instruction, LocalMemory} for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = alive()
        for hazards in (False, True):
            launch(kernel, np.zeros(MB, half), spec=SPEC, hazards=hazards, blocks=3)
            assert alive() == before
    finally:
        gc.enable()
