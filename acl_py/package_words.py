"""The words of packages for CUDA: how a program of numba or cuda.core writes what a message names by a verb.

A program of such a package never calls the driver itself, so `cudaFree` tells it nothing. Its words are those of the
one package that its file imports. A file that imports several, or cuda.bindings, gets the names of CUDA's runtime.

package_words.tsv has the words of each verb, and those of `legacy`, the default stream. In them {all} stands for the
arguments of the call in the message, {each} for each of them, and {0} and {1} for the first two.
"""

import ast
import linecache
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

# The call of a verb, as "SetDevice(1)" or "SynchronizeStream(copies (2))": the second stream of a name has a number.
_CALL = re.compile(r"\b([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)*)\(((?:[^()]|\(\d+\))*)\)")
_LEGACY = "legacy"  # what messages call the default stream
_MADE_BY = "what "  # begins an argument without a name: "what app.py:9 made"


def in_words_of(package: str, text: str) -> str:
    """Return *text* with the calls of verbs that *package* has a word for as its programs write them."""
    words = _words()[package]
    return _CALL.sub(lambda call: _written(words.get(call[1], call[0]), call[1], call[2], words[_LEGACY]), text)


@cache
def _words() -> dict[str, dict[str, str]]:
    """Return how each package writes the call of a verb, by package and verb."""
    words: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()[1:]:
        package, verb, form = line.split("\t")
        words.setdefault(package, {})[verb] = form
    return words


def has_words(package: str) -> bool:
    """Whether *package* is one that has words of its own."""
    return package in _words()


def _written(form: str, verb: str, given: str, default: str) -> str:
    named = [default if each == _LEGACY else _plain(each) for each in given.split(", ") if each]
    names = [*named]
    while len(names) < 2:  # where a sentence speaks of any stream
        names.append("event" if "Event" in verb and not names else "stream")
    if names[0].startswith(_MADE_BY) and form.startswith("{each}."):
        return form.replace("{each}.", "") + f" of {names[0]}"
    named = named or names[:1]
    times = named if "{each}" in form else named[:1]
    return " and ".join(form.format(*names, all=", ".join(named), each=name) for name in times)


def _plain(argument: str) -> str:
    """Return the *argument* of a call in a message as code: "on_card" for "'on_card'"; other words in backticks."""
    name = argument.strip("'")
    return name if name.isidentifier() or name.startswith(_MADE_BY) else f"`{name}`"


@lru_cache(maxsize=64)
def package_of(file: str) -> str:
    """Return the package whose words the program in *file* knows; "" for none, for several, or if there is no file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # the text of a cell, or of a program that is no file
        return ""
    found = {package for node in ast.walk(tree) for package in _imported(node)}
    return found.pop() if len(found) == 1 and found <= _words().keys() else ""


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the packages for CUDA that *node* imports."""
    match node:
        case ast.Import(names):
            modules = [name.name for name in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            modules = [f"{module}.{name.name}" for name in names]
        case _:
            return
    for module in modules:
        if f"{module}.".startswith("numba.cuda."):
            yield "numba"
        elif f"{module}.".startswith("cuda."):
            yield ".".join(module.split(".")[:2])
