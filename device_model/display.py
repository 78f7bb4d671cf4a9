"""How a notebook shows a stream, an event, memory or a graph: what one would ask for first, as a small table."""

from collections.abc import Mapping
from html import escape

from device_model.errors import printable


def table(title: str, rows: Mapping[str, object]) -> str:
    """Return an HTML table of *rows*, under a *title*; rows whose value is None or empty are left out."""
    shown = ((name, str(value)) for name, value in rows.items() if value is not None and value != "")
    lines = (f"<tr><th>{escape(name)}</th><td>{_text(value)}</td></tr>" for name, value in shown)
    return f"<table><caption>{_text(title)}</caption>{''.join(lines)}</table>"


def drawing(title: str, picture: str) -> str:
    """Return a *picture* of characters under a *title*, as HTML."""
    return f"<figure><figcaption>{_text(title)}</figcaption><pre>{escape(picture)}</pre></figure>"


def _text(text: str) -> str:
    return escape(printable(text))
