"""The values of saved traces: how each field of a row is checked and read, and which other rows it names.

All of it follows from the annotations of rows and of acts, so a new field needs nothing here. A record is a list of its
fields. What an act names may be of several types, so a record in an act has its type before its fields.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from acl_py.calls.acts import H, leaves
from acl_py.trace.rows.timeline import PLACES, Call, Extent, Record, Ref, Thing
from device_model.completions import Why

Decoder = Callable[[Any], Any]
_LIMIT = 2**63
_SHORT, _LONG = 32, 1 << 14  # bytes of a value in a file: of a number, and of texts and lists
_ACT = get_type_hints(Call)["act"]
_RECORDS = get_args(Record)
_NAMED: Mapping[str, Any] = {"work": Record, "memory": Extent, "about": Thing}  # by fields of acts; others name handles


class Kind(NamedTuple):
    """What the values of a field are: what to call one in a message, how to check and read one, and its most bytes.

    *rows* is the list in which they are places, if they are.
    """

    what: str
    decode: Decoder
    longest: int = _LONG
    rows: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether no value names another row."""
        return self.rows is None and self in _PLAIN.values()


def _checked(*types: type) -> Decoder:
    def decode(value: Any) -> Any:
        if type(value) not in types:  # a bool is no number here
            raise ValueError
        if isinstance(value, int | float) and not -_LIMIT <= value < _LIMIT:
            raise ValueError
        return value

    return decode


int_of, text_of = _checked(int), _checked(str)
TEXT = Kind("a text", text_of)
_PLAIN = {
    str: TEXT,
    int: Kind("a whole number of 64 bits", int_of, _SHORT),
    bool: Kind("true or false", _checked(bool), _SHORT),
    float: Kind("a number", _checked(int, float), _SHORT),
    Why: Kind("a reason", lambda value: Why(int_of(value)), _SHORT),
}


@cache
def kinds_of(row: Any) -> Mapping[str, Kind]:
    """Return the kinds of the fields of a class of rows or records."""
    return {field: _of_field(field, hint) for field, hint in get_type_hints(row).items()}


@cache
def kinds_of_head(row: Any) -> Mapping[str, Kind]:
    """Return the kinds of those fields of a class that have one plain value."""
    return {field: _PLAIN[hint] for field, hint in get_type_hints(row).items() if hint in _PLAIN}


def _of_field(field: str, hint: Any) -> Kind:
    kind, rows = _kind(hint), PLACES.get(field)
    if rows is None:
        return kind
    none = "null" if NoneType in get_args(hint) else "-1"
    return kind._replace(what=f"{none} or the place of a row of {rows}", rows=rows)


def _kind(hint: Any) -> Kind:
    origin, parts = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint == _ACT:
        return ACT
    if origin in (Union, UnionType) and NoneType in parts:
        kind = _kind(next(each for each in parts if each is not NoneType))
        return kind._replace(what=f"null or {kind.what}", decode=_optional(kind.decode))
    if origin in (Union, UnionType):
        return Kind("a value", _checked(*parts))
    if origin is tuple and parts[-1] is Ellipsis:
        each = _kind(parts[0])
        return Kind(f"a list of {each.what}", _many(each.decode))
    if origin is tuple:
        return Kind("a list", _record(tuple, lambda: [_kind(each).decode for each in parts]))
    if origin is not None:
        return Kind("an object", _mapping(_kind(parts[1]).decode))
    decode = _record(hint._make, lambda: [each.decode for each in kinds_of(hint).values()])
    return Kind(f"[{', '.join(hint._fields)}]", decode)


def _record(make: Callable[[Any], Any], decoders: Callable[[], list[Decoder]]) -> Decoder:
    """Return a decoder of a record; its *decoders* are asked for later, because a record may have some of its kind."""
    known = cache(decoders)
    return lambda value: make([decode(each) for decode, each in zip(known(), _items(value), strict=True)])


def _items(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError
    return value


def _optional(decode: Decoder) -> Decoder:
    return lambda value: None if value is None else decode(value)


def _many(decode: Decoder) -> Decoder:
    return lambda value: tuple(map(decode, _items(value)))


def _mapping(decode: Decoder) -> Decoder:
    def decode_all(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError
        return {name: decode(each) for name, each in value.items()}

    return decode_all


def _in_act(hint: Any) -> Decoder:
    """Return a decoder of what an act has with the annotation *hint*."""
    if get_origin(hint) is tuple:
        return _many(_in_act(get_args(hint)[0]))
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    classes = [get_origin(each) or each for each in options]
    records = {each.__name__: _tagged(each) for each in classes if issubclass(each, tuple)}
    plain = _checked(*(each for each in classes if not issubclass(each, tuple)))

    def decode(value: Any) -> Any:
        if not isinstance(value, list):
            return plain(value)
        name, *fields = value
        return records[name](fields)

    return decode


def _of_form_10(decode: Decoder) -> Decoder:
    """Return a decoder of what a call was about in form 10, where a fill was one of bytes, without a unit."""
    return lambda value: decode([*value, 1] if isinstance(value, list) and value[:1] == ["Filled"] else value)


def _tagged(record: Any) -> Decoder:
    if record in get_args(Record):
        return _kind(record).decode
    return _record(record._make, lambda: [_in_act(_with_names(*field)) for field in get_type_hints(record).items()])


def _with_names(field: str, hint: Any) -> Any:
    """Return *hint* with what stands for things in this *field* of an act."""
    names = _NAMED.get(field, Ref)
    if hint is H:
        return names
    return hint[names] if getattr(hint, "__parameters__", ()) else hint


ACT = Kind("what a call did", _in_act(_ACT))
ABOUT = Kind("a list of what a call was about", _many(_of_form_10(_in_act(Thing))))


def encoded(value: Any) -> Any:
    """Return *value*, an act or a field of one, for JSON."""
    if not isinstance(value, tuple):
        return value
    name = () if type(value) is tuple else (type(value).__name__,)
    return [*name, *(value if isinstance(value, _RECORDS) else map(encoded, value))]


def places(kind: Kind, value: Any) -> Iterator[tuple[str, int]]:
    """Yield the rows that *value* names: a list, and the place in it."""
    if kind.rows is not None:
        if value is not None:
            yield kind.rows, value
    elif isinstance(value, tuple):
        for each in leaves(value):
            if isinstance(each, tuple):
                for inner, part in zip(kinds_of(type(each)).values(), each, strict=True):
                    yield from places(inner, part)
