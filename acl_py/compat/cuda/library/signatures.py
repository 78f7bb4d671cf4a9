"""The functions of the driver's library as data: names, versions and arguments, which functions.txt has.

A line has the exported name, the version that brought it, the ending of its twin for the default stream of the thread
("-" if it has none), and its arguments as `name:kind`. The kinds are:

    u1 u2 u4 u8 i4 f4       a number of so many bytes: unsigned, signed or a float; u8 also stands for addresses
    b64                     64 bytes by value
    text                    the address of a text that ends with NUL
    pointer                 any other address: the function itself reads or writes there
    stream, event, ...      a handle of an object of this kind
    out.KIND                where a number or a handle is to be written; with a "?" the address may be null
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_name("functions.txt")
_VERSION = r"_v\d+$"
NUMBERS = {"u1": 1, "u2": 2, "u4": 4, "u8": 8, "i4": 4, "f4": 4}  # kinds of numbers, and their bytes


class Parameter(NamedTuple):
    """An argument: its *name*, its *kind* without "out.", and whether it is an address for a result."""

    name: str
    kind: str
    is_out: bool
    is_optional: bool


class Signature(NamedTuple):
    """A function of the library.

    Attributes:
        name: As it is exported, such as "cuMemAlloc_v2".
        since: The version of the driver that brought it, such as 3020 for 3.2.
        twin: The ending of its twin, for which stream 0 is the default stream of the thread: "_ptsz", "_ptds" or "".
        parameters: Its arguments.
    """

    name: str
    since: int
    twin: str
    parameters: tuple[Parameter, ...]

    @property
    def base(self) -> str:
        """The name without its version, by which programs ask for a function."""
        return re.sub(_VERSION, "", self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which it is exported: its own, and that of its twin."""
        return (self.name, self.name + self.twin) if self.twin else (self.name,)


@cache
def read() -> dict[str, Signature]:
    """Return all functions by name."""
    lines = _FILE.read_text().splitlines()
    return {each.name: each for each in map(_signature, lines)}


def exported() -> Iterator[tuple[str, Signature, bool]]:
    """Yield each exported name, its function, and whether it is that of the twin."""
    for signature in read().values():
        for name in signature.names:
            yield name, signature, name != signature.name


@cache
def newest(base: str, version: int) -> Signature | None:
    """Return the newest function called *base* that a driver of *version* has, or None."""
    candidates = [each for each in read().values() if each.base == base and each.since <= version]
    return max(candidates, key=lambda each: each.since, default=None)


def signature(name: str, parameters: Iterable[str]) -> Signature:
    """Return the signature of a function that has no twin, from its *parameters* as a line has them."""
    return Signature(name, 0, "", tuple(map(_parameter, parameters)))


def _signature(line: str) -> Signature:
    name, since, twin, *parameters = line.split()
    ending = "" if twin == "-" else f"_{twin}"
    return Signature(name, int(since), ending, tuple(map(_parameter, parameters)))


@cache  # many functions have the same ones
def _parameter(text: str) -> Parameter:
    name, _, kind = text.partition(":")
    is_out, is_optional = kind.startswith("out."), kind.endswith("?")
    return Parameter(name, kind.removeprefix("out.").rstrip("?"), is_out, is_optional)
