"""`python -m acl_py` is `acl-py`, and this is where it begins."""

import sys
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Run a script that has no options before it at once; leave all else to the command line of cli.py.

    The libraries that read options and draw tables take longer to import than the whole of a short script.
    """
    match sys.argv[1:]:
        case ["run", script, *arguments] if not script.startswith("-"):
            from acl_py.tools import scripts

            with suppress(scripts.ScriptError):  # it cannot be read, and nothing is done: the command line says so
                sys.exit(scripts.run(Path(script), arguments))
    from acl_py.cli import app

    app()


if __name__ == "__main__":
    main()
