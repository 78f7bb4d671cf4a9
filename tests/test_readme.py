"""The example in the README prints what the README says. `python tests/test_readme.py` writes that anew."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
EXAMPLE = re.compile(r"```python\n(?P<program>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)


def example() -> re.Match[str]:
    """The first program of the README and the output below it."""
    found = EXAMPLE.search(README.read_text(encoding="utf-8"))
    assert found, "the README has no Python example with its output as text below"
    return found


def output_of(program: str) -> str:
    command = [sys.executable, "-X", "utf8", "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_prints_what_the_readme_says():
    assert output_of(example()["program"]) == example()["output"]


def test_links_to_files_lead_somewhere():
    for page in (README, ROOT / "CONTRIBUTING.md", ROOT / "docs" / "design.md"):
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    begin, end = example().span("output")
    README.write_text(text[:begin] + output_of(example()["program"]) + text[end:], encoding="utf-8")
