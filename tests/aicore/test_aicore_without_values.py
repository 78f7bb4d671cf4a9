"""Instructions that tell the kernel a number: without values they tell what follows from their operands alone."""

import numpy as np
import pytest
from cores import launch

from acl_py.asc import (
    GatherMask,
    GatherMaskParams,
    GlobalTensor,
    LocalTensor,
    MrgSort,
    MrgSort4Info,
    SyncAll,
    TPosition,
    float32,
    int32,
    uint32,
)
from device_model.kernel.findings import KernelError


def local(dtype, address, size):
    return LocalTensor(dtype, TPosition.VECCALC, address, size)


def both(kernel, *args, **options):
    """Duration and instructions of a launch with values and without."""
    runs = []
    for values in (True, False):
        result = launch(kernel, *[each.copy() for each in args], hazards=False, values=values, **options)
        names = [each.name for program in result.programs for each in program.instructions]
        runs.append((result.timeline.duration_ns, names))
    return runs


@pytest.mark.parametrize(("pattern", "expected"), [(1, 64), (4, 32), (7, 128)])
def test_a_fixed_pattern_tells_how_many_elements_it_selects(pattern, expected):
    counts = []

    def kernel(_):
        params = GatherMaskParams(1, 2, 8, 0)
        counts.append(GatherMask(local(float32, 0, 128), local(float32, 1024, 128), pattern, False, 0, params))

    with_values, without = both(kernel, np.zeros(8, np.float32))
    assert counts == [expected] * 2
    assert without == with_values


def test_bits_in_memory_are_not_known():
    def kernel(_):
        bits = local(uint32, 2048, 8)
        GatherMask(local(float32, 0, 64), local(float32, 1024, 64), bits, False, 0, GatherMaskParams())

    with pytest.raises(KernelError, match=r"GatherMask by the bits of <LocalTensor .* needs values"):
        launch(kernel, np.zeros(8, np.float32), values=False)


def test_a_merge_takes_all_records_of_the_lists_that_it_merges():
    taken = []

    def kernel(_):
        lists = [local(float32, 4096 + 64 * number, 16) for number in range(2)]
        taken.append(MrgSort(local(float32, 0, 32), lists, MrgSort4Info([8, 4, 0, 0], False, 0b11)))

    with_values, without = both(kernel, np.zeros(8, np.float32))
    assert taken == [(8, 4, 0, 0)] * 2
    assert without == with_values


def test_a_merge_that_stops_when_a_list_is_used_up_needs_values():
    def kernel(_):
        lists = [local(float32, 4096 + 64 * number, 16) for number in range(2)]
        MrgSort(local(float32, 0, 32), lists, MrgSort4Info([8, 4, 0, 0], True, 0b11))

    with pytest.raises(KernelError, match=r"MrgSort that stops when a list is used up .* needs values"):
        launch(kernel, np.zeros(8, np.float32), values=False)


def test_cores_that_count_in_a_workspace_meet_as_often():
    def kernel(gm):
        workspace = GlobalTensor(int32).SetGlobalBuffer(gm), local(int32, 0, 32)
        for _ in range(3):
            SyncAll(*workspace)

    with_values, without = both(kernel, np.zeros(64, np.int32), blocks=3)
    assert without == with_values


def test_an_instruction_that_writes_an_argument_of_its_input_fails_as_with_values():
    def kernel(x):
        GlobalTensor(int32).SetGlobalBuffer(x).SetValue(0, 1)

    x = np.zeros(8, np.int32)
    x.flags.writeable = False
    for values in (True, False):
        with pytest.raises(KernelError, match="writes to GM argument 0, which the kernel declares as In"):
            launch(kernel, x, values=values)
