"""acl.mdl: models from a sidecar, from loading to unloading, as scripts use them."""

from importlib import import_module

import numpy as np
import pytest
from card import D2H, H2D, content, done, made, module, now

import acl_py
from acl_py.compat.acl import Tensor, install, register_model, uninstall, unregister_model
from acl_py.compat.acl.face.session import session

SIDECAR = """
compute = "net:infer"
cost_us = 20
work_size = 64

[[inputs]]
name = "x"
dtype = "float32"
dims = [2, 3]
format = "NCHW"

[[inputs]]
name = "y"
dtype = "int32"
dims = [3]

[[outputs]]
name = "sum"
dtype = "float16"
dims = [2, 3]

[[outputs]]
name = "rows"
dtype = "int64"
dims = [2]
format = "NHWC"
"""
FUNCTION = """
import numpy as np

def infer(x, y):
    if x[0, 0] < 0:
        raise ValueError("x must not be negative")
    return x + y, np.count_nonzero(x, axis=1)
"""
X = np.array([[1, 2, 3], [4, 0, 6]], np.float32)
Y = np.array([10, 20, 30], np.int32)


@pytest.fixture
def net(tmp_path):
    """A model file with its sidecar and function."""
    (tmp_path / "net.om").write_bytes(b"not to be run here")
    (tmp_path / "net.om.toml").write_text(SIDECAR)
    (tmp_path / "net.py").write_text(FUNCTION)
    return tmp_path / "net.om"


def upload(acl, array):
    """A data buffer over device memory that holds *array*."""
    address = made(acl.rt.malloc(array.nbytes, 0))
    done(acl.rt.memcpy(address, array.nbytes, array.ctypes.data, array.nbytes, H2D))
    return acl.create_data_buffer(address, array.nbytes)


def dataset(acl, *buffers):
    """A dataset of these data buffers."""
    made_one = acl.mdl.create_dataset()
    for buffer in buffers:
        assert acl.mdl.add_dataset_buffer(made_one, buffer) == (made_one, 0)
    return made_one


def empty(acl, *sizes):
    """A dataset of data buffers with so many bytes."""
    return dataset(acl, *(acl.create_data_buffer(made(acl.rt.malloc(size, 0)), size) for size in sizes))


def download(acl, holder, index, dtype):
    """What lies in a data buffer of a dataset."""
    buffer = acl.mdl.get_dataset_buffer(holder, index)
    return np.frombuffer(content(acl, acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size(buffer)), dtype)


def describe(acl, model):
    """A description of a model."""
    desc = acl.mdl.create_desc()
    done(acl.mdl.get_desc(desc, model))
    return desc


def test_a_model_is_loaded_executed_and_unloaded(acl, net):
    free = acl.rt.get_mem_info(1)[0]
    model = made(acl.mdl.load_from_file(str(net)))
    assert free - acl.rt.get_mem_info(1)[0] >= 64 + len(b"not to be run here")
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    begin = now()
    assert acl.mdl.execute(model, inputs, outputs) == 0
    assert now() - begin >= 20_000
    assert download(acl, outputs, 0, np.float16).tolist() == [11, 22, 33, 14, 20, 36]
    assert download(acl, outputs, 1, np.int64).tolist() == [3, 2]
    for holder in (inputs, outputs):
        for index in range(2):
            buffer = acl.mdl.get_dataset_buffer(holder, index)
            done(acl.rt.free(acl.get_data_buffer_addr(buffer)), acl.destroy_data_buffer(buffer))
        done(acl.mdl.destroy_dataset(holder))
    done(acl.mdl.unload(model))
    assert acl.rt.get_mem_info(1)[0] == free
    assert session().objects == {}


def test_a_description_says_what_the_sidecar_says(acl, net):
    desc = describe(acl, made(acl.mdl.load_from_file(str(net))))
    mdl = acl.mdl
    assert (mdl.get_num_inputs(desc), mdl.get_num_outputs(desc)) == (2, 2)
    assert [mdl.get_input_size_by_index(desc, i) for i in range(3)] == [24, 12, 0]
    assert [mdl.get_output_size_by_index(desc, i) for i in range(3)] == [12, 16, 0]
    assert [mdl.get_input_name_by_index(desc, i) for i in range(3)] == ["x", "y", ""]
    assert [mdl.get_output_name_by_index(desc, i) for i in range(3)] == ["sum", "rows", ""]
    assert [mdl.get_input_data_type(desc, i) for i in range(3)] == [0, 3, -1]
    assert [mdl.get_output_data_type(desc, i) for i in range(3)] == [1, 9, -1]
    assert [mdl.get_input_format(desc, i) for i in range(3)] == [0, 2, -1]
    assert [mdl.get_output_format(desc, i) for i in range(3)] == [2, 1, -1]
    assert mdl.get_input_dims(desc, 0) == ({"name": "x", "dimCount": 2, "dims": [2, 3]}, 0)
    assert mdl.get_input_dims_v2(desc, 1) == ({"name": "y", "dimCount": 1, "dims": [3]}, 0)
    assert mdl.get_output_dims(desc, 1) == ({"name": "rows", "dimCount": 1, "dims": [2]}, 0)
    assert mdl.get_cur_output_dims(desc, 0) == ({"name": "sum", "dimCount": 2, "dims": [2, 3]}, 0)
    assert mdl.get_input_dims_range(desc, 0) == ({"rangeCount": 2, "range": [[2, 2], [3, 3]]}, 0)
    assert mdl.get_input_dims(desc, 2) == mdl.get_output_dims(desc, 2) == ({}, 100000)
    assert mdl.get_input_index_by_name(desc, "y") == (1, 0)
    assert mdl.get_output_index_by_name(desc, "rows") == (1, 0)
    assert mdl.get_input_index_by_name(desc, "rows") == (0, 100000)
    assert mdl.get_tensor_real_name(desc, "sum") == "sum"
    assert mdl.get_tensor_real_name(desc, "nobody") is None
    assert mdl.get_dynamic_batch(desc) == ({"batchCount": 0, "batch": []}, 0)
    assert mdl.get_dynamic_hw(desc, -1) == ({"hwCount": 0, "hw": []}, 0)
    assert mdl.get_input_dynamic_gear_count(desc, -1) == (0, 0)
    assert mdl.get_input_dynamic_dims(desc, -1, 0) == ([], 0)


def test_a_description_is_had_without_loading(net):
    data = net.read_bytes()
    with module(models=[net.parent]) as acl:
        address = acl.util.bytes_to_ptr(data)
        desc = acl.mdl.create_desc()
        assert acl.mdl.get_num_inputs(desc) == 0
        assert acl.mdl.get_desc_from_file(desc, str(net)) == 0
        assert acl.mdl.get_num_inputs(desc) == 2
        assert acl.mdl.get_cur_output_dims(desc, 0) == ({}, 145003)
        assert acl.mdl.get_desc_from_file(desc, "nobody.om") == 145002
        assert acl.mdl.get_num_inputs(desc) == 0
        assert acl.mdl.get_desc_from_mem(desc, address, len(data)) == 0
        assert acl.mdl.get_output_name_by_index(desc, 0) == "sum"
        assert acl.mdl.destroy_desc(desc) == 0
        assert acl.mdl.destroy_desc(desc) == 100000


def test_a_model_is_loaded_from_memory_by_what_its_file_holds(net):
    data = net.read_bytes()
    with module(models=[net.parent]) as acl:
        address = acl.util.bytes_to_ptr(data)
        assert acl.mdl.query_size_from_mem(address, len(data)) == (64, len(data), 0)
        model = made(acl.mdl.load_from_mem(address, len(data)))
        assert acl.mdl.get_num_outputs(describe(acl, model)) == 2
        assert acl.mdl.load_from_mem(address, len(data) - 1) == (0, 145006)
        assert acl.mdl.load_from_mem(0, 4) == (0, 100000)
        assert acl.mdl.load_from_mem(address, 0) == (0, 145006)
        assert acl.mdl.load_from_mem(0x1000, 64) == (0, 145007)
        device = made(acl.rt.malloc(len(data), 0))
        done(acl.rt.memcpy(device, len(data), address, len(data), H2D))
        made(acl.mdl.load_from_mem(device, len(data)))


def test_a_model_takes_the_memory_that_its_caller_has_for_it(acl, net):
    work_size, weight_size = made(acl.mdl.query_size(str(net)))
    assert (work_size, weight_size) == (64, 18)
    work, weights = made(acl.rt.malloc(work_size, 0)), made(acl.rt.malloc(weight_size, 0))
    free = acl.rt.get_mem_info(1)[0]
    model = made(acl.mdl.load_from_file_with_mem(str(net), work, work_size, weights, weight_size))
    assert acl.rt.get_mem_info(1)[0] == free
    assert acl.mdl.load_from_file_with_mem(str(net), work, work_size - 1, weights, weight_size) == (0, 145000)
    assert acl.mdl.load_from_file_with_mem(str(net), 0x1234, work_size, 0, 0) == (0, 107000)
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    done(acl.mdl.execute(model, inputs, outputs), acl.rt.free(work))
    assert acl.mdl.execute(model, inputs, outputs) == 507053  # the device finds its memory gone


def test_a_model_that_finds_no_memory_is_refused_and_leaves_nothing(acl, net):
    total = acl.rt.get_mem_info(1)[1]
    toml = net.parent / "net.om.toml"
    toml.write_text(toml.read_text().replace("work_size = 64", f"work_size = {total}"))
    free = acl.rt.get_mem_info(1)[0]
    assert acl.mdl.load_from_file(str(net)) == (0, 245000)
    assert acl.rt.get_mem_info(1)[0] == free


def test_execute_async_returns_at_once_and_its_stream_orders_it(acl, net):
    model = made(acl.mdl.load_from_file(str(net)))
    stream = made(acl.rt.create_stream())
    pinned = [made(acl.rt.malloc_host(24)), made(acl.rt.malloc_host(12)), made(acl.rt.malloc_host(12))]
    acl.util.ptr_to_numpy(pinned[0], (2, 3), 11)[:] = X
    acl.util.ptr_to_numpy(pinned[1], (3,), 5)[:] = Y
    inputs, outputs = empty(acl, 24, 12), empty(acl, 12, 16)
    addresses = [acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(inputs, index)) for index in range(2)]
    result = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, 0))
    begin = now()
    done(
        acl.rt.memcpy_async(addresses[0], 24, pinned[0], 24, H2D, stream),
        acl.rt.memcpy_async(addresses[1], 12, pinned[1], 12, H2D, stream),
        acl.mdl.execute_async(model, inputs, outputs, stream),
        acl.rt.memcpy_async(pinned[2], 12, result, 12, D2H, stream),
    )
    assert now() - begin < 20_000
    done(acl.rt.synchronize_stream(stream))
    assert now() - begin > 20_000
    assert acl.util.ptr_to_numpy(pinned[2], (6,), 23).tolist() == [11, 22, 33, 14, 20, 36]


def test_what_a_model_cannot_compute_is_a_code_and_a_traceback(acl, net, capsys):
    model = made(acl.mdl.load_from_file(str(net)))
    inputs, outputs = dataset(acl, upload(acl, -X), upload(acl, Y)), empty(acl, 12, 16)
    assert acl.mdl.execute(model, inputs, outputs) == 507011
    assert "x must not be negative" in acl.get_recent_err_msg()
    assert 'raise ValueError("x must not be negative")' in capsys.readouterr().err
    stream = made(acl.rt.create_stream())
    done(acl.mdl.execute_async(model, inputs, outputs, stream))
    assert acl.rt.synchronize_stream(stream) == 507011
    good = dataset(acl, upload(acl, X), upload(acl, Y))
    done(acl.mdl.execute(model, good, outputs))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return x", "there are 2 outputs, but the function returned 1"),
        ("return x + 1j, y", "complex64 is not converted to it"),
        ("return x, y", "has shape (2,), but the result has (3,)"),
        ("return x, [0.5, 1]", "float64 is not converted to it"),
        ("x[:] = 0", "read-only"),
    ],
)
def test_results_that_do_not_fit_are_told(acl, net, capsys, body, text):
    (net.parent / "net.py").write_text(f"def infer(x, y):\n    {body}\n")
    model = made(acl.mdl.load_from_file(str(net)))
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    assert acl.mdl.execute(model, inputs, outputs) == 507011
    assert text in capsys.readouterr().err


def test_what_does_not_fit_an_execution_is_refused(acl, net):
    model = made(acl.mdl.load_from_file(str(net)))
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    assert acl.mdl.execute(model + 1, inputs, outputs) == 145003
    assert acl.mdl.execute(model, 0, outputs) == 100000
    assert acl.mdl.execute(model, inputs, 0) == 100000
    assert acl.mdl.execute_async(model, inputs, outputs, 12345) == 107017
    assert acl.mdl.execute(model, dataset(acl, upload(acl, X)), outputs) == 145000
    assert acl.mdl.execute(model, inputs, empty(acl, 12)) == 145000
    assert acl.mdl.execute(model, dataset(acl, upload(acl, Y), upload(acl, Y)), outputs) == 145000
    assert acl.mdl.execute(model, inputs, empty(acl, 12, 15)) == 145000
    host = np.zeros(6, np.float32)
    on_host = acl.create_data_buffer(host.ctypes.data, host.nbytes)
    assert acl.mdl.execute(model, dataset(acl, on_host, upload(acl, Y)), outputs) == 107000
    assert acl.mdl.execute_async(model, inputs, dataset(acl, *[acl.create_data_buffer(0, 16)] * 2), 0) == 100000
    gone = upload(acl, X)
    with_gone = dataset(acl, gone, upload(acl, Y))
    done(acl.destroy_data_buffer(gone))
    assert acl.mdl.execute(model, with_gone, outputs) == 100000
    done(acl.mdl.unload(model))
    assert acl.mdl.unload(model) == 145003
    assert acl.mdl.execute(model, inputs, outputs) == 145003
    assert acl.mdl.get_desc(acl.mdl.create_desc(), model) == 145003
    assert acl.mdl.get_desc(0, model) == 100000


def test_outputs_without_memory_get_some(acl, net):
    model = made(acl.mdl.load_from_file(str(net)))
    inputs = dataset(acl, upload(acl, X), upload(acl, Y))
    outputs = dataset(acl, acl.create_data_buffer(0, 0), acl.create_data_buffer(0, 0))
    done(acl.mdl.execute(model, inputs, outputs))
    assert download(acl, outputs, 0, np.float16).tolist() == [11, 22, 33, 14, 20, 36]
    assert download(acl, outputs, 1, np.int64).tolist() == [3, 2]
    done(acl.rt.free(acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, 0))))


def test_a_thread_without_a_context_cannot_load(net):
    with module() as acl:
        tid = made(acl.util.start_thread(lambda out: out.append(acl.mdl.load_from_file(str(net))), found := []))
        done(acl.util.stop_thread(tid))
        assert found == [(0, 107002)]


def test_a_model_executes_in_every_context_of_its_device(acl, net):
    model = made(acl.mdl.load_from_file(str(net)))
    first = made(acl.rt.get_context())
    second = made(acl.rt.create_context(0))
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    done(acl.mdl.execute(model, inputs, outputs), acl.rt.destroy_context(second), acl.rt.set_context(first))
    done(acl.mdl.execute(model, inputs, outputs), acl.mdl.unload(model))


def test_a_model_outlives_a_reset_of_its_device_only_as_a_name(acl, net):
    model = made(acl.mdl.load_from_file(str(net)))
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    done(acl.mdl.execute(model, inputs, outputs), acl.rt.reset_device(0))
    assert acl.mdl.unload(model) == 107002
    done(acl.rt.set_device(0), acl.mdl.unload(model))


def test_datasets_hold_data_buffers_that_stay_their_owners(acl):
    mdl = acl.mdl
    holder = mdl.create_dataset()
    assert mdl.get_dataset_num_buffers(holder) == 0
    assert mdl.get_dataset_buffer(holder, 0) == 0
    buffer = acl.create_data_buffer(0, 0)
    assert mdl.add_dataset_buffer(holder, buffer) == (holder, 0)
    assert mdl.add_dataset_buffer(holder, 0) == (holder, 100000)
    assert mdl.add_dataset_buffer(12, buffer) == (12, 100000)
    assert (mdl.get_dataset_num_buffers(holder), mdl.get_dataset_buffer(holder, 0)) == (1, buffer)
    done(acl.destroy_data_buffer(buffer))
    assert mdl.get_dataset_buffer(holder, 0) == buffer  # dangling, as on a card
    done(mdl.destroy_dataset(holder))
    assert mdl.destroy_dataset(holder) == 100000
    assert mdl.get_dataset_num_buffers(holder) == 0


def test_tensor_descriptions_of_a_dataset_are_copies(acl):
    mdl = acl.mdl
    holder = dataset(acl, acl.create_data_buffer(0, 0))
    desc = acl.create_tensor_desc(0, [2, 3], 2)
    assert mdl.get_dataset_tensor_desc(holder, 0) == 0
    assert mdl.set_dataset_tensor_desc(holder, desc, 1) == (holder, 100000)
    assert mdl.set_dataset_tensor_desc(holder, 0, 0) == (holder, 100000)
    assert mdl.set_dataset_tensor_desc(holder, desc, 0) == (holder, 0)
    acl.destroy_tensor_desc(desc)
    copy = mdl.get_dataset_tensor_desc(holder, 0)
    assert copy != desc
    assert (acl.get_tensor_desc_num_dims(copy), acl.get_tensor_desc_size(copy)) == (2, 24)
    done(mdl.destroy_dataset(holder))
    assert acl.get_tensor_desc_num_dims(copy) == 0


PRIORITY, LOAD_TYPE, PATH, ADDRESS, SIZE, WEIGHTS, WEIGHT_SIZE, WORK, WORK_SIZE = range(9)
MEM_OPTIMIZE = 13


def test_loading_by_a_configuration(net):
    with module(models=[net.parent]) as acl:
        mdl, data = acl.mdl, net.read_bytes()
        config = mdl.create_config_handle()
        assert mdl.load_with_config(config) == (0, 100000)
        done(mdl.set_config_opt(config, LOAD_TYPE, 1))
        assert mdl.load_with_config(config) == (0, 100000)
        done(mdl.set_config_opt(config, PATH, str(net)), mdl.set_config_opt(config, MEM_OPTIMIZE, 1))
        made(mdl.load_with_config(config))
        work = made(acl.rt.malloc(64, 0))
        free = acl.rt.get_mem_info(1)[0]
        done(*(mdl.set_config_opt(config, *each) for each in ((LOAD_TYPE, 2), (WORK, work), (WORK_SIZE, 64))))
        made(mdl.load_with_config(config))
        assert free - acl.rt.get_mem_info(1)[0] <= 512  # the weights alone
        address = acl.util.bytes_to_ptr(data)
        done(*(mdl.set_config_opt(config, *each) for each in ((LOAD_TYPE, 3), (ADDRESS, address), (SIZE, len(data)))))
        made(mdl.load_with_config(config))
        done(mdl.set_config_opt(config, LOAD_TYPE, 5))
        assert mdl.load_with_config(config) == (0, 207000)
        assert mdl.set_config_opt(config, LOAD_TYPE, 7) == 100000
        assert mdl.set_config_opt(config, PRIORITY, 8) == 100000
        assert mdl.set_config_opt(config, 99, 1) == 100000
        with pytest.raises(TypeError):
            mdl.set_config_opt(config, PATH, 5)
        with pytest.raises(TypeError):
            mdl.set_config_opt(config, LOAD_TYPE, "file")
        done(mdl.destroy_config_handle(config))
        assert mdl.destroy_config_handle(config) == 100000
        assert mdl.set_config_opt(config, LOAD_TYPE, 1) == 100000
        assert mdl.load_with_config(config) == (0, 100000)


def test_execute_v2_waits_no_longer_than_it_may(acl, net):
    mdl = acl.mdl
    toml = net.parent / "net.om.toml"
    toml.write_text(toml.read_text().replace("cost_us = 20", "cost_us = 5000"))
    model = made(mdl.load_from_file(str(net)))
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    stream, config = made(acl.rt.create_stream()), mdl.create_exec_config_handle()
    assert mdl.execute_v2(model, inputs, outputs, stream, 0) == 100000
    done(mdl.execute_v2(model, inputs, outputs, stream, config), mdl.execute_v2(model, inputs, outputs, 0, config))
    done(mdl.set_exec_config_opt(config, 0, 4), mdl.set_exec_config_opt(config, 1, 4))
    assert mdl.execute_v2(model, inputs, outputs, stream, config) == 507046
    done(mdl.set_exec_config_opt(config, 0, 6), acl.rt.synchronize_stream(stream))
    done(mdl.execute_v2(model, inputs, outputs, stream, config))
    assert mdl.execute_v2(model, inputs, outputs, 12345, config) == 107017
    assert mdl.set_exec_config_opt(config, 7, 1) == 100000
    done(mdl.destroy_exec_config_handle(config))
    assert mdl.execute_v2(model, inputs, outputs, stream, config) == 100000


def test_a_model_has_no_preprocessing_of_its_own(acl, net):
    model = made(acl.mdl.load_from_file(str(net)))
    assert acl.mdl.get_aipp_type(model, 0) == (0, 0xFFFFFFFF, 0)
    assert acl.mdl.get_aipp_type(model, 2) == (0, 0xFFFFFFFF, 145000)
    assert acl.mdl.get_aipp_type(model + 1, 0) == (0, 0xFFFFFFFF, 145003)
    assert acl.mdl.get_first_aipp_info(model, 0) == (None, 145015)


def test_a_bundle_is_several_models(net):
    (net.parent / "both.om").write_bytes(b"both")
    (net.parent / "both.om.toml").write_text('bundle = ["net.om", "net.om"]\n')
    with module(models=[net.parent]) as acl:
        mdl = acl.mdl
        bundle = made(mdl.bundle_load_from_file(str(net.parent / "both.om")))
        assert mdl.bundle_get_model_num(bundle) == (2, 0)
        models = [made(mdl.bundle_get_model_id(bundle, index)) for index in range(2)]
        assert models[0] != models[1]
        assert mdl.bundle_get_model_id(bundle, 2) == (0, 100000)
        inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
        done(mdl.execute(models[1], inputs, outputs))
        assert mdl.unload(models[0]) == 100000
        done(mdl.bundle_unload(bundle))
        assert mdl.bundle_unload(bundle) == 148053
        assert mdl.bundle_get_model_num(bundle) == (0, 148053)
        assert mdl.execute(models[1], inputs, outputs) == 145003
        data = b"both"
        made(mdl.bundle_load_from_mem(acl.util.bytes_to_ptr(data), 4))
        assert mdl.bundle_load_from_file("nobody.om") == (0, 145002)
        assert mdl.bundle_load_from_file(str(net)) == (0, 545001)


def test_a_model_registered_in_python_needs_no_file(acl):
    @register_model(
        "twice.om", [Tensor("x", "float32", (4,))], [Tensor("y", "float32", (4,))], cost_us=5, content=b"om"
    )
    def twice(x):
        return 2 * x

    try:
        x = np.arange(4, dtype=np.float32)
        for model in (made(acl.mdl.load_from_file("/no/where/twice.om")), made(acl.mdl.load_from_mem(*_bytes(acl)))):
            outputs = empty(acl, 16)
            done(acl.mdl.execute(model, dataset(acl, upload(acl, x)), outputs))
            assert download(acl, outputs, 0, np.float32).tolist() == [0, 2, 4, 6]
    finally:
        unregister_model("twice.om")
    assert acl.mdl.load_from_file("twice.om") == (0, 145002)


CONTENT = b"om"


def _bytes(acl):
    return acl.util.bytes_to_ptr(CONTENT), len(CONTENT)


def test_the_trace_has_a_model_as_a_kernel_of_its_name(acl, net):
    model = made(acl.mdl.load_from_file(str(net)))
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    done(acl.mdl.execute(model, inputs, outputs))
    (op,) = [op for op in session().trace.ops if op.kind == "kernel"]
    assert (op.name, op.end_ns - op.start_ns) == ("net", 20_000)
    assert str(op.site).startswith("test_mdl.py:")


def test_an_execution_longer_than_allowed_is_ended(acl, net):
    toml = net.parent / "net.om.toml"
    toml.write_text(toml.read_text().replace("cost_us = 20", "cost_us = 2_000_000"))
    model = made(acl.mdl.load_from_file(str(net)))
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    done(acl.rt.set_op_execute_time_out(1))
    assert acl.mdl.execute(model, inputs, outputs) == 507034


def test_a_model_is_executed_on_the_device_that_it_was_loaded_on(acl, net):
    model = made(acl.mdl.load_from_file(str(net)))
    inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
    done(acl.rt.set_device(1))
    assert acl.mdl.execute(model, inputs, outputs) == 145003
    assert "is on device 0, but device 1 is current" in acl.get_recent_err_msg()
    done(acl.rt.set_device(0), acl.mdl.execute(model, inputs, outputs))


def test_threads_share_a_model(acl, net):
    model, context = made(acl.mdl.load_from_file(str(net))), made(acl.rt.get_context())
    results = []

    def infer(factor):
        done(acl.rt.set_context(context))
        inputs, outputs = dataset(acl, upload(acl, factor * X), upload(acl, Y)), empty(acl, 12, 16)
        for _ in range(5):
            done(acl.mdl.execute(model, inputs, outputs))
        results.append((factor, download(acl, outputs, 0, np.float16).tolist()))

    threads = [made(acl.util.start_thread(infer, factor)) for factor in (1, 2, 3)]
    done(*(acl.util.stop_thread(thread) for thread in threads))
    assert sorted(results) == [(factor, (factor * X + Y).ravel().tolist()) for factor in (1, 2, 3)]


def test_a_callback_for_failures_learns_what_the_task_was(acl, net):
    told = []

    def failed(info):
        rt = acl.rt
        numbers = (
            rt.get_device_id_from_exception_info(info),
            rt.get_stream_id_from_exception_info(info),
            rt.get_task_id_from_exception_info(info),
        )
        name, inputs, input_count, outputs, output_count, ret = acl.mdl.create_and_get_op_desc(*numbers, 256)
        first = [acl.get_tensor_desc_by_index(inputs, index) for index in range(input_count + 1)]
        told.append((name, input_count, output_count, ret, rt.get_error_code_from_exception_info(info)))
        told.append([acl.get_tensor_desc_size(desc) for desc in first])
        told.append((acl.get_tensor_desc_type(outputs), acl.get_tensor_desc_address(outputs) == result))
        told.append(acl.mdl.create_and_get_op_desc(*numbers, 3)[-1])

    done(acl.rt.set_exception_info_callback(failed))
    model = made(acl.mdl.load_from_file(str(net)))
    inputs, outputs = dataset(acl, upload(acl, -X), upload(acl, Y)), empty(acl, 12, 16)
    result = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, 0))
    assert acl.mdl.execute(model, inputs, outputs) == 507011
    assert told == [("net", 2, 2, 0, 507011), [24, 12, 0], (1, True), 100000]
    assert acl.mdl.create_and_get_op_desc(0, 0, 0, 256) == ("", 0, 0, 0, 0, 545008)
    assert acl.mdl.create_and_get_op_desc(0, 0, 0, 4097) == ("", 0, 0, 0, 0, 100000)


async def test_models_run_in_a_simulation_of_the_native_api(net):
    install(replace=True)
    try:
        async with acl_py.simulate(device="tiny", rules="acl") as sim:
            acl = import_module("acl")
            model = made(acl.mdl.load_from_file(str(net)))
            inputs, outputs = dataset(acl, upload(acl, X), upload(acl, Y)), empty(acl, 12, 16)
            done(acl.mdl.execute(model, inputs, outputs))
            stream = await acl_py.CreateStream()
            done(acl.mdl.execute_async(model, inputs, outputs, session().handle(stream)))
            await acl_py.SynchronizeStream(stream)
            kernels = [op for op in sim.trace.ops if op.kind == "kernel"]
        assert [(op.name, op.end_ns - op.start_ns) for op in kernels] == [("net", 20_000)] * 2
    finally:
        uninstall()


@pytest.mark.parametrize(
    ("device", "precision", "us"),
    [
        ("ascend310p3", "float16", 136.3),  # 8.2e9 at the 60.2e12 of library.products.float16; published: 240 an image
        ("ascend310p3", "int8", 68.1),
        ("ascend310p3", "float32", 8_276.8),  # not in the cubes: 0.99e12 of the vector units
        ("ascend910b3", "float32", 130.8),  # in the cubes
    ],
)
def test_flops_of_a_model_take_the_rate_of_the_cubes_for_its_precision(device, precision, us):
    """ResNet-50 by its sidecar."""
    with module(device) as acl:
        x, y = Tensor("x", "float32", (4,)), Tensor("y", "float32", (4,))
        register_model("resnet50.om", [x], [y], flops=8.2e9, precision=precision)(lambda x: x)
        datasets = []
        for _ in range(2):
            datasets.append(acl.mdl.create_dataset())
            acl.mdl.add_dataset_buffer(datasets[-1], acl.create_data_buffer(made(acl.rt.malloc(16, 0)), 16))
        done(acl.mdl.execute(made(acl.mdl.load_from_file("resnet50.om")), *datasets))
        unregister_model("resnet50.om")
        [op] = session().trace.ops
        assert (op.end_ns - op.start_ns) / 1000 == pytest.approx(us, abs=1.5)


def test_a_precision_is_one_of_the_products_of_a_card():
    with pytest.raises(ValueError, match="precision must be one of float32, tf32, float16, bfloat16, int8, not 'fp16'"):
        register_model("net.om", [Tensor("x", "int8", (1,))], [Tensor("y", "int8", (1,))], precision="fp16")(print)
