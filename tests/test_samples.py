"""Each sample prints what the file beside it says. `python tests/test_samples.py` writes those files anew."""

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = sorted((Path(__file__).parent.parent / "samples").glob("[0-9][0-9]_*.py"))


def output_of(program: Path) -> str:
    """What *program* prints in an interpreter of its own, where a warning is an error."""
    command = [sys.executable, "-X", "utf8", "-W", "error", str(program)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_a_sample_prints_what_the_file_beside_it_says(sample):
    assert output_of(sample) == sample.with_suffix(".out").read_text(encoding="utf-8")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_a_sample_says_what_it_shows_and_in_which_scenario(sample):
    text = sample.read_text(encoding="utf-8")
    assert text.startswith('"""Shows: ')
    assert "\n\nScenario: " in text


if __name__ == "__main__":
    for sample in SAMPLES:
        sample.with_suffix(".out").write_text(output_of(sample), encoding="utf-8")
