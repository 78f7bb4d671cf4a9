"""Texts with mistakes: `python -m tests.ptx mutated [--count 5000] [--first 0]` prints what becomes of each.

Each text is a random program, run by one thread, or a text with many declarations; one to three places of it are
changed. It gives a message with a line, stops as on a card, or computes what the oracle computes.
"""

import argparse
import random
import re
import signal
import sys
from collections import Counter
from dataclasses import replace
from functools import lru_cache

from device_model.kernel.findings import KernelError, KernelHangError
from device_model.ptx.code.compiler import check
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.parser import parse
from tests.ptx import programs, running

BASES = 24
SECONDS = 1.0  # of processor time that a launch may take
MOST_BYTES = 1 << 24  # of variables
GOOD = ("refused", "loads", "refused at the launch", "stopped", "hangs, and is told", "as the oracle",
        "runs, no oracle", "runs long")  # fmt: skip
DECLARATIONS = """.version 8.0
.target sm_90
.address_size 64
.file 1 "a.cu"
.extern .shared .align 16 .b8 dynamic[];
.global .align 8 .u64 table[4] = {one, generic(one)+8, 3, 0x10};
.global .align 4 .u32 one[2][2] = {{1, 2}, {3, -4}};
.const .align 4 .f32 numbers[3] = {0f3F800000, 2.5, -1.0};
.visible .func (.param .b32 z) twice(.param .b32 a)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [a]; add.s32 %r2, %r1, %r1; st.param.b32 [z], %r2; ret;
}
.visible .entry k(.param .u64 .ptr .global .align 8 x, .param .align 8 .b8 s[24], .param .f32 f)
.maxntid 128, 1, 1
.minnctapersm 2
{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<5>; .reg .b16 %h<3>;
    .shared .align 16 .b8 tile[128];
    .local .align 8 .b8 stack[64];
    .pragma "nounroll";
    .loc 1 5 3
    ld.param.u64 %rd1, [x]; ld.param.f32 %f1, [f]; ld.param.b32 %r1, [s+8];
    cvta.to.global.u64 %rd2, %rd1; mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 1;
    st.shared.v2.u32 [tile], {%r1, %r2}; bar.sync 0; ld.shared.v2.u32 {%r4, %r5}, [tile+8*(1-1)];
    setp.lt.u32 %p1|%p2, %r2, (4+4)*2; @!%p1 bra $end;
    T: .branchtargets $a, $b;
    brx.idx %r3, T;
    $a: mov.b32 {%h1, %h2}, %r2; { .reg .b32 %r1; mov.u32 %r1, %ctaid.x; st.local.u32 [stack+4], %r1; } bra $end;
    $b: {
        .param .b32 a0; .param .b32 z0; st.param.b32 [a0], %r2;
        call.uni (z0), twice, (a0);
        ld.param.b32 %r6, [z0];
    }
    $end: fma.rn.f32 %f2, %f1, 0f40000000, %f1; cvt.rzi.s32.f32 %r7, %f2; mad.lo.s32 %r8, %r7, 3, %r6;
    st.global.u32 [%rd2+4], %r8; ret;
}
"""
_TOKEN = re.compile(r"[%\w$.:]+|[^\s\w]")
_NUMBERS = (
    "0", "-1", "1", "7", "255", "4096", "65536", "2147483648", "99999999999", "18446744073709551616", "1e400", "0x",
    "0f3F800000", "0d3FF0000000000000", "1" * 300, "-" * 60 + "1", "(" * 60 + "1" + ")" * 60, "1/0",
)  # fmt: skip
_WORDS = (
    ".b8", ".u16", ".b32", ".u64", ".f32", ".f64", ".pred", ".rn", ".sat", ".foo", ".align", ".reg", ".entry", "ret",
    "bra", "ld", "%r1", "%p1", "%rd1", "%f1", "%tid.x", "_", "{", "}", "[", "]", "(", ")", ";", ",", "<", ">", "@", "!",
    "|", '"', "/*", "//", "\0", "\x1b[2J", "\u00e9", "a" * 5000, "%" + "r" * 3000, "x" + ".y" * 900,
)  # fmt: skip
_TYPES = ("b8", "u16", "s32", "b64", "f32", "f64", "b128", "f16x2")
_MODIFIERS = ("", ".rn", ".lo", ".wide", ".cc", ".shared", ".global", ".const", ".ltu", ".max", ".approx")
_REGISTERS = ("r", "p", "rd", "f", "fd", "h", "q")


def main(words):
    asked = argparse.ArgumentParser(prog="python -m tests.ptx mutated")
    asked.add_argument("--count", type=int, default=5000)
    asked.add_argument("--first", type=int, default=0)
    options = asked.parse_args(words)
    counts, bad = tried(range(options.first, options.first + options.count))
    for kind, count in counts.most_common():
        sys.stdout.write(f"{count:6}  {kind}\n")
    for seed, kind, why in bad:
        sys.stdout.write(f"seed {seed}: {kind}: {why}\n")
    sys.exit(bool(bad))


def tried(seeds):
    """Return how many texts of *seeds* end in which way, and those that end in a wrong one."""
    counts, bad = Counter(), []
    old = signal.signal(signal.SIGVTALRM, _too_slow)
    try:
        for seed in seeds:
            kind, why = outcome(mutant(seed))
            counts[kind] += 1
            if kind not in GOOD:
                bad.append((seed, kind, why))
    finally:
        signal.signal(signal.SIGVTALRM, old)
    return counts, bad


@lru_cache(BASES)
def base(number):
    """Return a program for one thread that the device and the oracle agree on."""
    if number % 4 == 3:
        arguments = [bytearray(64), bytes(24), bytes(4)]
        return programs.Program(DECLARATIONS, (1, 1, 1), (1, 1, 1), arguments, 64)
    return replace(programs.make(70_000 + number, budget=20), grid=(1, 1, 1), block=(1, 1, 1))


def mutant(seed):
    """Return the program of *seed*: a base with changes."""
    draw = random.Random(seed)
    program = base(seed % BASES)
    text = program.text
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        text = draw.choice(_CHANGES)(draw, text)
    return replace(program, text=text)


def _of_lines(change):
    def changed(draw, text):
        lines = text.split("\n")
        change(draw, lines)
        return "\n".join(lines)

    return changed


def _of_tokens(change):
    def changed(draw, text):
        places = [match.span() for match in _TOKEN.finditer(text)]
        if not places:
            return text
        start, end = draw.choice(places)
        return text[:start] + change(draw, text[start:end]) + text[end:]

    return changed


def _delete_line(draw, lines):
    del lines[draw.randrange(len(lines))]


def _double_line(draw, lines):
    place = draw.randrange(len(lines))
    lines.insert(place, lines[place])


def _swap_lines(draw, lines):
    one, two = (draw.randrange(len(lines)) for _ in range(2))
    lines[one], lines[two] = lines[two], lines[one]


def _swap_operands(draw, lines):
    places = [place for place, line in enumerate(lines) if line.count(",") >= 1]
    if places:
        place = draw.choice(places)
        parts = lines[place].split(",")
        one, two = draw.randrange(len(parts)), draw.randrange(len(parts))
        parts[one], parts[two] = parts[two], parts[one]
        lines[place] = ",".join(parts)


def _change_token(draw, token):
    how = draw.randrange(5)
    if how == 0:
        return draw.choice(_WORDS)
    if how == 1:
        return token + draw.choice(_WORDS)
    if how == 2:
        return ""
    if how == 3:
        return f"{token} {token}"
    place = draw.randrange(len(token))
    return token[:place] + draw.choice("%.:xz09$_,") + token[place + 1 :]


def _change_matching(pattern, drawn):
    def changed(draw, text):
        places = [match.span() for match in re.finditer(pattern, text)]
        if not places:
            return text
        start, end = draw.choice(places)
        return text[:start] + drawn(draw) + text[end:]

    return changed


def _cut(draw, text):
    return text[: draw.randrange(len(text))] if text else text


def _nest(draw, text):
    depth = draw.choice((2, 10, 49, 60, 3000))
    return text.replace("ret;", "{" * depth + "ret;" + "}" * draw.choice((depth, depth, depth - 1)), 1)


_CHANGES = (
    _of_lines(_delete_line), _of_lines(_double_line), _of_lines(_swap_lines), _of_lines(_swap_operands),
    _of_lines(_swap_operands), _of_tokens(_change_token), _of_tokens(_change_token), _of_tokens(_change_token),
    _change_matching(r"(?<=\.)[busf](?:8|16|32|64)\b", lambda draw: draw.choice(_TYPES)),
    _change_matching(r"(?<![\w.%$])\d\w*", lambda draw: draw.choice(_NUMBERS)),
    _change_matching(r"(?<=[<\[])\d+(?=[>\]])", lambda draw: draw.choice(_NUMBERS)),
    _change_matching(r"(?<=\.align )\d+", lambda draw: draw.choice(_NUMBERS)),
    _change_matching(r"%[a-z]+\d+", lambda draw: f"%{draw.choice(_REGISTERS)}{draw.randrange(12)}"),
    _change_matching(r"\.(?:rn|rz|lo|hi|wide|sync|global|shared|eq|lt|add|to|uni)\b",
                     lambda draw: draw.choice(_MODIFIERS)),
    _cut, _nest,
)  # fmt: skip


def outcome(program):
    """Return what becomes of a program, and why."""
    try:
        module = parse(program.text)
        check(module)
    except PtxError as error:
        return ("refused", str(error)) if _is_clear(error, program.text) else ("unclear", str(error))
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}"
    if not _is_launched(module, program):
        return "loads", "it is not launched as the others are"
    try:
        expected, why = running.on_oracle(program), ""
    except Exception as error:
        expected, why = None, f"{type(error).__name__}: {error}"
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        found = running.on_device(program)
    except PtxError as error:
        return ("refused at the launch", str(error)) if _is_clear(error, program.text) else ("unclear", str(error))
    except KernelHangError as error:
        return "hangs, and is told", str(error)
    except KernelError as error:
        return ("stopped", str(error)) if expected is None else ("wrong", f"{error}, where the oracle ends")
    except _TooSlowError:
        return "runs long", ""
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    if expected is None:
        return "runs, no oracle", why
    return ("as the oracle", "") if found == expected else ("wrong", "other bytes than the oracle's")


def _is_launched(module, program):
    """Whether a kernel takes the arguments of the program, and variables fit the memory of a test."""
    entry = module.entries.get("k")
    sizes = [8 if isinstance(each, bytearray) else len(each) for each in program.arguments]
    fits = sum(each.nbytes for each in module.variables.values()) < MOST_BYTES
    return entry is not None and [each.nbytes for each in entry.parameters] == sizes and fits


def _is_clear(error, text):
    message = str(error)
    return 1 <= error.line <= text.count("\n") + 1 and message.isprintable() and len(message) < 1000


class _TooSlowError(BaseException):
    """A launch takes longer than it may; no except clause of a kernel catches it."""


def _too_slow(_signal, _frame):
    raise _TooSlowError
