"""Published rows that compute the same and differ in one choice.

PRODUCTS has rows as a file has them, from catlass, docs/zh/1_Practice/11_matmul_optimization.md. FAMILIES names rows of
the families: the choice, the family, and the rows, any two of which differ in it alone.
"""


def _product(op, shape, us, card="ascend910b3", cores=20, dtype="float16"):
    return {
        "kind": "cube", "op": f"catlass {op}", "shape": shape, "dtype": dtype, "card": card, "cores": cores, "us": us,
        "how": "msprof", "source": "hicann/catlass@0dfcf9df docs/zh/1_Practice/11_matmul_optimization.md",
        "fair": "yes",
    }  # fmt: skip


PRODUCTS = [
    _product("optimized_matmul, B column major, L1 128x256x256", [1024, 6144, 576], 72.5),
    _product("optimized_matmul, B column major, L1 256x128x256", [1024, 6144, 576], 48.6),
    _product("preload, B zN, L1 128x256x256", [20, 16384, 6144], 181.4),
    _product("preload, B zN, L1 32x320x128", [20, 16384, 6144], 139.6),
    _product("B row major, L1 128x256x256", [20, 16384, 6144], 238.8),
    _product("B row major, L1 32x320x128", [20, 16384, 6144], 252.4),
    _product("basic, B column major, L1 128x128x256", [1, 5120, 768], 36.3, "ascend910b1", 24, "float32"),
    _product("basic, B column major, L1 16x32x1024", [1, 5120, 768], 15.5, "ascend910b1", 24, "float32"),
    _product("preload, B zN, swizzle <3, 1>", [160, 2048, 6144], 40.6),
    _product("preload, B zN, swizzle <4, 1>", [160, 2048, 6144], 35.3),
]
BANKS = "bank layout"
FAMILIES = [
    ("tile", "Add", ("48 cores, 8 KB", "48 cores, 32 KB")),
    ("buffers", "Add", ("48 cores, 32 KB", "... double buffer")),
    ("L2", "Add", ("... double buffer", "... inputs bypass the L2")),
    (BANKS, "Add", ("... inputs bypass the L2", "... bank groups apart")),
    ("tile", "VectorAdd", ("8 cores, 4 KB", "8 cores, 40 KB")),
    ("buffers", "VectorAdd", ("8 cores, 40 KB, 8 Adds", "8 cores, 20 KB, 8 Adds, double buffer")),
    ("tile", "To UB", ("[1, 64]", "[64, 64]", "[64, 1024]")),
    ("order", "To UB", ("4 times", "4 quarters 4 times")),
    ("order", "To UB", ("the same addresses", "addresses apart")),
    ("tile", "To L1", ("[64, 64]", "[64, 256]")),
    ("order", "To L1", ("4 times", "4 quarters 4 times")),
    ("order", "To L1", ("the same addresses", "addresses apart")),
    (BANKS, "Banks", (
        "apart", "sources in one bank", "sources in one group", "result over a source, in step",
        "result over a source, a block on", "in place", "in place, one block of a source",
        "in place, one block of each repeat",
    )),
]  # fmt: skip
