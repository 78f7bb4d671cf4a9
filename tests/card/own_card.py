"""The programs of notebooks for a card of one's own, and what one printed."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = re.compile(r"^# ```python\n(.*?)^# ```$", re.DOTALL | re.MULTILINE)
PRINTED = re.compile(r"^# ```text\n(.*?)^# ```$", re.DOTALL | re.MULTILINE)
NOTEBOOKS = sorted(
    path for path in (ROOT / "samples" / "notebooks").glob("[0-9]*.py") if 'device="cuda:0"' in path.read_text("utf-8")
)
# The driver is slow: fewer bytes and rounds.
_SMALLER = (
    (r"(\d)_000_000", r"\1_000"), (r"_300_000", "_300"), (r"<< 20", "<< 10"), (r"<< 30", "<< 12"), (r"100000", "100"),
    (r"range\(200\)", "range(2)"),
)  # fmt: skip
_BEFORE = "The same calls through cuda-python printed this on an H200 (driver 580, CUDA 13.0)"
_NOW = "An H200 (driver 580, CUDA 13.0) printed this"
_DRIVER = "from acl_py.compat import cuda\ncuda.install(device='h200', workers=1)\n"


def program(notebook):
    """Return the program of *notebook* for a card."""
    (text,) = PROGRAM.findall(notebook.read_text("utf-8"))
    return "".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines(keepends=True))


def output_of(notebook, *, on_card):
    """Run the program of *notebook* on a card; on the simulated driver, a smaller one."""
    text = program(notebook)
    if not on_card:
        for pattern, smaller in _SMALLER:
            text = re.sub(pattern, smaller, text)
        text = _DRIVER + text
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert not done.returncode, done.stderr
    return done.stdout


def show(*, on_card):
    """Print what each program prints; write it into the notebook, if that has a block for it and it ran on a card."""
    for notebook in NOTEBOOKS:
        output = output_of(notebook, on_card=on_card)
        print(f"{notebook.stem}\n{output}", flush=True)
        if on_card:
            lines = "".join(f"# {line}\n" for line in output.splitlines())
            text = PRINTED.sub(lambda _: f"# ```text\n{lines}# ```", notebook.read_text("utf-8"))  # noqa: B023
            notebook.write_text(text.replace(_BEFORE, _NOW), encoding="utf-8")
