"""What a card did with the programs that the notebooks show.

The programs were run on an NVIDIA H200 (CUDA 13.0, driver 580); times are medians of nine runs. docs/semantics.md of
the project has all of them.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from acl_py.teaching.mistakes import NotebookError

DATA = Path(__file__).parent / "data" / "h200.json"


class Measured(NamedTuple):
    """A program, and what a card did with it.

    Attributes:
        question: What the program asks.
        steps: The calls of the program; docs/programs.md has their fields.
        call_us: The microseconds that the host spent in each call.
        ran: The start and the end, in microseconds, of each operation that has an id.
        makespan_us: The microseconds of the whole program.
        returned: The return codes of each call that were seen.
    """

    question: str
    steps: list[dict[str, Any]]
    call_us: list[float]
    ran: dict[str, tuple[float, float]]
    makespan_us: float
    returned: list[list[int]]

    def us_of(self, op: str) -> float:
        """Return the microseconds of the first call of *op*, as "free"."""
        return next(us for step, us in zip(self.steps, self.call_us, strict=True) if step["op"] == op)


@cache
def _programs() -> dict[str, dict[str, Any]]:
    programs: dict[str, dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))
    return programs


def card(program: str) -> Measured:
    """Return what an H200 did with *program*, one of those that notebooks show.

    Raises:
        NotebookError: there is no such program.
    """
    found = _found(program)
    host, device = found["observed"]["host"], found["observed"].get("device", {})
    return Measured(
        found["question"],
        found["steps"],
        [call["cost_us"] for call in host],
        {name: (op["start_us"], op["end_us"]) for name, op in device.items()},
        found["observed"]["makespan_us"],
        [call["ret"] for call in host],
    )


def model(program: str) -> Measured:
    """Return what the model of an H200 does with *program*, one of those that notebooks show.

    Raises:
        NotebookError: there is no such program.
    """
    found = _found(program)
    done = replay(parse({name: part for name, part in found.items() if name != "observed"}), device="h200")
    return Measured(
        found["question"],
        found["steps"],
        [call.exit_us - call.enter_us for call in done.host],
        {name: (op.start_us, op.end_us) for name, op in done.device.items()},
        done.makespan_us,
        [[call.ret] for call in done.host],
    )


def _found(program: str) -> dict[str, Any]:
    if program not in _programs():
        raise NotebookError(f"There is no measured program {program!r}; there are {', '.join(_programs())}.")
    return _programs()[program]
