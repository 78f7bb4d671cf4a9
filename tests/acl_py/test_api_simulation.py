"""Simulations: run, simulate, open; one in another; what remains of them."""

import asyncio
import inspect
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import uvloop
from histories import busy, calls, history, tiny

import acl_py as acl
from acl_py.options import Options
from acl_py.trace.views.summary import leak_lines
from acl_py_pytest import AclSim
from device_model.compiled import CORE, IS_COMPILED

A = busy("A", 10)


def test_run_gives_the_arguments_to_the_program_and_its_value_back():
    async def program(x, y):
        return x + y, acl.current_simulation().now_ns

    assert acl.run(program, 1, 2, device="tiny") == (3, 0)


@pytest.mark.parametrize("on_uvloop", [False, True])
def test_run_uses_the_loop_that_is_asked_for(on_uvloop):
    async def program():
        await acl.LaunchKernel(A, 1)
        await acl.SynchronizeDevice()
        return isinstance(asyncio.get_running_loop(), uvloop.Loop), acl.current_simulation().now_ns

    assert acl.run(program, device="tiny", uvloop=on_uvloop) == (on_uvloop, 13_000)


def test_the_calls_cost_what_an_overlay_says(tmp_path):
    async def program():
        await acl.LaunchKernel(A, 1)
        return acl.current_simulation().now_ns

    file = tmp_path / "host.toml"
    file.write_text('[host]\nlaunch = { value = 1500, source = "measured: here" }')
    assert acl.run(program, device="tiny", overlay=file) == 1_500
    assert acl.run(program, device="tiny") == 1_000
    with pytest.raises(ValueError, match="there is no overlay 'touch'; there are torch"):
        acl.run(program, device="tiny", overlay="touch")


def test_what_a_program_raises_comes_through_and_the_simulation_ends():
    seen = []

    async def program():
        seen.append(acl.current_simulation())
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        acl.run(program, device="tiny")
    assert seen[0].runtime.closed == "the simulation was closed"


def test_options_are_checked_before_anything_runs():
    async def program():
        raise AssertionError("must not run")

    for options, error, match in (
        (
            {"device": "h300"},
            acl.ProfileError,
            r"there is no profile 'h300'; did you mean h200\? There are ascend310, ",
        ),
        ({"device": "nowhere/at_all.toml"}, acl.ProfileError, "cannot read the profile"),
        ({"rules": "opencl"}, ValueError, "there are no rules 'opencl'; there are cuda, cuda_per_thread, acl"),
        ({"workers": 0}, ValueError, "workers must be 1 or more, not 0"),
        ({"workers": -2}, ValueError, "workers must be 1 or more, not -2"),
        ({"workers": 1.5}, TypeError, "workers must be an int, not 1.5"),
        ({"device": 5}, TypeError, "device must be the name of a profile, the path of a .toml file or a DeviceProfile"),
        ({"overlay": 5}, TypeError, "overlay must be the name of an overlay or the path of a .toml file, not 5"),
        ({"rules": 5}, TypeError, "rules must be one of cuda, cuda_per_thread, acl or a SyncRules, not 5"),
        ({"seed": "x"}, TypeError, "seed must be an int, not 'x'"),
        ({"seed": -1}, ValueError, "seed must be 0 or more, not -1"),
        ({"instructions": 1.5}, TypeError, "instructions must be an int, not 1.5"),
        ({"hang_after": "1"}, TypeError, "hang_after must be a number of seconds, not '1'"),
        ({"hang_after": -1}, ValueError, "hang_after must be 0 seconds or more, not -1"),
        ({"hang_after": float("nan")}, ValueError, "hang_after must be 0 seconds or more, not nan"),
    ):
        with pytest.raises(error, match=match):
            acl.run(program, **({"device": "tiny"} | options))


def test_a_coroutine_in_place_of_its_function_gets_one_error_and_no_warning():
    async def program():
        raise AssertionError("must not run")

    made = program()
    with pytest.raises(TypeError, match=r"run\(main, ...\), not a coroutine of .*program\(\)$"):
        acl.run(made)
    assert inspect.getcoroutinestate(made) == inspect.CORO_CLOSED


def test_a_main_that_is_no_coroutine_function_is_refused():
    def main():
        return 3

    for run in (acl.run, AclSim({"device": "tiny"}).run):
        with pytest.raises(TypeError, match=r"main\(\) returned an object of int: write `async def main`$"):
            run(main)


def test_a_profile_may_be_given_by_path_and_rules_as_a_value(tmp_path):
    text = (Path(acl.__file__).parents[1] / "device_model/profiles/tiny.toml").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("launch = { value = 1000", "launch = { value = 7"))

    async def program():
        await acl.LaunchKernel(A, 1)
        sim = acl.current_simulation()
        return sim.now_ns, sim.runtime.rules.name

    rules = current_rules("cuda_per_thread")
    assert acl.run(program, device=file, rules=rules) == (7, "cuda_per_thread")
    assert acl.run(program, device=str(file)) == (7, "cuda")


def current_rules(name):
    async def program():
        return acl.current_simulation().runtime.rules

    return acl.run(program, device="tiny", rules=name)


async def test_simulate_is_for_the_calling_task_and_those_it_makes():
    async with acl.simulate(device="tiny") as sim:
        assert acl.current_simulation() is sim
        assert await asyncio.create_task(_sim()) is sim
        late = asyncio.create_task(_late(asyncio.current_task()))
    with pytest.raises(acl.AclError, match="no simulation is running here"):
        await acl.SynchronizeDevice()
    late.cancel()
    assert sim.trace.ops == []


async def _sim():
    return acl.current_simulation()


async def _late(task):
    await asyncio.sleep(3600)


async def test_a_simulation_that_has_ended_refuses_its_tasks():
    over = asyncio.Event()

    async def child():
        await over.wait()
        await acl.LaunchKernel(A, 1)

    async with acl.simulate(device="tiny"):
        task = asyncio.create_task(child())
    over.set()
    with pytest.raises(acl.AclError, match="the simulation was closed; start a new simulation") as caught:
        await task
    assert caught.value.kind is acl.Kind.FINALIZED


async def test_open_is_for_everybody_until_it_is_closed():
    sim = acl.open(device="tiny", seed=5)
    try:
        assert acl.current_simulation() is sim
        await acl.SetDevice(1)
        assert await asyncio.create_task(acl.GetDevice()) == 1
        await acl.LaunchKernel(A, 1)
        await acl.SynchronizeDevice()
        assert history(sim) == [("A", 4_000 - 1_000, 13_000)]
    finally:
        await sim.close()
    await sim.close()  # once more does no harm
    with pytest.raises(acl.AclError, match="no simulation is running here"):
        await acl.SynchronizeDevice()
    assert [call.name for call in sim.trace.calls] == ["SetDevice", "GetDevice", "LaunchKernel", "SynchronizeDevice"]


async def test_the_last_one_opened_counts_and_closing_it_brings_back_the_one_before():
    first = acl.open(device="tiny")
    second = acl.open(device="tiny")
    await acl.LaunchKernel(A, 1)
    await second.close()
    await acl.SynchronizeDevice()
    await first.close()
    assert [call.name for call in first.trace.calls] == ["SynchronizeDevice"]
    assert [call.name for call in second.trace.calls] == ["LaunchKernel"]


async def test_a_simulation_inside_another_has_its_own_time_and_leaves_the_outer_as_it_was():
    async with acl.simulate(device="tiny") as outer:
        stream = await acl.CreateStream()
        await acl.LaunchKernel(A, 1, (), stream)
        async with acl.simulate(device="tiny", rules="cuda_per_thread") as inner:
            await acl.LaunchKernel(A, 1)
            await acl.SynchronizeDevice()
            assert (inner.now_ns, outer.now_ns) == (13_000, 2_000)
        assert acl.current_simulation() is outer
        await acl.SynchronizeStream(stream)
    assert history(outer) == [("A", 2_000, 12_000)]
    assert history(inner) == [("A", 1_000, 11_000)]


async def test_two_simulations_side_by_side_do_not_disturb_each_other():
    async def program(times):
        async with acl.simulate(device="tiny") as sim:
            for _ in range(times):
                await acl.LaunchKernel(A, 1)
                await acl.SynchronizeDevice()
            return sim.now_ns

    assert await asyncio.gather(program(1), program(3), program(2)) == [13_000, 39_000, 26_000]


def test_the_seed_decides_the_programs_own_chance():
    async def program():
        return acl.current_simulation().rng.integers(1 << 30, size=3).tolist()

    one, again, other = (acl.run(program, device="tiny", seed=seed) for seed in (1, 1, 2))
    assert one == again != other


@tiny(trace=False)
async def test_without_a_trace():
    sim = acl.current_simulation()
    await acl.LaunchKernel(A, 1)
    await acl.SynchronizeDevice()
    with pytest.raises(RuntimeError, match="trace=False"):
        _ = sim.trace
    assert sim.report().startswith("tiny, rules cuda: 13.0 us of simulated time")


@tiny
async def test_the_report_tells_time_engines_waits_leaks_and_what_did_not_end():
    sim = acl.current_simulation()
    x, host = await acl.Malloc(1_000), await acl.MallocHost(1_000)
    await acl.MemcpyAsync(x, 1_000, host, 1_000, acl.MemcpyKind.HOST_TO_DEVICE)
    await acl.SynchronizeDevice()
    line = sim.trace.calls[-1].line
    await acl.LaunchKernel(busy("long", 1_000), 1)
    assert sim.report().splitlines() == [
        "tiny, rules cuda: 6.0 us of simulated time",
        "  H2D of device 0: 1 operation, 1.0 us (17 % of the time), 1,000 bytes",
        "  legacy of device 0: 1 operation, 1.0 us (17 % of the time), 1,000 bytes",
        "  host: 5 calls, 3.0 us in 1 synchronisation",
        f"    SynchronizeDevice() at test_api_simulation.py:{line}: once, 3.0 us",
        "  1 operation has not ended: synchronise before the program ends, so that all work runs",
        f"  leak: 1 allocation of device memory, 1000 B, never freed, made at {x.allocation.made}",
        f"  leak: 1 allocation of pinned memory, 1000 B, never freed, made at {host.allocation.made}",
        *([f"  core: {CORE}"] if IS_COMPILED else []),
    ]


@tiny
async def test_the_trace_has_every_call_with_its_line():
    sim = acl.current_simulation()
    await acl.LaunchKernel(A, 1)
    await acl.SynchronizeDevice()
    [launch, wait] = sim.trace.calls
    assert (launch.name, launch.enter_ns, launch.exit_ns) == ("LaunchKernel", 0, 1_000)
    assert (wait.name, wait.enter_ns, wait.exit_ns) == ("SynchronizeDevice", 1_000, 13_000)
    assert {Path(call.file).name for call in (launch, wait)} == {"test_api_simulation.py"}
    assert wait.line == launch.line + 1


@tiny
async def test_observers_listen_from_when_they_are_added():
    class Ears(acl.Observer):
        def __init__(self):
            self.heard = []

        def call(self, name, enter_ns, exit_ns, site, about):
            self.heard.append(name)

        def op_queued(self, op):
            self.heard.append(f"queued {op.work.label}")

        def op_ended(self, op):
            self.heard.append(f"ended {op.work.label} at {op.end_ns}")

        def recorded(self, event, stream, enter_ns, site, completion):
            self.heard.append(f"recorded on {stream.name}, {'' if completion.done else 'not '}done")

        def waited(self, event, stream, enter_ns, site, completion):
            self.heard.append(f"waited on {stream.name}, {'' if completion.done else 'not '}done")

        def synchronized(self, completion):
            self.heard.append(f"synchronized {completion.done}")

        def allocated(self, allocation, since):
            self.heard.append(f"allocated {allocation.nbytes}, {'' if since.done else 'not '}in use")

        def freed(self, allocation, until):
            self.heard.append(f"freed {allocation.nbytes}, {'not ' if until.done else ''}in use")

    sim, event = acl.current_simulation(), await acl.CreateEvent()
    ears = Ears()
    sim.observe(ears)
    x = await acl.Malloc(8)
    await acl.LaunchKernel(A, 1)
    await acl.RecordEvent(event)
    await acl.StreamWaitEvent(None, event)
    await acl.SynchronizeDevice()
    await acl.Free(x)
    assert ears.heard == [
        "allocated 8, in use",
        "Malloc",
        "queued A",
        "recorded on legacy, not done",
        "waited on legacy, not done",
        "ended A at 13000",
        "synchronized True",
        "SynchronizeDevice",
        "synchronized True",  # the device is idle: Free waits for it
        "freed 8, not in use",
        "Free",
    ]


@tiny
async def test_an_observer_hears_whose_work_the_host_waits_for_and_whether_that_is_promised():
    class Ears(acl.Observer):
        def __init__(self):
            self.heard = []

        def awaiting(self, subjects, completion, promised):
            self.heard.append((subjects, completion.done, promised))

        def staged(self, copy, stream, site):
            self.heard.append((copy.label.name, copy.nbytes, stream.name, str(site).split(":")[0]))

    sim, stream, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateEvent()
    device, x, data = sim.runtime.device(0), await acl.Malloc(200_000), np.zeros(200_000, np.uint8)
    ears = Ears()
    sim.observe(ears)
    launched = await acl.LaunchKernel(A, 1, (), stream)
    await acl.RecordEvent(event, stream)
    assert await acl.StreamQuery(stream) is acl.Status.NOT_READY  # an answer that orders nothing
    await launched
    await acl.SynchronizeEvent(event)
    assert await acl.QueryEventStatus(event) is acl.Status.COMPLETE
    await acl.SynchronizeStreamWithTimeout(stream, 10)
    await acl.SynchronizeDevice()
    await acl.MemcpyAsync(x, x.nbytes, data, data.nbytes, acl.MemcpyKind.HOST_TO_DEVICE, stream)
    await acl.Free(x)
    assert ears.heard == [
        ((launched,), False, True),
        ((event,), True, True),
        ((event,), True, True),
        ((stream,), True, True),
        ((device,), True, True),
        ("h2d", 200_000, "stream 1", "test_api_simulation.py"),
        ((), False, True),  # for its own part of the copy
        ((device,), False, False),
    ]


def test_the_h200_profile_runs_too():
    async def program():
        x, host = await acl.Malloc(1 << 20), await acl.MallocHost(1 << 20)
        host.numpy(np.float32)[:] = 1
        await acl.MemcpyAsync(x, 1 << 20, host, 1 << 20, acl.MemcpyKind.HOST_TO_DEVICE)
        result = np.zeros(1 << 18, np.float32)
        await acl.Memcpy(result, 1 << 20, x, 1 << 20, acl.MemcpyKind.DEVICE_TO_HOST)
        await acl.Free(x)
        return result.sum(), len(calls(acl.current_simulation()))

    assert acl.run(program) == (1 << 18, 5)


@tiny
async def test_the_report_of_many_streams_and_many_leaks_is_short():
    sim = acl.current_simulation()
    for number in range(30):
        stream = await acl.CreateStream()
        await acl.Malloc(64)
        await acl.LaunchKernel(busy("work", number + 1), 1, (), stream)
    await acl.SynchronizeDevice()
    lines = sim.report().splitlines()
    streams = [line.split()[1] for line in lines if line.startswith("  stream ")]
    assert streams == [str(number) for number in range(11, 31)]
    assert "  and 10 others that were less busy" in lines
    [leak] = [line for line in lines if "leak: " in line]
    assert leak.startswith("  leak: 30 allocations of device memory, 1.9 KiB, never freed, made at ")
    *first, last = leak_lines([f"leak {number}" for number in range(30)])
    assert len(first) == 20
    assert last == "  and 10 more leaks"


@pytest.mark.parametrize("function", [acl.run, acl.simulate, acl.open])
def test_the_options_are_spelled_out_with_the_same_defaults(function):
    spelled = {each.name: each.default for each in inspect.signature(function).parameters.values()}
    shared = {name: default for name, default in spelled.items() if name not in ("main", "args", "uvloop")}
    assert shared == {each.name: each.default for each in fields(Options)}
