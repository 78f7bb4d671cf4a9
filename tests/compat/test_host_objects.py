"""Copies beyond the end of the object whose address was taken: on a card they read or overwrite what lies behind it."""

import ctypes
import gc
import subprocess
import sys
import weakref
from textwrap import dedent

import numpy as np
import pytest
from card import D2H, H2D, H2H, content, done, made

from acl_py.compat.acl.face.host_objects import objects
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.report import findings, report

N = 64
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")


def beyond():
    """What the findings say of copies beyond the end of an object, without the name of this file."""
    return [each.replace("test_host_objects.py:", "") for each in findings(session()) if " are left of the " in each]


def line():
    """The line of the caller."""
    return sys._getframe(1).f_lineno


def addresses(acl):
    """One of each kind of host object: its address, the function that was given it, and the object."""
    data, buffer, array = bytes(bytearray(N)), bytearray(N), np.zeros(N, np.uint8)
    yield acl.util.bytes_to_ptr(data), "bytes_to_ptr", data
    yield acl.util.numpy_to_ptr(array), "numpy_to_ptr", array
    yield acl.util.numpy_to_ptr(np.frombuffer(buffer, np.uint8)), "numpy_to_ptr", buffer
    other = np.zeros(N, np.uint8)
    yield acl.util.numpy_contiguous_to_ptr(other)[0], "numpy_contiguous_to_ptr", other


def test_a_read_beyond_the_end_of_an_object_is_a_finding(acl):
    device = made(acl.rt.malloc(2 * N, 0))
    for address, taker, _kept in addresses(acl):
        done(acl.rt.memcpy(device, 2 * N, address, N, H2D), acl.rt.memcpy(device, N, address + 16, N - 16, H2D))
        assert beyond() == []
        for _ in range(2):
            done(acl.rt.memcpy(device, 2 * N, address + 16, N, H2D))
        (told,) = beyond()
        assert told.startswith(f"acl.rt.memcpy() at {line() - 2} reads 64 bytes where only 48 are left of the 64 that")
        assert f"acl.util.{taker}() was given at " in told
        session().warned.clear()
        session()._beyond.clear()


def test_a_write_beyond_the_end_of_an_object_is_refused(acl):
    device, stream = made(acl.rt.malloc(2 * N, 0)), made(acl.rt.create_stream())
    done(acl.rt.memset(device, 2 * N, 7, 2 * N))
    pinned = made(acl.rt.malloc_host(2 * N))
    for address, _, kept in addresses(acl):
        rets = [
            acl.rt.memcpy(address, 2 * N, device, N + 1, D2H),
            acl.rt.memcpy(address + 1, 2 * N, device, N, D2H),
            acl.rt.memcpy(address, 2 * N, pinned, 2 * N, H2H),
            acl.rt.memcpy_async(address, 2 * N, device, 2 * N, D2H, stream),
            acl.rt.memcpy2d(address, 32, device, 32, 32, 3, D2H),
            acl.rt.memcpy2d_async(address, 32, device, 32, 32, 3, D2H, stream),
            acl.rt.memset(address, 2 * N, 7, 2 * N),
            acl.rt.memset_async(address, 2 * N, 7, 2 * N, stream),
        ]
        assert rets == [107000] * len(rets)
        assert "make it larger, or copy less" in acl.get_recent_err_msg()
        assert bytes(kept) == bytes(N)
        assert len(beyond()) == len(rets)
        assert report(session()).partition("failed: ")[2].count("acl.rt.") >= len(
            rets
        )  # calls with one answer share a line
        done(acl.rt.memcpy(address, N, device, N, D2H), acl.rt.memcpy2d(address, 32, device, 32, 32, 2, D2H))
        assert bytes(kept) == bytes([7]) * N
        session().warned.clear()
        session()._beyond.clear()
        session().failures.clear()


@pytest.mark.slow
def test_a_write_beyond_the_end_does_not_end_the_process():
    """It used to: a copy over the heap was a crash when Python cleaned up."""
    script = """\
        import acl
        acl.rt.set_device(0)
        device, ret = acl.rt.malloc(1 << 16, 0)
        acl.rt.memset(device, 1 << 16, 0xFF, 1 << 16)
        outs = [bytes(64) for _ in range(100)]
        print({acl.rt.memcpy(acl.util.bytes_to_ptr(out), 1 << 16, device, 1 << 16, 2) for out in outs})
        acl.rt.free(device)
        """
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"from acl_py.compat.acl import install; install()\n{dedent(script)}"],
        capture_output=True, encoding="utf-8", check=False, timeout=60,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "{107000}\n", "")


def test_pinned_memory_has_an_end_too(acl):
    device, pinned = made(acl.rt.malloc(2 * N, 0)), made(acl.rt.malloc_host(N))
    assert acl.rt.memcpy(pinned, 2 * N, device, N + 1, D2H) == 107000
    assert acl.rt.memcpy(device, 2 * N, pinned + 1, N, H2D) == 107000


def test_an_address_of_other_means_is_known_if_it_lies_in_a_known_object(acl):
    device, array, unknown = made(acl.rt.malloc(2 * N, 0)), np.zeros(N, np.uint8), (ctypes.c_char * N)()
    acl.util.numpy_to_ptr(array)
    assert acl.rt.memcpy(array.ctypes.data, 2 * N, device, 2 * N, D2H) == 107000
    done(acl.rt.memcpy(ctypes.addressof(unknown), N, device, N, D2H))


def test_the_address_of_a_part_reaches_as_far_as_the_whole(acl):
    """Scripts take that of the first row and mean all rows."""
    device, array = made(acl.rt.malloc(2 * N, 0)), np.zeros((4, N // 4), np.uint8)
    done(acl.rt.memcpy(acl.util.numpy_to_ptr(array[0]), N, device, N, D2H))
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(array[1]), N, device, N, D2H) == 107000
    data = bytes(bytearray(N))
    done(acl.rt.memcpy(device, N, acl.util.numpy_to_ptr(np.frombuffer(data, np.uint8)[8:]), N - 8, H2D))
    (told,) = beyond()
    assert "writes 64 bytes where only 48 are left" in told


def test_what_else_reads_host_memory_finds_the_end(acl, tmp_path):
    data = bytes(bytearray(N))
    address = acl.util.bytes_to_ptr(data)
    acl.util.ptr_to_bytes(address, N + 1)
    acl.util.ptr_to_numpy(address, (N + 1,), 2)
    acl.set_tensor_const(acl.create_tensor_desc(4, [N + 1], 2), address, N + 1)
    acl.mdl.load_from_mem(address, N + 1)
    acl.rt.binary_load_from_data(address, N + 1, [])
    acl.media.dvpp_jpeg_get_image_info(address, N + 1)
    assert [told.partition("()")[0] for told in beyond()] == [
        "acl.util.ptr_to_bytes", "acl.util.ptr_to_numpy", "acl.set_tensor_const", "acl.mdl.load_from_mem",
        "acl.rt.binary_load_from_data", "acl.media.dvpp_jpeg_get_image_info",
    ]  # fmt: skip


def test_what_is_gone_says_nothing_of_what_lies_there_now(acl):
    """An array's memory is used again by the next one, which may be larger."""
    device = made(acl.rt.malloc(1 << 20, 0))
    for size in (100, 1000, 200, 1 << 20, 3000, 100, 1 << 20):
        for _ in range(20):
            array = np.zeros(size, np.uint8)
            done(acl.rt.memcpy(acl.util.numpy_to_ptr(array), size, device, size, D2H))
            other = np.zeros(2 * size if size < 1 << 19 else size, np.uint8)
            del array
            third = np.zeros(other.size, np.uint8)  # perhaps where the first was
            done(acl.rt.memcpy(third.ctypes.data, third.size, device, third.size, D2H))
    assert beyond() == []


def test_objects_are_let_go_when_the_script_has_let_go_of_them(acl):
    """Of arrays nothing is held, of bytes no more than twice what the script holds and a little."""
    array = np.zeros(64 << 20, np.uint8)
    gone = weakref.ref(array)
    acl.util.numpy_to_ptr(array)
    del array
    gc.collect()
    assert gone() is None
    kept = [bytes(bytearray(1000)) for _ in range(100)]
    for each in kept:
        acl.util.bytes_to_ptr(each)
    for _ in range(1000):
        data = bytes(bytearray(1000))
        acl.util.bytes_to_ptr(data)
    assert len(objects._objects) <= 2 * (100 + 17) + 64 + 1
    assert len(content(acl, acl.util.bytes_to_ptr(kept[0]), 1000)) == 1000
