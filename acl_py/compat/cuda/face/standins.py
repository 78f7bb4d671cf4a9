"""Stand-ins of machine code: `kernels.cubin.ptx` beside `kernels.cubin` has the same kernels in PTX.

Machine code is never run. Where a program loads such a file, or hands over the bytes of one that lies in the current
folder or in that of the script, its stand-in is loaded.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from acl_py.compat.cuda.face.codes import NO_BINARY_FOR_GPU, RefusedError
from acl_py.compat.cuda.library import own_memory

_SUFFIX = ".ptx"


def of_file(file: Path) -> str:
    """Return the text that stands for the machine code in *file*; `RefusedError` (209) if there is none."""
    standin = file.with_name(file.name + _SUFFIX)
    if not standin.is_file():
        what = f"{file} is machine code, which cannot be run: load PTX instead, or put it beside the file, as {standin}"
        raise RefusedError(NO_BINARY_FOR_GPU, what)
    return standin.read_text(errors="replace")


def of_bytes(address: int) -> str:
    """Return the text that stands for the machine code at *address*; `RefusedError` (209) if there is none."""
    for file in _files():
        if _is_at(address, file.read_bytes()):
            return of_file(file)
    raise RefusedError(
        NO_BINARY_FOR_GPU,
        "the image is machine code, which cannot be run: load PTX instead, or write the image to a file kernels.cubin "
        "in the current folder, and its PTX to kernels.cubin.ptx beside it",
    )


def _files() -> Iterator[Path]:
    """Yield the files near the program that have a stand-in."""
    for folder in dict.fromkeys((Path.cwd(), Path(sys.argv[0]).absolute().parent)):
        for standin in sorted(folder.glob(f"*{_SUFFIX}")):
            file = standin.with_suffix("")
            if file.is_file():
                yield file


def _is_at(address: int, content: bytes) -> bool:
    try:
        return bool(content) and own_memory.read(address, len(content)) == content
    except own_memory.FaultError:  # the image is shorter
        return False
