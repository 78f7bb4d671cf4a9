"""The kernels of the folder kernels, and which launches of them to time: PTX and rows as `tests.bench ptx` reads them.

python -m tests.bench.cuda.kernel_rows FILE, where cuda-bindings and NVRTC 13.0 are installed; it needs no card.
kernel_times.py runs FILE on a card. A row has `work`, a size; rows of one stem and work do the same in different ways.
"""

import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "kernels"
OPTIONS = (b"--gpu-architecture=sm_90", b"-lineinfo", b"--std=c++17")
ENTRY = re.compile(r'extern "C" __global__ void (\w+)\(')


def main(path):
    kernels = {name: each for file in sorted(FOLDER.glob("*.cu")) for name, each in compiled(file).items()}
    rows = [row for family, sizes in FAMILIES.items() for size in sizes for row in family(size)]
    assert {row["kernel"] for row in rows} == set(kernels), "each kernel has rows"
    given = {"what": "kernels of tests/bench/cuda/kernels; not measured yet", "kernels": kernels, "rows": rows}
    Path(path).write_text(json.dumps(given, indent=1) + "\n", encoding="utf-8")
    print(f"{len(kernels)} kernels, {len(rows)} rows")


def compiled(file):
    """Each kernel of the file, compiled without the others; lines keep their numbers."""
    text = file.read_text(encoding="utf-8")
    parts = {name: alone(text, name) for name in ENTRY.findall(text)}
    return {name: {"file": file.name, "source": part, "ptx": compile_ptx(part)} for name, part in parts.items()}


def alone(text, name):
    """The text with the lines of all other kernels empty: they end at a brace in the first column, or in one line."""
    kept, inside = [], False
    for line in text.splitlines():
        entry = ENTRY.match(line)
        inside = inside or bool(entry and entry[1] != name)
        kept.append("" if inside else line)
        inside = inside and not (line.startswith("}") or line.endswith("; }"))
    return "\n".join(kept) + "\n"


def compile_ptx(text):
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    (result,) = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), list(OPTIONS))
    log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    if result:
        raise ValueError(log.decode())
    ptx = bytes(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.decode().rstrip("\0")


def floats(n, **recipe):
    return {"dtype": "float32", "n": n, **recipe}


def ints(n, **recipe):
    return {"dtype": "int32", "n": n, **recipe}


def zeros(n, dtype="float32"):
    return {"dtype": dtype, "n": n, "make": "zeros"}


def row(kernel, work, grid, block, *arguments):
    sizes = [[size] if isinstance(size, int) else list(size) for size in (grid, block)]
    return {"kernel": kernel, "work": work, "grid": sizes[0], "block": sizes[1], "args": list(arguments)}


def same(stem, variants, work, grid, block, *arguments):
    """Rows of variants that get the same arguments in the same shape."""
    return [row(f"{stem}_{variant}", work, grid, block, *arguments) for variant in variants.split()]


def copies(n):
    arguments = floats(n), zeros(n), n
    yield from same("copy", "float strided misaligned", n, n // 256, 256, *arguments)
    yield row("copy_float4", n, n // 1024, 256, *arguments)


def stencils(n):
    yield from same("stencil1", "three nine", n, n // 256, 256, floats(n), zeros(n), n)


def squares(n):
    arguments = floats(n * n), zeros(n * n), n
    yield from same("stencil2", "plain shared", n, (n // 32, n // 8), (32, 8), *arguments)
    yield from same("transpose", "naive tiled padded", n, (n // 32, n // 32), (32, 8), *arguments)


def cubes(n):
    arguments = floats(n**3), zeros(n**3), n
    yield row("stencil3_cells", n, (n // 32, n // 8, n), (32, 8), *arguments)
    yield row("stencil3_columns", n, (n // 32, n // 8), (32, 8), *arguments)


def reductions(n):
    blocks = n // 4096
    arguments = floats(n), zeros(blocks), zeros(1), zeros(1, "uint32"), n
    yield from same("reduce", "atomic tree shuffle twopass", n, blocks, 256, *arguments)
    yield row("dot_shuffle", n, blocks, 256, floats(n), floats(n), zeros(blocks), n)
    words = {"dtype": "uint32", "n": n, "make": "integers", "from": 0, "to": 1 << 32}
    yield from same("popcount", "instruction masks", n, blocks, 256, words, zeros(blocks, "int32"), n)


def scans(n):
    yield from same("scan", "hillis shuffle", n, n // 512, 512, ints(n), zeros(n, "int32"))
    yield row("scan_blelloch", n, n // 512, 256, ints(n), zeros(n, "int32"))


def prefixes(n):
    flags = zeros(n // 2048, "uint32")
    yield row("prefix_chain", n, n // 2048, 256, {"dtype": "uint32", "n": n}, zeros(n, "uint32"), flags, flags)


def matmuls(n):
    grid, square = (n // 16, n // 16), floats(n * n)
    yield from same("matmul", "naive tile16", n, grid, (16, 16), square, square, zeros(n * n), n)
    yield row("matmul_tile32", n, (n // 32, n // 32), (32, 32), square, square, zeros(n * n), n)
    yield row("matmul_register", n, (n // 64, n // 64), 256, square, square, zeros(n * n), n)
    wide = {"dtype": "float64", "n": n * n}
    yield row("matmul_double", n, grid, (16, 16), wide, wide, zeros(n * n, "float64"), n)


def histograms(n):
    arguments = {"dtype": "uint8", "n": n}, zeros(256, "uint32"), n
    yield from same("hist", "global shared", n, min(n // 1024, 528), 256, *arguments)


def mandelbrots(n):
    yield from same("mandel", "float double", n, (n // 16, n // 16), (16, 16), zeros(n * n, "int32"), n, 256)


def bodies(n):
    yield from same("nbody", "plain shared", n, n // 128, 128, floats(4 * n), zeros(4 * n), n)


def shuffles(n):
    yield from same("warpsum", "shuffle shared", n, n // 256, 256, floats(n), zeros(n), 8)


def atomics(n):
    words = {"dtype": "uint32", "n": n}
    yield from same("atomic", "one warp block spread", n, n // 256, 256, words, zeros(n, "uint32"))


def singles(n):
    """Kernels in which each thread makes one number of one."""
    yield from same("branch", "lane warp", n, n // 256, 256, floats(n), zeros(n))
    yield from same("sinexp", "exact fast", n, n // 256, 256, floats(n), zeros(n))
    yield row("poly_float", n, n // 256, 256, floats(n), zeros(n))
    yield row("poly_double", n, n // 256, 256, {"dtype": "float64", "n": n}, zeros(n, "float64"))
    half = {"dtype": "uint16", "n": n, "make": "halves"}
    yield row("half_single", n, n // 256, 256, half, zeros(n, "uint16"))
    yield row("half_pair", n, n // 512, 256, half, zeros(n, "uint16"))


def indices(n):
    arguments = floats(n), ints(n, make="permutation"), zeros(n)
    yield from same("index", "gather scatter", n, n // 256, 256, *arguments)


def vectors(n):
    yield row("saxpy_plain", n, n // 256, 256, floats(n), floats(n), 1.25, n)
    yield from same("normalize", "rsqrt divide", n, n // 1024, 256, floats(3 * n // 4), zeros(3 * n // 4), n // 4)


def tables(n):
    arguments = floats(n), zeros(n), 1024
    yield row("softmax_block", n, n // 1024, 256, *arguments)
    yield row("softmax_warp", n, n // 8192, 256, *arguments)
    arguments = floats(n), floats(1024), zeros(n), 1024
    yield from same("layernorm", "once twice", n, n // 1024, 256, *arguments)


def sorts(n):
    yield row("sort_bitonic", n, n // 1024, 512, ints(n), zeros(n, "int32"))


def sparse(n):
    """A matrix of n rows and columns with 16 numbers in a row, in the mean."""
    columns = ints(16 * n, make="integers", **{"from": 0, "to": n})
    arguments = ints(n + 1, make="offsets", to=16 * n), columns, floats(16 * n), floats(n), zeros(n), n
    yield row("spmv_scalar", n, n // 128, 128, *arguments)
    yield row("spmv_vector", n, n // 4, 128, *arguments)


def divisions(n):
    for dtype, kernel, most in (("int32", "divide_int", 1 << 30), ("int64", "divide_long", 1 << 50)):
        numbers = {"dtype": dtype, "n": n, "make": "integers", "to": most}
        divisors = {"dtype": dtype, "n": n, "make": "integers", "to": 1 << 10}
        yield row(kernel, n, n // 256, 256, numbers, divisors, zeros(n, dtype))


FAMILIES = {
    copies: (1 << 16, 1 << 20, 1 << 25),
    stencils: (1 << 16, 1 << 20, 1 << 25),
    squares: (256, 1024, 4096),
    cubes: (32, 96, 256),
    reductions: (1 << 16, 1 << 20, 1 << 25),
    scans: (1 << 16, 1 << 20, 1 << 24),
    prefixes: (1 << 14, 1 << 17, 1 << 20),
    matmuls: (128, 320, 640),
    histograms: (1 << 16, 1 << 20, 1 << 24),
    mandelbrots: (128, 512, 1024),
    bodies: (1024, 4096, 16384),
    shuffles: (1 << 16, 1 << 20, 1 << 23),
    atomics: (1 << 16, 1 << 20, 1 << 22),
    singles: (1 << 16, 1 << 20, 1 << 24),
    indices: (1 << 16, 1 << 20, 1 << 23),
    vectors: (1 << 16, 1 << 20, 1 << 24),
    tables: (1 << 16, 1 << 20, 1 << 24),
    sorts: (1 << 16, 1 << 20, 1 << 22),
    sparse: (1 << 12, 1 << 16, 1 << 19),
    divisions: (1 << 16, 1 << 20, 1 << 24),
}

if __name__ == "__main__":
    main(*sys.argv[1:])
