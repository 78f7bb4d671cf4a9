"""`acl-py notebooks`: the notebooks of the course, for Jupyter."""

from pathlib import Path
from typing import Annotated

import typer

from acl_py.cli.common import complain


def notebooks_command(
    folder: Annotated[Path, typer.Argument(file_okay=False, help="Write them into this folder.")] = Path("notebooks"),
    no_solutions: Annotated[
        bool, typer.Option("--no-solutions", help="Leave out the folder with the solutions of the exercises.")
    ] = False,
    graded: Annotated[
        bool,
        typer.Option(
            "--nbgrader", help="Make each exercise a cell for the student and a locked check for a point, for nbgrader."
        ),
    ] = False,
) -> None:
    """Write the notebooks of the course, with their solutions, as .ipynb. Files with the same cells are kept."""
    from acl_py.teaching import files  # imported here, because no other command needs notebooks
    from acl_py.teaching.mistakes import NotebookError

    try:
        written = files.write(folder, solutions=not no_solutions, graded=graded)
    except NotebookError as error:
        complain(str(error))
        raise typer.Exit(1) from error
    except OSError as error:
        complain(f"{error.filename}: cannot be written: {error.strerror}")
        raise typer.Exit(1) from error
    for file in written:
        typer.echo(file)
    if not written:
        typer.echo(f"All of them are in {folder} already.")
    typer.echo(f"To open them: pip install jupyterlab, then jupyter lab {folder}")
