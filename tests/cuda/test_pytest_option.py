"""`pytest --cuda` and the fixture `cuda_driver`, for tests of other projects."""

from importlib.metadata import entry_points

import pytest

from tests import forks

pytest_plugins = ["pytester"]
LIBRARY = """
    import ctypes

    cuda = ctypes.CDLL("libcuda.so.1")     # at import: the driver must be in place by now
    cuda.cuInit(0)

    def allocate(nbytes):
        context, address = ctypes.c_uint64(), ctypes.c_uint64()
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cuda.cuCtxSetCurrent(context)
        code = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_uint64(nbytes))
        if code == 2:
            raise MemoryError(nbytes)
        return address.value
"""
TESTS = """
    import pytest
    from library import allocate

    def test_memory(cuda_driver):
        before = cuda_driver.now_us
        assert allocate(1024)
        assert cuda_driver.now_us > before
        assert cuda_driver.failures() == []
        assert "device memory" in cuda_driver.leaks()[0]

    def test_no_memory(cuda_driver):
        with cuda_driver.fault("fail call=Malloc kind=OUT_OF_MEMORY") as rule:
            with pytest.raises(MemoryError):
                allocate(1024)
        assert rule.struck == 1
        assert "CUDA_ERROR_OUT_OF_MEMORY (2)" in cuda_driver.failures()[0]

    def test_memory_again(cuda_driver):
        assert allocate(1024)
        assert cuda_driver.failures() == []
        assert cuda_driver.timeline().calls
        assert "h200, rules cuda" in cuda_driver.report()
"""


@pytest.fixture
def outcome(pytester):
    """Run tests of a library with the plugin."""
    installed = any(point.value == "acl_py_pytest" for point in entry_points(group="pytest11"))
    without = ["-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:hypothesispytest", "-W", "error"]

    def outcome(tests, *options):
        pytester.makepyfile(library=LIBRARY, test_library=tests)
        return forks.run_pytest(pytester, *options, *without, *([] if installed else ["-p", "acl_py_pytest"]))

    return outcome


def test_a_library_finds_the_card_when_it_is_imported_and_rules_hold_for_a_block(outcome):
    done = outcome(TESTS, "--cuda")
    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines(
        ["*the driver of CUDA*", "h200, rules cuda: * of simulated time", "*failed: cuMemAlloc_v2*"]
    )


def test_the_fixture_alone_puts_the_driver_in_place(outcome):
    outcome("def test_it(cuda_driver):\n    from library import allocate\n    assert allocate(8)\n").assert_outcomes(
        passed=1
    )


def test_a_wrong_rule_is_told_in_the_test(outcome):
    done = outcome(
        'def test_it(cuda_driver):\n    with cuda_driver.fault("fail cal=Malloc"):\n        pass\n', "--cuda"
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*FaultError: fail(cal='Malloc'): there is no argument cal;*"])
