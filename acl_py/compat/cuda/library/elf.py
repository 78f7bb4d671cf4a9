"""Shared objects, written byte by byte: a library whose functions jump through a table of pointers.

The file has what the loader needs and nothing else: no sections, and no relocations, because entries find the table
relative to themselves. It is loaded as two segments. The first has symbols and code; the second, which is writable, has
the dynamic section, the answer of empty entries and the table. The second begins `_PAGE` further in memory than in the
file, so that the two share no page, also where pages have 64 kB.
"""

from collections.abc import Iterable, Sequence
from struct import Struct, pack
from typing import NamedTuple

from acl_py.compat.cuda.library.machine import ENTRY_BYTES, MACHINES

ANSWER = "acl_py_answer"  # the symbol of the word with the answer
TABLE = "acl_py_table"  # the symbol of the table, which has a pointer for each name in their order
ENTRIES = "acl_py_entries"  # the symbol of the entries, which are in the same order

_PAGE = 0x10000
_SHARED_OBJECT, _CURRENT_VERSION = 3, 1
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551  # kinds of segments
_EXECUTE, _WRITE, _READ = 1, 2, 4
_NEEDED, _HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME = 1, 4, 5, 6, 10, 11, 14  # of the dynamic section
_FUNCTION, _OBJECT = 0x12, 0x11  # global symbols
_DEFINED = 1  # the section of a symbol: there are none, but 0 would mean that it is undefined
_HEADER, _SEGMENT, _SYMBOL = Struct("<16sHHIQQQIHHHHHH"), Struct("<IIQQQQQQ"), Struct("<IBBHQQ")
_SEGMENTS = 4


class _Symbol(NamedTuple):
    name: str
    kind: int
    address: int
    nbytes: int


def shared_object(
    soname: str,
    names: Sequence[str],
    machine: str,
    *,
    answer: int = 0,
    needed: Sequence[str] = (),
    takes_capsules: bool = False,
    is_private: bool = False,
) -> bytes:
    """Return the file of a library.

    Args:
        soname: The name by which the loader knows it.
        names: Its functions.
        machine: The processor: a key of `MACHINES`.
        answer: What functions return while their place in the table is empty.
        needed: The sonames of libraries whose functions are also found through this one.
        takes_capsules: The functions take a capsule, and jump with the class of what it holds, and with that.
        is_private: The loader does not know the names.
    """
    exported = () if is_private else names
    strings = _Strings((soname, *needed, ANSWER, TABLE, ENTRIES, *exported))
    kind = MACHINES[machine]
    before = kind.unpacked if takes_capsules else b""
    nbytes = entry_bytes(takes_capsules=takes_capsules)
    count = len(exported) + 3
    at_symbols = _HEADER.size + _SEGMENTS * _SEGMENT.size
    at_hash = at_symbols + _SYMBOL.size * (count + 1)
    at_strings = at_hash + 4 * (2 + count + 1 + _buckets(count))
    at_code = _aligned(at_strings + len(strings.data), ENTRY_BYTES)
    in_file = _aligned(at_code + nbytes * len(names), 16)
    at_dynamic = in_file + _PAGE
    at_answer = at_dynamic + 16 * (len(needed) + 7)
    at_table = at_answer + 16
    end = at_table + 8 * len(names)

    entries = [at_code + nbytes * place for place in range(len(names))]
    code = b"".join(
        before + kind.entry(at + len(before), at_table + 8 * place, at_answer).ljust(nbytes - len(before), b"\0")
        for place, at in enumerate(entries)
    )
    symbols = [
        _Symbol(ANSWER, _OBJECT, at_answer, 4),
        _Symbol(TABLE, _OBJECT, at_table, 8 * len(names)),
        _Symbol(ENTRIES, _FUNCTION, at_code, nbytes * len(names)),
        *(_Symbol(name, _FUNCTION, at, nbytes) for name, at in zip(exported, entries, strict=not is_private)),
    ]
    tags = [
        *((_NEEDED, strings.at[name]) for name in needed), (_SONAME, strings.at[soname]), (_HASH, at_hash),
        (_STRTAB, at_strings), (_SYMTAB, at_symbols), (_STRSZ, len(strings.data)), (_SYMENT, _SYMBOL.size), (0, 0),
    ]  # fmt: skip
    writable = b"".join(pack("<QQ", *tag) for tag in tags) + pack("<I12x", answer)
    segments = [
        (_LOAD, _READ | _EXECUTE, 0, 0, 0, in_file, in_file, _PAGE),
        (_LOAD, _READ | _WRITE, in_file, at_dynamic, at_dynamic, len(writable), end - at_dynamic, _PAGE),
        (_DYNAMIC, _READ | _WRITE, in_file, at_dynamic, at_dynamic, 16 * len(tags), 16 * len(tags), 8),
        (_STACK, _READ | _WRITE, 0, 0, 0, 0, 0, 16),
    ]
    parts = {
        0: _header(kind.number) + b"".join(_SEGMENT.pack(*each) for each in segments),
        at_symbols: _symbol_table(symbols, strings),
        at_hash: _hash_table([each.name for each in symbols], _buckets(count)),
        at_strings: strings.data,
        at_code: code,
        in_file: writable,
    }
    return _joined(parts)


def entry_bytes(*, takes_capsules: bool) -> int:
    """Return how far an entry is behind the one before it."""
    return ENTRY_BYTES * (2 if takes_capsules else 1)


class _Strings:
    """The table of strings: *data*, and where in it each string is."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.at: dict[str, int] = {}
        end = 1
        for text in texts:
            self.at[text] = end
            end += len(text) + 1
        self.data = b"\0" + "".join(f"{text}\0" for text in self.at).encode("ascii")


def _header(machine: int) -> bytes:
    ident = b"\x7fELF\x02\x01\x01"  # 64 bits, the lowest byte first
    sizes = _HEADER.size, _SEGMENT.size, _SEGMENTS
    return _HEADER.pack(ident, _SHARED_OBJECT, machine, _CURRENT_VERSION, 0, _HEADER.size, 0, 0, *sizes, 0, 0, 0)


def _symbol_table(symbols: Sequence[_Symbol], strings: _Strings) -> bytes:
    """The first entry of the table is empty."""
    rows = [_SYMBOL.pack(strings.at[name], kind, 0, _DEFINED, at, size) for name, kind, at, size in symbols]
    return bytes(_SYMBOL.size) + b"".join(rows)


def _hash_table(names: Sequence[str], buckets: int) -> bytes:
    """Return where the loader finds names: for each bucket its last symbol, and for each symbol the one before it."""
    last, before = [0] * buckets, [0]
    for number, name in enumerate(names, 1):
        bucket = _hash(name) % buckets
        before.append(last[bucket])
        last[bucket] = number
    return pack(f"<{2 + buckets + len(before)}I", buckets, len(before), *last, *before)


def _hash(name: str) -> int:
    """Return the hash of a name as ELF defines it."""
    value = 0
    for letter in name.encode():
        value = (value << 4) + letter
        value = (value ^ (value >> 24 & 0xF0)) & 0xFFFFFFF
    return value


def _buckets(count: int) -> int:
    return count | 1


def _aligned(at: int, unit: int) -> int:
    return -(-at // unit) * unit


def _joined(parts: dict[int, bytes]) -> bytes:
    """Return the *parts*, each at its place; they are in order."""
    joined = b""
    for at, part in parts.items():
        joined = joined.ljust(at, b"\0") + part
    return joined
