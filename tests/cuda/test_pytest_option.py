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


SHARED = """
    import ctypes

    import pytest
    from library import allocate, cuda

    MIB = 1 << 20
    streams, events = [ctypes.c_uint64(), ctypes.c_uint64()], [ctypes.c_uint64()]

    @pytest.fixture(scope="module")
    def memory():
        address = ctypes.c_uint64(allocate(MIB))
        for stream in streams:
            cuda.cuStreamCreate(ctypes.byref(stream), ctypes.c_uint(1))
        cuda.cuEventCreate(ctypes.byref(events[0]), ctypes.c_uint(0))
        return address

    def work(address, ordered):
        # copy in one stream, fill in another one
        cuda.cuMemcpyHtoDAsync_v2(address, bytes(MIB), ctypes.c_size_t(MIB), streams[0])
        if ordered:
            cuda.cuEventRecord(events[0], streams[0])
            cuda.cuStreamWaitEvent(streams[1], events[0], ctypes.c_uint(0))
        cuda.cuMemsetD8Async(address, ctypes.c_ubyte(1), ctypes.c_size_t(MIB), streams[1])

    def test_first(cuda_driver, memory):
        large = allocate(8 * MIB)
        work(memory, ordered=False)
        cuda.cuCtxSynchronize()
        cuda.cuMemFree_v2(ctypes.c_uint64(large))
        with pytest.raises(AssertionError, match="nothing puts fill on "):
            cuda_driver.assert_ordered("h2d", "fill")
        with pytest.raises(AssertionError, match="something waited without being asked to"):
            cuda_driver.assert_no_implicit_sync()
        with pytest.raises(AssertionError, match="9,437,184 bytes of device 0 were in use"):
            cuda_driver.assert_peak_memory(2 * MIB)
        with pytest.raises(AssertionError, match="calls held the host for "):
            cuda_driver.assert_held(0, by="cuMemcpyHtoDAsync_v2")
        cuda.cuMemsetD8Async(memory, ctypes.c_ubyte(1), ctypes.c_size_t(MIB), streams[1])  # nothing comes behind it

    def test_fills_only(cuda_driver, memory):
        begin_us = cuda_driver.now_us
        cuda.cuMemsetD8Async(memory, ctypes.c_ubyte(1), ctypes.c_size_t(MIB), streams[1])
        cuda.cuCtxSynchronize()
        cuda_driver.assert_no_implicit_sync()
        cuda_driver.assert_peak_memory(MIB)
        cuda_driver.assert_time(round(cuda_driver.now_us - begin_us, 3))
        (first, second) = [op for op in cuda_driver.timeline().ops if op.name == "fill"][-2:]
        cuda_driver.assert_time((second.end_ns - second.start_ns) / 1000, of="fill")
        with pytest.raises(AssertionError, match="no operation is called 'h2d'; there are 'fill', "):
            cuda_driver.assert_overlaps("h2d", "fill")
        with pytest.raises(AssertionError, match="no call is of 'cuMemcpyHtoDAsync_v2'"):
            cuda_driver.assert_held(0, by="cuMemcpyHtoDAsync_v2")

    def test_ordered(cuda_driver, memory):
        work(memory, ordered=True)
        cuda.cuCtxSynchronize()
        cuda_driver.assert_ordered("h2d", "fill")
        with pytest.raises(AssertionError, match="^the test took "):
            cuda_driver.assert_within_us(1)
"""


def test_assertions_are_about_what_happened_since_the_test_began(outcome):
    outcome(SHARED, "--cuda").assert_outcomes(passed=3)
