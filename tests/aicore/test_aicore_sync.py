"""Flags, ids and barriers within a core; and that each instruction knows the line that issued it."""

import linecache

import numpy as np
import pytest
from cores import found, launch, work

from device_model.aicore.core.names import EVENTS_OF, PIPES_OF, CoreType, HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.program import Kind
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32
from device_model.aicore.flags.queues import TQue
from device_model.aicore.flags.sync import AllocEventID, FetchEventID, PipeBarrier, ReleaseEventID, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError, KernelHangError


def instructions(result):
    """Pipe, kind and name of each instruction of the first core."""
    return [(each.pipe.name, each.kind.name, each.name) for each in result.programs[0].instructions]


@pytest.mark.parametrize("core_type", CoreType)
def test_every_event_of_a_core_type_goes_from_its_source_to_its_destination(core_type):
    kind = KernelType.AIC_ONLY if core_type is CoreType.AIC else KernelType.AIV_ONLY

    def kernel():
        for event in EVENTS_OF[core_type]:
            for event_id in range(8):
                SetFlag(event, event_id)
            for event_id in range(8):
                WaitFlag(event, event_id)

    result = launch(kernel, kind=kind)
    assert found(result) == []
    assert {name for name, _, _ in instructions(result)} <= {pipe.name for pipe in PIPES_OF[core_type]}
    assert instructions(result)[:9:8] == [
        (EVENTS_OF[core_type][0].source.name, "SET", f"SetFlag<{EVENTS_OF[core_type][0]}>"),
        (EVENTS_OF[core_type][0].destination.name, "WAIT", f"WaitFlag<{EVENTS_OF[core_type][0]}>"),
    ]


def test_there_are_24_events_on_a_cube_core_and_13_on_a_vector_core():
    assert {core_type.name: len(events) for core_type, events in EVENTS_OF.items()} == {"AIC": 24, "AIV": 13}


@pytest.mark.parametrize("core_type", CoreType)
def test_events_of_the_other_cores_are_refused(core_type):
    kind = KernelType.AIC_ONLY if core_type is CoreType.AIC else KernelType.AIV_ONLY

    def kernel():
        for event in HardEvent:
            if event not in EVENTS_OF[core_type]:
                with pytest.raises(KernelError, match=f"{event} does not exist"):
                    SetFlag(event, 0)
                with pytest.raises(KernelError, match=f"{event} does not exist"):
                    WaitFlag(event, 0)
        with pytest.raises(TypeError, match="an event is a HardEvent"):
            SetFlag("MTE2_V", 0)

    assert instructions(launch(kernel, kind=kind)) == []


def test_the_lowest_free_id_is_taken_and_each_event_has_its_own():
    def kernel():
        assert [AllocEventID(HardEvent.MTE2_V) for _ in range(8)] == list(range(8))
        assert AllocEventID(HardEvent.V_MTE2) == 0
        ReleaseEventID(HardEvent.MTE2_V, 5)
        ReleaseEventID(HardEvent.MTE2_V, 2)
        assert FetchEventID(HardEvent.MTE2_V) == 2
        assert [AllocEventID(HardEvent.MTE2_V) for _ in range(2)] == [2, 5]

    assert found(launch(kernel)) == []


def test_an_id_fetched_and_used_up_may_be_fetched_again():
    def kernel():
        for _ in range(3):
            event_id = FetchEventID(HardEvent.V_S)
            SetFlag(HardEvent.V_S, event_id)
            WaitFlag(HardEvent.V_S, event_id)

    assert found(launch(kernel)) == []


def test_an_id_fetched_twice_may_serve_two_flags_in_turn():
    def kernel():
        outer = FetchEventID(HardEvent.V_S)
        inner = FetchEventID(HardEvent.V_S)  # as a function does that the kernel calls in between
        for event_id in (inner, outer):
            SetFlag(HardEvent.V_S, event_id)
            WaitFlag(HardEvent.V_S, event_id)

    assert found(launch(kernel)) == []


def test_a_tpipe_gives_ids_too():
    def kernel():
        pipe = TPipe()
        assert (pipe.AllocEventID(HardEvent.V_S), pipe.FetchEventID(HardEvent.V_S)) == (0, 1)
        pipe.ReleaseEventID(HardEvent.V_S, 0)

    assert found(launch(kernel)) == []


def test_barriers_stand_in_their_pipe_and_the_one_of_all_in_the_scalar_pipe():
    def kernel():
        for pipe in (Pipe.V, Pipe.MTE2, Pipe.ALL):
            PipeBarrier(pipe)
        with pytest.raises(KernelError, match="the scalar pipe needs none"):
            PipeBarrier(Pipe.S)

    assert instructions(launch(kernel)) == [
        ("V", "BARRIER", "PipeBarrier<V>"),
        ("MTE2", "BARRIER", "PipeBarrier<MTE2>"),
        ("S", "BARRIER_ALL", "PipeBarrier<ALL>"),
    ]


def test_a_hang_says_what_stands_still_and_why():
    def kernel(x):
        a, b = (LocalTensor(float32, TPosition.VECIN, at, 8) for at in (0, 32))
        WaitFlag(HardEvent.V_MTE2, 3)
        DataCopy(a, GlobalTensor().SetGlobalBuffer(x), 8)
        SetFlag(HardEvent.MTE2_V, 0)
        WaitFlag(HardEvent.MTE2_V, 0)
        work(Pipe.V, "Copy", b, a)
        SetFlag(HardEvent.V_MTE2, 3)

    with pytest.raises(KernelHangError) as raised:
        launch(kernel, np.zeros(8, np.float32))
    first = kernel.__code__.co_firstlineno
    assert str(raised.value) == (
        f"block 0 (AIV) hangs: V waits in WaitFlag<MTE2_V> at test_aicore_sync.py:{first + 5} for SetFlag<MTE2_V> "
        f"(MTE2) at test_aicore_sync.py:{first + 4}"
        f", which comes after a wait that hangs in MTE2; MTE2 waits in WaitFlag<V_MTE2> at "
        f"test_aicore_sync.py:{first + 2} for SetFlag<V_MTE2> (V) at test_aicore_sync.py:{first + 7}, which comes "
        "after a wait that hangs in V; set each flag before the wait for it, and before a loop the flags that its "
        "first turn waits for"
    )
    assert [(program.block, head.pipe, head.kind) for program, head in raised.value.pipes] == [
        (0, Pipe.V, Kind.WAIT),
        (0, Pipe.MTE2, Kind.WAIT),
    ]


def test_the_scalar_pipe_goes_no_further_than_a_hang():
    """It waits for what stands behind a wait that never ends: what it would read next is not there."""
    reached = []

    def kernel():
        WaitFlag(HardEvent.MTE2_V, 0)
        SetFlag(HardEvent.V_S, 0)
        reached.append("issued")
        WaitFlag(HardEvent.V_S, 0)
        reached.append("read")

    with pytest.raises(KernelHangError, match="V waits in WaitFlag<MTE2_V>"):
        launch(kernel)
    assert reached == ["issued"]


def test_after_a_late_set_all_goes_on_as_before():
    """The set comes later in the program, but from a pipe that does not hang."""

    def kernel():
        WaitFlag(HardEvent.MTE2_V, 0)
        SetFlag(HardEvent.MTE2_V, 0)
        PipeBarrier(Pipe.ALL)
        SetFlag(HardEvent.MTE2_V, 0)
        WaitFlag(HardEvent.MTE2_V, 0)

    result = launch(kernel)
    assert [finding.rule.name for finding in result.findings] == ["LATE_SET"]
    late, _, _, set_, wait = result.programs[0].instructions
    assert (late.waits, wait.waits) == ((), (set_,))


def test_each_instruction_knows_the_line_of_the_kernel():
    def kernel(x):
        pipe, queue = TPipe(), TQue(TPosition.VECIN, 1)
        pipe.InitBuffer(queue, 1, 32)
        tensor = queue.AllocTensor(float32)  # line 0
        DataCopy(tensor, GlobalTensor().SetGlobalBuffer(x), 8)
        queue.EnQue(tensor)
        tensor = queue.DeQue()
        tensor.GetValue(3)
        queue.FreeTensor(tensor)
        pipe.Destroy()

    instructions = launch(kernel, np.zeros(8, np.float32)).programs[0].instructions
    words = ["DataCopy(", "EnQue(", "DeQue(", "GetValue(", "FreeTensor(", "Destroy(", "Destroy("]
    lines = [linecache.getline(each.site.file, each.site.line) for each in instructions]
    assert [word in line for word, line in zip(words, lines, strict=True)] == [True] * 7
    assert str(instructions[0].site) == f"test_aicore_sync.py:{kernel.__code__.co_firstlineno + 4}"
    assert instructions[0].site == instructions[0].site
    assert instructions[0].site != instructions[1].site
