"""Profiles whose copies or links are faster, or slower, than those of the card."""

import re
from dataclasses import replace
from typing import Any

from device_model.curves import Curve
from device_model.errors import printable
from device_model.profile import DeviceProfile

COPIES = ("h2d", "d2h", "d2d")
_CHANGE = re.compile(r"(\w+)=(\d+(?:\.\d*)?|\.\d+)x")


class SpeedError(ValueError):
    """A speed that the card does not have."""


def faster(profile: DeviceProfile, what: str, factor: float) -> DeviceProfile:
    """Return *profile* with *what*, one of COPIES or "links", *factor* times as fast. Fixed parts of times stay.

    Raises:
        SpeedError: The profile has no links.
    """
    if what in COPIES:
        points = getattr(profile.copies, what).points
        fixed = points[0][1]
        curve: dict[str, Any] = {what: Curve([(size, round(fixed + (time - fixed) / factor)) for size, time in points])}
        return replace(profile, copies=replace(profile.copies, **curve))
    links = profile.links
    if links is None:
        raise SpeedError(f"{profile.name} has no table [links]")
    kinds = {name: kind for name in ("switch", "mesh", "pcie", "network") if (kind := getattr(links, name)) is not None}
    changed = {
        name: replace(kind, **{
            rate: round(value * factor) for rate, value in vars(kind).items() if rate.endswith("_bytes_per_second")
        })
        for name, kind in kinds.items()
    }  # fmt: skip
    return replace(profile, links=replace(links, **changed))


def changed_by(text: str, profile: DeviceProfile) -> DeviceProfile | None:
    """Return *profile* as *text* changes it: "links=2x", or several with commas. None: the text is of another form.

    Raises:
        SpeedError: There is no such speed, or its factor is 0.
    """
    words = [word.strip() for word in text.split(",")]
    found = [_CHANGE.fullmatch(word) for word in words]
    for word, match in zip(words, found, strict=True):
        if match is None:
            return None
        if match[1] not in (*COPIES, "links") or not float(match[2]):
            raise SpeedError(f"{printable(word)}: write h2d=2x, d2h=2x, d2d=2x or links=2x, with a factor above 0")
        profile = faster(profile, match[1], float(match[2]))
    return profile
