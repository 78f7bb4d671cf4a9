"""acl.op: kernels that a script registers for its operators, and the functions that choose among them.

A card would run what was compiled; here the operator is a Python function, and what is chosen is kept and checked.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from acl_py.compat.acl.face.binding import check_ints, does, runs, takes
from acl_py.compat.acl.face.session import INVALID_PARAM, SUCCESS, Session, session
from acl_py.compat.acl.face.tracebacks import traceback_text
from acl_py.compat.acl.functions.base.tensors import TensorDesc
from acl_py.compat.acl.functions.op.attributes import attributes_of
from acl_py.compat.acl.standins.computations import warn
from acl_py.compat.acl.standins.operators import operator_of

BIN_SELECTOR_NOT_REGISTERED, KERNEL_NOT_FOUND = 100028, 100029
BIN_SELECTOR_ALREADY_REGISTERED, KERNEL_ALREADY_REGISTERED = 100030, 100031
_SIZE = np.dtype(np.uint64)


@dataclass(eq=False, slots=True)
class KernelDesc:
    """What a function of register_compile_func chooses, for one operator: a kernel, its blocks and its workspaces."""

    operator: str
    kernel: str = ""
    blocks: int = 0
    workspaces: list[int] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Registry:
    """What the script of a session has registered, by operator."""

    kernels: dict[str, list[str]] = field(default_factory=dict)  # their ids
    choosers: dict[str, Callable[..., Any]] = field(default_factory=dict)


_registries: WeakKeyDictionary[Session, _Registry] = WeakKeyDictionary()


def _registry(here: Session) -> _Registry:
    return _registries.setdefault(here, _Registry())


@does("ssskiii")
def create_kernel(
    here: Session, operator: str, kernel: str, _: str, address: int, size: int, __: int, ___: int
) -> None:
    """Register a kernel of an operator, by its id."""
    if not address or size <= 0:
        raise here.error(INVALID_PARAM, "the kernel has no bytes")
    known = _registry(here).kernels.setdefault(operator, [])
    if kernel in known:
        raise here.error(KERNEL_ALREADY_REGISTERED, f"{operator} has a kernel {kernel!r} already")
    known.append(kernel)


@does("sO")
def register_compile_func(here: Session, operator: str, function: Any) -> None:
    """Let *function* choose the kernel of an operator whenever update_params is called. It gets the number of inputs,
    their descriptions, the same of the outputs, the attributes, and a handle for set_kernel_args.
    """
    if not callable(function):
        raise TypeError("acl.op.register_compile_func args parse failed: argument 2 cannot be called")
    choosers = _registry(here).choosers
    if operator in choosers:
        raise here.error(BIN_SELECTOR_ALREADY_REGISTERED, f"{operator} has such a function already")
    choosers[operator] = function


@does("s")
def unregister_compile_func(here: Session, operator: str) -> None:
    """End register_compile_func."""
    if _registry(here).choosers.pop(operator, None) is None:
        raise here.error(BIN_SELECTOR_NOT_REGISTERED, f"{operator} has no such function")


@does("ksuku")
def set_kernel_args(here: Session, handle: int, kernel: str, blocks: int, _: int, __: int) -> None:
    """Choose a kernel and its number of blocks; the arguments are its own affair."""
    desc = here.find(handle, KernelDesc)
    if desc is None or not blocks:
        raise here.error(INVALID_PARAM, "there is no such kernel description, or no block")
    if kernel not in _registry(here).kernels.get(desc.operator, ()):
        raise here.error(KERNEL_NOT_FOUND, f"{desc.operator} has no kernel {kernel!r}: see acl.op.create_kernel()")
    desc.kernel, desc.blocks = kernel, blocks


@runs("kik")
async def set_kernel_workspace_sizes(here: Session, handle: int, count: int, address: int) -> None:
    """Say how much workspace the kernel takes: *count* sizes of 8 bytes each, in host memory."""
    desc = here.find(handle, KernelDesc)
    if desc is None or count < 0:
        raise here.error(INVALID_PARAM, "there is no such kernel description, or a number below 0")
    if count:
        place = here.place(address, count * _SIZE.itemsize, "the workspace sizes")
        view = place.allocation.view[place.offset : place.offset + count * _SIZE.itemsize]
        desc.workspaces = np.frombuffer(view, _SIZE).tolist()


@takes("sllk")
def update_params(operator: str, inputs: list[int], outputs: list[int], attr: int) -> int:
    """Let the operator's function choose a kernel for these shapes; an operator that is known here needs none."""
    check_ints(inputs, outputs)
    here = session()
    if attributes_of(here, attr) is None or any(here.find(each, TensorDesc) is None for each in (*inputs, *outputs)):
        return here.refuse(INVALID_PARAM, "a description or the set of attributes does not exist")
    choose = _registry(here).choosers.get(operator)
    if choose is None:
        if operator_of(operator) is not None:
            return SUCCESS
        return here.refuse(BIN_SELECTOR_NOT_REGISTERED, f"{operator} has no function: see register_compile_func()")
    desc = KernelDesc(operator)
    handle = here.handle(desc)
    try:
        choose(len(inputs), list(inputs), len(outputs), list(outputs), attr, handle)
    except Exception as error:  # the script's own; the binding goes on, too
        warn(f"the function that chooses a kernel of {operator} failed", traceback_text(error))
    finally:
        here.forget(handle)
    return SUCCESS if desc.kernel else here.refuse(KERNEL_NOT_FOUND, f"no kernel of {operator} was chosen")
