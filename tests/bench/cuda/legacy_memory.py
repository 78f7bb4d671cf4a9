"""Does memory that the legacy stream allocates or frees make blocking streams wait? This script asks a card.

Stream a spins for 40 ms; the legacy stream is given something; stream b is given a short kernel. After 10 ms that has
ended, or waits for stream a. It needs cuda-bindings and NumPy. An H200 with driver 580 printed:

    nothing: ends
    a kernel: waits
    a record: waits
    an allocation: ends
    an allocation that the pool must grow for: ends
    a free: waits
"""

import time

import numpy as np
from cuda.bindings import driver

PTX = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry spin(.param .u64 n)
{
    .reg .u64 %begin, %now, %n; .reg .pred %p;
    ld.param.u64 %n, [n]; mov.u64 %begin, %globaltimer;
    L: mov.u64 %now, %globaltimer; sub.u64 %now, %now, %begin; setp.lt.u64 %p, %now, %n; @%p bra L;
    ret;
}
\0"""
LEGACY, NON_BLOCKING, NBYTES, LARGE = driver.CUstream(1), 1, 1 << 20, 300 << 20


def call(function, *arguments):
    """What the function of the driver returns besides its code; another code than success is an error."""
    code, *values = function(*arguments)
    assert not int(code), f"{function.__name__}: {code!r}"
    return values[0] if values else None


def launch(stream, ns):
    number = np.array([ns], np.uint64)
    given = np.array([number.ctypes.data], np.uint64)
    call(driver.cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, stream, given.ctypes.data, 0)


def allocate(stream, nbytes=NBYTES):
    return call(driver.cuMemAllocAsync, nbytes, stream)


def answer(between, memory):
    launch(a, 40_000_000)
    between(memory)
    launch(b, 10_000)
    event = call(driver.cuEventCreate, 0)
    call(driver.cuEventRecord, event, b)
    time.sleep(0.01)
    (code,) = driver.cuEventQuery(event)
    call(driver.cuCtxSynchronize)
    return "waits" if int(code) else "ends"


call(driver.cuInit, 0)
call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, call(driver.cuDeviceGet, 0)))
spin = call(driver.cuModuleGetFunction, call(driver.cuModuleLoadData, PTX), b"spin")
a, b, apart = (call(driver.cuStreamCreate, flags) for flags in (0, 0, NON_BLOCKING))
happened = call(driver.cuEventCreate, 0)
for name, between in {
    "nothing": lambda _: None,
    "a kernel": lambda _: launch(LEGACY, 1000),
    "a record": lambda _: call(driver.cuEventRecord, happened, LEGACY),
    "an allocation": lambda _: allocate(LEGACY),
    "an allocation that the pool must grow for": lambda _: allocate(LEGACY, LARGE),
    "a free": lambda memory: call(driver.cuMemFreeAsync, memory, LEGACY),
}.items():
    memory = allocate(apart)
    call(driver.cuCtxSynchronize)
    print(f"{name}: {answer(between, memory)}", flush=True)
