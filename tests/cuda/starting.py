"""The start of a script: its processor time under `acl-py run`, and as Python starts it."""

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
        alone = min(_spent([sys.executable, script]) for _ in range(_RUNS))
        ours = min(_spent([sys.executable, "-m", "acl_py", "run", script]) for _ in range(_RUNS))
    print(f"python {alone:.2f} s, acl-py run {ours:.2f} s: {ours / alone:.2f} times")


def _spent(command: list[object]) -> float:
    """Return the processor time of a process, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(each) for each in command], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
