"""Functions that round to whole numbers, logarithms and signs: Ceil, Floor, Round, Trunc, Frac, Log, Sign."""

from math import log

from device_model.aicore.core.names import CMPMODE, SELMODE, RoundMode
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.functions.makers import unary
from device_model.aicore.functions.scratch import Compute
from device_model.aicore.vector.elementwise import Add, Cast, Ln, Muls, Sub
from device_model.aicore.vector.fill import Duplicate
from device_model.aicore.vector.select import Select, compare_first


def _rounded(mode: RoundMode) -> Compute:
    def compute(dst: LocalTensor, src: LocalTensor, count: int) -> None:
        Cast(dst, src, mode, count)

    return compute


Ceil = unary("Ceil", _rounded(RoundMode.CAST_CEIL), "dst = the smallest whole number not below src.")
Floor = unary("Floor", _rounded(RoundMode.CAST_FLOOR), "dst = the largest whole number not above src.")
Round = unary("Round", _rounded(RoundMode.CAST_RINT), "dst = the nearest whole number; of two, the even one.")
Trunc = unary("Trunc", _rounded(RoundMode.CAST_TRUNC), "dst = src without its fraction.")


def _fraction(dst: LocalTensor, src: LocalTensor, count: int, whole: LocalTensor) -> None:
    Cast(whole, src, RoundMode.CAST_TRUNC, count)
    Sub(dst, src, whole, count)


Frac = unary("Frac", _fraction, "dst = the fraction of src, with its sign.", temporaries=1)


def _log(dst: LocalTensor, src: LocalTensor, count: int) -> None:
    Ln(dst, src, count)


def _log_to(base: int) -> Compute:
    factor = 1 / log(base)

    def compute(dst: LocalTensor, src: LocalTensor, count: int) -> None:
        Ln(dst, src, count)
        Muls(dst, dst, factor, count)

    return compute


Log = unary("Log", _log, "dst = natural logarithm of src.", widens=False)
Log2 = unary("Log2", _log_to(2), "dst = logarithm of src to the base 2.")
Log10 = unary("Log10", _log_to(10), "dst = logarithm of src to the base 10.", widens=False)


def _sign(
    dst: LocalTensor, src: LocalTensor, count: int, zeros: LocalTensor, ones: LocalTensor, bits: LocalTensor
) -> None:
    Duplicate(zeros, 0, count)
    compare_first(bits, src, 0, CMPMODE.GT, count)
    Duplicate(ones, 1, count)
    Select(ones, bits, ones, zeros, SELMODE.VSEL_TENSOR_TENSOR_MODE, count)
    compare_first(bits, src, 0, CMPMODE.LT, count)
    Duplicate(dst, -1, count)
    Select(dst, bits, dst, zeros, SELMODE.VSEL_TENSOR_TENSOR_MODE, count)
    Add(dst, dst, ones, count)


Sign = unary("Sign", _sign, "dst = 1, 0 or -1: the sign of src; 0 for NaN.", temporaries=2, bits=1, widens=False)
