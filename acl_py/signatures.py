"""The list of the binding's functions (signatures.txt), read."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_FAILURES: dict[str, Any] = {"s": str, "y": bytes, "l": list, "d": dict, "f": float, "O": lambda: None, "k": int}


class Signature(NamedTuple):
    """One function: the *letters* of its arguments, as in `takes`, and those of the *values* beside the code."""

    module: str  # "acl", "acl.rt", ...
    name: str
    letters: str
    values: str
    has_code: bool

    @property
    def full_name(self) -> str:
        """The name by which a script calls it, as in "acl.rt.malloc"."""
        return f"{self.module}.{self.name}"

    def failure(self, code: int) -> Any:
        """Return the answer of a call that fails with *code*."""
        values = [_FAILURES[letter]() for letter in self.values]
        answer = (*values, code) if self.has_code else tuple(values)
        return answer[0] if len(answer) == 1 else answer


@cache
def read() -> tuple[Signature, ...]:
    """Return all functions, in the order of the list."""
    text = Path(__file__).with_name("signatures.txt").read_text(encoding="utf-8")
    return tuple(_parse(line) for line in text.splitlines() if line and not line.startswith("#"))


def _parse(line: str) -> Signature:
    """Parse a line such as "rt.malloc(k size, i policy) -> (address, ret)"."""
    head, _, rest = line.partition("(")
    arguments, arrow, result = rest.partition(") -> ")
    assert arrow, f"signatures.txt: {line!r} has no result"
    module, _, name = head.rpartition(".")
    given = result.removesuffix(" *").strip("()").split(", ")
    has_code = given[-1] == "ret"
    assert has_code != result.endswith(" *"), f"signatures.txt: {line!r}: a star is for what gives no code"
    values = "".join(_letter(each) for each in (given[:-1] if has_code else given))
    return Signature(f"acl.{module}" if module else "acl", name, _letters(arguments), values, has_code)


def _letters(arguments: str) -> str:
    """Return "k|i" for "k stream, | i level"."""
    before, bar, behind = arguments.partition("|")
    first, second = ("".join(each.split()[0] for each in part.split(",") if each.strip()) for part in (before, behind))
    return first + bar + second


def _letter(value: str) -> str:
    """Return "s" for "s name"; a bare name is an int."""
    letter, _, name = value.rpartition(" ")
    assert name, f"signatures.txt: {value!r} has no name"
    return letter or "k"
