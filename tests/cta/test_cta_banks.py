"""Bank conflicts and sectors: phases of an access from the addresses of its lanes."""

import numpy as np
import pytest

from device_model.sm import banks
from device_model.sm.banks import Traffic, load, load_matrices, sectors, store

LANE = np.arange(32)
RNG = np.random.default_rng(32)


def words_by_bank(addresses, width):
    """The phases of one pass, one word at a time."""
    words = {}
    for address in addresses:
        for word in range(address // 4, address // 4 + width // 4):
            words.setdefault(word % 32, set()).add(word)
    return max((len(each) for each in words.values()), default=0)


def by_hand(addresses, width, lanes, active):
    passes = [
        words_by_bank([int(addresses[lane]) for lane in range(begin, begin + lanes) if active[lane]], width)
        for begin in range(0, len(addresses), lanes)
    ]
    return sum(passes), max(passes), max(sum(map(bool, passes)) - 1, 0)


def numbers(traffic):
    return tuple(int(each) for each in traffic)[:3]


@pytest.mark.parametrize("width", [4, 8, 16])
def test_phases_are_the_words_of_the_busiest_bank_of_each_pass(width):
    for limit in (128, 256, 16384):
        addresses = RNG.integers(0, limit // width, (20, 32)) * width
        active = RNG.random((20, 32)) < 0.7
        for traffic, mask in ((load(addresses, width), active | True), (load(addresses, width, active), active)):
            for warp in range(20):
                wanted = by_hand(addresses[warp], width, 128 // width, mask[warp])
                assert numbers(each[warp] for each in traffic) == wanted


def test_phases_of_strides():
    """What a course shows: the stride in words has a factor of two for each doubling of the phases."""
    strides = {1: 1, 2: 2, 3: 1, 4: 4, 8: 8, 16: 16, 32: 32, 33: 1, 0: 1}
    assert {n: int(load(LANE * n * 4, 4).ways) for n in strides} == strides


@pytest.mark.parametrize(("width", "joins"), [(8, 0), (16, 1)])
@pytest.mark.parametrize("distance", [1, 2])
def test_lanes_in_pairs_of_the_same_address_halve_the_passes_of_a_load(width, joins, distance):
    addresses = RNG.integers(0, 1024, 32)[LANE & ~distance] * width
    assert load(addresses, width).joins == joins
    assert numbers(load(addresses, width)) == by_hand(addresses, width, 256 // width, LANE >= 0)
    assert store(addresses, width).phases == by_hand(addresses, width, 128 // width, LANE >= 0)[0]


@pytest.mark.parametrize("width", [8, 16])
def test_no_other_sharing_does(width):
    """A pair that differs, pairs in one half only, each half in its own way, other distances."""
    pairs, low = LANE // 2, LANE < 16
    shared = {
        "all but one lane": np.where(LANE < 31, pairs, 99),
        "one half": np.where(low, pairs, LANE),
        "each half in its own way": np.where(low, pairs, LANE // 4 * 2 + LANE % 2),
        "distance 4": LANE & ~4,
        "distance 16": LANE % 16,
        "mirrored in fours": np.minimum(LANE % 4, 3 - LANE % 4) + LANE // 4 * 2,
    }
    for addresses in shared.values():
        assert numbers(load(addresses * width, width)) == by_hand(addresses * width, width, 128 // width, LANE >= 0)


def test_lanes_that_are_not_active_count_for_nothing():
    addresses = np.where(LANE % 2, LANE * 1000 * 8, LANE // 2 * 8)
    assert numbers(load(addresses, 8, LANE % 2 == 0)) == (1, 1, 0)
    assert numbers(load(LANE * 128, 4, LANE < 3)) == (3, 3, 0)
    assert numbers(load(LANE * 128, 4, LANE < 0)) == (0, 0, 0)


def test_passes_are_those_in_which_a_lane_takes_part():
    assert store(LANE * 128, 16).passes == 4
    assert store(LANE * 128, 16, LANE < 9).passes == 2
    assert load(LANE // 2 * 16, 16).passes == 2
    assert load_matrices(LANE % 8 * 128, 4).passes == 4


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_makes_a_pass_for_each_matrix(count):
    addresses = LANE % 8 * 128
    assert numbers(load_matrices(addresses, count)) == (8 * count, 8, 0)


def test_sectors_are_those_of_global_memory_that_lanes_touch():
    addresses = np.stack([LANE * 4, LANE * 8, LANE * 16, LANE * 32, LANE * 0, LANE * 4 + 4])
    assert sectors(addresses, 4).tolist() == [4, 8, 16, 32, 1, 5]
    assert sectors(LANE * 16, 16) == 16
    assert sectors(LANE * 4, 4, LANE < 9) == 2
    assert sectors(np.array([30]), 4) == 2


class Spec:
    """Round numbers."""

    lds, lds_join, phase = 20, 1, 2


def test_a_load_takes_its_latency_or_the_phases_of_all_warps():
    traffic = Traffic(np.array([1, 4, 4]), np.array([1, 4, 1]), np.array([0, 0, 3]), np.array([1, 1, 4]))
    assert banks.load_cycles(Spec, traffic, 1).tolist() == [22, 28, 31]
    assert banks.load_cycles(Spec, traffic, 8, between=4).tolist() == [26, 32, 35]
    assert banks.load_cycles(Spec, traffic, 16, between=4).tolist() == [26, 64, 64]


def test_a_store_takes_its_phases_two_cycles_apart_if_no_other_warp_has_some():
    traffic = Traffic(np.array([1, 4]), np.array([1, 4]), np.array([0, 0]), np.array([1, 1]))
    assert banks.store_cycles(Spec, traffic, 1, between=5).tolist() == [5, 8]
    assert banks.store_cycles(Spec, traffic, 3, between=5).tolist() == [5, 12]
