"""A fold: a block in which the first rank of each class runs for all of it, and what is refused before."""

import dis
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

from acl_py.runtime.collectives import Communicators
from acl_py.runtime.folds import Folds
from acl_py.runtime.runtime import Runtime
from device_model.collectives.folds import Fold, fold_clique, unfold_clique
from device_model.faults import Rule

_SHOWN = 8  # classes in a report
_WRITES = ("STORE_GLOBAL", "DELETE_GLOBAL")


@contextmanager
def folding(runtime: Runtime, classes: Sequence[Sequence[int]]) -> Iterator[None]:
    """Return a block in which the first rank of each of *classes* runs for all of its class.

    Raises:
        ValueError: A communicator does not allow it.
    """
    folds, fold = runtime.state(Folds), Fold(classes)
    cliques = runtime.state(Communicators).alive
    try:
        for clique in cliques:
            fold_clique(clique, fold)
        folds.now = fold
        folds.lines.append(_line(fold))
        yield
    finally:
        folds.now = None
        for clique in cliques:
            unfold_clique(clique)


def _line(fold: Fold) -> str:
    """Say which ranks stand for which."""
    total = sum(map(len, fold.classes))
    named = [f"{each[0]} for {len(each):,}" for each in fold.classes[:_SHOWN]]
    more = f", and {len(fold.classes) - _SHOWN:,} more" if len(fold.classes) > _SHOWN else ""
    return f"folded: {total:,} ranks in {len(fold.classes):,} classes; rank {', '.join(named)}{more}"


def check_faults(runtime: Runtime, classes: Sequence[Sequence[int]]) -> None:
    """Refuse a fault rule for one device whose rank is in a class with others: it would strike all of them, or none.

    Raises:
        ValueError: There is one.
    """
    due = (subject for subject in runtime.scheduler.subjects() if isinstance(subject, Rule))
    alike = {rank: each for each in classes for rank in each}
    for rule in (*runtime.faults.rules, *due):
        for device in rule.devices:
            number = len(alike.get(device, ()))
            if number > 1:
                raise ValueError(
                    f"fold: {rule!r} is for device {device}, whose rank is one of {number:,} that are alike: "
                    "give it a key of its own with alike="
                )


def check_writes(main: Callable[..., Any]) -> None:
    """Refuse a *main* that writes a global, or a variable around it, which other ranks would see.

    Raises:
        ValueError: It does.
    """
    code = getattr(getattr(main, "__func__", main), "__code__", None)
    if not isinstance(code, CodeType):
        return
    for name, line in _written(code, frozenset(code.co_freevars)):
        raise ValueError(
            f"fold: {main.__qualname__} writes {name}, which all ranks share (line {line}), and only some of them run: "
            "return the value instead"
        )


def _written(code: CodeType, shared_names: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Yield the names of *code*, and of functions in it, that are stored and belong to all ranks, with their lines."""
    line = code.co_firstlineno
    for each in dis.get_instructions(code):
        line = each.starts_line if type(each.starts_line) is int else line
        is_shared = each.opname in _WRITES or (each.opname == "STORE_DEREF" and each.argval in shared_names)
        if is_shared:
            yield str(each.argval), line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _written(constant, shared_names & frozenset(constant.co_freevars))
