"""The entry point of `acl-py` and of `python -m acl_py`."""

import sys
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Run a script at once if no options precede it; hand everything else to the command line in cli.py.

    To import the libraries that read options and draw tables takes longer than a short script runs.
    """
    match sys.argv[1:]:
        case ["run", script, *arguments] if not script.startswith("-"):
            from acl_py.tools import scripts

            with suppress(scripts.ScriptError):  # unreadable: the command line reports it
                sys.exit(scripts.run(Path(script), arguments))
    from acl_py.cli import app

    app()


if __name__ == "__main__":
    main()
