"""`acl-py names`: which names of Ascend C a source file uses, and which of them are here."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from acl_py.cli.common import complain, console
from acl_py.kernel_names import NameKind
from acl_py.tools.kernel_sources import Name, names_in

MISSING = 4  # the exit code if a name is not here


def names_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.cpp...", help="Sources of a kernel in Ascend C.")],
    missing: Annotated[bool, typer.Option("--missing", help="List only the names that are not here.")] = False,
) -> None:
    """List the names of Ascend C that sources use, and what stands for each in acl_py.asc.

    No compiler is needed. The exit code is 4 if a kernel needs a name that is not here.
    """
    names = names_in("\n".join(_text_of(file) for file in files))
    if not names:
        complain("no name of Ascend C is used there: is this the source of a kernel?")
        raise typer.Exit(2)
    lacking = [name for name in names if _is_lacking(name)]
    shown = lacking if missing else names
    if shown:
        console().print(_table(shown, several=len(files) > 1))
    kernel = [name for name in names if name.kind is not NameKind.HOST and name.kind is not NameKind.ARGUMENT]
    console().print(
        f"{len(kernel) - len(lacking)} of {len(kernel)} names that run on cores are here; docs/aicore.md has all by "
        "subject",
        highlight=False,
    )
    if lacking:
        raise typer.Exit(MISSING)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        complain(f"{file} cannot be read: {error.strerror}")
        raise typer.Exit(2) from None


def _is_lacking(name: Name) -> bool:
    return name.here is None and name.kind not in (NameKind.HOST, NameKind.ARGUMENT)


def _table(names: list[Name], *, several: bool) -> Table:
    columns = [Column("name", no_wrap=True), Column("uses", justify="right")]
    if not several:
        columns.append(Column("line", justify="right"))
    table = Table(*columns, Column("in acl_py.asc", no_wrap=True), "what it does", box=None, pad_edge=False)
    for name in names:
        cells = [name.name, str(name.uses)] + ([] if several else [str(name.first)])
        table.add_row(*cells, name.here or "-", escape(name.line))
    return table
