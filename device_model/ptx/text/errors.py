"""The error for PTX text that cannot be used."""

import re

from device_model.errors import printable

_LONG = re.compile(r"(\S{60})\S{20,}")


class PtxError(ValueError):
    """A text is no PTX, or uses what is not supported. The message has the line of the text.

    What it quotes of the text is safe to print, and long words are cut.
    """

    def __init__(self, line: int, what: str, remedy: str = "") -> None:
        super().__init__(line, what, remedy)
        self.line = line
        self.what = _LONG.sub(r"\1...", printable(what))
        self.remedy = _LONG.sub(r"\1...", printable(remedy))

    def __str__(self) -> str:
        text = f"PTX line {self.line}: {self.what}"
        return f"{text}; {self.remedy}" if self.remedy else text
