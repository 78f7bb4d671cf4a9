"""Do the tests notice a change of the code? `python -m tests.mutants [mutants] [seed]`, or `make mutants`.

60 mutants are drawn with seed 1, at least 4 from each of the `ROOMS` (drawing.py). They are made in copies of the
working tree, two at a time, so nothing here is changed. With WORKERS=8 there are eight, and with DASK=ADDRESS they are
made on the workers of a cluster, which share this file system.

First all tests run once without a change. That shows whether they pass, and which test files run which functions
(reach.py); the result is kept in build/mutants.json until a file of the project changes. Then each mutant meets the
test files that run the changed function: at first the fast ones, which take half a minute together, then the others and
all test files that start processes. A test file that does not run the changed function cannot notice the change.

A mutant that passes all of them survives, and is shown with its diff. One that changes nothing that a program could see
is listed in equivalent.toml, with the reason, and meets no tests. The exit code is 1 if any other survives, or if the
tests fail without a change.

Two idle cores need half an hour, and more if several mutants survive the fast tests.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from platform import node
from tempfile import TemporaryDirectory

from acl_py.cli.crews import crew_of_processes
from tests.mutants.drawing import ROOMS, ROOT, Mutant, draw, files_of, places
from tests.mutants.reach import FILES, NOTES, Reach, merged

TESTS = ("tests/device_model", "tests/acl_py", "tests/conformance", "tests/faults", "tests/sanitizer", "tests/cta")
COUNT, SEED, LEAST = 60, 1, 4
NEAR_S = 30  # of the tests that run first
LIMIT_S = 1800  # of one run; a mutant that takes longer is noticed, too
WATCHED_LIMIT_S = 3600  # of the run without a change
AT_ONCE = 2
KEPT = ROOT / "build" / "mutants.json"
_RUN = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-seed=1")


def tree_files() -> list[str]:
    """The files of the working tree that git knows or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True, encoding="utf-8",
    )  # fmt: skip
    return sorted(name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


def copy_tree(into: Path) -> None:
    """Copy these files."""
    for name in tree_files():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, into / name)


def run(
    tree: Path, *arguments: str, limit_s: int = LIMIT_S, **variables: str
) -> "subprocess.CompletedProcess[str] | None":
    """Run pytest in *tree*; None if it takes too long."""
    command = [sys.executable, "-m", "pytest", *_RUN, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "COVERAGE_CORE": "ctrace"}  # a newer core has one context only
    try:
        return subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, encoding="utf-8", timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return None


def failures(done: "subprocess.CompletedProcess[str] | None") -> list[str]:
    """The tests that failed in a run, in words."""
    if done is None:
        return ["it takes too long"]
    if not done.returncode:
        return []
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed or (done.stdout + done.stderr).strip().splitlines()[-1:]


def reach_of(tree: Path) -> Reach:
    """What the tests run without a change; kept from an earlier run if nothing has changed since.

    Raises:
        SystemExit: They fail.
    """
    digest = hashlib.sha256()
    for name in tree_files():
        digest.update(f"{name}\0".encode() + (ROOT / name).read_bytes())
    if KEPT.exists():
        kept, *fields = json.loads(KEPT.read_text(encoding="utf-8"))
        if kept == digest.hexdigest():
            return Reach(*fields)
    with TemporaryDirectory() as notes:
        files = json.dumps([file for room in ROOMS for file in files_of(room)])
        watched = ("-n", str(AT_ONCE), "--dist", "loadfile", "-p", "tests.mutants.reach", *TESTS)
        failed = failures(run(tree, *watched, limit_s=WATCHED_LIMIT_S, **{FILES: files, NOTES: notes}))
        if failed:  # perhaps because it was watched
            tests = sorted({line.split()[1].partition("::")[0] for line in failed if line.startswith("FAILED")})
            again = failures(run(tree, "-p", "no:xdist", *tests)) if tests else failed
            if again:
                raise SystemExit("without any change:\n" + "\n".join(again))
        reach = merged(Path(notes), ROOT)
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps([digest.hexdigest(), *reach]), encoding="utf-8")
    return reach


def stages(mutant: Mutant, reach: Reach) -> Iterator[list[str]]:
    """The test files that *mutant* meets: the fast near ones, then the others."""
    near, others = reach.tests_of(mutant.file, mutant.line, mutant.original)
    seconds, count = 0.0, 0
    for test in near:
        seconds += reach.seconds[test]
        if count and seconds > NEAR_S:
            break
        count += 1
    yield near[:count]
    yield near[count:] + others


@dataclass(frozen=True)
class Check:
    """Says what notices a mutant, in a copy of the tree in *folder*, one for each worker; it is put right again."""

    folder: str
    reach: Reach

    def __call__(self, mutant: Mutant) -> str | None:
        if reason(mutant) is not None:
            return None
        tree = Path(self.folder, f"{node()}-{os.getpid()}-{threading.get_ident()}")
        if not tree.exists():
            copy_tree(tree)
        file = tree / mutant.file
        try:
            file.write_text(mutant.text, encoding="utf-8")
            for tests in stages(mutant, self.reach):
                if tests and (failed := failures(run(tree, "-x", "-p", "no:xdist", *tests))):
                    return failed[0]
            return None
        finally:
            file.write_text(mutant.original, encoding="utf-8")


def reason(mutant: Mutant) -> str | None:
    """Why no test can notice *mutant*, if that is known."""
    known = tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text(encoding="utf-8"))["mutant"]
    change = mutant.file, mutant.before, mutant.after
    return next((each["reason"] for each in known if (each["file"], each["before"], each["after"]) == change), None)


def main(count: int = COUNT, seed: int = SEED) -> int:
    """Draw, run and report: the exit code."""
    begin = time.monotonic()
    everything = list(places())
    drawn = draw(everything, count, seed, LEAST)
    print(f"{len(drawn)} of {len(everything)} mutants of {', '.join(ROOMS)}, drawn with seed {seed}", flush=True)
    dask = os.environ.get("DASK", "")
    workers = None if dask else int(os.environ.get("WORKERS", AT_ONCE))
    with TemporaryDirectory() as folder, crew_of_processes(workers, dask) as crew:
        copy_tree(Path(folder) / "first")
        reach = reach_of(Path(folder) / "first")
        print(f"the tests pass without a change ({time.monotonic() - begin:.0f} s)", flush=True)
        noticed = crew.as_they_end(Check(folder, reach), drawn)
        survivors = [drawn[place] for place, by in noticed if report(drawn[place], by)]
    unexplained = sum(reason(each) is None for each in survivors)
    print(f"{len(survivors)} of {len(drawn)} survive, {unexplained} of them without a reason in equivalent.toml")
    print(f"{time.monotonic() - begin:.0f} s")
    return int(unexplained > 0)


def report(mutant: Mutant, by: str | None) -> bool:
    """Print what has noticed *mutant*, or its diff, and return whether it survives."""
    print(f"{mutant.room}: {mutant.file}:{mutant.line}: {by or 'SURVIVES'}")
    if by is None:
        print(f"{mutant.diff}\n    {reason(mutant) or 'no test notices it'}", flush=True)
    else:
        print(f"  - {mutant.before}\n  + {mutant.after}", flush=True)
    return by is None


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
