"""Reading and writing memory of this process at any address: what is not there is an error, and no crash.

The system copies the bytes (process_vm_readv and process_vm_writev, of this process itself). Where it does not allow
that, as in some containers, they go through a pipe.
"""

import ctypes
import errno
import os
from collections.abc import Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = 4096
_PART = 1 << 20  # bytes that are read at once: a size may be wrong, and then as much must not be allocated
_LONGEST = 1 << 26  # bytes of a text
_PIPED = 4096  # bytes that go through a pipe at once; each pipe holds that many


class FaultError(Exception):
    """There is no such memory."""


class _Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


_PIECES = ctypes.POINTER(_Piece)
_TYPES = (ctypes.c_int, _PIECES, ctypes.c_ulong, _PIECES, ctypes.c_ulong, ctypes.c_ulong)
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
    buffer = ctypes.create_string_buffer(nbytes)
    own = _Piece(ctypes.addressof(buffer), nbytes)
    pieces = (_Piece * len(places))(*(_Piece(*place) for place in places))
    _move(_readv, own, pieces, nbytes)
    return buffer.raw


def write(address: int, data: bytes) -> None:
    """Write *data* at *address*; `FaultError` if the memory is not there, or cannot be written."""
    own = _Piece(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value, len(data))
    _move(_writev, own, (_Piece * 1)(_Piece(address, len(data))), len(data))


def check(address: int, nbytes: int) -> None:
    """Raise `FaultError` unless *nbytes* at *address* can be written; they stay as they are."""
    write(address, read(address, nbytes))


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


def _move(function: "ctypes._FuncPointer", own: _Piece, pieces: "ctypes.Array[_Piece]", nbytes: int) -> None:
    if not nbytes:
        return
    moved = function(os.getpid(), ctypes.byref(own), 1, pieces, len(pieces), 0)
    if moved == nbytes:
        return
    if moved < 0 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
        _move_through_pipe(own, pieces, is_read=function is _readv)
        return
    raise FaultError(", ".join(f"{piece.nbytes} bytes at {piece.address or 0:#x}" for piece in pieces))


def _move_through_pipe(own: _Piece, pieces: "ctypes.Array[_Piece]", *, is_read: bool) -> None:
    """Move bytes in parts: a system call that takes an address which is not there fails with EFAULT."""
    outlet, inlet = os.pipe()
    try:
        place = own.address
        for piece in pieces:
            for start in range(0, piece.nbytes, _PIPED):
                count = min(_PIPED, piece.nbytes - start)
                there = (piece.address or 0) + start
                source, target = (there, place) if is_read else (place, there)
                if _pipe_in(inlet, source, count) != count or _pipe_out(outlet, target, count) != count:
                    raise FaultError(f"{count} bytes at {there:#x}")
                place += count
    finally:
        os.close(outlet)
        os.close(inlet)
