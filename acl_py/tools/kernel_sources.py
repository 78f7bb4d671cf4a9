"""The names of Ascend C that a source file uses, and what stands for each in `acl_py.asc`.

The names are those of `kernel_names`. A source file is only searched for them, without a compiler: a use is a name in
front of `(` or `<`, outside comments, strings and lines of the preprocessor. A function of the file itself that has the
name of an instruction is no use of it; one that another file defines counts as a use.
"""

import re
from collections.abc import Iterator
from functools import cache
from inspect import getdoc
from types import MappingProxyType
from typing import Any, NamedTuple

from acl_py import asc
from acl_py.kernel_names import NameKind, table, why_missing

_USE = re.compile(r"\b([A-Za-z_]\w*)\s*(?=[(<])")
_DEFINITION = re.compile(r"__aicore__\s+inline\b[^;{}()]*?\b([A-Za-z_]\w*)\s*\(")
_ASCEND_C = re.compile(r" \(Ascend C: [^)]*\)")
_SILENT = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | ^[ \t]*\#(?:\\\n|[^\n])*""", re.DOTALL | re.MULTILINE | re.VERBOSE
)


# Of classes that have methods of one name, these come first: kernels use them most.
_FIRST = ("LocalTensor", "GlobalTensor", "TPipe", "TQue", "Matmul")


class Name(NamedTuple):
    """A name that a source uses: how often, in which line first, and what is known of it.

    Attributes:
        here: The name in `acl_py.asc`, such as "LocalTensor.GetSize"; None if it is not there.
        line: What it does, in a line: of its documentation if it is here, else why it is not.
    """

    name: str
    uses: int
    first: int
    kind: NameKind
    here: str | None
    line: str


@cache
def here() -> MappingProxyType[str, str]:
    """Return where `acl_py.asc` has each of its names: name -> "Add" or "LocalTensor.GetSize"."""
    places = {name: name for name in _public(asc)}
    for name in (*_FIRST, *_public(asc)):
        value = getattr(asc, name)
        if isinstance(value, type):
            for part in _public(value):
                places.setdefault(part, f"{name}.{part}")
    return MappingProxyType(places)


def _public(owner: Any) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]


def used(text: str) -> dict[str, list[int]]:
    """Return the lines in which *text* uses each name of the reference, in the order of first uses."""
    known = table()
    lines: dict[str, list[int]] = {}
    for name, line in _calls(text):
        if name in known:
            lines.setdefault(name, []).append(line)
    return lines


def _calls(text: str) -> Iterator[tuple[str, int]]:
    # A comment becomes as many empty lines, so that the numbers of lines stay.
    spoken = _SILENT.sub(lambda silent: " " + "\n" * silent[0].count("\n"), text)
    for number, line in enumerate(spoken.split("\n"), 1):
        for name in _USE.findall(line):
            yield name, number


def defined(text: str) -> set[str]:
    """Return the names of the functions of a kernel that *text* defines or declares."""
    return set(_DEFINITION.findall(_SILENT.sub(" ", text)))


def names_in(text: str) -> list[Name]:
    """Return the names of the reference that *text* uses and does not define, in the order of first uses."""
    own = defined(text)
    return [_describe(name, lines) for name, lines in used(text).items() if name not in own]


def _describe(name: str, lines: list[int]) -> Name:
    kind, place = table()[name], here().get(name)
    return Name(name, len(lines), lines[0], kind, place, _line_of(name, place))


def _line_of(name: str, place: str | None) -> str:
    if place is not None:
        value: Any = asc
        for part in place.split("."):
            value = getattr(value, part)
        doc = getdoc(value)
        # The name itself is in the table already.
        return _ASCEND_C.sub("", doc.splitlines()[0]) if doc and not isinstance(value, int) else f"asc.{place}"
    return why_missing(name)
