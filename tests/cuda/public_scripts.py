"""Public host scripts and notebooks, unmodified under `acl-py run`: data/public_scripts.json names them.

They lie in a folder of the user, in one folder for each repository, with the name of the repository. Each needs the
extra `cuda`, numba-cuda, IPython, Matplotlib and SciPy. A row has what its script prints when it is right, where the
script does not check that itself, and the reason of one that does not come to its end.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_LIMIT_S = 600  # of processor time
_FAILED_CELL = "Unknown failure executing file"  # IPython ends with 0 after it
_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # IPython has it also where nobody looks
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")  # the line of a traceback that says it
_HERE = Path(__file__).parent
_LIST = _HERE / "data" / "public_scripts.json"


class Script(NamedTuple):
    """A script: where it is from, the package that it is for, what it must print, and why it does not end well."""

    repository: str
    commit: str
    path: str
    uses: str
    prints: str = ""  # a regular expression
    why: str = ""

    def place(self, folder: Path) -> Path:
        """Return where it lies in *folder*."""
        return folder / self.repository.partition("/")[2] / self.path

    def command(self) -> tuple[str, ...]:
        """Return what runs it, behind `acl-py run`, in its own folder."""
        name = Path(self.path).name
        if name.endswith(".ipynb"):
            return "-m", "IPython", name
        return (str(_HERE / "plugins" / "beside_checkout.py"), name) if self.uses == "cuda.bindings" else (name,)


def listed() -> list[Script]:
    """Return the scripts, in the order of the file."""
    return [Script(**row) for row in json.loads(_LIST.read_text(encoding="utf-8"))]


def scripts(*arguments: str) -> None:
    """Print the table of the scripts; with `--suites DIR`, run each in that folder and print how it ends."""
    if not arguments:
        print("\n".join(table()))
        return
    option, folder, *parts = arguments
    if option != "--suites":
        raise SystemExit("python -m tests.cuda scripts [--suites DIR [PART OF A NAME ...]]")
    wanted = [script for script in listed() if not parts or any(part in script.path for part in parts)]
    ended = 0
    for script in wanted:
        trouble = _trouble(script, Path(folder))
        ended += not trouble
        print(f"{script.repository}/{script.path}: {trouble or 'right'}", flush=True)
        if bool(trouble) != bool(script.why):
            print(f"  expected: {script.why or 'right'}", flush=True)
    print(f"{ended} of {len(wanted)} come to their end")


def table() -> Iterator[str]:
    """Yield the lines of the table in docs/cuda/tried.md."""
    rows = listed()
    yield f"{sum(not script.why for script in rows)} of {len(rows)} come to their right end:"
    yield ""
    yield "| script | for | its end |"
    yield "| --- | --- | --- |"
    for script in rows:
        yield f"| {script.repository.partition('/')[2]}: {script.path} | {script.uses} | {script.why or 'right'} |"


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_LIMIT_S, _LIMIT_S + 5))


def _trouble(script: Script, folder: Path) -> str:
    """Return why *script* does not come to its right end; "" if it does."""
    path = script.place(folder)
    if not path.exists():
        return f"not there: get {script.repository} at {script.commit}"
    command = [sys.executable, "-m", "acl_py", "run", "--no-sanitize", *script.command()]
    environment = os.environ | {"MPLBACKEND": "agg", "PYTHONPATH": str(_HERE.parent.parent)}  # no display is needed
    done = subprocess.run(
        command, cwd=path.parent, env=environment, capture_output=True, text=True, check=False, input="",
        preexec_fn=_limit,
    )  # fmt: skip
    if done.returncode == -signal.SIGXCPU:
        return f"it takes more than {_LIMIT_S} s of processor time"
    if not done.returncode and _FAILED_CELL not in done.stderr:
        return "" if re.search(script.prints, done.stdout) else f"it does not print {script.prints!r}"
    return f"exit code {done.returncode}: {complaint(done.stdout, done.stderr)}"


def complaint(stdout: str, stderr: str) -> str:
    """Return the last line that names an error of the script, or the last one of what it has printed."""
    output, errors = (
        _COLOUR.sub("", stdout).splitlines(),
        _COLOUR.sub("", stderr).partition("\nacl-py: ")[0].splitlines(),
    )
    named = [line for line in errors + output if _ERROR.match(line)]
    return (named or errors or output or [""])[-1]
