"""Linking: texts in PTX become one.

Names without linkage belong to their text, so one that another text defines too is made unique. Of a weak function or
variable that more than one text defines, one is kept.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

_HEAD = re.compile(r"^[ \t]*\.(version|target|address_size)\b[ \t]*([^\n]*)", re.MULTILINE)
_PIECE = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|[{};]|\.file\b[^\n]*', re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LINKAGE = r"\s*((?:\.(?:visible|extern|weak|common)\s+)*)"
_FUNCTION = re.compile(_LINKAGE + r"\.(?:entry|func)\b\s*(?:\([^)]*\)\s*)?(?:\.\w+\s+)*([\w$]+)")
_VARIABLE = re.compile(
    _LINKAGE + r"\.(?:global|const|shared)\b(?:\s*\.attribute\s*\([^)]*\)|\s*\.\w+(?:\s+\d+)?)*\s+([\w$]+)"
)
_FILE = re.compile(r"(\.file\s+|\.loc\s+|\binlined_at\s+)(\d+)")
_ENTRY = re.compile(r"(\.entry\s+[\w$]+\s*(?:\([^)]*\))?)")  # a kernel, up to where its limits stand


class _Part(NamedTuple):
    """A declaration of a text, or what stands between declarations: then *name* is ""."""

    text: str
    linkage: str
    name: str

    @property
    def is_definition(self) -> bool:
        """Whether the name is defined here."""
        return bool(self.name) and ".extern" not in self.linkage and not self._is_prototype

    @property
    def _is_prototype(self) -> bool:
        return _FUNCTION.match(_COMMENT.sub("", self.text)) is not None and self.text.endswith(";")

    @property
    def is_weak(self) -> bool:
        """Whether another definition may be taken instead."""
        return ".weak" in self.linkage or ".common" in self.linkage


def joined(texts: Sequence[str]) -> str:
    """Return one text with what all *texts* define."""
    numbered = list(_with_own_files(texts))
    definitions = [Counter(part.name for part in _parts(text) if part.is_definition) for text in numbered]
    unique = [_with_own_names(place, text, definitions) for place, text in enumerate(numbered)]
    parts = [part for text in unique for part in _parts(text)]
    return _head(texts) + "".join(part.text for part in _without_spare(parts))


def limited(text: str, registers: int) -> str:
    """Return *text* with kernels that have up to so many *registers*."""
    return _ENTRY.sub(rf"\1 .maxnreg {registers}", text)


def _head(texts: Iterable[str]) -> str:
    """Return the head for *texts*: the newest version and the newest target."""
    heads = [dict(_HEAD.findall(text)) for text in texts]
    version = max((head.get("version", "") for head in heads), key=_numbers)
    target = max((head.get("target", "") for head in heads), key=_numbers)
    return f".version {version}\n.target {target}\n.address_size 64\n"


def _numbers(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]


def _parts(text: str) -> Iterator[_Part]:
    """Yield what stands in *text* at the top, without its head."""
    body = _HEAD.sub("", text.rstrip("\0"))
    start = depth = 0
    for piece in _PIECE.finditer(body):
        depth += (piece[0] == "{") - (piece[0] == "}")
        if not depth and (piece[0] in ";}" or piece[0].startswith(".file")):
            yield _part(body[start : piece.end()])
            start = piece.end()
    yield _part(body[start:])


def _part(text: str) -> _Part:
    bare = _COMMENT.sub("", text)
    found = _FUNCTION.match(bare) or _VARIABLE.match(bare)
    return _Part(text, found[1], found[2]) if found else _Part(text, "", "")


def _with_own_files(texts: Iterable[str]) -> Iterator[str]:
    """Yield *texts* with numbers of source files that no other text uses."""
    used = 0
    for text in texts:
        yield _FILE.sub(partial(_moved, used), text)
        used += max((int(number) for _, number in _FILE.findall(text)), default=0)


def _moved(by: int, match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) + by}"


def _with_own_names(place: int, text: str, definitions: Sequence[Counter[str]]) -> str:
    """Return the text at *place* with other names for what belongs to it and is defined in another text too."""
    elsewhere = set().union(*definitions[:place], *definitions[place + 1 :])
    for name in {part.name for part in _parts(text) if part.is_definition and not part.linkage} & elsewhere:
        text = re.sub(rf"(?<![\w$.%]){re.escape(name)}(?![\w$])", f"{name}$text{place}", text)
    return text


def _without_spare(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Yield *parts* without weak definitions of what is defined before, or defined for good."""
    defined = {part.name for part in parts if part.is_definition and not part.is_weak}
    for part in parts:
        if part.is_definition and part.is_weak:
            if part.name in defined:
                continue
            defined.add(part.name)
        yield part
