"""Kernels that a CUDA programmer writes first, and what a mistake in their Python is answered with."""

import math

import numpy as np
import pytest
from blocks import found, launch, names

from acl_py import cta

SIDE = 16
RNG = np.random.default_rng(0)


def saxpy(x, y):
    i = cta.block[0] * cta.threads + cta.tid
    with cta.where(i < len(x)):
        y[i] = 2 * x[i] + y[i]


def test_saxpy():
    x, y = RNG.random((2, 1000), np.float32)
    expected = 2 * x + y
    assert found(launch(saxpy, x, y, grid=(8, 1, 1), threads=128)) == []
    assert (y == expected).all()


def product(a, b, c):
    y, x = divmod(cta.tid, SIDE)
    row, column = cta.block[1] * SIDE + y, cta.block[0] * SIDE + x
    s, t = cta.shared(np.float32, (SIDE, SIDE)), cta.shared(np.float32, (SIDE, SIDE))
    acc = 0.0
    for first in range(0, a.shape[1], SIDE):
        s[y, x] = a[row, first + x]
        t[y, x] = b[first + y, column]
        cta.syncthreads()
        for k in range(SIDE):
            acc += s[y, k] * t[k, x]
        cta.syncthreads()
    c[row, column] = acc


def test_a_product_by_tiles():
    a, b = RNG.random((64, 48), np.float32), RNG.random((48, 32), np.float32)
    c = np.zeros((64, 32), np.float32)
    assert found(launch(product, a, b, c, grid=(2, 4, 1), threads=SIDE * SIDE, out=["c"])) == []
    assert np.allclose(c, a @ b)


def total(x, y):
    i = cta.block[0] * cta.threads + cta.tid
    part = cta.zeros()
    with cta.where(i < len(x)):
        part[:] = x[i]
    for distance in (16, 8, 4, 2, 1):
        part += cta.shfl_down(part, distance)
    sums = cta.shared(np.float32, cta.threads // 32)
    with cta.where(cta.lane == 0):
        sums[cta.warp] = part
    cta.syncthreads()
    with cta.where(cta.tid < 4):
        whole = sums[cta.lane]
        for distance in (2, 1):
            whole += cta.shfl_down(whole, distance)
        with cta.where(cta.lane == 0):
            cta.atomic_add(y.at[0], whole)


def test_a_sum_by_shuffles():
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1, np.float32)
    assert found(launch(total, x, y, grid=(8, 1, 1), threads=128)) == []
    assert y == x.sum()


def histogram(x, counts):
    s, t = cta.shared(np.int32, 256), cta.tid
    s[t] = 0
    cta.syncthreads()
    for first in range(cta.block[0] * 256, len(x), cta.grid[0] * 256):
        with cta.where(first + t < len(x)):
            cta.atomic_add(s.at[x[first + t]], 1)
    cta.syncthreads()
    cta.atomic_add(counts.at[t], s[t])


def test_a_histogram_with_atomics_in_a_loop_over_the_grid():
    x, counts = RNG.integers(0, 256, 5000).astype(np.uint8), np.zeros(256, np.int32)
    assert found(launch(histogram, x, counts, grid=(4, 1, 1), threads=256)) == []
    assert (counts == np.bincount(x, minlength=256)).all()


def transpose(x, y):
    s, column, row = cta.shared(np.float32, (32, 33)), cta.lane, cta.warp
    i, j = cta.block[1] * 32, cta.block[0] * 32
    for step in range(0, 32, 8):
        s[row + step, column] = x[i + row + step, j + column]
    cta.syncthreads()
    for step in range(0, 32, 8):
        y[j + row + step, i + column] = s[column, row + step]


def test_a_transposition_with_padding():
    x = RNG.random((64, 96), np.float32)
    y = np.zeros((96, 64), np.float32)
    result = launch(transpose, x, y, grid=(3, 2, 1), threads=256, out=["y"])
    assert found(result) == []
    assert (y == x.T).all()
    assert {row.phases for row in result.blocks[0].rows if "shared" in row.name} == {(1,) * 8}


def scan(x, y):
    s, t = cta.shared(np.float32, (2, cta.threads)), cta.tid
    now, distance = 0, 1
    s[0, t] = x[t]
    cta.syncthreads()
    while distance < cta.threads:
        value = s[now, t]
        with cta.where(t >= distance):
            value += s[now, t - distance]
        s[1 - now, t] = value
        cta.syncthreads()
        now, distance = 1 - now, 2 * distance
    y[t] = s[now, t]


def test_a_scan():
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    assert found(launch(scan, x, y, threads=256, out=["y"])) == []
    assert (y == x.cumsum()).all()


def stencil(x, y):
    s, t = cta.shared(np.float32, cta.threads + 6), cta.tid
    i = cta.block[0] * cta.threads + t
    s[t] = x[i]
    with cta.where(t < 6):
        s[cta.threads + t] = x[cta.threads + i]
    cta.syncthreads()
    y[i] = sum(s[t + k] for k in range(7))


def test_a_stencil_with_a_halo():
    x, y = np.arange(518, dtype=np.float32), np.zeros(512, np.float32)
    assert found(launch(stencil, x, y, grid=(4, 1, 1), threads=128, out=["y"])) == []
    assert (y == np.convolve(x, np.ones(7), "valid")).all()


def of_block(value, combine):
    for lanes in (16, 8, 4, 2, 1):
        value = combine(value, cta.shfl_xor(value, lanes))
    s = cta.shared(np.float32, 4)
    with cta.where(cta.lane == 0):
        s[cta.warp] = value
    cta.syncthreads()
    return combine(combine(s[0], s[1]), combine(s[2], s[3]))


def softmax(x, y):
    row, columns = cta.block[0], np.arange(0, x.shape[1], cta.threads) + cta.tid[:, None]
    values = x[row, columns]
    shares = np.exp(values - of_block(values.max(axis=1), np.maximum)[:, None])
    y[row, columns] = shares / of_block(shares.sum(axis=1), np.add)[:, None]


def test_a_softmax_of_rows():
    x = RNG.standard_normal((4, 512)).astype(np.float32)
    y = np.zeros_like(x)
    assert found(launch(softmax, x, y, grid=(4, 1, 1), threads=128, out=["y"])) == []
    expected = np.exp(x - x.max(axis=1, keepdims=True))
    assert np.allclose(y, expected / expected.sum(axis=1, keepdims=True))


def test_a_copy_of_16_bytes_a_thread():
    def copy(x, y):
        i = cta.block[0] * cta.threads + cta.tid
        y.reshape(-1, 4)[i] = x.reshape(-1, 4)[i]

    x = RNG.random(4096, np.float32)
    y = np.zeros_like(x)
    result = launch(copy, x, y, grid=(8, 1, 1), threads=128, out=["y"])
    assert [name for name, _ in names(result)[-2:]] == ["ld.global.128", "st.global.128"]
    assert (y == x).all()


# --- mistakes


def test_a_name_that_is_bound_under_where_is_found_where_other_threads_use_it():
    """In Python `value = ...` replaces the register of all threads: the others had zeros, and are to add these."""

    def forgetful(x, y, n):
        t, value = cta.tid, cta.zeros()
        with cta.where(t < n):
            value = x[t] * 2
        y[t] = value + 1

    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    result = launch(forgetful, x, y, 20)
    assert found(result) == [("UNSET_REGISTER", "r[...] = value")]
    (finding,) = result.findings
    first = forgetful.__code__.co_firstlineno
    assert [site.line - first for site in finding.sites] == [3, 4]
    assert "by threads 20 to 31; to set a register for some threads only, assign to it" in str(finding)
    assert found(launch(forgetful, x, y, 32)) == []


@pytest.mark.parametrize("is_shared", [False, True])
def test_threads_that_store_different_values_in_one_place_are_found(is_shared):
    """A sum without an atomic operation: all threads read the same number, and one of them wins."""

    def race(x, y):
        t = cta.tid
        into = cta.shared(np.float32, 1) if is_shared else y
        with cta.where(t == 0):
            into[0] = 0
        cta.syncthreads()
        into[0 * t] += x[t]

    x, y = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    assert found(launch(race, x, y, threads=64))[-1] == ("WAW", "an atomic operation, or a place for each thread")
    assert ("WAW", "an atomic operation, or a place for each thread") not in found(launch(race, 0 * x, y, threads=64))


@pytest.mark.parametrize(
    "use",
    [
        lambda x, t, part: cta.atomic_add(x.at[0], part),
        lambda x, t, part: cta.atomic_add(x.at[0], part[...]),
        lambda x, t, part: x[(part * 0).astype(np.int32)],
        lambda x, t, part: x.at[(part * 0).astype(np.int32)],
        lambda x, t, part: cta.where(part > 0).__enter__(),
        lambda x, t, part: cta.any_sync(part > 0),
        lambda x, t, part: x.__setitem__(t, cta.shfl_xor(part, 16)),
        lambda x, t, part: x.__setitem__(t, cta.select(t < 5, 0, part)),
        lambda x, t, part: x.__setitem__(t, cta.fma(part, 2, 1)),
    ],
)
def test_each_use_of_a_register_that_other_threads_have_set_is_found(use):
    def kernel(x):
        t = cta.tid
        with cta.where(t < 16):
            part = x[t]
        use(x, t, part)

    assert ("UNSET_REGISTER", "r[...] = value") in found(launch(kernel, np.zeros(32, np.float32)))


def test_threads_that_have_set_a_register_may_use_it():
    def kernel(x):
        t = cta.tid
        is_low = t < 16
        with cta.where(is_low):
            part = x[t]
            part = part + 1
            part += cta.shfl_xor(part, 1)
            with cta.where(t < 8):
                x[t] = part
        x[t] = cta.select(is_low, part, 0)
        with cta.where(~is_low):
            part[...] = 3
        x[t] = part
        once = cta.zeros()
        with cta.where(is_low):
            once[:] = x[t]
            once *= 2
        x[t] = once

    assert found(launch(kernel, np.zeros(32, np.float32))) == []


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda x, t: 1 if t < 5 else 2, r"used as a truth value .* for a branch use `with cta.where\(condition\):`"),
        (lambda x, t: range(t, 100), r"used as an integer .* loop over integers that are the same in all"),
        (lambda x, t: min(t, 5), r"used as a truth value .* np.minimum\(\)"),
        (lambda x, t: int(x[t]), r"used as an integer .* use astype\(\)"),
        (lambda x, t: math.sqrt(t), r"used as a float .* use np.sqrt\(\) for math.sqrt\(\)"),
        (lambda x, t: x.reshape(4, 32)[t // 32][t % 32], r"an element of a tensor is s\[i, j\], not s\[i\]\[j\]"),
        (lambda x, t: cta.atomic_add(x[t], 1), r"atomic_add\(\) at \S+ got Register .* write x.at\[t\], not x\[t\]"),
        (lambda x, t: cta.cp_async(x[t], x[t], 4), r"cp_async\(\) at \S+ got Register where it takes places"),
        (lambda x, t: cta.ldmatrix(x[t]), r"ldmatrix\(\) at \S+ got Register where it takes places"),
        (
            lambda x, t: cta.memcpy_async(x.at[t], x),
            r"memcpy_async at \S+ from Tensor to Places; it copies whole tensors",
        ),
        (lambda x, t: np.dot(x[t], x[t]), r"np.dot of registers .* would add the values of different threads"),
        (lambda x, t: np.cumsum(x[t]), "add.accumulate of a register"),
        (lambda x, t: x[t].argmax(), "a reduction over the threads"),
        (lambda x, t: np.sort(x[t]), "a reduction over the threads"),
        (lambda x, t: np.roll(x[t], 1), "reads registers of chosen threads"),
        (lambda x, t: np.modf(t * 1.0), r"modf.__call__ of a register .* is no instruction of a thread"),
        (lambda x, t: x[4 * t : 4 * t + 4], r"a slice of <global x.* begins or ends at a register.*reshape\(-1, 4\)"),
    ],
)
def test_python_that_is_the_same_for_all_threads_is_refused_for_registers(use, message):
    with pytest.raises(cta.KernelError, match=message):
        launch(lambda x: use(x, cta.tid), np.zeros(128, np.float32))


def test_the_elements_of_a_thread_may_be_sorted():
    def kernel(x, y):
        t = cta.tid
        y[t] = np.sort(x[t], axis=1) * x[t].argmax(axis=1)[:, None]

    x, y = RNG.random((2, 32, 4), np.float32)
    launch(kernel, x, y)
    assert np.allclose(y, np.sort(x, axis=1) * x.argmax(axis=1)[:, None])


def test_a_block_of_one_thread_may_branch_in_python():
    def kernel(x):
        if cta.tid < 1:
            x[cta.tid] = 5

    x = np.zeros(1, np.float32)
    launch(kernel, x, threads=1)
    assert x == 5
