"""Saved traces: a Timeline as a file, readable without the program that made it.

The file is compressed JSON. It has a line each for a head with the version of the form, a line for each column of each
list of rows, and a last line that says that nothing is missing. A column of texts has each text once, and a number for
each row. The columns are the fields of the rows in timeline.py.

A file may come from somebody else: `read_trace` checks every value, every index and every row (checks.py), and nothing
in it is code. No line is read that is longer than the column of so many rows can be, because a small file can unpack to
much more than a machine has.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from acl_py.calls.acts import Act
from acl_py.trace.rows import form10
from acl_py.trace.rows.checks import wrong_row
from acl_py.trace.rows.columns import UnpackedRows
from acl_py.trace.rows.timeline import Thing, Timeline
from acl_py.trace.rows.values import ABOUT, ACT, TEXT, Kind, encoded, int_of, kinds_of, kinds_of_head, places, text_of
from acl_py.whole_files import writing
from device_model.errors import printable

if TYPE_CHECKING:
    import gzip

FORM, VERSION = "acl_py trace", 13
# What earlier forms that are read did not keep.
_MISSING: Mapping[int, Sequence[str]] = {VERSION: (), 12: (), 11: ("source",), form10.VERSION: form10.MISSING}
_SINCE = {"viewed_ns": 12, "again": 13}  # columns of memory, and the first form that has them
_LINE = 1 << 24  # bytes that a line may have without rows
_LONGEST = 1 << 29  # bytes that a line may have with any number of them
_MOST = 500_000_000  # values of all columns: of some ten million operations and as many calls


class TraceFileError(ValueError):
    """A file that is no trace that can be read. The message names the file, the place and the problem."""


# The lists of a timeline in their order. The columns of each are the fields of its rows.
_LISTS = (
    "ops", "calls", "steps", "marks", "buffers", "handles", "strikes", "failures", "instructions", "launches",
    "migrations", "accesses", "exports", "hosts", "handovers", "source",
)  # fmt: skip
_END = {"end": True}
_FEW = 16  # rows for each value of a column with few values: it takes as long to encode one alone as 16 in a list
_HEAD = ("device", "overlay", "rules", "end_ns", "error", "host_time", "host_watched", "handovers_watched")
_HEAD_KINDS = kinds_of_head(Timeline)


def save(timeline: Timeline, path: str | Path) -> None:
    """Write *timeline* to the file *path*, which `read_trace` reads."""
    import gzip  # here and in read_trace(): most programs save no trace

    # No time of day and no name of a file: the same run gives the same bytes.
    with writing(path) as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        for line in _lines(timeline):
            file.write(line.encode() + b"\n")


class SavedTrace(NamedTuple):
    """A trace that came from another process: *data* is its file."""

    data: bytes

    def timeline(self) -> Timeline:
        """Return all rows as plain data."""
        with TemporaryDirectory(prefix="acl-py-") as folder:
            path = Path(folder, "run.acl")
            path.write_bytes(self.data)
            return read_trace(path)


def saved(timeline: Timeline) -> SavedTrace:
    """Return *timeline* in the form in which it goes to another process."""
    with TemporaryDirectory(prefix="acl-py-") as folder:
        path = Path(folder, "run.acl")
        save(timeline, path)
        return SavedTrace(path.read_bytes())


def _lines(timeline: Timeline) -> Iterator[str]:
    import json

    encode = json.JSONEncoder(separators=(",", ":"), default=dict).encode  # dict: of other mappings
    yield encode({"form": FORM, "version": VERSION} | {name: getattr(timeline, name) for name in _HEAD})
    for name in _LISTS:
        rows = getattr(timeline, name)
        yield encode({"list": name, "rows": len(rows)})
        columns = _values(rows, _row_of(name)._fields)
        for field, kind in _columns(name).items():
            column = columns.pop(field)
            if kind is TEXT:
                yield encode({"column": field} | _texts(column))
            else:
                values = encode(column) if kind.is_plain else _shared(column, encode, encoded if kind is ACT else None)
                yield f'{{"column":{encode(field)},"values":{values}}}'
    yield encode(_END)


def _values(rows: Sequence[Any], names: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Return all *rows* as a list for each field."""
    if isinstance(rows, UnpackedRows):
        blocks = [*rows.fields()]
        return {name: [*chain.from_iterable(block[name] for block in blocks)] for name in names}
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _shared(column: Sequence[Any], encode: Callable[[Any], str], prepare: Callable[[Any], Any] | None) -> str:
    """Return *column* as JSON, each value as *prepare* makes it ready.

    Where many rows share a value, such as the act of all calls of one kind, it is encoded once.
    """
    numbers = [*map(id, column)]
    values = dict(zip(numbers, column, strict=True))
    if prepare is not None:
        values = {number: prepare(value) for number, value in values.items()}
    if len(values) * _FEW > len(column):
        return encode([values[number] for number in numbers])
    texts = {number: encode(value) for number, value in values.items()}
    return f"[{','.join(map(texts.__getitem__, numbers))}]"


def _row_of(list_: str) -> Any:
    return get_args(get_type_hints(Timeline)[list_])[0]


def _columns(list_: str) -> Mapping[str, Kind]:
    return kinds_of(_row_of(list_))


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
            raise TraceFileError(f"{name}: is no trace that acl_py has saved{_other_form(path)}") from error
        raise TraceFileError(f"{name}: cannot be read: {error.strerror or error}") from error
    except EOFError as error:
        raise TraceFileError(f"{name}: is not whole: the end of the file is missing") from error
    except (zlib.error, ValueError, RecursionError) as error:
        raise TraceFileError(f"{name}: is damaged: {error}") from error


def _other_form(path: str | Path) -> str:
    """Return what to do about a file that is none of ours: most are traces for Perfetto, or stream programs."""
    with open(path, "rb") as file:
        begin = file.read(1 << 16)
    if b'"traceEvents"' in begin:
        return ": it is one for Perfetto. Record the run again, with --format acl"
    if b'"steps"' in begin:
        return ": it may be a stream program, which `acl-py replay --explain` explains"
    return ", with --format acl"


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

    def column(self, kind: Kind, rows: int) -> Any:
        """Return the value of the next line, a column of so many rows."""
        self._values += rows
        if self._values > _MOST:
            raise TraceFileError(f"{self.name}: is damaged: more than {_MOST:,} values")
        return self.next(min(_LINE + rows * kind.longest, _LONGEST))


def _timeline(lines: _Lines, name: str) -> Timeline:
    head = lines.read()
    if not isinstance(head, dict) or head.get("form") != FORM:
        raise TraceFileError(f"{name}: is no trace: its first line does not say {FORM!r}")
    version = head.get("version")
    if type(version) is not int:
        raise TraceFileError(f"{name}: is damaged: its version is no whole number")
    if version not in _MISSING:
        known = version < VERSION
        advice = "save the trace again" if known else "use a newer one"
        raise TraceFileError(f"{name}: has version {version!r}; this acl_py reads version {VERSION}: {advice}")
    try:
        missing = _MISSING[version]
        lists: dict[str, Any] = {
            list_: [] if list_ in missing else _rows(list_, lines, name, version) for list_ in _LISTS
        }
        if lines.read() != _END:
            raise TraceFileError(f"{name}: is not whole: its last line is missing")
        if lines.read() is not None:
            raise TraceFileError(f"{name}: is damaged: it goes on behind its last line")
        about: dict[str, Any] = {
            each: _HEAD_KINDS[each].decode(head.get(each)) for each in _HEAD if each not in missing
        }
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
    kinds = _columns(list_)
    is_old = version == form10.VERSION and list_ == "calls"
    if is_old:
        kinds = {"about" if kind is ACT else field: ABOUT if kind is ACT else kind for field, kind in kinds.items()}
    if list_ == "buffers":
        kinds = {field: kind for field, kind in kinds.items() if version >= _SINCE.get(field, 0)}
    head = lines.next()
    rows = head.get("rows") if isinstance(head, dict) and head.get("list") == list_ else None
    if type(rows) is not int or rows < 0:
        raise TraceFileError(f"{name}: the list {list_} is missing")
    columns = {}
    for field, kind in kinds.items():
        where = f"{name}: {list_}.{field}"
        line = lines.column(kind, rows)
        if not isinstance(line, dict) or line.get("column") != field or not isinstance(line.get("values"), list):
            raise TraceFileError(f"{where}: this column is missing")
        values = line["values"]
        if len(values) != rows:
            raise TraceFileError(f"{where}: has {len(values)} values, and the list has {rows} rows")
        columns[field] = [_value(kind, value, f"{where}: row {row}", line) for row, value in enumerate(values)]
    if is_old:
        columns["about"] = [
            _act_of_form_10(called, about, f"{name}: calls.about: row {row}")
            for row, (called, about) in enumerate(zip(columns["name"], columns["about"], strict=True))
        ]
    return [_row_of(list_)(*values) for values in zip(*columns.values(), strict=True)]


def _act_of_form_10(called: str, about: Sequence[Thing], where: str) -> Act[Thing]:
    try:
        act: Act[Thing] = ACT.decode(encoded(form10.act_of(called, about)))
    except (ValueError, TypeError, KeyError) as error:
        raise TraceFileError(f"{where}: no call of {called} was about that") from error
    return act


def _value(kind: Kind, value: Any, where: str, line: Mapping[str, Any]) -> Any:
    try:
        if kind is not TEXT:
            return kind.decode(value)
        if int_of(value) < 0:
            raise ValueError
        return text_of(line["texts"][value])
    except (ValueError, TypeError, IndexError, KeyError) as error:
        raise TraceFileError(f"{where}: must be {kind.what}") from error


def _check_places(lists: Mapping[str, list[Any]], name: str) -> None:
    """Refuse places of rows that there are not, so that a reader may follow each of them."""
    for list_, rows in lists.items():
        for column, (field, kind) in enumerate(_columns(list_).items()):
            if kind.is_plain:
                continue
            for number, row in enumerate(rows):
                if not all(-1 <= place < len(lists[of]) for of, place in places(kind, row[column])):
                    raise TraceFileError(f"{name}: {list_}.{field}: row {number} names a row that there is not")
