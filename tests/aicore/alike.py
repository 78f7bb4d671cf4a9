"""Compares a kernel with the same one that is called for each block: bytes, times and findings."""

import sys
from hashlib import sha256

import numpy as np
from cores import launch

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, float32
from device_model.kernel.findings import KernelError

TILE = 64  # floats
LENGTH = 4096  # floats of an argument


def calls_of(kernel, called):
    """*kernel*, which notes each of its calls: so it is called for each block."""

    def counted(*args):
        called.append(GetBlockIdx())
        kernel(*args)

    return counted


def history(result, arrays):
    """All that a launch leaves: bytes, each instruction with its times, findings."""
    told = [sha256(array.tobytes()).hexdigest() for array in arrays]
    programs = [program.instructions for program in result.programs]
    numbers = {each: place for instructions in programs for place, each in enumerate(instructions)}
    for program in result.programs:
        for each in program.instructions:
            flow = each.flow and (each.flow.direction, each.flow.path, each.flow.key, each.flow.start, each.flow.length)
            rows = each.flow and (each.flow.rows, each.flow.stride, each.flow.bypass, each.flow.nd2nz)
            told.append((
                str(program), each.core, each.pipe, each.kind, each.name, each.startup, each.cycles, each.scalar,
                flow, rows, [(wait.core, numbers[wait]) for wait in each.waits], each.site, each.seq,
                each.start, each.end,
            ))  # fmt: skip
        told.append((program.tail_scalar, [(numbers[each], how) for each, how in program.conflicts.items()]))
    for each in result.findings:
        named = [(named.core, named.seq, named.name, str(named.site)) for named in each.instructions]
        told.append((each.rule, each.text, each.where, each.sites, named, each.missing, each.count))
    return told


def told_by(kernel, arrays, *args, **options):
    """The history of a launch, or its error with what it left until then."""
    arrays = [array.copy() for array in arrays]
    try:
        result = launch(kernel, *arrays, *args, **options)
    except KernelError as error:
        told = [sha256(array.tobytes()).hexdigest() for array in arrays]
        return [str(error), *told, *(len(program.instructions) for program in error.result.programs)]
    return [*history(result, arrays), result.timeline.duration_ns]


def check_same(kernel, arrays, *args, blocks=8, **options):
    """Compare *kernel* with the same one that is called for each block; return how often *kernel* was called."""
    called = []
    alone = told_by(calls_of(kernel, called), arrays, *args, blocks=blocks, **options)
    calls = []

    def count(frame, event, _):
        if event == "call" and frame.f_code is code:
            calls.append(frame)

    code = getattr(kernel, "func", kernel).__code__
    sys.setprofile(count)
    try:
        together = told_by(kernel, arrays, *args, blocks=blocks, **options)
    finally:
        sys.setprofile(None)
    assert len(together) == len(alone)
    for ours, theirs in zip(together, alone, strict=True):
        assert ours == theirs
    return len(calls)


def numbers(count=3, length=LENGTH, dtype=np.float32):
    return [np.random.default_rng(place).integers(0, 9, length).astype(dtype) for place in range(count)]


def ub(place):
    return LocalTensor(float32, TPosition.VECCALC, place * TILE * 4, TILE)
