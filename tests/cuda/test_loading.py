"""What keeps a package from the driver, told before the script begins; and a loop of the host that makes no call."""

import sys
from textwrap import dedent
from types import ModuleType, SimpleNamespace

import pytest

from acl_py.compat.cuda import packages
from acl_py.compat.cuda.standing import Standing
from tests import forks
from tests.cuda.calling import OUT


def run(text, cwd, **variables):
    return forks.run("-m", "acl_py", "run", "-c", dedent(text), cwd=cwd, env={"PATH": "", **variables})


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Puts wheels, as "name-version", in front of those that are installed."""

    def install(*wheels):
        for wheel in wheels:
            (tmp_path / f"{wheel}.dist-info").mkdir()
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_a_driver_elsewhere_and_a_wheel_of_another_version_are_told(monkeypatch, installed):
    monkeypatch.setenv("NUMBA_CUDA_DRIVER", "/usr/lib/libcuda.so.1")
    installed("cuda_bindings-11.8.7", "nvidia_nvvm-13.0.88")
    elsewhere, wheel = packages.troubles()
    assert elsewhere.startswith("NUMBA_CUDA_DRIVER is '/usr/lib/libcuda.so.1', so numba loads that")
    assert wheel == (
        "cuda-bindings 11.8.7 is for CUDA 11, and the simulated driver for CUDA 13: install 'cuda-bindings==13.*'"
    )


def test_nothing_is_told_of_packages_that_fit_or_are_not_there(monkeypatch, installed):
    monkeypatch.delenv("NUMBA_CUDA_DRIVER", raising=False)
    installed("cuda_bindings-12.9.1", "nvidia_nvvm-13.0.88", "cuda_python-11.0")
    assert list(packages.troubles()) == []


def test_a_package_that_found_no_driver_before_is_named(monkeypatch):
    looked = ModuleType("numba.cuda.cudadrv.driver")
    looked.driver = SimpleNamespace(initialization_error="CUDA_ERROR_NO_DEVICE")
    monkeypatch.setitem(sys.modules, looked.__name__, looked)
    assert packages.failed_before() == "numba.cuda"
    looked.driver.initialization_error = None
    assert packages.failed_before() == ""


def test_a_package_with_a_runtime_of_its_own_is_told_when_it_is_imported_and_once(tmp_path):
    (tmp_path / "torch.py").write_text("")
    done = run("import sys, torch\ndel sys.modules['torch']\nimport torch\nprint('went on')\n", tmp_path)
    told = "acl-py: torch brings a CUDA runtime of its own, which needs a real driver: it finds no card here. "
    told += "Such a program has to be ported: the page 'Coming from another library' has the calls\n"
    assert (done.stdout, done.stderr) == ("went on\n", told)


def test_a_package_that_is_not_there_is_not_told(tmp_path):
    done = run("try:\n    import cupy\nexcept ImportError:\n    print('none')\n", tmp_path)
    assert (done.stdout, done.stderr) == ("none\n", "")


@pytest.fixture
def looks():
    """What looks at this test, and what it has told."""
    told = []
    watch = Standing(told.append)
    return lambda: watch.look(sys._getframe(1)), told


def test_a_loop_that_makes_no_call_while_the_device_has_work_is_told_with_its_line_once(cuda, looks):
    look, told = looks
    _, stream = cuda.get("cuStreamCreate", OUT, 1)
    device = cuda.allocate(4096)
    cuda("cuMemsetD8Async", device, 1, 4096, stream)
    for _ in range(5):
        look()
    assert [text.partition(" makes")[0] for text in told] == [f"test_loading.py:{sys._getframe().f_lineno - 1}"]


def test_calls_other_variables_and_a_device_without_work_are_no_reason_to_tell(cuda, looks):
    look, told = looks
    _, stream = cuda.get("cuStreamCreate", OUT, 1)
    device = cuda.allocate(4096)
    for _ in range(5):
        cuda("cuMemsetD8Async", device, 1, 4096, stream)
        look()
    for _ in range(5):
        found = object()
        look()
        kept = found  # the next object has another address
    cuda("cuCtxSynchronize")
    for _ in range(5):
        look()
    assert (told, kept is found) == ([], True)


@pytest.mark.slow
def test_the_signal_comes_and_the_loop_of_a_script_is_told(tmp_path):
    (tmp_path / "script.py").write_text(
        dedent("""
        import ctypes, time
        cuda = ctypes.CDLL("libcuda.so.1")
        context, memory = ctypes.c_uint64(), ctypes.c_uint64()
        cuda.cuInit(0)
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cuda.cuCtxSetCurrent(context)
        cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_uint64(4096))
        cuda.cuMemsetD8Async(memory, 1, ctypes.c_uint64(4096), None)
        begin = time.monotonic()
        while time.monotonic() - begin < 9:
            pass
    """)
    )
    done = forks.run("-m", "acl_py", "run", "script.py", cwd=tmp_path)
    assert done.stderr.count("makes no call while the device has work") == 1
    assert "acl-py: script.py:1" in done.stderr
