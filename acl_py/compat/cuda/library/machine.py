"""Machine code of entries, for each kind of processor.

An entry loads its slot of the table. If the slot holds an address, the entry jumps there, and the arguments stay where
the caller has put them. If it holds 0, the entry returns the answer: the code that all functions give outside of the
driver's life. So an entry needs no Python, and no relocation of the loader.

A library may have code in front of its entries. `unpacked` is such code, for a function that takes a capsule of Python:
the entry gets what the capsule points to, and the class of that object before it.
"""

from collections.abc import Callable
from struct import pack
from typing import NamedTuple

ENTRY_BYTES = 32
_CLASS = object.__basicsize__ - 8  # where an object of Python has its class, and a capsule behind it its pointer


def x86_64(at: int, slot: int, answer: int) -> bytes:
    """Return the entry at the address *at*, with its *slot* and the word with the *answer* at these addresses."""
    code = b"\x48\x8b\x05" + pack("<i", slot - (at + 7))  # mov rax, [rip + slot]
    code += b"\x48\x85\xc0"  # test rax, rax
    code += b"\x74\x02"  # jz, over the next instruction
    code += b"\xff\xe0"  # jmp rax
    code += b"\x8b\x05" + pack("<i", answer - (at + len(code) + 6))  # mov eax, [rip + answer]
    code += b"\xc3"  # ret
    return code.ljust(ENTRY_BYTES, b"\xcc")  # int3


def aarch64(at: int, slot: int, answer: int) -> bytes:
    """Return the entry at the address *at* as `x86_64` does. It was never run on such a processor."""
    words = (
        _adrp(at, slot),
        0xF9400210 | (slot & 0xFFF) // 8 << 10,  # ldr x16, [x16, slot]
        0xB4000050,  # cbz x16, over the next instruction
        0xD61F0200,  # br x16
        _adrp(at + 16, answer),
        0xB9400200 | (answer & 0xFFF) // 4 << 10,  # ldr w0, [x16, answer]
        0xD65F03C0,  # ret
        0xD503201F,  # nop
    )
    return pack("<8I", *words)


def _adrp(at: int, target: int) -> int:
    """Return `adrp x16, target`: the page of *target*, counted from that of the instruction."""
    pages = (target >> 12) - (at >> 12)
    return 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


class Machine(NamedTuple):
    """A kind of processor: its *number* in ELF, the code of an *entry*, and the code that unpacks a capsule."""

    number: int
    entry: Callable[[int, int, int], bytes]
    unpacked: bytes


# mov rsi, [rdi + ...]; mov rdi, [rsi + ...]
_X86_64_UNPACKED = pack("<3sB3sB", b"\x48\x8b\x77", _CLASS + 8, b"\x48\x8b\x7e", _CLASS)
# ldr x1, [x0, ...]; ldr x0, [x1, ...]
_AARCH64_UNPACKED = pack("<2I", 0xF9400001 | (_CLASS + 8) // 8 << 10, 0xF9400020 | _CLASS // 8 << 10)

MACHINES = {  # by the name that `platform.machine()` gives
    "x86_64": Machine(62, x86_64, _X86_64_UNPACKED),
    "aarch64": Machine(183, aarch64, _AARCH64_UNPACKED),
}
