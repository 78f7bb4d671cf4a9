"""Copies of bytes, rows and planes."""

from collections.abc import Callable, Coroutine
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

import acl_py as native
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from acl_py.verbs.copies import MemcpyAsync, MemcpyKind
from acl_py.verbs.memory import Memory
from device_model.contexts import Context
from device_model.memory import Buffer, Space

_ANY = MemcpyKind.DEFAULT  # the addresses say which kind of copy it is
_DST, _SRC, _BOTH = ("dst",), ("src",), ("dst", "src")  # the ends that a device must reach
ARRAY = 3  # the CUmemorytype of arrays
_HOST = 1
_MOST_ENDS = 256  # pairs that are kept
_NOWHERE = np.empty(0, np.uint8)


def ends_of(driver: Driver, dst: int, src: int, nbytes: int, on_device: tuple[str, ...] = ()) -> tuple[Memory, Memory]:
    """Return the ends of a copy; a device must reach those that are named in *on_device*. Those of a copy of no bytes
    are not looked at. They are the same buffers as before while these live, because verbs keep what follows from them.
    """
    return driver.ends.get((dst, src, nbytes)) or _found(driver, dst, src, nbytes, on_device)


def _found(driver: Driver, dst: int, src: int, nbytes: int, on_device: tuple[str, ...]) -> tuple[Memory, Memory]:
    memory, known = driver.runtime.memory, driver.ends
    driver.check_context()
    if not nbytes:
        return _NOWHERE, _NOWHERE
    ends = memory.at(dst, nbytes, "dst"), memory.at(src, nbytes, "src")
    pageable = [role for role, end in zip(_BOTH, ends, strict=True) if end.allocation.space is Space.PAGEABLE]
    if not pageable:
        if len(known) >= _MOST_ENDS:
            known.clear()
        known[dst, src, nbytes] = ends
    for role in pageable:
        if role in on_device:
            raise RefusedError(INVALID_VALUE, f"{role} is pageable memory of the host, which no device reaches")
    return ends


async def _copy(driver: Driver, dst: int, src: int, nbytes: int, on_device: tuple[str, ...] = ()) -> None:
    to, source = ends_of(driver, dst, src, nbytes, on_device)
    await native.Memcpy(to, nbytes, source, nbytes, _ANY)


def _queueing(name: str, on_device: tuple[str, ...] = ()) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Let a call of the function *name* queue a copy; a device must reach the ends that are named in *on_device*."""

    @answers(name)
    def queue(driver: Driver, dst: int, src: int, nbytes: int, stream: Any) -> Coroutine[Any, Any, Any]:
        to, source = driver.ends.get((dst, src, nbytes)) or _found(driver, dst, src, nbytes, on_device)
        return MemcpyAsync(to, nbytes, source, nbytes, _ANY, stream)

    return queue


# No function lies between these and the verb, because programs call them most.
queue_bytes = _queueing("cuMemcpyAsync")
_queueing("cuMemcpyHtoDAsync_v2", _DST)
_queueing("cuMemcpyDtoHAsync_v2", _SRC)
_queue_on_device = _queueing("cuMemcpyDtoDAsync_v2", _BOTH)


@answers("cuMemcpy")
async def copy(driver: Driver, dst: int, src: int, nbytes: int) -> None:
    """Copy between any two places."""
    await _copy(driver, dst, src, nbytes)


@answers("cuMemcpyHtoD_v2")
async def copy_to_device(driver: Driver, dst: int, src: int, nbytes: int) -> None:
    """Copy from the host to a device."""
    await _copy(driver, dst, src, nbytes, _DST)


@answers("cuMemcpyDtoH_v2")
async def copy_to_host(driver: Driver, dst: int, src: int, nbytes: int) -> None:
    """Copy from a device to the host."""
    await _copy(driver, dst, src, nbytes, _SRC)


@answers("cuMemcpyDtoD_v2")
async def copy_on_device(driver: Driver, dst: int, src: int, nbytes: int) -> None:
    """Copy inside a device, or between two."""
    await _copy(driver, dst, src, nbytes, _BOTH)


@answers("cuMemcpyPeer")
async def copy_to_peer(driver: Driver, dst: int, _to: Context, src: int, _from: Context, nbytes: int) -> None:
    """Copy between two devices; the addresses say which."""
    await _copy(driver, dst, src, nbytes, _BOTH)


@answers("cuMemcpyPeerAsync")
async def queue_to_peer(
    driver: Driver, dst: int, _to: Context, src: int, _from: Context, nbytes: int, stream: Any
) -> None:
    """Queue a copy between two devices."""
    await _queue_on_device(driver, dst, src, nbytes, stream)


# --- rows and planes


class End(NamedTuple):
    """One end of CUDA_MEMCPY3D."""

    x: int
    y: int
    z: int
    level: int
    kind: int
    host: int
    device: int
    array: int
    reserved: int
    pitch: int
    height: int


class Box(NamedTuple):
    """Rows to copy: their ends, and how many bytes, rows and planes there are."""

    src: End
    dst: End
    width: int
    height: int
    depth: int

    @property
    def is_bytes(self) -> bool:
        """Whether it is one row between two addresses."""
        return self.height * self.depth == 1 and ARRAY not in (self.src.kind, self.dst.kind)


_ROWS = Struct("<QQI4xQQQQQQI4xQQQQQQ")  # CUDA_MEMCPY2D
PLANES = Struct("<QQQQI4xQQQQQQQQQQI4xQQQQQQQQQ")  # CUDA_MEMCPY3D
_ROW_END, _PLANE_END = 7, 11  # fields of an end


def _rows_at(address: int) -> Box:
    fields = _ROWS.unpack(own_memory.read(address, _ROWS.size))
    src, dst = (_end_of_rows(*fields[at : at + _ROW_END]) for at in (0, _ROW_END))
    return Box(src, dst, fields[-2], fields[-1], 1)


def _end_of_rows(x: int, y: int, kind: int, host: int, device: int, array: int, pitch: int) -> End:
    return End(x, y, 0, 0, kind, host, device, array, 0, pitch, 0)


def planes_at(address: int) -> Box:
    """Return the box that a structure for planes describes."""
    fields = PLANES.unpack(own_memory.read(address, PLANES.size))
    src, dst = (End(*fields[at : at + _PLANE_END]) for at in (0, _PLANE_END))
    return Box(src, dst, *fields[-3:])


async def copy_box(driver: Driver, box: Box, *stream: Any, kind: MemcpyKind = _ANY) -> None:
    """Copy plane by plane, in *stream* if there is one."""
    driver.check_context()
    if not (box.width and box.height and box.depth):
        return
    verb: Any = native.Memcpy2dAsync if stream else native.Memcpy2d
    for ends in [_ends_of_plane(driver, box, number) for number in range(box.depth)]:
        await verb(*ends, box.width, box.height, kind, *stream)


def _ends_of_plane(driver: Driver, box: Box, number: int) -> tuple[Buffer, int, Buffer, int]:
    return *_plane(driver, box.dst, box, number, "dst"), *_plane(driver, box.src, box, number, "src")


def _plane(driver: Driver, end: End, box: Box, number: int, role: str) -> tuple[Buffer, int]:
    """Return where a plane of *box* begins, and the bytes from one of its rows to the next."""
    if end.kind == ARRAY:
        array: Any = driver.find("array", end.array)
        return array.plane((end.x, end.y, end.z), box[2:], number), array.form.pitch
    pitch = end.pitch or box.width
    rows = end.y + (end.z + number) * (end.height or box.height)
    if pitch < box.width:
        raise RefusedError(INVALID_VALUE, f"rows of {box.width} bytes are longer than the pitch {pitch} of {role}")
    base = end.host if end.kind == _HOST else end.device or end.host
    return driver.runtime.memory.at(base + rows * pitch + end.x, pitch * (box.height - 1) + box.width, role), pitch


@answers("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2")
async def copy_rows(driver: Driver, address: int) -> None:
    """Copy rows."""
    await copy_box(driver, _rows_at(address))


@answers("cuMemcpy2DAsync_v2")
async def queue_rows(driver: Driver, address: int, stream: Any) -> None:
    """Queue a copy of rows."""
    await copy_box(driver, _rows_at(address), stream)


@answers("cuMemcpy3D_v2")
async def copy_planes(driver: Driver, address: int) -> None:
    """Copy planes."""
    await copy_box(driver, planes_at(address))


@answers("cuMemcpy3DAsync_v2")
async def queue_planes(driver: Driver, address: int, stream: Any) -> None:
    """Queue a copy of planes."""
    await copy_box(driver, planes_at(address), stream)
