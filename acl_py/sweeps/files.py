"""The file of a store: on this machine, or wherever fsspec reaches, such as "s3://bucket/out.jsonl"."""

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import IO, Any, Protocol

from acl_py.late_imports import import_late

_EACH_S = 1.0  # between two writes to another machine


class LinesFile(Protocol):
    """A file of lines, to which more are added."""

    def read(self) -> bytes:
        """Return all that it has; b"" if there is no file."""

    def keep(self, size: int) -> None:
        """Leave out what is behind the first *size* bytes."""

    def add(self, line: str) -> None:
        """Add a line."""

    def close(self) -> None:
        """Write what is not written yet."""


def is_remote(path: str | Path) -> bool:
    """Return whether *path* is an address for fsspec."""
    return "://" in str(path)


def lines_file(path: str | Path) -> LinesFile:
    """Return the file *path*.

    Raises:
        ImportError: It is an address, and fsspec, or what it needs to get there, is missing.
        ValueError: There is no such kind of address.
    """
    return RemoteFile(str(path)) if is_remote(path) else LocalFile(Path(path))


class LocalFile:
    """A file of this machine. A line is in it when `add` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def read(self) -> bytes:
        """Return all that it has."""
        return self._path.read_bytes() if self._path.exists() else b""

    def keep(self, size: int) -> None:
        """Leave out what is behind the first *size* bytes."""
        self._opened().truncate(size)

    def add(self, line: str) -> None:
        """Add a line."""
        file = self._opened()
        file.write(line.encode())
        file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._file = self._path.open("ab")
        return self._file


class RemoteFile:
    """A file elsewhere. Lines are written once a second, so a process that is killed loses those of its last second."""

    def __init__(self, path: str, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lines: list[str] = []
        self._written_s = clock()
        self._system, self._place = filesystem_of(path)

    def read(self) -> bytes:
        """Return all that it has."""
        found: bytes = self._system.cat_file(self._place) if self._system.exists(self._place) else b""
        return found

    def keep(self, size: int) -> None:
        """Leave out what is behind the first *size* bytes."""
        self._system.pipe_file(self._place, self.read()[:size])

    def add(self, line: str) -> None:
        """Add a line."""
        self._lines.append(line)
        if self._clock() - self._written_s >= _EACH_S:
            self._write()

    def close(self) -> None:
        """Write what is not written yet."""
        self._write()

    def _write(self) -> None:
        text, self._lines = "".join(self._lines).encode(), []
        self._written_s = self._clock()
        if not text:
            return
        try:
            with self._system.open(self._place, "ab") as file:
                file.write(text)
        # An object store cannot append to a file, and some file systems do not create the file to which they append.
        except (NotImplementedError, ValueError, FileNotFoundError):
            self._system.pipe_file(self._place, self.read() + text)


def filesystem_of(path: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it.

    Raises:
        ImportError: fsspec, or what it needs to get there, is missing.
        ValueError: There is no such kind of address.
    """
    try:
        fsspec = import_late("fsspec")
    except ImportError as error:
        raise ImportError(f"{path}: an address needs the package fsspec: pip install 'acl_py[dask]'") from error
    system, place = fsspec.core.url_to_fs(path)
    return system, place
