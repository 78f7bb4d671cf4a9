"""The times of instructions, worked out by hand from the profile's numbers."""

import numpy as np
import pytest

from device_model.aicore.program import Kind
from device_model.aicore.runner import run
from device_model.profile import load
from tests.bench.aicore_rows import add_kernel

SPEC = load("ascend910b1").aicore
NS = SPEC.mhz / 1000  # cycles


def played(blocks, tile, tiles=1):
    size = blocks * tile * tiles
    x, y, z = (np.full(size, value, np.float16) for value in (1, 2, 0))
    return run(add_kernel(tile, 1, 1), blocks, (x, y, z, size), SPEC, hazards=False)


def work(program):
    return [each for each in program.instructions if each.kind is Kind.WORK and each.name in ("DataCopy", "Add")]


def test_one_tile_takes_what_its_copies_and_its_addition_take():
    (program,) = played(1, 1024).programs
    first, second, add, out = work(program)
    data = 2048 / SPEC.read_bytes_per_cycle
    assert first.end - first.start == pytest.approx(SPEC.copy_issue + SPEC.read_latency_ns * NS + data)
    assert second.start - first.start == SPEC.copy_issue  # its latency runs beside the first one's
    assert second.end - first.end == pytest.approx(data)  # and its bytes follow
    assert add.start == pytest.approx(second.end + SPEC.flag_latency)
    assert add.end - add.start == 24 + 8 * 2  # 8 repeats of 256 bytes, both sources in one bank group
    assert out.start == pytest.approx(add.end + SPEC.flag_latency)
    assert out.end - out.start == pytest.approx(SPEC.copy_issue + SPEC.write_latency_ns * NS + data)


def test_all_cores_together_get_what_the_memory_gives():
    result = played(48, 16384, 4)
    programs = result.programs
    begin = min(work(program)[0].start for program in programs)
    end = max(work(program)[-1].end for program in programs)
    moved = 3 * 48 * 4 * 16384 * 2
    assert 0.5 * SPEC.hbm_gbps < moved / ((end - begin) / NS) <= SPEC.hbm_gbps


def test_cores_start_apart_and_more_blocks_than_cores_take_turns():
    result = played(96, 1024)
    starts = sorted(work(program)[0].start for program in result.programs[:48])
    assert starts[-1] - starts[0] == pytest.approx(SPEC.start_skew_ns * NS, rel=0.1)
    for program in result.programs[48:]:
        before = next(
            each for each in result.programs[:48] if result.timeline.core_of(each) == result.timeline.core_of(program)
        )
        assert work(program)[0].start > work(before)[-1].end
