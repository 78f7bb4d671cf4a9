"""Functions that the tests run at many points."""

from threading import Lock
from time import perf_counter


def half(number):
    """Return half of an even number; no odd one has one."""
    if number % 2:
        raise ArithmeticError(f"{number} is odd")
    return number // 2


def nothing_to_send(number):
    """Return what cannot go back to another process."""
    return number if number % 2 else Lock()


def task_of(seconds):
    """Keep the processor for a while; return for how long, the name of the task of Dask, and when it ended."""
    from distributed import get_worker  # where it is not installed, no test asks

    until = perf_counter() + seconds
    while perf_counter() < until:
        sum(range(100))
    return seconds, get_worker().get_current_task(), perf_counter()


def letters(count):
    """Return so many letters."""
    return "x" * count


class Growing:
    """Yields 2 first, and further numbers only once it was told so."""

    def __init__(self):
        self.left = [2]

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        return self.left.pop(0)
