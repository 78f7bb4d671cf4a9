"""Pieces of global memory as lanes see them: a copy of which only what is used is filled, and what was touched."""

from random import Random

import numpy as np
import pytest

from device_model.ptx.lanes.regions import Region

SIZE = 200_000  # bytes: more than a dozen chunks


def ranges(marks):
    """The ranges of bytes that are marked, by looking at one after the other."""
    found, begin = [], None
    for place, mark in enumerate([*marks.tolist(), False]):
        if mark and begin is None:
            begin = place
        if not mark and begin is not None:
            found.append([begin, place])
            begin = None
    return found


def places_in(random, size):
    """Some places of elements: a few, a run of many, or a few everywhere."""
    count = SIZE // size
    first = random.randrange(count - 300)
    kinds = [[first], range(first, first + 200), sorted(random.sample(range(count), 70)), range(first, first + 300, 3)]
    return np.array(random.choice(kinds), np.intp)


@pytest.mark.parametrize("seed", range(12))
def test_a_region_is_a_copy_that_is_shown_when_it_is_asked_for(seed):
    random, numbers = Random(seed), np.random.default_rng(seed)
    below = numbers.integers(0, 256, SIZE, np.uint8)
    seen = below.copy()  # what lanes see
    region = Region(below, 1 << 20)
    was_read, was_written, since = (np.zeros(SIZE, np.bool_) for _ in range(3))
    for _ in range(40):
        dtype = np.dtype(random.choice(["u1", "u2", "u4", "u8"]))
        places = places_in(random, dtype.itemsize)
        touched = (places[:, None] * dtype.itemsize + np.arange(dtype.itemsize)).reshape(-1)
        act = random.choice(["load", "store", "change", "peek", "show"])
        elements = seen[: SIZE // dtype.itemsize * dtype.itemsize].view(dtype)
        if act == "show":
            region.show(below)
            since[:] = False
            assert (below == seen).all()
            continue
        if act in ("load", "change"):
            was_read[touched] |= ~since[touched]
        if act in ("store", "change"):
            values = numbers.integers(0, 256, len(touched), np.uint8).view(dtype)
            held = below.copy()
            if act == "store":
                region.store(places, (values,))
            else:
                region.cells(dtype, places)[places] = values
            elements[places] = values
            was_written[touched] = since[touched] = True
            assert (below == held).all()
        loaded = region.load(dtype, places, 1) if act == "load" else region.peek(dtype, places)
        assert (loaded == elements[places]).all()
    assert region.read().tolist() == ranges(was_read)
    assert region.written().tolist() == ranges(was_written)
