"""The samples on a card, as they are: which run, and with what sentence the others end.

`python -m tests.card samples` plays them on the simulated driver, and with --on-card on a card. On the driver kernels
in Python run on the host (bodies="host"), and times are those of a slow card.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What the last line says of those that end with an error.
ENDS = {
    "09_error": "ResetDevice() on a card; end the process: torch, CuPy and numba live in the same context",
    "11_two_rules": "rules='acl' on a card: it has those of CUDA, 'cuda' or 'cuda_per_thread'",
    "12_deadlock_chain": "rules='acl' on a card: it has those of CUDA, 'cuda' or 'cuda_per_thread'",
    "13_faults": "ecc_error(op='kernel', nth=3) on a card, where only calls can be made to fail",
    "14_ping_pong": "one_buffer on a card; give a kernel of cta its card=, in CUDA C",
    "15_copy_pipeline": "copied on a card; give a kernel of cta its card=, in CUDA C",
    "16_bank_conflicts": "transpose on a card; give a kernel of cta its card=, in CUDA C",
    "17_forgotten_wait": "reverse on a card; give a kernel of cta its card=, in CUDA C",
    "18_mbarrier": "specialised on a card; give a kernel of cta its card=, in CUDA C",
    "moe/graph": "GraphAddIfNode() on a card; a condition is set by code that is linked with the vendor's",
}
NAMES = [
    *sorted(path.stem for path in (ROOT / "samples").glob("[01]*.py")), "attention/five_stages", "attention/graph",
    "attention/streaming", "moe/moe", "moe/graph", "server/server",
]  # fmt: skip
START = """
import runpy, sys
from acl_py.compat import cuda
{driver}
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def play(name, *, on_card=False):
    """Run the sample *name*, and return its output and the last line of its errors, if it ends with one."""
    driver = "" if on_card else "cuda.install(device='h200', workers=1)"
    command = [sys.executable, "-c", START.format(driver=driver), f"samples/{name}.py"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ACL_PY_DEVICE": "cuda:0", "ACL_PY_BODIES": "host"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


def wrong(name, *, on_card=False):
    """Return what *name* does in place of what it should; nothing if that is what it does."""
    _, end = play(name, on_card=on_card)
    return end if ENDS.get(name, "") not in end or (name not in ENDS and end) else ""


def report(*, on_card):
    """Print how each sample ends on a card."""
    for name in NAMES:
        end = wrong(name, on_card=on_card)
        print(f"{name}: {end or ('ends as it should' if name in ENDS else 'runs')}", flush=True)
