"""Many lanes at a time are computed in pieces, with the same results; and operands of all shapes meet."""

import numpy as np
import pytest

from device_model.ptx.values import approximate, bits, conversions, floats, halves, integers, packed, rounding

LANES = 20_000


def test_pieces_are_joined():
    sizes = []

    @rounding.in_pieces(1000)
    def add(a, b, *, more):
        sizes.append(np.broadcast(a, b).size)
        return a + b + more

    a, b = np.arange(3000).reshape(2, 1500), np.arange(1500)
    np.testing.assert_array_equal(add(a, b, more=1), a + b + 1)
    assert sizes == [1000, 1000, 1000]
    np.testing.assert_array_equal(add(a, b[:1], more=1), a + b[:1] + 1)
    np.testing.assert_array_equal(add(np.int64(5), a, more=1), a + 6)
    assert add(b[:1000], np.int64(2), more=0).shape == (1000,)


CASES = {
    "f32 fma": lambda f, g, d, w: floats.fma(f, g, f),
    "f32 fma with a scalar": lambda f, g, d, w: floats.fma(f, np.float32(3), g),
    "f64 fma": lambda f, g, d, w: floats.fma(d, d[::-1], d, rounding="rm"),
    "ex2": lambda f, g, d, w: approximate.ex2(f, ftz=True),
    "f16x2 fma": lambda f, g, d, w: halves.fma(w, w[::-1], w, "f16x2"),
    "f16x2 fma with one addend": lambda f, g, d, w: halves.fma(w, w[::-1], w[:1], "f16x2"),
    "bf16x2": lambda f, g, d, w: conversions.pair(f, g, "bf16x2", rounding="rz"),
    "prmt": lambda f, g, d, w: bits.prmt(w, w[::-1], w),
    "div": lambda f, g, d, w: integers.div(w.view(np.int32), w[::-1].copy().view(np.int32)),
    "mul_hi": lambda f, g, d, w: integers.mul_hi(d.view(np.int64), d.view(np.int64)),
    "dp4a": lambda f, g, d, w: packed.dp4a(w, w, w, a_signed=True, b_signed=False),
    "fns": lambda f, g, d, w: bits.fns(w, w & 31, w.view(np.int32) % 9 - 4),
}


@pytest.mark.parametrize("name", CASES)
def test_same_in_pieces(name):
    random = np.random.default_rng(0)
    f, g = (random.standard_normal(LANES).astype(np.float32) for _ in range(2))
    d, w = random.standard_normal(LANES), random.integers(0, 1 << 32, LANES, np.uint32)
    whole = CASES[name](f, g, d, w)
    assert whole.shape == (LANES,)
    ends = [np.concatenate([x[:1500], x[-1500:]]) for x in (f, g, d, w)]  # some operands are read backwards
    part = CASES[name](*ends)
    np.testing.assert_array_equal(part, np.concatenate([whole[:1500], whole[-1500:]]))


def test_lanes_of_two_dimensions():
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(floats.fma(a, a[:1], a[:, :1]), a * a[:1] + a[:, :1])
    words = a.astype(np.uint32)
    found = packed.by_pair(integers.add, np.uint16, words, words[:1])
    np.testing.assert_array_equal(found, words + words[:1])
    assert halves.add(words, words[:, :1], "f16x2").shape == (4, 6)
    assert bits.prmt(words, words[:1], np.uint32(0x3210)).tolist() == words.tolist()


def test_an_operand_that_is_the_same_in_all_lanes_goes_with_a_last_piece_that_is_shorter():
    a, one = np.arange(20_001, dtype=np.float32).reshape(1, -1), np.ones((1, 1), np.float32)
    assert np.array_equal(floats.fma(a, one, one), a + 1)
