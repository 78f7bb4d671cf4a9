"""PTX text as tokens."""

import re
from enum import Enum
from typing import NamedTuple

from device_model.ptx.text.errors import PtxError


class Mark(Enum):
    """The kinds of tokens."""

    WORD = "a name"  # with all that follows its dots: "ld.global.f32", "%tid.x"
    DIRECTIVE = "a directive"  # ".reg"
    NUMBER = "a number"
    STRING = "a text"
    SIGN = "a sign"
    END = "the end of the text"


class Token(NamedTuple):
    """A token and the line that it stands in, from 1."""

    mark: Mark
    text: str
    line: int


_PARTS = r"(?:\.[A-Za-z_0-9]\w*(?:::\w+)*)*"
_TOKEN = re.compile(
    rf"""
      (?P<gap>   [ \t\r\f\v]+ | //[^\n]* )
    | (?P<lines> \n | /\*.*?\*/ )
    | (?P<WORD>  (?: [A-Za-z_$] | %[\w$] ) [\w$]* {_PARTS} )
    | (?P<DIRECTIVE> \.[A-Za-z_]\w*(?:::\w+)* )
    | (?P<NUMBER> 0[fF][0-9a-fA-F]{{8}} | 0[dD][0-9a-fA-F]{{16}} | 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U?
                | \d+\.\d*(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ | \d+U? )
    | (?P<STRING> "[^"\n]*" )
    | (?P<SIGN>  (?!/\*) (?: << | >> | && | \|\| | == | != | <= | >= | [-+*/%&|^~!?:;,()\[\]{{}}<>=@] ) )
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> list[Token]:
    """Return the tokens of *text*, with one of the kind END behind the last.

    Raises:
        PtxError: A character begins no token, or a comment has no end.
    """
    found: list[Token] = []
    at, line = 0, 1
    marks = {mark.name: mark for mark in Mark}
    match = _TOKEN.match
    text = text.rstrip("\0")
    while at < len(text):
        token = match(text, at)
        if token is None:
            what = "a comment without an end" if text.startswith("/*", at) else f"{text[at]!r} begins nothing"
            raise PtxError(line, what, "give the text that a compiler has written")
        kind = str(token.lastgroup)
        if kind == "lines":
            line += token[0].count("\n")
        elif kind != "gap":
            found.append(Token(marks[kind], token[0], line))
        at = token.end()
    found.append(Token(Mark.END, "", line))
    return found
