"""The formats of C's printf, for what kernels print."""

import re
from typing import Any

# The length modifiers of C's printf that Python does not know.
_LENGTHS = re.compile(r"(%[-+ #0]*[\d*]*(?:\.[\d*]*)?)(?:hh|ll|[zjt])(?=[a-zA-Z])")


def formatted(text: str, args: tuple[Any, ...]) -> str:
    """Return *text* with `%d`, `%lld`, `%f`, `%s` and the like replaced by *args*, without a newline at its end."""
    return (_LENGTHS.sub(r"\1", text) % args if args else text).removesuffix("\n")
