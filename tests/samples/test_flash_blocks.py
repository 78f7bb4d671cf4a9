"""FlashAttention for blocks of threads: right for random shapes, and no wait, commit or barrier of it is needless."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import forward
import numpy as np
import pytest
from aicore import Shape, random_inputs, reference
from config import DTYPES, STEPS, StaticForwardKernelConfig, progression
from progression import attend

import acl_py as acl
from acl_py import cta
from device_model import profile
from device_model.cta.language.memories import GlobalMemory
from device_model.cta.language.tensors import Tensor
from device_model.cta.runner import run
from device_model.sm.instructions import Op

VERBS = ("commit_group", "wait_group", "syncthreads", "syncwarp")
H200 = profile.load("h200")


def attended(shape, config, seed=0):
    """Run the kernel without a device; return the result of the launch, and the error as a part of its bound."""
    q, k, v = random_inputs(shape, config.dtype, seed)
    out = np.zeros_like(q)
    tensors = [
        Tensor(
            GlobalMemory(array.reshape(-1).view(np.uint8), name, name),
            name,
            0,
            config.dtype,
            forward.shape_of(config, *array.shape[:2]),
        )
        for array, name in ((q, "q"), (k, "k"), (v, "v"), (out, "out"))
    ]
    result = run(
        partial(forward.forward, config, shape),
        (*forward.grid_of(config, shape.heads, shape.queries), 1),
        tensors,
        threads=config.threads,
        capacity=config.shared_bytes,
        is_dynamic=True,
    )
    expected, bound = reference(q, k, v, shape)
    return result, np.max(np.abs(out.astype(np.float64) - expected) / bound)


def random_case(seed):
    """Return a random shape and a random valid kernel."""
    rng = np.random.default_rng(seed)
    keys, d = int(rng.integers(1, 200)), (64, 128)[seed // 2 % 2]
    causal = bool(seed % 2)
    shape = Shape(int(rng.integers(1, 3)), int(rng.integers(1, keys + 1 if causal else 200)), keys, d, causal)
    parts = [int(rng.choice([0, 2])) for _ in range(3)]
    config = StaticForwardKernelConfig(
        d_head=d,
        b_r=int(rng.choice([64, 128])),
        b_c=int(rng.choice([32, 64])),
        dtype=DTYPES[seed // 4 % 2],
        async_copy=(is_async := bool(rng.integers(4))),
        eager_load_blocks=is_async and bool(rng.integers(2)),
        swizzled=bool(rng.integers(2)),
        q_load_k_tiles=parts[0],
        k_load_k_tiles=parts[1],
        v_load_k_tiles=parts[2],
        mma_double_buffer_loads=any(parts) and bool(rng.integers(2)),
        optimized_softmax=bool(rng.integers(2)),
    )
    return shape, config


def check(seed):
    shape, config = random_case(seed)
    result, error = attended(shape, config, seed)
    assert [str(finding) for finding in result.findings] == []
    assert error <= 1, (shape, config)


@pytest.mark.parametrize("seed", range(6))
def test_random_shapes_come_out_as_in_float64_within_the_bound_and_without_a_finding(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 46))
def test_more_random_shapes_come_out_as_in_float64(seed):
    check(seed)


class LeavingOut:
    """`acl_py.cta` without one call: the one that comes as number *left_out* of calls of *verb*, if there is one."""

    def __init__(self, verb=None, left_out=-1):
        self.verb, self.left_out = verb, left_out
        self.calls = dict.fromkeys(VERBS, 0)

    def __getattr__(self, name):
        if name not in VERBS:
            return getattr(cta, name)
        number = self.calls[name]
        self.calls[name] += 1
        return (lambda *_: None) if (name, number) == (self.verb, self.left_out) else getattr(cta, name)


@pytest.mark.parametrize("is_eager", [False, True])
def test_each_wait_commit_and_barrier_that_is_left_out_is_found(is_eager, monkeypatch):
    """One block takes three steps; each call of each step is left out once."""
    shape = Shape(1, 64, 192, 64)
    config = StaticForwardKernelConfig(d_head=64, swizzled=True, eager_load_blocks=is_eager)
    whole = LeavingOut()
    monkeypatch.setattr(forward, "cta", whole)
    assert not list(attended(shape, config)[0].findings)
    assert whole.calls == {"commit_group": 6, "wait_group": 6, "syncthreads": 6, "syncwarp": 1}
    silent = []
    for verb, calls in whole.calls.items():
        for number in range(calls):
            monkeypatch.setattr(forward, "cta", LeavingOut(verb, number))
            if not list(attended(shape, config)[0].findings):
                silent.append((verb, number))
    assert silent == []


def test_swizzled_rows_have_no_bank_conflicts_and_plain_ones_eight_ways():
    def phases(swizzled):
        result, _ = attended(Shape(1, 64, 64, 128), StaticForwardKernelConfig(swizzled=swizzled))
        return {row.phases for row in result.blocks[0].rows if row.op is Op.LDMATRIX}

    assert phases(swizzled=True) == {(4, 4, 4, 4)}
    assert phases(swizzled=False) == {(32, 32, 32, 32)}


def test_swizzling_the_base_kernel_is_worth_a_factor_of_three_where_an_sm_is_full():
    one = replace(H200, cores=replace(H200.cores, count=1))
    shape = Shape(4, 64, 256, 128)
    times = []
    for _, config in progression()[:3]:
        launch, error = acl.run(lambda config=config: attend(shape, config), device=one)
        assert error <= 1
        times.append(launch.end_ns - launch.start_ns)
    base, swizzled, eager = times
    assert base > 3 * swizzled
    assert swizzled > eager


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"d_head": 96}, "d_head is 64 or 128, not 96"),
        ({"b_r": 32}, "b_r is a multiple of 16 queries for each warp: of 64, and 32 is not"),
        ({"b_c": 24}, "b_c is a multiple of 16, and 24 is not"),
        ({"d_head": 64, "b_c": 48, "n_warps": 8, "b_r": 128}, "b_c is a multiple of the 32 rows"),
        ({"n_warps": 0}, "a block has 1 to 32 warps, not 0"),
        ({"dtype": np.dtype(np.float32)}, "dtype is float16 or bfloat16, not float32"),
        ({"async_copy": False, "eager_load_blocks": True}, "eager_load_blocks needs async_copy"),
        ({"mma_double_buffer_loads": True}, "mma_double_buffer_loads needs parts"),
        ({"k_load_k_tiles": 3}, "k_load_k_tiles = 3 does not divide the 8 parts of 128"),
    ],
)
def test_a_kernel_that_cannot_be_compiled_says_which_rule_it_violates(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        StaticForwardKernelConfig(**change)


def test_the_progression_adds_one_change_at_a_time():
    steps = progression()
    assert [name for name, _ in steps] == [name for name, _ in STEPS]
    fields = [vars(config) for _, config in steps]
    assert [sum(a[name] != b[name] for name in a) for a, b in pairwise(fields)] == [1, 1, 2, 1, 1]
