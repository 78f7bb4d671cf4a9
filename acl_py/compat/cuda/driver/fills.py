"""Fills with bytes, and with words of which all bytes are equal."""

from typing import Any

import acl_py as native
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver


def _byte_of(driver: Driver, value: int, nbytes: int) -> int:
    """Return the byte that a word of *nbytes* repeats."""
    data = value.to_bytes(nbytes, "little")
    if len(set(data)) > 1:
        raise driver.runtime.error(
            native.Kind.NOT_SUPPORTED, f"a fill with the word {value:#x}", "fill with equal bytes, or with a kernel"
        )
    return data[0]


async def _fill(driver: Driver, dst: int, value: int, unit: int, count: int) -> None:
    nbytes = unit * count
    await native.Memset(dst, nbytes, _byte_of(driver, value, unit), nbytes)


async def queue(driver: Driver, dst: int, value: int, unit: int, count: int, stream: Any) -> None:
    """Queue a fill of *count* words of *unit* bytes."""
    nbytes = unit * count
    await native.MemsetAsync(dst, nbytes, _byte_of(driver, value, unit), nbytes, stream)


@answers("cuMemsetD8_v2")
async def fill_bytes(driver: Driver, dst: int, value: int, count: int) -> None:
    """Fill bytes."""
    await _fill(driver, dst, value, 1, count)


@answers("cuMemsetD16_v2")
async def fill_halves(driver: Driver, dst: int, value: int, count: int) -> None:
    """Fill words of 2 bytes."""
    await _fill(driver, dst, value, 2, count)


@answers("cuMemsetD32_v2")
async def fill_words(driver: Driver, dst: int, value: int, count: int) -> None:
    """Fill words of 4 bytes."""
    await _fill(driver, dst, value, 4, count)


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


@answers("cuMemsetD2D8_v2")
async def fill_rows(driver: Driver, dst: int, pitch: int, value: int, width: int, height: int) -> None:
    """Fill rows of bytes."""
    for start, nbytes in _rows(driver, dst, pitch, width, height):
        await _fill(driver, start, value, 1, nbytes)


@answers("cuMemsetD2D8Async")
async def queue_rows(driver: Driver, dst: int, pitch: int, value: int, width: int, height: int, stream: Any) -> None:
    """Queue a fill of rows of bytes."""
    for start, nbytes in _rows(driver, dst, pitch, width, height):
        await queue(driver, start, value, 1, nbytes, stream)


def _rows(driver: Driver, dst: int, pitch: int, width: int, height: int) -> list[tuple[int, int]]:
    """Return the address and the bytes of each fill: one if nothing lies between the rows, otherwise one for a row."""
    if height > 1 and width > pitch:
        raise RefusedError(INVALID_VALUE, f"rows of {width} bytes are longer than the pitch {pitch}")
    if not width or not height:
        return []
    driver.runtime.memory.at(dst, pitch * (height - 1) + width, "dst")
    if width == pitch:
        return [(dst, width * height)]
    return [(dst + row * pitch, width) for row in range(height)]
