"""Times of collectives: `python -m tests.bench collectives FILE [--json OUT] [--ablation]`, or with --speed their cost.

FILE has the form of tests/conformance/data/collectives.json: parts with a `sweep` of rows, `algos` (rows by a forced
algorithm and protocol) and `overlap` (four all-reduces beside four kernels). A row has `kind`, `ranks`, `bytes` of the
larger buffer of a rank, and `us` of one call in a row of calls, or `busbw` in GB/s instead. Each row is a
plan that is played on the links of an H200; only those of `overlap` are programs, and move bytes.

One thread makes the calls of all ranks, so short collectives take what their calls take. That is data of the host and
not of the card: for each part, kind and number of ranks it is read off the rows of up to 512 KiB. Rows of `algos` use
their own `host_us`, and what a loop takes between two calls. What is predicted is the longer of the two.

OUT gets a list of the rows, each with its fields, `part`, `set`, `measured`, `predicted`, `device` without the host,
and, if it has `alone_us`, `alone_predicted`.
"""

import argparse
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median

import acl_py as acl
from device_model.collectives.timing.plan import plan
from device_model.collectives.timing.player import play
from device_model.links.fabric import Links
from device_model.profile import load
from device_model.scheduler import Scheduler
from tests.bench import collective_speed
from tests.bench.measure import say, show
from tests.conformance.criteria import distribution

CARD = load("h200")
LATE = 10**15  # ns, later than anything here
SMALL = 1 << 19  # rows up to this size show what the host takes
MIDDLE, LARGE = 4 << 20, 32 << 20
FAST = 10**13  # a rate that limits nothing
LINK_BYTES = {  # of the busiest rank, for each byte of its larger buffer
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "all_to_all": lambda ranks: (ranks - 1) / ranks,
}
ROUNDS = 4  # collectives, and kernels, of a row of `overlap`
BLOCKS, BLOCK_US = 528, 55  # of such a kernel: four on each SM, 220 us in all


def steps_of(row, card, algorithm=None, protocol=None):
    """The plan of a row."""
    kind, ranks, nbytes = row["kind"], row["ranks"], row["bytes"]
    if kind == "ring_shift":
        counts = [
            [nbytes if target == (source + 1) % ranks else 0 for target in range(ranks)] for source in range(ranks)
        ]
        return plan(card.collectives, "send", counts, ranks)
    return plan(
        card.collectives, {"send_recv": "send"}.get(kind, kind), nbytes, ranks, algorithm=algorithm, protocol=protocol
    )


def device_us(row, card=CARD, algorithm=None, protocol=None):
    """What a row takes the devices."""
    scheduler, ends = Scheduler(), []
    play(steps_of(row, card, algorithm, protocol), Links(scheduler, card.links), range(row["ranks"]), 0, ends.append)
    scheduler.advance(LATE)
    return ends[0] / 1000


def measured_us(row):
    """What was measured: the time, or the bus bandwidth."""
    if "us" in row:
        return row["us"]
    moved = LINK_BYTES.get(row["kind"], lambda ranks: 1)(row["ranks"]) * row["bytes"]
    return moved / row["busbw"] / 1000


def hosts_of(rows):
    """What the calls of one group take the host, by kind and ranks: the median of the small rows.

    Without small rows it is the median of what the calls of the others took.
    """
    times = {}
    for row in rows:
        if "host_us" in row:
            small, large = times.setdefault((row["kind"], row["ranks"]), ([], []))
            if row["bytes"] <= SMALL:
                small.append(row["us"])
            else:
                large.append(row["host_us"])
    return {each: median(small or large) for each, (small, large) in times.items()}


def between(rows):
    """What a row of small calls takes for each besides the calls themselves, which is what the loop does."""
    return median([row["us"] - row["host_us"] for row in rows if row["bytes"] <= SMALL and "host_us" in row] or [0])


def predicted(document, card=CARD):
    """The rows of a file, each with `part`, `set`, `measured`, `predicted` and `device`."""
    rows = []
    for name, part in document.items():
        if not isinstance(part, dict):
            continue
        sweep = part.get("sweep", [])
        hosts, loop = hosts_of(sweep), between(sweep)
        own = [
            _row(name, "sweep", row, device_us(row, card), hosts.get((row["kind"], row["ranks"]), 0)) for row in sweep
        ]
        rows += _with_alone(own, hosts)
        for forced, own in part.get("algos", {}).items():
            algorithm, protocol = forced.split()
            for row in own:
                device = device_us(row, card, algorithm.lower(), protocol)
                rows.append(_row(name, forced, row, device, row.get("host_us", 0) + loop))
        if "overlap" in part:
            rows += overlaps(name, part)
    return rows


def _row(part, group, row, device, host):
    return {
        **row,
        "part": part,
        "set": group,
        "measured": measured_us(row),
        "device": round(device, 3),
        "predicted": round(max(device, host), 3),
    }


def _with_alone(rows, hosts):
    """*rows*, with `alone_predicted` where there is `alone_us`: what host and devices take, and what the host takes to
    learn of the end, which is the median of what small rows have besides.
    """
    waits = {}
    for row in rows:
        if "alone_us" in row:
            row["alone_predicted"] = row["device"] + hosts.get((row["kind"], row["ranks"]), 0)
            if row["bytes"] <= SMALL:
                waits.setdefault(row["ranks"], []).append(row["alone_us"] - row["alone_predicted"])
    for row in rows:
        if "alone_us" in row:
            row["alone_predicted"] = round(row["alone_predicted"] + median(waits.get(row["ranks"], [0])), 3)
    return rows


def error(row):
    """How much longer the prediction of a row is than its measurement, in per cent."""
    return 100 * (row["predicted"] / row["measured"] - 1)


# --- beside kernels


def overlaps(name, part):
    """The rows of `overlap`: what four all-reduces take, what four kernels take, and both side by side."""
    rows = []
    for what, columns in part["overlap"].items():
        nbytes, runs = what.split()
        asked = {"kind": "all_reduce", "ranks": part["gpus"], "bytes": int(nbytes)}
        times = acl.run(_beside, asked, runs != "compute", runs != "comm", device=CARD)
        for column, took in zip(("comm", "compute"), times, strict=True):
            if runs in ("both", column):
                row = {**asked, "us": columns[f"{column}_us"]}
                rows.append(_row(name, f"overlap {runs}, {column}", row, took, 0))
    return rows


async def _beside(asked, has_collectives, has_kernels):
    """How long the collectives and the kernels take, from the first call on."""
    work = acl.kernel(cost=acl.Cost(us=BLOCK_US), exclusive=True)(lambda: None)
    comms = await acl.CommInitAll(asked["ranks"])
    ranks = []
    for device in range(asked["ranks"]):
        await acl.SetDevice(device)
        ranks.append((await acl.CreateStream(), await acl.CreateStream(), await acl.Malloc(asked["bytes"])))
    begin, last = acl.current_simulation().now_ns, {}
    for _ in range(ROUNDS):
        for device, (_, beside, _) in enumerate(ranks if has_kernels else ()):
            await acl.SetDevice(device)
            last["work", device] = await work[BLOCKS, beside]()
        async with acl.group() if has_collectives else nullcontext():
            for device, (stream, _, array) in enumerate(ranks if has_collectives else ()):
                await acl.SetDevice(device)
                last["part", device] = await acl.AllReduce(
                    array, array, asked["bytes"] // 4, "float32", acl.ReduceOp.SUM, comms[device], stream
                )
    for op in last.values():
        await op
    for comm in comms:
        await acl.CommDestroy(comm)
    ends = {
        kind: max((op.end_ns for (each, _), op in last.items() if each == kind), default=begin)
        for kind in ("part", "work")
    }
    return [(ends[kind] - begin) / 1000 for kind in ("part", "work")]


# --- what is printed


def without(spec):
    """*spec* with one mechanism less, by what is left out."""
    pairs = spec.pairs

    def rings(**values):
        names = ("ring_ll128", "ring_simple")
        return replace(spec, **{name: replace(getattr(spec, name), **values) for name in names})

    return {
        "idle links": replace(rings(round_bytes=1), pairs=replace(pairs, round_bytes=1)),
        "channels that drift apart": replace(spec, drift_permille=1000),
        "chunks": replace(rings(chunk_bytes=1), pairs=replace(pairs, chunk_bytes=1)),
        "a limit of channels in rings": rings(channel_bytes_per_second=FAST),
        "a limit of channels in sends": replace(
            spec,
            pairs=replace(
                pairs, warp_bytes_per_second=FAST, one_way_bytes_per_second=FAST, both_ways_bytes_per_second=FAST
            ),
        ),
        "fewer channels on three ranks": replace(spec, channels_of_three=spec.channels),
        "headers": replace(rings(wire_permille=1000), pairs=replace(pairs, wire_permille=1000)),
    }


def _ablation(document):
    """Print the errors of large rows of `sweep` with one mechanism less."""
    specs = {"as it is": CARD.collectives} | {
        f"without {name}": spec for name, spec in without(CARD.collectives).items()
    }
    swept = {name: {"sweep": part["sweep"]} for name, part in document.items() if isinstance(part, dict)}
    table = []
    for name, spec in specs.items():
        rows = [row for row in predicted(swept, replace(CARD, collectives=spec)) if row["set"] == "sweep"]
        errors = [[error(row) for row in rows if row["bytes"] >= least] for least in (MIDDLE, LARGE)]
        table.append((name, *(f"{size:.1f}" for own in errors for size in distribution(own))))
    header = ("model", "median", "p90", "largest", "median", "p90", "largest")
    show("Error in %: rows of the sweep of 4 MiB and more, and of 32 MiB and more", header, table)


def groups_of(rows):
    """The groups for which there is a bound: name, rows, and the bounds of the median and the 90th percentile."""
    sweep = [row for row in rows if row["set"] == "sweep"]
    forced = [row for row in rows if row["set"] != "sweep" and not row["set"].startswith("overlap")]
    both = [row for row in rows if row["set"].startswith("overlap both") and row["bytes"] >= LARGE]
    two = [row for row in sweep if row["ranks"] == 2]
    large = [row for row in sweep if row["bytes"] >= LARGE]
    yield "all sizes", sweep, 5, 18
    yield "two ranks", two, 3, 8
    yield "32 MiB and more, two ranks", [row for row in large if row["ranks"] == 2], 2, 6
    yield "32 MiB and more, more ranks", [row for row in large if row["ranks"] > 2], 6, 20
    yield "forced algorithms", forced, 8, 25
    yield "beside kernels", both, 10, 10
    for position, name in enumerate(("even", "odd")):
        yield f"sizes at {name} positions", [row for row in sweep if _position(row, sweep) % 2 == position], 5, 18


def _position(row, rows):
    """Where the size of a row stands among those of its kind."""
    return sorted({each["bytes"] for each in rows if each["kind"] == row["kind"]}).index(row["bytes"])


def _hosts(document):
    """Print what was read off the file about its host."""
    table = [
        (name, kind, ranks, f"{us:.1f}")
        for name, part in document.items()
        if isinstance(part, dict)
        for (kind, ranks), us in hosts_of(part.get("sweep", [])).items()
    ]
    show("The host: microseconds of a group, read off small rows", ("part", "kind", "ranks", "us"), table)


def main(arguments=()):
    """Print each row, and the groups with their bounds."""
    parser = argparse.ArgumentParser("python -m tests.bench collectives", description=__doc__.splitlines()[0])
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?")
    parser.add_argument("--json", metavar="OUT", type=Path, help="where to write the rows")
    parser.add_argument("--ablation", action="store_true", help="show what each mechanism contributes")
    parser.add_argument("--speed", action="store_true", help="show what parts cost the processor; needs no FILE")
    options = parser.parse_args(arguments)
    if options.speed:
        collective_speed.main()
    if options.file is None:
        if not options.speed:
            parser.error("name a FILE, or ask for --speed")
        return
    document = json.loads(options.file.read_text(encoding="utf-8"))
    rows = predicted(document)
    _hosts(document)
    show("Microseconds, and the error in %", ("row", "bytes", "measured", "predicted", "device", "error"), [
        (f"{row['part']} {row['kind']} x{row['ranks']} {row['set']}", f"{row['bytes']:,}", f"{row['measured']:,.1f}",
         f"{row['predicted']:,.1f}", f"{row['device']:,.1f}", f"{error(row):+.1f}")
        for row in rows
    ])  # fmt: skip
    table = []
    for name, own, middle, high in groups_of(rows):
        if own:
            found, ninth, largest = distribution([error(row) for row in own])
            table.append((name, len(own), f"{found:.1f}", middle, f"{ninth:.1f}", high, f"{largest:.1f}"))
    show("Errors in %", ("rows", "number", "median", "at most", "p90", "at most", "largest"), table)
    if alone := [100 * (row["alone_predicted"] / row["alone_us"] - 1) for row in rows if "alone_predicted" in row]:
        found, ninth, largest = distribution(alone)
        say(f"One call and a synchronisation, {len(alone)} rows: {found:.1f}, {ninth:.1f} and {largest:.1f} %\n")
    if options.ablation:
        _ablation(document)
    if options.json:
        options.json.write_text(json.dumps(rows), encoding="utf-8")
        say(f"{len(rows)} rows are in {options.json}")
