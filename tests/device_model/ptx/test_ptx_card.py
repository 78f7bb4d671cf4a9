"""Bits that an H200 gave, where the PTX manual leaves them open: NaNs, .ftz next to the least number, far fields."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.ptx import running
from tests.ptx.card import operands, singles
from tests.ptx.programs import Program

TABLE = json.loads((Path(__file__).parent / "data" / "card.json").read_text(encoding="utf-8"))
SINGLES = {single.name: single for single in [*singles.singles(), *singles.approximate()]}


@pytest.mark.parametrize("name", TABLE)
def test_an_instruction_gives_the_bits_of_a_card(name):
    single = SINGLES[name]
    rows = [[int(word, 16) for word in row] for row in TABLE[name]]
    sizes = [operands.holder(type_) for type_ in single.operands] + [singles.result_bits(single)]
    *given, card = zip(*rows, strict=True)
    columns = [np.resize(np.array(each, f"u{size // 8}"), singles.BLOCK)
               for each, size in zip(given, sizes, strict=False)]  # fmt: skip
    arguments = [*(bytearray(each.tobytes()) for each in columns), bytearray(singles.BLOCK * sizes[-1] // 8)]
    made = Program(singles.text(single), (1, 1, 1), (singles.BLOCK, 1, 1), arguments, 0)
    with np.errstate(all="ignore"):
        found = np.frombuffer(running.on_device(made)[-1], f"u{sizes[-1] // 8}")[: len(rows)]
    assert [*map(hex, found.tolist())] == [*map(hex, card)]
