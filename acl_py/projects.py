"""What a project says of acl_py, in its pyproject.toml.

A table is looked for in a folder and then in those above it: the nearest pyproject.toml that has the table is taken.
"""

import re
from pathlib import Path
from typing import Any

# The head of a table [tool.acl_py...], or a key tool.acl_py... or, in [tool], acl_py..., with quotes or without.
_TOOL, _OURS = (f"(?:{name}|'{name}'|\"{name}\")" for name in ("tool", "acl_py"))
_NAMED = re.compile(rf"^\s*(?:\[\s*{_TOOL}\s*\.\s*{_OURS}|(?:{_TOOL}\s*\.\s*)?{_OURS}\s*[.=])", re.MULTILINE)


class ProjectError(ValueError):
    """A pyproject.toml that cannot be read; the message names the file and what is wrong with it."""


def table_of(folder: Path, *names: str) -> tuple[Any, Path] | None:
    """Return the table [tool.acl_py], or with *names* a table in it, of the project that *folder* is in, and its file.

    None if no project has such a table.

    Raises:
        ProjectError: A file on the way cannot be read.
    """
    for parent in (folder.resolve(), *folder.resolve().parents):
        file = parent / "pyproject.toml"
        if file.is_file() and (table := _table(file, names)) is not None:
            return table, file
    return None


def _table(file: Path, names: tuple[str, ...]) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
        if not _NAMED.search(text):  # most projects say nothing of acl_py, and reading TOML takes longer than they run
            return None
        import tomllib

        table: Any = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:  # the last: tables in tables, a thousand deep
        raise ProjectError(f"{file}: cannot be read: {error}") from error
    for name in ("tool", "acl_py", *names):
        table = table.get(name) if isinstance(table, dict) else None
    return table
