"""acl.op: operators through the module: descriptions, data buffers, attributes, streams, handles, codes."""

import numpy as np
import pytest
from card import done, made, now
from test_mdl import download as download_of
from test_mdl import upload

from acl_py.compat.acl import register_op, unregister_op
from acl_py.compat.acl.face.dtypes import DATA_TYPES
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.standins.operators import operator_of

ND = 2
X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)


def described(acl, array):
    """A description of *array*."""
    return acl.create_tensor_desc(DATA_TYPES[array.dtype.name], list(array.shape), ND)


def result(acl, dtype, shape):
    """A description of an output and a data buffer for it."""
    desc = acl.create_tensor_desc(DATA_TYPES[dtype], list(shape), ND)
    size = acl.get_tensor_desc_size(desc)
    return desc, acl.create_data_buffer(made(acl.rt.malloc(size, 0)), size)


def attributes(acl, **values):
    """A set of attributes."""
    attr = acl.op.create_attr()
    setters = {bool: "bool", int: "int", float: "float", str: "string"}
    for name, value in values.items():
        kind = f"list_{setters[type(value[0])]}" if isinstance(value, list) else setters[type(value)]
        done(getattr(acl.op, f"set_attr_{kind}")(attr, name, value))
    return attr


def read(acl, buffer, dtype):
    """What lies in a data buffer."""
    holder = acl.mdl.create_dataset()
    acl.mdl.add_dataset_buffer(holder, buffer)
    return download_of(acl, holder, 0, dtype)


def run(acl, name, inputs, dtype, shape, **attrs):
    """Execute an operator and wait: its code, the code of the wait, and the result."""
    descs, buffers = [described(acl, each) for each in inputs], [upload(acl, each) for each in inputs]
    desc, out = result(acl, dtype, shape)
    ret = acl.op.execute_v2(name, descs, buffers, [desc], [out], attributes(acl, **attrs), 0)
    waited = acl.rt.synchronize_stream(0)
    return ret, waited, read(acl, out, np.dtype(dtype)).reshape(shape)


def test_an_operator_runs_in_its_stream(acl):
    desc, (out_desc, out) = described(acl, X), result(acl, "float32", (2, 3))
    sources = [upload(acl, X), upload(acl, 10 * X)]
    stream = made(acl.rt.create_stream())
    before = now()
    done(acl.op.execute("Add", [desc, desc], sources, [out_desc], [out], 0, stream))
    assert now() - before == 1000  # it was queued
    done(acl.rt.synchronize_stream(stream))
    assert read(acl, out, np.float32).tolist() == (11 * X).ravel().tolist()
    op = next(op for op in session().trace.ops if op.kind == "kernel")
    assert (op.name, op.end_ns - op.start_ns) == ("Add", 72)  # 3 times 24 bytes, one nanosecond each


def test_an_operator_whose_flops_take_longer_than_simulated_time_is_a_code(acl):
    """It was a ValueError, as for a model whose sidecar says flops = 1e308."""

    @register_op("Endless", flops=lambda x: 1e308 * x.shape[0])
    def endless(x):
        return x

    one = X[:1]
    desc, (out_desc, out) = described(acl, one), result(acl, "float32", (1, 3))
    try:
        assert acl.op.execute("Endless", [desc], [upload(acl, one)], [out_desc], [out], 0, 0) == 107000
        assert "has an impossible cost: the time of a block" in acl.get_recent_err_msg()
    finally:
        unregister_op("Endless")


def test_the_function_of_an_operator_must_not_call_the_runtime(acl):
    """It runs in the middle of a call, as any kernel does"""
    answers = []

    @register_op("Nested")
    def nested(x):
        answers.append(acl.rt.malloc(64, 0))
        return x

    try:
        assert run(acl, "Nested", [X], "float32", (2, 3))[:2] == (0, 0)
    finally:
        unregister_op("Nested")
    assert answers == [(0, 207006)]
    assert "acl.rt.malloc() inside <kernel Nested>" in acl.get_recent_err_msg()


def test_attributes_of_all_kinds_reach_the_operator(acl):
    seen = {}

    @register_op("Probe")
    def probe(x, *, a, b, c, d, e, f, g, h, i, j, k):
        seen.update(a=a, b=b, c=c, d=d, e=e, f=f, g=g, h=h, i=i, j=j, k=k)
        return x

    attr, op = acl.op.create_attr(), acl.op
    done(
        op.set_attr_bool(attr, "a", 1),
        op.set_attr_int(attr, "b", -(2**40)),
        op.set_attr_float(attr, "c", 0.1),
        op.set_attr_string(attr, "d", "text"),
        op.set_attr_list_bool(attr, "e", [1, 0]),
        op.set_attr_list_int(attr, "f", [1, 2]),
        op.set_attr_list_float(attr, "g", [1.0, 0.5]),
        op.set_attr_list_string(attr, "h", ["a", "b"]),
        op.set_attr_list_list_int(attr, "i", [[1], [2, 3], []]),
    )
    assert op.set_attr_data_type(attr, "j", 1) == (attr, 0)
    assert op.set_attr_list_data_type(attr, "k", [0, 27]) == (attr, 0)
    desc, (out_desc, out) = described(acl, X), result(acl, "float32", (2, 3))
    try:
        done(op.execute_v2("Probe", [desc], [upload(acl, X)], [out_desc], [out], attr, 0), acl.rt.synchronize_stream(0))
    finally:
        unregister_op("Probe")
    assert seen == {
        "a": True, "b": -(2**40), "c": float(np.float32(0.1)), "d": "text", "e": [True, False], "f": [1, 2],
        "g": [1.0, 0.5], "h": ["a", "b"], "i": [[1], [2, 3], []], "j": 1, "k": [0, 27],
    }  # fmt: skip
    assert op.destroy_attr(attr) is None
    assert op.set_attr_int(attr, "b", 1) == 100000
    assert op.set_attr_data_type(attr, "j", 1) == (attr, 100000)


def test_attributes_as_arrays_are_taken_with_a_warning(acl):
    attr = acl.op.create_attr()
    with pytest.warns(Warning, match="pass a list"):
        done(acl.op.set_attr_list_int(attr, "axes", np.array([0], np.int64)))
    desc, (out_desc, out) = described(acl, X), result(acl, "float32", (3,))
    done(acl.op.execute("ReduceSumD", [desc], [upload(acl, X)], [out_desc], [out], attr, 0))
    done(acl.rt.synchronize_stream(0))
    assert read(acl, out, np.float32).tolist() == [5, 3, -3]


def test_lists_of_something_else_are_refused(acl):
    attr = acl.op.create_attr()
    with pytest.raises(TypeError):
        acl.op.set_attr_list_int(attr, "axes", (0, 1))
    with pytest.raises(ValueError):
        acl.op.set_attr_list_int(attr, "axes", [0.5])
    with pytest.raises((TypeError, ValueError)):
        acl.op.set_attr_list_string(attr, "names", "ab")
    with pytest.raises(TypeError):
        acl.op.execute("Add", [None], [0], [0], [0], 0, 0)


def test_what_does_not_fit_an_operator_is_refused(acl):
    op, desc, source = acl.op, described(acl, X), upload(acl, X)
    out_desc, out = result(acl, "float32", (2, 3))
    assert op.execute("NoSuchOp", [desc], [source], [out_desc], [out], 0, 0) == 100024
    assert op.execute("Add", [desc], [source], [out_desc], [out], 0, 0) == 100021
    assert op.execute("Relu", [desc], [source], [out_desc] * 2, [out] * 2, 0, 0) == 100022
    assert op.execute("Relu", [desc], [source], [out_desc], [out], attributes(acl, speed=1), 0) == 100023
    assert op.execute("Muls", [desc], [source], [out_desc], [out], 0, 0) == 100023
    assert op.execute("Relu", [desc], [source, source], [out_desc], [out], 0, 0) == 100000
    assert op.execute("Relu", [12345], [source], [out_desc], [out], 0, 0) == 100000
    assert op.execute("Relu", [desc], [12345], [out_desc], [out], 0, 0) == 100000
    assert op.execute("Relu", [desc], [source], [out_desc], [out], 12345, 0) == 100000
    assert op.execute("Relu", [desc], [source], [out_desc], [out], 0, 12345) == 107017
    small = acl.create_data_buffer(acl.get_data_buffer_addr(source), 23)
    assert op.execute("Relu", [desc], [small], [out_desc], [out], 0, 0) == 100000
    assert op.execute("Relu", [desc], [source], [out_desc], [small], 0, 0) == 100000
    strange = acl.create_tensor_desc(33, [2, 3], ND)
    assert op.execute("Relu", [strange], [source], [out_desc], [out], 0, 0) == 100026
    dynamic = acl.create_tensor_desc(0, [-1, 3], ND)
    assert op.execute("Relu", [dynamic], [source], [out_desc], [out], 0, 0) == 148050
    host = acl.create_data_buffer(X.ctypes.data, X.nbytes)
    assert op.execute("Relu", [desc], [host], [out_desc], [out], 0, 0) == 107000
    assert len([each for each in session().trace.ops if each.kind == "kernel"]) == 0


def test_an_unknown_operator_is_told_how_to_register_it(acl, capsys):
    assert acl.op.create_handle("AddCustom", [], [], 0) == (0, 100024)
    told = capsys.readouterr().err
    assert "there is no operator 'AddCustom' here" in told
    assert '@register_op("AddCustom", outputs=0)' in told


TOLD = """\
import numpy as np
from acl_py.compat.acl import register_op


@register_op("NormAndSum", outputs=2)
def norm_and_sum(x, x1, *, axis, eps):
    \"""Compute y1 (float32 [2, -1]) and total (int64 []) of x (float32 [2, 3]) and x1 (bfloat16 [4]).\"""
    # Replace the zeros by what the operator does.
    y1 = np.zeros((2, x.shape[1]), 'float32')
    total = np.zeros((), 'int64')
    return y1, total
"""


def test_the_code_to_register_an_unknown_operator_has_its_inputs_outputs_and_attributes_and_runs(acl, capsys):
    descs = [acl.create_tensor_desc(*each, ND) for each in ((0, [2, 3]), (27, [4]))]
    outputs = [acl.create_tensor_desc(*each, ND) for each in ((0, [2, -1]), (9, []))]
    acl.set_tensor_desc_name(descs[0], "x")
    acl.set_tensor_desc_name(outputs[1], "total")
    attr = attributes(acl, axis=-1, eps=0.5)
    assert acl.op.create_handle("NormAndSum", descs, outputs, attr) == (0, 100024)
    told = capsys.readouterr().err
    assert told.partition("\n")[2] == TOLD
    exec(TOLD)
    try:
        arrays = [np.ones((2, 3), np.float32), np.ones(4, np.float32)]
        first, total = operator_of("NormAndSum").function(*arrays, axis=-1, eps=0.5)
        assert (first.shape, total.shape) == ((2, 3), ())
        made(acl.op.create_handle("NormAndSum", descs, outputs, attr))
    finally:
        unregister_op("NormAndSum")


def test_shapes_that_do_not_fit_fail_on_the_device(acl, capsys):
    code = run(acl, "Add", [X, np.ones(2, np.float32)], "float32", (2, 3))[:2]
    assert code == (0, 507035)
    assert "could not be broadcast" in capsys.readouterr().err


def test_outputs_of_unknown_shape_are_described_afterwards(acl):
    desc = described(acl, X)
    out_desc = acl.create_tensor_desc(0, [-1], ND)
    out = acl.create_data_buffer(made(acl.rt.malloc(64, 0)), 64)
    attr = attributes(acl, axes=[1])
    done(acl.op.execute_v2("ReduceSumD", [desc], [upload(acl, X)], [out_desc], [out], attr, 0))
    done(acl.rt.synchronize_stream(0))
    assert (acl.get_tensor_desc_num_dims(out_desc), acl.get_tensor_desc_dim_v2(out_desc, 0)) == (1, (2, 0))
    assert read(acl, out, np.float32)[:2].tolist() == [2, 3]


def test_shapes_are_inferred_from_inputs_on_the_host(acl):
    axes = np.array([0], np.int32)
    descs = [described(acl, X), described(acl, axes)]
    sources = [acl.create_data_buffer(each.ctypes.data, each.nbytes) for each in (X, axes)]
    out_desc = acl.create_tensor_desc(0, [-1, -1], ND)
    done(acl.op.infer_shape("ReduceSum", descs, sources, 1, [out_desc], attributes(acl, keep_dims=True)))
    assert [acl.get_tensor_desc_dim_v2(out_desc, index) for index in range(2)] == [(1, 0), (3, 0)]
    assert acl.op.infer_shape("ReduceSum", descs, sources, 2, [out_desc], 0) == 100000
    assert acl.op.infer_shape("Add", descs, sources, 1, [out_desc], 0) == 0
    wrong = [described(acl, X), described(acl, np.ones(2, np.float32))]
    assert acl.op.infer_shape("Add", wrong, [sources[0]] * 2, 1, [out_desc], 0) == 100021


def test_a_handle_keeps_what_it_was_made_of(acl):
    desc, (out_desc, out) = described(acl, X), result(acl, "float32", (2, 3))
    attr = attributes(acl, value=3.0)
    handle = made(acl.op.create_handle("Muls", [desc], [out_desc], attr))
    acl.op.destroy_attr(attr)
    acl.destroy_tensor_desc(desc)
    for factor in (1, 2):
        done(acl.op.execute_with_handle(handle, [upload(acl, factor * X)], [out], 0), acl.rt.synchronize_stream(0))
        assert read(acl, out, np.float32).tolist() == (3 * factor * X).ravel().tolist()
    assert acl.op.execute_with_handle(handle, [], [out], 0) == 100000
    assert acl.op.destroy_handle(handle) is None
    assert acl.op.execute_with_handle(handle, [upload(acl, X)], [out], 0) == 100000
    assert acl.op.create_handle("Muls", [12345], [out_desc], 0) == (0, 100023)


def test_cast_goes_to_the_type_of_the_second_description(acl):
    x = np.array([1.75, -2.5, 70000, 0], np.float32)
    desc, source = described(acl, x), upload(acl, x)
    for dtype, expected in (
        ("int32", [1, -2, 70000, 0]), ("float16", [1.75, -2.5, np.inf, 0]), ("bool", [True, True, True, False]),
    ):  # fmt: skip
        out_desc, out = result(acl, dtype, (4,))
        done(acl.op.cast(desc, source, out_desc, out, 0, 0), acl.rt.synchronize_stream(0))
        assert read(acl, out, np.dtype(dtype)).tolist() == expected
    out_desc, out = result(acl, "int32", (4,))
    handle = made(acl.op.create_handle_for_cast(desc, out_desc, 0))
    done(acl.op.execute_with_handle(handle, [source], [out], 0), acl.rt.synchronize_stream(0))
    assert read(acl, out, np.int32).tolist() == [1, -2, 70000, 0]


def test_inputs_may_be_left_out_or_be_on_the_host(acl):
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    none = acl.create_tensor_desc(-1, [], ND)
    out_desc, out = result(acl, "float32", (2, 2))
    descs, sources = [described(acl, a), described(acl, b), none], [upload(acl, a), upload(acl, b)]
    done(acl.op.execute_v2("MatMulV2", descs, [*sources, acl.create_data_buffer(0, 0)], [out_desc], [out], 0, 0))
    done(acl.rt.synchronize_stream(0))
    assert read(acl, out, np.float32).tolist() == [3, 3, 12, 12]
    axes = np.array([1], np.int32)
    on_host = described(acl, axes)
    done(acl.set_tensor_place_ment(on_host, 1))
    host = acl.create_data_buffer(axes.ctypes.data, axes.nbytes)
    out_desc, out = result(acl, "float32", (2,))
    done(acl.op.execute_v2("ReduceSum", [descs[0], on_host], [sources[0], host], [out_desc], [out], 0, 0))
    axes[0] = 0  # it has been read
    done(acl.rt.synchronize_stream(0))
    assert read(acl, out, np.float32).tolist() == [3, 12]


def test_compiled_operators_are_accepted_and_not_needed(acl, tmp_path):
    done(acl.op.set_model_dir(str(tmp_path)))
    assert acl.op.set_model_dir(str(tmp_path / "nowhere")) == 100000
    data = b"compiled"
    done(acl.op.load(acl.util.bytes_to_ptr(data), len(data)), acl.op.set_max_op_queue_num(100))
    assert acl.op.load(0, 8) == 100000
    assert acl.op.set_max_op_queue_num(0) == 100000


def test_a_matmul_takes_as_long_as_its_arithmetic(acl):
    a = np.ones((40, 30), np.float32)
    ret, waited, product = run(acl, "MatMul", [a, a], "float32", (40, 40), transpose_x2=True)
    assert (ret, waited, product.tolist()) == (0, 0, [[30] * 40] * 40)
    op = next(op for op in session().trace.ops if op.kind == "kernel")
    assert op.end_ns - op.start_ns == 2 * 40 * 30 * 40 / 4  # at 4 operations per nanosecond


def test_functions_that_choose_kernels(acl):
    op, desc, data = acl.op, described(acl, X), b"binary"
    address = acl.util.bytes_to_ptr(data)
    chosen = []
    workspaces = np.array([64, 128], np.uint64)

    def choose(inputs, input_descs, outputs, output_descs, attr, kernel):
        chosen.append((inputs, input_descs, outputs, output_descs, attr))
        assert op.set_kernel_args(kernel, "other", 4, 0, 0) == 100029
        done(op.set_kernel_args(kernel, "fast", 4, 0, 0))
        done(op.set_kernel_workspace_sizes(kernel, 2, workspaces.ctypes.data))
        return 0

    done(op.create_kernel("Mine", "fast", "fast_kernel", address, len(data), 0, 0))
    assert op.create_kernel("Mine", "fast", "fast_kernel", address, len(data), 0, 0) == 100031
    assert op.create_kernel("Mine", "none", "none_kernel", 0, 0, 0, 0) == 100000
    assert op.update_params("Mine", [desc], [desc], 0) == 100028
    done(op.register_compile_func("Mine", choose))
    assert op.register_compile_func("Mine", choose) == 100030
    attr = op.create_attr()
    done(op.update_params("Mine", [desc, desc], [desc], attr))
    assert chosen == [(2, [desc, desc], 1, [desc], attr)]
    assert op.update_params("Mine", [12345], [desc], attr) == 100000
    done(op.unregister_compile_func("Mine"))
    assert op.unregister_compile_func("Mine") == 100028
    done(op.update_params("Add", [desc, desc], [desc], 0))  # it is known here
    with pytest.raises(TypeError):
        op.register_compile_func("Mine", 5)


def test_a_function_that_chooses_no_kernel_is_told(acl, capsys):
    desc = described(acl, X)
    done(acl.op.register_compile_func("Mine", lambda *_: 1 / 0))
    assert acl.op.update_params("Mine", [desc], [desc], 0) == 100029
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_constants_need_no_buffer(acl):
    axes = np.array([1], np.int32)
    constant = described(acl, axes)
    done(acl.set_tensor_const(constant, axes.ctypes.data, axes.nbytes))
    out_desc, out = result(acl, "float32", (2,))
    descs, sources = [described(acl, X), constant], [upload(acl, X), acl.create_data_buffer(0, 0)]
    done(acl.op.execute_v2("ReduceSum", descs, sources, [out_desc], [out], 0, 0), acl.rt.synchronize_stream(0))
    assert read(acl, out, np.float32).tolist() == [2, 3]


def test_shapes_that_have_no_cost_are_refused(acl):
    vector = np.ones(3, np.float32)
    assert run(acl, "MatMul", [vector, vector], "float32", (1, 1))[0] == 100021
