"""What needs a process of its own: failures that lose the card, and imports."""

import os
import subprocess
import sys

import pytest

from tests.forks import ROOT

OURS = "import acl_py.compat.cuda; acl_py.compat.cuda.install(device='h200')\n"
BAD = """
.version 7.8
.target sm_80
.address_size 64
.visible .entry bad()
{
    .reg .u64 %a;
    mov.u64 %a, 64;
    st.global.u32 [%a], 1;
    ret;
}
"""


def run(text):
    driver = "" if os.environ.get("ACL_PY_CARD") else OURS
    command = [sys.executable, "-c", driver + text]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


LOSING = """
import acl_py
from acl_py import AclError

async def said(call):
    try:
        await call
    except AclError as error:
        print(error.code, "start a new one" in str(error))

async def main():
    stream = await acl_py.CreateStream()
    bad = (await acl_py.ptx.load(BAD))["bad"]
    await said(await bad[1, 1, stream]())
    await said(acl_py.Malloc(8))
    await said(acl_py.SynchronizeStream(stream))

acl_py.run(main, device="cuda:0")
try:
    acl_py.run(main, device="cuda:0")
except AclError as error:
    print("again", error.code)
"""


def test_a_failure_that_loses_the_card_is_said_at_each_call_and_ends_the_next_run():
    pytest.importorskip("cuda.pathfinder", reason="cuda.bindings is not installed")
    done = run(f"BAD = {BAD!r}" + LOSING)
    assert done.stdout.splitlines() == ["700 True"] * 3 + ["again 700"], done.stderr


def test_nothing_of_a_card_is_imported_before_it_is_asked_for():
    text = "import acl_py, sys; acl_py.run(acl_py.Malloc, 8); print(*sys.modules, sep=chr(10))"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.splitlines() if name.startswith(("acl_py.card", "cuda"))]


def test_a_missing_package_is_said_with_the_command_that_helps():
    without = "import sys; sys.modules['cuda.bindings.driver'] = None"
    text = f"{without}; import acl_py; acl_py.run(acl_py.Malloc, 8, device='cuda:0')"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: a card needs the package cuda-bindings: pip install 'acl_py[cuda]'"
    )
