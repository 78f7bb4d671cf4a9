"""Model files that `acl-py atc` writes: a description, and the ONNX model that computes it, in one file.

A script may rename such a file, move it, or load it from memory. It begins with a sentence that says what it is, so
nobody takes it for a file of the vendor's compiler; a checksum at its end tells one that is cut off.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

from acl_py.compat.acl.standins.models import Tensor

MAGIC = b"acl-py model 1: an ONNX file for a simulated device. No card can load it.\n"
_LENGTHS = struct.Struct("<QQ")  # of the description and of the ONNX model
_SUM = struct.Struct("<I")


class GraphFileError(ValueError):
    """A file that begins like those of `acl-py atc`, and is cut off, damaged or of another version."""


@dataclass(frozen=True)
class Description:
    """What a model file says of its model; the ONNX model says the rest."""

    name: str
    inputs: tuple[Tensor, ...]
    soc_version: str
    precision: str = "float16"
    dynamic_batch: Sequence[int] = ()
    dynamic_hw: Sequence[Sequence[int]] = ()
    dynamic_dims: Sequence[Sequence[int]] = ()
    aipp: str = ""  # the text of the file that configures AIPP


def pack(description: Description, onnx: bytes) -> bytes:
    """Return the bytes of a model file."""
    text = json.dumps(asdict(description)).encode()
    whole = MAGIC + _LENGTHS.pack(len(text), len(onnx)) + text + onnx
    return whole + _SUM.pack(crc32(whole))


def unpack(content: bytes) -> tuple[Description, bytes]:
    """Return the description in a model file, and its ONNX model.

    Raises:
        GraphFileError: It is cut off, or damaged.
    """
    begin = len(MAGIC) + _LENGTHS.size
    if len(content) < begin:
        raise GraphFileError(f"it has {len(content)} bytes, and its head alone {begin}: it is cut off")
    text, onnx = _LENGTHS.unpack_from(content, len(MAGIC))
    wanted = begin + text + onnx + _SUM.size
    if len(content) != wanted:
        raise GraphFileError(f"it says that it has {wanted} bytes, and there are {len(content)}: it is cut off")
    if _SUM.unpack_from(content, wanted - _SUM.size)[0] != crc32(content[: -_SUM.size]):
        raise GraphFileError("its bytes are not those that `acl-py atc` wrote: it is damaged")
    try:
        values: dict[str, Any] = json.loads(content[begin : begin + text])
        values["inputs"] = tuple(Tensor(**each) for each in values["inputs"])
        description = Description(**values)
    except (TypeError, ValueError, KeyError) as error:
        raise GraphFileError(f"another version of acl-py has written it ({error})") from error
    return description, content[begin + text : begin + text + onnx]
