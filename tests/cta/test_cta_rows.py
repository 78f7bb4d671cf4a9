"""Rows of instructions: what a block of threads records."""

import sys

from device_model.sm.instructions import UNIT, Op, Row, Unit


def row(op, name, **fields):
    frame = sys._getframe(1)
    return Row(op, name, 0b1111, frame.f_code, frame.f_lasti, **fields)


def test_every_operation_has_a_unit():
    assert sorted(UNIT) == sorted(Op)


def test_a_row_says_what_it_is():
    assert repr(row(Op.FMA, "fma", count=64, chains=1)) == "<Row fma x 64 (FMA) of warps 0xf>"
    assert repr(row(Op.LDS_128, "ld.shared.v4")) == "<Row ld.shared.v4 (LSU) of warps 0xf>"
    assert row(Op.MMA, "mma.m16n8k16").unit is Unit.TENSOR
