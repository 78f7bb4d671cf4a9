"""The points of a sweep: which options of a simulation and which parameters of the program each run gets."""

import hashlib
import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from acl_py import faults
from acl_py.errors import ProfileError
from acl_py.options import Options
from device_model import overlay
from device_model.errors import shown
from device_model.grids import combinations
from device_model.profile import DeviceProfile, load
from device_model.speeds import SpeedError, changed_by

Point: TypeAlias = Mapping[str, Any]
Grid: TypeAlias = Mapping[str, Any] | Iterable[Point]
Program: TypeAlias = Callable[..., Any]

# The options of a simulation that a point may have; every other name is a parameter of the program. *changes* is text
# in the form of an overlay, or such as "links=2x", and changes the profile.
OPTIONS = ("device", "rules", "overlay", "changes", "seed", "faults")


def points_of(grid: Grid) -> list[dict[str, Any]]:
    """Return the points of *grid*: all combinations of a mapping from names to values, or the points it yields.

    Raises:
        TypeError: It is neither.
        ValueError: It has no points.
    """
    if isinstance(grid, Mapping):
        values = {name: _listed(each) for name, each in grid.items()}
        return combinations(values)
    points = [dict(point) if isinstance(point, Mapping) else None for point in grid]
    if not all(point is not None for point in points):
        raise TypeError("a grid is a mapping from names to values, or points, each a mapping from names to a value")
    if not points:
        raise ValueError("the grid has no points")
    return [point for point in points if point is not None]


def _listed(values: Any) -> list[Any]:
    """Return *values* as a list; a text or a number is one value."""
    return list(values) if isinstance(values, Sequence | range) and not isinstance(values, str) else [values]


def check(program: Program, points: Sequence[Point]) -> None:
    """Refuse a program that other processes cannot find, and points that it or no simulation can take.

    Raises:
        TypeError: The program is no coroutine function of a module, a point has, or lacks, a parameter, or a value of
            it cannot go to another process.
        ValueError: A card, rules, an overlay, or fault rules that there are not.
    """
    _check_program(program)
    name, parameters = program.__qualname__, inspect.signature(program).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for point in points:
        own = [each for each in point if each not in OPTIONS]
        unknown = [each for each in own if each not in parameters and not takes_all]
        if unknown:
            raise TypeError(
                f"{name}() has no parameter {', '.join(unknown)}; it has {', '.join(parameters) or 'none'}, "
                f"and simulations have {', '.join(OPTIONS)}"
            )
        missing = [
            each.name
            for each in parameters.values()
            if each.default is each.empty and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
            and each.name not in own
        ]  # fmt: skip
        if missing:
            raise TypeError(f"{name}() needs {', '.join(missing)}, which the point {dict(point)} does not have")
        check_options(point)


def _check_program(program: Program) -> None:
    name = getattr(program, "__qualname__", "")
    if name.rpartition(".")[2] == "<lambda>":
        raise TypeError("a sweep runs a coroutine function of a module, and a lambda has no name: write async def")
    if not inspect.iscoroutinefunction(program):
        raise TypeError(f"a sweep runs a coroutine function, as acl_py.run() does, not {shown(program)}")
    if "<" in name:
        held = inspect.getclosurevars(program).nonlocals
        holds = f" and holds {', '.join(f'{each} ({type(held[each]).__name__})' for each in held)}" if held else ""
        raise TypeError(
            f"{name} is a function inside another{holds}, which other processes do not find: move it to its module"
            f"{', and make what it holds a parameter' if held else ''}"
        )


def check_options(point: Point) -> None:
    """Refuse a point with options that no simulation can take, or a value that no other process can get.

    Raises:
        TypeError: A value cannot go to another process.
        ValueError: There is no such card, rules, overlay or fault rule.
    """
    for name, value in point.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            raise TypeError(f"{name}={shown(value)} cannot go to another process: {error}") from error
    options_of(point)


def parameters_of(point: Point) -> dict[str, Any]:
    """Return what the program gets."""
    return {name: value for name, value in point.items() if name not in OPTIONS}


def options_of(point: Point) -> dict[str, Any]:
    """Return the options of the simulation, as `acl_py.run` takes them.

    Raises:
        ValueError: There is no such card, rules, overlay or fault rule.
    """
    options = {name: point[name] for name in ("rules", "seed") if point.get(name) is not None}
    options["device"] = _profile_of(point)
    Options(**options).profile_and_rules()
    faults_of(point)
    return options


def faults_of(point: Point) -> list[faults.Fault]:
    """Return the fault rules of a point, which are texts as `acl-py run --fault` takes them."""
    return [faults.parse(text, "the sweep") for text in _listed(point.get("faults") or [])]


def card_digest(point: Point) -> str:
    """Return what stands for the profile of a point, with its overlay and changes."""
    return _digest(*_names_of_profile(point))


def _profile_of(point: Point) -> DeviceProfile:
    return _profile(*_names_of_profile(point))


def _names_of_profile(point: Point) -> tuple[Any, ...]:
    """Return what a profile is made from: names or paths, and of files when they were written."""
    device, overlaid = str(point.get("device", "h200")), point.get("overlay")
    return device, overlaid, point.get("changes"), _written(device), _written(overlaid)


def _written(path: str | None) -> tuple[int, int] | None:
    """Return when the file *path* was written, and its size; None for a name."""
    if path is None or not Path(path).is_file():
        return None
    stat = Path(path).stat()
    return stat.st_mtime_ns, stat.st_size


@cache
def _digest(*names: Any) -> str:
    return hashlib.sha256(repr(_profile(*names)).encode()).hexdigest()


@cache
def _profile(device: str, overlaid: str | None, changes: str | None, *_: tuple[int, int] | None) -> DeviceProfile:
    profile = load(device)
    if overlaid is not None:
        profile = overlay.load(overlaid, profile)
    if changes is not None:
        try:
            profile = changed_by(changes, profile) or overlay.lay(changes, "changes", profile)
        except (ProfileError, SpeedError) as error:
            raise ValueError(f"changes={changes!r}: {error}") from error
    return profile
