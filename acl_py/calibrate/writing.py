"""What a calibration found, as a TOML file: an overlay of a profile, or a whole profile."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from acl_py.calibrate.calibration import Calibration, Found
from acl_py.calibrate.values import Value
from device_model.overlay import OF_HOST
from device_model.profile import Curve, DeviceProfile

_KEPT = "keeps its ratio to its neighbour"


def overlay_text(calibration: Calibration, heading: str) -> str:
    """Return the values of the host that were found, as an overlay; *heading* says of which machine they are."""
    lines = [*_comments(calibration, heading)]
    for table, names in OF_HOST.items():
        found = _by_name(calibration.found, table)
        rows = [_row(name, *_entry(calibration.profile, table, name, found[name])) for name in names if name in found]
        lines += ["", f"[{table}]", *rows] if rows else []
    return "\n".join(lines) + "\n"


def profile_text(calibration: Calibration, heading: str, name: str) -> str:
    """Return a whole profile called *name*: what was not found is as in the profile that the calibration began with."""
    profile = calibration.profile
    lines = [*_comments(calibration, heading), f"name = {json.dumps(name)}"]
    lines += [f"description = {json.dumps(profile.description)}", f"rules = {json.dumps(profile.rules)}"]
    lines += [*_rows(calibration, profile, "")]
    return "\n".join(lines) + "\n"


def _rows(calibration: Calibration, record: Any, prefix: str) -> Iterator[str]:
    """Yield the lines of *record*, its numbers first and then its tables."""
    tables = []
    found = _by_name(calibration.found, prefix.rstrip("."))
    for each in fields(record):
        entry, full = getattr(record, each.name), prefix + each.name
        if is_dataclass(entry):
            tables.append((full, entry))
        elif full in calibration.base.sources:
            yield _row(each.name, *_entry_or_base(calibration, prefix, each.name, entry, found.get(each.name)))
    for full, entry in tables:
        yield from ("", f"[{full}]", *_rows(calibration, entry, f"{full}."))


def _entry_or_base(
    calibration: Calibration, prefix: str, name: str, entry: Any, found: Mapping[Value, Found] | None
) -> tuple[Any, str]:
    if found:
        return _entry(calibration.profile, prefix.rstrip("."), name, found)
    source = calibration.base.sources[prefix + name]
    if not source.startswith("documented"):
        source = f"assumed: as {calibration.base.name}, {source}"
    return _written(entry), source


def _by_name(found: Mapping[Value, Found], table: str) -> dict[str, dict[Value, Found]]:
    names: dict[str, dict[Value, Found]] = {}
    for each, of in found.items():
        if each.table == table:
            names.setdefault(each.name, {})[each] = of
    return names


def _entry(profile: DeviceProfile, table: str, name: str, found: Mapping[Value, Found]) -> tuple[Any, str]:
    """Return the value of a field, and its source."""
    entry = getattr(getattr(profile, table), name)
    [first, *others] = found.values()
    if not isinstance(entry, Curve):
        return entry, first.source
    sizes = {size for each in found for size in each.sizes}
    kept = [size for size, _ in entry.points if size not in sizes]
    source = "; ".join(dict.fromkeys([first.source, *(of.source.removeprefix("measured: ") for of in others)]))
    if kept:
        source += f"; {', '.join(f'{size:,}' for size in kept)} {_KEPT}"
    return _written(entry), source


def _written(entry: Any) -> Any:
    return [list(point) for point in entry.points] if isinstance(entry, Curve) else entry


def _row(name: str, number: Any, source: str) -> str:
    return f"{name} = {{ value = {number}, source = {json.dumps(source, ensure_ascii=False)} }}"


def _comments(calibration: Calibration, heading: str) -> Iterator[str]:
    yield f"# {heading}"
    yield "# Times in ns, sizes in bytes."
    yield f"# The measuring kernel lasts {calibration.machine.trim_ns} ns longer than the model's of the same time."
    for name, why in calibration.missing.items():
        yield f"# not measured: {name}: {' '.join(why.split())}"
