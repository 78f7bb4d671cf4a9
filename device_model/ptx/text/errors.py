"""The error for PTX text that cannot be used."""

import re
from enum import Enum

from device_model.errors import printable

_LONG = re.compile(r"(\S{60})\S{20,}")


class Refusal(Enum):
    """Why a text is refused: what the driver of a card, which would take some of these texts, says of it."""

    BAD_TEXT = "an assembler refuses it, too"
    NEWER_TARGET = "it is for cards that are newer than those simulated"
    NEWER_VERSION = "its version of PTX is newer than what is read here"
    NOT_SIMULATED = "a card would run it"


class PtxError(ValueError):
    """A text is no PTX, or uses what is not supported. The message has the line of the text.

    What it quotes of the text is safe to print, and long words are cut.

    Attributes:
        kind: Why the text is refused.
    """

    def __init__(self, line: int, what: str, remedy: str = "", *, kind: Refusal = Refusal.BAD_TEXT) -> None:
        super().__init__(line, what, remedy)
        self.line = line
        self.kind = kind
        self.what = _LONG.sub(r"\1...", printable(what))
        self.remedy = _LONG.sub(r"\1...", printable(remedy))

    def __str__(self) -> str:
        text = f"PTX line {self.line}: {self.what}"
        return f"{text}; {self.remedy}" if self.remedy else text
