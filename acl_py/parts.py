"""The parts of the sanitizer: what it can look at, and the words for that."""

from enum import StrEnum


class SanitizerPart(StrEnum):
    """What the sanitizer looks at; the values are the words of `sanitize=`."""

    DEVICE = "device"  # the order of operations, and the lives of memory, streams and events
    HOST = "host"  # also what the host reads and writes
    UNINITIALISED = "uninitialised"  # reads of bytes that were not written before
    LEAKS = "leaks"  # what is never given back
    DIGEST = "digest"  # sources that change between the call and the copy; only by name: it is slow


_ALL = [part for part in SanitizerPart if part is not SanitizerPart.DIGEST]  # those of sanitize=True
ALL_PARTS = ",".join(_ALL)  # the same as a text
PARTS_OF_SCRIPTS = ",".join(part for part in _ALL if part is not SanitizerPart.LEAKS)  # their summary has leaks
NEEDS_MODEL = frozenset((SanitizerPart.UNINITIALISED, SanitizerPart.DIGEST))  # a card does not show these
_IMPLIED = {SanitizerPart.HOST: SanitizerPart.DEVICE}


def parts_of(sanitize: bool | str) -> frozenset[SanitizerPart]:
    """Return the parts that `sanitize=` asks for: none for False, all but "digest" for True, or those of a text such as
    "device,leaks". "host" brings "device" along, because host accesses are checked against operations.

    Raises:
        ValueError: the text names a part that there is not, or none.
        TypeError: *sanitize* is neither a bool nor a str.
    """
    if isinstance(sanitize, bool):
        return frozenset(_ALL if sanitize else ())
    if not isinstance(sanitize, str):
        raise TypeError(f"sanitize must be True, False or a str such as 'device,host', not {sanitize!r}")
    words = [word.strip() for word in sanitize.split(",")]
    unknown = next((word for word in words if word not in {*SanitizerPart}), None)
    if unknown is not None:
        raise ValueError(
            f"the sanitizer has no part {unknown!r}, in sanitize={sanitize!r}; it has {', '.join(SanitizerPart)}; "
            "give one or more, with commas, or True for all but digest"
        )
    parts = frozenset(map(SanitizerPart, words))
    return parts | {_IMPLIED[part] for part in parts if part in _IMPLIED}
