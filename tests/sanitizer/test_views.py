"""Views: what is done with an array over pinned memory is reported with the exact bytes, and computes what it would."""

import copy
import io
import pickle
import sys

import numpy as np
import pytest

import acl_py as acl
from acl_py.host_arrays.host_view import HostView
from acl_py.host_arrays.views import Views
from device_model.memory import Memory

N = 16  # float32 values in the memory


class Watched:
    """Pinned memory with 16 float32 values, and the accesses to it: ("r" or "w", ranges)."""

    def __init__(self):
        self.accesses, self.exports, self.sites = [], [], []
        self.views = Views(self.report, lambda _, ranges, site: self.exports.append(ranges))
        memory = Memory([1 << 20], 256, lambda _, what, __: AssertionError(what))
        self.plain = memory.malloc_host(4 * N, "here").numpy(np.float32)
        memory.watch_view = self.views.watch
        self.allocation = next(iter(memory.leaks()))
        self.view = self.views.watch(self.allocation, self.plain)
        self.plain[:] = np.arange(N)

    def report(self, _, ranges, writes, site):
        self.accesses.append(("w" if writes else "r", ranges))
        self.sites.append(str(site))

    def do(self, code):
        """Run *code*, in which `v` is the view, and return its value and its accesses."""
        self.accesses.clear()
        names = {"np": np, "v": self.view, "io": io, "copy": copy, "pickle": pickle}
        try:
            compiled = compile(code, "<code>", "eval")
        except SyntaxError:
            compiled = compile(code, "<code>", "exec")
        return eval(compiled, names), list(self.accesses)


@pytest.fixture
def watched():
    watched = Watched()
    yield watched
    watched.views.close()


def words(*indices):
    """The ranges of the float32 values at *indices*, each apart from the next."""
    return [(4 * index, 4 * index + 4) for index in indices]


ALL = [(0, 64)]
READ_ALL, WRITE_ALL = ("r", ALL), ("w", ALL)
SQUARE = "v.reshape(4, 4)"

# What the code does to `v`, or to a view of it: its accesses, in order.
ACCESSES = {
    # items
    "v[3]": [("r", words(3))],
    "v[-1] = 5": [("w", words(15))],
    "v[:] = 3": [WRITE_ALL],
    "v[2:4] = v[4:6]": [("r", [(16, 24)]), ("w", [(8, 16)])],
    "v[1:9:3] = 0": [("w", words(1, 4, 7))],
    "v[::-1][:2] = 0": [("w", [(56, 64)])],
    "v[[1, 2, 5]]": [("r", [(4, 12), (20, 24)])],
    "v[[1, 2, 5]] = 0": [("w", [(4, 12), (20, 24)])],
    "v[np.arange(16) > 13] = 0": [("w", [(56, 64)])],
    "v[...]": [],
    "v[()]": [],
    "v[4:8]": [],
    f"{SQUARE}[1, 2]": [("r", words(6))],
    f"{SQUARE}[:, 1] = 0": [("w", words(1, 5, 9, 13))],
    f"{SQUARE}[[0, 1], [2, 3]]": [("r", words(2, 7))],
    f"{SQUARE}.T[0].tolist()": [("r", words(0, 4, 8, 12))],
    f"{SQUARE}[1:3, 1:3] += 1": [
        ("r", [(20, 28), (36, 44)]),
        ("w", [(20, 28), (36, 44)]),
        ("r", [(20, 28), (36, 44)]),
        ("w", [(20, 28), (36, 44)]),
    ],
    "v.view(np.uint8)[5]": [("r", [(5, 6)])],
    "v.view([('a', 'u1'), ('b', '<u2'), ('c', 'u1')])['b'][0]": [("r", [(1, 3)])],
    "v.item(3)": [("r", words(3))],
    "v.take([1, 2])": [("r", [(4, 12)])],
    "np.take(v, [1, 2])": [("r", [(4, 12)])],
    "v.put([1, -1], 5)": [("w", words(1, 15))],
    "np.tile(v, 20).put(np.int8([1, 99]), 5, 'clip')": [READ_ALL],  # 320 items: more than an int8 counts
    "v.put(np.int8([1, 99]), 5, 'clip')": [("w", words(1, 15))],
    "v.flat[3]": [("r", words(3))],
    "v.flat[2:4] = 7, 8": [("w", [(8, 16)])],
    f"list({SQUARE}[:, 0].flat)": [("r", words(0)), ("r", words(4)), ("r", words(8)), ("r", words(12))],
    "list(v[:2])": [("r", words(0)), ("r", words(1))],
    # ufuncs
    "v + 1": [READ_ALL],
    "np.add(v[:4], v[4:8])": [("r", [(0, 16)]), ("r", [(16, 32)])],
    "np.add(v[:4], 1, out=v[4:8])": [("r", [(0, 16)]), ("w", [(16, 32)])],
    "np.add(v[:2], 1, out=v[4:6], where=np.array([False, True]))": [("r", words(1)), ("w", words(5))],
    "np.negative(np.ones(4), np.zeros(4), where=v[:1].view(bool)[:1])": [("r", [(0, 1)])],
    "v[4:].view(np.int32)[v[:1].view(np.int32)]": [("r", words(4)), ("r", words(0))],
    "np.ndarray.copy(v)[0] = 1": [],
    "np.add.at(v, [1, 2], 1)": [("r", [(4, 12)]), ("w", [(4, 12)])],
    "np.add.reduce(v[:4])": [("r", [(0, 16)])],
    "np.add.reduce(v[:4], where=[True, False, False, True])": [("r", words(0, 3))],
    "v @ np.ones(16, np.float32)": [READ_ALL],
    "(v == 9).all()": [READ_ALL],
    # functions of arrays
    "np.concatenate([v[:2], v[4:6]])": [("r", [(0, 8)]), ("r", [(16, 24)])],
    "np.where(np.ones(4, bool), v[:4], 0)": [("r", [(0, 16)])],
    "np.copyto(v[:4], 5)": [("w", [(0, 16)])],
    "np.copyto(v[:4], v[4:8])": [("r", [(16, 32)]), ("w", [(0, 16)])],
    "np.copyto(v[:2], 5, where=[False, True])": [("w", words(1))],
    "np.putmask(v[:4], [True, False, False, True], 0)": [("w", words(0, 3))],
    "np.clip(v[:4], 0, 1, out=v[:4])": [("r", [(0, 16)]), ("w", [(0, 16)])],
    "np.max(v, None, v[3:4].reshape(()))": [READ_ALL, ("w", words(3))],
    "np.nan_to_num(v[:2], copy=False)": [("r", [(0, 8)]), ("w", [(0, 8)])],
    "np.sum(v[:2], where=[True, False])": [("r", words(0))],
    "np.split(v, 2)": [],
    "np.shape(v)": [],
    "np.empty_like(v).shape": [],
    f"np.ravel({SQUARE})": [],
    f"np.ravel({SQUARE}.T)": [READ_ALL],
    "np.lib.stride_tricks.sliding_window_view(v, 4)[1].sum()": [("r", [(4, 20)])],
    "np.save(io.BytesIO(), v)": [READ_ALL],
    # methods
    "v[4:8].sum()": [("r", [(16, 32)])],
    "v.copy()": [READ_ALL],
    "v.fill(2)": [WRITE_ALL],
    "v.sort()": [READ_ALL, WRITE_ALL],
    "v[:2].byteswap(True)": [("r", [(0, 8)]), ("w", [(0, 8)])],
    "v[:2].tobytes()": [("r", [(0, 8)])],
    "v.astype(np.int32)": [READ_ALL],
    "v.astype(np.float32, copy=False)": [],
    "repr(v[:2])": [("r", [(0, 8)])],
    "float(v[:1].reshape(()))": [("r", words(0))],
    "5 in v": [READ_ALL],
    # copies
    "np.array(v[:2])": [("r", [(0, 8)])],
    "np.array([v[:2], v[4:6]])": [("r", [(0, 8)]), ("r", [(16, 24)])],
    "np.asarray(v)": [],
    "np.asarray(v)[0]": [("r", words(0))],
    "np.asarray(v, np.float64)": [READ_ALL],
    "np.frombuffer(v, np.uint8)[7]": [("r", [(7, 8)])],
    "copy.deepcopy(v)": [READ_ALL],
    "pickle.loads(pickle.dumps(v))": [READ_ALL],
    "bytes(v[:2])": [("r", [(0, 8)])],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("code", ACCESSES)
def test_an_access_is_reported_with_its_bytes(watched, code):
    assert watched.do(code)[1] == ACCESSES[code]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("code", ACCESSES)
def test_a_view_computes_what_an_array_does(watched, code):
    there = Watched()
    there.views.close()
    there.view = there.plain
    here, expected = watched.do(code)[0], there.do(code)[0]
    np.testing.assert_equal(pickle.dumps(here), pickle.dumps(expected))
    np.testing.assert_array_equal(watched.plain, there.plain)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("code", ACCESSES)
def test_nothing_else_is_read_or_written(watched, code):
    """Bytes that were not reported as read make no difference, and those not reported as written do not change."""
    before = watched.plain.copy()
    result, accesses = watched.do(code)
    changed = watched.plain.view(np.uint8) != before.view(np.uint8)
    for start, stop in (each for kind, ranges in accesses if kind == "w" for each in ranges):
        changed[start:stop] = False
    assert not changed.any()
    others = np.ones(4 * N, bool)
    for start, stop in (each for kind, ranges in accesses if kind == "r" for each in ranges):
        others[start:stop] = False
    watched.plain[:] = before
    watched.plain.view(np.uint8)[others] ^= 0x15
    if accesses and not isinstance(result, HostView):
        np.testing.assert_equal(pickle.dumps(watched.do(code)[0]), pickle.dumps(result))


def test_views_of_views_are_views_and_copies_are_arrays(watched):
    v = watched.view
    for view in (v[2:], v.reshape(4, 4).T, v.view(np.uint8), np.squeeze(v), np.split(v, 2)[1], v.real, np.asarray(v)):
        assert type(view) is HostView
    for array in (v + 1, v.copy(), v[[1]], np.array(v), np.sort(v), v.tolist(), v[v > 2], copy.copy(v), v.flatten()):
        assert type(array) is not HostView
    same = v
    v += 1
    assert v is same
    assert np.add(v, 1, out=v) is same


def test_errors_are_those_of_arrays_and_nothing_is_reported(watched):
    watched.accesses.clear()
    for code in ("v[16]", "v[:3] = 1, 2", "v + np.ones(3)", "v.reshape(3)", "iter(v[0:1].reshape(()))", "v.item(16)"):
        with pytest.raises((IndexError, ValueError, TypeError)):
            watched.do(code)
        assert watched.accesses == []


def test_a_line_in_numpy_is_the_line_that_called_numpy(watched):
    np.testing.assert_array_equal(watched.view[:2], [0, 1])
    assert {site.split(":")[0] for site in watched.sites} == {"test_views.py"}


def test_memory_that_is_handed_out_is_told(watched):
    assert watched.view[:2].ctypes.data == watched.allocation.address
    watched.view[2:4].data[0] = 1
    assert watched.exports == [[(0, 8)], [(8, 16)]]
    assert watched.accesses == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have no buffers of their own before")
def test_a_buffer_is_read_or_written_when_it_is_asked_for(watched):
    assert watched.do("memoryview(v[:2])")[1] == [("r", [(0, 8)])]
    assert watched.do("io.BytesIO(bytes(8)).readinto(v[4:6])")[1] == [("w", [(16, 24)])]
    assert watched.exports == [[(0, 8)], [(16, 24)]]


def test_numpy_is_as_it_was_when_nobody_watches():
    originals = np.array, np.asarray, np.frombuffer
    one, other = Watched(), Watched()
    assert np.array is not originals[0]
    one.views.close()
    one.accesses.clear()
    one.view[0] = 1
    assert one.accesses == []
    other.view[0] = 1
    assert other.accesses == [("w", [(0, 4)])]
    for watched in (one, other, other):
        watched.views.close()
    assert (np.array, np.asarray, np.frombuffer) == originals


def test_verbs_take_views_and_see_the_memory_below():
    async def main():
        host = await acl.MallocHost(64)
        device = await acl.Malloc(64)
        view = host.numpy(np.float32)
        assert type(view) is HostView
        view[:] = 3
        await acl.Memcpy(device, 64, view, 64, acl.MemcpyKind.HOST_TO_DEVICE)
        view[:] = 0
        await acl.Memcpy(view[4:], 48, device, 48, acl.MemcpyKind.DEVICE_TO_HOST)
        await acl.FreeHost(view)
        return view.tolist()

    assert acl.run(main, sanitize="host") == [0.0] * 4 + [3.0] * 12


def test_without_the_sanitizer_arrays_are_plain():
    async def main():
        return type((await acl.MallocHost(64)).numpy())

    assert acl.run(main) is acl.run(main, sanitize="uninitialised") is np.ndarray
