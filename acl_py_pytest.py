"""A pytest plugin: the fixture `acl` is the module as a script imports it, with a new session for each test.

    def test_copies(acl):
        acl.rt.set_device(0)
        pointer, ret = acl.rt.malloc(1024, 0)

    @pytest.mark.acl(device="ascend310p3", devices=2)       # options of acl_py.compat.acl.install
    def test_two_cards(acl, acl_session):
        ...
        assert not acl_session.leaks()

Until the test ends, `import acl` in the code under test finds the same module; afterwards the module is removed. With
`--acl-leaks` a test that does not give back its memory and handles fails, with a line for each leak.

PYTEST_DONT_REWRITE: there is no assertion to rewrite here, and this file may be imported before pytest could do so.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from acl_py.compat.acl.face.session import Session

# pytest loads this file in every run where acl_py is installed, so acl_py is imported only when a test needs it.


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--acl-leaks`."""
    parser.getgroup("acl_py").addoption(
        "--acl-leaks", action="store_true", help="Fail tests with the fixture acl that leak memory or handles."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker `acl`."""
    config.addinivalue_line("markers", "acl(**options): options of acl_py.compat.acl.install for the fixture acl.")


class AclSession:
    """The session of a test: what its `acl` has done so far.

    def test_pipeline(acl, acl_session):
        run_pipeline()
        assert not acl_session.leaks()
        assert acl_session.now_us < 5_000
    """

    @property
    def session(self) -> "Session":
        """The session itself; it begins with the first call, or here."""
        from acl_py.compat.acl.face.session import own_session

        return own_session()

    @property
    def now_us(self) -> float:
        """The host clock, in microseconds of simulated time."""
        return self.session.runtime.host_ns / 1000

    def report(self) -> str:
        """Return the summary that `acl-py run` prints at the end."""
        from acl_py.compat.acl.report import report

        return report(self.session)

    def leaks(self) -> list[str]:
        """Return a line for each leak so far: memory that was not freed, handles that were not destroyed."""
        from acl_py.compat.acl.report import leaks

        return leaks(self.session)


@pytest.fixture
def acl(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The module `acl` on a simulated device of the test's own; `@pytest.mark.acl(...)` gives the options."""
    from acl_py.compat.acl import install, uninstall

    marker = request.node.get_closest_marker("acl")
    module = install(replace=True, **(marker.kwargs if marker else {}))
    try:
        yield module
        leaks = AclSession().leaks() if request.config.getoption("--acl-leaks") else []
    finally:
        uninstall()
    if leaks:
        pytest.fail("never given back:\n" + "\n".join(f"  {leak}" for leak in leaks), pytrace=False)


@pytest.fixture
def acl_session(acl: ModuleType) -> AclSession:  # noqa: ARG001 - it is installed first
    """The session of the fixture `acl`: `.report()`, `.leaks()`, `.now_us`."""
    return AclSession()
