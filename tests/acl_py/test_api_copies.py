"""Copies and fills through the verbs: what they move, when, who waits, and what they refuse. Pageable memory has its
own file.
"""

import asyncio

import numpy as np
import pytest
from histories import D2D, D2H, H2D, H2H, busy, calls, history, misused, refused, tiny

import acl_py as acl

A = busy("A", 50)


async def _pinned(values):
    buffer = await acl.MallocHost(len(values))
    buffer.numpy()[:] = np.frombuffer(bytes(values), np.uint8)
    return buffer


@tiny
async def test_bytes_go_there_and_back():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    src, x, y, dst = await _pinned(range(200)), await acl.Malloc(200), await acl.Malloc(200), await acl.MallocHost(200)
    begin = sim.now_ns
    await acl.MemcpyAsync(x, 200, src, 200, H2D, stream)
    await acl.MemcpyAsync(y, 200, x, 200, D2D, stream)
    await acl.MemcpyAsync(dst, 200, y, 200, D2H, stream)
    await acl.SynchronizeStream(stream)
    assert dst.numpy().tolist() == list(range(200))
    assert history(sim, begin) == [("h2d", 1_000, 1_200), ("d2d", 2_000, 2_200), ("d2h", 3_000, 3_200)]
    assert [(op.kind, op.engine, op.stream, op.bytes) for op in sim.trace.ops] == [
        ("h2d", "H2D", "stream 1", 200),
        ("d2d", "cores", "stream 1", 200),
        ("d2h", "D2H", "stream 1", 200),
    ]


@tiny
async def test_a_copy_that_differs_in_one_argument_from_the_last_one_to_its_destination_is_another_copy():
    values, others, dst = await _pinned(range(20)), await _pinned(range(100, 120)), await acl.Malloc(20)
    back = await acl.MallocHost(20)

    async def copied(src, count, kind=H2D):
        first = await acl.MemcpyAsync(dst, 20, src, count, kind)
        await acl.MemcpyAsync(back, 20, dst, 20, D2H)
        await acl.SynchronizeDevice()
        return first.work, back.numpy().tolist()

    whole, there = await copied(values, 20)
    assert there == list(range(20))
    values.numpy()[:] = range(20, 40)
    assert await copied(values, 20) == (whole, list(range(20, 40)))
    assert (await copied(others, 20))[1] == list(range(100, 120))
    assert (await copied(values, 8))[1] == [*range(20, 28), *range(108, 120)]
    assert (await copied(values, 10))[1] == [*range(20, 30), *range(110, 120)]
    assert (await copied(values + 10, 10))[1] == [*range(30, 40), *range(110, 120)]
    with refused(acl.Kind.INVALID_COPY_DIRECTION):
        await copied(values + 10, 10, D2D)
    await acl.FreeHost(values)
    with refused(acl.Kind.INVALID_ADDRESS):
        await copied(values + 10, 8)


@pytest.mark.parametrize("wrapped", [False, True], ids=["buffers", "arrays"])
@tiny
async def test_memory_of_another_simulation_is_refused(wrapped):
    async def some():
        return [acl.Array(each) if wrapped else each for each in (await acl.Malloc(64), await acl.MallocHost(64))]

    device, host = await some()
    stream = await acl.CreateStream()
    async with acl.simulate(device="tiny"):
        foreign_device, foreign_host = await some()
    for dst, src, kind in (
        (foreign_device, host, H2D),
        (device, foreign_host, H2D),
        (foreign_host, device, D2H),
        (host, foreign_device, D2H),
        (foreign_device, device, D2D),
        (foreign_device, foreign_host, H2D),
    ):
        with refused(acl.Kind.INVALID_ADDRESS, "another simulation", "in the simulation that uses it"):
            await acl.MemcpyAsync(dst, 64, src, 64, kind, stream)


@tiny
async def test_a_pinned_source_that_is_changed_after_the_call_is_copied_changed():
    stream = await acl.CreateStream()
    src, x, dst = await _pinned(b"before"), await acl.Malloc(6), await acl.MallocHost(6)
    await acl.LaunchKernel(A, 1, (), stream)
    await acl.MemcpyAsync(x, 6, src, 6, H2D, stream)
    src.numpy()[:] = np.frombuffer(b"after!", np.uint8)
    await acl.MemcpyAsync(dst, 6, x, 6, D2H, stream)
    await acl.SynchronizeStream(stream)
    assert dst.numpy().tobytes() == b"after!"


@tiny
async def test_a_copy_that_is_over_is_not_changed_any_more():
    """At the end of each call the device has caught up with the host: the copy ended during the second call."""
    src, x, dst = await _pinned(b"before"), await acl.Malloc(6), await acl.MallocHost(6)
    await acl.MemcpyAsync(x, 6, src, 6, H2D)
    await acl.StreamQuery()
    src.numpy()[:] = np.frombuffer(b"after!", np.uint8)
    await acl.Memcpy(dst, 6, x, 6, D2H)
    assert dst.numpy().tobytes() == b"before"


@tiny
async def test_what_comes_to_pinned_memory_is_there_at_the_simulated_end():
    stream, x, dst = await acl.CreateStream(), await acl.Malloc(5_000), await _pinned(bytes(5_000))
    await acl.MemsetAsync(x, 5_000, 9, 5_000, stream)
    copy = await acl.MemcpyAsync(dst, 5_000, x, 5_000, D2H, stream)
    seen = []
    for _ in range(3):
        await acl.HostWork(3)
        seen.append((int(dst.numpy()[0]), int(dst.numpy()[-1]), copy.done))
    assert seen == [(0, 0, False), (0, 0, False), (9, 9, True)]


@tiny
async def test_both_directions_and_the_cores_work_at_once_and_one_direction_in_turn():
    sim, streams = acl.current_simulation(), [await acl.CreateStream() for _ in range(4)]
    host, x, y = await acl.MallocHost(20_000), await acl.Malloc(20_000), await acl.Malloc(10_000)
    begin = sim.now_ns
    await acl.MemcpyAsync(x, 10_000, host, 10_000, H2D, streams[0])
    await acl.MemcpyAsync(x + 10_000, 10_000, host, 10_000, H2D, streams[1])
    await acl.MemcpyAsync(host + 10_000, 10_000, y, 10_000, D2H, streams[2])
    await acl.LaunchKernel(A, 1, (), streams[3])
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [
        ("h2d", 1_000, 11_000),
        ("d2h", 3_000, 13_000),
        ("A", 4_000, 54_000),
        ("h2d", 11_000, 21_000),
    ]


@tiny
async def test_a_copy_is_its_own_completion():
    sim, x, host = acl.current_simulation(), await acl.Malloc(4_000), await acl.MallocHost(4_000)
    begin = sim.now_ns
    copy = await acl.MemcpyAsync(x, 4_000, host, 4_000, H2D)
    assert (sim.now_ns - begin, copy.done) == (1_000, False)
    assert await copy is copy
    assert (sim.now_ns - begin, copy.done, copy.end_ns - begin) == (7_000, True, 5_000)
    await asyncio.gather(copy, copy)
    assert sim.now_ns - begin == 7_000


@pytest.mark.parametrize(
    ("to", "source", "waits"), [("device", "pinned", True), ("pinned", "device", True), ("device", "device", False)]
)
@tiny
async def test_the_copy_that_waits_waits_except_inside_the_device(to, source, waits):
    sim, n = acl.current_simulation(), await acl.CreateStream(nonblocking=True)
    make = {"device": acl.Malloc, "pinned": acl.MallocHost}
    dst, src, a = await make[to](4_000), await make[source](4_000), await acl.CreateStream()
    begin = sim.now_ns
    await acl.LaunchKernel(busy("other", 90), 1, (), n)
    await acl.LaunchKernel(A, 1, (), a)
    await acl.Memcpy(dst, 4_000, src, 4_000, acl.MemcpyKind.DEFAULT)
    assert calls(sim, begin)[-1] == ("Memcpy", 2_000, 58_000 if waits else 3_000)
    await acl.SynchronizeDevice()
    assert history(sim, begin)[2][1:] == (52_000, 56_000)  # behind A, in the default stream; not behind the other


@tiny
async def test_the_copy_from_host_to_host_is_done_by_the_host_once_the_stream_is_done():
    sim, a = acl.current_simulation(), await acl.CreateStream()
    src, dst = await _pinned(b"text"), await acl.MallocHost(4)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), a)
    await acl.MemcpyAsync(dst, 4, src, 4, H2H, a)
    assert dst.numpy().tobytes() == b"text"
    assert calls(sim, begin)[-1] == ("MemcpyAsync", 1_000, 52_004)
    await acl.LaunchKernel(A, 1, (), a)
    array = np.zeros(4, np.uint8)
    await acl.Memcpy(array, 4, dst, 4, H2H)
    assert calls(sim, begin)[-1] == ("Memcpy", 53_004, 104_008)
    assert array.tobytes() == b"text"
    assert [name for name, *_ in history(sim, begin)] == ["A", "A"]


@pytest.mark.parametrize("verb", ["MemcpyAsync", "Memcpy2dAsync"])
@pytest.mark.parametrize("nonblocking", [False, True], ids=["blocking", "nonblocking"])
@tiny
async def test_a_copy_from_host_to_host_in_an_idle_blocking_stream_waits_for_pending_legacy_work(verb, nonblocking):
    sim, stream = acl.current_simulation(), await acl.CreateStream(nonblocking=nonblocking)
    x, between, end = await acl.Malloc(4), await _pinned(b"old!"), await acl.MallocHost(4)
    await acl.Memset(x, 4, 7, 4)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1)
    await acl.MemcpyAsync(between, 4, x, 4, D2H)
    if verb == "MemcpyAsync":
        await acl.MemcpyAsync(end, 4, between, 4, H2H, stream)
    else:
        await acl.Memcpy2dAsync(end, 2, between, 2, 2, 2, H2H, stream)
    assert end.numpy().tobytes() == (b"old!" if nonblocking else b"\7\7\7\7")
    assert calls(sim, begin)[-1] == (verb, 2_000, 3_004 if nonblocking else 52_008)


@tiny(rules="cuda_per_thread")
async def test_copies_in_the_per_thread_default_stream_wait_for_pending_legacy_work():
    """From host to host; and from pageable memory, which the host stages when its turn has come."""
    sim, host, pageable = acl.current_simulation(), await _pinned(b"text"), np.zeros(8_192, np.uint8)
    x, array = await acl.Malloc(8_192), np.zeros(4, np.uint8)
    begin = sim.now_ns
    await acl.LaunchKernel(A, 1, (), acl.LEGACY_STREAM)
    await acl.Memcpy(array, 4, host, 4, H2H)
    await acl.LaunchKernel(A, 1, (), acl.LEGACY_STREAM)
    await acl.Memcpy(x, 8_192, pageable, 8_192, H2D)
    assert calls(sim, begin) == [
        ("LaunchKernel", 0, 1_000),
        ("Memcpy", 1_000, 52_004),
        ("LaunchKernel", 52_004, 53_004),
        ("Memcpy", 53_004, 112_196),  # the kernel ends at 103_004
    ]


@tiny(rules="acl")
async def test_copies_outside_all_streams_do_not_wait_for_one_another():
    """Two tasks: while one waits for its copy to the device, the other copies between host addresses."""
    sim, x = acl.current_simulation(), await acl.Malloc(8_000)
    host, end = await acl.MallocHost(8_000), await acl.MallocHost(8_000)
    begin = sim.now_ns
    await asyncio.gather(acl.Memcpy(x, 8_000, host, 8_000, H2D), acl.Memcpy2d(end, 2, host, 2, 2, 2, H2H))
    assert sorted(calls(sim, begin)) == [("Memcpy", 0, 11_000), ("Memcpy2d", 1_000, 2_004)]


@pytest.mark.parametrize("verb", ["Memcpy", "MemcpyAsync", "Memset", "MemsetAsync", "Memcpy2d"])
@tiny
async def test_no_bytes_are_no_work_and_no_wait(verb):
    """A call with nothing to move pays for itself and queues nothing, whatever goes on."""
    sim, x, host = acl.current_simulation(), await acl.Malloc(8), await acl.MallocHost(8)
    await acl.LaunchKernel(A, 1)
    begin = sim.now_ns
    match verb:
        case "Memcpy":
            await acl.Memcpy(x, 8, host, 0, H2D)
        case "MemcpyAsync":
            assert (await acl.MemcpyAsync(x, 0, host, 0, H2D)).done
        case "Memset":
            await acl.Memset(x, 8, 1, 0)
        case "MemsetAsync":
            assert (await acl.MemsetAsync(x, 8, 1, 0)).done
        case "Memcpy2d":
            await acl.Memcpy2d(x, 8, host, 8, 0, 3, H2D)
    assert calls(sim, begin) == [(verb, 0, 1_000)]
    await acl.SynchronizeDevice()
    assert [name for name, *_ in history(sim)] == ["A"]


@tiny(device="h200")
async def test_a_call_with_no_bytes_is_a_short_one():
    """It costs what calls cost that queue nothing, not what a fill or a copy costs."""
    sim, x, host = acl.current_simulation(), await acl.Malloc(8), await acl.MallocHost(8)
    begin = sim.now_ns
    await acl.Memset(x, 8, 1, 0)
    await acl.Memcpy(x, 8, host, 0, H2D)
    await acl.Memcpy2d(x, 8, host, 8, 0, 3, H2D)
    assert calls(sim, begin) == [("Memset", 0, 1_300), ("Memcpy", 1_300, 2_600), ("Memcpy2d", 2_600, 3_900)]


@tiny
async def test_fills_set_bytes_and_only_pinned_memory_makes_the_host_wait():
    sim, x, host = acl.current_simulation(), await acl.Malloc(3_000), await acl.MallocHost(3_000)
    begin = sim.now_ns
    await acl.Memset(x, 3_000, 0x1FF, 3_000)
    await acl.Memset(x + 1_000, 2_000, 7, 1_000)
    await acl.Memset(host, 3_000, 1, 2_000)
    assert calls(sim, begin) == [("Memset", 0, 1_000), ("Memset", 1_000, 2_000), ("Memset", 2_000, 9_000)]
    assert history(sim, begin) == [("fill", 1_000, 4_000), ("fill", 4_000, 5_000), ("fill", 5_000, 7_000)]
    assert set(host.numpy()[:2_000].tolist()) == {1}
    await acl.Memcpy(host, 3_000, x, 3_000, D2H)
    assert [set(part.tolist()) for part in np.split(host.numpy(), 3)] == [{255}, {7}, {255}]


@tiny
async def test_pitched_copies_move_rows():
    stream = await acl.CreateStream()
    src = await _pinned(range(48))
    x, dst = await acl.Malloc(64), await acl.MallocHost(30)
    dst.numpy()[:] = 0
    await acl.MemsetAsync(x, 64, 255, 64, stream)
    await acl.Memcpy2dAsync(x + 1, 16, src, 12, 10, 4, H2D, stream)
    await acl.Memcpy2dAsync(dst, 10, x + 2, 16, 9, 3, D2H, stream)
    await acl.SynchronizeStream(stream)
    rows = src.numpy(shape=(4, 12))
    assert dst.numpy(shape=(3, 10)).tolist() == [[*row[1:10].tolist(), 0] for row in rows[:3]]
    back = np.zeros((4, 16), np.uint8)
    await acl.Memcpy(back, 64, x, 64, D2H)
    assert back[:, 0].tolist() == [255] * 4
    assert (back[:, 1:11] == rows[:, :10]).all()
    assert (back[:, 11:] == 255).all()


@tiny
async def test_pitched_copies_wait_as_plain_ones_do():
    sim, x, y, host = acl.current_simulation(), await acl.Malloc(100), await acl.Malloc(100), await acl.MallocHost(100)
    array = np.arange(100, dtype=np.uint8).reshape(10, 10)
    begin = sim.now_ns
    await acl.Memcpy2d(x, 10, host, 10, 10, 10, H2D)
    await acl.Memcpy2d(y, 10, x, 10, 10, 10, D2D)
    await acl.Memcpy2d(y, 10, array, 10, 5, 10, H2D)
    await acl.Memcpy2d(array, 10, y, 10, 10, 10, D2H)
    await acl.Memcpy2d(host, 10, array, 10, 10, 10, H2H)
    assert [call for call in calls(sim, begin) if call[0] == "Memcpy2d"][:2] == [
        ("Memcpy2d", 0, 3_100),
        ("Memcpy2d", 3_100, 4_100),
    ]
    assert (host.numpy(shape=(10, 10)) == array).all()
    assert array[:, :5].tolist() == [list(range(10 * row, 10 * row + 5)) for row in range(10)]


@tiny
async def test_kind_must_fit_where_both_ends_are():
    x, host, array = await acl.Malloc(64), await acl.MallocHost(64), np.zeros(64, np.uint8)
    made = x.allocation.made, host.allocation.made
    for dst, src, kind, *parts in (
        (x, host, D2H, "DEVICE_TO_HOST does not fit a copy from pinned host memory", *made),
        (host, x, H2D, "HOST_TO_DEVICE does not fit a copy from device memory", *made),
        (x, x, H2D, "from device memory", "to device memory"),
        (host, array, D2D, "DEVICE_TO_DEVICE does not fit a copy from pageable host memory"),
        (x, host, 99, "99 is no copy kind", "MemcpyKind"),
        (x, host, -1, "-1 is no copy kind"),
        (x, host, None, "None is no copy kind"),
    ):
        for verb in (acl.Memcpy, acl.MemcpyAsync):
            with refused(acl.Kind.INVALID_COPY_DIRECTION, *parts):
                await verb(dst, 64, src, 64, kind)
        if kind != 99:
            with refused(acl.Kind.INVALID_COPY_DIRECTION, parts[0]):
                await acl.Memcpy2d(dst, 8, src, 8, 8, 8, kind)
    for kind in (acl.MemcpyKind.DEFAULT, acl.MemcpyKind.HOST_TO_BUF_TO_DEVICE, 1):
        await acl.Memcpy(x, 64, host, 64, kind)
    for kind in (acl.MemcpyKind.DEFAULT, acl.MemcpyKind.INNER_DEVICE_TO_DEVICE, acl.MemcpyKind.INTER_DEVICE_TO_DEVICE):
        await acl.Memcpy(x, 32, x + 32, 32, kind)


@pytest.mark.parametrize("verb", [acl.Memcpy, acl.MemcpyAsync])
@tiny
async def test_counts_are_held_against_the_room_and_both_ends(verb):
    x, host = await acl.Malloc(64), await acl.MallocHost(32)
    made = x.allocation.made, host.allocation.made
    for dst, dest_max, src, count, *parts in (
        (x, 16, host, 17, "count is 17, but dest_max is 16", "count of 0 to dest_max bytes"),
        (x, 16, host, -1, "count is -1, but dest_max is 16"),
        (x, -1, host, 0, "count is 0, but dest_max is -1"),
        (x, 1 << 70, host, 1 << 70, "dst is", made[0], "which has 64 bytes"),
        (x, 64, host, 33, "src is", made[1], "which has 32 bytes, not 33"),
        (x + 60, 64, host, 5, "dst is", made[0], "at 60 of", "which has 4 bytes, not 5"),
        (x.address + 60, 64, host, 5, "dst is", made[0], "which has 4 bytes, not 5"),
        (x, 64, host.address + 30, 3, "src is", made[1], "which has 2 bytes, not 3"),
    ):
        with refused(acl.Kind.INVALID_VALUE, *parts):
            await verb(dst, dest_max, src, count, H2D)
    for count in (1.0, None, "8", True):
        with misused(TypeError, "count must be an int"):
            await verb(x, 64, host, count, H2D)
    for dest_max in (None, "64"):
        with pytest.raises(TypeError):
            await verb(x, dest_max, host, 8, H2D)


@tiny
async def test_what_is_no_memory_is_refused():
    x, host = await acl.Malloc(64), await acl.MallocHost(64)
    end = x.address + 64
    for dst, src, kind, *parts in (
        (None, host, acl.Kind.INVALID_VALUE, "dst is None, which is not memory"),
        (x, None, acl.Kind.INVALID_VALUE, "src is None, which is not memory"),
        (x, object(), acl.Kind.INVALID_VALUE, "src is an object, which is not memory"),
        (x, 1.5, acl.Kind.INVALID_VALUE, "src is a float, which is not memory"),
        (0, host, acl.Kind.NULL_POINTER, "dst is NULL"),
        (x, 12345, acl.Kind.INVALID_ADDRESS, "src is a host address", "pass the array itself"),
        (end, host, acl.Kind.INVALID_ADDRESS, f"dst is 0x{end:x}, right at the end of", x.allocation.made),
        (end + 16, host, acl.Kind.INVALID_ADDRESS, "16 bytes past the end of", x.allocation.made),
        (x, np.zeros((8, 16))[:, ::2], acl.Kind.INVALID_VALUE, "not contiguous"),
        (x, np.array([object()] * 8), acl.Kind.INVALID_VALUE, "references, not values"),
    ):
        for verb in (acl.Memcpy, acl.MemcpyAsync):
            with refused(kind, *parts):
                await verb(dst, 8, src, 8, acl.MemcpyKind.DEFAULT)
    frozen = np.zeros(8, np.uint8)
    frozen.flags.writeable = False
    with refused(acl.Kind.INVALID_VALUE, "read-only"):
        await acl.Memcpy(frozen, 8, x, 8, D2H)
    await acl.Memcpy(x, 8, frozen, 8, H2D)
    await acl.Memcpy(x, 8, b"bytes-ok", 8, H2D)
    with refused(acl.Kind.INVALID_VALUE, "read-only"):
        await acl.Memcpy(b"bytes-no", 8, x, 8, D2H)


@tiny
async def test_fills_refuse_what_cannot_be_filled():
    x, array = await acl.Malloc(64), np.zeros(64, np.uint8)
    for verb in (acl.Memset, acl.MemsetAsync):
        with refused(acl.Kind.INVALID_VALUE, "a fill of pageable host memory", "NumPy's fill"):
            await verb(array, 64, 0, 64)
        with refused(acl.Kind.INVALID_VALUE, "count is 65, but dest_max is 64"):
            await verb(x, 64, 0, 65)
        with refused(acl.Kind.INVALID_VALUE, x.allocation.made, "which has 64 bytes, not 65"):
            await verb(x, 65, 0, 65)
        with refused(acl.Kind.INVALID_VALUE, "count is -1"):
            await verb(x, 64, 0, -1)
        for value in ("0", None, 1.0):
            with misused(TypeError, "the value of a fill must be an int"):
                await verb(x, 64, value, 64)


@tiny
async def test_pitches_are_checked():
    x, host = await acl.Malloc(64), await acl.MallocHost(64)
    with refused(acl.Kind.INVALID_PITCH, "rows of 8 bytes, 2 of them, at pitches of 4 and 8"):
        await acl.Memcpy2d(x, 4, host, 8, 8, 2, H2D)
    for args, part in (
        ((x, 8, host, 8, -1, 2), "rows of -1 bytes"),
        ((x, 8, host, 8, 8, -2), "-2 of them"),
        ((x, 8, host, 8, 8, 9), "which has 64 bytes, not 72"),
        ((x, 16, host, 8, 8, 5), "which has 64 bytes, not 72"),
        ((x, 8, host, 1 << 60, 8, 2), "which has 64 bytes"),
    ):
        for verb in (acl.Memcpy2d, acl.Memcpy2dAsync):
            with refused(acl.Kind.INVALID_VALUE, part):
                await verb(*args, H2D)
    with misused(TypeError, "width must be an int, not 8.0"):
        await acl.Memcpy2d(x, 8, host, 8, 8.0, 8, H2D)


@tiny
async def test_overlapping_ranges_of_one_buffer_come_out_as_if_copied_away_first():
    x, host = await acl.Malloc(8), await _pinned(b"abcdefgh")
    await acl.Memcpy(x, 8, host, 8, H2D)
    await acl.Memcpy(x + 2, 6, x, 6, D2D)
    await acl.Memcpy(host, 8, x, 8, D2H)
    assert host.numpy().tobytes() == b"ababcdef"
