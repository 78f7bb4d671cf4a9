"""ONNX models behind `acl.mdl`: results, shapes, gears and times of made models with seeded weights."""

import numpy as np
import onnx_models as made_models
import pytest
from card import done, made, module
from onnx.reference import ReferenceEvaluator
from typer.testing import CliRunner

from acl_py.cli import app
from acl_py.compat.acl.face import options
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.standins.graphs import protos
from acl_py.compat.acl.standins.graphs.graph import Graph

CARDS = ("ascend310p3", "ascend910b3", "ascend310b")
H2D, D2H = 1, 2


def sidecar(folder, model, text="", name="net"):
    """Write a model and the sidecar of a model file that it computes; return the path of the latter."""
    made_models.onnx.save(model, folder / f"{name}.onnx")
    (folder / f"{name}.om.toml").write_text(f'onnx = "{name}.onnx"\n{text}')
    return str(folder / f"{name}.om")


def inputs_of(model, shapes=None):
    """Seeded inputs; *shapes* by name where the model says none."""
    random = np.random.default_rng(7)
    values = {}
    for value in model.graph.input:
        dims = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        values[value.name] = random.random((shapes or {}).get(value.name, dims), np.float32)
    return values


def expected(model, inputs):
    return ReferenceEvaluator(model).run(None, inputs)


def assert_like(results, wanted):
    """Each result is the expected one within 1e-4 of its largest value."""
    assert len(results) == len(wanted)
    for result, array in zip(results, wanted, strict=True):
        assert result.shape == array.shape
        assert np.abs(result - array).max() <= 1e-4 * np.abs(array).max()


def execute(acl, path, arrays, sizes=None, gear=None):
    """Run a model file as scripts do: return the bytes of its outputs and the milliseconds that execute() took."""
    model = made(acl.mdl.load_from_file(path))
    desc = acl.mdl.create_desc()
    done(acl.mdl.get_desc(desc, model))
    given, wanted, buffers = acl.mdl.create_dataset(), acl.mdl.create_dataset(), []
    for place, array in enumerate(arrays):
        memory = made(acl.rt.malloc(array.nbytes, 0))
        done(acl.rt.memcpy(memory, array.nbytes, acl.util.bytes_to_ptr(kept := array.tobytes()), array.nbytes, H2D))
        buffers.append((memory, kept))
        made(acl.mdl.add_dataset_buffer(given, acl.create_data_buffer(memory, array.nbytes)))
        if sizes is not None:
            shape = acl.create_tensor_desc(0, list(array.shape), 2)
            made(acl.mdl.set_dataset_tensor_desc(given, shape, place))
    if gear is not None:
        index = made(acl.mdl.get_input_index_by_name(desc, "ascend_mbatch_shape_data"))
        nbytes = acl.mdl.get_input_size_by_index(desc, index)
        made(acl.mdl.add_dataset_buffer(given, acl.create_data_buffer(made(acl.rt.malloc(nbytes, 0)), nbytes)))
        gear(model, given, index)
    results = []
    for place in range(acl.mdl.get_num_outputs(desc)):
        nbytes = sizes[place] if sizes else acl.mdl.get_output_size_by_index(desc, place)
        memory = made(acl.rt.malloc(nbytes, 0))
        results.append((memory, nbytes))
        made(acl.mdl.add_dataset_buffer(wanted, acl.create_data_buffer(memory, nbytes)))
    done(acl.mdl.execute(model, given, wanted))
    arrays = []
    for place, (memory, nbytes) in enumerate(results):
        if sizes is not None:
            out = acl.mdl.get_dataset_tensor_desc(wanted, place)
            shape = [acl.get_tensor_desc_dim(out, each) for each in range(acl.get_tensor_desc_num_dims(out))]
        else:
            shape = made(acl.mdl.get_cur_output_dims(desc, place))["dims"]
        host = bytes(nbytes)
        done(acl.rt.memcpy(acl.util.bytes_to_ptr(host), nbytes, memory, nbytes, D2H))
        arrays.append(np.frombuffer(host, np.float32)[: np.prod(shape)].reshape(shape))
    done(acl.mdl.unload(model))
    return arrays


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("make", [made_models.convolution, lambda: made_models.resnet50(2, 32, 8, 10)])
def test_a_static_model_has_the_results_of_the_reference(tmp_path, card, make):
    model = make()
    path, inputs = sidecar(tmp_path, model), inputs_of(model)
    with module(card) as acl:
        assert_like(execute(acl, path, [*inputs.values()]), expected(model, inputs))


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_batch_of_a_list_of_gears_has_the_results_of_the_reference(tmp_path, card, batch):
    model = made_models.detector()
    dims = '[[inputs]]\nname = "images"\ndtype = "float32"\ndims = [-1, 3, 64, 64]\n'
    path = sidecar(tmp_path, model, f"dynamic_batch = [1, 3]\n{dims}")
    inputs = inputs_of(model, {"images": (batch, 3, 64, 64)})

    def gear(model, dataset, index):
        done(acl.mdl.set_dynamic_batch_size(model, dataset, index, batch))

    with module(card) as acl:
        assert_like(execute(acl, path, [*inputs.values()], gear=gear), expected(model, inputs))


def test_shapes_without_gears_are_those_of_each_execution(tmp_path):
    model = made_models.resize()
    path = sidecar(tmp_path, model)
    with module("ascend310p3") as acl:
        for shape in ((1, 3, 4, 5), (2, 3, 3, 3)):
            inputs = inputs_of(model, {"x": shape})
            assert_like(execute(acl, path, [*inputs.values()], sizes=[4096]), expected(model, inputs))


def test_a_model_with_two_inputs_and_outputs_takes_them_in_their_order(tmp_path):
    model = made_models.matmul(3)
    path, inputs = sidecar(tmp_path, model), inputs_of(model)
    with module("ascend910b3") as acl:
        assert_like(execute(acl, path, [*inputs.values()]), expected(model, inputs))


@pytest.mark.parametrize(
    ("make", "ns"),
    [
        (made_models.convolution, 1_733),  # 13,864 operations at 8 a nanosecond, and 1,052 bytes at one
        (lambda: made_models.matmul(3), 1_128),  # 720 operations, and 1,128 bytes
    ],
)
def test_the_time_is_the_greater_of_products_and_bytes(tmp_path, make, ns):
    """A weight has two bytes, in float16."""
    path, inputs = sidecar(tmp_path, make()), inputs_of(make())
    with module() as acl:
        execute(acl, path, [*inputs.values()])
        [kernel] = [op for op in session().trace.ops if op.kind == "kernel"]
    assert kernel.end_ns - kernel.start_ns == ns


def test_each_gear_and_each_shape_has_a_time_of_its_own(tmp_path):
    """Three times the batch takes three times the products."""
    dims = '[[inputs]]\nname = "x"\ndtype = "float32"\ndims = [-1, 3, 8, 8]\n'
    model = made_models.convolution()
    times = {}
    for name, text in (("gears", "dynamic_batch = [1, 3]\n"), ("free", "")):
        path = sidecar(tmp_path, model, text + dims, name)
        with module() as acl:
            for batch in (1, 3):

                def gear(model, dataset, index, batch=batch):
                    done(acl.mdl.set_dynamic_batch_size(model, dataset, index, batch))

                x = np.ones((batch, 3, 8, 8), np.float32)
                execute(acl, path, [x], **({"gear": gear} if text else {"sizes": [4 * 5 * batch]}))
            kernels = [op for op in session().trace.ops if op.kind == "kernel"]
            times[name] = [op.end_ns - op.start_ns for op in kernels]
    assert times == {"gears": [1_733, 5_199], "free": [1_733, 5_199]}


def test_flops_and_cost_us_of_a_sidecar_come_first(tmp_path):
    path, inputs = sidecar(tmp_path, made_models.convolution(), "cost_us = 20\n"), inputs_of(made_models.convolution())
    with module() as acl:
        execute(acl, path, [*inputs.values()])
        [kernel] = [op for op in session().trace.ops if op.kind == "kernel"]
    assert kernel.end_ns - kernel.start_ns == 20_000


def test_resnet50_is_counted_as_papers_count_it():
    model = made_models.resnet50()
    graph = Graph(model, protos.inputs_of(model), "float16")
    assert graph.at([(1, 3, 224, 224)]).flops == pytest.approx(8.2e9, rel=0.02)


def test_the_command_writes_a_sidecar_that_needs_no_function(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = made_models.convolution()
    made_models.onnx.save(model, "net.onnx")
    wrote = CliRunner().invoke(app, ["model", "init", "net.om", "--onnx", "net.onnx"])
    assert wrote.exit_code == 0, wrote.output
    assert [each.name for each in tmp_path.iterdir() if each.suffix != ".onnx"] == ["net.om.toml"]
    inputs = inputs_of(model)
    with module("ascend310p3") as acl:
        assert_like(execute(acl, "net.om", [*inputs.values()]), expected(model, inputs))


def test_a_sidecar_is_named_in_the_summary_with_its_onnx_file(tmp_path):
    path = sidecar(tmp_path, made_models.convolution())
    with module() as acl:
        made(acl.mdl.load_from_file(path))
        assert f"{tmp_path}/net.om.toml computes {tmp_path}/net.onnx with onnxruntime" in options.brought_in


def lacking(first="Relu", second="Relu"):
    """A model with two operators that nobody has, or these."""
    nodes = [
        made_models.helper.make_node(first, ["x"], ["a"], name="a1"),
        made_models.helper.make_node(second, ["a"], ["y"], name="y1", domain="mine" if second != "Relu" else ""),
    ]
    x, y = (made_models.helper.make_tensor_value_info(name, made_models.FLOAT, [2, 3]) for name in ("x", "y"))
    graph = made_models.helper.make_graph(nodes, "lacking", [x], [y])
    domains = [made_models.helper.make_opsetid(domain, 17) for domain in ("", "mine")]
    return made_models.helper.make_model(graph, opset_imports=domains, ir_version=8)


def test_operators_that_onnxruntime_lacks_are_all_told_and_a_function_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made_models.onnx.save(lacking("RoiThing", "Deform"), "net.onnx")
    wrote = CliRunner().invoke(app, ["model", "init", "net.om", "--onnx", "net.onnx"])
    assert wrote.exit_code == 0
    told = " ".join(wrote.output.split())
    assert "lacks the operator RoiThing (a1); the operator mine.Deform (y1)" in told
    assert "wrote net.py: write infer()" in told
    with module() as acl:
        [zeros] = execute(acl, "net.om", [np.ones((2, 3), np.float32)])
    assert zeros.tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('onnx = "gone.onnx"', "gone.onnx: No such file"),
        ('onnx = "cut.onnx"', "cut.onnx is no ONNX model, or is cut off"),
        ('onnx = "text.onnx"', "text.onnx is no ONNX model, or is cut off"),
        ("onnx = 3", "onnx must be the path of an ONNX file"),
        ('onnx = "net.onnx"\ncompute = "a:b"', "leave out compute, or onnx"),
        ('onnx = "net.onnx"\nprecision = "fp16"', "precision must be one of"),
        ('onnx = "net.onnx"\ndynamic_batch = [1]', "needs an input with -1 among its dims"),
        ('onnx = "net.onnx"\n[[inputs]]\nname = "z"\ndtype = "float32"\ndims = [1]', "no input 'z'; its inputs are x"),
        (
            'onnx = "net.onnx"\n[[inputs]]\nname = "x"\ndtype = "uint8"\ndims = [1, 3, 8, 8]',
            "input x is float32 with 4 dims, [1, 3, 8, 8], and not uint8",
        ),
        (
            'onnx = "net.onnx"\n[[inputs]]\nname = "x"\ndtype = "float32"\ndims = [1, 2, 8, 8]',
            "it cannot have inputs of x [1, 2, 8, 8]",
        ),
        ('onnx = "lacks.onnx"', "lacks the operator Nowhere (a1)"),
    ],
)
def test_what_cannot_be_loaded_has_the_code_of_a_broken_model_and_says_why(tmp_path, capsys, text, told):
    model = made_models.convolution()
    made_models.onnx.save(model, tmp_path / "net.onnx")
    made_models.onnx.save(lacking("Nowhere"), tmp_path / "lacks.onnx")
    (tmp_path / "cut.onnx").write_bytes(model.SerializeToString()[:-9])
    (tmp_path / "text.onnx").write_text("no model at all")
    (tmp_path / "net.om.toml").write_text(text)
    with module() as acl:
        assert acl.mdl.load_from_file(str(tmp_path / "net.om")) == (0, 545001)
    printed = capsys.readouterr().err
    assert told in printed
    assert "net.om.toml" in printed


def test_shapes_that_a_graph_cannot_have_are_refused_at_the_execution(tmp_path):
    path = sidecar(tmp_path, made_models.matmul())
    with module() as acl:
        model = made(acl.mdl.load_from_file(path))
        given, wanted = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        for place, shape in enumerate(([2, 4, 6], [3, 6, 5])):
            memory = made(acl.rt.malloc(1024, 0))
            made(acl.mdl.add_dataset_buffer(given, acl.create_data_buffer(memory, 1024)))
            made(acl.mdl.set_dataset_tensor_desc(given, acl.create_tensor_desc(0, shape, 2), place))
            made(acl.mdl.add_dataset_buffer(wanted, acl.create_data_buffer(made(acl.rt.malloc(1024, 0)), 1024)))
        assert acl.mdl.execute(model, given, wanted) == 100000
        assert "cannot have inputs of a [2, 4, 6], b [3, 6, 5]" in acl.get_recent_err_msg()
