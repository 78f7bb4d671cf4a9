"""Shows: a mixture-of-experts layer with a stream for each expert, and when this pays.

Scenario: batches of tokens go through a gate and through two of eight experts each, and are mixed again. Experts take
all tokens that come (dropless), or a fixed number of rows (drop-pad). Three versions launch the same kernels
(versions.py) and are compared with plain NumPy (layer.py): first on scikit-learn's digits, a layer so small that only
the host's calls take time, and then on a layer with real work for the device. If the host synchronises between the
stages, streams cost the small layer more than they gain. With events between the stages, the host waits only at the
end. But then it never learns how many tokens an expert got, and launches each expert for the largest possible number of
rows: dropless pays for that in SMs. A time-out of asyncio limits each version to a minute of simulated time,
so that it ends even if the device hangs; on a card, of real time.

torch makes several calls of each kernel, and holds the host much longer (as_torch.py). There streams gain little, and
one call for all experts gains much. moe.py --as torch FILE prints the times of the jobs in a file like
tests/conformance/data/moe.json.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import as_torch
import numpy as np
from layer import HELD_OUT, digits, forward, random_layer, trained
from versions import VERSIONS, Job, Outcome

import acl_py as acl
from acl_py.trace import chart

LIMIT_S = 60  # of simulated time, for a version and its set-up


def reference(job: Job) -> np.ndarray:
    return np.concatenate([forward(job.layer, job.tokens[part], job.capacity) for part in job.parts])


async def limited(version: Callable[[Job], Awaitable[Outcome]], job: Job) -> Outcome:
    """Run *version*; it raises TimeoutError if it takes longer than `LIMIT_S`."""
    async with asyncio.timeout(LIMIT_S):
        return await version(job)


def compare(job: Job, labels: np.ndarray | None = None) -> Outcome:
    """Run all versions of *job*; print their times and, against *labels*, their accuracy."""
    expected = reference(job)
    mode = "dropless" if job.capacity is None else f"drop-pad, {job.capacity} rows for each expert"
    print(f"  {mode}{f', accuracy in NumPy {accuracy(expected, labels)}' if labels is not None else ''}")
    outcomes = {name: acl.run(limited, version, job, device="h200") for name, version in VERSIONS.items()}
    for name, outcome in outcomes.items():
        np.testing.assert_allclose(outcome.output, expected, rtol=1e-4, atol=1e-4)
        speedup = outcomes["naive"].ns / outcome.ns
        print(f"    {name:11} {outcome.ns / 1000:7,.0f} us, {speedup:.2f} x naive", end="")
        print(f", accuracy {accuracy(outcome.output, labels)}" if labels is not None else "")
    return outcome


def accuracy(output: np.ndarray, labels: np.ndarray) -> str:
    """Return the share of correct digits among those that were held out from training."""
    return f"{np.mean((output.argmax(axis=1) == labels)[HELD_OUT]):.1%}"


def jobs() -> dict[str, list[Job]]:
    """Return the jobs: the digits and the wide layer, each in both modes."""
    rng = np.random.default_rng(0)
    wide = random_layer(rng, width=256, hidden=1024, outputs=256, experts=8, top_k=2)
    sizes = {
        "digits": (trained(), digits()[0], 256),
        "a wide layer": (wide, rng.standard_normal((4096, 256), np.float32), 512),
    }
    return {
        name: [Job(layer, tokens, batch, capacity) for capacity in (None, layer.capacity(batch, factor=1))]
        for name, (layer, tokens, batch) in sizes.items()
    }


def show_torch(job: as_torch.Job, card: Mapping[str, float]) -> None:
    """Print the times of *job* as torch calls it, and what a *card* took."""
    times = as_torch.times_of(job)
    for name, us in times.items():
        took = f"; an H200: {card[name]:6,.0f} us, {card['naive'] / card[name]:.2f} x naive" if name in card else ""
        print(f"    {name:11} {us:7,.0f} us, {times['naive'] / us:.2f} x naive{took}")


def show_file(arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise SystemExit(f"--as torch takes one file of jobs, not {len(arguments)}")
    for row in json.loads(Path(arguments[0]).read_text(encoding="utf-8"))["rows"]:
        job = as_torch.job_of(row)
        print(f"{job.tokens:,} tokens of {job.width}, {job.batch} at a time, {job.capacity} rows for each expert")
        show_torch(job, {name: row[name]["us"] for name in as_torch.CARD if name in row})


def main() -> None:
    print("as torch calls it, the last of the jobs below")
    show_torch(as_torch.WIDE, as_torch.CARD)
    labels = digits()[1]
    print("\nfrom C")
    for name, both in jobs().items():
        job = both[0]
        _, width, hidden = job.layer.up.shape
        print(f"{name}: {len(job.tokens):,} tokens of {width}, {job.batch} at a time; {hidden} wide inside an expert")
        for job in both:
            outcome = compare(job, labels if name == "digits" else None)
        print()
    print("the last of them, pipelined; streams 1 to 3 carry batches, the others are experts:")
    print(chart.lanes(outcome.sim.trace, since_ns=outcome.sim.now_ns - outcome.ns))


if __name__ == "__main__":
    show_file(sys.argv[3:]) if sys.argv[1:3] == ["--as", "torch"] else main()
