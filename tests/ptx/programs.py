"""Random kernels: from a seed a text in PTX, a launch and its arguments.

Every instruction that a program does has one defined result: no two threads race, shuffles come from lanes that are
there, and the order of atomics does not show. Sums and products of floats carry `.rn`, because compilers for cards fuse
those without it. At the end each thread stores all its registers.
"""

import random
from dataclasses import dataclass
from typing import NamedTuple

from tests.ptx.drawing import real, whole
from tests.ptx.statements import ATOMICS, BINS, COUNTS, FLOATS, WIDTHS, Body, Place, parameter

INPUT = 128  # bytes of input for each thread
OUTPUT = 192  # bytes of output


@dataclass
class Program:
    """A kernel named "k" and its launch. Arguments are bytes of values, or bytearrays in global memory."""

    text: str
    grid: tuple
    block: tuple
    arguments: list
    dynamic: int


class Function(NamedTuple):
    """A device function: what it takes and gives, what it costs, and its text."""

    name: str
    takes: str
    gives: str
    cost: int
    text: str


def function(draw, name, functions):
    """Write a device function."""
    takes = "".join(draw.choice("rrdfg") for _ in range(draw.randrange(1, 4)))
    gives = draw.choice("rdfg")
    body = Body(draw, draw.randrange(8, 24), functions, is_kernel=False)
    body.has_local = draw.random() < 0.4
    budget = body.budget
    for index, kind in enumerate(takes):
        body.put(f"ld.param.b{WIDTHS[kind]} {body.pool[kind][index % len(body.pool[kind])]}, [{name}_p{index}];")
    start = len(body.lines)
    body.lines[0:0] = zeros(body)
    body.fill(Place(False, None, depth=1), 40)
    if draw.random() < 0.3:
        body.put(f"st.param.b{WIDTHS[gives]} [{name}_z], {body.to(gives)};")
        body.put(f"@{body.pred()} ret;")
    body.fill(Place(False, None, depth=2), 2)
    body.put(f"st.param.b{WIDTHS[gives]} [{name}_z], {body.to(gives)};")
    body.put("ret;")
    parameters = ", ".join(f".param .{parameter(kind)} {name}_p{index}" for index, kind in enumerate(takes))
    stack = [".local .align 8 .b8 stack[64];"] if body.has_local else []
    lines = "\n    ".join([*body.registers, *stack, *body.lines])
    text = f".func (.param .{parameter(gives)} {name}_z) {name} ({parameters})\n{{\n    {lines}\n}}\n"
    return Function(name, takes, gives, budget + start, text)


def zeros(body):
    """Return the lines that give all registers of a function, and its local memory, a value."""
    lines = []
    for kind in "hrdefg":
        for index, name in enumerate(body.pool[kind]):
            lines.append(f"mov.b{WIDTHS[kind]} {name}, {index * 3 + 1};")
    lines += [f"setp.eq.u32 {name}, 0, {index % 2};" for index, name in enumerate(body.pool["p"])]
    if body.has_local:
        lines += [f"st.local.b64 [stack+{8 * index}], {index + 5};" for index in range(8)]
    return lines


def make(seed, budget=60):
    """Return the program of *seed*, whose threads do about *budget* instructions each."""
    draw = random.Random(seed)
    block = draw.choice([(8,), (16,), (32,), (40,), (64,), (8, 4), (4, 3, 2), (7,), (33,)])
    block = (*block, 1, 1)[:3]
    grid = draw.choice([(1, 1, 1), (1, 1, 1), (2, 1, 1), (1, 2, 1) if block[0] > 32 else (2, 2, 1)])
    threads = block[0] * block[1] * block[2]
    total = threads * grid[0] * grid[1]
    functions = []
    for index in range(draw.choice([0, 0, 1, 2])):
        functions.append(function(draw, f"f{index}", tuple(functions)))
    body = Body(draw, budget, tuple(functions), is_kernel=True)
    body.threads = threads
    last = threads % 32 or 32
    body.width = max(each for each in (1, 2, 4, 8, 16, 32) if last % each == 0)
    body.has_local = draw.random() < 0.4
    slots = 8
    while 2 * slots * 16 <= total * INPUT:
        slots *= 2
    body.input_mask = slots - 1
    prologue(body)
    body.fill(Place(True, "%full"), 200)
    if draw.random() < 0.15:  # some threads end early
        epilogue(body, end := body.label())
        body.alive = False
        body.budget += 15
        body.put(f"{end}:")
        body.fill(Place(True, None), 30)
    epilogue(body, None)
    stack = [".local .align 8 .b8 stack[64];"] if body.has_local else []
    lines = "\n    ".join(
        [*body.registers, *stack, ".shared .align 16 .b8 tile[1024];", ".shared .align 8 .b8 slots[512];", *body.lines]
    )
    tables = [
        f".const .align 8 .u64 ctable[8] = {{{', '.join(hex(whole(draw, 64)) for _ in range(8))}}};",
        f".global .align 8 .f64 gtable[8] = {{{', '.join(f'0d{real(draw, 64):016X}' for _ in range(8))}}};",
        ".extern .shared .align 16 .b8 dynamic[];",
    ]
    text = "\n".join([".version 8.4", ".target sm_90", ".address_size 64", *tables, *(each.text for each in functions)])
    parameters = ".param .u64 k_in, .param .u64 k_out, .param .u64 k_bins, .param .u32 k_uniform"
    text += f"\n.visible .entry k({parameters})\n{{\n    {lines}\n}}\n"
    return Program(text, grid, block, arguments(draw, total), 8 * threads)


def prologue(body):
    """Load the registers of a thread."""
    body.registers += [
        ".reg .b64 %in, %out, %bins, %own;",
        ".reg .b32 %full, %thread, %global, %uniform, %tid_x, %size, %ctaid_x;",
        ".reg .b64 %mine;",
    ]
    put = body.put
    for name in ("in", "out", "bins"):
        put(f"ld.param.u64 %{name}, [k_{name}];")
    put("ld.param.u32 %uniform, [k_uniform];")
    for name in ("%in", "%out", "%bins"):
        put(f"cvta.to.global.u64 {name}, {name};")
    place, size = body.new("r"), body.new("r")
    put(f"mov.u32 {place}, %tid.z;")
    put("mov.u32 %size, %ntid.y;")
    put("mov.u32 %tid_x, %tid.y;")
    put(f"mad.lo.u32 {place}, {place}, %size, %tid_x;")
    put("mov.u32 %size, %ntid.x;")
    put("mov.u32 %tid_x, %tid.x;")
    put(f"mad.lo.u32 %thread, {place}, %size, %tid_x;")
    put(f"mov.u32 {place}, %ctaid.y;")
    put("mov.u32 %size, %nctaid.x;")
    put("mov.u32 %ctaid_x, %ctaid.x;")
    put(f"mad.lo.u32 {place}, {place}, %size, %ctaid_x;")
    put(f"mad.lo.u32 %global, {place}, {body.threads}, %thread;")
    put(f"mad.wide.u32 %mine, %global, {INPUT}, %in;")
    put(f"mad.wide.u32 %own, %global, {OUTPUT}, %out;")
    put(f"and.b32 {place}, %thread, 0xffffffe0;")
    put(f"sub.u32 {size}, {body.threads}, {place};")
    put(f"shl.b32 %full, 1, {size};")
    put("sub.u32 %full, %full, 1;")
    at = 0
    for kind in "gdfreh":
        for name in body.pool[kind]:
            put(f"ld.global.b{WIDTHS[kind]} {name}, [%mine+{at}];")
            at += WIDTHS[kind] // 8
    assert at <= INPUT
    slot = body.new("d")
    put(f"mov.u64 {slot}, slots;")
    put(f"mad.wide.u32 {slot}, %thread, 8, {slot};")
    put(f"st.shared.b64 [{slot}], {body.pool['d'][0]};")
    for index, name in enumerate(body.pool["p"]):
        first, second = body.pool["r"][index : index + 2]
        put(f"setp.{['lt.s32', 'ne.u32', 'gt.u32', 'eq.u32'][index]} {name}, {first}, {second};")
    if body.has_local:
        for index in range(8):
            put(f"st.local.b64 [stack+{8 * index}], {body.pool['d'][index % 4]};")


def epilogue(body, end):
    """Store the registers of a thread, and end it; if there is a label *end*, the others go on there."""
    if end is not None:
        body.put(f"@{body.pred()} bra {end};")
    at = 64
    for kind in "gdfreh":
        for name in body.pool[kind]:
            body.put(f"st.global.b{WIDTHS[kind]} [%own+{at}], {name};")
            at += WIDTHS[kind] // 8
    flags = body.new("r")
    for name in body.pool["p"]:
        body.put(f"selp.b32 {flags}, 1, 0, {name};")
        body.put(f"st.global.u8 [%own+{at}], {flags};")
        at += 1
    assert at <= OUTPUT
    body.put(body.draw.choice(["ret;", "exit;"]) if end is None else "exit;")


def arguments(draw, total):
    """Return the input, room for the output, the bins, and a number."""
    data = bytearray()
    for _ in range(total):
        one = bytearray()
        for kind in "gdfreh":
            for _ in range(COUNTS[kind]):
                bits = WIDTHS[kind]
                value = real(draw, bits) if kind in FLOATS else whole(draw, bits)
                one += value.to_bytes(bits // 8, "little")
        data += one.ljust(INPUT, b"\x07")
    bins = bytearray(4 * 8 * BINS)
    for row in range(4):
        for index, (what, _) in enumerate(ATOMICS):
            if what == "and":
                start = 8 * (row * BINS + index)
                bins[start : start + 8] = b"\xff" * 8
    return [data, bytearray(total * OUTPUT), bins, draw.randrange(3).to_bytes(4, "little")]
