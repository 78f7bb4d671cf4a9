"""The page: a timeline in one HTML file, which needs neither a network nor a server.

`data.py` makes the tables of the data. `page.html` is the frame and `page.css` the looks; the colours of kinds of work
are those of figures, too (views/colours.py). The scripts, in their order:

data.js      columns to tables, and their names and numbers for people
lanes.js     tables to lanes
shapes.js    what pictures of lanes are made of
chart.js     lanes on a canvas
pins.js      what takes no time, at the top of its lane
outlines.js  what is pointed out in the chart
overview.js  all of the time in small
panel.js     what is beside the canvas
table.js     what a span of time adds up to
link.js      the address of what is shown
main.js      keys and pointers

The same runs give the same bytes.
"""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from acl_py.trace.page.data import Finding as Finding
from acl_py.trace.page.data import PathPart as PathPart
from acl_py.trace.page.data import Run as Run
from acl_py.trace.page.data import document
from acl_py.trace.views.colours import COLOURS
from acl_py.whole_files import write_text
from device_model.errors import printable

_SCRIPTS = (
    "data.js", "lanes.js", "shapes.js", "chart.js", "pins.js", "outlines.js", "overview.js", "panel.js", "table.js",
    "link.js", "main.js",
)  # fmt: skip
_HEIGHT = 460  # of the page in a notebook, in pixels


class Page:
    """One or more runs as an HTML page, one below the other on one axis of time.

    *title* is by default that of the first run, to which the others are compared. *mistakes* are the findings of the
    sanitizer, each as lines of text.
    """

    def __init__(self, runs: Sequence[Run], title: str = "", mistakes: Sequence[str] = ()) -> None:
        if not runs:
            raise ValueError("a page needs at least one run")
        self.runs = tuple(runs)
        self.title = title or runs[0].title
        self.mistakes = tuple(mistakes)

    def __repr__(self) -> str:
        return f"<Page {self.title!r}>"

    def html(self) -> str:
        """Return the text of the page."""
        return Template(_text("page.html")).substitute(
            title=escape(printable(self.title)),
            style=Template(_text("page.css")).substitute(colours=" ".join(_looks())),
            # A name in the data cannot end the script element, because "<" is escaped.
            data=json.dumps(document(self.runs, self.title, self.mistakes), separators=(",", ":")).replace(
                "<", "\\u003c"
            ),
            script="\n".join(map(_text, _SCRIPTS)),
        )

    def write(self, path: str | Path) -> None:
        """Write the page to the file *path*. Raises OSError if that is not possible."""
        write_text(path, self.html())

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, for a notebook; it is there too when the notebook is saved."""
        return (
            f'<iframe srcdoc="{escape(self.html())}" width="100%" height="{_HEIGHT}" frameborder="0"'
            f' title="{escape(printable(self.title))}"></iframe>'
        )


def _looks() -> list[str]:
    return [f"--{kind}: {colour};" for kind, colour in COLOURS.items()]


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
