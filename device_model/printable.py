"""Text from files and arguments, made safe to print: a terminal would obey some characters, and cannot write others."""

from collections.abc import Iterable

_MOST = 10  # names shown in a list


def printable(text: str) -> str:
    """Return *text* with each character that is not printable as its escape sequence.

    These are control characters, which begin the commands of a terminal; marks that turn the direction of writing; and
    halves of surrogate pairs.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def listed(names: Iterable[str]) -> str:
    """Return the first of *names*, separated by commas, and how many more there are."""
    shown = [printable(name) for name in names]
    more = len(shown) - _MOST
    return ", ".join(shown) if more <= 0 else f"{', '.join(shown[:_MOST])} and {more:,} more"
