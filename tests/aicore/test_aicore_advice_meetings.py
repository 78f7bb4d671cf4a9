"""Advice on how cores and pipes meet: lines that all cores read at one time, a cube that waits for Fixpipe, and short
rows that come from the L2. Who follows it saves what was said.
"""

import runpy
from pathlib import Path

import numpy as np
import pytest
from cores import SPEC, found, launch
from test_aicore_unit_flags import factors_in_place, results

import acl_py
from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.core.tensors import float32 as single
from device_model.aicore.cube.fixpipe import Fixpipe, FixpipeParams
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.cube.mmad import Mmad, MmadParams
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy, Nd2NzParams
from device_model.aicore.runner import Result
from device_model.aicore.shaping.advice import Guideline, advise

MEETINGS = (Guideline.CORES_APART, Guideline.CUBE_GOES_ON)
TILE = 131072  # halves: 256 KB, for which a core takes longer than the moment in which cores meet


def duration_us(result):
    return result.timeline.duration_ns / 1000


def of(advice, guideline):
    """The one about *guideline*, or None."""
    return next((each for each in advice if each.guideline is guideline), None)


def line_of(text):
    """The first line of this file with *text*, as findings name it."""
    with open(__file__) as file:
        return f"test_aicore_advice_meetings.py:{next(n for n, line in enumerate(file, 1) if text in line)}"


def all_read_the_same(x, steps, groups):
    """Each cube core brings all tiles of x to L1; each of *groups* of cores begins at another one."""
    x_gm, block = GlobalTensor(half).SetGlobalBuffer(x), GetBlockIdx()
    for step in range(steps):
        tile = (step + block % groups * steps // groups) % steps
        DataCopy(LocalTensor(half, TPosition.A1, 0, TILE), x_gm[tile * TILE :], TILE)  # of all cores


def read_by_all(*, groups=1, blocks=24, steps=16):
    x = np.ones(steps * TILE, np.float16)
    return launch(all_read_the_same, x, steps, groups, blocks=blocks, kind=KernelType.AIC_ONLY)


def test_cores_that_begin_at_different_tiles_save_what_was_said():
    bad, good = read_by_all(), read_by_all(groups=16)
    [advice] = advise(bad)
    [case] = advice.cases
    assert advice.guideline is Guideline.CORES_APART
    assert (str(case.site), case.name) == (line_of("# of all cores"), "DataCopy (MTE2)")
    assert case.what == "reads lines that up to 24 cores read at one time"
    assert advice.saved_us == pytest.approx(duration_us(bad) - duration_us(good), rel=0.1)
    assert advise(good) == []


def test_only_cores_that_read_a_line_at_one_time_are_counted():
    [advice] = advise(read_by_all(groups=2))  # all 24 read each line, 12 at a time
    assert advice.cases[0].what == "reads lines that up to 12 cores read at one time"


def test_cores_that_never_meet_hear_nothing_of_it():
    assert of(advise(read_by_all(blocks=1)), Guideline.CORES_APART) is None


def cube_waits(*, events, count=8, side=128, k=64):
    """Results of one cube core, with events before and behind Fixpipe, or with unit flags."""
    x = np.random.default_rng(1).normal(size=(side, k)).astype(np.float16)
    c, flags = np.zeros((count, side, side), np.float32), (0, 0, 0) if events else (2, 3, 3)
    return launch(results, x, c, side, k, count, 4, flags, events, kind=KernelType.AIC_ONLY)


def by_matmul(x, w, y, tiling):
    """A product on 8 cores by the Matmul object, which begins at k = 0 on each of them."""
    factors = MatmulType(TPosition.GM, CubeFormat.ND, half)
    matmul = Matmul(factors, factors, factors)
    REGIST_MATMUL_OBJ(TPipe(), None, matmul, tiling)
    row, column, rows, columns = tiling.part(GetBlockIdx())
    matmul.SetSingleShape(rows, columns, 512)
    matmul.SetTensorA(GlobalTensor(half).SetGlobalBuffer(x)[row * 512 :])
    matmul.SetTensorB(GlobalTensor(half).SetGlobalBuffer(w)[column:])
    matmul.IterateAll(GlobalTensor(half).SetGlobalBuffer(y)[row * 512 + column :])
    matmul.End()


def test_a_matmul_hears_nothing_of_what_it_does_not_let_choose():
    x, w, y = (np.zeros(rows * 512, np.float16) for rows in (256, 512, 256))
    tiling = multi_core_matmul_tiling(SPEC, 256, 512, 512, half, cores=8)
    result = launch(by_matmul, x, w, y, tiling, blocks=8, kind=KernelType.AIC_ONLY)
    assert [each for each in advise(result) if each.guideline in MEETINGS] == []


def with_places(x, c, side, k, count, rounds, places):
    """The same through some places in L0C: Fixpipe stores one while the cube fills another."""
    a2, b2 = factors_in_place(x, side, k)
    out = GlobalTensor(single).SetGlobalBuffer(c)
    results = [LocalTensor(single, TPosition.CO1, 4 * side * side * place, side * side) for place in range(places)]
    for place in range(places):
        SetFlag(HardEvent.FIX_M, place)
    for index in range(count):
        place = index % places
        WaitFlag(HardEvent.FIX_M, place)  # until it is empty
        for turn in range(rounds):
            Mmad(results[place], a2, b2, MmadParams(side, side, k, turn == 0))
        SetFlag(HardEvent.M_FIX, place)
        WaitFlag(HardEvent.M_FIX, place)
        Fixpipe(out[index * side * side :], results[place], FixpipeParams(side, side))
        SetFlag(HardEvent.FIX_M, place)
    for place in range(places):
        WaitFlag(HardEvent.FIX_M, place)  # at the end


def test_a_cube_that_does_not_wait_for_fixpipe_saves_what_was_said():
    bad, good = cube_waits(events=True), cube_waits(events=False)
    advice = of(advise(bad), Guideline.CUBE_GOES_ON)
    [case] = advice.cases
    assert (case.name, case.count) == ("WaitFlag<FIX_M> (M)", 7)
    assert "keeps the cube until Fixpipe has stored C: " in case.what
    assert of(advise(good), Guideline.CUBE_GOES_ON) is None
    side, k, count = 128, 64, 8
    x, c = np.ones((side, k), np.float16), np.zeros((count, side, side), np.float32)
    one, two = (launch(with_places, x, c, side, k, count, 4, places, kind=KernelType.AIC_ONLY) for places in (1, 2))
    assert found(one) == found(two) == []
    assert advice.saved_us == pytest.approx(duration_us(bad) - duration_us(two), rel=0.05)
    [case] = of(advise(one), Guideline.CUBE_GOES_ON).cases  # not the wait at the end, behind which is no Mmad
    assert (str(case.site), case.count) == (line_of("# until it is empty"), 8)
    assert of(advise(two), Guideline.CUBE_GOES_ON) is None


def rows_again(x, rows, width):
    """Bring a matrix of 128 x 1024 halves to L1 four times, in tiles of *rows* x *width*."""
    x_gm, columns = GlobalTensor(half).SetGlobalBuffer(x), 1024
    l1 = LocalTensor(half, TPosition.A1, 0, rows * width)
    for _ in range(4):
        for row in range(0, 128, rows):
            for column in range(0, columns, width):
                source = x_gm[row * columns + column :]
                DataCopy(l1, source, Nd2NzParams(1, rows, width, 0, columns, rows, 1, 0))  # of rows


def test_short_rows_from_the_l2_are_told_so_and_longer_ones_save_what_was_said():
    x = np.ones((128, 1024), np.float16)
    bad = launch(rows_again, x, 128, 64, kind=KernelType.AIC_ONLY)
    good = launch(rows_again, x, 32, 256, kind=KernelType.AIC_ONLY)
    advice = of(advise(bad), Guideline.WHOLE_LINES)
    [case] = advice.cases
    assert str(case.site) == line_of("# of rows")
    assert case.what.endswith("; 48 of 64 times from the L2, where each row takes as long as 256 bytes")
    assert advice.saved_us == pytest.approx(duration_us(bad) - duration_us(good), rel=0.1)
    assert of(advise(good), Guideline.WHOLE_LINES) is None


SAMPLES = Path(__file__).parents[2] / "samples" / "aicore"


@pytest.mark.slow
@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.py")), ids=lambda sample: sample.stem)
def test_samples_hear_of_meetings_where_a_later_step_mends_them(sample, monkeypatch):
    """Only the steps of product_in_steps whose cube waits for Fixpipe do; the last step lets C leave block by block."""
    heard = []

    class Adviser(acl_py.Observer):
        def op_ended(self, op):
            result = getattr(op.work, "result", None)
            if isinstance(result, Result):
                heard.append([each.guideline for each in advise(result) if each.guideline in MEETINGS])

    def run(main, *arguments, **options):
        async def advised():
            acl_py.current_simulation().observe(Adviser())
            return await main(*arguments)

        return real(advised, **options)

    real = acl_py.run
    monkeypatch.setattr(acl_py, "run", run)
    runpy.run_path(str(sample), run_name="__main__")
    waits = [Guideline.CUBE_GOES_ON]
    assert heard
    assert heard == (
        [[], [], waits, waits, waits, waits, []] if sample.stem == "product_in_steps" else [[]] * len(heard)
    )
