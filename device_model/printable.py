"""Text from outside, as it may be shown: what a terminal would obey, or could not write, is escaped."""

from collections.abc import Iterable

_MOST = 10  # names in a list of what there is


def printable(text: str) -> str:
    """*text* with each character that is not printable as its escape sequence: control characters, among them those
    that begin a terminal's commands, marks that turn the direction of writing, halves of surrogate pairs.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def listed(names: Iterable[str]) -> str:
    """The first of *names*, and how many more there are."""
    shown = [printable(name) for name in names]
    more = len(shown) - _MOST
    return ", ".join(shown) if more <= 0 else f"{', '.join(shown[:_MOST])} and {more:,} more"
