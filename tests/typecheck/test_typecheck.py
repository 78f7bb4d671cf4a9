"""Type checkers find the mistakes planted in the programs beside this file, and nothing else.

Of the eight mistakes seven are typing's business: a wrong destination, an argument left out, of a verb and of a kernel,
an `await` forgotten, an argument of the wrong type, an event for a stream, and a method that NumPy's arrays do not
have. The eighth, a coroutine function for a host function, is refused when it runs: no type says "a function, but not
one of these".
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api as mypy

HERE = Path(__file__).parent
PROGRAMS = [HERE / name for name in ("copies.py", "kernels.py", "hosts.py")]
OLDEST = "3.11"  # its types of NumPy say least about buffers


def planted(mark):
    """Return the lines with a mistake that is marked so."""
    texts = {program.name: program.read_text().splitlines() for program in PROGRAMS}
    return {(name, number) for name, lines in texts.items() for number, line in enumerate(lines, 1) if mark in line}


@pytest.fixture(scope="module")
def accused_by_mypy():
    output, problems, _ = mypy.run(["--strict", f"--python-version={OLDEST}", *map(str, PROGRAMS)])
    assert not problems
    return {(Path(path).name, int(line)) for path, line in re.findall(r"^(.+?):(\d+): error: ", output, re.MULTILINE)}


@pytest.fixture(scope="module")
def accused_by_pyright():
    pytest.importorskip("pyright", reason="pyright is not installed: pip install -e .[pyright]")
    command = [sys.executable, "-m", "pyright", "--outputjson", f"--pythonversion={OLDEST}", *map(str, PROGRAMS)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in json.loads(output)["generalDiagnostics"]
    }


def test_eight_mistakes_are_planted():
    assert len(planted("# planted")) == 8
    assert planted("# planted, found when it runs:") | planted("# planted:") == planted("# planted")
    assert len(planted("# planted:")) == 7


@pytest.mark.slow  # mypy reads NumPy and all that we import, for twenty seconds where it has no cache
@pytest.mark.parametrize("accused", ["accused_by_mypy", "accused_by_pyright"])
def test_a_type_checker_finds_all_that_are_typings_business(accused, request):
    assert request.getfixturevalue(accused) == planted("# planted:")
