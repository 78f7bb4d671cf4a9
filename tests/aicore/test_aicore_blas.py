"""BLAS has one thread while a launch runs, and the number it had before as soon as none does."""

import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from device_model.aicore.runner import run
from device_model.kernel.blas import one_thread
from device_model.profile import load

SPEC = load("ascend910b1").aicore


def threads():
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


@pytest.fixture
def three_threads():
    """A number that is neither one nor what any machine begins with."""
    libraries = ThreadpoolController().select(user_api="blas")
    if not libraries.lib_controllers:
        pytest.skip("this NumPy has no BLAS that can be controlled")
    with libraries.limit(limits=3):
        assert set(threads()) == {3}
        yield


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("blocks", [1, 3])
def test_blas_has_one_thread_while_a_launch_runs(blocks):
    seen = []
    run(lambda: seen.append(threads()), blocks, (), SPEC)
    assert seen == [[1] * len(threads())] * blocks
    assert set(threads()) == {3}


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_blas_has_its_threads_back_when_a_kernel_raises(error):
    def kernel():
        raise error("as planned")

    with pytest.raises(error, match="as planned"):
        run(kernel, 1, (), SPEC)
    assert set(threads()) == {3}


@pytest.mark.usefixtures("three_threads")
def test_of_launches_side_by_side_the_first_gives_the_threads_back():
    """Were the limits nested, the second would put back the one thread that it found."""
    inside, out = threading.Event(), threading.Event()

    def other():
        with one_thread():
            inside.set()
            assert out.wait(30)

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        assert inside.wait(30)
        assert set(threads()) == {1}
    assert set(threads()) == {3}
    out.set()
    thread.join()
    assert set(threads()) == {3}
    with one_thread():
        assert set(threads()) == {1}


def test_a_launch_from_another_thread_is_limited_too():
    """Unless this thread had set a limit: then OpenBLAS listens to it alone."""
    seen = []
    thread = threading.Thread(target=lambda: run(lambda: seen.append(threads()), 1, (), SPEC))
    thread.start()
    thread.join()
    assert seen == [[1] * len(threads())]


def test_a_product_is_the_same_within_and_without():
    a = np.arange(128 * 128, dtype=np.float32).reshape(128, 128) % 7
    with one_thread():
        within = a @ a
    assert np.array_equal(within, a @ a)
