"""Registers: arrays with a value, or several, for each thread of a block.

Axis 0 is the thread. A Register is a NumPy array that counts. Each operation is one instruction of all active warps for
each element of a thread, and is appended to the rows of the block. It is a subclass and no wrapper, because then all of
NumPy's functions, slices and broadcasts work on it as they are, and only one method, `__array_ufunc__`, has to count.

How operations are counted:

* floating-point addition, subtraction and multiplication: an FMA instruction. `a * b + c` is two, and
  `cta.fma(a, b, c)` is one;
* integers, comparisons, minimum and maximum, selections and masks: an ALU instruction; integer multiplication: an FMA
  instruction;
* exp2, log2 and reciprocal: an instruction of the special unit; exp, log, sine, square roots and divisions: one of
  these and one FMA, as with -use_fast_math;
* conversions from float32 to a type of 16 bits: an ALU instruction for two of them; other conversions: one instruction
  of the special unit;
* constants: none, as instructions have them as operands;
* integers that are computed from thread indices and constants alone: no second time by the same line if their values
  are the same, as a compiler takes what a loop does not change out of it;
* slices, shapes and assignments to a part: none, as the compiler only names registers. An assignment under `where` is
  a move.

A new register belongs to the threads that are active when it is made. Others that use it, in a store, an index, a
condition or a vote, are reported: in Python `v = x[i]` under `where` replaces v for all threads.

An operation does not know which part of a register it needs, so all parts of one array have one id in the rows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from math import prod
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from device_model.cta.block import Block, running
from device_model.cta.checks.rules import Rule
from device_model.cta.names import threads_text
from device_model.dtypes import as_dtype
from device_model.kernel.findings import WITHOUT_VALUES, KernelError
from device_model.kernel.sites import Site, site
from device_model.sm.instructions import Op
from device_model.sm.names import Bools

_T = TypeVar("_T")
_SPECIAL = frozenset({"exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "sqrt", "cbrt", "divide",
                      "reciprocal", "expm1", "log1p", "power", "float_power"})  # fmt: skip
_SPECIAL_ALONE = frozenset({"exp2", "log2", "reciprocal"})  # what the unit computes itself
_LOOK = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf",
                   "isfinite", "signbit", "logical_and", "logical_or", "logical_not", "maximum", "minimum", "fmax",
                   "fmin"})  # fmt: skip
_SUMS = (np.dot, np.vdot, np.inner)
_ALONG = {"argmax": None, "argmin": None, "sort": -1, "argsort": -1}  # their axes
_MOST_IDS = 4  # ids that a register built from parts keeps


@dataclass(eq=False, slots=True)
class _Name:
    """What all views of an array share.

    Attributes:
        ids: Its ids in rows.
        threads: Which threads have set it; None: all. A new array belongs to the threads that are active then.
        made: The line that set it, if these are not all threads.
        is_loaded: In a run without values, that its values come from memory, whatever its ids say.
    """

    ids: tuple[int, ...]
    threads: Bools | None = None
    made: Site | None = None
    is_loaded: bool = False


class Register(np.ndarray[Any, Any]):
    """An array over the threads of a block. Operations on it are instructions."""

    name: _Name

    def __array_finalize__(self, source: object) -> None:
        name = getattr(source, "name", None)
        self.name = name if name is not None else _Name(())

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] | None = None, **options: Any
    ) -> Any:
        block = running()
        plain = [each.view(np.ndarray) if isinstance(each, Register) else each for each in inputs]
        if ufunc is np.divmod:
            return np.floor_divide(*inputs), np.remainder(*inputs)
        if method == "reduce":
            _check_reduction(inputs[0], options.get("axis", 0))
        elif method != "__call__" or ufunc.nout > 1:
            raise KernelError(
                f"{ufunc.__name__}.{method} of a register at {site()} is no instruction of a thread",
                "loop over the elements of a thread, or use shuffles, atomics or shared memory",
            )
        result = _reduced(ufunc, plain[0], options) if method == "reduce" else ufunc(*plain, **options)
        elements = plain[0].size - result.size if method == "reduce" else result.size
        if ufunc is np.matmul:
            elements = result.size * plain[0].shape[-1]
        chains = result.size // block.threads if method == "reduce" else 0
        reads = ids_of(*inputs)
        key = None
        if method == "__call__" and result.dtype.kind in "iub" and block.index_ids.issuperset(reads):
            # With the line: equal values of two lines may be chance, and in another block they are not equal.
            key = block.site_number(), ufunc.__name__, block.warps_active, result.shape, result.tobytes()
        writes = block.indices.get(key, ())
        if not writes:
            writes = _count(block, ufunc, result.dtype, elements // block.threads, reads, chains)
            if key is not None:
                block.indices[key] = writes
                block.index_ids.update(writes)
        if out is None:
            return register(result, writes, inputs)
        target = out[0]
        _put(block, target, ..., register(result, writes, inputs))
        if isinstance(target, Register):
            target.name.ids = writes
            marked(target, *inputs)
        return target

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.where and len(args) == 3:
            return select(*args)
        if any(map(is_loaded, _all_of(args))):
            return _loaded(super().__array_function__(func, types, args, kwargs))
        if func in _SUMS and any(isinstance(each, Register) and each.ndim == 1 for each in args):
            raise KernelError(
                f"np.{func.__name__} of registers at {site()} would add the values of different threads",
                "multiply and add the elements of a thread; between threads use shuffles or atomics",
            )
        return super().__array_function__(func, types, args, kwargs)

    def __repr__(self) -> str:
        return f"<register {self.view(np.ndarray)!r}>"

    def __str__(self) -> str:
        return str(self.view(np.ndarray))

    def __bool__(self) -> bool:
        self._check_same(
            "a truth value",
            "for a branch use `with cta.where(condition):`, for a value cta.select() or np.minimum(), and & for `and`",
        )
        return super().__bool__()

    def __index__(self) -> int:
        self._check_same("an integer", "loop over integers that are the same in all threads, and use where()")
        return super().__index__()

    def __int__(self) -> int:
        self._check_same("an integer", "to convert it, use astype()")
        return super().__int__()

    def __float__(self) -> float:
        self._check_same("a float", "use np.sqrt() for math.sqrt(), and astype() for float()")
        return super().__float__()

    def item(self, *args: Any) -> Any:
        """Return one value; refused if it was loaded in a run without values."""
        check_known(self, "a value")
        return super().item(*args)

    def tolist(self) -> Any:
        """Return the values; refused if they were loaded in a run without values."""
        check_known(self, "a list")
        return super().tolist()

    def _check_same(self, use: str, remedy: str) -> None:
        """Refuse *use* of a register in which threads may differ."""
        check_known(self, use)
        if self.size != 1:
            raise KernelError(f"a register is used as {use} at {site()}, and its threads may differ", remedy)

    def __getitem__(self, index: Any) -> Any:
        _check_threads(index, "reads")
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        _check_threads(index, "writes")
        block = running()
        _put(block, self, index, value)
        marked(self, value)
        ids = value.name.ids if isinstance(value, Register) else ()
        self.name.ids = tuple(dict.fromkeys((*ids, *self.name.ids)))[:_MOST_IDS]

    def astype(self, dtype: npt.DTypeLike, *_: Any, **__: Any) -> Self:  # type: ignore[override]
        """Convert the values; none if they have this type already."""
        wanted = as_dtype(dtype)
        if wanted == self.dtype:
            return self
        block = running()
        writes = (block.register(),)
        count = self.size // block.threads
        if self.dtype == np.float32 and wanted.itemsize == 2 and wanted.kind in "fV":
            block.issue(Op.ALU, "cvt.x2", count=-(-count // 2), reads=self.name.ids, writes=writes)
        else:
            block.issue(Op.SFU, "cvt", count=count, reads=self.name.ids, writes=writes)
        return register(self.view(np.ndarray).astype(wanted), writes, (self,))  # type: ignore[return-value]


def _along(name: str, default: int | None) -> Callable[..., Any]:
    """Return method *name* of arrays for registers: along the elements of a thread, never from thread to thread."""
    method = getattr(np.ndarray, name)

    @wraps(method)
    def along(self: Register, axis: int | None = default, *args: Any, **options: Any) -> Any:
        _check_reduction(self, axis)
        return method(self, axis, *args, **options)

    return along


for _name, _axis in _ALONG.items():
    setattr(Register, _name, _along(_name, _axis))


def register(values: npt.NDArray[Any], ids: tuple[int, ...] = (), sources: Iterable[Any] | None = None) -> Register:
    """Return *values*, which have the threads as their first axis, as a register with *ids*.

    With *sources*, from which it was computed, it belongs to the active threads that have set all of these.
    """
    result: Register = np.asarray(values).view(Register)
    result.name = _Name(ids) if sources is None else _Name(ids, *_set_by(running(), sources))
    if ids and (loaded := running().loaded):
        result.name.is_loaded = not loaded.isdisjoint(ids)
    return result if sources is None else marked(result, *sources)


def is_loaded(value: Any) -> bool:
    """Return whether *value* comes from memory in a run without values, so that nobody knows it."""
    return value.name.is_loaded if isinstance(value, Register) else isinstance(value, _Loaded)


def marked(result: _T, *sources: Any) -> _T:
    """Return *result*; if it is a register and one of *sources* comes from memory, it does, too."""
    if isinstance(result, Register) and any(map(is_loaded, sources)):
        result.name.is_loaded = True
    return result


def check_known(value: Any, use: str) -> None:
    """Refuse *use* of a register that comes from memory, in a run without values."""
    if is_loaded(value):
        raise KernelError(
            f"{use} at {site()} depends on what memory holds, and values=False", WITHOUT_VALUES
        )  # fmt: skip


class _Loaded(np.ndarray[Any, Any]):
    """What a function of NumPy made of values from memory, as a plain array: no instruction, and nobody knows it."""


def _loaded(result: Any) -> Any:
    """Return *result*, of a function of NumPy on values from memory, so that it is known as such."""
    if isinstance(result, list | tuple):
        return type(result)(map(_loaded, result))
    if isinstance(result, Register):
        result.name.is_loaded = True
        return result
    return result.view(_Loaded) if isinstance(result, np.ndarray) else result


def _all_of(args: Any) -> list[Any]:
    """Return *args*, and what is in lists and tuples among them."""
    return [each for arg in args for each in (_all_of(arg) if isinstance(arg, list | tuple) else [arg])]


def check_set(value: Any) -> None:
    """Report active threads that use *value*, a register that other threads have set."""
    if not isinstance(value, Register) or value.name.threads is None:
        return
    block = running()
    others = block.active[~value.name.threads[block.active]]
    made = value.name.made
    if not len(others) or not block.hazards or made is None:
        return
    line = site()
    block.find(
        Rule.UNSET_REGISTER,
        f"a register that other threads have set under where(), at {made}, is used at {line} by "
        f"{threads_text(others)}; to set a register for some threads only, assign to it: r[...] = value, or "
        "r += value; or use cta.select()",
        (made, line),
        "r[...] = value",
    )


def _set_by(block: Block, sources: Iterable[Any]) -> tuple[Bools | None, Site | None]:
    """Return which threads set what is computed from *sources* now, and the line of the first that not all have set."""
    threads: Bools | None = None
    made: Site | None = None
    for each in sources:
        if isinstance(each, Register) and each.name.threads is not None:
            threads = each.name.threads if threads is None else threads & each.name.threads
            made = made or each.name.made
    if not block.is_whole:
        threads = block.mask() if threads is None else threads & block.mask()
        made = made or site()
    return threads, made


def values_of(block: Block, value: Any) -> npt.NDArray[Any]:
    """Return *value*, a register or a number, as a plain array with an element or more for each thread."""
    plain = value.view(np.ndarray) if isinstance(value, Register) else np.asarray(value)
    return plain if plain.shape[:1] == (block.threads,) else np.broadcast_to(plain, (block.threads, *plain.shape))


def ids_of(*values: Any) -> tuple[int, ...]:
    """Return the ids of those of *values* that are registers."""
    ids: tuple[int, ...] = ()
    for each in values:
        if isinstance(each, Register):
            ids += each.name.ids
    return ids


def full(shape: tuple[int, ...] | int, value: float, dtype: npt.DTypeLike = np.float32) -> Register:
    """Return a register of *shape* for each thread, with *value* in all elements."""
    block = running()
    inner = (shape,) if isinstance(shape, int) else shape
    return register(np.full((block.threads, *inner), value, as_dtype(dtype)), (), ())


def zeros(shape: tuple[int, ...] | int = (), dtype: npt.DTypeLike = np.float32) -> Register:
    """Return a register of *shape* for each thread, with zeros."""
    return full(shape, 0, dtype)


def fma(a: Any, b: Any, c: Any) -> Register:
    """Return a * b + c, rounded once: one instruction for each element.

    Products of half and single precision are exact in float64, and the sum is rounded there before it is rounded to the
    type of the result. Where both roundings meet in a tie, the last bit may differ from a card's.
    """
    block = running()
    plain = [each.view(np.ndarray) if isinstance(each, Register) else each for each in (a, b, c)]
    dtype = np.result_type(*plain)
    wide = np.float64 if np.issubdtype(dtype, np.inexact) or dtype.kind == "V" else dtype
    result = np.asarray(np.asarray(plain[0], wide) * np.asarray(plain[1], wide) + np.asarray(plain[2], wide), dtype)
    writes = (block.register(),)
    block.issue(Op.FMA, "fma", count=result.size // block.threads, reads=ids_of(a, b, c), writes=writes)
    return register(result, writes, (a, b, c))


def select(condition: Any, first: Any, second: Any) -> Register:
    """Return *first* where *condition* is true, else *second*: one instruction for each element."""
    block = running()
    plain = [each.view(np.ndarray) if isinstance(each, Register) else each for each in (condition, first, second)]
    result = np.where(*plain)
    writes = (block.register(),)
    reads = ids_of(condition, first, second)
    block.issue(Op.ALU, "sel", count=result.size // block.threads, reads=reads, writes=writes)
    chosen = register(result, writes, (condition, first, second))
    if chosen.name.threads is not None:
        _set_by_choice(block, chosen, condition, first, second)
    return chosen


def _count(
    block: Block, ufunc: np.ufunc, dtype: np.dtype[Any], count: int, reads: tuple[int, ...], chains: int
) -> tuple[int, ...]:
    """Issue what *ufunc* takes, as *chains* chains if it is a reduction; return the id of its result."""
    name = ufunc.__name__
    is_whole = dtype.kind in "iub"
    writes = (block.register(),)
    if name in _SPECIAL and not is_whole:
        if name not in _SPECIAL_ALONE:
            between = (block.register(),)
            block.issue(Op.FMA, name, count=count, reads=reads, writes=between)
            reads = between
        block.issue(Op.SFU, name, count=count, chains=chains, reads=reads, writes=writes)
        return writes
    op = Op.ALU if name in _LOOK or (is_whole and name not in ("multiply", "matmul")) else Op.FMA
    block.issue(op, name, count=count, chains=chains, reads=reads, writes=writes)
    return writes


def _put(block: Block, target: npt.NDArray[Any], index: Any, value: Any) -> None:
    """Assign *value* to a part of *target*, for active threads only."""
    plain = target.view(np.ndarray)
    new = value.view(np.ndarray) if isinstance(value, Register) else value
    if isinstance(target, Register):
        _note_assignment(block, target.name, index, value)
    if block.is_whole:
        plain[index] = new
        return
    part = plain[index]
    mask = block.mask()
    if part.shape[:1] != (block.threads,):
        raise KernelError(f"an assignment under where() at {site()} is not to a register of the threads")
    np.copyto(part, new, where=mask.reshape(-1, *[1] * (part.ndim - 1)), casting="same_kind")
    block.issue(Op.ALU, "mov", count=part.size // block.threads)


def _note_assignment(block: Block, name: _Name, index: Any, value: Any) -> None:
    """Note that the active threads have set what *name* stands for, or a part of it, to *value*."""
    source = value.name if isinstance(value, Register) else _Name(())
    if source.threads is None and name.threads is None:
        return
    everyone = np.ones(block.threads, np.bool_)
    before = everyone if name.threads is None else name.threads
    now = everyone if source.threads is None else source.threads
    if not (index is Ellipsis or (isinstance(index, slice) and index == slice(None))):
        now = now & before
    threads: Bools = np.where(block.mask(), now, before)
    name.threads = None if threads.all() else threads
    name.made = source.made or name.made


def _set_by_choice(block: Block, chosen: Register, condition: Any, first: Any, second: Any) -> None:
    """Note that a thread has set *chosen* if it has set what it chose."""
    shape = (block.threads, *[1] * (chosen.ndim - 1))
    sides = [_set_by(block, (condition, side))[0] for side in (first, second)]
    masks = [np.ones(shape, np.bool_) if side is None else side.reshape(shape) for side in sides]
    by_element = np.where(values_of(block, condition), *masks).reshape(block.threads, -1)
    threads: Bools = np.asarray(by_element.all(axis=1))
    chosen.name.threads = None if threads.all() else threads


def _reduced(ufunc: np.ufunc, values: npt.NDArray[Any], options: dict[str, Any]) -> npt.NDArray[Any]:
    """Return what each thread gets from its own elements, one after the other.

    NumPy takes ten times as long for a few elements in the last axes as for the same in the first.
    """
    if options.get("where", True) is not True:
        return np.asarray(ufunc.reduce(values, **options))
    axis = options.get("axis", 0)
    axes = [each % values.ndim for each in (axis if isinstance(axis, tuple) else (axis,))]
    kept = [each for each in range(values.ndim) if each not in axes]
    first = np.ascontiguousarray(values.transpose(*axes, *kept))
    first = first.reshape(prod(values.shape[each] for each in axes), *first.shape[len(axes) :])
    result = np.asarray(ufunc.reduce(first, **options | {"axis": 0, "keepdims": False}))
    return np.expand_dims(result, tuple(axes)) if options.get("keepdims") else result


def _check_reduction(source: npt.NDArray[Any], axis: Any) -> None:
    axes = range(source.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if any(each % max(source.ndim, 1) == 0 for each in axes):
        raise KernelError(
            f"a reduction over the threads at {site()} is no instruction",
            "give the axis of a thread's own elements; between threads use shuffles, votes, atomics or shared memory",
        )


def _check_threads(index: Any, verb: str) -> None:
    """Refuse an index that would take the registers of one thread to another."""
    first = index[0] if isinstance(index, tuple) and index else index
    if first is Ellipsis or first is None or (isinstance(first, slice) and first == slice(None)):
        return
    raise KernelError(
        f"register[{index if not isinstance(first, np.ndarray) else '...'}] at {site()} {verb} registers of chosen "
        "threads",
        "a thread reaches its own registers only: begin the index with a colon; use shuffles or where(); an element of "
        "a tensor is s[i, j], not s[i][j]",
    )
