"""Reading and writing memory of this process at any address: what is not there is an error, and no crash.

The system copies the bytes (process_vm_readv and process_vm_writev, of this process itself). Where it does not allow
that, as in some containers, they go through a pipe.
"""

import ctypes
import errno
import os
from collections.abc import Callable, Sequence
from itertools import chain

_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = 4096
_PART = 1 << 20  # bytes that are read at once: a size may be wrong, and then as much must not be allocated
_LONGEST = 1 << 26  # bytes of a text
_FEW = 64  # words of an array for which there is a class of its own
_PIPED = 4096  # bytes that go through a pipe at once; each pipe holds that many


class FaultError(Exception):
    """There is no such memory."""


_TYPES = (ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)
_readv, _writev = _LIBC.process_vm_readv, _LIBC.process_vm_writev
for _function in (_readv, _writev):
    _function.argtypes, _function.restype = _TYPES, ctypes.c_ssize_t
_pipe_in, _pipe_out = _LIBC.write, _LIBC.read
for _function in (_pipe_in, _pipe_out):
    _function.argtypes, _function.restype = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_ssize_t


def read(address: int, nbytes: int) -> bytes:
    """Return *nbytes* at *address*; `FaultError` if not all of them are there.

    The last byte is read first: a size that is much too large must not read all that lies behind *address*.
    """
    if nbytes > _PART:
        gather([(address + nbytes - 1, 1)])
    parts = ((address + start, min(_PART, nbytes - start)) for start in range(0, nbytes, _PART))
    return b"".join(gather([part]) for part in parts)


def gather(places: Sequence[tuple[int, int]]) -> bytes:
    """Return the bytes at *places*, pairs of address and size, in one piece; `FaultError` if some are not there."""
    nbytes = sum(size for _, size in places)
    room, begin = _room(places, nbytes)
    _move(_readv, room, places, nbytes)
    return bytes(room)[begin : begin + nbytes]


def is_readable(address: int, nbytes: int) -> bool:
    """Whether all of *nbytes* at *address* are there."""
    try:
        gather([(address, nbytes)])
    except FaultError:
        return False
    return True


def write(address: int, data: bytes) -> None:
    """Write *data* at *address*; `FaultError` if the memory is not there, or cannot be written."""
    places = ((address, len(data)),)
    room, begin = _room(places, len(data))
    ctypes.memmove(ctypes.addressof(room) + begin, data, len(data))
    _move(_writev, room, places, len(data))


def check(address: int, nbytes: int) -> None:
    """Raise `FaultError` unless *nbytes* at *address* can be written; they stay as they are."""
    places = ((address, nbytes),)
    room, _ = _room(places, nbytes)
    _move(_readv, room, places, nbytes)
    _move(_writev, room, places, nbytes)


def text(address: int) -> bytes:
    """Return the text at *address* that ends with NUL; `FaultError` if memory, or what a text may have, ends before."""
    parts: list[bytes] = []
    end = address + _LONGEST
    while address < end:
        part = read(address, _PAGE - address % _PAGE)
        before, ended, _ = part.partition(b"\0")
        parts.append(before)
        if ended:
            return b"".join(parts)
        address += len(part)
    raise FaultError(f"the end of a text within {_LONGEST} bytes")


def _room(places: Sequence[tuple[int, int]], nbytes: int) -> tuple["ctypes.Array[ctypes.c_uint64]", int]:
    """Return an array with what a move between *places* and *nbytes* of its own takes, and where these bytes begin.

    It is made for one move: a finalizer may make another one in the middle. First comes the piece (struct iovec) of the
    own bytes, then those of the places: an address and a size, in 8 bytes each.
    """
    words = 2 + 2 * len(places)
    room = _array(words + -(-nbytes // 8))()
    room[:words] = [ctypes.addressof(room) + 8 * words, nbytes, *chain.from_iterable(places)]
    return room, 8 * words


def _array(words: int) -> "type[ctypes.Array[ctypes.c_uint64]]":
    """Return the class of an array of so many *words*, or a little more: there are few of them."""
    return ctypes.c_uint64 * (words if words <= _FEW else 1 << (words - 1).bit_length())


def _move(
    function: Callable[..., int], room: "ctypes.Array[ctypes.c_uint64]", places: Sequence[tuple[int, int]], nbytes: int
) -> None:
    if not nbytes:
        return
    own = ctypes.addressof(room)
    moved = function(os.getpid(), own, 1, own + 16, len(places), 0)
    if moved == nbytes:
        return
    if moved < 0 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
        _move_through_pipe(room[0], places, is_read=function is _readv)
        return
    raise FaultError(", ".join(f"{size} bytes at {address:#x}" for address, size in places))


def _move_through_pipe(place: int, places: Sequence[tuple[int, int]], *, is_read: bool) -> None:
    """Move bytes in parts, between *place* and *places*: a system call that takes an address which is not there fails
    with EFAULT.
    """
    outlet, inlet = os.pipe()
    try:
        for address, size in places:
            for start in range(0, size, _PIPED):
                count = min(_PIPED, size - start)
                there = address + start
                source, target = (there, place) if is_read else (place, there)
                if _pipe_in(inlet, source, count) != count or _pipe_out(outlet, target, count) != count:
                    raise FaultError(f"{count} bytes at {there:#x}")
                place += count
    finally:
        os.close(outlet)
        os.close(inlet)
