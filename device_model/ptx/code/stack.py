"""The stack of functions that call themselves, at once or through others.

The registers and variables of a function have one place, so a function that runs inside itself would lose them. The
text of such a function is written again, with a stack in local memory:

* At its beginning it takes a frame of the stack. Its local variables, parameters and results are there.
* Before a call that may come back to it, it stores the registers that it needs behind the call, and the place to which
  it returns. Behind the call it loads them.
* Before it returns, it gives its frame back.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from device_model.ptx.code.calls import calls_of, may_stand_for, targets_of
from device_model.ptx.code.kept import registers_needed
from device_model.ptx.text.syntax import (
    Address,
    Function,
    Instruction,
    Label,
    Module,
    Number,
    Operand,
    Register,
    Space,
    Symbol,
    Variable,
)
from device_model.ptx.text.types import TYPES, Type

STACK_BYTES = 16 << 10  # of a thread
_UNIT = 16  # bytes; frames are a multiple of it
_WORD = 8  # bytes that a register takes in a frame
_NEXT, _STACK = "[next frame]", "[stack]"  # variables with names that no text can have
_U64 = TYPES["u64"]
Body = list[Instruction | Label]


def with_stack(module: Module) -> Module:
    """Return *module* with a stack for those functions that call themselves; the same one if there are none."""
    reached = _reached(module)
    deep = [name for name in module.functions if _needs_frames(module, name, reached[name])]
    if not deep:
        return module
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if name in deep:
            functions[name] = _Framed(module, function, reached).written()
        elif function.is_entry and any(each in reached[name] for each in deep):
            functions[name] = _with_beginning(function)
    stack = {
        _NEXT: Variable(_NEXT, Space.LOCAL, _U64, _WORD, (), 0),
        _STACK: Variable(_STACK, Space.LOCAL, TYPES["b8"], _UNIT, (STACK_BYTES,), 0),
    }
    return replace(module, functions=functions, variables={**module.variables, **stack})


def _needs_frames(module: Module, name: str, reached: Iterable[str]) -> bool:
    """Whether the function *name* runs inside itself, or while one runs whose parameters have the same place."""
    function = module.functions[name]
    is_inner = any(each == name or may_stand_for(module, name, each) for each in reached)
    return is_inner and not function.is_entry and function.body is not None


def _reached(module: Module) -> dict[str, dict[str, None]]:
    """Return for each function those that it reaches through calls."""
    calls = {name: [*_targets(module, function)] for name, function in module.functions.items()}
    return {name: _closure(calls, names) for name, names in calls.items()}


def _targets(module: Module, function: Function) -> Iterator[str]:
    pointed = module.functions_with_addresses
    for call in calls_of(function):
        yield from targets_of(module, function, call, pointed)


def _closure(calls: Mapping[str, Iterable[str]], names: Iterable[str]) -> dict[str, None]:
    found: dict[str, None] = {}
    to_do = list(names)
    while to_do:
        name = to_do.pop()
        if name not in found:
            found[name] = None
            to_do += calls.get(name, ())
    return found


def _with_beginning(kernel: Function) -> Function:
    """Return a kernel that begins with an empty stack."""
    kernel = replace(kernel, registers=[*kernel.registers])
    stack, line = _register(kernel, "%stack", _U64), kernel.line
    kernel.body = [
        _instruction("mov.u64", line, stack, Symbol(_STACK)),
        _instruction("st.local.u64", line, Address(Symbol(_NEXT)), stack),
        *(kernel.body or ()),
    ]
    return kernel


class _Framed:
    """Writes one function with frames."""

    def __init__(self, module: Module, function: Function, reached: Mapping[str, Mapping[str, None]]) -> None:
        self._module = module
        self._reached = reached
        self._function = own = replace(function, registers=[*function.registers])
        own.back = _register(own, "%back", TYPES["s64"])
        self._frame = _register(own, "%frame", _U64)
        self._size = 0
        given = [*own.parameters, *own.results]
        self._places = {  # of variables in the frame
            each.name: self._take(each.nbytes, each.align)
            for each in own.variables.values()
            if each.space is Space.LOCAL or any(each is one for one in given)
        }

    def written(self) -> Function:
        """Return the function with its text written again."""
        own = self._function
        text = [*(own.body or ()), _instruction("ret", _last_line(own))]
        begin, end = self._copies(text, own.parameters, is_back=False), self._copies(text, own.results, is_back=True)
        own.body = [each for item in text for each in self._item(item)]
        saved = self._with_saves()
        top = _register(own, "%top", _U64)
        own.body = [
            _instruction("ld.local.u64", own.line, self._frame, Address(Symbol(_NEXT))),
            _instruction("add.u64", own.line, top, self._frame, Number(_up(self._size, _UNIT))),
            _instruction("st.local.u64", own.line, Address(Symbol(_NEXT)), top),
            *begin,
            *(each for item in saved for each in self._returning(item, end)),
        ]
        return own

    def _take(self, nbytes: int, align: int) -> int:
        at = _up(self._size, align)
        self._size = at + nbytes
        return at

    # Variables

    def _copies(self, text: Body, variables: Iterable[Variable], *, is_back: bool) -> list[Instruction]:
        """Return the copies of *variables* to the frame, or back to where the caller looks for them."""
        copies = []
        for variable in variables:
            for at, type_ in _pieces(text, variable):
                value = _register(self._function, f"%{variable.name}", _held(type_))
                inside = Address(self._frame, self._places[variable.name] + at)
                outside = Address(Symbol(variable.name), at)
                line = _last_line(self._function) if is_back else self._function.line
                source, target = (inside, outside) if is_back else (outside, inside)
                spaces = ("local", "param") if is_back else ("param", "local")
                copies.append(_instruction(f"ld.{spaces[0]}.{type_.name}", line, value, source))
                copies.append(_instruction(f"st.{spaces[1]}.{type_.name}", line, target, value))
        return copies

    def _item(self, item: Instruction | Label) -> Body:
        """Return *item* with the variables of the frame."""
        if isinstance(item, Label):
            return [item]
        if item.name == "call":
            return _jumped_over(item)
        before: Body = []
        operands = tuple(self._operand(each, item, before) for each in item.operands)
        is_moved = any(one is not other for one, other in zip(operands, item.operands, strict=True))
        modifiers = tuple("local" if is_moved and _is_param(each) else each for each in item.modifiers)
        return [*before, item._replace(operands=operands, modifiers=modifiers)]

    def _operand(self, operand: Operand, item: Instruction, before: Body) -> Operand:
        match operand:
            case Address(Symbol(name, offset), more) if name in self._places:
                return Address(self._frame, self._places[name] + offset + more)
            case Symbol(name, offset) if name in self._places:
                address = _register(self._function, f"%{name}", _U64)
                place = Number(self._places[name] + offset)
                before.append(_instruction("add.u64", item.line, address, self._frame, place))
                return address
        return operand

    # Calls and returns

    def _with_saves(self) -> Body:
        """Return the text with stores and loads of registers around each call that may come back."""
        own = self._function
        body = own.body or []
        needed = registers_needed(own)
        deep = {place: registers for place, registers in needed.items() if self._comes_back(body[place])}
        kept = {each: None for registers in deep.values() for each in registers if each is not self._frame}
        saved = {each: self._take(_WORD, _WORD) for each in [own.back, *kept] if each is not None}
        found: Body = []
        for place, item in enumerate(body):
            if place in deep:
                places = {each: at for each, at in saved.items() if each in deep[place] or each is own.back}
                found += self._saving(item, places)
            else:
                found.append(item)
        return found

    def _comes_back(self, call: Instruction | Label) -> bool:
        own = replace(self._function, body=[call])
        return any(
            target == own.name or own.name in self._reached.get(target, ()) for target in _targets(self._module, own)
        )

    def _saving(self, call: Instruction | Label, places: Mapping[Register, int]) -> Body:
        word = _register(self._function, "%word", TYPES["b32"])
        before, behind = (
            [],
            [
                _instruction("ld.local.u64", call.line, self._frame, Address(Symbol(_NEXT))),
                _instruction("sub.u64", call.line, self._frame, self._frame, Number(_up(self._size, _UNIT))),
            ],
        )
        for register, at in places.items():
            place = Address(self._frame, at)
            if register.type.bits == 1:
                before.append(_instruction("selp.b32", call.line, word, Number(1), Number(0), register))
                before.append(_instruction("st.local.b32", call.line, place, word))
                behind.append(_instruction("ld.local.b32", call.line, word, place))
                behind.append(_instruction("setp.ne.u32", call.line, register, word, Number(0)))
            else:
                before.append(_instruction(f"st.local.b{register.type.bits}", call.line, place, register))
                behind.append(_instruction(f"ld.local.b{register.type.bits}", call.line, register, place))
        return [*before, call, *behind]

    def _returning(self, item: Instruction | Label, end: Iterable[Instruction]) -> Body:
        """Return *item*; if it is a return, its results and its frame are given back before it."""
        if not isinstance(item, Instruction) or item.name != "ret":
            return [item]
        back = [*end, _instruction("st.local.u64", item.line, Address(Symbol(_NEXT)), self._frame)]
        return [*(each._replace(guard=item.guard, line=item.line) for each in back), item]


# --- texts


def _instruction(words: str, line: int, *operands: Operand) -> Instruction:
    name, *modifiers = words.split(".")
    return Instruction(name, tuple(modifiers), operands, None, line, None)


def _register(function: Function, name: str, type_: Type) -> Register:
    """Return a new register of *function*."""
    register = Register(len(function.registers), name, type_)
    function.registers.append(register)
    return register


def _jumped_over(call: Instruction) -> Body:
    """Return a call that lanes without its guard jump over, so that they also jump over what will be around it."""
    if call.guard is None:
        return [call]
    register, is_turned = call.guard
    behind = f"behind the call in line {call.line}"
    jump = Instruction("bra", (), (Symbol(behind),), (register, not is_turned), call.line, call.source)
    return [jump, call._replace(guard=None), Label(behind, call.line)]


def _pieces(text: Body, variable: Variable) -> list[tuple[int, Type]]:
    """Return what the text loads from *variable*, or stores in it: places and types. All of it if that is not known."""
    found: dict[tuple[int, Type], None] = {}
    for item in text:
        if not isinstance(item, Instruction):
            continue
        for operand in item.operands:
            if isinstance(operand, Symbol) and operand.name == variable.name:
                return _words(variable)
            if isinstance(operand, Address) and isinstance(operand.base, Symbol) and operand.base.name == variable.name:
                type_ = TYPES[f"b{TYPES[item.modifiers[-1]].bits}"]
                at = operand.base.offset + operand.offset
                found |= {(at + number * type_.nbytes, type_): None for number in range(_length(item))}
    return list(found)


def _words(variable: Variable) -> list[tuple[int, Type]]:
    width = min(variable.align, _WORD)
    return [(at, TYPES[f"b{8 * width}"]) for at in range(0, variable.nbytes, width)]


def _length(item: Instruction) -> int:
    return next((int(each[1:]) for each in item.modifiers if each in ("v2", "v4", "v8")), 1)


def _held(type_: Type) -> Type:
    """Return the type of a register that holds a value of *type_*."""
    return TYPES["b16"] if type_.bits == 8 else type_


def _is_param(modifier: str) -> bool:
    return modifier.partition("::")[0] == "param"


def _last_line(function: Function) -> int:
    return function.body[-1].line if function.body else function.line


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
