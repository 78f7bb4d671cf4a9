"""Dataclasses that share their methods are what `dataclass(frozen=True)` would make of them."""

import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from inspect import signature
from typing import Generic, TypeVar

import pytest

from device_model.frozen import Frozen

K = TypeVar("K")


class Shared(Frozen):
    """The fields of Made."""

    name: str
    size: int = 3
    words: list = field(default_factory=list)
    source: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True)
class Made:
    """The fields of Shared."""

    name: str
    size: int = 3
    words: list = field(default_factory=list)
    source: str = field(default="", repr=False, compare=False)


BOTH = pytest.mark.parametrize("made", [Shared, Made])


@BOTH
def test_values_come_by_place_by_name_and_by_default(made):
    some = made("a", words=[1])
    assert vars(some) == {"name": "a", "size": 3, "words": [1], "source": ""}
    assert repr(some) == f"{made.__name__}(name='a', size=3, words=[1])"
    assert made("a").words is not made("a").words


@BOTH
def test_a_constructor_shows_its_parameters(made):
    assert [str(each).partition(":")[0].partition("=")[0] for each in signature(made).parameters.values()] == [
        "name",
        "size",
        "words",
        "source",
    ]
    assert signature(made).parameters["size"].default == 3


@BOTH
def test_two_are_equal_by_the_fields_that_are_compared(made):
    assert made("a", source="here") == made("a", source="there")
    assert made("a") != made("a", 4)
    assert made("a") != "a"
    assert hash(made("a", words=())) == hash(made("a", words=(), source="there"))


@BOTH
def test_no_field_is_set_again(made):
    some = made("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'size'"):
        some.size = 4
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'size'"):
        del some.size
    assert some.size == 3


@BOTH
def test_the_functions_of_dataclasses_and_pickle_take_it(made):
    some = made("a", source="here")
    assert [each.name for each in fields(some)] == ["name", "size", "words", "source"]
    assert vars(replace(some, size=4)) == {"name": "a", "size": 4, "words": [], "source": "here"}
    assert vars(pickle.loads(pickle.dumps(some))) == vars(some)


@BOTH
@pytest.mark.parametrize(("args", "values"), [((), {}), (("a", 1, [], "", 5), {}), (("a",), {"name": "b"})])
def test_arguments_that_do_not_fit_are_refused(made, args, values):
    with pytest.raises(TypeError, match=r"name|arguments"):
        made(*args, **values)


def test_an_unknown_argument_is_refused_with_those_that_there_are():
    with pytest.raises(TypeError, match="no argument 'sise'; it has name, size, words, source"):
        Shared("a", sise=4)


def test_values_are_checked_together():
    class Sorted(Frozen):
        """Two numbers in order."""

        low: int
        high: int

        def __post_init__(self):
            if self.low > self.high:
                raise ValueError("low is above high")

    with pytest.raises(ValueError, match="low is above high"):
        Sorted(2, 1)


def test_fields_are_inherited_also_by_generic_classes():
    class Base(Frozen, Generic[K]):
        """One field."""

        first: K

    class Derived(Base[int]):
        """And another one."""

        second: str

    assert repr(Derived(1, second="b")).endswith("Derived(first=1, second='b')")
