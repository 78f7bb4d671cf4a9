"""Model files of the vendor's compiler: what their headers and graphs say of inputs and outputs.

They cannot run here: what they compute is code for the card. But names, types and dims save the writing of a sidecar.

The layout is known from public readers of such files. A header of 256 bytes begins with "IMOD" and says how long the
rest is and whether it is encrypted. A table of partitions follows; that of type 0 is a protobuf message
`ge.proto.ModelDef`. In its graph, operators of type Data are the inputs, and the operands of NetOutput the outputs.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from acl_py.compat.acl.standins.models import FORMATS, GEAR_INPUT, Tensor

MAGIC = b"IMOD"
_HEADER = 256
_LENGTH, _ENCRYPTED, _LONG_LENGTH = 76, 80, 184  # where the header says them
_MODEL, _PARTITIONS = 0, 32  # the type of the partition with the graph, and more than the types that there are
# ge.proto.DataType by number.
_TYPES: Mapping[int, str] = {
    1: "float32", 2: "float16", 3: "int8", 4: "uint8", 5: "int16", 6: "uint16", 7: "int32", 8: "int64", 9: "uint32",
    10: "uint64", 11: "bool", 12: "float64", 16: "complex64", 17: "complex128", 27: "bfloat16",
}  # fmt: skip
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protobuf
# Numbers of fields in ge_ir.proto.
_GRAPH, _OP = 7, 6
_NAME, _TYPE, _INPUT, _ATTRIBUTE, _INPUT_DESC, _OUTPUT_DESC = 1, 2, 5, 10, 33, 34
_DTYPE, _SHAPE, _LAYOUT, _DIM, _INTEGER = 2, 3, 4, 1, 3


class VendorFileError(ValueError):
    """A model file of the vendor's that cannot be read; *is_cut* if a card could not either."""

    def __init__(self, what: str, *, is_cut: bool = False) -> None:
        super().__init__(what)
        self.is_cut = is_cut


@dataclass
class Tensors:
    """The inputs and outputs of a model file."""

    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)


def read(content: bytes) -> Tensors:
    """Return the inputs and outputs that *content*, a model file of the vendor's, says.

    Raises:
        VendorFileError: It is cut off, encrypted, or not as this reader knows such files.
    """
    if not content.startswith(MAGIC):
        raise VendorFileError("it does not begin with IMOD, as files of the vendor's compiler do", is_cut=True)
    if len(content) <= _HEADER:
        raise VendorFileError(f"it has {len(content)} bytes, and the header alone 256: it is cut off", is_cut=True)
    (short,), (long,) = struct.unpack_from("<I", content, _LENGTH), struct.unpack_from("<Q", content, _LONG_LENGTH)
    wanted = _HEADER + (long or short)
    if wanted != len(content):
        what = f"its header says {wanted} bytes, and there are {len(content)}: it is cut off, or damaged"
        raise VendorFileError(what, is_cut=True)
    if content[_ENCRYPTED]:
        raise VendorFileError("it is encrypted")
    try:
        return _tensors(_model(content))
    except (IndexError, ValueError, struct.error, UnicodeDecodeError) as error:
        if isinstance(error, VendorFileError):
            raise
        raise VendorFileError(f"its graph is not in the form that this reader knows ({error})") from error


def _model(content: bytes) -> bytes:
    """Return the partition with the graph. Newer files have numbers of eight bytes in the table."""
    (header,) = struct.unpack_from("<I", content, 4)
    for letter, width in (("I", 4), ("Q", 8)):
        (count,) = struct.unpack_from(f"<{letter}", content, header)
        end = header + width + 3 * width * count
        if not 0 < count < _PARTITIONS or end > len(content):
            continue
        rows = list(struct.iter_unpack(f"<3{letter}", content[header + width : end]))
        if len({kind for kind, _, _ in rows}) < count:
            continue
        if all(kind < _PARTITIONS and end + offset + size <= len(content) for kind, offset, size in rows):
            for kind, offset, size in rows:
                if kind == _MODEL:
                    return content[end + offset : end + offset + size]
    raise VendorFileError("its table has no partition with a graph")


@dataclass
class _Op:
    name: str = ""
    kind: str = ""
    inputs: list[str] = field(default_factory=list)
    index: int = -1  # of an input among the inputs
    given: list[bytes] = field(default_factory=list)  # descriptions of the operands, and of the results
    made: list[bytes] = field(default_factory=list)


def _tensors(model: bytes) -> Tensors:
    graph = next((value for number, value in _fields(model) if number == _GRAPH), None)
    if not isinstance(graph, bytes):
        raise VendorFileError("it has no graph")
    ops = [_op(value) for number, value in _fields(graph) if number == _OP and isinstance(value, bytes)]
    data = sorted((op for op in ops if op.kind in ("Data", "AippData", "AnnData")), key=lambda op: op.index)
    inputs = [_tensor(op.name, op.made[0]) for op in data if op.made and op.name != GEAR_INPUT]
    ends = [op for op in ops if op.kind == "NetOutput"]
    outputs = [_tensor(name, desc) for op in ends for name, desc in zip(op.inputs, op.given, strict=False)]
    if not inputs or not outputs:
        raise VendorFileError("its graph has no operators Data and NetOutput, which say the inputs and outputs")
    return Tensors(inputs, outputs)


def _op(message: bytes) -> _Op:
    op = _Op()
    for number, value in _fields(message):
        if isinstance(value, int):
            continue
        if number == _NAME:
            op.name = value.decode()
        elif number == _TYPE:
            op.kind = value.decode()
        elif number == _INPUT:
            op.inputs.append(value.decode())
        elif number == _INPUT_DESC:
            op.given.append(value)
        elif number == _OUTPUT_DESC:
            op.made.append(value)
        elif number == _ATTRIBUTE:
            entry = dict(_fields(value))
            attribute = entry.get(2)
            if entry.get(1) == b"index" and isinstance(attribute, bytes):
                index = dict(_fields(attribute)).get(_INTEGER, 0)
                op.index = index if isinstance(index, int) else -1
    return op


def _tensor(name: str, desc: bytes) -> Tensor:
    values = dict(_fields(desc))
    dtype, shape, layout = values.get(_DTYPE, 0), values.get(_SHAPE, b""), values.get(_LAYOUT, b"ND")
    if not isinstance(dtype, int) or dtype not in _TYPES:
        raise VendorFileError(f"{name} has elements of the unknown type {dtype!r}")
    assert isinstance(shape, bytes), "a message"
    assert isinstance(layout, bytes), "a text"
    known = layout.decode() if layout.decode() in FORMATS else "ND"
    return Tensor(name, _TYPES[dtype], tuple(_dims(shape)), known)


def _dims(shape: bytes) -> Iterator[int]:
    for number, value in _fields(shape):
        if number != _DIM:
            continue
        place = 0
        while isinstance(value, bytes) and place < len(value):
            dim, place = _varint(value, place)
            yield max(_signed(dim), -1)
        if isinstance(value, int):
            yield max(_signed(value), -1)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protobuf message: their numbers, and ints or bytes."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            length, place = _varint(message, place)
        if length is None or place + length > len(message):
            raise ValueError(f"byte {place} of a message of {len(message)}")
        yield number, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError(f"the number at byte {place} is too long")
