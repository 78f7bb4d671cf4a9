"""Floats of 8 bits: numbers of the tables of the OCP specification, ties, and what is beyond the largest one."""

import numpy as np
import pytest

from device_model.ptx.values.eighths import halves_to_eighths, to_eighths, to_halves

# Value, code; e4m3 has no infinities.
E4M3 = [
    (448.0, 0x7E),
    (2.0**-6, 0x08),
    (2.0**-9, 0x01),
    (0.875 * 2**-6, 0x07),
    (1.125, 0x39),
    (-2.0, 0xC0),
    (-0.0, 0x80),
]
E5M2 = [
    (57344.0, 0x7B),
    (2.0**-14, 0x04),
    (2.0**-16, 0x01),
    (0.75 * 2**-14, 0x03),
    (1.25, 0x3D),
    (-2.0, 0xC0),
    (-0.0, 0x80),
]


@pytest.mark.parametrize(("kind", "pairs"), [("e4m3x2", E4M3), ("e5m2x2", E5M2)])
def test_numbers_have_the_codes_of_the_specification_both_ways(kind, pairs):
    values, codes = (np.array(each) for each in zip(*pairs, strict=True))
    given = values.astype(np.float32)
    assert to_eighths(given, given[::-1], kind).tolist() == (codes * 256 + codes[::-1]).tolist()
    words = to_halves((codes * 256 + codes[::-1]).astype(np.uint16), kind)
    both = words[..., None].view(np.float16)
    assert both[:, 1].view(np.uint16).tolist() == values.astype(np.float16).view(np.uint16).tolist()
    assert halves_to_eighths(words, kind).tolist() == (codes * 256 + codes[::-1]).tolist()


def test_ties_go_to_even_and_what_is_too_large_becomes_the_largest():
    given = np.array([1.0625, 1.1875, 2.0**-10, 3 * 2.0**-10, 460.0, 1e9, np.inf, -np.inf, np.nan], np.float32)
    zero = np.zeros_like(given)
    assert to_eighths(zero, given, "e4m3x2").tolist() == [0x38, 0x3A, 0, 2, 0x7E, 0x7E, 0x7E, 0xFE, 0x7F]
    assert to_eighths(zero, -given, "e5m2x2", relu=True).tolist() == [0, 0, 0, 0, 0, 0, 0, 0x7B, 0x7F]


def test_nan_and_infinity_of_e5m2_stay_so():
    both = to_halves(np.array([0x7CFC, 0x7F80], np.uint16), "e5m2x2")[..., None].view(np.uint16)
    assert both.tolist() == [[0xFC00, 0x7C00], [0x8000, 0x7FFF]]
