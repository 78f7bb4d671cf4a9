"""The pages of the notebooks in docs/notebooks: their cells, what these print, and their pictures.

Timelines that answer clicks are written beside what is built, where `make docs` finds them: each has the name of its
picture.
"""

import base64
import html
import re
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = DOCS / "notebooks"
TIMELINES = DOCS / "built" / "extra" / "timelines"
FRAME = re.compile(r'<iframe srcdoc="([^"]*)"')
GUESSED = (
    "*Here the prediction of one reader is filled in, mistakes included. In the notebook the cell is blank, for yours.*"
)
A_PAGE = "*In a notebook, and on the site, a page stands here: it answers clicks.*"
IMAGE = re.compile(r'<img alt="([^"]*)" src="data:image/png;base64,([^"]+)"')


def page_of(book, name):
    """*book* as Markdown. Its pictures are written beside the page *name*."""
    parts = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += [GUESSED] if "prediction" in cell.metadata.get("tags", ()) else []
        parts += _shown(cell.outputs, f"{name}_{cell.execution_count}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _shown(outputs, name):
    """The outputs of a cell as Markdown; its pictures get the *name*. What is printed may come in several pieces."""
    files = ("".join(out.text for out in outputs if out.get("name") == file) for file in ("stdout", "stderr"))
    printed = [f"```text\n{text.rstrip()}\n```" for text in files if text.strip()]
    return printed + [_value(out, name) for out in outputs if out.output_type != "stream"]


def _value(out, name):
    """The value of a cell as Markdown: its picture, its page, or its text. A comment says where the site has a page."""
    shown = out.data.get("text/html", "")
    page = FRAME.search(shown)
    if page:
        TIMELINES.mkdir(parents=True, exist_ok=True)
        (TIMELINES / f"{name}.html").write_text(html.unescape(page[1]), encoding="utf-8")
    images = IMAGE.findall(shown)
    if page and not images:
        return f"{A_PAGE}\n\n<!-- timeline {name} -->"
    if not images:
        return f"```text\n{out.data['text/plain'].rstrip()}\n```"
    for _, data in images:
        (PAGES / f"{name}.png").write_bytes(base64.b64decode(data))
    said = html.unescape(images[0][0]).replace("\n", "; ").replace("[", "(").replace("]", ")")
    caption = re.search(r"<figcaption>(.*)</figcaption>", out.data["text/html"], re.DOTALL)
    below = html.unescape(caption[1]).replace("<br>", "  \n") if caption else ""
    return "\n\n".join(filter(None, [f"![{said}]({name}.png)", below, f"<!-- timeline {name} -->" if page else ""]))
