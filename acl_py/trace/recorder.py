"""The recorder: every operation and every host call as one packed row each, decoded when somebody looks.

A row of an operation takes 44 bytes, one of a call 24. Names, streams and sites are numbered as they come, so a trace is the same for
every run and holds no address.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from acl_py.sites import Site
from device_model.observe import Observer
from device_model.ops import Op
from device_model.streams import Stream

_OP = Struct("<HHIiqqqQ")  # name, kind, stream, site; queued, start, end; bytes
_CALL = Struct("<Iiqq")  # name, site; enter, exit
_GROWTH = 1 << 16  # rows by which a table grows

ENGINES = {"h2d": "H2D", "d2h": "D2H", "d2d": "cores", "fill": "cores", "kernel": "cores", "host_function": "host"}


class Operation(NamedTuple):
    """One operation on a device. Times in nanoseconds; *site* is the line that submitted it."""

    name: str
    kind: str
    stream: str
    engine: str
    queued_ns: int
    start_ns: int
    end_ns: int
    bytes: int
    site: str
    device: int


class Call(NamedTuple):
    """One call of the host, from *enter_ns* to *exit_ns*, made in *file* at *line*."""

    name: str
    enter_ns: int
    exit_ns: int
    file: str
    line: int


class _Names:
    """Numbers for things, in the order in which they come."""

    __slots__ = ("known", "of")

    def __init__(self) -> None:
        self.of: dict[object, int] = {}
        self.known: list[object] = []

    def number(self, thing: object) -> int:
        number = self.of.get(thing)
        if number is None:
            number = self.of[thing] = len(self.known)
            self.known.append(thing)
        return number


class Trace(Observer):
    """All operations and calls of a simulation; `ops` and `calls` are lists of records, in order of their end."""

    def __init__(self) -> None:
        self._ops = bytearray(_OP.size * _GROWTH)
        self._op_end = 0
        self._calls = bytearray(_CALL.size * _GROWTH)
        self._call_end = 0
        self._names = _Names()
        self._streams = _Names()
        self._sites = _Names()

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} operations and {self._call_end // _CALL.size} calls>"

    def __len__(self) -> int:
        return self._op_end // _OP.size

    def op_ended(self, op: Op) -> None:
        """Note a row."""
        end = self._op_end
        if end == len(self._ops):
            self._ops.extend(bytes(_OP.size * _GROWTH))
        names, streams, sites = self._names, self._streams, self._sites
        try:
            name, kind, stream, site = (
                names.of[op.work.name],
                names.of[op.work.kind],
                streams.of[op.stream],
                sites.of[op.site],
            )
        except KeyError:
            name, kind = names.number(op.work.name), names.number(op.work.kind)
            stream, site = streams.number(op.stream), sites.number(op.site)
        _OP.pack_into(self._ops, end, name, kind, stream, site, op.queued_ns, op.start_ns, op.end_ns, op.nbytes)
        self._op_end = end + _OP.size

    def call(self, name: str, enter_ns: int, exit_ns: int, site: object) -> None:
        """Note a row."""
        end = self._call_end
        if end == len(self._calls):
            self._calls.extend(bytes(_CALL.size * _GROWTH))
        names, sites = self._names, self._sites
        try:
            name_number, site_number = names.of[name], sites.of[site]
        except KeyError:
            name_number, site_number = names.number(name), sites.number(site)
        _CALL.pack_into(self._calls, end, name_number, site_number, enter_ns, exit_ns)
        self._call_end = end + _CALL.size

    @property
    def ops(self) -> list[Operation]:
        """All operations that have ended, in order of their end."""
        return list(self._operations())

    @property
    def calls(self) -> list[Call]:
        """All host calls that have returned, in the order of their returns."""
        return list(self._made())

    def _operations(self) -> Iterator[Operation]:
        names, streams, sites = self._names.known, self._streams.known, self._sites.known
        for name, kind, number, site, queued, start, end, nbytes in _OP.iter_unpack(
            memoryview(self._ops)[: self._op_end]
        ):
            stream = streams[number]
            assert isinstance(stream, Stream), f"{stream!r} is no stream"
            what = str(names[kind])
            yield Operation(
                str(names[name]),
                what,
                stream.name,
                ENGINES[what],
                queued,
                start,
                end,
                nbytes,
                str(sites[site]),
                stream.context.device.ordinal,
            )

    def _made(self) -> Iterator[Call]:
        names, sites = self._names.known, self._sites.known
        for name, number, enter, exit_ in _CALL.iter_unpack(memoryview(self._calls)[: self._call_end]):
            site = sites[number]
            file, line = (site.file, site.line) if isinstance(site, Site) else ("", 0)
            yield Call(str(names[name]), enter, exit_, file, line)
