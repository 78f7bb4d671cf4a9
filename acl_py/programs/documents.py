"""JSON files from unknown sources. Each document of a file is read, and `Odd` replaces a part that cannot be read.

Python's reader gives up the whole file at a number of 5,000 digits or at some thousand levels of nesting, and it keeps
the last of two equal keys. Here such a value becomes an `Odd`, which is valid in no field. So the document that uses it
is refused with a message that says where it is, and the other documents are read.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

_DIGITS = 100  # of a whole number: no size, time or address has more
_PACKED = b"\x1f\x8b"  # the first bytes of a file of gzip
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)


class DocumentError(ValueError):
    """A file that cannot be read; the message names the file and the problem."""


class Odd:
    """Replaces a part of a document that cannot be read; `str()` describes it."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __str__(self) -> str:
        return self._what

    def __repr__(self) -> str:
        return f"<{self._what}>"


def read(path: str | Path) -> tuple[str, list[Any]]:
    """Read the file at *path*, or standard input for "-".

    Returns:
        The name of the file for messages, and its documents: the elements of a list, or a single one.

    Raises:
        DocumentError: the file cannot be read, is not UTF-8 or is not JSON.
    """
    name = "standard input" if str(path) == "-" else str(path).encode("unicode_escape").decode()
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise DocumentError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        trace = "; it may be a trace of --format acl: `acl-py report` reads it" if data.startswith(_PACKED) else ""
        raise DocumentError(f"{name}: is not UTF-8 text: {error.reason} at byte {error.start}{trace}") from error
    try:
        document = _DECODER.decode(text)
    except RecursionError:
        return name, _one_by_one(text, name)
    except json.JSONDecodeError as error:
        script = "; it is a Python script: `acl-py run` runs it" if name.endswith(".py") else ""
        raise DocumentError(f"{name}: is not JSON: {error}{script}") from error
    return name, document if isinstance(document, list) else [document]


def short(value: object) -> str:
    """Return *value*, a part of a document, as text of about 60 characters."""
    if isinstance(value, Odd):
        return str(value)
    try:
        text = json.dumps(value, default=str)
    except (RecursionError, ValueError):  # built by a program: deeper, or with more digits, than Python can print
        return f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _integer(digits: str) -> int | Odd:
    count = len(digits.lstrip("-"))
    return int(digits) if count <= _DIGITS else Odd(f"a number of {count:,} digits")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Odd:
    values = dict(pairs)
    if len(values) == len(pairs):
        return values
    names = [name for name, _ in pairs]
    twice = next(name for index, name in enumerate(names) if name in names[:index])
    return Odd(f"an object that has {short(twice)} twice")


_DECODER = json.JSONDecoder(parse_int=_integer, object_pairs_hook=_object)


def _one_by_one(text: str, name: str) -> list[Any]:
    """Return the documents of a *text* in which one is nested too deeply for the reader."""
    documents: list[Any] = []
    for piece, depth in _pieces(text):
        try:
            documents.append(_DECODER.decode(piece))
        except RecursionError:
            documents.append(Odd(f"JSON nested {depth:,} levels deep"))
        except json.JSONDecodeError as error:
            raise DocumentError(f"{name}: program {len(documents)}: is not JSON: {error}") from error
    return documents


def _pieces(text: str) -> list[tuple[str, int]]:
    """Return the elements of *text* if it is a list, or else all of it, each with its depth of nesting."""
    if not text.lstrip().startswith("["):
        return [(text, _depth(text))]
    pieces = []
    depth = begin = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth == 1:
                begin = token.end()
        elif token[0] in "]}":
            depth -= 1
        if (depth == 1 and token[0] == ",") or (depth == 0 and token[0] == "]"):
            piece = text[begin : token.start()]
            pieces.append((piece, _depth(piece)))
            begin = token.end()
    if text[begin:].strip():  # not JSON: the reader will report it
        pieces.append((text[begin:], _depth(text[begin:])))
    return pieces


def _depth(text: str) -> int:
    depth = deepest = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        deepest = max(deepest, depth)
    return deepest
