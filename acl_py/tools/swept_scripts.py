"""Scripts that are swept: each point runs the script as `acl-py run` does, in a process of its own.

A script has no parameters, so its points name variables of its environment and arguments. Its row has the simulated
time of its recording, and the last line that it printed, as JSON if it is that.
"""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from acl_py import __version__
from acl_py.sweeps.points import OPTIONS, Point, check_options
from acl_py.sweeps.rows import Row
from acl_py.sweeps.running import numbers_of, save_trace
from acl_py.trace.rows.files import TraceFileError, read_trace

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b")  # how the last line of a traceback begins
ENV, ARG = "env ", "arg "  # how the names of variables and arguments begin in a point


@dataclass(frozen=True)
class ScriptJob:
    """What all points of a sweep share: the path of the *script*, and the folder of *traces*, "" for none.

    In a point, names that begin with ENV are variables of the environment. Those that begin with ARG are arguments, in
    their order.
    """

    script: str
    traces: str = ""

    def __call__(self, point: Point) -> Row:
        """Run the script at *point*."""
        begin = time.perf_counter()
        with TemporaryDirectory(prefix="acl-py-") as folder:
            recording = Path(folder, "run.acl")
            command = [sys.executable, "-m", "acl_py", "run", *_options(point, folder), "--trace", str(recording)]
            done = subprocess.run(
                [*command, "--format", "acl", self.script, *_arguments(point)],
                env=os.environ | dict(_named(point, ENV)) | {"PYTHONWARNINGS": "ignore"},
                stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", check=False,
            )  # fmt: skip
            wall_s = time.perf_counter() - begin
            if done.returncode:
                return Row(point, error=_failure(done.returncode, done.stderr), wall_s=wall_s)
            try:
                timeline = read_trace(recording)
            except TraceFileError as error:
                return Row(point, error=str(error), wall_s=wall_s)
        trace = save_trace(timeline, self.traces, point) if self.traces else ""
        numbers = numbers_of(timeline.ops, timeline.calls, 0)
        return Row(point, timeline.end_ns / 1000, _last_line(done.stdout), numbers, wall_s=wall_s, trace=trace)


def is_function(program: str) -> bool:
    """Return whether `acl-py sweep PROGRAM` means a function: one that it names, or `async def main` of a file.

    Raises:
        OSError: There is no such file.
        SyntaxError: It is no Python.
    """
    if not program.endswith(".py"):
        return True
    body = ast.parse(Path(program).read_bytes(), program).body
    return any(isinstance(each, ast.AsyncFunctionDef) and each.name == "main" for each in body)


def check_points(script: str, points: Sequence[Point]) -> None:
    """Refuse points that no script can have.

    Raises:
        ValueError: A name is no option; there is no such card, rules, overlay or fault rule; or there are both an
            overlay and changes.
    """
    for point in points:
        unknown = [name for name in point if name not in OPTIONS and not name.startswith((ENV, ARG))]
        if unknown:
            raise ValueError(
                f"{script} is a script, which has no parameter {', '.join(unknown)}: give --env NAME=VALUES or --arg "
                f"VALUES, or name a coroutine function, as in {script}:main"
            )
        if point.get("seed") is not None:
            raise ValueError("seed: scripts begin their simulations themselves; give them the seed by --env or --arg")
        if point.get("overlay") is not None and point.get("changes") is not None:
            raise ValueError("a script takes an overlay or changes, not both")
        check_options(point)


def state_of_script(script: str) -> str:
    """Return what stands for *script*: its text, and those of the modules of its folder that it imports."""
    digest = hashlib.sha256(__version__.encode())
    for path in _modules(Path(script), {}):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:24]


def _modules(file: Path, seen: dict[Path, None]) -> Iterator[Path]:
    seen[file] = None
    yield file
    for node in ast.walk(ast.parse(file.read_bytes(), str(file))):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            path = file.parent / f"{name.partition('.')[0]}.py"
            if path not in seen and path.is_file():
                yield from _modules(path, seen)


def _named(point: Point, kind: str) -> Iterator[tuple[str, str]]:
    return ((name.removeprefix(kind), str(value)) for name, value in point.items() if name.startswith(kind))


def _arguments(point: Point) -> list[str]:
    return [f"{name}={value}" if name.startswith("-") else value for name, value in _named(point, ARG)]


def _options(point: Point, folder: str) -> list[str]:
    """Return the options of `acl-py run`."""
    options = [f"--{name}={point[name]}" for name in ("device", "rules", "overlay") if point.get(name) is not None]
    if point.get("changes") is not None:
        file = Path(folder, "changes.toml")
        file.write_text(str(point["changes"]), encoding="utf-8")
        options.append(f"--overlay={file}")
    faults = point.get("faults") or []
    return [*options, *(f"--fault={each}" for each in ([faults] if isinstance(faults, str) else faults))]


def _failure(code: int, errors: str) -> str:
    """Say how a script failed: by the exception that ended it, if one did."""
    exceptions = [line for line in errors.splitlines() if _EXCEPTION.match(line)]
    return f"exit code {code}" + (f": {exceptions[-1]}" if exceptions else "")


def _last_line(output: str) -> Any:
    """Return the last line that was printed, read as JSON if it is that; None if there is none."""
    lines = output.strip().splitlines()
    if not lines:
        return None
    try:
        return json.loads(lines[-1])
    except ValueError:
        return lines[-1]
