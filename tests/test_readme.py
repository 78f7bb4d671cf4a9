"""What the README shows is what happens: the output of its example, the times of the apps, the timeline.

`python tests/test_readme.py` writes output and times anew, `python samples/notebooks/readme_picture.py` the timeline.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
APPS = {  # the rows of two versions in an app's output
    "samples/moe/moe": ("naive", "pipelined"),
    "samples/attention/five_stages": ("naive", "pipelined"),
    "samples/attention/streaming": ("naive", "double-buffered"),
    "samples/server/server": ("batches of up to 32, one stream", "batches of up to 32, four streams"),
}
EXAMPLE = re.compile(r"```python\n(?P<program>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)


def examples() -> list[re.Match[str]]:
    """The programs of the README, each with the output below it."""
    return list(EXAMPLE.finditer(README.read_text(encoding="utf-8")))


def output_of(program: str) -> str:
    command = [sys.executable, "-X", "utf8", "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_has_a_program_for_streams_and_one_for_ai_cores():
    assert ["asc.kernel" in example["program"] for example in examples()] == [False, True]


@pytest.mark.parametrize("which", [0, 1])
def test_an_example_prints_what_the_readme_says(which):
    assert output_of(examples()[which]["program"]) == examples()[which]["output"]


def with_times(readme: str) -> str:
    """The *readme* with the last two cells of the row of each app as its output has them."""
    for app, versions in APPS.items():
        output = (ROOT / app).with_suffix(".out").read_text(encoding="utf-8")
        cells = [time(output, version) for version in versions]
        row = re.compile(rf"^(\| \[.*\]\({app}\.py\) \| .* )\| .* \| .* \|$", re.MULTILINE)
        readme, found = row.subn(rf"\1| {cells[0]} | {cells[1]} |", readme)
        assert found == 1, f"the README has {found} rows for {app}"
    return readme


def time(output: str, version: str) -> str:
    """What *version* took in the last case of an *output*; a server has a rate instead."""
    number, unit = re.findall(rf"^ *{version} +([\d,.]+)( us)?", output, re.MULTILINE)[-1]
    return number + (unit or " answers per ms")


def test_the_times_of_the_apps_are_those_of_their_outputs():
    text = README.read_text(encoding="utf-8")
    assert with_times(text) == text


def test_the_timeline_shows_what_happens_now(monkeypatch):
    pytest.importorskip("matplotlib", reason="pip install -e '.[notebooks]'").use("agg")
    monkeypatch.syspath_prepend(ROOT / "samples" / "notebooks")
    import readme_picture
    from PIL import Image  # matplotlib brings it

    with Image.open(readme_picture.PICTURE) as image:
        assert image.text["Description"] == readme_picture.in_words(readme_picture.outcomes())


def test_links_to_files_lead_somewhere():
    for page in (README, ROOT / "CONTRIBUTING.md", ROOT / "docs" / "design.md", ROOT / "docs" / "acl.md"):
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    for example in reversed(examples()):
        begin, end = example.span("output")
        text = text[:begin] + output_of(example["program"]) + text[end:]
    README.write_text(with_times(text), encoding="utf-8")
