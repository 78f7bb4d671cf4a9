"""What instructions compute from values: plain functions of Python integers, which hold the bits of all types."""

from collections.abc import Callable
from typing import NamedTuple

from tests.ptx import exact
from tests.ptx.exact import F16, F32, FORMATS
from tests.ptx.reading import BITS

ROUNDINGS = ("rn", "rz", "rm", "rp")
INTEGRAL = ("rni", "rzi", "rmi", "rpi")
SELECTORS = {
    "f4e": lambda n: [n, n + 1, n + 2, n + 3],
    "b4e": lambda n: [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8],
    "rc8": lambda n: [n, n, n, n],
    "ecl": lambda n: [max(n, each) for each in range(4)],
    "ecr": lambda n: [min(n, each) for each in range(4)],
    "rc16": lambda n: [n % 2 * 2, n % 2 * 2 + 1] * 2,
}


class Operation(NamedTuple):
    """A *function* of values that have *inputs* bits; its result has *bits*, and a sign that a wider register gets."""

    function: Callable[..., int]
    inputs: tuple[int, ...]
    bits: int
    is_signed: bool = False


def signed(a, bits):
    """Return the number with a sign that has the bits *a*."""
    return a - (1 << bits) if a >> bits - 1 else a


def operation(words):
    """Return what the instruction *words* computes; None if it does more than that."""
    name, kind = words[0], words[-1]
    if name == "prmt":
        return Operation(lambda a, b, c: permuted(a, b, c, words), (32, 32, 32), 32)
    if name == "cvt":
        return conversion(words)
    if name in ("setp", "set"):
        return comparison(words)
    if kind in FORMATS and name not in ("selp", "slct", "mov"):
        return of_floats(words, FORMATS[kind])
    if kind == "f16x2" and name not in ("selp", "mov"):
        inner = of_floats((*words[:-1], "f16"), FORMATS["f16"])
        return Operation(in_halves(inner.function), (32,) * len(inner.inputs), 32)
    if kind in ("u16x2", "s16x2"):
        inner = of_integers((*words[:-1], kind[:3]))
        return Operation(in_halves(inner.function), (32,) * len(inner.inputs), 32)
    return of_integers(words) if kind in BITS else None


def in_halves(function):
    def both(*words):
        low, high = (function(*(each >> shift & 0xFFFF for each in words)) for shift in (0, 16))
        return low | high << 16

    return both


# Integers


def clamp(value, bits, is_signed):
    """Return the bits of *value*, or of the bound that is next to it."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return min(max(value, low), high) % (1 << bits)


def quotient(a, b):
    """Return a / b cut off; -1 for a division by 0."""
    if not b:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def of_integers(words):
    """Return what an instruction on integers or bits computes."""
    name, kind, options = words[0], words[-1], words[1:]
    bits, is_signed = BITS[kind], kind[0] == "s"
    all_ones = (1 << bits) - 1
    whole = (lambda a: signed(a, bits)) if is_signed else (lambda a: a)
    sat = (lambda a: clamp(a, bits, is_signed)) if "sat" in options else (lambda a: a & all_ones)
    one, two, three = (bits,), (bits,) * 2, (bits,) * 3

    def result(function, inputs, width=bits):
        return Operation(
            lambda *given: sat(function(*given)) if width == bits else function(*given) % (1 << width),
            inputs,
            width,
            is_signed,
        )

    def plain(function):
        count = function.__code__.co_argcount
        return result(lambda *given: function(*map(whole, given)), (bits,) * count)

    if name in ("mul", "mad") and "wide" in options:
        wide = 2 * bits
        if name == "mul":
            return result(lambda a, b: whole(a) * whole(b), two, wide)
        return result(lambda a, b, c: whole(a) * whole(b) + c, (bits, bits, wide), wide)
    if name in ("mul24", "mad24"):

        def narrow(a):
            a &= 0xFFFFFF
            return signed(a, 24) if is_signed else a

        def product(a, b):
            return (
                narrow(a) * narrow(b) >> 16
                if "hi" in options
                else signed(narrow(a) * narrow(b) & all_ones, bits)
                if is_signed
                else narrow(a) * narrow(b) & all_ones
            )

        if name == "mul24":
            return result(product, two)
        return result(lambda a, b, c: product(a, b) + whole(c), three)
    if name in ("mul", "mad") and "hi" in options:
        if name == "mul":
            return plain(lambda a, b: a * b >> bits)
        return plain(lambda a, b, c: (a * b >> bits) + c)
    if name in ("min", "max") and "relu" in options:
        function = min if name == "min" else max
        return plain(lambda a, b: max(0, function(a, b)))
    match name:
        case "add":
            return plain(lambda a, b: a + b)
        case "sub":
            return plain(lambda a, b: a - b)
        case "mul":
            return plain(lambda a, b: a * b)
        case "mad":
            return plain(lambda a, b, c: a * b + c)
        case "div":
            return plain(lambda a, b: quotient(a, b))
        case "rem":
            return plain(lambda a, b: a - b * quotient(a, b) if b else -1)
        case "sad":
            return plain(lambda a, b, c: c + abs(a - b))
        case "min":
            return plain(lambda a, b: min(a, b))
        case "max":
            return plain(lambda a, b: max(a, b))
        case "abs":
            return plain(lambda a: abs(a))
        case "neg":
            return plain(lambda a: -a)
        case "and":
            return plain(lambda a, b: a & b)
        case "or":
            return plain(lambda a, b: a | b)
        case "xor":
            return plain(lambda a, b: a ^ b)
        case "not":
            return plain(lambda a: ~a)
        case "cnot":
            return plain(lambda a: int(not a))
        case "shl":
            return result(lambda a, count: a << min(count, bits), (bits, 32))
        case "shr":
            return result(lambda a, count: whole(a) >> min(count, bits), (bits, 32))
        case "shf":
            return Operation(funnel(options), (32, 32, 32), 32)
        case "popc":
            return Operation(lambda a: a.bit_count(), one, 32)
        case "clz":
            return Operation(lambda a: bits - a.bit_length(), one, 32)
        case "brev":
            return result(lambda a: int(f"{a:0{bits}b}"[::-1], 2), one)
        case "bfind":

            def find(a):
                place = (all_ones ^ a if is_signed and a >> bits - 1 else a).bit_length() - 1
                if place < 0:
                    return 0xFFFFFFFF
                return bits - 1 - place if "shiftamt" in options else place

            return Operation(find, one, 32)
        case "bfe":
            return result(lambda a, *place: field(a, *places(place, bits), bits, is_signed), (bits, 32, 32))
        case "bfi":

            def insert(a, b, position, length):
                position, length = places((position, length), bits)
                mask = ((1 << length) - 1) << position & all_ones
                return b & ~mask | a << position & mask

            return result(insert, (bits, bits, 32, 32))
        case "fns":
            return Operation(find_nth, (32, 32, 32), 32)
        case "bmsk":

            def mask(a, b):
                a, b = (each & 31 if "wrap" in options else min(each, 32) for each in (a, b))
                return ((1 << b) - 1) << a & all_ones

            return result(mask, (32, 32))
        case "szext":

            def extend(a, b):
                b = b & 31 if "wrap" in options else min(b, 32)
                return field(a, 0, b, 32, is_signed)

            return result(extend, (32, 32))
        case "lop3":

            def logic(a, b, c, table):
                return sum(
                    (table >> (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1) & 1) << bit for bit in range(32)
                )

            return Operation(logic, (32, 32, 32, 32), 32)
        case "dp4a" | "dp2a":
            return dot(words)
        case "selp":
            return Operation(lambda a, b, p: a if p else b, (bits, bits, 1), bits)
        case "slct":
            bits = BITS[words[-2]]

            def select(a, b, c):
                if kind == "f32":
                    c = exact.flushed(c, F32) if "ftz" in options else c
                    return b if exact.is_nan(c, F32) or (c >> 31 and not exact.is_zero(c, F32)) else a
                return b if c >> 31 else a

            return Operation(select, (bits, bits, 32), bits)
    return None


def places(given, bits):
    """Return position and length of a field: a card takes a byte of each if there are 32 bits, and all if 64."""
    return [each & 255 if bits == 32 else min(each, 64) for each in given]


def field(a, position, length, bits, is_signed):
    """Return a field of bits, extended by its sign."""
    value = a >> position & (1 << length) - 1 if position < bits else 0
    if is_signed and length:
        sign = a >> min(position + length - 1, bits - 1) & 1
        here = max(0, min(length, bits - position))
        if sign:
            value |= -1 << here
    return value % (1 << bits)


def funnel(options):
    def shifted(a, b, count):
        count = count & 31 if "wrap" in options else min(count, 32)
        both = b << 32 | a
        return (both << count >> 32 if "l" in options else both >> count) & 0xFFFFFFFF

    return shifted


def find_nth(mask, base, offset):
    """Return the position of a bit, as the ISA has it in C."""
    offset = signed(offset, 32)
    if not offset:
        return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
    position, step, left = base, 1 if offset > 0 else -1, abs(offset)
    while 0 <= position < 32:
        left -= mask >> position & 1
        if not left:
            return position
        position += step
    return 0xFFFFFFFF


def permuted(a, b, selector, options):
    parts = (b << 32 | a).to_bytes(8, "little")
    mode = next((each for each in options if each in SELECTORS), None)
    if mode:
        return int.from_bytes([parts[each] for each in SELECTORS[mode](selector & 3)], "little")
    found = []
    for place in range(4):
        nibble = selector >> 4 * place & 15
        byte = parts[nibble & 7]
        found.append((255 if byte >> 7 else 0) if nibble >> 3 else byte)
    return int.from_bytes(found, "little")


def dot(words):
    first, second = words[-2:]
    is_signed = "s32" in (first, second)

    def parts(a, bits, kind):
        values = [a >> shift & (1 << bits) - 1 for shift in range(0, 32, bits)]
        return [signed(each, bits) for each in values] if kind == "s32" else values

    def product(a, b, c):
        if words[0] == "dp4a":
            left, right = parts(a, 8, first), parts(b, 8, second)
        else:
            left, right = parts(a, 16, first), parts(b, 8, second)[2 * ("hi" in words) :][:2]
        return (c + sum(x * y for x, y in zip(left, right, strict=True))) & 0xFFFFFFFF

    return Operation(product, (32, 32, 32), 32, is_signed)


def carried(words):
    """Return what an instruction of a carry chain computes: its result and the carry."""
    name, kind = words[0], words[-1]
    bits, is_signed = BITS[kind], kind[0] == "s"

    def product(a, b):
        if is_signed:
            a, b = signed(a, bits), signed(b, bits)
        return (a * b >> bits if "hi" in words else a * b) % (1 << bits)

    def compute(carry, *given):
        if not name.endswith("c"):
            carry = 0
        if name.startswith("sub"):
            total = given[0] - given[1] - carry
        elif name.startswith("add"):
            total = given[0] + given[1] + carry
        else:
            total = product(*given[:2]) + given[2] + carry
        return total % (1 << bits), int(not 0 <= total < 1 << bits)

    return compute, (bits,) * (3 if name.startswith("mad") else 2), bits


# Floats


def of_floats(words, kind):
    """Return what an instruction on floats computes."""
    name, options = words[0], words[1:]
    rounding = next((each for each in options if each in ROUNDINGS), "rn")
    flush = (lambda a: exact.flushed(a, kind)) if "ftz" in options else (lambda a: a)

    def end(a):
        if "sat" in options:
            return exact.saturated(a, kind)
        if "relu" in options and not exact.is_nan(a, kind) and a & kind.sign:
            return 0
        return a

    def plain(function, count):
        return Operation(lambda *given: end(flush(function(*map(flush, given)))), (kind.bits,) * count, kind.bits)

    def rounded(function, count):
        def compute(*given):
            given = [flush(each) for each in given]
            found = function(*given, kind, rounding)
            if "ftz" in options and exact.is_tiny(found, function, given, kind, rounding):
                found &= kind.sign
            return end(flush(found))

        return Operation(compute, (kind.bits,) * count, kind.bits)

    def nan_or(a, result):
        return exact.nan(kind, a) if exact.is_nan(a, kind) else result

    match name:
        case "add" | "sub" | "mul" | "div":
            return rounded(getattr(exact, name), 2)
        case "fma" | "mad":
            return rounded(exact.fma, 3)
        case "sqrt":
            return rounded(exact.sqrt, 1)
        case "rcp":
            return rounded(lambda a, kind, how: exact.div(kind.one, a, kind, how), 1)
        case "neg":
            return plain(lambda a: nan_or(a, a ^ kind.sign), 1)
        case "abs":
            return plain(lambda a: nan_or(a, a & ~kind.sign), 1)
        case "min" | "max":
            return plain(lambda *given: extreme(name, given, kind, options), 3 if "three" in options else 2)
        case "copysign":
            return plain(lambda a, b: a & kind.sign | b & ~kind.sign, 2)
        case "testp":
            tests = {
                "finite": exact.is_finite, "infinite": exact.is_infinite, "notanumber": exact.is_nan,
                "number": lambda a, kind: not exact.is_nan(a, kind), "subnormal": exact.is_subnormal,
                "normal": lambda a, kind: exact.is_finite(a, kind) and not exact.is_subnormal(a, kind),  # 0 too
            }  # fmt: skip
            return Operation(lambda a: int(tests[words[1]](a, kind)), (kind.bits,), 1)
    return None


def extreme(name, given, kind, options):
    a, b = given
    if "xorsign" in options:
        sign = (a ^ b) & kind.sign
        a, b = a & ~kind.sign, b & ~kind.sign
        found = exact.extreme(name, a, b, kind, with_nan="NaN" in options)
        return found if exact.is_nan(found, kind) else found & ~kind.sign | sign
    return exact.extreme(name, a, b, kind, with_nan="NaN" in options)


def comparison(words):
    """Return the comparison of setp or set, and for set as a value; it may be combined with a predicate."""
    kind, options = words[-1], words[1:-1]
    operator = words[1]
    word = next((each for each in options if each in ("and", "or", "xor")), None)
    if kind in FORMATS:
        float_kind = FORMATS[kind]
        bits = float_kind.bits

        def compared(a, b):
            if "ftz" in options:
                a, b = exact.flushed(a, float_kind), exact.flushed(b, float_kind)
            return exact.compare(a, b, operator, float_kind)
    else:
        bits = BITS[kind]
        sign = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(operator, operator)

        def compared(a, b):
            if kind[0] == "s":
                a, b = signed(a, bits), signed(b, bits)
            return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[sign]

    def combined(a, b, predicate=1):
        """Return the result, and for setp that of the opposite comparison in the next bit."""
        first = int(compared(a, b))
        both = [first, 1 - first]
        if word:
            both = [{"and": each & predicate, "or": each | predicate, "xor": each ^ predicate}[word] for each in both]
        if words[0] == "setp":
            return both[0] | both[1] << 1
        to = words[-2]
        if to in FORMATS:
            return FORMATS[to].one if both[0] else 0
        return (1 << BITS[to]) - 1 if both[0] else 0

    inputs = (bits, bits, 1) if word else (bits, bits)
    return Operation(combined, inputs, 2 if words[0] == "setp" else BITS[words[-2]])


def conversion(words):
    """Return what cvt computes."""
    to, source = words[-2:]
    options = words[1:-2]
    rounding = next((each for each in options if each in ROUNDINGS + INTEGRAL), None)
    wide = BITS[source]
    if to == "f16x2":

        def pack(a, b):
            return single(b) | single(a) << 16

        single = conversion((*words[:-2], "f16", source)).function
        return Operation(pack, (32, 32), 32)
    bits, is_signed = BITS[to], to[0] == "s"
    if source not in FORMATS:
        whole = (lambda a: signed(a, wide)) if source[0] == "s" else (lambda a: a)
        if to not in FORMATS:
            if "sat" in options:
                return Operation(lambda a: clamp(whole(a), bits, is_signed), (wide,), bits, is_signed)
            return Operation(lambda a: whole(a) % (1 << bits), (wide,), bits, is_signed)

        def from_integer(a):
            found = exact.rounded(exact.Fraction(whole(a)), FORMATS[to], rounding)
            return exact.saturated(found, FORMATS[to]) if "sat" in options else found

        return Operation(from_integer, (wide,), bits)
    kind = FORMATS[source]
    flush = (lambda a, of: exact.flushed(a, of)) if "ftz" in options else (lambda a, _: a)
    if to not in FORMATS:

        def to_integer(a):
            a = flush(a, kind)
            if exact.is_nan(a, kind):
                return 1 << bits - 1 if source == "f64" or bits == 64 else 0
            if exact.is_infinite(a, kind):
                return clamp(-(1 << 100) if a & kind.sign else 1 << 100, bits, is_signed)
            return clamp(exact.whole_number(exact.value(a, kind), rounding), bits, is_signed)

        return Operation(to_integer, (wide,), bits, is_signed)
    goal = FORMATS[to]

    def to_float(a):
        if kind is F32:
            if goal is not F16 or rounding not in ("rm", "rp"):
                a = flush(a, kind)
            if "ftz" in options and exact.is_nan(a, kind):
                a = exact.nan(F32)
        if rounding in INTEGRAL:
            a = exact.integral(a, kind, rounding)
        how = rounding if rounding in ROUNDINGS else "rn"
        found = exact.converted(a, kind, goal, how)
        if goal is F32 and "ftz" in options:
            if exact.is_tiny(found, lambda to, how: exact.converted(a, kind, to, how), (), goal, how):
                found &= goal.sign
            found = flush(found, goal)
        if "relu" in options and not exact.is_nan(found, goal) and found & goal.sign:
            return 0
        return exact.saturated(found, goal) if "sat" in options else found

    return Operation(to_float, (wide,), bits)
