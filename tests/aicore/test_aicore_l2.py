"""The L2 looks up little, and answers as one that looks up every sector of every row, each time."""

from collections import OrderedDict
from random import Random

import pytest

from device_model.aicore.core.program import Direction, Flow
from device_model.aicore.timing import l2

SECTOR, SECTORS = 128, 16  # bytes, and how many a chunk has


class Plain:
    """A cache of *nbytes*, sector by sector: a chunk has those that are held, and those of them that are dirty."""

    def __init__(self, nbytes):
        self.room = nbytes // SECTOR
        self.chunks = OrderedDict()

    def touch(self, flow):
        """Return the bytes that *flow* misses, and those that are written back."""
        missing = 0
        for start in [flow.start + row * flow.stride for row in range(flow.rows)]:
            for sector in range(start // SECTOR, (start + flow.length - 1) // SECTOR + 1):
                key = flow.key, sector // SECTORS
                held, dirty = self.chunks.get(key, (frozenset(), frozenset()))
                missing += sector not in held
                if not flow.bypass:
                    written = {sector} if flow.direction is Direction.WRITE else set()
                    self.chunks[key] = held | {sector}, dirty | written
                    self.chunks.move_to_end(key)
        evicted = 0
        while sum(len(held) for held, _ in self.chunks.values()) > self.room:
            evicted += len(self.chunks.popitem(last=False)[1][1])
        return missing * SECTOR, evicted * SECTOR


def flow(random):
    """A copy of one of two allocations: rows of any length, at any stride, that may overlap."""
    length = random.choice((32, 128, 500, 2048, 5000, 20000))
    rows = 1 if length > 5000 else random.choice((1, 2, 7, 20))
    stride = random.choice((0, length, length + 512, 2048, 6144))
    start = random.choice((random.randrange(0, 60000, 32), random.randrange(0, 30) * 2048))
    direction, bypass = random.choice(list(Direction)), random.random() < 0.1
    return Flow(direction, "ub", random.choice("xy"), start, length, rows, stride, bypass=bypass)


@pytest.mark.parametrize("seed", range(12))
def test_remembered_tiles_answer_as_looked_up_ones(seed, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(l2, "_TILES", random.choice((5, 4096)))  # also where memory is full
    nbytes = random.choice((4096, 65536, 262144))
    cache, plain = l2.Cache(nbytes), Plain(nbytes)
    tiles = [flow(random) for _ in range(25)]
    for _ in range(200):
        tile = random.choice(tiles[: random.randrange(1, len(tiles) + 1)])  # the first ones again and again
        assert cache.touch(tile) == plain.touch(tile), tile


def test_short_rows_push_a_remembered_tile_out():
    cache, tile = l2.Cache(65536), Flow(Direction.READ, "l1", "x", 0, 512, 16, 2048)
    rows = [Flow(Direction.READ, "ub", "y", start, 2048) for start in range(0, 65536, 2048)]
    assert [cache.touch(each)[0] for each in (tile, tile, *rows, tile)] == [8192, 0, *[2048] * 32, 8192]
