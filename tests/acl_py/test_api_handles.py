"""Handles: not pickled, not copied, and arrays for NumPy only where they are memory of the host."""

import copy
import pickle
import rlcompleter

import numpy as np
import pytest
from histories import misused, refused, tiny

import acl_py as acl


@acl.kernel(cost=acl.Cost(us=1))
def at_module_level():
    """A kernel that another process can import."""


@tiny(rules="acl")
async def test_no_handle_can_be_pickled_or_copied():
    sim, stream, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateEvent()
    notify, context, buffer = await acl.CreateNotify(), await acl.GetCurrentContext(), await acl.Malloc(64)
    launch = await at_module_level[1, stream]()
    record = await acl.RecordEvent(event, stream)
    for handle in (sim, stream, event, notify, context, buffer, buffer[8:], acl.Array(buffer), launch, record):
        for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
            with misused(TypeError, "cannot be pickled or copied, because it belongs to a simulation") as caught:
                duplicate({"handle": handle})["handle"] if duplicate is not copy.copy else duplicate(handle)
            assert repr(handle) in str(caught.value)


def test_a_kernel_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(at_module_level)) is at_module_level


def of_python(names, name):
    return [text.rpartition(".")[2].rstrip("()") for text in rlcompleter.Completer(names).attr_matches(f"{name}.")]


def of_ipython(names, name):
    ipython = pytest.importorskip("IPython.core.completer")
    return [text.rpartition(".")[2] for text in ipython.Completer(names).attr_matches(f"{name}.")]


def of_jedi(names, name):
    return [each.name for each in pytest.importorskip("jedi").Interpreter(f"{name}.", [names]).complete()]


@pytest.mark.parametrize(
    "completed",
    [of_python, *(pytest.param(each, marks=pytest.mark.slow) for each in (of_ipython, of_jedi))],  # long imports
)
@tiny
async def test_completion_shows_what_a_program_may_look_at(completed):
    names = {"stream": await acl.CreateStream(name="copies"), "event": await acl.CreateEvent()}
    public = {"stream": ["id", "idle", "name", "priority"], "event": ["done", "id", "name", "timing"]}
    assert [names["stream"].name, names["stream"].idle, names["event"].done] == ["stream 'copies'", True, True]
    for name in public:
        for texts in (dir(names[name]), dir(type(names[name])), completed(names, name)):
            assert sorted(text for text in texts if not text.startswith("_")) == public[name]


def test_a_program_cannot_make_a_stream_or_an_event_itself():
    for kind in (acl.Stream, acl.Event):
        with pytest.raises(TypeError, match=rf"Create{kind.__name__}\(\) returns one"):
            kind()


@tiny
async def test_numpy_sees_pinned_memory_and_is_told_why_not_the_device():
    pinned, device = await acl.MallocHost(8), await acl.Malloc(8)
    values = acl.Array(pinned, np.int16, (2, 2))
    np.asarray(values)[:] = [[1, 2], [3, 4]]  # no copy
    assert np.asarray(pinned).tolist() == [1, 0, 2, 0, 3, 0, 4, 0]
    assert np.asarray(values[1], np.float32).tolist() == [3.0, 4.0]
    assert (np.array(values) + values == 2 * values.buffer.numpy(np.int16, (2, 2))).all()
    copied = np.array(pinned)
    copied[:] = 9
    assert np.asarray(pinned)[0] == 1
    with pytest.raises(ValueError, match="copy"):
        np.asarray(values, np.float32, copy=False)
    for unseen in (device, acl.Array(device, np.int16)):
        for convert in (np.asarray, np.array, np.sum, lambda each: np.asarray(values) + each):
            with refused(acl.Kind.INVALID_VALUE, "device memory, which NumPy cannot see", "copy it to the host first"):
                convert(unseen)


@tiny
async def test_a_forgotten_await_is_reported_with_the_verb_and_the_line():
    stream, buffer = await acl.CreateStream(), await acl.Malloc(64)
    line = test_a_forgotten_await_is_reported_with_the_verb_and_the_line.__wrapped__.__code__.co_firstlineno
    with pytest.warns(RuntimeWarning) as warnings:  # noqa: PT031 - three at once
        acl.SynchronizeStream(stream)
        at_module_level[1, stream]()
        acl.Memset(buffer, 64, 0, 64)
    assert [(str(each.message), each.lineno - line) for each in warnings] == [
        ("coroutine 'SynchronizeStream' was never awaited", 5),
        ("coroutine 'LaunchKernel' was never awaited", 6),
        ("coroutine 'Memset' was never awaited", 7),
    ]
    assert {each.filename for each in warnings} == {__file__}


@tiny(rules="acl")
async def test_what_was_not_awaited_is_named_by_every_verb_that_gets_it():
    event, buffer, forgotten = await acl.CreateEvent(), await acl.Malloc(64), acl.CreateStream()
    text = r"not (of )?a coroutine of CreateStream\(\): await that call"
    for verb, args in (
        (acl.SynchronizeStream, (forgotten,)), (acl.RecordEvent, (forgotten,)), (acl.RecordNotify, (forgotten,)),
        (acl.StreamWaitEvent, (None, forgotten)), (acl.SetCurrentContext, (forgotten,)), (acl.Malloc, (forgotten,)),
        (acl.LaunchKernel, (forgotten, 1)), (acl.LaunchKernel, (at_module_level, forgotten)),
        (acl.MemsetAsync, (buffer, 64, 0, forgotten)), (acl.SynchronizeEventWithTimeout, (event, forgotten)),
        (acl.LaunchHostFunc, (None, forgotten)),
    ):  # fmt: skip
        with misused(TypeError, text):
            await verb(*args)
    with misused(TypeError, text):
        acl.Array(forgotten)
    for verb, args in (
        (acl.Free, (forgotten,)),
        (acl.MemsetAsync, (forgotten, 64, 0, 64)),
        (acl.HostRegister, (forgotten,)),
    ):
        with refused(acl.Kind.INVALID_VALUE, "a coroutine of CreateStream(), which is not memory", "await that call"):
            await verb(*args)
    forgotten.close()


@tiny(rules="acl")
async def test_no_coroutine_function_where_nothing_would_await_it():
    async def tell(*_):
        pass

    for verb, args in (
        (acl.LaunchHostFunc, (None, tell)), (acl.SetExceptionInfoCallback, (tell,)), (acl.HostThread, (tell,)),
    ):  # fmt: skip
        with misused(TypeError, "cannot wait, and coroutine function tell does: await it in a task instead"):
            await verb(*args)
