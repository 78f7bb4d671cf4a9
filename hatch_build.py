"""The long description of the package: README.md, whose links lead somewhere on an index, too.

In the repository they lead to other files. With `Source` in `[project.urls]`, the address of the folder of the
repository, they lead there. Without it a link becomes its text, and a picture is left out.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[[^]]*\]\((?!https?:)([^)]*)\)\n*")
_LINK = re.compile(r"(?<!!)\[([^]]*)\]\((?!https?:|#)([^)]*)\)")


class LongDescription(MetadataHookInterface):
    """Sets the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the text of README.md into *metadata*."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(text, source)}


def described(text: str, source: str | None) -> str:
    """Return *text* with links that begin with the address *source*, or without links if that is None."""
    if source is None:
        return _LINK.sub(r"\1", _PICTURE.sub("", text))
    folder = source.rstrip("/")
    text = _PICTURE.sub(lambda found: found[0].replace(f"({found[1]})", f"({folder}/{found[1]})"), text)
    return _LINK.sub(rf"[\1]({folder}/\2)", text)
