"""Calibration: the simulated driver has a card with known values, and they come out."""

import os
from dataclasses import replace

import pytest

from acl_py.calibrate.calibration import Calibration, Found, without_outliers
from acl_py.calibrate.card_trials import of_bus, of_card, of_submission
from acl_py.calibrate.graph_trials import of_graphs
from acl_py.calibrate.machine import described, open_machine
from acl_py.calibrate.solving import Goal, solved, with_gap
from acl_py.calibrate.trials import Trial, cost, of_host, of_staging, of_waits
from acl_py.calibrate.values import value, with_values
from acl_py.calibrate.writing import errors_text, overlay_text, profile_text
from acl_py.compat import cuda as switch
from acl_py.compat.acl.face.current import current_session
from device_model.overlay import OF_HOST, lay
from device_model.profile import load, parse

pytestmark = pytest.mark.skipif("ACL_PY_CARD" in os.environ, reason="these values are given to the simulated card")

# The values of a host that no profile has.
HOST = {
    "host.launch": 7150, "host.copy": 2800, "host.copy_on_device": 6600, "host.fill": 4700, "host.record": 900,
    "host.wait": 1100, "host.query": 1000, "host.sync": 3000, "host.wake": 6200, "host.wake_asleep": 142_000,
    "host.host_function": 8000, "host.malloc_async": 2200, "host.free_async": 2500, "host.create_stream": 7000,
    "host.destroy_event": 900, "host.memory_info": 12_000, "host.other": 800, "host.malloc_host": 500_000,
    "host.unregister": 40_000, "host.malloc[0, 2097151]": 8000, "host.malloc[2097152]": 70_000,
    "host.pool_growth[0, 33554432]": 110_000, "host.pool_trim[0, 33554432]": 73_000, "host.cold_permille": 1300,
    "latency.host_function_start": 25_400, "latency.host_function_asleep": 20_000,
    "latency.host_function_pause": 3500,
    "copies.pageable_small[0]": 3800, "copies.pageable_small[1024]": 4700, "copies.pageable_small[65536]": 14_200,
    "copies.stage_fixed": 6400, "copies.stage[1048576]": 77_000, "copies.stage[4194304]": 343_000,
    "copies.unstage_fixed": 2500, "copies.unstage[1048576]": 88_500, "copies.host_to_host[1048576]": 98_000,
    "graphs.captured": 1200, "graphs.mark": 900, "managed.malloc": 21_000,
    "graphs.launch[1]": 3300, "graphs.launch[10]": 3600, "graphs.launch_copy": 1500,
    "graphs.launch_fill": 930, "graphs.launch_host": 1100, "graphs.launch_run": 850, "graphs.instantiate_other": 1700,
    "graphs.instantiate[10]": 21_000, "graphs.update[1]": 4100,
}  # fmt: skip
SHORT = (
    "waits for a kernel", "streams made", "12 host functions", "first host function", "graphs of 1 kernels",
    "(host_to_host)", "behind a copy",
)  # fmt: skip


def h200():
    return load("h200")


CARD = {
    "copies.h2d[0]": 700, "copies.h2d[65536]": 5000, "copies.h2d[67108864]": 1_500_000,
    "copies.d2h[16777216]": 400_000, "copies.d2d[16777216]": 9000, "copies.fill[67108864]": 25_000,
    "copies.duplex_h2d_permille": 150, "copies.duplex_d2h_permille": 60, "latency.engines": 3100,
    "latency.kernel_other_stream": 2400, "latency.submit_copy": 1700,
}  # fmt: skip


@pytest.fixture
def machine():
    """A card of the simulated driver, with the values above; its clock is the driver's."""
    pytest.importorskip("cuda.pathfinder", reason="cuda.bindings is not installed")
    switch.install(device=with_values(h200(), {value(name): of for name, of in {**HOST, **CARD}.items()}), workers=1)
    pytest.importorskip("cuda.bindings.driver")
    machine = open_machine(0)
    session = current_session()
    machine.clock = lambda: session.runtime.host_ns
    machine.read_memory = lambda nanoseconds, nbytes=0: session.runtime.pay(nanoseconds)
    yield machine
    machine.close()
    switch.uninstall()


def trials_of_host():
    """All trials of what is the host's."""
    return [*of_waits(), *of_host(h200(), 1 << 34), *of_graphs(h200()), *of_staging(h200())]


def differences(calibration):
    """The values that were put in and are off by more than 20 ns and 0.3 %."""
    found = {str(each): of.number for each, of in calibration.found.items()}
    return {
        name: (number, found[name])
        for name, number in {**HOST, **CARD}.items()
        if name in found and abs(found[name] - number) > max(20, 0.003 * number)
    }


def test_values_that_were_put_in_come_out(machine):
    calibration = Calibration(machine, h200(), most_runs=2)
    trials = [trial for trial in trials_of_host() if any(part in trial.what for part in SHORT)]
    calibration.run(trials, mixtures=4, checked=0)
    assert (differences(calibration), calibration.missing) == ({}, {})
    assert {"host.launch", "host.wake", "copies.host_to_host[1048576]"} <= {str(each) for each in calibration.found}


@pytest.mark.slow
def test_all_values_that_were_put_in_come_out(machine):
    calibration = Calibration(machine, h200(), most_runs=2)
    trials = [*of_bus(h200()), *of_card(h200()), *of_waits(), *of_submission(), *trials_of_host()]
    calibration.run(trials, mixtures=12, checked=4)
    assert (differences(calibration), calibration.missing) == ({}, {})
    assert HOST.keys() | CARD.keys() <= {str(each) for each in calibration.found}
    # Kernels in PTX that run side by side take other turns on this driver's cores than those of stream programs.
    assert min(map(abs, calibration.errors)) < 0.1
    assert errors_text(calibration).startswith("4 other mixtures of calls are predicted within ")


def test_a_call_that_the_driver_refuses_is_not_measured(machine):
    steps = [{"op": "malloc", "name": "made", "bytes": 1 << 50}, {"op": "free", "name": "made"}]
    program = {"id": "too large", "buffers": {}, "streams": {}, "events": {}, "steps": steps}
    calibration = Calibration(machine, h200(), most_runs=2)
    calibration.run([Trial("too large", program, ((value("host.malloc[2097152]"), cost(0)),))], mixtures=0, checked=0)
    assert calibration.found == {}
    assert "in step 0 (malloc)" in calibration.missing["host.malloc[2097152]"]
    assert "answers 2: out of memory" in calibration.missing["host.malloc[2097152]"]


def test_the_file_has_the_values_with_their_sources_and_what_is_missing(machine):
    calibration = Calibration(machine, described(machine, h200()), most_runs=3)
    [streams] = [trial for trial in of_host(h200(), 1 << 30) if trial.what.startswith("streams made")]
    calibration.run([streams], mixtures=0, checked=0)
    calibration.missing["host.free[8589934592]"] = "too little memory"
    text, how = overlay_text(calibration, "a card, today"), "measured: streams made and destroyed, 3 runs"
    others = next(line for line in text.splitlines() if line.startswith("# as in h200: "))
    assert {"create_stream", "destroy_stream"} | {
        each[5:] for each in others[14:].split(", ") if each[:5] == "host."
    } == {*OF_HOST["host"]}
    assert text.splitlines() == [
        "# a card, today",
        "# Times in ns, sizes in bytes.",
        "# The measuring kernel lasts 301 ns longer than the model's of the same time.",
        "# not measured: host.free[8589934592]: too little memory",
        others,
        "",
        "[host]",
        f'create_stream = {{ value = 7000, source = "{how}, the middle half 7.00 to 7.00 us" }}',
        f'destroy_stream = {{ value = 11800, source = "{how}, the middle half 11.80 to 11.80 us" }}',
    ]
    assert lay(text, "mine.toml", calibration.base) == calibration.profile
    whole = parse(profile_text(calibration, "a card, today", "mine"), "mine.toml")
    assert replace(whole, name="h200") == calibration.profile
    assert whole.description == "NVIDIA H200, 132 SMs, 150 GB"
    assert whole.sources["host.create_stream"].startswith("measured: streams made")
    assert whole.sources["host.launch"].startswith("assumed: as h200, measured: timelines")
    assert whole.sources["cores.count"] == "documented: what the card says of itself"


def test_runs_in_which_the_host_was_interrupted_do_not_count():
    assert without_outliers([5.0, 5.1, 4.9, 5.0, 93.0]) == [5.0, 5.1, 4.9, 5.0]
    assert without_outliers([5.0, 5.0, 5.0]) == [5.0, 5.0, 5.0]


def test_a_point_that_takes_less_than_a_smaller_one_is_left_out(machine):
    calibration = Calibration(machine, h200())
    numbers = {"copies.h2d[65536]": 4000, "copies.h2d[262144]": 1000, "copies.h2d[1048576]": 25_000}
    calibration.found = {value(name): Found(number, "measured: 9 runs") for name, number in numbers.items()}
    calibration.leave_out_contradictions()
    assert [str(each) for each in calibration.found] == ["copies.h2d[65536]", "copies.h2d[1048576]"]
    why = "1000 ns contradicts copies.h2d[65536], for which the card takes 4000 ns"
    assert calibration.missing == {"copies.h2d[262144]": why}
    assert calibration.profile.copies.h2d[262144] == round(h200().copies.h2d[262144] * 4000 / 3600)


def test_a_card_that_takes_less_than_the_model_with_nothing_has_no_value():
    [trial] = [trial for trial in of_waits() if trial.what.startswith("waits for a kernel")]
    [(wake, reading)] = trial.tells
    numbers, problems = solved(with_gap(trial.program, 0), {wake: Goal(reading, 20_000.0)}, h200())
    assert numbers == {}
    assert problems == {wake: "the card took 20.00 us, and the model 53.75 us with the nearest value, 0"}
