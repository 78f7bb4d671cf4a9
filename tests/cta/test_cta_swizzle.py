"""Swizzles: permutations of pieces of 16 bytes that keep rows apart in the banks."""

import numpy as np
import pytest

from device_model.cta.language.swizzle import Swizzle
from device_model.sm.banks import load_matrices

LANE = np.arange(32)


@pytest.mark.parametrize("swizzle", [Swizzle(3, 4, 3), Swizzle(2, 4, 3), Swizzle(1, 4, 3), Swizzle(2, 3, 5)])
def test_a_swizzle_permutes_pieces_and_is_its_own_inverse(swizzle):
    offsets = np.arange(1 << sum(swizzle))
    placed = swizzle.place(offsets)
    assert sorted(placed.tolist()) == offsets.tolist()
    assert np.array_equal(swizzle.place(placed), offsets)
    assert np.array_equal(placed % (1 << swizzle.base), offsets % (1 << swizzle.base))


def test_the_swizzle_of_rows_of_128_bytes_moves_piece_p_of_row_r_to_p_xor_r():
    row, piece = np.divmod(np.arange(16 * 8), 8)
    assert Swizzle.of_rows(128) == Swizzle(3, 4, 3)
    assert np.array_equal(Swizzle(3, 4, 3).place(row * 128 + piece * 16), row * 128 + (piece ^ row % 8) * 16)


@pytest.mark.parametrize(("row_bytes", "ways"), [(32, 2), (64, 4), (128, 8), (256, 8), (512, 8), (1024, 8)])
def test_a_swizzle_takes_ldmatrix_from_many_ways_to_one(row_bytes, ways):
    """Four matrices of 8 x 8, as for A of mma: 16 rows, and the columns 8 to 15 last; at every place in a row."""
    for first in range(0, row_bytes - 16, 32):
        addresses = LANE % 16 * row_bytes + first + LANE // 16 * 16
        assert load_matrices(addresses, 4).ways == ways
        assert load_matrices(Swizzle.of_rows(row_bytes).place(addresses), 4).ways == 1


def test_swizzles_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"Swizzle\(bits=3, base=4, shift=2\) needs .* a shift of at least its bits"):
        Swizzle(3, 4, 2).place(LANE)
    with pytest.raises(ValueError, match="a power of two of bytes, 32 or more, not 96"):
        Swizzle.of_rows(96)
