"""Costs that name a call of the card's library: how long the launch takes, and what is refused."""

import numpy as np
import pytest
from histories import history, misused, refused, tiny

import acl_py as acl


async def lasts(kernel, blocks=4, *args):
    """How long a launch on the 4 cores of the tiny card takes, in ns."""
    sim = acl.current_simulation()
    begin = sim.now_ns
    await kernel[blocks](*args)
    await acl.SynchronizeDevice()
    [(_, start, end)] = history(sim, begin)
    return end - start


def costing(cost, function=lambda: None):
    return acl.kernel(cost=cost)(function)


@tiny
async def test_a_launch_takes_what_the_library_takes():
    product = costing(acl.Cost.matmul(256, 256, 256, "float32"))
    whole = await lasts(product)
    assert whole == pytest.approx(2 * 256**3 / 4, rel=1e-3)  # 4 operations each nanosecond
    assert await lasts(costing(acl.Cost.matmul(256, 256, 256, np.float32, batch=3))) == pytest.approx(3 * whole, abs=9)
    assert await lasts(costing(acl.Cost.elementwise(2_000_000, 1_000_000))) == 3_000_000  # 1 GB/s, beyond the L2
    assert await lasts(costing(acl.Cost.elementwise(200_000, 100_000))) == 150_000  # 2 GB/s in it
    assert await lasts(costing(acl.Cost.softmax(1000, 100))) == 400_000  # in it too


@tiny
async def test_a_launch_leaves_its_library_as_many_cores_as_it_has_blocks():
    product = costing(acl.Cost.matmul(256, 256, 256))
    whole = await lasts(product)
    assert await lasts(product, 1) == pytest.approx(4 * whole, rel=1e-3)
    assert await lasts(product, 1000) == whole  # the library does not make more blocks for it


@tiny
async def test_a_cost_may_be_a_function_of_the_arguments():
    product = costing(lambda a, n: acl.Cost.matmul(*a.shape, n), lambda a, n: None)
    x = acl.Array(await acl.Malloc(131_072), np.float16, (256, 256))
    short, long = [await lasts(product, 4, x, n) for n in (256, 2560)]
    assert long == pytest.approx(10 * short, rel=1e-2)
    with misused(TypeError, "the cost function of <kernel <lambda>> gave 5; it must give a Cost"):
        await costing(lambda: 5)[1]()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: acl.Cost.matmul(0, 1, 1), ValueError, "m of matmul must be 1 or more elements, not 0"),
        (lambda: acl.Cost.matmul(1, 1, 1, batch=0), ValueError, "batch of matmul must be 1 or more products, not 0"),
        (lambda: acl.Cost.matmul(1, 1, 2.5), TypeError, "k of matmul must be a whole number of elements, not 2.5"),
        (lambda: acl.Cost.matmul(1, 1, 1, "complex64"), ValueError, "one of float32, tf32, .*int8, not 'complex64'"),
        (lambda: acl.Cost.elementwise(-4, 4), ValueError, "reads of elementwise must be 1 or more bytes, not -4"),
        (lambda: acl.Cost.reduction(True), TypeError, "elements of reduction must be a whole number of elements"),
        (lambda: acl.Cost.softmax(1, 0), ValueError, "columns of softmax must be 1 or more elements, not 0"),
        (lambda: acl.Cost.permute(1 << 63), ValueError, r"elements of permute must be at most 2\*\*62 elements"),
        (lambda: acl.Cost.gather(1, 1, "float17"), TypeError, "dtype of gather must be a dtype of numbers of NumPy"),
        (lambda: acl.Cost.softmax(1, 1, None), TypeError, "dtype of softmax must be a dtype of numbers of NumPy"),
        (lambda: acl.Cost.softmax(1, 1, object), TypeError, "dtype of softmax must be a dtype of numbers of NumPy"),
        (lambda: acl.Cost.softmax(1, 1, "V0"), TypeError, "dtype of softmax must be a dtype of numbers of NumPy"),
    ],
)
def test_calls_that_cannot_be(make, error, message):
    with pytest.raises(error, match=message):
        make()


@tiny
async def test_a_card_that_has_no_such_product_says_which_it_has_and_where_it_was_asked_for():
    product = costing(acl.Cost.matmul(8, 8, 8, "int8"))
    with refused(acl.Kind.NOT_SUPPORTED, "test_api_costs.py:", "tiny multiplies no", "int8", "float32, float16"):
        await product[4]()
