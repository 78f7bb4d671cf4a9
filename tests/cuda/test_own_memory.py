"""Memory of the process at any address: what is not there is an error."""

import ctypes
import errno
import mmap
import tracemalloc

import pytest

from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.own_memory import FaultError

PAGE = mmap.PAGESIZE


@pytest.fixture(params=["system calls", "pipes"])
def way(request, monkeypatch):
    """How bytes are moved: by the system calls, or, where these are refused, through a pipe."""
    if request.param == "pipes":
        monkeypatch.setattr(own_memory, "_readv", lambda *_: refused())
        monkeypatch.setattr(own_memory, "_writev", lambda *_: refused())
    return request.param


def refused():
    ctypes.set_errno(errno.EPERM)
    return -1


@pytest.fixture
def pages():
    """Two pages of memory, of which only the first one can be used; gives the address of the end of the first."""
    area = mmap.mmap(-1, 2 * PAGE)
    first = ctypes.c_char.from_buffer(area)  # it keeps the area
    address = ctypes.addressof(first)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    assert protect(address + PAGE, PAGE, 0) == 0
    yield address + PAGE
    protect(address + PAGE, PAGE, mmap.PROT_READ | mmap.PROT_WRITE)
    del first


def test_bytes_are_read_and_written_at_an_address(way):
    text = ctypes.create_string_buffer(b"hello, world")
    at = ctypes.addressof(text)
    own_memory.write(at, b"J")
    own_memory.check(at, 12)
    assert (own_memory.read(at, 5), own_memory.text(at)) == (b"Jello", b"Jello, world")
    assert own_memory.gather([(at + 7, 5), (at, 0), (at, 2)]) == b"worldJe"


def test_what_is_not_there_is_a_fault_and_nothing_is_written(way, pages):
    own_memory.write(pages - 4, b"abcd")
    for address in (pages - 4, pages, 0, 8, 2**64 - 8, 2**47):
        with pytest.raises(FaultError):
            own_memory.read(address, 8)
        with pytest.raises(FaultError):
            own_memory.check(address, 8)
    assert own_memory.read(pages - 4, 4) == b"abcd"


def test_a_text_that_ends_where_memory_ends_is_read_and_one_without_an_end_is_a_fault(way, pages):
    own_memory.write(pages - 4, b"abc\0")
    assert own_memory.text(pages - 4) == b"abc"
    own_memory.write(pages - 4, b"abcd")
    with pytest.raises(FaultError):
        own_memory.text(pages - 4)


def test_memory_that_cannot_be_written_is_a_fault_of_writing_only(way):
    code = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    assert len(own_memory.read(code, 8)) == 8
    with pytest.raises(FaultError):
        own_memory.check(code, 8)


def test_more_bytes_than_a_pipe_holds_are_moved(way):
    many = bytes(range(256)) * 1000
    source, target = ctypes.create_string_buffer(many, len(many)), ctypes.create_string_buffer(len(many))
    own_memory.write(ctypes.addressof(target), own_memory.read(ctypes.addressof(source), len(many)))
    assert target.raw == many


def test_a_size_that_is_much_too_large_is_a_fault_before_anything_is_read(way):
    mapped = ctypes.create_string_buffer(32 << 20)
    tracemalloc.start()
    for nbytes in (2**40, 2**63):
        with pytest.raises(FaultError):
            own_memory.read(ctypes.addressof(mapped), nbytes)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20
