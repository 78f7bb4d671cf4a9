"""The API reference: for each public package the names that it gives, with their docstrings; acl_py has a page for each
noun.

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
from typing import Annotated, NamedTuple, get_origin

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


class Noun(NamedTuple):
    """A page of acl_py: what it is about, in words, the modules whose names it has, and names that no module tells."""

    title: str
    about: str
    modules: tuple[str, ...]
    names: tuple[str, ...] = ()


# The pages of acl_py, in their order, by the name of their file.
NOUNS = {
    "simulation": Noun(
        "Simulation",
        "begins, ends and describes a simulation",
        ("acl_py.simulation", "acl_py.running", "acl_py.waiting", "acl_py.sweeps", "device_model.profile",
         "device_model.rules", "device_model.observe"),
        ("load_ipython_extension", "unload_ipython_extension"),
    ),
    "device": Noun(
        "Device and context",
        "devices, their contexts, and access from one to another",
        ("acl_py.verbs.devices", "acl_py.verbs.peers", "device_model.contexts"),
        ("CPU_DEVICE_ID", "INVALID_DEVICE_ID"),
    ),
    "stream": Noun(
        "Stream",
        "queues of work",
        ("acl_py.verbs.streams", "acl_py.verbs.waits"),
        ("Stream", "StreamWaitEvent"),
    ),
    "event": Noun(
        "Event",
        "places in streams that others wait for",
        ("acl_py.verbs.events", "acl_py.verbs.records"),
        ("Event",),
    ),
    "signal": Noun("Notify and values", "signals between streams", ("acl_py.verbs.signals", "device_model.signals")),
    "buffer": Noun(
        "Buffer and array",
        "memory of devices, and pinned memory of the host",
        ("acl_py.verbs.memory", "acl_py.verbs.pools", "acl_py.verbs.arrays", "device_model.memory.allocation"),
    ),
    "managed": Noun(
        "Managed memory",
        "memory whose pages move between the host and devices",
        ("acl_py.verbs.managed", "device_model.memory.pages"),
    ),
    "copy": Noun(
        "Copy and fill",
        "copies between memories, and fills",
        ("acl_py.verbs.copies", "acl_py.verbs.copy_batches", "acl_py.verbs.fills", "acl_py.runtime.routes"),
    ),
    "kernel": Noun(
        "Kernel",
        "functions that a device runs, their arguments and costs",
        ("acl_py.verbs.kernels", "acl_py.verbs.costs", "acl_py.verbs.card_code"),
        ("In", "InOut", "Out"),
    ),
    "graph": Noun(
        "Graph",
        "work that is queued as a whole: nodes, instantiation, launches",
        ("acl_py.verbs.graphs", "acl_py.verbs.graph_nodes", "device_model.graphs.graph",
         "device_model.graphs.executable"),
    ),
    "capture": Noun(
        "Capture",
        "graphs made of what streams are given",
        ("acl_py.verbs.captures", "acl_py.verbs.task_groups", "device_model.graphs.capture",
         "device_model.graphs.groups"),
    ),
    "callback": Noun("Host function and callback", "functions of the host in streams", ("acl_py.verbs.callbacks",)),
    "host": Noun("Host", "work and sleep of the host, its threads and last errors", ("acl_py.verbs.host",)),
    "collective": Noun(
        "Collective and communicator",
        "operations of several devices together",
        ("acl_py.verbs.collectives", "acl_py.verbs.communicators", "acl_py.verbs.collective_groups",
         "device_model.collectives"),
    ),
    "error": Noun(
        "Error and limit",
        "errors, failure modes and time limits",
        ("acl_py.errors", "device_model.errors", "acl_py.verbs.failures"),
    ),
    "mark": Noun("Mark", "names for what a program does", ("acl_py.verbs.marks",)),
}  # fmt: skip
ACCESSES = {
    Access.IN: "the kernel reads it",
    Access.OUT: "the kernel writes it",
    Access.IN_OUT: "the kernel reads and writes it",
}
VERBS = """The verbs have the names of Ascend's functions without the prefix `aclrt`, and all of them are coroutines.
One that queues work returns as soon as the work is queued. A table has [what each call waits for](waits.md)."""


def names_of(package: str) -> list[str]:
    """Return the names that *package* gives to those who import from it."""
    module = importlib.import_module(package)
    return sorted(name for name in dir(module) if name[0] != "_" and not isinstance(getattr(module, name), ModuleType))


def write(pages: Path) -> None:
    """Write a page for each package, one for each noun of acl_py, and the table of waits into *pages*."""
    for package in PACKAGES:
        importlib.import_module(package)
    nouns = {f"acl_py/{file}.rst": noun_page(NOUNS[file], names) for file, names in by_noun().items()}
    packages = {f"{package}.rst": page_of(package, title) for package, title in PACKAGES.items() if package != "acl_py"}
    made = {"acl_py.md": overview(), **nouns, **packages, "waits.md": waits()}
    for old in (*pages.glob("acl_py*.*"), *pages.glob("acl_py/*")):
        old.unlink()
    (pages / "acl_py").mkdir(parents=True, exist_ok=True)
    for file, text in made.items():
        (pages / file).write_text(text, encoding="utf-8")


def page_of(package: str, title: str) -> str:
    """Return the page of *package*."""
    directives = [f"{_directive(package, name)}\n" for name in names_of(package)]
    return "\n".join([title, "=" * len(title), "", f".. automodule:: {package}\n   :no-members:", "", *directives])


def by_noun() -> dict[str, list[str]]:
    """Return the names of acl_py by the file of their noun.

    Raises:
        ValueError: a name belongs to no noun.
    """
    found: dict[str, list[str]] = {file: [] for file in NOUNS}
    for name in names_of("acl_py"):
        home = getattr(getattr(sys.modules["acl_py"], name), "__module__", None) or ""
        fits = (file for file, noun in NOUNS.items() if name in noun.names or home.startswith(noun.modules))
        file = next(fits, None)
        if file is None:
            raise ValueError(f"acl_py.{name}, of {home or 'no module'}, belongs to no noun: add its module to NOUNS")
        found[file].append(name)
    return found


def overview() -> str:
    """Return the page of acl_py: each name with its sentence, by noun. The old address of each name leads there."""
    lines = ["# acl_py: the verbs", "", "```{py:module} acl_py\n```", "", VERBS, ""]
    for file, names in by_noun().items():
        noun = NOUNS[file]
        lines += [f"## {noun.title}", "", f"[{noun.title}](acl_py/{file}.rst): {noun.about}.", ""]
        lines += [f"* {_anchors(name)}{{py:obj}}`{name} <acl_py.{name}>`{_sentence(name)}" for name in names]
        lines.append("")
    return "\n".join([*lines, "```{toctree}", ":hidden:", *(f"acl_py/{file}" for file in NOUNS), "```", ""])


def _anchors(name: str) -> str:
    """Return the places to which links to *name* and its members lead that are older than the pages of nouns."""
    thing = getattr(sys.modules["acl_py"], name)
    members = [each for each in vars(thing) if each[0] != "_"] if inspect.isclass(thing) else []
    return "".join(f'<a id="acl_py.{each}"></a>' for each in [name, *(f"{name}.{member}" for member in members)])


def _sentence(name: str) -> str:
    """Return the first sentence about *name*, behind a colon; "" if it has none of its own."""
    thing = getattr(sys.modules["acl_py"], name)
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return ""
    first = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z)`*])[.:] (?=[A-Z])", first)[0].rstrip(".:")
    return f": {_as_markdown(sentence)}"


def _as_markdown(text: str) -> str:
    """Return *text* of a docstring with what Markdown would read as marks escaped."""
    return re.sub(r"`[^`]*`|([*_<\[|])", lambda found: f"\\{found[1]}" if found[1] else found[0], text)


def noun_page(noun: Noun, names: list[str]) -> str:
    """Return the page of *noun*, with all that is said of *names*."""
    about = f"{noun.about[0].upper()}{noun.about[1:]}. The other nouns are in :doc:`../acl_py`."
    directives = [f"{_directive('acl_py', name)}\n" for name in names]
    lines = [noun.title, "=" * len(noun.title), "", ".. py:currentmodule:: acl_py", "", about, "", *directives]
    return "\n".join(lines)


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
