"""`acl-py devices`: the profiles, and all numbers of one."""

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from acl_py.cli.common import Overlay, console, profile_of
from acl_py.trace.views.shown import shown_for_all
from device_model import profile as profiles
from device_model.curves import Curve
from device_model.profile import DeviceProfile

# The columns of the list: heading, dotted name of the value, divisor. All columns together fit 80 characters.
_MAIN: dict[str, tuple[str, float]] = {
    "cores": ("cores.count", 1),
    "memory\nGB": ("memory.bytes", 1e9),
    "memory\nGB/s": ("cores.bytes_per_second", 1e9),
    "H2D\nGB/s": ("copies.h2d", 1e9),
    "launch\nus": ("host.launch", 1e3),
    "copy\nus": ("host.copy", 1e3),
    "wake\nus": ("host.wake", 1e3),
}
_ORIGINS = ("measured", "documented", "assumed")

# The unit of a value by its name, by the end of its name, or by its table. Others are counts, which have none.
_BY_NAME = {
    "host.malloc_host": "ns/MiB", "host.free_host": "ns/MiB", "host.register": "ns/MiB",
    "cores.flops": "1/s", "memory.alignment": "B", "copies.ring_overhead": "B",
    "copies.stage_chunk": "B", "memory.pool_chunk": "B",
    "aicore.mhz": "MHz", "aicore.cube_cores": "", "aicore.vector_cores": "",
    "aicore.same_lines_per_us": "1/us",
}  # fmt: skip
_BY_END = {
    "bytes_per_cycle": "B/cycle",
    "bytes_per_second": "B/s", "bytes": "B", "_permille": "‰", "_gbps": "GB/s", "_ns": "ns", "_fixed": "ns",
    "_ps": "ps", ".channels": "", "_of_three": "", ".warps": "", "_read": "B/s", "_write": "B/s", ".flops": "1/s",
    "_elements": "", ".accumulators": "", ".blocks": "", "_at_once": "", "_again": "",
}  # fmt: skip
_BY_TABLE = {
    "host": "ns", "latency": "ns", "managed": "ns", "aicore": "cycles", "video": "frames/s", "graphs": "ns",
    "library": "ns", "collectives": "ns",
}  # fmt: skip


def devices_command(
    name: Annotated[str | None, typer.Argument(help="Show all values of this profile, each with its source.")] = None,
    overlay: Overlay = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all values as JSON instead of a table.")] = False,
) -> None:
    """List the device profiles with their main values, or show all values of one."""
    if overlay is not None and name is None:
        raise typer.BadParameter("--overlay lays values over one profile: give its name, too")
    cards = [profiles.load(each) for each in profiles.names()] if name is None else [profile_of(name, overlay)]
    if as_json:
        documents = [_document(card) for card in cards]
        typer.echo(json.dumps(documents if name is None else documents[0], indent=2, ensure_ascii=False))
    elif name is None:
        console().print(_main_values(cards), _descriptions(cards), sep="\n")
    else:
        console().print(_all_values(cards[0]))


def _main_values(cards: Sequence[DeviceProfile]) -> Table:
    table = Table(Column("device", no_wrap=True), "rules")
    cores = shown_for_all("cores", [(card.name, card.rules) for card in cards]).replace(" or", "\nor")
    for heading in _MAIN:
        table.add_column(cores if heading == "cores" else heading, justify="right")
    for card in cards:
        cells = [_scaled(value_of(card, name), divisor) for name, divisor in _MAIN.values()]
        table.add_row(card.name, card.rules, *cells)
    return table


def _scaled(value: Any, divisor: float) -> str:
    if isinstance(value, Curve):  # the slope of its last piece: bytes per nanosecond
        (size, time), (larger, longer) = value.points[-2:]
        value = 1e9 * (larger - size) / max(1, longer - time)
    scaled = value / divisor
    return f"{scaled:,.1f}" if divisor > 1 and scaled < 1000 else f"{scaled:,.0f}"


def _descriptions(cards: Sequence[DeviceProfile]) -> Table:
    """Return what each card is, and how many of its values have which origin."""
    table = Table(Column("device", no_wrap=True), "what it is")
    for origin in _ORIGINS:
        table.add_column(origin, justify="right")
    for card in cards:
        origins = [source.split(":")[0].split()[0] for source in card.sources.values()]
        table.add_row(card.name, escape(card.description), *(str(origins.count(origin)) for origin in _ORIGINS))
    return table


def _all_values(card: DeviceProfile) -> Table:
    title = f"{card.name}: {card.description}; rules {card.rules}"
    table = Table(
        Column("value", overflow="fold"),
        Column("number", justify="right", overflow="fold"),
        "unit",
        Column("source", overflow="fold"),
        title=escape(title),
        title_justify="left",
        caption_justify="left",
    )
    for name, source in card.sources.items():
        value = value_of(card, name)
        points = value.points if isinstance(value, Curve) else ()
        shown = "\n".join(f"{size:,} B: {time:,}" for size, time in points) if points else f"{value:,}"
        table.add_row(name, shown, unit_of(name, value), escape(source))
    table.caption = "A curve gives a time for each size; between two sizes it is a straight line."
    return table


def _document(card: DeviceProfile) -> dict[str, Any]:
    """Return *card* for JSON; a curve is a list of [bytes, ns]."""
    values = {}
    for name, source in card.sources.items():
        value = value_of(card, name)
        number = [list(point) for point in value.points] if isinstance(value, Curve) else value
        values[name] = {"value": number, "unit": unit_of(name, value), "source": source}
    return {"name": card.name, "description": card.description, "rules": card.rules, "values": values}


def unit_of(name: str, value: object) -> str:
    """Return the unit of the value *name* of a profile; a count has none."""
    if isinstance(value, Curve):
        return "ns"
    if name in _BY_NAME:
        return _BY_NAME[name]
    ends = (unit for end, unit in _BY_END.items() if name.endswith(end))
    return next(ends, _BY_TABLE.get(name.partition(".")[0], ""))


def value_of(card: DeviceProfile, name: str) -> Any:
    """Return the value with this dotted name."""
    value: Any = card
    for part in name.split("."):
        assert is_dataclass(value), f"profiles have no value {name}"
        assert part in {each.name for each in fields(value)}, f"profiles have no value {name}"
        value = getattr(value, part)
    return value
