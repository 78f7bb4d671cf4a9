"""The table of names in docs/aicore.md, by the room that defines them: `python -m tests.aicore.rooms` writes it."""

import re
from pathlib import Path

from acl_py import asc

PAGE = Path(__file__).parents[2] / "docs" / "aicore.md"
TABLE = re.compile(r"(?<=<!-- names -->\n).*?(?=<!-- end of names -->)", re.DOTALL)
# What a row is called, and the modules of device_model.aicore whose names it has.
ROOMS = {
    "place of a block": ("core.blocks",),
    "tensors": ("core.tensors", "core.packed", "core.lists", "core.traits"),
    "registers and the counter": ("core.registers",),
    "buffers and queues": ("flags.tpipe", "flags.queues", "flags.bufpool", "flags.allocator"),
    "flags and barriers": ("flags.sync", "flags.crossing", "flags.posting", "flags.groups", "flags.bypass"),
    "copies and atomics": ("moving.copies", "moving.atomics", "moving.constants"),
    "element by element": ("vector.elementwise",),
    "masks and fills": ("vector.masks", "vector.fill"),
    "compare and select": ("vector.select",),
    "reduce": ("vector.reduce", "vector.reduce_repeats"),
    "gather and sort": ("vector.gather", "vector.transdata", "vector.sort"),
    "functions made of vector instructions": ("functions",),
    "cube": ("cube.loads", "cube.im2col", "cube.mmad", "cube.fixpipe", "cube.copy_out", "cube.sparse"),
    "Matmul": ("cube.matmul", "cube.matmul_operands", "cube.matmul_cube", "cube.matmul_tiling"),
    "convolutions": (
        "cube.conv3d",
        "cube.conv3d_operands",
        "cube.conv3d_tiling",
        "cube.conv3d_input",
        "cube.conv3d_filter",
    ),
    "collectives": ("hccl.client", "hccl.names"),
    "debugging": ("core.debug",),
}


def table():
    """The table, a row for each room."""
    lines = re.findall(r"from device_model\.aicore\.(\S+) import (\w+)", Path(asc.__file__).read_text(encoding="utf-8"))
    rows = ["| subject | names |", "| --- | --- |"]
    for room, modules in ROOMS.items():
        names = [name for module, name in lines if module in modules or module.split(".")[0] in modules]
        rows.append(f"| {room} | {', '.join(f'`{name}`' for name in sorted(names, key=str.lower))} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
