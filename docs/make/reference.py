"""The API reference: for each public package the names that it gives, with their docstrings.

Sphinx calls `write` before it reads its sources. autodoc fills the pages in; `as_rst` makes of a docstring of this
project what autodoc can read.
"""

import importlib
import inspect
import re
import sys
import textwrap
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated, get_origin

import numpy as np

from acl_py.verbs.arrays import Access

PACKAGES = {
    "acl_py": "acl_py: the verbs",
    "acl_py.asc": "acl_py.asc: kernels for AI cores",
    "acl_py.cta": "acl_py.cta: kernels of thread blocks",
    "acl_py.ptx": "acl_py.ptx: kernels in PTX",
    "acl_py.compat.acl": "acl_py.compat.acl: a process for scripts of acl",
    "acl_py.compat.cuda": "acl_py.compat.cuda: the driver of CUDA",
    "acl_py.explain": "acl_py.explain: explanations of a run",
    "acl_py.sanitizer": "acl_py.sanitizer: findings",
    "acl_py.teaching": "acl_py.teaching: for notebooks",
    "acl_py.trace": "acl_py.trace: recordings",
}
# The subjects of acl_py, in their order: the title, and the modules of acl_py that define its names.
SUBJECTS = {
    "Simulations": ("simulation", "runtime", "waiting", "errors"),
    "Devices and contexts": ("verbs.devices", "verbs.peers"),
    "Streams": ("verbs.streams",),
    "Events": ("verbs.events",),
    "Signals": ("verbs.signals",),
    "Memory": ("verbs.memory", "verbs.arrays"),
    "Managed memory": ("verbs.managed",),
    "Copies and fills": ("verbs.copies", "verbs.fills"),
    "Kernels": ("verbs.kernels",),
    "Host functions and callbacks": ("verbs.callbacks",),
    "The host": ("verbs.host",),
    "Captures and graphs": ("verbs.captures", "verbs.graphs"),
    "Failures and limits": ("verbs.failures",),
    "Marks": ("verbs.marks",),
}
ACCESSES = {
    Access.IN: "the kernel reads it",
    Access.OUT: "the kernel writes it",
    Access.IN_OUT: "the kernel reads and writes it",
}
VERBS = """The verbs have the names of Ascend's functions without the prefix `aclrt`, and all of them are coroutines.
One that queues work returns as soon as the work is queued. :doc:`waits` has what each of them waits for."""
OTHERS = "Types of the device"


def names_of(package: str) -> list[str]:
    """Return the names that *package* gives to those who import from it."""
    module = importlib.import_module(package)
    return sorted(name for name in dir(module) if name[0] != "_" and not isinstance(getattr(module, name), ModuleType))


def write(pages: Path) -> None:
    """Write a page for each package and the table of waits into *pages*."""
    pages.mkdir(exist_ok=True)
    for package in PACKAGES:
        importlib.import_module(package)
    for package, title in PACKAGES.items():
        (pages / f"{package}.rst").write_text(page_of(package, title), encoding="utf-8")
    (pages / "waits.md").write_text(waits(), encoding="utf-8")


def page_of(package: str, title: str) -> str:
    """Return the page of *package*."""
    about = (
        f".. py:module:: {package}\n\n{VERBS}" if package == "acl_py" else f".. automodule:: {package}\n   :no-members:"
    )
    lines = [title, "=" * len(title), "", about, ""]
    for heading, names in _subjects(package):
        lines += [heading, "-" * len(heading), ""] if heading else []
        for name in names:
            lines += [_directive(package, name), ""]
    return "\n".join(lines)


def _subjects(package: str) -> list[tuple[str, list[str]]]:
    """Return the names of *package* by subject."""
    names, module = names_of(package), importlib.import_module(package)
    if package != "acl_py":
        return [("", names)]
    by_subject: dict[str, list[str]] = {subject: [] for subject in [*SUBJECTS, OTHERS]}
    for name in names:
        home = getattr(getattr(module, name), "__module__", "").removeprefix("acl_py.")
        fits = (subject for subject, homes in SUBJECTS.items() if home.startswith(homes))
        by_subject[next(fits, OTHERS)].append(name)
    return list(by_subject.items())


def _directive(package: str, name: str) -> str:
    thing = getattr(sys.modules[package], name)
    first = next(each for each in PACKAGES if getattr(sys.modules[each], name, None) is thing)
    if first != package:
        return f".. py:data:: {name}\n\n   The same as :py:obj:`{first}.{name}`."
    if inspect.isclass(thing) and issubclass(thing, np.ndarray):
        return f".. autoclass:: {package}.{name}\n   :no-members:"
    if inspect.isclass(thing):
        options = ["members:", "member-order: bysource"]
        if issubclass(thing, Enum):
            options.append("undoc-members:")
        elif fields := _fields(thing):
            options.append(f"exclude-members: {', '.join(fields)}")
        return "\n".join([f".. autoclass:: {package}.{name}", *(f"   :{option}" for option in options)])
    if inspect.isroutine(thing):
        return f".. autofunction:: {package}.{name}"
    text = _data(package, name, thing)
    return f".. py:data:: {name}\n\n{textwrap.indent(text, '   ')}"


def _fields(record: type) -> list[str]:
    """Return the names of the fields of *record*: its signature and its docstring have them already."""
    return [*getattr(record, "_fields", ()), *getattr(record, "__dataclass_fields__", ())]


def _data(package: str, name: str, thing: object) -> str:
    """Return what there is to say of a constant: its value, and the comment behind it where it is defined."""
    if isinstance(thing, np.dtype):
        return f"The dtype {thing.name}."
    if get_origin(thing) is Annotated:
        return f"The annotation of an argument of a kernel: {ACCESSES[thing.__metadata__[0]]}."
    source = inspect.getsource(sys.modules[package])
    found = re.search(rf"from (\S+) import {name}\b", source)
    comment = found and re.search(rf"^{name} = .*  # (.*)$", inspect.getsource(sys.modules[found[1]]), re.MULTILINE)
    return f"{thing!r}" + (f": {comment[1]}." if comment else ".")


def waits() -> str:
    """Return the table: what each verb waits for under each set of rules."""
    rows = []
    for name in names_of("acl_py"):
        thing = getattr(sys.modules["acl_py"], name)
        found = re.search(r"^Waits:\n((?:    .*\n|\n)+)", inspect.getdoc(thing) or "", re.MULTILINE)
        if inspect.iscoroutinefunction(thing) and found:
            text = textwrap.dedent(found[1]).strip()
            items = dict(line.split(": ", 1) for line in re.sub(r"\n +", " ", text).splitlines() if line)
            shown = "<br>".join(f"*{rules}*: {what}" for rules, what in items.items()).replace("|", "\\|")
            rows.append(f"| {{py:func}}`{name} <acl_py.{name}>` | {shown} |")
    return "\n".join([WAITS, *rows, ""])


WAITS = """# What each call waits for

The answers of the docstrings in one table. The rules are `cuda`, `cuda_per_thread` and `acl`; a row that says *all
rules* holds for each of them. Names such as `h2d-p-*` are programs that [a card answered](../semantics.md).

| call | waits |
| --- | --- |"""


# What autodoc reads of a docstring


def as_rst(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:  # noqa: ARG001
    """Make of a docstring of this project, in place, what Sphinx reads as reStructuredText.

    Here an example is indented text, and a star may stand for any name.
    """
    made: list[str] = []
    in_section = in_block = False
    for line in lines:
        before = made[-1] if made else ""
        is_indented = line.startswith("    ")
        if line and not is_indented:
            in_section, in_block = bool(re.fullmatch(r"[A-Z][a-z]+:", line)), False
        elif is_indented and before in ("Example:", "Examples:"):
            made += ["    ::", ""]
            in_block = True
        elif is_indented and not in_section and not in_block and not before:
            made += ["::", ""]
            in_block = True
        elif is_indented and not in_section and not in_block and not before.startswith("    "):
            made += ["", "::", ""]
            in_block = True
        if in_block and in_section:
            line = line and f"    {line}"
        made.append(line if in_block else _escaped(line))
    lines[:] = made


def _escaped(line: str) -> str:
    """Return *line* with a backslash before stars, bars and underscores that mark nothing."""
    kept = r"^\s*\* |\*\w[^*]*\*|`[^`]*`"
    return re.sub(rf"({kept})|[*|]|_(?!\w)", lambda found: found[1] or "\\" + found[0], line)
