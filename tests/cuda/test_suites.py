"""The runner of public suites: a file that ends as it should not costs its own cases only."""

from textwrap import dedent

import pytest

from tests.cuda import sanitized, suites

PLAIN = ("-m", "pytest", "-p", "no:randomly")


def outcomes(tmp_path, text, *options):
    path = tmp_path / "test_made.py"
    path.write_text(dedent(text), encoding="utf-8")
    what = suites.chosen("core", "--suites", str(tmp_path), *options)
    return suites.outcomes(PLAIN, path, what.suite, what.limit_s)


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
    missing = {"": "error: ModuleNotFoundError: No module named 'nothing_there'"}
    assert outcomes(tmp_path, "import nothing_there\n") == missing
    endless = "def test_end():\n    while True: pass\n"
    assert outcomes(tmp_path, endless, "--limit", "2") == {"": "hang: no end within 2 s"}


def test_a_failure_that_names_a_set_has_the_same_words_in_each_process(tmp_path):
    names = "print({f'member {n}' for n in range(20)})"
    assert suites.run_python(["-c", names], str(tmp_path), 60) == suites.run_python(["-c", names], str(tmp_path), 60)


def test_a_case_that_is_skipped_here_for_what_is_not_simulated_does_not_count():
    skipped = suites._is_excluded("test_pool", "skip: Device does not support IPC")
    failed = suites._is_excluded("test_pool", "failure: Device does not support IPC")
    names = [suites._is_excluded(name, "pass") for name in ("test_ipc[a]", "test_slip", "test_kernel_device_launch")]
    assert (skipped, failed, names) == (True, False, [True, False, True])


def test_findings_at_the_same_lines_are_one_row_and_leaks_one_in_all():
    finding = {"kind": "race", "text": "a and b", "count": 2, "accesses": [{"site": "a.py:1"}, {"site": "a.py:2"}]}
    leaks = [{"kind": "leak", "text": f"stream {n}", "count": 1, "accesses": [{"site": f"a.py:{n}"}]} for n in (3, 4)]
    race, leak = sanitized.Row("race", ("a.py:1", "a.py:2"), "a and b"), sanitized.Row("leak", (), "")
    assert sanitized.read({"findings": [finding, finding, *leaks]}) == {race: 4, leak: 2}


def test_cases_that_another_pytest_names_otherwise_are_the_same_cases():
    card, here = ["test_a[\\n-1]", "test_a[\\n-2]", "test_b", "test_c[x]"], ["test_a[k0-1]", "test_a[k1-2]", "test_b"]
    assert suites.renamed(card, here) == {"test_a[\\n-1]": "test_a[k0-1]", "test_a[\\n-2]": "test_a[k1-2]"}


def test_a_file_that_never_began_is_told_in_one_line():
    lost = "ended: ERROR: Missing required plugins: pytest-benchmark"
    first, second = suites.Case("test_a", "pass", lost), suites.Case("test_b", "pass", lost)
    assert list(suites.differences([first, second])) == [f"each of 2 cases: {lost}"]
    assert list(suites.differences([first, second._replace(here="pass")])) == [f"test_a: {lost}"]
    assert list(suites.differences([first._replace(here="pass"), second._replace(here="pass")])) == []
