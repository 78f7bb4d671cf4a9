"""Images: what a program hands over as the code of its kernels.

It is text in PTX, or PTX in a wrapper (wrappers.py). For machine code itself there may be a stand-in (standins.py).
"""

import re
from pathlib import Path

from acl_py.compat.cuda.face import standins
from acl_py.compat.cuda.face.codes import (
    INVALID_IMAGE,
    INVALID_PTX,
    NOT_SUPPORTED,
    UNSUPPORTED_PTX_VERSION,
    RefusedError,
)
from acl_py.compat.cuda.face.state import driver_here
from acl_py.compat.cuda.face.versions import newest_ptx
from acl_py.compat.cuda.face.wrappers import HEAD, MACHINE_CODE, MARK, unwrapped
from acl_py.compat.cuda.library import own_memory
from acl_py.runtime.scopes import scope_var
from device_model.ptx.text.errors import PtxError, Refusal

_FAT = b"\x50\xed\x55\xba"  # how a collection of machine code begins
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)


def text_at(address: int) -> str:
    """Return the PTX of the image at *address*.

    Raises:
        RefusedError: It is no image (200), machine code without a stand-in (209), or PTX that is newer than the driver
            (222).
        FaultError: There is no such memory.
    """
    image = _image_at(address)
    return _checked(standins.of_bytes(address) if _is_machine_code(image) else _text_of(image))


def text_in(file: Path) -> str:
    """Return the PTX of the image in *file*; `RefusedError` as for `text_at`."""
    image = file.read_bytes()
    return _checked(standins.of_file(file) if _is_machine_code(image) else _text_of(image))


def _is_machine_code(image: bytes) -> bool:
    return unwrapped(image) is None and image.startswith((_FAT, MACHINE_CODE))


def _text_of(image: bytes) -> str:
    data = unwrapped(image)
    return (image if data is None else data).rstrip(b"\0").decode(errors="replace")


def _checked(text: str) -> str:
    check_version(text)
    return text


def _image_at(address: int) -> bytes:
    """Return the image at *address*; of machine code no more than its beginning, because its end is not known."""
    start = own_memory.read(address, len(MACHINE_CODE))
    if start == _FAT:
        return start
    if start != MACHINE_CODE:
        return own_memory.text(address)
    head = own_memory.read(address, HEAD.size)
    _, mark, nbytes = HEAD.unpack(head)
    return own_memory.read(address, HEAD.size + nbytes) if mark.startswith(MARK) else head


def check_version(text: str) -> None:
    """Refuse what is no PTX, or PTX that is newer than the driver."""
    version = _VERSION.search(text)
    if version is None:
        raise RefusedError(INVALID_IMAGE, "the image is neither PTX nor machine code")
    newest = newest_ptx(driver_here(scope_var.get()))
    if (int(version[1]), int(version[2])) > newest:
        what = f"PTX {version[1]}.{version[2]} is newer than {newest[0]}.{newest[1]} of the driver"
        raise RefusedError(UNSUPPORTED_PTX_VERSION, what)


_CODES = {
    Refusal.BAD_TEXT: INVALID_PTX,
    Refusal.NEWER_TARGET: INVALID_PTX,
    Refusal.NEWER_VERSION: UNSUPPORTED_PTX_VERSION,
    Refusal.NOT_SIMULATED: NOT_SUPPORTED,
}


def refused(error: PtxError) -> RefusedError:
    """Return the refusal of a text."""
    return RefusedError(_CODES[error.kind], f"{error}")
