"""Runs kernels in PTX on NumPy arrays, without a device."""

import numpy as np

from device_model.ptx.code.compiler import compile_kernel
from device_model.ptx.code.stack import with_stack
from device_model.ptx.lanes.arrays import ArrayMemory
from device_model.ptx.lanes.launch import Launch
from device_model.ptx.runner import run
from device_model.ptx.text.parser import parse
from device_model.ptx.text.syntax import Space

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def kernel(body, parameters="", before=""):
    """The text of a kernel `k` with this body; *before* stands before it."""
    return f"{HEAD}{before}\n.visible .entry k({parameters})\n{{\n{body}\n}}\n"


def launch(text, *args, name="k", grid=(1, 1, 1), block=(32, 1, 1), shared=0, watch=None):
    """Run the kernel *name*: arrays are global memory, and are changed; numbers are values. Return the launch.

    *watch* makes who looks at it, of the module and the program.
    """
    module = with_stack(parse(text))
    memory, addresses = ArrayMemory(), {}
    for variable in module.variables.values():
        if variable.space in (Space.GLOBAL, Space.CONST):
            contents = np.zeros(max(16, -(-variable.nbytes // 16) * 16), np.uint8)
            contents[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)
            addresses[variable.name] = memory.add(contents)
    program = compile_kernel(module, name, addresses)
    parameters = np.zeros(max(16, -(-program.parameter_bytes // 16) * 16), np.uint8)
    at = 0
    for parameter, value in zip(module.functions[name].parameters, args, strict=True):
        at = -(-at // parameter.align) * parameter.align
        number = np.uint64(memory.add(value)) if isinstance(value, np.ndarray) else value
        held = np.array([number]).astype(parameter.type.dtype).view(np.uint8)
        parameters[at : at + len(held)] = held
        at += parameter.nbytes
    made = Launch(grid, block, parameters, memory, shared)
    if watch is not None:
        made.watches = (watch(module, program),)
    run(program, made)
    return made
