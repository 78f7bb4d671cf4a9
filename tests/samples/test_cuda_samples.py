"""The samples of samples/cuda run by `acl-py run`, and print what the file beside each says.

They need packages for CUDA, of the versions in tests/cuda/constraints.txt, so the site has no pictures of them.
`python -m tests.samples.test_cuda_samples` writes the files again.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.samples.cuda_packages import needs_packages

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "samples" / "cuda"
SAMPLES = sorted(FOLDER.glob("*.out"))
_SANITIZED = ("--sanitize=device", "--fix")
OPTIONS = {"stale_core": _SANITIZED, "stale_numba": _SANITIZED}


def run(*arguments):
    quiet = {"PYTHONPATH": str(ROOT), "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=FOLDER, env=os.environ | quiet, capture_output=True, text=True, check=False)


def output_of(name):
    """What the sample prints, and the summary of its run."""
    options = OPTIONS.get(name, ())
    done = run("-m", "acl_py", "run", *options, f"{name}.py")
    assert done.returncode == (4 if options else 0), done.stderr
    return done.stdout + done.stderr[done.stderr.index("acl-py: h200") :]


@needs_packages
@pytest.mark.parametrize("output", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_prints_what_the_file_beside_it_says(output):
    assert output_of(output.stem) == output.read_text(encoding="utf-8")


@needs_packages
def test_the_tests_of_a_library_pass_with_faults():
    done = run("-m", "pytest", "--cuda", "-p", "no:cacheprovider", "-q", "-o", "addopts=", "test_smoothing.py")
    assert "3 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("output", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_says_what_it_shows_and_how_it_is_run(output):
    text = output.with_suffix(".py").read_text(encoding="utf-8")
    assert text.startswith('"""Shows: ')
    assert re.search(rf"Run it with `acl-py run [^`]*{output.stem}\.py`\.", " ".join(text.split()))


def test_the_recorded_outputs_show_stale_bytes_findings_and_prices():
    text = {each.stem: each.read_text(encoding="utf-8") for each in SAMPLES}
    for name in OPTIONS:
        assert re.match(r"wanted (\d+) in ([\d,]+) places, and \2 have something else: 0\.0\n", text[name])
        assert "tried: the finding is gone" in text[name]
    pageable, pinned = map(float, re.findall(r"([\d.]+) ms", text["pageable"]))
    before, after = map(float, re.findall(r"by_\w+, ([\d.]+) us:", text["coalescing"]))
    assert (pageable > 3 * pinned, before > 3 * after) == (True, True)


if __name__ == "__main__":
    for each in sorted({*(path.stem for path in SAMPLES), *sys.argv[1:]}):
        (FOLDER / f"{each}.out").write_text(output_of(each), encoding="utf-8")
