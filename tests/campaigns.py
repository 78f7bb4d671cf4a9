"""How many programs a campaign runs: `make test-slow TIMES=10` runs ten times as many, and so does a part of it:

    TIMES=10 pytest -m slow tests/ptx/test_random.py

The counts without TIMES are for every day: they fit the slow suite into half an hour, and their programs are the same
in every run. With TIMES, those of hypothesis are new in every run. A campaign says in its docstring how many programs
it ran when it was longer, if it was, and which mistake it found last. After a change of what such programs do, run that
many.
"""

import os

TIMES = int(os.environ.get("TIMES", "1"))


def many(number: int) -> int:
    """Return how many programs a campaign of *number* programs runs."""
    return number * TIMES
