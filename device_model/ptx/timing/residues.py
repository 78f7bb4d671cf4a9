"""What an assembler knows of the registers that addresses are made of: their remainders by 16, or by less.

It knows constants and where variables in shared memory begin, and follows sums, products, shifts and masks of whole
numbers. Parameters, numbers of threads, and all that comes from memory may be anything.
"""

from collections.abc import Mapping, Sequence
from math import gcd
from typing import NamedTuple

from device_model.ptx.code.flow import writes
from device_model.ptx.text.syntax import Address, Instruction, Number, Operand, Register, Symbol, Variable

WIDEST = 16  # bytes of an access


class Residue(NamedTuple):
    """A number whose remainder by *modulus*, a power of two up to 16, is *value*."""

    modulus: int
    value: int


_ANY = Residue(1, 0)
Known = dict[Register | str, Residue]  # by register, or name of a variable
_COPIES = frozenset(("mov", "cvta", "cvt"))


def residues_of(items: Sequence[Instruction], variables: Sequence[Variable]) -> Known:
    """Return what is known of the registers that *items*, all of a kernel, write, and of *variables*."""
    known = _places(variables)
    before: Known = {}
    while known != before:
        before = dict(known)
        for item in items:
            value = _result(item, known)
            for register in writes(item):
                if value is not None and isinstance(register, Register):
                    known[register] = _both(known.get(register, value), value)
    return known


def residue_of(address: Address, known: Mapping[Register | str, Residue]) -> Residue:
    """Return what is known of *address*."""
    base = _operand(address.base, known) or _ANY
    return _sum(base, _constant(address.offset))


def _places(variables: Sequence[Variable]) -> Known:
    """Return where variables begin. An assembler gives one of 16 bytes and more a place that suits wide accesses; where
    dynamic memory begins is only declared.
    """
    known: Known = {}
    for each in variables:
        own = Residue(WIDEST if each.nbytes >= WIDEST else min(each.align, WIDEST), 0)
        known[each.name] = _both(known[each.name], own) if each.name in known else own
    return known


def _result(item: Instruction, known: Known) -> Residue | None:
    """Return what is known of the result of *item*; None while nothing is known of what it is made of."""
    if {"sat", "hi"} & {*item.modifiers} or any(each[:1] == "f" or each[:2] == "bf" for each in item.modifiers):
        return _ANY
    name = item.name
    own = [_operand(each, known) for each in item.operands[1:]]
    if name in _COPIES:
        return own[0]
    if name not in ("add", "sub", "mul", "mad", "shl", "and", "or", "xor", "selp"):
        return _ANY
    if name == "selp":
        own = own[:2]
    found = [each for each in own if each is not None]
    return _of(name, item, found) if len(found) == len(own) else None


def _of(name: str, item: Instruction, own: Sequence[Residue]) -> Residue:
    one, other = own[:2]
    if name == "add":
        return _sum(one, other)
    if name == "sub":
        return _sum(one, Residue(other.modulus, -other.value))
    if name in ("mul", "mad"):
        return _sum(_product(one, other), own[2] if name == "mad" else _constant(0))
    if name == "shl":
        by = item.operands[2]
        return _product(one, _constant(1 << min(int(by.value), 4))) if isinstance(by, Number) else _ANY
    if name == "selp":
        return _both(one, other)
    return _bits(name, one, other)


def _operand(operand: Operand, known: Mapping[Register | str, Residue]) -> Residue | None:
    match operand:
        case Register():
            return known.get(operand)
        case Number(int(value)):
            return _constant(value)
        case Symbol(name, offset):
            return _sum(known.get(name, _ANY), _constant(offset))
    return _ANY


def _constant(value: int) -> Residue:
    return Residue(WIDEST, value % WIDEST)


def _sum(one: Residue, other: Residue) -> Residue:
    modulus = gcd(one.modulus, other.modulus)
    return Residue(modulus, (one.value + other.value) % modulus)


def _product(one: Residue, other: Residue) -> Residue:
    modulus = gcd(
        one.value * other.modulus, other.value * one.modulus, one.modulus * other.modulus, WIDEST
    )  # of what is not known of either
    return Residue(modulus, one.value * other.value % modulus)


def _bits(name: str, one: Residue, other: Residue) -> Residue:
    modulus = gcd(one.modulus, other.modulus)
    if name == "or":
        return Residue(modulus, (one.value | other.value) % modulus)
    if name == "xor":
        return Residue(modulus, (one.value ^ other.value) % modulus)
    zeros = max(gcd(each.modulus, each.value) for each in (one, other))  # a zero in one is enough
    return Residue(zeros, 0) if zeros > modulus else Residue(modulus, one.value & other.value)


def _both(one: Residue, other: Residue) -> Residue:
    """Return what holds for a number that may be either."""
    modulus = gcd(one.modulus, other.modulus, one.value - other.value)
    return Residue(modulus, one.value % modulus)
