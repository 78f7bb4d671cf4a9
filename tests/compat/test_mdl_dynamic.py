"""acl.mdl: models whose shapes change, in gears or freely."""

import numpy as np
import pytest
from card import done, made, now
from hypothesis import given, settings
from hypothesis import strategies as st
from test_mdl import dataset, describe, download, empty, upload

from acl_py.compat.acl import Tensor, register_model, unregister_model

GEAR_INPUT = "ascend_mbatch_shape_data"


@pytest.fixture
def models():
    """Models with gears of each kind, and one whose shapes are free."""

    @register_model(
        "batch.om",
        [Tensor("x", "float32", (-1, 3)), Tensor("scale", "float32", (1,))],
        [Tensor("y", "float32", ("batch", 3)), Tensor("flat", "float32", ("batch * 3",))],
        cost_us=(10, 20, 40),
        dynamic_batch=(1, 2, 4),
    )
    def scaled(x, scale):
        return x * scale, x.ravel()

    @register_model(
        "hw.om",
        [Tensor("image", "uint8", (1, -1, -1), "NCHW")],
        [Tensor("half", "uint8", (1, "height // 2", "width // 2"))],
        cost_us=10,
        dynamic_hw=((4, 4), (8, 6)),
    )
    def halved(image):
        return image[:, ::2, ::2]

    @register_model(
        "dims.om",
        [Tensor("data", "int32", (1, -1)), Tensor("mask", "int32", (-1, -1))],
        [Tensor("sum", "int32", ("d0", "d1 + d2"))],
        dynamic_dims=((2, 1, 1), (3, 2, 2)),
    )
    def sums(data, mask):
        return np.full((data.shape[1], sum(mask.shape)), data.sum() + mask.sum())

    @register_model(
        "free.om",
        [Tensor("x", "float32", (-1, 2), ranges=((1, 8), (2, 2)))],
        [Tensor("positive", "float32", (-1,))],
    )
    def positive(x):
        return x[x > 0]

    names = ("batch.om", "hw.om", "dims.om", "free.om")
    yield
    for name in names:
        unregister_model(name)


def test_a_batch_is_set_before_each_execution(acl, models):
    mdl = acl.mdl
    model = made(mdl.load_from_file("batch.om"))
    desc = describe(acl, model)
    assert (mdl.get_num_inputs(desc), mdl.get_num_outputs(desc)) == (3, 2)
    assert mdl.get_dynamic_batch(desc) == ({"batchCount": 3, "batch": [1, 2, 4]}, 0)
    assert mdl.get_input_dims(desc, 0) == ({"name": "x", "dimCount": 2, "dims": [-1, 3]}, 0)
    assert mdl.get_input_dims_range(desc, 0) == ({"rangeCount": 2, "range": [[1, 4], [3, 3]]}, 0)
    assert [mdl.get_input_size_by_index(desc, i) for i in range(3)] == [48, 4, 8]
    assert [mdl.get_output_size_by_index(desc, i) for i in range(2)] == [48, 48]
    assert mdl.get_output_dims(desc, 1) == ({"name": "flat", "dimCount": 1, "dims": [12]}, 0)
    index = made(mdl.get_input_index_by_name(desc, GEAR_INPUT))
    assert index == 2
    x, scale = np.arange(12, dtype=np.float32), np.array([10], np.float32)
    inputs, outputs = (
        dataset(acl, upload(acl, x), upload(acl, scale), upload(acl, np.zeros(1, np.int64))),
        empty(acl, 48, 48),
    )
    assert mdl.execute(model, inputs, outputs) == 145013
    for batch, takes in ((2, 20_000), (4, 40_000)):
        done(mdl.set_dynamic_batch_size(model, inputs, index, batch))
        assert download(acl, inputs, index, np.int64).tolist() == [batch]
        assert made(mdl.get_cur_output_dims(desc, 0))["dims"] == [batch, 3]
        begin = now()
        done(mdl.execute(model, inputs, outputs))
        assert takes <= now() - begin < takes + 10_000
        assert download(acl, outputs, 0, np.float32)[: 3 * batch].tolist() == (10 * x[: 3 * batch]).tolist()


def test_a_gear_that_is_none_is_refused(acl, models):
    mdl = acl.mdl
    model = made(mdl.load_from_file("batch.om"))
    inputs = empty(acl, 48, 4, 8)
    assert mdl.set_dynamic_batch_size(model, inputs, 2, 3) == 145013
    assert mdl.set_dynamic_batch_size(model, inputs, 2, 0) == 100000
    assert mdl.set_dynamic_batch_size(model, inputs, 5, 2) == 100000
    assert mdl.set_dynamic_batch_size(model, 0, 2, 2) == 100000
    assert mdl.set_dynamic_batch_size(model + 1, inputs, 2, 2) == 145003
    assert mdl.set_dynamic_hw_size(model, inputs, 2, 4, 4) == 145013
    assert mdl.set_dynamic_batch_size(model, empty(acl, 48, 4, 2), 2, 2) == 145012
    with_null = dataset(acl, *(acl.create_data_buffer(0, 8) for _ in range(3)))
    assert mdl.set_dynamic_batch_size(model, with_null, 2, 2) == 100000
    done(mdl.set_dynamic_batch_size(model, empty(acl, 48, 4, 4), 2, 2))  # four bytes are enough


def test_an_image_size_is_set_before_each_execution(acl, models):
    mdl = acl.mdl
    model = made(mdl.load_from_file("hw.om"))
    desc = describe(acl, model)
    assert mdl.get_dynamic_hw(desc, -1) == ({"hwCount": 2, "hw": [[4, 4], [8, 6]]}, 0)
    assert mdl.get_dynamic_batch(desc) == ({"batchCount": 0, "batch": []}, 0)
    assert [mdl.get_input_size_by_index(desc, i) for i in range(2)] == [48, 16]
    assert mdl.get_output_size_by_index(desc, 0) == 12
    image = np.arange(16, dtype=np.uint8)
    inputs, outputs = dataset(acl, upload(acl, image), upload(acl, np.zeros(2, np.int64))), empty(acl, 12)
    assert mdl.set_dynamic_hw_size(model, inputs, 1, 4, 6) == 145013
    assert mdl.set_dynamic_hw_size(model, inputs, 1, 4, 0) == 100000
    done(mdl.set_dynamic_hw_size(model, inputs, 1, 4, 4), mdl.execute(model, inputs, outputs))
    assert download(acl, inputs, 1, np.int64).tolist() == [4, 4]
    assert download(acl, outputs, 0, np.uint8)[:4].tolist() == [0, 2, 8, 10]
    done(mdl.set_dynamic_hw_size(model, inputs, 1, 8, 6))
    assert mdl.execute(model, inputs, outputs) == 145000  # the image is too small for that


def test_dims_are_set_before_each_execution(acl, models):
    mdl = acl.mdl
    model = made(mdl.load_from_file("dims.om"))
    desc = describe(acl, model)
    count = made(mdl.get_input_dynamic_gear_count(desc, -1))
    gears = made(mdl.get_input_dynamic_dims(desc, -1, count))
    assert gears == [
        {"name": "", "dimCount": 4, "dims": [1, 2, 1, 1]},
        {"name": "", "dimCount": 4, "dims": [1, 3, 2, 2]},
    ]
    assert mdl.get_input_dynamic_dims(desc, -1, 3) == ([None] * 3, 100000)
    assert mdl.get_input_dynamic_dims(desc, -1, 4097) == (None, 100000)
    index = made(mdl.get_input_index_by_name(desc, GEAR_INPUT))
    data, mask = np.array([1, 2, 3], np.int32), np.array([10, 20, 30, 40], np.int32)
    inputs = dataset(acl, upload(acl, data), upload(acl, mask), upload(acl, np.zeros(3, np.int64)))
    outputs = empty(acl, mdl.get_output_size_by_index(desc, 0))
    for gear, total in zip(gears, (13, 106), strict=True):
        done(mdl.set_input_dynamic_dims(model, inputs, index, gear), mdl.execute(model, inputs, outputs))
        shape = made(mdl.get_cur_output_dims(desc, 0))["dims"]
        assert shape == [gear["dims"][1], gear["dims"][2] + gear["dims"][3]]
        assert download(acl, outputs, 0, np.int32)[: np.prod(shape)].tolist() == [total] * np.prod(shape)
    assert mdl.set_input_dynamic_dims(model, inputs, index, {"dimCount": 3, "dims": [1, 2, 1]}) == 145012
    assert mdl.set_input_dynamic_dims(model, inputs, index, {"dimCount": 4, "dims": [2, 2, 1, 1]}) == 145012
    assert mdl.set_input_dynamic_dims(model, inputs, index, {"dimCount": 4, "dims": [1, 2, 2, 2]}) == 145013
    assert mdl.set_input_dynamic_dims(model, inputs, index, {"dimCount": 0, "dims": []}) == 100000
    for wrong in ({}, {"dimCount": 4}, {"dimCount": 4, "dims": (1, 2, 1, 1)}, {"dimCount": 4, "dims": [1, 2]}):
        with pytest.raises(TypeError):
            mdl.set_input_dynamic_dims(model, inputs, index, wrong)


def test_free_shapes_are_said_with_each_dataset(acl, models):
    mdl = acl.mdl
    model = made(mdl.load_from_file("free.om"))
    desc = describe(acl, model)
    assert mdl.get_num_inputs(desc) == 1
    assert (mdl.get_input_size_by_index(desc, 0), mdl.get_output_size_by_index(desc, 0)) == (0, 0)
    assert mdl.get_output_dims(desc, 0) == ({"name": "positive", "dimCount": 1, "dims": [-1]}, 0)
    assert mdl.get_cur_output_dims(desc, 0) == ({}, 200001)
    assert mdl.get_input_dims_range(desc, 0) == ({"rangeCount": 2, "range": [[1, 8], [2, 2]]}, 0)
    x = np.array([[1, -1], [-2, 5], [7, -3]], np.float32)
    inputs, outputs = dataset(acl, upload(acl, x)), empty(acl, 64)
    assert mdl.execute(model, inputs, outputs) == 100000
    for dims, code in (([9, 2], 100000), ([3, 3], 100000), ([2, 2], 0), ([3, 2], 0)):
        shape = acl.create_tensor_desc(0, dims, 2)
        assert mdl.set_dataset_tensor_desc(inputs, shape, 0) == (inputs, 0)
        assert mdl.execute(model, inputs, outputs) == code
    found = mdl.get_dataset_tensor_desc(outputs, 0)
    assert [acl.get_tensor_desc_dim_v2(found, i) for i in range(2)] == [(3, 0), (0, 100000)]
    assert (acl.get_tensor_desc_type(found), acl.get_tensor_desc_size(found)) == (0, 12)
    assert download(acl, outputs, 0, np.float32)[:3].tolist() == [1, 5, 7]
    no_memory = dataset(acl, acl.create_data_buffer(0, 0))
    done(mdl.execute(model, inputs, no_memory))
    assert download(acl, no_memory, 0, np.float32).tolist() == [1, 5, 7]


def test_two_datasets_of_one_model_each_have_their_gear(acl, models):
    mdl = acl.mdl
    model = made(mdl.load_from_file("hw.om"))
    stream = made(acl.rt.create_stream())
    small, large = np.arange(16, dtype=np.uint8), np.arange(48, dtype=np.uint8)
    first = dataset(acl, upload(acl, small), upload(acl, np.zeros(2, np.int64)))
    second = dataset(acl, upload(acl, large), upload(acl, np.zeros(2, np.int64)))
    outputs = [empty(acl, 12), empty(acl, 12)]
    done(mdl.set_dynamic_hw_size(model, first, 1, 4, 4), mdl.set_dynamic_hw_size(model, second, 1, 8, 6))
    done(mdl.execute_async(model, first, outputs[0], stream), mdl.execute_async(model, second, outputs[1], stream))
    done(acl.rt.synchronize_stream(stream))
    assert download(acl, outputs[0], 0, np.uint8)[:4].tolist() == [0, 2, 8, 10]
    assert download(acl, outputs[1], 0, np.uint8).tolist() == large.reshape(8, 6)[::2, ::2].ravel().tolist()


@settings(max_examples=20)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([None, 1, 2, 4])), max_size=12))
def test_gears_in_any_order_are_those_of_the_dataset_else_of_the_model(acl, models, steps):
    """Each step may set the gear of one of two datasets, and queues it; a stream orders what it queued."""
    mdl = acl.mdl
    model, stream = made(mdl.load_from_file("batch.om")), made(acl.rt.create_stream())
    x, scale = np.arange(12, dtype=np.float32), np.array([3], np.float32)
    inputs = [dataset(acl, upload(acl, x), upload(acl, scale), upload(acl, np.zeros(1, np.int64))) for _ in range(2)]
    outputs, own, latest = empty(acl, 48, 48), [None, None], None
    for which, batch in steps:
        if batch is not None:
            done(mdl.set_dynamic_batch_size(model, inputs[which], 2, batch))
            own[which] = latest = batch
        expected = own[which] or latest
        code = mdl.execute_async(model, inputs[which], outputs, stream)
        assert code == (145013 if expected is None else 0)
        if expected is not None:
            done(acl.rt.synchronize_stream(stream))
            count = 3 * expected
            assert download(acl, outputs, 0, np.float32)[:count].tolist() == (3 * x[:count]).tolist()
            assert download(acl, outputs, 1, np.float32)[:count].tolist() == x[:count].tolist()
    done(acl.rt.destroy_stream(stream), mdl.unload(model))


def test_a_gear_of_another_model_does_not_count(acl, models):
    mdl = acl.mdl
    batches, images = made(mdl.load_from_file("batch.om")), made(mdl.load_from_file("hw.om"))
    inputs, outputs = empty(acl, 48, 16), empty(acl, 12)
    done(mdl.set_dynamic_hw_size(images, inputs, 1, 4, 4))
    done(mdl.set_dynamic_batch_size(batches, inputs, 1, 2), mdl.execute(images, inputs, outputs))
    assert mdl.set_dynamic_hw_size(images, inputs, 1, 5, 4) == 145013
    assert "hw has dynamic_hw of 4 x 4, 8 x 6, not 5 x 4" in acl.get_recent_err_msg()


def test_an_empty_result_gets_no_memory(acl, models):
    mdl = acl.mdl
    model = made(mdl.load_from_file("free.om"))
    inputs, outputs = (
        dataset(acl, upload(acl, np.full((1, 2), -1, np.float32))),
        dataset(acl, acl.create_data_buffer(0, 0)),
    )
    assert mdl.set_dataset_tensor_desc(inputs, acl.create_tensor_desc(0, [1, 2], 2), 0) == (inputs, 0)
    done(mdl.execute(model, inputs, outputs))
    assert acl.get_data_buffer_addr(mdl.get_dataset_buffer(outputs, 0)) == 0
    assert acl.get_tensor_desc_dim_v2(mdl.get_dataset_tensor_desc(outputs, 0), 0) == (0, 0)
