"""For pytest: a fixture `acl`, the module as a script would import it, with a session of its own for each test.

    def test_copies(acl):
        acl.rt.set_device(0)
        pointer, ret = acl.rt.malloc(1024, 0)

    @pytest.mark.acl(device="ascend310p3", devices=2)       # options of acl_py.compat.acl.install
    def test_two_cards(acl, acl_session):
        ...
        assert not acl_session.leaks()

`import acl` in the code under test finds the same module until the test is over; then nothing of it is left. With
`--acl-leaks` a test that leaves memory or handles behind fails, with a line for each.

It has no assertion for pytest to rewrite, and may be imported before pytest would do so: PYTEST_DONT_REWRITE.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from acl_py.compat.acl.face.session import Session

# acl_py is imported when a test wants it: pytest loads this file in every run on a machine that has acl_py.


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--acl-leaks`."""
    parser.getgroup("acl_py").addoption(
        "--acl-leaks", action="store_true", help="Tests with the fixture acl fail if they leave something behind."
    )


def pytest_configure(config: pytest.Config) -> None:
    """`@pytest.mark.acl`."""
    config.addinivalue_line("markers", "acl(**options): what the fixture acl gives acl_py.compat.acl.install.")


class AclSession:
    """What the `acl` of a test has done so far."""

    @property
    def session(self) -> "Session":
        """The session behind the module; the first call begins it."""
        from acl_py.compat.acl.face.session import own_session

        return own_session()

    @property
    def now_us(self) -> float:
        """The host clock, in microseconds of simulated time."""
        return self.session.runtime.host_ns / 1000

    def report(self) -> str:
        """What `acl-py run` prints at the end."""
        from acl_py.compat.acl.report import report

        return report(self.session)

    def leaks(self) -> list[str]:
        """What has not been given back so far, a line each: memory and handles."""
        from acl_py.compat.acl.report import leaks

        return leaks(self.session)


@pytest.fixture
def acl(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The module `acl` on a simulated device, which no other test has used."""
    from acl_py.compat.acl import install, uninstall

    marker = request.node.get_closest_marker("acl")
    module = install(replace=True, **(marker.kwargs if marker else {}))
    try:
        yield module
        leaks = AclSession().leaks() if request.config.getoption("--acl-leaks") else []
    finally:
        uninstall()
    if leaks:
        pytest.fail("left behind:\n" + "\n".join(f"  {leak}" for leak in leaks), pytrace=False)


@pytest.fixture
def acl_session(acl: ModuleType) -> AclSession:  # noqa: ARG001 - it is installed first
    """What the fixture `acl` has done so far: `.report()`, `.leaks()`, `.now_us`."""
    return AclSession()
