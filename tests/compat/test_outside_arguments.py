"""What the binding says of arguments that do not fit, as its vendor's own tests compare it."""

import inspect

import numpy as np
import pytest

from acl_py.compat.acl import object_of
from acl_py.compat.acl.face.session import session

BARE = "util.start_thread"  # its words are those of CPython's parser alone
NAMED = "util.stop_thread", "rt.malloc", "rt.create_stream", "rt.peek_at_last_error", "mdl.execute", "media.dvpp_malloc"


def find(acl, name):
    module, _, function = name.partition(".")
    return getattr(getattr(acl, module), function)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("util.start_thread", (), "function takes exactly 2 arguments (0 given)"),
        ("util.start_thread", (print, None, None), "function takes exactly 2 arguments (3 given)"),
        ("util.stop_thread", (), "function takes exactly 1 argument (0 given)"),
        ("rt.malloc", (1,), "function takes exactly 2 arguments (1 given)"),
        ("rt.malloc", (1, 2, 3, 4), "function takes exactly 2 arguments (4 given)"),
        ("rt.peek_at_last_error", (0, 0), "function takes at most 1 argument (2 given)"),
        ("mdl.execute", (1, 2), "function takes exactly 3 arguments (2 given)"),
        ("media.dvpp_malloc", (), "function takes exactly 1 argument (0 given)"),
    ],
)
def test_another_number_of_arguments(acl, name, arguments, told):
    with pytest.raises(TypeError) as raised:
        find(acl, name)(*arguments)
    if name == BARE:
        assert str(raised.value) == told
    else:
        assert (str(raised.value), raised.value.__notes__) == (f"acl.{name} args parse failed", [told])


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (np.zeros(1), "pass its address: acl.util.numpy_to_ptr(array)"),
        (b"data", "pass its address: acl.util.bytes_to_ptr(data)"),
        ((4096, 0), "functions of acl return (value, ret): pass the value alone"),
    ],
)
def test_a_thing_in_place_of_its_address_is_told_what_to_pass(acl, value, advice):
    with pytest.raises(TypeError) as raised:
        acl.rt.free(value)
    what = f"argument 1 is not an int but of type {type(value).__name__}"
    assert raised.value.__notes__ == [what, advice]


def test_nobody_looks_at_arguments_where_none_is_taken(acl):
    assert acl.rt.set_device(0) == 0
    context, ret = acl.rt.get_context(0)
    stream, made = acl.rt.create_stream(context)
    assert (ret, made, acl.rt.synchronize_device(0), acl.rt.destroy_stream(stream)) == (0, 0, 0, 0)
    with pytest.raises(TypeError, match="no keyword arguments"):
        acl.rt.create_stream(context=context)


@pytest.mark.parametrize(
    ("name", "arguments", "places"),
    [
        ("execute_v2", ("Add", [], (), [], [], 0, 0), "2, 3, 4, or 5"),
        ("infer_shape", ("Add", [], [], 1, None, 0), "2, 3, or 5"),
        ("create_handle", ("Add", (), [], 0), "2 or 3"),
        ("execute_with_handle", (0, [], 0, 0), "2 or 3"),
        ("set_attr_list_string", (0, "names", ("a", "b")), "3"),
    ],
)
def test_something_else_where_lists_are_wanted(acl, name, arguments, places):
    with pytest.raises(TypeError) as raised:
        getattr(acl.op, name)(*arguments)
    assert str(raised.value) == f"argument {places} is not list"


@pytest.mark.parametrize("wrong", [None, "7", 1.0])
def test_lists_of_handles_with_something_else_in_them(acl, wrong):
    for name, arguments in {
        "execute": ("Add", [], [], [], [wrong], 0, 0), "execute_v2": ("None", [wrong], [], [], [], 0, 0),
        "create_handle": ("None", [], [wrong], 0), "execute_with_handle": (0, [wrong], [], 0),
        "infer_shape": ("None", [], [wrong], 0, [], 0), "update_params": ("None", [wrong], [], 0),
        "set_attr_list_data_type": (0, "types", [wrong]),
    }.items():  # fmt: skip
        with pytest.raises(TypeError, match="not list of int"):
            getattr(acl.op, name)(*arguments)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bool", [256]),
        ("bool", [-1]),
        ("bool", [1.0]),
        ("int", [1 << 63]),
        ("int", [2.0]),
        ("float", [1, 0.5]),  # an int is no float here, though set_attr_float takes one
        ("list_int", [[1 << 63]]),
        ("int", (1, 2)),
        ("float", None),
    ],
)
def test_lists_of_attributes_with_something_else_in_them(acl, name, values):
    attr = acl.op.create_attr()
    with pytest.raises(ValueError, match="argument 3"):
        getattr(acl.op, f"set_attr_list_{name}")(attr, "name", values)
    acl.op.destroy_attr(attr)


def test_a_list_of_texts_with_something_else_in_it(acl):
    attr = acl.op.create_attr()
    with pytest.raises(RuntimeError, match="has int in it"):  # the one place where the binding raises this
        acl.op.set_attr_list_string(attr, "name", ["text", 1])
    acl.op.destroy_attr(attr)


def test_an_array_of_another_type_than_a_card_would_read_is_a_finding(acl):
    attr = acl.op.create_attr()
    with pytest.warns(Warning, match="pass a list"):
        assert acl.op.set_attr_list_int(attr, "dims", np.array([2, 3], np.int32)) == 0
    with pytest.warns(Warning, match="pass a list"):
        assert acl.op.set_attr_list_int(attr, "axes", np.array([2, 3], np.int64)) == 0
    assert object_of(attr).values == {"dims": [2, 3], "axes": [2, 3]}
    assert [each for each in session().warned if "set_attr_list" in each] == [
        "acl.op.set_attr_list_int got an array of int32: a card reads its bytes as int64, which gives other values"
    ]
    acl.op.destroy_attr(attr)


@pytest.mark.parametrize("text", ["in\0between", "\0", "half \ud800"])
def test_a_text_that_is_no_c_string(acl, text):
    with pytest.raises(TypeError, match=r"^acl\.mdl\.load_from_file args parse failed"):
        acl.mdl.load_from_file(text)
    assert acl.mdl.load_from_file("größer.om")[1] == 145002


def test_a_priority_and_flags_of_a_stream_are_signed(acl):
    with pytest.raises(TypeError, match=r"^acl\.rt\.create_stream_with_config args parse failed"):
        acl.rt.create_stream_with_config(0, 1 << 31)
    stream, ret = acl.rt.create_stream_with_config(-1, 0)
    assert (acl.rt.get_stream_attribute(stream, 5)[1], ret, acl.rt.destroy_stream(stream)) == (0, 0, 0)


def test_a_dimension_of_more_than_64_bits(acl):
    with pytest.raises(ValueError, match="64 bits"):
        acl.create_tensor_desc(0, [1 << 63], 2)


def test_a_tuple_for_dims(acl):
    with pytest.raises(TypeError) as raised:
        acl.create_tensor_desc(0, (2, 2), 2)
    assert str(raised.value) == "argument 2 is not list"


@pytest.mark.parametrize("name", [BARE, *NAMED])
def test_keywords(acl, name):
    with pytest.raises(TypeError, match=rf"^acl\.{name}\(\) takes no keyword arguments$"):
        find(acl, name)(handle=1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("util.start_thread", ("", "")),
        ("rt.launch_callback", ("", [], 0, 0)),
    ],
)
def test_what_cannot_be_called(acl, name, arguments):
    with pytest.raises(TypeError) as raised:
        find(acl, name)(*arguments)
    assert str(raised.value) == "parameter must be callable"


def test_what_is_no_bytes_is_a_wrong_value_too(acl):
    for wrong in ("text", bytearray(4), 1, None):
        with pytest.raises(ValueError, match="bytes_to_ptr"):
            acl.util.bytes_to_ptr(wrong)


def test_an_argument_counts_when_the_one_behind_it_is_left_out(acl):
    with pytest.raises(TypeError, match="argument 1 is not str"):
        acl.init(7)
    with pytest.raises(TypeError, match="argument 1"):
        acl.rt.peek_at_last_error("thread")


def test_help_shows_names_of_which_none_can_be_given(acl):
    signature = inspect.signature(acl.rt.memcpy)
    assert list(signature.parameters) == ["dst", "most", "src", "count", "kind"]
    assert {each.kind for each in signature.parameters.values()} == {inspect.Parameter.POSITIONAL_ONLY}
