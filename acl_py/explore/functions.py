"""Runs of a function in this process under a schedule, for programs that leave nothing behind, such as tests."""

from asyncio import CancelledError
from collections.abc import Callable

from acl_py.errors import full_text
from acl_py.explore.outcomes import Outcome
from acl_py.sanitizer.watch import Watch, current_watch, watching
from acl_py.schedules import Decide, Schedule, following


def run(program: Callable[[], object], decide: Decide) -> Outcome:
    """Call *program* with the decisions of *decide*. An exception is a failure, and so is a finding.

    SystemExit with an exit code of 0 is the end of the program. KeyboardInterrupt comes out.
    """
    texts: list[str] = []
    schedule = Schedule(decide, lambda _, text: texts.append(text))
    failure = ""
    outer = current_watch()
    with following(schedule), watching(outer.parts if outer else frozenset()) as watch:
        try:
            program()
        except (Exception, CancelledError, SystemExit) as error:
            if not (isinstance(error, SystemExit) and error.code in (None, 0)):
                failure = full_text(error)
    return Outcome(failure or found_by(watch), tuple(schedule.deviations), tuple(texts), tuple(schedule.points))


def found_by(watch: Watch) -> str:
    """Say what the simulations of *watch* have found first; "" if they found nothing."""
    watch.finish()
    return f"finding: {watch.findings[0]}" if watch.findings else ""
