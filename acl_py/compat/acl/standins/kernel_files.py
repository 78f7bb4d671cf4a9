"""The kernels of binaries: `add_custom.o.toml` beside `add_custom.o` has a table for each kernel.

A binary without a sidecar is an AclError, and the sidecar to write is printed.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from acl_py.compat.acl.face.session import INVALID_PARAM, PARAM_INVALID, Session
from acl_py.compat.acl.face.tracebacks import traceback_text
from acl_py.compat.acl.standins import kernels
from acl_py.compat.acl.standins.computations import warn
from acl_py.compat.acl.standins.kernels import BinaryKernel, Parameter, binary_kernel
from acl_py.compat.acl.standins.sidecars import (
    SidecarError,
    document_of,
    function_of,
    known_files,
    sidecar_for,
    sidecar_of,
)
from acl_py.compat.acl.standins.skeletons import identifier
from acl_py.errors import AclError
from device_model.memory import DEVICE_BASE, host

_KERNEL = ("name", "compute", "parameters", "cost_us", "flops")
_NEAR = (".", "kernel", "kernels", "../kernel", "../kernels")  # where scripts have their binaries

_TEMPLATE = """\
# What the kernels of {file} compute on a simulated device. There is one table
# for each kernel that acl.rt.binary_get_function() asks for.
{table}"""
_TABLE = """
[[kernels]]
name = "{name}"
# A Python function, as module:name, or a kernel made with acl_py.asc.kernel;
# {module}.py lies beside this file. The function gets an array for memory and a
# number for a value, and writes to its outputs:
#     def {name}(x, y, z, length):
#         z[...] = x + y
compute = "{module}:{name}"
# The time of each block of a function. Or flops = "length", those of a launch;
# without either a launch takes the time to move its bytes.
cost_us = 10.0
# The parameters in their order, each at a multiple of 8 bytes. Memory has an
# access: "in", "out" (fully overwritten) or "inout". Its dims are numbers, or
# arithmetic with the values that are whole numbers; without dims it ends where
# its allocation ends. A parameter without access is a value.
parameters = [
    {{ name = "x", dtype = "float16", access = "in", dims = ["length"] }},
    {{ name = "y", dtype = "float16", access = "in", dims = ["length"] }},
    {{ name = "z", dtype = "float16", access = "out", dims = ["length"] }},
    {{ name = "length", dtype = "uint32" }},
]
"""

Kernels = dict[str, BinaryKernel]


def find(here: Session, path: str) -> Kernels:
    """Return the kernels of the binary *path*. If they are not known, print what to do and raise AclError."""
    known = kernels.registered(path)
    if known is not None:
        return known
    sidecar = sidecar_for(Path(path), _directories(here))
    if sidecar is None:
        raise _unknown(here, Path(path))
    return _read(here, sidecar)


def find_content(here: Session, content: bytes) -> Kernels:
    """The kernels of a binary that holds *content*: registered with it, or of a file like it that has a sidecar. If
    there are none, an AclError says what to do.
    """
    known = kernels.registered_with(content)
    if known is not None:
        return known
    for file in known_files(_directories(here), _NEAR):
        if file.stat().st_size == len(content) and file.read_bytes() == content:
            return _read(here, sidecar_of(file))
    warn(
        f"no binary with these {len(content)} bytes has a sidecar in the current directory, the script's, or kernel/ "
        "or kernels/ in or beside them",
        "pass the folder that has file.o and file.o.toml with --models DIR",
    )
    raise here.error(PARAM_INVALID, f"no binary with these {len(content)} bytes has a sidecar")


def content_at(here: Session, address: int, size: int, what: str) -> bytes:
    """The *size* bytes of host memory at *address*; if they are not there, an AclError says *what* they are."""
    if not address or not size:
        raise here.error(INVALID_PARAM, f"{what} has no bytes: {size} at {address:#x}")
    if address >= DEVICE_BASE:
        raise here.error(PARAM_INVALID, f"{what} lies in device memory: pass the address of bytes of the host")
    here.check_extent(address, size)
    if not host.is_readable(address, size):
        raise here.error(PARAM_INVALID, f"{what}: this process has no {size} bytes at {address:#x}")
    return ctypes.string_at(address, size)


def read(sidecar: Path) -> Kernels:
    """The kernels that *sidecar* describes; SidecarError if it cannot be used."""
    tables = document_of(sidecar, ("kernels",)).get("kernels")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SidecarError(f"{sidecar}: a table [[kernels]] is needed for each kernel")
    known: Kernels = {}
    for table in tables:
        kernel = _kernel(sidecar, table)
        if kernel.name in known:
            raise SidecarError(f"{sidecar}: two kernels are named {kernel.name}; give one another name")
        known[kernel.name] = kernel
    return known


def _kernel(sidecar: Path, table: dict[str, Any]) -> BinaryKernel:
    unknown = [name for name in table if name not in _KERNEL]
    if unknown:
        raise SidecarError(
            f"{sidecar}: there is no field {unknown[0]}; the fields of a kernel are {', '.join(_KERNEL)}"
        )
    for name in ("name", "compute", "parameters"):
        if name not in table:
            raise SidecarError(f"{sidecar}: {name} is missing; a kernel needs name, compute and parameters")
    compute = function_of(sidecar, table["compute"])
    try:
        parameters = [_parameter(entry) for entry in table["parameters"]]
        return binary_kernel(str(table["name"]), parameters, compute, table.get("cost_us"), table.get("flops"))
    except (TypeError, ValueError) as error:
        raise SidecarError(f"{sidecar}: {error}") from error


def _parameter(entry: Any) -> Parameter:
    known = {field.name for field in fields(Parameter)}
    if not isinstance(entry, dict) or not {"name", "dtype"} <= set(entry) <= known:
        raise ValueError(f"each of parameters needs name and dtype, and may have access and dims, not {entry!r}")
    return Parameter(**entry)


def template(file: Path) -> str:
    """A sidecar to begin with."""
    return _TEMPLATE.format(file=file.name, table=table_template(file, identifier(file.stem)))


def table_template(file: Path, name: str) -> str:
    """The table of one kernel, to begin with."""
    return _TABLE.format(name=name, module=identifier(file.stem))


def _directories(here: Session) -> Sequence[Path]:
    return [Path(each) for each in here.options.models]


def _read(here: Session, sidecar: Path) -> Kernels:
    try:
        return read(sidecar)
    except SidecarError as error:
        cause = error.__cause__
        warn(str(error), "" if cause is None else traceback_text(cause))
        raise here.error(PARAM_INVALID, str(error)) from error


def _unknown(here: Session, file: Path) -> AclError:
    there = "a binary of kernels cannot run here" if file.is_file() else "there is no such file"
    warn(f"{file}: {there}; describe its kernels in {sidecar_of(file)}, which may look like this:", template(file))
    return here.error(PARAM_INVALID, f"{file} has no sidecar {sidecar_of(file).name}")
