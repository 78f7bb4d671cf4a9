"""What stands directly in `acl`: beyond what the tests of a vendor ask."""

import json
import threading

import pytest
from card import done, made, module

from acl_py.log import disable, enable

NCHW, NHWC, ND, NC1HWC0 = 0, 1, 2, 3


def test_each_init_counts_for_finalize_reference(acl):
    assert acl.init() == 100002  # the fixture was first
    assert acl.finalize_reference() == (1, 0)
    assert acl.finalize_reference() == (0, 0)
    assert acl.finalize_reference() == (0, 100037)
    assert (acl.init(), acl.init(), acl.finalize(), acl.finalize()) == (0, 100002, 0, 100037)


@pytest.mark.parametrize(("text", "ret"), [("", 0), ("{}", 0), ("[1]", 100006), ("{", 100006)])
def test_the_configuration_file(acl, tmp_path, text, ret):
    (tmp_path / "acl.json").write_text(text)
    acl.finalize()
    assert acl.init(str(tmp_path / "acl.json")) == ret
    if ret:
        assert "acl.json" in acl.get_recent_err_msg()
        done(acl.init())


def test_messages_are_of_the_thread_or_of_the_process(acl, tmp_path):
    def failing():
        acl.rt.set_device(0)
        acl.rt.free(0)

    def in_a_thread():
        thread = threading.Thread(target=failing)
        thread.start()
        thread.join()
        return acl.get_recent_err_msg()

    assert in_a_thread() is None
    acl.finalize()
    (tmp_path / "acl.json").write_text(json.dumps({"err_msg_mode": "1"}))
    done(acl.init(str(tmp_path / "acl.json")))
    assert "100000" in in_a_thread()


def test_app_log_writes_to_the_log(acl):
    said = []

    class Log:
        def __getattr__(self, level):
            return lambda event, **about: said.append((level, event)) if level != "debug" else None

    enable(Log())
    try:
        for level in (1, 2, 3, 9):
            acl.app_log(level, f"level {level}")
    finally:
        disable()
    assert said == [("info", "level 1"), ("warning", "level 2"), ("error", "level 3"), ("info", "level 9")]


def test_what_the_card_and_the_packages_are():
    with module("ascend910b3") as acl:
        assert acl.get_device_capability(0, 0) == (20, 0)
        assert acl.get_device_capability(0, 1) == (40, 0)
        assert acl.get_device_capability(0, 7) == (0, 100000)
        assert acl.get_device_capability(8, 0) == (0, 200002)
        attributes, count, ret = acl.get_cann_attribute_list()
        assert (len(attributes), ret) == (count, 0)
        assert [acl.get_cann_attribute(each)[1] for each in (*attributes, 99)] == [0] * count + [100000]
        versions, ret = acl.get_cann_version(0)
        assert (versions["version"], ret) == ("", 207000)


# --- tensor descriptions


def desc_of(acl, desc):
    dims = [acl.get_tensor_desc_dim(desc, i) for i in range(acl.get_tensor_desc_num_dims(desc))]
    return acl.get_tensor_desc_format(desc), dims


@pytest.mark.parametrize(
    ("dtype", "before", "after"),
    [
        (0, (NCHW, [1, 3, 4, 5]), (NHWC, [1, 4, 5, 3])),
        (0, (NHWC, [1, 4, 5, 3]), (NCHW, [1, 3, 4, 5])),
        (1, (NCHW, [1, 35, 4, 5]), (NC1HWC0, [1, 3, 4, 5, 16])),
        (2, (NHWC, [1, 4, 5, 35]), (NC1HWC0, [1, 2, 4, 5, 32])),
        (0, (ND, [7]), (ND, [7])),
    ],
)
def test_a_description_in_another_format(acl, dtype, before, after):
    desc = acl.create_tensor_desc(dtype, before[1], before[0])
    other = made(acl.trans_tensor_desc_format(desc, after[0]))
    assert (desc_of(acl, desc), desc_of(acl, other)) == (before, after)
    assert acl.get_tensor_desc_type(other) == dtype
    acl.destroy_tensor_desc(desc)
    assert desc_of(acl, other) == after


@pytest.mark.parametrize(("fmt", "dims", "to"), [(ND, [1, 2, 3, 4], NCHW), (NCHW, [1, 2], NHWC), (NCHW, [1] * 4, 29)])
def test_formats_that_cannot_become_one_another(acl, fmt, dims, to):
    assert acl.trans_tensor_desc_format(acl.create_tensor_desc(0, dims, fmt), to) == (0, 200001)
    assert acl.trans_tensor_desc_format(0xBAD, to) == (0, 100000)


def test_ranges_of_dims(acl):
    desc = acl.create_tensor_desc(0, [-1, 4], ND)
    assert acl.get_tensor_desc_size(desc) == 0
    done(acl.set_tensor_shape_range(desc, [[1, 8], [4, 4]]))
    assert acl.get_tensor_desc_dim_range(desc, 0, 2) == ([1, 8], 0)
    assert acl.get_tensor_desc_dim_range(desc, 1, 3) == ([4, 4, 0], 0)
    for index, count in ((2, 2), (0, 1), (0, 5000)):
        assert acl.get_tensor_desc_dim_range(desc, index, count) == (None, 100000)
    done(acl.set_tensor_shape(desc, [2, 4]))
    assert acl.get_tensor_desc_size(desc) == 32
    with pytest.raises((TypeError, ValueError), match="list of lists of two ints"):
        acl.set_tensor_shape_range(desc, [[1, 2, 3]])


def test_a_constant_has_an_address(acl):
    desc, address = acl.create_tensor_desc(0, [4], ND), made(acl.rt.malloc(16, 0))
    assert acl.get_tensor_desc_address(desc) == 0
    done(acl.set_tensor_const(desc, address, 16))
    assert acl.get_tensor_desc_address(desc) == address
    assert (acl.get_tensor_desc_by_index(desc, 0), acl.get_tensor_desc_by_index(desc, 1)) == (desc, 0)


@pytest.mark.parametrize(("dtype", "size"), [(27, 2), (33, 4), (34, 1), (35, 1), (36, 1), (13, 0), (-1, 0)])
def test_sizes_of_unusual_types(acl, dtype, size):
    assert acl.data_type_size(dtype) == size


def test_a_message_names_what_to_do_and_nothing_that_would_not_help(acl):
    told = []

    def without_context():
        told.append((acl.rt.create_stream(), acl.get_recent_err_msg()))

    thread = threading.Thread(target=without_context)
    thread.start()
    thread.join()
    ((answer, message),) = told
    assert answer == (0, 107002)
    assert message == (
        "ACL_ERROR_RT_CONTEXT_NULL (107002): no context is current in this thread; "
        "call acl.rt.set_device() or acl.rt.set_context() in it first"
    )
