"""acl as its vendor would test what stands directly in it: beginning and end, data buffers, tensor descriptions."""

import json

import numpy as np
import pytest
from card import done, made, module

ND, NCHW, NHWC = 2, 0, 1


# --- beginning and end


def test_init_and_finalize():
    with module() as acl:
        done(acl.finalize())
        done(acl.init())
        assert (acl.init(), acl.init(), acl.init("acl.json")) == (100002, 100002, 100002)
        done(acl.finalize())
        assert (acl.finalize(), acl.finalize()) == (100037, 100037)
        done(acl.init())


def test_calls_work_without_init_as_the_runtime_does_not_ask():
    with module() as acl:
        done(acl.finalize(), acl.rt.set_device(0))
        made(acl.rt.create_stream())


def test_init_with_a_configuration_file(tmp_path):
    config = tmp_path / "acl.json"
    with module() as acl:
        for text in ("{}", json.dumps({"err_msg_mode": "1"})):
            config.write_text(text)
            acl.finalize()
            done(acl.init(str(config)))
        acl.finalize()
        assert acl.init(str(tmp_path / "missing.json")) != 0
        config.write_text("{ this is no json")
        assert acl.init(str(config)) != 0
        done(acl.init())


def test_init_takes_a_text_or_nothing(acl):
    for wrong in (1, b"acl.json", ["acl.json"]):
        with pytest.raises(TypeError):
            acl.init(wrong)


def test_versions(acl):
    version = acl.get_version()
    assert (len(version), version[-1], {type(each) for each in version}) == (4, 0, {int})
    assert version[:2] == (1, 17)
    text, ret = acl.get_version_str("runtime")
    assert (type(text), ret in (0, 207000)) == (str, True)


@pytest.mark.parametrize(("card", "name"), [("ascend910b3", "Ascend910B3"), ("ascend310p3", "Ascend310P3")])
def test_the_name_of_the_card(card, name):
    with module(card) as acl:
        assert acl.get_soc_name() == name


def test_the_recent_message_is_given_once_and_is_of_the_last_failure(acl):
    assert acl.get_recent_err_msg() is None
    assert acl.rt.free(0) == 100000
    assert acl.rt.synchronize_stream(0xBAD) == 107017
    message = acl.get_recent_err_msg()
    assert "107017" in message
    assert acl.get_recent_err_msg() is None
    done(acl.rt.synchronize_stream(0))
    assert acl.get_recent_err_msg() is None


@pytest.mark.parametrize("level", [0, 1, 2, 3, 99, -1])
def test_app_log_gives_none(acl, level):
    assert acl.app_log(level, "a line of a script") is None
    with pytest.raises(TypeError):
        acl.app_log("INFO", "text")


# --- numbers


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 65504.0, 6.1e-5, 0.1])
def test_half_precision_there_and_back(acl, value):
    bits = acl.float_to_float16(value)
    assert (type(bits), bits) == (int, int(np.float16(value).view(np.uint16)))
    back = acl.float16_to_float(bits)
    assert (type(back), back) == (float, float(np.float16(value)))


def test_half_precision_of_what_it_has_not(acl):
    assert acl.float16_to_float(acl.float_to_float16(1e6)) == float("inf")
    assert np.isnan(acl.float16_to_float(acl.float_to_float16(float("nan"))))


@pytest.mark.parametrize(("dtype", "size"), [
    (0, 4), (1, 2), (2, 1), (3, 4), (4, 1), (6, 2), (7, 2), (8, 4), (9, 8), (10, 8), (11, 8), (12, 1), (16, 8),
    (17, 16), (27, 2), (33, 4), (34, 1), (35, 1), (36, 1), (-1, 0), (999, 0),
])  # fmt: skip
def test_data_type_size(acl, dtype, size):
    assert acl.data_type_size(dtype) == size


# --- data buffers


def test_data_buffers(acl):
    address = made(acl.rt.malloc(64, 0))
    buffer = acl.create_data_buffer(address, 64)
    assert (type(buffer), buffer != 0) == (int, True)
    assert acl.get_data_buffer_addr(buffer) == address
    assert (acl.get_data_buffer_size(buffer), acl.get_data_buffer_size_v2(buffer)) == (64, 64)
    done(acl.update_data_buffer(buffer, address + 8, 32))
    assert (acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer)) == (address + 8, 32)
    done(acl.destroy_data_buffer(buffer), acl.rt.free(address))  # the memory was not its own


def test_data_buffers_of_nothing_and_of_sizes_beyond_32_bits(acl):
    buffer = acl.create_data_buffer(0, 0)
    assert (acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size_v2(buffer)) == (0, 0)
    big = acl.create_data_buffer(1 << 40, 5 << 32)
    assert (acl.get_data_buffer_addr(big), acl.get_data_buffer_size_v2(big)) == (1 << 40, 5 << 32)
    assert buffer != big


def test_data_buffers_that_are_none(acl):
    gone = acl.create_data_buffer(1, 1)
    done(acl.destroy_data_buffer(gone))
    for bad in (0, gone, 0xDEAD0, made(acl.rt.create_event())):
        assert (acl.destroy_data_buffer(bad), acl.update_data_buffer(bad, 1, 1)) == (100000, 100000)
        assert (acl.get_data_buffer_addr(bad), acl.get_data_buffer_size(bad), acl.get_data_buffer_size_v2(bad)) == (
            0,
        ) * 3


@pytest.mark.parametrize("args", [(None, 64), (0, None), ("0", 64), (0, 64.0), (np.int64(0), 64)])
def test_data_buffers_take_ints_only(acl, args):
    with pytest.raises(TypeError, match="create_data_buffer args parse failed"):
        acl.create_data_buffer(*args)


# --- tensor descriptions


def test_tensor_descriptions(acl):
    desc = acl.create_tensor_desc(0, [1, 3, 224, 224], NCHW)
    assert (type(desc), desc != 0) == (int, True)
    assert (acl.get_tensor_desc_type(desc), acl.get_tensor_desc_format(desc)) == (0, NCHW)
    assert acl.get_tensor_desc_num_dims(desc) == 4
    assert acl.get_tensor_desc_element_count(desc) == 3 * 224 * 224
    assert acl.get_tensor_desc_size(desc) == 3 * 224 * 224 * 4
    assert [acl.get_tensor_desc_dim(desc, i) for i in range(4)] == [1, 3, 224, 224]
    assert [acl.get_tensor_desc_dim_v2(desc, i) for i in range(4)] == [(1, 0), (3, 0), (224, 0), (224, 0)]
    assert acl.destroy_tensor_desc(desc) is None


@pytest.mark.parametrize(("dtype", "dims", "count", "size"), [
    (1, [2, 3], 6, 12), (9, [4], 4, 32), (12, [5], 5, 5), (27, [2, 2], 4, 8), (0, [], 1, 4), (0, [3, 0], 0, 0),
])  # fmt: skip
def test_sizes_of_tensor_descriptions(acl, dtype, dims, count, size):
    desc = acl.create_tensor_desc(dtype, dims, ND)
    assert (acl.get_tensor_desc_element_count(desc), acl.get_tensor_desc_size(desc)) == (count, size)


def test_dims_that_are_not_there(acl):
    desc = acl.create_tensor_desc(0, [2, 3], ND)
    value, ret = acl.get_tensor_desc_dim_v2(desc, 2)
    assert (value, ret != 0) == (0, True)
    assert acl.get_tensor_desc_dim_range(desc, 5, 2)[0] is None
    assert acl.get_tensor_desc_dim_range(desc, 5, 2)[1] != 0


def test_names_of_tensor_descriptions(acl):
    desc = acl.create_tensor_desc(0, [2], ND)
    assert acl.get_tensor_desc_name(desc) == ""
    assert acl.set_tensor_desc_name(desc, "data") is None
    assert acl.get_tensor_desc_name(desc) == "data"


@pytest.mark.parametrize("dims", [(1, 2), np.array([1, 2]), 3, None, "12"])
def test_dims_are_a_list(acl, dims):
    with pytest.raises(TypeError):
        acl.create_tensor_desc(0, dims, ND)


def test_dims_are_a_list_says_which_argument(acl):
    with pytest.raises(TypeError, match="argument 2 is not list"):
        acl.create_tensor_desc(0, (1, 2), ND)


@pytest.mark.parametrize("dims", [["a"], [1.5], [None]])
def test_dims_are_ints(acl, dims):
    with pytest.raises((TypeError, ValueError)):
        acl.create_tensor_desc(0, dims, ND)


def test_setters_of_tensor_descriptions(acl):
    desc = acl.create_tensor_desc(0, [2, 3], ND)
    done(
        acl.set_tensor_format(desc, NHWC), acl.set_tensor_shape(desc, [6]), acl.set_tensor_storage_format(desc, NCHW),
        acl.set_tensor_storage_shape(desc, [1, 6]), acl.set_tensor_origin_format(desc, ND),
        acl.set_tensor_origin_shape(desc, [6]), acl.set_tensor_shape_range(desc, [[1, 8]]),
        acl.set_tensor_place_ment(desc, 0),
    )  # fmt: skip
    for wrong in (None, (6,), 6):
        with pytest.raises((TypeError, ValueError)):
            acl.set_tensor_shape(desc, wrong)


def test_tensor_descriptions_that_are_none(acl):
    gone = acl.create_tensor_desc(0, [2], ND)
    acl.destroy_tensor_desc(gone)
    for bad in (0, gone, 0xDEAD0):
        assert acl.destroy_tensor_desc(bad) is None
        assert (acl.get_tensor_desc_type(bad), acl.get_tensor_desc_format(bad)) == (-1, -1)
        assert (acl.get_tensor_desc_size(bad), acl.get_tensor_desc_element_count(bad)) == (0, 0)
        assert acl.get_tensor_desc_dim_v2(bad, 0) == (0, 100000)
        assert acl.get_tensor_desc_dim_range(bad, 0, 2) == (None, 100000)
        assert acl.set_tensor_format(bad, ND) == 100000
        assert acl.set_tensor_shape(bad, [1]) == 100000


# --- what the card can do


def test_attributes_of_the_card(acl):
    attributes, count, ret = acl.get_cann_attribute_list()
    assert (type(attributes), count) == (list, len(attributes))
    assert ret in (0, 207000)
    value, ret = acl.get_cann_attribute(0)
    assert (type(value), ret in (0, 100000, 107000, 207000)) == (int, True)
    assert len(acl.get_device_capability(0, 0)) == 2
