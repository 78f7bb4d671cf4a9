"""Tries kernels: what becomes of one that is launched with arguments that are made up.

An array stands for a pointer, and a small number for a number, as `TRIES` says. "stopped" is a kernel that all of these
lead out of its arrays; "slow" one that takes more than `SECONDS` with some of them, and does not end with the others.
"""

import signal
from math import prod
from typing import NamedTuple

import numpy as np

from device_model.kernel.findings import KernelError, KernelHangError
from device_model.ptx.checks.origins import begins_at, origins_of
from device_model.ptx.code.compiler import compile_kernel
from device_model.ptx.lanes.arrays import ArrayMemory
from device_model.ptx.lanes.launch import Launch
from device_model.ptx.runner import run
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import Address, Instruction, Register, Space, Symbol
from device_model.ptx.text.types import Family

# What a number is, and how many threads a block has, unless the text says that. Numbers that give fewer rounds of loops
# come after those that give more; the last one counts all threads.
TRIES = ((32, 64), (8, 32), (1, 32), (0, 32), (64, 32))
UNITS = 1 << 18  # elements of 32 bits in an array
GRID, SHARED = (2, 1, 1), 16384  # of each launch
SECONDS = 10  # that a launch may take


class Held(NamedTuple):
    """The variables of a module: the memory that they are in, and where. Its kernels may share them."""

    memory: ArrayMemory
    addresses: dict


def variables_of(module):
    """Give the variables of a module memory."""
    memory, addresses = ArrayMemory(), {}
    for variable in module.variables.values():
        if variable.space in (Space.GLOBAL, Space.CONST):
            contents = np.zeros(max(16, -(-variable.nbytes // 16) * 16), np.uint8)
            contents[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)
            addresses[variable.name] = memory.add(contents)
    return Held(memory, addresses)


def outcome_in(module, name, held):
    """What becomes of a kernel behind others that have left something in the variables *held*, or without that."""
    outcome = outcome_of(module, name, held)
    return outcome_of(module, name) if outcome[0] in ("stopped", "slow") else outcome


def outcome_of(module, name, held=None):
    """What becomes of one kernel, why, and the block and the arguments with which it ran (see `made_up`)."""
    memory, addresses = held or variables_of(module)
    try:
        program = compile_kernel(module, name, addresses)
    except PtxError as error:
        return "refused", error.what, None
    workspace = memory.add(np.zeros(64, np.uint8))  # where the blocks of a cooperative launch are counted
    environment = {1: workspace >> 32, 2: workspace & 0xFFFFFFFF}
    outcome = "stopped", "", None
    for number, block in _tries(program.limits):
        given = made_up(module.functions[name], number)
        arguments = _laid_out(module.functions[name], program, memory, given)
        launch = Launch(GRID, block, arguments, memory, SHARED, environment=environment)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            run(program, launch)
        except (KernelError, KernelHangError) as error:
            outcome = outcome if outcome[0] == "slow" else ("stopped", str(error), None)
        except _TooSlowError:
            outcome = "slow", f"more than {SECONDS} s", None
        else:
            return "ran", "", (block, given)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return outcome


def _tries(limits):
    """Yield numbers for a kernel, and blocks: as large as it says, and smaller ones if it may have these."""
    for number, threads in TRIES:
        bound = limits.get("reqntid") or limits.get("maxntid") or (threads,)
        fewer = limits.get("reqntid") or (min(threads, prod(bound)),)
        for block in dict.fromkeys((*each, 1, 1)[:3] for each in (bound, fewer)):
            yield number, block


class _TooSlowError(BaseException):
    """A launch takes longer than it may; no except clause of a kernel catches it."""


def watch_time():
    """Let a launch end that takes too long."""
    signal.signal(signal.SIGALRM, _too_slow)


def _too_slow(_signal, _frame):
    raise _TooSlowError


def _pointers(function):
    """The names of parameters that are addresses, are converted to such for a function, or are kept for a kernel."""
    origins, loaded = origins_of(function), {}
    begun = {begins_at(item, origins) for item in function.body if isinstance(item, Instruction)}
    found = {each.name for each in function.parameters if f"[{each.name}]" in begun}
    for item in function.body:
        if getattr(item, "name", "") == "ld" and "param" in item.modifiers and isinstance(item.operands[1], Address):
            base = item.operands[1].base
            if isinstance(base, Symbol) and isinstance(item.operands[0], Register):
                loaded[item.operands[0]] = base.name
        elif getattr(item, "name", "") in ("cvta", "st") and item.operands[1] in loaded:
            found.add(loaded[item.operands[1]])
    return {each.name for each in function.parameters if each.nbytes == 8 and each.name in found}


def made_up(function, number):
    """Made-up arguments: None for an array of `UNITS` numbers of 32 bits, otherwise the bytes of *number*."""
    pointers = _pointers(function)
    given = []
    for parameter in function.parameters:
        if parameter.is_pointer or parameter.name in pointers:
            given.append(None)
        elif parameter.type.family in (Family.FLOAT, Family.BRAIN):
            given.append(np.array([1], parameter.type.dtype).tobytes())
        else:
            value = np.array([number if not parameter.shape else 0]).astype(parameter.type.dtype)
            given.append(value.tobytes().ljust(parameter.nbytes, b"\0"))
    return given


def _laid_out(function, program, memory, given):
    """The bytes of the parameters."""
    held = np.zeros(max(16, -(-program.parameter_bytes // 16) * 16), np.uint8)
    at = 0
    for parameter, data in zip(function.parameters, given, strict=True):
        at = -(-at // parameter.align) * parameter.align
        if data is None:
            data = memory.add((np.arange(UNITS) % 4).astype(np.int32)).to_bytes(8, "little")
        held[at : at + len(data)] = np.frombuffer(data, np.uint8)
        at += parameter.nbytes
    return held
