"""The source of a recording: the texts of the lines that it names."""

import linecache
from collections.abc import Iterable
from os.path import isfile
from typing import NamedTuple

from acl_py.sites import Site
from device_model.kernel.sites import Site as KernelSite

MOST = 200  # characters of a text


class SourceLine(NamedTuple):
    """The text of the line *site* ("file.py:12"), without the spaces around it; of a long one, its beginning."""

    site: str
    text: str


def source_of(sites: Iterable[object]) -> list[SourceLine]:
    """Return the texts of those of *sites* that are lines of files, or of the cells of a notebook, in their order.

    Two files of one name may have the same line: if their texts differ, a reader could not tell which of them is meant,
    so neither is there.
    """
    texts: dict[str, str | None] = {}
    for site in dict.fromkeys(sites):
        text = _text(site) if isinstance(site, Site | KernelSite) else ""
        if text and texts.setdefault(str(site), text) != text:
            texts[str(site)] = None
    return [SourceLine(site, text) for site, text in texts.items() if text is not None]


def _text(site: Site | KernelSite) -> str:
    file = site.file
    if file not in linecache.cache and not isfile(file):
        return ""  # linecache would look for another file of this name
    text = linecache.getline(file, site.line).strip()
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"
