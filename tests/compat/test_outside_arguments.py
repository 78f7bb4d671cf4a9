"""What the binding says of arguments that do not fit, as its vendor's own tests compare it."""

import inspect

import pytest

TOLD = {
    "util.start_thread": "",  # its words are those of CPython's parser alone
    "util.stop_thread": "acl.util.stop_thread args parse failed: ",
    "rt.malloc": "acl.rt.malloc args parse failed: ",
    "rt.create_stream": "acl.rt.create_stream args parse failed: ",
    "rt.peek_at_last_error": "acl.rt.peek_at_last_error args parse failed: ",
    "mdl.execute": "acl.mdl.execute args parse failed: ",
    "media.dvpp_malloc": "acl.media.dvpp_malloc args parse failed: ",
}


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
        ("rt.create_stream", (1,), "function takes exactly 0 arguments (1 given)"),
        ("rt.peek_at_last_error", (0, 0), "function takes at most 1 argument (2 given)"),
        ("mdl.execute", (1, 2), "function takes exactly 3 arguments (2 given)"),
        ("media.dvpp_malloc", (), "function takes exactly 1 argument (0 given)"),
    ],
)
def test_another_number_of_arguments(acl, name, arguments, told):
    with pytest.raises(TypeError) as raised:
        find(acl, name)(*arguments)
    assert str(raised.value) == TOLD[name] + told


@pytest.mark.parametrize("name", TOLD)
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
