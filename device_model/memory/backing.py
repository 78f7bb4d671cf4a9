"""Backing: the bytes of an allocation, the poison that unwritten memory reads as, and which chunks are unwritten.

A large allocation is an anonymous mapping without reserved swap, so 140 GB cost one system call and no memory. But its
pages read as zero, and zero hides a bug: a program that forgets a copy often works with zeros. So unwritten memory must
read as *poison*, a value that stands out, and writing it everywhere would take the memory after all.

Therefore each chunk of 64 KiB is *cold* until it is used. A chunk that is read, or written in part, gets its poison at
that moment. A chunk that is overwritten as a whole never does. Then it is *warm*.

A view or a real address lets a program touch any chunk unseen, so all of them must hold poison when it is given out.
For many cold chunks in a row, `_PoisonFile` maps pages there that hold poison already, and that the system copies one
by one as the program writes. So a large view takes no memory until the program writes to it.
"""

import ctypes
import mmap
import os
import platform
import sys
from functools import cache
from threading import Lock
from typing import Any

# Unwritten and freed memory reads as the two bytes FB 7F over and over, 0x7FFB in each aligned 16 bits. That is a quiet
# NaN as float16, bfloat16, float32 and float64, and an absurdly large integer: 32,763 as int16, 2,147,188,731 as int32,
# 9,222,105,380,131,930,107 as int64. In a hex dump it is fb7ffb7f. No single repeated byte would do: FF is -1, a value
# that programs use, and no other byte is NaN in all of these types.
POISON = b"\xfb\x7f"

# Small enough that poisoning a chunk takes 2 us, large enough that the flags of 140 GB take 2 MB.
CHUNK = 64 * 1024

_PATTERN = memoryview(POISON * (CHUNK // 2 + 1))

# MAP_NORESERVE, for which Python 3.11 has no name: the numbers of Linux's asm-generic (x86, ARM, RISC-V) and of macOS.
# Elsewhere the mapping is reserved, which limits its size.
_NORESERVE = {"linux": 0x4000, "darwin": 0x40}
_KNOWN_MACHINES = ("x86_64", "AMD64", "aarch64", "arm64", "riscv64")


def _room() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # this system does not say
        return sys.maxsize


ROOM = _room()  # bytes of memory that this host has; no larger view can be filled


def _mapping_flags() -> int:
    known = _NORESERVE.get(sys.platform, 0) if platform.machine() in _KNOWN_MACHINES else 0
    return mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | int(getattr(mmap, "MAP_NORESERVE", known))


_FLAGS = _mapping_flags() if sys.platform != "win32" else 0


def create_mapping(nbytes: int) -> mmap.mmap:
    """Map *nbytes* of fresh memory, which takes no room until it is touched.

    Raises:
        OSError: The host has no such range of addresses.
    """
    if sys.platform == "win32":
        return mmap.mmap(-1, nbytes)
    return mmap.mmap(-1, nbytes, flags=_FLAGS)


def create_backing(nbytes: int) -> tuple[memoryview, "Cold | None"]:
    """Make the bytes of a device allocation: poisoned at once if they fit in a chunk, cold otherwise."""
    if nbytes <= CHUNK:
        return memoryview(bytearray(_PATTERN[:nbytes])), None
    return memoryview(create_mapping(nbytes)), Cold(nbytes)


class _PoisonFile:
    """A file in memory that is full of poison, for private mappings of it.

    The system copies a page of such a mapping when the program first writes to it. The file is as long as the longest
    piece that was mapped, at most `_PIECE`, and takes that much memory once in a process.
    """

    __slots__ = ("_descriptor", "_inode", "_lock", "_nbytes")

    def __init__(self) -> None:
        self._descriptor = self._inode = -1
        self._nbytes = 0
        self._lock = Lock()

    def cover(self, view: memoryview, start: int, stop: int) -> bool:
        """Replace the pages of *view* from *start* to *stop* by pages of poison.

        *view* is a mapping of `create_mapping`, *start* the first byte of a chunk, and *stop* the end of a chunk or of
        the view. Returns False if the system cannot do this or has no mappings left. The range may then hold anything,
        and the caller must write the poison.
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
        """Make the file at least *nbytes* long; make a new one if the program has closed its descriptor."""
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
_MAP_FIXED = 0x10  # on Linux; Python has no name for it
# A process may have 65,530 mappings on Linux, which are enough for 1 TB in pieces of this size. One allocation of host
# memory may have half of that. Without the file it may have as much as the host has memory.
_PIECE = 16 << 20
RESERVABLE = max(ROOM, 512 << 30) if _HAS_POISON_FILE else ROOM
_SHORT = 1 << 20  # shorter cold ranges get written poison, because most of them are filled soon
# From this size on, memory that was viewed gets its poison back by new mappings, which return memory to the host. The
# next write to a page costs five times as much there, so smaller ranges get written poison.
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
    """Let *view*[*start*:*stop*], part of a mapping of `create_mapping`, hold poison again.

    A large range gives the memory that it took back to the host.
    """
    first, last = -(-start // CHUNK) * CHUNK, stop // CHUNK * CHUNK
    if stop - start < _VAST or not _POISON_FILE.cover(view, first, last):
        write_poison(view, start, stop)
        return
    write_poison(view, start, first)
    write_poison(view, last, stop)


def write_poison(view: memoryview, start: int, stop: int) -> None:
    """Write poison over *view*[*start*:*stop*]; the byte at an even offset is FB, so that aligned words are equal."""
    phase = start & 1
    for at in range(start, stop, CHUNK):
        length = min(CHUNK, stop - at)
        view[at : at + length] = _PATTERN[phase : phase + length]


class Cold:
    """The chunks of a backing that were never written, and so have no poison yet.

    The lock is for kernel bodies in worker threads: two that write different bytes of one chunk must not both find it
    cold.
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
        """Write poison to each cold chunk that [*start*, *stop*) touches."""
        if start < stop:
            with self._lock:
                self._warm(view, start // CHUNK, -(-stop // CHUNK))

    def prepare_write(self, view: memoryview, start: int, stop: int) -> None:
        """Prepare [*start*, *stop*) for being overwritten: only chunks that it covers in part get poison."""
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
        """Write poison over the warm chunks of [*start*, *stop*); cold ones read as poison already."""
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


# A dropped allocation has these instead of a backing. GONE stays cold, so hot paths, which test for cold memory anyway,
# find dropped memory by the same test.
NOTHING = memoryview(bytearray())
GONE = Cold(0)
# All memory of a run without values has these: nothing is copied to it or from it, and a look at it is refused.
VALUELESS = Cold(0)
