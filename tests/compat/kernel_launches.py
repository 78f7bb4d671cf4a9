"""What the tests of kernel binaries share: a binary with a sidecar, memory with content, arguments as bytes."""

import ctypes

import numpy as np
from card import done, made

from acl_py.compat.acl.face.session import session

ADD = """
[[kernels]]
name = "add"
compute = "vectors:add"
cost_us = 5
parameters = [
    { name = "x", dtype = "int32", access = "in", dims = ["n"] },
    { name = "y", dtype = "int32", access = "in", dims = ["n"] },
    { name = "z", dtype = "int32", access = "out", dims = ["n"] },
    { name = "n", dtype = "uint32" },
]

[[kernels]]
name = "fill"
compute = "vectors:fill"
parameters = [
    { name = "z", dtype = "int32", access = "inout", dims = [2, 2] },
    { name = "values", dtype = "int16", dims = [2] },
]
"""
VECTORS = """
import numpy as np


def add(x, y, z, n):
    np.add(x, y, out=z)


def fill(z, values):
    z[:] = values
"""


def binary_of(directory, text=ADD, module=VECTORS, name="vectors"):
    """A sidecar, the module that it names, and where the binary would be."""
    (directory / f"{name}.o.toml").write_text(text)
    (directory / f"{name}.py").write_text(module)
    return str(directory / f"{name}.o")


def function_of(acl, path, name):
    """The function of a binary that is loaded for it."""
    return made(acl.rt.binary_get_function(made(acl.rt.binary_load_from_file(path, [])), name))


def upload(acl, values):
    """Device memory with these values."""
    array = np.ascontiguousarray(values)
    address = made(acl.rt.malloc(array.nbytes, 0))
    data = array.tobytes()
    done(acl.rt.memcpy(address, array.nbytes, acl.util.bytes_to_ptr(data), array.nbytes, 1))
    return address


def download(acl, address, dtype, count):
    """What lies at an address of the device."""
    out = np.zeros(count, dtype)
    done(acl.rt.memcpy(out.ctypes.data, out.nbytes, address, out.nbytes, 2))
    return out.tolist()


def packed(*values):
    """Arguments as a kernel reads them: each at a multiple of 8 bytes; ints are addresses."""
    block = b""
    for value in values:
        content = np.uint64(value).tobytes() if isinstance(value, int) else np.asarray(value).tobytes()
        block += b"\0" * (-len(block) % 8) + content
    return block


def append(acl, args, value):
    """Append a value: an int is an address."""
    content = np.uint64(value).tobytes() if isinstance(value, int) else np.asarray(value).tobytes()
    buffer = ctypes.create_string_buffer(content, len(content))
    return made(acl.rt.kernel_args_append(args, ctypes.addressof(buffer), len(content)))


def appended(acl, function, *values):
    """A list with these arguments, finalised."""
    args = made(acl.rt.kernel_args_init(function))
    for value in values:
        append(acl, args, value)
    done(acl.rt.kernel_args_finalize(args))
    return args


def kernels_run():
    """Name, duration and bytes of the kernels that have ended, in their order."""
    ops = sorted((op for op in session().trace.ops if op.kind == "kernel"), key=lambda op: op.start_ns)
    return [(op.name, op.end_ns - op.start_ns, op.bytes) for op in ops]
