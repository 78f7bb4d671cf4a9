"""Compares the arrays of a program on the device with those of a reference.

The program runs in a simulation and returns Arrays in device memory. A recorder notes what wrote to that memory
(writes.py), so for each element that differs from the reference it is known which step wrote it, and when.
"""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acl_py import running, simulation
from acl_py.tools.writes import Recorder, Step
from acl_py.verbs.arrays import Array
from acl_py.verbs.copies import Memcpy, MemcpyKind
from acl_py.verbs.devices import SynchronizeDevice
from device_model import errors
from device_model.errors import text_of
from device_model.kernel.findings import Finding
from device_model.profile import DeviceProfile

_PACKAGES = Path(running.__file__).parent, Path(errors.__file__).parent
Values = npt.NDArray[Any]
Function = Callable[[], Any]


class CompareError(Exception):
    """There is nothing to compare."""


# --- Running the program


class Outcome(NamedTuple):
    """What a program returned: arrays by name, their values, and what wrote them."""

    values: Mapping[str, Values]
    arrays: Mapping[str, Array | Values]
    recorder: Recorder


def run(name: str, launch: Function, device: str | DeviceProfile, seed: int = 0) -> Outcome:
    """Run *launch*, a function or coroutine function called *name*, in a simulation of *device* with *seed*.

    Raises:
        CompareError: It raises, or returns no arrays.
    """
    recorder = Recorder()

    async def main() -> Outcome:
        simulation.current_simulation().observe(recorder)
        returned = launch()
        if inspect.isawaitable(returned):
            returned = await returned
        await SynchronizeDevice()
        named = _by_name(name, returned)
        values = {}
        for key, each in named.items():
            values[key] = np.empty(each.shape, each.dtype)
            if isinstance(each, Array):
                await Memcpy(values[key], each.nbytes, each.buffer, each.nbytes, MemcpyKind.DEVICE_TO_HOST)
            else:
                values[key][...] = each
        return Outcome(values, named, recorder)

    outcome: Outcome = _called(name, lambda: running.run(main, device=device, seed=seed))
    return outcome


def reference_values(name: str, reference: Function) -> dict[str, Values]:
    """Call *reference*, a function called *name*, and return its arrays by their names; raise as `run` does."""
    returned = _called(name, reference)
    if inspect.iscoroutine(returned):
        returned.close()
        raise CompareError(f"{name} is a coroutine function; a reference must be a plain function, without a device")
    return {key: np.asarray(each) for key, each in _by_name(name, returned).items()}


def _called(name: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except CompareError:
        raise
    except Exception as error:
        lines = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
        at = f" at {Path(lines[-1].filename).name}:{lines[-1].lineno}" if lines else ""
        hint = "" if lines else "; it is called without arguments"
        raise CompareError(f"{name} failed{at}: {text_of(error)}{hint}") from error


def _is_ours(file: str) -> bool:
    return any(Path(file).is_relative_to(folder) for folder in _PACKAGES) or not Path(file).exists()


def _by_name(name: str, returned: Any) -> dict[str, Any]:
    """Return the arrays that a function has returned: one, several in a sequence, or a mapping of names to arrays."""
    if isinstance(returned, Array | np.ndarray):
        returned = [returned]
    if isinstance(returned, Sequence) and not isinstance(returned, str | bytes):
        returned = {f"result {number}": each for number, each in enumerate(returned)}
    if not isinstance(returned, Mapping) or not returned:
        raise CompareError(f"{name} returned {returned!r}; return an array, or several in a tuple or a dict")
    for key, each in returned.items():
        if not isinstance(each, Array | np.ndarray):
            raise CompareError(f"{name} returned {each!r} as {key}; return arrays of NumPy, or Arrays in device memory")
    return dict(returned)


# --- Comparing


@dataclass(frozen=True)
class Difference:
    """How one array differs from its reference.

    Attributes:
        name: The name of the array.
        count: How many elements differ, of *size*.
        first: The index of the first one: of the first tile, if tiles have a shape.
        tile: The number of its tile in each dimension; () if tiles have no shape.
        region: The elements of its tile, or all that its step wrote and nothing has overwritten; None if unknown.
        got: Its value.
        expected: The value of the reference.
        largest: The largest error, and the index where it is.
        step: What wrote it; None if that is not known.
        earliest: What wrote a wrong element first in time; None if that is not known.
        wrong_steps: How many steps wrote wrong elements.
        finding: The finding nearest to the earliest step.
        unwritten: How many wrong elements no step has written, if steps have written others.
        beside: The step that has written the nearest element, if none has written the first difference.
    """

    name: str
    count: int
    size: int
    first: tuple[int, ...]
    tile: tuple[int, ...]
    region: tuple[slice, ...] | None
    got: Any
    expected: Any
    largest: tuple[float, tuple[int, ...]]
    step: Step | None
    earliest: Step | None
    wrong_steps: int
    finding: Finding | None
    unwritten: int = 0
    beside: Step | None = None

    def __str__(self) -> str:
        error, place = self.largest
        lines = [
            f"{self.name}: {self.count:,} of {self.size:,} elements differ",
            f"  largest:  an error of {error:.6g}, at {_index(place)}",
            f"  first:    {_index(self.first)} is {self.got}, and the reference has {self.expected}",
        ]
        if self.region is not None:
            number = f"{_index(self.tile)}, " if self.tile else ""
            lines.append(f"  tile:     {number}elements {_region(self.region)}")
        if self.step is None and self.unwritten:
            lines.append(
                f"  written:  by no step, as {self.unwritten:,} of the wrong elements; "
                "does the launch have enough blocks, and does each block write all of its part?"
            )
            if self.beside is not None:
                lines.append(f"  beside:   {self.beside.what} wrote the nearest element: {self.beside.part}")
        elif self.step is None:
            lines.append(
                "  written:  unknown; return the Array in device memory, or the array that a copy brought it to"
            )
        else:
            lines += [f"  written:  by {_ended(self.step)}", f"  step:     {self.step.part}"]
        if self.earliest is not None:
            lines.append(f"  in time:  {self._in_time(self.earliest)}")
        lines.append(f"  finding:  {self.finding or 'none'}")
        return "\n".join(lines)

    def _in_time(self, earliest: Step) -> str:
        if self.wrong_steps == 1:
            return "it is the only wrong step"
        if earliest == self.step:
            return f"it is the first of {self.wrong_steps} wrong steps"
        return f"the first of {self.wrong_steps} wrong steps is {_ended(earliest)}, {earliest.part}"


def differences(
    outcome: Outcome,
    expected: Mapping[str, Values],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    tile: Sequence[int] = (),
) -> Iterator[Difference]:
    """Yield how the arrays of *outcome* differ from *expected*; those that are equal are left out.

    An element is right if it is equal, if both are NaN, or if the error is at most *atol* + *rtol* x the magnitude of
    the reference.

    Args:
        outcome: What the program returned.
        expected: The arrays of the reference.
        rtol: The relative error that is allowed.
        atol: The absolute error that is allowed.
        tile: The shape of tiles, over the last dimensions.

    Raises:
        CompareError: Names, shapes or types differ, an array has no numbers, or *tile* has too many dimensions.
    """
    if list(outcome.values) != list(expected):
        raise CompareError(f"the launch returned {', '.join(outcome.values)}, and the reference {', '.join(expected)}")
    for name, got in outcome.values.items():
        _check(name, got, expected[name], tile)
    for name, got in outcome.values.items():
        wrong, error = _wrong(got, expected[name], rtol, atol)
        if wrong.any():
            yield _difference(name, outcome, expected[name], wrong, error, tile)


@dataclass(frozen=True)
class Comparison:
    """Compares what *launch* ("file.py:function") returns with *expected*, in any process; call it with a seed.

    The other fields are arguments of `run` and `differences`.
    """

    launch: str
    device: DeviceProfile
    expected: Mapping[str, Values]
    rtol: float
    atol: float
    tile: tuple[int, ...]

    def __call__(self, seed: int) -> tuple[str, ...]:
        """Return the differences of a run with *seed* as text.

        Raises:
            CompareError: There is nothing to compare.
        """
        outcome = run(*load(self.launch), self.device, seed)
        found = differences(outcome, self.expected, rtol=self.rtol, atol=self.atol, tile=self.tile)
        return tuple(map(str, found))


def _check(name: str, got: Values, expected: Values, tile: Sequence[int]) -> None:
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise CompareError(
            f"{name} is {got.dtype} {got.shape}, and the reference {expected.dtype} {expected.shape}; "
            "return arrays of the same shape and type"
        )
    try:
        np.zeros(1, got.dtype).astype(np.float64)
    except (TypeError, ValueError):
        raise CompareError(f"{name} is {got.dtype}; compare numbers") from None
    if len(tile) > got.ndim or any(length < 1 for length in tile):
        raise CompareError(
            f"a tile of {list(tile)} in {name} of shape {got.shape}; give lengths for its last dimensions"
        )


def _wrong(got: Values, expected: Values, rtol: float, atol: float) -> tuple[Values, Values]:
    """Return which elements are wrong, and the error of each; infinite where it is no number."""
    mine, theirs = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        if got.dtype.kind in "iu":  # a double does not tell large integers apart
            high, low = np.maximum(got, expected), np.minimum(got, expected)
            error = (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
        else:
            error = np.abs(mine - theirs)
        allowed = error <= atol + rtol * np.abs(theirs)
    both_nan = np.isnan(mine) & np.isnan(theirs)
    wrong = (got != expected) & ~allowed & ~both_nan
    return wrong, np.where(np.isnan(error), inf, error)


def _difference(
    name: str, outcome: Outcome, expected: Values, wrong: Values, error: Values, tile: Sequence[int]
) -> Difference:
    places = np.argwhere(wrong)
    shape = (*([1] * (wrong.ndim - len(tile))), *tile) if tile else (1,) * wrong.ndim
    tiles = places // np.array(shape, np.intp)
    number = min(map(tuple, tiles.tolist()))
    first = tuple(places[(tiles == number).all(axis=1)][0].tolist())
    region: tuple[slice, ...] | None = None
    recorder = outcome.recorder
    array = outcome.arrays[name]
    writers = recorder.writers(array)
    index = int(writers[first])
    step = recorder.step(array, first)
    wrong_steps = [each for each in np.unique(writers[wrong]).tolist() if each >= 0]
    earliest: Step | None = None
    if wrong_steps:
        stroke = min(wrong_steps, key=lambda each: recorder.strokes[each].step.ended_ns)
        place = first if stroke == index else tuple(np.argwhere(wrong & (writers == stroke))[0].tolist())
        earliest = recorder.step(array, place)
    if step is not None:
        mine = np.argwhere(writers == index)
        region = tuple(map(slice, mine.min(axis=0).tolist(), (mine.max(axis=0) + 1).tolist()))
    if tile:
        region = tuple(
            slice(at * length, min((at + 1) * length, end))
            for at, length, end in zip(number, shape, wrong.shape, strict=True)
        )
    worst = np.unravel_index(int(np.where(wrong, error, -1.0).argmax()), wrong.shape)
    return Difference(
        name=name,
        count=len(places),
        size=wrong.size,
        first=first,
        tile=number if tile else (),
        region=region,
        got=outcome.values[name][first],
        expected=expected[first],
        largest=(float(error[worst]), tuple(map(int, worst))),
        step=step,
        earliest=earliest,
        wrong_steps=len(wrong_steps),
        finding=recorder.nearest(earliest),
        unwritten=int((writers[wrong] < 0).sum()) if (writers >= 0).any() else 0,
        beside=recorder.step(array, _nearest(writers, first)) if step is None and (writers >= 0).any() else None,
    )


def _nearest(writers: Values, place: tuple[int, ...]) -> tuple[int, ...]:
    """Return the place of the element nearest to *place*, in the order of memory, that a step has written."""
    written = np.flatnonzero(writers >= 0)
    at = np.ravel_multi_index(place, writers.shape)
    nearest = written[np.abs(written - at).argmin()]
    return tuple(map(int, np.unravel_index(nearest, writers.shape)))


def _index(index: Sequence[int]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _region(region: Sequence[slice]) -> str:
    return f"[{', '.join(f'{each.start}:{each.stop}' for each in region)}]"


def _ended(step: Step) -> str:
    return f"{step.what}, which ended at {step.ended_ns / 1000:.2f} us"


# --- Loading


def load(target: str, beside: str = "") -> tuple[str, Function]:
    """Return the name and the function that *target* names: "file.py:function", or "module:function".

    Args:
        target: The name; without a file or module, that of *beside* is meant.
        beside: Another such name.

    Raises:
        CompareError: There is no such file, module or function, or the import raises.
    """
    place, _, function = target.rpartition(":")
    place = place or beside.rpartition(":")[0]
    if not place or not function:
        raise CompareError(f"{target}: name a function as FILE.py:FUNCTION or MODULE:FUNCTION")
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else import_module(place)
    except CompareError:
        raise
    except Exception as error:
        raise CompareError(f"{place} cannot be imported: {text_of(error)}") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise CompareError(f"{place} has no function {function}")
    return f"{place}:{function}", found


def _load_file(file: Path) -> Any:
    if not file.is_file():
        raise CompareError(f"there is no file {file}")
    known = sys.modules.get(file.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() == file.resolve():
        return known
    sys.path.insert(0, str(file.parent.resolve()))  # for its own imports, as when it is run
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None, "the file ends in .py"
    assert spec.loader is not None, "the file ends in .py"
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
