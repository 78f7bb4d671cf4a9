"""`acl-py run`: a script runs as Python would run it, and says at the end what it did."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest
from pages import data_of, rows_of

from acl_py.explain.cases import EditError
from acl_py.explain.recordings import asker_of
from acl_py.trace import read_trace
from tests import forks

KERNELS = Path(__file__).parent.parent.parent / "samples" / "acl" / "kernel_binary.py"


def test_a_script_is_main_with_its_arguments_and_its_folder_on_the_path(run, tmp_path):
    (tmp_path / "beside.py").write_text("WHAT = 'found'\n")
    script = """\
        import os, sys, pickle
        import acl
        from acl.rt import memcpy
        import beside
        print(__name__, __file__ == sys.argv[0], os.path.samefile(sys.path[0], os.path.dirname(__file__)))
        print(sys.argv[1:], beside.WHAT, sys.modules["__main__"].__dict__ is globals(), memcpy is acl.rt.memcpy)

        class Thing:
            pass

        print(type(pickle.loads(pickle.dumps(Thing()))) is Thing)
        """
    done = run(script, "--device", "7", "-x", "--", "y")
    assert done.stdout.splitlines() == [
        "__main__ True True",
        "['--device', '7', '-x', '--', 'y'] found True True",
        "True",
    ]
    assert (done.returncode, done.stderr) == (0, "")


SEES = "import sys, acl\nprint(__name__, sys.argv[1:], sys.argv[0], sys.path[0])\n"


def run_python(*arguments, text="", cwd):
    return forks.run("-m", "acl_py", "run", *arguments, cwd=cwd, text=text)


@pytest.mark.parametrize("options", [(), ("--devices", "2")], ids=["at-once", "with-options"])
def test_a_module_runs_as_after_python_m(tmp_path, options):
    """Its package is imported first, with acl at hand; a package runs its __main__."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("import acl\nprint('package', acl.rt.get_device_count())\n")
    for name in ("tool", "__main__"):
        (tmp_path / "package" / f"{name}.py").write_text(f"{SEES}from . import __name__ as above\nprint(above)\n")
    devices = 2 if options else 8
    for module, file in (("package.tool", "tool.py"), ("package", "__main__.py")):
        done = run_python(*options, "-m", module, "-c", "--strict", cwd=tmp_path)
        path = tmp_path / "package" / file
        assert done.stdout.splitlines() == [
            f"package ({devices}, 0)",
            f"__main__ ['-c', '--strict'] {path} {tmp_path}",
            "package",
        ]
        assert done.returncode == 0


def test_a_module_that_is_not_there_is_told_as_python_tells_it(tmp_path):
    done = run_python("-m", "nowhere.to_be_found", cwd=tmp_path)
    assert done.returncode == 1
    assert "Error while finding module specification for 'nowhere.to_be_found'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [(), ("--devices", "2")], ids=["at-once", "with-options"])
def test_a_program_comes_as_an_argument_or_on_standard_input(tmp_path, options):
    done = run_python(*options, "-c", f"{SEES}acl.rt.malloc('x', 0)", "-m", "--strict", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "__main__ ['-m', '--strict'] -c \n")
    assert done.stderr.splitlines()[1] == '  File "<string>", line 3, in <module>'
    done = run_python(*options, "-", "-c", text=f"{SEES}acl.rt.malloc('x', 0)", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "__main__ ['-c'] - \n")
    assert done.stderr.splitlines()[1] == '  File "<stdin>", line 3, in <module>'


@pytest.mark.parametrize("options", [(), ("--devices", "2"), ("--clock", "simulated")])
def test_a_script_that_cannot_be_compiled_is_told_as_python_tells_it(run, options):
    done = run("x = (\n", options=options)
    assert done.returncode == 1
    assert re.fullmatch(
        r"""  File ".*script.py", line 1\n    x = \(\n        \^\nSyntaxError: '\(' was never closed\n""", done.stderr
    )


def test_a_script_is_either_a_module_or_a_program(tmp_path):
    done = run_python("--strict", "-m", "-c", "pass", cwd=tmp_path)
    assert done.returncode == 2
    assert "-m and -c exclude each other" in done.stderr


@pytest.mark.parametrize(
    ("ending", "code", "told"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('no such card')", 1, "no such card\n"),
        ("raise KeyboardInterrupt", 130, None),
    ],
)
def test_the_exit_code_is_that_of_the_script(run, ending, code, told):
    done = run(f"import sys\nprint('output')\n{ending}\n")
    assert (done.returncode, done.stdout) == (code, "output\n")
    assert told is None or done.stderr == told


def test_an_exception_gives_the_traceback_that_python_gives(run, tmp_path):
    script = """\
        import acl

        def main():
            raise ValueError("wrong")

        main()
        """
    done = run(script)
    plain = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        capture_output=True, encoding="utf-8", check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(_stub(tmp_path))},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, plain.stderr)


def _stub(tmp_path):
    folder = tmp_path / "stub"
    folder.mkdir()
    (folder / "acl.py").write_text("")
    return folder


def test_a_module_for_cuda_that_is_missing_names_the_packages(run):
    done = run("import cuda.nothing_of_this_name")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "acl-py: pip install 'acl-py[cuda]' (in a clone of acl_py, '.[cuda]')"


def test_a_module_that_needs_a_card_is_answered_with_the_page_of_its_calls(run):
    done = run("raise ModuleNotFoundError('no', name='cupy.cuda')")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "acl-py: cupy needs a card. docs/coming_from.md has the calls of acl_py that stand for its own"
    )


def test_the_summary_comes_when_all_is_over(run):
    """Behind threads, atexit and finalizers: scripts free what they have in all of these."""
    script = """\
        import atexit, sys, threading
        import acl

        acl.init()
        acl.rt.set_device(0)
        context, ret = acl.rt.get_context()
        stream, ret = acl.rt.create_stream()
        pointers = [acl.rt.malloc(1024, 0)[0] for _ in range(5)]

        class Owner:
            def __del__(self):
                print("finalizer", acl.rt.free(pointers[0]), file=sys.stderr)

        def later():
            acl.rt.set_context(context)
            print("thread", acl.rt.free(pointers[1]), file=sys.stderr)

        owner = Owner()
        atexit.register(lambda: print("atexit", acl.rt.free(pointers[2]), file=sys.stderr))
        threading.Thread(target=later).start()
        acl.rt.memset_async(pointers[3], 1024, 0, 1024, stream)
        acl.rt.synchronize_stream(stream)
        acl.rt.free(pointers[3])
        """
    lines = run(script).stderr.splitlines()
    assert lines[:3] == ["thread 0", "atexit 0", "finalizer 0"]
    assert re.fullmatch(r"acl-py: ascend910b3, rules acl: [\d.]+ us of simulated time", lines[3])
    summary = "\n".join(lines[4:])
    assert re.search(r"cores of device 0: 1 operation, [\d.]+ us", summary)
    assert re.search(r"stream 1 of device 0: 1 operation, [\d.]+ us", summary)
    assert re.search(r"acl\.rt\.synchronize_stream\(\) at script\.py:22: once, [\d.]+ us", summary)
    leaks = [line for line in lines if "leak" in line]
    assert leaks == [
        "  leak: 1 allocation of device memory, 1.0 KiB, never freed, made at script.py:8",
        "  leak: 1 stream never destroyed, made at script.py:7",
    ]


def test_what_only_the_reset_freed_is_a_leak_too(run):
    script = """\
        import acl
        acl.rt.set_device(0)
        pointer, ret = acl.rt.malloc(1024, 0)
        buffer = acl.create_data_buffer(pointer, 1024)
        attributes = [acl.op.create_attr() for _ in range(2)]
        acl.rt.reset_device(0)
        acl.finalize()
        """
    leaks = [line.strip() for line in run(script).stderr.splitlines() if "leak" in line]
    memory = "leak: 1 allocation of device memory, 1.0 KiB, never freed before the reset at script.py:6"
    assert leaks == [
        f"{memory}, made at script.py:3",
        "leak: 1 data buffer never destroyed",
        "leak: 2 attribute sets never destroyed",
    ]


def test_leaks_are_told_by_where_they_were_made(run):
    script = """\
        import acl
        acl.init()
        acl.rt.set_device(0)
        for size in range(1, 1001):
            acl.rt.malloc(1024, 0)
            if size % 2:
                acl.rt.malloc_host(3 * 1024)
        """
    leaks = [line.strip() for line in run(script).stderr.splitlines() if "leak" in line]
    assert leaks == [
        "leak: 1,000 allocations of device memory, 1000.0 KiB, never freed, made at script.py:5",
        "leak: 500 allocations of pinned memory, 1.5 MiB, never freed, made at script.py:7",
    ]


def test_of_many_places_the_first_are_told(run):
    script = ["import acl", "acl.rt.set_device(0)", "for _ in range(20): acl.rt.create_stream()"]
    lines = run("\n".join([*script, *["acl.rt.create_stream()"] * 8])).stderr.splitlines()
    assert lines[-1].endswith(
        f"28 streams never destroyed, made at {', '.join(f'script.py:{n}' for n in range(3, 11))}, ..."
    )


def test_the_summary_has_the_words_of_scripts(run):
    script = """\
        import acl
        acl.init()
        acl.rt.set_device(0)
        context, ret = acl.rt.create_context(0)
        acl.rt.create_context(0)
        acl.rt.destroy_context(context)
        address, ret = acl.rt.malloc(64, 0)
        acl.rt.memset(address, 64, 0, 64)
        data = bytes([1] * 64)
        acl.rt.memcpy(address, 64, acl.util.bytes_to_ptr(data), 64, 1)
        acl.rt.memset_async(address, 64, 0, 64, 0)
        acl.rt.synchronize_stream_with_timeout(0, 10)
        acl.rt.free(address)
        for _ in range(2):
            acl.rt.malloc_physical(2 << 20, {"location": {"id": 0, "type": 1}}, 0)
        """
    lines = run(script).stderr.splitlines()
    assert [re.sub(r"[\d,.]+ us( \(\d+ % of the time\))?", "_", line).strip() for line in lines] == [
        "acl-py: ascend910b3, rules acl: _ of simulated time",
        "H2D of device 0: 1 operation, _, 64 bytes",
        "cores of device 0: 2 operations, _, 128 bytes",
        "default of context 2 of device 0: 1 operation, _, 64 bytes",
        "outside the streams of context 2 of device 0: 2 operations, _, 128 bytes",
        "host: 12 calls, _ in 1 synchronisation",
        "acl.rt.synchronize_stream_with_timeout() at script.py:12: once, _",
        "leak: 1 context never destroyed, made at script.py:5",
        "leak: 2 physical blocks never freed, made at script.py:15",
    ]


def test_options_choose_the_card(run):
    script = """\
        import acl
        print(acl.get_soc_name(), acl.rt.get_device_count())
        """
    done = run(script, options=["--device", "ascend310p3", "--devices", "3", "--workers", "1"])
    assert done.stdout == "Ascend310P3 (3, 0)\n"
    assert done.stderr.startswith("acl-py: ascend310p3, rules acl")


def test_an_overlay_says_what_calls_take(run, tmp_path):
    (tmp_path / "host.toml").write_text('[host]\nset_device = { value = 4321000, source = "measured: here" }\n')
    done = run("import acl\nacl.rt.set_device(0)\n", options=["--overlay", str(tmp_path / "host.toml")])
    assert done.stderr.startswith("acl-py: ascend910b3, rules acl: 4,321.0 us of simulated time")


def test_operators_and_models_of_ones_own_are_registered_before_the_script_runs(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from acl_py.compat.acl import Tensor, register_model\n"
        "register_model('double.om', [Tensor('x', 'float32', (4,))], [Tensor('y', 'float32', (4,))])(lambda x: 2 * x)\n"
    )
    script = """\
        import acl
        acl.rt.set_device(0)
        model, ret = acl.mdl.load_from_file("models/double.om")
        print(ret)
        acl.mdl.unload(model)
        """
    assert run(script, options=["--register", "mine.py"]).stdout == "0\n"
    (tmp_path / "mine.py").write_text("1 / 0\n")
    done = run(script, options=["--register", "mine.py"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[:2] == [
        "Traceback (most recent call last):",
        '  File "mine.py", line 1, in <module>',
    ]


def test_measured_host_time_counts_what_passes_between_calls(run):
    script = """\
        import time
        import acl
        acl.rt.set_device(0)
        time.sleep(0.05)
        acl.rt.set_device(0)
        """
    done = run(script, options=["--host-time", "measured"])
    [us] = re.findall(r"rules acl: ([\d,.]+) us", done.stderr)
    assert float(us.replace(",", "")) > 50_000


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--device", "nosuch"], "nosuch"),
        (["--rules", "nosuch"], "there are no rules"),
        (["--models", "nosuch"], "does not exist"),
        (["--host-time", "nosuch"], "nosuch"),
        (["--devices", "0"], "'--devices'"),
    ],
)
def test_a_wrong_option_is_refused_before_the_script_runs(run, options, what):
    done = run("print('ran')", options=options)
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr


def test_the_traceback_of_a_wrong_argument_ends_at_the_call(run):
    script = """\
        import acl
        def allocate(size):
            return acl.rt.malloc(size, 0)
        allocate(1024.0)
        """
    done = run(script)
    assert done.returncode == 1
    assert re.findall(r"line \d+, in .*", done.stderr) == ["line 4, in <module>", "line 3, in allocate"]
    assert "TypeError: acl.rt.malloc args parse failed\nargument 1 is not an int but of type float" in done.stderr


FRAME = re.compile(r'  File "(?:.*/)?(.*)", line (\d+)')


def test_no_traceback_has_frames_of_the_binding(run):
    """Neither between two of the script's, nor at its end, nor in a thread, nor in what led to an error."""
    script = """\
        import threading
        import acl
        from acl_py.compat.acl import Tensor, register_model, register_op

        acl.rt.set_device(0)

        def callback(_):
            raise ValueError("in a callback")

        def report():
            acl.rt.set_context(context)
            subscribed.wait()
            acl.rt.process_report(1000)

        @register_op("Broken")
        def broken(x):
            return x.reshape(3)

        def read():
            return acl.util.ptr_to_bytes(3, 4)

        context, _ = acl.rt.get_context()
        stream, _ = acl.rt.create_stream()
        subscribed = threading.Event()
        thread, _ = acl.util.start_thread(report, None)
        acl.rt.subscribe_report(thread, stream)
        subscribed.set()
        acl.rt.launch_callback(callback, None, 1, stream)
        acl.rt.synchronize_stream(stream)
        acl.util.stop_thread(thread)

        address, _ = acl.rt.malloc(16, 0)
        desc, buffer = acl.create_tensor_desc(0, [4], 2), acl.create_data_buffer(address, 16)
        acl.op.execute("Broken", [desc], [buffer], [desc], [buffer], 0, stream)
        acl.rt.synchronize_stream(stream)

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        try:
            read()
        except ValueError as error:
            raise KeyError("later") from error
        """
    done = run(script)
    assert done.returncode == 1
    frames = [(file, int(line)) for file, line in FRAME.findall(done.stderr)]
    of_thread = [frame for frame in frames if frame[0] == "threading.py"]
    assert [frame for frame in frames if frame not in of_thread] == [
        ("script.py", 8),
        ("script.py", 17),
        ("script.py", 20),
        ("script.py", 41),
        ("script.py", 20),
        ("script.py", 43),
    ]


def test_a_mistake_of_the_binding_itself_keeps_its_whole_traceback(run):
    script = """\
        import acl
        from acl_py.compat.acl.functions.util import addresses

        addresses.is_readable = None
        acl.util.ptr_to_bytes(3, 4)
        """
    done = run(script)
    files = [file for file, _ in FRAME.findall(done.stderr)]
    assert (files[0], files[-1]) == ("script.py", "addresses.py")
    assert "TypeError: 'NoneType' object is not callable" in done.stderr


def test_the_summary_names_the_function_that_the_line_calls(run, tmp_path):
    (tmp_path / "net.om").write_bytes(b"net")
    done = run(_INTERRUPTED.format(what="lambda: None", error="KeyboardInterrupt"))
    waits = [line.partition(":")[0].strip() for line in done.stderr.splitlines() if line.startswith("    acl.")]
    assert sorted(waits) == [
        "acl.mdl.execute() at script.py",
        "acl.rt.synchronize_stream() at script.py",
        "acl.rt.synchronize_stream() at script.py",
    ]


SIGTERM = """\
    import os, signal, sys
    import acl

    acl.rt.set_device(0)
    acl.rt.malloc(64, 0)
    {handler}
    if sys.argv[1:] == ["fork"] and os.fork():
        _, status = os.wait()
        sys.exit(os.waitstatus_to_exitcode(status) + 100)
    try:
        print("output, not flushed yet")
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        print("and not this")
    """


def test_sigterm_ends_a_script_as_ever_but_with_the_summary(run):
    done = run(SIGTERM.format(handler=""))
    assert (done.returncode, done.stdout) == (-15, "output, not flushed yet\n")
    assert done.stderr.startswith("acl-py: ascend910b3, rules acl")
    assert done.stderr.count("leaks are not listed, because the program ended with an error") == 1


def test_a_script_may_handle_sigterm_itself(run):
    done = run(SIGTERM.format(handler="signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"))
    assert (done.returncode, done.stdout) == (7, "output, not flushed yet\nand not this\n")
    assert done.stderr.count("leak: 1 allocation") == 1


def test_a_forked_process_that_sigterm_ends_prints_no_summary(run):
    done = run(SIGTERM.format(handler=""), "fork")
    assert done.returncode == 85
    assert done.stderr.count("leak: 1 allocation") == 1


IN_C = """\
    import ctypes, os, signal, sys
    from collections import deque
    from functools import partial
    from operator import call
    import acl

    acl.rt.set_device(0)
    begun, begins = os.pipe()
    child = os.fork()
    if not child:  # all of it in C, so no handler in Python runs in between
        steps = [partial(os.write, begins, b"."), ctypes.CDLL(None).pause, partial(os._exit, 7)]
        deque(map(call, steps), 0)
    os.read(begun, 1)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status) + 100)
    """


def test_a_forked_process_ends_by_sigterm_also_where_no_python_runs(run):
    """As a worker of a pool must that the pool ends while it begins to wait for a task."""
    assert run(IN_C).returncode == 85


def test_the_summary_follows_what_the_script_printed_where_both_go_into_one_file(tmp_path):
    (tmp_path / "script.py").write_text("import acl\nacl.rt.set_device(0)\nprint('of the script')\n")
    done = forks.run("-m", "acl_py", "run", tmp_path / "script.py", is_joined=True)
    assert done.stdout.startswith("of the script\nacl-py: ascend910b3, rules acl")


@pytest.mark.parametrize("end", ["sys.stdout.close()", "sys.stdout = None"])
def test_a_script_without_an_output_has_its_summary(run, end):
    done = run(f"import sys, acl\nacl.rt.set_device(0)\n{end}\n")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("acl-py: ascend910b3, rules acl")


def test_there_must_be_a_script(run, tmp_path):
    done = run("", command=("-m", "acl_py"), options=[str(tmp_path / "nosuch.py")])
    assert done.returncode == 2
    assert "can't open file" in done.stderr
    assert "No such file" in done.stderr


def test_a_function_that_is_not_simulated_is_a_finding(run):
    done = run("import acl\nacl.rt.set_device(0)\nprint(*(acl.rt.get_devices_topo(0, 1) for _ in range(2)))\n")
    assert done.stdout == "(0, 207000) (0, 207000)\n"
    assert done.stderr.count("acl: acl.rt.get_devices_topo is not simulated: it returns 207000\n") == 1
    assert done.stderr.count("finding: acl.rt.get_devices_topo is not simulated: it returned 207000") == 1


def test_a_hang_that_the_script_would_catch_ends_it_all_the_same(run):
    script = """\
        import acl
        acl.rt.set_device(0)
        stream, ret = acl.rt.create_stream()
        notify, ret = acl.rt.create_notify(0)
        acl.rt.wait_and_reset_notify(notify, stream, 0)
        print("output, not flushed yet")
        try:
            acl.rt.synchronize_stream(stream)
        except BaseException:
            print("caught")
        """
    done = run(script)
    assert (done.returncode, done.stdout) == (3, "output, not flushed yet\n")
    assert "script.py:8" in done.stderr
    assert "script.py:5" in done.stderr
    assert "us of simulated time" in done.stderr


def test_the_report_of_a_script_has_its_timeline_and_prices(run, tmp_path):
    script = """\
        import acl
        acl.rt.set_device(0)
        pointer, ret = acl.rt.malloc(1024, 0)
        acl.rt.memset(pointer, 1024, 0, 1024)
        acl.rt.free(pointer)
        """
    done = run(script, options=["--report", "report.html"])
    assert done.returncode == 0
    (shown,) = data_of((tmp_path / "report.html").read_text(encoding="utf-8"))["runs"]
    assert shown["title"].endswith("script.py")
    assert rows_of(shown, "ops", "text:name", "text:site") == [("fill", "script.py:4")]
    (found,) = shown["findings"]
    assert found["text"].startswith("acl.rt.memset() waited for its work\nUse acl.rt.memset_async() in a stream")
    assert f". Worth {found['worth_ns'] / 1000:,.1f} us of " in found["text"]


def test_a_script_is_explained_and_edited(run, tmp_path):
    script = """\
        import acl
        acl.rt.set_device(0)
        stream, ret = acl.rt.create_stream()
        device, ret = acl.rt.malloc(1 << 20, 0)
        host = bytes(1 << 20)
        acl.rt.memcpy_async(device, 1 << 20, acl.util.bytes_to_ptr(host), 1 << 20, 1, stream)
        acl.rt.synchronize_stream(stream)
        acl.rt.free(device)
        print("done")
        """
    options = ["--explain", "--what-if", "pinned", "--what-if", "pined", "--report", "report.html"]
    refused = run(script, options=options)
    assert refused.returncode == 2
    assert "did you mean pinned?" in " ".join(refused.stderr.replace("│", " ").split())
    options = ["--explain", "--what-if", "pinned", "--what-if", "cores=1", "--report", "report.html"]
    done = run(script, options=options)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert (
        "  script.py:6: a copy of pageable memory kept the host until its stream and the copy were done" in done.stderr
    )
    assert "\npinned: " in done.stderr
    shown = data_of((tmp_path / "report.html").read_text(encoding="utf-8"))["runs"]
    assert [run["title"] for run in shown][1:] == ["pinned", "cores=1"]
    assert len(shown[0]["findings"]) == 1


def test_explanations_name_the_functions_that_the_script_calls(run, tmp_path):
    script = """\
        import acl

        def call(function, *arguments):
            return function(*arguments)

        acl.rt.set_device(0)
        stream, ret = acl.rt.create_stream()
        device, ret = call(acl.rt.malloc, 1 << 20, 0)
        host = bytes(1 << 20)
        pointer = acl.util.bytes_to_ptr(host)
        call(acl.rt.memcpy, device, 1 << 20, pointer, 1 << 20, 1)
        call(acl.rt.memset_async, device, 1 << 20, 0, 1 << 20, stream)
        acl.rt.memcpy_async(device, 1 << 20, pointer, 1 << 20, 1, stream)
        acl.rt.synchronize_stream(stream)
        acl.rt.synchronize_stream(stream)
        call(acl.rt.free, device)
        acl.rt.reset_device(0)
        """
    done = run(script, options=["--explain", "--no-sanitize", "--trace", "run.acl", "--format", "acl"])
    told = [line.strip() for line in done.stderr.split("findings: ")[1].splitlines()]
    assert [re.sub(r", for [\d.,]+ us|(?<=\. )(Worth|Not as|No price).*", "", line) for line in told][1:3] == [
        (
            "script.py:4: acl.rt.memcpy() waited for its work. "
            "Use acl.rt.memcpy_async() in a stream, with pinned memory, and synchronise before the result is used. "
        ),
        (
            "script.py:13: a copy of pageable memory kept the host until its stream and the copy were done. "
            "Use pinned memory: acl.rt.malloc_host() instead of an array, "
            "or acl.rt.host_register() once before the loop. "
        ),
    ]
    assert "script.py:17: a stream program has no step for acl.rt.reset_device" in done.stderr
    assert re.search(r"us +\d+ %  script\.py:15: acl\.rt\.synchronize_stream: call ", done.stderr)
    calls = {call.name: call.called for call in read_trace(tmp_path / "run.acl").calls}
    assert {name: calls[name] for name in ("Malloc", "Memcpy", "MemsetAsync", "MemcpyAsync", "Free")} == {
        "Malloc": "acl.rt.malloc",
        "Memcpy": "acl.rt.memcpy",
        "MemsetAsync": "acl.rt.memset_async",
        "MemcpyAsync": "acl.rt.memcpy_async",
        "Free": "acl.rt.free",
    }


def test_findings_about_lives_name_the_functions_that_the_script_calls(run):
    script = """\
        import acl
        acl.rt.set_device(0)
        stream, ret = acl.rt.create_stream()
        other, ret = acl.rt.create_stream()
        device, ret = acl.rt.malloc(64, 0)
        acl.rt.memset_async(device, 64, 0, 64, stream)
        acl.rt.memset_async(device, 64, 0, 64, other)
        acl.rt.synchronize_device()
        acl.rt.free(device)
        acl.rt.free(device)
        acl.rt.memset(device, 64, 0, 64)
        acl.rt.destroy_stream(other)
        acl.rt.synchronize_stream(other)
        event, ret = acl.rt.create_event_with_flag(1)
        acl.rt.stream_wait_event(stream, event)
        acl.rt.synchronize_stream(stream)
        """
    told = run(script, options=["--sanitize"]).stderr
    for text in (
        (
            "fix: acl.rt.record_event(event, stream 1) after script.py:6, "
            "acl.rt.stream_wait_event(stream 2, event) before script.py:7\n"
        ),
        "double free: acl.rt.free (script.py:10) frees the memory made at script.py:5, which was freed at script.py:9 ",
        "    script.py:9: acl.rt.free, which writes\n",
        "use after free: acl.rt.memset (script.py:11) uses the memory made at script.py:5",
        "deadlock: the program: acl.rt.synchronize_stream(stream 1) at script.py:16 can never end",
        "wait: nothing ends the wait for the event made at script.py:14 by acl.rt.stream_wait_event on stream 1 ",
    ):
        assert text in told


def test_a_script_that_hangs_is_explained_without_prices(run):
    script = """\
        import acl
        acl.rt.set_device(0)
        stream, ret = acl.rt.create_stream()
        notify, ret = acl.rt.create_notify(0)
        acl.rt.wait_and_reset_notify(notify, stream, 0)
        acl.rt.synchronize_stream(stream)
        """
    done = run(script, options=["--explain"])
    assert done.returncode == 3
    assert "the run ended with an error: " in done.stderr
    assert "critical path: " in done.stderr
    assert "no prices: the program of this recording ends in a deadlock\n" in done.stderr
    assert done.stderr.count("these wait:") == 2  # in the summary, and with what the run ended
    assert "findings: none" in done.stderr


NATIVE = """\
    import sys, acl_py
    async def main(nbytes):
        await acl_py.MemsetAsync(await acl_py.Malloc(nbytes), nbytes, 0, nbytes)
        await acl_py.SynchronizeDevice()
    for nbytes in map(int, sys.argv[1:]):
        acl_py.run(main, nbytes, device="tiny")
    """


def test_the_simulation_of_a_script_that_uses_acl_py_is_recorded_and_explained(run, tmp_path):
    options = ["--trace", "run.acl", "--format", "acl", "--report", "run.html", "--explain", "--what-if", "h2d=2x"]
    for sanitize in ([], ["--no-sanitize"]):
        done = run(NATIVE, "1000", options=[*options, *sanitize])
        assert done.returncode == 0
        assert done.stderr.startswith("acl-py: tiny, rules cuda: 5.0 us of simulated time\n")
        assert "\ncritical path: " in done.stderr
        assert "script.py:3: fill" in done.stderr
        assert "h2d=2x" in done.stderr
        timeline = read_trace(tmp_path / "run.acl")
        assert (timeline.device, [op.name for op in timeline.ops]) == ("tiny", ["fill"])
        assert "h2d=2x" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_each_simulation_of_a_script_has_its_trace_and_a_place_on_the_page(run, tmp_path):
    script = f"{dedent(NATIVE)}import acl\nacl.rt.set_device(0)\nacl_py.run(main, 64, device='tiny', trace=False)\n"
    options = ["--trace", "run.acl", "--format", "acl", "--report", "run.html", "--explain"]
    done = run(script, "1000", "2000", options=options)
    assert "acl-py: traces of 3 simulations: run-1.acl to run-3.acl\n" in done.stderr
    timelines = [read_trace(tmp_path / f"run-{number}.acl") for number in (1, 2, 3)]
    assert [(each.device, [op.bytes for op in each.ops]) for each in timelines] == [
        ("tiny", [1000]),
        ("tiny", [2000]),
        ("ascend910b3", []),
    ]
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    for number in (1, 2, 3):
        assert f"script.py, simulation {number} of 3:\n" in done.stderr
        assert f"script.py, simulation {number} of 3" in page
    assert not (tmp_path / "run.acl").exists()


def test_a_trace_of_instructions_has_those_of_a_simulation_of_acl_py(run, tmp_path):
    script = """\
        import acl_py
        from acl_py import asc
        @asc.kernel
        def fill():
            asc.Duplicate(asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, 128), 3.0, 128)
        async def main():
            await fill[1]()
            await acl_py.SynchronizeDevice()
        acl_py.run(main, device="ascend910b3")
        """
    done = run(script, options=["--trace", "trace.json", "--format", "msprof-op"])
    assert done.stderr.startswith("acl-py: ascend910b3, rules acl: 410.1 us of simulated time\n")
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["Duplicate"]


def test_prices_are_those_of_the_overlay_and_of_all_devices(run, tmp_path):
    """The program of a recording runs again with the host of the run, also from a file and in another folder."""
    script = """\
        import acl
        for device in (0, 8):
            acl.rt.set_device(device)
            pointer, ret = acl.rt.malloc(1 << 20, 0)
            acl.rt.memset(pointer, 1 << 20, 0, 1 << 20)
        """
    (tmp_path / "host.toml").write_text('[host]\nlaunch = { value = 77000, source = "assumed: slow" }\n')
    options = ["--overlay", "host.toml", "--devices", "9", "--trace", "run.acl", "--format", "acl", "--explain"]
    done = run(script, options=options)
    assert "by line:" in done.stderr
    assert "does not repeat the run" not in done.stderr
    asker = asker_of(read_trace(tmp_path / "run.acl"), "run")
    assert asker.case.notes == ()
    assert asker.case.device.host.launch == 77_000
    (tmp_path / "host.toml").unlink()
    with pytest.raises(EditError, match=r"the run cannot be repeated: cannot read the overlay .*host.toml"):
        asker_of(read_trace(tmp_path / "run.acl"), "run")


def test_a_board_is_one_device(run):
    done = run("import acl", options=["--device", "ascend310", "--devices", "2"])
    assert done.returncode == 2
    assert "such a board is one device" in " ".join(done.stderr.replace("│", " ").split())


def test_a_script_without_a_device_leaves_nothing_to_write_or_explain(run, tmp_path):
    done = run("import acl_py\n", options=["--explain", "--trace", "run.acl", "--format", "acl"])
    assert done.returncode == 0
    assert done.stderr.startswith(
        "acl-py: the recording is empty: the script used no device, neither through the module acl nor in a simulation "
    )
    assert done.stderr.count("\n") == 1
    assert read_trace(tmp_path / "run.acl").ops == []


def test_the_trace_of_a_script(run, tmp_path):
    script = """\
        import acl
        acl.rt.set_device(0)
        pointer, ret = acl.rt.malloc(1024, 0)
        acl.rt.memset(pointer, 1024, 0, 1024)
        """
    done = run(script, options=["--trace", "run.acltrace", "--format", "acl"])
    assert done.returncode == 0
    timeline = read_trace(tmp_path / "run.acltrace")
    assert [(op.name, op.site) for op in timeline.ops] == [("fill", "script.py:4")]
    assert timeline.device == "ascend910b3"


@pytest.mark.parametrize(("options", "adds"), [([], [4] * 8), (["--instructions", "100"], [4, 2])], ids=["all", "100"])
def test_the_instructions_of_the_kernels_of_a_script(run, tmp_path, options, adds):
    script = f"import runpy; runpy.run_path({str(KERNELS)!r}, run_name='__main__')"
    done = run(script, options=["--trace", "trace.json", "--format", "msprof-op", *options])
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    by_core = Counter(event["pid"] for event in events if event["name"] == "Add")
    assert list(by_core.values()) == adds  # one for each tile; a block has 67 instructions


@pytest.mark.parametrize(
    ("end", "code", "error"),
    [
        ("pass", 0, ""),
        ("sys.exit(5)", 5, ""),
        ("raise KeyError('shape')", 1, "KeyError: 'shape'"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("os.kill(os.getpid(), signal.SIGTERM)", -15, "ended by SIGTERM"),
    ],
)
def test_the_trace_of_a_script_says_with_what_it_ended(run, tmp_path, end, code, error):
    script = f"import os, signal, sys, acl\nacl.rt.set_device(0)\n{end}\n"
    assert run(script, options=["--trace", "run.acltrace", "--format", "acl"]).returncode == code
    assert read_trace(tmp_path / "run.acltrace").error == error


def test_the_report_of_a_script_that_hangs_has_the_chain_of_waits(run, tmp_path):
    script = """\
        import acl
        acl.rt.set_device(0)
        stream, ret = acl.rt.create_stream()
        notify, ret = acl.rt.create_notify(0)
        acl.rt.wait_and_reset_notify(notify, stream, 0)
        acl.rt.synchronize_stream(stream)
        """
    done = run(script, options=["--report", "report.html"])
    assert done.returncode == 3
    (shown,) = data_of((tmp_path / "report.html").read_text(encoding="utf-8"))["runs"]
    assert "script.py:5" in shown["error"]
    kind, _, text = shown["error"].partition(": ")
    assert kind == "DeadlockError"
    assert text in done.stderr
    assert rows_of(shown, "steps", "text:kind", "start") == [("notify_wait", -1)]


def test_a_report_that_cannot_be_written_changes_no_exit_code(run):
    done = run("import acl; raise SystemExit(7)", options=["--report", "nowhere/report.html"])
    assert done.returncode == 7
    assert "nowhere/report.html: cannot be written: No such file or directory" in done.stderr


def test_a_process_that_a_script_starts_writes_no_report(run):
    script = """\
        import multiprocessing, os
        import acl

        def hang():
            acl.rt.set_device(0)
            stream, ret = acl.rt.create_stream()
            acl.rt.wait_and_reset_notify(acl.rt.create_notify(0)[0], stream, 0)
            acl.rt.synchronize_stream(stream)

        if __name__ == "__main__":
            process = multiprocessing.get_context("fork").Process(target=hang)
            process.start()
            process.join()
            print(process.exitcode, os.path.exists("report.html"))
        """
    assert run(script, options=["--report", "report.html"]).stdout == "3 False\n"


def test_a_hang_inside_a_simulation_of_the_native_api_ends_it_too(run):
    script = """\
        import acl
        import acl_py

        async def main():
            stream, ret = acl.rt.create_stream()
            event, ret = acl.rt.create_event_with_flag(1)
            acl.rt.stream_wait_event(stream, event)
            acl.rt.synchronize_stream(stream)

        acl_py.run(main, device="ascend910b3")
        """
    done = run(script)
    assert done.returncode == 3
    assert "wait for Event 1 on stream 1 (script.py:7)" in done.stderr


_INTERRUPTED = """\
    import signal
    import acl
    from acl_py.compat.acl import Tensor, register_model

    strikes = [{what}]

    @register_model("net.om", [Tensor("x", "float32", (4,))], [Tensor("y", "float32", (4,))], cost_us=20)
    def infer(x):
        if strikes:
            strikes.pop()()
        return x

    def dataset():
        made = acl.mdl.create_dataset()
        acl.mdl.add_dataset_buffer(made, acl.create_data_buffer(acl.rt.malloc(16, 0)[0], 16))
        return made

    acl.init()
    acl.rt.set_device(0)
    stream, ret = acl.rt.create_stream()
    net, ret = acl.mdl.load_from_file("net.om")
    inputs, outputs = dataset(), dataset()
    try:
        print("queued", acl.mdl.execute_async(net, inputs, outputs, stream))
        print("waited", acl.rt.synchronize_stream(stream))
    except {error} as error:
        print("caught", type(error).__name__)
    print("told", acl.rt.synchronize_stream(stream))
    print("again", acl.mdl.execute(net, inputs, outputs))
    """


@pytest.mark.parametrize(
    ("what", "error", "told"),
    [
        ("lambda: signal.raise_signal(signal.SIGINT)", "KeyboardInterrupt", 0),  # a card runs it to its end, too
        ("lambda: exit(7)", "SystemExit", 507035),
    ],
)
def test_ctrl_c_in_a_model_comes_behind_it_and_an_exit_fails_it(run, tmp_path, what, error, told):
    (tmp_path / "net.om").write_bytes(b"net")
    done = run(_INTERRUPTED.format(what=what, error=error))
    assert done.stdout.splitlines() == ["queued 0", f"caught {error}", f"told {told}", "again 0"]
    assert done.returncode == 0


# --- the clock of the script


@pytest.mark.parametrize(
    "read",
    ["import time\ntime.time()", "import time as t\nt.perf_counter_ns()", "from time import monotonic\nmonotonic()"],
)
def test_a_script_that_reads_the_time_is_told_which_time_that_is(run, read):
    script = f"{read}\nimport acl\nacl.init()\n"
    told = "  time: time.* is real time in this script; `--clock simulated` gives the card's"
    assert told in run(script).stderr.splitlines()
    assert told not in run(script, options=("--clock", "simulated")).stderr.splitlines()


@pytest.mark.parametrize("waits", ["import time\ntime.sleep(0)", "from time import sleep\nsleep(0)", "time = print"])
def test_a_script_that_reads_no_time_is_told_nothing_of_it(run, waits):
    assert "time.*" not in run(f"{waits}\nimport acl\nacl.init()\n").stderr


def test_a_module_of_the_script_that_reads_the_time_counts(run, tmp_path):
    (tmp_path / "timing.py").write_text("import time\n\ndef begin():\n    return time.perf_counter()\n")
    assert "time.* is real time" in run("import acl, timing\nacl.init()\n").stderr
