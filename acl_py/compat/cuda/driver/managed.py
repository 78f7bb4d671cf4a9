"""Managed memory: advice, prefetches, and what is known of its pages."""

from collections.abc import Iterator
from struct import pack, unpack
from typing import Any

import acl_py as native
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.locations import HOST, NOWHERE, Location, on_device, passed, several
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from device_model.memory import Buffer

_NO_LOCATION = (1, 2, 4)  # CUmem_advise: about copies for readers, and that no place is preferred any more
_PREFER = 3
_MOST_RANGES = 1 << 16  # in one call
_INVALID = -2  # no location, or not the same for all pages


@answers("cuMemAdvise_v2")
async def advise(driver: Driver, address: int, nbytes: int, advice: int, location: int) -> None:
    """Say how memory will be used."""
    where = passed(location)
    await _advise(driver, address, nbytes, advice, where)


@answers("cuMemAdvise")
async def advise_for_device(driver: Driver, address: int, nbytes: int, advice: int, ordinal: int) -> None:
    """Say how memory will be used; -1 is the host."""
    await _advise(driver, address, nbytes, advice, on_device(ordinal))


async def _advise(driver: Driver, address: int, nbytes: int, advice: int, where: Location) -> None:
    number = HOST.device(driver) if advice in _NO_LOCATION else where.device(driver)
    await native.MemAdvise(_range(driver, address, nbytes), nbytes, advice, number)
    if advice == _PREFER:
        driver.notes["preferred", address] = where


def _range(driver: Driver, address: int, nbytes: int) -> Buffer:
    return driver.runtime.memory.at(address, nbytes, "the range")


@answers("cuMemPrefetchAsync_v2")
async def prefetch(driver: Driver, address: int, nbytes: int, location: int, flags: int, stream: Any) -> None:
    """Move pages to a location."""
    _check_flags(flags)
    await native.MemPrefetchAsync(_range(driver, address, nbytes), nbytes, passed(location).device(driver), stream)


@answers("cuMemPrefetchAsync")
async def prefetch_to_device(driver: Driver, address: int, nbytes: int, ordinal: int, stream: Any) -> None:
    """Move pages to a device; -1 is the host."""
    await native.MemPrefetchAsync(_range(driver, address, nbytes), nbytes, on_device(ordinal).device(driver), stream)


def _check_flags(flags: int) -> None:
    if flags:
        raise RefusedError(INVALID_VALUE, f"the flags are {flags}, and there are none")


# --- several ranges


@answers("cuMemPrefetchBatchAsync")
async def prefetch_several(
    driver: Driver, places: int, sizes: int, count: int, locations: int, firsts: int, given: int, flags: int,
    stream: Any,
) -> None:  # fmt: skip
    """Move the pages of several ranges; each location holds from the range that is named with it."""
    _check_flags(flags)
    for buffer, where in _placed(driver, places, sizes, count, locations, firsts, given):
        await native.MemPrefetchAsync(buffer, buffer.nbytes, where, stream)


@answers("cuMemDiscardBatchAsync")
async def discard_several(driver: Driver, places: int, sizes: int, count: int, flags: int, stream: Any) -> None:
    """Give up what several ranges hold; they keep it here, which a program must not rely on."""
    _check_flags(flags)
    for buffer in _ranges(driver, places, sizes, count):
        _check_managed(buffer)
    await native.StreamQuery(stream)


@answers("cuMemDiscardAndPrefetchBatchAsync")
async def discard_and_prefetch(driver: Driver, *arguments: Any) -> None:
    """Give up what several ranges hold, and move their pages."""
    await prefetch_several(driver, *arguments)


def _ranges(driver: Driver, places: int, sizes: int, count: int) -> list[Buffer]:
    if not 0 < count <= _MOST_RANGES:
        raise RefusedError(INVALID_VALUE, f"a call for {count} ranges: give 1 to {_MOST_RANGES}")
    addresses, bytes_ = (unpack(f"<{count}Q", own_memory.read(each, 8 * count)) for each in (places, sizes))
    return [_range(driver, address, nbytes) for address, nbytes in zip(addresses, bytes_, strict=True)]


def _placed(
    driver: Driver, places: int, sizes: int, count: int, locations: int, firsts: int, given: int
) -> Iterator[tuple[Buffer, int]]:
    buffers = _ranges(driver, places, sizes, count)
    if not 0 < given <= count:
        raise RefusedError(INVALID_VALUE, f"{given} locations for {count} ranges")
    begins = list(unpack(f"<{given}Q", own_memory.read(firsts, 8 * given)))
    if begins[0] or begins != sorted(set(begins)) or begins[-1] >= count:
        raise RefusedError(INVALID_VALUE, f"locations from the ranges {begins} on: begin with 0, and increase")
    numbers = [where.device(driver) for where in several(locations, given)]
    for buffer in buffers:
        _check_managed(buffer)
    for begin, end, number in zip(begins, [*begins[1:], count], numbers, strict=True):
        yield from ((buffer, number) for buffer in buffers[begin:end])


def _check_managed(buffer: Buffer) -> None:
    if buffer.allocation.pages is None:
        raise RefusedError(INVALID_VALUE, f"{buffer!r} is not managed")


# --- what is known of pages

_READ_MOSTLY, _PREFERRED, _ACCESSED_BY, _PREFETCHED = range(1, 5)  # CUmem_range_attribute
_KIND_AND_ID = {5: (_PREFERRED, 0), 6: (_PREFERRED, 1), 7: (_PREFETCHED, 0), 8: (_PREFETCHED, 1)}


@answers("cuMemRangeGetAttribute")
async def range_attribute(driver: Driver, place: int, size: int, attribute: int, address: int, nbytes: int) -> None:
    """Write what was advised about memory, or where its pages were moved to last."""
    own_memory.write(place, await _known(driver, size, attribute, address, nbytes))


@answers("cuMemRangeGetAttributes")
async def range_attributes(
    driver: Driver, places: int, sizes: int, attributes: int, count: int, address: int, nbytes: int
) -> None:
    """Write several facts."""
    if not 0 < count <= _MOST_RANGES:
        raise RefusedError(INVALID_VALUE, f"{count} attributes")
    targets, rooms = (unpack(f"<{count}Q", own_memory.read(each, 8 * count)) for each in (places, sizes))
    wanted = unpack(f"<{count}I", own_memory.read(attributes, 4 * count))
    data = [await _known(driver, room, each, address, nbytes) for room, each in zip(rooms, wanted, strict=True)]
    for target, each in zip(targets, data, strict=True):
        own_memory.write(target, each)


async def _known(driver: Driver, room: int, attribute: int, address: int, nbytes: int) -> bytes:
    """Return a fact in *room* bytes."""
    buffer = _range(driver, address, nbytes)
    if not 0 < room <= _MOST_RANGES or room % 4 or (attribute != _ACCESSED_BY and room != 4):
        raise RefusedError(INVALID_VALUE, f"attribute {attribute} does not fit into {room} bytes")
    if attribute in _KIND_AND_ID:
        fact, part = _KIND_AND_ID[attribute]
        number = await native.MemRangeGetAttribute(buffer, nbytes, fact)
        assert isinstance(number, int), f"{fact} is one location"
        where = NOWHERE if number == _INVALID else _as_given(driver, address, fact, on_device(number))
        return pack("<i", where[part])
    value = await native.MemRangeGetAttribute(buffer, nbytes, attribute)
    if isinstance(value, int):
        return pack("<i", value)
    count = room // 4
    return pack(f"<{count}i", *[*value, *[_INVALID] * count][:count])


def _as_given(driver: Driver, address: int, fact: int, where: Location) -> Location:
    """Return the location as the program called it: the host has several names."""
    given: Location = driver.notes.get(("preferred", address), where)
    return given if fact == _PREFERRED and given.device(driver) == where.device(driver) else where


@answers("cuStreamAttachMemAsync")
async def attach(driver: Driver, stream: Any, address: int, nbytes: int, flags: int) -> None:
    """Say who uses managed memory."""
    await native.StreamAttachMemAsync(stream, _range(driver, address, nbytes), nbytes, flags)
