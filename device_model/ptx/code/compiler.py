"""The compiler: a kernel of a module, and the functions that it calls, become a `Program`.

Functions are not copied into their callers: lanes that call one from different places meet in it. A call puts the
number of the block behind it into a register of the function, and `ret` sends each lane there. A function that is
called while it runs would lose it, so `with_stack` writes such functions again before.
"""

from collections.abc import Iterable, Mapping

from device_model.ptx.code import translators
from device_model.ptx.code.calls import called, targets_of
from device_model.ptx.code.control import end_of
from device_model.ptx.code.emitter import PRED, Emitter
from device_model.ptx.code.flow import Block, blocks_of, callee, find_live, names_lanes, pointer_of, reads, writes
from device_model.ptx.code.forms.fitting import check_function
from device_model.ptx.code.frames import Frame, check_constants, frames_of
from device_model.ptx.code.loops import loop_of, takes_time, touches_nothing
from device_model.ptx.code.names import Names
from device_model.ptx.code.opcodes import BUILTINS, opcode_of
from device_model.ptx.code.pressure import pressure_of
from device_model.ptx.code.special import CLOCKS, special_type
from device_model.ptx.lanes.program import Code, Loop, Place, Program, filename
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import (
    Function,
    Instruction,
    Module,
    Number,
    Register,
    Space,
    Special,
    Symbol,
    Variable,
)
from device_model.ptx.text.types import TYPES, Type

assert translators, "they have filled the table of instructions"
FUNCTION_BASE = 0x100000  # the address of the first function
_NOWHERE = -1  # the number of a clock, which is read each time and is in no register
_ALL_LANES = Number(0xFFFFFFFF)


def compile_kernel(module: Module, name: str, addresses: Mapping[str, int]) -> Program:
    """Return the kernel *name* of *module*, whose global variables are at *addresses*.

    Raises:
        PtxError: An instruction is not supported, or its operands do not fit it.
    """
    return Compiler(module, module.functions[name], addresses).program()


def function_addresses(module: Module) -> dict[str, int]:
    """Return the addresses of the functions of *module*: numbers, at which nothing can be read."""
    return {name: FUNCTION_BASE + 16 * number for number, name in enumerate(module.functions)}


class Compiler:
    """Compiles one kernel.

    Attributes:
        frame: Where its variables are.
        first: The first block of each function.
        labels: The block of each label of each function.
        returns: The register of each function that says where its lanes go on.
    """

    def __init__(self, module: Module, entry: Function, addresses: Mapping[str, int]) -> None:
        self.module = module
        self.entry = entry
        self.addresses = addresses
        self.functions = called(module, entry)
        self._pointed = module.functions_with_addresses
        self.frame: Frame = frames_of(module, self.functions)
        self.labels: dict[tuple[str, str], int] = {}
        self.first: dict[str, int] = {}
        self._blocks: list[Block] = []
        self._offsets: dict[str, int] = {}
        self._types: dict[int, Type] = {}
        for function in self.functions:
            check_function(module, function)
            self.first[function.name] = len(self._blocks)
            self._blocks += blocks_of(function, len(self._blocks), self.labels)
            self._offsets[function.name] = len(self._types)
            self._types |= {len(self._types) + each.number: each.type for each in function.registers}
        self.returns = {each.name: self._return_register(each) for each in self.functions}
        self.carry = len(self._types)
        self._types[self.carry] = PRED
        self._special: dict[str, int] = {}

    def _return_register(self, function: Function) -> int:
        """Return the number of the register that says where the lanes of *function* go on."""
        if function.back is not None:
            return self._offsets[function.name] + function.back.number
        number = len(self._types)
        self._types[number] = TYPES["s64"]
        return number

    def program(self) -> Program:
        """Translate all blocks."""
        calls = self._calls()
        find_live(self._blocks, lambda block: self._successors(block, calls), self._uses)
        jumps = [  # calls and returns are no loops
            (block.number, target)
            for block in self._blocks
            if not self._leaves(block)
            for target in self._successors(block, calls)
            if block.function is self._blocks[target].function
        ]
        heads = {target: max(each for each, to in jumps if to == target) for at, target in jumps if target <= at}
        names, lines, text = Names(), [0], ""
        ends = []
        for block in self._blocks:
            emitter = Emitter(self, names, block)
            for place, instruction in enumerate(block.instructions):
                if instruction is not block.last:
                    emitter.instruction(place, instruction, opcode_of(instruction).translate)
            end, result = end_of(self, emitter, block)
            ends.append(end)
            source = emitter.source(f"b{block.number}", result)
            lines += emitter.python_lines
            meets = block.meets
            if meets is not None:
                source, more = self._meets(names, block, meets, source)
                lines += more
            text += source
        exec(compile(text, filename(self.entry.name), "exec"), names.values)  # made above of numbers and our own names
        code = [
            Code(
                block.number,
                _line(block),
                names.values[f"b{block.number}"],
                end,
                names.values.get(f"m{block.number}"),
                self._loop(block, heads[block.number]) if block.number in heads else None,
                block.instructions,
            )
            for block, end in zip(self._blocks, ends, strict=True)
        ]
        zeros = {number: self._types[number].dtype for number in sorted(self._blocks[0].live_in)}
        can_wait = any(each.loop is not None and each.loop.polls for each in code)
        tells_time = can_wait or any(map(takes_time, self._blocks))
        return Program(
            self.entry.name, code, self.carry + 1 + len(self._special), self._special, zeros, self.frame.shared_bytes,
            self.frame.dynamic_at, self.frame.local_bytes, self.frame.parameter_bytes, self.entry.limits,
            self._pressure(), lines, self._places(), self._shared(), tells_time, touches_nothing(self._blocks[0]),
        )  # fmt: skip

    def _loop(self, head: Block, last: int) -> Loop:
        """Return the loop from *head* to the block *last*."""
        own = self._blocks[head.number : last + 1]
        calls = any(block.last is not None and self.targets_of_call(block, block.last) for block in own)
        return loop_of(own, lambda block, register: self.number(block, register), calls=calls)

    def _shared(self) -> list[Variable]:
        """Return the variables in shared memory."""
        scopes = [self.module.variables, *(each.variables for each in self.functions)]
        return [each for scope in scopes for each in scope.values() if each.space is Space.SHARED]

    def _pressure(self) -> int:
        """Return the registers of a thread."""
        registers = {self._offsets[each.name] + one.number: one for each in self.functions for one in each.registers}
        live = [
            [registers[number] for number in sorted(block.live_out) if number in registers] for block in self._blocks
        ]
        return pressure_of([block.instructions for block in self._blocks], live)

    def _places(self) -> dict[int, Place]:
        """Return what each line of PTX was made from."""
        places = {}
        for block in self._blocks:
            places[_line(block)] = Place(_line(block))
            for item in block.instructions:
                file = "" if item.source is None else self.module.files.get(item.source.file, "")
                places[item.line] = (
                    Place(item.line, file, item.source.line) if file and item.source else Place(item.line)
                )
        return places

    # What emitters ask

    def number(self, block: Block, register: Register) -> int:
        """Return the number of a register in the kernel."""
        return self._offsets[block.function.name] + register.number

    def special(self, name: str, line: int) -> tuple[int, Type]:
        """Return the number and the type of a special register."""
        type_ = special_type(name, line)
        if name in CLOCKS:
            return _NOWHERE, type_
        return self._special.setdefault(name, self.carry + 1 + len(self._special)), type_

    def place(self, function: str, name: str) -> tuple[Space, int] | None:
        """Return the state space of a variable, and where in it the variable is; None if there is no such variable."""
        place = self.frame.places.get((function, name)) or self.frame.places.get(("", name))
        if place is None and name in self.addresses:
            return self.module.variables[name].space, self.addresses[name]
        return place

    def address(self, function: str, symbol: Symbol, line: int) -> int:
        """Return the address of a variable in its state space, or that of a function."""
        place = self.place(function, symbol.name)
        if place is not None:
            return (place[1] + symbol.offset) % 2**64
        functions = function_addresses(self.module)
        if symbol.name in functions:
            return functions[symbol.name] + symbol.offset
        raise PtxError(line, f"{symbol.name} is not declared in the module", "link the module that has it")

    # Control flow

    def _calls(self) -> dict[str, list[int]]:
        """Return the blocks behind the calls of each function."""
        calls: dict[str, list[int]] = {function.name: [] for function in self.functions}
        for block in self._blocks:
            if (last := block.last) is not None and block.then is not None:
                for name in self.targets_of_call(block, last):
                    calls[name].append(block.then)
        return calls

    def _successors(self, block: Block, calls: Mapping[str, list[int]]) -> Iterable[int]:
        last, function = block.last, block.function
        then = () if block.then is None else (block.then,)
        if last is None or last.name in ("bar", "barrier", "nanosleep"):
            return then if then or function.is_entry else calls[function.name]
        if last.name == "bra":
            target = self.target(block, last)
            return (target,) if last.guard is None else (target, *then)
        if last.name == "brx":
            return self.targets(block, last)
        if last.name == "call":
            return [self.first[name] for name in self.targets_of_call(block, last)] or then
        if last.name == "ret" and not function.is_entry:
            return calls[function.name]
        return then if last.guard is not None else ()

    def _leaves(self, block: Block) -> bool:
        """Whether the lanes of *block* call a function or return from one."""
        return block.then is None if block.last is None else block.last.name in ("call", "ret")

    def targets_of_call(self, block: Block, item: Instruction) -> list[str]:
        """Return the functions that *item*, a call, may reach; none if it is no call, or one of what the card has."""
        if item.name != "call" or (pointer_of(item) is None and callee(item) in BUILTINS):
            return []
        return targets_of(self.module, block.function, item, self._pointed)

    def target(self, block: Block, jump: Instruction) -> int:
        """Return the block that a jump goes to."""
        label = jump.operands[0] if jump.operands else None
        if isinstance(label, Symbol) and (block.function.name, label.name) in self.labels:
            return self.labels[block.function.name, label.name]
        raise PtxError(jump.line, f"{jump} needs a label of this function")

    def targets(self, block: Block, jump: Instruction) -> tuple[int, ...]:
        """Return the blocks of the list of labels of `brx.idx`."""
        table = jump.operands[-1]
        if not isinstance(table, Symbol) or table.name not in block.function.tables:
            raise PtxError(jump.line, f"{jump} needs the name of a .branchtargets")
        labels = block.function.tables[table.name]
        missing = [label for label in labels if (block.function.name, label) not in self.labels]
        if missing:
            raise PtxError(jump.line, f"there is no label {missing[0]}")
        return tuple(self.labels[block.function.name, label] for label in labels)

    def _uses(self, block: Block) -> tuple[frozenset[int], frozenset[int]]:
        """Return the registers that *block* reads before it writes them, and those that it writes."""
        needs: set[int] = set()
        sets: set[int] = set()

        def read(registers: Iterable[Register | Special]) -> None:
            for each in registers:
                if isinstance(each, Register) and (number := self.number(block, each)) not in sets:
                    needs.add(number)

        for item in block.instructions:
            read(reads(item))
            if item.name in ("addc", "subc", "madc") and self.carry not in sets:
                needs.add(self.carry)
            if "cc" in item.modifiers:
                sets.add(self.carry)
            sets.update(self.number(block, each) for each in writes(item) if isinstance(each, Register))
        last = block.last
        if last is not None:
            sets.update(self.returns[name] for name in self.targets_of_call(block, last))
        if not block.function.is_entry and (block.then is None or (last is not None and last.name == "ret")):
            needs.add(self.returns[block.function.name])
        return frozenset(needs), frozenset(sets)

    def _meets(self, names: Names, block: Block, first: Instruction, source: str) -> tuple[str, list[int]]:
        """Add the function that returns for which lanes of their warps the lanes wait at the start of *block*."""
        emitter = Emitter(self, names, Block(block.number, block.function))
        emitter.line = first.line
        mask = emitter.value(first.operands[-1] if names_lanes(first) else _ALL_LANES, TYPES["b32"])
        text = emitter.source(f"m{block.number}", mask)
        return source + text, emitter.python_lines


def _line(block: Block) -> int:
    return block.instructions[0].line if block.instructions else block.function.line


def check(module: Module) -> None:
    """Refuse a module that has an instruction which is not simulated.

    Raises:
        PtxError: The message has the line of the first one.
    """
    check_constants(module)
    for function in module.functions.values():
        check_function(module, function)
    for name in module.entries:
        called(module, module.functions[name])
