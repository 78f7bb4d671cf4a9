"""Figures: timelines as matplotlib draws them, for papers and slides. The extra `notebooks` has matplotlib.

The top row is the host; each other row is a stream or an engine. The colour of a box shows the kind of work, as on the
page, and so does its hatching; its label names the operation. So a figure can be read without colours. Timelines that
are drawn together have the same scale. A mark is a line at a moment, with a label in a row below: where the host reads,
for example.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from acl_py.trace.rows.columns import op_columns
from acl_py.trace.rows.reading import ENGINE_ORDER, queuing_calls, stream_order
from acl_py.trace.rows.timeline import Timeline
from acl_py.trace.views.colours import COLOURS
from acl_py.trace.views.shown import shown

WIDTH = 9.5  # inches
ROW = 0.3  # inches
HEIGHT = 0.72  # of a box, in rows
FONT = 7.5  # points
HELD = ("Sync", "Sleep", "Free", "HostUnregister")  # calls that are mostly a wait

# The name of each kind, and what tells it from others where there are no colours.
STYLES: dict[str, tuple[str, dict[str, Any]]] = {
    "h2d": ("to the device", {"hatch": "////"}),
    "kernel": ("kernel", {}),
    "d2h": ("to the host", {"hatch": "\\\\\\\\"}),
    "p2p": ("between devices", {"hatch": "++++"}),
    "collective": ("collective", {"hatch": "xx"}),
    "prefetch_h2d": ("prefetch to the device", {"hatch": "//"}),
    "prefetch_d2h": ("prefetch to the host", {"hatch": "\\\\"}),
    "d2d": ("inside the device", {"hatch": "----"}),
    "h2h": ("on the host", {"hatch": "||||"}),
    "fill": ("fill", {"hatch": "...."}),
    "host_function": ("host function", {"hatch": "xxxx"}),
    "graph": ("launch of a graph", {"hatch": "oo"}),
    "call": ("host works", {"edgecolor": "0.6"}),
    "held": ("host is held", {"edgecolor": "0.6", "linestyle": (0, (2, 1.5))}),
}
_LIGHT = ("call", "held")  # their labels are black


class Box(NamedTuple):
    """Something that lasts, in nanoseconds."""

    start: int
    end: int
    style: str
    label: str


class Part(NamedTuple):
    """What a figure shows of one timeline: *start* is time 0 in nanoseconds; *marks* are in microseconds since then."""

    title: str
    start: int
    lanes: dict[str, list[Box]]
    marks: Mapping[str, float]


def draw(
    timelines: Mapping[str, Timeline],
    *,
    rows: str = "streams",
    since_ns: Mapping[str, int | None] | None = None,
    marks: Mapping[str, Mapping[str, float]] | None = None,
) -> Figure:
    """Return a figure of *timelines*, each under its title, with rows for the "streams", the "engines" or "both".

    Time 0 of each is in *since_ns*; None, the default, is the first call that queued something. *marks* has moments in
    microseconds since time 0, by title and label.

    Raises:
        ValueError: there is no timeline, *rows* is something else, a timeline has no operations, or a mark has an
            unknown title or is before time 0.
    """
    pictures = _pictures(timelines, rows, since_ns or {}, marks or {})
    ends = [(box.end - each.start) / 1000 for each in pictures for boxes in each.lanes.values() for box in boxes]
    span_us = max(*ends, *(us for each in pictures for us in each.marks.values()), 0.0)
    heights = [len(each.lanes) + bool(each.marks) for each in pictures]
    size = WIDTH, ROW * sum(heights) + 0.42 * len(pictures) + 0.5
    mpl.rcParams["hatch.linewidth"] = 0.6
    figure = Figure(figsize=size, dpi=110, layout="constrained")  # without pyplot: it needs no display
    axes = figure.subplots(len(pictures), sharex=True, squeeze=False, height_ratios=heights)
    for each, ax in zip(pictures, axes[:, 0], strict=True):
        ax.set_xlim(0, span_us * 1.01)
        ax.set_title(each.title, loc="left", fontsize=9.5, fontweight="bold")
        _draw(ax, each)
    axes[-1, 0].set_xlabel("simulated microseconds", fontsize=8)
    used = {box.style for each in pictures for boxes in each.lanes.values() for box in boxes}
    keys = [Patch(label=name, **_look(style)) for style, (name, _) in STYLES.items() if style in used]
    figure.legend(
        handles=keys, loc="outside lower center", ncols=min(len(keys), 6), fontsize=8, frameon=False, handlelength=2.4
    )
    return figure


def describe(
    timelines: Mapping[str, Timeline],
    *,
    rows: str = "streams",
    since_ns: Mapping[str, int | None] | None = None,
    marks: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """Return what `draw` shows as text: each row's boxes by kind, their times and the end, and then the marks."""
    lines = []
    for title, start, lanes, moments in _pictures(timelines, rows, since_ns or {}, marks or {}):
        lines.append(f"{title}:")
        for name, boxes in lanes.items():
            kinds = [_in_words(style, [box for box in boxes if box.style == style]) for style in STYLES]
            span = (
                f"from {(boxes[0].start - start) / 1000:,.0f} to {max(box.end - start for box in boxes) / 1000:,.0f} us"
            )
            lines.append(f"  {name}, {span}: {', '.join(filter(None, kinds))}")
        lines += [f"  {label}, at {us:,.0f} us" for label, us in moments.items()]
    return "\n".join(lines)


def _pictures(
    timelines: Mapping[str, Timeline],
    rows: str,
    since_ns: Mapping[str, int | None],
    marks: Mapping[str, Mapping[str, float]],
) -> list[Part]:
    """Return what to draw of each timeline."""
    if not timelines:
        raise ValueError("there is no timeline to draw")
    unknown = [title for title in marks if title not in timelines]
    if unknown:
        raise ValueError(f"there are marks for {unknown[0]!r}, which is no title of a timeline")
    pictures = []
    for title, timeline in timelines.items():
        start, lanes = _rows(title, timeline, rows, since_ns.get(title))
        moments = marks.get(title, {})
        for label, us in moments.items():
            if us < 0:
                raise ValueError(f"the mark {label!r} of {title!r} is {-us:,.1f} us before the picture begins")
        pictures.append(Part(title, start, lanes, moments))
    return pictures


def _in_words(style: str, boxes: Sequence[Box]) -> str:
    """Return *boxes*, all of one style, as words; "" if there are none."""
    if not boxes:
        return ""
    us = sum(box.end - box.start for box in boxes) / 1000
    return f"{STYLES[style][0]} {us:,.0f} us" + (f" in {len(boxes)} parts" if len(boxes) > 1 else "")


def _rows(title: str, timeline: Timeline, rows: str, since_ns: int | None) -> tuple[int, dict[str, list[Box]]]:
    """Return time 0, and the boxes of each row that has boxes after it."""
    if rows not in ("streams", "engines", "both"):
        raise ValueError(f'rows must be "streams", "engines" or "both", not {rows!r}')
    ops, calls = timeline.ops, timeline.calls
    if not ops:
        raise ValueError(f"the timeline {title!r} has no operations to draw")
    queued_by = queuing_calls(ops, calls)
    begins = [op.queued_ns if call is None else calls[call].enter_ns for op, call in zip(ops, queued_by, strict=True)]
    start = min(begins) if since_ns is None else since_ns
    lanes: dict[str, list[Box]] = {
        "host": _together(box for box in _host_boxes(timeline, queued_by) if box.start >= start)
    }
    for launch in timeline.launches:
        if launch.end_ns >= 0:
            lanes.setdefault("graphs", []).append(Box(launch.start_ns, launch.end_ns, "graph", launch.label))
    if rows != "engines":
        places = stream_order(op_columns(ops))
        for op in sorted(ops, key=lambda op: places[op.stream]):
            lanes.setdefault(op.stream, []).append(Box(op.start_ns, op.end_ns, op.kind, op.name))
    if rows != "streams":
        names = {engine: shown(engine, timeline.device, timeline.rules) for engine in ENGINE_ORDER}
        names |= {"H2D": "copy in", "D2H": "copy out", "host": "host thread"}
        for op in sorted(ops, key=lambda op: ENGINE_ORDER.index(op.engine)):
            name = names[op.engine]
            lanes.setdefault(name, []).append(Box(op.start_ns, op.end_ns, op.kind, op.stream.removeprefix("stream ")))
    lanes = {name: [box for box in boxes if box.end > start and box.start >= start] for name, boxes in lanes.items()}
    return start, {name: boxes for name, boxes in lanes.items() if boxes}


def _host_boxes(timeline: Timeline, queued_by: Iterable[int | None]) -> Iterable[Box]:
    """Return each call in up to two parts: the host works, and then waits for a completion."""
    queued: dict[int, int] = {}
    for op, number in zip(timeline.ops, queued_by, strict=True):
        if number is not None:
            queued[number] = min(op.queued_ns, queued.get(number, op.queued_ns))
    for index, call in enumerate(timeline.calls):
        held = call.enter_ns if call.name.startswith(HELD) else queued.get(index, call.exit_ns)
        if call.enter_ns < held:
            yield Box(call.enter_ns, held, "call", call.called)
        if held < call.exit_ns:
            yield Box(held, call.exit_ns, "held", call.called)


def _together(boxes: Iterable[Box]) -> list[Box]:
    """Join calls that follow one another without a wait to one box, which says how many they are."""
    groups: list[list[Box]] = []
    for box in boxes:
        last = groups[-1][-1] if groups else None
        if last is not None and last.style == box.style == "call" and box.start == last.end:
            groups[-1].append(box)
        else:
            groups.append([box])
    return [
        Box(group[0].start, group[-1].end, group[0].style, group[0].label if len(group) == 1 else f"{len(group)} calls")
        for group in groups
    ]


def _draw(ax: Axes, part: Part) -> None:
    for row, boxes in enumerate(part.lanes.values()):
        for box, level, levels in _stacked(boxes):
            height = HEIGHT / levels
            _draw_box(ax, row - HEIGHT / 2 + level * height, height, part.start, box)
    rows = len(part.lanes) + bool(part.marks)
    for label, us in part.marks.items():
        for colour, width in (("white", 3), ("black", 1.2)):  # the white border shows on dark boxes
            ax.plot([us, us], [-0.5, rows - 1], color=colour, lw=width)
        ax.plot([us], [rows - 1], "^", color="black", ms=5)
        in_right_half = us > ax.get_xlim()[1] / 2
        text = f"{label}  " if in_right_half else f"  {label}"
        ax.text(us, rows - 1, text, ha="right" if in_right_half else "left", va="center", fontsize=8)
    ax.set_ylim(rows - 0.5, -0.5)
    ax.set_yticks(range(len(part.lanes)), list(part.lanes), fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8, labelbottom=True)
    ax.grid(axis="x", color="0.85", lw=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _stacked(boxes: Iterable[Box]) -> Iterable[tuple[Box, int, int]]:
    """Return each box with its level, and the number of levels that the overlapping boxes need."""
    together: list[tuple[Box, int]] = []
    ends: list[int] = []  # of the last box of each level
    for box in sorted(boxes):
        if box.start >= max(ends, default=0):
            yield from ((other, level, len(ends)) for other, level in together)
            together, ends = [], []
        level = next((level for level, end in enumerate(ends) if end <= box.start), len(ends))
        ends[level : level + 1] = [box.end]
        together.append((box, level))
    yield from ((other, level, len(ends)) for other, level in together)


def _look(style: str) -> dict[str, Any]:
    """Return how a box is drawn: in the colour that it has on the page; borders and hatching are white."""
    return {"facecolor": COLOURS[style], "edgecolor": "white", "lw": 0.6} | STYLES[style][1]


def _draw_box(ax: Axes, top: float, height: float, start: int, box: Box) -> None:
    begin, end = (box.start - start) / 1000, (box.end - start) / 1000
    ax.add_patch(Rectangle((begin, top), end - begin, height, **_look(box.style)))
    left, right = ax.get_xlim()
    points = (end - begin) / (right - left) * (WIDTH - 1) * 72
    if points < (len(box.label) + 1) * FONT * 0.6 or height * ROW * 72 < FONT:
        return
    ax.text(
        (begin + end) / 2,
        top + height / 2,
        box.label,
        ha="center",
        va="center_baseline",
        fontsize=FONT,
        color="black" if box.style in _LIGHT else "white",
        bbox={"facecolor": COLOURS[box.style], "edgecolor": "none", "pad": 1}
        if "hatch" in STYLES[box.style][1]
        else None,
    )
