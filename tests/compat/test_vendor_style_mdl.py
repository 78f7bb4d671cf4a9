"""acl.mdl as its vendor would test it: models, datasets, descriptions, gears, and what is wrong with each."""

import ctypes
import mmap

import numpy as np
import pytest
from card import D2H, H2D, content, done, made, now, work

GARBAGE = 0xDEAD0
COMPUTE = """
def double(x):
    return x * 2

def broken(x):
    raise ArithmeticError("a bug of the model")
"""
SIDECAR = """
compute = "nets:{function}"
cost_us = 1000.0
{more}
[[inputs]]
name = "data"
dtype = "float32"
dims = [{batch}, 4]
format = "ND"
[[outputs]]
name = "prob"
dtype = "float32"
dims = [{outputs}, 4]
"""


@pytest.fixture
def models(tmp_path):
    """A directory with three models: one that doubles, one whose batch is dynamic, one that fails."""
    (tmp_path / "nets.py").write_text(COMPUTE)
    for name, function, batch, outputs, more in (
        ("double", "double", 1, 1, ""), ("batch", "double", -1, '"batch"', "dynamic_batch = [1, 2, 4]"),
        ("broken", "broken", 1, 1, ""),
    ):  # fmt: skip
        (tmp_path / f"{name}.om").write_bytes(b"IMOD" + bytes(60))
        text = SIDECAR.format(function=function, batch=batch, outputs=outputs, more=more)
        (tmp_path / f"{name}.om.toml").write_text(text)
    return tmp_path


def load(acl, models, name="double"):
    return made(acl.mdl.load_from_file(str(models / f"{name}.om")))


def describe(acl, model):
    desc = acl.mdl.create_desc()
    done(acl.mdl.get_desc(desc, model))
    return desc


def dataset(acl, *sizes):
    """A dataset with a data buffer of device memory of each size, and the addresses."""
    handle, addresses = acl.mdl.create_dataset(), []
    for size in sizes:
        addresses.append(made(acl.rt.malloc(size, 0)))
        assert acl.mdl.add_dataset_buffer(handle, acl.create_data_buffer(addresses[-1], size)) == (handle, 0)
    return handle, addresses


def give(acl, address, values):
    values = np.asarray(values, np.float32)
    done(acl.rt.memcpy(address, values.nbytes, values.ctypes.data, values.nbytes, H2D))


def take(acl, address, count):
    return np.frombuffer(content(acl, address, 4 * count), np.float32).tolist()


# --- loading


def test_load_and_unload(acl, models):
    model = load(acl, models)
    other = load(acl, models)
    assert (type(model), model != other) == (int, True)
    done(acl.mdl.unload(model), acl.mdl.unload(other))
    assert acl.mdl.unload(model) != 0
    assert acl.get_recent_err_msg()


@pytest.mark.parametrize("path", ["missing.om", "", ".", "/", "..", "missing/"])
@pytest.mark.parametrize("name", ["load_from_file", "query_size", "bundle_load_from_file"])
def test_a_file_that_is_not_there(acl, name, path):
    answer = getattr(acl.mdl, name)(path)
    assert answer[-1] != 0
    assert answer[:-1] == (0,) * (len(answer) - 1)
    assert acl.mdl.get_desc_from_file(acl.mdl.create_desc(), path) != 0


def test_a_file_without_a_sidecar_shows_the_sidecar_to_write(acl, models, capsys):
    (models / "double.om.toml").unlink()
    model, ret = acl.mdl.load_from_file(str(models / "double.om"))
    assert (model, ret != 0) == (0, True)
    err = capsys.readouterr().err
    assert "double.om.toml" in err
    assert "[[inputs]]" in err


@pytest.mark.parametrize("wrong", [None, 1, b"double.om", ["double.om"]])
def test_a_path_is_a_text(acl, wrong):
    with pytest.raises(TypeError):
        acl.mdl.load_from_file(wrong)


def test_sizes_and_loading_with_memory(acl, models):
    path = str(models / "double.om")
    work_size, weight_size = made(acl.mdl.query_size(path))
    memory = [made(acl.rt.malloc(max(size, 64), 0)) for size in (work_size, weight_size)]
    model = made(acl.mdl.load_from_file_with_mem(path, memory[0], work_size, memory[1], weight_size))
    done(acl.mdl.unload(model))
    model, ret = acl.mdl.load_from_file_with_mem(path, 0xBAD0, work_size, memory[1], weight_size)
    assert (model, ret != 0) == (0, True)


def test_loading_from_memory_of_nothing(acl):
    assert acl.mdl.load_from_mem(0, 64)[1] != 0
    assert acl.mdl.load_from_mem(GARBAGE, 64)[1] != 0
    address = made(acl.rt.malloc_host(64))
    assert acl.mdl.load_from_mem(address, 0)[1] != 0
    assert acl.mdl.load_from_mem(address, 1 << 20)[1] != 0


def test_loading_from_memory_that_may_not_be_read(acl):
    """A mapped page without permissions, as the guard of a stack, far from where other memory is or was."""
    libc, nowhere = ctypes.CDLL(None), 1 << 36
    libc.mmap.restype = ctypes.c_void_p
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = libc.mmap(ctypes.c_void_p(nowhere), ctypes.c_size_t(4096), 0, flags, -1, ctypes.c_long(0))
    assert address == nowhere
    try:
        assert acl.mdl.load_from_mem(address, 64)[1] != 0
        assert acl.op.load(address, 64) != 0
        assert acl.rt.memcpy(made(acl.rt.malloc(64, 0)), 64, address, 64, H2D) != 0
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(4096))


def test_no_model_without_a_context(acl, models):
    done(acl.rt.reset_device(0))
    assert acl.mdl.load_from_file(str(models / "double.om")) == (0, 107002)


# --- descriptions


def test_descriptions(acl, models):
    desc = describe(acl, load(acl, models))
    assert (acl.mdl.get_num_inputs(desc), acl.mdl.get_num_outputs(desc)) == (1, 1)
    assert (acl.mdl.get_input_size_by_index(desc, 0), acl.mdl.get_output_size_by_index(desc, 0)) == (16, 16)
    assert acl.mdl.get_input_dims(desc, 0) == ({"name": "data", "dimCount": 2, "dims": [1, 4]}, 0)
    assert acl.mdl.get_input_dims_v2(desc, 0) == ({"name": "data", "dimCount": 2, "dims": [1, 4]}, 0)
    assert acl.mdl.get_output_dims(desc, 0)[0]["dims"] == [1, 4]
    assert acl.mdl.get_cur_output_dims(desc, 0)[0]["dims"] == [1, 4]
    assert (acl.mdl.get_input_name_by_index(desc, 0), acl.mdl.get_output_name_by_index(desc, 0)) == ("data", "prob")
    assert (acl.mdl.get_input_data_type(desc, 0), acl.mdl.get_output_data_type(desc, 0)) == (0, 0)
    assert (acl.mdl.get_input_format(desc, 0), acl.mdl.get_output_format(desc, 0)) == (2, 2)
    assert (acl.mdl.get_input_index_by_name(desc, "data"), acl.mdl.get_output_index_by_name(desc, "prob")) == (
        (0, 0), (0, 0),
    )  # fmt: skip
    done(acl.mdl.destroy_desc(desc))


def test_a_description_from_a_file(acl, models):
    desc = acl.mdl.create_desc()
    done(acl.mdl.get_desc_from_file(desc, str(models / "double.om")))
    assert acl.mdl.get_num_inputs(desc) == 1
    assert acl.mdl.get_desc_from_file(desc, str(models / "missing.om")) != 0


def test_indexes_and_names_that_are_not_there(acl, models):
    desc = describe(acl, load(acl, models))
    for index in (1, 99, 2**64 - 1):
        assert (acl.mdl.get_input_size_by_index(desc, index), acl.mdl.get_output_size_by_index(desc, index)) == (0, 0)
        for name in ("get_input_dims", "get_input_dims_v2", "get_output_dims", "get_cur_output_dims"):
            answer = getattr(acl.mdl, name)(desc, index)
            assert len(answer) == 2
            assert answer[1] != 0
    for name in ("get_input_index_by_name", "get_output_index_by_name"):
        value, ret = getattr(acl.mdl, name)(desc, "no such name")
        assert (value, ret != 0) == (0, True)


def test_descriptions_that_are_none(acl, models):
    gone, model = acl.mdl.create_desc(), load(acl, models)
    done(acl.mdl.destroy_desc(gone))
    for bad in (0, gone, GARBAGE):
        assert acl.mdl.destroy_desc(bad) == 100000
        assert acl.mdl.get_desc(bad, model) == 100000
        assert (acl.mdl.get_num_inputs(bad), acl.mdl.get_num_outputs(bad)) == (0, 0)
        assert acl.mdl.get_input_size_by_index(bad, 0) == 0
        assert acl.mdl.get_input_dims(bad, 0)[1] == 100000
    desc = acl.mdl.create_desc()
    assert acl.mdl.get_desc(desc, 0xBAD) != 0
    assert acl.mdl.get_num_inputs(desc) == 0  # nothing is described yet


# --- datasets


def test_datasets(acl):
    handle = acl.mdl.create_dataset()
    assert acl.mdl.get_dataset_num_buffers(handle) == 0
    buffers = [acl.create_data_buffer(0, 0) for _ in range(3)]
    for buffer in buffers:
        assert acl.mdl.add_dataset_buffer(handle, buffer) == (handle, 0)
    assert acl.mdl.get_dataset_num_buffers(handle) == 3
    assert [acl.mdl.get_dataset_buffer(handle, i) for i in range(3)] == buffers
    assert acl.mdl.get_dataset_buffer(handle, 3) == 0
    done(acl.mdl.destroy_dataset(handle))
    done(*map(acl.destroy_data_buffer, buffers))  # the buffers were not its own


def test_datasets_that_are_none(acl):
    gone, buffer = acl.mdl.create_dataset(), acl.create_data_buffer(0, 0)
    done(acl.mdl.destroy_dataset(gone))
    for bad in (0, gone, GARBAGE, buffer):
        assert acl.mdl.destroy_dataset(bad) == 100000
        assert acl.mdl.add_dataset_buffer(bad, buffer)[1] == 100000
        assert (acl.mdl.get_dataset_num_buffers(bad), acl.mdl.get_dataset_buffer(bad, 0)) == (0, 0)
    handle = acl.mdl.create_dataset()
    for bad in (0, GARBAGE, handle):
        assert acl.mdl.add_dataset_buffer(handle, bad)[1] == 100000
    with pytest.raises(TypeError):
        acl.mdl.add_dataset_buffer(handle, None)


# --- executing


def test_execute(acl, models):
    model = load(acl, models)
    inputs, (source,) = dataset(acl, 16)
    outputs, (result,) = dataset(acl, 16)
    give(acl, source, [1, 2, 3, 4])
    begin = now()
    done(acl.mdl.execute(model, inputs, outputs))
    assert take(acl, result, 4) == [2, 4, 6, 8]
    assert now() - begin >= 1_000_000


def test_execute_again_with_other_values(acl, models):
    model = load(acl, models)
    (inputs, (source,)), (outputs, (result,)) = dataset(acl, 16), dataset(acl, 16)
    for value in range(5):
        give(acl, source, [value] * 4)
        done(acl.mdl.execute(model, inputs, outputs))
        assert take(acl, result, 4) == [2 * value] * 4


def test_execute_async_is_queued(acl, models):
    model, stream = load(acl, models), made(acl.rt.create_stream())
    (inputs, (source,)), (outputs, (result,)) = dataset(acl, 16), dataset(acl, 16)
    give(acl, source, [1, 2, 3, 4])
    done(acl.rt.memset(result, 16, 0, 16))
    begin = now()
    done(acl.mdl.execute_async(model, inputs, outputs, stream))
    assert now() - begin < 1_000_000
    assert take(acl, result, 4) == [0] * 4
    assert acl.rt.stream_query(stream) == (1, 0)
    done(acl.rt.synchronize_stream(stream))
    assert take(acl, result, 4) == [2, 4, 6, 8]


def test_execute_async_waits_for_its_stream(acl, models):
    """Copy in, execute, copy out: all queued, in one stream."""
    model, stream = load(acl, models), made(acl.rt.create_stream())
    (inputs, (source,)), (outputs, (result,)) = dataset(acl, 16), dataset(acl, 16)
    pinned = made(acl.rt.malloc_host(32))
    view = acl.util.ptr_to_numpy(pinned, (8,), 11)
    view[:] = [1, 2, 3, 4, 0, 0, 0, 0]
    work("before", 100, stream)
    done(
        acl.rt.memcpy_async(source, 16, pinned, 16, H2D, stream), acl.mdl.execute_async(model, inputs, outputs, stream),
        acl.rt.memcpy_async(pinned + 16, 16, result, 16, D2H, stream),
    )  # fmt: skip
    assert view[4:].tolist() == [0] * 4
    done(acl.rt.synchronize_stream(stream))
    assert view[4:].tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize("way", ["execute", "execute_async"])
def test_a_model_that_fails(acl, models, way, capsys):
    model, stream = load(acl, models, "broken"), made(acl.rt.create_stream())
    (inputs, _), (outputs, _) = dataset(acl, 16), dataset(acl, 16)
    if way == "execute":
        assert acl.mdl.execute(model, inputs, outputs) == 507011
    else:
        done(acl.mdl.execute_async(model, inputs, outputs, stream))
        assert acl.rt.synchronize_stream(stream) == 507011
        done(acl.rt.synchronize_stream(stream))
    assert "a bug of the model" in capsys.readouterr().err


def test_execute_of_what_is_none(acl, models):
    model = load(acl, models)
    (inputs, _), (outputs, _) = dataset(acl, 16), dataset(acl, 16)
    for bad in (0, GARBAGE):
        assert acl.mdl.execute(model, bad, outputs) == 100000
        assert acl.mdl.execute(model, inputs, bad) == 100000
        assert acl.mdl.execute_async(model, bad, outputs, 0) == 100000
    assert acl.mdl.execute(0xBAD, inputs, outputs) not in (0, None)
    assert acl.mdl.execute_async(model, inputs, outputs, GARBAGE) == 107017
    done(acl.mdl.unload(model))
    assert acl.mdl.execute(model, inputs, outputs) != 0


@pytest.mark.parametrize(("in_sizes", "out_sizes"), [
    ((), (16,)), ((16,), ()), ((16, 16), (16,)), ((8,), (16,)), ((16,), (8,)),
])  # fmt: skip
def test_datasets_that_do_not_fit_the_model(acl, models, in_sizes, out_sizes):
    model = load(acl, models)
    inputs, _ = dataset(acl, *in_sizes)
    outputs, _ = dataset(acl, *out_sizes)
    assert acl.mdl.execute(model, inputs, outputs) != 0
    assert acl.get_recent_err_msg()


def test_a_dataset_over_memory_that_was_freed(acl, models):
    model = load(acl, models)
    (inputs, (source,)), (outputs, _) = dataset(acl, 16), dataset(acl, 16)
    done(acl.rt.free(source))
    assert acl.mdl.execute(model, inputs, outputs) != 0


def test_a_stream_of_another_context(acl, models):
    model, stream = load(acl, models), made(acl.rt.create_stream())
    (inputs, _), (outputs, _) = dataset(acl, 16), dataset(acl, 16)
    made(acl.rt.create_context(0))
    assert acl.mdl.execute_async(model, inputs, outputs, stream) == 107003


# --- gears


def test_dynamic_batch(acl, models):
    model = load(acl, models, "batch")
    desc = describe(acl, model)
    assert acl.mdl.get_dynamic_batch(desc) == ({"batchCount": 3, "batch": [1, 2, 4]}, 0)
    index = made(acl.mdl.get_input_index_by_name(desc, "ascend_mbatch_shape_data"))
    sizes = [acl.mdl.get_input_size_by_index(desc, i) for i in range(acl.mdl.get_num_inputs(desc))]
    assert (index, sizes[0]) == (1, 64)
    inputs, (source, _) = dataset(acl, *sizes)
    outputs, (result,) = dataset(acl, acl.mdl.get_output_size_by_index(desc, 0))
    for batch in (1, 2, 4):
        give(acl, source, np.arange(4 * batch))
        done(acl.mdl.set_dynamic_batch_size(model, inputs, index, batch), acl.mdl.execute(model, inputs, outputs))
        assert take(acl, result, 4 * batch) == [2.0 * i for i in range(4 * batch)]
        assert made(acl.mdl.get_cur_output_dims(desc, 0))["dims"] == [batch, 4]


def test_a_batch_that_is_no_gear(acl, models):
    model = load(acl, models, "batch")
    desc = describe(acl, model)
    inputs, _ = dataset(acl, *(acl.mdl.get_input_size_by_index(desc, i) for i in range(2)))
    for batch in (0, 3, 5):
        assert acl.mdl.set_dynamic_batch_size(model, inputs, 1, batch) != 0
    assert acl.mdl.set_dynamic_batch_size(model, 0, 1, 2) == 100000
    assert acl.mdl.set_dynamic_batch_size(0xBAD, inputs, 1, 2) != 0


def test_a_model_without_gears(acl, models):
    model = load(acl, models)
    desc = describe(acl, model)
    assert acl.mdl.get_dynamic_batch(desc)[0]["batchCount"] == 0
    inputs, _ = dataset(acl, 16)
    assert acl.mdl.set_dynamic_batch_size(model, inputs, 0, 2) != 0


# --- configurations


def test_configurations(acl, models):
    config = acl.mdl.create_config_handle()
    assert (type(config), config != 0) == (int, True)
    done(acl.mdl.destroy_config_handle(config))
    assert acl.mdl.destroy_config_handle(config) == 100000
    assert acl.mdl.load_with_config(config) == (0, 100000)


# --- the usual script


def test_the_usual_script_of_an_inference_leaves_nothing_behind(acl, models):
    free = made(acl.rt.get_mem_info(1))
    model = load(acl, models)
    desc = describe(acl, model)
    size_in, size_out = acl.mdl.get_input_size_by_index(desc, 0), acl.mdl.get_output_size_by_index(desc, 0)
    inputs, sources = dataset(acl, size_in)
    outputs, results = dataset(acl, size_out)
    data = np.ones((1, 4), np.float32).tobytes()
    done(acl.rt.memcpy(sources[0], size_in, acl.util.bytes_to_ptr(data), size_in, H2D))
    done(acl.mdl.execute(model, inputs, outputs))
    for i in range(acl.mdl.get_dataset_num_buffers(outputs)):
        buffer = acl.mdl.get_dataset_buffer(outputs, i)
        address, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size(buffer)
        out = bytes(size)
        done(acl.rt.memcpy(acl.util.bytes_to_ptr(out), size, address, size, D2H))
        assert np.frombuffer(out, np.float32).tolist() == [2, 2, 2, 2]
    for handle, addresses in ((inputs, sources), (outputs, results)):
        for i in range(acl.mdl.get_dataset_num_buffers(handle)):
            done(acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(handle, i)))
        done(acl.mdl.destroy_dataset(handle), *map(acl.rt.free, addresses))
    done(acl.mdl.destroy_desc(desc), acl.mdl.unload(model))
    assert made(acl.rt.get_mem_info(1)) == free
