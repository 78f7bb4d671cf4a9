"""The shared object: what the loader makes of it, and what its functions answer while no one answers for them."""

import ctypes
import platform
import struct
from contextlib import suppress

import pytest

from acl_py.compat.cuda.library import machine
from acl_py.compat.cuda.library.elf import shared_object
from acl_py.compat.cuda.library.loading import Library

NAMES = [f"acl_py_test_{number}" for number in range(100)]
pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the loader is that of Linux")


@pytest.fixture(scope="module")
def library():
    """A library with two sonames; its functions answer 3."""
    return Library(("libacl_py_test.so.1", "libacl_py_test.so"), NAMES, 3)


@pytest.fixture
def seven():
    """A function in C that returns its argument plus 7."""
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda number: number + 7)


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def test_the_loader_gives_it_by_each_of_its_sonames(library):
    found = [ctypes.CDLL(soname) for soname in ("libacl_py_test.so.1", "libacl_py_test.so")]
    addresses = {address_of(each[name]) for each in found for name in NAMES}
    assert addresses == {library.address(name) for name in NAMES}
    assert [found[1][name](0) for name in NAMES] == [3] * len(NAMES)
    with pytest.raises(AttributeError):
        _ = found[0].acl_py_test_100


def test_a_function_goes_where_its_place_in_the_table_says(library, seven):
    found = ctypes.CDLL("libacl_py_test.so.1")
    library.put("acl_py_test_42", address_of(seven))
    assert [found[name](1) for name in NAMES] == [8 if name == "acl_py_test_42" else 3 for name in NAMES]
    library.clear(4)
    assert [found[name](1) for name in NAMES] == [4] * len(NAMES)
    library.clear(3)


def test_functions_of_a_private_library_are_found_by_their_places_only(seven):
    private = Library(("libacl_py_private.so",), NAMES, 3, is_private=True)
    private.put(NAMES[42], address_of(seven))
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    assert [function(private.address(name))(1) for name in NAMES[41:44]] == [3, 8, 3]
    with pytest.raises(AttributeError):
        ctypes.CDLL("libacl_py_private.so")[NAMES[42]]


def test_a_place_that_is_filled_takes_arguments_in_registers_and_on_the_stack(library):
    kinds = [ctypes.c_int, ctypes.c_float, ctypes.c_uint64] * 5
    taken = []
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)
    callback = prototype(lambda *args: taken.append(args) or len(args))
    library.put("acl_py_test_0", address_of(callback))
    given = tuple(range(15))
    assert prototype(library.address("acl_py_test_0"))(*given) == 15
    assert taken == [given]
    library.clear(3)


def test_an_entry_on_aarch64_finds_its_slot_and_the_answer():
    """No such processor was at hand: a reader of the manual's encodings runs the code instead."""
    for at, slot, answer in ((0x1000, 0x21008, 0x20F00), (0xFFE0, 0x3FFF8, 0x30FFC), (0x12340, 0x912340, 0x90A000)):
        memory = {slot: 0x5555_6666_7777, answer: 3}
        code = machine.aarch64(at, slot, answer)
        assert aarch64(code, at, memory) == ("br", 0x5555_6666_7777)
        memory[slot] = 0
        assert aarch64(code, at, memory) == ("ret", 3)


def test_what_unpacks_a_capsule_on_aarch64_loads_what_it_holds_and_then_the_class_of_that():
    words = struct.unpack("<2I", machine.MACHINES["aarch64"].unpacked)
    assert [f"{word:#x}" for word in words] == ["0xf9400801", "0xf9400420"]  # ldr x1, [x0, 16]; ldr x0, [x1, 8]


def aarch64(code, at, memory):
    """Run *code*, which was loaded to the address *at*: where it jumps, or what it returns."""
    x16 = w0 = None
    place = 0
    while True:
        (word,) = struct.unpack_from("<I", code, place)
        here = at + place
        place += 4
        if word & 0x9F00001F == 0x90000010:  # adrp x16
            pages = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            x16 = ((here >> 12) + pages) << 12
        elif word & 0xFFC003FF == 0xF9400210:  # ldr x16, [x16, #8 * imm12]
            x16 = memory[x16 + (word >> 10 & 0xFFF) * 8]
        elif word & 0xFFC003FF == 0xB9400200:  # ldr w0, [x16, #4 * imm12]
            w0 = memory[x16 + (word >> 10 & 0xFFF) * 4]
        elif word & 0xFF00001F == 0xB4000010:  # cbz x16
            place = place if x16 else place - 4 + (word >> 5 & 0x7FFFF) * 4
        elif word == 0xD61F0200:  # br x16
            return "br", x16
        elif word == 0xD65F03C0:  # ret
            return "ret", w0
        else:
            raise AssertionError(f"{word:#x} at {place - 4}")


@pytest.mark.parametrize("kind", machine.MACHINES)
def test_its_segments_share_no_page_also_where_pages_have_64_kb(kind):
    file = shared_object("libx.so", NAMES, kind, answer=3)
    offset, count = struct.unpack_from("<Q", file, 32)[0], struct.unpack_from("<H", file, 56)[0]
    headers = [struct.unpack_from("<IIQQQQQQ", file, offset + 56 * number) for number in range(count)]
    loaded = [each for each in headers if each[0] == 1]
    pages = [range(at // 65536, (at + size - 1) // 65536 + 1) for _, _, _, at, _, _, size, _ in loaded]
    assert not set(pages[0]) & set(pages[1])
    assert [flags for _, flags, *_ in loaded] == [0b101, 0b110]
    assert all(at % 65536 == place % 65536 for _, _, place, at, *_ in loaded)


def test_where_memory_cannot_be_loaded_a_temporary_file_is(monkeypatch):
    monkeypatch.setattr("os.memfd_create", refuse)
    assert ctypes.CDLL(None) is not None
    library = Library(("libacl_py_test_of_a_file.so",), NAMES[:1], 5)
    assert ctypes.CDLL("libacl_py_test_of_a_file.so").acl_py_test_0() == 5
    assert library.address(NAMES[0])


def test_where_neither_can_be_loaded_a_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("os.memfd_create", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o500)
    with suppress(PermissionError):  # the superuser may write there
        (tmp_path / "x").touch()
        pytest.skip("this user may write to each folder")
    with pytest.raises(RuntimeError, match=r"loads no library from memory or from .*TMPDIR"):
        Library(("libacl_py_test_2.so",), NAMES[:1], 5)


@pytest.mark.parametrize(
    ("name", "answer", "found"),
    [
        ("machine", "riscv64", "CPython on Linux riscv64, with glibc"),
        ("python_implementation", "PyPy", "PyPy on Linux .*, with glibc"),
        ("libc_ver", ("musl", "1.2.5"), "CPython on Linux .*, with musl"),
        ("libc_ver", ("", ""), "CPython on Linux .*, with no glibc"),  # what some Pythons say of musl
    ],
)
def test_on_other_machines_a_sentence_says_what_is_needed(monkeypatch, name, answer, found):
    monkeypatch.setattr(f"platform.{name}", lambda: answer)
    with pytest.raises(
        RuntimeError, match=f"needs CPython on Linux with glibc, on x86_64 or aarch64; this is {found}$"
    ):
        Library(("libacl_py_test_3.so",), NAMES[:1], 5)


def refuse(*_):
    raise OSError(1, "Operation not permitted")
