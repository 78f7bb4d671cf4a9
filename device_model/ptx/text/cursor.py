"""A place in the tokens of a text, which a parser moves forward."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.lexer import Mark, Token

_DEEPEST = 50  # braces, parentheses and signs inside one another


class Cursor:
    """The tokens of a text and the place of the next one."""

    __slots__ = ("_at", "_depth", "_tokens")

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def ahead(self) -> Token:
        """The next token."""
        return self._tokens[self._at]

    @property
    def after(self) -> Token:
        """The one behind it; at the end the last one."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Return the next token, and move behind it."""
        token = self._tokens[self._at]
        if token.mark is Mark.END:
            raise self.error("the text ends too early")
        self._at += 1
        return token

    def accepts(self, text: str) -> bool:
        """Move behind the next token and return True if it is *text*."""
        token = self._tokens[self._at]
        if token.text != text or token.mark is Mark.STRING:
            return False
        self._at += token.mark is not Mark.END
        return True

    def expect(self, text: str) -> Token:
        """Move behind the next token, which must be *text*."""
        token = self.ahead
        if not self.accepts(text):
            raise self.error(f"{text!r} is missing before {token.text!r}")
        return token

    def word(self, what: str) -> Token:
        """Move behind the next token, which must be a name: *what* it names."""
        if self.ahead.mark is not Mark.WORD:
            raise self.error(f"{what} is missing before {self.ahead.text!r}")
        return self.take()

    def error(self, what: str, remedy: str = "", *, line: int | None = None) -> PtxError:
        """Return an error at the next token, or at *line*."""
        return PtxError(self.ahead.line if line is None else line, what, remedy)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Go one level deeper into what the text nests; refuse what is too deep."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self.error(f"more than {_DEEPEST} levels of braces, parentheses or signs")
        yield
        self._depth -= 1

    def skip_braces(self) -> None:
        """Move behind the braces that begin here, with all that they hold."""
        self.expect("{")
        depth = 1
        while depth:
            text = self.take().text
            depth += (text == "{") - (text == "}")

    def skip_to(self, text: str) -> None:
        """Move behind the next *text*."""
        while self.take().text != text:
            pass

    def skip_to_braces(self) -> None:
        """Move before the next opening brace."""
        while self.ahead.text != "{":
            self.take()
