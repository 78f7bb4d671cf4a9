"""Whole files: a file that is written is the old one, or all of the new one, whatever ends the process.

The bytes go to an unfinished file beside the path. Once they are on the disk, it takes the place of the old file. A
process that is killed in between leaves the unfinished file; its name has the word "unfinished".
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

UNFINISHED = ".acl-py-unfinished-"  # between the name of a file and random digits
_LONGEST = 200  # bytes of the name of a file, of the 255 that a name may have
_LINKS = 40  # of which a path may consist
_BYTES: dict[str, Any] = {"mode": "wb"}  # how a file is opened
# Half of a surrogate pair, which UTF-8 cannot have, is written as its escape sequence: in JSON that is the same text.
_TEXT: dict[str, Any] = {"mode": "w", "encoding": "utf-8", "errors": "backslashreplace", "newline": ""}


@contextmanager
def writing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file whose bytes become those of the file *path* when the block ends; if it raises, *path* is as before.

    A link keeps pointing at the file, and the file keeps its mode. What is not an ordinary file, such as a pipe, and
    what names an open file, such as /dev/stdout, gets the bytes at once.

    Raises:
        OSError: the file cannot be written. Its `filename` is *path*.
    """
    with _opened(path, _BYTES) as file:
        yield file


@contextmanager
def writing_text(path: str | Path) -> Iterator[IO[str]]:
    """Do what `writing` does for a text in UTF-8; its ends of lines stay as they are."""
    with _opened(path, _TEXT) as file:
        yield file


def write_text(path: str | Path, text: str) -> None:
    """Write *text* to the file *path*, in UTF-8. Raises OSError as `writing` does."""
    with writing_text(path) as file:
        file.write(text)


@contextmanager
def _opened(path: str | Path, form: Mapping[str, Any]) -> Iterator[IO[Any]]:
    try:
        old = _mode_of(path)
        if (old is None or stat.S_ISREG(old)) and not _names_open_file(path):
            with _replacing(Path(os.path.realpath(path)), old, form) as file:
                yield file
        else:
            with open(path, **form) as file:
                yield file
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error  # a full disk names no file


def _mode_of(path: str | Path) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _names_open_file(path: str | Path) -> bool:
    """Return whether *path* is /dev/stdout, /dev/fd/3 or another name of an open file: a link in the folder /proc."""
    at = os.path.abspath(path)
    for _ in range(_LINKS):
        if not os.path.islink(at):
            return False
        folder = os.path.realpath(os.path.dirname(at))
        if folder.startswith("/proc/"):
            return True
        at = os.path.join(folder, os.readlink(at))
    return False


@contextmanager
def _replacing(target: Path, old: int | None, form: Mapping[str, Any]) -> Iterator[IO[Any]]:
    """Open a file beside *target* that takes its place when the block ends; *old* is the mode of one that is there."""
    if old is not None:
        os.close(os.open(target, os.O_WRONLY))  # a file that may not be written is not replaced either
    name = os.fsdecode(os.fsencode(target.name)[:_LONGEST])
    unfinished = target.with_name(f"{name}{UNFINISHED}{os.urandom(4).hex()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, **form) as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        if old is not None:
            os.chmod(unfinished, stat.S_IMODE(old))
        os.replace(unfinished, target)
    except BaseException:
        with suppress(FileNotFoundError):  # it has taken its place, or its folder is gone
            os.unlink(unfinished)
        raise
