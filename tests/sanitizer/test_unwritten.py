"""Unwritten bytes: reads of memory before it is written, exact to the byte."""

import numpy as np
import pytest

import acl_py as acl
from acl_py import asc
from acl_py.sanitizer import Kind

COPY = acl.MemcpyKind.DEFAULT


@acl.kernel(cost=acl.Cost(us=10))
def read(x: acl.In):
    pass


@acl.kernel(cost=acl.Cost(us=10))
def fill(x: acl.Out):
    x[...] = 1


@acl.kernel(cost=acl.Cost(us=10))
def increment(x: acl.InOut):
    x += 1


def found(main, **options):
    """What the sanitizer finds in *main*: the reader, and the ranges, of each finding."""

    async def whole():
        await main()
        return [
            (finding.accesses[1].what, [(span.start, span.stop) for span in finding.spans])
            for finding in acl.current_simulation().findings
            if finding.kind is Kind.UNINITIALISED
        ]

    return acl.run(whole, **({"sanitize": "host,uninitialised", "device": "tiny"} | options))


def test_a_finding_has_the_bytes_the_reader_and_the_line_of_birth(capsys):
    async def main():
        stream = await acl.CreateStream(name="work")
        device = await acl.Malloc(64, name="weights")
        await acl.MemsetAsync(device, 64, 0, 48, stream)
        await read[1, stream](acl.Array(device))
        await acl.SynchronizeStream(stream)
        return acl.current_simulation().findings

    (finding,) = acl.run(main, sanitize="uninitialised")
    birth, reader = finding.accesses
    line = main.__code__.co_firstlineno
    assert (birth.what, birth.site) == ("Malloc", f"test_unwritten.py:{line + 2}")
    assert (reader.what, reader.site, reader.stream, reader.caller) == (
        "kernel 'read'",
        f"test_unwritten.py:{line + 4}",
        "stream 'work'",
        reader.caller,
    )
    assert str(finding) == (
        f"uninitialised: kernel 'read' at test_unwritten.py:{line + 4} reads 16 unwritten bytes of "
        f"'weights': 48 to 64, allocated at test_unwritten.py:{line + 2}; write them first, or read less"
    )
    assert capsys.readouterr().err == f"{finding}\n"


def test_what_was_written_may_be_read():
    async def main():
        stream = await acl.CreateStream()
        host, one, two = await acl.MallocHost(64), await acl.Malloc(64), await acl.Malloc(64)
        host.numpy()[:] = 1
        await acl.MemcpyAsync(one, 64, host, 64, COPY, stream)
        await fill[1, stream](acl.Array(two))
        await increment[1, stream](acl.Array(one))
        await read[1, stream](acl.Array(two))
        await acl.MemcpyAsync(host, 64, one, 64, COPY, stream)
        await acl.SynchronizeStream(stream)
        host.numpy().sum()

    assert found(main) == []


def test_an_inout_argument_is_read():
    async def main():
        device = await acl.Malloc(64)
        await increment[1](acl.Array(device[16:32]))
        await read[1](acl.Array(device[16:32]))
        await acl.SynchronizeDevice()

    assert found(main) == [("kernel 'increment'", [(16, 32)])]


def test_a_copy_of_unwritten_bytes_is_reported_once_and_its_destination_is_written():
    async def main():
        host, device = await acl.MallocHost(64), await acl.Malloc(64)
        host.numpy()[8:16] = 1
        await acl.Memcpy(device, 64, host, 32, COPY)
        await read[1](acl.Array(device[:32]))
        await acl.SynchronizeDevice()

    assert found(main) == [("h2d", [(0, 8), (16, 32)])]


def test_rows_are_exact():
    async def main():
        host, device = await acl.MallocHost(64), await acl.Malloc(64)
        host.numpy()[:] = 1
        await acl.Memcpy2d(device, 16, host, 16, 4, 4, COPY)  # 4 bytes of each 16
        await acl.Memcpy2d(host, 16, device, 16, 6, 3, COPY)
        await acl.Memcpy2d(host, 16, device, 16, 4, 4, COPY)

    assert found(main) == [("d2h", [(4, 6), (20, 22), (36, 38)])]


def test_what_the_host_reads_is_checked():
    async def main():
        host = await acl.MallocHost(64)
        view = host.numpy(np.float32)
        view[2:4] = 1
        view[2:4].sum()
        view[3:6].sum()

    assert found(main) == [("host read", [(16, 24)])]


def test_without_host_accesses_pinned_memory_is_written_once_there_is_an_array():
    async def main():
        host, other, device = await acl.MallocHost(64), await acl.MallocHost(64), await acl.Malloc(64)
        host[:32].numpy()
        await acl.Memcpy(device, 64, host, 40, COPY)
        await acl.Memcpy(device, 64, other, 8, COPY)

    assert found(main, sanitize="uninitialised") == [("h2d", [(32, 40)]), ("h2d", [(0, 8)])]


def test_each_life_of_pool_memory_begins_unwritten():
    async def main():
        stream = await acl.CreateStream()
        first = await acl.MallocAsync(512, stream)
        await fill[1, stream](acl.Array(first))
        await acl.FreeAsync(first, stream)
        second = await acl.MallocAsync(512, stream)
        assert second.address == first.address
        await read[1, stream](acl.Array(second))
        await acl.SynchronizeStream(stream)

    assert found(main) == [("kernel 'read'", [(0, 512)])]


def test_work_queued_before_a_free_is_checked():
    async def main():
        stream = await acl.CreateStream()
        memory = await acl.MallocAsync(512, stream)
        await read[1, stream](acl.Array(memory))
        await acl.FreeAsync(memory, stream)
        await acl.SynchronizeStream(stream)

    assert found(main) == [("kernel 'read'", [(0, 512)])]


def test_registered_memory_has_values():
    async def main():
        pinned = await acl.HostRegister(np.zeros(64, np.uint8))
        device = await acl.Malloc(64)
        await acl.Memcpy(device, 64, pinned, 64, COPY)
        pinned.numpy().sum()

    assert found(main) == []


def test_a_write_in_no_order_is_left_to_the_check_for_races():
    """Somebody writes the bytes before the read, only nothing orders the two."""

    async def main():
        one, two = await acl.CreateStream(), await acl.CreateStream()
        host, device = await acl.MallocHost(1 << 20), await acl.Malloc(1 << 20)
        host.numpy()[:] = 1
        await acl.MemcpyAsync(device, 1 << 20, host, 1 << 20, COPY, one)
        await read[1, two](acl.Array(device))  # ends long before the copy
        await acl.SynchronizeDevice()

    assert found(main) == []


def test_a_later_write_does_not_help():
    async def main():
        one, two = await acl.CreateStream(), await acl.CreateStream()
        device = await acl.Malloc(64)
        await read[1, two](acl.Array(device))
        await fill[1, one](acl.Array(device))
        await acl.SynchronizeDevice()

    assert found(main) == [("kernel 'read'", [(0, 64)])]


def test_a_failed_operation_writes_nothing():
    @acl.kernel(cost=acl.Cost(us=10))
    def fails(x: acl.Out):
        raise ValueError("no")

    async def main():
        stream = await acl.CreateStream()
        device = await acl.Malloc(64)
        await fails[1, stream](acl.Array(device))
        with pytest.raises(acl.AclError):
            await acl.SynchronizeStream(stream)
        await read[1, stream](acl.Array(device))
        await acl.SynchronizeStream(stream)

    assert found(main, rules="acl") == [("kernel 'read'", [(0, 64)])]


def test_a_copy_by_the_host_itself_counts():
    async def main():
        one, two, device = await acl.MallocHost(64), await acl.MallocHost(64), await acl.Malloc(64)
        one.numpy()[:] = 1
        await acl.Memcpy(two, 64, one, 64, COPY)
        await acl.Memcpy(device, 64, two, 64, COPY)
        three = await acl.MallocHost(64)
        await acl.Memcpy(two, 64, three, 8, COPY)

    assert found(main) == [("h2h", [(0, 8)])]


def test_large_pageable_copies_are_checked_part_by_part():
    async def main():
        device = await acl.Malloc(8 << 20)
        await acl.Memcpy(device, 8 << 20, np.zeros(8 << 20, np.uint8), 8 << 20, COPY)
        await read[1](acl.Array(device))
        other = await acl.Malloc(64)
        await acl.Memcpy(np.zeros(64, np.uint8), 64, other, 64, COPY)

    assert found(main, device="h200") == [("d2h", [(0, 64)])]


def test_memory_that_is_handed_out_counts_as_written():
    async def main():
        host, device = await acl.MallocHost(64), await acl.Malloc(64)
        host.numpy().ctypes  # noqa: B018 - whoever has the address may write
        await acl.Memcpy(device, 64, host, 64, COPY)

    assert found(main) == []


# --- core kernels: what instructions read and write

TILE = 256  # bytes, of halves


@asc.kernel
def copy_tile(x: asc.In, y: asc.InOut, source: int, target: int):
    """Copy the tile number *source* of *x* to the tile number *target* of *y*."""
    x_gm, y_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each, each.nbytes // 2) for each in (x, y))
    tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, TILE // 2)
    asc.DataCopy(tile, x_gm[source * TILE // 2 :], TILE // 2)
    asc.SetFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.DataCopy(y_gm[target * TILE // 2 :], tile, TILE // 2)


async def tiles(count, written):
    """An array of *count* tiles of which the first *written* bytes were written."""
    array = acl.Array(await acl.Malloc(count * TILE), np.float16)
    await acl.Memset(array, array.nbytes, 0, written)
    return array


def test_a_core_kernel_reads_what_its_instructions_read():
    async def main():
        x, y = await tiles(4, 2 * TILE), await tiles(4, 0)
        await copy_tile[1](x, y, 1, 0)  # reads neither the tiles of x that are missing, nor y
        await copy_tile[1](x, y, 3, 3)
        await acl.SynchronizeDevice()
        await acl.Memcpy(np.empty(4 * TILE, np.uint8), 4 * TILE, y, 4 * TILE, COPY)

    assert found(main, device="ascend910b3") == [
        ("kernel 'copy_tile'", [(3 * TILE, 4 * TILE)]),
        ("d2h", [(TILE, 3 * TILE)]),
    ]


@asc.kernel
def shift_tiles(x: asc.InOut):
    """Copy the first tile to the second, then the third to the first."""
    gm = asc.GlobalTensor(asc.half).SetGlobalBuffer(x, x.nbytes // 2)
    tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, TILE // 2)
    for source, target in ((0, 1), (2, 0)):
        asc.DataCopy(tile, gm[source * TILE // 2 :], TILE // 2)
        asc.SetFlag(asc.HardEvent.MTE2_MTE3, 0)
        asc.WaitFlag(asc.HardEvent.MTE2_MTE3, 0)
        asc.DataCopy(gm[target * TILE // 2 :], tile, TILE // 2)
        asc.SetFlag(asc.HardEvent.MTE3_MTE2, 0)
        asc.WaitFlag(asc.HardEvent.MTE3_MTE2, 0)


def test_what_a_core_kernel_reads_after_its_own_writes_is_checked_too():
    async def main():
        x = await tiles(4, TILE)
        await shift_tiles[1](x)
        await acl.SynchronizeDevice()
        await read[1](x[:TILE])  # two tiles, which are written

    assert found(main, device="ascend910b3") == [("kernel 'shift_tiles'", [(2 * TILE, 3 * TILE)])]


def test_a_core_kernel_may_read_to_the_end_of_a_block():
    async def main():
        x, y = await tiles(2, TILE - 10), await tiles(2, 0)
        await copy_tile[1](x, y, 0, 0)
        z = await tiles(2, TILE - 40)
        await copy_tile[1](z, y, 0, 0)
        await acl.SynchronizeDevice()

    assert found(main, device="ascend910b3") == [("kernel 'copy_tile'", [(TILE - 32, TILE)])]


def test_nothing_is_kept_of_memory_that_is_written_or_gone():
    async def main():
        stream = await acl.CreateStream()
        for _ in range(20):
            memory = await acl.MallocAsync(512, stream)
            await acl.FreeAsync(memory, stream)
            other = await acl.Malloc(64)
            await fill[1, stream](acl.Array(other))
            await acl.SynchronizeStream(stream)
        await acl.FreeAsync(await acl.MallocAsync(512, stream), stream)
        return repr(acl.current_simulation().runtime.sanitizer.unwritten)

    assert acl.run(main, sanitize="uninitialised") == "<Unwritten: 0 lives>"
