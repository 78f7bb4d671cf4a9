"""The start of a script: its processor time under `acl-py run`, and as Python starts it."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

_SCRIPT = "import cuda.core"  # which looks for no driver yet, so it also runs without one
_RUNS = 5


def start() -> None:
    """Print the least processor time of each of the two ways, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(_SCRIPT, encoding="utf-8")
        # Packages that are installed have bytecode, so all have it here: the first round writes it, and does not count.
        bytecode = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        ways = [sys.executable, script], [sys.executable, "-m", "acl_py", "run", script]
        rounds = [[_spent(command, bytecode) for command in ways] for _ in range(1 + _RUNS)]
    alone, ours = map(min, zip(*rounds[1:], strict=True))
    print(f"python {alone:.2f} s, acl-py run {ours:.2f} s: {ours / alone:.2f} times")


def _spent(command: list[object], environment: dict[str, str]) -> float:
    """Return the processor time of a process, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [str(each) for each in command]
    subprocess.run(words, check=True, capture_output=True, env=os.environ | environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
