"""What the layers do not see (pyproject.toml, import-linter): the device model knows neither clock nor chance nor
event loop, and only what waits meets an event loop. The layers themselves are tried here, too."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DEVICE_FILES = sorted((ROOT / "device_model").rglob("*.py"))
HOST_FILES = sorted((ROOT / "acl_py").rglob("*.py"))
FORBIDDEN = {"asyncio", "acl_py", "anyio", "uvloop", "time", "datetime", "random", "secrets", "uuid", "structlog"}


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    """All nodes of the syntax tree of *file*."""
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def imports(file: Path) -> Iterator[str]:
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name} imports relatively"
            yield node.module or ""


def relative(file: Path) -> str:
    return str(file.relative_to(ROOT))


def nodes(files: list[Path], kind: UnionType) -> Iterator[tuple[str, Any]]:
    """The nodes of a kind in the syntax trees of *files*, each with the name of its file."""
    for file in files:
        for node in nodes_of(file):
            if isinstance(node, kind):
                yield relative(file), node


def is_set(looped: ast.expr) -> bool:
    is_call = isinstance(looped, ast.Call) and isinstance(looped.func, ast.Name)
    return isinstance(looped, ast.Set | ast.SetComp) or (is_call and looped.func.id in ("set", "frozenset"))


def test_the_device_model_is_below_everything():
    names = {(relative(file), name) for file in DEVICE_FILES for name in imports(file)}
    assert not {(file, name) for file, name in names if name.split(".")[0] in FORBIDDEN}


def test_the_device_model_never_iterates_a_set():
    """As far as reading can tell: no loop over a set display or a call of set() or frozenset()."""
    loops = [(file, node.iter) for file, node in nodes(DEVICE_FILES, ast.For | ast.comprehension)]
    assert [f"{file}:{looped.lineno}" for file, looped in loops if is_set(looped)] == []


def test_the_device_model_has_no_coroutines():
    assert [f"{file}:{node.lineno}" for file, node in nodes(DEVICE_FILES, ast.AsyncFunctionDef | ast.Await)] == []


def test_only_the_bridge_meets_the_event_loop():
    """Others may name tasks and futures; only what waits, or sees what tasks hand on, uses a loop's insides."""
    own = ("bridge.py", "clock.py", "hang.py", "host_queues.py", "hosts.py", "loops.py", "own_hosts.py",
           "real_timers.py", "tasks.py")  # fmt: skip
    words = ("call_soon", "create_future", "._ready", "_fut_waiter", "call_later")
    texts = {relative(file): file.read_text(encoding="utf-8") for file in HOST_FILES if file.name not in own}
    assert [(file, word) for file, text in texts.items() for word in words if word in text] == []


UPWARDS = [
    ("device_model/scheduler.py", "import device_model.ops"),
    ("device_model/aicore/core/names.py", "import device_model.aicore.vector.masks"),
    ("acl_py/runtime/scopes.py", "import acl_py.verbs.streams"),
    ("acl_py/log.py", "import acl_py.trace.rows.decoding"),
    ("acl_py/verbs/streams.py", "import acl_py"),
    ("acl_py/compat/acl/face/session.py", "import acl_py.compat.acl.functions.rt.streams"),
    ("acl_py/trace/views/drawing.py", "import acl_py.trace.views.chart"),
]


def lint_imports(folder):
    """The exit status of import-linter in *folder*, and what it prints."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_imports_point_down():
    status, report = lint_imports(ROOT)
    assert status == 0, report


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("file", "statement"), UPWARDS)
def test_an_import_that_points_up_is_found(tmp_path, file, statement):
    for package in ("acl_py", "device_model"):
        shutil.copytree(ROOT / package, tmp_path / package)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / file).open("a", encoding="utf-8") as source:
        source.write(f"\n{statement}\n")
    status, report = lint_imports(tmp_path)
    assert status == 1
    assert file.removesuffix(".py").replace("/", ".") in report or "acyclic" in report
