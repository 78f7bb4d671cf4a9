"""Kernels through the verbs: arguments and what they declare, blocks, costs, misuse."""

import asyncio

import numpy as np
import pytest
from histories import busy, history, misused, refused, tiny

import acl_py as acl

POISON = b"\xfb\x7f"


async def _device(array):
    buffer = await acl.Malloc(array.nbytes)
    await acl.Memcpy(buffer, array.nbytes, array, array.nbytes, acl.MemcpyKind.HOST_TO_DEVICE)
    return buffer


async def _read(buffer, dtype=np.uint8):
    result = np.zeros(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
    await acl.Memcpy(result, buffer.nbytes, buffer, buffer.nbytes, acl.MemcpyKind.DEVICE_TO_HOST)
    return result.tolist()


@tiny
async def test_arguments_arrive_as_they_are_declared():
    seen = []

    @acl.kernel(serial=True)
    def look(x: acl.In, y: acl.Out, z: acl.InOut, bare, number, text):
        seen.append([(a.dtype.name, a.shape, a.flags.writeable) for a in (x, y, z, bare)])
        seen.append((x.tolist(), y.tobytes(), z.tolist(), bare.tolist(), number, text))
        y[:2] = 5
        z += 1

    x = await _device(np.arange(4, dtype=np.float32))
    y, z, bare = await _device(np.ones(8, np.uint8)), await _device(np.arange(4, dtype=np.int16)), await acl.Malloc(3)
    await acl.Memset(bare, 3, 1, 3)
    await look[1](
        acl.Array(x, np.float32, (2, 2)), acl.Array(y, np.uint8, 4), acl.Array(z, np.int16), bare + 1, 7, "text"
    )  # fmt: skip
    await acl.SynchronizeDevice()
    assert seen == [
        [("float32", (2, 2), False), ("uint8", (4,), True), ("int16", (4,), True), ("uint8", (2,), True)],
        ([[0.0, 1.0], [2.0, 3.0]], POISON * 2, [0, 1, 2, 3], [1, 1], 7, "text"),
    ]
    assert await _read(y) == [5, 5, *POISON, 1, 1, 1, 1]
    assert await _read(z, np.int16) == [1, 2, 3, 4]


@tiny
async def test_writing_to_what_is_only_read_fails_the_kernel():
    @acl.kernel
    def bad(x: acl.In):
        x[:] = 1

    x = await _device(np.zeros(4, np.uint8))
    await bad[1](x)
    with pytest.raises(acl.AclError, match="kernel bad raised ValueError: assignment destination is read-only"):
        await acl.SynchronizeDevice()


@tiny
async def test_a_bare_address_reaches_to_the_end_of_its_allocation():
    @acl.kernel
    def add(x):
        x += 1

    x = await _device(np.zeros(6, np.uint8))
    await add[1](x.address + 2)
    assert await _read(x) == [0, 0, 1, 1, 1, 1]


@tiny
async def test_large_integers_that_are_no_addresses_are_values():
    seen = []

    @acl.kernel(serial=True)
    def look(seed, small):
        seen.append((seed, small))

    await look[1](0xDEADBEEFCAFEBABE, -1)
    await acl.SynchronizeDevice()
    assert seen == [(0xDEADBEEFCAFEBABE, -1)]
    with refused(acl.Kind.INVALID_ADDRESS, "seed is 0x1000000000000000"):
        await look[1](1 << 60, 0)


@tiny
async def test_pinned_memory_is_an_argument_and_numpy_arrays_are_not():
    @acl.kernel
    def add(x):
        x += 1

    host = await acl.MallocHost(4)
    host.numpy()[:] = 1
    await add[1](host)
    await acl.SynchronizeDevice()
    assert host.numpy().tolist() == [2] * 4
    with refused(
        acl.Kind.INVALID_ADDRESS, "argument x of <kernel add> is a NumPy array", "copy it to a buffer of Malloc()"
    ):
        await add[1](np.zeros(4))


@tiny
async def test_a_kernel_computes_at_its_end():
    host = await acl.MallocHost(4)
    host.numpy()[:] = 0

    @acl.kernel(cost=acl.Cost(us=10))
    def add(x):
        x += 1

    await add[1](host)
    host.numpy()[:] = 5
    await acl.HostWork(9)
    assert host.numpy().tolist() == [5] * 4
    await acl.HostWork(1)
    assert host.numpy().tolist() == [6] * 4


@tiny
async def test_a_block_kernel_is_called_once_per_block_with_its_index():
    @acl.block_kernel(cost=acl.Cost(us=1))
    def square(block, x: acl.In, y: acl.Out):
        y[block] = x[block] ** 2

    x, y = await _device(np.arange(6, dtype=np.int64)), await acl.Malloc(48)
    await square[6](acl.Array(x, np.int64), acl.Array(y, np.int64))
    assert await _read(y, np.int64) == [0, 1, 4, 9, 16, 25]


@tiny
async def test_exclusive_blocks_come_in_waves_and_leftover_cores_go_to_the_next_kernel():
    sim, streams = acl.current_simulation(), [await acl.CreateStream() for _ in range(3)]
    first, second, third = (
        acl.block_kernel(cost=acl.Cost(us=10), exclusive=True)(_named(name)) for name in ("first", "second", "third")
    )
    begin = sim.now_ns
    await acl.LaunchKernel(first, 6, (), streams[0])  # on 4 cores: 4, then 2
    await acl.LaunchKernel(second, 2, (), streams[1])  # the 2 left over
    await acl.LaunchKernel(third, 4, (), streams[2])
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [
        ("first", 1_000, 21_000),
        ("second", 11_000, 21_000),
        ("third", 21_000, 31_000),
    ]


@tiny
async def test_blocks_that_share_run_at_once_and_at_most_8_kernels_are_resident():
    sim, streams = acl.current_simulation(), [await acl.CreateStream() for _ in range(10)]
    begin = sim.now_ns
    for i, stream in enumerate(streams):
        await acl.LaunchKernel(busy(f"k{i}", 50), 1_000, (), stream)
    await acl.SynchronizeDevice()
    assert [start for _, start, _ in history(sim, begin)] == [*range(1_000, 9_000, 1_000), 51_000, 52_000]


def _named(name):
    def work(block):
        pass

    work.__name__ = name
    return work


@pytest.mark.parametrize(
    ("cost", "blocks", "ns"),
    [
        (acl.Cost(us=2.5), 9, 2_500),
        (acl.Cost(flops=4_000), 4, 1_000),  # 4 GFLOP/s on all 4 cores
        (acl.Cost(flops=4_000), 1, 4_000),  # on one
        (acl.Cost(bytes=500), 8, 500),  # 1 GB/s
        (acl.Cost(flops=4_000, bytes=3_000), 4, 3_000),
        (acl.Cost(us=lambda x, n: n / 2), 1, 1_500),
        (acl.Cost(bytes=lambda x, n: x.size * n), 4, 300),
        (None, 4, 100),  # the bytes of its arguments
        (acl.Cost(us=0), 1, 0),
    ],
)
@tiny
async def test_costs(cost, blocks, ns):
    @acl.kernel(cost=cost)
    def k(x: acl.In, n):
        pass

    sim, x = acl.current_simulation(), await acl.Malloc(100)
    begin = sim.now_ns
    await k[blocks](x, 3)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("k", 1_000, 1_000 + ns)]


@tiny
async def test_a_cost_that_depends_on_values_is_asked_at_each_launch():
    sim = acl.current_simulation()
    durations = iter([1, 2, 3])
    x = await acl.Malloc(8)
    k = acl.kernel(cost=acl.Cost(us=lambda x: next(durations)))(lambda x: None)
    for _ in range(3):
        await k[1](x)
    await acl.SynchronizeDevice()
    assert [end - start for _, start, end in history(sim)] == [1_000, 2_000, 3_000]


@tiny
async def test_costs_that_cannot_be():
    for wrong in (lambda: acl.Cost(us=1, flops=1), lambda: acl.Cost(us=1, bytes=1)):
        with pytest.raises(ValueError, match="either us per block, or flops and bytes per launch"):
            wrong()
    for name in ("us", "flops", "bytes"):
        with pytest.raises(ValueError, match=f"{name} must be 0 or more, and finite, not -1"):
            acl.Cost(**{name: -1})
        for wrong in ("5", [5], np.ones(1), True):
            with pytest.raises(TypeError, match=f"{name} must be a number, or a function of the arguments"):
                acl.Cost(**{name: wrong})
    for wrong in (5, "us", 0):
        with pytest.raises(TypeError, match="cost must be a Cost, or a function of the arguments of a launch"):
            acl.kernel(cost=wrong)(lambda: None)
    with pytest.raises(ValueError, match="not nan"):
        acl.Cost(us=float("nan"))
    nothing = acl.kernel(cost=acl.Cost(us=lambda: None))(lambda: None)
    with misused(TypeError, "what the cost function for us gives must be a number, not None"):
        await nothing[1]()
    k = acl.kernel(cost=acl.Cost(us=lambda: -1))(lambda: None)
    with misused(ValueError, "the cost function for us gave -1; it must give 0 or more"):
        await k[1]()
    broken = acl.kernel(cost=acl.Cost(us=lambda: 1 / 0))(lambda: None)
    with misused(ZeroDivisionError, "division by zero"):
        await broken[1]()


@tiny
async def test_launches_are_refused_before_anything_happens():
    k = acl.kernel(lambda x: None)
    x = await acl.Malloc(64)
    for blocks in (0, -1, 2**31):
        with refused(
            acl.Kind.INVALID_LAUNCH, f"<kernel <lambda>> with {blocks} blocks", "launch 1 to 2147483647 blocks"
        ):
            await acl.LaunchKernel(k, blocks, (x,))
    for blocks in (1.0, "1", None, True):
        with misused(TypeError, r"block_dim must be an int, as in kernel\[blocks, stream\]\(\.\.\.\), not"):
            await acl.LaunchKernel(k, blocks, (x,))
    with misused(TypeError, "takes 1 argument, not 2"):
        await k[1](x, x)
    with misused(TypeError, "a kernel must be made with @kernel"):
        await acl.LaunchKernel(print, 1, ())
    with misused(TypeError, "is launched, not called: await <lambda>"):
        k(x)
    await acl.LaunchKernel(k, 2**31 - 1, (x,))


@tiny
async def test_a_launch_names_arguments_and_leaves_out_defaults_as_a_call_does():
    @acl.kernel
    def add(x: acl.InOut, term: int = 1, factor: int = 1):
        x += term * factor

    @acl.block_kernel
    def add_block(block, x: acl.InOut, term: int = 1):
        x[block] += term

    x = await acl.MallocHost(4)
    x.numpy()[:] = 0
    for launch in (
        add[1](x), add[1](x, 2), add[1](x, factor=3), add[1](factor=3, term=2, x=x),
        add_block[3](x), add_block[2](term=50, x=x),
    ):  # fmt: skip
        await launch
    await acl.SynchronizeDevice()
    assert x.numpy().tolist() == [12 + 1 + 50, 12 + 1 + 50, 12 + 1, 12]
    for message, args, named in (
        ("<kernel add> takes 3 arguments, not 0: missing a required argument: 'x'", (), {}),
        ("<kernel add> takes 3 arguments, not 2: got an unexpected keyword argument 'times'", (x,), {"times": 2}),
        ("<kernel add> takes 3 arguments, not 2: multiple values for argument 'x'", (x,), {"x": x}),
        (
            "<kernel add> takes the arguments x, term, factor: got an unexpected keyword argument 'times'",
            (x, 1),
            {"times": 2},
        ),
        ("<kernel add> takes 3 arguments, not 4: too many positional arguments", (x, 1, 2, 3), {}),
    ):
        with misused(TypeError, message):
            add[1](*args, **named)


@tiny
async def test_a_stream_of_another_device_is_refused():
    there = await acl.CreateStream()
    await acl.SetDevice(1)
    with refused(acl.Kind.INVALID_HANDLE, f"made at {there.made}", "while device 1 is current", "SetDevice()"):
        await acl.LaunchKernel(busy("A", 1), 1, (), there)


def test_kernels_take_plain_positional_parameters():
    for function in (lambda *args: None, lambda **options: None, lambda *, x: None):
        with pytest.raises(TypeError, match="must have plain positional parameters"):
            acl.kernel(function)


def test_kernels_are_plain_functions():
    """A coroutine function or a generator would be called, and nothing in it would run."""

    async def waits(x):
        x[:] = 1

    def yields(x):
        yield x

    for function, words in ((waits, "is a coroutine function"), (yields, "has a yield")):
        with pytest.raises(TypeError, match=words):
            acl.kernel(function)


@tiny
async def test_arrays_that_do_not_fit():
    x, larger = await acl.Malloc(10), await acl.Malloc(4_098)
    for wrong, match in (
        (lambda: acl.Array(x, np.float32), "has 10 bytes, which is no whole number of float32, of 4 bytes each: give"),
        (lambda: acl.Array(larger, np.float32), "<Buffer device 4.0 KiB .*> has 4,098 bytes, which is no whole"),
        (lambda: acl.Array(x, np.float32, 3), "takes 12 bytes, and <Buffer device 10 B .* has 10"),
        (lambda: acl.Array(x, np.uint8, (2, -3)), "shape"),
        (lambda: acl.Array(x, object), "plain bytes"),
        (lambda: acl.Array(x, "S"), "plain bytes"),
    ):
        with pytest.raises(ValueError, match=match):
            wrong()
    for thing in (np.zeros(4), 5, None):
        with pytest.raises(TypeError, match="an Array is made of a buffer"):
            acl.Array(thing)


@tiny
async def test_a_data_type_that_there_is_not_is_answered_with_those_that_there_are():
    buffer = await acl.Malloc(16)
    comms = [await acl.CommInitRootInfo(1, await acl.GetRootInfo(), 0)]
    with pytest.raises(
        TypeError, match=r"^there is no data type 'flot32'; did you mean float32\? There are float16, fl"
    ):
        acl.Array(buffer, "flot32")
    with pytest.raises(TypeError, match=r"^there is no data type 'bfloat'; did you mean bfloat16\? There are "):
        await acl.AllReduce(buffer, buffer, 4, "bfloat", acl.ReduceOp.SUM, *comms, await acl.CreateStream())
    with pytest.raises(TypeError, match=r"^there is no data type 'x'; there are float16, .* and NumPy's other names$"):
        (await acl.MallocHost(16)).numpy("x")


@tiny
async def test_an_array_may_be_used_for_many_launches_and_only_while_its_memory_lives():
    @acl.kernel
    def add(x: acl.InOut, n):
        x += n

    buffer = await _device(np.zeros(4, np.int32))
    array = acl.Array(buffer, np.int32)
    for n in range(5):
        await add[1](array, n)
    assert await _read(buffer, np.int32) == [10] * 4
    await acl.Free(buffer)
    with refused(
        acl.Kind.INVALID_ADDRESS, f"x is <Buffer device 16 B allocation 1 made at {buffer.allocation.made}, freed"
    ):
        await add[1](array, 1)


@tiny
async def test_tasks_may_launch_one_kernel_at_once():
    @acl.kernel(cost=acl.Cost(us=5))
    def add(x, n):
        x += n

    buffers = [await _device(np.zeros(2, np.uint8)) for _ in range(4)]
    streams = [await acl.CreateStream() for _ in range(4)]
    await asyncio.gather(*(add[1, s](b, i) for i, (b, s) in enumerate(zip(buffers, streams, strict=True))))
    assert [await _read(buffer) for buffer in buffers] == [[i, i] for i in range(4)]


@tiny
async def test_a_launch_is_its_own_completion():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    launch = await busy("A", 10)[1, stream]()
    await busy("B", 10)[1, stream]()
    await launch
    assert (sim.now_ns - begin, launch.done, launch.end_ns - begin) == (13_000, True, 11_000)
    assert repr(launch).startswith("<A on stream 1 submitted at test_api_kernels.py:")
    await acl.SynchronizeStream(stream)


async def test_parts_of_an_array_are_arrays_over_parts_of_its_buffer():
    async with acl.simulate(device="tiny"):
        device = await acl.Malloc(4 * 3 * 4)
        host = np.arange(12, dtype=np.float32).reshape(4, 3)
        whole = acl.Array(device, np.float32, (4, 3))
        assert (whole.size, whole.ndim, len(whole)) == (12, 2, 4)
        await acl.Memcpy(whole, whole.nbytes, host, host.nbytes, acl.MemcpyKind.HOST_TO_DEVICE)
        for part, expected in [
            (whole[1], host[1]),
            (whole[-1], host[-1]),
            (whole[1:3], host[1:3]),
            (whole[4:], host[4:]),
        ]:
            back = np.zeros_like(expected)
            await acl.Memcpy(back, back.nbytes, part, part.nbytes, acl.MemcpyKind.DEVICE_TO_HOST)
            assert part.shape == expected.shape
            assert (back == expected).all()
        with pytest.raises(IndexError, match=r"^4 lies outside Array\("):
            whole[4]
        with pytest.raises(IndexError, match="in one piece"):
            whole[::2]


async def test_exclusive_blocks_of_a_launch_share_its_work_and_two_launches_share_the_cores():
    """tiny does 4 GFLOP/s on 4 cores: 4,000 flops take 1,000 ns on all of them, however many blocks there are."""

    @acl.kernel(cost=acl.Cost(flops=4000, bytes=0))
    def compute():
        pass

    async with acl.simulate(device="tiny") as sim:
        first, second = await acl.CreateStream(), await acl.CreateStream()
        for blocks in (1, 4, 8):
            await compute[blocks, first]()
            await acl.SynchronizeStream(first)
        await acl.HostWork(1)
        await compute[4, first]()
        await compute[4, second]()
        await acl.SynchronizeDevice()
        assert [op.end_ns - op.start_ns for op in sim.trace.ops[:3]] == [4000, 1000, 1000]
        one, other = sim.trace.ops[3:]
        assert (one.end_ns - one.start_ns, other.start_ns - one.end_ns) == (1000, 0)


def _drive(verb):
    """What a coroutine does that nobody awaits."""
    try:
        verb.send(None)
    finally:
        verb.close()


async def _wait(completion):
    await completion


BY_HAND = {
    "a copy": lambda x, host, stream: acl.MemcpyAsync(x, 64, host, 64, acl.MemcpyKind.HOST_TO_DEVICE, stream),
    "a launch": lambda x, host, stream: acl.LaunchKernel(busy("inner", 1), 1, (), stream),
    "a synchronisation": lambda x, host, stream: acl.SynchronizeStream(stream),
    "a device": lambda x, host, stream: acl.SetDevice(0),
    "a reset": lambda x, host, stream: acl.ResetDevice(0),
    "a wait": lambda x, host, stream: _wait(stream.tail),
    "an allocation": lambda x, host, stream: acl.Malloc(64),
}


@pytest.mark.parametrize("by_loop", [False, True], ids=["driven in place", "driven by the loop"])
@pytest.mark.parametrize("nbytes", [64, 8 << 20], ids=["here", "in a thread"])
@pytest.mark.parametrize("call", BY_HAND.values(), ids=BY_HAND)
@tiny(workers=2, device="h200")
async def test_a_kernel_cannot_call_the_runtime(call, nbytes, by_loop):
    sim, stream, host = acl.current_simulation(), await acl.CreateStream(), await acl.MallocHost(64)
    x = await acl.Malloc(nbytes)

    @acl.kernel(cost=acl.Cost(us=10))
    def meddling(array):
        _drive(call(x, host, stream))

    await meddling[1, stream](x)
    if by_loop:
        bystander = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
    with pytest.raises(acl.AclError, match=r"\(\) inside <kernel meddling>; a kernel must not") as caught:
        await acl.SynchronizeStream(stream)
    assert caught.value.kind is acl.Kind.NOT_PERMITTED
    assert [op.name for op in sim.trace.ops] == ["meddling"]
    if by_loop:
        bystander.cancel()
