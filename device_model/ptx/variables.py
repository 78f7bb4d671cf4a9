"""The variables of a module in global memory: where they are, and what they hold at first."""

from collections.abc import Mapping

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
