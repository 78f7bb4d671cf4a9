"""Chakra execution traces: the nodes of one rank, from a file of protobuf messages or from the JSON of these.

A file begins with its metadata; nodes follow, each message behind its length (the schema is et_def.proto of
mlcommons/chakra, 1.0.0). In JSON the same messages stand one behind the other, as Chakra's own tool writes them.

Files are foreign data. Their bytes, the bytes of a message and the number of nodes have limits; an error names the file
and the place in it.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from acl_py.late_imports import import_late
from acl_py.programs.format import ProgramError
from device_model.errors import printable

MOST_BYTES = 1 << 30  # of a file
MOST_NODES = 1_000_000  # of a file
_MESSAGE_BYTES = 64 << 20
_LENGTH_BYTES = 5  # of a length of 32 bits, seven bits in each
_SPACE = " \t\r\n"


class NodeKind(Enum):
    """What a node does; the values are the schema's names."""

    METADATA = "METADATA_NODE"
    LOAD = "MEM_LOAD_NODE"
    STORE = "MEM_STORE_NODE"
    COMPUTE = "COMP_NODE"
    SEND = "COMM_SEND_NODE"
    RECV = "COMM_RECV_NODE"
    COLLECTIVE = "COMM_COLL_NODE"


class Node(NamedTuple):
    """One node: it begins when all nodes of *behind*, which are ids, have ended.

    *attributes* have plain values: numbers, texts, truth values, and lists of them.
    """

    id: int
    name: str
    kind: NodeKind
    behind: tuple[int, ...]
    duration_us: int
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"node {self.id} {printable(self.name)!r} ({self.kind.value})"


def read(path: Path) -> list[Node]:
    """Return the nodes of the file at *path*, in its order; its name ends in `.et` or `.json`.

    Raises:
        ProgramError: The file cannot be read, is too large, or has what no such file can have.
        ImportError: The package protobuf is not installed.
    """
    name = printable(str(path))
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise ProgramError(f"{name}: has {size:,} bytes, and at most {MOST_BYTES:,} are read")
        data = path.read_bytes()
    except OSError as error:
        raise ProgramError(f"{name}: cannot be read: {error.strerror}") from error
    messages = _from_json(data, name) if path.suffix == ".json" else _from_bytes(data, name)
    nodes: dict[int, Node] = {}
    for message in messages:
        node = _node(message, name)
        if node.id in nodes:
            raise ProgramError(f"{name}: {nodes[node.id]} and {node} have the same id")
        nodes[node.id] = node
        if len(nodes) > MOST_NODES:
            raise ProgramError(f"{name}: has more than {MOST_NODES:,} nodes")
    return list(nodes.values())


def _from_bytes(data: bytes, name: str) -> Iterator[Any]:
    """Yield the nodes of a file of messages; the first message is the metadata."""
    metadata, node = messages()
    at, kind = 0, metadata
    while at < len(data):
        start, length = _length(data, at, name)
        if length > min(_MESSAGE_BYTES, len(data) - start):
            raise ProgramError(f"{name}: the message at byte {at:,} has {length:,} bytes, which the file does not have")
        message = kind()
        try:
            message.ParseFromString(data[start : start + length])
        except import_late("google.protobuf.message").DecodeError as error:
            raise ProgramError(f"{name}: the message at byte {at:,} is no message of Chakra: {error}") from error
        if kind is node:
            yield message
        at, kind = start + length, node
    if kind is metadata:
        raise ProgramError(f"{name}: is empty: there is not even the metadata")


def _length(data: bytes, at: int, name: str) -> tuple[int, int]:
    """Return where the message behind the length at *at* begins, and that length."""
    length = 0
    for place, byte in enumerate(data[at : at + _LENGTH_BYTES]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return at + place + 1, length
    raise ProgramError(f"{name}: at byte {at:,} there is no length of a message")


def _from_json(data: bytes, name: str) -> Iterator[Any]:
    """Yield the nodes of JSON documents that stand one behind the other; the first one is the metadata."""
    parse = import_late("google.protobuf.json_format")
    metadata, node = messages()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProgramError(f"{name}: is not UTF-8 text: {error.reason} at byte {error.start}") from error
    decoder, at, kind = json.JSONDecoder(), 0, metadata
    while at < len(text):
        if text[at] in _SPACE:
            at += 1
            continue
        try:
            document, end = decoder.raw_decode(text, at)
            message = parse.ParseDict(document, kind())
        except (ValueError, RecursionError, parse.ParseError, AttributeError, TypeError) as error:
            reason = printable(str(error))[:200]
            raise ProgramError(f"{name}: at character {at:,} there is no message of Chakra: {reason}") from error
        if kind is node:
            yield message
        at, kind = end, node
    if kind is metadata:
        raise ProgramError(f"{name}: is empty: there is not even the metadata")


def _node(message: Any, name: str) -> Node:
    names = {each.number: each.name for each in message.DESCRIPTOR.fields_by_name["type"].enum_type.values}
    kind = names.get(message.type, str(message.type))
    known = {each.value: each for each in NodeKind}
    if kind not in known:
        what = f"node {message.id} {printable(message.name)!r}"
        raise ProgramError(f"{name}: {what} is of the unknown type {kind}; known are {', '.join(known)}")
    behind = dict.fromkeys((*message.ctrl_deps, *message.data_deps))
    attributes = {each.name: _value(each) for each in message.attr}
    return Node(message.id, message.name, known[kind], tuple(behind), message.duration_micros, attributes)


def _value(attribute: Any) -> Any:
    """Return the value of an attribute; None if it has none."""
    field = attribute.WhichOneof("value")
    value = None if field is None else getattr(attribute, field)
    return list(value.values) if field is not None and field.endswith("_list") else value


# --- the schema: fields by number, so that no code of the protocol compiler is needed

_TYPES = ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
          "sfixed64", "bool", "string", "bytes")  # fmt: skip
_NODE_TYPES = ("INVALID_NODE", *(kind.value for kind in NodeKind))  # from 0 on
_PACKAGE = "acl_py.chakra"


@cache
def messages() -> tuple[type[Any], type[Any]]:
    """Return the classes of the messages of metadata and of nodes."""
    try:
        descriptors = import_late("google.protobuf.descriptor_pb2")
        pools = import_late("google.protobuf.descriptor_pool")
        factory = import_late("google.protobuf.message_factory")
    except ImportError as error:
        raise ImportError("Chakra traces need the package protobuf: pip install 'acl_py[chakra]'") from error
    file = descriptors.FileDescriptorProto(name="acl_py/chakra.proto", package=_PACKAGE, syntax="proto3")
    types = descriptors.FieldDescriptorProto
    kinds = file.enum_type.add(name="NodeType")
    for number, each in enumerate(_NODE_TYPES):
        kinds.value.add(name=each, number=number)

    def message(name: str, *fields: tuple[int, str, str]) -> Any:
        made = file.message_type.add(name=name)
        for number, field, type_ in fields:
            _add_field(types, made, number, field, type_)
        return made

    attribute = message("Attribute", (1, "name", "string"), (2, "doc_string", "string"))
    attribute.oneof_decl.add(name="value")
    for place, each in enumerate(_TYPES):
        message(f"{each.title()}List", (1, "values", f"{each}*"))
        _add_field(types, attribute, 2 * place + 3, f"{each}_val", each).oneof_index = 0
        _add_field(types, attribute, 2 * place + 4, f"{each}_list", f"{each.title()}List").oneof_index = 0
    message("Metadata", (1, "version", "string"), (2, "attr", "Attribute*"))
    message("Info", (1, "values", "string"), (2, "shapes", "string"), (3, "types", "string"))
    message(
        "Node",
        (1, "id", "uint64"), (2, "name", "string"), (3, "type", "NodeType"), (4, "ctrl_deps", "uint64*"),
        (5, "data_deps", "uint64*"), (6, "start_time_micros", "uint64"), (7, "duration_micros", "uint64"),
        (8, "inputs", "Info"), (9, "outputs", "Info"), (10, "attr", "Attribute*"),
    )  # fmt: skip
    pool = pools.DescriptorPool()
    pool.Add(file)
    made = (factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{each}")) for each in ("Metadata", "Node"))
    metadata, node = made
    return metadata, node


def _add_field(types: Any, message: Any, number: int, name: str, type_: str) -> Any:
    """Add a field to *message*; a *type_* with a star is repeated, one with a capital is a message or an enum."""
    plain = type_.rstrip("*")
    field = message.field.add(number=number, name=name)
    field.label = types.LABEL_REPEATED if type_ != plain else types.LABEL_OPTIONAL
    if plain[0].isupper():
        field.type = types.TYPE_ENUM if plain == "NodeType" else types.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{plain}"
    else:
        field.type = getattr(types, f"TYPE_{plain.upper()}")
    return field
