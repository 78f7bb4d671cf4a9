"""A machine with a card: which driver a program gets, and whether the card notices ours.

It prints what it saw: the driver without and with `acl-py run`, the memory and the processes of the card before and
after, and which driver numba finds if it is installed.
"""

import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ASK = """
import ctypes
print(*(ctypes.CDLL(name).cuInit(0) for name in ("libcuda.so.1", "libcuda.so")))
"""
_TELL = """
import ctypes
number, name = ctypes.c_int(), ctypes.create_string_buffer(100)
driver = ctypes.CDLL("libcuda.so.1")
codes = driver.cuInit(0), driver.cuDeviceGetName(name, 100, 0), driver.cuDriverGetVersion(ctypes.byref(number))
uuid = ctypes.create_string_buffer(16)
driver.cuDeviceGetUuid(uuid, 0)
print(codes, name.value.decode(), number.value, "simulated" if uuid.raw.startswith(b"acl_py") else "a card")
"""
_NUMBA = """
from numba import cuda
print(cuda.get_current_device().name, [str(each) for each in [cuda.get_current_device().uuid]])
"""
_QUERIES = "--query-gpu=memory.used", "--query-compute-apps=pid,used_memory"


def look() -> None:
    """Print which driver each way of starting a script finds, and the card before and after."""
    before = _card()
    print("the card before:", before)
    for title, text in (("ctypes", _TELL), ("numba", _NUMBA)):
        if title == "numba" and find_spec("numba") is None:
            print("numba is not installed")
            continue
        print(f"{title}, python:", _run(text))
        print(f"{title}, acl-py run:", _run(text, "-m", "acl_py", "run"))
    after = _card()
    print("the card after:", after, "as before" if after == before else "IT CHANGED")


def _card() -> str:
    """Return the memory and the processes of the card as its tool tells them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "none: there is no nvidia-smi"
    parts = [subprocess.run([tool, query, "--format=csv,noheader"], capture_output=True, text=True, check=False)
             for query in _QUERIES]  # fmt: skip
    return " | ".join(part.stdout.strip() for part in parts)


def _run(text: str, *before: str) -> str:
    """Run a script, and return its output, or the end of what it complains."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, *before, script], capture_output=True, text=True, check=False)
    return done.stdout.strip() or (done.stderr.strip().splitlines() or ["nothing"])[-1]
