"""Pictures for notebooks: timelines, and tables of who waits for whom. Each has an alternative text.

A picture has the colours of the page, and needs none of them: its hatching and labels say the same. Jupyter shows it as
the value of a cell, together with its text; where there is no Jupyter, its text is all that is printed. A picture of
timelines has these as a page, too, which answers clicks.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from acl_py.causes.findings import findings
from acl_py.causes.pages import explained
from acl_py.teaching.mistakes import NO_EXTRA, NotebookError
from acl_py.teaching.predictions import Prediction
from acl_py.trace import Trace
from acl_py.trace.page import Page, Run
from acl_py.trace.rows.timeline import Timeline
from acl_py.trace.views.colours import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AS_PAGE = "The same as a page: click an operation, a wait or a finding"


class Picture:
    """An image with its alternative text *alt*, and with a *caption* below it. *png* has the bytes of the image.

    *page* shows the same timelines; None if the image shows something else.
    """

    def __init__(self, png: bytes, alt: str, caption: str = "", page: Page | None = None) -> None:
        self.png = png
        self.alt = alt
        self.caption = caption
        self.page = page

    def __repr__(self) -> str:
        return f"{self.alt}\n{self.caption}".strip()

    def _repr_html_(self) -> str:
        """Return the image with its alternative text, as Jupyter shows it. It is there too in a saved notebook.

        On a narrow screen it keeps a width at which its labels can be read, and scrolls. The page is below it, closed.
        """
        source = base64.b64encode(self.png).decode()
        alt = html.escape(self.alt).replace("\n", "&#10;")
        style = "max-width: max(100%, 640px); background: white"
        image = f'<img alt="{alt}" src="data:image/png;base64,{source}" style="{style}">'
        caption = html.escape(self.caption).replace("\n", "<br>")
        figure = f'<figure><div style="overflow-x: auto">{image}</div><figcaption>{caption}</figcaption></figure>'
        if self.page is None:
            return figure
        return f"{figure}<details><summary>{AS_PAGE}</summary>{self.page._repr_html_()}</details>"


def picture(figure: Figure, alt: str, caption: str = "") -> Picture:
    """Return *figure* of matplotlib as a picture with the alternative text *alt*, and with a *caption* below it.

    Raises:
        NotebookError: *alt* is empty.
    """
    if not alt.strip():
        raise NotebookError("The picture has no text: say what it shows, for those who cannot see it.")
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return Picture(file.getvalue(), alt, caption)


def show(
    traces: Mapping[str, Trace],
    *,
    rows: str = "streams",
    since_ns: int | None = None,
    marks: Mapping[str, Mapping[str, float]] | None = None,
) -> Picture:
    """Return a picture of *traces*, each under its title, with rows for the "streams", the "engines" or "both".

    The caption has the implicit waits of each trace, with their microseconds. Below it is a page of the same timelines.
    Time 0 is *since_ns*, by default the first call that queued something. *marks* has moments to point at, in
    microseconds since time 0, by title and label: `{"too early": {"the host reads": 13}}`. The picture is the value of
    a cell: make it the last line.

    Raises:
        NotebookError: matplotlib is missing.
        ValueError: there is no trace, *rows* is something else, a trace has no operations, or a mark has an unknown
            title or is before time 0.
    """
    _need_matplotlib()
    from acl_py.trace.views.figure import describe, draw

    timelines = {title: trace.timeline() for title, trace in traces.items()}
    options: dict[str, Any] = {"rows": rows, "since_ns": dict.fromkeys(traces, since_ns), "marks": marks}
    caption = "\n".join(f"{title}: {_waits(timeline)}" for title, timeline in timelines.items())
    shown = picture(draw(timelines, **options), describe(timelines, **options), caption)
    shown.page = explained(Page([Run(title, timeline) for title, timeline in timelines.items()]))
    return shown


def _waits(timeline: Timeline) -> str:
    """Return the price of the implicit waits of *timeline*, for how long each line held calls or operations."""
    waits = [f"{each.pitfall.value} {each.held_ns / 1000:,.0f} us ({each.site})" for each in findings(timeline)]
    return f"implicit waits: {', '.join(waits)}" if waits else "no implicit wait"


def matrix(answers: Mapping[tuple[str, str], bool], prediction: Prediction | None = None) -> Picture:
    """Return a table of *answers*: whether the second waits for the first, by (first, second).

    A wrong *prediction* gets a note in its cell.

    Raises:
        NotebookError: matplotlib is missing, or the prediction is about other names.
    """
    _need_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    names = list(dict.fromkeys(first for first, _ in answers))
    texts = _texts_of_cells(answers, prediction)
    figure = Figure(figsize=(6.4, 0.6 * len(names) + 0.6), dpi=110, layout="constrained")
    ax = figure.subplots()
    for (first, second), text in texts.items():
        column, row, waits = names.index(second), names.index(first), answers[first, second]
        colour = COLOURS["held" if waits else "kernel"]
        ax.add_patch(Rectangle((column, row), 1, 1, edgecolor="black", lw=0.8, facecolor=colour))
        ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=9, color="k" if waits else "w")
    places = [place + 0.5 for place in range(len(names))]
    ax.set(xlim=(0, len(names)), ylim=(len(names), 0))
    ax.set_xticks(places, names, fontsize=9)
    ax.set_yticks(places, names, fontsize=9)
    ax.set_xlabel("... then queued in", fontsize=9)
    ax.set_ylabel("queued first in", fontsize=9)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0)
    lines = [f"{first}, then {second}: {text}".replace("\n", " ") for (first, second), text in texts.items()]
    return picture(figure, "\n".join(lines))


def _texts_of_cells(
    answers: Mapping[tuple[str, str], bool], prediction: Prediction | None
) -> dict[tuple[str, str], str]:
    """Return the text of each cell of a table, with a note where *prediction* says something else."""
    guesses = {} if prediction is None else prediction.answers
    unknown = [f"{first} then {second}" for first, second in guesses if (first, second) not in answers]
    if unknown:
        raise NotebookError(
            f"The prediction has {unknown[0]!r}, which the table does not have: restore the names in its cell."
        )
    words = {True: "waits", False: "beside"}
    return {
        place: words[waits] + (f"\n(you: {words[guesses[place]]})" if guesses.get(place, waits) != waits else "")
        for place, waits in answers.items()
    }


def _need_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise NotebookError(NO_EXTRA)
