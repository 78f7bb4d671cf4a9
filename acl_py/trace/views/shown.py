"""What the engine "cores" is called where a person reads: the SMs of a CUDA card.

Data says "cores" for every card: rows of traces, fault rules, program files, edits. A text about a card is made for
"cores", too, and `shown` puts the word of the card in. The word follows from names that every recording has, so old
recordings and edited runs are shown like live ones.
"""

import re
from collections.abc import Iterable
from functools import cache

from device_model import profile

_WORD = re.compile(r"\b(AI )?cores\b")


@cache
def has_sms(device: str, rules: str) -> bool:
    """Return whether the card of the profile *device* has SMs. A profile of the package says so itself by its table
    `[sm]`. Any other name stands for a user's profile, of which a recording has only the *rules*.
    """
    if device in profile.names():
        return profile.load(device).sm is not None
    return rules.startswith("cuda")


def shown(text: str, device: str, rules: str) -> str:
    """Return *text* of ours, or the name of an engine, with "SMs" for "cores" if the card has SMs (`has_sms`)."""
    return _WORD.sub("SMs", text) if has_sms(device, rules) else text


def shown_for_all(text: str, cards: Iterable[tuple[str, str]]) -> str:
    """Return `shown` for *cards*, a device and its rules each; if their words differ, with "or" between them."""
    return " or ".join(dict.fromkeys(shown(text, *card) for card in cards))
