"""Variables of the environment that the vendors' libraries of collectives read when a communicator is made."""

import os

EXEC_TIMEOUT, CONNECT_TIMEOUT = "HCCL_EXEC_TIMEOUT", "HCCL_CONNECT_TIMEOUT"
_SECONDS = {EXEC_TIMEOUT: 1_800, CONNECT_TIMEOUT: 120}  # CANN's defaults
_NCCL_ALGORITHMS = {"ring": "ring", "tree": "tree"}
_NOT_SET = "NA"  # as HCCL_ALGO calls it
_HCCL_LEVELS = {  # the names of algorithms inside a server, and between servers
    "level0": {_NOT_SET: None, "ring": "ring", "fullmesh": "mesh"},
    "level1": {_NOT_SET: None, "ring": "ring", "H-D_R": "halving_doubling", "NHR": "nhr", "pairwise": "pairwise"},
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


def forced_by_nccl() -> tuple[str | None, str | None]:
    """Return the algorithm and the protocol that NCCL_ALGO and NCCL_PROTO force; None where they are not set.

    Raises:
        ValueError: One of them is set to something else than one name of those that the model has.
    """
    return _one_of("NCCL_ALGO", _NCCL_ALGORITHMS), _one_of("NCCL_PROTO", _PROTOCOLS)


def forced_by_hccl() -> tuple[str | None, None]:
    """Return the algorithm that HCCL_ALGO forces, as "level0:fullmesh" or "level0:NA;level1:NHR"; or None.

    The model has servers of one level. So the first level that is not NA says how all ranks of a communicator do it.

    Raises:
        ValueError: It is set to something else.
    """
    text = os.environ.get("HCCL_ALGO", "")
    forced = None
    for each in filter(None, text.split(";")):
        level, _, name = each.strip().partition(":")
        names = _HCCL_LEVELS.get(level, {})
        if name not in names:
            known = ", ".join(f"{level}:{name}" for level, names in _HCCL_LEVELS.items() for name in names)
            raise ValueError(
                f"HCCL_ALGO={text!r}: the model has no {each.strip()!r}; it has {known}, with a semicolon between two "
                "levels, and no algorithms for single operators"
            )
        forced = forced or names[name]
    return forced, None


def _one_of(variable: str, names: dict[str, str]) -> str | None:
    text = os.environ.get(variable, "")
    if text and text.lower() not in names:
        raise ValueError(f"{variable}={text!r} must be one of {', '.join(names)}, or not be set")
    return names.get(text.lower())
