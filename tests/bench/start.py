"""What everybody pays before the first call: the processor time of whole processes, beside one that imports NumPy.

Other work on the machine only adds to the time of a process, so the ratios are those of the least times.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.measure import interleaved, processor_seconds, say, show, spread, target

RUNS = 9
SCRIPT = "import acl\nacl.rt.set_device(0)\n"
NUMPY, PACKAGE, RUN, BARE, PLUGIN = (
    "import numpy",
    "from acl_py import run",
    "acl-py run, a script of two lines",
    "import pytest",
    "import acl_py_pytest",
)


def main():
    with TemporaryDirectory() as folder:
        script = Path(folder, "script.py")
        script.write_text(SCRIPT, encoding="utf-8")
        # Packages that are installed have bytecode, so this one has it too: written by the first, unmeasured run.
        bytecode = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        ways = {
            NUMPY: ["-c", NUMPY],
            PACKAGE: ["-c", PACKAGE],
            RUN: ["-m", "acl_py", "run", str(script)],
            BARE: ["-c", BARE],
            PLUGIN: ["-c", PLUGIN],
        }
        for command in ways.values():
            processor_seconds(command, **bytecode)
        results = interleaved(
            {way: (command,) for way, command in ways.items()},
            RUNS,
            lambda command: processor_seconds(command, **bytecode),
        )
    show(
        "Start: whole processes",
        ("", "ms of processor time"),
        [(way, spread([1000 * each for each in runs], "{:.0f}")) for way, runs in results.items()],
    )
    say(f"  from acl_py import run : import numpy {target(_ratio(results, PACKAGE, NUMPY), 2)}")
    say(f"  acl-py run : import numpy             {target(_ratio(results, RUN, NUMPY), 3.5)}")
    say(f"  pytest with its plugin : without      {target(_ratio(results, PLUGIN, BARE), 1.1)}\n")


def _ratio(results, one, other):
    return min(results[one]) / min(results[other])
