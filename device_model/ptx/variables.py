"""The variables of a module in global memory: where they are, and what they hold at first."""

from collections.abc import Mapping

import numpy as np

from device_model.memory import Buffer, Memory, Origin, array
from device_model.ptx.code.compiler import function_addresses
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import Module, Space, Variable


def layout(module: Module) -> tuple[dict[str, int], int]:
    """Return the places of the global and constant variables of *module*, from 0 on, and their bytes in all."""
    places: dict[str, int] = {}
    at = 0
    for name, variable in module.variables.items():
        if variable.space not in (Space.GLOBAL, Space.CONST):
            continue
        if variable.is_extern:
            raise PtxError(variable.line, f"{name} is in no module that is loaded", "link the module that has it")
        at += -at % variable.align
        places[name] = at
        at += variable.nbytes
    return places, at


def initial(variable: Variable, addresses: Mapping[str, int]) -> bytes:
    """Return the first bytes of *variable*, where variables are at *addresses*; zeros follow."""
    data = bytearray(variable.data)
    for at, nbytes, symbol, _, shift in variable.relocations:
        if symbol.name not in addresses:
            raise PtxError(variable.line, f"{variable.name} has the address of {symbol.name}, which has none")
        value = (addresses[symbol.name] + symbol.offset >> shift) % (1 << 8 * nbytes)
        data[at : at + nbytes] = value.to_bytes(nbytes, "little")
    return bytes(data)


def place(module: Module, memory: Memory, device: int, made: object) -> dict[str, Buffer]:
    """Allocate the variables of *module* on *device*, in one piece, and write what they hold at first: nothing in a run
    without values.
    """
    places, size = layout(module)
    if not size:
        return {}
    whole = memory.malloc(device, size, made, Origin.MODULE)
    variables = {name: whole[at : at + module.variables[name].nbytes] for name, at in places.items()}
    addresses = {**function_addresses(module), **{name: each.address for name, each in variables.items()}}
    if not whole.allocation.has_values:
        return variables
    view = array(whole.allocation, 0, np.uint8, size)
    view[:] = 0
    for name, at in places.items():
        data = initial(module.variables[name], addresses)
        view[at : at + len(data)] = np.frombuffer(data, np.uint8)
    return variables
