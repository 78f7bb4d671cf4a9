"""Functions that the tests run at many points."""

from threading import Event, Lock
from time import perf_counter

TWO_CAME = Event()  # the answers at two points have come back


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


def third_waits(number):
    """Return whether the answers at two points have come; number 3 waits for them."""
    return number < 3 or TWO_CAME.wait(30)


def begins_twice():
    """Be a task that Dask begins again, as it does when a worker dies."""
    from distributed import get_client, get_worker  # as above

    from acl_py.many.batches import _mark

    for _ in range(2):
        _mark(get_client(), get_worker().get_current_task())


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
