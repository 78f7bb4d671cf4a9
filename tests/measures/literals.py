"""String literals in the product that are exactly the name of a verb, or of a step of stream programs.

What a verb does is to be said in one place; each literal elsewhere is a place that says it again. Docstrings do not
count, nor do the arguments of `@verb(...)`, which is that one place, nor acl_py/public.py, which re-exports, nor
acl_py/calibrate and the module of Chakra traces, which write programs in these steps, and do not say what they do. Of
the steps those of one word do not count, such as "wait" and "record": they are names of other things, too.

    python -m tests.measures literals [--files]     the totals; with --files also the literals of each file
"""

import ast
import re
import sys
from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from acl_py.calls.table import all_verbs
from tests.measures.sources import ROOT, docstrings, files

_RE_EXPORTS = ROOT / "acl_py" / "public.py"
_PROGRAMS = ROOT / "acl_py" / "calibrate", ROOT / "acl_py" / "programs" / "chakra.py"
# Where the table of steps is, or was.
_TABLES = ("acl_py.calls.steps", "acl_py.programs.format", "acl_py.programs.programs", "acl_py.tools.programs")


def verbs() -> set[str]:
    """The names and aliases of all verbs."""
    return {name for verb in all_verbs().values() for name in (verb.name, *verb.aliases)}


def steps() -> set[str]:
    """The names of more than one word that steps of stream programs have."""
    return {name for name in table_of_steps() if "_" in name}


def table_of_steps() -> Collection[str]:
    """`OPS`, wherever it is: the room of stream programs moves."""
    for name in _TABLES:
        room = name.rpartition(".")[0]
        if find_spec(room) and find_spec(name) and hasattr(import_module(name), "OPS"):
            return import_module(name).OPS
    raise LookupError(f"none of {', '.join(_TABLES)} has OPS")


def literals_of(text: str) -> list[str]:
    """The string literals in *text* that count."""
    nodes = list(ast.walk(ast.parse(text)))
    left_out = {id(each) for each in docstrings(nodes)}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "verb":
            left_out |= {id(each) for each in ast.walk(node)}
    literals = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in left_out]
    return [value for value in literals if isinstance(value, str)]


def counts(names: Collection[str]) -> dict[Path, int]:
    """How many literals that are one of *names* each file of acl_py has, for files that have some."""
    in_quotes = re.compile("[\"'](" + "|".join(names) + ")[\"']")  # other files are not parsed, which takes long
    texts = {
        file: file.read_text(encoding="utf-8")
        for file in files("acl_py")
        if file != _RE_EXPORTS and not {file, *file.parents} & {*_PROGRAMS}
    }
    found = {
        file.relative_to(ROOT): sum(each in names for each in literals_of(text))
        for file, text in texts.items()
        if in_quotes.search(text)
    }
    return {file: number for file, number in found.items() if number}


def main(arguments):
    for title, names in (("verbs", verbs()), ("steps", steps())):
        found = counts(names)
        sys.stdout.write(f"names of {title}: {sum(found.values())} literals in {len(found)} files\n")
        if "--files" in arguments:
            sys.stdout.writelines(f"{number:>6}  {file}\n" for file, number in found.items())
