"""Names: what a program calls its streams, events, notifies and memory.

A message, a chart or a trace calls an object by its number, `stream 1`, or by the name that the program gave it,
`stream 'copies'`. The quotes keep a name apart from the words around it. Names need not be unique: views add up streams
of one name.
"""

from device_model.errors import shown

LONGEST_NAME = 200


def check_name(name: object) -> None:
    """Raise TypeError or ValueError unless *name* is None or what `check_given_name` accepts."""
    if name is not None:
        check_given_name(name)


def check_given_name(name: object) -> None:
    """Raise TypeError or ValueError unless *name* is a string of 1 to LONGEST_NAME printable characters."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {shown(name)}")
    if not name or len(name) > LONGEST_NAME:
        raise ValueError(f"name must have 1 to {LONGEST_NAME} characters, not {len(name):,}")
    if not name.isprintable():
        raise ValueError(f"name must have printable characters only, not {shown(name)}")


def named(noun: str, number: int, given_name: str | None) -> str:
    """Return how messages and views call the *noun* with this *number*: "stream 1", or "stream 'copies'"."""
    return f"{noun} {number}" if given_name is None else f"{noun} {given_name!r}"
