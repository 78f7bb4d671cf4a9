"""The entry point of `acl-py` and of `python -m acl_py`."""

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path


def main() -> None:
    """Run a script at once if no options precede it, or only --no-sanitize; hand everything else to the command line in
    cli/.

    To import the libraries that read options and draw tables takes longer than a short script runs.
    """
    match sys.argv[1:]:
        case ["run", "--no-sanitize", *words]:
            _run_at_once(words, is_sanitized=False)
        case ["run", *words]:
            _run_at_once(words)
    from acl_py.cli import app

    output = sys.stdout
    if sys.argv[1:2] != ["run"] and isinstance(output, TextIOWrapper) and not output.encoding.startswith("utf"):
        output.reconfigure(errors="replace")  # an encoding such as ASCII has no bars and lines

    try:
        app()
    except OSError as error:  # commands report those of files, with their names; what is left is their output
        if error.filename is not None:
            raise
        print(f"acl-py: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes the rest when it ends
        sys.exit(1)


def _run_at_once(words: list[str], *, is_sanitized: bool = True) -> None:
    """Run the script that *words* name, and end with its exit code; return if they begin with another option."""
    match words:
        case ["-m" | "-c" as option, program, *arguments]:
            _run(program, arguments, option, is_sanitized=is_sanitized)
        case [program, *arguments] if program == "-" or not program.startswith("-"):
            _run(program, arguments, is_sanitized=is_sanitized)


def _run(program: str, arguments: list[str], option: str = "", *, is_sanitized: bool) -> None:
    from acl_py.parts import PARTS_OF_SCRIPTS
    from acl_py.projects import ProjectError, table_of
    from acl_py.sanitizer.suppressions import SuppressionError
    from acl_py.tools import scripts
    from acl_py.tools.own_simulations import OwnSimulations
    from acl_py.tools.sanitizing import Sanitized

    with suppress(ProjectError):
        if set((table_of(Path.cwd()) or ({},))[0]) - {"sanitizer"}:
            return  # the project gives options
    form = scripts.Form(option)
    with suppress(scripts.ScriptError, SuppressionError):  # unreadable: the command line reports it
        folder = scripts.folder_of(program, form)
        sanitized = Sanitized(PARTS_OF_SCRIPTS, folder, is_brief=True) if is_sanitized else None
        own = OwnSimulations(frozenset() if sanitized is None else sanitized.watch.parts)
        sys.exit(scripts.run(program, arguments, form=form, sanitized=sanitized, own=own))


if __name__ == "__main__":
    main()
