"""What the pytest plugin says below the traceback of a test that fails: the last waits of its simulation."""

from importlib.metadata import entry_points

import pytest

from tests import forks
from tests.test_readme import ROOT

pytest_plugins = ["pytester"]
PLUGIN = "acl_py_pytest"

PROGRAM = """\
import acl_py as acl
import numpy as np
import pytest


@acl.kernel(cost=acl.Cost(us=10))
def double(x: acl.InOut):
    x *= 2


async def doubled(waits):
    batch = np.full(1024, 3, np.float32)
    device, result = await acl.Malloc(4096, name="weights"), await acl.MallocHost(4096)
    one, two = await acl.CreateStream(), await acl.CreateStream(name="download")
    await acl.MemcpyAsync(device, 4096, batch, 4096, acl.MemcpyKind.HOST_TO_DEVICE, one)
    await double[1, one](acl.Array(device, np.float32))
    if waits:
        await acl.SynchronizeStream(one)
    await acl.MemcpyAsync(result, 4096, device, 4096, acl.MemcpyKind.DEVICE_TO_HOST, two)
    await acl.SynchronizeStream(two)
    return result.numpy(np.float32)[0]

"""


@pytest.fixture
def sections(pytester):
    """Run a test file with the plugin in a process of its own, and return the section of acl_py of each failure."""
    installed = any(point.value == PLUGIN for point in entry_points(group="pytest11"))

    def sections(text, *options, program=PROGRAM):
        pytester.makepyfile(test_project=program + text)
        without = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "timeout", "asyncio", "xdist")]
        without.append("-rN")  # the summary: it repeats whole messages where CI is set
        done = forks.run_pytest(pytester, *options, *without, "-W", "error", *([] if installed else ["-p", PLUGIN]))
        found, is_inside = [], False
        for line in done.outlines:
            if line.strip("- ") == "acl_py":
                found.append([])
            is_inside = line.strip("- ") == "acl_py" or (is_inside and line[:5] not in ("=====", "_____", "-----"))
            if is_inside:
                found[-1].append(line)
        return done, ["\n".join(each[1:]) for each in found]

    return sections


EARLY = """\
h200, rules cuda: 46.0 us, 2 operations
not ended: double on stream 1 (test_project.py:16): the host has not waited for it
the host's last waits:
  test_project.py:20: SynchronizeStream() of stream 'download' did not have to wait: the work had ended"""
OFF = "the sanitizer was off: pytest --acl-sanitize looks for races"


def test_a_failed_test_says_what_was_waited_for_last_and_what_was_not(sections):
    """A failure without a simulation, and a hang, whose message has all waits, have no section."""
    done, texts = sections(
        """
def test_with_the_fixture(acl_sim):
    assert acl_sim.run(doubled, False) == 6

def test_without():
    assert acl.run(doubled, True) == 6
    assert acl.run(doubled, False) == 6

def test_of_something_else():
    assert 1 == 2

async def hangs():
    await acl.WaitAndResetNotify(await acl.CreateNotify())
    await acl.SynchronizeDevice()

def test_hangs():
    acl.run(hangs, rules="acl")

async def loop():
    array = np.ones(1 << 20, np.float32)
    device, stream = await acl.Malloc(array.nbytes), await acl.CreateStream()
    for _ in range(3):
        await acl.MemcpyAsync(device, array.nbytes, array, array.nbytes, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        await double[1, stream](acl.Array(device, np.float32))
        await acl.SynchronizeStream(stream)
    await acl.Sleep(5)
    raise ValueError

def test_loop():
    acl.run(loop)

def test_with_findings():
    assert acl.run(doubled, False, sanitize="device") == 6
"""
    )
    done.assert_outcomes(failed=6)
    loop = """\
h200, rules cuda: 964.6 us, 15 operations
the host's last waits:
  test_project.py:45: a copy from pageable memory kept the host, which copied the bytes to buffers of the driver, 3 times, for 733.2 us. Use pinned memory: MallocHost() instead of an array, or HostRegister() once before the loop
  test_project.py:47: SynchronizeStream() of stream 1 waited 3 times for 62.8 us, the last time until double on stream 1 (test_project.py:46) had ended
  test_project.py:48: Sleep() waited for 5.0 us"""  # noqa: E501
    races = """\
finding: race: h2d 'weights' on stream 1 (test_project.py:15) writes 'weights'[0:4,096], and d2h 'weights' on stream 'download' (test_project.py:19) reads it: nothing puts them in order
  fix: record on `stream 1` after test_project.py:15, wait on `download` before test_project.py:19
finding: race: kernel 'double' on stream 1 (test_project.py:16) writes 'weights'[0:4,096], and d2h 'weights' on stream 'download' (test_project.py:19) reads it: nothing puts them in order
  fix: record on `stream 1` after test_project.py:16, wait on `download` before test_project.py:19"""  # noqa: E501
    assert f"{EARLY}\n{OFF}\n" in (ROOT / "docs/sanitizer/tests.md").read_text(encoding="utf-8")
    several = "the last of 2 simulations:"
    assert texts == [f"{EARLY}\n{OFF}", f"{several}\n{EARLY}\n{OFF}", f"{loop}\n{OFF}", f"{EARLY}\n{races}"]


@pytest.mark.slow
def test_with_the_option_the_sanitizer_says_once_what_it_has_found(sections):
    """A test that fails because of findings has them as its message."""
    done, texts = sections(
        """
def test_early():
    assert acl.run(doubled, False) == 6

def test_only_found():
    assert acl.run(doubled, False) == 3

async def tidy():
    buffer = await acl.Malloc(64)
    await acl.MemsetAsync(buffer, 64, 0, 64)
    await acl.SynchronizeDevice()
    await acl.Free(buffer)
    return 1

def test_tidy():
    assert acl.run(tidy) == 2
""",
        "--acl-sanitize",
    )
    done.assert_outcomes(failed=3)
    tidy = """\
h200, rules cuda: 26.9 us, 1 operation
the host's last waits:
  test_project.py:33: SynchronizeDevice() did not have to wait: the work had ended
no findings of the sanitizer"""
    assert texts == [EARLY, tidy]
    assert sum(line.startswith("race: ") for line in done.outlines) == 4  # two in each


CARD = """\
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)


def fill(nbytes, value):
    context, address = ctypes.c_uint64(), ctypes.c_uint64()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_uint64(nbytes))
    cuda.cuMemsetD8_v2(address, value, ctypes.c_uint64(nbytes))
    result = (ctypes.c_uint8 * nbytes)()
    cuda.cuMemcpyDtoH_v2(result, address, ctypes.c_uint64(nbytes))
    return result[0]

"""


@pytest.mark.slow
def test_with_the_driver_of_cuda_only_the_test_itself_counts(sections):
    """All tests share the session of the driver."""
    text = """
def test_good():
    assert fill(1 << 20, 3) == 3

def test_bad():
    assert fill(1 << 20, 3) == 4
"""
    done, texts = sections(text, "--cuda", program=CARD)
    done.assert_outcomes(passed=1, failed=1)
    assert texts == [
        """\
h200, rules cuda: 116.0 us, 2 operations
the host's last waits:
  test_project.py:14: cuMemcpyDtoH_v2() waited for its work, for 90.2 us. Use cudaMemcpyAsync() in a stream, with pinned memory, and synchronise before the result is used
the sanitizer was off: pytest --acl-sanitize looks for races"""  # noqa: E501
    ]


@pytest.mark.slow
def test_a_lost_context_says_why_below_each_test_that_finds_it(sections):
    done, texts = sections(
        """
def test_loses(cuda_driver):
    with cuda_driver.fault("fail op=* kind=ILLEGAL_ADDRESS"):
        assert fill(64, 3) == 3

def test_later():
    assert fill(64, 3) == 3
""",
        "--cuda",
        program=CARD,
    )
    done.assert_outcomes(failed=2)
    assert len(texts) == 2
    for text in texts:
        first = text.splitlines()[0]
        assert first.startswith("lost context: ")
        assert "fill on legacy submitted at test_project.py:12" in first
        assert " failed: " in first


@pytest.mark.slow
def test_what_the_sanitizer_found_before_the_test_is_not_below_it(sections, pytester):
    pytester.makepyfile(
        test_project=CARD
        + """
def test_reads_what_nothing_wrote():
    address, result = ctypes.c_uint64(), (ctypes.c_uint8 * 64)()
    fill(64, 3)
    cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_uint64(64))
    cuda.cuMemcpyDtoH_v2(result, address, ctypes.c_uint64(64))

def test_of_something_else():
    fill(64, 3)
    assert 1 == 2
"""
    )
    run = (
        "-m",
        "acl_py",
        "run",
        "--sanitize=device,uninitialised",
        "-m",
        "pytest",
        "-pno:cacheprovider",
        "-pno:asyncio",
    )
    done = forks.run(*run, "test_project.py", cwd=pytester.path)
    assert "1 failed, 1 passed" in done.stdout
    section = done.stdout.split("- acl_py -")[1].split("=====")[0]
    assert "the host's last waits:" in section
    assert "finding" not in section.replace("no findings", "")
    assert "uninitialised" in done.stderr
