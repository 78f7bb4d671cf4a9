"""Shows: single operators: execute_v2 by type and descriptions, a cast, attributes, an operator with a handle.

Scenario: softmax(a @ b + c) operator by operator, compared with NumPy.
"""

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_FLOAT, ACL_FLOAT16, ACL_FORMAT_ND = 0, 1, 2


def check(ret, what):
    if ret != 0:
        raise RuntimeError(f"{what}: ret={ret}: {acl.get_recent_err_msg()}")


class Tensor:
    """Device memory with a description and a data buffer."""

    def __init__(self, shape, dtype, data=None):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.size = int(np.prod(shape)) * self.dtype.itemsize
        self.pointer, ret = acl.rt.malloc(self.size, ACL_MEM_MALLOC_HUGE_FIRST)
        check(ret, "malloc")
        number = {"float32": ACL_FLOAT, "float16": ACL_FLOAT16}[self.dtype.name]
        self.desc = acl.create_tensor_desc(number, list(shape), ACL_FORMAT_ND)
        self.buffer = acl.create_data_buffer(self.pointer, self.size)
        if data is not None:
            source = np.ascontiguousarray(data, self.dtype).tobytes()
            ret = acl.rt.memcpy(
                self.pointer, self.size, acl.util.bytes_to_ptr(source), self.size, ACL_MEMCPY_HOST_TO_DEVICE
            )
            check(ret, "memcpy")

    def numpy(self):
        back = bytes(self.size)
        ret = acl.rt.memcpy(acl.util.bytes_to_ptr(back), self.size, self.pointer, self.size, ACL_MEMCPY_DEVICE_TO_HOST)
        check(ret, "memcpy")
        return np.frombuffer(back, self.dtype).reshape(self.shape)

    def release(self):
        check(acl.destroy_data_buffer(self.buffer), "destroy_data_buffer")
        acl.destroy_tensor_desc(self.desc)
        check(acl.rt.free(self.pointer), "free")


def execute(kind, inputs, outputs, attr, stream):
    ret = acl.op.execute_v2(
        kind,
        [each.desc for each in inputs],
        [each.buffer for each in inputs],
        [each.desc for each in outputs],
        [each.buffer for each in outputs],
        attr,
        stream,
    )
    check(ret, kind)


def main():
    check(acl.init(), "init")
    check(acl.rt.set_device(0), "set_device")
    stream, ret = acl.rt.create_stream()
    check(ret, "create_stream")

    rng = np.random.default_rng(4)
    a, b, c = (rng.standard_normal(shape, np.float32) for shape in ((8, 16), (16, 4), (8, 4)))
    tensors = [Tensor(array.shape, np.float32, array) for array in (a, b, c)]
    product, added, result = (Tensor((8, 4), np.float32) for _ in range(3))

    attr = acl.op.create_attr()
    check(acl.op.set_attr_bool(attr, "transpose_x1", 0), "set_attr_bool")
    check(acl.op.set_attr_bool(attr, "transpose_x2", 0), "set_attr_bool")
    execute("MatMul", tensors[:2], [product], attr, stream)
    acl.op.destroy_attr(attr)

    attr = acl.op.create_attr()
    execute("Add", [product, tensors[2]], [added], attr, stream)
    acl.op.destroy_attr(attr)

    attr = acl.op.create_attr()
    check(acl.op.set_attr_list_int(attr, "axes", [-1]), "set_attr_list_int")
    execute("SoftmaxV2", [added], [result], attr, stream)
    acl.op.destroy_attr(attr)
    check(acl.rt.synchronize_stream(stream), "synchronize_stream")

    sums = a @ b + c
    expected = np.exp(sums - sums.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    print("softmax(a @ b + c):", np.allclose(result.numpy(), expected, atol=1e-5))

    half = Tensor((8, 4), np.float16)
    check(acl.op.cast(result.desc, result.buffer, half.desc, half.buffer, 0, stream), "cast")
    check(acl.rt.synchronize_stream(stream), "synchronize_stream")
    print("cast to float16:", np.array_equal(half.numpy(), result.numpy().astype(np.float16)))

    attr = acl.op.create_attr()
    handle, ret = acl.op.create_handle("Mul", [product.desc, added.desc], [result.desc], attr)
    check(ret, "create_handle")
    for _ in range(3):
        ret = acl.op.execute_with_handle(handle, [product.buffer, added.buffer], [result.buffer], stream)
        check(ret, "execute_with_handle")
    check(acl.rt.synchronize_stream(stream), "synchronize_stream")
    print("with a handle:", np.allclose(result.numpy(), product.numpy() * added.numpy()))
    acl.op.destroy_handle(handle)

    one, other = product, added
    ret = acl.op.execute_v2("NoSuchOperator", [one.desc], [one.buffer], [other.desc], [other.buffer], attr, stream)
    print("an operator that does not exist is refused:", ret != 0)
    acl.op.destroy_attr(attr)

    for tensor in (*tensors, product, added, result, half):
        tensor.release()
    check(acl.rt.destroy_stream(stream), "destroy_stream")
    check(acl.rt.reset_device(0), "reset_device")
    check(acl.finalize(), "finalize")


main()
