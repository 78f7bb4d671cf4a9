"""AsyncProfiler: stages and overlap of a running program."""

import asyncio
import io

import pytest
from histories import D2H, H2D, busy, tiny

import acl_py
from acl_py.explain import AsyncProfiler, Stage

SIZE = 40_000  # 40 us on the tiny device
kernel = busy("kernel", 40)


async def pipeline(stream, host, device):
    await acl_py.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
    await kernel[1, stream]()
    await acl_py.MemcpyAsync(host, SIZE, device, SIZE, D2H, stream)


async def memory():
    return await acl_py.CreateStream(), await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)


@tiny
async def test_a_serial_pipeline_and_its_stages():
    stream, host, device = await memory()
    with AsyncProfiler() as profiler:
        profiler.BeginStage("upload")
        await acl_py.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
        profiler.EndStage("upload")
        profiler.BeginStage("compute")
        await kernel[1, stream]()
        profiler.EndStage("compute")
        await acl_py.SynchronizeStream(stream)
    await pipeline(stream, host, device)  # behind the block
    await acl_py.SynchronizeDevice()
    assert profiler.stages() == [
        Stage("upload", calls=1, host_ns=1_000, device_ns=40_000, ops=1),
        Stage("compute", calls=1, host_ns=1_000, device_ns=40_000, ops=1),
    ]
    shared = profiler.overlap()
    assert (shared.overlap, shared.pipeline_efficiency, shared.overlapped_efficiency) == (0, 0.5, 0.5)


@tiny
async def test_streams_side_by_side_keep_the_old_number_and_raise_the_new_one():
    """compute / (compute + transfer) is 1/3 whatever overlaps; the share of the time grows."""
    ways = [await memory() for _ in range(3)]
    efficiencies = {}
    for count in (1, 3):
        profiler = AsyncProfiler()
        for way in range(3):
            await pipeline(*ways[way % count])
        await acl_py.SynchronizeDevice()
        shared = profiler.overlap()
        efficiencies[count] = round(shared.pipeline_efficiency, 3), round(shared.overlapped_efficiency, 2)
    assert efficiencies == {1: (0.333, 0.33), 3: (0.333, 0.6)}


@tiny
async def test_a_stage_is_a_mark_and_a_mark_is_a_stage():
    profiler = AsyncProfiler()
    for _ in range(2):
        with acl_py.annotate("block"):
            await kernel[1]()
    profiler.BeginStage("outer")
    profiler.BeginStage("inner")
    await kernel[1]()
    profiler.EndStage("inner")
    await acl_py.HostWork(5)
    profiler.EndStage("outer")
    await acl_py.SynchronizeDevice()
    assert [(stage.name, stage.calls, stage.ops) for stage in profiler.stages()] == [
        ("block", 2, 2),
        ("outer", 1, 1),
        ("inner", 1, 1),
    ]
    marks = acl_py.current_simulation().trace.marks
    assert {mark.site.split(":")[0] for mark in marks} == {"test_profiler.py"}


@tiny
async def test_a_stage_has_the_operations_of_its_own_task():
    profiler = AsyncProfiler()

    async def task(name, count):
        profiler.BeginStage(name)
        for _ in range(count):
            await kernel[1]()
            await asyncio.sleep(0)
        profiler.EndStage(name)

    await asyncio.gather(task("one", 1), task("three", 3))
    await acl_py.SynchronizeDevice()
    assert {stage.name: stage.ops for stage in profiler.stages()} == {"one": 1, "three": 3}


@tiny
async def test_mistakes_are_named():
    profiler = AsyncProfiler()
    with pytest.raises(RuntimeError, match=r"no stage 'a' has begun: .* begun are: none"):
        profiler.EndStage("a")
    profiler.BeginStage("a")
    with pytest.raises(RuntimeError, match=r"stage 'a' has begun already: call EndStage\('a'\) first"):
        profiler.BeginStage("a")
    with pytest.raises(ValueError):
        profiler.BeginStage("")
    with pytest.raises(TypeError):
        profiler.BeginStage(7)


def test_without_a_trace_or_a_simulation_there_is_no_profiler():
    with pytest.raises(acl_py.AclError):
        AsyncProfiler()

    async def main():
        with pytest.raises(RuntimeError, match="trace=False"):
            AsyncProfiler()

    acl_py.run(main, device="tiny", trace=False)


@tiny
async def test_the_report_is_printed():
    with AsyncProfiler() as profiler:
        pass
    text = io.StringIO()
    profiler.PrintReport(text)
    assert text.getvalue() == profiler.report() + "\n"
    assert "overlap of copy and compute: 0 %" in profiler.report()
