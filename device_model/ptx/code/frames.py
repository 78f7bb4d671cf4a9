"""Where variables are: the layout of shared, local and parameter memory.

A parameter that a caller prepares has the place of the function's own parameter, so a call copies nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from device_model.ptx.code.calls import call_parts, calls_of, groups, targets_of
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import Function, Instruction, Module, Space, Symbol, Variable

_UNIT = 16  # bytes; memories are a multiple of it
# Bytes that a card has for one thread, one block and one launch; an assembler refuses more.
_MOST_CONSTANT = 64 << 10
_MOST = {Space.LOCAL: 512 << 10, Space.SHARED: 48 << 10, Space.PARAM: 32764}
_REMEDIES = {Space.SHARED: "declare it .extern with [] and give its bytes to the launch"}
_EVERYWHERE = ""  # stands for the function of a variable of the module


@dataclass(slots=True)
class Frame:
    """The layout of one kernel: the places of variables, by function ("" for those of the module) and name."""

    places: dict[tuple[str, str], tuple[Space, int]] = field(default_factory=dict)
    shared_bytes: int = 0  # of static shared memory
    dynamic_at: int = 0  # where dynamic shared memory begins
    local_bytes: int = 0
    parameter_bytes: int = 0


def frames_of(module: Module, functions: Sequence[Function]) -> Frame:
    """Return the layout for *functions*, of which the first is the kernel."""
    frame = Frame()
    entry = functions[0]
    for parameter in entry.parameters:
        frame.parameter_bytes = _put(frame, entry.name, parameter, Space.PARAM, frame.parameter_bytes)
    used = {operand.name for function in functions for operand in _symbols(function)}
    dynamic = []
    for name, variable in module.variables.items():
        if variable.space is Space.SHARED and name in used | _initial_names(module, used):
            if variable.nbytes:
                frame.shared_bytes = _put(frame, _EVERYWHERE, variable, Space.SHARED, frame.shared_bytes)
            else:
                dynamic.append(variable)
    for function in functions:
        own = {id(each) for each in (*function.parameters, *function.results)}
        for variable in function.variables.values():
            if variable.space is Space.SHARED:
                if variable.nbytes:
                    frame.shared_bytes = _put(frame, function.name, variable, Space.SHARED, frame.shared_bytes)
                else:
                    frame.places[function.name, variable.name] = Space.SHARED, -1
            elif function is not entry or id(variable) not in own:
                frame.local_bytes = _put(frame, function.name, variable, Space.LOCAL, frame.local_bytes)
    for name, variable in module.variables.items():
        if variable.space is Space.LOCAL and name in used:
            frame.local_bytes = _put(frame, _EVERYWHERE, variable, Space.LOCAL, frame.local_bytes)
    frame.dynamic_at = _up(frame.shared_bytes, max((_UNIT, *(variable.align for variable in dynamic))))
    for variable in dynamic:
        frame.places[_EVERYWHERE, variable.name] = Space.SHARED, frame.dynamic_at
    for key, (space, place) in list(frame.places.items()):
        if place < 0:
            frame.places[key] = space, frame.dynamic_at
    for first, *others in groups(module, functions):
        for function in others:
            _give(frame, function, first)
    pointed = module.functions_with_addresses
    for function in functions:
        for item in calls_of(function):
            for target in targets_of(module, function, item, pointed)[:1]:
                _share(frame, function, item, module.functions[target])
    frame.local_bytes = _up(frame.local_bytes, _UNIT)
    return frame


def check_constants(module: Module) -> None:
    """Refuse a module with more variables in constant memory than a card has room for."""
    at = 0
    for variable in module.variables.values():
        if variable.space is Space.CONST:
            at = _up(at, variable.align) + variable.nbytes
            if at > _MOST_CONSTANT:
                raise PtxError(
                    variable.line, f"the constants end at byte {at} of .const memory, which has {_MOST_CONSTANT}"
                )


def _put(frame: Frame, function: str, variable: Variable, space: Space, at: int) -> int:
    """Give *variable* the next place from *at* on; return where it ends."""
    at = _up(at, variable.align)
    frame.places[function, variable.name] = space, at
    end = at + variable.nbytes
    if end > _MOST[space]:
        raise PtxError(
            variable.line, f"{variable.name} ends at byte {end} of .{space.value} memory, which has "
            f"{_MOST[space]}", _REMEDIES.get(space, "")
        )  # fmt: skip
    return end


def _give(frame: Frame, function: Function, first: Function) -> None:
    """Give the parameters of *function* the places of those of *first*: a call may reach either."""
    for given, own in ((first.results, function.results), (first.parameters, function.parameters)):
        for one, other in zip(given, own, strict=True):
            frame.places[function.name, other.name] = frame.places[first.name, one.name]


def _share(frame: Frame, caller: Function, call: Instruction, function: Function) -> None:
    """Give the parameters of a call the places of those of the function that it calls."""
    results, arguments = call_parts(call)
    for given, own in ((results, function.results), (arguments, function.parameters)):
        if len(given) != len(own):
            raise PtxError(call.line, f"{function.name} has {len(own)} of what the call gives {len(given)} of")
        for name, variable in zip(given, own, strict=True):
            passed = caller.variables.get(name)
            if passed is not None and passed.nbytes != variable.nbytes:
                what = f"{name} has {passed.nbytes} bytes, and {variable.name} of {function.name} has {variable.nbytes}"
                raise PtxError(call.line, what)
            frame.places[caller.name, name] = frame.places[function.name, variable.name]


def _symbols(function: Function) -> list[Symbol]:
    found: list[Symbol] = []

    def look(operand: object) -> None:
        if isinstance(operand, Symbol):
            found.append(operand)
        elif isinstance(operand, tuple):
            for part in operand:
                look(part)

    for item in function.body or ():
        if isinstance(item, Instruction):
            look(item.operands)
    return found


def _initial_names(module: Module, used: set[str]) -> set[str]:
    """Return the names that the initial values of used variables have."""
    return {
        relocation.symbol.name
        for name in used
        if name in module.variables
        for relocation in module.variables[name].relocations
    }


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
