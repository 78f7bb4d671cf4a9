"""The store of a sweep: a file with a line of JSON for each row that has ended, so that a sweep can go on later.

A row is known by the program, what the program refers to in its module, the point and the version of acl_py. A row that
was made by another state of the program is kept in the file and not used.
"""

import hashlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import IO, Any

from acl_py import __version__
from acl_py.sweeps.points import Point, Program
from acl_py.sweeps.rows import Row

_FORM = "acl_py sweep 1"


class StoreError(ValueError):
    """A store that cannot be used."""


class Store:
    """The store in the file *path* of a sweep of *program*; `rows` are those that count, by their keys.

    Raises:
        StoreError: The file is no store, or that of another program.
        OSError: It cannot be read or written.
    """

    def __init__(self, path: str | Path, program: Program) -> None:
        self.path = Path(path)
        self.rows: dict[str, Row] = {}
        self.stale = 0  # rows of another state of the program
        self._state = state_of(program)
        self._name = f"{program.__module__}.{program.__qualname__}"
        self._file = self._opened()

    def _opened(self) -> IO[str]:
        lines = self.path.read_bytes().split(b"\n") if self.path.exists() else [b""]
        whole, torn = lines[:-1], lines[-1]
        if whole:
            self._read(whole)
        file = self.path.open("r+" if self.path.exists() else "w", encoding="utf-8", newline="\n")
        file.seek(0, 2)
        if torn:  # the process was ended in the middle of a line
            file.truncate(file.tell() - len(torn))
            file.seek(0, 2)
        if not whole:
            self._write(file, {"form": _FORM, "program": self._name})
        return file

    def _read(self, lines: list[bytes]) -> None:
        try:
            head, *rows = [json.loads(line) for line in lines]
            if head["form"] != _FORM:
                raise KeyError
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path} is no store of a sweep: name another file") from error
        if _last(head["program"]) != _last(self._name):
            raise StoreError(f"{self.path} is the store of a sweep of {head['program']}: name another file")
        for row in rows:
            if row["state"] == self._state:
                self.rows[row["key"]] = Row(**row["row"])
            else:
                self.stale += 1

    def key(self, point: Point) -> str:
        """Return what a row of *point* is known by."""
        return hashlib.sha256(json.dumps([self._state, point], sort_keys=True, default=repr).encode()).hexdigest()[:24]

    def add(self, row: Row) -> None:
        """Keep a row; it is in the file when this returns."""
        key = self.key(row.point)
        self.rows[key] = row
        self._write(self._file, {"key": key, "state": self._state, "row": row.plain()})

    @staticmethod
    def _write(file: IO[str], what: Mapping[str, Any]) -> None:
        file.write(json.dumps(what, default=repr) + "\n")
        file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _last(name: str) -> str:
    """Return the name of a function without its module, which is "__main__" if that was run itself."""
    return str(name).rpartition(".")[2]


def state_of(program: Program) -> str:
    """Return what stands for *program*: its code, and the functions and plain values of its module that it uses."""
    digest = hashlib.sha256(__version__.encode())
    seen: dict[int, None] = {}

    def take(thing: Any, name: str) -> None:
        thing = inspect.unwrap(getattr(thing, "function", thing)) if callable(thing) else thing
        if id(thing) in seen or isinstance(thing, ModuleType):
            return
        seen[id(thing)] = None
        if isinstance(thing, FunctionType):
            if thing.__module__ != program.__module__:
                digest.update(f"{name}={thing.__module__}.{thing.__qualname__};".encode())
                return
            digest.update(inspect.getsource(thing).encode())
            for each in _names_in(thing.__code__):
                if each in thing.__globals__:
                    take(thing.__globals__[each], each)
        elif isinstance(thing, type) and thing.__module__ == program.__module__:
            digest.update(inspect.getsource(thing).encode())
        elif isinstance(thing, int | float | str | bytes | tuple | list | dict | bool | None):
            digest.update(f"{name}={thing!r};".encode())

    take(program, program.__qualname__)
    return digest.hexdigest()[:24]


def _names_in(code: CodeType) -> list[str]:
    """Return the names that *code* and the functions in it look up."""
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names_in(each)]
    return list(dict.fromkeys([*code.co_names, *inner]))
