"""Public host scripts and notebooks, unmodified under `acl-py run`: data/public_scripts.json names them.

They lie in a folder of the user, in one folder for each repository, with the name of the repository. Notebooks need
IPython. A script that imports CuPy or torch, or uses textures, cannot come to its end.
"""

import json
import subprocess
import sys
from pathlib import Path

_LIMIT_S = 300
_FAILED_CELL = "Unknown failure executing file"  # IPython ends with 0 after it
_LIST = Path(__file__).parent / "data" / "public_scripts.json"


def scripts(option: str, folder: str) -> None:
    """Run each script in *folder*, and print how it has ended, with the last line of a failure."""
    if option != "--suites":
        raise SystemExit("python -m tests.cuda scripts --suites DIR")
    ended = 0
    rows = json.loads(_LIST.read_text(encoding="utf-8"))
    for row in rows:
        path = Path(folder, row["repository"].partition("/")[2], row["path"])
        told = _told(path) if path.exists() else f"not there: get {row['repository']} at {row['commit']}"
        ended += not told
        print(f"{row['repository']}/{row['path']}: {told or 'right'}", flush=True)
    print(f"{ended} of {len(rows)} come to their end")


def _told(path: Path) -> str:
    """Return why the script at *path* does not come to its end; "" if it does."""
    form = ("-m", "IPython") if path.suffix == ".ipynb" else ()
    command = [sys.executable, "-m", "acl_py", "run", "--no-sanitize", *form, path.name]
    try:
        done = subprocess.run(
            command, cwd=path.parent, capture_output=True, text=True, check=False, timeout=_LIMIT_S, input=""
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {_LIMIT_S} s"
    if not done.returncode and _FAILED_CELL not in done.stderr:
        return ""
    errors = done.stderr.partition("\nacl-py: ")[0].splitlines() or done.stdout.splitlines() or [""]
    return f"exit code {done.returncode}: {errors[-1]}"
