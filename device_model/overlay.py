"""Overlays: what is different on another host with the same card.

A card has the same engines everywhere, but a call takes one host twice as long as another, and so does a copy that the
host makes itself. The bus between the two is the host's, too: with some, copies in both directions at once take 1.3
times as long as with others. An overlay is a TOML file with the values of one host, or of one framework, in the form of
a profile:

    [host]
    launch = { value = 8450, source = "measured: torch, median of four operators" }

    [copies]
    host_to_host = { value = [[0, 3000], [1048576, 48000]], source = "measured: on my workstation" }

It has any of the values in `OF_HOST`; all others are the card's. `load("torch", profile)` lays an overlay of the
package over a profile, `load("my/host.toml", profile)` a file. Times are in nanoseconds, sizes in bytes.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_type_hints

from device_model.errors import printable
from device_model.profile import (
    DeviceProfile,
    Graphs,
    HostCosts,
    Latencies,
    Managed,
    ProfileError,
    read_value,
    tables_of,
    text_of,
)

_FOLDER = Path(__file__).with_name("overlays")

# The values of a profile that are the host's, by table.
OF_HOST: Mapping[str, tuple[str, ...]] = {
    "host": tuple(each.name for each in fields(HostCosts)),
    "latency": (
        "submit_copy",
        *(each.name for each in fields(Latencies) if each.name.startswith("host_function_")),
    ),
    "copies": (
        "h2d",
        "d2h",
        "duplex_h2d_permille",
        "duplex_d2h_permille",
        "peer_staged_call",
        "pageable_small",
        "stage_fixed",
        "stage",
        "unstage_fixed",
        "unstage",
        "host_to_host",
    ),
    "graphs": tuple(
        each.name
        for each in fields(Graphs)
        if each.name not in ("node_gap", "copy_on_device", "condition", "launch_gap")
    ),
    "managed": tuple(
        each.name
        for each in fields(Managed)
        if each.name not in ("to_device", "to_host", "fault", "fault_round", "fault_to_device", "remote")
    ),
}


def names() -> list[str]:
    """Return the names of the overlays that come with the package."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def load(overlay: str | Path, profile: DeviceProfile) -> DeviceProfile:
    """Return *profile* with the values of an overlay in the place of its own.

    Args:
        overlay: The name of an overlay of the package, or the path of a TOML file.
        profile: The card.

    Raises:
        ProfileError: There is no such overlay or file, or its content cannot be used.
    """
    path, name = Path(overlay), ""
    if isinstance(overlay, str) and not overlay.endswith(".toml"):
        if overlay not in names():
            raise ProfileError(
                f"there is no overlay {overlay!r}; there are {', '.join(names())}, or give the path of a .toml file"
            )
        path, name = _FOLDER / f"{overlay}.toml", overlay
    laid = lay(text_of(path, "overlay"), printable(str(path)), profile)
    name = name or str(path.resolve())  # a recording is looked at from other folders, too
    return replace(laid, overlay=" + ".join(filter(None, (profile.overlay, name))))


def lay(text: str, file: str, profile: DeviceProfile) -> DeviceProfile:
    """Return *profile* with the values in *text* in the place of its own; *file* is the overlay's name for messages."""
    sources = dict(profile.sources)
    changed = {}
    for name, table in tables_of(text, file).items():
        if name not in OF_HOST:
            raise ProfileError(f"{file}: {_unknown(name, name, profile, OF_HOST)}; an overlay has {', '.join(OF_HOST)}")
        if not isinstance(table, dict):
            raise ProfileError(f"{file}: {name} must be a table, [{name}], not one value")
        own = getattr(profile, name)
        if own is None:
            raise ProfileError(f"{file}: {name}: {profile.name} has no such table, so there is nothing to replace")
        changed[name] = replace(own, **_values(name, type(own), table, file, sources))
    return replace(profile, **changed, sources=MappingProxyType(sources))


def _values(
    name: str, record: type[Any], table: Mapping[str, object], file: str, sources: dict[str, str]
) -> dict[str, Any]:
    hints = get_type_hints(record, include_extras=True)
    values = {}
    for key, entry in table.items():
        full = f"{name}.{printable(key)}"
        if key not in OF_HOST[name]:
            problem = _unknown(key, full, record, OF_HOST[name])
            raise ProfileError(f"{file}: {problem}; [{name}] of an overlay has {', '.join(OF_HOST[name])}")
        try:
            values[key] = read_value(hints[key], entry, file, full, sources)
        except ProfileError as error:
            raise ProfileError(f"{error}; times are in nanoseconds, sizes in bytes") from None
    return values


def _unknown(key: str, full: str, record: Any, known: Mapping[str, object] | tuple[str, ...]) -> str:
    """Say why there is no *key* in an overlay: it is a value of the card, or of nothing; then what may be meant."""
    if key in {each.name for each in fields(record)}:
        return f"{printable(full)} is the card's and not its host's: it belongs in a profile"
    near = get_close_matches(key, known, 1) if len(key) <= 100 else []
    return f"{printable(full)} is unknown" + (f"; did you mean {near[0]}?" if near else "")
