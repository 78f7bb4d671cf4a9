"""Moving bytes: copies, fills, and views for kernels, of memory that may be cold or dropped.

Callers have checked bounds and that the memory may be used; these functions do not check again. They run at the
simulated end of an operation, when its memory may have been freed. Dropped memory reads as poison, and writes to it
have no effect. Memory of a run without values is neither read nor written, and a view of it is refused.
"""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.memory.allocation import Allocation, Origin, Space
from device_model.memory.backing import NOTHING, POISON, VALUELESS, renew_poison, write_poison

# Below this size, slice assignment is faster than making two arrays. Above it, np.copyto releases the GIL.
LARGE = 64 * 1024

_OTHERS = (Origin.REGISTERED, Origin.PAGEABLE)  # memory of others: poison is written there, never mapped


def copy(dst: Allocation, dst_offset: int, src: Allocation, src_offset: int, nbytes: int) -> None:
    """Copy *nbytes*. Overlapping ranges are copied as if through a buffer."""
    if (dst.cold is not None or src.cold is not None) and not _is_ready(dst, dst_offset, src, src_offset, nbytes):
        return
    if nbytes < LARGE:
        dst.view[dst_offset : dst_offset + nbytes] = src.view[src_offset : src_offset + nbytes]
    else:
        np.copyto(_bytes(dst, dst_offset, nbytes), _bytes(src, src_offset, nbytes))


def _is_ready(dst: Allocation, dst_offset: int, src: Allocation, src_offset: int, nbytes: int) -> bool:
    """Prepare cold memory for a copy. False if there is nothing to copy: memory is dropped or without values, or the
    source is poison.
    """
    if dst.is_dropped or dst.cold is VALUELESS or src.cold is VALUELESS:
        return False
    if src.is_dropped:
        poison(dst, dst_offset, nbytes)
        return False
    in_phase = (dst_offset - src_offset) % len(POISON) == 0
    if in_phase and src.cold is not None and src.cold.is_cold(src_offset, src_offset + nbytes):
        poison(dst, dst_offset, nbytes)  # the same bytes, which take no memory where dst is cold too
        return False
    warm(src, src_offset, nbytes)
    _prepare_write(dst, dst_offset, nbytes)
    return True


def copy2d(
    dst: Allocation,
    dst_offset: int,
    dst_pitch: int,
    src: Allocation,
    src_offset: int,
    src_pitch: int,
    width: int,
    height: int,
) -> None:
    """Copy *height* rows of *width* bytes that start a pitch apart; each side spans `pitched_bytes`."""
    if width == dst_pitch == src_pitch or height == 1:
        copy(dst, dst_offset, src, src_offset, width * height)
        return
    if dst.is_dropped or dst.cold is VALUELESS or not width or not height:
        return
    warm(dst, dst_offset, pitched_bytes(dst_pitch, width, height))
    into = np.ndarray((height, width), np.uint8, dst.view, dst_offset, (dst_pitch, 1))
    if src.is_dropped:
        stand_in = _poison_array(pitched_bytes(src_pitch, width, height))
        np.copyto(into, np.ndarray((height, width), np.uint8, stand_in, 0, (src_pitch, 1)))
        return
    warm(src, src_offset, pitched_bytes(src_pitch, width, height))
    np.copyto(into, np.ndarray((height, width), np.uint8, src.view, src_offset, (src_pitch, 1)))


def pitched_bytes(pitch: int, width: int, height: int) -> int:
    """Return how many bytes a pitched range spans, from its first byte to its last."""
    return pitch * (height - 1) + width if width and height else 0


def fill(dst: Allocation, offset: int, value: int, nbytes: int, unit: int = 1) -> None:
    """Set *nbytes* to the low byte of *value*; with a *unit* to words of so many bytes."""
    if dst.cold is not None:
        if dst.is_dropped or dst.cold is VALUELESS:
            return
        _prepare_write(dst, offset, nbytes)
    if unit > 1:
        _bytes(dst, offset, nbytes).view(f"<u{unit}").fill(value)
    elif nbytes < LARGE:
        dst.view[offset : offset + nbytes] = bytes((value & 0xFF,)) * nbytes
    else:
        _bytes(dst, offset, nbytes).fill(value & 0xFF)


def array(allocation: Allocation, offset: int, dtype: npt.DTypeLike, shape: int | tuple[int, ...]) -> npt.NDArray[Any]:
    """Return a writable array over the bytes from *offset* on; unwritten ones hold poison."""
    if allocation.cold is not None:
        kind = np.dtype(dtype)
        nbytes = kind.itemsize * (shape if isinstance(shape, int) else prod(shape))
        if allocation.is_dropped:
            return np.ndarray(shape, kind, _poison_array(nbytes))
        allocation.check_values("a view")
        allocation.check_host(offset, nbytes, "a view")
        warm(allocation, offset, nbytes)
    return np.ndarray(shape, dtype, allocation.view, offset)


def warm(allocation: Allocation, offset: int, nbytes: int) -> None:
    """Write poison to the chunks of a range that were never written, so that its view can be read and written."""
    allocation.warm(offset, nbytes)


def poison(allocation: Allocation, offset: int, nbytes: int) -> None:
    """Fill a range with poison: an argument that a kernel promised to overwrite, or memory that has ended."""
    if allocation.cold is None and allocation.origin in _OTHERS:
        write_poison(allocation.view, offset, offset + nbytes)
    elif allocation.cold is None:
        renew_poison(allocation.view, offset, offset + nbytes)
    elif not allocation.is_dropped and allocation.cold is not VALUELESS:
        allocation.cold.write_poison(allocation.view, offset, offset + nbytes)


def _prepare_write(allocation: Allocation, offset: int, nbytes: int) -> None:
    cold = allocation.cold
    if cold is not None:
        allocation.check_host(offset, nbytes, "a write")
        cold.prepare_write(allocation.view, offset, offset + nbytes)
        if not cold.cold_chunks:
            allocation.cold = None


def _bytes(allocation: Allocation, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
    return np.ndarray(nbytes, np.uint8, allocation.view, offset)


def _poison_array(nbytes: int) -> npt.NDArray[np.uint8]:
    stand_in = np.empty(nbytes, np.uint8)
    write_poison(stand_in.data, 0, nbytes)
    return stand_in


def snapshot(src: Allocation, offset: int, nbytes: int) -> Allocation:
    """Make a private copy of a part of host memory, as it is now."""
    if src.cold is VALUELESS:
        return Allocation(0, nbytes, Space.PAGEABLE, Origin.PAGEABLE, NOTHING, src.fail, cold=VALUELESS)
    view = memoryview(bytearray(src.view[offset : offset + nbytes]))
    return Allocation(0, nbytes, Space.PAGEABLE, Origin.PAGEABLE, view, src.fail)
