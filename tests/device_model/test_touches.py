"""Ranges of bytes that are kept as arrays."""

import numpy as np
import pytest

from device_model.errors import DeviceError
from device_model.memory import Memory
from device_model.touches import Touches, allocations_of


@pytest.fixture
def allocation():
    return Memory([1 << 30], 512, DeviceError).malloc(0, 4096, "here").allocation


def touches(allocation, *ranges):
    return Touches([(allocation, np.array(ranges, np.intp).reshape(-1, 2))])


def test_they_are_a_sequence_of_extents(allocation):
    both = touches(allocation, (0, 4), (8, 12))
    assert list(both) == [(allocation, 0, 4), (allocation, 8, 12)]
    assert (len(both), both[1], both[:1]) == (2, (allocation, 8, 12), [(allocation, 0, 4)])
    assert not touches(allocation)


def test_a_sector_that_two_ranges_touch_counts_once(allocation):
    assert touches(allocation, (0, 4), (8, 12), (40, 100), (100 + 28, 200)).sectors(32) == 1 + 3 + 3
    assert touches(allocation, (0, 4), (8, 12)).nbytes == 8


def test_too_many_ranges_are_covered_by_few_and_the_smallest_gaps_close(allocation):
    ranges = [(0, 4), (5, 8), (100, 104), (110, 120), (500, 501)]
    assert list(touches(allocation, *ranges).at_most(3)) == [
        (allocation, 0, 8), (allocation, 100, 120), (allocation, 500, 501),
    ]  # fmt: skip
    assert list(touches(allocation, *ranges).at_most(5)) == list(touches(allocation, *ranges))
    assert list(touches(allocation, *ranges).at_most(1)) == [(allocation, 0, 501)]


def test_the_allocations_of_ranges_are_each_there_once(allocation):
    assert allocations_of(touches(allocation, (0, 4), (8, 12))) == [allocation]
    assert allocations_of([(allocation, 0, 4), (allocation, 8, 12)]) == [allocation]
    assert allocations_of(touches(allocation)) == []


def test_ranges_beside_others_are_one_where_they_overlap_or_touch(allocation):
    one, two = touches(allocation, (0, 8), (20, 30), (50, 51)), touches(allocation, (4, 6), (8, 12), (29, 40))
    assert list(one.beside(two)) == [(allocation, 0, 12), (allocation, 20, 40), (allocation, 50, 51)]
    assert list(one.beside(touches(allocation))) == list(one)
