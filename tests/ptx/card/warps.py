"""Kernels of two warps for a card: what lanes do with one another, with shared memory, and with immediates.

The body of a kernel has sixteen words of its thread in %a0 to %a15, its lane in %t, and leaves results in %z0 to %z7.
"""

import random
import re
from itertools import product

import numpy as np

from tests.ptx.card.operands import drawn, special

THREADS, WORDS, RESULTS = 64, 16, 8
FULL = "0xffffffff"
DIVERGENT = "and.b32 %n, %a0, 3; setp.eq.u32 %p, %n, 0; @%p bra EVEN; {one} bra.uni END; EVEN: {other} END:"
MMA = {
    "m16n8k16": (("f32.f16.f16.f32", 4, 4, 2), ("f16.f16.f16.f16", 2, 4, 2), ("f32.bf16.bf16.f32", 4, 4, 2)),
    "m16n8k8": (("f32.f16.f16.f32", 4, 2, 1), ("f16.f16.f16.f16", 2, 2, 1), ("f32.bf16.bf16.f32", 4, 2, 1),
                ("f32.tf32.tf32.f32", 4, 4, 2)),
    "m16n8k4": (("f32.tf32.tf32.f32", 4, 2, 1),),
    "m16n8k32": tuple((f"s32.{a}.{b}.s32", 4, 4, 2) for a, b in product(("s8", "u8"), repeat=2)),
}  # fmt: skip


def kernels():
    """Yield the names and bodies of all kernels."""
    yield from warp_wide()
    yield from atomics()
    yield from chains()
    yield from immediates()
    yield from matrices()
    yield from memory()
    yield from video()


def warp_wide():
    """Yield votes, shuffles, matches and reductions, of whole warps and of parts that went different ways."""
    for mode, count, bound in product(("up", "down", "bfly", "idx"), ("%n", "1", "31"), ("0", "31", "0x1807")):
        yield (f"shfl.{mode} {count} {bound}",
               (f"and.b32 %n, %a0, 31; shfl.sync.{mode}.b32 %z0|%p, %a1, {count}, {bound}, {FULL}; "
               "selp.b32 %z1, 1, 0, %p;"))  # fmt: skip
    vote = (
        "activemask.b32 %m; and.b32 %n, %a1, 1; setp.eq.u32 %q, %n, 1; vote.sync.ballot.b32 %z0, %q, %m; "
        "mov.b32 %z1, %m;"
    )
    yield "vote divergent", DIVERGENT.format(one=vote, other=vote)
    for mode in ("all", "any", "uni"):
        yield f"vote.{mode}", (f"and.b32 %n, %a0, 1; setp.eq.u32 %q, %n, 1; vote.sync.{mode}.pred %p, %q, {FULL}; "
                               "selp.b32 %z0, 1, 0, %p;")  # fmt: skip
    for word in ("add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"):
        yield f"redux.{word}", f"redux.sync.{word} %z0, %a0, {FULL};"
        part = f"activemask.b32 %m; redux.sync.{word} %z0, %a2, %m;"
        yield f"redux.{word} divergent", DIVERGENT.format(one=part, other=part)
    for mode in ("any", "all"):
        result, after = ("%z0|%p", "selp.b32 %z1, 1, 0, %p;") if mode == "all" else ("%z0", "")
        yield f"match.{mode}", f"and.b32 %n, %a0, 3; match.{mode}.sync.b32 {result}, %n, {FULL}; {after}"
    yield "elect", f"elect.sync %z0|%p, {FULL}; selp.b32 %z1, 1, 0, %p;"


def atomics():
    """Yield atomics on words of their own, whose results do not depend on an order, and sums over a warp."""
    start = "mov.u32 %n, cells; mad.lo.u32 %n, %i, 8, %n; st.shared.v2.b32 [%n], {%a2, %a3}; "
    for word in ("add.u32", "inc.u32", "dec.u32", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32",
                 "xor.b32", "exch.b32", "add.f32", "add.noftz.f16x2"):  # fmt: skip
        yield f"atom.{word}", f"{start} atom.shared.{word} %z0, [%n], %a0; ld.shared.b32 %z1, [%n];"
    for word in ("add.f32", "add.f64", "add.noftz.f16x2", "add.noftz.bf16x2"):
        wide = word.endswith("64")
        given, after = ("%w", "mov.b64 {%z0, %z1}, %w; ") if wide else ("%z0", "")
        yield (f"atom.global.{word}", ("st.global.v2.b32 [%y], {%a2, %a3}; mov.b64 %w, {%a0, %a1}; "
               f"atom.global.{word} {given}, [%y], {'%w' if wide else '%a0'}; {after} "
               "ld.global.v2.b32 {%z2, %z3}, [%y];"))  # fmt: skip
    yield "atom.cas", f"{start} atom.shared.cas.b32 %z0, [%n], %a2, %a0; ld.shared.b32 %z1, [%n];"
    for word in ("add.u64", "min.s64", "max.u64", "xor.b64", "exch.b64", "add.f64"):
        yield (f"atom.{word}", (f"{start} mov.b64 %w, {{%a0, %a1}}; atom.shared.{word} %w, [%n], %w; "
               "mov.b64 {%z0, %z1}, %w; ld.shared.v2.b32 {%z2, %z3}, [%n];"))  # fmt: skip
    yield "atom.add order of lanes", ("mov.u32 %n, cells; st.shared.b32 [%n], 0; bar.sync 0; "
                                      "setp.lt.u32 %p, %i, 32; @%p atom.shared.add.u32 %z0, [%n], 1;")  # fmt: skip
    yield "atom.exch order of lanes", ("mov.u32 %n, cells; st.shared.b32 [%n], 99; bar.sync 0; "
                                       "setp.lt.u32 %p, %i, 32; @%p atom.shared.exch.b32 %z0, [%n], %t;")  # fmt: skip


def chains():
    """Yield sums and products that carry, over four words."""
    for name in ("add", "sub"):
        yield f"{name} chain", (f"{name}.cc.u32 %z0, %a0, %a4; {name}c.cc.u32 %z1, %a1, %a5; "
                                f"{name}c.cc.s32 %z2, %a2, %a6; {name}c.u32 %z3, %a3, %a7;")  # fmt: skip
    yield "mad chain", ("mad.lo.cc.u32 %z0, %a0, %a1, %a2; madc.hi.cc.u32 %z1, %a0, %a1, %a3; "
                        "madc.lo.cc.s32 %z2, %a4, %a5, %a6; madc.hi.s32 %z3, %a4, %a5, %a7;")  # fmt: skip
    for name in ("div", "rem"):
        for sign in "us":
            yield (f"{name}.{sign}64", ("mov.b64 %w, {%a0, %a1}; mov.b64 %v, {%a2, %a3}; shr.u64 %v, %v, %t; "
                   f"{name}.{sign}64 %w, %w, %v; mov.b64 {{%z0, %z1}}, %w;"))  # fmt: skip


def immediates():
    """Yield fields at places that the text has, and comparisons of f16 combined with a predicate."""
    for place, length in product((0, 3, 30, 31, 32, 33, 255), (0, 1, 31, 32, 33, 255)):
        yield (f"fields at {place} {length}",
               (f"bfe.u32 %z0, %a0, {place}, {length}; bfe.s32 %z1, %a0, {place}, {length}; "
               f"bfi.b32 %z2, %a0, %a1, {place}, {length}; bfe.s32 %z3, %a0, %a2, {length}; "
               f"bfe.s32 %z4, %a0, {place}, %a2; bfi.b32 %z5, %a0, %a1, %a2, {length};"))  # fmt: skip
    for operator, word, sign in product(("eq", "equ", "nan", "lt"), ("and", "or", "xor"), ("", "!")):
        yield (f"setp.{operator}.{word}.f16 {sign}",
               ("mov.b32 {%h, %g}, %a8; and.b32 %n, %a0, 1; setp.eq.u32 %q, %n, 1; "
               f"setp.{operator}.{word}.f16 %p, %h, %g, {sign}%q; selp.b32 %z0, 1, 0, %p; "
               f"setp.{operator}.{word}.ftz.f16 %p, %h, %g, {sign}%q; selp.b32 %z2, 1, 0, %p;"))  # fmt: skip
    for constant in (1, 42, 0x800000):
        yield (f"mul24 by {constant}", (f"mul24.lo.s32 %z0, %a0, {constant}; mul24.hi.s32 %z1, %a0, {constant}; "
               f"mul24.hi.u32 %z2, %a0, {constant}; mad24.hi.s32 %z3, %a0, {constant}, %a1;"))  # fmt: skip
    for rounding in ("rn", "rz", "rm", "rp"):
        yield (f"ftz next to the least number {rounding}",
               ("and.b32 %n, %a0, 7; sub.u32 %n, 0x3f800003, %n; "
               "and.b32 %m, %a1, 0x80000003; add.u32 %m, %m, 0x800000; "
               f"mul.{rounding}.ftz.f32 %z0, %n, %m; fma.{rounding}.ftz.f32 %z1, %n, %m, 0f80000000; "
               f"fma.{rounding}.ftz.f32 %z2, %n, %m, 0f00800000; mov.b32 %n, 0xd0000000; "
               "mov.b64 %w, {%n, 0x380fffff}; "
               "and.b32 %m, %a2, 3; cvt.u64.u32 %v, %m; shl.b64 %v, %v, 28; add.u64 %w, %w, %v; "
               f"cvt.{rounding}.ftz.f32.f64 %z3, %w; cvt.{rounding}.f32.f64 %z4, %w;"))  # fmt: skip


def matrices():
    """Yield products of matrices of all types, with special values, and what moves them."""
    for shape, forms in MMA.items():
        for types, c, a, b in forms:
            options = (".satfinite", "") if types[0] == "s" else ("",)
            for sat in options:
                listed = [", ".join(f"%{name}{place}" for place in range(count))
                          for name, count in (("z", c), ("a", a), ("b", b), ("c", c))]  # fmt: skip
                code = "mov.b32 %b0, %a4; mov.b32 %b1, %a5; " + "".join(
                    f"mov.b32 %c{place}, %a{6 + place}; " for place in range(4)
                )
                args = ", ".join(f"{{{each}}}" for each in listed)
                yield f"mma.{shape}{sat}.{types}", f"{code} mma.sync.aligned.{shape}.row.col{sat}.{types} {args};"
    rows = "mov.u32 %n, cells; mad.lo.u32 %m, %i, 16, %n; st.shared.v4.b32 [%m], {%a0, %a1, %a2, %a3}; bar.sync 0; "
    for trans in ("", ".trans"):
        yield (
            f"ldmatrix{trans}",
            f"{rows} ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%z0, %z1, %z2, %z3}}, [%m];",
        )
        yield (f"stmatrix{trans}",
               (f"{rows} stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%m], {{%a4, %a5, %a6, %a7}}; "
               "bar.sync 0; ld.shared.v4.b32 {%z0, %z1, %z2, %z3}, [%m];"))  # fmt: skip
    yield "movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16 %z0, %a0;"


def memory():
    """Yield copies that fill up with zeros, and vectors in shared and local memory."""
    for size, count in product((4, 8, 16), (0, 1, 3, 4, 16)):
        if count <= size:
            yield (f"cp.async {size} {count}",
                   ("mov.u32 %n, cells; mad.lo.u32 %n, %i, 16, %n; st.shared.v4.b32 [%n], {%a0, %a0, %a0, %a0}; "
                   f"cp.async.ca.shared.global [%n], [%x], {size}, {count}; cp.async.wait_all; bar.sync 0; "
                   "ld.shared.v4.b32 {%z0, %z1, %z2, %z3}, [%n];"))  # fmt: skip
    for space, place in (("shared", "cells"), ("local", "stack")):
        index = "mad.lo.u32 %n, %i, 16, %n;" if space == "shared" else ""
        yield (f"vectors {space}",
               (f"mov.u32 %n, {place}; {index} st.{space}.v4.b32 [%n], {{%a0, %a1, %a2, %a3}}; "
               f"ld.{space}.v2.b64 {{%w, %v}}, [%n]; mov.b64 {{%z0, %z1}}, %v; "
               f"ld.{space}.v4.u8 {{%z2, %z3, %z4, %z5}}, [%n+4]; "
               f"ld.{space}.v2.s16 {{%z6, %z7}}, [%n+8];"))  # fmt: skip


def video():
    """Yield what is done with the bytes and halves of words, for all types of them."""
    for name, lanes, how in product(("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), "24", ("", ".sat", ".add")):
        yield (f"{name}{lanes}{how}",
               "".join(f"{name}{lanes}.{d}32.{a}32.{b}32{how} %z{place}, %a0, %a1, %a2; "
                       for place, (d, a, b) in enumerate(product("us", repeat=3))))  # fmt: skip
    for lanes, comparison, how in product("24", ("eq", "lt", "ge"), ("", ".add")):
        yield (f"vset{lanes}.{comparison}{how}",
               "".join(f"vset{lanes}.{a}32.{b}32.{comparison}{how} %z{place}, %a0, %a1, %a2; "
                       for place, (a, b) in enumerate(product("us", repeat=2))))  # fmt: skip


def text(body):
    """Return the kernel with a body."""
    words = [f"ld.global.b32 %a{place}, [%x+{4 * place}];" for place in range(WORDS)]
    stores = [f"st.global.b32 [%y+{4 * place}], %z{place};" for place in range(RESULTS)]
    lines = [
        ".version 8.4", ".target sm_90", ".address_size 64", ".visible .entry k(.param .u64 px, .param .u64 pz)", "{",
        f".reg .b32 %a<{WORDS}>, %z<{RESULTS}>, %b<2>, %c<4>, %i, %t, %n, %m; .reg .b64 %x, %y, %w, %v;",
        ".reg .pred %p, %q, %r; .reg .b16 %h, %g; .shared .align 16 .b8 cells[2048]; .local .align 16 .b8 stack[16];",
        "mov.u32 %i, %tid.x; mov.u32 %t, %laneid; ld.param.u64 %x, [px]; ld.param.u64 %y, [pz];",
        f"mad.wide.u32 %x, %i, {4 * WORDS}, %x; mad.wide.u32 %y, %i, {4 * RESULTS}, %y;", *words,
        *(f"mov.b32 %z{place}, 0;" for place in range(RESULTS)), body, *stores, "ret;", "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def inputs(name):
    """Return the words of all threads: special and random numbers of the type that *name* has."""
    draw = random.Random(name)
    has_floats = name.startswith(("mma", "atom")) and re.search(r"\.(b?f16|f32|tf32)", name)
    kind = {"f16": "f16x2", "bf16": "bf16x2"}.get(has_floats[1], "f32") if has_floats else "b32"
    values = special(kind)
    rows = [[draw.choice(values) if draw.random() < 0.3 else drawn(draw, kind) for _ in range(WORDS)]
            for _ in range(THREADS)]  # fmt: skip
    for row in rows:
        if name.startswith("setp"):
            row[8] = draw.choice(special("f16x2"))
        if name.startswith("fields"):
            row[2] = draw.choice([0, 1, 31, 32, 33, 64, 255, 256, 0x80000000])
    return np.array(rows, np.uint32)
