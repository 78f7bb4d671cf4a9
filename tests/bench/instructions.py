"""Instructions of the machine for each operation of the ring, as valgrind counts them: no load changes them much.

As with bytecodes, two lengths of the same program run, and an operation costs what the longer one takes more. Hashes of
texts are fixed, because they decide how long a look-up in a dict takes. Needs valgrind; where acl-py-fast is found, the
compiled core has rows, too.
"""

import os
import re
import shutil
import subprocess
import sys

from device_model.compiled import IS_COMPILED, SWITCH
from tests.bench.measure import say, show

LENGTHS = 480, 1_440  # operations
STREAMS = 8
PURE = {"SimPy": "simpy", "pure Python": "ours"}
COMPILED = {"compiled": "ours", "compiled, traced": "ours recorded", "compiled, sanitized": "ours sanitized"}
GOALS = {"compiled": 0.095, "compiled, traced": 0.19, "compiled, sanitized": 0.30}


def main():
    if shutil.which("valgrind") is None:
        say("  instructions are counted where valgrind is installed; 0 were counted\n")
        return
    counts = {name: count(model, **{SWITCH: "1"}) for name, model in PURE.items()}
    if IS_COMPILED:
        counts |= {name: count(model, **{SWITCH: "0"}) for name, model in COMPILED.items()}
    simpy = counts["SimPy"]
    rows = [(name, f"{each:,.0f}", f"{each / simpy:.3f}", str(GOALS.get(name, ""))) for name, each in counts.items()]
    show("Instructions", ("", "per operation", "of SimPy's", "goal"), rows)


def count(model, **variables):
    """The instructions of an operation of *model*, a name in ring.MODELS."""
    few, many = (instructions(model, ops, **variables) for ops in LENGTHS)
    return (many - few) / (LENGTHS[1] - LENGTHS[0])


def instructions(model, ops, **variables):
    """All instructions of a process that runs the ring with *ops* operations."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    # Threads of NumPy's library for products would spin.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", **variables}
    command = [*tool, sys.executable, "-W", "error", "-m", "tests.bench.ring", model, str(ops), str(STREAMS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)[1].replace(",", ""))
