"""The prose of a text, and its sentences.

Code counts as one word, and so does a list of it. Each item of a list, each cell of a table and each argument in a
docstring has its own sentences. Such a cell or argument may be a list: a semicolon ends an item of it. Messages that a
page quotes are no prose.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.english.texts import Text

LONG = 30  # a sentence of more words is long
_END = re.compile(r"(?<=[.!?])[\"')*_]{0,3}\s+(?!\.\.\.)|\s·\s")
_END_OF_ITEM = re.compile(rf"{_END.pattern}|;\s+")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|cf)\.|\.\.\.")
_MARKER = re.compile(r"\s*(?:[*+-]|\d+\.|#+)\s+")
_HEADING_OF_FIELDS = re.compile(r"(?:Args|Returns|Raises|Yields|Attributes|Waits):\s*$")
_FIELD = re.compile(r" {4}(?! )[^:]+: ")
_RULE = re.compile(r"[|\s:-]+")


@dataclass(frozen=True)
class Sentence:
    """A sentence, and the line in which its paragraph begins."""

    line: int
    text: str

    @property
    def words(self) -> int:
        """How many words it has; signs between words are none."""
        return sum(any(sign.isalnum() for sign in word) for word in self.text.split())


def sentences(text: Text) -> Iterator[Sentence]:
    """Yield the sentences of *text*."""
    for line, is_item, paragraph in paragraphs(text):
        prose = _ABBREVIATION.sub("", " ".join(plain(paragraph).split()))
        for each in (_END_OF_ITEM if is_item else _END).split(prose):
            if any(sign.isalpha() for sign in each):
                yield Sentence(text.line + line, each)


def plain(markdown: str) -> str:
    """Return *markdown* with code, and a list of code, as one word, links as their texts, and no emphasis."""
    text = re.sub(r"`+[^`]+`+", "`code`", markdown)
    text = re.sub(r"`code`(?:(?:,| and|, and) `code`)+", "`code`", text)  # a list of names
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<a id=\"[^\"]*\"></a>", "", text)
    return re.sub(r"(?<!\w)[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}(?!\w)", "", text)


def paragraphs(text: Text) -> Iterator[tuple[int, bool, str]]:
    """Yield the paragraphs of *text*: the line in which each begins, from 0, whether it may be a list, and its text."""
    yield from _of_docstring(text) if text.kind == "docstring" else _of_markdown(text)


def _of_markdown(text: Text) -> Iterator[tuple[int, bool, str]]:
    is_code, paragraph, begin = False, list[str](), 0
    for number, line in enumerate([*text.text.split("\n"), ""]):
        is_fence = line.lstrip().startswith("```")
        is_apart = is_code or is_fence or not line.strip() or line.startswith(("|", ">", "#"))
        if paragraph and (is_apart or _MARKER.match(line)):
            yield begin, False, "\n".join(paragraph)
            paragraph = []
        if is_fence:
            is_code = not is_code
        elif not is_code and line.startswith("|") and not _RULE.fullmatch(line):
            yield from ((number, True, cell) for cell in re.split(r"(?<!\\)\|", line.strip("|")) if cell.strip())
        elif not is_apart:
            begin = begin if paragraph else number
            marker = None if paragraph else _MARKER.match(line)
            paragraph.append(line[marker.end() :] if marker else line)


def _of_docstring(text: Text) -> Iterator[tuple[int, bool, str]]:
    """What is indented is an example or a map, unless it is below a heading of fields."""
    in_fields, paragraph, begin, is_item = False, list[str](), 0, False
    for number, line in enumerate([*inspect.cleandoc(text.text).split("\n"), ""]):
        is_heading = bool(_HEADING_OF_FIELDS.match(line))
        is_indented = line.startswith(" ")
        begins = bool(_FIELD.match(line)) if in_fields and is_indented else bool(_MARKER.match(line))
        if paragraph and (not line.strip() or is_heading or begins):
            yield begin, is_item, "\n".join(paragraph)
            paragraph = []
        if is_heading:
            in_fields = True
        elif line.strip() and (in_fields or not is_indented or paragraph):
            in_fields = in_fields and is_indented
            begin, is_item = (begin, is_item) if paragraph else (number, in_fields)
            marker = _MARKER.match(line) if begins and not in_fields else None
            paragraph.append(line[marker.end() :] if marker else line)
