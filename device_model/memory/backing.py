"""Where bytes live: lazy backing, the poison it reads as, and which chunks of it were never written.

A large allocation is an anonymous mapping without reserved swap, so that 140 GB cost a system call. Its pages read as
zero, though, and zero is the one value that hides a bug; so every chunk counts as *cold* until it is first read, or
written in part, and only then gets its poison. A chunk that is written as a whole never does.

Many cold chunks in a row get their poison without being written: `_PoisonFile` maps pages there that hold it already.
So memory that a view or an address was given of takes no room until the program writes to it.
"""

import ctypes
import mmap
import os
import platform
import sys
from functools import cache
from threading import Lock
from typing import Any

# What unwritten and freed memory reads as: the two bytes FB 7F over and over, so 0x7FFB in each aligned 16 bits.
# One repeated byte cannot do it: FF is -1, a value that programs use, and no other byte is NaN in all floats. This one
# is a quiet NaN as float16, bfloat16, float32 and float64, and in integers absurdly large: 32,763 as int16,
# 2,147,188,731 as int32, 9,222,105,380,131,930,107 as int64. In a hex dump: fb7ffb7f.
POISON = b"\xfb\x7f"

# Small enough to poison a whole chunk without notice (2 us), large enough that the flags of 140 GB take 2 MB.
CHUNK = 64 * 1024

_PATTERN = memoryview(POISON * (CHUNK // 2 + 1))

# Python 3.11 has no name for it. The numbers are those of Linux's asm-generic (x86, ARM, RISC-V) and of macOS;
# elsewhere the mapping is reserved, which limits its size but breaks nothing.
_NORESERVE = {"linux": 0x4000, "darwin": 0x40}
_KNOWN_MACHINES = ("x86_64", "AMD64", "aarch64", "arm64", "riscv64")


def _room() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return sys.maxsize


ROOM = _room()  # bytes of memory that this host has: no view can be filled that is larger


def _mapping_flags() -> int:
    known = _NORESERVE.get(sys.platform, 0) if platform.machine() in _KNOWN_MACHINES else 0
    return mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | int(getattr(mmap, "MAP_NORESERVE", known))


_FLAGS = _mapping_flags() if sys.platform != "win32" else 0


def create_mapping(nbytes: int) -> mmap.mmap:
    """Map *nbytes* of fresh memory that takes no room until it is touched; OSError if the host has no such range."""
    if sys.platform == "win32":
        return mmap.mmap(-1, nbytes)
    return mmap.mmap(-1, nbytes, flags=_FLAGS)


def create_backing(nbytes: int) -> tuple[memoryview, "Cold | None"]:
    """Make the bytes of a device allocation: poisoned at once when they fit a chunk, cold otherwise."""
    if nbytes <= CHUNK:
        return memoryview(bytearray(_PATTERN[:nbytes])), None
    return memoryview(create_mapping(nbytes)), Cold(nbytes)


class _PoisonFile:
    """A file in memory that is full of poison, for private mappings: a page is copied when it is first written to.

    It is as long as the longest piece that was mapped, at most `_PIECE`, and takes that much room once per process.
    """

    __slots__ = ("_descriptor", "_inode", "_lock", "_nbytes")

    def __init__(self) -> None:
        self._descriptor = self._inode = -1
        self._nbytes = 0
        self._lock = Lock()

    def cover(self, view: memoryview, start: int, stop: int) -> bool:
        """Replace the pages of *view*, a mapping of `create_mapping`, from *start* to *stop* by pages of poison.

        *start* is the first byte of a chunk, *stop* is too or is the end. Returns False if the system cannot do so, or
        has no mappings left; then the range may hold anything and is to be written.
        """
        if not _HAS_POISON_FILE:
            return False
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        flags = _FLAGS & ~mmap.MAP_ANONYMOUS | _MAP_FIXED
        with self._lock:
            try:
                self._fill(min(stop - start, _PIECE))
            except OSError:  # no descriptor or no memory left for the file
                return False
            for at in range(start, stop, _PIECE):
                here, length = address + at, min(_PIECE, stop - at)
                if _mmap()(here, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, self._descriptor, 0) != here:
                    return False
        return True

    def _fill(self, nbytes: int) -> None:
        """Make the file at least *nbytes* long; a new one if the program has closed the descriptor of the old one."""
        if not self._is_open():
            self._descriptor = os.memfd_create("acl_py-poison")
            self._inode = os.fstat(self._descriptor).st_ino
            self._nbytes = 0
        while self._nbytes < nbytes:
            self._nbytes += os.pwrite(self._descriptor, _PATTERN[:CHUNK], self._nbytes)

    def _is_open(self) -> bool:
        try:
            return self._descriptor >= 0 and os.fstat(self._descriptor).st_ino == self._inode
        except OSError:
            return False


_POISON_FILE = _PoisonFile()
_HAS_POISON_FILE = hasattr(os, "memfd_create") and platform.machine() in _KNOWN_MACHINES
_MAP_FIXED = 0x10  # Linux; Python has no name for it
# A process may have 65,530 mappings on Linux. In pieces of this size they are enough for 1 TB, so half of that is the
# most that one allocation of host memory gets; without the file it is what the host has.
_PIECE = 16 << 20
RESERVABLE = max(ROOM, 512 << 30) if _HAS_POISON_FILE else ROOM
_SHORT = 1 << 20  # cold ranges below this size are written: most of them are filled soon
# From this size on, memory that was viewed is poisoned again by new mappings: it may be far larger than what is in use.
# They cost its next writer five times as much as poison that was written, so that is done for smaller ranges.
_VAST = 256 << 20


@cache
def _mmap() -> Any:
    function = ctypes.CDLL(None).mmap
    function.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip
    function.restype = ctypes.c_void_p
    return function


def renew_poison(view: memoryview, start: int, stop: int) -> None:
    """Let *view*[*start*:*stop*], part of a mapping of `create_mapping`, hold poison again; gives back what it took of
    the host's memory if it is vast.
    """
    first, last = -(-start // CHUNK) * CHUNK, stop // CHUNK * CHUNK
    if stop - start < _VAST or not _POISON_FILE.cover(view, first, last):
        write_poison(view, start, stop)
        return
    write_poison(view, start, first)
    write_poison(view, last, stop)


def write_poison(view: memoryview, start: int, stop: int) -> None:
    """Write the poison over *view*[*start*:*stop*]; its phase follows the offset, so that aligned words read alike."""
    phase = start & 1
    for at in range(start, stop, CHUNK):
        length = min(CHUNK, stop - at)
        view[at : at + length] = _PATTERN[phase : phase + length]


class Cold:
    """Which chunks of a backing were never written, and so still owe their poison.

    The lock is for bodies in worker threads: two that write different bytes of one chunk must not both find it cold.
    """

    __slots__ = ("_flags", "_lock", "_nbytes", "cold_chunks")

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self.cold_chunks = -(-nbytes // CHUNK)
        self._flags = bytearray(self.cold_chunks)  # 1: warm
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<Cold {self.cold_chunks} of {len(self._flags)} chunks>"

    def prepare_read(self, view: memoryview, start: int, stop: int) -> None:
        """Fill in the poison of each cold chunk that [*start*, *stop*) touches."""
        if start < stop:
            with self._lock:
                self._warm(view, start // CHUNK, -(-stop // CHUNK))

    def prepare_write(self, view: memoryview, start: int, stop: int) -> None:
        """Get ready for [*start*, *stop*) to be overwritten: only the chunks that it covers in part need poison."""
        if start >= stop:
            return
        first, last = start // CHUNK, -(-stop // CHUNK)
        whole_first = -(-start // CHUNK)
        whole_last = last if stop == self._nbytes else stop // CHUNK
        with self._lock:
            if whole_first >= whole_last:
                self._warm(view, first, last)
                return
            self._warm(view, first, whole_first)
            self._set_warm(whole_first, whole_last)
            self._warm(view, whole_last, last)

    def write_poison(self, view: memoryview, start: int, stop: int) -> None:
        """Write poison over the warm part of [*start*, *stop*); the cold part is poison already."""
        flags = self._flags
        with self._lock:
            chunk, last = start // CHUNK, -(-stop // CHUNK)
            while (chunk := flags.find(1, chunk, last)) >= 0:
                end = flags.find(0, chunk, last)
                end = last if end < 0 else end
                renew_poison(view, max(start, chunk * CHUNK), min(stop, end * CHUNK))
                chunk = end

    def is_cold(self, start: int, stop: int) -> bool:
        """Whether nothing of [*start*, *stop*) was ever written or viewed."""
        return self._flags.find(1, start // CHUNK, -(-stop // CHUNK)) < 0

    def _warm(self, view: memoryview, first: int, last: int) -> None:
        chunk = first
        while (chunk := self._flags.find(0, chunk, last)) >= 0:
            end = self._flags.find(1, chunk, last)
            end = last if end < 0 else end
            start, stop = chunk * CHUNK, min(end * CHUNK, self._nbytes)
            if stop - start < _SHORT or not _POISON_FILE.cover(view, start, stop):
                write_poison(view, start, stop)
            self._set_warm(chunk, end)
            chunk = end

    def _set_warm(self, first: int, last: int) -> None:
        self.cold_chunks -= self._flags.count(0, first, last)
        self._flags[first:last] = b"\x01" * (last - first)


# What a dropped allocation has in place of a backing. It is cold for ever, so that hot paths, which test for cold
# anyway, find out about dropped memory without a test of their own.
NOTHING = memoryview(bytearray())
GONE = Cold(0)
