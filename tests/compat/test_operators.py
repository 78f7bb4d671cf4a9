"""The operators that are here: what each computes, and how programs add their own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_op import run

from acl_py.compat.acl import register_op, unregister_op
from acl_py.compat.acl.standins.operators import names, operator_of

X = np.array([[1.5, -2.0, 3.25], [0.25, 5.0, -6.5]], np.float32)
Y = np.array([[2.0, 4.0, -0.5], [8.0, -1.0, 3.0]], np.float32)
POSITIVE = np.array([0.25, 1.0, 4.0], np.float32)
TRUTH = np.array([[True, False, True], [False, False, True]])
I = np.array([[7, -7, 5], [-5, 9, 1]], np.int32)  # noqa: E741
J = np.array([[2, 2, -3], [-3, 4, 1]], np.int32)
S = 1 / (1 + np.exp(-X))


@pytest.mark.parametrize(
    ("name", "inputs", "expected", "attributes"),
    [
        ("Abs", [X], np.abs(X), {}),
        ("Neg", [X], -X, {}),
        ("Exp", [X], np.exp(X), {}),
        ("Log", [POSITIVE], np.log(POSITIVE), {}),
        ("Sqrt", [POSITIVE], np.array([0.5, 1, 2], np.float32), {}),
        ("Rsqrt", [POSITIVE], np.array([2, 1, 0.5], np.float32), {}),
        ("Square", [X], X * X, {}),
        ("Reciprocal", [POSITIVE], np.array([4, 1, 0.25], np.float32), {}),
        ("Relu", [X], np.where(X > 0, X, 0), {}),
        ("Sigmoid", [X], S, {}),
        ("Swish", [X], X * S, {}),
        ("Tanh", [X], np.tanh(X), {}),
        ("Gelu", [np.array([0, 1], np.float32)], np.array([0, 0.841192], np.float32), {}),
        ("Sin", [X], np.sin(X), {}),
        ("Cos", [X], np.cos(X), {}),
        ("Floor", [X], np.floor(X), {}),
        ("Ceil", [X], np.ceil(X), {}),
        ("Round", [np.array([0.5, 1.5, -0.6], np.float32)], np.array([0, 2, -1], np.float32), {}),
        ("Sign", [X], np.sign(X), {}),
        ("ZerosLike", [I], np.zeros_like(I), {}),
        ("OnesLike", [I], np.ones_like(I), {}),
        ("LogicalNot", [TRUTH], ~TRUTH, {}),
        ("Add", [X, Y], X + Y, {}),
        ("Add", [X, Y[0]], X + Y[0], {}),
        ("Sub", [I, J], I - J, {}),
        ("Mul", [X, Y], X * Y, {}),
        ("Div", [X, Y], X / Y, {}),
        ("Div", [I, J], np.array([[3, -3, -1], [1, 2, 1]], np.int32), {}),
        ("RealDiv", [X, Y], X / Y, {}),
        ("FloorDiv", [I, J], np.array([[3, -4, -2], [1, 2, 1]], np.int32), {}),
        ("Mod", [I, J], np.array([[1, -1, 2], [-2, 1, 0]], np.int32), {}),
        ("FloorMod", [I, J], np.array([[1, 1, -1], [-2, 1, 0]], np.int32), {}),
        ("Pow", [POSITIVE, POSITIVE], POSITIVE**POSITIVE, {}),
        ("Maximum", [X, Y], np.where(X > Y, X, Y), {}),
        ("Minimum", [X, Y], np.where(X < Y, X, Y), {}),
        ("SquaredDifference", [X, Y], (X - Y) ** 2, {}),
        ("Equal", [I, J], I == J, {}),
        ("NotEqual", [I, J], I != J, {}),
        ("Less", [X, Y], X < Y, {}),
        ("LessEqual", [I, J], I <= J, {}),
        ("Greater", [X, Y], X > Y, {}),
        ("GreaterEqual", [I, J], I >= J, {}),
        ("LogicalAnd", [TRUTH, TRUTH[::-1].copy()], TRUTH & TRUTH[::-1], {}),
        ("LogicalOr", [TRUTH, TRUTH[::-1].copy()], TRUTH | TRUTH[::-1], {}),
        ("Adds", [X], X + np.float32(0.5), {"value": 0.5}),
        ("Muls", [I], I * 2, {"value": 2.0}),
        ("Select", [TRUTH, X, Y], np.where(TRUTH, X, Y), {}),
        ("MatMul", [X, Y], X @ Y.T, {"transpose_x2": True}),
        ("MatMulV2", [X, Y, np.array([1, 2, 3], np.float32)], X.T @ Y + [1, 2, 3], {"transpose_x1": True}),
        ("MatMul", [np.full((1, 9), 99, np.int8), np.full((9, 1), -9, np.int8)], np.array([[-8019]], np.int32), {}),
        ("BatchMatMul", [np.stack([X, Y]), np.stack([Y, X])], np.stack([X @ Y.T, Y @ X.T]), {"adj_x2": True}),
        ("GEMM", [X, Y, X @ Y.T, POSITIVE[2:], POSITIVE[:1]], 4.25 * (X @ Y.T), {"transpose_b": True}),
        ("ReduceSum", [X, np.array([1], np.int32)], X.sum(axis=1), {}),
        ("ReduceSum", [I, np.array([0, 1], np.int64)], np.array(10, np.int32), {}),
        ("ReduceSumD", [X], X.sum(axis=0, keepdims=True), {"axes": [0], "keep_dims": True}),
        ("ReduceMeanD", [X], X.mean(axis=-1), {"axes": [-1]}),
        ("ReduceMeanD", [I], np.array([1, 1], np.int32), {"axes": [1]}),
        ("ReduceMaxD", [X], X.max(axis=1), {"axes": [1]}),
        ("ReduceMinD", [X], np.array(-6.5, np.float32), {}),
        ("ReduceProdD", [J], J.prod(axis=1).astype(np.int32), {"axes": [1]}),
        ("ReduceAllD", [TRUTH], TRUTH.all(axis=0), {"axes": [0]}),
        ("ReduceAny", [TRUTH, np.array([0], np.int32)], TRUTH.any(axis=0), {}),
        ("SoftmaxV2", [X], np.exp(X) / np.exp(X).sum(axis=-1, keepdims=True), {}),
        ("SoftmaxV2", [X], np.exp(X) / np.exp(X).sum(axis=0), {"axes": [0]}),
        ("LogSoftmaxV2", [X], X - np.log(np.exp(X).sum(axis=-1, keepdims=True)), {}),
        ("ArgMaxD", [X], np.array([2, 1], np.int32), {"dimension": 1}),
        ("ArgMinV2", [X, np.array([0], np.int32)], np.array([1, 0, 1], np.int64), {}),
        ("TransposeD", [X], X.T.copy(), {"perm": [1, 0]}),
        ("Transpose", [X, np.array([1, 0], np.int32)], X.T.copy(), {}),
        ("Permute", [X], X.T.copy(), {"order": [1, 0]}),
        ("Reshape", [X, np.array([3, -1], np.int64)], X.reshape(3, 2), {}),
        ("ConcatD", [X, Y, X], np.concatenate([X, Y, X], axis=1), {"concat_dim": 1, "N": 3}),
        ("GatherV2", [X, np.array([1, 0, 1], np.int32), np.array([0], np.int32)], X[[1, 0, 1]], {}),
        ("Slice", [X, np.array([0, 1], np.int32), np.array([2, 1], np.int64)], X[:, 1:2], {}),
        ("Slice", [X, np.array([1, 0]), np.array([-1, 2])], X[1:, :2], {}),
        ("SliceD", [X], X[1:, 1:], {"offsets": [1, 1], "size": [1, -1]}),
        ("BiasAdd", [X, POSITIVE], X + POSITIVE, {}),
        ("BiasAdd", [X[None], POSITIVE[:2]], X[None] + POSITIVE[:2, None], {"data_format": "NCHW"}),
        ("Cast", [X], X.astype(np.int32), {"dst_type": 3}),
    ],
)  # fmt: skip
def test_what_an_operator_computes(acl, name, inputs, expected, attributes):
    ret, waited, result = run(acl, name, inputs, expected.dtype.name, expected.shape, **attributes)
    assert (ret, waited) == (0, 0)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_small_floats_are_computed_wide_and_rounded_once(acl):
    x = np.array([[0.1, 0.2, 0.3]] * 2, np.float16)
    exact = x.astype(np.float32)
    _, _, product = run(acl, "MatMul", [x, x], "float16", (2, 2), transpose_x2=True)
    assert product.tolist() == (exact @ exact.T).astype(np.float16).tolist()
    _, _, total = run(acl, "ReduceSumD", [np.full(4096, 1, np.float16)], "float16", (), axes=[0])
    assert total == 4096  # one after the other they would stick at 2048


@settings(max_examples=15)
@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=8),
    st.sampled_from(["float16", "float32", "int32", "int64", "uint8"]),
    st.sampled_from(["Add", "Mul", "Sub", "Maximum"]),
)
def test_element_by_element_operators_agree_with_numpy(acl, values, dtype, name):
    with np.errstate(all="ignore"):
        x = np.array(values, np.float32).astype(dtype)
        function = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Maximum": np.maximum}[name]
        expected = function(x, x[::-1])
    ret, waited, result = run(acl, name, [x, x[::-1].copy()], dtype, x.shape)
    assert (ret, waited) == (0, 0)
    np.testing.assert_array_equal(result, expected)


def test_programs_add_operators(acl):
    @register_op("AddCustom", flops=lambda x, y, **_: 4000 * x.shape[0])
    def add_custom(x, y, *, alpha=1.0):
        assert x.dtype == np.float16  # as it is
        return x + np.float16(alpha) * y

    x = np.array([1, 2, 3], np.float16)
    try:
        ret, waited, result = run(acl, "AddCustom", [x, x], "float16", (3,), alpha=2.0)
        assert (ret, waited, result.tolist()) == (0, 0, [3, 6, 9])
        assert operator_of("AddCustom").inputs == (2, 2)
    finally:
        unregister_op("AddCustom")
    assert operator_of("AddCustom") is None
    assert run(acl, "AddCustom", [x, x], "float16", (3,))[0] == 100024


def test_operators_with_several_outputs(acl):
    @register_op("Both", outputs=2)
    def both(x):
        return x.min(), x.max()

    try:
        assert run(acl, "Both", [X], "float32", ())[0] == 100022
        operator = operator_of("Both")
        assert operator.function(X) == (-6.5, 5)
    finally:
        unregister_op("Both")


def test_a_built_in_operator_comes_back_when_its_replacement_goes(acl):
    register_op("Relu")(lambda x: -x)
    try:
        assert run(acl, "Relu", [X], "float32", X.shape)[2].tolist() == (-X).tolist()
    finally:
        unregister_op("Relu")
    assert run(acl, "Relu", [X], "float32", X.shape)[2].tolist() == np.maximum(X, 0).tolist()


@pytest.mark.parametrize(
    ("offsets", "size", "text"),
    [
        ([0, 2], [1, 2], "offsets [0, 2] and size [1, 2] go beyond x, whose dims are [2, 3]"),
        ([-1, 0], [1, 1], "go beyond x"),
        ([0, 0], [-2, 1], "go beyond x"),
        ([0], [1], "x has 2 dims, offsets 1 and size 1 numbers"),
    ],
)
def test_a_slice_lies_within_its_input(acl, capsys, offsets, size, text):
    assert run(acl, "SliceD", [X], "float32", (1, 1), offsets=offsets, size=size)[:2] == (0, 507035)
    assert text in capsys.readouterr().err


def test_every_operator_has_a_test_here():
    marks = test_what_an_operator_computes.pytestmark
    tested = {case[0] for mark in marks for case in mark.args[1]}
    twins = {"ReduceAll", "ReduceAnyD", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ArgMaxV2", "ArgMinD",
             "BatchMatMulV2", "CastD", "ConcatV2D", "LogSoftmax", "SelectV2", "Softmax"}  # fmt: skip
    assert set(names()) - tested == twins
