"""Wrappers of PTX: what the interposed compilers give out where a card's compilers make machine code."""

from struct import Struct

MACHINE_CODE = b"\x7fELF"  # how it begins
HEAD = Struct("<16s16sQ")
_IDENT, MARK = MACHINE_CODE + b"\x02\x01\x01", b"acl_py PTX"


def wrapped(text: bytes) -> bytes:
    """Return what a program takes for machine code, with *text* in it."""
    return HEAD.pack(_IDENT, MARK, len(text)) + text + b"\0"


def unwrapped(image: bytes) -> bytes | None:
    """Return the text in *image*, or None if it is no wrapper."""
    if not image.startswith(_IDENT) or len(image) < HEAD.size:
        return None
    _, mark, nbytes = HEAD.unpack_from(image)
    return image[HEAD.size : HEAD.size + nbytes] if mark.startswith(MARK) else None
