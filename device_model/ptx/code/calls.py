"""Calls: which functions a kernel reaches, by their names and through registers with addresses of functions.

A call through a register reaches the functions of its .calltargets. Where the text has a prototype only, it reaches
all functions whose addresses are taken and that fit the parameters.
"""

from collections.abc import Sequence

from device_model.ptx.code.flow import callee, pointer_of
from device_model.ptx.code.opcodes import BUILTINS
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import Function, Instruction, Module, Operand, Symbol, Variable, Vector

Signature = tuple[tuple[int, ...], tuple[int, ...]]  # bytes of results and of parameters


def called(module: Module, entry: Function) -> list[Function]:
    """Return *entry*, and all functions that it reaches through calls.

    Raises:
        PtxError: One of them is not in the module, or is a kernel.
    """
    found: list[Function] = []
    pointed = module.functions_with_addresses

    def visit(function: Function) -> None:
        found.append(function)
        for item in calls_of(function):
            for name in targets_of(module, function, item, pointed):
                target = module.functions.get(name)
                if target is None or target.body is None:
                    raise PtxError(
                        item.line, f"the function {name} is not in the module", "link the module that has it"
                    )
                if target.is_entry:
                    raise PtxError(item.line, f"{name} is a kernel, and only functions are called", "write a .func")
                if target not in found:
                    visit(target)

    visit(entry)
    return found


def calls_of(function: Function) -> list[Instruction]:
    """Return the calls in a function of other functions than those that the card has."""
    return [
        item
        for item in function.body or ()
        if isinstance(item, Instruction)
        and item.name == "call"
        and (pointer_of(item) is not None or callee(item) not in BUILTINS)
    ]


def targets_of(module: Module, function: Function, call: Instruction, pointed: Sequence[str]) -> list[str]:
    """Return the names of the functions that a call in *function* reaches, of which *pointed* have addresses.

    A call through a register may reach none: a text can have one that no thread comes to.
    """
    if pointer_of(call) is None:
        return [callee(call)]
    table = call.operands[-1]
    names = function.tables.get(table.name, ()) if isinstance(table, Symbol) else ()
    if names:
        return list(names)
    results, arguments = call_parts(call)
    wanted = _sizes(function, results), _sizes(function, arguments)
    return [name for name in pointed if _signature(module.functions[name]) == wanted]


def may_stand_for(module: Module, one: str, other: str) -> bool:
    """Whether a call through a register may reach both of two functions, so that their parameters have one place."""
    pointed = module.functions_with_addresses
    functions = module.functions
    return one in pointed and other in pointed and _signature(functions[one]) == _signature(functions[other])


def groups(module: Module, functions: Sequence[Function]) -> list[list[Function]]:
    """Return those of *functions* whose addresses are taken, by their signatures: one call may reach all of a group."""
    pointed = module.functions_with_addresses
    found: dict[Signature, list[Function]] = {}
    for function in functions:
        if function.name in pointed:
            found.setdefault(_signature(function), []).append(function)
    return list(found.values())


def call_parts(call: Instruction) -> tuple[list[str], list[str]]:
    """Return the names of the results and of the arguments of a call, which are variables."""
    lists: tuple[list[str], list[str]] = ([], [])
    is_behind = False
    for operand in call.operands:
        if isinstance(operand, Vector):
            for part in operand.parts:
                lists[is_behind].append(_variable(call, part))
        else:
            is_behind = True
    return lists


def _variable(call: Instruction, part: Operand) -> str:
    if not isinstance(part, Symbol):
        raise PtxError(call.line, f"{part} is no variable in parameter memory", "give one to the call")
    return part.name


def _signature(function: Function) -> Signature:
    return tuple(each.nbytes for each in function.results), tuple(each.nbytes for each in function.parameters)


def _sizes(function: Function, names: Sequence[str]) -> tuple[int, ...]:
    found: list[Variable | None] = [function.variables.get(name) for name in names]
    return tuple(0 if each is None else each.nbytes for each in found)
