"""Observers: which methods are called, and that an event without an observer costs nothing."""

import inspect

import pytest
from rig import Rig

from device_model.observe import Hooks, Observer

NAMES = sorted(name for name in vars(Observer) if not name.startswith("_"))


def listener(name, notes, who):
    """An observer that overrides the method *name* only."""
    return type("Listener", (Observer,), {name: lambda self, *args: notes.append((who, *args))})()


def test_hooks_are_the_methods_of_an_observer():
    assert set(NAMES) == set(Hooks.__slots__) - {"_observers", "each_node"}


@pytest.mark.parametrize("watched", [["op_ended"], ["op_queued"], ["run_queued"]])
def test_who_watches_operations_wants_those_of_all_nodes_unless_it_is_told_which_nodes_ran(watched):
    hooks, wanted = Hooks(), []
    for names in (["call"], [*watched, "nodes_ran"], watched):
        hooks.add(type("Listener", (Observer,), {name: lambda self, *args: None for name in names})())
        wanted.append(hooks.each_node)
    assert wanted == [False, False, True]


@pytest.mark.parametrize("name", NAMES)
def test_a_hook_is_none_while_nobody_listens(name):
    hooks, notes = Hooks(), []
    assert getattr(hooks, name) is None
    hooks.add(Observer())
    assert getattr(hooks, name) is None
    one = listener(name, notes, "one")
    hooks.add(one)
    # An observer without a method of its own for nodes hears of them as of other operations.
    expected = ["node_queued", "op_queued"] if name == "op_queued" else [name]
    assert [other for other in NAMES if getattr(hooks, other) is not None] == expected
    assert getattr(hooks, name) == getattr(one, name)  # nothing in between
    hooks.remove(one)
    assert getattr(hooks, name) is None


@pytest.mark.parametrize("name", NAMES)
def test_observers_are_told_in_the_order_in_which_they_came(name):
    hooks, notes = Hooks(), []
    one, two, three = (listener(name, notes, who) for who in ("one", "two", "three"))
    for observer in (one, two, three):
        hooks.add(observer)
    getattr(hooks, name)("news")
    hooks.remove(two)
    getattr(hooks, name)("more")
    assert notes == [("one", "news"), ("two", "news"), ("three", "news"), ("one", "more"), ("three", "more")]


@pytest.mark.parametrize("name", NAMES)
def test_an_observer_hears_nothing_it_does_not_override(name):
    arguments = inspect.signature(getattr(Observer, name)).parameters
    assert getattr(Observer(), name)(*range(len(arguments) - 1)) is None


def test_an_observer_that_never_came_cannot_go():
    with pytest.raises(ValueError, match="not in list"):
        Hooks().remove(Observer())


def test_an_observer_is_told_of_an_end_when_all_is_known():
    rig, notes = Rig(), []

    class Watching(Observer):
        def op_ended(self, op):
            notes.append((rig.now, op.start_ns, op.end_ns, op.done, op.error))

    rig.hooks.add(Watching())
    rig.kernel(rig.stream(), 100)
    rig.run()
    assert notes == [(100, 0, 100, True, None)]


def test_an_observer_that_comes_late_hears_the_rest():
    rig = Rig()
    rig.hooks.remove(rig.history)
    stream = rig.stream()
    rig.kernel(stream, 100)
    rig.kernel(stream, 100)
    rig.advance(150)
    rig.hooks.add(rig.history)
    assert rig.run() == [("kernel", 1, 100, 200)]


def test_a_failure_is_told_once_and_what_it_keeps_from_running_is_no_failure():
    rig = Rig()
    stream = rig.stream()

    def fail():
        raise ValueError("no")

    first = rig.kernel(stream, 100, body=fail, name="bad")
    second = rig.kernel(stream, 100)
    assert rig.run() == [("bad", 1, 0, 100), ("kernel", 1, 100, 200)]
    assert rig.history.failures == [("bad", 1, str(rig.context.error))]
    assert first.error is second.error is rig.context.error
