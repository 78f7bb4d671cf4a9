"""The driver in processes of their own: before and after its life, in a child of fork, and in scripts."""

import json
import os
import subprocess
import sys
from textwrap import dedent

import pytest

from acl_py.compat.acl.face.modules import IMPORTED
from tests import forks


@pytest.fixture
def run(tmp_path):
    """Write a script and run it, with `acl-py run` unless the command is another: return the process that has ended."""

    def run(script, *options, command=("-m", "acl_py", "run")):
        path = tmp_path / "script.py"
        path.write_text(dedent(script), encoding="utf-8")
        return forks.run(*command, *options, path, cwd=tmp_path)

    return run


UNKNOWN = (
    "Free of a host address, which is neither in an allocation nor near one; pass the buffer itself, or the address "
    "that it has"
)
BEGINS = """
    import ctypes, json, os, sys
    from ctypes import byref, c_int, c_uint64
    cuda = ctypes.CDLL("libcuda.so.1")
    number, context, address = c_int(), c_uint64(), c_uint64()
"""


def test_functions_answer_that_the_driver_is_not_initialised_until_it_is(run):
    done = run(BEGINS + """
    codes = [cuda.cuDeviceGetCount(byref(number)), cuda.cuDriverGetVersion(byref(number)), number.value]
    codes += [cuda.cuInit(1), cuda.cuDeviceGetCount(byref(number))]
    codes += [cuda.cuInit(0), cuda.cuDeviceGetCount(byref(number)), number.value]
    print(json.dumps(codes))
    """, "--devices", "3")  # fmt: skip
    assert (json.loads(done.stdout), done.returncode) == ([3, 0, 13000, 1, 3, 0, 0, 3], 0)


def test_in_a_child_of_fork_every_function_answers_3(run):
    done = run(BEGINS + """
    codes = [cuda.cuInit(0), cuda.cuDeviceGetCount(byref(number))]
    child = os.fork()
    if not child:
        print(json.dumps([cuda.cuInit(0), cuda.cuDeviceGetCount(byref(number))]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    codes += [cuda.cuDeviceGetCount(byref(number))]
    print(json.dumps(codes))
    """)  # fmt: skip
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[3, 3], [0, 0, 0]]


def test_what_still_calls_when_a_program_has_ended_gets_4_and_runs_no_python(run):
    done = run("""
    from acl_py.compat.cuda import install
    install(device="tiny")
    """ + BEGINS + """
    import atexit
    def late():
        print(cuda.cuCtxSynchronize(), cuda.cuInit(0), flush=True)
    from acl_py.compat.cuda import switching
    atexit.unregister(switching.end)
    atexit.register(late)
    atexit.register(switching.end)
    print(cuda.cuInit(0))
    """, command=())  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["0", "4", "4"], "")


def test_a_script_has_a_summary_with_lines_of_the_script_and_what_failed(run):
    done = run(BEGINS + """
    cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(byref(context), 0), cuda.cuCtxSetCurrent(context)
    cuda.cuMemAlloc_v2(byref(address), 1000)
    cuda.cuMemFree_v2(c_uint64(77))
    cuda.cuTexRefCreate(byref(context))
    print(cuda.cuCtxSynchronize())
    """)  # fmt: skip
    assert (done.stdout, done.returncode) == ("0\n", 0)
    lines = [line.strip() for line in done.stderr.splitlines()]
    assert lines[1].startswith("acl-py: h200, rules cuda: ")
    assert lines[3:] == [
        "cuCtxSynchronize() at script.py:11: once, 5.4 us",
        "finding: cuTexRefCreate is not simulated: it returned 801",
        f"failed: cuMemFree_v2() at script.py:9: CUDA_ERROR_INVALID_VALUE (1): {UNKNOWN}",
        "leak: 1 allocation of device memory, 1000 B, never freed, made at script.py:8",
    ]


def test_the_default_card_follows_from_what_a_script_uses(run):
    scripts = {
        "import acl; acl.rt.set_device(0)": "ascend910b3, rules acl",
        "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)": "h200, rules cuda",
    }
    for script, card in scripts.items():
        assert f"acl-py: {card}: " in run(script).stderr
    assert (
        "acl-py: tiny, rules cuda: "
        in run("import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)", "--device", "tiny").stderr
    )


def test_objects_that_live_in_a_module_that_imported_the_script_end_before_the_summary(run):
    done = run("""
    import rlcompleter  # says `import __main__`
    class Noisy:
        def __del__(self): print("ended")
    noisy = Noisy()
    import acl; acl.rt.set_device(0)
    """)  # fmt: skip
    assert done.stdout == "ended\n"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("end", "code"), [("breaks", 1), ("well", 0)])
def test_a_destructor_in_c_that_calls_when_there_is_no_python_gets_a_code_however_the_script_has_ended(
    tmp_path, end, code
):
    """What C calls at exit comes after the end of the interpreter, as destructors of threads do."""
    script = tmp_path / "script.py"
    script.write_text(dedent(BEGINS + """
    assert cuda.cuInit(0) == 0
    ctypes.CDLL(None).__cxa_atexit(cuda.cuCtxSynchronize, 0, 0)
    if sys.argv[1] == "breaks":
        sys.stderr.close()  # so the summary cannot be printed
        os.close(2)
    """), encoding="utf-8")  # fmt: skip
    command = [sys.executable, "-m", "acl_py", "run", script, end]  # an interpreter that ends
    assert subprocess.run(command, cwd=forks.ROOT, capture_output=True, check=False).returncode == code


@pytest.mark.slow
def test_a_process_that_a_script_starts_has_a_card_of_its_own(run, tmp_path):
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text("import sys\nsys.is_custom = True\n")
    done = run(BEGINS + """
    import multiprocessing, subprocess
    def begin(flags):
        cuda = ctypes.CDLL("libcuda.so.1")
        return cuda.cuInit(flags), cuda.cuDeviceGetCount(byref(number)), number.value, cuda.cuMemFree_v2(c_uint64(77))
    other = "import ctypes, sys; print(sys.is_custom, 'acl_py' in sys.modules, ctypes.CDLL('libcuda.so.1').cuInit(0))"
    if __name__ == "__main__":
        print(cuda.cuInit(0))
        os.environ["PYTHONPATH"] += os.pathsep + os.path.join(os.path.dirname(__file__), "hook")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(begin, [0]), flush=True)
        subprocess.run([sys.executable, "-c", other], check=True)
    """, "--devices", "3", "--device", "tiny")  # fmt: skip
    assert done.stdout.splitlines() == ["0", "[(0, 0, 3, 201)]", "True False 0"], done.stderr
    assert "acl-py: failed: cuMemFree_v2() at script.py:10: CUDA_ERROR_INVALID_CONTEXT (201)" in done.stderr


def test_a_process_that_looks_for_libraries_has_no_driver_and_one_that_imports_a_package_has(tmp_path):
    for name in ("cuda/pathfinder.py", "cuda/core.py", "numba/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    script = "import sys\nfor name in ('numba', 'cuda.pathfinder', 'cuda.core'):\n"
    script += "    __import__(name)\n    print(name, 'acl_py.compat.cuda.switching' in sys.modules)\n"
    path = os.pathsep.join([str(IMPORTED.parent.parent), str(tmp_path), str(forks.ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "ACL_PY_RUN": "{}"}
    command = [sys.executable, "-c", script]  # how an interpreter starts is what this is about
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["numba False", "cuda.pathfinder False", "cuda.core True"], done.stderr


def test_a_child_of_fork_begins_anew_if_its_parent_has_made_no_call(run):
    done = run(BEGINS + """
    child = os.fork()
    if not child:
        print(json.dumps([cuda.cuInit(0), cuda.cuDeviceGetCount(byref(number))]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    """)  # fmt: skip
    assert json.loads(done.stdout) == [0, 0], done.stderr


def test_each_function_answers_3_before_the_driver_begins_and_in_a_child_of_fork_and_4_at_exit(run):
    done = run("""
    from acl_py.compat.cuda import install
    from acl_py.compat.cuda.face.exports import EARLY
    from acl_py.compat.cuda.library.signatures import exported
    install(device="tiny")
    """ + BEGINS + """
    import atexit
    def codes(names):
        return sorted({cuda[name](*[c_uint64(2**60)] * 20) for name in names})
    names = [name for name, *_ in exported()]
    print(codes(set(names) - set(EARLY)), cuda.cuInit(0), flush=True)
    child = os.fork()
    if not child:
        print(codes(names), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    from acl_py.compat.cuda import switching
    atexit.unregister(switching.end)
    atexit.register(lambda: print(codes(names), flush=True))
    atexit.register(switching.end)
    """, command=())  # fmt: skip
    assert (done.stdout.splitlines(), done.stderr) == (["[3] 0", "[3]", "[4]"], "")


def test_ctrl_c_in_a_call_is_raised_behind_it_and_the_driver_goes_on(run):
    done = run(BEGINS + """
    import signal
    @ctypes.CFUNCTYPE(None, c_uint64)
    def interrupt(_):
        signal.raise_signal(signal.SIGINT)
    cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(byref(context), 0), cuda.cuCtxSetCurrent(context)
    caught = 0
    try:
        cuda.cuLaunchHostFunc(c_uint64(0), interrupt, c_uint64(1))
        cuda.cuCtxSynchronize()
    except KeyboardInterrupt:
        caught += 1
    print(caught, cuda.cuCtxSynchronize(), cuda.cuMemAlloc_v2(byref(address), c_uint64(64)))
    """, "--device", "tiny")  # fmt: skip
    assert (done.stdout, done.returncode) == ("1 0 0\n", 0), done.stderr


def test_threads_of_c_call_in_and_have_contexts_of_their_own(run):
    """A thread that the C library starts, and not Python, makes the calls of a thread that has no context yet."""
    done = run(BEGINS + """
    cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(byref(context), 0), cuda.cuCtxSetCurrent(context)
    libc, thread, code = ctypes.CDLL(None), c_uint64(), c_uint64()
    codes = []
    for function in (cuda.cuCtxSynchronize, cuda.cuInit):
        assert libc.pthread_create(byref(thread), None, function, None) == 0
        assert libc.pthread_join(thread, byref(code)) == 0
        codes.append(code.value & 0xFFFFFFFF)
    print(codes, cuda.cuCtxSynchronize())
    """, "--device", "tiny")  # fmt: skip
    assert (done.stdout, done.returncode) == ("[201, 0] 0\n", 0), done.stderr
