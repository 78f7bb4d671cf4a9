"""Programs for `acl-py compare`: y = x + 1 in tiles of 64 by 64 halves, with planted mistakes; and their reference."""

import numpy as np

import acl_py as acl
from acl_py import asc
from acl_py.verbs.copies import MemcpyKind

SIDE = 64
HEIGHT, WIDTH = 2 * SIDE, 4 * SIDE  # 8 tiles
MTE2_V, V_MTE3 = asc.HardEvent.MTE2_V, asc.HardEvent.V_MTE3


def numbers():
    return (np.arange(HEIGHT * WIDTH) % 100).astype(np.float16).reshape(HEIGHT, WIDTH)


def increment(x, y, *, number=1.0, waits=True, wrong_tile=-1):
    """Add *number* to a tile; forget a wait, or add 2 in one tile."""
    rows = asc.DataCopyParams(SIDE, SIDE * 2 // 32, (WIDTH - SIDE) * 2 // 32, 0)
    x_gm, y_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each) for each in (x, y))
    tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, SIDE * SIDE)
    result = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, SIDE * SIDE * 2, SIDE * SIDE)
    for row in range(2):
        at = row * SIDE * WIDTH + asc.GetBlockIdx() * SIDE
        asc.DataCopy(tile, x_gm[at:], rows)
        if waits:
            asc.SetFlag(MTE2_V, 0)
            asc.WaitFlag(MTE2_V, 0)
        asc.Adds(result, tile, 2 if row * 4 + asc.GetBlockIdx() == wrong_tile else number, SIDE * SIDE)
        asc.SetFlag(V_MTE3, 0)
        asc.WaitFlag(V_MTE3, 0)
        asc.DataCopy(y_gm[at:], result, asc.DataCopyParams(SIDE, SIDE * 2 // 32, 0, (WIDTH - SIDE) * 2 // 32))
        asc.PipeBarrier(asc.PIPE_ALL)


@asc.kernel
def right_kernel(x: asc.In, y: asc.Out):
    increment(x, y)


@asc.kernel
def wrong_kernel(x: asc.In, y: asc.Out):
    increment(x, y, wrong_tile=6)


@asc.kernel(weak=True)
def hasty_kernel(x: asc.In, y: asc.Out):
    increment(x, y, waits=False)


@asc.kernel
def twice_kernel(x: asc.In, y: asc.Out):
    increment(x, y, number=2.0)


@acl.kernel
def plain_kernel(y: acl.InOut):
    y[3, 5] = -1


async def launched(*kernels):
    """Return x + 1 as *kernels* compute it, one after the other."""
    values = numbers()
    x, y = [acl.Array(await acl.Malloc(values.nbytes), np.float16, values.shape) for _ in range(2)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    for kernel in kernels:
        await (kernel[1](y) if kernel is plain_kernel else kernel[4](x, y))
    return y


async def right():
    return await launched(right_kernel)


async def wrong():
    return await launched(wrong_kernel)


async def hasty():
    return await launched(hasty_kernel)


async def overwritten():
    return await launched(right_kernel, twice_kernel, wrong_kernel)


async def touched():
    return await launched(right_kernel, plain_kernel)


async def copied():
    """The wrong rows come from a copy, not from a kernel."""
    y = await launched(right_kernel)
    zeros = np.zeros((2, WIDTH), np.float16)
    await acl.Memcpy(y[7:9], zeros.nbytes, zeros, zeros.nbytes, MemcpyKind.HOST_TO_DEVICE)
    return y


async def copied_twice():
    """The rows that were wrong first come after those that were wrong last."""
    y = await launched(right_kernel)
    zeros = np.zeros((2, WIDTH), np.float16)
    for first in (100, 7):
        await acl.Memcpy(y[first : first + 2], zeros.nbytes, zeros, zeros.nbytes, MemcpyKind.HOST_TO_DEVICE)
    return y


async def two_mistakes():
    """The first launch has findings and right results in the end; the second has wrong results."""
    return await launched(hasty_kernel, wrong_kernel)


async def on_host():
    """The result comes to the host in two copies; then the memory of the device is overwritten."""
    y = await launched(wrong_kernel)
    values = np.empty(y.shape, y.dtype)
    await acl.SynchronizeDevice()
    for part in (slice(0, 100), slice(100, HEIGHT)):
        await acl.Memcpy(values[part], values[part].nbytes, y[part], y[part].nbytes, MemcpyKind.DEVICE_TO_HOST)
    await acl.Memset(y, y.nbytes, 0, y.nbytes)
    return values


async def changed_by_the_host():
    """A copy of the array is nowhere that a copy from the device has written to."""
    return (await on_host()) * 1


async def several():
    return {"good": await launched(right_kernel), "bad": await launched(wrong_kernel)}


def reference():
    return numbers() + np.float16(1)


def references():
    return {"good": reference(), "bad": reference()}


def nearly():
    """The reference with errors: a relative one of 0.1 % in all, and one element that is off by 3."""
    values = reference() * np.float16(1.001)
    values[2, 7] += 3
    return values


def narrow():
    return reference()[:, 1:]


def of_floats():
    return reference().astype(np.float32)


def failing():
    raise ZeroDivisionError("no reference today")


async def awaited():
    return np.ones(1)


def nothing():
    return None


def texts():
    return [1, "two"]


def takes_arguments(values):
    return values


async def ends_with_an_error():
    await acl.Malloc(-1)


NOT_A_FUNCTION = 3


@asc.kernel
def plain_arguments_kernel(x, y):
    increment(x, y)


async def too_few_blocks():
    """Three blocks of four: nobody writes the last columns."""
    values = numbers()
    x, y = [acl.Array(await acl.Malloc(values.nbytes), np.float16, values.shape) for _ in range(2)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    await plain_arguments_kernel[3](x, y)
    return y


async def copied_out_with_too_few_blocks():
    y = await too_few_blocks()
    out = np.empty(y.shape, np.float16)
    await acl.Memcpy(out, out.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST)
    return out
