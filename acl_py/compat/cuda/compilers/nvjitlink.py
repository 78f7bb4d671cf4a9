"""nvJitLink, interposed: a program that asks it for machine code gets PTX of the same inputs, in a wrapper.

The linker itself links all the same, so that its errors and its logs are those that a program knows. Its functions
have their own names in a library that is written here, which packages find before they load the linker. That of the
user is loaded with the first call.
"""

import ctypes
import re
from functools import cache, cached_property
from pathlib import Path
from struct import unpack
from typing import Any

from acl_py.compat.cuda.compilers.guarded import address_of, guarded
from acl_py.compat.cuda.compilers.wheels import library, names_in
from acl_py.compat.cuda.face.wrappers import unwrapped, wrapped
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.loading import Library

_PLACES = "nvidia/cu13/lib/libnvJitLink.so.13", "nvidia/nvjitlink/lib/libnvJitLink.so.12"
_SONAME = "libacl_py_nvjitlink.so"  # other libraries ask for the vendor's with names that this one does not have
_FUNCTIONS = tuple(
    f"nvJitLink{name}"
    for name in (
        "Create", "Destroy", "AddData", "AddFile", "Complete", "GetLinkedCubinSize", "GetLinkedCubin",
        "GetLinkedPtxSize", "GetLinkedPtx", "GetLinkedLTOIRSize", "GetLinkedLTOIR", "GetErrorLogSize", "GetErrorLog",
        "GetInfoLogSize", "GetInfoLog", "Version",
    )
)  # fmt: skip
_SUCCESS, _INVALID_INPUT, _INTERNAL = 0, 3, 6  # nvJitLinkResult
_PTX, _LTOIR, _ANY = 2, 3, 10  # nvJitLinkInputType
_ARCHIVE = b"!<arch>\n"  # how a library begins
_IR = b"\xed\x43\x4e\x7f"  # how LTOIR begins
_VERSION = rb"(?m)^\s*\.version\s"
_REGISTERS = rb"-{1,2}maxrregcount[= ](\d+)"
_TYPES = {
    "u4": ctypes.c_uint32,
    "u8": ctypes.c_uint64,
}


class _LinkError(Exception):
    """The linker has answered *code*."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Link:
    """What a program links: the *options* and the inputs, each with its type."""

    def __init__(self, options: list[bytes]) -> None:
        self.options = options
        self.inputs: list[tuple[int, bytes]] = []
        self.image = b""  # once it was asked for

    def add(self, kind: int, data: bytes) -> None:
        """Note an input; of one of any kind, the data say which. A library gives nothing: the device runtime, which
        programs link for its functions, is that of the driver.
        """
        if data.startswith(_ARCHIVE):
            return
        if kind == _ANY:
            kind = _LTOIR if data.startswith(_IR) else _PTX if re.search(_VERSION, data) else kind
        self.inputs.append((kind, data))

    def of(self, kind: int) -> list[bytes]:
        """Return the inputs of a kind."""
        return [data for each, data in self.inputs if each == kind]

    @property
    def is_text(self) -> bool:
        """Whether no input is machine code, so that PTX can stand for all."""
        return bool(self.inputs) and all(kind in (_PTX, _LTOIR) for kind, _ in self.inputs)

    @property
    def registers(self) -> int:
        """The most that a thread may have, or 0."""
        found = [re.fullmatch(_REGISTERS, option) for option in self.options]
        return next((int(each[1]) for each in found if each), 0)


class _Interposed:
    """The linker in the file *path* behind a library of ours."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._links: dict[int, _Link] = {}
        self._names = names_in(path, _FUNCTIONS)
        self._library = Library((_SONAME,), self._names, _INTERNAL)
        self._callbacks = {
            "nvJitLinkCreate": self._callback(self._create, "u8 u4 u8"),
            "nvJitLinkDestroy": self._callback(self._destroy, "u8"),
            "nvJitLinkAddData": self._callback(self._add_data, "u8 u4 u8 u8 u8"),
            "nvJitLinkAddFile": self._callback(self._add_file, "u8 u4 u8"),
            "nvJitLinkGetLinkedCubinSize": self._callback(self._cubin_size, "u8 u8"),
            "nvJitLinkGetLinkedCubin": self._callback(self._cubin, "u8 u8"),
            "nvJitLinkVersion": self._callback(self._version, "u8 u8"),
        }
        for name, callback in self._callbacks.items():
            self._library.put(name, address_of(callback))

    @staticmethod
    def _callback(function: Any, kinds: str) -> Any:
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *(_TYPES[each] for each in kinds.split()))
        return guarded(prototype, function, fault=_INVALID_INPUT, broken=_INTERNAL)

    @cached_property
    def _real(self) -> ctypes.CDLL:
        """The linker, whose functions take the places of those for which there is none of ours."""
        real = ctypes.CDLL(str(self._path))
        for name in set(self._names) - self._callbacks.keys():
            self._library.put(name, address_of(real[name]))
        return real

    def _call(self, name: str, *raw: int | None) -> int:
        return int(self._real[f"nvJitLink{name}"](*(ctypes.c_uint64(each or 0) for each in raw)))

    def _version(self, major: int, minor: int) -> int:
        return self._call("Version", major, minor)

    def _create(self, place: int, count: int, options: int) -> int:
        code = self._call("Create", place, count, options)
        if code == _SUCCESS:
            texts = unpack(f"<{count}Q", own_memory.read(options, 8 * count))
            (handle,) = unpack("<Q", own_memory.read(place, 8))
            self._links[handle] = _Link([own_memory.text(each) for each in texts])
        return code

    def _destroy(self, place: int) -> int:
        (handle,) = unpack("<Q", own_memory.read(place, 8))
        self._links.pop(handle, None)
        return self._call("Destroy", place)

    def _add_data(self, handle: int, kind: int, place: int, nbytes: int, name: int) -> int:
        data = own_memory.read(place, nbytes)
        if (text := unwrapped(data)) is None:
            return self._add(handle, kind, data, self._call("AddData", handle, kind, place, nbytes, name))
        held = ctypes.create_string_buffer(text)
        code = self._call("AddData", handle, _PTX, ctypes.addressof(held), len(held), name)
        return self._add(handle, _PTX, text, code)

    def _add_file(self, handle: int, kind: int, name: int) -> int:
        path = Path(own_memory.text(name).decode(errors="surrogateescape"))
        data = path.read_bytes() if path.is_file() else b""
        if unwrapped(data) is None:
            return self._add(handle, kind, data, self._call("AddFile", handle, kind, name))
        held = ctypes.create_string_buffer(data, len(data))
        return self._add_data(handle, kind, ctypes.addressof(held), len(held), name)

    def _add(self, handle: int, kind: int, data: bytes, code: int) -> int:
        if code == _SUCCESS and handle in self._links:
            self._links[handle].add(kind, data)
        return code

    # --- results

    def _cubin_size(self, handle: int, place: int) -> int:
        code = self._call("GetLinkedCubinSize", handle, place)
        if code == _SUCCESS:
            code, image = self._image(handle)
            own_memory.write(place, len(image).to_bytes(8, "little"))
        return code

    def _cubin(self, handle: int, place: int) -> int:
        code, image = self._image(handle)
        own_memory.write(place, image)
        return code

    def _image(self, handle: int) -> tuple[int, bytes]:
        """Return a code of the linker, and what a program takes for the machine code that it has linked."""
        link = self._links.get(handle) or _Link([])
        try:
            link.image = link.image or (self._text(link) if link.is_text else self._machine_code(handle))
        except _LinkError as error:
            return error.code, b""
        return _SUCCESS, link.image

    def _text(self, link: _Link) -> bytes:
        from acl_py.compat.cuda.face.linked import joined, limited  # imported here: few programs link

        texts = [data.rstrip(b"\0").decode(errors="replace") for data in link.of(_PTX)]
        if intermediate := link.of(_LTOIR):
            texts.insert(0, self._compiled(link.options, intermediate).decode(errors="replace"))
        text = joined(texts)
        return wrapped((limited(text, link.registers) if link.registers else text).encode())

    def _machine_code(self, handle: int) -> bytes:
        """Return what the linker has made, which the driver refuses by name."""
        size = ctypes.c_uint64()
        self._checked("GetLinkedCubinSize", handle, ctypes.addressof(size))
        held = ctypes.create_string_buffer(size.value)
        self._checked("GetLinkedCubin", handle, ctypes.addressof(held))
        return held.raw

    def _compiled(self, options: list[bytes], intermediate: list[bytes]) -> bytes:
        """Return the PTX of *intermediate* code, by a second link."""
        wanted = [*(each for each in options if each not in (b"-ptx", b"-lto")), b"-lto", b"-ptx"]
        array = (ctypes.c_char_p * len(wanted))(*wanted)
        handle = ctypes.c_uint64()
        self._checked("Create", ctypes.addressof(handle), len(wanted), ctypes.addressof(array))
        try:
            return self._linked(handle.value, intermediate)
        finally:
            self._call("Destroy", ctypes.addressof(handle))

    def _linked(self, handle: int, intermediate: list[bytes]) -> bytes:
        name = ctypes.create_string_buffer(b"input")
        held = [ctypes.create_string_buffer(each, len(each)) for each in intermediate]
        for each in held:
            self._checked("AddData", handle, _LTOIR, ctypes.addressof(each), len(each), ctypes.addressof(name))
        self._checked("Complete", handle)
        size = ctypes.c_uint64()
        self._checked("GetLinkedPtxSize", handle, ctypes.addressof(size))
        text = ctypes.create_string_buffer(size.value)
        self._checked("GetLinkedPtx", handle, ctypes.addressof(text))
        return text.value

    def _checked(self, name: str, *raw: int) -> None:
        if code := self._call(name, *raw):
            raise _LinkError(code)


@cache
def interpose() -> _Interposed | None:
    """Put nvJitLink behind a library of ours, once; None if no wheel has brought it."""
    path = library(*_PLACES)
    return None if path is None else _Interposed(path)
