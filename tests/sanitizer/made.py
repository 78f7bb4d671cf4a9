"""Findings made by hand."""

from acl_py.asc import Rule
from acl_py.sanitizer import Access, Finding, Kind, Span

WRITE = Access(
    "h2d 'weights'", True, "task 'loader'", "stream 'copies'", "demo.py:38",
    ("demo.py:90 in main", "demo.py:60 in load"), 1_000, "/home/me/project/src/demo.py",
)  # fmt: skip
READ = Access("kernel 'add'", False, "", "stream 2", "demo.py:41", at_ns=2_000, file="/home/me/project/src/demo.py")
RACE = Finding(
    Kind.RACE,
    "kernel 'add' at demo.py:41 may read 'weights' before the copy at demo.py:38 has written it",
    (WRITE, READ),
    (Span("'weights'", 0, 4096),),
    "stream 2 behind stream 'copies'",
    "record on `copies` after demo.py:38, wait on `stream` before demo.py:41",
    3,
)
LEAK = Finding(
    Kind.LEAK, "4,096 bytes of device memory, made at ünit 1%.py:7, are never freed",
    (Access("Malloc", False, "", "", "ünit 1%.py:7", file="/elsewhere/ünit 1%.py"),),
)  # fmt: skip
MISTAKE = Finding(
    Kind.KERNEL, "GetValue (S) at add.py:5 reads UB[0:4]; missing MTE2_S",
    (Access("kernel 'add'", False, "", "stream 1", "add.py:5", file="/home/me/project/add.py"),),
    missing="MTE2_S", rule=Rule.RAW, kernel="add", where="block 0 (AIV)",
)  # fmt: skip


def in_ptx(site):
    """Return a mistake of a kernel in PTX whose line is *site*."""
    access = Access("kernel 'rev'", False, "", "stream 1", site)
    return Finding(
        Kind.KERNEL, f"thread 0 reads s, in {site}", (access,),
        missing="bar.sync", rule=Rule.RAW, kernel="rev", where="block 0, thread 0",
    )  # fmt: skip
