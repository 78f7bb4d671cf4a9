"""Pipelines of stages: with queues and with flags, of any depth, they compute right, have no hazard, and overlap."""

import numpy as np
import pytest
from cores import found, launch
from hypothesis import given
from hypothesis import strategies as st

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, Pipe, RoundMode
from device_model.aicore.core.program import Kind
from device_model.aicore.core.tensors import GlobalTensor, float32, half
from device_model.aicore.flags.stages import FlagLink, Pipeline, QueueLink
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.elementwise import Abs, Add, Adds, Cast, Muls, Relu
from device_model.kernel.findings import KernelError

LINKS = (QueueLink, FlagLink)
STEPS = (Abs, Relu, lambda dst, src, count: Muls(dst, src, 2, count), lambda dst, src, count: Adds(dst, src, -3, count))
REFERENCE = (np.abs, lambda x: np.maximum(x, 0), lambda x: x * 2, lambda x: x - 3)


def add_and_more(x, y, z, tile, tiles, depth, link, steps):
    """z = steps(x + y); the sum and each step are stages of their own."""
    x_gm, y_gm, z_gm = (GlobalTensor(float32).SetGlobalBuffer(each) for each in (x, y, z))
    first = GetBlockIdx() * tile * tiles

    def load(at, a, b):
        DataCopy(a, x_gm[first + at * tile :], tile)
        DataCopy(b, y_gm[first + at * tile :], tile)

    def store(at, c):
        DataCopy(z_gm[first + at * tile :], c, tile)

    pipeline = Pipeline(TPipe(), depth, link)
    pipeline.AddStage(Pipe.MTE2, load, [(float32, tile), (float32, tile)])
    pipeline.AddStage(Pipe.V, lambda _, a, b, c: Add(c, a, b, tile), [(float32, tile)])
    for step in steps:
        pipeline.AddStage(Pipe.V, lambda _, a, b, step=step: STEPS[step](b, a, tile), [(float32, tile)])
    pipeline.AddStage(Pipe.MTE3, store)
    pipeline.Run(range(tiles))


def run(tile, tiles, depth, link, steps=(), blocks=1, **options):
    x, y = (np.random.default_rng(seed).integers(-9, 9, blocks * tile * tiles).astype(np.float32) for seed in (0, 1))
    z = np.zeros_like(x)
    result = launch(add_and_more, x, y, z, tile, tiles, depth, link, steps, blocks=blocks, **options)
    expected = x + y
    for step in steps:
        expected = REFERENCE[step](expected)
    np.testing.assert_array_equal(z, expected)
    return result


@given(
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 8),
    st.sampled_from(LINKS),
    st.lists(st.integers(0, len(STEPS) - 1), max_size=3),
    st.booleans(),
)
def test_a_pipeline_of_any_depth_computes_right_and_has_no_hazard(units, tiles, depth, link, steps, weak):
    assert found(run(8 * units, tiles, depth, link, steps, blocks=2, weak=weak)) == []


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("tile", [512, 2048])
def test_a_deeper_pipeline_is_faster_until_the_memory_is_the_limit(link, tile):
    times = [run(tile, 24, depth, link).timeline.duration_ns for depth in range(1, 6)]
    assert times[1] < 0.75 * times[0]
    assert all(deeper < 1.005 * times[0] for deeper in times), times


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_queues_and_flags_take_the_same_time_but_for_the_queues_scalar_work(depth):
    queues, flags = (run(2048, 16, depth, link).timeline.duration_ns for link in LINKS)
    assert queues == pytest.approx(flags, rel=0.05)


def flags_of(result):
    """The flags that each pipe issued, by turns of the loop."""
    instructions = result.programs[0].instructions
    return [each.name for each in instructions if each.kind in (Kind.SET, Kind.WAIT)]


def test_the_flags_are_those_of_a_kernel_written_by_hand():
    turn = "WaitFlag<V_MTE2> SetFlag<MTE2_V> WaitFlag<MTE2_V> WaitFlag<MTE3_V> SetFlag<V_MTE3> SetFlag<V_MTE2> "
    turn += "WaitFlag<V_MTE3> SetFlag<MTE3_V>"
    preset, drained = "SetFlag<V_MTE2> SetFlag<MTE3_V>", "WaitFlag<V_MTE2> WaitFlag<MTE3_V>"
    expected = f"{preset} {turn} {turn} {drained}".split()
    assert flags_of(run(64, 2, 1, FlagLink)) == expected


def test_a_load_may_go_to_the_store_without_the_vector_pipe():
    def through(x, y, link):
        x_gm, y_gm = (GlobalTensor(half).SetGlobalBuffer(each) for each in (x, y))
        pipeline = Pipeline(TPipe(), 3, link)
        pipeline.AddStage(Pipe.MTE2, lambda at, a: DataCopy(a, x_gm[at:], 64), [(half, 64)])
        pipeline.AddStage(Pipe.MTE3, lambda at, a: DataCopy(y_gm[at:], a, 64))
        pipeline.Run(range(0, 640, 64))

    for link in LINKS:
        x = np.arange(640).astype(np.float16)
        y = np.zeros_like(x)
        result = launch(through, x, y, link)
        assert found(result) == []
        np.testing.assert_array_equal(y, x)
        assert {each.pipe for each in result.programs[0].instructions if each.kind is Kind.WORK} == {
            Pipe.MTE2, Pipe.MTE3,
        }  # fmt: skip


def test_a_stage_may_fill_tensors_of_several_types():
    def cast(x, y, link):
        x_gm, y_gm = GlobalTensor(half).SetGlobalBuffer(x), GlobalTensor(float32).SetGlobalBuffer(y)

        def widen(_, a, b, c):
            Cast(b, a, RoundMode.CAST_NONE, 40)
            Adds(c, a, 1, 40)

        def both(_, b, c, d):
            Cast(d, c, RoundMode.CAST_NONE, 40)
            Add(d, d, b, 40)

        pipeline = Pipeline(TPipe(), 2, link)
        pipeline.AddStage(Pipe.MTE2, lambda at, a: DataCopy(a, x_gm[at:], 48), [(half, 48)])
        pipeline.AddStage(Pipe.V, widen, [(float32, 40), (half, 40)])
        pipeline.AddStage(Pipe.V, both, [(float32, 40)])
        pipeline.AddStage(Pipe.MTE3, lambda at, d: DataCopy(y_gm[at:], d, 40))
        pipeline.Run(range(0, 400, 40))

    for link in LINKS:
        x = np.arange(408).astype(np.float16)
        y = np.zeros(400, np.float32)
        assert found(launch(cast, x, y, link)) == []
        np.testing.assert_array_equal(y, 2 * x[:400].astype(np.float32) + 1)


def refused(build, match, depth=2):
    def kernel():
        build(Pipeline(TPipe(), depth))

    with pytest.raises(KernelError, match=match):
        launch(kernel)


def test_chains_that_no_core_has_are_refused():
    fills = [(half, 16)]

    def nothing(*_):
        pass

    def store_first(pipeline):
        pipeline.AddStage(Pipe.MTE3, nothing, fills)
        pipeline.AddStage(Pipe.V, nothing)

    def empty_middle(pipeline):
        pipeline.AddStage(Pipe.MTE2, nothing)
        pipeline.AddStage(Pipe.V, nothing)

    def open_end(pipeline):
        pipeline.AddStage(Pipe.MTE2, nothing, fills)
        pipeline.AddStage(Pipe.V, nothing, fills)
        pipeline.Run(range(1))

    def twice(pipeline):
        pipeline.AddStage(Pipe.MTE2, nothing, fills)
        pipeline.AddStage(Pipe.MTE3, nothing)
        pipeline.Run(range(0))
        pipeline.Run(range(1))

    refused(store_first, "a stage on V behind one on MTE3; load on MTE2, compute on V, store on MTE3")
    refused(empty_middle, "a stage behind one that fills nothing")
    refused(open_end, r"Run\(\) of <Pipeline of depth 2: nothing \(MTE2\) -> nothing \(V\)>")
    refused(twice, "runs once")
    refused(None, "a pipeline of depth 9; a depth is 1 to 8: each slot takes an event id", depth=9)
    refused(lambda pipeline: pipeline.Run(range(1)), "two stages or more")
    refused(
        lambda pipeline: [pipeline.AddStage(Pipe.MTE2, nothing, [(half, 0)]), pipeline.AddStage(Pipe.V, nothing)],
        "a stage that fills 0 x float16",
    )


def test_a_stage_that_uses_another_pipe_than_it_says_is_found():
    def kernel(x, link):
        x_gm = GlobalTensor(half).SetGlobalBuffer(x)
        pipeline = Pipeline(TPipe(), 2, link)
        pipeline.AddStage(Pipe.MTE2, lambda at, a: DataCopy(a, x_gm[at:], 64), [(half, 64)])
        pipeline.AddStage(Pipe.V, lambda at, a: DataCopy(x_gm[at:], a, 64))  # MTE3
        pipeline.Run(range(0, 128, 64))

    for link in LINKS:
        assert ("RAW", str(HardEvent.MTE2_MTE3)) in found(launch(kernel, np.zeros(128, np.float16), link))
