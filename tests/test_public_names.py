"""What the packages re-export stays: the names, and the signatures of functions and constructors.

`public_names.json` holds them. After an intended change `python -m tests.test_public_names` writes it again.
Annotations count by the names in them, so a class may move from one module to another.
"""

import ast
import enum
import importlib
import inspect
import json
import re
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from device_model.compiled import IS_COMPILED

PACKAGES = (
    "acl_py",
    "acl_py.asc",
    "acl_py.cta",
    "acl_py.ptx",
    "acl_py.compat.acl",
    "acl_py.compat.cuda",
    "acl_py.explain",
    "acl_py.sanitizer",
    "acl_py.teaching",
    "acl_py.trace",
    "device_model",
    "device_model.memory",
)
FILE = Path(__file__).with_name("public_names.json")


def names_of(package):
    """What *package* gives to those who import from it: neither its modules nor what begins with an underscore."""
    module = importlib.import_module(package)
    things = {name: getattr(module, name) for name in dir(module)}
    return {
        name: thing
        for name, thing in sorted(things.items())
        if not name.startswith("_") and not isinstance(thing, ModuleType)
    }


def text_of(thing):
    """*thing* as text: the signature of a verb or of a constructor, the members of an enumeration, else its type.

    Numbers of members are the vendor's and stay. Other values are texts for users, which may be mended.
    """
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        members = thing.__members__
        values = {name: repr(member.value) for name, member in members.items() if isinstance(member.value, int)}
        return values if len(values) == len(members) else list(members)
    if callable(thing) and hasattr(thing, "__name__"):
        return ("async " if inspect.iscoroutinefunction(thing) else "") + signature(thing)
    return type(thing).__name__


def signature(thing):
    """Its parameters and defaults; annotations as the source spells them, without quotes and without modules."""
    if inspect.isclass(thing) and issubclass(thing, np.ndarray):
        return "built in"  # whether NumPy's constructor tells its parameters depends on the version
    try:
        made = inspect.signature(thing)
    except ValueError:
        return "built in"
    spelled = annotations(thing.__init__ if inspect.isclass(thing) else inspect.unwrap(thing))
    parameters = [
        each.replace(annotation=spelled.get(each.name, inspect.Parameter.empty)) for each in made.parameters.values()
    ]
    text = str(inspect.Signature(parameters, return_annotation=spelled.get("return", inspect.Signature.empty)))
    return re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text)


class Spelled(str):
    """An annotation that looks like its source."""

    __slots__ = ()

    def __repr__(self):
        return str(self)


def annotations(function):
    try:
        [node] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError):
        return {}  # written by a dataclass
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    found = {each.arg: each.annotation for each in every if each is not None}
    found["return"] = node.returns
    return {name: Spelled(plain(ast.unparse(each))) for name, each in found.items() if each is not None}


def plain(text):
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", re.sub("['\"]", "", text))


def written(package):
    """What *package* gives, as it is now."""
    return {name: text_of(thing) for name, thing in names_of(package).items()}


@pytest.mark.skipif(IS_COMPILED, reason="compiled classes have no signatures")
@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_gives_is_as_before(package):
    assert written(package) == json.loads(FILE.read_text(encoding="utf-8"))[package]


if __name__ == "__main__":
    FILE.write_text(json.dumps({package: written(package) for package in PACKAGES}, indent=1) + "\n", encoding="utf-8")
