"""Programs with tens of GB of memory of which they write almost nothing; `python untouched.py NAME` runs one and prints
how many MiB became resident. One has a process to itself, for nothing else may take memory meanwhile.
"""

import resource
import sys

import numpy as np

import acl_py
from acl_py.compat.acl import install
from device_model.errors import DeviceError
from device_model.memory import POISON, Memory, copy


def measure():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def tell():
    print(measure() - before)


def pinned_and_viewed():
    memory = Memory([1 << 40], 512, DeviceError)
    buffer = memory.malloc_host(30 << 30, None)
    whole = buffer[: 4 << 30].numpy(np.float32)
    assert np.isnan(whole[:: len(whole) // 50]).all()
    whole[12345] = 1
    address = buffer.address  # of all 30 GiB
    assert bytes(memory.at(address + (29 << 30), 4, "it").numpy()) == POISON * 2
    tell()


def through_acl():
    acl = install(replace=True)
    acl.rt.set_device(0)
    address, code = acl.rt.malloc_host(30 << 30)
    assert code == 0
    assert acl.rt.memset(address + (20 << 30), 4096, 7, 4096) == 0
    tell()


def kernels():
    @acl_py.kernel(cost=acl_py.Cost(us=1))
    def touch(x: acl_py.In, y: acl_py.InOut, out: acl_py.Out) -> None:
        assert np.isnan(x[0])
        assert np.isnan(out[-1])
        y[7] = 1
        out[7] = 2

    async def main():
        size = 3 << 30
        x, y, out = [acl_py.Array(await acl_py.Malloc(size), np.float32) for _ in range(3)]
        for _ in range(3):
            await touch[1](x, y, out)
        await acl_py.SynchronizeDevice()
        value = np.zeros(2, np.float32)
        await acl_py.Memcpy(value, 8, out.buffer + 24, 8, acl_py.MemcpyKind.DEVICE_TO_HOST)
        assert np.isnan(value[0])
        assert value[1] == 2
        tell()

    acl_py.run(main)


def copies():
    memory = Memory([1 << 40], 512, DeviceError)
    host, device = memory.malloc_host(10 << 30, None), memory.malloc(0, 10 << 30, None)
    copy(device.allocation, 0, host.allocation, 0, 10 << 30)
    tell()


PROGRAMS = (pinned_and_viewed, through_acl, kernels, copies)

if __name__ == "__main__":
    before = measure()
    next(program for program in PROGRAMS if program.__name__ == sys.argv[1])()
