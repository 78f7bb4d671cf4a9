"""PTX text for the oracle: statements found by regular expressions, names made unique by the braces they stand in."""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

STATEMENT = re.compile(
    r"\s*(?:(?P<label>[\w$%]+)\s*:(?!:)|(?P<open>\{)|(?P<close>\})|(?P<text>[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*);)"
)
HEAD = re.compile(
    r"\s*(?:\.visible\s+|\.extern\s+)?(\.entry|\.func)\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*\(([^)]*)\)\s*(?=\{)"
)
VARIABLE = re.compile(
    r"\.(global|const|shared|local|param)((?:\s*\.\w+(?:\s+\d+)?)*)\s+([\w$]+)((?:\[\d*\])*)(?:\s*=\s*(.*))?$",
    re.DOTALL,
)
GUARD = re.compile(r"@(!?)([\w$%]+)\s+")
ADDRESS = re.compile(r"\[\s*([\w$%]+)\s*(?:\+\s*(-?\w+)\s*)?\]")
BITS = {"pred": 1, **{f"{family}{bits}": bits for family in "bus" for bits in (8, 16, 32, 64)},
        "f16": 16, "f32": 32, "f64": 64, "f16x2": 32}  # fmt: skip


class Address(NamedTuple):
    """What brackets hold."""

    base: str
    offset: int


class Step(NamedTuple):
    """One instruction: its words, its operands, and the predicate that it depends on."""

    words: tuple[str, ...]
    operands: tuple[Any, ...]
    guard: str | None
    is_turned: bool
    text: str


@dataclass
class Variable:
    """A variable: its state space, and its bytes at the start."""

    name: str
    space: str
    align: int
    nbytes: int
    data: bytes


@dataclass
class Routine:
    """A kernel or a function: its steps, where its labels are, and how many bits its registers have."""

    name: str
    results: list[Variable]
    parameters: list[Variable]
    steps: list[Step] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    bits: dict[str, int] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Text:
    """A module."""

    variables: dict[str, Variable]
    routines: dict[str, Routine]


def read(text):
    """Return what *text* says."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"\.(?:version|target|address_size)[^\n]*", " ", text)
    found = Text({}, {})
    at = 0
    while text[at:].strip():
        head = HEAD.match(text, at)
        if head:
            routine = Routine(head[3], variables(head[2] or ""), variables(head[4]))
            at = body(text, head.end(), routine)
            found.routines[routine.name] = routine
        else:
            end = text.index(";", at)
            each = variable(re.sub(r"^\s*(?:\.visible|\.extern)\s+", "", text[at:end]).strip())
            found.variables[each.name] = each
            at = end + 1
    return found


def variables(text):
    """Return the variables of a list in parentheses."""
    return [variable(each.strip()) for each in text.split(",") if each.strip()]


def variable(text):
    """Return the variable that *text* declares."""
    match = VARIABLE.match(text)
    assert match, text
    space, words, name, shape, values = match.groups()
    kind = next(each for each in re.findall(r"\.(\w+)", words) if each in BITS)
    vector = int((re.search(r"\.v(\d)", words) or "01")[1])
    width = BITS[kind] // 8
    data = b""
    if values is not None:
        data = b"".join(
            number(each.strip(), 8 * width).to_bytes(width, "little") for each in values.strip("{} \n").split(",")
        )
    count = 1
    for each in re.findall(r"\[(\d*)\]", shape):
        count *= int(each or 0)
    align = re.search(r"\.align\s+(\d+)", words)
    return Variable(name, space, int(align[1]) if align else width * vector, count * width * vector, data)


def number(text, bits):
    """Return the bits of a number."""
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text)
    if digits[:2] in ("0f", "0F", "0d", "0D"):
        assert bits == (32 if digits[1] in "fF" else 64), text
        value = int(digits[2:], 16)
        return value ^ 1 << bits - 1 if sign < 0 else value
    return sign * int(digits.rstrip("U"), 0) % (1 << bits)


def body(text, at, routine):
    """Read the statements between two braces; return where they end."""
    scopes = []
    count = 0
    names = {}
    while True:
        match = STATEMENT.match(text, at)
        assert match, text[at : at + 80]
        at = match.end()
        if match["open"]:
            scopes.append(names)
            names = dict(names)
        elif match["close"]:
            names = scopes.pop()
            if not scopes:
                return at
        elif match["label"]:
            routine.labels[match["label"]] = len(routine.steps)
        elif match["text"].startswith(".reg"):
            _, kind, *_ = match["text"].split(maxsplit=2)
            for each in match["text"].split(maxsplit=2)[2].split(","):
                many = re.match(r"\s*([\w$%]+)<(\d+)>", each)
                for name in [f"{many[1]}{index}" for index in range(int(many[2]))] if many else [each.strip()]:
                    count += 1
                    names[name] = f"{name}'{count}"
                    routine.bits[names[name]] = BITS[kind[1:]]
        elif match["text"].startswith(".branchtargets"):
            routine.tables[list(routine.labels)[-1]] = [each.strip() for each in match["text"][14:].split(",")]
        elif match["text"].startswith((".shared", ".local", ".param", ".const", ".global")):
            declared = variable(match["text"].strip())
            count += 1
            names[declared.name] = f"{declared.name}'{count}"
            routine.variables[names[declared.name]] = declared
        elif match["text"].startswith("."):
            pass
        else:
            routine.steps.append(step(match["text"].strip(), names))


def step(text, names):
    """Return the instruction that *text* is; *names* are the unique names of what is declared."""
    guard, is_turned = None, False
    match = GUARD.match(text)
    rest = text
    if match:
        guard, is_turned = names[match[2]], bool(match[1])
        rest = text[match.end() :]
    word, _, listed = rest.partition(" ")
    if word.split(".")[0] == "call":
        listed = re.sub(r"\(([^)]*)\)", r"{\1}", listed)
    return Step(tuple(word.split(".")), tuple(operand(each, names) for each in split(listed)), guard, is_turned, text)


def split(text):
    """Return the parts of *text* between the commas that are in no braces or brackets."""
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "{[") - (sign in "}]")
        if sign == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def operand(text, names):
    """Return an operand: a name or a number as text, an `Address`, or a list."""
    if text[0] == "[":
        match = ADDRESS.fullmatch(text)
        assert match, text
        return Address(names.get(match[1], match[1]), int(match[2] or "0", 0))
    if text[0] == "{":
        return [operand(each, names) for each in split(text[1:-1])]
    if "|" in text:
        return [operand(each.strip(), names) for each in text.split("|")]
    if text[0] == "!":
        return "!" + names[text[1:].strip()]
    return names.get(text, text)
