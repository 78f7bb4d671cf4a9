"""The names of Ascend C: kernel_names.tsv has those that have a page in the vendor's API reference, with their kinds.

`tools.kernel_sources` searches sources for them, and `asc` says why it does not have one.
"""

from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType

_TABLE = Path(__file__).with_suffix(".tsv")


class NameKind(StrEnum):
    """What a name of the vendor's reference is."""

    CORE = "core"  # used in kernels, on Atlas A2 and A3
    OTHER = "other cores"  # not on Atlas A2 and A3
    REGISTER = "registers"  # of the interfaces to registers and tensors, which only Ascend 950 has
    HOST = "host"  # tiling, and other code of the host
    ARGUMENT = "argument"  # a Python argument stands for it, or nothing has to


_WORKSPACE = "a Matmul with matrices in UB gets an InOut argument of tiling.workspace_bytes(), and others need none"

# What stands for a name of the kind ARGUMENT.
_STANDS_FOR = MappingProxyType(
    {
        "GetUserWorkspace": "a workspace is an InOut argument of the kernel",
        "GetSysWorkSpacePtr": _WORKSPACE,
        "SetSysWorkSpace": _WORKSPACE,
        "InitSocState": "nothing: each block begins in this state",
        "SetSubBlockIdx": "nothing: each vector core knows its index",
        "assert": "asc.assert_",
        "ascendc_assert": "asc.assert_",
    }
)
_CONFIG = "options of Matmul are arguments of it"
_SHAPE = "shapes and coordinates are tuples and integers"


@cache
def table() -> MappingProxyType[str, NameKind]:
    """Return the kind of each name that has a page in the vendor's reference."""
    rows = (row.split("\t") for row in _TABLE.read_text(encoding="utf-8").splitlines() if not row.startswith("#"))
    return MappingProxyType({name: NameKind(kind) for name, kind in rows})


def why_missing(name: str) -> str:
    """Return why `asc` has no *name* of the reference, or what stands for it."""
    match table()[name]:
        case NameKind.CORE:
            return "not here yet"
        case NameKind.OTHER:
            return "Atlas A2 and A3 do not have it"
        case NameKind.REGISTER:
            return "only Ascend 950 has it"
        case NameKind.HOST:
            return "the host does this in Python, and passes the result as an argument"
        case NameKind.ARGUMENT:
            return _STANDS_FOR.get(name, _CONFIG if "Config" in name else _SHAPE)
