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
_NO_OWNER = np.zeros((1, 1), np.intp)  # of parameters, which all lanes share
_NAMES = {0: "global", SHARED: "shared", LOCAL: "local", PARAM: "param"}


class AccessError(Exception):
    """An access that a card refuses: *what* is wrong with it, and the places of the lanes that made it."""

    def __init__(self, what: str, lanes: Ints) -> None:
        super().__init__(what)
        self.what = what
        self.lanes = lanes


class MisalignedError(AccessError):
    """An access of *nbytes* at an *address* that is no multiple of them."""

    def __init__(self, address: int, nbytes: int, lanes: Ints) -> None:
        super().__init__(
            f"an access of {nbytes} bytes at the address {address:#x}, which is no multiple of {nbytes}", lanes
        )


class Held(NamedTuple):
    """Shared or local memory of a group, or its parameters: what a `Region` is for global memory."""

    values: Array

    def load(self, dtype: DType, places: Ints, count: int) -> Any:
        """Return the elements of *dtype* at *places*; with a *count* the parts of vectors."""
        return _taken(self.values.view(dtype), places, count)

    def store(self, places: Ints, parts: tuple[Array, ...]) -> None:
        """Store the parts of vectors at *places*."""
        _given(self.values.view(parts[0].dtype), places, parts)

    def cells(self, dtype: DType, _places: Ints) -> Array:
        """Return the elements of *dtype*, of which some are changed."""
        return self.values.view(dtype)


class Part(NamedTuple):
    """The lanes of an access that use one piece of memory.

    Attributes:
        lanes: These lanes.
        space: The state space.
        address: Their addresses in it.
        which: Which of the active lanes these are; None for all of them.
        region: The piece of global memory; None in the other state spaces.
    """

    lanes: Lanes
    space: str
    address: Array
    which: Ints | None
    region: Region | None

    def located(self, nbytes: int) -> tuple[Region | Held, Array]:
        """Return the memory, and the places of elements of *nbytes* bytes in it."""
        if self.region is not None:
            return self.region, _places(self.lanes, self.address, self.region.start, nbytes)
        values, size, owner = self._held()
        offset = self._inside(size, nbytes)
        return Held(values), (offset >> _shift(nbytes)) + (owner * size >> _shift(nbytes))

    def load(self, dtype: DType, count: int) -> Any:
        """Return what the lanes load: one array, or a tuple of *count* for a vector."""
        nbytes = dtype.itemsize * count
        blocks = self.lanes.group.blocks
        if self.space != "shared" or self.lanes.index is not None or len(self.address) == blocks:
            memory, places = self.located(nbytes)
            return memory.load(dtype, places, count)
        values, size, _ = self._held()
        row = (self._inside(size, nbytes) >> _shift(nbytes)).reshape(-1)  # the same in each block
        row = row.astype(np.intp, copy=False)
        if count == 1:
            return values.view(dtype).reshape(blocks, -1).take(row, 1, mode="clip")  # all are inside, and it is faster
        taken = values.view(dtype).reshape(blocks, -1, count).take(row, 1, mode="clip")
        return tuple(np.ascontiguousarray(taken[..., number]) for number in range(count))

    def _held(self) -> tuple[Array, int, Array]:
        """Return private memory, how much of it each owner has, and who owns that of each lane."""
        at, group = self.lanes, self.lanes.group
        if self.space == "shared":
            return group.shared, group.shared_bytes, at.block
        if self.space == "local":
            return group.local, group.local_bytes, at.flat
        return group.launch.parameters, len(group.launch.parameters), _NO_OWNER

    def _inside(self, size: int, nbytes: int) -> Array:
        """Return where the lanes use memory of which each owner has *size* bytes."""
        at, offset = self.lanes, self.address.view(np.int64)
        bits = int(np.bitwise_or.reduce(offset, None))
        if 0 <= bits <= size - nbytes and not (bits | size) & nbytes - 1:
            return offset  # no offset is above all of their bits together
        if offset.min() < 0 or offset.max() > size - nbytes:
            name = "parameters" if self.space == "param" else f"{self.space} memory"
            is_bad = (offset < 0) | (offset > size - nbytes)
            first = int(offset[is_bad][0])
            where = f"{-first} bytes before" if first < 0 else f"bytes {first}:{first + nbytes} of"
            raise AccessError(f"an access {where} {size} bytes of {name}", at.some(is_bad))
        if nbytes > 1:
            _check_aligned(at, self.address, offset, nbytes)
        if size & nbytes - 1:
            raise AssertionError("private memory is a multiple of 16 bytes")
        return offset


def load(at: Lanes, space: str, address: Array, dtype: DType, count: int = 1) -> Any:
    """Return what lanes load from *space*, "" for generic addresses: one array, or a tuple of *count* for a vector."""
    nbytes = dtype.itemsize * count
    found = []
    for part in (parts := _parts(at, space, address, nbytes)):
        if part.space != "param":
            for watch in at.group.launch.watches:
                watch.load(part.lanes, part.space, part.address, nbytes)
        found.append(part.load(dtype, count))
    if parts[0].which is None:
        return found[0]
    values = [np.empty(at.shape, dtype) for _ in range(count)]
    for part, loaded in zip(parts, found, strict=True):
        for value, each in zip(values, loaded if count > 1 else (loaded,), strict=True):
            value.reshape(-1)[part.which] = each.reshape(-1)
    return values[0] if count == 1 else tuple(values)


def store(at: Lanes, space: str, address: Array, *values: Array) -> None:
    """Store *values*, the parts of a vector, in *space*. Of lanes with one address the last one counts."""
    nbytes = values[0].dtype.itemsize * len(values)
    for part in _parts(at, space, address, nbytes):
        if part.space == "param":
            raise AccessError("a store to the parameters of the kernel", part.lanes.flat.reshape(-1))
        own = values if part.which is None else tuple(_picked(at, value, part.which) for value in values)
        for watch in at.group.launch.watches:
            watch.store(part.lanes, part.space, part.address, nbytes, own)
        memory, places = part.located(nbytes)
        at.group.changes += part.space != "local"
        memory.store(places, own)


def fence(at: Lanes) -> None:
    """Tell that the lanes run a fence, which does nothing besides: memory is sequentially consistent."""
    for watch in at.group.launch.watches:
        watch.fence(at)


class Site(NamedTuple):
    """Memory of a state *space* that lanes change: its *values*, the *places* of lanes in them, and which of the active
    lanes these are. *part* is None for all of them.
    """

    space: str
    values: Array
    places: Array
    part: Ints | None


def sites(at: Lanes, space: str, address: Array, dtype: DType) -> list[Site]:
    """Return where lanes change memory of the state space *space*; "" is for generic addresses."""
    found = []
    for part in _parts(at, space, address, dtype.itemsize):
        if part.space == "param":
            raise AccessError("an atomic operation on the parameters of the kernel", part.lanes.flat.reshape(-1))
        for watch in at.group.launch.watches:
            watch.change(part.lanes, part.space, part.address, dtype.itemsize)
        memory, places = part.located(dtype.itemsize)
        found.append(Site(part.space, memory.cells(dtype, places), places, part.which))
    return found


def _parts(at: Lanes, space: str, address: Array, nbytes: int) -> list[Part]:
    """Return the lanes by the memory that they use: by windows of generic addresses, and by regions."""
    if space == "global":
        region = _region(at, address, nbytes)
        return [Part(at, space, address, None, region)] if region is not None else _by_region(at, address, nbytes)
    if space:
        return [Part(at, space, address, None, None)]
    windows = _windows(address)
    if len(windows) == 1:
        window = windows[0]
        return _parts(at, _NAMES[window], address - np.uint64(window) if window else address, nbytes)
    found = []
    for window in windows:
        index = _in_window(at, address, window)
        lanes = Lanes(at.group, at.flat.reshape(-1)[index])
        inner = _parts(lanes, _NAMES[window], _picked(at, address, index) - np.uint64(window), nbytes)
        found += [each._replace(which=index if each.which is None else index[each.which]) for each in inner]
    return found


def _taken(values: Array, places: Array, count: int) -> Any:
    places = places.astype(np.intp, copy=False)  # take() casts no other type where an index has 32 bits
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


def _by_region(at: Lanes, address: Array, nbytes: int) -> list[Part]:
    """Return the lanes by the regions that they use, the lowest one first."""
    flat = np.broadcast_to(address, at.shape).reshape(-1)
    left = np.ones(len(flat), np.bool_)
    parts = []
    while left.any():
        low = int(flat[left].min())
        region = at.group.launch.memory.find(low)
        if region is None or low + nbytes > region.stop:
            _refuse(at, address, low, nbytes)
        index = np.flatnonzero(left & (flat <= np.uint64(region.stop - nbytes)))
        left[index] = False
        lanes = Lanes(at.group, at.flat.reshape(-1)[index])
        parts.append(Part(lanes, "global", _picked(at, address, index), index, region))
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
    return offset >> _shift(nbytes)


def _shift(nbytes: int) -> int:
    return nbytes.bit_length() - 1


def _check_aligned(at: Lanes, address: Array, offset: Array, nbytes: int) -> None:
    if int(np.bitwise_or.reduce(offset, None)) & nbytes - 1:
        is_bad = (offset & nbytes - 1) != 0
        raise MisalignedError(int(address[is_bad][0]), nbytes, at.some(is_bad))


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
