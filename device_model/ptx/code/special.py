"""Special registers: what the card fills in."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from device_model.ptx.lanes.group import WARP, Array, Group
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.types import TYPES, Type

_U32, _U64, _PRED = TYPES["u32"], TYPES["u64"], TYPES["pred"]
_AXES = {"x": 0, "y": 1, "z": 2}
_ENVIRONMENT = re.compile(r"%envreg([0-9]|[12][0-9]|3[01])")
CLOCKS = {
    "%clock": _U32, "%clock_hi": _U32, "%clock64": _U64, "%globaltimer": _U64, "%globaltimer_lo": _U32,
    "%globaltimer_hi": _U32,
}  # fmt: skip


def special_type(name: str, line: int) -> Type:
    """Return the type of the special register *name*.

    Raises:
        PtxError: There is none of that name.
    """
    if name in CLOCKS:
        return CLOCKS[name]
    if name == "%gridid":
        return _U64
    if name == "%is_explicit_cluster":
        return _PRED
    base, _, axis = name.partition(".")
    if (base in _VECTORS and axis in ("x", "y", "z", "w")) or name in _SCALARS or _ENVIRONMENT.fullmatch(name):
        return _U32
    raise PtxError(line, f"there is no special register {name}")


def fill(name: str, group: Group) -> Array:
    """Return the value of a special register for the lanes of *group*."""
    if name == "%gridid":
        return _one(group.launch.grid_id, np.uint64)
    if name == "%is_explicit_cluster":
        return _one(False, np.bool_)
    if match := _ENVIRONMENT.fullmatch(name):
        return _one(group.launch.environment.get(int(match[1]), 0))
    base, _, axis = name.partition(".")
    if base in _VECTORS:
        return _one(base.startswith("%n")) if axis == "w" else _VECTORS[base](group, _AXES[axis])
    return _SCALARS[name](group)


def _one(value: Any, dtype: Any = np.uint32) -> Array:
    return np.full((1, 1), value, dtype)


def _tid(group: Group, axis: int) -> Array:
    return _threads(group.launch.block, axis)


@lru_cache(256)
def _threads(block: tuple[int, int, int], axis: int) -> Array:
    """Return the places of threads in their block, along an axis."""
    x, y, z = block
    thread = np.arange(x * y * z, dtype=np.uint32)
    places = (thread % x, thread // x % y, thread // (x * y))[axis][None, :]
    places.flags.writeable = False  # groups share it
    return places


def _ctaid(group: Group, axis: int) -> Array:
    x, y, _ = group.launch.grid
    if group.blocks == 1:
        return _one((group.first % x, group.first // x % y, group.first // (x * y))[axis])
    block = np.arange(group.first, group.first + group.blocks, dtype=np.int64)
    values = (block % x, block // x % y, block // (x * y))[axis].astype(np.uint32)[:, None]
    return values[:1] if values[0] == values[-1] and (values == values[0]).all() else values


def _lanes(group: Group) -> Array:
    return (np.arange(group.threads, dtype=np.uint32) % WARP)[None, :]


def _bits(group: Group) -> Array:
    return np.left_shift(np.uint32(1), _lanes(group))


def _sm(group: Group) -> Array:
    block = np.arange(group.first, group.first + group.blocks, dtype=np.uint32)[:, None]
    return block % np.uint32(group.launch.sms)


_VECTORS: dict[str, Callable[[Group, int], Array]] = {
    "%tid": _tid,
    "%ntid": lambda group, axis: _one(group.launch.block[axis]),
    "%ctaid": _ctaid,
    "%nctaid": lambda group, axis: _one(group.launch.grid[axis]),
    "%clusterid": _ctaid,
    "%nclusterid": lambda group, axis: _one(group.launch.grid[axis]),
    "%cluster_ctaid": lambda _, __: _one(0),
    "%cluster_nctaid": lambda _, __: _one(1),
}
_SCALARS: dict[str, Callable[[Group], Array]] = {
    "%laneid": _lanes,
    "%warpid": lambda group: (np.arange(group.threads, dtype=np.uint32) // WARP)[None, :],
    "%nwarpid": lambda group: _one(group.launch.warps_of_sm),
    "%smid": _sm,
    "%nsmid": lambda group: _one(group.launch.sms),
    "%lanemask_eq": _bits,
    "%lanemask_lt": lambda group: _bits(group) - np.uint32(1),
    "%lanemask_le": lambda group: (_bits(group) - np.uint32(1)) | _bits(group),
    "%lanemask_ge": lambda group: ~(_bits(group) - np.uint32(1)),
    "%lanemask_gt": lambda group: ~((_bits(group) - np.uint32(1)) | _bits(group)),
    "%dynamic_smem_size": lambda group: _one(group.launch.dynamic_shared),
    "%total_smem_size": lambda group: _one(group.shared_bytes),
    "%aggr_smem_size": lambda group: _one(group.shared_bytes),
    "%cluster_ctarank": lambda _: _one(0),
    "%cluster_nctarank": lambda _: _one(1),
}
