"""Kernels in Python that say what computes them on a card: CUDA C, or a function."""

import asyncio

import numpy as np
import pytest

import acl_py
from acl_py import cta
from acl_py.card.cuda import compiled
from acl_py.card.cuda.codes import best
from acl_py.errors import AclError
from acl_py.verbs import ptx_compiler

pytestmark = pytest.mark.filterwarnings("error")
KIND = acl_py.MemcpyKind.DEFAULT
SCALE = """
extern "C" __global__ void scale(const float *x, float *y, int n, float by)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] * by;
}
"""
REVERSE = """
extern "C" __global__ void turned(const int *x, int *y)  // with dynamic shared memory
{
    extern __shared__ int held[];
    int at = threadIdx.y * blockDim.x + threadIdx.x, all = blockDim.x * blockDim.y;
    held[at] = x[blockIdx.x * all + at];
    __syncthreads();
    y[blockIdx.x * all + at] = held[all - 1 - at];
}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setattr(compiled, "folder", lambda: tmp_path / "kernels")
    return tmp_path / "kernels"


@acl_py.kernel(cost=acl_py.Cost(us=5), card=SCALE)
def scale(x: acl_py.In, y: acl_py.Out, n: int, by: float) -> None:
    y[:n] = x[:n] * np.float32(by)


@cta.kernel(threads=64, card=acl_py.CudaKernel(REVERSE, "turned", threads=(32, 2), shared=256))
def reverse(x: cta.In, y: cta.Out) -> None:
    held = cta.shared(np.int32, 64)
    t, at = cta.tid, cta.block[0] * 64
    held[t] = x[at + t]
    cta.syncthreads()
    y[at + t] = held[63 - t]


async def over(values, kernel, *more, blocks=2):
    """Return what *kernel* makes of *values*."""
    x, y = [acl_py.Array(await acl_py.Malloc(values.nbytes), values.dtype) for _ in range(2)]
    await acl_py.Memcpy(x, values.nbytes, values, values.nbytes, KIND)
    stream = await acl_py.CreateStream()
    await kernel[blocks, stream](x, y, *more)
    await kernel[blocks, stream](x, y, *more)  # prepared
    result = np.zeros_like(values)
    await acl_py.MemcpyAsync(result, result.nbytes, y, result.nbytes, KIND, stream)
    await acl_py.SynchronizeStream(stream)
    return result.tolist()


def test_a_card_runs_the_cuda_c_of_a_kernel_and_the_model_its_body(card, cache):
    async def main():
        return await over(np.arange(100, dtype=np.float32), scale, 100, 0.1), await over(
            np.arange(128, dtype=np.int32), reverse
        )

    on_model = acl_py.run(main)
    assert acl_py.run(main, device=card) == on_model
    assert on_model[1] == [*range(63, -1, -1), *range(127, 63, -1)]
    assert len([*cache.iterdir()]) == 2


def test_cuda_c_becomes_a_node_of_a_graph(card):
    async def main():
        stream, values = await acl_py.CreateStream(), np.ones(16, np.float32)
        x, y = [acl_py.Array(await acl_py.Malloc(64), np.float32) for _ in range(2)]
        await acl_py.Memcpy(x, 64, values, 64, KIND)
        async with acl_py.capture(stream) as graph:
            await scale[1, stream](x, y, 16, 3.0)
            await scale[1, stream](y, x, 16, 2.0)
        executable = await acl_py.GraphInstantiate(graph)
        for _ in range(2):
            await acl_py.GraphLaunch(executable, stream)
        await acl_py.MemcpyAsync(values, 64, x, 64, KIND, stream)
        await acl_py.SynchronizeStream(stream)
        return set(values.tolist())

    assert acl_py.run(main, device=card) == acl_py.run(main) == {36}


def test_what_is_compiled_once_is_compiled_no_more(card, cache, monkeypatch):
    async def main():
        return await over(np.arange(8, dtype=np.float32), scale, 8, 2)

    first = acl_py.run(main, device=card)
    monkeypatch.setattr(compiled, "build", None)
    assert acl_py.run(main, device=card) == first


def test_without_a_home_or_a_folder_that_can_be_written_it_is_compiled_in_each_run(card, tmp_path, monkeypatch):
    async def main():
        return await over(np.arange(4, dtype=np.float32), scale, 4, 2)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    (tmp_path / "file").write_text("no folder")
    for folder in (homeless, lambda: tmp_path / "file" / "kernels"):
        monkeypatch.setattr(compiled, "folder", folder)
        assert acl_py.run(main, device=card) == [0, 2, 4, 6]


def test_a_damaged_file_of_the_cache_is_compiled_anew(card, cache):
    async def main():
        return await over(np.arange(8, dtype=np.float32), scale, 8, 2)

    first = acl_py.run(main, device=card)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", whole[:-1], whole[:40] + b"?" + whole[41:]):
        kept.write_bytes(damaged)
        assert acl_py.run(main, device=card) == first
        assert kept.read_bytes() == whole


def test_a_text_with_files_of_the_user_is_not_kept(card, cache, tmp_path):
    (tmp_path / "mine.h").write_text("#define BY 3\n")
    text = '#include "mine.h"\n' + SCALE.replace("* by", "* BY")

    @acl_py.kernel(card=acl_py.CudaKernel(text, options=(f"-I{tmp_path}",)))
    def scale(x: acl_py.In, y: acl_py.Out, n: int, by: float) -> None: ...

    async def main():
        return await over(np.arange(4, dtype=np.float32), scale, 4, 0)

    assert acl_py.run(main, device=card) == [0, 3, 6, 9]
    (tmp_path / "mine.h").write_text("#define BY 4\n")
    assert acl_py.run(main, device=card) == [0, 4, 8, 12]
    assert not cache.exists()


def test_a_function_gets_the_stream_and_arrays_of_the_card(card):
    told = []

    def on_card(stream, x, y, by):
        interface = y.__cuda_array_interface__
        told.append((stream.__cuda_stream__()[1] > 2, interface["typestr"], interface["shape"], by))
        driver = stream.driver
        driver(driver.cu.cuMemcpyAsync, interface["data"][0], x.__cuda_array_interface__["data"][0], 16, stream.handle)

    @acl_py.kernel(cost=acl_py.Cost(us=5), card=on_card)
    def copy(x: acl_py.In, y: acl_py.Out, by: int) -> None:
        y[:] = x

    async def main():
        return await over(np.arange(4, dtype=np.float32), copy, 7)

    assert acl_py.run(main, device=card) == acl_py.run(main) == [0, 1, 2, 3]
    assert told == [(True, "<f4", (4,), 7)] * 2


def test_a_function_makes_no_verb_call_and_what_it_raises_comes_out_of_the_launch(card):
    def on_card(stream, x):
        acl_py.Malloc(8).send(None)

    @acl_py.kernel(card=on_card)
    def nothing(x: acl_py.InOut) -> None: ...

    async def main():
        buffer = await acl_py.Malloc(8)
        with pytest.raises(AclError, match=r"Malloc\(\) inside what computes kernel nothing on a card"):
            await nothing[1](buffer)
        await acl_py.SynchronizeDevice()

    acl_py.run(main, device=card)


def test_a_text_gets_the_arguments_that_a_function_makes_of_those_of_the_launch(card):
    def sizes(x, y):
        return x, y[1:], x.size - 1, 3

    @acl_py.kernel(card=acl_py.CudaKernel(SCALE, "scale", arguments=sizes))
    def shifted(x: acl_py.In, y: acl_py.Out) -> None:
        y[0], y[1:] = 0, x[:-1] * 3

    async def main():
        return (await over(np.arange(5, dtype=np.float32), shifted))[1:]

    assert acl_py.run(main, device=card) == acl_py.run(main) == [0, 3, 6, 9]


def test_arguments_of_all_sizes_arrive(card):
    """Small integers, structures, and numbers between them that need another alignment."""
    text = """
    struct Pair { int a; double b; };
    extern "C" __global__ void total(double *y, char c, short s, Pair p, unsigned char u, float f, long long l, bool t)
    {
        y[0] = c + s + p.a + p.b + u + f + l + t;
    }
    """

    @acl_py.kernel(card=text)
    def total(y: acl_py.Out, c, s, p, u, f, w, t) -> None:
        y[0] = c + s + p["a"] + p["b"] + u + f + w + t

    pair = np.array((3, 0.5), np.dtype([("a", "i4"), ("b", "f8")], align=True))[()]

    async def main():
        y, values = acl_py.Array(await acl_py.Malloc(8), np.float64), np.zeros(1)
        await total[1](y, -1, -300, pair, 200, 0.25, -(2**40), True)
        await acl_py.Memcpy(values, 8, y, 8, KIND)
        return values.tolist()

    assert acl_py.run(main, device=card) == acl_py.run(main) == [-1 - 300 + 3.5 + 200 + 0.25 - 2**40 + 1]


def test_arguments_are_checked_by_what_the_text_declares(card):
    async def main():
        buffer = await acl_py.Malloc(64)
        x = acl_py.Array(buffer, np.float32)
        for args, error, text in (
            ((x, x, x, 1.0), TypeError, r"argument n of kernel scale is Array.*declares .u32, which is no pointer"),
            ((x, x, 1.5, 1.0), TypeError, r"argument 2 of kernel scale is 1.5, and the parameter is .u32"),
            ((x, x, 2**40, 1.0), ValueError, r"argument 2 of kernel scale is 1099511627776"),
        ):
            with pytest.raises(error, match=text):
                await scale[1](*args)
        await scale[1](x, x, np.int32(3), np.float64(1))
        await acl_py.SynchronizeDevice()

    acl_py.run(main, device=card)


def test_what_the_compiler_refuses_comes_out_of_the_launch(card):
    @acl_py.kernel(card=SCALE.replace("by;", "what;"))
    def scale(x: acl_py.In, y: acl_py.Out, n: int, by: float) -> None: ...

    async def main():
        x = acl_py.Array(await acl_py.Malloc(64), np.float32)
        with pytest.raises(ptx_compiler.CompileError, match=r'scale.cu\(5\): error: identifier "what" is undefined'):
            await scale[1](x, x, 1, 1)

    acl_py.run(main, device=card)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (SCALE.replace('extern "C"', ""), r'card= of kernel scale: put extern "C" in front of __global__'),
        (SCALE.replace("scale", "other"), r"the CUDA C has no kernel 'scale'; it has other; CudaKernel\(text, entry"),
        ('extern "C" // __global__ void scale(', r"has no kernel 'scale'; it has none"),
        (SCALE.replace(", float by", ""), r"scale takes 3 arguments in CUDA C, and the function takes 4, x, y, n, by"),
        (b"text", r"is CUDA C, a CudaKernel or a function, not b.text"),
        (
            acl_py.CudaKernel(SCALE, arguments=lambda x, y: (x, y)),
            r"arguments= of the CUDA C of kernel scale is called with \(x, y, n, by\): too many positional arguments",
        ),
        (lambda stream, x: None, r"is called with \(stream, x, y, n, by\): too many positional arguments"),
    ],
)
def test_the_model_checks_what_needs_no_compiler(code, text):
    def scale(x: acl_py.In, y: acl_py.Out, n: int, by: float) -> None: ...

    with pytest.raises((TypeError, ValueError), match=text):
        acl_py.kernel(card=code)(scale)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: acl_py.CudaKernel(None), "is made of CUDA C, a str, not of None"),
        (lambda: acl_py.CudaKernel(SCALE, threads=2000), "a block has 1 to 1024 threads"),
        (lambda: acl_py.CudaKernel(SCALE, threads=(1, 1, 65)), "z up to 64"),
        (lambda: acl_py.CudaKernel(SCALE, shared=-1), "give 0 bytes or more"),
        (lambda: acl_py.CudaKernel(SCALE, options="-G"), r"give a tuple, \('-G',\)"),
        (
            lambda: cta.kernel(threads=128, card=acl_py.CudaKernel(REVERSE, "turned", threads=64))(reverse.function),
            "has blocks of 64 threads, and the kernel 128",
        ),
    ],
)
def test_a_kernel_for_a_card_that_cannot_be_is_refused(make, text):
    with pytest.raises((TypeError, ValueError), match=text):
        make()


def test_heads_of_kernels_are_read_as_c_writes_them():
    """Launch bounds, templates' commas, prototypes and comments."""
    text = """
    extern "C" { __global__ void __launch_bounds__(128, 2) first(pair<int, float> p, /* a, b */ void (*f)(int, int)) {}
    __global__ void second(void);
    __global__ void second(void) {} }
    """
    for name, parameters in (("first", ("p", "f")), ("second", ())):
        acl_py.CudaKernel(text).check(name, parameters, None)


def test_a_card_that_is_newer_than_the_compiler_gets_the_newest_code_that_it_runs():
    known = [75, 80, 86, 90, 100]
    assert [best(card, known) for card in (70, 75, 89, 90, 120)] == [70, 75, 86, 90, 100]


def test_a_body_is_needed_where_there_is_no_code(card):
    @acl_py.kernel
    def plain(x: acl_py.InOut) -> None: ...

    async def main():
        with pytest.raises(AclError, match=r"give it card=, which is CUDA C or a function"):
            await plain[1](await acl_py.Malloc(8))
        await asyncio.sleep(0)

    acl_py.run(main, device=card)
