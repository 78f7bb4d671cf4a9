"""The table of single instructions: each that computes, with all its modifiers, and special values for its operands.

A `Single` is an instruction with the types of its results and operands. Its kernel takes an array for each operand,
and stores what the instruction makes of each element.
"""

from itertools import product
from typing import NamedTuple

from tests.ptx.card.operands import bits_of, holder

BLOCK = 128
WHOLE = ("u16", "s16", "u32", "s32", "u64", "s64")
BINARY = ("f16", "f32", "f64")
HALVES = ("f16", "bf16", "f16x2", "bf16x2")
RN = ("", ".rn", ".rz", ".rm", ".rp")
ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


class Single(NamedTuple):
    """An instruction: its words, the type of its result, those of its operands, what is written behind them, and what
    comes before it.
    """

    words: str
    result: str
    operands: tuple[str, ...]
    behind: str = ""
    before: str = ""

    @property
    def name(self):
        """What it is called in a listing."""
        return f"{self.before}{self.words}{f' {self.behind}' if self.behind else ''}"


def options(*choices):
    """Return all combinations of modifiers."""
    return ["".join(each) for each in product(*choices)]


FTZ, SAT = ("", ".ftz"), ("", ".sat")


# Integers


def integers():
    """Yield the instructions on integers."""
    for type_ in WHOLE:
        bits = bits_of(type_)
        two, three = (type_,) * 2, (type_,) * 3
        for word in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            yield Single(f"{word}.{type_}", type_, two)
        for word in ("mad.lo", "mad.hi", "sad"):
            yield Single(f"{word}.{type_}", type_, three)
        if type_[0] == "s":
            for word in ("abs", "neg"):
                yield Single(f"{word}.{type_}", type_, (type_,))
        if bits < 64:
            wide = f"{type_[0]}{2 * bits}"
            yield Single(f"mul.wide.{type_}", wide, two)
            yield Single(f"mad.wide.{type_}", wide, (*two, wide))
        if bits > 16:
            for word in ("bfind", "bfind.shiftamt"):
                yield Single(f"{word}.{type_}", "u32", (type_,))
            yield Single(f"bfe.{type_}", type_, (type_, "c32", "c32"))
        yield Single(f"shr.{type_}", type_, (type_, "c32"))
        if bits == 32:
            for word in options(("mul24", "mad24"), (".lo", ".hi")):
                yield Single(f"{word}.{type_}", type_, three if word[1] == "a" else two)
            for how in ("clamp", "wrap"):
                yield Single(f"szext.{how}.{type_}", type_, (type_, "c32"))
        if bits > 16:
            for word, count in (("add", 2), ("sub", 2), ("mad.lo", 3), ("mad.hi", 3)):
                name, half = (*word.split("."), "")[:2]
                half = half and f".{half}"
                yield Single(f"{name}c{half}.{type_}", type_, (type_,) * count, before=f"{name}{half}.cc.{type_} ")


def bits():
    """Yield the instructions on bits."""
    for size in (16, 32, 64):
        type_ = f"b{size}"
        for word in ("and", "or", "xor"):
            yield Single(f"{word}.{type_}", type_, (type_,) * 2)
        for word in ("not", "cnot"):
            yield Single(f"{word}.{type_}", type_, (type_,))
        for word in ("shl", "shr"):
            yield Single(f"{word}.{type_}", type_, (type_, "c32"))
        if size > 16:
            for word in ("popc", "clz"):
                yield Single(f"{word}.{type_}", "u32", (type_,))
            yield Single(f"brev.{type_}", type_, (type_,))
            yield Single(f"bfi.{type_}", type_, (type_, type_, "c32", "c32"))
    for word in options(("shf.",), ("l", "r"), (".wrap", ".clamp")):
        yield Single(f"{word}.b32", "b32", ("b32", "b32", "c32"))
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield Single(f"prmt.b32{mode}", "b32", ("b32",) * 3)
    for table in (0x80, 0x96, 0xE8, 0x1B, 0xCA):
        yield Single("lop3.b32", "b32", ("b32",) * 3, hex(table))
    for how in ("clamp", "wrap"):
        yield Single(f"bmsk.{how}.b32", "b32", ("c32", "c32"))
    yield Single("fns.b32", "b32", ("b32", "l32", "o32"))
    for word, first, second in product(("dp4a", "dp2a.lo", "dp2a.hi"), "us", "us"):
        yield Single(f"{word}.{first}32.{second}32", "s32" if "s" in first + second else "u32", ("b32",) * 3)
    for word, sign in product(("add", "min", "max"), "us"):
        yield Single(f"{word}.{sign}16x2", "b32", ("b32",) * 2)
    for word in ("min", "max"):
        yield Single(f"{word}.relu.s16x2", "b32", ("b32",) * 2)
        yield Single(f"{word}.relu.s32", "s32", ("s32",) * 2)
    for word in ("add", "sub"):
        yield Single(f"{word}.sat.s32", "s32", ("s32",) * 2)
    yield Single("mad.hi.sat.s32", "s32", ("s32",) * 3)
    for type_ in ("b16", "b32", "b64", "f32", "f64"):
        yield Single(f"slct.{type_}.s32", type_, (type_, type_, "s32"))
        for ftz in FTZ:
            yield Single(f"slct{ftz}.{type_}.f32", type_, (type_, type_, "f32"))


# Floats


def floats():
    """Yield the arithmetic of f32 and f64."""
    for type_ in ("f32", "f64"):
        two, three, is_single = (type_,) * 2, (type_,) * 3, type_ == "f32"
        ftz, sat = (FTZ, SAT) if is_single else (("",), ("",))
        for word in options(("add", "sub", "mul"), RN, ftz, sat):
            yield Single(f"{word}.{type_}", type_, two)
        for word in options(("fma", "mad"), RN[1:], ftz, sat):
            yield Single(f"{word}.{type_}", type_, three)
        for word in options(("div",), RN[1:], ftz):
            yield Single(f"{word}.{type_}", type_, two)
        for word in options(("sqrt", "rcp"), RN[1:], ftz):
            yield Single(f"{word}.{type_}", type_, (type_,))
        for word in options(("neg", "abs"), ftz):
            yield Single(f"{word}.{type_}", type_, (type_,))
        extremes = options(ftz, ("", ".NaN"), ("", ".xorsign.abs")) if is_single else [""]
        for word in options(("min", "max"), extremes):
            yield Single(f"{word}.{type_}", type_, two)
        yield Single(f"copysign.{type_}", type_, two)
        for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield Single(f"testp.{what}.{type_}", "pred", (type_,))


def halves():
    """Yield the arithmetic of f16 and bf16, and of pairs."""
    for type_ in HALVES:
        two, three = (type_,) * 2, (type_,) * 3
        is_binary = type_[0] == "f"
        ftz, sat = (FTZ, SAT) if is_binary else (("",), ("",))
        for word in options(("add", "sub", "mul"), ("", ".rn") if is_binary else (".rn",), ftz, sat):
            yield Single(f"{word}.{type_}", type_, two)
        for word in options(("fma.rn",), options(ftz, sat) + [f"{each}.relu" for each in ftz]):
            yield Single(f"{word}.{type_}", type_, three)
        for word in options(("neg", "abs"), ftz):
            yield Single(f"{word}.{type_}", type_, (type_,))
        for word in options(("min", "max"), ftz, ("", ".NaN"), ("", ".xorsign.abs")):
            yield Single(f"{word}.{type_}", type_, two)
        yield Single(f"tanh.approx.{type_}", type_, (type_,))
        yield Single(f"ex2.approx{'' if is_binary else '.ftz'}.{type_}", type_, (type_,))


def comparisons():
    """Yield setp and set, and setp combined with a predicate."""
    for type_ in ("u16", "s16", "u32", "s32", "u64", "s64"):
        names = ORDERED if type_[0] == "s" else (*ORDERED, "lo", "ls", "hi", "hs")
        for operator in names:
            yield Single(f"setp.{operator}.{type_}", "pred", (type_,) * 2)
        yield Single(f"set.lt.u32.{type_}", "u32", (type_,) * 2)
    for type_ in ("f16", "bf16", "f32", "f64"):
        for operator, ftz in product(ORDERED + UNORDERED, FTZ if type_ in ("f16", "f32") else ("",)):
            yield Single(f"setp.{operator}{ftz}.{type_}", "pred", (type_,) * 2)
            for to in ("u32", "s32") + (("f32",) if type_[0] == "f" and type_ != "f16" else (type_,)):
                yield Single(f"set.{operator}{ftz}.{to}.{type_}", to, (type_,) * 2)
    for type_, operator in product(("f16x2", "bf16x2"), ORDERED + UNORDERED):
        yield Single(f"set.{operator}.{type_}.{type_}", type_, (type_,) * 2)
    for type_, word in product(("u32", "s32", "f32", "f64"), ("and", "or", "xor")):
        yield Single(f"setp.gt.{word}.{type_}", "pred", (type_,) * 2, "%q")


# Conversions

NARROW = ("u8", "s8", *WHOLE)
SIZES = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2}


def conversions():
    """Yield cvt."""
    for to, source in product(NARROW, NARROW):
        yield Single(f"cvt.{to}.{source}", to, (source,))
        if to != source and not fits(source, to):
            yield Single(f"cvt.sat.{to}.{source}", to, (source,))
    for to, source, rounding, sat in product(BINARY, NARROW, RN[1:], SAT):
        if not (to == "f64" and sat):
            yield Single(f"cvt{rounding}{sat}.{to}.{source}", to, (source,))
    for to, source, rounding in product(NARROW, BINARY, ("rni", "rzi", "rmi", "rpi")):
        for ftz in FTZ if source == "f32" else ("",):
            yield Single(f"cvt.{rounding}{ftz}.{to}.{source}", to, (source,))
    for to, source in product(BINARY, BINARY):
        roundings = (".rni", ".rzi", ".rmi", ".rpi") if to == source else (
            RN[1:] if SIZES[to] < SIZES[source] else ("",))  # fmt: skip
        for word in options(roundings, FTZ if "f32" in (to, source) else ("",), SAT if to != "f64" else ("",)):
            yield Single(f"cvt{word}.{to}.{source}", to, (source,))
    for type_ in WHOLE:
        for rounding in RN[1:]:
            yield Single(f"cvt{rounding}.bf16.{type_}", "bf16", (type_,))
            yield Single(f"cvt{rounding}i.{type_}.bf16", type_, ("bf16",))
    yield from to_brains()


def to_brains():
    """Yield conversions to and from bf16, pairs, tf32 and floats of 8 bits."""
    for rounding, relu in product((".rn", ".rz"), ("", ".relu")):
        for to in ("f16", "bf16"):
            yield Single(f"cvt{rounding}{relu}.{to}.f32", to, ("f32",))
            yield Single(f"cvt{rounding}{relu}.{to}x2.f32", f"{to}x2", ("f32", "f32"))
        yield Single(f"cvt{rounding}{relu}.tf32.f32", "b32", ("f32",))
    for rounding in (".rm", ".rp"):
        yield Single(f"cvt{rounding}.bf16.f32", "bf16", ("f32",))
    yield Single("cvt.f32.bf16", "f32", ("bf16",))
    yield Single("cvt.ftz.f32.bf16", "f32", ("bf16",))
    yield Single("cvt.f64.bf16", "f64", ("bf16",))
    yield Single("cvt.rn.bf16.f64", "bf16", ("f64",))
    yield Single("cvt.rn.bf16.f16", "bf16", ("f16",))
    yield Single("cvt.rn.f16.bf16", "f16", ("bf16",))
    for rounding in ("rni", "rzi", "rmi", "rpi"):
        yield Single(f"cvt.{rounding}.bf16.bf16", "bf16", ("bf16",))
    yield Single("cvt.rna.tf32.f32", "b32", ("f32",))
    for relu, kind in product(("", ".relu"), ("e4m3x2", "e5m2x2")):
        yield Single(f"cvt.rn.satfinite{relu}.{kind}.f32", kind, ("f32", "f32"))
        yield Single(f"cvt.rn.satfinite{relu}.{kind}.f16x2", kind, ("f16x2",))
        yield Single(f"cvt.rn{relu}.f16x2.{kind}", "f16x2", (kind,))
    for to in ("u16", "s16"):
        yield Single(f"cvt.pack.sat.{to}.s32", "b32", ("s32", "s32"))
    for to in ("u8", "s8"):
        yield Single(f"cvt.pack.sat.{to}.s32.b32", "b32", ("s32", "s32", "b32"))


def fits(source, to):
    """Whether an integer type has all numbers of another one."""
    low, high = int(source[1:]), int(to[1:])
    return low <= high if source[0] == to[0] else source[0] == "u" and low < high


def approximate():
    """Yield the approximate functions."""
    for word, ftz in product(("ex2", "lg2", "sin", "cos", "rcp", "rsqrt", "sqrt"), FTZ):
        yield Single(f"{word}.approx{ftz}.f32", "f32", ("f32",))
    yield Single("tanh.approx.f32", "f32", ("f32",))
    for word, ftz in product(("div.approx", "div.full"), FTZ):
        yield Single(f"{word}{ftz}.f32", "f32", ("f32", "f32"))
    for word in ("rcp", "rsqrt"):
        yield Single(f"{word}.approx.ftz.f64", "f64", ("f64",))


def singles():
    """Return the whole table, without the approximate functions of f32 and f64."""
    parts = (integers, bits, floats, halves, comparisons, conversions)
    return list(dict.fromkeys(each for part in parts for each in part()))


# Kernels


def text(single):
    """Return the kernel of an instruction."""
    inputs = "abcd"[: len(single.operands)]
    parameters = ", ".join(f".param .u64 p{each}" for each in f"{inputs}z")
    sizes = [holder(each) for each in single.operands]
    loads = [f"ld.param.u64 %x, [p{name}]; mad.wide.u32 %x, %i, {size // 8}, %x; ld.global.b{size} %{name}, [%x];"
             for name, size in zip(inputs, sizes, strict=True)]  # fmt: skip
    size = result_bits(single)
    result, after = "%z", ""
    if single.result == "pred":
        result, after = "%p", "selp.b32 %z, 1, 0, %p;"
    given = ", ".join(f"%{each}" for each in inputs)
    behind = f", {single.behind}" if single.behind else ""
    lines = [
        ".version 8.4", ".target sm_90", ".address_size 64", f".visible .entry k({parameters})", "{",
        *(f".reg .b{max(size, 16)} %{name};" for name, size in zip(inputs, sizes, strict=True)),
        f".reg .b{size} %z; .reg .pred %p, %q; .reg .b32 %i, %n; .reg .b64 %x;",
        f"mov.u32 %i, %ctaid.x; mov.u32 %n, %tid.x; mad.lo.u32 %i, %i, {BLOCK}, %n;",
        "and.b32 %n, %n, 1; setp.eq.u32 %q, %n, 1;", *loads,
        *([f"{single.before}%z, {given};"] if single.before else []),
        f"{single.words} {result}, {given}{behind};", after,
        f"ld.param.u64 %x, [pz]; mad.wide.u32 %x, %i, {size // 8}, %x; st.global.b{size} [%x], %z;", "ret;", "}",
    ]  # fmt: skip
    return "\n".join(filter(None, lines)) + "\n"


def result_bits(single):
    """Return the bits of memory for a result: 32 for one of 8 bits, which a register extends."""
    return 32 if single.result in ("u8", "s8") else holder(single.result)
