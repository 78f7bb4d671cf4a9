"""What other libraries compute with memory and streams of a run on a card."""

import os

import numpy as np
import pytest

import acl_py

KIND = acl_py.MemcpyKind.DEFAULT


async def multiplied(kernel, *shapes):
    """Return what *kernel* makes of arrays of ones, behind a fill of the last one, and twice over."""
    stream, arrays = await acl_py.CreateStream(nonblocking=True), []
    for shape in shapes:
        values = np.ones(shape, np.float32)
        arrays.append(acl_py.Array(await acl_py.Malloc(values.nbytes), np.float32, shape))
        await acl_py.Memcpy(arrays[-1], values.nbytes, values, values.nbytes, KIND)
    result = np.zeros(shapes[-1], np.float32)
    for _ in range(2):
        await acl_py.MemsetAsync(arrays[-1], result.nbytes, 0, result.nbytes, stream)
        await kernel[1, stream](*arrays)
        await acl_py.MemcpyAsync(result, result.nbytes, arrays[-1], result.nbytes, KIND, stream)
    await acl_py.SynchronizeStream(stream)
    return result.tolist()


@pytest.mark.slow  # the compiler of numba takes seconds
@pytest.mark.filterwarnings("ignore:.*Grid size")
def test_numba_computes_in_the_stream_of_a_launch(card):
    cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")

    @cuda.jit
    def doubled(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = 2 * x[i]

    def on_card(stream, x, y):
        doubled[1, 32, cuda.external_stream(stream.__cuda_stream__()[1])](*map(cuda.as_cuda_array, (x, y)))

    @acl_py.kernel(cost=acl_py.Cost(us=5), card=on_card)
    def double(x: acl_py.In, y: acl_py.Out) -> None:
        y[:] = 2 * x

    assert acl_py.run(multiplied, double, 8, 8, device=card) == acl_py.run(multiplied, double, 8, 8) == [2] * 8


@pytest.mark.skipif(not os.environ.get("ACL_PY_CARD"), reason="torch needs a real card")
def test_torch_computes_in_the_stream_of_a_launch_and_takes_memory_by_dlpack(card):
    torch = pytest.importorskip("torch")

    def on_card(stream, a, b, c):
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.__cuda_stream__()[1])):
            a, b, c = (torch.as_tensor(each, device="cuda") for each in (a, b, c))
            torch.matmul(a, b, out=c)

    @acl_py.kernel(cost=acl_py.Cost.matmul(4, 4, 8, "float32"), card=on_card)
    def multiply(a: acl_py.In, b: acl_py.In, c: acl_py.Out) -> None:
        np.matmul(a, b, out=c)

    async def shared():
        array = acl_py.Array(await acl_py.Malloc(1 << 24), np.float32, (1 << 20, 4))
        stream = await acl_py.CreateStream(nonblocking=True)
        for _ in range(100):
            await acl_py.MemsetAsync(array, array.nbytes, 0, array.nbytes, stream)
        await acl_py.MemsetAsync(array, array.nbytes, 1, array.nbytes, stream)
        tensor = torch.from_dlpack(array)  # behind the fills
        assert (tensor.data_ptr(), tensor.shape) == (array.buffer.address, (1 << 20, 4))
        return set(tensor.view(torch.uint8).unique().tolist())

    shapes = ((4, 8), (8, 4), (4, 4))
    assert acl_py.run(multiplied, multiply, *shapes, device=card) == [[8] * 4] * 4
    assert acl_py.run(shared, device=card) == {1}
