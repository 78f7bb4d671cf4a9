"""What an assembler makes of one instruction of PTX: how many issues, on which unit, and how long to the result.

The numbers of issues are those of the published tables of throughput (one result per lane and cycle of a unit), and
of the sequences that divisions and roots need: an estimate by a reciprocal, and steps of Newton's method.
"""

import re
from typing import NamedTuple

from device_model.ptx.text.syntax import Instruction, Number, Special
from device_model.sm.instructions import Unit
from device_model.sm.spec import SmSpec


class Cost(NamedTuple):
    """How many *issues*, how many *cycles* of which unit, and cycles from the first issue to the result.

    Of a jump, *latency* is the time until the next instruction.
    """

    issues: int
    unit: Unit
    cycles: float
    latency: float


FREE = Cost(0, Unit.SYNC, 0, 0)
_FREE = frozenset(("cvta", "mov", "pragma", "membar", "fence", "prefetch", "prefetchu", "discard", "activemask",
                   "applypriority", "pmevent", "isspacep", "elect"))  # fmt: skip
_CONSTANT = ("%ntid", "%nctaid", "%nwarpid", "%nsmid", "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size",
             "%cluster", "%ncluster", "%gridid")  # fmt: skip
_PRODUCTS = frozenset(("mul", "mad", "mul24", "mad24", "madc", "dp4a", "dp2a"))
_MOVED = {"s8": 8, "u8": 8, "b8": 8, "s16": 16, "u16": 16, "b16": 16, "s32": 32, "u32": 32, "b32": 32, "s64": 64,
          "u64": 64, "b64": 64}  # fmt: skip
_PAIRS = frozenset(("add", "sub", "and", "or", "xor", "not", "shl", "shr", "selp", "neg", "abs", "min", "max", "addc",
                    "subc", "shf", "lop3"))  # fmt: skip
_FLOATS = frozenset(("f32", "f16", "f16x2", "bf16", "bf16x2"))
JUMPS = frozenset(("bra", "brx", "ret", "exit", "call", "trap", "brkpt"))
_BITS = {"f64": 128, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "s4": 4, "u4": 4, "b1": 1}  # of products


class Costs:
    """The costs of instructions on the SMs of *spec*."""

    __slots__ = ("_math", "_spec")

    def __init__(self, spec: SmSpec) -> None:
        self._spec = spec
        self._math = spec.math_permille / 1000

    def of(self, item: Instruction) -> Cost:
        """Return the cost of an instruction that is no access to memory and no barrier."""
        spec, name = self._spec, item.name
        types = [each for each in item.modifiers if each in _MOVED or each[:1] in "fbp"]
        if name == "mov" and isinstance(item.operands[1], Special):
            is_constant = item.operands[1].name.startswith(_CONSTANT)
            return FREE if is_constant else self._alu(latency=spec.special)
        if name in _FREE:
            return FREE
        if name in JUMPS:
            return Cost(1, Unit.SYNC, 1, spec.branch)
        if name == "cvt":
            return self._conversion(item, types)
        if name == "bar":  # of a warp, whose lanes are together as a rule
            return Cost(1, Unit.SYNC, 1, spec.branch)
        if name in ("shfl", "vote", "match", "redux"):
            latency = spec.shuffle if name in ("shfl", "match") else spec.vote
            return Cost(1, Unit.LSU, spec.shuffle_interval, latency)
        if name in ("mma", "wmma"):
            return self._product(item)
        if name in ("sin", "cos", "ex2", "lg2", "tanh", "rcp", "rsqrt", "sqrt", "div", "rem"):
            return self._function(item)
        if "f64" in types:
            return self._double(2, spec.predicate) if name == "setp" else self._double()
        if name == "setp" or "pred" in types:
            issues = 2 if any("64" in each for each in types) else 1
            return self._alu(issues, spec.predicate + spec.wide * (issues - 1))
        if _FLOATS.intersection(types):
            if name in ("min", "max", "selp", "set", "testp", "slct"):
                return self._alu()
            halves, pairs = self._spec.half_interval_permille / 1000, self._spec.pair_interval_permille / 1000
            return self._fma(1 if "f32" in types else pairs if any("x2" in each for each in types) else halves)
        return self._integer(item)

    def _alu(self, issues: int = 1, latency: float = 0.0) -> Cost:
        return Cost(issues, Unit.ALU, self._spec.alu_interval * issues, latency or self._math + issues - 1)

    def _fma(self, cycles: float) -> Cost:
        return Cost(1, Unit.FMA, cycles, self._math)

    def _wide(self, issues: int) -> Cost:
        return Cost(issues, Unit.FMA, 2 * issues, self._spec.wide + 2 * (issues - 1))

    def _double(self, issues: int = 1, latency: float = 0.0) -> Cost:
        spec = self._spec
        return Cost(issues, Unit.DOUBLE, spec.double_interval_permille / 1000 * issues, latency or spec.double * issues)

    def _integer(self, item: Instruction) -> Cost:
        name, modifiers = item.name, item.modifiers
        is_wide = any(each.endswith("64") for each in modifiers)
        if name in _PRODUCTS:
            if "wide" in modifiers or not is_wide:
                return self._wide(1)
            return self._wide(6 if "hi" in modifiers else 2 if any(_is_small(each) for each in item.operands) else 4)
        if name in ("popc", "clz", "bfind", "brev", "fns"):
            return Cost(1 + is_wide, Unit.SFU, self._spec.sfu_interval, self._spec.convert)
        if name in _PAIRS:
            return self._alu(1 + is_wide + (is_wide and name in ("min", "max")))
        return self._alu(2 if is_wide or name in ("bfe", "bfi", "sad") else 1)

    def _conversion(self, item: Instruction, types: list[str]) -> Cost:
        spec = self._spec
        to, source = types[-2:] if len(types) > 1 else ("b32", "b32")
        if to in _MOVED and source in _MOVED:
            if "sat" in item.modifiers:
                return self._alu()
            is_narrower = _MOVED[to] <= _MOVED[source] and _MOVED[to] >= 32
            is_free = is_narrower or to[1:] == source[1:] or (source[0] != "s" and _MOVED[to] >= 32)
            return FREE if is_free else self._alu()
        if "64" in to + source:
            return Cost(1, Unit.SFU, spec.sfu_interval, 2 * spec.convert)
        is_moved = to in _MOVED or source in _MOVED
        return Cost(1, Unit.SFU, spec.convert_interval, spec.convert) if is_moved else self._alu()

    def _product(self, item: Instruction) -> Cost:
        """Return the cost of a product of the tensor core, by its size and types."""
        rows, columns, inner = next(_shape(each) for each in item.modifiers if each[:1] == "m" and each[1:2].isdigit())
        bits = next((size for name, size in _BITS.items() if name in item.modifiers), 16)
        cycles = self._spec.mma_interval_permille / 1000 * rows * columns * inner / 2048 * bits / 16
        return Cost(1, Unit.TENSOR, cycles, self._spec.mma + max(0.0, cycles - self._spec.mma_interval_permille / 1000))

    def _function(self, item: Instruction) -> Cost:
        """Return the cost of a division, a root or an approximate function."""
        spec, name, modifiers = self._spec, item.name, item.modifiers
        is_exact = name in ("div", "sqrt", "rcp") and "approx" not in modifiers and "full" not in modifiers
        if "f64" in modifiers:
            return self._double({"div": 14, "sqrt": 14, "rcp": 9, "rsqrt": 12}.get(name, 8))
        if _FLOATS.intersection(modifiers):
            if is_exact:
                issues = {"div": 10, "sqrt": 10, "rcp": 6}[name]
                return Cost(issues, Unit.SFU, spec.sfu_interval, spec.sfu + self._math * (issues - 2))
            issues = 3 if name == "div" else 2 if name in ("sin", "cos") else 1
            issues += 2 * ("ftz" not in modifiers and name in ("ex2", "lg2", "rsqrt", "sqrt", "rcp"))
            return Cost(issues, Unit.SFU, spec.sfu_interval, spec.sfu + self._math * (issues - 1))
        is_long = any("64" in each for each in modifiers)
        if any(isinstance(each, Number) for each in item.operands[2:]):
            issues = 10 if is_long else 4  # by a constant: a product and shifts
            return self._alu(issues, (self._math + 1) * issues)
        issues = 70 if is_long else 20
        return Cost(issues, Unit.ALU, issues + issues // 2, issues * 4 + 40)


def _shape(modifier: str) -> tuple[int, int, int]:
    rows, columns, inner = (int(each) for each in re.split("[mnk]", modifier)[1:])
    return rows, columns, inner


def _is_small(operand: object) -> bool:
    return isinstance(operand, Number) and isinstance(operand.value, int) and 0 <= operand.value < 2**31
