"""Made ONNX models with seeded weights: small ones, ResNet-50, and a detector of YOLOv5's operators."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402 - without the extra the tests are skipped above

OPSET = 17
FLOAT = TensorProto.FLOAT


class Made:
    """A graph that is being made: each method adds a node and returns the name of its result."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def node(self, kind, *inputs, outputs=1, **attributes):
        name = f"{kind}_{len(self.nodes)}"
        results = [f"{name}_out{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, results, name=name, **attributes))
        return results[0] if outputs == 1 else results

    def constant(self, values, dtype=None):
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(self, *shape):
        """Seeded weights that keep the size of what they are multiplied with."""
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        return self.constant(self.random.normal(0, scale, shape).astype(np.float32))

    def conv(self, x, into, out, kernel=1, stride=1, group=1):
        return self.node(
            "Conv", x, self.weight(out, into // group, kernel, kernel), self.constant(np.zeros(out, np.float32)),
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4, group=group,
        )  # fmt: skip

    def norm(self, x, channels):
        ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        return self.node("BatchNormalization", x, *map(self.constant, (ones, zeros, zeros, ones)))

    def model(self, inputs, outputs):
        """The model of the nodes; *inputs* and *outputs* are names with shapes."""
        graph = helper.make_graph(
            self.nodes, "made",
            [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs.items()],
            self.weights,
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(model)
        return model


def convolution(batch=1, size=8):
    """Convolution, ReLU, pooling and a fully connected layer: x (batch, 3, size, size) to prob (batch, 5)."""
    made = Made()
    x = made.node("Relu", made.conv("x", 3, 4, 3))
    x = made.node("Flatten", made.node("GlobalAveragePool", x))
    made.nodes.append(helper.make_node("Gemm", [x, made.weight(4, 5)], ["prob"], name="classes"))
    return made.model({"x": [batch, 3, size, size]}, {"prob": [batch, 5]})


def matmul(batch="n"):
    """a (batch, 4, 6) times b (batch, 6, 5), and its row-wise softmax."""
    made = Made()
    made.nodes.append(helper.make_node("MatMul", ["a", "b"], ["product"], name="product"))
    made.nodes.append(helper.make_node("Softmax", ["product"], ["soft"], name="soft", axis=-1))
    return made.model({"a": [batch, 4, 6], "b": [batch, 6, 5]}, {"product": [batch, 4, 5], "soft": [batch, 4, 5]})


def resize(batch="n", height="h", width="w"):
    """A picture twice as large, and a convolution of it: onnx's inference loses the batch there."""
    made = Made()
    sizes = made.constant([1, 1, 2, 2], np.float32)
    x = made.node("Resize", "x", "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")  # fmt: skip
    made.nodes.append(
        helper.make_node("Conv", [x, made.weight(2, 3, 3, 3)], ["y"], name="conv", kernel_shape=[3, 3], pads=[1] * 4)
    )
    return made.model({"x": [batch, 3, height, width]}, {"y": [batch, 2, None, None]})


def resnet50(batch=1, size=224, width=64, classes=1000):
    """ResNet-50 in the form of torchvision: the second convolution of a block has its stride."""
    made = Made(50)
    x = made.node("Relu", made.norm(made.conv("data", 3, width, 7, 2), width))
    x, into = made.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, out = width << stage, width << (stage + 2)
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = made.node("Relu", made.norm(made.conv(x, into, inner), inner))
            y = made.node("Relu", made.norm(made.conv(y, inner, inner, 3, stride), inner))
            y = made.norm(made.conv(y, inner, out), out)
            if not block:
                x = made.norm(made.conv(x, into, out, 1, stride), out)
            x, into = made.node("Relu", made.node("Add", x, y)), out
    x = made.node("Flatten", made.node("GlobalAveragePool", x))
    made.nodes.append(helper.make_node("Gemm", [x, made.weight(classes, into)], ["prob"], name="fc", transB=1))
    return made.model({"data": [batch, 3, size, size]}, {"prob": [batch, classes]})


def detector(batch="batch", size=64, width=8, classes=3):
    """A detector with the operators of YOLOv5: SiLU, CSP blocks, SPPF, an upsampling path, and decoded boxes whose
    grids come from the shape.
    """
    made = Made(5)
    outputs = 5 + classes

    def silu(x, into, out, kernel=1, stride=1):
        x = made.conv(x, into, out, kernel, stride)
        return made.node("Mul", x, made.node("Sigmoid", x))

    def csp(x, into, out):
        half = out // 2
        y = silu(x, into, half)
        y = made.node("Add", y, silu(silu(y, half, half), half, half, 3))
        return silu(made.node("Concat", y, silu(x, into, half), axis=1), out, out)

    x = silu("images", 3, width, 6 | 1, 2)
    x = csp(silu(x, width, 2 * width, 3, 2), 2 * width, 2 * width)
    fine = csp(silu(x, 2 * width, 4 * width, 3, 2), 4 * width, 4 * width)
    x = silu(silu(fine, 4 * width, 8 * width, 3, 2), 8 * width, 4 * width)
    pools = [x]
    for _ in range(3):
        pools.append(made.node("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    coarse = silu(made.node("Concat", *pools, axis=1), 16 * width, 4 * width)
    up = made.node("Resize", coarse, "", made.constant([1, 1, 2, 2], np.float32), mode="nearest",
                   coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    fine = csp(made.node("Concat", up, fine, axis=1), 8 * width, 4 * width)
    heads = []
    for level, stride in ((fine, 8), (coarse, 16)):
        x = made.conv(level, 4 * width, 3 * outputs)
        shape = made.node("Shape", x)
        dims = [made.node("Gather", shape, made.constant([place], np.int64), axis=0) for place in (0, 2, 3)]
        split = made.node("Concat", dims[0], made.constant([3, outputs], np.int64), *dims[1:], axis=0)
        x = made.node("Transpose", made.node("Reshape", x, split), perm=[0, 1, 3, 4, 2])
        x = made.node("Sigmoid", x)
        xy, wh, rest = made.node("Split", x, made.constant([2, 2, outputs - 4], np.int64), outputs=3, axis=4)
        side = size // stride
        grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).astype(np.float32)[None, None]
        two = made.constant(2, np.float32)
        xy = made.node("Mul", made.node("Add", made.node("Mul", xy, two), made.constant(grid - 0.5)),
                       made.constant(stride, np.float32))  # fmt: skip
        wh = made.node("Mul", made.node("Pow", made.node("Mul", wh, two), two), made.constant(4 * stride, np.float32))
        x = made.node("Concat", xy, wh, rest, axis=4)
        flat = made.node("Concat", dims[0], made.constant([-1, outputs], np.int64), axis=0)
        heads.append(made.node("Reshape", x, flat))
    made.nodes.append(helper.make_node("Concat", heads, ["boxes"], name="boxes", axis=1))
    return made.model({"images": [batch, 3, size, size]}, {"boxes": [batch, None, outputs]})
