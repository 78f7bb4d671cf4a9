"""The fixture `acl` for tests of other projects."""

import tomllib
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests import forks

pytest_plugins = ["pytester"]
PLUGIN = "acl_py_pytest"
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def outcome(pytester):
    """Run a test file with the plugin, in a process of its own: a forked one, or one that is new."""
    installed = any(point.value == PLUGIN for point in entry_points(group="pytest11"))

    def outcome(text, *options, is_new=False):
        pytester.makepyfile(text)
        # Hypothesis is not used there, and takes half of the time of such a run to import.
        without = ["-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:hypothesispytest"]
        options = [*options, *without, "-W", "error"]
        run = pytester.runpytest_subprocess if is_new else partial(forks.run_pytest, pytester)
        return run(*options, *([] if installed else ["-p", PLUGIN]))

    return outcome


def test_the_package_tells_pytest_of_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


def test_each_test_has_a_session_of_its_own_and_nothing_stays(outcome):
    done = outcome(
        """
        import sys

        def first_pointer(acl):
            assert acl.init() == 0                     # the first time, in each test
            assert acl.rt.get_device()[1] == 107002    # nothing is set yet
            assert acl.rt.set_device(0) == 0
            return acl.rt.malloc(1024, 0)

        def test_one(acl):
            import acl as imported
            assert imported is acl
            test_one.pointer, ret = first_pointer(acl)
            assert ret == 0

        def test_two(acl):
            assert first_pointer(acl) == (test_one.pointer, 0)   # a new device: the same addresses again

        def test_without():
            assert not [name for name in sys.modules if name == "acl" or name.startswith("acl.")]
        """
    )
    done.assert_outcomes(passed=3)


def test_a_marker_chooses_the_device(outcome):
    done = outcome(
        """
        import pytest

        @pytest.mark.acl(device="ascend310p3", devices=2)
        def test_two_small_ones(acl):
            assert (acl.get_soc_name(), acl.rt.get_device_count()) == ("Ascend310P3", (2, 0))
        """,
        "--strict-markers",
    )
    done.assert_outcomes(passed=1)


def test_leaks_and_times_can_be_asked_for(outcome):
    done = outcome(
        """
        def test_asks(acl, acl_session):
            acl.rt.set_device(0)
            pointer, ret = acl.rt.malloc(1024, 0)
            [leak] = acl_session.leaks()
            assert "never freed, made at test_leaks_and_times_can_be_asked_for.py:3" in leak
            assert acl_session.now_us > 0
            assert "us of simulated time" in acl_session.report()
            acl.rt.free(pointer)
            assert acl_session.leaks() == []
        """
    )
    done.assert_outcomes(passed=1)


def test_what_happened_can_be_asserted(outcome):
    done = outcome(
        """
        import pytest

        def test_asserts(acl, acl_session):
            acl.rt.set_device(0)
            device, ret = acl.rt.malloc(1024, 0)
            host, ret = acl.rt.malloc_host(1024)
            streams = [acl.rt.create_stream()[0] for _ in range(2)]
            acl.rt.memcpy_async(device, 1024, host, 1024, 1, streams[0])
            acl.rt.memset_async(device, 1024, 0, 1024, streams[1])
            acl.rt.synchronize_device()
            acl_session.assert_held(1000, by="acl.rt.synchronize_device")
            acl_session.assert_no_implicit_sync()
            with pytest.raises(AssertionError, match="nothing puts fill on stream 2 .* behind h2d on stream 1"):
                acl_session.assert_ordered("h2d", "fill")
        """
    )
    done.assert_outcomes(passed=1)


def test_on_request_a_test_that_leaves_something_behind_fails(outcome):
    text = """
        def test_leaks(acl):
            acl.rt.set_device(0)
            acl.rt.create_stream()

        def test_tidy(acl):
            acl.rt.set_device(0)
            stream, ret = acl.rt.create_stream()
            acl.rt.destroy_stream(stream)
        """
    outcome(text).assert_outcomes(passed=2)
    done = outcome(text, "--acl-leaks")
    done.assert_outcomes(passed=2, errors=1)
    done.stdout.fnmatch_lines(["*never given back:", "*1 stream never destroyed, made at *:3"])


def test_a_wrong_argument_is_shown_at_the_call_in_the_test(outcome):
    done = outcome(
        """
        def test_mine(acl):
            acl.rt.malloc("many", 0)
        """
    )
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([">*acl.rt.malloc(*", "E*TypeError: acl.rt.malloc args parse failed", "*:2: TypeError"])
    done.stdout.no_fnmatch_line("*binding.py*")


def test_a_hang_is_an_exception_there(outcome):
    done = outcome(
        """
        import pytest
        from acl_py import DeadlockError

        def test_hang(acl):
            acl.rt.set_device(0)
            stream, ret = acl.rt.create_stream()
            event, ret = acl.rt.create_event_with_flag(1)
            acl.rt.stream_wait_event(stream, event)
            with pytest.raises(DeadlockError, match="record Event 1, in a stream"):
                acl.rt.synchronize_stream(stream)
        """
    )
    done.assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_run_that_never_uses_the_fixture_imports_neither_the_package_nor_numpy(outcome):
    done = outcome(
        """
        import sys

        def test_other():
            assert not {"acl_py", "device_model", "numpy"} & set(sys.modules)

        def test_wants_it(acl):
            assert "acl_py.compat.acl" in sys.modules
        """,
        is_new=True,  # processes of tests/forks.py have imported both
    )
    done.assert_outcomes(passed=2)


@pytest.mark.parametrize("names", [["acl_py.pytest_plugin"], ["acl_py_pytest", "acl_py.pytest_plugin"]])
@pytest.mark.parametrize("autoload", [True, False])
def test_it_may_be_named_too(outcome, monkeypatch, names, autoload):
    """As `-p` or in a conftest, on top of what pytest finds itself; by the name within the package, too."""
    if not autoload:
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    text = """
        from acl_py.pytest_plugin import AclSession

        def test_one(acl, acl_session):
            assert isinstance(acl_session, AclSession)
        """
    outcome(text, *(option for name in names for option in ("-p", name))).assert_outcomes(passed=1)
