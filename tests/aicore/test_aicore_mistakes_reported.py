"""Seeded mistakes besides forgotten events: those that a card gets through are findings, the others are errors."""

from pathlib import Path

import pytest
from cores import launch, work
from tiles import AIC, MIX, MTE3, N, V, gm, sync, ub, x_y_z

import device_model
from device_model.aicore.core.blocks import ASCEND_IS_AIC, GetBlockIdx, GetSubBlockIdx
from device_model.aicore.core.debug import assert_
from device_model.aicore.core.findings import KernelAssertionError, Rule
from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import LocalTensor, float32, half
from device_model.aicore.cube.mmad import Mmad, MmadParams
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag, SyncAll
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.sync import (
    AllocEventID,
    FetchEventID,
    PipeBarrier,
    ReleaseEventID,
    SetFlag,
    WaitFlag,
)
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import (
    DataCacheCleanAndInvalid,
    DataCopy,
    DataCopyExtParams,
    DataCopyPad,
)
from device_model.aicore.vector.elementwise import Add, Adds
from device_model.kernel.findings import KernelError, KernelHangError

DEVICE_MODEL = Path(device_model.__file__).parent

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


@report("DOUBLE_SET", "sets id 0 again")
def sets_a_flag_twice_whose_id_it_fetches_each_time(x, y, z):
    for _ in range(2):
        event_id = FetchEventID(HardEvent.MTE2_V)
        SetFlag(HardEvent.MTE2_V, event_id)
        WaitFlag(HardEvent.MTE2_V, event_id)
    event_id = FetchEventID(HardEvent.MTE2_V)
    for _ in range(2):
        SetFlag(HardEvent.MTE2_V, event_id)
    WaitFlag(HardEvent.MTE2_V, event_id)


@report("FLAG_LEFT_SET", "no WaitFlag cleared it")
def leaves_a_flag_set(x, y, z):
    SetFlag(HardEvent.V_MTE3, 2)


@report("LATE_SET", "was issued before")
def waits_before_it_sets(x, y, z):
    WaitFlag(HardEvent.MTE2_V, 0)
    SetFlag(HardEvent.MTE2_V, 0)


@report("FETCHED_TWICE", "gave this id twice")
def has_two_flags_of_one_fetched_id_in_flight(x, y, z):
    first, second = FetchEventID(HardEvent.MTE2_V), FetchEventID(HardEvent.MTE2_V)
    SetFlag(HardEvent.MTE2_V, first)
    SetFlag(HardEvent.MTE2_V, second)
    WaitFlag(HardEvent.MTE2_V, first)


@report("FETCHED_TWICE", "gave this id twice")
def fetches_an_id_while_its_flag_is_in_flight(x, y, z):
    for _ in range(2):
        event_id = FetchEventID(HardEvent.MTE2_V)
        SetFlag(HardEvent.MTE2_V, event_id)
    WaitFlag(HardEvent.MTE2_V, event_id)


@report("UNWRITTEN_READ", "reads UB[64:1024], where nothing was written")
def computes_beyond_what_was_copied_in(x, y, z):
    tile, (g,) = LocalTensor(float32, TPosition.VECCALC, 0, N), gm(x)
    DataCopy(tile, g, 16)
    sync(HardEvent.MTE2_V)
    Adds(tile, tile, 1.0, N)


@report("UNWRITTEN_READ", "reads UB[4096:5120], where nothing was written")
def adds_up_in_a_tile_that_nothing_was_written_to(x, y, z):
    total, (a,) = LocalTensor(float32, TPosition.VECCALC, 4096, N), ub(0)
    Add(total, total, a, N)


@report("UNWRITTEN_READ", "reads UB[12:16], where nothing was written")
def looks_at_an_element_that_nothing_was_written_to(x, y, z):
    tile = LocalTensor(float32, TPosition.VECCALC, 0, N)
    tile.SetValue(2, 1.0)
    tile.GetValue(3)


@report("UNWRITTEN_READ", "reads L0C[0:1024], where nothing was written", AIC)
def adds_a_product_to_a_result_that_is_not_there(x, y, z):
    left, right = LocalTensor(half, TPosition.A2, 0, 256), LocalTensor(half, TPosition.B2, 0, 256)
    Mmad(LocalTensor(float32, TPosition.CO1, 0, N), left, right, MmadParams(16, 16, 16, cmatrix_init_val=False))


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
    (tile,) = ub(0)
    DataCopy(tile[8:], tile, N - 8)


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


@stops(KernelHangError, "V waits in WaitFlag<MTE2_V> at test_aicore_mistakes_reported.py:.*, which is never issued")
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
    assert raised.traceback[-1].path.is_relative_to(DEVICE_MODEL)
    names = [entry.name for entry in raised.traceback]
    assert kernel.__name__ in names or f"at {Path(__file__).name}:" in str(raised.value)
    assert "of the kernel" in raised.value.__notes__[0]
    assert list(raised.value.result.findings) == []


def test_every_rule_has_a_mistake():
    found_elsewhere = {"RAW", "WAR", "WAW"}  # test_aicore_mistakes.py
    found_elsewhere |= {"UNWRITTEN_OUT"}  # test_aicore_unwritten.py
    found_elsewhere |= {"NOT_FINALIZED", "FINALIZED_EARLY"}  # test_aicore_hccl_mistakes.py
    assert {rule for _, _, _, rule, _ in (each.values for each in REPORTED)} | found_elsewhere == {
        rule.name for rule in Rule
    }
