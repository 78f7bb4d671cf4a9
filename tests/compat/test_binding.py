"""`takes`: arguments as the vendor's binding reads them."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import acl_py
from acl_py.compat.acl import install, uninstall
from acl_py.compat.acl.face.binding import takes
from acl_py.compat.acl.face.session import session


def given(*letters):
    """A function of the module that gives back what it is called with."""

    @takes("".join(letters))
    def function(*arguments):
        """What it does."""
        return arguments

    return function


@pytest.mark.parametrize(
    ("letter", "value", "read"),
    [
        ("k", 5, 5), ("k", -1, 2**64 - 1), ("k", 2**64 + 7, 7), ("k", True, 1), ("i", np.int64(7), 7), ("i", True, 1),
        ("i", -5, -5), ("u", -1, 2**32 - 1), ("u", 2**32 + 1, 1), ("u", np.uint8(3), 3), ("q", -(2**63), -(2**63)),
        ("f", 2, 2.0), ("f", 1.5, 1.5), ("f", np.float32(0.5), 0.5),
        ("f", np.int64(3), 3.0), ("f", Fraction(1, 4), 0.25),
        ("s", "text", "text"), ("y", b"bytes", b"bytes"), ("l", [1], [1]), ("d", {"a": 1}, {"a": 1}), ("O", None, None),
    ],
)  # fmt: skip
def test_what_fits(letter, value, read):
    (result,) = given(letter)(value)
    assert (result, type(result)) == (read, type(read))


WORDS = {"y": "bytes", "l": "list", "d": "dict"}


@pytest.mark.parametrize(
    ("letter", "value", "told"),
    [
        ("k", None, "an int but of type NoneType"), ("k", np.int64(1), "an int but of type int64"),
        ("k", 1.0, "an int but of type float"), ("i", 2**31, "more than 32 bits"), ("i", 1.5, "'float' object"),
        ("i", None, "'NoneType' object"), ("q", 2**63, "more than 64 bits"), ("s", b"x", "str but of type bytes"),
        ("y", "x", "of type str"), ("f", "1", "a number but of type str"),
        ("f", None, "a number but of type NoneType"),
        ("l", (1,), "of type tuple"),
        ("d", [], "of type list"),
    ],
)  # fmt: skip
def test_what_does_not(letter, value, told):
    with pytest.raises(TypeError) as raised:
        given("O", letter)(None, value)
    text = f"argument 2 is not {WORDS[letter]}" if letter in WORDS else "acl.test_binding.function args parse failed"
    assert str(raised.value) == text
    (note,) = raised.value.__notes__
    assert told in note


@pytest.mark.parametrize(("letter", "value"), [("l", (1,)), ("l", np.zeros(1)), ("d", [])])
def test_a_wrong_container_is_a_value_error_too(letter, value):
    with pytest.raises(ValueError, match="argument 1 is not"):
        given(letter)(value)


def test_positional_only_and_as_many_as_letters():
    function = given("k", "i")
    for call in (
        lambda: function(1),
        lambda: function(1, 2, 3),
        lambda: function(a0=1, a1=2),
        lambda: function(1, a1=2),
    ):
        with pytest.raises(TypeError):
            call()


def test_an_argument_that_may_be_left_out_is_not_none():
    @takes("k|i")
    def function(handle, level=7):
        return handle, level

    assert (function(1), function(1, 2)) == ((1, 7), (1, 2))
    with pytest.raises(TypeError, match="argument 2"):
        function(1, None)


def test_what_it_looks_like():
    function = given("k")
    assert (function.__name__, function.__doc__, function.__module__) == (
        "function",
        "What it does.",
        "acl.test_binding",
    )
    assert function.letters == "k"


@pytest.mark.parametrize("letters", ["x", "k|kk", "z|k"])
def test_letters_that_are_none(letters):
    with pytest.raises(ValueError, match="at most one argument may be left out"):
        takes(letters)


def test_a_function_that_runs_a_verb_does_not_show_that_it_gets_the_session(acl):
    assert str(inspect.signature(acl.rt.record_event)) == "(event: int, stream: int, /) -> int"
    assert acl.rt.record_event.letters == "kk"
    assert acl.rt.record_event.__doc__ == "Record an event in a stream."


def test_others_may_call_after_a_function_that_raised(acl):
    with pytest.raises(ValueError, match="all elements must be integers"):
        acl.rt.notify_batch_reset(["a"])
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(acl.rt.set_device, 0).result(30) == 0


def test_a_call_of_an_event_loop_may_be_made_in_the_midst_of_another_one():
    """Of one that a garbage collection makes there, or a callback."""

    async def main():
        here = session()
        usual = here.runtime.bridge
        with here.turn:
            assert acl.rt.synchronize_device() == 0
            assert here.runtime.bridge is not usual
        assert here.runtime.bridge is usual
        return acl.rt.get_device()

    acl = install(replace=True)
    try:
        assert acl_py.run(main, device="tiny", rules="acl") == (0, 0)
    finally:
        uninstall()
