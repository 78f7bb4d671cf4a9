"""Arrays of handles of nodes, in the memory of the program."""

from collections.abc import Sequence
from ctypes import addressof, create_string_buffer
from struct import pack, unpack
from typing import Any

from acl_py.compat.cuda.face.codes import INVALID_VALUE, NOT_SUPPORTED, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from device_model.graphs.graph import Node

_EDGE = 8  # bytes of CUgraphEdgeData


def kept(driver: Driver, key: Any, data: bytes) -> int:
    """Return the address of *data* in C; it stays there until the next *data* of this *key*."""
    buffer = driver.notes["kept", key] = create_string_buffer(data, max(len(data), 1))
    return addressof(buffer)


def nodes_at(driver: Driver, address: int, count: int, data: int = 0) -> list[Node]:
    """Return the nodes in an array; *data* is that of the edges to them, of which only zeros are simulated."""
    if not count:
        return []
    check_edges(data, count)
    handles = unpack(f"<{count}Q", own_memory.read(address, 8 * count))
    return [driver.handles.find("node", handle) for handle in handles]


def check_edges(data: int, count: int) -> None:
    """Refuse edges that are more than an order: those that let kernels overlap."""
    if data and any(own_memory.read(data, _EDGE * count)):
        raise RefusedError(NOT_SUPPORTED, "edges with ports or a type, which let kernels overlap, are not simulated")


def write_nodes(driver: Driver, columns: Sequence[tuple[int, Sequence[Node]]], count: int, data: int = 0) -> None:
    """Write *columns* of nodes to their addresses, as many as *count* says there is room for; and how many there are.

    What is left over is set to 0. Without an array only their number is written.
    """
    if not count:
        raise RefusedError(INVALID_VALUE, "there is no place for the number of nodes")
    length = len(columns[0][1])
    if all(not address for address, _ in columns):
        own_memory.write(count, pack("<Q", length))
        return
    (room,) = unpack("<Q", own_memory.read(count, 8))
    for address, nodes in columns:
        handles = [driver.handle("node", node) for node in nodes[:room]]
        own_memory.write(address, pack(f"<{len(handles)}Q", *handles) + bytes(8 * min(room - len(handles), length)))
    if data:
        own_memory.write(data, bytes(_EDGE * min(room, length)))
    own_memory.write(count, pack("<Q", min(room, length)))
