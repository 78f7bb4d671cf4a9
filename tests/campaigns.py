"""How many programs a campaign runs: `make test-slow TIMES=10` runs ten times as many, and so does a part of it:

    TIMES=10 pytest -m slow tests/ptx/test_random.py

The counts without TIMES are for every day: they fit the slow suite into half an hour, and their programs are the same
in every run. With TIMES, those of hypothesis are new in every run. A campaign says in its docstring how many programs
it ran when it was longer, if it was, and which mistake it found last. After a change of what such programs do, run that
many.

With WORKERS=2, or DASK=tcp://10.0.0.1:8786, the programs of campaigns that ask for a `crew` run in so many processes,
or on that cluster: the same programs, with the same failures in the same order. Workers elsewhere need the tests, too.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acl_py.many.crew import Crew

TIMES = int(os.environ.get("TIMES", "1"))


def many(number: int) -> int:
    """Return how many programs a campaign of *number* programs runs."""
    return number * TIMES


@contextmanager
def crew() -> "Iterator[Crew]":
    """Give the crew that the environment names; without, this process runs all."""
    from acl_py.cli.crews import crew_of  # late: most tests have no campaign

    dask = os.environ.get("DASK", "")
    with crew_of(None if dask else int(os.environ.get("WORKERS", "1")), dask) as made:
        yield made
