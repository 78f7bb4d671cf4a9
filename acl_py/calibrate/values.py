"""Values of profiles: where they are, and profiles with other values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from device_model.curves import Curve
from device_model.profile import DeviceProfile

_WRITTEN = re.compile(r"(\w+)\.(\w+)(?:\[([\d, ]+)\])?")


@dataclass(frozen=True, slots=True)
class Value:
    """A number of a profile: the field *name* of its *table*, or the points of a curve at these *sizes*."""

    table: str
    name: str
    sizes: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.sizes))}]" if self.sizes else ""
        return f"{self.table}.{self.name}{where}"

    def of(self, profile: DeviceProfile) -> int:
        """Return the number in *profile*."""
        found = getattr(getattr(profile, self.table), self.name)
        number: int = dict(found.points)[self.sizes[0]] if self.sizes else found
        return number


def value(written: str) -> Value:
    """Return the value that is *written* as "host.launch", or as "host.free[2097152]" for a point of a curve."""
    match = _WRITTEN.fullmatch(written)
    assert match is not None, f"no value is written {written!r}"
    table, name, sizes = match.groups()
    return Value(table, name, tuple(int(size) for size in sizes.split(",")) if sizes else ())


def with_values(profile: DeviceProfile, numbers: Mapping[Value, int]) -> DeviceProfile:
    """Return *profile* with other *numbers*. Points of a curve for which there is none keep their ratio to the nearest.

    Raises:
        ValueError: The points of a curve contradict each other.
    """
    changed: dict[str, dict[str, Any]] = {}
    for each, number in numbers.items():
        fields = changed.setdefault(each.table, {})
        if each.sizes:
            fields.setdefault(each.name, {}).update(dict.fromkeys(each.sizes, number))
        else:
            fields[each.name] = number
    tables = {}
    for table, fields in changed.items():
        own = getattr(profile, table)
        fields = {
            name: _curve(getattr(own, name), found) if isinstance(found, dict) else found
            for name, found in fields.items()
        }
        tables[table] = replace(own, **fields)
    return replace(profile, **tables)


def _curve(curve: Curve, found: Mapping[int, int]) -> Curve:
    """Return *curve* through the points *found*; its others keep their ratio to the nearest of these."""
    points, old = [], dict(curve.points)
    for size, time in curve.points:
        near = max((each for each in found if each <= size), default=min(found))
        ratio = found[near] / old[near] if old[near] else 1
        points.append((size, found.get(size, round(time * ratio))))
    return Curve(points)
