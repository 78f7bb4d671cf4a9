"""The time of rows on one SM: latencies, schedulers, barriers, groups of copies, phases, and the memory behind it.

The numbers are those of the h200 profile, which are measured: see its `[sm]` table.
"""

import sys
from dataclasses import replace

import pytest

from device_model.profile import load
from device_model.sm.instructions import Op, Row
from device_model.sm.warps import play

SPEC = load("h200").sm


def row(op, *, warps=1, first=0, **fields):
    """A row of the *warps* warps from *first* on."""
    frame = sys._getframe(1)
    return Row(op, op.name.lower(), (1 << first + warps) - (1 << first), frame.f_code, frame.f_lasti, **fields)


def cycles(rows, sharers=1, spec=SPEC):
    return play([rows], spec, sharers).cycles[0]


def each(rows, times=100):
    """What *rows* take when they are repeated, each time."""
    return (cycles(rows * 2 * times) - cycles(rows * times)) / times


def test_a_chain_of_multiply_adds_takes_its_latency_each_time():
    chain = [row(Op.FMA, warps=4, count=64, chains=1, reads=(1,), writes=(1,))]
    assert each(chain) == pytest.approx(64 * 4.507)


def test_independent_multiply_adds_issue_every_cycle():
    assert each([row(Op.FMA, count=64, writes=(1,))]) == pytest.approx(64)


def test_warps_of_one_scheduler_take_turns_and_others_do_not_meet():
    """Warps 0 to 3 have a scheduler each; the fifth shares one."""
    assert each([row(Op.FMA, warps=4, count=64)]) == pytest.approx(64)
    assert each([row(Op.FMA, warps=5, count=64)]) == pytest.approx(128)


def test_two_chains_of_one_scheduler_hide_in_each_other():
    chain = [row(Op.FMA, warps=8, count=64, chains=1, reads=(1,), writes=(1,))]
    assert each(chain) == pytest.approx(64 * 4.507, rel=0.01)


def test_chains_that_take_turns_hide_each_others_latency():
    for chains, expected in ((1, 64 * 4.507), (2, 32 * 4.507), (8, 64)):
        sums = [row(Op.FMA, count=64, chains=chains, reads=(1,), writes=(1,))]
        assert each(sums) == pytest.approx(expected, rel=0.06)


def test_a_product_starts_with_its_first_fragments_and_ends_after_the_last():
    """32 ldmatrix of four warps take 512 cycles, and 64 products of each warp 420: they run beside each other."""
    fragments = row(Op.LDMATRIX, warps=4, count=32, phases=4, writes=(1,))
    product = row(Op.MMA, warps=4, count=64, reads=(1,), writes=(2,))
    assert cycles([fragments, product]) == pytest.approx(32 * 4 * 4 + 22 + 2 * 4 + 24, abs=30)


def test_a_store_to_global_memory_moves_a_sector_at_a_time():
    for sectors, expected in ((4, 5.02), (16, 20.1)):
        store = row(Op.STG, warps=4, sectors=sectors)
        assert each([store]) == pytest.approx(4 * expected, rel=0.02)


def test_an_instruction_waits_for_the_registers_that_it_reads():
    load_, use, other = row(Op.LDS_32, writes=(1,)), row(Op.FMA, reads=(1,)), row(Op.FMA, reads=(2,))
    assert cycles([load_, use]) == pytest.approx(22 + 2 + 4.507, abs=4.6)
    assert cycles([load_, other, use]) - cycles([load_, use]) == pytest.approx(0)


def test_rows_of_as_many_instructions_wait_for_each_others_elements_only():
    """64 additions behind 64 others take twice 64 cycles and a latency. An instruction that needs them all waits."""
    sums = [row(Op.FMA, count=64, reads=(1,), writes=(1,))] * 2
    whole = row(Op.FMA, reads=(1,), writes=(2,))
    assert cycles(sums) == pytest.approx(128 + 3.507)
    assert cycles([*sums, whole]) == pytest.approx(128 + 3.507 + 4.507)


def test_a_product_behind_a_product_does_not_wait_for_the_whole_of_it():
    parts = [row(Op.MMA, count=16, reads=(1,), writes=(1,))]
    assert each(parts) == pytest.approx(16 * 6.57, rel=0.01)


@pytest.mark.parametrize(("warps", "expected"), [(1, 14.87), (4, 20.87), (8, 28.87)])
def test_a_barrier_takes_as_long_as_measured(warps, expected):
    assert each([row(Op.BARRIER, warps=warps, number=warps)]) == pytest.approx(expected)


def test_a_barrier_waits_for_the_last_warp():
    rows = [row(Op.FMA, first=1, count=512, chains=1), row(Op.BARRIER, warps=2, number=2)]
    assert cycles(rows) == pytest.approx(512 * 4.507 + 12.87, abs=10)


def test_waiting_for_the_lanes_of_a_warp_takes_an_issue():
    assert each([row(Op.SYNC_WARP, warps=4)]) == pytest.approx(1)


@pytest.mark.parametrize(("warps", "expected"), [(1, 6.57), (4, 6.57), (8, 12.18)])
def test_the_tensor_cores_take_as_long_as_measured(warps, expected):
    assert each([row(Op.MMA, warps=warps, count=16, writes=(1,))]) / 16 == pytest.approx(expected, rel=0.01)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("warps", [1, 4, 16])
@pytest.mark.parametrize("phases", [1, 4, 32])
@pytest.mark.parametrize(("op", "least"), [(Op.LDS_32, 22), (Op.LDS_64, 23), (Op.LDS_128, 25), (Op.LDMATRIX, 22)])
def test_dependent_loads_take_their_phases_or_those_of_all_warps(op, least, phases, warps):
    load_ = row(op, warps=warps, phases=phases, reads=(1,), writes=(1,))
    assert each([load_]) == pytest.approx(max(least + 2 * phases, warps * phases), rel=0.03)


def test_warps_may_have_conflicts_of_their_own():
    load_ = row(Op.LDS_32, warps=2, phases=(1, 8), reads=(1,), writes=(1,))
    assert each([load_]) == pytest.approx(22 + 2 * 8, rel=0.02)


def copies(count=1, warps=1, misses=False, chains=1):
    """Copies of 16 bytes by each lane."""
    traffic = {"sectors": 16 * count, "misses": 16 * count if misses else 0}
    return row(Op.CP_ASYNC, warps=warps, count=count, chains=chains, phases=4, **traffic)


def test_a_group_of_copies_is_there_after_the_latency_of_the_l2():
    assert cycles([copies(), row(Op.COMMIT), row(Op.WAIT_GROUP)]) == pytest.approx(288.1 + 26, abs=2)


def test_wait_group_leaves_the_youngest_groups_pending():
    late = row(Op.FMA, count=40, chains=1)
    rows = [copies(), row(Op.COMMIT), late, copies(), row(Op.COMMIT), row(Op.WAIT_GROUP, number=1), late]
    assert cycles(rows) == pytest.approx(288.1 + 26 + 40 * 4.507, abs=60)
    waits_for_both = [*rows[:5], row(Op.WAIT_GROUP, number=0), late]
    assert cycles(waits_for_both) - cycles(rows) == pytest.approx(35 + 40 * 4.507, abs=20)


def test_copies_of_a_few_warps_take_the_loop_and_of_many_the_lsu():
    """A warp needs 35 cycles for each copy; the LSU needs 5, so 16 warps need 80."""
    for warps, expected in ((1, 35), (4, 35), (8, 40), (16, 80)):
        assert each([copies(64, warps)], 4) / 64 == pytest.approx(expected, rel=0.02)


def test_copies_without_a_loop_are_limited_by_the_lsu_alone():
    for warps in (1, 4):
        assert each([copies(64, warps, chains=0)], 4) / 64 == pytest.approx(5 * warps, rel=0.02)


def test_a_wait_for_a_phase_ends_when_all_have_arrived():
    copy = [copies(), row(Op.COPY_ARRIVE, key="full", number=0)]
    waits = row(Op.WAIT_PHASE, first=1, key="full", number=0)
    assert cycles([*copy, waits]) == pytest.approx(288.1 + 2 + 48.5, abs=1)
    assert cycles([*copy, row(Op.ARRIVE, first=2, key="full", number=0), waits]) == cycles([*copy, waits])


def test_a_wait_for_a_phase_that_is_complete_takes_as_long_as_a_load():
    arrive, wait = row(Op.ARRIVE, key="full", number=0), row(Op.WAIT_PHASE, key="full", number=0)
    late = row(Op.FMA, count=100, chains=1)
    assert cycles([arrive, late, wait]) == pytest.approx(100 * 4.507 + 24, abs=6)


def test_arrivals_at_an_mbarrier_come_one_after_the_other():
    def meet(warps):
        return cycles([row(op, warps=warps, key="all", number=0) for op in (Op.ARRIVE, Op.WAIT_PHASE)])

    assert [meet(warps) for warps in (1, 2, 4)] == [50.5, 52.5, 56.5]


def test_resident_blocks_hide_latency():
    rows = [row(Op.LDG, sectors=4, reads=(1,), writes=(1,))] * 50
    alone, together = play([rows], SPEC), play([rows, rows, rows], SPEC)
    assert alone.cycles[0] == pytest.approx(50 * 288.1, rel=0.01)
    assert max(together.cycles) == pytest.approx(50 * 288.1, rel=0.01)


def test_dram_takes_longer_than_the_l2_and_the_slowest_request_counts():
    one = each([row(Op.LDG, sectors=4, misses=4, reads=(1,), writes=(1,))])
    assert one == pytest.approx(659.3, rel=0.01)
    four = each(
        [row(Op.LDG, warps=4, sectors=4, misses=4, writes=(1,)), row(Op.BARRIER, warps=4, number=4, reads=(1,))]
    )
    assert four > one + 50


def test_blocks_share_the_bandwidth_of_dram():
    """132 SMs that copy all the time get 2,310 bytes per cycle, one alone is limited by its copies in flight."""
    tile = [copies(8, 4, misses=True), row(Op.COMMIT, warps=4), row(Op.WAIT_GROUP, warps=4, number=3)]
    nbytes = 8 * 4 * 512
    assert each(tile) < 400
    assert (cycles(tile * 200, 132) - cycles(tile * 100, 132)) / 100 == pytest.approx(132 * nbytes / 2310, rel=0.01)


def test_the_same_rows_take_the_same_time_again():
    rows = [copies(3, 4, misses=True), row(Op.COMMIT, warps=4), row(Op.WAIT_GROUP, warps=4)] * 20
    assert cycles(rows, 66) == cycles(rows, 66)


def test_latencies_come_from_the_profile():
    rows = [row(Op.LDG, sectors=4, reads=(1,), writes=(1,))] * 10
    assert cycles(rows, spec=replace(SPEC, l2_permille=500_000)) == pytest.approx(5000, abs=15)


def test_rows_that_cannot_end_are_refused():
    with pytest.raises(AssertionError, match=r"warp 0 waits without end at <Row wait_phase"):
        cycles([row(Op.WAIT_PHASE, key="full")])
