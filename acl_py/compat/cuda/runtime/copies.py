"""Copies and fills of bytes, rows and planes."""

import ctypes
from collections.abc import Sequence
from typing import Any

import acl_py as native
from acl_py.compat.cuda.driver import copies as driver_copies
from acl_py.compat.cuda.driver import fills
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.callbacks import Extent, PitchedPointer
from acl_py.compat.cuda.runtime.entries import answers
from acl_py.compat.cuda.runtime.structures import PEER_PLANES, PLANES, arrays_of_runtime, planes_of_driver
from acl_py.verbs.copies import MemcpyKind
from device_model.memory import Buffer

_WRONG_DIRECTION = 21  # cudaErrorInvalidMemcpyDirection


def kind_of(number: int) -> MemcpyKind:
    """Return a kind of copies, cudaMemcpyKind."""
    if number > MemcpyKind.DEFAULT:
        raise RefusedError(_WRONG_DIRECTION, f"there is no kind {number} of copies")
    return MemcpyKind(number)


def _ends(driver: Driver, dst: int, src: int, nbytes: int) -> tuple[Buffer, Buffer]:
    memory = driver.runtime.memory
    return memory.at(dst, nbytes, "dst"), memory.at(src, nbytes, "src")


@answers("cudaMemcpy")
async def copy(driver: Driver, dst: int, src: int, nbytes: int, kind: int) -> None:
    """Copy bytes."""
    direction = kind_of(kind)
    if nbytes:
        to, source = _ends(driver, dst, src, nbytes)
        await native.Memcpy(to, nbytes, source, nbytes, direction)


@answers("cudaMemcpyAsync")
async def queue(driver: Driver, dst: int, src: int, nbytes: int, kind: int, stream: Any) -> None:
    """Queue a copy of bytes."""
    direction = kind_of(kind)
    if nbytes:
        to, source = _ends(driver, dst, src, nbytes)
        await native.MemcpyAsync(to, nbytes, source, nbytes, direction, stream)


@answers("cudaMemcpyPeer")
async def copy_to_peer(driver: Driver, dst: int, _to: int, src: int, _from: int, nbytes: int) -> None:
    """Copy between two devices; the addresses say which."""
    await copy(driver, dst, src, nbytes, MemcpyKind.DEFAULT)


@answers("cudaMemcpyPeerAsync")
async def queue_to_peer(driver: Driver, dst: int, _to: int, src: int, _from: int, nbytes: int, stream: Any) -> None:
    """Queue a copy between two devices."""
    await queue(driver, dst, src, nbytes, MemcpyKind.DEFAULT, stream)


@answers("cudaMemcpy2D", "cudaMemcpy2DAsync")
async def copy_rows(
    driver: Driver, dst: int, dst_pitch: int, src: int, src_pitch: int, width: int, height: int, kind: int, *stream: Any
) -> None:
    """Copy rows, in *stream* if there is one."""
    direction = kind_of(kind)
    if not (width and height):
        return
    memory, verb = driver.runtime.memory, native.Memcpy2dAsync if stream else native.Memcpy2d
    to, source = (
        memory.at(address, pitch * (height - 1) + width, role)
        for address, pitch, role in ((dst, dst_pitch, "dst"), (src, src_pitch, "src"))
    )
    await verb(to, dst_pitch, source, src_pitch, width, height, direction, *stream)


@answers("cudaMemcpy3D", "cudaMemcpy3DAsync")
async def copy_planes(driver: Driver, place: int, *stream: Any) -> None:
    """Copy planes, in *stream* if there is one."""
    *ends, kind = PLANES.unpack(own_memory.read(place, PLANES.size))
    kind_of(kind)
    await _planes(driver, ends, *stream)


@answers("cudaMemcpy3DPeer", "cudaMemcpy3DPeerAsync")
async def copy_planes_to_peer(driver: Driver, place: int, *stream: Any) -> None:
    """Copy planes between two devices, in *stream* if there is one; the addresses say which."""
    await _planes(driver, PEER_PLANES.unpack(own_memory.read(place, PEER_PLANES.size)), *stream)


def elements(driver: Driver, arrays: tuple[int, int]) -> tuple[int, int]:
    """Return the bytes of an element of the source and of the destination, where these are arrays; 1 for memory."""
    src, dst = (driver.find("array", each).form.element if each else 1 for each in arrays)
    if all(arrays) and src != dst:
        raise RefusedError(INVALID_VALUE, f"elements of {src} bytes are copied to elements of {dst} bytes")
    return src, dst


async def _planes(driver: Driver, ends: Sequence[int], *stream: Any) -> None:
    structure = planes_of_driver(ends, elements=elements(driver, arrays_of_runtime(ends)))
    held = ctypes.create_string_buffer(structure, len(structure))
    verb: Any = driver_copies.queue_planes if stream else driver_copies.copy_planes
    await verb(driver, ctypes.addressof(held), *stream)


@answers("cudaMemset3D", "cudaMemset3DAsync")
async def fill_planes(driver: Driver, where: PitchedPointer, value: int, extent: Extent, *stream: Any) -> None:
    """Fill planes of rows, in *stream* if there is one."""
    verb: Any = fills.queue_rows_of_bytes if stream else fills.fill_rows_of_bytes
    if not (extent.width and extent.height and extent.depth):
        return
    bytes_between = where.pitch * where.height
    last = bytes_between * (extent.depth - 1) + where.pitch * (extent.height - 1) + extent.width
    driver.runtime.memory.at(where.address, last, "dst")
    for plane in range(extent.depth if bytes_between else 1):
        start = where.address + plane * bytes_between
        await verb(driver, start, where.pitch, value & 0xFF, extent.width, extent.height, *stream)
