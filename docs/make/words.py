"""How often each page has each word: what the search orders pages by (scorer.js)."""

import json
import re
from collections import Counter
from pathlib import Path

FEWEST = 2  # times; a page that has a word once is not about it
WORD = re.compile(r"[a-z]{3,}")


def counts(pages: dict[str, str]) -> dict[str, dict[str, int]]:
    """Return the words of each of *pages*, texts by their names, with how often they are there."""
    return {name: _counted(text) for name, text in sorted(pages.items())}


def _counted(text: str) -> dict[str, int]:
    found = Counter(WORD.findall(text.lower()))
    return {word: times for word, times in sorted(found.items()) if times >= FEWEST}


def write_scorer(scorer: Path, sources: Path, made: Path) -> None:
    """Write the *scorer* with the words of the pages below *sources* to the file *made*."""
    texts = sorted(path for path in (sources / "docs").rglob("*.md") if "built" not in path.parts)
    pages = {path.relative_to(sources).with_suffix("").as_posix(): path.read_text(encoding="utf-8") for path in texts}
    table = json.dumps(counts(pages), separators=(",", ":"))
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(f"const COUNTS = {table};\n{scorer.read_text(encoding='utf-8')}", encoding="utf-8")
