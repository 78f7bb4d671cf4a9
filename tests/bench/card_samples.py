"""Samples that were also written in CUDA C and run on a card: rows of tests/cta/data/samples.json.

The programs are in tests/cta/cuda. A row has the cycles of a launch's longest block, and what came out of it: a digest
of all bits, or some of the results where the card's exponentials differ from NumPy's. `l2_hit` says whether the L2 had
the inputs before the launch.
"""

import io
import runpy
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.cta.language.memories import GlobalMemory
from device_model.cta.language.tensors import Tensor
from device_model.cta.runner import run
from device_model.profile import load
from device_model.sm.card import Card
from device_model.sm.names import Dim3
from device_model.sm.occupancy import resident_blocks
from tests.bench.pipelines import Cycles

SAMPLES = Path(__file__).parents[2] / "samples"
EVERY = 509  # results of FlashAttention: one of so many is in the file
LENGTH, D = 512, 128


class Launched(NamedTuple):
    """A launch: its blocks' instructions, and its results."""

    blocks: list[Any]
    results: npt.NDArray[Any]
    threads: int
    registers: int
    shared: int


def numbers(count: int, first: int = 0) -> npt.NDArray[np.float32]:
    """The inputs of the CUDA programs from number *first* on: multiples of 1/1024 below 1."""
    words = np.arange(first, first + count, dtype=np.uint32)
    words = (words ^ words >> 16) * np.uint32(2246822507)
    words = (words ^ words >> 13) * np.uint32(3266489909)
    return ((words ^ words >> 16) >> 22).astype(np.float32) / 1024


def digest(results: npt.NDArray[Any]) -> str:
    """A number that changes with every bit of *results* and with their order."""
    total = 14695981039346656037
    for word in np.ascontiguousarray(results).reshape(-1).view(np.uint32).tolist():
        total = (total ^ word) * 1099511628211 % 2**64
    return f"{total:016x}"


def _launch(kernel: Any, function: Callable[..., object], grid: Dim3, arguments: tuple[Any, ...]) -> Launched:
    """Run *function*, with the options of *kernel*; arrays become tensors, and the last of them has the results."""
    threads, shared, registers, _ = kernel.options
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    spec = load("h200").sm
    result = run(
        function,
        grid,
        [_tensor(each) if isinstance(each, np.ndarray) else each for each in arguments],
        threads=threads,
        capacity=spec.block_shared_static if shared is None else shared,
        is_dynamic=shared is not None,
        hazards=False,
    )
    return Launched(result.blocks, arrays[-1], threads, registers, shared or result.blocks[0].shared_used)


def _tensor(array: npt.NDArray[Any]) -> Tensor:
    memory = GlobalMemory(array.reshape(-1).view(np.uint8), id(array), "array")
    return Tensor(memory, "array", 0, array.dtype, array.shape)


@cache
def _sample(name: str) -> dict[str, Any]:
    """The names of a sample, which is a script: it runs, and what it prints is dropped."""
    with redirect_stdout(io.StringIO()):
        return runpy.run_path(str(SAMPLES / name))


def copy_pipeline(stages: int, work: int) -> Launched:
    sample = _sample("15_copy_pipeline.py")
    tiles, tile, threads = sample["TILES"], sample["TILE"], sample["THREADS"]
    arrays = numbers(tiles * tile).reshape(tiles, tile), np.zeros((tiles, threads), np.float32)
    kernel = sample["copied"]
    return _launch(kernel, kernel.function, (1, 1, 1), (*arrays, stages, work))


def bank_conflicts(layout: str) -> Launched:
    sample = _sample("16_bank_conflicts.py")
    tiles, side = sample["TILES"], sample["SIDE"]
    values = numbers(tiles * side * side).reshape(tiles, side, side)
    kernel = sample["transpose"]
    arguments = values, np.zeros_like(values), side + (layout == "padded"), layout == "swizzled"
    return _launch(kernel, kernel.function, (1, 1, 1), arguments)


def mbarrier(buffers: int) -> Launched:
    sample = _sample("18_mbarrier.py")
    tiles, consumers = sample["TILES"], sample["CONSUMERS"]
    arrays = numbers(4 * tiles * consumers).reshape(tiles, consumers, 4), np.zeros((tiles, consumers), np.float32)
    kernel = sample["specialised"]
    return _launch(kernel, kernel.function, (1, 1, 1), (*arrays, buffers, False))


def flash(step: str, heads: int) -> Launched:
    if str(SAMPLES / "flash") not in sys.path:
        sys.path.append(str(SAMPLES / "flash"))
    import forward
    from aicore import Shape
    from config import progression

    config = dict(progression(d_head=D))[step]
    size, shape = heads * LENGTH * D, forward.shape_of(config, heads, LENGTH)
    inputs = [(numbers(size, which * size) * 4 - 2).astype(np.float16).reshape(shape) for which in range(3)]
    function = partial(forward.forward, config, Shape(heads, LENGTH, LENGTH, D))
    grid = (*forward.grid_of(config, heads, LENGTH), 1)
    return _launch(forward.kernel_of(config), function, grid, (*inputs, np.zeros(shape, np.float16)))


LAUNCHES: dict[str, tuple[Callable[..., Launched], tuple[str, ...]]] = {
    "copy pipeline": (copy_pipeline, ("stages", "work")),
    "bank conflicts": (bank_conflicts, ("layout",)),
    "mbarrier": (mbarrier, ("buffers",)),
    "flash": (flash, ("step", "heads")),
}


@cache
def launched(sample: str, *options: Any) -> Launched:
    """Our launch of *sample* with these options."""
    return LAUNCHES[sample][0](*options)


def _options(row: dict[str, Any]) -> list[Any]:
    return [row[name] for name in LAUNCHES[row["sample"]][1]]


def cycles(launch: Launched, *, l2_hit: bool) -> float:
    """Return the cycles of the longest block of *launch*, with nothing or everything in the L2 before it."""
    spec = load("h200").sm
    card = Card(load("h200").cores.count, resident_blocks(launch.threads, launch.registers, launch.shared, spec), spec)
    for block in launch.blocks:
        if l2_hit:
            for row in block.rows:
                row.misses = 0
        card.add(block.rows)
    return max(end - start for start, end in card.play().spans)


class Samples(Cycles):
    """Rows of samples.json: cycles of the longest block of a sample, and its results."""

    @staticmethod
    def has(row):
        return "sample" in row

    @staticmethod
    def measured(row):
        return row.get("cycles")

    @staticmethod
    def name(row):
        options = ", ".join(f"{name} {row[name]}" for name in LAUNCHES[row["sample"]][1])
        return f"{row['sample']}, {options}, from {'the L2' if row['l2_hit'] else 'DRAM'}"

    @staticmethod
    def predict(rows):
        ordered = sorted(range(len(rows)), key=lambda place: rows[place]["l2_hit"])  # with it, misses are forgotten
        predicted = [0.0] * len(rows)
        for place in ordered:
            row = rows[place]
            predicted[place] = round(cycles(launched(row["sample"], *_options(row)), l2_hit=row["l2_hit"]), 1)
        return predicted

    @staticmethod
    def columns(row, error):
        return f"{Cycles.columns(row, error)}  {Samples.results(row)}"

    @staticmethod
    def results(row):
        """Return how our results compare with the card's, in words."""
        results = launched(row["sample"], *_options(row)).results
        if "digest" in row:
            return "same bits" if digest(results) == row["digest"] else "other bits"
        if not row.get(f"every_{EVERY}th"):
            return ""
        of_card = np.array(row[f"every_{EVERY}th"], np.uint16).view(np.float16).astype(np.float64)
        ours = results.reshape(-1)[::EVERY].astype(np.float64)
        return f"results differ by {abs(ours - of_card).max():.1e} at most, of {abs(of_card).max():.2f}"
