"""Times of kernels in PTX: what an assembler makes of them, what sampled warps did, and how long that takes."""

from collections import Counter

import numpy as np
import pytest
from lanes import kernel

from device_model.profile import load
from device_model.ptx.code.compiler import compile_kernel
from device_model.ptx.code.flow import reads
from device_model.ptx.code.order import Kind
from device_model.ptx.lanes.arrays import ArrayMemory
from device_model.ptx.lanes.launch import Launch
from device_model.ptx.runner import run
from device_model.ptx.text.parser import parse
from device_model.ptx.text.syntax import Register
from device_model.ptx.timing.costs import Costs
from device_model.ptx.timing.estimate import Timing, Touched
from device_model.ptx.timing.plan import Card, Plan
from device_model.ptx.timing.registers import registers_of
from device_model.ptx.timing.residues import residues_of
from device_model.ptx.timing.runs import runs_of
from device_model.sm.instructions import Unit

SPEC = load("h200").sm
LATENCY = SPEC.math_permille / 1000
CARD = Card(SPEC, 132, 32_600_000, 52_900_000)
NOTHING = Touched(0, 0, 0)
INDEX = """
    .reg .pred %p<4>; .reg .f32 %f<40>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
"""
PLACE = f"{INDEX} mul.wide.s32 %rd3, %r4, 4; add.s64 %rd4, %rd2, %rd3;"
STORE = "st.global.f32 [%rd4], %f1; ret;"


def program(body):
    # A line for each instruction, as compilers write them: traffic is kept by line.
    return compile_kernel(parse(kernel(body.replace(";", ";\n"), ".param .u64 p")), "k", {})


def timed(body, grid=1, block=256):
    """Run a kernel on one array of floats, and return how it was timed."""
    return ran(Plan(program(body), CARD, grid, block), np.ones(grid * block * 32, np.float32), grid, block)


def ran(plan, array, grid=1, block=256):
    """Launch the kernel of *plan* on an array, and return how it was timed."""
    memory, parameters = ArrayMemory(), np.zeros(16, np.uint8)
    parameters[:8] = np.array([memory.add(array)]).view(np.uint8)
    launch = Launch((grid, 1, 1), (block, 1, 1), parameters, memory)
    timing = Timing(plan, launch)
    launch.watches = (timing.watch,)
    run(plan.program, launch)
    return timing


def cycles(body, grid=1, block=256, touched=NOTHING, is_cold=False):
    return timed(body, grid, block).estimate(touched, is_cold=is_cold).cycles


def runs(body):
    return runs_in(program(body))


def runs_in(made):
    uses = Counter(
        each for code in made.blocks for item in code.instructions for each in reads(item) if isinstance(each, Register)
    )
    known = residues_of([item for code in made.blocks for item in code.instructions], made.shared)
    return [each for code in made.blocks for each in runs_of(code.instructions, uses, Costs(SPEC), known)]


def chain(length):
    return PLACE + "mov.f32 %f1, 0f3F800000;" + "fma.rn.f32 %f1, %f1, %f1, %f1;" * length + STORE


def loop(rounds):
    return (
        PLACE
        + f"""
        mov.u32 %r5, {rounds}; mov.f32 %f1, 0f3F800000;
        $again: fma.rn.f32 %f1, %f1, %f1, %f1; fma.rn.f32 %f1, %f1, %f1, %f1;
        add.s32 %r5, %r5, -1; setp.ne.s32 %p1, %r5, 0; @%p1 bra $again; {STORE}"""
    )


def test_the_address_of_an_element_takes_one_instruction():
    plain = sum(each.issues for each in runs(INDEX + "ret;"))
    assert sum(each.issues for each in runs(PLACE + STORE.replace("%f1", "0f00000000"))) == plain + 2  # with the store


def units(body):
    """The cycles that the instructions of a body take of each unit."""
    found = Counter()
    for each in runs(body + "ret;"):
        found.update(dict(each.units))
    return {unit: cycles for unit, cycles in found.items() if cycles}


def test_a_product_takes_the_tensor_core_by_its_size_and_types():
    def product(shape, types, a, b):
        one, other = (", ".join(f"%r{number}" for number in range(1, count + 1)) for count in (a, b))
        sums = "{%f1, %f2, %f3, %f4}"
        rows = f"mma.sync.aligned.{shape}.row.col.f32.{types}.f32 {sums}, {{{one}}}, {{{other}}}, {sums};"
        return units(".reg .f32 %f<5>; .reg .b32 %r<5>;" + rows)

    one = SPEC.mma_interval_permille / 1000
    assert product("m16n8k16", "f16.f16", 4, 2) == {Unit.TENSOR: one}
    assert product("m16n8k8", "f16.f16", 2, 1) == {Unit.TENSOR: one / 2}
    assert product("m16n8k8", "tf32.tf32", 4, 2) == {Unit.TENSOR: one}


def test_a_shuffle_takes_a_turn_of_the_lsu_and_a_syncwarp_none():
    registers = ".reg .b32 %r<3>;"
    assert units(registers + "shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;") == {Unit.LSU: SPEC.shuffle_interval}
    assert units("bar.warp.sync -1;") == {}


def test_loads_that_do_not_need_each_other_are_waited_for_once():
    both = "ld.global.f32 %f1, [%rd4]; add.f32 %f2, %f1, %f1; ld.global.f32 %f3, [%rd4+128]; add.f32 %f1, %f2, %f3;"
    assert [each.issues for each in runs(PLACE + both + STORE) if each.kind is Kind.LOAD] == [2]


def test_a_load_stays_behind_a_store_before_it():
    turns = "ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd4+128], %f1; ld.global.f32 %f1, [%rd4+256];"
    assert [each.issues for each in runs(PLACE + turns + STORE) if each.kind is Kind.LOAD] == [1, 1]


def test_each_fma_of_a_chain_takes_its_latency():
    assert cycles(chain(300)) - cycles(chain(100)) == pytest.approx(200 * LATENCY, rel=0.02)


def test_a_chain_in_a_full_sm_takes_the_issues_of_its_schedulers():
    one, full = (cycles(chain(200), grid, 256) for grid in (1, 132 * 8))
    begins = SPEC.block_warp * 8 * 7  # of the last block of an SM
    assert 200 * (64 / 4) <= full - one + 200 * LATENCY <= 200 * (64 / 4) + begins


def test_a_long_loop_costs_as_much_a_round_as_a_short_one():
    short = cycles(loop(64)) - cycles(loop(32))
    assert cycles(loop(1500)) - cycles(loop(500)) == pytest.approx(short / 32 * 1000, rel=0.05)


def test_a_load_of_columns_moves_a_sector_for_each_lane():
    def sectors(shift):
        body = INDEX + f"shl.b32 %r5, %r4, {shift}; mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3;"
        found = timed(body + "ld.global.f32 %f1, [%rd4];" + STORE, block=32).watch.samples[0].visits[0]
        return [each.sectors for _, accesses in found for each in accesses.values()]

    assert sectors(0) == [4, 4]
    assert sectors(3) == [32, 32]


def test_what_a_block_has_loaded_before_is_in_l1():
    body = PLACE + "ld.global.f32 %f1, [%rd4]; bar.sync 0; ld.global.f32 %f2, [%rd4]; add.f32 %f1, %f1, %f2;" + STORE
    found = [each for _, accesses in timed(body).watch.samples[0].visits[0] for each in accesses.values()]
    assert [(each.sectors, each.hits) for each in found] == [(4, 0), (0, 4), (4, 0)]


def test_lanes_that_share_a_bank_take_turns():
    def phases(step):
        place = f".shared .b32 s[1024]; mov.u32 %r5, s; mad.lo.s32 %r6, %r3, {step}, %r5;"
        body = INDEX + place + "ld.shared.b32 %r7, [%r6]; ret;"
        return [each.phases for _, seen in timed(body, block=32).watch.samples[0].visits[0] for each in seen.values()]

    assert phases(4) == [1]
    assert phases(128) == [32]


def shared_loads(place, offsets, type_="f32"):
    """How many loads an SM does of those at *offsets* from %r6, with their bytes where it puts some together."""
    loads = "".join(f"ld.shared.{type_} %f1, [%r6+{each}];" for each in offsets)
    (run,) = [
        each
        for each in runs(f"{INDEX} .shared .align 4 .b8 s[4096]; mov.u32 %r5, s; {place} {loads} ret;")
        if each.lines
    ]
    return run.issues, [nbytes for _, nbytes in run.widths if nbytes]


ROW = "mad.lo.s32 %r6, %r3, 64, %r5;"


@pytest.mark.parametrize(
    ("place", "offsets", "loads"),
    [
        (ROW, [0, 4, 8, 12], (1, [16])),
        (ROW, [12, 4, 0, 8], (1, [16])),
        (ROW, [0, 4, 8], (2, [8])),
        (ROW, [4, 8, 12], (2, [8])),
        (ROW, [4, 8], (2, [])),
        (ROW, [0, 8], (2, [])),
        (ROW, [-16, -12, -8, -4, 64, 68], (2, [16, 8])),
        ("mad.lo.s32 %r6, %r3, 8, %r5;", [0, 4, 8, 12], (2, [8, 8])),
        ("mad.lo.s32 %r6, %r3, 4, %r5;", [0, 4, 8, 12], (4, [])),
        ("shl.b32 %r7, %r3, 4; add.s32 %r6, %r5, %r7;", [0, 4, 8, 12], (1, [16])),
        ("add.s32 %r6, %r5, 8;", [-8, -4, 0, 4, 8, 12], (2, [16, 8])),
        ("and.b32 %r7, %r3, -16; add.s32 %r6, %r5, %r7;", [0, 4, 8, 12], (1, [16])),
        ("and.b32 %r7, %r3, 28; add.s32 %r6, %r5, %r7;", [0, 4, 8, 12], (4, [])),
        ("mul.lo.s32 %r7, %r3, 6; mul.lo.s32 %r8, %r7, 4; add.s32 %r6, %r5, %r8;", [0, 4], (1, [8])),
        ("ld.param.u32 %r7, [p]; add.s32 %r6, %r5, %r7;", [0, 4, 8, 12], (4, [])),
        ("mov.u32 %r6, %r5; $again: add.s32 %r6, %r6, 16; @%p1 bra $again;", [0, 4, 8, 12], (1, [16])),
        ("mov.u32 %r6, %r5; $again: add.s32 %r6, %r6, 8; @%p1 bra $again;", [0, 4, 8, 12], (2, [8, 8])),
    ],
)
def test_loads_of_shared_memory_side_by_side_are_one_where_an_assembler_sees_that_they_are_aligned(
    place, offsets, loads
):
    assert shared_loads(place, offsets) == loads


def test_only_loads_of_4_and_8_bytes_that_nothing_orders_are_put_together():
    assert shared_loads(ROW, [0, 4, 8, 12], type_="b8") == (4, [])
    assert shared_loads("@%p1 " + ROW, [0, 4]) == (1, [8])
    ordered = f"{INDEX} .shared .align 16 .b8 s[64]; mov.u32 %r6, s;"
    for loads in (
        "ld.volatile.shared.f32 %f1, [%r6]; ld.volatile.shared.f32 %f2, [%r6+4];",
        "@%p1 ld.shared.f32 %f1, [%r6]; @%p1 ld.shared.f32 %f2, [%r6+4];",
        "ld.shared.f32 %f1, [%r6]; st.shared.f32 [%r6+8], %f1; ld.shared.f32 %f2, [%r6+4];",
        "ld.shared.f32 %f1, [%r6]; add.s32 %r6, %r6, 16; ld.shared.f32 %f2, [%r6+4];",
    ):
        assert [each.widths for each in runs(f"{ordered} {loads} ret;") if each.widths] == []


def test_the_place_of_dynamic_shared_memory_is_as_declared():
    def widths(align):
        body = f"{INDEX} ld.shared.f32 %f1, [s]; ld.shared.f32 %f2, [s+4]; ret;".replace(";", ";\n")
        text = kernel(body, ".param .u64 p", f".extern .shared .align {align} .b8 s[];")
        return [nbytes for each in runs_in(compile_kernel(parse(text), "k", {})) for _, nbytes in each.widths]

    assert (widths(4), widths(8)) == ([], [8, 0])


def test_loads_that_are_one_share_a_conflict_of_banks():
    def phases(step):
        place = f".shared .align 4 .b8 s[8192]; mov.u32 %r5, s; mad.lo.s32 %r6, %r3, {step}, %r5;"
        loads = "".join(f"ld.shared.b32 %r7, [%r6+{each}];" for each in (0, 4, 8, 12))
        seen = timed(INDEX + place + loads + "ret;", block=32).watch.samples[0].visits[0]
        return [each.phases for _, accesses in seen for each in accesses.values()]

    assert phases(128) == [32]
    assert phases(132) == [1, 1, 1, 1]
    assert phases(0) == [2]


def test_a_cold_launch_waits_for_dram():
    body = PLACE + "ld.global.f32 %f1, [%rd4];" + STORE
    touched = Touched(32, 32, 64)
    warm, cold = (cycles(body, touched=touched, is_cold=each) for each in (False, True))
    assert cold - warm > (SPEC.dram_permille - SPEC.l2_permille) / 1000 / 2


@pytest.mark.slow
def test_each_further_wave_of_blocks_takes_as_long_as_the_second():
    one, two, five = (cycles(chain(40), 132 * 8 * waves) for waves in (1, 2, 5))
    assert one < two < 2 * one  # blocks begin while others end
    assert five == pytest.approx(two + 3 * (two - one), rel=0.1)


def test_the_block_that_does_most_decides():
    body = PLACE + """
        mov.u32 %r5, 4; setp.ne.s32 %p2, %r1, 77; @%p2 bra $begin; mov.u32 %r5, 1000;
        $begin: mov.f32 %f1, 0f3F800000;
        $again: fma.rn.f32 %f1, %f1, %f1, %f1; add.s32 %r5, %r5, -1; setp.ne.s32 %p1, %r5, 0; @%p1 bra $again;
        """ + STORE  # fmt: skip
    assert cycles(body, 128) > 1000 * 4


def test_more_values_at_a_time_take_more_registers():
    def sums(count):
        names = [f"%f{number}" for number in range(2, count + 2)]
        loads = "".join(f"ld.global.f32 {name}, [%rd4+{128 * at}];" for at, name in enumerate(names))
        return program(PLACE + loads + "bar.sync 0;" + "".join(f"add.f32 %f1, %f1, {name};" for name in names) + STORE)

    assert sums(20).pressure - sums(4).pressure == 16


@pytest.mark.parametrize(
    ("bounds", "registers"),
    [
        (".maxntid 256", 226),
        (".maxntid 1024", 64),
        (".maxntid 768", 80),
        (".maxntid 256 .minnctapersm 2", 128),
        (".maxntid 16, 16 .minnctapersm 2", 128),
        (".reqntid 256 .minnctapersm 3", 80),
        (".maxntid 100 .minnctapersm 5", 96),
        (".maxntid 256 .minnctapersm 8", 32),
        (".maxntid 256 .minnctapersm 9", 226),  # more threads than an SM holds
        (".maxntid 32 .minnctapersm 33", 226),  # more blocks
        (".minnctapersm 4", 226),  # of no known size
        (".maxnreg 65", 65),
        (".maxnreg 10", 24),
        (".maxntid 256 .minnctapersm 4 .maxnreg 100", 64),
    ],
)
def test_registers_have_the_bounds_that_the_assembler_takes_from_the_text(bounds, registers):
    names = [f"%f{number}" for number in range(220)]
    loads = "".join(f"ld.global.f32 {name}, [%rd1+{4 * at}];\n" for at, name in enumerate(names))
    stores = "".join(f"st.global.f32 [%rd1+{4 * at}], {name};\n" for at, name in enumerate(names))
    body = f".reg .f32 %f<220>; .reg .b64 %rd1; ld.param.u64 %rd1, [p]; {loads} {stores} ret;"
    text = kernel(body, ".param .u64 p").replace("p)\n", f"p) {bounds}\n")
    assert registers_of(compile_kernel(parse(text), "k", {}), SPEC) == registers


def more_warps(body):
    """Cycles of the atomics of 512 more blocks of 8 warps, for each of these warps."""
    return (cycles(INDEX + body, 1024) - cycles(INDEX + body, 512)) / (512 * 8)


def test_integers_at_one_address_are_summed_up_in_each_warp_first():
    assert more_warps("red.global.add.u32 [%rd2], 1; ret;") == pytest.approx(SPEC.atomic_line_permille / 1000, rel=0.1)


def test_floats_at_one_address_take_turns_over_the_card():
    one = more_warps("mov.f32 %f1, 0f3F800000; red.global.add.f32 [%rd2], %f1; ret;")
    assert one == pytest.approx(32 * SPEC.atomic_pass_permille / 1000, rel=0.1)


def test_integers_whose_address_comes_from_memory_are_not_summed_up():
    address = "ld.global.u32 %r6, [%rd2+64]; and.b32 %r6, %r6, 0; mul.wide.s32 %rd3, %r6, 4; add.s64 %rd4, %rd2, %rd3;"
    one = more_warps(address + "red.global.add.u32 [%rd4], 0; ret;")
    assert one == pytest.approx(32 * SPEC.atomic_pass_permille / 1000, rel=0.1)


def test_atomics_of_blocks_on_lines_of_their_own_do_not_meet():
    apart = "mul.wide.s32 %rd3, %r1, 128; add.s64 %rd4, %rd2, %rd3; red.global.add.u32 [%rd4], 1; ret;"
    together = "red.global.add.u32 [%rd2], 1; ret;"
    assert cycles(INDEX + apart, 1024) < cycles(INDEX + together, 1024) / 2


def test_a_cold_launch_writes_back_no_more_than_the_l2_held():
    body = PLACE + "ld.global.f32 %f1, [%rd4];" + STORE
    timing = timed(body, 132 * 8 * 4)
    moved = 132 * 8 * 4 * 8 * 4  # sectors each way
    few = timing.estimate(Touched(moved, moved, 2 * moved), is_cold=True).cycles
    many = timing.changed(timing.watch).estimate(Touched(100 * moved, 100 * moved, 200 * moved), is_cold=True).cycles
    assert many < few


def test_what_is_read_and_written_is_once_in_the_l2():
    timing = timed(PLACE + "ld.global.f32 %f1, [%rd4];" + STORE, 132 * 8)
    half = CARD.kept_bytes // 2 // 32
    in_place, apart = Touched(half, half, half), Touched(half, half, 2 * half + 100_000)
    assert timing.estimate(in_place).cycles < timing.changed(timing.watch).estimate(apart).cycles


def test_a_block_ends_when_its_stores_are_taken():
    columns = INDEX + "shl.b32 %r5, %r3, 3; mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3;"
    one = cycles(columns + "mov.f32 %f1, 0f3F800000;" + STORE, 132)
    ten = cycles(columns + "mov.f32 %f1, 0f3F800000;" + "st.global.f32 [%rd4], %f1;" * 9 + STORE, 132)
    parts = 132 * 8 * 32 * 1000 / SPEC.l2_parts_permille  # of a store of each lane into a sector of its own
    assert ten - one == pytest.approx(9 * parts, rel=0.1)


def test_a_launch_takes_the_same_time_each_time():
    assert cycles(loop(100), 40) == cycles(loop(100), 40)


def test_launches_of_one_plan_take_as_long_as_what_each_of_them_does():
    body = f"""{INDEX} ld.global.u32 %r5, [%rd2];
        $again: add.s32 %r5, %r5, -1; setp.ne.s32 %p1, %r5, 0; @%p1 bra $again; ret;"""

    def took(plan, rounds, touched):
        return ran(plan, np.full(64, rounds, np.uint32), block=32).estimate(touched)

    def new_plan():
        return Plan(program(body), CARD, 1, 32)

    cases = [(2, NOTHING), (20, NOTHING), (2, NOTHING), (2, Touched(10**6, 0, 10**6))]
    shared = new_plan()
    assert [took(shared, *case) for case in cases] == [took(new_plan(), *case) for case in cases]


@pytest.mark.parametrize(
    ("body", "touches_nothing"),
    [
        ("ret;", True),
        (".reg .b32 %r<3>; mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 1; exit;", True),
        (f"{INDEX} ret;", False),  # it reads its parameters
        (".reg .pred %p1; .reg .b32 %r1; setp.eq.u32 %p1, %r1, 0; @%p1 ret; trap;", False),
        (".reg .b64 %rd1; mov.u64 %rd1, %clock64; ret;", False),
        ("bar.sync 0; ret;", False),
        ("membar.gl; ret;", True),
        ("nanosleep.u32 100; ret;", False),
        ("trap;", False),
        ("bra L; L: ret;", False),
    ],
)
def test_a_kernel_touches_nothing_if_it_only_computes_on_the_way_to_its_end(body, touches_nothing):
    assert program(body).touches_nothing == touches_nothing


def test_a_fence_waits_for_the_answers_to_stores_and_with_sc_it_asks_the_l2_itself():
    """Both take a latency of the L2. A fence for the block takes nothing."""

    def taken(store, fence):
        body = f"{PLACE} mov.f32 %f1, 0f3F800000; {store} {fence}" + "fma.rn.f32 %f1, %f1, %f1, %f1;" * 20 + STORE
        return cycles(body, 1, 32)

    store, l2 = "st.global.f32 [%rd4], %f1;", pytest.approx(SPEC.l2_permille / 1000)
    for first in ("", store, "red.global.add.f32 [%rd4], %f1;"):
        assert taken(first, "membar.cta;") == taken(first, "")
        for full in ("membar.gl;", "fence.sc.sys;"):
            assert taken(first, full) - taken(first, "fence.acq_rel.gpu;") == l2
    assert taken(store, "fence.acq_rel.gpu;") - taken("", "fence.acq_rel.gpu;") == l2


def test_a_warp_whose_time_is_read_spends_the_same_on_fences():
    def cost(*items):
        return Plan(program(PLACE + " ".join(items) + "ret;"), CARD, 1, 32).rates.costs[0]

    store, latency = "st.global.u32 [%rd4], %r1;", 322  # from a load to its value
    assert cost(store, "membar.gl;") - cost("membar.gl;") == pytest.approx(latency, abs=6)
    assert cost("membar.gl;") - cost("fence.acq_rel.gpu;") == latency
    assert cost("fence.acq_rel.gpu;", "membar.gl;", "membar.gl;") - cost("membar.gl;") == latency


def test_fences_of_several_warps_take_their_time_at_the_same_time():
    def of_rounds(count, block):
        body = f"""{PLACE} mov.u32 %r5, {count};
            $again: ld.global.f32 %f1, [%rd4]; add.f32 %f1, %f1, 0f3F800000; st.global.f32 [%rd4], %f1; membar.gl;
            add.s32 %r5, %r5, -1; setp.ne.s32 %p1, %r5, 0; @%p1 bra $again; ret;"""
        return cycles(body, 1, block)

    one, eight = ((of_rounds(200, block) - of_rounds(100, block)) / 100 for block in (32, 256))
    assert (round(one), round(eight)) == (634, 635)
