"""Pipelines of cp.async, predicted: rows in the forms of tests/cta/data/cp_async.json and bursts.json.

The measured programs are written out as rows of instructions, for the timing of thread blocks to play. What a compiled
loop issues besides copies, loads and multiply-adds (addresses, counters, branches) is not in a kernel's text; here it
is a number of dependent integer instructions, for each number of stages, since each is compiled on its own. They were
read off 12 rows of one block that reads from the L2 (`is_fitted`); all other rows are predictions.

`python -m tests.bench blocks` prints the errors.
"""

from collections import defaultdict

from device_model.profile import load
from device_model.sm.instructions import Op, Row
from device_model.sm.occupancy import resident_blocks
from device_model.sm.warps import play
from tests.conformance.criteria import distribution

COPY = 16  # bytes of one cp.async
BEFORE = {1: 0, 2: 14, 3: 14, 4: 14}  # integer instructions before the copies of a tile
AFTER = {1: 36, 2: 19, 3: 28, 4: 27}  # after them; all three: with more stages, as with four
PER_COPY = {1: 2 / 3, 2: 0, 3: 2 / 9, 4: 0}  # for each copy, beyond those of the profile's `copy_warp`
USE = 20  # with the load and the chain of multiply-adds, if there is one
REGISTERS = 32  # of a thread of a pipeline; they limit no launch
BURST = 29  # in the loop around a burst
AROUND = 4.24  # cycles of the loop around a barrier: those that syncthreads has more here than in cp_async.json
FIRST = (
    22  # before and after a single copy, whose code runs for the first time; read off the copies of 2 KB from the L2
)
CLOSE = 1.03  # a choice of stages counts as right if it is no slower than this, relative to the best


def is_fitted(row):
    """Whether the numbers above were read off this row."""
    fma = (0, 64) if row.get("tile_bytes") == 4096 else (0,) if row.get("tile_bytes") == 32768 else ()
    return row.get("blocks") == 1 and row.get("fma") in fma


class Block:
    """Rows for a block of *threads* threads."""

    def __init__(self, threads):
        self.warps = -(-threads // 32)

    def row(self, op, *, warps=None, **fields):
        """One row of the first *warps* warps, or of all."""
        mask = (1 << (self.warps if warps is None else warps)) - 1
        return Row(op, op.name.lower(), mask, Block.row.__code__, 0, **fields)

    def integers(self, count):
        """A chain of integer instructions, as a list of rows."""
        return [self.row(Op.ALU, count=round(count), chains=1)] if round(count) else []

    def copies(self, nbytes, *, from_dram):
        """The copies of *nbytes* bytes: each thread takes 16 bytes in turn."""
        each, rest = divmod(nbytes, self.warps * 32 * COPY)
        return [
            self.row(
                Op.CP_ASYNC,
                warps=warps,
                count=count,
                chains=1,
                phases=4,
                sectors=16 * count,
                misses=16 * count * from_dram,
            )
            for warps, count in ((self.warps, each), (-(-rest // (32 * COPY)), 1))
            if warps and count
        ]

    def barrier(self):
        return self.row(Op.BARRIER, number=self.warps)

    def multiply_adds(self, count):
        """A load from shared memory, and a chain that needs it."""
        if not count:
            return []
        load_ = self.row(Op.LDS_32, writes=(1,))
        return [load_, self.row(Op.FMA, count=count, chains=1, reads=(1,), writes=(1,)), *self.integers(USE)]


def pipeline(row, *, from_dram):
    """The rows of the measured pipeline."""
    block, stages, tiles = Block(row["threads"]), row["stages"], row["tiles"]
    compiled = min(stages, len(BEFORE))
    copies = block.copies(row["tile_bytes"], from_dram=from_dram)
    load_ = [
        *block.integers(BEFORE[compiled] + PER_COPY[compiled] * row["tile_bytes"] / (COPY * row["threads"])),
        *copies,
    ]
    compute = [*block.integers(AFTER[compiled]), *block.multiply_adds(row["fma"])]
    commit, barrier = block.row(Op.COMMIT), block.barrier()
    wait = block.row(Op.WAIT_GROUP, number=max(0, stages - 2))
    if stages == 1:
        return [*load_, commit, wait, barrier, *compute, barrier] * tiles
    ahead = stages - 1
    first, last = [*copies, commit] * min(ahead, tiles), [wait, barrier, commit, *compute] * min(ahead, tiles)
    return first + [wait, barrier, *load_, commit, *compute] * max(0, tiles - ahead) + last


def cycles_per_tile(row, *, from_dram):
    """The cycles of a tile in the measured pipeline, a mean over the blocks; those beyond the SMs share one."""
    profile = load("h200")
    spec, sms, blocks = profile.sm, profile.cores.count, row["blocks"]
    fit = resident_blocks(row["threads"], REGISTERS, row["stages"] * row["tile_bytes"], spec)
    on_each, rest = divmod(blocks, sms)
    total = 0.0
    for own, count in ((on_each + 1, rest), (on_each, sms - rest)):
        if own and count:
            played = play([pipeline(row, from_dram=from_dram)] * min(own, fit), spec, min(blocks, sms))
            total += count * own * max(played.cycles)
    return total / blocks / row["tiles"]


def burst(row):
    """The rows of the measured bursts."""
    block = Block(row["threads"])
    copies = block.copies(row["bytes"], from_dram=not row["l2_hit"])
    around = block.integers(BURST + row["idle"] / 4.507)
    commit, wait, barrier = block.row(Op.COMMIT), block.row(Op.WAIT_GROUP), block.barrier()
    return [barrier, *copies, commit, wait, barrier, *around] * 96


def rounds(kind, threads):
    """The cycles of one of 64 rounds in which all warps pass a barrier of this *kind*."""
    block = Block(threads)
    rows = []
    for phase in range(64):
        if kind == "mbarrier":
            rows += [block.row(op, number=phase, key=kind) for op in (Op.ARRIVE, Op.WAIT_PHASE)]
        else:
            rows.append(block.row(Op.BARRIER, number=block.warps, key=int(kind == "bar.sync")))
    return play([rows], load("h200").sm).cycles[0] / 64 + AROUND


def repeated(threads, op, **fields):
    """The cycles of one of 100 repetitions of an instruction of all warps, after 100 others."""
    block = Block(threads)
    rows = [block.row(op, number=block.warps, **fields)] * 100
    spec = load("h200").sm
    return (play([rows * 2], spec).cycles[0] - play([rows], spec).cycles[0]) / 100


class Cycles:
    """What the forms below have in common: what is predicted is a number of cycles."""

    @staticmethod
    def error(measured, predicted):
        return predicted / measured - 1

    @staticmethod
    def columns(row, error):
        return f"{row['measured'] or '-':>8} {row['predicted']:>8} {'' if error is None else f'{error:+.2%}':>8}"

    @staticmethod
    def summary(rows):
        return f"{len(rows)} rows, {spread(rows)}"


class Pipelines(Cycles):
    """Rows of cp_async.json with `stages`: cycles per tile of a pipeline of copies and multiply-adds."""

    @staticmethod
    def has(row):
        return row.get("kind") == "pipe"

    @staticmethod
    def measured(row):
        return row.get("cycles_per_tile")

    @staticmethod
    def is_from_dram(row):
        """Whether the tiles come from DRAM: the row says so, or its bytes do not fit into the L2."""
        return not row["l2_hit"] if "l2_hit" in row else row["footprint_bytes"] > load("h200").sm.l2_bytes

    @staticmethod
    def name(row):
        memory = "DRAM" if Pipelines.is_from_dram(row) else "L2"
        return (
            f"{row['blocks']} x {row['threads']} threads, {row['tile_bytes']} B from {memory}, "
            f"{row['fma']} multiply-adds, {row['stages']} stages"
        )

    @staticmethod
    def predict(rows):
        return [round(cycles_per_tile(row, from_dram=Pipelines.is_from_dram(row)), 1) for row in rows]

    @staticmethod
    def summary(rows):
        lines = [f"{name:<28}{len(group):>4} rows, {spread(group)}" for name, group in groups(rows).items() if group]
        found = choices(rows)
        right = [group for group in found if is_right(group, predicted_best(group))]
        lines.append(f"the best number of stages is found within 3 % in {len(right)} of {len(found)} groups")
        hard = [group for group in found if 4 in group and not is_right(group, 4)]
        right = [group for group in hard if is_right(group, predicted_best(group))]
        lines.append(f"{len(right)} of {len(hard)} of those where 4 stages are not")
        return "\n  ".join(("cycles per tile", *lines))


class Latencies(Cycles):
    """Rows of barriers.json, and the others of cp_async.json: a copy, a barrier, a multiply-add, a product, a chase."""

    KINDS = ("oneshot", "barrier", "fma_chain", "mma_m16n8k16", "chase_l2", "chase_dram", "clock")
    BARRIERS = ("mbarrier", "bar.sync", "syncthreads")
    RESULTS = ("cycles", "cycles_per_mma_per_warp", "khz", "measured", "predicted")

    @staticmethod
    def has(row):
        return row.get("kind") in Latencies.KINDS + Latencies.BARRIERS

    @staticmethod
    def measured(row):
        return next((row[key] for key in Latencies.RESULTS if key in row), None)

    @staticmethod
    def name(row):
        given = {key: value for key, value in row.items() if key not in Latencies.RESULTS}
        return ", ".join(f"{key} {value}" if key != "kind" else value for key, value in given.items())

    @staticmethod
    def predict(rows):
        return [round(Latencies._cycles(row), 2) for row in rows]

    @staticmethod
    def _cycles(row):
        kind, spec = row["kind"], load("h200").sm
        if kind == "clock":
            return spec.khz
        if kind == "barrier":
            return repeated(row["threads"], Op.BARRIER)
        if kind in Latencies.BARRIERS:
            return rounds(kind, row["threads"])
        if kind == "fma_chain":
            return repeated(32, Op.FMA, reads=(1,), writes=(1,))
        if kind == "mma_m16n8k16":
            return repeated(row["threads"], Op.MMA, writes=(1,))
        if kind.startswith("chase"):
            return repeated(32, Op.LDG, sectors=1, misses=kind == "chase_dram", reads=(1,), writes=(1,))
        block = Block(row["threads"])
        copies = block.copies(row["bytes"], from_dram=not row["l2_hit"])
        rows = [*block.integers(FIRST), *copies, block.row(Op.COMMIT), block.row(Op.WAIT_GROUP), block.barrier()]
        return play([rows], spec).cycles[0]


class Bursts(Cycles):
    """Rows of bursts.json: cycles from one burst of copies to the next."""

    @staticmethod
    def has(row):
        return row.get("kind") == "burst"

    @staticmethod
    def measured(row):
        return row.get("cycles")

    @staticmethod
    def name(row):
        memory = "L2" if row["l2_hit"] else "DRAM"
        return f"{row['blocks']} x {row['threads']} threads, {row['bytes']} B from {memory}, idle for {row['idle']}"

    @staticmethod
    def predict(rows):
        spec = load("h200").sm
        return [round(play([burst(row)], spec, row["blocks"]).cycles[0] / 96, 1) for row in rows]


def spread(rows):
    """The errors of *rows*, in words."""
    median, p90, worst = distribution([Cycles.error(row["measured"], row["predicted"]) for row in rows])
    return f"median error {median:.2%}, 90th percentile {p90:.2%}, largest {worst:.2%}"


def choices(rows):
    """For each group of rows that differ in their stages only: cycles by stages, measured and predicted."""
    groups = defaultdict(dict)
    for row in rows:
        key = tuple(
            row.get(name) for name in ("blocks", "threads", "tile_bytes", "tiles", "fma", "l2_hit", "footprint_bytes")
        )
        groups[key][row["stages"]] = row["measured"], row["predicted"]
    return [group for group in groups.values() if len(group) > 1]


def is_right(group, stages):
    """Whether *stages* is within 3 % of the best number."""
    return group[stages][0] <= CLOSE * min(measured for measured, _ in group.values())


def predicted_best(group):
    return min(group, key=lambda stages: group[stages][1])


def groups(rows):
    """Rows of pipelines by what the issue of them is."""
    return {
        "all": rows,
        "not fitted on": [row for row in rows if not is_fitted(row)],
        "even": rows[::2],
        "odd": rows[1::2],
        "at most 128 multiply-adds": [row for row in rows if row["fma"] <= 128],
        "from the L2": [row for row in rows if not Pipelines.is_from_dram(row)],
        "from DRAM": [row for row in rows if Pipelines.is_from_dram(row)],
        **{f"{stages} stages": [row for row in rows if row["stages"] == stages] for stages in (1, 2, 3, 4)},
    }
