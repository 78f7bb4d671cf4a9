"""Profiles and overlays as TOML files, and what a calibration found as one of them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from statistics import fmean, median
from typing import Any

from acl_py.calibrate.calibration import Calibration, Found
from acl_py.calibrate.values import Value
from device_model.curves import Curve
from device_model.overlay import OF_HOST
from device_model.profile import DeviceProfile


def overlay_text(calibration: Calibration, heading: str) -> str:
    """Return the values of the host that were found, as an overlay; *heading* says of which machine they are."""
    sources, lines = _sources(calibration), [*_comments(calibration, heading)]
    for table, names in OF_HOST.items():
        record = getattr(calibration.profile, table)
        rows = [_row(name, getattr(record, name), sources[f"{table}.{name}"]) for name in names
                if f"{table}.{name}" in sources]  # fmt: skip
        lines += ["", f"[{table}]", *rows] if rows else []
    return "\n".join(lines) + "\n"


def profile_text(calibration: Calibration, heading: str, name: str) -> str:
    """Return a whole profile called *name*: what was not found is as in the profile that the calibration began with."""
    base = calibration.base
    assumed = {
        full: source if source.startswith("documented") else f"assumed: as {base.name}, {source}"
        for full, source in base.sources.items()
    }
    profile = replace(calibration.profile, name=name, sources=assumed | _sources(calibration))
    return "\n".join([*_comments(calibration, heading), toml_of(profile)])


def toml_of(profile: DeviceProfile) -> str:
    """Return *profile* as `device_model.profile.parse` reads it."""
    head = [f"{name} = {json.dumps(getattr(profile, name))}" for name in ("name", "description", "rules")]
    return "\n".join([*head, *_rows(profile, profile.sources, "")]) + "\n"


def _rows(record: Any, sources: Mapping[str, str], prefix: str) -> Iterator[str]:
    """Yield the lines of *record*: its numbers first, and then its tables."""
    tables = []
    for each in fields(record):
        entry, full = getattr(record, each.name), prefix + each.name
        if is_dataclass(entry):
            tables.append((full, entry))
        elif full in sources:
            yield _row(each.name, entry, sources[full])
    for full, entry in tables:
        yield from ("", f"[{full}]", *_rows(entry, sources, f"{full}."))


def _row(name: str, entry: Any, source: str) -> str:
    number = [list(point) for point in entry.points] if isinstance(entry, Curve) else entry
    return f"{name} = {{ value = {number}, source = {json.dumps(source, ensure_ascii=False)} }}"


def _sources(calibration: Calibration) -> dict[str, str]:
    """Return the source of each field of which a value was found."""
    found: dict[str, dict[Value, Found]] = {}
    for each, of in calibration.found.items():
        found.setdefault(f"{each.table}.{each.name}", {})[each] = of
    return {full: _source(calibration.profile, values) for full, values in found.items()}


def _source(profile: DeviceProfile, found: Mapping[Value, Found]) -> str:
    """Return the source of a field; of a curve it is that of all its points."""
    [first, *_] = found
    entry = getattr(getattr(profile, first.table), first.name)
    texts = dict.fromkeys(of.source.removeprefix("measured: ") for of in found.values())
    source = f"measured: {'; '.join(texts)}"
    sizes = {size for each in found for size in each.sizes}
    kept = [f"{size:,}" for size, _ in entry.points if size not in sizes] if isinstance(entry, Curve) else []
    return f"{source}; not measured, but in proportion: {', '.join(kept)}" if kept else source


def errors_text(calibration: Calibration) -> str:
    """Return how far predictions were off that the calibration has tried."""
    errors = calibration.errors
    sizes = sorted(map(abs, errors))
    return (
        f"{len(errors)} other mixtures of calls are predicted within {median(sizes):.1f} % (median) and "
        f"{sizes[int(0.9 * (len(sizes) - 1))]:.1f} % (90th percentile), on average {fmean(errors):+.1f} %"
    )


def _comments(calibration: Calibration, heading: str) -> Iterator[str]:
    yield f"# {heading}"
    yield "# Times in ns, sizes in bytes."
    yield f"# The measuring kernel lasts {calibration.machine.trim_ns} ns longer than the model's of the same time."
    if calibration.errors:
        yield f"# {errors_text(calibration)}"
    for name, why in calibration.missing.items():
        yield f"# not measured: {name}: {' '.join(why.split())}"
    found = {f"{each.table}.{each.name}" for each in calibration.found}
    of_host = (f"{table}.{name}" for table, names in OF_HOST.items() for name in names)
    yield f"# as in {calibration.base.name}: {', '.join(name for name in of_host if name not in found)}"
