"""The bytes of collectives beside work whose bodies run in threads."""

import numpy as np

import acl_py as acl

SIZE = 4 << 20  # such a body runs in a thread


@acl.kernel(cost=acl.Cost(us=20))
def slow_ones(out: acl.Out):
    for _ in range(8):  # takes a while, so that it is still in its thread when the collective ends
        np.sqrt(np.arange(out.size, dtype=np.float32))
    out[:] = 1


async def _sum_of_what_kernels_write(out_of_place):
    comms, arrays, streams = await acl.CommInitAll(2), [], []
    for device in range(2):
        await acl.SetDevice(device)
        streams.append(await acl.CreateStream())
        arrays.append([acl.Array(await acl.Malloc(SIZE), np.float32) for _ in range(2)])
    for _ in range(2):
        for device, comm in enumerate(comms):
            await acl.SetDevice(device)
            send, recv = arrays[device][0], arrays[device][int(out_of_place)]
            await slow_ones[8, streams[device]](send)
            await acl.AllReduce(send, recv, None, None, acl.ReduceOp.SUM, comm, streams[device])
    for stream in streams:
        await acl.SynchronizeStream(stream)
    into = np.empty(SIZE // 4, np.float32)
    await acl.Memcpy(into, SIZE, arrays[0][int(out_of_place)], SIZE, acl.MemcpyKind.DEVICE_TO_HOST)
    return sorted(set(into.tolist()))


def test_a_collective_reads_what_kernels_in_threads_have_written():
    for out_of_place in (False, True):
        for workers in (1, 4):
            run = acl.run(_sum_of_what_kernels_write, out_of_place, device="h200", rules="cuda", workers=workers)
            assert run == [2.0]
