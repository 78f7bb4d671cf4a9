"""The runner of public suites: a file that ends as it should not costs its own cases only."""

from textwrap import dedent

import pytest

from tests.cuda import suites

PLAIN = ("-m", "pytest", "-p", "no:randomly")


def outcomes(tmp_path, text):
    path = tmp_path / "test_made.py"
    path.write_text(dedent(text), encoding="utf-8")
    return suites.outcomes(PLAIN, path, suites.SUITES["core"])


@pytest.mark.slow
def test_each_case_has_its_outcome_and_a_file_that_crashes_says_how(tmp_path):
    assert outcomes(tmp_path, """
        import pytest
        class TestGroup:
            @pytest.mark.parametrize("n", [1, 2])
            def test_odd(self, n): assert n % 2, "even"
        def test_unwanted(): pytest.skip("no card")
    """) == {
        "TestGroup::test_odd[1]": "pass",
        "TestGroup::test_odd[2]": "failure: AssertionError: even assert (2 % 2)",
        "test_unwanted": "skip: no card",
    }  # fmt: skip
    crash = "import os, signal\ndef test_end(): os.kill(os.getpid(), signal.SIGSEGV)\n"
    assert outcomes(tmp_path, crash) == {"": "crash: SIGSEGV"}
