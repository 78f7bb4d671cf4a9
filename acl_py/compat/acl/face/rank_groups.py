"""Groups of ranks: what CANN's `hccl.manage.api` knows of a process that is one rank of several.

Processes are not simulated together, so there are numbers here and no collectives. They come from the variables with
which such processes are started: RANK_ID and RANK_SIZE, and RANK_TABLE_FILE, which says which ranks are on one server.
Without a table all ranks are on one. Without RANK_SIZE the process is the only rank.
"""

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

WORLD = "hccl_world_group"
_MOST_BYTES = 127  # of the name of a group


@dataclass(frozen=True, slots=True)
class World:
    """All ranks: which one this process is, and the server of each."""

    rank: int
    servers: tuple[str, ...]


_groups: dict[str, tuple[int, ...]] = {}  # the ranks of each group, by its name; not the world


def create_group(group: str, rank_num: int, rank_ids: list[int]) -> None:
    """Make a group of *rank_num* ranks with these numbers in the world; their order gives them their numbers in it.

    Raises:
        TypeError: *group* is no str, *rank_num* no int, or *rank_ids* no list of ints.
        ValueError: The name is empty, too long or taken, *rank_num* is not the length of *rank_ids*, or a rank is there
            twice or does not exist.
    """
    _check_name(group)
    size, ranks = _whole("rank_num", rank_num), _ranks(rank_ids)
    if group == WORLD or group in _groups:
        raise ValueError(f"there is a group {group!r} already: destroy_group() it first, or take another name")
    if size != len(ranks):
        raise ValueError(f"rank_num is {size}, and rank_ids has {len(ranks)} ranks")
    _groups[group] = ranks


def destroy_group(group: str) -> None:
    """Forget a group; the world stays.

    Raises:
        TypeError: *group* is no str.
        ValueError: There is no such group, or it is the world.
    """
    _check_name(group)
    if group == WORLD:
        raise ValueError(f"{WORLD} cannot be destroyed")
    _members(group)
    del _groups[group]


def get_rank_size(group: str = WORLD) -> int:
    """Return how many ranks *group* has; raise ValueError if there is no such group."""
    return len(_members(group))


def get_rank_id(group: str = WORLD) -> int:
    """Return the number of this process in *group*; raise ValueError if it is not in it."""
    return _place(group, _world().rank)


def get_local_rank_size(group: str = WORLD) -> int:
    """Return how many ranks of *group* are on the server of this process."""
    return len(_local(group))


def get_local_rank_id(group: str = WORLD) -> int:
    """Return the place of this process among the ranks of *group* on its server; raise ValueError if it is in none."""
    get_rank_id(group)
    return _local(group).index(_world().rank)


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """Return the number in the world of the rank that has *group_rank_id* in *group*; raise ValueError if none has."""
    members, place = _members(group), _whole("group_rank_id", group_rank_id)
    if place >= len(members):
        raise ValueError(f"group {group!r} has the ranks 0 to {len(members) - 1}, and no rank {place}")
    return members[place]


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """Return the number in *group* of the rank that has *world_rank_id* in the world; ValueError if it is not in it."""
    return _place(group, _whole("world_rank_id", world_rank_id))


def forget() -> None:
    """Forget all groups, and read the variables again."""
    _groups.clear()
    _world.cache_clear()


def _members(group: str) -> tuple[int, ...]:
    _check_name(group)
    if group == WORLD:
        return tuple(range(len(_world().servers)))
    if group not in _groups:
        raise ValueError(f"there is no group {group!r}: create_group() makes one")
    return _groups[group]


def _place(group: str, rank: int) -> int:
    members = _members(group)
    if rank not in members:
        raise ValueError(f"rank {rank} is not in group {group!r}, which has the ranks {', '.join(map(str, members))}")
    return members.index(rank)


def _local(group: str) -> list[int]:
    world = _world()
    return [rank for rank in _members(group) if world.servers[rank] == world.servers[world.rank]]


def _ranks(rank_ids: object) -> tuple[int, ...]:
    if not isinstance(rank_ids, list):
        raise TypeError(f"rank_ids must be a list of ints, not {rank_ids!r}")
    ranks = tuple(_whole("a rank of rank_ids", rank) for rank in rank_ids)
    size = len(_world().servers)
    wrong = next((rank for rank in ranks if rank >= size or ranks.count(rank) > 1), None)
    if wrong is not None:
        what = "is there twice" if wrong < size else f"does not exist: the world has {size}"
        raise ValueError(f"rank {wrong} of rank_ids {what}")
    return ranks


def _check_name(group: object) -> None:
    if not isinstance(group, str):
        raise TypeError(f"group must be a str, not {group!r}")
    if not 0 < len(group.encode()) <= _MOST_BYTES:
        raise ValueError(f"the name of a group has 1 to {_MOST_BYTES} bytes, not {len(group.encode())}")


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {value!r}")
    if value < 0:
        raise ValueError(f"{name} must be 0 or more, not {value}")
    return value


@cache
def _world() -> World:
    table = os.environ.get("RANK_TABLE_FILE")
    servers = ("",) * _variable("RANK_SIZE", 1) if not table else _servers(Path(table))
    rank = _variable("RANK_ID", 0)
    if rank >= len(servers):
        raise ValueError(f"RANK_ID is {rank}, and there are {len(servers)} ranks: set RANK_SIZE or RANK_TABLE_FILE")
    return World(rank, servers)


def _variable(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdecimal():
        raise ValueError(f"the variable {name} must be a number, not {text!r}")
    return int(text)


def _servers(path: Path) -> tuple[str, ...]:
    """Return the server of each rank, from a rank table."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        found = {
            int(device["rank_id"]): str(server["server_id"])
            for server in document["server_list"]
            for device in server["device"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"RANK_TABLE_FILE {path} is no rank table: {type(error).__name__}: {error}") from error
    if sorted(found) != list(range(len(found))):
        raise ValueError(f"RANK_TABLE_FILE {path} has the ranks {sorted(found)}: they must be 0 to {len(found) - 1}")
    return tuple(found[rank] for rank in range(len(found)))
