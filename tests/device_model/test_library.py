"""Kernels of a library, on the H200: tiles and waves, split sums, traffic by footprint, rows at work."""

from dataclasses import replace

import pytest

from device_model.library import calls
from device_model.library.products import Shape, choose
from device_model.profile import load, names

SPEC = load("h200").library
SMS = 132


def product(m, n, k, dtype="bfloat16", batch=1, cores=SMS, **common):
    return choose(replace(SPEC.products, **common), SPEC.traffic, Shape(m, n, k, batch), dtype, cores, SMS)


def ns(call, cores=SMS):
    return call.plan(SPEC, cores, SMS).ns


# --- products of matrices


def test_small_products_get_small_tiles_and_large_ones_large_tiles():
    small, middle, large = (product(side, side, 4096).tile for side in (256, 1024, 8192))
    areas = [a * b for a, b in (small, middle, large)]
    assert areas == sorted(areas)
    assert areas[0] < areas[2]


def test_a_row_more_than_a_whole_wave_of_tiles_costs_a_part_of_another():
    wave = product(3072, 1408, 8192)
    assert (wave.tile, wave.blocks) == ((256, 128), SMS)
    assert product(3073, 1408, 8192).ns > 1.1 * wave.ns
    assert product(3071, 1408, 8192).ns == pytest.approx(wave.ns)


def test_a_long_sum_of_few_tiles_is_split_and_costs_a_kernel_more():
    split = product(64, 64, 16384, "float32")
    assert split.split > 1
    assert split.blocks <= SMS * 6
    assert product(8192, 8192, 16384, "float32").split == 1
    dear = product(64, 64, 16384, "float32", split=10**9)
    assert dear.split == 1
    assert dear.ns > split.ns


def test_tensor_cores_are_faster_and_narrow_types_faster_still():
    times = [product(4096, 4096, 4096, dtype).ns for dtype in ("float32", "tf32", "float16")]
    assert times == sorted(times, reverse=True)
    assert times[0] > 5 * times[1] > 8 * times[2]
    assert product(4096, 4096, 4096, "bfloat16").ns == times[2]


def test_a_product_with_a_vector_takes_as_long_as_its_matrix_from_memory():
    assert product(1, 16384, 8192, "float32").tile == (1, 32)
    assert product(1, 16384, 8192, "float32").ns == pytest.approx(4 * 16384 * 8192 / 4.6e12 * 1e9 / 0.88, rel=0.02)


def test_fewer_cores_take_longer():
    times = [product(4096, 4096, 4096, cores=cores).ns for cores in (132, 66, 33)]
    assert times[1] / times[0] == pytest.approx(2, rel=0.1)
    assert times[2] / times[0] == pytest.approx(4, rel=0.1)


# --- passes through memory


def test_traffic_is_at_the_rate_of_the_l2_up_to_its_size_and_of_the_memory_beyond():
    traffic = SPEC.traffic
    kept, lost = traffic.kept_bytes, traffic.lost_bytes
    assert traffic.ns(kept, 0, kept) == pytest.approx(1e9 * kept / traffic.l2_read)
    assert traffic.ns(lost, 0, lost) == pytest.approx(1e9 * lost / traffic.memory_read)
    between = (kept + lost) // 2
    middle = traffic.ns(between, 0, between)
    assert middle == pytest.approx(1e9 * between * (1 / traffic.l2_read + 1 / traffic.memory_read) / 2)


def test_a_sum_of_many_elements_takes_many_blocks_and_a_counter():
    few, many = SPEC.reduction.one_block_elements, SPEC.reduction.one_block_elements + 1
    assert calls.reduction(few, "float32").plan(SPEC, SMS, SMS).cores == 1
    assert calls.reduction(many, "float32").plan(SPEC, SMS, SMS).cores == SMS


def test_rows_that_their_block_cannot_hold_are_read_again():
    held = SPEC.softmax_long.held_bytes // 4
    short, long = (ns(calls.rowwise("softmax", 1024, columns, "float32")) for columns in (held, held + 1))
    assert long - short > 0.9e9 * 2 * 1024 * held * 4 / SPEC.traffic.l2_read


def test_a_gather_of_short_rows_takes_a_block_for_each():
    narrow, wide = (ns(calls.rowwise("gather", 65536, columns, "float32")) for columns in (32, 128))
    assert narrow == pytest.approx(wide, rel=0.05)


def test_a_copy_into_another_order_takes_as_long_for_each_element_whatever_its_bytes():
    small, large, copied = (
        ns(call)
        for call in (
            calls.permute(1 << 20, "float16"),
            calls.permute(1 << 20, "float32"),
            calls.elementwise(4 << 20, 4 << 20),
        )
    )
    assert small == pytest.approx(large, rel=0.1)
    assert large > 2 * copied


def test_few_rows_leave_cores_to_others():
    assert calls.rowwise("softmax", 100, 64, "float32").plan(SPEC, SMS, SMS).cores == 25
    assert calls.elementwise(4096, 4096).plan(SPEC, SMS, SMS).cores == 1


# --- all cards


@pytest.mark.parametrize("name", names())
def test_every_card_that_ships_has_a_library(name):
    card = load(name)
    count = card.cores.count
    for dtype in card.library.products.types:
        large, small = (calls.matmul(n, n, n, dtype, 1).plan(card.library, count, count) for n in (4096, 64))
        peak = getattr(card.library.products, dtype).flops
        assert 2e9 * 4096**3 / peak <= large.ns
        assert small.cores <= count
        assert small.ns < large.ns
