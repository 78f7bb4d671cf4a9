"""The layers: imports point one way, and the device model knows neither clock nor chance nor event loop."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DEVICE_FILES = sorted((ROOT / "device_model").rglob("*.py"))
HOST_FILES = sorted((ROOT / "acl_py").rglob("*.py"))
FORBIDDEN = {"asyncio", "acl_py", "anyio", "uvloop", "time", "datetime", "random", "secrets", "uuid", "structlog"}


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name} imports relatively"
            yield node.module or ""


def relative(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", DEVICE_FILES, ids=relative)
def test_the_device_model_is_below_everything(file):
    assert not {name.split(".")[0] for name in imports(file)} & FORBIDDEN


@pytest.mark.parametrize("file", DEVICE_FILES, ids=relative)
def test_the_device_model_never_iterates_a_set(file):
    """As far as reading can tell: no loop over a set display or a call of set() or frozenset()."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for looped in [node.iter] if isinstance(node, ast.For | ast.comprehension) else []:
            assert not isinstance(looped, ast.Set | ast.SetComp), f"line {looped.lineno} iterates a set"
            is_call = isinstance(looped, ast.Call) and isinstance(looped.func, ast.Name)
            assert not (is_call and looped.func.id in ("set", "frozenset")), f"line {looped.lineno} iterates a set"


@pytest.mark.parametrize("file", DEVICE_FILES, ids=relative)
def test_the_device_model_has_no_coroutines(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await)]


@pytest.mark.parametrize("file", HOST_FILES, ids=relative)
def test_only_the_bridge_meets_the_event_loop(file):
    """Others may name tasks and futures; only what waits uses a loop's insides, and simulation starts one."""
    if file.name in ("bridge.py", "hang.py", "loops.py", "tasks.py"):
        return
    text = file.read_text(encoding="utf-8")
    assert not [word for word in ("call_soon", "create_future", "._ready", "_fut_waiter", "call_later") if word in text]
