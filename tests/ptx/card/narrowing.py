"""Makes programs that a card computes otherwise smaller, there: which lines does the difference need?

A smaller program counts if it has a meaning: the oracle runs it, the device here agrees with the oracle and finds
nothing wrong with it, and the assembler is not free to choose what differs.
"""

import multiprocessing
import sys

import numpy as np

from device_model.ptx.checks.hazards import Hazards
from tests.ptx import running
from tests.ptx.card import comparing, run, variants
from tests.ptx.card.jobs import program
from tests.ptx.shrinking import shrunk

SECONDS = 240  # that a program may take


def narrow(folder, results):
    """Print the programs of *folder* that the card computed otherwise, in *results*, with the lines that it needs."""
    part = run.read(folder / "programs.npz")
    answers = comparing.read_answers(results / "programs.out.npz", part)
    wrong = [job for job, answer in zip(part["jobs"], answers, strict=True) if _is_wrong(part, job, answer)]
    context = multiprocessing.get_context("fork")
    started = []
    for job in wrong:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_narrow, args=(part, job, theirs))
        process.start()
        theirs.close()
        started.append((job, process, ours))
    for job, process, pipe in started:
        _print(f"{job['name']}:\n{_said(pipe)}")
        process.kill()
        process.join()


def narrowed(made, on_card):
    """Return *made* with as few lines as *on_card*, which gives the arrays of a program, computes otherwise.

    It stays the same if nothing differs.
    """
    if difference(made, on_card) is None:
        return made
    return shrunk(made, lambda smaller: difference(smaller, on_card))


def difference(made, on_card):
    """Return how the card differs from the device; None if it does not.

    Raises:
        AssertionError: The program has no meaning.
    """
    checks = []

    def watch(module, kernel):
        assert not kernel.zeros, "a register is written before it is read"
        checks.append(Hazards(module, kernel))
        return checks[0]

    with np.errstate(all="ignore"):
        found = running.on_device(made, watch=watch)
    assert found == running.on_oracle(made), "the device agrees with the oracle"
    assert not list(checks[0].findings), "nothing is wrong with it"
    other = on_card(made)
    is_free = found == other or variants.explain(made, "k", found, [np.frombuffer(each, np.uint8) for each in other])
    return None if is_free else "other bytes"


def on_card(card, made):
    """Return the arrays of a program after *card* has run it."""
    arguments = [("array", str(place)) if isinstance(each, bytearray) else ("value", bytes(each).hex())
                 for place, each in enumerate(made.arguments)]  # fmt: skip
    arrays = {name: np.frombuffer(bytes(each), np.uint8)
              for (kind, name), each in zip(arguments, made.arguments, strict=True) if kind == "array"}  # fmt: skip
    job = {"text": 0, "entry": "k", "grid": made.grid, "block": made.block, "shared": made.dynamic,
           "arguments": arguments, "is_fresh": True}  # fmt: skip
    changed = card.run({"texts": [made.text], "arrays": arrays}, job)
    after = {name: each.tobytes() for name, each in arrays.items()}
    for place, _, changes in changed:
        after[str(place)] = run.unpacked(arrays[str(place)], changes).tobytes()
    return list(after.values())


def _is_wrong(part, job, answer):
    if answer.status != "ok":
        return False
    made = program(part, job)
    return comparing.difference(made, job, answer) is not None and not comparing.is_explained(made, job, answer)


def _narrow(part, job, pipe):
    card = run.Card()
    made = program(part, job)
    try:
        pipe.send(narrowed(made, lambda smaller: on_card(card, smaller)).text)
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


def _said(pipe):
    try:
        return pipe.recv() if pipe.poll(SECONDS) else f"more than {SECONDS} s"
    except EOFError:
        return "its process has ended"


def _print(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
