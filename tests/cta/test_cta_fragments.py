"""Fragments: which lane holds what, ldmatrix, and tiles in place of single instructions."""

import ml_dtypes
import numpy as np
import pytest

from device_model.sm.fragments import A, B, C, ldmatrix, mma_m16n8k16, tile_mma

RNG = np.random.default_rng(16)


def places(lane):
    """The PTX manual's formulas for mma.m16n8k16: (row, column) of a0 to a7, of b0 to b3, of c0 to c3."""
    group, thread = lane >> 2, lane % 4
    a = [(group if i < 2 or 4 <= i < 6 else group + 8, thread * 2 + (i & 1) + (8 if i >= 4 else 0)) for i in range(8)]
    b = [(thread * 2 + (i & 1) + (8 if i >= 2 else 0), group) for i in range(4)]
    c = [(group if i < 2 else group + 8, thread * 2 + (i & 1)) for i in range(4)]
    return a, b, c


def test_every_lane_holds_the_elements_of_the_manual():
    for number, layout in enumerate((A, B, C)):
        rows, columns = layout.shape
        held = layout.split(np.arange(rows * columns).reshape(rows, columns))
        for lane in range(32):
            assert [divmod(element, columns) for element in held[lane].tolist()] == places(lane)[number]


@pytest.mark.parametrize("layout", [A, B, C])
def test_a_matrix_comes_back_from_its_fragments(layout):
    matrices = RNG.standard_normal((3, *layout.shape)).astype(np.float32)
    assert np.array_equal(layout.join(layout.split(matrices)), matrices)


def test_two_elements_share_a_register_with_the_first_in_its_lower_half():
    matrix = np.arange(256, dtype=np.uint16).reshape(16, 16)
    assert A.split(matrix).view(np.uint32)[1].tolist() == [2 | 3 << 16, 130 | 131 << 16, 10 | 11 << 16, 138 | 139 << 16]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_ldmatrix_gives_each_lane_two_elements_of_each_matrix(count, is_transposed):
    memory = RNG.integers(0, 256, 8192, np.uint8)
    addresses = RNG.integers(0, 8192 // 16, (2, 32)) * 16
    loaded = ldmatrix(memory, addresses, count, transposed=is_transposed)
    for warp in range(2):
        for lane in range(32):
            wanted = []
            for number in range(count):
                for half in (0, 1):
                    row, column = lane // 4, lane % 4 * 2 + half
                    if is_transposed:
                        row, column = column, row
                    at = int(addresses[warp, number * 8 + row]) + column * 2
                    wanted.append(int(memory[at]) | int(memory[at + 1]) << 8)
            assert loaded[warp, lane].tolist() == wanted


def test_ldmatrix_loads_the_fragments_of_mma():
    """The usual way: A as four matrices, its columns 8 to 15 last; B transposed, from rows of k."""
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in [(16, 16), (16, 8)])
    lane = np.arange(32)
    rows_of_a = lane % 16 * 32 + lane // 16 * 16
    rows_of_b = lane % 16 * 16
    loaded = ldmatrix(a.reshape(-1).view(np.uint8), rows_of_a, 4)
    assert np.array_equal(loaded.view(np.float16), A.split(a))
    loaded = ldmatrix(b.reshape(-1).view(np.uint8), rows_of_b, 2, transposed=True)
    assert np.array_equal(loaded.view(np.float16), B.split(b))


def test_ldmatrix_names_the_first_lane_with_a_wrong_address():
    memory, addresses = np.zeros(1024, np.uint8), np.arange(32) * 16
    addresses[20] = 8
    with pytest.raises(ValueError, match="lane 20 gives address 8; a row of a matrix has 16 bytes, begins at a multip"):
        ldmatrix(memory, addresses, 4)
    assert ldmatrix(memory, addresses, 2).shape == (32, 4)  # lanes 16 and up are not looked at
    addresses[3] = 1024
    with pytest.raises(ValueError, match=r"lane 3 gives address 1024; .* within the 1024 bytes"):
        ldmatrix(memory, addresses, 1)
    with pytest.raises(ValueError, match="1, 2 or 4 matrices, not 3"):
        ldmatrix(memory, addresses, 3)


def tiles(k, dtype, seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in [(32, k), (k, 24)])
    return a, b, rng.standard_normal((32, 24)).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_an_exact_tile_is_what_its_instructions_give(dtype):
    a, b, c = tiles(48, dtype, 1)
    value, instructions = tile_mma(a, b, c, exact=True)
    wanted, issued = np.empty_like(c), 0
    for i in range(0, 32, 16):
        for j in range(0, 24, 8):
            total = C.split(c[i : i + 16, j : j + 8])
            for k in range(0, 48, 16):
                total = mma_m16n8k16(A.split(a[i : i + 16, k : k + 16]), B.split(b[k : k + 16, j : j + 8]), total)
                issued += 1
            wanted[i : i + 16, j : j + 8] = C.join(total)
    assert np.array_equal(value.view(np.uint32), wanted.view(np.uint32))
    assert instructions == issued == 18


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("k", [16, 64, 128, 512])
def test_a_tile_in_one_product_is_near_the_exact_one(dtype, k):
    """Within 8 * 2**-24 of the sum of the absolute products, for operands of both signs."""
    for seed in range(5):
        a, b, c = tiles(k, dtype, seed)
        exact, near = (tile_mma(a, b, c, exact=is_exact).value.astype(float) for is_exact in (True, False))
        size = abs(a.astype(float)) @ abs(b.astype(float)) + abs(c)
        assert (abs(exact - near) <= 8 * 2.0**-24 * size).all()


@pytest.mark.parametrize("k", [16, 128, 512])
def test_sums_of_one_sign_lose_more_the_longer_they_are(k):
    """Each mma truncates, so the exact sum of positive products is below the other: by this bound for each mma."""
    rng = np.random.default_rng(k)
    a, b = (rng.random(shape).astype(np.float16) for shape in [(32, k), (k, 24)])
    exact, near = (tile_mma(a, b, np.zeros((32, 24), np.float32), exact=e).value.astype(float) for e in (True, False))
    size = a.astype(float) @ b.astype(float)
    assert (abs(exact - near) <= 8 * 2.0**-24 * (k / 16) * size).all()
    assert exact.sum() < near.sum()


@pytest.mark.parametrize("exact", [False, True])
def test_many_tiles_are_done_at_once(exact):
    several = [tiles(32, np.float16, seed) for seed in range(3)]
    value, instructions = tile_mma(*map(np.stack, zip(*several, strict=True)), exact=exact)
    for tile, result in zip(several, value, strict=True):
        alone = tile_mma(*tile, exact=exact)
        assert np.array_equal(result, alone.value)
        assert instructions == alone.instructions


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_number_of_16_bits_is_converted_right(dtype):
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    a = np.zeros((1 << 16, 16), dtype)
    a[:, 0] = numbers
    b = np.zeros((16, 8), dtype)
    b[0, 0] = 1
    b[1:, 0] = -0.0
    value = tile_mma(a, b, np.zeros((1 << 16, 8), np.float32)).value[:, 0]
    assert np.array_equal(value, numbers.astype(np.float32), equal_nan=True)


def test_tiles_of_other_types_are_refused():
    half = np.zeros((16, 16), np.float16)
    with pytest.raises(TypeError, match="these are float32, float16 and float32"):
        tile_mma(half.astype(np.float32), half, half.astype(np.float32))


def test_tiles_that_are_no_multiples_are_refused():
    with pytest.raises(ValueError, match=r"multiples of 16, 8 and 16; these shapes are \(16, 24\), \(24, 8\) and"):
        tile_mma(np.zeros((16, 24), np.float16), np.zeros((24, 8), np.float16), np.zeros((16, 8), np.float32))
