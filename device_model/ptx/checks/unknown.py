"""What a kernel does by values that memory holds, which a run without values does not know.

A register is *unknown* if memory is among what its value comes from. That is found in the text alone, without regard to
the order of instructions: a register that is unknown once is always so. Shared and local memory, and the parameters of
functions, are unknown if an unknown value, or a copy from global memory, is stored there; global memory and constants
always are. What a kernel branches on, and its addresses, must be known: then its times are those of a run with values.
"""

from collections.abc import Iterator

from device_model.ptx.code.flow import callee, ends, pointer_of, reads, writes
from device_model.ptx.code.opcodes import opcode_of
from device_model.ptx.code.order import LOADS, memory_of
from device_model.ptx.text.syntax import Address, Function, Instruction, Module, Register, Symbol

_GENERIC = ""  # the space of an address that may be anywhere
_STORES = frozenset(("st", "stmatrix", "red"))
_BRANCHES = frozenset(("bra", "exit", "trap", "brx", "ret"))
_COUNTS = frozenset(("bar", "barrier", "nanosleep", "cp", "mbarrier"))  # what they take decides how long they last
_CARRY = Register(-1, "CC", None)  # type: ignore[arg-type]  # the carry, which some instructions leave for others
_WITH_CARRY = frozenset(("addc", "subc", "madc"))


def needs_values(module: Module, kernel: Function) -> tuple[int, str] | None:
    """Return the first line of *kernel* that needs a value from memory, and what needs it; None if there is none."""
    unknown = _Unknown(module, kernel)
    for item in unknown.items:
        what = unknown.need(item)
        if what is not None:
            return item.line, what
    return None


class _Unknown:
    """The registers and the memory of a kernel, and of the functions that it may call, that are unknown."""

    def __init__(self, module: Module, kernel: Function) -> None:
        functions = [kernel, *(each for each in module.functions.values() if not each.is_entry)]
        self.items = [item for each in functions for item in each.body or () if isinstance(item, Instruction)]
        self._given = frozenset(each.name for each in kernel.parameters)
        self._passed = [register for each in functions[1:] for register in _parameters_of(each)]
        self._registers: set[Register] = set()
        self._spaces = {"global", "const", _GENERIC}
        before = -1
        while before != (before := len(self._registers) + len(self._spaces)):
            for item in self.items:
                self._follow(item)
            if "param" in self._spaces:
                self._registers.update(self._passed)

    def need(self, item: Instruction) -> str | None:
        """Return what *item* does by an unknown value."""
        is_branch = item.name in _BRANCHES or ends(item) or not opcode_of(item).is_pure
        if item.guard is not None and item.guard[0] in self._registers and is_branch:
            return f"whether {item} is done depends on"
        if item.name == "call":
            pointer = pointer_of(item)
            if pointer is not None:
                return "which function is called depends on" if pointer in self._registers else None
            return "printf may show" if callee(item) == "vprintf" else None
        if any(isinstance(each, Address) and each.base in self._registers for each in item.operands):
            return f"the address of {item} depends on"
        counts = item.name in ("brx", *_COUNTS) and "red" not in item.modifiers
        return f"how {item} goes on depends on" if counts and self._reads_unknown(item) else None

    def _follow(self, item: Instruction) -> None:
        """Note what is unknown behind *item*."""
        space, is_unknown = memory_of(item), self._reads_unknown(item)
        if item.name == "call":
            if is_unknown:
                self._spaces.add("param")
            if "param" in self._spaces:
                self._registers.update(each for each in reads(item) if isinstance(each, Register))
            return
        if item.name == "cp":
            self._spaces.add("shared")
            return
        if item.name in LOADS or (item.name == "wmma" and "load" in item.modifiers):
            is_unknown = space in self._spaces and not self._is_given(item)
        elif item.name == "atom":
            self._store(space, is_unknown)
            is_unknown = space in self._spaces
        elif item.name in _STORES or "store" in item.modifiers:
            self._store(space, is_unknown)
        if is_unknown:
            self._registers.update(each for each in writes(item) if isinstance(each, Register))
            if "cc" in item.modifiers:
                self._registers.add(_CARRY)

    def _store(self, space: str, is_unknown: bool) -> None:
        if is_unknown:
            self._spaces.update(("shared", "local") if space == _GENERIC else (space,))

    def _is_given(self, item: Instruction) -> bool:
        """Whether *item* loads a parameter of the kernel, which the launch gives."""
        bases = [each.base for each in item.operands if isinstance(each, Address)]
        return memory_of(item) == "param" and all(
            isinstance(each, Symbol) and each.name in self._given for each in bases
        )

    def _reads_unknown(self, item: Instruction) -> bool:
        read = [*reads(item), *((_CARRY,) if item.name in _WITH_CARRY else ())]
        return any(each in self._registers for each in read if isinstance(each, Register))


def _parameters_of(function: Function) -> Iterator[Register]:
    """Yield the registers in which a function gets its parameters."""
    names = [each.name for each in function.parameters if each.is_register]
    yield from (each for each in function.registers if each.name in names)
