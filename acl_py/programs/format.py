"""Stream programs: JSON files of buffers, streams, events and the calls that one host thread makes.

Measured programs are stored in this form. A bug can be reported in it, and a schedule tried without writing code.
`load` reads a file and checks every program in it; an error names the program, the step and the field. `replay.py` runs
programs. docs/programs.md describes the format. steps.py has the table of steps, and fields.py the values of fields.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from acl_py.calls import fields as f
from acl_py.calls.acts import Act, Asked, Made, Plain
from acl_py.calls.fields import Field
from acl_py.calls.steps import GIVE_WAY, OPS, Name, with_buffer
from acl_py.calls.steps import GRAPH_OPS as GRAPH_OPS
from acl_py.calls.steps import ROWS as _ROWS
from acl_py.programs.documents import DocumentError, Odd, read, short
from device_model.errors import listed, printable

STEP = "step:"  # how the lines of programs begin that were not recorded
_LINE = re.compile(r".+:[0-9]{1,9}")  # such as "file.py:12"


class ProgramError(ValueError):
    """A program that cannot be run. The message names the program, the place in it, and the problem."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call: its place, its op, the id of the operation that it queues, its fields with the defaults filled in, and
    the name of the host thread that makes it (None: the main one). *task* is the task that the step belongs to (None:
    the main one), and *after* the index of a step that must have ended before. *site* is the line of a recorded program
    that made the call, as "file.py:12".
    """

    index: int
    op: str
    id: str | None
    fields: Mapping[str, Any]
    thread: str | None = None
    task: str | None = None
    after: int | None = None
    site: str = ""

    @property
    def line(self) -> str:
        """Its line as "file.py:12"; that of a program which was not recorded is "step:12"."""
        return self.site if _LINE.fullmatch(self.site) else f"{STEP}{self.index}"

    @property
    def act(self) -> Act[Any]:
        """What it does, on names."""
        return _ROWS[self.op].act(self.fields)

    @property
    def work(self) -> str:
        """The kind of the work that it queues, or lets the host make; empty if there is none."""
        return _ROWS[self.op].work

    @property
    def is_kernel(self) -> bool:
        """Whether it launches a kernel whose time and bytes it says."""
        return "blocks" in self.fields

    @property
    def makes_in(self) -> str:
        """Where the memory lies that it makes; empty if it makes none."""
        return OPS[self.op].get("name", f.LABEL).space

    @property
    def is_query(self) -> bool:
        """Whether the code that it returns is an answer, and not a failure of its own."""
        act = self.act
        return isinstance(act, Asked) and act.answer is not None

    @property
    def gives_way(self) -> bool:
        """Whether its task lets others go on behind it."""
        return self.op == GIVE_WAY


@dataclass(frozen=True, slots=True)
class Program:
    """A checked program. The `buffers`, `streams` and `events` exist before its first call. The host takes `gap_ns`
    between two calls; None: as the profile says. `notes` say what a recorded program could not keep of the run. Without
    `values` no bytes move in a run of it.
    """

    id: str
    buffers: Mapping[str, Mapping[str, Any]]
    streams: Mapping[str, Mapping[str, Any]]
    events: Mapping[str, Mapping[str, Any]]
    steps: tuple[Step, ...]
    gap_ns: int | None = None
    notes: tuple[str, ...] = ()
    values: bool = True

    @property
    def is_recorded(self) -> bool:
        """Whether it was made from a run: its steps have the lines of that run."""
        return any(not step.line.startswith(STEP) for step in self.steps)

    def buffers_in(self, *spaces: str) -> set[str]:
        """Return the names of all memory in *spaces*: what is there before the first call, and what calls make."""
        made = {step.fields["name"] for step in self.steps if step.makes_in in spaces}
        return made | {name for name, options in self.buffers.items() if options["space"] in spaces}

    def devices(self) -> list[int]:
        """Return for each step the device of the stream that it names, or the current one of its task."""
        current: dict[str | None, int] = {}
        contexts: dict[str, int] = {}
        streams = {name: options["device"] for name, options in self.streams.items()}
        devices = []
        for step in self.steps:
            here = step.fields.get("device", current.get(step.task, 0))
            match step.act:
                case Made(_, Name("context", context)):
                    contexts[context] = here
                case Plain((Name("context", context),)):
                    here = contexts.get(context, f.device_of_primary(context) or 0)
                case Made(_, Name("stream", stream)):
                    streams[stream] = here
            current[step.task] = here
            devices.append(streams.get(str(step.fields.get("stream")), here))
        return devices


_OF_EVERYSTEP = ("op", "id", "thread", "task", "after", "site")
_Known = defaultdict[str, dict[str, None]]  # the existing names of each kind, in their order
_BUFFER = {
    "space": Field(
        '"device", "pinned", "pageable" or "managed"',
        lambda value: value in ("device", "pinned", "pageable", "managed"),
    ),
    "bytes": f.BYTES,
    "device": f.DEVICE,
}  # fmt: skip
_STREAM_OPTIONS = {"flags": f.FLAGS, "priority": f.ZERO, "device": f.DEVICE}
_EVENT_OPTIONS = {"timing": f.TIMING, "blocking": f.BLOCKING, "device": f.DEVICE}


def load(path: str | Path) -> list[Program | ProgramError]:
    """Read the file at *path* ("-": standard input), which has one program or a list of them.

    Returns:
        For each program the checked program, or an error that says what is wrong with it.

    Raises:
        ProgramError: the file cannot be read, is not UTF-8, is not JSON, or has no programs.
    """
    try:
        name, documents = read(path)
    except DocumentError as error:
        raise ProgramError(str(error)) from error
    if not documents:
        raise ProgramError(f"{name}: has no programs: its list is empty")
    if len(documents) == 1 and not isinstance(documents[0], dict | Odd):
        raise ProgramError(f"{name}: must have a program or a list of programs, not {short(documents[0])}")
    return [_checked(entry, f"{name}: program {place}") for place, entry in enumerate(documents)]


def parse(document: object, where: str = "program") -> Program:
    """Return the program that *document*, decoded JSON, describes. *where* is its source, for messages.

    Raises:
        ProgramError: the program cannot run. The message names the program, the step and the field.
    """
    if not isinstance(document, dict):
        raise ProgramError(f"{where}: must be an object, not {short(document)}")
    id_ = document.get("id")
    if not f.is_text(id_):
        _refuse(where, "id", f.A_NAME, document)
    assert isinstance(id_, str)
    where = f"{where} {id_!r}"
    buffers = _declared(document, "buffers", _BUFFER, where)
    streams = _declared(document, "streams", _STREAM_OPTIONS, where)
    events = _declared(document, "events", _EVENT_OPTIONS, where)
    for name in f.STREAMS:
        if name in streams:
            raise ProgramError(f"{where}: streams.{name}: this stream always exists; do not declare it")
    entries = document.get("steps")
    if not isinstance(entries, list):
        _refuse(where, "steps", "a list of steps", document)
    known: _Known = defaultdict(
        dict,
        buffer=dict.fromkeys(buffers),
        stream=dict.fromkeys((*f.STREAMS, *streams)),
        event=dict.fromkeys(events),
        context={f.primary_of(0): None},
    )
    ids: dict[str, int] = {}
    steps = []
    for index, entry in enumerate(entries):
        step = _step(index, entry, known, f"{where}: step {index}")
        if step.id is not None:
            first = ids.setdefault(step.id, index)
            if first != index:
                raise ProgramError(f"{where}: step {index}: id: step {first} already has the id {step.id!r}")
            known["operation"][step.id] = None
        steps.append(step)
    gap_us = document.get("gap_us")
    if "gap_us" in document and not f.is_amount(gap_us):
        _refuse(where, "gap_us", f.US.what, document)
    notes = document.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        _refuse(where, "notes", "a list of strings", document)
    shown = tuple(printable(note) for note in notes)
    gap_ns = None if gap_us is None else round(gap_us * 1000)
    values = document.get("values", True)
    if not isinstance(values, bool):
        _refuse(where, "values", "true or false", document)
    return Program(id_, buffers, streams, events, tuple(steps), gap_ns, shown, values)


def _checked(entry: object, where: str) -> Program | ProgramError:
    try:
        return parse(entry, where)
    except ProgramError as error:
        return error


def _step(index: int, entry: object, known: _Known, where: str) -> Step:
    if not isinstance(entry, dict):
        raise ProgramError(f"{where}: must be an object, not {short(entry)}")
    op = entry.get("op")
    if not isinstance(op, str):
        _refuse(where, "op", "the name of a call", entry)
    if op not in OPS:
        raise ProgramError(f"{where}: op: there is no {short(op)}; {_meant(op, OPS, OPS)}")
    where = f"{where} ({op})"
    for name in ("id", "thread", "task", "site"):
        if name in entry and not f.is_text(entry[name]):
            _refuse(where, name, f.A_NAME, entry)
    after = entry.get("after")
    if "after" in OPS[op] and isinstance(after, list):  # there it names nodes
        after = None
    elif "after" in entry and not f.is_whole(after, 0, index - 1):
        earlier = f"the index of an earlier step, 0 to {index - 1}" if index else "left out: there is no earlier step"
        _refuse(where, "after", earlier, entry)
    options = {name: value for name, value in entry.items() if name not in _OF_EVERYSTEP}
    if "after" in OPS[op] and isinstance(entry.get("after"), list):
        options["after"] = entry["after"]
    fields = _fields(with_buffer(op, options), OPS[op], known, where)
    id_, thread, task, site = (entry.get(name) for name in ("id", "thread", "task", "site"))
    return Step(index, op, id_, fields, thread, task, after, printable(site or ""))


def _declared(
    document: Mapping[str, Any], section: str, fields: Mapping[str, Field], where: str
) -> dict[str, dict[str, Any]]:
    things = document.get(section, {})
    if not isinstance(things, dict):
        _refuse(where, section, "an object whose keys are names", document)
    for name, options in things.items():
        if not f.is_text(name):
            raise ProgramError(f"{where}: {section}: a key must be {f.A_NAME}, not {short(name)}")
        if not isinstance(options, dict):
            _refuse(f"{where}: {section}", name, "an object", things)
    known: _Known = defaultdict(dict)
    return {
        name: _fields(options, fields, known, f"{where}: {section}.{printable(name)}")
        for name, options in things.items()
    }


def _fields(options: Mapping[str, Any], fields: Mapping[str, Field], known: _Known, where: str) -> dict[str, Any]:
    """Return *options* with defaults filled in, and add the names that they create to *known*."""
    for name in options:
        if name not in fields:
            meant = _meant(name, fields, fields) if fields else "there are no fields"
            raise ProgramError(f"{where}: {short(name)} is unknown; {meant}")
    values = {}
    for name, field in fields.items():
        if name not in options:
            if field.default is f.REQUIRED:
                raise ProgramError(f"{where}: {name}: missing; it must be {field.what}")
            values[name] = field.default
            continue
        value = values[name] = options[name]
        if not field.fits(value):
            _refuse(where, name, field.what, options)
        for kind, named in field.mentions(value):
            there = known[kind]
            if named not in there and not (kind == "context" and f.device_of_primary(named) is not None):
                meant = f"there are {listed(there)}" if there else f"the program has no {kind}s"
                raise ProgramError(f"{where}: {name}: there is no {kind} {named!r}; {meant}")
        if field.makes is not None:
            known[field.makes].update(dict.fromkeys([value] if isinstance(value, str) else value))
    return values


def _meant(name: str, near: Iterable[str], all_: Iterable[str]) -> str:
    """Return a hint for the unknown *name*: the nearest of *near*, or a list of *all_*."""
    matches = get_close_matches(name, near, 1) if len(name) <= f.LONGEST else []
    return f"did you mean {matches[0]}?" if matches else f"there are {', '.join(all_)}"


def _refuse(where: str, field: str, what: str, entry: Mapping[str, Any]) -> NoReturn:
    problem = f"must be {what}, not {short(entry[field])}" if field in entry else f"missing; it must be {what}"
    raise ProgramError(f"{where}: {printable(field)}: {problem}")
