"""Fills with bytes and words, of one row or of several."""

from collections.abc import Iterator
from typing import Any

import acl_py as native
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver


async def _fill(dst: int, value: int, unit: int, count: int) -> None:
    await native.Memset(dst, unit * count, value, unit * count, unit=unit)


async def queue(_: Driver, dst: int, value: int, unit: int, count: int, stream: Any) -> None:
    """Queue a fill of *count* words of *unit* bytes."""
    await native.MemsetAsync(dst, unit * count, value, unit * count, stream, unit=unit)


@answers("cuMemsetD8_v2")
async def fill_bytes(_: Driver, dst: int, value: int, count: int) -> None:
    """Fill bytes."""
    await _fill(dst, value, 1, count)


@answers("cuMemsetD16_v2")
async def fill_halves(_: Driver, dst: int, value: int, count: int) -> None:
    """Fill words of 2 bytes."""
    await _fill(dst, value, 2, count)


@answers("cuMemsetD32_v2")
async def fill_words(_: Driver, dst: int, value: int, count: int) -> None:
    """Fill words of 4 bytes."""
    await _fill(dst, value, 4, count)


@answers("cuMemsetD8Async")
async def queue_bytes(driver: Driver, dst: int, value: int, count: int, stream: Any) -> None:
    """Queue a fill of bytes."""
    await queue(driver, dst, value, 1, count, stream)


@answers("cuMemsetD16Async")
async def queue_halves(driver: Driver, dst: int, value: int, count: int, stream: Any) -> None:
    """Queue a fill of words of 2 bytes."""
    await queue(driver, dst, value, 2, count, stream)


@answers("cuMemsetD32Async")
async def queue_words(driver: Driver, dst: int, value: int, count: int, stream: Any) -> None:
    """Queue a fill of words of 4 bytes."""
    await queue(driver, dst, value, 4, count, stream)


# --- rows


def _rows(driver: Driver, dst: int, pitch: int, unit: int, width: int, height: int) -> Iterator[tuple[int, int]]:
    """Yield where to fill, and how many words: each row by itself, or all rows at once if there are no gaps."""
    nbytes = width * unit
    if height > 1 and pitch < nbytes:
        raise RefusedError(INVALID_VALUE, f"rows of {nbytes} bytes are longer than the pitch {pitch}")
    if pitch == nbytes or height <= 1:
        yield dst, width * height
    elif width:
        driver.runtime.memory.at(dst, pitch * (height - 1) + nbytes, "dst")
        yield from ((dst + row * pitch, width) for row in range(height))


async def _fill_rows(driver: Driver, dst: int, pitch: int, value: int, unit: int, width: int, height: int) -> None:
    for place, count in _rows(driver, dst, pitch, unit, width, height):
        await _fill(place, value, unit, count)


async def _queue_rows(
    driver: Driver, dst: int, pitch: int, value: int, unit: int, width: int, height: int, stream: Any
) -> None:
    for place, count in _rows(driver, dst, pitch, unit, width, height):
        await queue(driver, place, value, unit, count, stream)


@answers("cuMemsetD2D8_v2")
async def fill_rows_of_bytes(driver: Driver, dst: int, pitch: int, value: int, width: int, height: int) -> None:
    """Fill rows of bytes."""
    await _fill_rows(driver, dst, pitch, value, 1, width, height)


@answers("cuMemsetD2D16_v2")
async def fill_rows_of_halves(driver: Driver, dst: int, pitch: int, value: int, width: int, height: int) -> None:
    """Fill rows of words of 2 bytes."""
    await _fill_rows(driver, dst, pitch, value, 2, width, height)


@answers("cuMemsetD2D32_v2")
async def fill_rows_of_words(driver: Driver, dst: int, pitch: int, value: int, width: int, height: int) -> None:
    """Fill rows of words of 4 bytes."""
    await _fill_rows(driver, dst, pitch, value, 4, width, height)


@answers("cuMemsetD2D8Async")
async def queue_rows_of_bytes(
    driver: Driver, dst: int, pitch: int, value: int, width: int, height: int, stream: Any
) -> None:
    """Queue a fill of rows of bytes."""
    await _queue_rows(driver, dst, pitch, value, 1, width, height, stream)


@answers("cuMemsetD2D16Async")
async def queue_rows_of_halves(
    driver: Driver, dst: int, pitch: int, value: int, width: int, height: int, stream: Any
) -> None:
    """Queue a fill of rows of words of 2 bytes."""
    await _queue_rows(driver, dst, pitch, value, 2, width, height, stream)


@answers("cuMemsetD2D32Async")
async def queue_rows_of_words(
    driver: Driver, dst: int, pitch: int, value: int, width: int, height: int, stream: Any
) -> None:
    """Queue a fill of rows of words of 4 bytes."""
    await _queue_rows(driver, dst, pitch, value, 4, width, height, stream)
