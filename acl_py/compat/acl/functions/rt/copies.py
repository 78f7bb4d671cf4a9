"""acl.rt: copies, fills and reductions.

Addresses of the host are real ones: what is neither device nor pinned memory is pageable, wherever it comes from.
"""

from struct import Struct
from sys import _getframe
from typing import Any

import numpy as np

import acl_py as native
from acl_py.compat.acl.face.binding import gives, runs, takes
from acl_py.compat.acl.face.dtypes import dtype_of
from acl_py.compat.acl.face.lookups import Running, resolved
from acl_py.compat.acl.face.session import INVALID_PARAM, NOT_SUPPORTED, PARAM_INVALID, Session
from acl_py.runtime.routes import CONTRADICTED
from acl_py.sites import called_function, site_of
from device_model.memory import Buffer
from device_model.rules import CopyKind

_D2D, _INNER_D2D = 3, 6  # kinds of copies
_ON_BOARD = 0  # the run mode
_DESC = Struct("<4Q")  # a copy that is described in device memory: kind, src, dst, count
_DESC_BYTES = 64
_REDUCTIONS = {10: np.add, 11: np.maximum, 12: np.minimum}
_REDUCIBLE = (0, 1, 2, 3, 6, 27)  # float32, float16, int8, int32, int16, bfloat16
_CACHE_OPERATIONS = range(6, 10)  # prefetch, write back, invalidate, flush


def _ends(
    here: Session, dst: int, most: int, src: int, count: int, kind: int, *, queues: bool = False
) -> tuple[Any, Any]:
    """What a copy of *count* bytes names; the addresses are not looked at if that is 0."""
    if not count:
        return dst, src
    if not dst or not src:
        raise here.error(INVALID_PARAM, "an address is 0")
    if count > most:
        raise here.error(PARAM_INVALID, f"count is {count} bytes, and dest_max, the room at dst, is {most}")
    to, source = _place(here, dst, count, "dst"), _place(here, src, count, "src")
    if (kind, to.allocation.space, source.allocation.space) in CONTRADICTED:
        _tell_contradicted(here, kind, to, source, queues=queues)
    return to, source


def _tell_contradicted(here: Session, kind: int, to: Buffer, source: Buffer, *, queues: bool) -> None:
    """Note a copy whose *kind* is wrong about both ends, unless the call is refused anyway. The addresses decide what
    it does, so it may be that they were swapped.

    On a board, the memory of the host is the device's, so that any kind is right.
    """
    runtime = here.runtime
    key = kind, to.allocation.space, source.allocation.space
    is_refused = runtime.rules.copy_kind is not CopyKind.CORRECTED or (queues and key not in runtime.async_routes)
    if is_refused or runtime.profile.run_mode == _ON_BOARD:
        return
    site = site_of(_getframe(1))
    is_, meant = native.MemcpyKind(kind), CONTRADICTED[key]
    here.warn_once(
        f"{called_function(site)}() at {site} says {is_.name} ({is_}), but copies {meant.name}: "
        f"use kind {meant}, or swap the addresses if {is_.name} is meant"
    )


def _place(here: Session, address: int, count: int, role: str) -> Buffer:
    """Session.place, but most copies are of what the script allocated, from its beginning."""
    buffer = here.buffers.get(address)
    if buffer is not None and count <= buffer.nbytes and buffer.allocation.freed is None:
        return buffer
    return here.place(address, count, role)


@runs("kkkki")
def memcpy(here: Session, dst: int, most: int, src: int, count: int, kind: int) -> Running:
    """Copy at once, outside all streams: not after what is queued. The kind does not count; one that is wrong about
    both ends is a finding.
    """
    to, source = _ends(here, dst, most, src, count, kind)
    return native.Memcpy(to, most, source, count, kind)


@runs("kkkkik")
def memcpy_async(here: Session, dst: int, most: int, src: int, count: int, kind: int, stream: int) -> Running:
    """Queue a copy in a stream; where an end is pageable, wait for the stream and copy at once."""
    queue = here.streams[stream]
    to, source = _ends(here, dst, most, src, count, kind, queues=True)
    return native.MemcpyAsync(to, most, source, count, kind, queue)


@takes("kkkkik")
def memcpy_async_with_condition(dst: int, most: int, src: int, count: int, kind: int, stream: int) -> int:
    """memcpy_async; what else the vendor's function of this name does is not documented."""
    return memcpy_async(dst, most, src, count, kind, stream)


async def _copy2d(
    here: Session,
    verb: Any,
    dst: int,
    dpitch: int,
    src: int,
    spitch: int,
    width: int,
    height: int,
    kind: int,
    *queue: Any,
) -> None:
    if not width or not height:
        return
    if not dst or not src:
        raise here.error(INVALID_PARAM, "an address is 0")
    if width > min(dpitch, spitch):
        raise here.error(PARAM_INVALID, f"rows of {width} bytes are longer than a pitch of {min(dpitch, spitch)}")
    to = here.place(dst, dpitch * (height - 1) + width, "dst")
    source = here.place(src, spitch * (height - 1) + width, "src")
    if (kind, to.allocation.space, source.allocation.space) in CONTRADICTED:
        _tell_contradicted(here, kind, to, source, queues=bool(queue))
    await verb(to, dpitch, source, spitch, width, height, kind, *queue)


@runs("kkkkkki")
def memcpy2d(
    here: Session, dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int
) -> Running:
    """Copy rows at once, outside all streams."""
    return _copy2d(here, native.Memcpy2d, dst, dpitch, src, spitch, width, height, kind)


@runs("kkkkkkik")
def memcpy2d_async(
    here: Session, dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int
) -> Running:
    """Queue a copy of rows in a stream."""
    queue = here.streams[stream]
    return _copy2d(here, native.Memcpy2dAsync, dst, dpitch, src, spitch, width, height, kind, queue)


def _filled(here: Session, address: int, most: int, count: int) -> Any:
    """What a fill of *count* bytes names."""
    if not address:
        raise here.error(INVALID_PARAM, "the address is 0")
    if count > most:
        raise here.error(PARAM_INVALID, f"count is {count} bytes, and max_count, the room at the address, is {most}")
    return _place(here, address, count, "dst") if count else address


@runs("kkik")
def memset(here: Session, address: int, most: int, value: int, count: int) -> Running:
    """Fill at once, outside all streams."""
    return native.Memset(_filled(here, address, most, count), most, value, count)


@runs("kkikk")
def memset_async(here: Session, address: int, most: int, value: int, count: int, stream: int) -> Running:
    """Queue a fill in a stream."""
    queue = here.streams[stream]
    return native.MemsetAsync(_filled(here, address, most, count), most, value, count, queue)


# --- copies that are described in device memory


def _check_describable(here: Session, kind: int) -> None:
    if kind not in (_D2D, _INNER_D2D):
        raise here.error(NOT_SUPPORTED, "only copies inside the device can be described")


@gives("i")
def get_memcpy_desc_size(here: Session, kind: int) -> int:
    """How many bytes of device memory the description of a copy inside the device takes."""
    _check_describable(here, kind)
    return _DESC_BYTES


@gives("kikkkk")
def set_memcpy_desc(here: Session, desc: int, kind: int, src: int, dst: int, count: int, _: int) -> int:
    """Write the description of a copy inside the device to device memory."""
    _check_describable(here, kind)
    text = np.frombuffer(_DESC.pack(kind, src, dst, count).ljust(_DESC_BYTES, b"\0"), np.uint8)
    here.run(native.Memcpy(desc, _DESC_BYTES, text, _DESC_BYTES, native.MemcpyKind.HOST_TO_DEVICE))
    return desc


@runs("kik")
async def memcpy_async_with_desc(here: Session, desc: int, kind: int, stream: int) -> None:
    """Queue the copy that is described at *desc*."""
    text = np.zeros(_DESC_BYTES, np.uint8)
    await native.Memcpy(text, _DESC_BYTES, desc, _DESC_BYTES, native.MemcpyKind.DEVICE_TO_HOST)
    described, src, dst, count = _DESC.unpack_from(text.data)
    if described != kind:
        raise here.error(PARAM_INVALID, f"at {desc:#x} no copy of kind {kind} is described")
    queue = here.streams[stream]
    to, source = _ends(here, dst, count, src, count, kind, queues=True)
    await native.MemcpyAsync(to, count, source, count, _D2D, queue)


# --- reductions and caches


@native.kernel
def _reduce(dst: native.InOut, src: native.In, kind: int) -> None:
    _REDUCTIONS[kind](dst, src, out=dst)


@runs("kkkiikk")
async def reduce_async(
    here: Session, dst: int, src: int, count: int, kind: int, dtype: int, stream: int, _: int
) -> None:
    """Queue dst = dst + src (10), the larger (11) or the smaller (12) of both, over *count* bytes of device memory."""
    queue = here.streams[stream]
    if not count:
        return
    if not dst or not src:
        raise here.error(INVALID_PARAM, "an address is 0")
    if kind not in _REDUCTIONS or dtype not in _REDUCIBLE:
        raise here.error(NOT_SUPPORTED, f"reduction {kind} of data type {dtype}")
    element = dtype_of(dtype)
    assert element is not None, f"{dtype} is one of _REDUCIBLE"
    size = element.itemsize
    if count % size:
        raise here.error(PARAM_INVALID, f"{count} bytes are no whole number of values of {size} bytes")
    arrays = [native.Array(here.place(each, count, "memory"), element) for each in (dst, src)]
    await native.LaunchKernel(_reduce, 1, (*arrays, kind), queue)


@runs("kkik")
async def cmo_async(here: Session, src: int, size: int, kind: int, stream: int) -> None:
    """Prefetch (6), write back (7), invalidate (8) or flush (9) the L2 in a stream, which makes no difference here."""
    await resolved(here, stream)
    if kind not in _CACHE_OPERATIONS:
        raise here.error(PARAM_INVALID, f"there is no operation {kind} of the cache")
    here.place(src, size, "src")
