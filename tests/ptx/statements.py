"""Random statements of kernels and functions."""

from typing import NamedTuple

from tests.ptx.drawing import real, whole

BINS = 16  # of 8 bytes each, for atomics
WIDTHS = {"h": 16, "r": 32, "d": 64, "e": 16, "f": 32, "g": 64}
COUNTS = {"p": 4, "h": 3, "r": 7, "d": 4, "e": 3, "f": 4, "g": 3}
DECLARED = {
    "p": ["pred"],
    "h": ["b16", "u16", "s16"],
    "r": ["b32", "u32", "s32"],
    "d": ["b64", "u64", "s64"],
    "e": ["b16"],
    "f": ["f32", "b32"],
    "g": ["f64", "b64"],
}
PAIRS = ["%r0", "%r1", "%r2"]  # registers that may hold two halves, which only .b32 may
SHARED = {"r": "%f3", "f": "%r0", "d": "%g2", "g": "%d0"}  # registers without a type, for integers and floats alike
FLOATS = {"e": "f16", "f": "f32", "g": "f64"}
OF_BITS = {16: "h", 32: "r", 64: "d"}
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
UNORDERED = ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
ATOMICS = [
    ("add", "u32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"), ("add", "u64"),
    ("min", "u64"), ("max", "s64"), ("and", "b64"), ("xor", "b64"), ("add", "f32"), ("add", "f64"), ("inc", "u32"),
    ("count", "u32"), ("sum", "u64"),
]  # fmt: skip


class Place(NamedTuple):
    """Where in a program statements are: whether all threads of the block come here together, which register has the
    lanes of the warp that do (None: nobody knows), how often it runs, and how deep it is.
    """

    is_uniform: bool
    mask: str | None
    times: int = 1
    depth: int = 0


class Body:
    """Writes the statements of one routine."""

    def __init__(self, draw, budget, functions=(), *, is_kernel):
        self.draw = draw
        self.budget = budget
        self.functions = functions
        self.is_kernel = is_kernel
        self.lines = []
        self.registers = []
        self.count = 0
        self.pool = {
            kind: [self.declare(kind, f"%{kind}{index}") for index in range(count)] for kind, count in COUNTS.items()
        }
        self.threads = 0
        self.width = 32  # lanes within which shuffles find all lanes
        self.alive = True  # whether all threads are still there
        self.has_local = False

    # Registers and operands

    def declare(self, kind, name):
        type_ = f"b{WIDTHS[kind]}" if name in (*PAIRS, *SHARED.values()) else self.draw.choice(DECLARED[kind])
        self.registers.append(f".reg .{type_} {name};")
        return name

    def new(self, kind):
        self.count += 1
        return self.declare(kind, f"%t{kind}{self.count}")

    def label(self):
        self.count += 1
        return f"L{self.count}"

    def put(self, line, *, guard=False):
        """Add a line, with *guard* sometimes only for some threads."""
        if guard and self.draw.random() < 0.2:
            line = f"@{self.draw.choice(['', '!'])}{self.draw.choice(self.pool['p'])} {line}"
        self.lines.append(line)

    def to(self, kind):
        if kind in SHARED and self.draw.random() < 0.1:
            return SHARED[kind]
        return self.draw.choice(self.pool[kind])

    def put_for_numbers(self, line, type_, source, other=None):
        """Add a line that NaN skips: what it makes of the bits of a NaN is nowhere defined."""
        is_number = self.new("p")
        self.put(f"setp.num.{type_} {is_number}, {source}, {other or source};")
        self.put(f"@{is_number} {line}")

    def of(self, kind, *, constants=True):
        """Return an operand: a register, a number, or a special register."""
        draw = self.draw
        choice = draw.random()
        if constants and choice < 0.15 and kind not in "pe":
            if kind in FLOATS:
                return f"0{'f' if kind == 'f' else 'd'}{real(draw, WIDTHS[kind]):0{WIDTHS[kind] // 4}X}"
            value = whole(draw, WIDTHS[kind])
            if kind == "h" and value > 32767:
                return str(value - 65536)
            return draw.choice([str(value), f"0x{value:x}"]) if value < 1 << 63 else f"0x{value:x}"
        if constants and choice < 0.2 and kind == "r":
            special = draw.choice(
                ["%tid.x", "%ctaid.x", "%laneid", "%ntid.x", "%lanemask_lt", "%tid.y", "%lanemask_ge"]
            )
            self.put(f"mov.u32 {(copy := self.new('r'))}, {special};")
            return copy
        return self.to(kind)

    def pred(self):
        return self.draw.choice(["", "!"]) + self.to("p")

    # One statement

    def fill(self, place, most):
        """Add up to *most* statements."""
        for _ in range(most):
            if self.budget <= 0:
                return
            self.statement(place)

    def statement(self, place):
        before = len(self.lines)
        simple = [
            (self.integers, 9),
            (self.floats, 9),
            (self.conversion, 6),
            (self.comparison, 5),
            (self.choice, 3),
            (self.move, 3),
            (self.chain, 1.5),
            (self.table, 1.5),
        ]
        if self.has_local:
            simple.append((self.local, 2))
        if self.is_kernel:
            simple += [(self.load, 2), (self.own, 2), (self.anywhere, 1), (self.atomic, 1.5), (self.dump, 0.6)]
        nested = []
        if place.depth < 3:
            nested = [(self.branch, 2.2), (self.loop, 1.2), (self.indexed, 0.5)]
        if self.functions:
            nested.append((self.call, 1.5))
        if place.is_uniform and self.is_kernel:
            nested += [(self.exchange, 1.2), (self.reduction, 0.5), (self.bins, 0.5)]
        if place.mask and self.alive and self.is_kernel:
            nested += [(self.warp, 2.5)]
        statements = simple + nested
        chosen = self.draw.choices([each for each, _ in statements], [weight for _, weight in statements])[0]
        if any(chosen == each for each, _ in simple):
            chosen()
            self.budget -= place.times * (len(self.lines) - before)
        else:
            chosen(place)
            self.budget -= place.times

    def integers(self):
        draw, put = self.draw, self.put
        bits = draw.choice([16, 32, 32, 32, 64, 64])
        kind = OF_BITS[bits]
        sign = draw.choice("us")
        type_ = f"{sign}{bits}"
        to, a, b, c = self.to(kind), self.of(kind), self.of(kind), self.of(kind)
        words = [
            "add",
            "sub",
            "mul.lo",
            "mul.hi",
            "mad.lo",
            "mad.hi",
            "min",
            "max",
            "div",
            "rem",
            "sad",
            "logic",
            "not",
            "shl",
            "shr",
            "abs",
            "neg",
            "cnot",
        ]
        if bits > 16:
            words += ["popc", "clz", "bfind", "brev", "bfe", "bfi", "bfe", "bfi"]
        if bits < 64:
            words += ["mul.wide", "mad.wide"]
        if bits == 32:
            words += ["sat", "24", "shf", "prmt", "lop3", "dp4a", "dp2a", "x2", "mask", "relu", "fns", "madsat"]
        word = draw.choice(words)
        guard = {"guard": True}
        match word:
            case "add" | "sub" | "mul.lo" | "mul.hi" | "min" | "max":
                put(f"{word}.{type_} {to}, {a}, {b};", **guard)
            case "mad.lo" | "mad.hi" | "sad":
                put(f"{word}.{type_} {to}, {a}, {b}, {c};", **guard)
            case "div" | "rem":
                divisor = self.new(kind)
                put(f"or.b{bits} {divisor}, {self.of(kind, constants=False)}, {draw.choice([1, 1, 1, 2, 16])};")
                put(f"{word}.{type_} {to}, {a}, {divisor};", **guard)
            case "logic":
                put(f"{draw.choice(['and', 'or', 'xor'])}.b{bits} {to}, {a}, {b};", **guard)
            case "not" | "cnot":
                put(f"{word}.b{bits} {to}, {a};", **guard)
            case "shl":
                put(f"shl.b{bits} {to}, {a}, {self.amount(bits)};", **guard)
            case "shr":
                put(f"shr.{draw.choice('bus')}{bits} {to}, {a}, {self.amount(bits)};", **guard)
            case "abs" | "neg" if bits == 16:  # the assembler goes on with 32768 for that of -32768
                put(f"setp.ne.s16 {(is_other := self.new('p'))}, {a}, -32768;")
                put(f"@{is_other} {word}.s16 {to}, {a};")
            case "abs" | "neg":
                put(f"{word}.s{bits} {to}, {a};", **guard)
            case "popc" | "clz":
                put(f"{word}.b{bits} {self.to('r')}, {a};", **guard)
            case "bfind":
                put(f"bfind{draw.choice(['', '.shiftamt'])}.{type_} {self.to('r')}, {a};", **guard)
            case "brev":
                put(f"brev.b{bits} {to}, {a};", **guard)
            case "bfe":
                put(f"bfe.{type_} {to}, {a}, {self.field(bits)}, {self.field(bits)};")
            case "bfi":
                put(f"bfi.b{bits} {to}, {a}, {b}, {self.field(bits)}, {self.field(bits)};")
            case "mul.wide":
                put(f"mul.wide.{type_} {self.to(OF_BITS[2 * bits])}, {a}, {b};", **guard)
            case "mad.wide":
                wide = OF_BITS[2 * bits]
                put(f"mad.wide.{type_} {self.to(wide)}, {a}, {b}, {self.of(wide)};", **guard)
            case "sat":
                put(f"{draw.choice(['add', 'sub'])}.sat.s32 {to}, {a}, {b};", **guard)
            case "madsat":
                put(f"mad.hi.sat.s32 {to}, {a}, {b}, {c};", **guard)
            case "24":
                half = draw.choice(["lo", "hi"])
                put(
                    f"mul24.{half}.{type_} {to}, {a}, {b};"
                    if draw.random() < 0.5
                    else f"mad24.{half}.{type_} {to}, {a}, {b}, {c};",
                    **guard,
                )
            case "shf":
                put(
                    f"shf.{draw.choice('lr')}.{draw.choice(['wrap', 'clamp'])}.b32 {to}, {a}, {b}, {self.amount(32)};",
                    **guard,
                )
            case "prmt":
                mode = draw.choice(["", "", "", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"])
                put(
                    f"prmt.b32{mode} {to}, {a}, {b}, {draw.choice([self.of('r'), hex(draw.randrange(1 << 16))])};",
                    **guard,
                )
            case "lop3":
                put(f"lop3.b32 {to}, {a}, {b}, {c}, {draw.randrange(256)};", **guard)
            case "dp4a":
                put(f"dp4a.{draw.choice('us')}32.{draw.choice('us')}32 {to}, {a}, {b}, {c};", **guard)
            case "dp2a":
                half = draw.choice(["lo", "hi"])
                put(
                    f"dp2a.{half}.{draw.choice('us')}32.{draw.choice('us')}32 {to}, {a}, {b}, {c};",
                    **guard,
                )
            case "x2":
                one, two, three = (draw.choice(PAIRS) for _ in range(3))
                put(f"{draw.choice(['add', 'min', 'max'])}.{sign}16x2 {one}, {two}, {three};", **guard)
            case "mask":
                how = draw.choice(["clamp", "wrap"])
                put(
                    f"bmsk.{how}.b32 {to}, {self.amount(32)}, {self.amount(32)};"
                    if draw.random() < 0.5
                    else f"szext.{how}.{type_} {to}, {a}, {self.amount(32)};",
                    **guard,
                )
            case "relu":
                put(f"{draw.choice(['min', 'max'])}.relu.s32 {to}, {a}, {b};", **guard)
            case "fns":
                put(f"and.b32 {(base := self.new('r'))}, {self.of('r', constants=False)}, 31;")
                offset = draw.randrange(-8, 9)
                put(f"fns.b32 {to}, {a}, {base}, {offset};")

    def amount(self, bits, most=None):
        """Return an operand of 32 bits that counts bits, of at most *most*, which is a mask."""
        if self.draw.random() < 0.6:
            return str(
                self.draw.choice([0, 1, 3, 7, 8, bits // 2, bits - 1, bits, bits + 1, self.draw.randrange(bits)])
            )
        if most is None:
            return self.of("r", constants=False)
        self.put(f"and.b32 {(count := self.new('r'))}, {self.of('r', constants=False)}, {most};")
        return count

    def field(self, bits):
        """Return the place or the length of a field; the assembler folds others of 32 bits wrongly."""
        return self.amount(bits, 255) if bits == 64 else self.amount(bits - 2, 31)

    def floats(self):
        draw = self.draw
        kind = draw.choice("efffgg")
        type_ = FLOATS[kind]
        to, a, b, c = self.to(kind), self.of(kind), self.of(kind), self.of(kind)
        ftz = draw.choice(["", "", ".ftz"]) if kind != "g" else ""
        sat = draw.choice(["", "", "", ".sat"]) if kind != "g" else ""
        rounding = ".rn" if kind == "e" else draw.choice([".rn", ".rn", ".rz", ".rm", ".rp"])
        words = ["add", "sub", "mul", "fma", "fma", "min", "max", "neg", "abs"]
        words += ["x2"] * 2 if kind == "e" else ["div", "sqrt", "rcp", "copysign", "testp"]
        word = draw.choice(words)
        while word in ("min", "max") and a == b:
            b = self.of(kind)
        if kind == "g":  # of two NaNs the assembler chooses one
            b, c = self.of(kind, constants=False), self.of(kind, constants=False)
        if word in ("neg", "abs"):
            a = self.of(kind, constants=False)
        match word:
            case "add" | "sub" | "mul":
                line = f"{word}{rounding}{ftz}{sat}.{type_} {to}, {a}, {b};"
            case "fma":
                relu = draw.choice(["", ".relu"]) if kind == "e" and not sat else ""
                line = f"fma{rounding}{ftz}{sat}{relu}.{type_} {to}, {a}, {b}, {c};"
            case "min" | "max":
                nan = draw.choice(["", ".NaN"]) if kind != "g" else ""
                xorsign = draw.choice(["", "", ".xorsign.abs"]) if kind != "g" else ""
                line = f"{word}{ftz}{nan}{xorsign}.{type_} {to}, {a}, {b};"
            case "neg" | "abs":  # with .ftz of f16 the assembler rounds what is converted next to nearest
                line = f"{word}{ftz if kind == 'f' else ''}.{type_} {to}, {a};"
            case "div":
                line = f"div{rounding}{ftz}.{type_} {to}, {a}, {b};"
            case "sqrt" | "rcp":
                line = f"{word}{rounding}{ftz}.{type_} {to}, {a};"
            case "copysign":
                line = f"copysign.{type_} {to}, {a}, {b};"
            case "testp":
                what = draw.choice(["finite", "infinite", "number", "notanumber", "normal", "subnormal"])
                line = f"testp.{what}.{type_} {self.to('p')}, {a};"
            case "x2":
                result, one, two, three = (draw.choice(PAIRS) for _ in range(4))
                what = draw.choice(["add.rn", "sub.rn", "mul.rn", "fma.rn", "min", "max"])
                given = [one, two, three] if what == "fma.rn" else [one, two]
                sat = "" if what in ("min", "max") else sat
                line = f"{what}{ftz}{sat}.f16x2 {result}, {', '.join(given)};"
        if word in ("neg", "abs") and kind == "g":
            self.put_for_numbers(line, type_, a)
        elif kind == "g" and word in ("add", "sub", "mul", "fma", "min", "max"):
            self.put_for_numbers(line, type_, b, c if word == "fma" else b)
        else:
            self.put(line, guard=word not in ("testp", "neg", "abs"))

    def conversion(self):
        draw = self.draw
        integer_types = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
        choice = draw.random()
        if choice < 0.3:
            to, source = draw.choice(integer_types), draw.choice(integer_types)
            sat = draw.choice(["", ".sat"]) if not fits(source, to) else ""
            line = f"cvt{sat}.{to}.{source} {self.holder(to)}, {self.holder(source)};"
        elif choice < 0.5:
            to, source = draw.choice("efg"), draw.choice(integer_types)
            rounding, sat = draw.choice(["rn", "rz", "rm", "rp"]), draw.choice(["", "", ".sat"]) if to != "g" else ""
            line = f"cvt.{rounding}{sat}.{FLOATS[to]}.{source} {self.to(to)}, {self.holder(source)};"
        elif choice < 0.75:
            to, source = draw.choice(integer_types), draw.choice("efg")
            rounding = draw.choice(["rni", "rzi", "rmi", "rpi"])
            ftz = draw.choice(["", ".ftz"]) if source == "f" else ""
            line = f"cvt.{rounding}{ftz}.{to}.{FLOATS[source]} {self.holder(to)}, {self.to(source)};"
        else:
            to, source = draw.choice("efg"), draw.choice("efg")
            sat = draw.choice(["", "", ".sat"]) if to != "g" else ""
            ftz = draw.choice(["", "", ".ftz"]) if "f" in (to, source) else ""
            if to == source:
                rounding = draw.choice([".rni", ".rzi", ".rmi", ".rpi"])
            elif WIDTHS[to] > WIDTHS[source]:
                rounding = ""
            else:
                rounding = draw.choice([".rn", ".rz", ".rm", ".rp"])
            if (to, source) == ("e", "f") and draw.random() < 0.3:
                how = draw.choice([".rn", ".rz", ".rn.relu", ".rz.relu"])
                self.put(f"cvt{how}.f16x2.f32 {draw.choice(PAIRS)}, {self.to('f')}, {self.to('f')};")
                return
            line = f"cvt{rounding}{ftz}{sat}.{FLOATS[to]}.{FLOATS[source]} {self.to(to)}, {self.to(source)};"
        self.put(line, guard=True)

    def holder(self, type_):
        """Return a register that can hold an integer of this type; it may be wider."""
        bits = int(type_[1:])
        return self.to(self.draw.choice([kind for kind in "hrd" if WIDTHS[kind] >= bits]))

    def comparison(self):
        draw = self.draw
        kind = draw.choice("hrrddeffg")
        word = draw.choice([".and", ".or", ".xor", "", "", ""])
        more = f", {self.pred()}" if word else ""
        a, b = self.of(kind, constants=False), self.of(kind)
        if kind in FLOATS:
            operator, type_ = draw.choice(COMPARISONS + UNORDERED), FLOATS[kind]
            ftz = draw.choice(["", ".ftz"]) if kind != "g" else ""
        else:
            sign, ftz = draw.choice("usb"), ""
            operator = draw.choice(
                {"b": ["eq", "ne"], "s": COMPARISONS, "u": [*COMPARISONS, "lo", "ls", "hi", "hs"]}[sign]
            )
            type_ = f"{sign}{WIDTHS[kind]}"
        if draw.random() < 0.25:
            to = draw.choice([("u32", "r"), ("s32", "r"), ("f32", "f")]) if kind != "e" else ("f16", "e")
            if kind == "h" and to[0] == "f32":
                to = ("u32", "r")
            self.put(f"set.{operator}{word}{ftz}.{to[0]}.{type_} {self.to(to[1])}, {a}, {b}{more};")
        elif draw.random() < 0.4 and kind != "e":
            first, second = draw.sample(self.pool["p"], 2)
            self.put(f"setp.{operator}{word}{ftz}.{type_} {first}|{second}, {a}, {b}{more};", guard=True)
        else:
            self.put(f"setp.{operator}{word}{ftz}.{type_} {self.to('p')}, {a}, {b}{more};", guard=True)

    def choice(self):
        draw = self.draw
        kind = draw.choice("hrdfg")
        type_ = FLOATS.get(kind) or f"{draw.choice('bus')}{WIDTHS[kind]}"
        a, b = self.of(kind), self.of(kind)
        which = draw.random()
        if which < 0.5:
            self.put(f"selp.{type_} {self.to(kind)}, {a}, {b}, {self.to('p')};", guard=True)
        elif which < 0.8:
            by, ftz = draw.choice([("f", ".ftz"), ("f", ""), ("r", "")])
            self.put(
                f"slct{ftz}.{type_}.{'f32' if by == 'f' else 's32'} {self.to(kind)}, {a}, {b}, {self.to(by)};",
                guard=True,
            )
        else:
            word = draw.choice(["and", "or", "xor", "not"])
            more = "" if word == "not" else f", {self.to('p')}"
            self.put(f"{word}.pred {self.to('p')}, {self.to('p')}{more};", guard=True)

    def move(self):
        draw = self.draw
        match draw.randrange(8):
            case 0:
                kind = draw.choice("hrdfg")
                type_ = FLOATS.get(kind) or f"{draw.choice('bus')}{WIDTHS[kind]}"
                self.put(f"mov.{type_} {self.to(kind)}, {self.of(kind)};", guard=True)
            case 1:
                self.put(f"mov.b32 {self.to('r')}, {self.to('f')};", guard=True)
            case 2:
                self.put(f"mov.b32 {self.to('f')}, {self.to('r')};", guard=True)
            case 3:
                self.put(
                    f"mov.b64 {self.to('g')}, {self.to('d')};"
                    if draw.random() < 0.5
                    else f"mov.b64 {self.to('d')}, {self.to('g')};",
                    guard=True,
                )
            case 4:
                parts = draw.choice([["r", "r"], ["f", "f"], ["h", "h", "e", "h"]])
                self.put(f"mov.b64 {self.to('d')}, {{{', '.join(self.to(each) for each in parts)}}};", guard=True)
            case 5:
                parts = draw.choice([["r", "r"], ["h", "e", "h", "_"], ["_", "r"]])
                names = []
                for each in parts:
                    names.append(
                        "_" if each == "_" else draw.choice([name for name in self.pool[each] if name not in names])
                    )
                self.put(f"mov.b64 {{{', '.join(names)}}}, {self.to(draw.choice('dg'))};", guard=True)
            case 6:
                self.put(f"mov.b32 {self.to('r')}, {{{self.to('h')}, {self.to('e')}}};", guard=True)
            case 7:
                self.put(f"mov.b32 {{{self.to('e')}, {self.to('h')}}}, {self.to(draw.choice('rf'))};", guard=True)

    def chain(self):
        """Add two or three instructions that hand a carry on."""
        draw = self.draw
        word = draw.choice(["add", "sub", "mad"])
        kind = draw.choice("rrd")
        type_ = draw.choice([f"u{WIDTHS[kind]}", f"s{WIDTHS[kind]}"])
        length = draw.choice([2, 2, 3])
        for index in range(length):
            name = word if not index else word + "c"
            half = f".{draw.choice(['lo', 'hi'])}" if word == "mad" else ""
            cc = ".cc" if index < length - 1 else ""
            given = [self.of(kind) for _ in range(3 if word == "mad" else 2)]
            self.put(f"{name}{half}{cc}.{type_} {self.to(kind)}, {', '.join(given)};")

    # Memory

    def stored(self, kind, size):
        """Return a register, *size* bytes of which are stored.

        The assembler makes an integer of a float in a register without a type if only a part of it is stored.
        """
        if 8 * size == WIDTHS[kind]:
            return self.to(kind)
        return self.draw.choice([each for each in self.pool[kind] if each not in SHARED.values()])

    def index(self, mask, scale, base):
        """Return a register with base + (some value & mask) * scale."""
        place, wide = self.new("r"), self.new("d")
        self.put(f"and.b32 {place}, {self.of('r', constants=False)}, {mask};")
        self.put(f"mad.wide.u32 {wide}, {place}, {scale}, {base};")
        return wide

    def access(self, kind):
        """Return a type to load or store a register of *kind* with, and its bytes."""
        if kind in FLOATS:
            type_ = self.draw.choice([FLOATS[kind], f"b{WIDTHS[kind]}"])
            return "b16" if type_ == "f16" else type_, WIDTHS[kind] // 8
        bits = self.draw.choice([each for each in (8, 16, 32, 64) if each <= WIDTHS[kind]])
        return f"{self.draw.choice('bus')}{bits}", bits // 8

    def load(self):
        """Load from somewhere in the input."""
        draw = self.draw
        address = self.index(self.input_mask, 16, "%in")
        space = draw.choice([".global", ".global", ".global.nc", ""])
        kind = draw.choice("hrdfge")
        type_, size = self.access(kind)
        parts = draw.choice([each for each in (1, 2, 4) if each * size <= 16])
        offset = draw.randrange(0, 16 // (parts * size)) * parts * size
        names = draw.sample(self.pool[kind], min(parts, len(self.pool[kind])))
        if len(names) < parts:
            parts = 2 if len(names) >= 2 else 1
            names = names[:parts]
        to = names[0] if parts == 1 else f"{{{', '.join(names)}}}"
        self.put(f"ld{space}{f'.v{parts}' if parts > 1 else ''}.{type_} {to}, [{address}+{offset}];", guard=True)

    def own(self):
        """Store and load in the 32 bytes of output that are the scratch of a thread."""
        draw = self.draw
        space = draw.choice([".global", ""])
        if draw.random() < 0.3:
            kind = draw.choice("rd")
            what = draw.choice(["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])
            sign = draw.choice("us")
            bits = WIDTHS[kind]
            if what in ("inc", "dec"):
                kind, bits, sign = "r", 32, "u"
            elif what in ("and", "or", "xor", "exch", "cas") or (what == "add" and bits == 64):
                sign = "u" if what == "add" else "b"
            given = [self.of(kind, constants=False) for _ in range(1 + (what == "cas"))]
            offset = draw.choice([0, 8, 16, 24])
            if what == "cas" and draw.random() < 0.5:
                self.put(f"ld{space}.b{bits} {given[0]}, [%own+{offset}];")
            self.put(
                f"atom{space}.{what}.{sign}{bits} {self.to(kind)}, [%own+{offset}], {', '.join(given)};", guard=True
            )
            return
        kind = draw.choice("hrdfge")
        type_, size = self.access(kind)
        parts = draw.choice([each for each in (1, 2, 4) if each * size <= 16])
        offset = draw.randrange(0, 32 // (parts * size)) * parts * size
        vector = f".v{parts}" if parts > 1 else ""
        if draw.random() < 0.6:
            names = [self.stored(kind, size) for _ in range(parts)]
            what = names[0] if parts == 1 else f"{{{', '.join(names)}}}"
            self.put(f"st{space}{vector}.{type_} [%own+{offset}], {what};", guard=True)
        else:
            names = draw.sample(self.pool[kind], min(parts, len(self.pool[kind])))
            if len(names) < parts:
                return
            what = names[0] if parts == 1 else f"{{{', '.join(names)}}}"
            self.put(f"ld{space}{vector}.{type_} {what}, [%own+{offset}];", guard=True)

    def anywhere(self):
        """Use memory by an address that is in one state space for some threads, and in another for others."""
        draw = self.draw
        address, other = self.new("d"), self.new("d")
        self.put(f"mov.u64 {address}, slots;")
        self.put(f"mad.wide.u32 {address}, %thread, 8, {address};")
        self.put(f"cvta.shared.u64 {address}, {address};")
        if self.has_local and draw.random() < 0.5:
            self.put(f"mov.u64 {other}, stack;")
            self.put(f"cvta.local.u64 {other}, {other};")
        else:
            self.put(f"add.u64 {other}, %own, {draw.choice([0, 8, 16, 24])};")
        self.put(f"selp.b64 {address}, {address}, {other}, {self.to('p')};")
        kind = draw.choice("rdfge")
        type_, size = self.access(kind)
        match draw.randrange(3):
            case 0:
                self.put(f"ld.{type_} {self.to(kind)}, [{address}];", guard=True)
            case 1:
                self.put(f"st.{type_} [{address}], {self.stored(kind, size)};", guard=True)
            case 2 if not self.has_local:
                what = draw.choice(["add.u32", "exch.b32", "max.s32", "xor.b32"])
                self.put(f"atom.{what} {self.to('r')}, [{address}], {self.to('r')};", guard=True)

    def dump(self):
        """Store some registers where nothing else writes."""
        self.put(f"st.global.v4.b32 [%own+32], {{{', '.join(self.to('r') for _ in range(4))}}};", guard=True)
        self.put(f"st.global.v2.f64 [%own+48], {{{', '.join(self.to('g') for _ in range(2))}}};", guard=True)

    def atomic(self):
        """Change a bin; each bin has one operation, so the order does not show."""
        draw = self.draw
        index = draw.randrange(BINS)
        what, type_ = ATOMICS[index]
        name = self.new("d")
        spread = draw.random() < 0.5
        base = "%bins"
        if spread:
            place = self.new("r")
            self.put(f"and.b32 {place}, {self.of('r', constants=False)}, 3;")
            self.put(f"mad.wide.u32 {name}, {place}, {8 * BINS}, %bins;")
            base = name
        offset = 8 * index
        if what == "count":  # all add 1, so what they find are the numbers up to their count
            old, wide = self.new("r"), self.new("d")
            guard = self.draw.choice(["", f"@{self.pred()} "])
            self.put(f"mov.u32 {old}, 0;")
            self.put(f"{guard}atom.global.add.u32 {old}, [{base}+{offset}], 1;")
            self.put(f"mul.wide.u32 {wide}, {old}, {old};")
            self.put(f"red.global.add.u64 [{base}+{offset + 8}], {wide};")
            return
        if what == "sum":
            return
        if type_[0] == "f":
            small, value = self.new("r"), self.new("f" if type_ == "f32" else "g")
            self.put(f"and.b32 {small}, {self.of('r', constants=False)}, 15;")
            self.put(f"cvt.rn.{type_}.u32 {value}, {small};")
        else:
            value = self.of("r" if type_.endswith("32") else "d")
        if what == "inc":
            value = "6"
        self.put(
            f"red{draw.choice(['.global', '', '.relaxed.gpu.global'])}.{what}.{type_} [{base}+{offset}], {value};",
            guard=True,
        )

    def table(self):
        """Load from a constant, or from a variable with initial values."""
        draw = self.draw
        name = draw.choice(["ctable", "gtable"])
        space = ".const" if name == "ctable" else ".global"
        base = self.new("d")
        self.put(f"mov.u64 {base}, {name};")
        if name == "gtable" and draw.random() < 0.3:
            self.put(f"cvta.global.u64 {base}, {base};")
            space = ""
        kind = draw.choice("hrdfg")
        type_, _ = self.access(kind)
        address = self.index(7, 8, base)
        self.put(f"ld{space}.{type_} {self.to(kind)}, [{address}];", guard=True)

    def local(self):
        """Store in local memory, or load from it."""
        draw = self.draw
        base = self.new("d")
        self.put(f"mov.u64 {base}, stack;")
        address = self.index(7, 8, base)
        space = ".local"
        if draw.random() < 0.3:
            self.put(f"cvta.local.u64 {address}, {address};")
            space = ""
        kind = draw.choice("hrdfge")
        type_, size = self.access(kind)
        if draw.random() < 0.5:
            self.put(f"st{space}.{type_} [{address}], {self.stored(kind, size)};", guard=True)
        else:
            self.put(f"ld{space}.{type_} {self.to(kind)}, [{address}];", guard=True)

    # What threads do together

    def barrier(self):
        self.put(
            self.draw.choice(
                [
                    "bar.sync 0;",
                    "barrier.sync 0;",
                    f"barrier.sync 1, {self.threads};" if self.threads % 32 == 0 and self.alive else "bar.sync 1;",
                ]
            )
        )

    def exchange(self, place):
        """Store in shared memory, wait, and load what another thread has stored."""
        draw = self.draw
        kind = draw.choice("rdfg")
        size = WIDTHS[kind] // 8
        base, mine, other, index = self.new("d"), self.new("d"), self.new("d"), self.new("r")
        name = draw.choice(["tile", "dynamic"])
        self.put(f"mov.u64 {base}, {name};")
        self.put(f"mad.wide.u32 {mine}, %thread, {size}, {base};")
        self.put(f"st.shared.{draw.choice(['b', FLOATS.get(kind, 'u')[0]])}{8 * size} [{mine}], {self.to(kind)};")
        self.barrier()
        self.put(f"rem.u32 {index}, {self.of('r')}, {self.threads};")
        self.put(f"mad.wide.u32 {other}, {index}, {size}, {base};")
        if draw.random() < 0.3:  # by an address of 32 bits
            short = self.new("r")
            self.put(f"mov.u32 {short}, {name};")
            self.put(f"mad.lo.u32 {short}, {index}, {size}, {short};")
            self.put(f"ld.shared.b{8 * size} {self.to(kind)}, [{short}];", guard=True)
        space = ".shared"
        if draw.random() < 0.3:
            self.put(f"cvta.shared.u64 {other}, {other};")
            space = ""
        self.put(f"ld{space}.b{8 * size} {self.to(kind)}, [{other}];", guard=True)
        self.barrier()

    def reduction(self, place):
        operator = self.draw.choice(["popc.u32", "and.pred", "or.pred"])
        to = self.to("r" if operator[0] == "p" else "p")
        self.put(f"{self.draw.choice(['bar', 'barrier'])}.red.{operator} {to}, 0, {self.pred()};")

    def bins(self, place):
        """Let all threads change words of shared memory, wait, and load one."""
        draw = self.draw
        base, mine, index = self.new("d"), self.new("d"), self.new("r")
        what, type_ = draw.choice(
            [("add", "u32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32")]
        )
        self.put(f"mov.u64 {base}, tile;")
        self.put(f"mad.wide.u32 {mine}, %thread, 4, {base};")
        self.put(f"st.shared.u32 [{mine}], {self.to('r')};")
        self.barrier()
        self.put(f"rem.u32 {index}, {self.of('r', constants=False)}, {draw.choice([1, 2, self.threads])};")
        self.put(f"mad.wide.u32 {mine}, {index}, 4, {base};")
        self.put(
            f"{draw.choice(['red', 'red.relaxed.cta'])}.shared.{what}.{type_} [{mine}], {self.to('r')};", guard=True
        )
        self.barrier()
        self.put(f"ld.shared.u32 {self.to('r')}, [{mine}];")
        self.barrier()

    def warp(self, place):
        draw = self.draw
        mask, guard = place.mask, ""
        if draw.random() < 0.2:  # only some of the lanes
            some, predicate = self.new("r"), self.pred()
            self.put(f"vote.sync.ballot.b32 {some}, {predicate}, {mask};")
            mask, guard = some, f"@{predicate} "
        which = draw.randrange(7)
        if which < 2:
            self.shuffle(place, mask, guard)
        elif which == 2:
            mode = draw.choice(["all", "any", "uni"])
            self.put(f"{guard}vote.sync.{mode}.pred {self.to('p')}, {self.pred()}, {mask};")
        elif which == 3:
            self.put(f"{guard}vote.sync.ballot.b32 {self.to('r')}, {self.pred()}, {mask};")
        elif which == 4:
            kind = draw.choice("rd")
            few = self.new(kind)
            self.put(f"and.b{WIDTHS[kind]} {few}, {self.to(kind)}, {draw.choice([1, 3, 256])};")
            if draw.random() < 0.5:
                self.put(f"{guard}match.any.sync.b{WIDTHS[kind]} {self.to('r')}, {few}, {mask};")
            else:
                second = draw.choice(["", f"|{self.to('p')}"])
                self.put(f"{guard}match.all.sync.b{WIDTHS[kind]} {self.to('r')}{second}, {few}, {mask};")
        elif which == 5:
            operator = draw.choice(
                ["add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"]
            )
            self.put(f"{guard}redux.sync.{operator} {self.to('r')}, {self.of('r')}, {mask};")
        else:
            self.put(f"{guard}bar.warp.sync {mask};")

    def shuffle(self, place, mask, guard):
        draw = self.draw
        second = draw.choice(["", f"|{self.to('p')}"])
        to, value = self.to(draw.choice("rf")), self.to(draw.choice("rf"))
        if mask == "%full" and draw.random() < 0.8:
            mode = draw.choice(["up", "down", "bfly", "idx"])
            width = draw.choice([each for each in (1, 2, 4, 8, 16, 32) if each <= self.width])
            clamp = 0 if mode == "up" else width - 1
            limits = (32 - width) << 8 | clamp
            by = draw.choice([str(draw.randrange(width)), self.of("r")])
            self.put(f"shfl.sync.{mode}.b32 {to}{second}, {value}, {by}, {limits}, {mask};")
            return
        lane = self.new("r")
        if draw.random() < 0.5:
            self.put(f"bfind.u32 {lane}, {mask};")
        else:
            self.put(f"brev.b32 {lane}, {mask};")
            self.put(f"clz.b32 {lane}, {lane};")
        self.put(f"{guard}shfl.sync.idx.b32 {to}{second}, {value}, {lane}, 31, {mask};")

    # Control flow

    def branch(self, place):
        draw = self.draw
        predicate = self.new("p")
        is_uniform = place.is_uniform and draw.random() < 0.3
        masks = None, None
        if is_uniform:
            by = draw.choice(["%ctaid_x", "%uniform"])
            self.put(f"setp.{draw.choice(COMPARISONS)}.u32 {predicate}, {by}, {draw.randrange(3)};")
            masks = place.mask, place.mask
        else:
            # The assembler confuses a copy of a predicate with what that is given in a branch.
            self.put(f"setp.{draw.choice(COMPARISONS)}.s32 {predicate}, {self.to('r')}, {self.of('r')};")
            if place.mask and draw.random() < 0.7:
                first, second = self.new("r"), self.new("r")
                self.put(f"vote.sync.ballot.b32 {first}, {predicate}, {place.mask};")
                self.put(f"not.b32 {second}, {first};")
                self.put(f"and.b32 {second}, {second}, {place.mask};")
                masks = first, second
        inner = [place._replace(is_uniform=is_uniform, mask=mask, depth=place.depth + 1) for mask in masks]
        then, end = self.label(), self.label()
        if draw.random() < 0.5:  # no second part
            self.put(f"@!{predicate} bra {end};")
            self.fill(inner[0], draw.randrange(1, 6))
        else:
            self.put(f"@{predicate} bra {then};")
            self.fill(inner[1], draw.randrange(1, 5))
            self.put(f"bra{'.uni' if is_uniform else ''} {end};")
            self.put(f"{then}:")
            self.fill(inner[0], draw.randrange(1, 5))
        self.put(f"{end}:")

    def loop(self, place):
        draw = self.draw
        counter, bound, again = self.new("r"), self.new("r"), self.new("p")
        head, end = self.label(), self.label()
        is_uniform = place.is_uniform and draw.random() < 0.5
        most = draw.choice([1, 2, 3, 3, 7])
        mask = place.mask
        if is_uniform:
            self.put(f"mov.u32 {bound}, {most};")
        else:
            self.put(f"and.b32 {bound}, {self.of('r', constants=False)}, {most};")
            mask = self.new("r") if place.mask and draw.random() < 0.5 else None
            if mask:
                self.put(f"mov.b32 {mask}, {place.mask};")
        self.put(f"mov.u32 {counter}, 0;")
        inner = place._replace(
            is_uniform=is_uniform,
            mask=mask,
            times=place.times * (most if is_uniform else max(1, most // 2)),
            depth=place.depth + 1,
        )
        is_tested_first = not is_uniform and draw.random() < 0.6
        self.put(f"{head}:")
        test = f"setp.lt.u32 {again}, {counter}, {bound};"
        vote = [f"vote.sync.ballot.b32 {mask}, {again}, {mask};"] if mask and not is_uniform else []
        if is_tested_first:
            self.lines += [test, *vote, f"@!{again} bra {end};"]
        self.put(f"add.u32 {counter}, {counter}, 1;")
        self.fill(inner, draw.randrange(1, 5))
        if not mask and not is_uniform:
            if draw.random() < 0.4:
                self.put(f"@{self.pred()} bra {end};")
                self.fill(inner, draw.randrange(1, 3))
            if draw.random() < 0.2 and is_tested_first:
                self.put(f"@{self.pred()} bra {head};")
                self.fill(inner, draw.randrange(1, 3))
        if is_tested_first:
            self.put(f"bra {head};")
        else:
            self.lines += [test, *vote, f"@{again} bra {head};"]
        self.put(f"{end}:")

    def indexed(self, place):
        """Jump to one of several places."""
        draw = self.draw
        index, table, end = self.new("r"), self.label(), self.label()
        count = draw.choice([2, 3, 4])
        labels = [self.label() for _ in range(count)]
        self.put(f"rem.u32 {index}, {self.of('r', constants=False)}, {count};")
        self.put(f"{table}: .branchtargets {', '.join(labels)};")
        self.put(f"brx.idx {index}, {table};")
        inner = place._replace(is_uniform=False, mask=None, depth=place.depth + 1)
        for label in labels:
            self.put(f"{label}:")
            self.fill(inner, draw.randrange(1, 3))
            if label != labels[-1] and draw.random() < 0.8:
                self.put(f"bra {end};")
        self.put(f"{end}:")

    def call(self, place):
        draw = self.draw
        function = draw.choice(self.functions)
        self.lines.append("{")
        for index, kind in enumerate(function.takes):
            self.put(f".param .{parameter(kind)} a{index};")
            self.put(f"st.param.b{WIDTHS[kind]} [a{index}], {self.of(kind, constants=kind not in FLOATS)};")
        for index, kind in enumerate(function.gives):
            self.put(f".param .{parameter(kind)} z{index};")
        arguments = ", ".join(f"a{index}" for index in range(len(function.takes)))
        self.put(f"call (z0), {function.name}, ({arguments});")
        for index, kind in enumerate(function.gives):
            self.put(f"ld.param.b{WIDTHS[kind]} {self.to(kind)}, [z{index}];")
        self.lines.append("}")
        self.budget -= place.times * function.cost


def fits(source, to):
    """Whether an integer type has all numbers of another one."""
    low, high = int(source[1:]), int(to[1:])
    return low <= high if source[0] == to[0] else source[0] == "u" and low < high


def parameter(kind):
    return FLOATS.get(kind) or f"b{WIDTHS[kind]}"
