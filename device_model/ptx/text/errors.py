"""The error for PTX text that cannot be used."""


class PtxError(ValueError):
    """A text is no PTX, or uses what is not supported. The message has the line of the text."""

    def __init__(self, line: int, what: str, remedy: str = "") -> None:
        super().__init__(line, what, remedy)
        self.line = line
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"PTX line {self.line}: {self.what}"
        return f"{text}; {self.remedy}" if self.remedy else text
