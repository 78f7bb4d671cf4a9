"""The linker of the driver: texts in PTX become one image."""

import ctypes
from struct import unpack
from typing import Any

import acl_py as native
from acl_py.compat.cuda.driver.modules import reading, text_of_file
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.images import check_version, text_at
from acl_py.compat.cuda.face.linked import joined, limited
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.face.wrappers import wrapped
from acl_py.compat.cuda.library import own_memory

_CUBIN, _PTX, _LIBRARY = 0, 1, 4  # CUjitInputType
_ARCHIVE = b"!<arch>\n"  # how a library begins
_MAX_REGISTERS = 0  # CUjit_option


class Link:
    """What is to be linked, and the image once that is done."""

    def __init__(self, registers: int | None) -> None:
        self.registers = registers  # the most that a thread may have
        self.texts: list[str] = []
        self.image: Any = None  # the program has its address


@answers("cuLinkCreate_v2")
async def create(_: Driver, count: int, options: int, values: int) -> Link:
    """Begin to link. Options other than the number of registers are about machine code, which is not made."""
    keys = unpack(f"<{count}I", own_memory.read(options, 4 * count))
    given = dict(zip(keys, unpack(f"<{count}Q", own_memory.read(values, 8 * count)), strict=True))
    return Link(given.get(_MAX_REGISTERS))


@answers("cuLinkAddData_v2")
async def add(driver: Driver, link: Link, kind: int, data: int, nbytes: int, *_: Any) -> None:
    """Add a text, or an image with one in it. A library, which has machine code, gives nothing: a function that is
    missing then is named when the image is loaded.
    """
    if kind == _PTX:
        text = own_memory.read(data, nbytes).rstrip(b"\0").decode(errors="replace")
        check_version(text)
    elif kind == _CUBIN:
        text = text_at(data)
    elif kind == _LIBRARY and own_memory.read(data, nbytes).startswith(_ARCHIVE):
        return
    else:
        raise _no_text(driver, kind)
    link.texts.append(text)


@answers("cuLinkAddFile_v2")
async def add_file(driver: Driver, link: Link, kind: int, name: str, *_: Any) -> None:
    """Add the file *name*, as `add` does with what lies in memory."""
    if kind in (_PTX, _CUBIN):
        link.texts.append(text_of_file(name))
        return
    with reading(name) as file:
        if kind != _LIBRARY or not file.read_bytes().startswith(_ARCHIVE):
            raise _no_text(driver, kind)


def _no_text(driver: Driver, kind: int) -> native.AclError:
    return driver.runtime.error(native.Kind.NOT_SUPPORTED, f"an input of the linker of kind {kind}", "add PTX")


@answers("cuLinkComplete")
async def complete(_: Driver, link: Link) -> tuple[int, int]:
    """The address of the image, which lives as long as the link, and its bytes."""
    if not link.texts:
        raise RefusedError(INVALID_VALUE, "there is nothing to link")
    text = joined(link.texts)
    if link.registers is not None:
        text = limited(text, link.registers & 0xFFFFFFFF)
    data = wrapped(text.encode())
    link.image = ctypes.create_string_buffer(data, len(data))
    return ctypes.addressof(link.image), len(data)


@answers("cuLinkDestroy")
async def destroy(driver: Driver, link: Link) -> None:
    """End a link, and its image."""
    driver.handles.forget(link)
