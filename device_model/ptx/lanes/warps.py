"""What the lanes of a warp do together: exchanges, votes, matches, reductions.

Values are laid out as a table with a row for each warp and a column for each of its 32 lanes.
"""

from typing import Any

import numpy as np

from device_model.ptx.lanes.group import WARP, Array, Lanes

_LANES = np.arange(WARP)
_BITS = np.left_shift(np.uint32(1), _LANES.astype(np.uint32))


class Table:
    """The warps of active lanes: how their values become a table, and a table becomes values again."""

    __slots__ = ("_at", "_is_plain", "_places", "_warps", "active")

    def __init__(self, at: Lanes) -> None:
        group = at.group
        self._at = at
        self._warps = -(-group.threads // WARP)
        self._is_plain = at.index is None and group.threads % WARP == 0
        if self._is_plain:
            self.active: Array = np.ones((1, WARP), np.bool_)
            return
        block, thread = np.broadcast_arrays(at.block, at.thread)
        self._places = (block * (self._warps * WARP) + thread).reshape(-1)
        self.active = np.zeros(group.blocks * self._warps * WARP, np.bool_)
        self.active[self._places] = True
        self.active = self.active.reshape(-1, WARP)

    def of(self, value: Array) -> Array:
        """Return *value* as a table; one that is the same in all blocks may have one block's rows."""
        group = self._at.group
        if self._is_plain:
            return np.ascontiguousarray(np.broadcast_to(value, (len(value), group.threads))).reshape(-1, WARP)
        table = np.zeros(group.blocks * self._warps * WARP, value.dtype)
        table[self._places] = np.broadcast_to(value, self._at.shape).reshape(-1)
        return table.reshape(-1, WARP)

    def back(self, table: Array) -> Array:
        """Return what *table* holds as a value."""
        table = np.broadcast_to(table, (len(table), WARP))
        if self._is_plain:
            rows = len(table)
            if rows % self._warps:  # the same for all warps
                table = np.broadcast_to(table, (self._warps, WARP))
            return np.asarray(table.reshape(-1, self._at.group.threads))
        if len(table) == 1:
            table = np.broadcast_to(table, self.active.shape)
        return np.asarray(table.reshape(-1)[self._places].reshape(self._at.shape))


def common(*tables: Array) -> list[Array]:
    """Return *tables* with as many rows as the longest has: shorter ones are of blocks that are all the same."""
    rows = max(map(len, tables))
    return [each if len(each) in (1, rows) else np.tile(each, (rows // len(each), 1)) for each in tables]


def shuffle(at: Lanes, mode: str, value: Array, by: Array, limits: Array) -> tuple[Array, Array]:
    """Return for each lane the value of another lane of its warp, and whether that lane is in range.

    *mode* is "up", "down", "bfly" or "idx"; *by* and *limits* are the second and third operand of `shfl`.
    """
    table = Table(at)
    values, by, limits = common(table.of(value), table.of(by), table.of(limits))
    by = (by & np.uint32(31)).astype(np.int64)
    clamp = (limits & np.uint32(31)).astype(np.int64)
    segment = ((limits >> np.uint32(8)) & np.uint32(31)).astype(np.int64)
    last = (_LANES & segment) | (clamp & ~segment)
    if mode == "up":
        source = _LANES - by
        is_in = source >= last
    elif mode == "idx":
        source = (_LANES & segment) | (by & ~segment)
        is_in = source <= last
    else:
        source = _LANES + by if mode == "down" else _LANES ^ by
        is_in = source <= last
    source = np.where(is_in, source, _LANES)
    values, source = np.broadcast_arrays(*common(values, source))
    return table.back(np.take_along_axis(values, source, 1)), table.back(is_in)


def ballot(at: Lanes, predicate: Array, members: Array) -> Array:
    """Return the lanes of the warp, among *members*, for which *predicate* is true, as bits."""
    table = Table(at)
    predicates, members = common(table.of(predicate), table.of(members))
    return table.back(_bits(predicates & table.active)[:, None] & members)


def vote(at: Lanes, mode: str, predicate: Array, members: Array) -> Array:
    """Return whether *predicate* is true for "all" or "any" of *members*, or the same for all: "uni"."""
    table = Table(at)
    predicates, members, active = common(table.of(predicate), table.of(members), table.active)
    named = members & _bits(active)[:, None]
    true = _bits(predicates & active)[:, None] & named
    if mode == "any":
        return table.back(true != 0)
    return table.back(true == named) if mode == "all" else table.back((true == named) | (true == 0))


def match(at: Lanes, value: Array, members: Array) -> Array:
    """Return the lanes among *members* that have the value of the lane, as bits."""
    table = Table(at)
    values, members, active = common(table.of(value), table.of(members), table.active)
    equal = (values[:, :, None] == values[:, None, :]) & active[:, None, :]
    return table.back((equal @ _BITS.astype(np.int64)).astype(np.uint32) & members)


def match_all(at: Lanes, value: Array, members: Array) -> tuple[Array, Array]:
    """Return *members* if all of them have one value, else 0; and whether they have."""
    same = match(at, value, members)
    table = Table(at)
    named = table.back(common(table.of(members), _bits(table.active)[:, None] & np.uint32(0xFFFFFFFF))[0])
    alive = named & table.back(np.broadcast_to(_bits(table.active)[:, None], table.active.shape))
    is_one = same == alive
    return np.where(is_one, alive, np.uint32(0)), is_one


def reduce(at: Lanes, operation: str, value: Array, members: Array) -> Array:
    """Return the values of *members* put together."""
    table = Table(at)
    values, members, active = common(table.of(value), table.of(members), table.active)
    takes_part = active & ((members & _BITS) != 0)
    ufunc, neutral = _REDUCTIONS[operation]
    start = neutral(values.dtype)
    given = np.where(takes_part, values, start)
    return table.back(np.broadcast_to(ufunc.reduce(given, axis=1, dtype=values.dtype)[:, None], given.shape))


def active(at: Lanes) -> Array:
    """Return the active lanes of the warp, as bits."""
    table = Table(at)
    return table.back(np.broadcast_to(_bits(table.active)[:, None], table.active.shape))


def elect(at: Lanes, members: Array) -> tuple[Array, Array]:
    """Return the lowest lane of *members*, and whether the lane is that one."""
    table = Table(at)
    named = table.of(members)
    lowest = (
        np.bitwise_count((named & (~named + np.uint32(1))) - np.uint32(1))
        if hasattr(np, "bitwise_count")
        else _low(named)
    )
    leader = lowest.astype(np.uint32)
    return table.back(leader), table.back(leader == _LANES)


def _low(named: Array) -> Array:
    return np.asarray(np.log2((named & (~named + np.uint32(1))).astype(np.float64)))


def _bits(flags: Array) -> Array:
    """Return the flags of each row as the bits of one number."""
    return np.asarray((flags @ _BITS.astype(np.int64)).astype(np.uint32))


_REDUCTIONS: dict[str, tuple[np.ufunc, Any]] = {
    "add": (np.add, lambda dtype: dtype.type(0)),
    "min": (np.minimum, lambda dtype: np.iinfo(dtype).max),
    "max": (np.maximum, lambda dtype: np.iinfo(dtype).min),
    "and": (np.bitwise_and, lambda dtype: dtype.type(-1) if dtype.kind == "i" else dtype.type(np.iinfo(dtype).max)),
    "or": (np.bitwise_or, lambda dtype: dtype.type(0)),
    "xor": (np.bitwise_xor, lambda dtype: dtype.type(0)),
}
