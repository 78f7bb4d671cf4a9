"""The store of a sweep: a file with a line of JSON for each row that has ended, so that a sweep can go on later.

A row is known by the program, what the program refers to in its module, its point, the profile of the card, and the
version of acl_py. A row that was made by another state of these is kept in the file and not used.
"""

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from acl_py import __version__
from acl_py.sweeps.files import lines_file
from acl_py.sweeps.points import Point, Program, card_digest
from acl_py.sweeps.rows import Row, plain_json

_FORM = "acl_py sweep 2"


class StoreError(ValueError):
    """A store that cannot be used."""


class Store:
    """The store in the file *path* of a sweep of the program *name*, which *state* stands for.

    Raises:
        StoreError: The file is no store, or that of another program.
        OSError: It cannot be read or written.
        ImportError: The path is an address that needs a package.
    """

    def __init__(self, path: str | Path, name: str, state: str) -> None:
        self.path = str(path)
        self._name = name
        self._state = state
        self._rows: dict[str, Row] = {}  # by their keys
        self._points: dict[str, None] = {}  # as JSON, of rows of any state
        self._file = lines_file(path)
        *whole, torn = self._file.read().split(b"\n")
        if whole:
            self._read(whole)
        if torn:  # the process was ended in the middle of a line
            self._file.keep(sum(len(line) + 1 for line in whole))
        if not whole:
            self._write({"form": _FORM, "program": name})

    def _read(self, lines: list[bytes]) -> None:
        try:
            head, *entries = [json.loads(line) for line in lines]
            if head["form"] != _FORM:
                raise KeyError(head["form"])
            known = str(head["program"])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path} is no store of a sweep: name another file") from error
        if _last(known) != _last(self._name):
            raise StoreError(f"{self.path} is the store of a sweep of {known}, not of {self._name}: name another file")
        try:
            for entry in entries:
                row = Row(**entry["row"])
                self._rows[entry["key"]] = row
                self._points[_json_of(row.point)] = None
        except (KeyError, TypeError) as error:
            raise StoreError(f"{self.path} has a line that is no row of a sweep: name another file") from error

    def row(self, point: Point) -> Row | None:
        """Return the row of *point*; None if there is none of this state."""
        row = self._rows.get(self._key(point))
        return None if row is None else replace(row, point=point)

    def is_stale(self, point: Point) -> bool:
        """Return whether there is a row of *point*, but none of this state."""
        return self._key(point) not in self._rows and _json_of(point) in self._points

    def _key(self, point: Point) -> str:
        text = json.dumps([self._state, card_digest(point), _json_of(point)])
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def add(self, row: Row) -> None:
        """Keep a row; in a file of this machine it is when this returns."""
        self._rows[self._key(row.point)] = row
        self._write({"key": self._key(row.point), "row": row.plain()})

    def _write(self, what: Mapping[str, Any]) -> None:
        self._file.add(plain_json(what) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _json_of(point: Point) -> str:
    return plain_json(dict(point), sort_keys=True)


def check_points(points: list[dict[str, Any]]) -> None:
    """Refuse points that could not be found again in a store.

    Raises:
        TypeError: A value of a point has no form in JSON.
    """
    for point in points:
        for name, value in point.items():
            try:
                plain_json(value)
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"{name}={value!r} has no form in JSON, so a store could not find its row again: "
                    "give numbers, texts, lists or mappings of these"
                ) from error


def _last(name: str) -> str:
    """Return the name of a function without its module, which is "__main__" if that was run itself."""
    return name.rpartition(".")[2]


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
        else:
            digest.update(f"{name}={_text_of(thing)};".encode())

    take(program, program.__qualname__)
    return digest.hexdigest()[:24]


def _text_of(value: Any) -> str:
    """Return a plain value as text, in any process the same; "" for other things."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(np.ascontiguousarray(value)).hexdigest()}"
    if isinstance(value, set | frozenset):
        return str(sorted(map(repr, value)))
    return repr(value) if isinstance(value, int | float | str | bytes | tuple | list | dict | bool | None) else ""


def _names_in(code: CodeType) -> list[str]:
    """Return the names that *code* and the functions in it look up."""
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names_in(each)]
    return list(dict.fromkeys([*code.co_names, *inner]))
