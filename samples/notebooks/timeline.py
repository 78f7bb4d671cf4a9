"""Timelines for the notebooks: operations and calls as boxes on a time axis, readable without colours.

    timeline.show({"one stream": sim.trace, "three streams": other.trace})

The top row is the host; each other row is a stream or an engine. The hatching of a box shows the kind of work, its
label the operation. Pictures that are shown together have the same scale.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from acl_py.trace import Trace
from acl_py.trace.reading import ENGINE_ORDER, queuing_calls, stream_order

WIDTH = 9.5  # inches
ROW = 0.3  # inches
HEIGHT = 0.72  # of a box, in rows
FONT = 7.5  # points
HELD = ("Sync", "Sleep", "Free", "HostUnregister")  # calls that are mostly a wait

STYLES = {
    "h2d": ("to the device", {"facecolor": "white", "hatch": "////"}),
    "kernel": ("kernel", {"facecolor": "0.3"}),
    "d2h": ("to the host", {"facecolor": "white", "hatch": "\\\\\\\\"}),
    "d2d": ("inside the device", {"facecolor": "white", "hatch": "----"}),
    "fill": ("fill", {"facecolor": "white", "hatch": "...."}),
    "host_function": ("host function", {"facecolor": "white", "hatch": "xxxx"}),
    "call": ("host works", {"facecolor": "0.75"}),
    "held": ("host is held", {"facecolor": "white", "linestyle": (0, (2, 1.5))}),
}


class Box(NamedTuple):
    """Something that lasts, in nanoseconds."""

    start: int
    end: int
    style: str
    label: str


def show(traces: Mapping[str, Trace], *, rows: str = "streams", since_ns: int | None = None) -> None:
    """Draw *traces*, each under its title, with rows for the "streams", the "engines" or "both".

    Time 0 is *since_ns*, by default the first call that queued something.
    """
    draw(traces, rows=rows, since_ns=dict.fromkeys(traces, since_ns))
    plt.show()


def draw(traces: Mapping[str, Trace], *, rows: str, since_ns: Mapping[str, int | None]) -> Figure:
    """Return the figure of `show`, with a time 0 for each trace."""
    pictures = [(title, *_rows(trace, rows, since_ns[title])) for title, trace in traces.items()]
    span_us = max((box.end - start) / 1000 for _, start, lanes in pictures for boxes in lanes.values() for box in boxes)
    heights = [len(lanes) for _, _, lanes in pictures]
    size = WIDTH, ROW * sum(heights) + 0.42 * len(pictures) + 0.5
    plt.rcParams["hatch.linewidth"] = 0.6
    figure, axes = plt.subplots(
        len(pictures), figsize=size, dpi=110, sharex=True, squeeze=False, height_ratios=heights, layout="constrained"
    )
    for (title, start, lanes), ax in zip(pictures, axes[:, 0], strict=True):
        ax.set_xlim(0, span_us * 1.01)
        ax.set_title(title, loc="left", fontsize=9.5, fontweight="bold")
        _draw(ax, start, lanes)
    axes[-1, 0].set_xlabel("simulated microseconds", fontsize=8)
    used = {box.style for _, _, lanes in pictures for boxes in lanes.values() for box in boxes}
    keys = [
        Patch(edgecolor="black", lw=0.6, label=name, **look) for style, (name, look) in STYLES.items() if style in used
    ]
    figure.legend(
        handles=keys, loc="outside lower center", ncols=len(keys), fontsize=8, frameon=False, handlelength=2.4
    )
    return figure


def _rows(trace: Trace, rows: str, since_ns: int | None) -> tuple[int, dict[str, list[Box]]]:
    """Return time 0, and the boxes of each row that has boxes after it."""
    if rows not in ("streams", "engines", "both"):
        raise ValueError(f'rows must be "streams", "engines" or "both", not {rows!r}')
    ops, calls = trace.ops, trace.calls
    queued_by = queuing_calls(ops, calls)
    first = min(op.queued_ns if call is None else calls[call].enter_ns for op, call in zip(ops, queued_by, strict=True))
    start = first if since_ns is None else since_ns
    lanes: dict[str, list[Box]] = {
        "host": _together(box for box in _host_boxes(trace, queued_by) if box.start >= start)
    }
    if rows != "engines":
        places = stream_order(ops)
        for op in sorted(ops, key=lambda op: places[op.stream]):
            lanes.setdefault(op.stream, []).append(Box(op.start_ns, op.end_ns, op.kind, op.name))
    if rows != "streams":
        for op in sorted(ops, key=lambda op: ENGINE_ORDER.index(op.engine)):
            name = {"H2D": "copy in", "D2H": "copy out", "host": "host thread"}.get(op.engine, op.engine)
            lanes.setdefault(name, []).append(Box(op.start_ns, op.end_ns, op.kind, op.stream.removeprefix("stream ")))
    lanes = {name: [box for box in boxes if box.end > start and box.start >= start] for name, boxes in lanes.items()}
    return start, {name: boxes for name, boxes in lanes.items() if boxes}


def _host_boxes(trace: Trace, queued_by: Iterable[int | None]) -> Iterable[Box]:
    """Return each call in up to two parts: the host works, and then waits for a completion."""
    queued: dict[int, int] = {}
    for op, call in zip(trace.ops, queued_by, strict=True):
        if call is not None:
            queued[call] = min(op.queued_ns, queued.get(call, op.queued_ns))
    for index, call in enumerate(trace.calls):
        held = call.enter_ns if call.name.startswith(HELD) else queued.get(index, call.exit_ns)
        if call.enter_ns < held:
            yield Box(call.enter_ns, held, "call", call.name)
        if held < call.exit_ns:
            yield Box(held, call.exit_ns, "held", call.name)


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


def _draw(ax: Axes, start: int, lanes: Mapping[str, list[Box]]) -> None:
    for row, boxes in enumerate(lanes.values()):
        for box, level, levels in _stacked(boxes):
            height = HEIGHT / levels
            _draw_box(ax, row - HEIGHT / 2 + level * height, height, start, box)
    ax.set_ylim(len(lanes) - 0.5, -0.5)
    ax.set_yticks(range(len(lanes)), list(lanes), fontsize=8)
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


def _draw_box(ax: Axes, top: float, height: float, start: int, box: Box) -> None:
    _, look = STYLES[box.style]
    begin, end = (box.start - start) / 1000, (box.end - start) / 1000
    ax.add_patch(Rectangle((begin, top), end - begin, height, edgecolor="black", lw=0.6, **look))
    left, right = ax.get_xlim()
    points = (end - begin) / (right - left) * (WIDTH - 1) * 72
    if points < (len(box.label) + 1) * FONT * 0.6 or height * ROW * 72 < FONT:
        return
    dark = box.style == "kernel"
    behind = None if dark or box.style in ("call", "held") else {"facecolor": "white", "edgecolor": "none", "pad": 1}
    ax.text(
        (begin + end) / 2,
        top + height / 2,
        box.label,
        ha="center",
        va="center_baseline",
        fontsize=FONT,
        color="white" if dark else "black",
        bbox=behind,
    )


def matrix(answers: Mapping[tuple[str, str], bool], prediction: str = "") -> None:
    """Draw *answers*: whether the second waits for the first, by (first, second). Wrong predictions get a note."""
    names = list(dict.fromkeys(first for first, _ in answers))
    guesses = _guesses(names, prediction)
    _, ax = plt.subplots(figsize=(6.4, 0.6 * len(names) + 0.6), dpi=110, layout="constrained")
    for row, first in enumerate(names):
        for column, second in enumerate(names):
            waits = answers[first, second]
            look = {"facecolor": "0.3"} if waits else {"facecolor": "white"}
            ax.add_patch(Rectangle((column, row), 1, 1, edgecolor="black", lw=0.8, **look))
            guess = guesses.get((first, second))
            note = "" if guess is None or guess == waits else f"\n(you: {'waits' if guess else 'beside'})"
            text = ("waits" if waits else "beside") + note
            ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=9, color="w" if waits else "k")
    places = [place + 0.5 for place in range(len(names))]
    ax.set(xlim=(0, len(names)), ylim=(len(names), 0))
    ax.set_xticks(places, names, fontsize=9)
    ax.set_yticks(places, names, fontsize=9)
    ax.set_xlabel("... then queued in", fontsize=9)
    ax.set_ylabel("queued first in", fontsize=9)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0)
    plt.show()


def _guesses(names: list[str], prediction: str) -> dict[tuple[str, str], bool]:
    """Return the cells of a table with rows and columns of *names*, each with a "w" or a "-"."""
    rows = [line.split() for line in prediction.splitlines() if line.strip()]
    guesses = {}
    for first, *cells in rows[1:]:
        for second, cell in zip(rows[0], cells, strict=True):
            if first not in names or second not in names:
                raise ValueError(f"there is no stream {first!r} or {second!r}; there are {', '.join(names)}")
            if cell in ("w", "-"):
                guesses[first, second] = cell == "w"
    return guesses
