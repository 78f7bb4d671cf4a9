"""Arguments that are lists of arrays, and shapes that tensors carry."""

import numpy as np
import pytest
from core_kernels import on_device, read, simulation
from cores import found, launch
from instructions import half, on_core, single

import acl_py as acl
from acl_py import asc
from device_model.kernel.findings import KernelError


def add_one(kernels, results):
    """Each tensor of one list, plus one, to that of the other: as foreach kernels do."""
    sources, targets = asc.ListTensorDesc(kernels), asc.ListTensorDesc(results, 2)
    for index in range(sources.GetSize()):
        desc, room = asc.TensorDesc(single), [0] * 4
        desc.SetShapeAddr(room)
        sources.GetDesc(desc, index)
        count = int(np.prod([desc.GetShape(each) for each in range(desc.GetDim())]))
        assert desc.GetIndex() == index
        assert room[: desc.GetDim()] == [desc.GetShape(each) for each in range(desc.GetDim())]
        x = desc.GetDataObj()
        y = asc.GlobalTensor(single).SetGlobalBuffer(targets.GetDataPtr(single, index), count)
        tile = asc.LocalTensor(single, asc.TPosition.VECCALC, index * 4096, count)
        asc.DataCopy(tile, x, count)
        asc.SetFlag(asc.HardEvent.MTE2_V, 0)
        asc.WaitFlag(asc.HardEvent.MTE2_V, 0)
        asc.Adds(tile, tile, 1, count)
        asc.SetFlag(asc.HardEvent.V_MTE3, 0)
        asc.WaitFlag(asc.HardEvent.V_MTE3, 0)
        asc.DataCopy(y, tile, count)


@asc.kernel
def foreach_add_one(xs: asc.In, ys: asc.Out):
    add_one(xs, ys)


def arrays():
    return [np.arange(64, dtype=single).reshape(2, 4, 8), np.full(16, 5, single)]


def test_a_kernel_gets_a_list_of_arrays():
    sources, targets = arrays(), [np.zeros(64, single), np.zeros(16, single)]
    assert found(launch(add_one, sources, targets)) == []
    for source, target in zip(sources, targets, strict=True):
        assert np.array_equal(target, source.ravel() + 1)


async def test_a_launch_takes_lists_of_device_memory():
    async def main():
        xs = [await on_device(each) for each in arrays()]
        xs[0] = acl.Array(xs[0].buffer, single, (2, 4, 8))
        ys = [await on_device(np.zeros(each.size, single)) for each in arrays()]
        await foreach_add_one[1](xs, tuple(ys))
        await acl.SynchronizeDevice()
        for source, target in zip(arrays(), ys, strict=True):
            assert np.array_equal(await read(target), source.ravel() + 1)
        with pytest.raises(TypeError, match=r"argument xs\[1\] of .* must be memory, as others in the list are"):
            await foreach_add_one[1]([xs[0], 3], ys)
        await acl.Free(xs[1].buffer)
        with pytest.raises(acl.AclError, match=r"xs\[1\]"):
            await foreach_add_one[1](xs, ys)

    async with simulation() as sim:
        await main()
    assert sim is not None


def test_what_a_list_does_not_have_is_refused():
    def ask(question, *, room=True):
        def kernel(xs):
            tensors, desc = asc.ListTensorDesc(xs), asc.TensorDesc()
            if room:
                desc.SetShapeAddr([0] * 3)
            question(tensors, desc)

        return lambda: launch(kernel, arrays())

    for wrong, message in (
        (
            ask(lambda xs, _: xs.GetDataPtr(half, 2)),
            r"tensor 2 of <ListTensorDesc of 2 tensors>; its tensors are 0",
        ),
        (ask(lambda xs, desc: xs.GetDesc(desc, -1)), r"tensor -1 of"),
        (
            ask(lambda xs, desc: xs.GetDesc(desc, 0), room=False),
            r"of 3 dimensions .* room for 0 numbers; call Set",
        ),
        (ask(lambda _, desc: desc.GetDim()), r"<TensorDesc, not filled>; call ListTensorDesc.GetDesc"),
        (
            ask(lambda xs, desc: (xs.GetDesc(desc, 0), desc.GetShape(3))),
            r"GetShape\(3\); the tensor has dimensions 0",
        ),
        (lambda: launch(lambda xs: asc.ListTensorDesc(xs, 3), arrays()), r"shape_size 3; the list has 2 tensors"),
    ):
        with pytest.raises(KernelError, match=message):
            wrong()
    with pytest.raises(TypeError, match=r"takes an argument that is a list of arrays, not <GlobalBuffer"):
        launch(asc.ListTensorDesc, arrays()[1])


def test_a_tensor_carries_its_shape():
    def kernel():
        tensor = asc.LocalTensor(half, asc.TPosition.VECOUT, 0, 32)
        with pytest.raises(KernelError, match=r"GetShapeInfo of .*; call SetShapeInfo\(\) first"):
            tensor.GetShapeInfo()
        tensor.SetShapeInfo(asc.ShapeInfo((2, 16), data_format=asc.DataFormat.NZ))
        assert tensor.GetShapeInfo() == ((2, 16), (), asc.DataFormat.NZ)
        assert asc.GetShapeSize(tensor.GetShapeInfo()) == 32
        assert tensor.GetPosition() is asc.TPosition.VECOUT

    assert found(on_core(kernel)) == []
