"""Fault rules as text, as on the command line."""

from collections.abc import Callable
from dataclasses import replace
from inspect import getdoc
from textwrap import fill
from typing import Any

from acl_py.faults.checks import OPS, FaultError
from acl_py.faults.force import Fault
from acl_py.faults.rules import MAKERS

_TEXTS = ("call", "op", "name", "stream")  # arguments that are no numbers, also if they look so


def parse(text: str, made: object = "the command line") -> Fault:
    """Return the rule that *text* describes: a function of this module and its arguments, `fail call=Malloc nth=3`.

    Raises:
        FaultError: It describes none; the message lists the rules and their arguments.
    """
    import shlex  # only the command line and texts of rules need it

    try:
        words = shlex.split(text)
    except ValueError as error:  # a quotation mark without the other one
        raise FaultError(f"{text!r}: {error}") from error
    if not words or words[0] not in MAKERS:
        raise FaultError(f"{text!r}: {listing()}")
    arguments: dict[str, Any] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise FaultError(f"{text!r}: {word!r} must be name=value, as in nth=3")
        arguments[name] = value if name in _TEXTS else _value(value)
    try:
        return replace(MAKERS[words[0]](**arguments), made=made)
    except TypeError as error:
        raise FaultError(f"{text!r}: {error}") from error


def listing() -> str:
    """Return which rules there are, and their arguments, as lines for a terminal."""
    lines = "".join(_entry(name, _summary(maker)) for name, maker in MAKERS.items())
    return (
        f"a fault rule begins with one of these words:{lines}\n"
        "and goes on with arguments, as in fail call=Malloc nth=3:"
        f"{''.join(_entry(names, meaning) for names, meaning in _HELP.items())}"
    )


def _summary(maker: Callable[..., Fault]) -> str:
    return " ".join((getdoc(maker) or "").split("\n\n")[0].split())


def _entry(name: str, meaning: str) -> str:
    """Return an entry of a list, on new lines that fit into the 80 columns of a terminal with a frame."""
    indent = " " * 16
    return "\n" + fill(f"{name:<13} {meaning}", 74, initial_indent="  ", subsequent_indent=indent)


def _value(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


_HELP = {
    "call=": "a verb; may have wildcards, such as Malloc*; or",
    "op=": f"a kind of operation: {', '.join(OPS)}; may have wildcards",
    "name=": "with op=: the name of a kernel or host function",
    "stream=": "with op=: the name of a stream, such as 'copies' or 'stream 1'",
    "nth=": "only this one of those that match, such as 3",
    "every=": "every third of those that match, for 3",
    "chance=": "each with this probability, 0 to 1",
    "since_us=": "only from this simulated time on, in microseconds",
    "until_us=": "only before this simulated time, in microseconds",
}
