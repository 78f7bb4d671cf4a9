"""What an assembler makes of one instruction of PTX: how many issues, on which unit, and how long to the result.

The numbers of issues are those of the published tables of throughput (one result per lane and cycle of a unit), and
of the sequences that divisions and roots need: an estimate by a reciprocal, and steps of Newton's method.
"""

from enum import IntEnum
from typing import NamedTuple

from device_model.ptx.text.syntax import Instruction, Number, Special
from device_model.ptx.timing.rates import RATES


class Pipe(IntEnum):
    """The part of an SM that takes an instruction; each but the LSU is there once for each scheduler."""

    FMA = 0
    ALU = 1
    DOUBLE = 2
    SFU = 3
    TENSOR = 4
    LSU = 5
    CONTROL = 6


class Cost(NamedTuple):
    """How many *issues*, how many cycles of which pipe, and cycles from the first issue to the result."""

    issues: int
    pipe: Pipe
    cycles: int
    latency: int


FREE = Cost(0, Pipe.CONTROL, 0, 0)
_FREE = frozenset(("cvta", "mov", "pragma", "membar", "fence", "prefetch", "prefetchu", "discard", "activemask",
                   "applypriority", "pmevent", "isspacep", "elect"))  # fmt: skip
_CONSTANT = ("%ntid", "%nctaid", "%nwarpid", "%nsmid", "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size",
             "%cluster", "%ncluster", "%gridid")  # fmt: skip
_PRODUCTS = frozenset(("mul", "mad", "mul24", "mad24", "madc", "dp4a", "dp2a"))
_MOVED = {"s8": 8, "u8": 8, "b8": 8, "s16": 16, "u16": 16, "b16": 16, "s32": 32, "u32": 32, "b32": 32, "s64": 64,
          "u64": 64, "b64": 64}  # fmt: skip


def alu(issues: int = 1) -> Cost:
    """Return the cost of *issues* operations on integers, in a row of dependent ones."""
    return Cost(issues, Pipe.ALU, 2 * issues, RATES.math + issues - 1)


def fma(issues: int = 1) -> Cost:
    """Return the cost of *issues* independent operations on floats."""
    return Cost(issues, Pipe.FMA, issues, RATES.math + issues - 1)


def cost_of(item: Instruction) -> Cost:
    """Return the cost of an instruction that is no access to memory and no barrier."""
    name, types = item.name, [each for each in item.modifiers if each in _MOVED or each[:1] in "fbp"]
    if name == "mov" and isinstance(item.operands[1], Special):
        is_constant = item.operands[1].name.startswith(_CONSTANT)
        return FREE if is_constant else Cost(1, Pipe.ALU, 2, RATES.special)
    if name in _FREE:
        return FREE
    if name in ("bra", "brx", "ret", "exit", "call", "trap", "brkpt"):
        return Cost(1, Pipe.CONTROL, 1, RATES.branch)
    if name == "cvt":
        return _conversion(item, types)
    if name in ("shfl", "vote", "match", "redux", "bar"):
        return Cost(1, Pipe.LSU, 2, RATES.shuffle if name in ("shfl", "match") else 12)
    if name in ("mma", "wmma"):
        return Cost(2, Pipe.TENSOR, 16, 33)
    if name in ("sin", "cos", "ex2", "lg2", "tanh", "rcp", "rsqrt", "sqrt", "div", "rem"):
        return _function(item)
    if "f64" in types:
        issues = 2 if name == "setp" else 1
        return Cost(issues, Pipe.DOUBLE, 2 * issues, RATES.predicate if name == "setp" else RATES.double)
    if name == "setp" or "pred" in types:
        issues = 2 if any("64" in each for each in types) else 1
        return Cost(issues, Pipe.ALU, 2 * issues, RATES.predicate + RATES.wide * (issues - 1))
    if {"f32", "f16", "f16x2", "bf16", "bf16x2"}.intersection(types):
        return alu() if name in ("min", "max", "selp", "set", "testp", "slct") else fma()
    return _integer(item)


def _integer(item: Instruction) -> Cost:
    name, modifiers = item.name, item.modifiers
    is_wide = any(each.endswith("64") for each in modifiers)
    if name in _PRODUCTS:
        if "wide" in modifiers or not is_wide:
            return Cost(1, Pipe.FMA, 2, RATES.wide)
        issues = 6 if "hi" in modifiers else 2 if any(_is_small(each) for each in item.operands) else 4
        return Cost(issues, Pipe.FMA, 2 * issues, RATES.wide + 2 * (issues - 1))
    if name in ("popc", "clz", "bfind", "brev", "fns"):
        return Cost(1 + is_wide, Pipe.SFU, 8, RATES.convert)
    if name in ("add", "sub", "and", "or", "xor", "not", "shl", "shr", "selp", "neg", "abs", "min", "max",
                "addc", "subc", "shf", "lop3"):  # fmt: skip
        issues = 1 + is_wide + (is_wide and name in ("min", "max"))
        return Cost(issues, Pipe.ALU, 2 * issues, RATES.math + (issues - 1))
    return alu(2 if is_wide or name in ("bfe", "bfi", "sad") else 1)


def _is_small(operand: object) -> bool:
    return isinstance(operand, Number) and isinstance(operand.value, int) and 0 <= operand.value < 2**31


def _conversion(item: Instruction, types: list[str]) -> Cost:
    to, source = types[-2:] if len(types) > 1 else ("b32", "b32")
    if to in _MOVED and source in _MOVED:
        if "sat" in item.modifiers:
            return alu()
        is_narrower = _MOVED[to] <= _MOVED[source] and _MOVED[to] >= 32
        return FREE if is_narrower or to[1:] == source[1:] or (source[0] != "s" and _MOVED[to] >= 32) else alu()
    if "64" in to + source:
        return Cost(1, Pipe.SFU, 8, 2 * RATES.convert)
    return Cost(1, Pipe.SFU, 4, RATES.convert) if to in _MOVED or source in _MOVED else alu()


def _function(item: Instruction) -> Cost:
    """Return the cost of a division, a root or an approximate function."""
    name, modifiers = item.name, item.modifiers
    is_exact = name in ("div", "sqrt", "rcp") and "approx" not in modifiers and "full" not in modifiers
    if "f64" in modifiers:
        issues = {"div": 14, "sqrt": 14, "rcp": 9, "rsqrt": 12}.get(name, 8)
        return Cost(issues, Pipe.DOUBLE, 2 * issues, RATES.double * issues)
    if "f32" in modifiers or "f16" in modifiers or "f16x2" in modifiers:
        if is_exact:
            issues = {"div": 10, "sqrt": 10, "rcp": 6}[name]
            return Cost(issues, Pipe.SFU, 8, 17 + RATES.math * (issues - 2))
        issues = 3 if name == "div" else 2 if name in ("sin", "cos") else 1
        issues += 2 * ("ftz" not in modifiers and name in ("ex2", "lg2", "rsqrt", "sqrt", "rcp"))
        return Cost(issues, Pipe.SFU, 8, 17 + RATES.math * (issues - 1))
    if any(isinstance(each, Number) for each in item.operands[2:]):
        issues = 10 if any("64" in each for each in modifiers) else 4  # by a constant: a product and shifts
        return Cost(issues, Pipe.ALU, 2 * issues, (RATES.math + 1) * issues)
    is_long = any("64" in each for each in modifiers)
    issues = 70 if is_long else 20
    return Cost(issues, Pipe.ALU, issues + issues // 2, issues * 4 + 40)
