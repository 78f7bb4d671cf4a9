"""Which of the lanes of an access have to be looked at.

Where all threads of a block have one address, the first and the last stand for them. One of the two is another thread
than the one that accessed it before. Where all blocks have the same addresses of shared memory, one block stands for
them. In global memory the first and the last do.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from device_model.ptx.lanes.group import Array, Group, Ints, Lanes


def picked(at: Lanes, address: Array, values: Sequence[Array] = ()) -> tuple[Ints, Ints]:
    """Return lanes, as places in their group, and the address of each, for an access to global memory."""
    rows = max(each.shape[0] for each in (address, *values))
    columns = max(each.shape[1] for each in (address, *values))
    if at.index is not None:
        if columns == 1:
            return at.index[_ends(at.count)], np.repeat(address.view(np.int64).reshape(-1), len(_ends(at.count)))
        return at.index, np.broadcast_to(address.view(np.int64), at.shape).reshape(-1)
    group = at.group
    return _crossed(address, _lanes(group.blocks, group.threads, rows > 1, columns > 1))


def picked_of_block(at: Lanes, address: Array, values: Sequence[Array] = ()) -> tuple[Ints, Ints, bool]:
    """Return lanes, the address of each, and whether they are of the first block only and stand for all blocks."""
    columns = max(each.shape[1] for each in (address, *values))
    group = at.group
    if at.index is None:
        is_same = address.shape[0] == 1
        return *_crossed(address, _lanes(1 if is_same else group.blocks, group.threads, True, columns > 1)), is_same
    lanes, places = at.index, np.broadcast_to(address.view(np.int64), at.shape).reshape(-1)
    if columns == 1:
        new = np.flatnonzero(np.diff(at.block[0]))
        ends = np.unique(np.concatenate([[0], new, new + 1, [at.count - 1]]))
        lanes, places = lanes[ends], places[ends]
    rows = same_in_all_blocks(group, lanes, places)
    return (lanes, places, False) if rows is None else (*rows, True)


def same_in_all_blocks(group: Group, lanes: Ints, values: Ints) -> tuple[Ints, Ints] | None:
    """Return the threads and the values of one block, if all blocks have the same."""
    if len(lanes) % group.blocks:
        return None
    threads = lanes.reshape(group.blocks, -1) - np.arange(group.blocks)[:, None] * group.threads
    rows = values.reshape(group.blocks, -1)
    if (threads == threads[0]).all() and (rows == rows[0]).all():
        return threads[0], rows[0]
    return None


def in_all_blocks(group: Group, threads: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Return *threads* of each block as lanes, and the values for them."""
    lanes = np.arange(group.blocks)[:, None] * group.threads + threads
    return lanes.reshape(-1), np.tile(values, group.blocks)


def table(at: Lanes, value: Array) -> Array:
    """Return *value* with a row for each block and a column for each thread, as bits."""
    bits = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
    if at.index is None:
        return np.broadcast_to(bits, at.shape)
    whole = np.zeros(at.group.width, bits.dtype)
    whole[at.index] = bits.reshape(-1)
    return whole.reshape(at.group.blocks, at.group.threads)


@lru_cache(32)
def _lanes(blocks: int, threads: int, all_blocks: bool, all_threads: bool) -> Ints:
    """Return lanes, with a row for each block: of all blocks or the first and the last one, and so of their threads."""
    rows = np.arange(blocks) if all_blocks else _ends(blocks)
    lanes = rows[:, None] * threads + (np.arange(threads) if all_threads else _ends(threads))
    lanes.flags.writeable = False
    return lanes


def _crossed(address: Array, lanes: Ints) -> tuple[Ints, Ints]:
    places = address.view(np.int64)
    if places.shape != lanes.shape:
        places = np.broadcast_to(places, lanes.shape)
    return lanes.reshape(-1), places.reshape(-1)


def _ends(count: int) -> Ints:
    return np.array([0, count - 1] if count > 1 else [0], np.intp)
