"""Makes the folder of kernels for a card."""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np

from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.parser import parse
from tests.ptx import corpus, programs, trying
from tests.ptx.card import operands, run, singles, warps
from tests.ptx.card.jobs import Part, value, zeros

SEEDS = range(1000, 3000)
README = """Kernels in PTX, and a program that runs them on a card. It needs cuda-bindings and NumPy:

    python run.py --out DIR

DIR then has one file for each .npz here.
"""
# What the vendor's assembler fuses to fma; that is not done here.
_FUSED = re.compile(r"(?<![.\w])(add|sub|mul)((?:\.ftz)?(?:\.sat)?\.(?:f16x2|bf16x2|f16|bf16|f32|f64))\b")
# Results that no two machines share: clocks, and where a thread runs.
_OWN = re.compile(r"%(?:clock|globaltimer|smid|nsmid|warpid|nwarpid|gridid|envreg|pm\d)|nanosleep")


def make(folder, parts, names):
    """Write the files of *parts*, and what runs them; *names* are those of repositories, if not all are wanted."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in parts:
        part = {"programs": of_programs, "singles": of_singles, "warps": of_warps, "approximate": of_approximate,
                "corpus": lambda: of_corpus(names)}[name]()  # fmt: skip
        path = folder / f"{name}.npz"
        part.write(path)
        sys.stdout.write(f"{name}: {len(part.jobs)} kernels, {path.stat().st_size / (1 << 20):.1f} MiB\n")
    shutil.copy(run.__file__, folder / "run.py")
    (folder / "README.md").write_text(README, encoding="utf-8")


def of_programs():
    """Return the random programs."""
    part = Part()
    for seed in SEEDS:
        made = programs.make(seed)
        data, out, bins, uniform = made.arguments
        name = f"program {seed}"
        arguments = [part.array(f"{name} in", data), zeros(len(out)), part.array(f"{name} bins", bins), value(uniform)]
        part.add(name, made.text, made.grid, made.block, arguments, shared=made.dynamic)
    return part


def of_singles():
    """Return the single instructions."""
    part = Part()
    for single in singles.singles():
        add_single(part, single, ",".join(single.operands), operands.special_inputs(single.operands))
    return part


def of_approximate():
    """Return the approximate functions."""
    part = Part()
    for single in singles.approximate():
        add_single(part, single, single.words, operands.many_inputs(single.words, single.operands))
    return part


def of_warps():
    """Return the kernels of two warps."""
    part = Part()
    for name, body in warps.kernels():
        arguments = [part.array(f"{name} in", warps.inputs(name).tobytes()), zeros(4 * warps.THREADS * warps.RESULTS)]
        part.add(name, warps.text(body), (1, 1, 1), (warps.THREADS, 1, 1), arguments)
    return part


def add_single(part, single, name, columns):
    """Add the kernel of an instruction, with operands that kernels of the same *name* share."""
    count = len(columns[0])
    arguments = [part.array(f"{name}:{place}", column.tobytes()) for place, column in enumerate(columns)]
    arguments.append(zeros(count * singles.result_bits(single) // 8))
    part.add(single.name, singles.text(single), (count // singles.BLOCK, 1, 1), (singles.BLOCK, 1, 1), arguments)


def of_corpus(names):
    """Return the kernels of public repositories that run here to their end."""
    folder = os.environ.get("CORPUS")
    if folder is None:
        sys.exit("the variable CORPUS has no folder of checkouts: see tests.ptx corpus")
    trying.watch_time()
    part = Part()
    known = sorted(repository.partition("/")[2] for repository in corpus.REPOSITORIES)
    for name in names or known:
        if (Path(folder) / name).is_dir():
            for number, (where, text) in enumerate(corpus.texts(Path(folder), name)):
                if text is not None and not _OWN.search(text):
                    _add_text(part, f"{where} {number}", unfused(text))
        sys.stdout.write(f"{name}: {len(part.jobs)} kernels so far\n")
        sys.stdout.flush()
    return part


def unfused(text):
    """Return a kernel whose sums and products of floats are rounded each, also by the vendor's assembler."""
    return _FUSED.sub(r"\1.rn\2", text)


def _add_text(part, where, text):
    try:
        module = parse(text)
    except PtxError:
        return
    for name in module.entries:
        with np.errstate(all="ignore"):
            outcome, _, given = trying.outcome_of(module, name)
        if outcome == "ran":
            block, arguments = given
            described = [value(each) if each is not None else ("pattern", 4 * trying.UNITS) for each in arguments]
            part.add(f"{where} {name}", text, trying.GRID, block, described, entry=name, shared=trying.SHARED)
