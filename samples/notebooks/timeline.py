"""Pictures for the notebooks: timelines (acl_py.trace.figure), and tables of who waits for whom.

timeline.show({"one stream": sim.trace, "three streams": other.trace})
"""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from acl_py.trace import Trace
from acl_py.trace.figure import draw


def show(traces: Mapping[str, Trace], *, rows: str = "streams", since_ns: int | None = None) -> None:
    """Draw *traces*, each under its title, with rows for the "streams", the "engines" or "both".

    Time 0 is *since_ns*, by default the first call that queued something.
    """
    timelines = {title: trace.timeline() for title, trace in traces.items()}
    draw(timelines, rows=rows, since_ns=dict.fromkeys(traces, since_ns))
    plt.show()


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
