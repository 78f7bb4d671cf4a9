"""Runs a program on the device, and on the oracle, and says where they differ."""

import numpy as np

from device_model.ptx.code.compiler import compile_kernel
from device_model.ptx.lanes.arrays import ArrayMemory
from device_model.ptx.lanes.launch import Launch
from device_model.ptx.runner import run
from device_model.ptx.text.parser import parse
from tests.ptx import oracle


def on_device(program, name="k", watch=None):
    """Return the bytes of each argument after the program has run on the device.

    *watch* makes who looks at it, of the module and the kernel.
    """
    module = parse(program.text)
    memory = ArrayMemory()
    addresses = {}
    for variable in module.variables.values():
        if variable.space.value in ("global", "const"):
            array = np.zeros(max(16, -(-variable.nbytes // 16) * 16), np.uint8)
            array[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)
            addresses[variable.name] = memory.add(array)
    compiled = compile_kernel(module, name, addresses)
    parameters = np.zeros(-(-compiled.parameter_bytes // 16) * 16, np.uint8)
    at = 0
    after = []
    for variable, given in zip(module.functions[name].parameters, program.arguments, strict=True):
        if isinstance(given, bytearray):
            after.append(np.frombuffer(bytes(given), np.uint8).copy())
            given = memory.add(after[-1]).to_bytes(8, "little")
        at += -at % variable.align
        parameters[at : at + len(given)] = np.frombuffer(given, np.uint8)
        at += len(given)
    watches = () if watch is None else (watch(module, compiled),)
    run(compiled, Launch(program.grid, program.block, parameters, memory, program.dynamic, watches=watches))
    return [each.tobytes() for each in after]


def on_oracle(program, name="k"):
    """Return the bytes of each argument after the oracle has run the program."""
    arguments = [bytearray(each) if isinstance(each, bytearray) else each for each in program.arguments]
    oracle.launch(program.text, name, program.grid, program.block, arguments, program.dynamic)
    return [bytes(each) for each in arguments if isinstance(each, bytearray)]


def difference(program):
    """Return where the device and the oracle differ; None if they agree."""
    expected = on_oracle(program)
    try:
        found = on_device(program)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for number, (one, two) in enumerate(zip(found, expected, strict=True)):
        for at, (mine, right) in enumerate(zip(one, two, strict=True)):
            if mine != right:
                start = at // 8 * 8
                here = one[start : start + 8].hex()
                return f"array {number}, byte {at}: {here} should be {two[start : start + 8].hex()}"
    return None
