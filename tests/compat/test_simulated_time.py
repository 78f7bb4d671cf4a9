"""`acl-py run --clock simulated`: what `time` means in a script's own modules, and that it stays Python's elsewhere.

On the tiny device a byte takes a nanosecond, a call and a reading of the clock 1000 ns, a query 700, a synchronisation
300 and a wake-up 2000.
"""

import importlib
import sys
import time as python
from math import inf, nan

import pytest
from card import done, made
from test_run import run_python

from acl_py.compat.acl import simulated_time as time
from acl_py.compat.acl.face.session import session
from acl_py.errors import DeadlockError

TINY = ("--device", "tiny", "--rules", "acl")
SIMULATED = (*TINY, "--clock", "simulated")
BEGIN = "import acl\nacl.rt.set_device(0)\nstream, _ = acl.rt.create_stream()\npointer, _ = acl.rt.malloc(1 << 20, 0)\n"


@pytest.fixture
def output(run, tmp_path):
    """Run a script on the simulated clock, with files beside it; return its output, without the summary."""

    def output(script, options=SIMULATED, files=()):
        for name in files:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(files[name])
        ended = run(script, options=options)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return output


def test_a_benchmark_prints_the_same_simulated_times_in_each_run(output):
    script = f"""{BEGIN}
import time
for size in (1 << 10, 1 << 20):
    start = time.perf_counter()
    acl.rt.memset_async(pointer, size, 0, size, stream)
    acl.rt.synchronize_stream(stream)
    print(f"{{size}}: {{(time.perf_counter() - start) * 1e6:.3f}} us")
"""
    text = "1024: 5.024 us\n1048576: 1052.576 us\n"
    assert [output(script) for _ in range(3)] == [text] * 3


def test_a_loop_of_queries_gives_up_at_the_same_nanosecond(output):
    script = f"""{BEGIN}
import time
event, _ = acl.rt.create_event()
acl.rt.memset_async(pointer, 1 << 20, 0, 1 << 20, stream)
acl.rt.record_event(event, stream)
count, begin, deadline = 0, time.perf_counter_ns(), time.time() + 0.0005
while acl.rt.query_event(event)[0] and time.time() < deadline:
    count += 1
print(count, time.perf_counter_ns() - begin)
"""
    assert output(script) == "294 503500\n"


def test_sleep_lets_devices_go_on(output):
    script = f"""{BEGIN}
import time
begin = time.monotonic_ns()
acl.rt.memset_async(pointer, 1 << 20, 0, 1 << 20, stream)
for seconds in (0.001, 0, 0.000_06):
    time.sleep(seconds)
    print(time.monotonic_ns() - begin, acl.rt.stream_query(stream))
"""
    assert output(script) == "1002000 (1, 0)\n1003700 (1, 0)\n1065400 (0, 0)\n"


def test_the_clock_begins_at_0_and_its_epoch_is_in_2000(output):
    script = """\
        import time
        print(time.perf_counter_ns(), time.monotonic(), time.time_ns(), time.time())
        print(time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time())))
        import acl
        acl.rt.set_device(0)
        print(time.perf_counter())
        """
    assert output(script).splitlines() == [
        "1000 2e-06 946684800000003000 946684800.000004",
        "2000-01-01 00:00:00",
        "7e-06",
    ]


def test_each_way_to_import_time_finds_the_simulated_one(output):
    script = """\
        import os, time as clock, sys
        from time import perf_counter_ns as now, sleep, process_time, struct_time
        from time import *

        def later():
            import time
            return time.perf_counter_ns()

        sleep(1)
        print(clock.perf_counter_ns(), now(), perf_counter_ns(), later(), __import__("os") is os)
        python = sys.modules["time"]
        print(clock is python, process_time is python.process_time, struct_time is python.struct_time)
        print(sorted(name for name in dir(python) if name[0] != "_" and not hasattr(clock, name)))
        """
    assert output(script) == "1000001000 1000002000 1000003000 1000004000 True\nFalse True True\n[]\n"


BESIDE = "import time\n\ndef now():\n    return time.perf_counter_ns()\n"


def test_modules_of_the_scripts_folder_have_the_clock_too(output):
    """In a module, in a package with `__init__` and in one without; imported by one another, or later."""
    files = {"beside.py": BESIDE, "bare/low.py": BESIDE, "pack/inner.py": BESIDE}
    files["pack/__init__.py"] = f"{BESIDE}from . import inner\n"
    script = """\
        import importlib
        import beside, bare.low, pack
        print([each.now() for each in (beside, bare.low, pack, pack.inner, importlib.import_module("pack.inner"))])
        """
    assert output(script, files=files) == "[1000, 2000, 3000, 4000, 5000]\n"


def test_all_other_modules_keep_pythons_time(output, tmp_path):
    """The standard library, packages, a folder that the script adds to the path, processes that it starts."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "other.py").write_text("from time import time\n")
    script = """\
        import logging, subprocess, sys, threading
        from datetime import datetime
        sys.path.insert(0, "elsewhere")
        import numpy, other
        record = logging.makeLogRecord({})
        print(sys.modules["time"].__spec__.origin, other.time is sys.modules["time"].time, logging.time.__name__)
        print(record.created > 1.6e9, datetime.now().year > 2020)
        command = [sys.executable, "-c", "import time; print(time.__spec__.origin)"]
        print(subprocess.run(command, capture_output=True, text=True).stdout, end="")
        """
    assert output(script) == "built-in True time\nTrue True\nbuilt-in\n"


def test_by_default_the_clock_is_real_and_nothing_is_left_of_an_earlier_run(output):
    script = "import sys, time, beside\nprint(time is sys.modules['time'], beside.time is time)\n"
    assert output(script, files={"beside.py": BESIDE}) == "False True\n"
    assert output(script, options=TINY) == "True True\n"
    assert output(script, options=(*TINY, "--clock", "real")) == "True True\n"


def test_the_clock_is_there_however_the_program_is_given(tmp_path):
    text = "import time, beside\nprint(beside.now(), time.perf_counter_ns())\n"
    (tmp_path / "pack").mkdir()
    (tmp_path / "beside.py").write_text(BESIDE)
    (tmp_path / "pack" / "__main__.py").write_text(text)
    forms = {("-c", text): "", ("-",): text, ("-m", "pack"): ""}
    outputs = [run_python(*SIMULATED, *form, text=given, cwd=tmp_path).stdout for form, given in forms.items()]
    assert outputs == ["1000 2000\n"] * 3


def test_a_module_of_the_standard_library_that_runs_as_a_script_has_pythons_time(tmp_path):
    ended = run_python(*SIMULATED, "-m", "timeit", "-n", "1", "-r", "1", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_sleep_in_a_thread_takes_no_simulated_time(output):
    script = """\
        import threading, time

        def rest():
            begin = time.perf_counter_ns()
            time.sleep(0.01)
            print(time.perf_counter_ns() - begin)

        thread = threading.Thread(target=rest)
        thread.start()
        thread.join()
        """
    assert output(script) == "1000\n"


def test_a_main_thread_that_waits_for_a_worker_does_not_time_out_at_once(output):
    """Its sleeps take real time, because the worker may act and the device has nothing to do."""
    script = """\
        import threading, time
        results = []
        thread = threading.Thread(target=lambda: (time.sleep(0.2), results.append("the worker's")))
        thread.start()
        deadline = time.time() + 20
        while not results and time.time() < deadline:
            time.sleep(0.05)
        print(results)
        """
    assert output(script) == '["the worker\'s"]\n'


@pytest.mark.slow
def test_a_thread_that_asks_for_callbacks_does_not_keep_the_main_thread_from_sleeping(output):
    script = f"""{BEGIN}
import threading, time
context, _ = acl.rt.get_context()
running, subscribed = [True], threading.Event()

def report(_):
    acl.rt.set_context(context)
    subscribed.wait()
    while running:
        acl.rt.process_report(100)

thread, _ = acl.util.start_thread(report, [0])
acl.rt.subscribe_report(thread, stream)
subscribed.set()
begin = time.perf_counter()
for _ in range(7):
    time.sleep(10)
print(70 <= time.perf_counter() - begin < 71)
running.clear()
acl.util.stop_thread(thread)
"""
    assert output(script) == "True\n"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_function_of_an_operator_has_real_time(output, workers):
    """It stands for the device: it must not wait for the host, whose call it is part of."""
    script = f"""{BEGIN}
import threading, time
from acl_py.compat.acl import register_op

@register_op("Slow")
def slow(x):
    begin = time.perf_counter()
    time.sleep(0.001)
    stamps.append((time.time() > 1.6e9, time.monotonic_ns() > 0, time.perf_counter() - begin >= 0.001))
    inner = threading.Thread(target=lambda: stamps.append(time.perf_counter() < 1))
    inner.start()
    inner.join()
    return x

stamps, N = [], 2 << 20
large, _ = acl.rt.malloc(4 * N, 0)
desc, buffer = acl.create_tensor_desc(0, [N], 2), acl.create_data_buffer(large, 4 * N)
begin = time.perf_counter_ns()
acl.op.execute("Slow", [desc], [buffer], [desc], [buffer], 0, stream)
acl.rt.synchronize_stream(stream)
print(stamps, time.perf_counter_ns() - begin < 1_000_000_000)
"""
    assert output(script, options=(*SIMULATED, "--workers", workers)) == "[(True, True, True), True] True\n"


def test_in_a_simulation_of_the_native_api_it_is_the_clock_of_that_simulation(output):
    script = """\
        import asyncio, time
        import acl_py

        async def main():
            times = [time.perf_counter_ns()]
            await acl_py.Sleep(100)
            times.append(time.perf_counter_ns())
            await asyncio.sleep(1)
            time.sleep(1)
            times.append(time.perf_counter_ns())
            print(times, acl_py.current_simulation().now_ns, await asyncio.to_thread(time.time) > 1.6e9)

        acl_py.run(main, device="tiny")
        """
    assert output(script) == "[1000, 102000, 2000103000] 2000103000 True\n"


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        (-1, ValueError("the seconds of time.sleep() must be 0 or more, not -1")),
        (nan, ValueError("the seconds of time.sleep() must be 0 or more, not nan")),
        (
            inf,
            ValueError(
                "the seconds of time.sleep() must be no longer than simulated time, 4,611,686,018 s, 146 years, not inf"
            ),
        ),
        ("1", TypeError("the seconds of time.sleep() must be a number, not '1'")),
        (None, TypeError("the seconds of time.sleep() must be a number, not None")),
    ],
    ids=str,
)
def test_a_sleep_that_cannot_be_is_refused_and_takes_no_time(acl, seconds, error):
    before = time.perf_counter_ns()
    with pytest.raises(type(error)) as raised:
        time.sleep(seconds)
    assert (str(raised.value), time.perf_counter_ns()) == (str(error), before + 1000)


def test_the_traceback_of_a_wrong_sleep_ends_at_the_scripts_line(run):
    ended = run("import time\ntime.sleep(-1)\n", options=SIMULATED)
    assert ended.returncode == 1
    lines = [line for line in ended.stderr.splitlines() if line.strip("~^ ")]  # Python 3.13 marks the call
    assert lines[1:4] == [
        f'  File "{ended.args[-1]}", line 2, in <module>',
        "    time.sleep(-1)",
        "ValueError: the seconds of time.sleep() must be 0 or more, not -1",
    ]


def test_a_loop_of_queries_that_reads_the_clock_is_no_hang(acl):
    """It may give up by the clock; a loop that does not read it is a hang."""
    session().bridge.polling_s = 0
    stream, never = made(acl.rt.create_stream()), made(acl.rt.create_event_with_flag(1))
    done(acl.rt.stream_wait_event(stream, never))
    deadline, count = time.time() + 0.03, 0
    while acl.rt.stream_query(stream) != (0, 0) and time.time() < deadline:
        count += 1
    assert count == 17_647
    with pytest.raises(DeadlockError):
        ask_again_and_again(acl, stream)


def ask_again_and_again(acl, stream):
    while acl.rt.stream_query(stream) != (0, 0):
        pass


def test_a_clock_that_is_not_there_is_refused(run):
    ended = run("print('ran')", options=("--clock", "atomic"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "'atomic' is not one of 'real'" in ended.stderr


def test_names_are_those_of_pythons_module():
    assert set(time.__all__) == {name for name in dir(python) if not name.startswith("_")}
    assert importlib.import_module("time") is python is sys.modules["time"]
