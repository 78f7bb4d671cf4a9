"""Copies that do not wait: their bytes move at once, because nobody may look at them before a wait.

A copy of few bytes is a load and a store of each lane. One of many bytes (`cp.async.bulk`) is done lane after lane.
"""

import numpy as np

from device_model.ptx.lanes.group import Array, Lanes
from device_model.ptx.lanes.mbarriers import complete_tx
from device_model.ptx.lanes.memory import AccessError, load, store

_WORD = np.dtype(np.uint32)
_UNIT = 16  # bytes, of which bulk copies are multiples


def copy(
    at: Lanes, source_space: str, target_space: str, target: Array, source: Array, size: int, given: Array | None = None
) -> None:
    """Copy *size* bytes of each lane: 4, 8 or 16; of the source only *given* ones are read, and zeros follow them."""
    if given is None or (given == size).all():
        count = size // _WORD.itemsize
        words = load(at, source_space, source, _WORD, count)
        store(at, target_space, target, *(words if count > 1 else (words,)))
        return
    for number in np.unique(given).tolist():
        index = at.some(given == number)
        lanes = Lanes(at.group, index)
        is_own = np.broadcast_to(given == number, at.shape).reshape(-1)
        here, there = (np.broadcast_to(each, at.shape).reshape(-1)[is_own][None, :] for each in (target, source))
        if number > size:
            raise AccessError(f"cp.async reads {number} bytes for a copy of {size}", index)
        store(lanes, target_space, here, *_padded(lanes, source_space, there, size, number))


def _padded(at: Lanes, source_space: str, source: Array, size: int, given: int) -> list[Array]:
    """Return the words of copies of which the source has *given* bytes only."""
    found = np.zeros((at.count, size), np.uint8)
    for place in range(given):
        found[:, place] = load(at, source_space, source + np.uint64(place), np.dtype(np.uint8)).reshape(-1)
    return [np.ascontiguousarray(word)[None, :] for word in found.view(np.uint32).T]


def copy_bulk(
    at: Lanes,
    source_space: str,
    target_space: str,
    target: Array,
    source: Array,
    size: Array,
    barrier: Array | None = None,
) -> None:
    """Copy *size* bytes for each lane, multiples of 16; then tell the mbarrier at *barrier* in shared memory.

    Raises:
        AccessError: A size is no multiple of 16.
    """
    flat = [np.broadcast_to(each, at.shape).reshape(-1) for each in (target, source, size)]
    for number, lane in enumerate(at.flat.reshape(-1)):
        one = Lanes(at.group, np.array([lane]))
        to, start, nbytes = (int(each[number]) for each in flat)
        if nbytes % _UNIT:
            raise AccessError(f"a bulk copy of {nbytes} bytes, which is no multiple of {_UNIT}", one.flat.reshape(-1))
        for offset in range(0, nbytes, _UNIT):
            words = load(one, source_space, np.array([[start + offset]], np.uint64), _WORD, 4)
            store(one, target_space, np.array([[to + offset]], np.uint64), *words)
    if barrier is not None:
        complete_tx(at, "shared", barrier, size)
