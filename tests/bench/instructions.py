"""Instructions of the machine for each operation of the ring, as valgrind counts them: no load changes them much.

    python -m tests.bench instructions
    python -m tests.bench.instructions SimPy "compiled, traced"

prints all rows, or those named. One is a launch of a folded rank, beside seven others. As with bytecodes, two lengths
of the same program run, and an operation costs what the longer one takes more. Hashes of texts are fixed, because they
decide how long a look-up in a dict takes. Needs valgrind; where acl-py-fast is found, the compiled core has rows, too.

A process under valgrind takes a quarter of a minute to begin, and a row less than a second. So there is one process for
each core. It forks for each length of each row, and valgrind counts each child from the beginning of that process on.
The shorter length runs twice: what the second run counts more is what the process itself did between two of them.
"""

import gc
import os
import re
import shutil
import subprocess
import sys

from device_model.compiled import IS_COMPILED, SWITCH
from tests.bench import ring
from tests.bench.fold import launches
from tests.bench.measure import say, show

LENGTHS = 240, 720  # operations
STREAMS = 8
SIMPY = "SimPy"
PURE = {
    SIMPY: "simpy",
    "pure Python": "ours",
    "pure Python, traced": "ours recorded",
    "pure Python, sanitized": "ours sanitized",
    "a folded launch, pure": "folded",
}
COMPILED = {
    "compiled": "ours",
    "compiled, traced": "ours recorded",
    "compiled, sanitized": "ours sanitized",
    "a folded launch, compiled": "folded",
}
MODELS = ring.MODELS | {"folded": launches}
GOALS = {"compiled": 0.095, "compiled, traced": 0.19, "compiled, sanitized": 0.30}
_REFERENCES = re.compile(r"^==(\d+)== I\s+refs:\s+([\d,]+)", re.MULTILINE)


def main(names=()):
    if shutil.which("valgrind") is None:
        say("  instructions are counted where valgrind is installed; 0 were counted\n")
        return
    cores = [(PURE, "1"), (COMPILED, "0")] if IS_COMPILED else [(PURE, "1")]
    rows = [row for models, _ in cores for row in models]
    unknown = [name for name in names if name not in rows]
    if unknown:
        sys.exit(f"there is no row {unknown[0]!r}; there are {', '.join(map(repr, rows))}")
    counts = {}
    for models, switch in cores:
        wanted = {name: model for name, model in models.items() if not names or name in names or name == SIMPY}
        if wanted:
            counts |= dict(zip(wanted, counted(list(wanted.values()), switch), strict=True))
    simpy = counts[SIMPY]
    rows = [(name, f"{each:,.0f}", f"{each / simpy:.3f}", str(GOALS.get(name, ""))) for name, each in counts.items()]
    show("Instructions", ("", "per operation", "of SimPy's", "goal"), rows)


def counted(models, switch):
    """The instructions of an operation of each of *models*, names in MODELS. *switch* is the value of SWITCH."""
    few, many = LENGTHS
    lengths = [few, few, many]
    program = f"from tests.bench import instructions; instructions.fork({models}, {lengths})"
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    # Threads of NumPy's library for products would spin.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", SWITCH: switch}
    command = [*tool, sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    references = {int(pid): int(number.replace(",", "")) for pid, number in _REFERENCES.findall(done.stderr)}
    numbers = [references[int(pid)] for pid in done.stdout.split()]
    runs = [numbers[first : first + len(lengths)] for first in range(0, len(numbers), len(lengths))]
    return [(longer - again - (again - once)) / (many - few) for once, again, longer in runs]


def fork(models, lengths):
    """Run each of *models* with each of *lengths* in a child, one after the other, and print their process ids."""
    for model in models:
        MODELS[model](STREAMS * 3, STREAMS)  # what a process does once is not counted
        gc.collect()
        gc.freeze()  # or one length would have a pass of the collector over all modules, and the other none
        for ops in lengths:
            child = os.fork()
            if not child:
                MODELS[model](ops, STREAMS)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            assert not status, f"{model} with {ops} operations failed"
            print(child, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
