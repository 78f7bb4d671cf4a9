"""Forms that stop a reader, each with what to write in its place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.english.texts import Text, flat

_BORDER = r"(?<!\w(?=\w))"  # not between two letters


@dataclass(frozen=True)
class Rule:
    """A form: its name, the phrases that have it, in small letters, and what to write in their place."""

    name: str
    phrases: tuple[str, ...]
    instead: str

    def places(self, line: str) -> Iterator[re.Match[str]]:
        """Yield where *line*, in small letters, has one of the phrases."""
        for phrase in self.phrases:
            if phrase in line:  # faster than a pattern, and most texts have none
                yield from re.finditer(rf"{_BORDER}{re.escape(phrase)}{_BORDER}", line)


@dataclass(frozen=True)
class Cell:
    """A form of a cell of a table."""

    name: str
    pattern: re.Pattern[str]
    instead: str


@dataclass(frozen=True)
class Finding:
    """A place at which a text has a form."""

    rule: Rule | Cell
    text: Text
    words: str

    def __str__(self) -> str:
        return f"{self.text.file}: {self.words!r} ({self.rule.name}): {self.rule.instead}"


def _form(*phrases: str, instead: str, name: str = "") -> Rule:
    return Rule(name or phrases[0], phrases, instead)


_QUESTIONS = ("what", "who", "when", "where", "which", "how")

RULES = (
    _form("is told from", "are told from", "be told from", instead="say what shows which of the two it is"),
    _form("no matter of", instead="say what does not depend on what"),
    _form("that which", "those which", instead="name the thing, or write: the one that"),
    _form("of that of", "than that of that", "as that of that", instead="name what the second *that* stands for"),
    _form("for ever", instead="without end"),
    _form("at hand", instead="say who has it, or that it is there"),
    _form("lest", instead="so that ... not"),
    _form("but for", instead="except for"),
    _form("no like", "its like", "their like", instead="name what there is none of, or the others"),
    _form("come of", "comes of", instead="say of what it is the result"),
    _form("all else", instead="everything else"),
    _form("not even one from", "not even one of", instead="also not the one from"),
    _form("count as behind", "counts as behind", instead="say what is ordered before what"),
    _form("is as if", instead="say what happens"),
    _form("anew", instead="again"),
    _form("otherwise than", instead="in another way than, or say what differs"),
    _form("as ever", instead="as usual, or as before"),
    _form("will do", instead="is enough, or works, too"),
    _form(
        *(f"{one} {two}" for one in _QUESTIONS for two in ("what", "who")),
        *(f"{one} {two}" for one in ("what", "who") for two in _QUESTIONS),
        instead="put a noun between the two",
        name="two question words in a row",
    ),
    _form(
        *(f", for {word}" for word in ("it", "they", "he", "she", "this", "these", "there", "no", "nothing")),
        instead="because",
        name="for, in place of because",
    ),
)
CELL = Cell(
    "a pronoun begins a cell",
    re.compile(r"^(?:it|they|he|she|them|those|these|that|this)\b(?! one)", re.IGNORECASE),
    "name the thing: a reader comes to a cell from anywhere",
)
COLUMN = Cell(
    "a column is named like a unit",
    re.compile(r"^(?:ns|us|ms|s|min|h|B|KB|MB|GB|KiB|MiB|GiB|GB/s|%)$"),
    "say what it measures: time, us",
)

UNNAMED = Cell(
    "a column has no name",
    re.compile(r"^$"),
    "say what is in it; only the first column, of the names of rows, needs none",
)


def findings(text: Text) -> Iterator[Finding]:
    """Yield where *text* has a form of a rule."""
    line = flat(text).lower()
    for rule in RULES:
        yield from (Finding(rule, text, _around(line, match)) for match in rule.places(line))
    if text.kind == "page":
        yield from _in_tables(text)


def _around(line: str, match: re.Match[str]) -> str:
    return line[max(0, match.start() - 25) : match.end() + 15].strip()


def _in_tables(text: Text) -> Iterator[Finding]:
    rows = re.sub(r"^```.*?^```", "", text.text, flags=re.DOTALL | re.MULTILINE).splitlines()
    for row, below in zip(rows, [*rows[1:], ""], strict=True):
        if not row.startswith("|") or re.fullmatch(r"[|\s:-]+", row):
            continue
        is_heading = below.startswith("|") and bool(re.fullmatch(r"[|\s:-]+", below))
        for place, cell in enumerate(re.split(r"(?<!\\)\|", row.strip()[1:-1])):
            rules = (COLUMN, UNNAMED)[: 2 if place else 1] if is_heading else (CELL,)
            for rule in rules:
                if rule.pattern.search(cell.strip()):
                    yield Finding(rule, text, cell.strip()[:60])
