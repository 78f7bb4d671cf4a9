"""Each sample prints what the file beside it says. `python tests/test_samples.py` writes those files again."""

import json
import re
from pathlib import Path

import pytest

from tests import forks

# Those that take seconds; their parts are run by the fast tests of tests/samples and tests/cta.
LONG = (
    "15_copy_pipeline", "aicore", "double_buffer", "experts", "five_stages", "listings", "matmul", "moe", "progression",
    "pipeline", "product_in_steps", "server", "streaming", "streams_and_chunks", "tensor_parallel", "tuned_add",
    "tuning",
)  # fmt: skip
FOLDER = Path(__file__).parent.parent / "samples"
SAMPLES = sorted(FOLDER.glob("[0-9][0-9]_*.py"))
# Those in acl and cuda are scripts for `acl-py run`: see tests/samples/test_acl_scripts.py and test_cuda_samples.py.
# Notebooks: test_notebooks.py.
OTHERS = ("acl", "cuda", "notebooks")
APPS = sorted(output.with_suffix(".py") for output in FOLDER.glob("*/*.out") if output.parent.name not in OTHERS)


def output_of(program: Path) -> str:
    """What *program* prints, and tells on the standard error, in a process of its own; a warning is an error."""
    done = forks.run("-u", program, is_joined=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "sample",
    [pytest.param(sample, marks=pytest.mark.slow if sample.stem in LONG else ()) for sample in [*SAMPLES, *APPS]],
    ids=lambda sample: sample.stem,
)
def test_a_sample_prints_what_the_file_beside_it_says(sample):
    assert output_of(sample) == sample.with_suffix(".out").read_text(encoding="utf-8")


def test_a_sample_says_what_it_shows_and_in_which_scenario():
    for sample in (*SAMPLES, *APPS):
        text = sample.read_text(encoding="utf-8")
        assert text.startswith('"""Shows: '), sample
        assert "\n\nScenario: " in text, sample


def test_a_sample_runs_on_the_simulated_clock():
    for sample in (*SAMPLES, *APPS):
        text = sample.read_text(encoding="utf-8")
        assert re.search(r"\b(acl|acl_py)\.(run|sweep)\b", text), sample
        assert not re.search(r"\b(asyncio|anyio)\.run\b|\.simulate\(|clock=", text), sample


def test_samples_in_ptx_compare_themselves_with_times_that_were_measured():
    rows = json.loads((FOLDER.parent / "tests/bench/rows/ptx_samples.json").read_text(encoding="utf-8"))["rows"]
    measured = {(row["kernel"], row["work"]): row["us_graph"] for row in rows}
    said = (FOLDER / "ptx/matmul.out").read_text(encoding="utf-8") + (FOLDER / "ptx/vector_add.out").read_text("utf-8")
    found = {name: float(us) for name, us in re.findall(r"(\w+): right.* an H200 takes ([\d.]+) us", said)}
    assert found == {name: round(us, 2) for (name, work), us in measured.items() if work != 2048}


def test_the_samples_are_numbered_as_a_course():
    assert [int(sample.name[:2]) for sample in SAMPLES] == list(range(1, len(SAMPLES) + 1))


if __name__ == "__main__":
    for sample in [*SAMPLES, *APPS]:
        sample.with_suffix(".out").write_text(output_of(sample), encoding="utf-8")
