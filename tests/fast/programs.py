"""Random programs on both cores: the bytes of each trace and each finding are the same.

    python -m tests.fast.programs 5000

runs so many, in a process of each core, and names those that differ. It needs the compiled core (`make test-fast-core`
builds it in .venv-fast/core, which PYTHONPATH then names).
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from acl_py.errors import DeadlockError
from acl_py.programs.format import parse
from device_model.compiled import IS_COMPILED
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.running import run

ROOT = Path(__file__).parents[2]


def digest(seed: int) -> str:
    """Return a hash of all that program *seed* leaves: its trace as a file, its findings, and the answers of calls.

    Of a program that waits without end it is a hash of what the error says.
    """
    rules = programs.RULES[seed % len(programs.RULES)]
    try:
        outcome = run(parse(programs.program(seed, rules)), rules)
    except DeadlockError as hang:
        return hashlib.sha256(str(hang).encode()).hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run.acl")
        outcome.trace.save(file)
        said = [str(finding) for finding, _ in outcome.findings]
        text = repr((outcome.run, said, outcome.notes)).encode()
        return hashlib.sha256(file.read_bytes() + text).hexdigest()


def digests(count: int, pure: bool) -> list[str]:
    """Return what the first *count* programs leave on one of the cores, whose name comes first."""
    command = [sys.executable, "-m", "tests.fast.programs", "--digests", str(count)]
    environment = os.environ | {"ACL_PY_PURE": str(int(pure)), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def differing(count: int) -> list[int]:
    """Return which of the first *count* programs do not leave the same on both cores."""
    (one, *pure), (other, *compiled) = digests(count, True), digests(count, False)
    assert (one, other) == ("pure", "compiled")
    return [seed for seed, (mine, its) in enumerate(zip(pure, compiled, strict=True)) if mine != its]


def main() -> None:
    """Print digests for `differing`, or how many programs differ."""
    count = int(sys.argv[-1])
    if "--digests" in sys.argv:
        print("compiled" if IS_COMPILED else "pure", *map(digest, range(count)), sep="\n")
        return
    differ = differing(count)
    print(f"{count} programs; {len(differ)} differ{': ' if differ else ''}{', '.join(map(str, differ))}")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
