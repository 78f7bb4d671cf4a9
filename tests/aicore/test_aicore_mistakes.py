"""Seeded mistakes: each kernel forgets one thing, and exactly that is found, in those lines."""

import linecache
from pathlib import Path

import numpy as np
import pytest
from cores import found, launch, work

from device_model import aicore
from device_model.aicore.core.blocks import ASCEND_IS_AIC, GetBlockIdx, GetSubBlockIdx
from device_model.aicore.core.debug import assert_
from device_model.aicore.core.findings import KernelAssertionError, KernelError, KernelHangError, Rule
from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32, half
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag, SyncAll
from device_model.aicore.flags.queues import TBuf, TPipe, TQue
from device_model.aicore.flags.sync import (
    AllocEventID,
    FetchEventID,
    PipeBarrier,
    ReleaseEventID,
    SetFlag,
    WaitFlag,
)
from device_model.aicore.moving.copies import (
    DataCacheCleanAndInvalid,
    DataCopy,
    DataCopyExtParams,
    DataCopyPad,
    DataCopyParams,
)

AICORE = Path(aicore.__file__).parent

N = 256  # elements of a tile
V, MTE2, MTE3 = Pipe.V, Pipe.MTE2, Pipe.MTE3
MIX = KernelType.MIX_AIC_1_2
AIC = KernelType.AIC_ONLY


def gm(*buffers):
    return [GlobalTensor(float32).SetGlobalBuffer(buffer) for buffer in buffers]


def ub(*tiles):
    return [LocalTensor(float32, TPosition.VECCALC, tile * N * 4, N) for tile in tiles]


def l1(*tiles):
    return [LocalTensor(float32, TPosition.A1, tile * N * 4, N) for tile in tiles]


def sync(event, event_id=0):
    SetFlag(event, event_id)
    WaitFlag(event, event_id)


def x_y_z():
    return [np.full(4 * N, value, np.float32) for value in (1, 2, 0)]


# One forgotten event each: the kernel, the rule it breaks, and what is missing.

HAZARDS = []


def forgets(rule, missing, kind=KernelType.AIV_ONLY, blocks=1):
    def note(kernel):
        HAZARDS.append(pytest.param(kernel, kind, blocks, [(rule, missing)], id=kernel.__name__))
        return kernel

    return note


@forgets("RAW", "MTE2_V")
def reads_before_it_is_copied_in(x, y, z):
    (a, b), (g,) = ub(0, 1), gm(x)
    DataCopy(a, g, N)
    work(V, "Relu", b, a)


@forgets("WAR", "V_MTE2")
def copies_over_what_is_being_read(x, y, z):
    (a, b), (g,) = ub(0, 1), gm(x)
    DataCopy(a, g, N)
    sync(HardEvent.MTE2_V)
    work(V, "Relu", b, a)
    DataCopy(a, g[N:], N)


@forgets("RAW", "V_MTE3")
def copies_out_before_it_is_computed(x, y, z):
    (a,), (g,) = ub(0), gm(z)
    work(V, "Duplicate", a)
    DataCopy(g, a, N)


@forgets("WAR", "MTE3_V")
def computes_over_what_is_being_copied_out(x, y, z):
    (a,), (g,) = ub(0), gm(z)
    work(V, "Duplicate", a)
    sync(HardEvent.V_MTE3)
    DataCopy(g, a, N)
    work(V, "Duplicate", a)


@forgets("RAW", "MTE2_MTE3")
def copies_through_too_early(x, y, z):
    (a,), (g, h) = ub(0), gm(x, z)
    DataCopy(a, g, N)
    DataCopy(h, a, N)


@forgets("WAR", "MTE3_MTE2")
def copies_in_over_what_is_being_copied_out(x, y, z):
    (a,), (g, h) = ub(0), gm(x, z)
    DataCopy(a, g, N)
    sync(HardEvent.MTE2_MTE3)
    DataCopy(h, a, N)
    DataCopy(a, g[N:], N)


@forgets("RAW", "MTE3_MTE2")
def reads_gm_back_before_it_is_written(x, y, z):
    (a, b), (h,) = ub(0, 1), gm(z)
    DataCopy(h, a, N)
    DataCopy(b, h, N)


@forgets("WAW", "PipeBarrier<MTE2>")
def copies_in_twice(x, y, z):
    (a,), (g,) = ub(0), gm(x)
    DataCopy(a, g, N)
    DataCopy(a, g[N:], N)


@forgets("WAW", "PipeBarrier<MTE3>")
def copies_out_twice(x, y, z):
    (a, b), (h,) = ub(0, 1), gm(z)
    DataCopy(h, a, N)
    DataCopy(h, b, N)


@forgets("WAW", "MTE2_V")
def computes_over_what_is_being_copied_in(x, y, z):
    (a,), (g,) = ub(0), gm(x)
    DataCopy(a, g, N)
    work(V, "Duplicate", a)


@forgets("RAW", "V_S")
def looks_at_a_value_before_it_is_computed(x, y, z):
    (a,) = ub(0)
    work(V, "Duplicate", a)
    a.GetValue(3)


@forgets("RAW", "S_V")
def computes_with_a_value_before_it_is_stored(x, y, z):
    a, b = ub(0, 1)
    a.SetValue(3, 1.0)
    work(V, "Relu", b, a)


@forgets("RAW", "MTE2_S")
def looks_at_a_value_before_it_is_copied_in(x, y, z):
    (a,), (g,) = ub(0), gm(x)
    DataCopy(a, g, N)
    a.GetValue(0)


@forgets("WAR", "S_MTE2")
def copies_over_what_the_scalar_looks_at(x, y, z):
    (a,), (g,) = ub(0), gm(x)
    a.GetValue(0)
    DataCopy(a, g, N)


@forgets("RAW", "S_MTE3")
def copies_out_before_a_value_is_stored(x, y, z):
    (a,), (g,) = ub(0), gm(z)
    a.SetValue(0, 1.0)
    DataCopy(g, a, N)


@forgets("WAR", "MTE3_S")
def stores_a_value_in_what_is_being_copied_out(x, y, z):
    (a,), (g,) = ub(0), gm(z)
    DataCopy(g, a, N)
    a.SetValue(0, 1.0)


@forgets("RAW", "MTE2_MTE1", AIC)
def loads_before_it_is_copied_to_l1(x, y, z):
    (a,), (g,) = l1(0), gm(x)
    DataCopy(a, g, N)
    work(Pipe.MTE1, "LoadData", LocalTensor(float32, TPosition.A2, 0, N), a)


@forgets("WAR", "MTE1_MTE2", AIC)
def copies_to_l1_over_what_is_being_loaded(x, y, z):
    (a,), (g,) = l1(0), gm(x)
    work(Pipe.MTE1, "LoadData", LocalTensor(float32, TPosition.A2, 0, N), a)
    DataCopy(a, g, N)


@forgets("RAW", "MTE1_M", AIC)
def multiplies_before_it_is_loaded(x, y, z):
    (a,), left = l1(0), LocalTensor(float32, TPosition.A2, 0, N)
    work(Pipe.MTE1, "LoadData", left, a)
    work(Pipe.M, "Mmad", LocalTensor(float32, TPosition.CO1, 0, N), left)


@forgets("WAR", "M_MTE1", AIC)
def loads_over_what_is_being_multiplied(x, y, z):
    (a,), left = l1(0), LocalTensor(float32, TPosition.A2, 0, N)
    work(Pipe.M, "Mmad", LocalTensor(float32, TPosition.CO1, 0, N), left)
    work(Pipe.MTE1, "LoadData", left, a)


@forgets("RAW", "M_FIX", AIC)
def moves_out_before_it_is_multiplied(x, y, z):
    (g,), c = gm(z), LocalTensor(float32, TPosition.CO1, 0, N)
    work(Pipe.M, "Mmad", c)
    work(Pipe.FIX, "Fixpipe", g[:N], c)


@forgets("WAR", "FIX_M", AIC)
def multiplies_over_what_is_being_moved_out(x, y, z):
    (g,), c = gm(z), LocalTensor(float32, TPosition.CO1, 0, N)
    work(Pipe.FIX, "Fixpipe", g[:N], c)
    work(Pipe.M, "Mmad", c)


@forgets("RAW", "MTE1_FIX", AIC)
def scales_before_the_scales_are_there(x, y, z):
    (a,), (g,), scales = l1(0), gm(z), LocalTensor(float32, TPosition.C2PIPE2GM, 0, N)
    work(Pipe.MTE1, "LoadScales", scales, a)
    work(Pipe.FIX, "Fixpipe", g[:N], scales)


@forgets("WAR", "FIX_MTE1", AIC)
def loads_scales_over_those_in_use(x, y, z):
    (a,), (g,), scales = l1(0), gm(z), LocalTensor(float32, TPosition.C2PIPE2GM, 0, N)
    work(Pipe.FIX, "Fixpipe", g[:N], scales)
    work(Pipe.MTE1, "LoadScales", scales, a)


@forgets("RAW", "FIX_MTE1", AIC)
def loads_what_fixpipe_has_not_brought_to_l1(x, y, z):
    (a,), c = l1(0), LocalTensor(float32, TPosition.CO1, 0, N)
    work(Pipe.FIX, "Fixpipe", a, c)
    work(Pipe.MTE1, "LoadData", LocalTensor(float32, TPosition.A2, 0, N), a)


@forgets("RAW", "FIX_MTE2", AIC)
def reads_back_what_fixpipe_has_not_written(x, y, z):
    (a,), (g,), c = l1(0), gm(z), LocalTensor(float32, TPosition.CO1, 0, N)
    work(Pipe.FIX, "Fixpipe", g[:N], c)
    DataCopy(a, g, N)


@forgets("WAR", "MTE2_FIX", AIC)
def fixpipe_writes_over_what_is_being_read(x, y, z):
    (a,), (g,), c = l1(0), gm(z), LocalTensor(float32, TPosition.CO1, 0, N)
    DataCopy(a, g, N)
    work(Pipe.FIX, "Fixpipe", g[:N], c)


@forgets("RAW", "FIX_MTE3", AIC)
def copies_l1_out_before_fixpipe_has_filled_it(x, y, z):
    (a,), (g,), c = l1(0), gm(z), LocalTensor(float32, TPosition.CO1, 0, N)
    work(Pipe.FIX, "Fixpipe", a, c)
    DataCopy(g, a, N)


@forgets("WAW", "PipeBarrier<FIX>", AIC)
def moves_out_twice(x, y, z):
    (g,), c = gm(z), LocalTensor(float32, TPosition.CO1, 0, N)
    work(Pipe.FIX, "Fixpipe", g[:N], c)
    work(Pipe.FIX, "Fixpipe", g[:N], c)


@forgets("WAW", "PipeBarrier<MTE1>", AIC)
def loads_twice(x, y, z):
    (a, b), left = l1(0, 1), LocalTensor(float32, TPosition.A2, 0, N)
    work(Pipe.MTE1, "LoadData", left, a)
    work(Pipe.MTE1, "LoadData", left, b)


@forgets("RAW", "MTE2_MTE3", AIC)
def copies_l1_out_before_it_is_in(x, y, z):
    (a,), (g, h) = l1(0), gm(x, z)
    DataCopy(a, g, N)
    DataCopy(h, a, N)


@forgets("WAR", "MTE3_MTE1", AIC)
def mte1_writes_what_is_being_copied_out(x, y, z):
    (a, b), (h,) = l1(0, 1), gm(z)
    DataCopy(h, a, N)
    work(Pipe.MTE1, "SetL1", a, b)


@forgets("RAW", "MTE1_MTE3", AIC)
def copies_out_what_mte1_has_not_written(x, y, z):
    (a, b), (h,) = l1(0, 1), gm(z)
    work(Pipe.MTE1, "SetL1", a, b)
    DataCopy(h, a, N)


@forgets("RAW", "MTE2_M", AIC)
def multiplies_what_is_not_copied_in(x, y, z):
    (a,), (g,) = l1(0), gm(x)
    DataCopy(a, g, N)
    work(Pipe.M, "Mmad", LocalTensor(float32, TPosition.CO1, 0, N), a)


@forgets("WAR", "M_MTE2", AIC)
def copies_in_what_is_being_multiplied(x, y, z):
    (a,), (g,) = l1(0), gm(x)
    work(Pipe.M, "Mmad", LocalTensor(float32, TPosition.CO1, 0, N), a)
    DataCopy(a, g, N)


@forgets("RAW", "M_S", AIC)
def looks_at_what_is_not_multiplied(x, y, z):
    c = LocalTensor(float32, TPosition.CO1, 0, N)
    work(Pipe.M, "Mmad", c)
    c.GetValue(0)


@forgets("RAW", "FIX_S", AIC)
def looks_at_what_fixpipe_has_not_brought(x, y, z):
    (a,), c = l1(0), LocalTensor(float32, TPosition.CO1, 0, N)
    work(Pipe.FIX, "Fixpipe", a, c)
    a.GetValue(0)


@forgets("RAW", "MTE2_V")
def waits_with_the_wrong_id(x, y, z):
    (a, b), (g,) = ub(0, 1), gm(x)
    SetFlag(HardEvent.MTE2_V, 1)
    DataCopy(a, g, N)
    SetFlag(HardEvent.MTE2_V, 0)
    WaitFlag(HardEvent.MTE2_V, 1)
    work(V, "Relu", b, a)
    WaitFlag(HardEvent.MTE2_V, 0)


@forgets("RAW", "MTE2_V")
def sets_before_the_copy_instead_of_after_it(x, y, z):
    (a, b), (g,) = ub(0, 1), gm(x)
    SetFlag(HardEvent.MTE2_V, 0)
    DataCopy(a, g, N)
    WaitFlag(HardEvent.MTE2_V, 0)
    work(V, "Relu", b, a)


@forgets("RAW", "MTE2_V")
def takes_a_barrier_for_a_flag(x, y, z):
    (a, b), (g,) = ub(0, 1), gm(x)
    DataCopy(a, g, N)
    PipeBarrier(MTE2)
    PipeBarrier(V)
    work(V, "Relu", b, a)


@forgets("RAW", "MTE2_V")
def reads_one_element_too_many(x, y, z):
    tile, (g,) = LocalTensor(float32, TPosition.VECCALC, 0, 2 * N), gm(x)
    DataCopy(tile, g, N)
    sync(HardEvent.MTE2_V)
    DataCopy(tile[N:], g[N:], N)
    work(V, "Relu", LocalTensor(float32, TPosition.VECCALC, 4096, N + 8), tile[: N + 8])


@forgets("RAW", "MTE2_V")
def reads_the_row_that_is_still_on_its_way(x, y, z):
    tile, (g,) = LocalTensor(float32, TPosition.VECCALC, 0, 64), gm(x)
    DataCopy(tile, g, DataCopyParams(4, 1, 0, 1))
    work(V, "Relu", LocalTensor(float32, TPosition.VECCALC, 4096, 8), tile[16:24])


@forgets("WAR", "V_MTE2")
def forgets_to_enqueue_and_free(x, y, z):
    pipe, queue, (g,) = TPipe(), TQue(TPosition.VECIN, 1), gm(x)
    pipe.InitBuffer(queue, 1, N * 4)
    out = TBuf()
    pipe.InitBuffer(out, N * 4)
    tensor = queue.AllocTensor(float32)
    DataCopy(tensor, g, N)
    queue.EnQue(tensor)
    tensor = queue.DeQue()
    work(V, "Relu", out.Get(float32), tensor)
    DataCopy(tensor, g[N:], N)
    queue.FreeTensor(tensor)


@forgets("RAW", "SyncAll or CrossCoreSetFlag and CrossCoreWaitFlag", blocks=2)
def reads_what_another_block_writes(x, y, z):
    (a,), (h,) = ub(0), gm(z)
    DataCopy(h[GetBlockIdx() * N :], a, N)
    sync(HardEvent.MTE3_MTE2)
    if GetBlockIdx() == 1:
        DataCopy(a, h, N)


@forgets("WAW", "SyncAll or CrossCoreSetFlag and CrossCoreWaitFlag", blocks=3)
def two_blocks_write_one_tile(x, y, z):
    (a,), (h,) = ub(0), gm(z)
    DataCopy(h[GetBlockIdx() // 2 * N :], a, N)


@forgets("WAR", "SyncAll or CrossCoreSetFlag and CrossCoreWaitFlag", blocks=2)
def writes_what_the_first_block_still_reads(x, y, z):
    (a,), (g,) = ub(0), gm(x)
    if GetBlockIdx() == 0:
        DataCopy(a, g, N)
    else:
        DataCopy(g, a, N)


@forgets("RAW", "SyncAll or CrossCoreSetFlag and CrossCoreWaitFlag", MIX)
def the_vector_cores_do_not_wait_for_the_cube_core(x, y, z):
    (h,) = gm(z)
    if ASCEND_IS_AIC():
        work(Pipe.FIX, "Fixpipe", h[: 2 * N])
    else:
        (a,) = ub(0)
        DataCopy(a, h[GetSubBlockIdx() * N :], N)


@forgets("RAW", "SyncAll or CrossCoreSetFlag and CrossCoreWaitFlag", MIX)
def the_cube_core_sets_its_flag_on_another_pipe(x, y, z):
    (h,) = gm(z)
    if ASCEND_IS_AIC():
        work(Pipe.FIX, "Fixpipe", h[: 2 * N])
        CrossCoreSetFlag(2, MTE2, 0)
    else:
        (a,) = ub(0)
        CrossCoreWaitFlag(0)
        DataCopy(a, h[GetSubBlockIdx() * N :], N)


@pytest.mark.parametrize(("kernel", "kind", "blocks", "expected"), HAZARDS)
def test_a_forgotten_event_is_named_with_both_lines(kernel, kind, blocks, expected):
    result = launch(kernel, *x_y_z(), kind=kind, blocks=blocks)
    assert found(result) == expected
    (finding,) = result.findings
    assert finding.sites == tuple(each.site for each in finding.instructions)
    for instruction in finding.instructions:
        line = linecache.getline(instruction.site.file, instruction.site.line)
        assert instruction.name in line or "issue(" in line  # of work()
        assert f"{instruction.name} ({instruction.pipe}) at {instruction.site}" in finding.text


@pytest.mark.parametrize(("kernel", "kind", "blocks", "expected"), HAZARDS)
def test_with_hazards_off_nothing_is_looked_for(kernel, kind, blocks, expected):
    assert found(launch(kernel, *x_y_z(), kind=kind, blocks=blocks, hazards=False)) == []


# Mistakes of other kinds: a card goes on, and so does the kernel.


def report(rule, words, kind=KernelType.AIV_ONLY, blocks=1):
    def note(kernel):
        REPORTED.append(pytest.param(kernel, kind, blocks, rule, words, id=kernel.__name__))
        return kernel

    return note


REPORTED = []


@report("DOUBLE_SET", "sets id 0 again")
def sets_a_flag_twice(x, y, z):
    SetFlag(HardEvent.MTE2_V, 0)
    SetFlag(HardEvent.MTE2_V, 0)
    WaitFlag(HardEvent.MTE2_V, 0)


@report("FLAG_LEFT_SET", "no WaitFlag cleared it")
def leaves_a_flag_set(x, y, z):
    SetFlag(HardEvent.V_MTE3, 2)


@report("LATE_SET", "was issued before")
def waits_before_it_sets(x, y, z):
    WaitFlag(HardEvent.MTE2_V, 0)
    SetFlag(HardEvent.MTE2_V, 0)


@report("FETCHED_TWICE", "gives id 0")
def fetches_an_id_twice(x, y, z):
    assert FetchEventID(HardEvent.V_S) == FetchEventID(HardEvent.V_S) == 0


@report("RELEASED_TWICE", "not allocated")
def releases_an_id_twice(x, y, z):
    event_id = AllocEventID(HardEvent.V_S)
    ReleaseEventID(HardEvent.V_S, event_id)
    ReleaseEventID(HardEvent.V_S, event_id)


@report("WAIT_TIMEOUT", "gave up after 10 us")
def gives_up_a_wait(x, y, z):
    assert not WaitFlag(HardEvent.MTE2_V, 0, timeout_us=10)
    sync(HardEvent.MTE2_V)


@report("WAIT_TIMEOUT", "gave up after 10 us", blocks=2)
def gives_up_waiting_for_another_core(x, y, z):
    if GetBlockIdx() == 0:
        assert not CrossCoreWaitFlag(0, timeout_us=10)


@report("TAIL_DROPPED", "the last 3 elements are not copied")
def copies_a_tail(x, y, z):
    (a,), (g,) = ub(0), gm(x)
    DataCopy(a, g, 11)


@report("PARTIAL_OVERLAP", "use the same bytes, or bytes that do not overlap")
def copies_within_ub_onto_part_of_itself(x, y, z):
    tile = LocalTensor(float32, TPosition.VECCALC, 0, 2 * N)
    DataCopy(tile[8:], tile, N)


@report("SHARED_LINE", "the same 64-byte line", blocks=2)
def two_blocks_store_into_one_line(x, y, z):
    (h,) = gm(z)
    h.SetValue(GetBlockIdx(), 1.0)
    DataCacheCleanAndInvalid(h)


@report("NOT_FLUSHED", "the line was never written back")
def stores_into_gm_and_does_not_flush(x, y, z):
    (h,) = gm(z)
    h.SetValue(0, 1.0)


@report("CROSS_OVERFLOW", "beyond 15", MIX)
def counts_a_flag_past_its_end(x, y, z):
    for _ in range(16):
        if ASCEND_IS_AIC():
            CrossCoreSetFlag(2, Pipe.FIX, 3)
        else:
            CrossCoreWaitFlag(3)


@report("CROSS_LEFT_SET", "left at 1", MIX)
def leaves_a_cross_core_flag_set(x, y, z):
    if ASCEND_IS_AIC():
        CrossCoreSetFlag(2, Pipe.FIX, 3)
    elif GetSubBlockIdx() == 0:
        CrossCoreWaitFlag(3)


@report("RESERVED_FLAG", "use flags 0 to 10")
def uses_a_flag_of_sync_all(x, y, z):
    SyncAll()
    CrossCoreSetFlag(0, MTE3, 12)
    CrossCoreWaitFlag(12)


@report("TENSOR_NOT_FREED", "enqueued at the end")
def never_dequeues(x, y, z):
    pipe, queue, (g,) = TPipe(), TQue(TPosition.VECIN, 1), gm(x)
    pipe.InitBuffer(queue, 1, N * 4)
    tensor = queue.AllocTensor(float32)
    DataCopy(tensor, g, N)
    queue.EnQue(tensor)


@pytest.mark.parametrize(("kernel", "kind", "blocks", "rule", "words"), REPORTED)
def test_a_mistake_that_a_card_gets_through_is_a_finding(kernel, kind, blocks, rule, words):
    result = launch(kernel, *x_y_z(), kind=kind, blocks=blocks)
    assert [finding.rule.name for finding in result.findings] == [rule]
    (finding,) = result.findings
    assert words in finding.text
    assert finding.sites[0].file == __file__


# Mistakes that no kernel survives.


def stops(error, words, kind=KernelType.AIV_ONLY, blocks=1):
    def note(kernel):
        STOPPED.append(pytest.param(kernel, kind, blocks, error, words, id=kernel.__name__))
        return kernel

    return note


STOPPED = []


@stops(KernelHangError, "V waits in WaitFlag<MTE2_V> at test_aicore_mistakes.py:.*, which is never issued")
def waits_for_what_nobody_sets(x, y, z):
    WaitFlag(HardEvent.MTE2_V, 0)


@stops(KernelHangError, "V waits in WaitFlag<MTE2_V>")
def sets_another_event_than_it_waits_for(x, y, z):
    SetFlag(HardEvent.MTE2_MTE3, 0)
    WaitFlag(HardEvent.MTE2_V, 0)


@stops(KernelHangError, "MTE2 waits in WaitFlag<V_MTE2> .* comes after a wait that hangs in V")
def forgets_the_preset_of_a_loop(x, y, z):
    (a, b), (g,) = ub(0, 1), gm(x)
    for tile in range(3):
        WaitFlag(HardEvent.V_MTE2, 0)
        DataCopy(a, g[tile * N :], N)
        sync(HardEvent.MTE2_V)
        work(V, "Relu", b, a)
        SetFlag(HardEvent.V_MTE2, 0)


@stops(KernelHangError, "S waits in WaitFlag<V_S>")
def the_scalar_waits_for_what_nobody_sets(x, y, z):
    WaitFlag(HardEvent.V_S, 0)
    pytest.fail("the kernel went on")


@stops(KernelHangError, "MTE2 waits in WaitFlag<V_MTE2>")
def all_pipes_wait_for_one_that_hangs(x, y, z):
    WaitFlag(HardEvent.V_MTE2, 0)
    PipeBarrier(Pipe.ALL)


@stops(KernelError, "all 8 event ids of MTE2_V .* are taken")
def takes_nine_ids(x, y, z):
    for _ in range(9):
        AllocEventID(HardEvent.MTE2_V)


@stops(KernelError, "event id 8 of MTE2_V")
def uses_an_id_that_is_not_there(x, y, z):
    SetFlag(HardEvent.MTE2_V, 8)


@stops(KernelError, "MTE1_M does not exist on block 0")
def uses_an_event_of_the_cube_core(x, y, z):
    SetFlag(HardEvent.MTE1_M, 0)


@stops(KernelError, "65 buffers")
def makes_too_many_buffers(x, y, z):
    pipe = TPipe()
    for _ in range(65):
        pipe.InitBuffer(TBuf(), 32)


@stops(KernelError, "9 tensors are allocated at VECIN")
def holds_too_many_tensors(x, y, z):
    pipe, queues = TPipe(), [TQue(TPosition.VECIN, 1) for _ in range(3)]
    for queue in queues:
        pipe.InitBuffer(queue, 4, 32)
    for queue in queues:
        for _ in range(4):
            queue.AllocTensor(half)


@stops(KernelError, "do not fit in UB")
def asks_for_more_ub_than_there_is(x, y, z):
    TPipe().InitBuffer(TQue(TPosition.VECIN, 1), 2, 100_000)


@stops(KernelError, "do not fit in L1", AIC)
def asks_for_more_l1_than_there_is(x, y, z):
    TPipe().InitBuffer(TQue(TPosition.A1, 1), 2, 300_000)


@stops(KernelError, "has no UB", AIC)
def asks_for_ub_on_a_cube_core(x, y, z):
    TPipe().InitBuffer(TQue(TPosition.VECIN, 1), 2, 32)


@stops(KernelError, "does not begin at a multiple of 32 bytes")
def copies_to_an_unaligned_place(x, y, z):
    (a,), (g,) = ub(0), gm(x)
    DataCopy(a[3:], g, 8)


@stops(KernelError, "fit in both tensors")
def copies_more_than_there_is(x, y, z):
    (a,), (g,) = ub(0), gm(x)
    DataCopy(a, g, 2 * N)


@stops(KernelError, "goes past the end")
def pads_past_the_end(x, y, z):
    (a,), (g,) = ub(0), gm(x)
    DataCopyPad(a, g, DataCopyExtParams(40, 20, 0, 0))


@stops(KernelError, "already")
def makes_a_second_tpipe(x, y, z):
    TPipe()
    TPipe()


@stops(KernelHangError, "AllocTensor of .* never ends")
def allocates_without_freeing(x, y, z):
    pipe, queue = TPipe(), TQue(TPosition.VECIN, 1)
    pipe.InitBuffer(queue, 1, 32)
    queue.AllocTensor(half)
    queue.AllocTensor(half)


@stops(KernelError, "is empty")
def dequeues_what_was_not_enqueued(x, y, z):
    pipe, queue = TPipe(), TQue(TPosition.VECIN, 1)
    pipe.InitBuffer(queue, 1, 32)
    queue.DeQue()


@stops(KernelError, "larger depth")
def enqueues_more_than_its_depth(x, y, z):
    pipe, queue = TPipe(), TQue(TPosition.VECIN, 1)
    pipe.InitBuffer(queue, 2, 32)
    queue.EnQue(queue.AllocTensor(half))
    queue.EnQue(queue.AllocTensor(half))


@stops(KernelError, "is not allocated")
def frees_twice(x, y, z):
    pipe, queue = TPipe(), TQue(TPosition.VECIN, 1)
    pipe.InitBuffer(queue, 2, 32)
    tensor = queue.AllocTensor(half)
    queue.FreeTensor(tensor)
    queue.FreeTensor(tensor)


@stops(KernelHangError, "never ends: the launch has 49 blocks on AIV and the chip 48", blocks=49)
def meets_with_more_blocks_than_cores(x, y, z):
    SyncAll()


@stops(KernelHangError, r"block 1 \(AIV\) in SyncAll", blocks=2)
def one_block_does_not_come(x, y, z):
    if GetBlockIdx() == 1:
        SyncAll()


@stops(KernelHangError, r"CrossCoreWaitFlag\(5\)", MIX)
def waits_for_a_core_that_never_sets(x, y, z):
    if ASCEND_IS_AIC():
        CrossCoreWaitFlag(5)


@stops(KernelError, "cross-core flag 16")
def uses_a_cross_core_flag_that_is_not_there(x, y, z):
    CrossCoreWaitFlag(16)


@stops(KernelAssertionError, r"\[block 0 \(AIV\), cycle \d+\] 3 is not 4")
def asserts_what_is_wrong(x, y, z):
    assert_(3 == 4, "%d is not %d", 3, 4)


@pytest.mark.parametrize(("kernel", "kind", "blocks", "error", "words"), STOPPED)
def test_a_mistake_that_no_kernel_survives_is_an_error(kernel, kind, blocks, error, words):
    with pytest.raises(error, match=words) as raised:
        launch(kernel, *x_y_z(), kind=kind, blocks=blocks)
    assert type(raised.value) is error
    assert raised.traceback[-1].path.is_relative_to(AICORE)
    names = [entry.name for entry in raised.traceback]
    assert kernel.__name__ in names or "at test_aicore_mistakes.py:" in str(raised.value)
    assert "of the kernel" in raised.value.__notes__[0]
    assert list(raised.value.result.findings) == []


def test_there_are_enough_mistakes():
    assert len(HAZARDS) + len(REPORTED) + len(STOPPED) >= 40
    missing = {expected[0][1] for _, _, _, expected in (each.values for each in HAZARDS)}
    in_use = (
        "MTE2_V V_MTE2 V_MTE3 MTE3_V MTE2_MTE3 MTE3_MTE2 V_S S_V MTE2_S S_MTE2 S_MTE3 MTE3_S MTE2_MTE1 MTE1_MTE2 "
        "MTE1_M M_MTE1 M_FIX FIX_M MTE1_FIX FIX_MTE1 FIX_MTE2 MTE2_FIX FIX_MTE3 "
        "MTE3_MTE1 MTE1_MTE3 MTE2_M M_MTE2 M_S FIX_S"
    )
    assert set(in_use.split()) <= missing
    seen = {rule for _, _, _, rule, _ in (each.values for each in REPORTED)} | {"RAW", "WAR", "WAW"}
    assert seen == {rule.name for rule in Rule}
