"""Compares what a card computed with what the device here computes."""

import hashlib
import json
import re
import sys
import zlib
from collections import Counter
from typing import NamedTuple

import numpy as np

from tests.ptx import running
from tests.ptx.card import bounds, run, variants
from tests.ptx.card.jobs import program

_ACCESS = re.compile(r"(?:ld|st)\.global\.b(\d+)")
_APPROXIMATE = re.compile(r"\.(?:approx|full)\b")
SHOWN = 40  # kernels that differ, of each part


class Answer(NamedTuple):
    """What became of a kernel on the card, and its arrays after that: a hash for one whose bytes were not kept."""

    status: str
    arrays: list


def compare(folder, results, parts):
    """Print for each part how many kernels agree, and where others do not."""
    for name in parts:
        if (results / f"{name}.out.npz").exists():
            part = run.read(folder / f"{name}.npz")
            answers = read_answers(results / f"{name}.out.npz", part)
            (report_bounds if name == "approximate" else report)(name, part, answers)


def read_answers(path, part):
    """Return the answer of the card for each job, in the order of the jobs."""
    with np.load(path) as file:
        blob, found = file["blob"].tobytes(), json.loads(zlib.decompress(file["results"].tobytes()))
    answers = []
    for job in part["jobs"]:
        status, kept = found.get(job["name"], ["lost", []])
        arrays = [None if kind == "value" else run.initial(part, (kind, given)) for kind, given in job["arguments"]]
        for place, digest, at, size in kept:
            if at < 0:
                arrays[place] = digest
                continue
            arrays[place] = run.unpacked(arrays[place], blob[at : at + size])
            assert hashlib.sha256(arrays[place].tobytes()).hexdigest() == digest, job["name"]
        answers.append(Answer(status, [each for each in arrays if each is not None]))
    return answers


def report(name, part, answers):
    """Print how many kernels have the bytes of the card, and the first places where others differ.

    Kernels with approximate functions, which may differ, are counted apart ("approximate"). So are random programs
    that differ where a variant of `variants` does ("chosen").
    """
    counts, lines = Counter(), []
    for job, answer in zip(part["jobs"], answers, strict=True):
        if answer.status != "ok":
            counts[answer.status.partition(":")[0]] += 1
            lines.append(f"{job['name']}: {answer.status}")
            continue
        made = program(part, job)
        where = difference(made, job, answer)
        is_approximate = where is not None and _APPROXIMATE.search(made.text) and name != "singles"
        is_chosen = name == "programs" and where is not None and is_explained(made, job, answer)
        kind = "approximate" if is_approximate else "chosen" if is_chosen else "different"
        counts[kind if where is not None else "equal"] += 1
        if where is not None and kind == "different":
            lines.append(f"{job['name']}: {where}")
    _print(f"{name}: {dict(sorted(counts.items()))}")
    for line in lines[:SHOWN] if name != "singles" else lines:
        _print(f"    {line}")


def difference(made, job, answer):
    """Return where the device differs from the card; None if it does not."""
    try:
        with np.errstate(all="ignore"):
            found = running.on_device(made, job["entry"])
    except Exception as error:
        return f"the device: {type(error).__name__}: {error}"
    for number, (ours, card) in enumerate(zip(found, answer.arrays, strict=True)):
        if isinstance(card, str):
            if hashlib.sha256(ours).hexdigest() != card:
                return f"array {number} differs; its bytes were not kept"
            continue
        mine = np.frombuffer(ours, np.uint8)
        if not np.array_equal(mine, card):
            return _first(number, mine, card, made)
    return None


def is_explained(made, job, answer):
    """Whether the assembler was free to make this difference."""
    if any(isinstance(each, str) for each in answer.arrays):
        return False
    with np.errstate(all="ignore"):
        found = running.on_device(made, job["entry"])
    return variants.explain(made, job["entry"], found, answer.arrays)


def _first(number, mine, card, made):
    """Return how many elements differ, and the first of them, with its operands for a single instruction."""
    *operands, width = widths(made.text)
    one, two = (each.view(f"u{width}") for each in (mine, card))
    places = np.flatnonzero(one != two)
    first = int(places[0])
    text = f"{len(places)} of {len(one)} differ; first {first}: device {one[first]:#x}, card {two[first]:#x}"
    given = [f"{int.from_bytes(array[first * size : (first + 1) * size], 'little'):#x}"
             for array, size in zip(made.arguments, operands, strict=False)]  # fmt: skip
    return f"{text} of {', '.join(given)}" if given else f"array {number}: {text}"


def widths(text):
    """Return the bytes of the operands and of the result of a single instruction; those of a word otherwise."""
    return [int(bits) // 8 for bits in _ACCESS.findall(text)] if ".param .u64 pz" in text else [4]


def report_bounds(name, part, answers):
    """Print the greatest errors of the approximate functions on the card, and here."""
    _print(f"{name}: function, bound, and the greatest error of the card and of the device")
    for job, answer in zip(part["jobs"], answers, strict=True):
        if answer.status != "ok":
            _print(f"    {job['name']}: {answer.status}")
            continue
        made = program(part, job)
        with np.errstate(all="ignore"):
            ours = np.frombuffer(running.on_device(made)[-1], np.uint8)
        _print(f"    {bounds.line(job['name'], answer.arrays[:-1], answer.arrays[-1], ours)}")


def _print(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
