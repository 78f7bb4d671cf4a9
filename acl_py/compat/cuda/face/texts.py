"""Texts for C, which stay where they are."""

import ctypes
from functools import cache
from typing import Any

_kept: list[Any] = []


@cache
def c_text(text: str) -> int:
    """Return the address of *text* in C; it stays there."""
    kept = ctypes.create_string_buffer(text.encode())
    _kept.append(kept)
    return ctypes.addressof(kept)
