"""Host views: arrays that carry out each operation on the plain array below, and then report its exact bytes.

Whether a function of NumPy has read its arrays follows from what it returns: a function whose results are nothing but
views, such as `reshape`, has looked at no byte. Exceptions are the functions that write one of their arguments, and
those that read none.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from acl_py.host_arrays.array_ranges import address_of, is_basic, part_of, ranges_of, selected
from acl_py.ranges import Ranges
from device_model.memory import Allocation

if TYPE_CHECKING:
    from acl_py.host_arrays.views import Views

_Array = npt.NDArray[Any]
_WRITABLE = 1  # PyBUF_WRITABLE
_LOOKS_AT_SHAPES = frozenset(
    getattr(np, name)
    for name in (
        *("can_cast", "common_type", "empty_like", "full_like", "iscomplexobj", "isrealobj", "may_share_memory"),
        *("min_scalar_type", "ndim", "ones_like", "result_type", "shape", "shares_memory", "size", "zeros_like"),
    )
)
_AS_METHODS = frozenset((np.put, np.take))  # whose exact items the methods know


class Source:
    """Where the bytes of a view are: in *allocation*, which begins at *base*."""

    __slots__ = ("allocation", "base", "nbytes", "views")

    def __init__(self, views: "Views", allocation: Allocation) -> None:
        self.views = views
        self.allocation = allocation
        self.base = allocation.address
        self.nbytes = allocation.nbytes

    def holds(self, array: _Array) -> bool:
        """Whether *array* lies in this memory."""
        return 0 <= address_of(array) - self.base < self.nbytes

    def access(self, ranges: Ranges, *, writes: bool) -> None:
        """Report an access."""
        self.views.access(self.allocation, ranges, writes=writes)

    def touch(self, array: _Array, *, writes: bool) -> None:
        """Report an access to all of *array*."""
        self.access(ranges_of(array, self.base), writes=writes)

    def touch_items(self, array: _Array, index: Any, *, writes: bool) -> None:
        """Report an access to the items of *array* that *index* selects."""
        self.access(_items(array, index, self.base), writes=writes)

    def export(self, array: _Array) -> None:
        """Report that the program got at the memory of *array* itself."""
        self.views.exported(self.allocation, ranges_of(array, self.base))


def _items(array: _Array, index: Any, base: int) -> Ranges:
    if is_basic(index):
        return ranges_of(part_of(array, index), base)
    if _names_fields(index):
        return ranges_of(array[index], base)
    return selected(array, index, base)


def _names_fields(index: Any) -> bool:
    return isinstance(index, str) or (isinstance(index, list) and bool(index) and isinstance(index[0], str))


def view_of(array: _Array, source: Source) -> "HostView":
    """Return a view of *array*, which lies in *source*."""
    view = np.ndarray.view(array, HostView)
    view._source = source
    return view


def _plain(view: _Array) -> _Array:
    return np.ndarray.view(view, np.ndarray)


class NumpyCall:
    """One operation on views: its arguments as plain arrays, and what it reads and writes."""

    __slots__ = ("_reads", "_views", "_writes")

    def __init__(self) -> None:
        self._views: dict[int, tuple[_Array, HostView, Source]] = {}  # by the id of the plain array
        self._reads: list[tuple[Source, Ranges]] = []
        self._writes: list[tuple[Source, Ranges]] = []

    def plain(self, thing: Any) -> Any:
        """Return *thing*, an argument, with each view in it replaced by a plain array."""
        if isinstance(thing, HostView):
            array = _plain(thing)
            if thing._source is not None and thing._source.holds(array):
                self._views[id(array)] = array, thing, thing._source
            return array
        if type(thing) is tuple or type(thing) is list:
            return type(thing)(map(self.plain, thing))
        if type(thing) is dict:
            return {key: self.plain(value) for key, value in thing.items()}
        return thing

    def is_view(self, array: Any) -> bool:
        """Whether *array*, as `plain` returned it, is a view."""
        return id(array) in self._views

    def sources(self) -> Iterator[tuple[_Array, Source]]:
        """Yield each array that is a view, and where its bytes are."""
        for array, _, source in self._views.values():
            yield array, source

    def read(self, array: Any, where: Any = True) -> None:
        """Note that *array* is read, as `plain` returned it, at the items where *where* is true."""
        self._touch(self._reads, array, where)

    def write(self, array: Any, where: Any = True) -> None:
        """Note that *array* is written."""
        self._touch(self._writes, array, where)

    def _touch(self, accesses: list[tuple[Source, Ranges]], array: Any, where: Any) -> None:
        if id(array) not in self._views:
            return
        _, _, source = self._views[id(array)]
        if where is True:
            accesses.append((source, ranges_of(array, source.base)))
            return
        shape = np.broadcast_shapes(array.shape, np.shape(where))
        mask = np.broadcast_to(np.asarray(where, bool), shape)
        accesses.append((source, selected(np.broadcast_to(array, shape), mask, source.base)))

    def tell(self) -> None:
        """Report what was noted: reads before writes."""
        for source, ranges in self._reads:
            source.access(ranges, writes=False)
        for source, ranges in self._writes:
            source.access(ranges, writes=True)

    def result(self, thing: Any) -> Any:
        """Return *thing*, a result, with a view for each array that shares memory with one of the arguments."""
        if type(thing) is np.ndarray:
            if id(thing) in self._views:
                return self._views[id(thing)][1]
            source = self._source_of(thing)
            return thing if source is None else view_of(thing, source)
        if type(thing) is tuple or type(thing) is list:
            return type(thing)(map(self.result, thing))
        return thing

    def looked_at_nothing(self, result: Any) -> bool:
        """Whether *result* is of nothing but views of the arguments."""
        if type(result) is tuple or type(result) is list:
            return bool(result) and all(map(self.looked_at_nothing, result))
        return type(result) is np.ndarray and self._source_of(result) is not None

    def _source_of(self, array: _Array) -> Source | None:
        return next((source for _, source in self.sources() if source.holds(array)), None)


# --- functions that write one of their arguments

_Change = Callable[[NumpyCall, tuple[Any, ...], dict[str, Any], Any], None]


def _overwrites(use: NumpyCall, args: tuple[Any, ...], kwargs: dict[str, Any], where: Any) -> None:
    """The first argument is written, the others are read."""
    target, *others = (*args, *kwargs.values())
    for other in others:
        use.read(other)
    use.write(target, where)


def _overwrites_masked(use: NumpyCall, args: tuple[Any, ...], kwargs: dict[str, Any], where: Any) -> None:  # noqa: ARG001
    """The first argument is written where the second, a mask of its shape, is true."""
    target, mask, *others = (*args, *kwargs.values())
    for other in (mask, *others):
        use.read(other)
    use.write(target, np.reshape(mask, np.shape(target)).astype(bool))


def _mends(use: NumpyCall, args: tuple[Any, ...], kwargs: dict[str, Any], where: Any) -> None:  # noqa: ARG001
    """The first argument is read, and written too if the second, `copy`, is false."""
    target, *_ = (*args, *kwargs.values())
    use.read(target)
    if not (args[1] if len(args) > 1 else kwargs.get("copy", True)):
        use.write(target)


def _reorders(use: NumpyCall, args: tuple[Any, ...], kwargs: dict[str, Any], where: Any) -> None:  # noqa: ARG001
    """The first argument is read and written."""
    use.read(args[0])
    use.write(args[0])


_CHANGES: dict[Callable[..., Any], _Change] = {
    np.copyto: _overwrites,
    np.fill_diagonal: _overwrites,
    np.nan_to_num: _mends,
    np.place: _overwrites_masked,
    np.put: _overwrites,
    np.put_along_axis: _overwrites,
    np.putmask: _overwrites_masked,
    np.ndarray.fill: _overwrites,
    np.ndarray.setfield: _overwrites,
    np.ndarray.sort: _reorders,
    np.ndarray.partition: _reorders,
}


def carry_out(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call *function* of NumPy with plain arrays instead of views, and report what it has read and written."""
    use = NumpyCall()
    args, kwargs = use.plain(args), use.plain(kwargs)
    where = kwargs.get("where")
    where = True if where is None or where is np._NoValue else where
    result = function(*args, **kwargs)
    out = kwargs.get("out")
    outs = [] if out is None else [*out] if type(out) is tuple else [out]
    outs += [arg for arg in args[1:] if arg is result and use.is_view(arg)]  # `out` without its name
    change = _CHANGES.get(function)
    if change is not None:
        change(use, args, kwargs, where)
    elif function not in _LOOKS_AT_SHAPES and (outs or not use.looked_at_nothing(result)):
        for array, _ in use.sources():
            if not any(array is each for each in outs):
                use.read(array, where if args and array is args[0] else True)
    for each in outs:
        use.write(each)
    use.tell()
    return use.result(result)


class HostView(np.ndarray[Any, np.dtype[Any]]):
    """An array over host memory that reports what is done with it."""

    _source: Source | None

    def __array_finalize__(self, obj: Any) -> None:
        self._source = getattr(obj, "_source", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        use = NumpyCall()
        plain, kwargs = use.plain(inputs), use.plain(kwargs)
        result = getattr(ufunc, method)(*plain, **kwargs)
        where, outs = kwargs.get("where", True), kwargs.get("out", ())
        if method == "at":
            array, index, *others = plain
            for source in (source for each, source in use.sources() if each is array):
                for writes in (False, True):
                    source.touch_items(array, index, writes=writes)
            plain = (index, *others) if type(index) is not tuple else (*index, *others)
        elif ufunc.signature is not None:
            where = True
        for array in plain:
            use.read(array, where)
        use.read(where)
        for array in outs:
            use.write(array, where if method == "__call__" else True)
        use.tell()
        return use.result(result)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if func in _AS_METHODS and args and isinstance(args[0], HostView):
            return getattr(args[0], func.__name__)(*args[1:], **kwargs)
        return carry_out(func, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        use = NumpyCall()
        array, index = use.plain((self, index))
        result = np.ndarray.__getitem__(array, index)
        for source in (source for each, source in use.sources() if each is array):
            if not (type(result) is np.ndarray and source.holds(result)):
                source.touch_items(array, index, writes=False)
        for each in index if type(index) is tuple else (index,):
            use.read(each)
        use.tell()
        return use.result(result)

    def __setitem__(self, index: Any, value: Any) -> None:
        use = NumpyCall()
        array, index, value = use.plain((self, index, value))
        np.ndarray.__setitem__(array, index, value)
        for each, _ in use.sources():
            if each is not array:
                use.read(each)
        use.tell()
        for source in (source for each, source in use.sources() if each is array):
            source.touch_items(array, index, writes=True)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            return iter(_plain(self))  # raises the error that arrays raise
        return (self[position] for position in range(len(self)))

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __buffer__(self, flags: int, /) -> memoryview:
        array = self._export()
        if self._source is not None:
            self._source.touch(array, writes=bool(flags & _WRITABLE))
        return np.ndarray.__buffer__(array, flags)  # type: ignore[attr-defined, no-any-return, unused-ignore]

    def _export(self) -> _Array:
        array = _plain(self)
        if self._source is not None:
            self._source.export(array)
        return array

    def item(self, *index: Any) -> Any:
        """Return an item as a Python object."""
        if not index:
            return carry_out(np.ndarray.item, (self,), {})
        array = _plain(self)
        result = array.item(*index)
        if self._source is not None:
            self._source.touch_items(array, _position(array, index), writes=False)
        return result

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """Return the items at *indices*."""
        if axis is not None or out is not None or mode != "raise":
            return carry_out(np.ndarray.take, (self, indices, axis, out, mode), {})
        use = NumpyCall()
        array, indices = use.plain((self, indices))
        result = np.ndarray.take(array, indices)
        if self._source is not None:
            index = np.unravel_index(np.asarray(indices) % max(1, array.size), array.shape)
            self._source.touch_items(array, index, writes=False)
        return result

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """Set the items at *indices* to *values*."""
        use = NumpyCall()
        array, indices, values = use.plain((self, indices, values))
        np.ndarray.put(array, indices, values, mode)
        use.read(indices)
        use.read(values)
        use.tell()
        places = np.asarray(indices, np.intp)  # NumPy 2.0 clips a small type to no bound beyond it
        flat = np.clip(places, 0, array.size - 1) if mode == "clip" else places % max(1, array.size)
        if self._source is not None and array.size:
            self._source.touch_items(array, np.unravel_index(flat, array.shape), writes=True)

    def byteswap(self, inplace: Any = False) -> Any:
        """Return the array with the bytes of each item in reverse order, or reverse them here."""
        array = _plain(self)
        result = np.ndarray.byteswap(array, inplace)
        if self._source is not None:
            self._source.touch(array, writes=False)
            if inplace:
                self._source.touch(array, writes=True)
        return self if inplace else result

    @property
    def flat(self) -> Any:
        """The items in one dimension."""
        return _Flat(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        _Flat(self)[:] = values

    @property
    def data(self) -> memoryview:
        """The memory itself."""
        return self._export().data

    @property
    def ctypes(self) -> Any:
        """The memory itself, for ctypes."""
        return self._export().ctypes

    @property
    def __array_interface__(self) -> Any:  # type: ignore[override, unused-ignore]
        return self._export().__array_interface__

    @property
    def __array_struct__(self) -> Any:
        return self._export().__array_struct__

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        return self._export().__dlpack__(*args, **kwargs)


def _position(array: _Array, index: tuple[Any, ...]) -> Any:
    """Return the index of `item(*index)`: one number counts through all items."""
    if len(index) == 1 and not isinstance(index[0], tuple):
        return tuple(int(each) for each in np.unravel_index(int(index[0]) % array.size, array.shape))
    return index[0] if len(index) == 1 else index


class _Flat:
    """The items of a view in one dimension, as `ndarray.flat` gives them."""

    __slots__ = ("_next", "base")

    def __init__(self, view: HostView) -> None:
        self.base = view
        self._next = 0

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> "_Flat":
        return self

    def __next__(self) -> Any:
        if self._next == len(self):
            raise StopIteration
        self._next += 1
        return self[self._next - 1]

    @property
    def index(self) -> int:
        """How many items were iterated over."""
        return self._next

    @property
    def coords(self) -> tuple[int, ...]:
        """The index of the next item."""
        return tuple(map(int, np.unravel_index(self._next, self.base.shape)))

    def _index(self, index: Any) -> Any:
        numbers = np.arange(self.base.size)[index]
        return np.unravel_index(numbers, self.base.shape)

    def __getitem__(self, index: Any) -> Any:
        return self.base[self._index(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        positions = self._index(index)
        values = np.resize(value, np.shape(positions[0])) if np.ndim(positions[0]) else value
        self.base[positions] = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> _Array:
        return np.array(self.base.reshape(-1), dtype)

    def copy(self) -> _Array:
        """Return the items as an array."""
        return self.base.flatten()


# --- methods of arrays


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np.ndarray, name)

    @wraps(function)
    def method(self: HostView, *args: Any, **kwargs: Any) -> Any:
        return carry_out(function, (self, *args), kwargs)

    return method


_METHODS = [
    name
    for name in dir(np.ndarray)
    if not name.startswith("_") and callable(getattr(np.ndarray, name)) and name not in ("setflags", "resize")
] + [
    *("__array__", "__bool__", "__complex__", "__contains__", "__copy__", "__deepcopy__", "__float__", "__format__"),
    *("__index__", "__int__", "__reduce__", "__reduce_ex__", "__repr__", "__str__"),
]
for _name in _METHODS:
    if _name not in HostView.__dict__:
        setattr(HostView, _name, _method(_name))
