"""Pages of docs/ that are printed in parts: an overview, and a folder of its name with a page for each subject.

The overview leads to each part and to its sections, by anchors that have the names of the sections: so an address from
before a page was divided still leads to its section.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

DOCS = Path(__file__).parent.parent / "docs"


@dataclass(frozen=True)
class Part:
    """A page of an overview: the name of its file, its title, what it is about in a few words, and its sections."""

    stem: str
    title: str
    about: str
    sections: Sequence[str]


def anchor_of(heading: str) -> str:
    """Return the anchor of *heading*, as it is made on the web."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def listed(folder: str, parts: Sequence[Part]) -> str:
    """Return the section of an overview that leads to its *parts*, and the table of contents that the site reads."""
    items = "\n".join(_item(folder, part) for part in parts)
    tree = "\n".join(f"{folder}/{part.stem}" for part in parts)
    return f"## Other pages\n\n{items}\n\n```{{toctree}}\n:hidden:\n{tree}\n```"


def _item(folder: str, part: Part) -> str:
    page = f"{folder}/{part.stem}.md"
    links = [f'<a\0id="{anchor_of(each)}"></a>[{each}]({page}#{anchor_of(each)})' for each in part.sections]
    text = f"* **[{part.title}]({page})**: {part.about} {' · '.join(links)}"
    return fill(text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def write(pages: Mapping[str, str]) -> None:
    """Write *pages*, texts by their paths in docs/, and delete other pages of the folders that they are in."""
    for path, text in pages.items():
        (DOCS / path).parent.mkdir(exist_ok=True)
        (DOCS / path).write_text(text, encoding="utf-8")
    for folder in {Path(path).parent for path in pages} - {Path()}:
        for file in (DOCS / folder).glob("*.md"):
            if f"{folder}/{file.name}" not in pages:
                file.unlink()


def differing(pages: Mapping[str, str]) -> list[str]:
    """Return the paths of *pages* whose files have another text, or are missing."""
    texts = {path: (DOCS / path).read_text(encoding="utf-8") if (DOCS / path).exists() else "" for path in pages}
    return [path for path in pages if texts[path] != pages[path]]
