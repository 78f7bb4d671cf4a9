"""`acl-py demo flash`: attention by blocks of threads, with one stage for keys and values, and with two.

The kernel is the forward pass of FlashAttention: out = softmax(Q K^T / sqrt(d)) V, tile by tile. Both versions are one
function; only the number of stages of its pipeline differs. The results are really computed and compared with NumPy's;
the times are simulated.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from acl_py import cta
from acl_py.running import simulate
from acl_py.tools.demo_cores import CoreOutcome, show
from acl_py.trace.page import Page
from acl_py.verbs.copies import Memcpy, MemcpyKind
from acl_py.verbs.devices import SynchronizeDevice
from acl_py.verbs.kernels import Array, LaunchKernel
from acl_py.verbs.memory import Malloc
from device_model.cta.launch import Launch
from device_model.cta.report import LaunchReport

TITLE = "One attention, with one stage and with two"
DEVICE = "h200"
HEADS = 8  # a block each
TILES = 8  # of a block
TILE = 64  # keys of a tile, queries of a block, and d
ROW = TILE + 8  # elements: rows that begin in other banks, so that ldmatrix has no conflicts
KEPT = 100_000  # instructions in the trace, more than there are
CORE = "SM 0"  # whose units are shown
VERSIONS = {1: "one stage", 2: "two stages"}

Halves = npt.NDArray[np.float16]
Floats = npt.NDArray[np.float32]


@cta.kernel(threads=128, registers=128)
def attention(q: cta.In, k: cta.In, v: cta.In, out: cta.Out, stages: int) -> None:
    """Compute a head, with this number of *stages* for keys and values; *out* has pairs of elements."""
    head, _, _ = cta.block
    queries = cta.shared(np.float16, (TILE, ROW))
    keys, values = (cta.shared(np.float16, (stages, TILE, ROW)) for _ in range(2))
    pipe = cta.pipeline(stages)

    def load(tile: int) -> None:
        pipe.producer_acquire()
        for target, source in ((keys, k), (values, v)):
            _copy(target[tile % stages], source[head, tile])
        pipe.producer_commit()

    _copy(queries, q[head])
    for tile in range(stages - 1):
        load(tile)
    softmax = _Softmax()
    for tile in range(TILES):
        if tile + stages - 1 < TILES:
            load(tile + stages - 1)
        pipe.consumer_wait()
        cta.syncthreads()  # the copies of all threads are there
        softmax.add(_left(queries), _keys(keys[tile % stages]), _values(values[tile % stages]))
        cta.syncthreads()  # nobody reads the stage any more
        pipe.consumer_release()
    row, pair = cta.warp * 16 + cta.lane // 4, cta.lane % 4
    places = row[:, None, None] + np.arange(2) * 8, pair[:, None, None] + np.arange(TILE // 8)[:, None] * 4
    out[head, places[0], places[1]] = softmax.result()


def _copy(target: Any, source: Any) -> None:
    """Start to copy a tile, 16 bytes at a time."""
    row, column = cta.tid[:, None] // 8 + np.arange(4) * 16, (cta.tid % 8 * 8)[:, None]
    cta.cp_async(target.at[row, column], source.at[row, column], 16)


def _left(tile: Any) -> Any:
    """Return the rows of the warp, by parts of 16 columns, as the left operand of a product."""
    return cta.ldmatrix(
        tile.at[(cta.warp * 16 + cta.lane % 16)[:, None, None], _along(cta.lane // 16 * 8) + np.arange(4) * 16]
    )


def _keys(tile: Any) -> Any:
    """Return the tile, transposed, as the right operand."""
    rows, columns = _along(cta.lane % 8) + np.arange(8) * 8, _along(cta.lane // 8 % 2 * 8) + np.arange(4)[:, None] * 16
    return cta.ldmatrix(tile.at[rows, columns], 2)


def _values(tile: Any) -> Any:
    """Return the tile as the right operand."""
    rows = _along(cta.lane % 16) + np.arange(4)[:, None] * 16
    return cta.ldmatrix(tile.at[rows, np.arange(8)[None, None] * 8], 2, transposed=True)


def _along(register: Any) -> Any:
    return register[:, None, None]


class _Softmax:
    """The mixture of the values so far, of the queries of a warp; each query is in four lanes."""

    def __init__(self) -> None:
        self.largest: Any = cta.full((1, 2), -np.inf)
        self.total: Any = cta.zeros((1, 2))
        self.mixture: Any = cta.zeros((1, TILE // 8, 4))

    def add(self, queries: Any, keys: Any, values: Any) -> None:
        """Add a tile."""
        scale = np.float32(np.log2(np.e) / TILE**0.5)
        scores = cta.tile_mma(queries, keys, cta.zeros((1, TILE // 8, 4))).reshape(cta.threads, 1, TILE // 8, 2, 2)
        largest = np.maximum(self.largest, scores.max(axis=(2, 4)))
        for lanes in (1, 2):
            largest = np.maximum(largest, cta.shfl_xor(largest, lanes))
        highest = largest * scale
        shares = np.exp2(cta.fma(scores, scale, -highest[:, :, None, :, None]))
        factor = np.exp2(cta.fma(self.largest, scale, -highest))
        self.largest = largest
        self.total = cta.fma(self.total, factor, shares.sum(axis=(2, 4)))
        mixture = self.mixture.reshape(cta.threads, 1, TILE // 8, 2, 2) * factor[:, :, None, :, None]
        left = shares.astype(np.float16).reshape(cta.threads, 1, TILE // 16, 8)
        self.mixture = cta.tile_mma(left, values, mixture.reshape(cta.threads, 1, TILE // 8, 4))

    def result(self) -> Any:
        """Return the results of each thread, in pairs."""
        total = self.total
        for lanes in (1, 2):
            total = total + cta.shfl_xor(total, lanes)
        return self.mixture.reshape(cta.threads, TILE // 8, 2, 2) * (1 / total).reshape(cta.threads, 1, 2, 1)


@dataclass(frozen=True)
class Outcome(CoreOutcome):
    """The result of one version."""

    report: LaunchReport


async def do(stages: int, inputs: list[Halves]) -> Outcome:
    """Launch the kernel with this number of *stages*."""
    async with simulate(device=DEVICE, instructions=KEPT) as sim:
        parts = []
        for values in inputs:
            parts.append(Array(await Malloc(values.nbytes), np.float16, values.shape))
            await Memcpy(parts[-1], values.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
        result = np.zeros((HEADS, TILE, TILE), np.float32)
        out = Array(await Malloc(result.nbytes), np.float32, (HEADS, TILE, TILE // 2, 2))
        launch = await LaunchKernel(attention, HEADS, (*parts, out, stages))
        await SynchronizeDevice()
        op = sim.trace.ops[-1]
        await Memcpy(result, result.nbytes, out, result.nbytes, MemcpyKind.DEVICE_TO_HOST)
        assert op.cores is not None, f"{op} is not a core kernel"
        assert isinstance(launch.work, Launch), f"{launch} is a launch of blocks"
        assert launch.work.result is not None, f"{launch} has run"
        return Outcome(sim, op, op.cores, result, launch.work.result.report())


def main() -> Page:
    """Launch both versions; draw the units of one SM in each, and explain the difference. Return them as a page."""
    rng = np.random.default_rng(0)
    shapes = ((HEADS, TILE, TILE), (HEADS, TILES, TILE, TILE), (HEADS, TILES, TILE, TILE))
    inputs = [rng.normal(size=shape).astype(np.float16) for shape in shapes]
    expected = reference(*inputs)

    def is_right(outcome: Outcome) -> bool:
        return np.allclose(outcome.result, expected, atol=2e-3)

    return show(TITLE, _task(), VERSIONS, lambda stages: do(stages, inputs), is_right, CORE, _table, _why)


def reference(q: Halves, k: Halves, v: Halves) -> Floats:
    """Return the attention of each head, from NumPy."""
    queries, keys, values = (each.reshape(HEADS, -1, TILE).astype(np.float32) for each in (q, k, v))
    scores = queries @ keys.swapaxes(1, 2) / np.float32(TILE**0.5)
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    mixed: Floats = shares @ values / shares.sum(axis=2, keepdims=True)
    return mixed


def _task() -> str:
    return (
        f"FlashAttention of {HEADS} heads, a block each, on a simulated {DEVICE}. A block has {TILE} queries and goes"
        f" through {TILES} tiles of {TILE} keys and values: cp.async brings them to shared memory, ldmatrix loads them,"
        f" tensor cores multiply. The charts show the units of {CORE}, on one scale."
    )


def _table(outcomes: dict[int, Outcome]) -> Table:
    units = ("lsu", "tensor", "fma", "alu", "sfu")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("stages", "launch", "block", *units, "copies hidden"):
        table.add_column(name, justify="left" if name == "stages" else "right")
    for stages, outcome in outcomes.items():
        shares = [f"{100_000 * outcome.cores.busy_us[unit] / outcome.span_ns(CORE):.0f} %" for unit in units]
        table.add_row(
            str(stages),
            f"{outcome.us} us",
            f"{outcome.span_ns(CORE) / 1000:.2f} us",
            *shares,
            f"{100 * (outcome.report.hidden or 0):.0f} %",
        )
    return table


def _why(outcomes: dict[int, Outcome]) -> str:
    speedup = outcomes[1].span_ns(CORE) / outcomes[2].span_ns(CORE)
    return (
        "With one stage, the copies of a tile cannot start before all warps have used the tile before, so copies (MEM)"
        " and units take turns. With two, the next tile is on its way while this one is multiplied. This is"
        f" {speedup:.2f} times as fast on the SM. The launch takes longer than the block: it has to be started and"
        " reported."
    )
