"""Seeded mistakes: each kernel forgets one thing, and exactly that is found, in those lines."""

import linecache

import pytest
from cores import found, launch, work
from tiles import AIC, MIX, MTE2, N, V, gm, l0c, l1, sync, ub, x_y_z

from device_model.aicore.core.blocks import ASCEND_IS_AIC, GetBlockIdx, GetSubBlockIdx
from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import LocalTensor, float32
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.sync import (
    PipeBarrier,
    SetFlag,
    WaitFlag,
)
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import (
    DataCopy,
    DataCopyParams,
)

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
    work(Pipe.M, "Mmad", l0c(), left)


@forgets("WAR", "M_MTE1", AIC)
def loads_over_what_is_being_multiplied(x, y, z):
    (a,), left = l1(0), LocalTensor(float32, TPosition.A2, 0, N)
    work(Pipe.M, "Mmad", l0c(), left)
    work(Pipe.MTE1, "LoadData", left, a)


@forgets("RAW", "M_FIX", AIC)
def moves_out_before_it_is_multiplied(x, y, z):
    (g,), c = gm(z), l0c()
    work(Pipe.M, "Mmad", c)
    work(Pipe.FIX, "Fixpipe", g[:N], c)


@forgets("WAR", "FIX_M", AIC)
def multiplies_over_what_is_being_moved_out(x, y, z):
    (g,), c = gm(z), l0c()
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
    (a,), c = l1(0), l0c()
    work(Pipe.FIX, "Fixpipe", a, c)
    work(Pipe.MTE1, "LoadData", LocalTensor(float32, TPosition.A2, 0, N), a)


@forgets("RAW", "FIX_MTE2", AIC)
def reads_back_what_fixpipe_has_not_written(x, y, z):
    (a,), (g,), c = l1(0), gm(z), l0c()
    work(Pipe.FIX, "Fixpipe", g[:N], c)
    DataCopy(a, g, N)


@forgets("WAR", "MTE2_FIX", AIC)
def fixpipe_writes_over_what_is_being_read(x, y, z):
    (a,), (g,), c = l1(0), gm(z), l0c()
    DataCopy(a, g, N)
    work(Pipe.FIX, "Fixpipe", g[:N], c)


@forgets("RAW", "FIX_MTE3", AIC)
def copies_l1_out_before_fixpipe_has_filled_it(x, y, z):
    (a,), (g,), c = l1(0), gm(z), l0c()
    work(Pipe.FIX, "Fixpipe", a, c)
    DataCopy(g, a, N)


@forgets("WAW", "PipeBarrier<FIX>", AIC)
def moves_out_twice(x, y, z):
    (g,), c = gm(z), l0c()
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
    work(Pipe.M, "Mmad", l0c(), a)


@forgets("WAR", "M_MTE2", AIC)
def copies_in_what_is_being_multiplied(x, y, z):
    (a,), (g,) = l1(0), gm(x)
    work(Pipe.M, "Mmad", l0c(), a)
    DataCopy(a, g, N)


@forgets("RAW", "M_S", AIC)
def looks_at_what_is_not_multiplied(x, y, z):
    c = l0c()
    work(Pipe.M, "Mmad", c)
    c.GetValue(0)


@forgets("RAW", "FIX_S", AIC)
def looks_at_what_fixpipe_has_not_brought(x, y, z):
    (a,), c = l1(0), l0c()
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


@forgets("WAW", "SetAtomicAdd, or a range of its own for each core", blocks=3)
def two_blocks_write_one_tile(x, y, z):
    (a,), (h,) = ub(0), gm(z)
    DataCopy(h[GetBlockIdx() // 2 * N :], a, N)


@forgets("WAW", "SyncAll or CrossCoreSetFlag and CrossCoreWaitFlag", blocks=2)
def two_blocks_write_one_tile_at_two_lines(x, y, z):
    (a,), (h,) = ub(0), gm(z)
    if GetBlockIdx() == 0:
        DataCopy(h, a, N)
    else:
        DataCopy(h, a, N)


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


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("kernel", "kind", "blocks", "expected"), HAZARDS)
def test_with_hazards_off_nothing_is_looked_for(kernel, kind, blocks, expected):
    assert found(launch(kernel, *x_y_z(), kind=kind, blocks=blocks, hazards=False)) == []


def test_every_event_in_use_is_forgotten_once():
    missing = {expected[0][1] for _, _, _, expected in (each.values for each in HAZARDS)}
    in_use = (
        "MTE2_V V_MTE2 V_MTE3 MTE3_V MTE2_MTE3 MTE3_MTE2 V_S S_V MTE2_S S_MTE2 S_MTE3 MTE3_S MTE2_MTE1 MTE1_MTE2 "
        "MTE1_M M_MTE1 M_FIX FIX_M MTE1_FIX FIX_MTE1 FIX_MTE2 MTE2_FIX FIX_MTE3 "
        "MTE3_MTE1 MTE1_MTE3 MTE2_M M_MTE2 M_S FIX_S"
    )
    assert set(in_use.split()) <= missing
