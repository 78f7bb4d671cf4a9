"""Runs the kernels of corpus.py with checks."""

from functools import cache

import numpy as np
from corpus import DATA
from lanes import launch

from device_model.ptx.checks.hazards import Hazards
from device_model.ptx.code.compiler import compile_kernel
from device_model.ptx.lanes.arrays import ArrayMemory
from device_model.ptx.lanes.launch import Launch
from device_model.ptx.runner import run
from device_model.ptx.text.parser import parse

TYPES = {"float": "f4", "int": "i4", "double": "f8", "short": "i2", "char": "i1", "f": "f4", "i": "i4", "b": "u1"}


@cache
def module(name):
    """The module in the file *name*."""
    return parse((DATA / name).read_text(encoding="utf-8"))


def array(kind, size):
    """Some contents: small numbers; zeros for "z"."""
    return np.zeros(size, "i4") if kind == "z" else (np.arange(size) * 5 % 11).astype(TYPES[kind])


def arguments(kernel, type_):
    """The arguments of a kernel of the corpus, for *type_*."""
    return [
        array(type_ if each[0] == "TT" else each[0], each[1]) if isinstance(each, tuple) else each
        for each in kernel.args
    ]


def check(file, name, kernel, type_, watched=True):
    """Run the kernel *name* of the module in *file*; return its arguments, and its findings."""
    text = module(file)
    memory, args = ArrayMemory(), arguments(kernel, type_)
    program = compile_kernel(text, name, {})
    parameters = np.zeros(max(16, -(-program.parameter_bytes // 16) * 16), np.uint8)
    at = 0
    for parameter, value in zip(text.functions[name].parameters, args, strict=True):
        at = -(-at // parameter.align) * parameter.align
        number = np.uint64(memory.add(value)) if isinstance(value, np.ndarray) else value
        held = np.array([number]).astype(parameter.type.dtype).view(np.uint8)
        parameters[at : at + len(held)] = held
        at += parameter.nbytes
    hazards = Hazards(text, program)
    run(program, Launch(kernel.grid, kernel.block, parameters, memory, kernel.shared,
                        watches=(hazards,) if watched else ()))  # fmt: skip
    return args, list(hazards.findings)


def findings(text, *args, **options):
    """The findings of a launch of the kernel `k` in *text*, as `launch` of lanes.py makes it."""
    made = []
    launch(text, *args, watch=lambda *parts: made.append(Hazards(*parts)) or made[0], **options)
    return list(made[0].findings)
