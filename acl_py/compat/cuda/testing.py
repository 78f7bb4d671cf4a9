"""The driver in a run of pytest: `pytest --cuda`, and what the fixture `cuda_driver` gives."""

from collections.abc import Iterator
from contextlib import contextmanager

from acl_py.compat.acl import report as summaries
from acl_py.compat.acl.face import session as sessions
from acl_py.compat.acl.face.session import OwnSession
from acl_py.compat.cuda.face.exports import is_loaded
from acl_py.compat.cuda.face.state import CARD, RULES
from acl_py.compat.cuda.switching import install
from acl_py.faults import Guard, parse
from acl_py.trace.rows.timeline import Timeline
from acl_py_pytest import Assertions
from device_model.faults import Rule


def put_in_place() -> None:
    """Put the driver in place, if it is not.

    Raises:
        RuntimeError: A package that uses CUDA has looked for the driver already, or this process can load no library.
    """
    if not is_loaded():
        install()


def summary() -> str:
    """Return the summary of the session of the process; "" if no call has begun one."""
    session = sessions.current_session()
    return "" if session is None else summaries.report(session)


class CudaDriver(Assertions):
    """The driver during a test. All tests of a process share one session, as packages keep their contexts and streams.
    The assertions are about what happened since the test began.

    def test_no_memory(cuda_driver):
        with cuda_driver.fault("fail call=Malloc kind=OUT_OF_MEMORY"):
            with pytest.raises(MemoryError):
                library.work()
        assert "CUDA_ERROR_OUT_OF_MEMORY" in cuda_driver.failures()[0]
    """

    def __init__(self) -> None:
        put_in_place()
        self._before = set(self.session.failures.lines())
        self._since_ns = self.session.runtime.host_ns

    def __repr__(self) -> str:
        return f"<CudaDriver of {self.session!r}>"

    @property
    def session(self) -> OwnSession:
        """The session; it begins with the first call, or here."""
        sessions.prefer(CARD, RULES)
        return sessions.own_session()

    @property
    def now_us(self) -> float:
        """The host clock, in microseconds of simulated time."""
        return self.session.runtime.host_ns / 1000

    @contextmanager
    def fault(self, *rules: str) -> Iterator[Rule]:
        """Put fault rules in force for a block, written as `acl-py run --fault` takes them; the block gets the first
        one, which counts what it has seen and struck.

        Raises:
            FaultError: A text is no rule.
        """
        guard = Guard(self.session.runtime, [parse(rule, "the test") for rule in rules])
        try:
            yield guard.rules[0]
        finally:
            guard.remove()

    def failures(self) -> list[str]:
        """Return a line for each kind of call that has failed since the test began."""
        return [line.strip() for line in self.session.failures.lines() if line not in self._before]

    def leaks(self) -> list[str]:
        """Return a line for each leak so far: memory that was not freed, handles that were not destroyed."""
        return summaries.leaks(self.session)

    def report(self) -> str:
        """Return the summary that `acl-py run` prints at the end."""
        return summary()

    @property
    def _run(self) -> tuple[Timeline, int]:
        return self.timeline(), self._since_ns

    def timeline(self) -> Timeline:
        """Return the timeline of the session so far."""
        trace = self.session.trace
        assert trace is not None, "a session has a trace"
        return trace.timeline()
