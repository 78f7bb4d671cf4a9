"""Ranges of bytes, beside sets of single bytes."""

import random
from itertools import pairwise

from acl_py.ranges import ByteRanges, union


def each_byte(ranges):
    return {byte for each in ranges for byte in range(*each)}


def test_ranges_of_bytes_have_the_bytes_of_a_set():
    rng = random.Random(1)
    for _ in range(200):
        ranges, expected = ByteRanges([(0, 64)]), set(range(64))
        for change in rng.choices(("add", "remove", "remove"), k=12):
            start, stop = sorted(rng.choices(range(65), k=2))
            asked, some = set(range(start, stop)), [(start, stop)]
            here, others = ranges.split(some)
            assert (each_byte(here), each_byte(others)) == (expected & asked, asked - expected)
            assert all(first < last for first, last in (*here, *others))
            if change == "add":
                ranges.add(some)
                expected |= asked
            else:
                ranges.remove(start, stop)
                expected -= asked
            assert each_byte(ranges) == expected
            assert bool(ranges) is bool(expected)
            assert all(first[1] < second[0] for first, second in pairwise(ranges))


def test_a_union_is_sorted_and_its_ranges_do_not_touch():
    assert union([(8, 12), (0, 2), (5, 5), (2, 4), (10, 20), (30, 31)]) == [(0, 4), (8, 20), (30, 31)]
