"""What only some systems have is used in few places, and docs/platforms.md says what is missing without it.

A use in another module fails here: give the module a way without it, or add it to the page and to this list.
"""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [*sorted((ROOT / "acl_py").rglob("*.py")), *sorted((ROOT / "device_model").rglob("*.py"))]
MODULES = {"curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
NAMES = {
    "mmap": {"MAP_ANONYMOUS", "MAP_PRIVATE", "PROT_READ", "PROT_WRITE"},
    "os": {
        "chown", "fchmod", "fchown", "fork", "forkpty", "geteuid", "getloadavg", "getpgid", "getpriority", "getuid",
        "killpg", "memfd_create", "mkfifo", "nice", "pipe2", "posix_fallocate", "posix_spawn", "pread", "pwrite",
        "register_at_fork", "sched_getaffinity", "sched_setaffinity", "sendfile", "set_blocking", "setpgrp", "setsid",
        "statvfs", "sysconf", "uname",
    },
    "signal": {
        "SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGRTMIN", "SIGUSR1", "SIGUSR2", "alarm", "pthread_kill",
        "pthread_sigmask", "setitimer", "siginterrupt", "sigwait",
    },
}  # fmt: skip
FOLDERS = ("/dev/", "/etc/", "/proc/", "/sys/", "/tmp/", "/usr/", "/var/")
# Of each file or folder, what it may use. The driver of CUDA is a shared object for Linux.
ALLOWED = {
    "acl_py/calibrate/machine.py": {"CDLL(None)"},
    "acl_py/calibrate/quiet.py": {"os.getloadavg"},
    "acl_py/card/driver.py": {"os.register_at_fork"},
    "acl_py/compat/acl/functions/prof/subscriptions.py": {"os.set_blocking"},
    "acl_py/compat/acl/processes.py": {"os.register_at_fork"},
    "acl_py/compat/cuda/": {
        "/proc/self/fd/", "CDLL(None)", "os.memfd_create", "os.register_at_fork", "signal.siginterrupt",
    },
    "acl_py/explore/scripts.py": {"forkserver"},
    "acl_py/tools/scripts.py": {"os.register_at_fork", "signal.pthread_sigmask"},
    "acl_py/waiting/frames.py": {"os.register_at_fork"},
    "acl_py/waiting/interrupts.py": {"signal.pthread_kill"},
    "acl_py/waiting/threads.py": {"/proc/self/task"},
    "acl_py/whole_files.py": {"/proc/"},
    "device_model/engines/workers.py": {"os.sched_getaffinity"},
    "device_model/memory/backing.py": {
        "CDLL(None)", "mmap.MAP_ANONYMOUS", "mmap.MAP_PRIVATE", "mmap.PROT_READ", "mmap.PROT_WRITE", "os.memfd_create",
        "os.pwrite", "os.sysconf",
    },
    "device_model/memory/host.py": {"/proc/self/maps", "CDLL(None)", "fork"},  # it asks whether there is a fork
}  # fmt: skip
# To parse all files takes seconds: only those with one of these words are.
WORDS = [
    *FOLDERS, *(f"import {name}" for name in MODULES), *(f"from {name} " for name in [*MODULES, *NAMES]),
    *(f"{owner}.{name}" for owner, names in NAMES.items() for name in names), "CDLL(None", "\"fork", "'fork",
]  # fmt: skip


def uses(source: str) -> set[str]:
    """What *source* uses that not all systems have."""
    if not any(word in source for word in WORDS):
        return set()
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                found |= {each.name for each in names if each.name.partition(".")[0] in MODULES}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module} & MODULES
                found |= {f"{module}.{each.name}" for each in names if each.name in NAMES.get(module, ())}
            case ast.Attribute(value=ast.Name(owner), attr=name) if name in NAMES.get(owner, ()):
                found.add(f"{owner}.{name}")
            case ast.Call(func=ast.Attribute(attr="CDLL") | ast.Name("CDLL"), args=[ast.Constant(None), *_]):
                found.add("CDLL(None)")
            case ast.Constant(str(text)) if text.startswith(FOLDERS) and " " not in text and text.count("/") < 5:
                found.add(text)
            case ast.Constant("fork" | "forkserver" as text):
                found.add(text)
    return found


def without_an_encoding(source: str) -> list[int]:
    """The lines that read or write text in whatever encoding the system has."""
    if "read_text(" not in source and "write_text(" not in source:
        return []
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("read_text", "write_text")
        and not any(keyword.arg == "encoding" for keyword in node.keywords)
        and len(node.args) < (1 if node.func.attr == "read_text" else 2)
    ]


def test_what_not_all_systems_have_is_used_where_the_list_says_and_nowhere_else():
    found = defaultdict(set)
    for file in FILES:
        name = file.relative_to(ROOT).as_posix()
        place = next((each for each in ALLOWED if name == each or (each[-1] == "/" and name.startswith(each))), name)
        found[place] |= uses(file.read_text(encoding="utf-8"))
    assert {place: names for place, names in found.items() if names} == ALLOWED


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import fcntl", "fcntl"),
        ("from os import fork", "os.fork"),
        ("import os\nos.killpg(1, 9)", "os.killpg"),
        ("open('/proc/self/stat')", "/proc/self/stat"),
        ("ctypes.CDLL(None, use_errno=True)", "CDLL(None)"),
        ("get_context('fork')", "fork"),
    ],
)
def test_a_new_use_is_seen(line, name):
    assert uses(line) == {name}


def test_texts_have_an_encoding_that_is_the_same_on_all_systems():
    assert without_an_encoding("Path('a').read_text()\nPath('a').write_text('ä')\n") == [1, 2]
    assert without_an_encoding("Path('a').read_text('utf-8')\nPath('a').write_text('ä', encoding='utf-8')\n") == []
    found = {file.relative_to(ROOT).as_posix(): without_an_encoding(file.read_text("utf-8")) for file in FILES}
    linux = ("acl_py/compat/cuda/", "acl_py/waiting/threads.py")  # files of ASCII: of Linux, or of the driver for it
    assert {name: lines for name, lines in found.items() if lines and not name.startswith(linux)} == {}
