"""Saved traces: a Timeline as a file, readable without the program that made it.

The file is compressed JSON, a line each: a head with the version of the form, a line for each column of each list of
rows, and a last line that says that nothing is missing. A column of texts has each text once, and a number for each
row. The columns are the fields of the rows in timeline.py.

A file may come from somebody else: `read_trace` checks every value, every index and every row (checks.py), and nothing
in it is code. No line is read that is longer than the column of so many rows can be, because a small file can unpack to
much more than a machine has.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

from acl_py.calls import acts
from acl_py.calls.acts import (
    Act,
    Asked,
    Awaited,
    Began,
    CallbackBegan,
    CallbackEnded,
    CaptureBegan,
    CaptureEnded,
    Cleared,
    Completed,
    Destroyed,
    Ended,
    GraphLaunched,
    GraphUpdated,
    HandedOver,
    Made,
    NodeAdded,
    Plain,
    Queued,
    Recorded,
    Set,
    Slept,
    Synchronised,
    Waited,
    Word,
)
from acl_py.trace.rows import form10
from acl_py.trace.rows.checks import wrong_row
from acl_py.trace.rows.timeline import (
    Access,
    Call,
    Copied,
    CoreInstruction,
    CoreRun,
    Extent,
    Failure,
    Filled,
    GraphLaunch,
    Handle,
    Launched,
    Mark,
    Memory,
    Migration,
    Operation,
    Prefetched,
    Ref,
    Sleep,
    StreamStep,
    Strike,
    Thing,
    Timeline,
)  # fmt: skip
from acl_py.whole_files import writing
from device_model.completions import Why
from device_model.errors import printable

if TYPE_CHECKING:
    import gzip

FORM, VERSION = "acl_py trace", 11
_LIMIT = 2**63
_LINE = 1 << 24  # bytes that a line may have without rows
_LONGEST = 1 << 29  # bytes that a line may have with any number of them
_NUMBER, _OTHER = 32, 1 << 14  # bytes for each row: of a plain value, and of texts and lists
_MOST = 500_000_000  # values of all columns: of some ten million operations and as many calls


class TraceFileError(ValueError):
    """A file that is no trace that can be read. The message names the file, the place and the problem."""


class _Kind(NamedTuple):
    """What the values of a column are: how to check and decode one, and what to call it in a message."""

    what: str
    decode: Callable[[Any], Any]
    rows: str = ""  # the list that the values, or the first number of each of their parts, are places in
    encode: Callable[[Any], Any] = lambda value: value  # for JSON, which knows tuples and whole-number enums


def _checked(*types: type) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if type(value) not in types:  # a bool is no number here
            raise ValueError
        if isinstance(value, int | float) and not -_LIMIT <= value < _LIMIT:
            raise ValueError
        return value

    return decode


_int, _text = _checked(int), _checked(str)
_number = _checked(int, float)


def _row(cls: Any, *decoders: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(decoders):
            raise ValueError
        return cls(*(each(field) for each, field in zip(decoders, value, strict=True)))

    return decode


def _many(decode_one: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def decode(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError
        return tuple(map(decode_one, value))

    return decode


def _mapping(decode_one: Callable[[Any], Any]) -> Callable[[Any], Mapping[str, Any]]:
    def decode(value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        return {name: decode_one(each) for name, each in value.items()}

    return decode


def _optional(decode_one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else decode_one(value)


_extent = _row(Extent, _int, _int, _int)
_pair = _row(lambda first, second: (first, second), _int, _int)
_THINGS: Mapping[str, Callable[[Any], Any]] = {
    "Extent": _extent,
    "Copied": _row(Copied, _text, *[_int] * 9),
    "Filled": _row(Filled, *[_int] * 4),
    "Prefetched": _row(Prefetched, *[_int] * 4),
    "Ref": _row(Ref, _int),
    "Launched": _row(Launched, _text, _int, _int, _checked(bool), _many(_extent), _many(_extent), _int, _int),
}


def _thing(*tags: str) -> Callable[[Any], Any]:
    """Return a decoder of a row with one of the *tags* before its fields."""

    def decode(value: Any) -> Thing:
        if not isinstance(value, list) or not value or value[0] not in tags:
            raise ValueError
        row: Thing = _THINGS[value[0]](value[1:])
        return row

    return decode


_any_thing, _ref, _memory = _thing(*_THINGS), _thing("Ref"), _thing("Extent")
_word = _row(lambda _, memory, offset: Word(memory, offset), _text, _memory, _int)


def _named(value: Any) -> Thing:
    return _any_thing(value) if isinstance(value, list) else _checked(int, str)(value)  # type: ignore[no-any-return]


def _signal(value: Any) -> Any:
    is_word = isinstance(value, list) and value[:1] == [Word.__name__]
    return _word(value) if is_word else _ref(value)


_int_or_none, _ref_or_none = _optional(_int), _optional(_ref)
_ACTS: Mapping[str, Callable[[Any], Any]] = {
    kind.__name__: _row(kind, *decoders)
    for kind, *decoders in (
        (Queued, _optional(_any_thing), _ref),
        (Completed, _optional(_any_thing)),
        (Recorded, _ref, _ref, _int_or_none),
        (Waited, _ref, _ref, _int_or_none),
        (Set, _signal, _int_or_none, _ref),
        (Cleared, _ref, _ref),
        (Awaited, _signal, _int_or_none, _int_or_none, _ref, _int_or_none),
        (HandedOver, _ref, _int),
        (CallbackBegan, _int, _ref_or_none),
        (CallbackEnded, _ref, _int),
        (Synchronised, _ref_or_none, _int_or_none),
        (Asked, _ref, _int_or_none, _int_or_none),
        (Began, _memory, _ref_or_none),
        (Ended, _memory, _ref_or_none),
        (Made, _ref_or_none, _ref, _many(_ref), _int_or_none),
        (Destroyed, _ref, _int_or_none),
        (NodeAdded, _ref, _ref_or_none, _int_or_none, _many(_ref), _many(_int)),
        (CaptureBegan, _ref, _int, _ref, _many(_int)),
        (CaptureEnded, _ref, _ref),
        (GraphLaunched, _ref, _ref),
        (GraphUpdated, _ref, _ref),
        (Slept,),
        (Plain, _many(_named)),
    )
}
assert _ACTS.keys() == acts.KINDS.keys(), "each kind of act has its decoders"


def _act(value: Any) -> Act[Thing]:
    if not isinstance(value, list) or not value or value[0] not in _ACTS:
        raise ValueError
    act: Act[Thing] = _ACTS[value[0]](value[1:])
    return act


def _encoded(value: Any) -> Any:
    """Return *value*, an act or a field of one, for JSON: a record as its name and its fields."""
    if not isinstance(value, tuple):
        return value
    if type(value).__name__ in _THINGS:  # its parts are plain lists
        return [type(value).__name__, *map(_listed, value)]
    name = () if type(value) is tuple else (type(value).__name__,)
    return [*name, *map(_encoded, value)]


def _listed(value: Any) -> Any:
    return [*map(_listed, value)] if isinstance(value, tuple) else value


_INT, _TEXT = _Kind("a whole number of 64 bits", _int), _Kind("a text", _text)
_BOOL, _FLOAT = _Kind("true or false", _checked(bool)), _Kind("a number", _number)
_WHY = _Kind("a reason", lambda value: Why(_int(value)))
_BOOLS = _Kind("a list of true or false", _many(_checked(bool)))
_EXTENTS = _Kind("a list of [buffer, start, stop]", _many(_extent), "buffers")
_CORES = _Kind(
    "null or the run of a core kernel",
    _optional(_row(CoreRun, _int, _mapping(_number), _many(_text), _int, _many(_pair), _int)),
    encode=lambda run: None if run is None else run._replace(busy_us=dict(run.busy_us)),
)
_AN_ACT = _Kind("what a call did", _act, encode=_encoded)
_ABOUT = _Kind("a list of what a call was about", _many(_named))  # of form 10
_wait = _row(Sleep, _int, _int, _optional(_int), _checked(NoneType), _int)
_sleep = _row(Sleep, _int, _int, _optional(_int), _optional(_many(_wait)), _int)
_SLEEPS = _Kind("a list of [begin_ns, end_ns, null or the place of a row of ops, null or a list of such, a number]",
                _many(_sleep), "ops")  # fmt: skip
_OPTIONS = _Kind("an object", _mapping(_checked(bool, int, str)), encode=dict)


def _index(rows: str) -> _Kind:
    return _Kind(f"null or the place of a row of {rows}", _optional(_int), rows)


_STREAM = _Kind("-1 or the place of a row of handles", _int, "handles")
# The lists of a timeline in their order, and the columns of each in the order of its fields.
_LISTS: Mapping[str, tuple[Any, Sequence[_Kind]]] = {
    "ops": (Operation, (_TEXT, _TEXT, _TEXT, _TEXT, _INT, _INT, _INT, _INT, _TEXT, _INT, _CORES, _WHY, _index("ops"),
                        _TEXT, _INT, _INT, _STREAM, _INT, _INT, _BOOL, _EXTENTS, _EXTENTS, _INT,
                        _index("launches"))),
    "calls": (Call, (_TEXT, _INT, _INT, _TEXT, _INT, _TEXT, _AN_ACT, _INT, _index("ops"), _SLEEPS, _INT,
                     _TEXT)),
    "steps": (StreamStep, (_TEXT, _TEXT, _TEXT, _INT, _INT, _INT, _TEXT, _TEXT, _STREAM, _index("steps"),
                           _index("ops"))),
    "marks": (Mark, (_TEXT, _INT, _INT, _TEXT, _TEXT)),
    "buffers": (Memory, (_TEXT, _TEXT, _INT, _INT, _TEXT, _TEXT, _INT, _INT)),
    "handles": (Handle, (_TEXT, _TEXT, _INT, _TEXT, _OPTIONS, _INT)),
    "strikes": (Strike, (_INT, _TEXT, _TEXT, _TEXT, _TEXT)),
    "failures": (Failure, (_INT, _TEXT, _TEXT)),
    "instructions": (CoreInstruction, (_Kind("the place of a row of ops", _int, "ops"), _TEXT, _INT, _TEXT, _TEXT,
                                       _TEXT, _FLOAT, _FLOAT, _INT, _TEXT, _index("instructions"))),
    "launches": (GraphLaunch, (_TEXT, _TEXT, *[_INT] * 4, _TEXT, _TEXT, _STREAM, _BOOLS, _INT)),
    "migrations": (Migration, (_TEXT, _TEXT, *[_INT] * 7, _TEXT)),
    "accesses": (Access, (_INT, _EXTENTS, _BOOL, _TEXT, _INT, _TEXT, _index("calls"), _INT, _index("ops"))),
}  # fmt: skip
_PLAIN = (_INT, _BOOL, _FLOAT, _WHY)
_END = {"end": True}
_HEAD = ("device", "overlay", "rules", "end_ns", "error", "host_time")


def save(timeline: Timeline, path: str | Path) -> None:
    """Write *timeline* to the file *path*, which `read_trace` reads."""
    import gzip  # here and in read_trace(): most programs save no trace, and need neither
    import json

    # No time of day and no name of a file: the same run gives the same bytes.
    with writing(path) as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        for line in _lines(timeline):
            file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def _lines(timeline: Timeline) -> Iterator[Any]:
    yield {"form": FORM, "version": VERSION} | {name: getattr(timeline, name) for name in _HEAD}
    for name, (cls, kinds) in _LISTS.items():
        rows = getattr(timeline, name)
        yield {"list": name, "rows": len(rows)}
        for place, (field, kind) in enumerate(zip(cls._fields, kinds, strict=True)):
            column = [row[place] for row in rows]
            yield {"column": field} | (_texts(column) if kind is _TEXT else {"values": list(map(kind.encode, column))})
    yield _END


def _texts(column: Sequence[str]) -> dict[str, Any]:
    numbers = {text: number for number, text in enumerate(dict.fromkeys(column))}
    return {"texts": list(numbers), "values": [numbers[text] for text in column]}


def read_trace(path: str | Path) -> Timeline:
    """Return the timeline that the file *path* has.

    Raises:
        TraceFileError: the file cannot be read, is no trace, is of a later version, or is not whole.
    """
    import gzip

    name = printable(str(path))
    try:
        with gzip.open(path, "rb") as file:
            return _timeline(_Lines(file, name), name)
    except TraceFileError:
        raise
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise TraceFileError(f"{name}: is no trace that acl_py has saved: {error}") from error
        raise TraceFileError(f"{name}: cannot be read: {error.strerror or error}") from error
    except EOFError as error:
        raise TraceFileError(f"{name}: is not whole: the end of the file is missing") from error
    except (zlib.error, ValueError, RecursionError) as error:
        raise TraceFileError(f"{name}: is damaged: {error}") from error


class _Lines:
    """The lines of a *file* called *name*."""

    def __init__(self, file: "gzip.GzipFile", name: str) -> None:
        self._file, self.name = file, name
        self._values = 0  # of all columns so far

    def read(self, most: int = _LINE) -> Any:
        """Return the value of the next line, which has at most so many bytes; None behind the last one."""
        import json

        line = self._file.readline(most + 1)
        if len(line) > most:
            raise TraceFileError(f"{self.name}: is damaged: a line has more than {most:,} bytes")
        return json.loads(line.decode()) if line else None

    def next(self, most: int = _LINE) -> Any:
        """Do the same for a line that is not the last one."""
        line = self.read(most)
        if line is None:
            raise TraceFileError(f"{self.name}: is not whole: its last line is missing")
        return line

    def column(self, kind: _Kind, rows: int) -> Any:
        """Return the value of the next line, a column of so many rows."""
        self._values += rows
        if self._values > _MOST:
            raise TraceFileError(f"{self.name}: is damaged: more than {_MOST:,} values")
        return self.next(min(_LINE + rows * (_NUMBER if kind in _PLAIN else _OTHER), _LONGEST))


def _timeline(lines: _Lines, name: str) -> Timeline:
    head = lines.read()
    if not isinstance(head, dict) or head.get("form") != FORM:
        raise TraceFileError(f"{name}: is no trace: its first line does not say {FORM!r}")
    version = head.get("version")
    if type(version) is not int:
        raise TraceFileError(f"{name}: is damaged: its version is no whole number")
    if version not in (VERSION, form10.VERSION):
        known = version < VERSION
        advice = "save the trace again" if known else "use a newer one"
        raise TraceFileError(f"{name}: has version {version!r}; this acl_py reads version {VERSION}: {advice}")
    try:
        lists: dict[str, Any] = {list_: _rows(list_, lines, name, version) for list_ in _LISTS}
        if lines.read() != _END:
            raise TraceFileError(f"{name}: is not whole: its last line is missing")
        if lines.read() is not None:
            raise TraceFileError(f"{name}: is damaged: it goes on behind its last line")
        about: dict[str, Any] = {each: (_int if each == "end_ns" else _text)(head.get(each)) for each in _HEAD}
    except ValueError as error:
        if isinstance(error, TraceFileError):
            raise
        raise TraceFileError(f"{name}: the first line lacks a value of {', '.join(_HEAD)}") from error
    _check_places(lists, name)
    wrong = wrong_row(lists)
    if wrong is not None or about["end_ns"] < 0:
        what = "a time before 0" if wrong is None else f"{wrong[0]}: row {wrong[1]} is none that a recording has"
        raise TraceFileError(f"{name}: is damaged: {what}")
    return Timeline(**lists, **about)


def _rows(list_: str, lines: _Lines, name: str, version: int) -> list[Any]:
    cls, kinds = _LISTS[list_]
    fields = cls._fields
    is_old = version == form10.VERSION and list_ == "calls"
    if is_old:
        place = kinds.index(_AN_ACT)
        fields, kinds = (*fields[:place], "about", *fields[place + 1 :]), (*kinds[:place], _ABOUT, *kinds[place + 1 :])
    head = lines.next()
    rows = head.get("rows") if isinstance(head, dict) and head.get("list") == list_ else None
    if type(rows) is not int or rows < 0:
        raise TraceFileError(f"{name}: the list {list_} is missing")
    columns = []
    for field, kind in zip(fields, kinds, strict=True):
        where = f"{name}: {list_}.{field}"
        line = lines.column(kind, rows)
        if not isinstance(line, dict) or line.get("column") != field or not isinstance(line.get("values"), list):
            raise TraceFileError(f"{where}: this column is missing")
        values = line["values"]
        if len(values) != rows:
            raise TraceFileError(f"{where}: has {len(values)} values, and the list has {rows} rows")
        columns.append([_value(kind, value, f"{where}: row {row}", line) for row, value in enumerate(values)])
    if is_old:
        names = columns[fields.index("name")]
        columns[place] = [
            _act_of_form_10(called, about, f"{name}: calls.about: row {row}")
            for row, (called, about) in enumerate(zip(names, columns[place], strict=True))
        ]
    return [cls(*row) for row in zip(*columns, strict=True)]


def _act_of_form_10(called: str, about: Sequence[Thing], where: str) -> Act[Thing]:
    try:
        return _act(_encoded(form10.act_of(called, about)))
    except (ValueError, TypeError) as error:
        raise TraceFileError(f"{where}: no call of {called} was about that") from error


def _value(kind: _Kind, value: Any, where: str, line: Mapping[str, Any]) -> Any:
    try:
        if kind is not _TEXT:
            return kind.decode(value)
        if _int(value) < 0:
            raise ValueError
        return _text(line["texts"][value])
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise TraceFileError(f"{where}: must be {kind.what}") from error


def _check_places(lists: Mapping[str, list[Any]], name: str) -> None:
    """Refuse places of rows that there are not, so that a reader may follow each of them."""
    for list_, (cls, kinds) in _LISTS.items():
        for column, (field, kind) in enumerate(zip(cls._fields, kinds, strict=True)):
            if not kind.rows and kind is not _AN_ACT:
                continue
            for row, each in enumerate(lists[list_]):
                if not all(-1 <= place < len(lists[rows]) for rows, place in _places(kind, each[column])):
                    raise TraceFileError(f"{name}: {list_}.{field}: row {row} names a row that there is not")


def _places(kind: _Kind, value: Any) -> Iterator[tuple[str, int]]:
    if kind is _EXTENTS:
        yield from (("buffers", extent.buffer) for extent in value)
    elif kind is _SLEEPS:
        for sleep in value:
            yield from (("ops", each.after) for each in (sleep, *(sleep.waits or ())) if each.after is not None)
    elif kind is _AN_ACT:
        for each in acts.leaves(value):
            if isinstance(each, Ref):
                yield "handles", each.handle
            elif isinstance(each, Extent | Filled | Prefetched):
                yield "buffers", each.buffer
            elif isinstance(each, Copied):
                yield from (("buffers", each.dst), ("buffers", each.src))
            elif isinstance(each, Launched):
                yield from (("buffers", extent.buffer) for extent in (*each.reads, *each.writes))
    elif value is not None:
        yield kind.rows, value
