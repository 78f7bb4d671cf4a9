"""Variables of the environment that the vendors' libraries of collectives read when a communicator is made."""

import os

EXEC_TIMEOUT, CONNECT_TIMEOUT = "HCCL_EXEC_TIMEOUT", "HCCL_CONNECT_TIMEOUT"
_SECONDS = {EXEC_TIMEOUT: 1_800, CONNECT_TIMEOUT: 120}  # CANN's defaults
_NCCL_ALGORITHMS = {"ring": "ring", "tree": "tree"}
_HCCL_ALGORITHMS = {"ring": "ring", "fullmesh": "mesh"}
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
    """Return the algorithm that HCCL_ALGO forces inside a server, as "level0:ring" or "level0:fullmesh"; or None.

    Raises:
        ValueError: It is set to something else.
    """
    text = os.environ.get("HCCL_ALGO", "")
    levels = dict(each.partition(":")[::2] for each in text.split(";") if each)
    level0 = levels.get("level0")
    if text and (level0 not in _HCCL_ALGORITHMS):
        known = " or ".join(f"level0:{name}" for name in _HCCL_ALGORITHMS)
        raise ValueError(f"HCCL_ALGO={text!r} must have {known}: the model has servers of one level")
    return (None if level0 is None else _HCCL_ALGORITHMS[level0]), None


def _one_of(variable: str, names: dict[str, str]) -> str | None:
    text = os.environ.get(variable, "")
    if text and text.lower() not in names:
        raise ValueError(f"{variable}={text!r} must be one of {', '.join(names)}, or not be set")
    return names.get(text.lower())
