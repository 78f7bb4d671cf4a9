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
        parts += [_shown(out, f"{name}_{cell.execution_count}") for out in cell.outputs]
    return "\n\n".join(part for part in parts if part) + "\n"


def _shown(out, name):
    """An output of a cell as Markdown. Its picture gets the *name*."""
    if out.output_type == "stream":
        return f"```text\n{out.text.rstrip()}\n```"
    images = IMAGE.findall(out.data.get("text/html", ""))
    if not images:
        return f"```text\n{out.data['text/plain'].rstrip()}\n```"
    for _, data in images:
        (PAGES / f"{name}.png").write_bytes(base64.b64decode(data))
    said = html.unescape(images[0][0]).replace("\n", "; ").replace("[", "(").replace("]", ")")
    caption = re.search(r"<figcaption>(.*)</figcaption>", out.data["text/html"], re.DOTALL)
    below = html.unescape(caption[1]).replace("<br>", "  \n") if caption else ""
    return f"![{said}]({name}.png)\n\n{below}".rstrip()
