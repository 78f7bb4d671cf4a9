"""The entry point of `acl-py` and of `python -m acl_py`."""

import sys
from contextlib import suppress


def main() -> None:
    """Run a script at once if no options precede it; hand everything else to the command line in cli/.

    To import the libraries that read options and draw tables takes longer than a short script runs.
    """
    match sys.argv[1:]:
        case ["run", "-m" | "-c" as option, program, *arguments]:
            _run(program, arguments, option)
        case ["run", program, *arguments] if program == "-" or not program.startswith("-"):
            _run(program, arguments)
    from acl_py.cli import app

    app()


def _run(program: str, arguments: list[str], option: str = "") -> None:
    from acl_py.sanitizer.parts import BY_DEFAULT
    from acl_py.sanitizer.suppressions import SuppressionError
    from acl_py.tools import scripts
    from acl_py.tools.sanitizing import Sanitized

    form = scripts.Form(option)
    with suppress(scripts.ScriptError, SuppressionError):  # unreadable: the command line reports it
        sanitized = Sanitized(BY_DEFAULT, scripts.folder_of(program, form), is_brief=True)
        sys.exit(scripts.run(program, arguments, form=form, sanitized=sanitized))


if __name__ == "__main__":
    main()
