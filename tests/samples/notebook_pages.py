"""The pages of the notebooks in docs/notebooks: their cells, what these print, and their pictures."""

import base64
import html
import re
from pathlib import Path

PAGES = Path(__file__).parent.parent.parent / "docs" / "notebooks"
IMAGE = re.compile(r'<img alt="([^"]*)" src="data:image/png;base64,([^"]+)"')


def page_of(book, name):
    """*book* as Markdown. Its pictures are written beside the page *name*."""
    parts = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += _shown(cell.outputs, f"{name}_{cell.execution_count}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _shown(outputs, name):
    """The outputs of a cell as Markdown; its pictures get the *name*. What is printed may come in several pieces."""
    files = ("".join(out.text for out in outputs if out.get("name") == file) for file in ("stdout", "stderr"))
    printed = [f"```text\n{text.rstrip()}\n```" for text in files if text.strip()]
    return printed + [_value(out, name) for out in outputs if out.output_type != "stream"]


def _value(out, name):
    """The value of a cell as Markdown: its picture, or its text."""
    images = IMAGE.findall(out.data.get("text/html", ""))
    if not images:
        return f"```text\n{out.data['text/plain'].rstrip()}\n```"
    for _, data in images:
        (PAGES / f"{name}.png").write_bytes(base64.b64decode(data))
    said = html.unescape(images[0][0]).replace("\n", "; ").replace("[", "(").replace("]", ")")
    caption = re.search(r"<figcaption>(.*)</figcaption>", out.data["text/html"], re.DOTALL)
    below = html.unescape(caption[1]).replace("<br>", "  \n") if caption else ""
    return f"![{said}]({name}.png)\n\n{below}".rstrip()
