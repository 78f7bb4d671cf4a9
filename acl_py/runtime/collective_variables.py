"""Variables of the environment that the vendors' libraries of collectives read when a communicator is made."""

import os
from typing import NamedTuple

from device_model.collectives.timing.plan import KINDS

EXEC_TIMEOUT, CONNECT_TIMEOUT = "HCCL_EXEC_TIMEOUT", "HCCL_CONNECT_TIMEOUT"
_SECONDS = {EXEC_TIMEOUT: 1_800, CONNECT_TIMEOUT: 120}  # CANN's defaults
_NCCL_ALGORITHMS = {"ring": "ring", "tree": "tree"}
_NOT_SET = "NA"  # as HCCL_ALGO calls it
_HCCL_LEVELS = {  # the names of algorithms inside a server, and between servers
    "level0": {_NOT_SET: None, "ring": "ring", "fullmesh": "mesh"},
    "level1": {_NOT_SET: None, "ring": "ring", "H-D_R": "halving_doubling", "NHR": "nhr", "pairwise": "pairwise"},
}
_HCCL_OPERATORS = {  # the names of operators there, with the kinds of plan.py
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "allreduce": "all_reduce",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "scatter": "scatter",
    "alltoall": "all_to_all",  # AlltoAllV and AlltoAllVC, too
}
_PROTOCOLS = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}


def seconds(variable: str) -> int:
    """Return the seconds that *variable*, one of the time-outs, says; 0 is no limit.

    Raises:
        ValueError: It is set, and is no whole number.
    """
    text = os.environ.get(variable, "")
    if not text:
        return _SECONDS[variable]
    if not text.isdecimal():
        raise ValueError(f"{variable}={text!r} must be a whole number of seconds; 0 is no limit")
    return int(text)


class Forced(NamedTuple):
    """What variables force: an algorithm for each kind of plan.py, if it is there, and a protocol."""

    algorithms: dict[str, str]
    protocol: str | None = None


def forced_by_nccl() -> Forced:
    """Return what NCCL_ALGO and NCCL_PROTO force.

    Raises:
        ValueError: One of them is set to something else than one name of those that the model has.
    """
    algorithm = _one_of("NCCL_ALGO", _NCCL_ALGORITHMS)
    return Forced({} if algorithm is None else dict.fromkeys(KINDS, algorithm), _one_of("NCCL_PROTO", _PROTOCOLS))


def forced_by_hccl() -> Forced:
    """Return what HCCL_ALGO forces: for all operators, as "level0:NA;level1:NHR", or for some of them, as
    "allreduce=level0:NA;level1:ring/allgather=level0:NA;level1:NHR".

    The model has servers of one level. So the first level that is not NA says how all ranks of a communicator do it.

    Raises:
        ValueError: It is set to something else.
    """
    text = os.environ.get("HCCL_ALGO", "")
    if "=" not in text:
        algorithm = _algorithm(text, text)
        return Forced({} if algorithm is None else dict.fromkeys(KINDS, algorithm))
    algorithms: dict[str, str] = {}
    given: list[str] = []
    for each in text.split("/"):
        operator, separator, levels = each.strip().partition("=")
        if operator not in _HCCL_OPERATORS or not separator:
            raise ValueError(
                f"HCCL_ALGO={text!r}: {each.strip()!r} does not begin with an operator and '='; the operators are "
                f"{', '.join(_HCCL_OPERATORS)}, with a slash between two of them"
            )
        if operator in given:
            raise ValueError(f"HCCL_ALGO={text!r}: {operator} is there twice")
        given.append(operator)
        algorithm = _algorithm(levels, text)
        if algorithm is not None:
            algorithms[_HCCL_OPERATORS[operator]] = algorithm
    return Forced(algorithms)


def _algorithm(levels: str, text: str) -> str | None:
    """Return the algorithm that *levels*, a part of *text*, name; None is the library's choice."""
    forced = None
    for each in filter(None, levels.split(";")):
        level, _, name = each.strip().partition(":")
        names = _HCCL_LEVELS.get(level, {})
        if name not in names:
            known = ", ".join(f"{level}:{name}" for level, names in _HCCL_LEVELS.items() for name in names)
            raise ValueError(
                f"HCCL_ALGO={text!r}: the model has no {each.strip()!r}; it has {known}, with a semicolon between two "
                "levels"
            )
        forced = forced or names[name]
    return forced


def _one_of(variable: str, names: dict[str, str]) -> str | None:
    text = os.environ.get(variable, "")
    if text and text.lower() not in names:
        raise ValueError(f"{variable}={text!r} must be one of {', '.join(names)}, or not be set")
    return names.get(text.lower())
