"""stumpy's gpu_stump here and in the simulator of numba: results are those of stump, and the processor time of each."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SCRIPT = _ROOT / "tests/cuda/scripts/matrix_profile.py"


def run(count: str = "120", window: str = "20") -> None:
    """Print the seconds that a series of *count* points takes with windows of *window* points."""
    simulator = _seconds([str(_SCRIPT), count, window], NUMBA_ENABLE_CUDASIM="1")
    here = _seconds(["-m", "acl_py", "run", str(_SCRIPT), count, window])
    print(f"simulator of numba {simulator:7.2f} s")
    print(f"acl_py             {here:7.2f} s, {here / simulator:.0%}")


def _seconds(arguments: list[str], **environment: str) -> float:
    path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, *arguments]
    surroundings = {**os.environ, "PYTHONPATH": path, **environment}
    return float(subprocess.run(command, env=surroundings, stdout=subprocess.PIPE, text=True, check=True).stdout)
