"""Functions that the tests run at many points."""


def half(number):
    """Return half of an even number; no odd one has one."""
    if number % 2:
        raise ArithmeticError(f"{number} is odd")
    return number // 2


def nothing_to_send(number):
    """Return what cannot go back to another process."""
    return number if number % 2 else (lambda: number)
