"""All that a change of form leaves as it is, as files: run it before and after, and compare with `diff -r`.

    python -m tests.measures outputs FOLDER

FOLDER gets these. Nothing in them depends on the time of day or on where this checkout is.

    printed/    what each sample prints, and each script of samples/acl with its summary
    traced/     for samples that differ in kind: trace files of all formats, reports, findings, pages, stream programs
    replayed/   tables of the measured stream programs under both vendors' rules, with what the sanitizer finds in them
    names.json  names and signatures of the packages

Files that `acl-py report` reads are not among them, because their form may change: their reports are. samples/server is
not traced, because it has a client in real time. All of it takes three minutes of processor time.
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import forks
from tests.measures.sources import ROOT
from tests.samples.test_acl_scripts import DEVICE
from tests.test_public_names import PACKAGES, written
from tests.test_samples import APPS, SAMPLES

TRACED = (
    "02_sync_to_async",
    "03_events_and_timing",
    "04_pinned_and_pageable",
    "06_nonblocking_and_per_thread",
    "07_host_functions",
    "08_stream_ordered_allocation",
    "11_two_rules",
    "12_deadlock_chain",
    "13_faults",
    "18_mbarrier",
    "19_managed_memory",
    "acl/pipeline",
    "acl/several_devices",
    "acl/signals",
    "acl/sync_inference",
    "aicore/add_flags",
    "attention/graph",
    "moe/graph",
)
BY_CHANCE = ("worker_threads",)  # the system decides which of its threads does what, so the summary differs
FORMATS = {
    "chrome": "chrome.json",
    "kineto": "kineto.json",
    "msprof": "msprof",
    "msprof-op": "msprof-op",
    "csv": "table.csv",
    "program": "program.json",
}
REPLAYED = ("gaps", "graphs", "managed", "pageable", "semantics", "staging", "sticky_error", "timelines", "waits")
_ERRORS = "\nstandard error:\n"


def acl_py(*arguments, cwd):
    """What `acl-py *arguments` prints in the folder *cwd*, and its exit code, which is 2 for wrong arguments."""
    done = forks.run("-m", "acl_py", *arguments, cwd=cwd)
    assert done.returncode != 2, done.stderr
    return f"exit code {done.returncode}\n\nstandard output:\n{done.stdout}{_ERRORS}{done.stderr}"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def print_all(samples, folder):
    """Write what each of the *samples* prints to *folder*."""
    for sample in [*SAMPLES, *APPS]:
        name = sample.relative_to(ROOT / "samples").with_suffix("")
        done = forks.run("-u", samples / name.with_suffix(".py"), cwd=samples, is_joined=True)
        write(folder / f"{name}.txt", f"exit code {done.returncode}\n\n{done.stdout}")
    for script in sorted([*samples.glob("acl/*.py"), *samples.glob("acl/hanging/*.py")]):
        device = DEVICE.get(script.stem, "ascend910b3")
        name = script.relative_to(samples).with_suffix("")
        text = acl_py("run", "--device", device, script, cwd=samples)
        write(folder / f"{name}.txt", text.partition(_ERRORS)[0] if script.stem in BY_CHANCE else text)


def trace(name, samples, folder):
    """Write the traces of the sample *name* to *folder* in all formats, and what is made of them."""
    folder.mkdir(parents=True)
    script = samples / f"{name}.py"
    for form, file in FORMATS.items():
        acl_py("run", "--trace", folder / file, "--format", form, script, cwd=samples)
    sanitize = ("--sanitize", "--findings", folder / "findings.json")
    pages = ("--report", folder / "page.html", "--explain")
    write(folder / "printed.txt", acl_py("run", *sanitize, *pages, script, cwd=samples))
    with TemporaryDirectory() as saved:
        acl_py("run", "--trace", Path(saved) / "trace", "--format", "acl", script, cwd=samples)
        for each in sorted(Path(saved).iterdir()):
            write(folder / f"report-{each.name}.txt", acl_py("report", each.name, cwd=saved))
    for program in sorted(folder.glob("program*.json")):
        write(folder / f"replayed-{program.stem}.txt", acl_py("replay", program.name, cwd=folder))


def replay(name, folder):
    """Write what the measured programs of the file *name* do on two devices to *folder*."""
    data = ROOT / "tests" / "conformance" / "data"
    for device in ("h200", "ascend910b3"):
        write(folder / f"{name}-{device}.txt", acl_py("replay", "--device", device, f"{name}.json", cwd=data))
    findings = folder / f"{name}-findings.json"
    text = acl_py("replay", "--sanitize", "--findings", findings, f"{name}.json", cwd=data)
    write(folder / f"{name}-findings.txt", text)


def make_equal(folder, samples):
    """Take out of the files in *folder* where *folder* and *samples* are."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            for place, name in ((folder, b"FOLDER"), (samples, b"SAMPLES"), (ROOT, b"ROOT")):
                content = content.replace(str(place).encode(), name)
            path.write_bytes(content)


def main(arguments):
    if len(arguments) != 1 or (folder := Path(arguments[0]).resolve()).exists():
        sys.exit("python -m tests.measures outputs FOLDER: a folder that is not there yet")
    # Paths are as long as those of any other run: lines of reports are wrapped, and columns are as wide as their texts.
    with TemporaryDirectory() as place:
        samples, made = Path(place, "samples"), Path(place, "outputs")
        shutil.copytree(ROOT / "samples", samples, ignore=shutil.ignore_patterns("__pycache__", "notebooks", "*.out"))
        print_all(samples, made / "printed")
        for name in TRACED:
            trace(name, samples, made / "traced" / name)
        for name in REPLAYED:
            replay(name, made / "replayed")
        names = {package: written(package) for package in PACKAGES}
        write(made / "names.json", json.dumps(names, indent=1) + "\n")
        make_equal(made, samples)
        shutil.copytree(made, folder)
