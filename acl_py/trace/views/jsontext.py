"""JSON text, for writers of long files: much faster than to build an object for each line. Lines.py is faster still.

A trace repeats few strings very often, so each of them is encoded once.
"""

import json
from collections.abc import Iterable
from typing import IO


class Quoted(dict[str, str]):
    """The JSON text of strings, with quotation marks."""

    __slots__ = ()

    def __missing__(self, text: str) -> str:
        encoded = self[text] = json.dumps(text)
        return encoded


def write_list(file: IO[str], begin: str, items: Iterable[str], end: str) -> None:
    """Write *items*, the texts of JSON values, one per line, between *begin* and *end*."""
    file.write(begin + "\n")
    separator = ""
    for item in items:
        file.write(separator + item)
        separator = ",\n"
    file.write("\n" + end + "\n")
