"""Loads and stores of lanes, in each state space.

An address is an array of 64 bits without a sign, in the shape of a value. What is loaded has that shape too: lanes that
have one address load once.

The windows of generic addresses: shared, local and parameter memory begin at the places below; every other address is
one of global memory, which also holds constants.
"""

from typing import Any, NamedTuple, NoReturn

import numpy as np

from device_model.ptx.lanes.group import Array, Ints, Lanes
from device_model.ptx.lanes.regions import Region

WINDOW = 1 << 56  # bytes of each window
SHARED, LOCAL, PARAM = 0x7E << 56, 0x7D << 56, 0x7C << 56
DType = np.dtype[Any]
_NAMES = {0: "global", SHARED: "shared", LOCAL: "local", PARAM: "param"}


class AccessError(Exception):
    """An access that a card refuses: *what* is wrong with it, and the places of the lanes that made it."""

    def __init__(self, what: str, lanes: Ints) -> None:
        super().__init__(what)
        self.what = what
        self.lanes = lanes


def load_global(at: Lanes, address: Array, dtype: DType, count: int = 1) -> Any:
    """Return what lanes load from global memory: one array, or a tuple of *count* for a vector."""
    region = _region(at, address, dtype.itemsize * count)
    if region is None:
        return _by_region(at, address, dtype, count)
    for watch in at.group.launch.watches:
        watch.load(at, "global", address, dtype.itemsize * count)
    return region.load(dtype, _places(at, address, region.start, dtype.itemsize * count), count)


def store_global(at: Lanes, address: Array, *values: Array) -> None:
    """Store *values*, the parts of a vector, in global memory. Of lanes with one address the last one counts."""
    dtype, count = values[0].dtype, len(values)
    region = _region(at, address, dtype.itemsize * count)
    if region is None:
        for part, lanes in _parts_of_regions(at, address, dtype.itemsize * count):
            store_global(lanes, _picked(at, address, part), *(_picked(at, value, part) for value in values))
        return
    for watch in at.group.launch.watches:
        watch.store(at, "global", address, dtype.itemsize * count, values)
    at.group.changes += 1
    region.store(_places(at, address, region.start, dtype.itemsize * count), values)


def load_shared(at: Lanes, address: Array, dtype: DType, count: int = 1) -> Any:
    """Return what lanes load from the shared memory of their blocks."""
    for watch in at.group.launch.watches:
        watch.load(at, "shared", address, dtype.itemsize * count)
    group = at.group
    places = _private(at, address, group.shared_bytes, dtype.itemsize * count, at.block, "shared memory")
    return _taken(group.shared.view(dtype), places, count)


def store_shared(at: Lanes, address: Array, *values: Array) -> None:
    """Store *values* in the shared memory of the lanes' blocks."""
    for watch in at.group.launch.watches:
        watch.store(at, "shared", address, values[0].dtype.itemsize * len(values), values)
    group, dtype = at.group, values[0].dtype
    size = dtype.itemsize * len(values)
    places = _private(at, address, group.shared_bytes, size, at.block, "shared memory")
    group.changes += 1
    _given(group.shared.view(dtype), places, values)


def load_local(at: Lanes, address: Array, dtype: DType, count: int = 1) -> Any:
    """Return what lanes load from their local memory."""
    for watch in at.group.launch.watches:
        watch.load(at, "local", address, dtype.itemsize * count)
    group = at.group
    places = _private(at, address, group.local_bytes, dtype.itemsize * count, at.flat, "local memory")
    return _taken(group.local.view(dtype), places, count)


def store_local(at: Lanes, address: Array, *values: Array) -> None:
    """Store *values* in the local memory of the lanes."""
    for watch in at.group.launch.watches:
        watch.store(at, "local", address, values[0].dtype.itemsize * len(values), values)
    group, dtype = at.group, values[0].dtype
    places = _private(at, address, group.local_bytes, dtype.itemsize * len(values), at.flat, "local memory")
    _given(group.local.view(dtype), places, values)


def load_generic(at: Lanes, address: Array, dtype: DType, count: int = 1) -> Any:
    """Return what lanes load from generic addresses."""

    def load(lanes: Lanes, part: Array, window: int) -> Any:
        if window == SHARED:
            return load_shared(lanes, part - np.uint64(SHARED), dtype, count)
        if window == LOCAL:
            return load_local(lanes, part - np.uint64(LOCAL), dtype, count)
        if window == PARAM:
            return load_param(lanes, part - np.uint64(PARAM), dtype, count)
        return load_global(lanes, part, dtype, count)

    windows = _windows(address)
    if len(windows) == 1:
        return load(at, address, windows[0])
    values = [np.empty(at.shape, dtype) for _ in range(count)]
    for window in windows:
        part = _in_window(at, address, window)
        lanes = Lanes(at.group, at.flat.reshape(-1)[part])
        loaded = load(lanes, _picked(at, address, part), window)
        for value, each in zip(values, loaded if count > 1 else (loaded,), strict=True):
            value.reshape(-1)[part] = each.reshape(-1)
    return values[0] if count == 1 else tuple(values)


def store_generic(at: Lanes, address: Array, *values: Array) -> None:
    """Store *values* at generic addresses."""

    def store(lanes: Lanes, part: Array, window: int, each: tuple[Array, ...]) -> None:
        if window == SHARED:
            store_shared(lanes, part - np.uint64(SHARED), *each)
        elif window == LOCAL:
            store_local(lanes, part - np.uint64(LOCAL), *each)
        elif window == PARAM:
            raise AccessError("a store to the parameters of the kernel", lanes.flat.reshape(-1))
        else:
            store_global(lanes, part, *each)

    windows = _windows(address)
    if len(windows) == 1:
        store(at, address, windows[0], values)
        return
    for window in windows:
        part = _in_window(at, address, window)
        lanes = Lanes(at.group, at.flat.reshape(-1)[part])
        store(lanes, _picked(at, address, part), window, tuple(_picked(at, value, part) for value in values))


def load_param(at: Lanes, address: Array, dtype: DType, count: int = 1) -> Any:
    """Return what lanes load from the parameters of the kernel."""
    parameters = at.group.launch.parameters
    places = _private(at, address, len(parameters), dtype.itemsize * count, np.zeros((1, 1), np.intp), "parameters")
    return _taken(parameters.view(dtype), places, count)


class Site(NamedTuple):
    """Memory that lanes change: its *values*, the *places* of lanes in them, and which of the active lanes these are.

    *part* is None for all of them.
    """

    values: Array
    places: Array
    part: Ints | None


def sites(at: Lanes, space: str, address: Array, dtype: DType) -> list[Site]:
    """Return where lanes change memory of the state space *space*; "" is for generic addresses."""
    group, size = at.group, dtype.itemsize
    if not space:
        windows = _windows(address)
        if len(windows) == 1:
            return sites(at, _NAMES[windows[0]], address - np.uint64(windows[0]), dtype)
        found = []
        for window in windows:
            part = _in_window(at, address, window)
            lanes = Lanes(group, at.flat.reshape(-1)[part])
            inner = _picked(at, address, part) - np.uint64(window)
            found += _inside(sites(lanes, _NAMES[window], inner, dtype), part)
        return found
    region = _region(at, address, size) if space == "global" else None
    if space == "global" and region is None:
        return [
            each
            for part, lanes in _parts_of_regions(at, address, size)
            for each in _inside(sites(lanes, "global", _picked(at, address, part), dtype), part)
        ]
    for watch in group.launch.watches:
        watch.change(at, space, address, size)
    if region is not None:
        places = _places(at, address, region.start, size)
        return [Site(region.cells(dtype, places), places, None)]
    if space == "shared":
        places = _private(at, address, group.shared_bytes, size, at.block, "shared memory")
        return [Site(group.shared.view(dtype), places, None)]
    if space != "local":
        raise AccessError("an atomic operation on the parameters of the kernel", at.flat.reshape(-1))
    places = _private(at, address, group.local_bytes, size, at.flat, "local memory")
    return [Site(group.local.view(dtype), places, None)]


def _inside(found: list[Site], part: Ints) -> list[Site]:
    """Return *found*, which are of the lanes *part*, as of all active lanes."""
    return [each._replace(part=part if each.part is None else part[each.part]) for each in found]


def _taken(values: Array, places: Array, count: int) -> Any:
    if count == 1:
        return values.take(places)
    rows = values[: len(values) // count * count].reshape(-1, count).take(places, 0)
    return tuple(np.ascontiguousarray(rows[..., number]) for number in range(count))


def _given(values: Array, places: Array, parts: tuple[Array, ...]) -> None:
    count = len(parts)
    if count == 1:
        if parts[0].size > places.size:
            places = np.broadcast_to(places, np.broadcast_shapes(places.shape, parts[0].shape))
        values[places] = parts[0]
        return
    rows = values[: len(values) // count * count].reshape(-1, count)
    for number, part in enumerate(parts):
        target = rows[:, number]
        if part.size > places.size:
            places = np.broadcast_to(places, np.broadcast_shapes(places.shape, part.shape))
        target[places] = part


def _region(at: Lanes, address: Array, nbytes: int) -> Region | None:
    """Return the region that holds the bytes of all lanes; None if there is more than one."""
    low, high = int(address.min()), int(address.max())
    region = at.group.launch.memory.find(low)
    if region is None or low < region.start or low + nbytes > region.stop:
        _refuse(at, address, low, nbytes)
    return region if high + nbytes <= region.stop else None


def _refuse(at: Lanes, address: Array, bad: int, nbytes: int) -> NoReturn:
    raise AccessError(at.group.launch.memory.describe(bad, nbytes), at.some(address == np.uint64(bad)))


def _by_region(at: Lanes, address: Array, dtype: DType, count: int) -> Any:
    values = [np.empty(at.shape, dtype) for _ in range(count)]
    for part, lanes in _parts_of_regions(at, address, dtype.itemsize * count):
        loaded = load_global(lanes, _picked(at, address, part), dtype, count)
        for value, each in zip(values, loaded if count > 1 else (loaded,), strict=True):
            value.reshape(-1)[part] = each.reshape(-1)
    return values[0] if count == 1 else tuple(values)


def _parts_of_regions(at: Lanes, address: Array, nbytes: int) -> list[tuple[Ints, Lanes]]:
    """Return for each region the lanes that use it: their places among the active ones, and as active lanes."""
    flat = np.broadcast_to(address, at.shape).reshape(-1)
    left = np.ones(len(flat), np.bool_)
    parts = []
    while left.any():
        low = int(flat[left].min())
        region = at.group.launch.memory.find(low)
        if region is None or low + nbytes > region.stop:
            _refuse(at, address, low, nbytes)
        part = np.flatnonzero(left & (flat <= np.uint64(region.stop - nbytes)))
        left[part] = False
        parts.append((part, Lanes(at.group, at.flat.reshape(-1)[part])))
    return parts


def _picked(at: Lanes, value: Array, part: Ints) -> Array:
    """Return *value* of the active lanes at the places *part* among them."""
    return value if value.size == 1 else np.broadcast_to(value, at.shape).reshape(-1)[part][None, :]


def _places(at: Lanes, address: Array, start: int, nbytes: int) -> Array:
    """Return the places of elements of *nbytes* bytes in a region that begins at *start*."""
    offset = (address - np.uint64(start)).view(np.int64)
    if nbytes == 1:
        return offset
    _check_aligned(at, address, offset, nbytes)
    return offset >> (nbytes.bit_length() - 1)


def _private(at: Lanes, address: Array, size: int, nbytes: int, owner: Array, name: str) -> Array:
    """Return the places of elements in memory of which each *owner* has *size* bytes."""
    offset = address.view(np.int64)
    if offset.min() < 0 or offset.max() > size - nbytes:
        is_bad = (offset < 0) | (offset > size - nbytes)
        first = int(offset[is_bad][0])
        where = f"{-first} bytes before" if first < 0 else f"bytes {first}:{first + nbytes} of"
        raise AccessError(f"an access {where} {size} bytes of {name}", at.some(is_bad))
    if nbytes > 1:
        _check_aligned(at, address, offset, nbytes)
    if size & nbytes - 1:
        raise AssertionError("private memory is a multiple of 16 bytes")
    return np.asarray((offset + owner * size) >> (nbytes.bit_length() - 1))


def _check_aligned(at: Lanes, address: Array, offset: Array, nbytes: int) -> None:
    if int(np.bitwise_or.reduce(offset, None)) & nbytes - 1:
        is_bad = (offset & nbytes - 1) != 0
        bad = int(address[is_bad][0])
        raise AccessError(f"an access of {nbytes} bytes at the address {bad:#x}, which is no multiple of {nbytes}",
                          at.some(is_bad))  # fmt: skip


def _windows(address: Array) -> list[int]:
    """Return the windows that addresses are in; 0 is global memory."""
    if int(address.max()) < PARAM:
        return [0]
    found = np.unique(address >> np.uint64(56)) << np.uint64(56)
    windows = [int(each) for each in found if int(each) in (SHARED, LOCAL, PARAM)]
    return windows if len(windows) == len(found) else [0, *windows]


def _in_window(at: Lanes, address: Array, window: int) -> Ints:
    """Return the places, among the active lanes, of those whose addresses are in *window*."""
    window_of = np.broadcast_to(address >> np.uint64(56), at.shape).reshape(-1)
    if window:
        return np.flatnonzero(window_of == np.uint64(window >> 56))
    others = np.isin(window_of, np.array([SHARED >> 56, LOCAL >> 56, PARAM >> 56], np.uint64))
    return np.flatnonzero(~others)
