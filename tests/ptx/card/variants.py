"""What PTX leaves to the vendor's assembler with NaNs, as kernels in which it chose otherwise.

It may swap the factors or terms of f64, and then another one of two NaNs goes on. And it makes neg and abs of what
their use is: an operation, which gives the NaN of arithmetic, or a change of the sign bit.
"""

import re
from dataclasses import replace

import numpy as np

from tests.ptx import running

_SIGNS = {"f16": 16, "f32": 32, "f64": 64}
_PAIRED = re.compile(r"\b((?:add|mul|min|max|fma)[\w.]*\.f64) (%\w+), ([^,;]+), ([^,;]+)")
_DIFFERENCE = re.compile(r"((?:@!?%\w+ )?)\bsub([\w.]*)\.f64 (%\w+), ([^,;]+), ([^,;]+);")


def with_signs(text):
    """Return a kernel whose neg and abs change sign bits."""
    for type_, bits in _SIGNS.items():
        sign = 1 << bits - 1
        text = re.sub(rf"\bneg(?:\.ftz)?\.{type_} ([^;]*);", rf"xor.b{bits} \1, {sign:#x};", text)
        text = re.sub(rf"(?<!\.)\babs(?:\.ftz)?\.{type_} ([^;]*);", rf"and.b{bits} \1, {sign - 1:#x};", text)
    return text


def swapped(text):
    """Return a kernel whose factors and terms of f64 have changed places."""
    text = _PAIRED.sub(r"\1 \2, \4, \3", text)
    text = _DIFFERENCE.sub(r"neg.f64 %swapped, \5; \1add\2.f64 \3, %swapped, \4;", text)
    return re.sub(r"^\{$", "{\n    .reg .f64 %swapped;", text, flags=re.MULTILINE)


def explain(made, entry, found, card):
    """Whether all bytes in which *found* differs from the card's are different in a variant, too."""
    left = [np.frombuffer(mine, np.uint8) != theirs for mine, theirs in zip(found, card, strict=True)]
    for text in (with_signs(made.text), swapped(made.text), swapped(with_signs(made.text))):
        with np.errstate(all="ignore"):
            other = running.on_device(replace(made, text=text), entry)
        for rest, mine, theirs in zip(left, found, other, strict=True):
            rest &= np.frombuffer(mine, np.uint8) == np.frombuffer(theirs, np.uint8)
    return not any(rest.any() for rest in left)
