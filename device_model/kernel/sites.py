"""Lines of kernels: where an instruction was issued."""

from functools import cache
from pathlib import Path
from sys import _getframe
from types import CodeType, FrameType

# Where the languages of kernels are written, and NumPy, which calls them. A line of a kernel is outside of them.
_PACKAGES = ("device_model.aicore", "device_model.cta", "device_model.kernel", "numpy")


class Site:
    """A line of a kernel; str() gives "file.py:12"."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti

    @property
    def file(self) -> str:
        """The path of the file, as Python knows it."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line in it."""
        return _line(self.code, self.lasti)

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"

    def __repr__(self) -> str:
        return f"<Site {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Site) and self.code is other.code and self.lasti == other.lasti

    def __hash__(self) -> int:
        return hash((id(self.code), self.lasti))


@cache
def _line(code: CodeType, lasti: int) -> int:
    for start, stop, line in code.co_lines():
        if start <= lasti < stop and line is not None:
            return line
    return code.co_firstlineno


def frame_of_kernel(inner: FrameType) -> FrameType:
    """Return the nearest frame outside the languages of kernels, which is the kernel's line; *inner* if none is."""
    frame: FrameType | None = inner
    while frame is not None and _IS_LANGUAGE[frame.f_globals.get("__package__")]:
        frame = frame.f_back
    return inner if frame is None else frame


class _IsLanguage(dict[str | None, bool]):
    """Whether a package belongs to the languages, by its name; a look-up takes half the time of a cached function."""

    def __missing__(self, package: str | None) -> bool:
        self[package] = is_language = package is not None and package.startswith(_PACKAGES)
        return is_language


_IS_LANGUAGE = _IsLanguage()


def instruction_of(frame: FrameType) -> tuple[CodeType, int]:
    """Return the code object of *frame* and the offset of the instruction that it runs.

    The offset is not always f_lasti. Before Python 3.13 that is the end of the cache behind a subscript, once the
    interpreter has specialised the subscript: the same line would have two offsets.
    """
    code = frame.f_code
    # A cache is zeros. An argument of 0 goes with them, so the last byte left is an opcode or its argument.
    return code, len(code.co_code[: frame.f_lasti + 1].rstrip(b"\0")) - 1 & -2


def site() -> Site:
    """Return the line of the kernel that is running."""
    return Site(*instruction_of(frame_of_kernel(_getframe(1))))
