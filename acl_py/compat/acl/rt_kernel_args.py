"""acl.rt: lists of kernel arguments in host memory, and launches with them.

A list takes the arguments one after the other, each at a multiple of 8 bytes. A placeholder is a pointer to memory that
has its place behind them and goes to the device with them: its buffer has a real address, for the script to write to.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.binding import takes
from acl_py.compat.acl.kernel_files import content_at
from acl_py.compat.acl.kernels import ALIGNMENT, POINTER
from acl_py.compat.acl.lookups import missing, stream_of, thing_of
from acl_py.compat.acl.rt_binaries import Function, launch, pairs
from acl_py.compat.acl.session import INVALID_PARAM, NOT_SUPPORTED, PARAM_INVALID, SUCCESS, Session, session
from acl_py.errors import Kind
from acl_py.runtime import Runtime
from device_model.memory import Allocation, Buffer, Origin, Space, host

# Limits of the vendor's runtime for a list of its own: so many arguments, so many bytes.
_MOST, _ROOM = 128, 64 << 10
_SYSTEM_BYTES = 64  # that a list in the caller's memory has besides its arguments
_LIST_BYTES, _ARGUMENT_BYTES = 128, 64  # what the caller has for the list itself; here nothing is kept there
# aclrtLaunchKernelAttrId: how blocks are given to cores, memory for SIMT, the engine and its share of the blocks (on
# 310P cards only), prefetching, dumps, and the longest time, in seconds or in microseconds.
_ATTRIBUTES, _OF_310P, _NS = range(1, 9), (3, 4), {7: 10**9, 8: 1000}


@dataclass(eq=False, slots=True)
class KernelArgument:
    """An argument in a list: its place there, and for a placeholder that of its buffer, once there is one."""

    offset: int
    nbytes: int
    is_placeholder: bool = False
    buffer: range | None = None


@dataclass(eq=False, slots=True)
class KernelArgs:
    """A list of arguments in the *size* bytes at *address*, of which *used* are taken.

    *most* is how many arguments there may be. The list is *open* until it is finalised, and is to be finalised again
    when an argument has been *updated*.
    """

    address: int
    size: int
    most: int
    memory: npt.NDArray[np.uint8] | None = None  # its own; None: the caller's
    arguments: list[KernelArgument] = field(default_factory=list)
    used: int = 0
    open: bool = True
    updated: bool = False

    def clear(self, here: Session) -> None:
        """Forget all arguments."""
        for argument in self.arguments:
            here.forget(here.handle(argument))
        self.arguments, self.used, self.open, self.updated = [], 0, True, False

    @property
    def has_buffers(self) -> bool:
        """Is there a buffer already, behind which no argument can be appended?"""
        return any(argument.buffer is not None for argument in self.arguments)

    def take(self, nbytes: int) -> range | None:
        """Room for *nbytes* more; None if there is not so much."""
        start = -(-self.used // ALIGNMENT) * ALIGNMENT
        if start + nbytes > self.size:
            return None
        self.used = start + nbytes
        return range(start, self.used)

    def view(self) -> npt.NDArray[np.uint8] | None:
        """Its memory; None if that was the caller's and is there no more."""
        if self.memory is not None:
            return self.memory
        return host.array_at(self.address, self.size) if host.is_writable(self.address, self.size) else None


# The vendor's runtime has one list for each thread, which each kernel_args_init() begins anew.
_of_thread = threading.local()


def _own_list(here: Session) -> KernelArgs:
    lists: WeakKeyDictionary[Session, KernelArgs] | None = getattr(_of_thread, "lists", None)
    if lists is None:
        lists = _of_thread.lists = WeakKeyDictionary()
    known = lists.get(here)
    if known is None:
        memory = np.zeros(_ROOM, np.uint8)
        known = lists[here] = KernelArgs(host.address_of(memory), _ROOM, _MOST, memory)
    return known


@takes("k")
def kernel_args_init(handle: int) -> tuple[int, int]:
    """Begin the list of the calling thread: there is one, so a list that it had before is over."""
    here = session()
    function = thing_of(here, handle, Function)
    code = missing(here, function)
    if code:
        return 0, code
    args = _own_list(here)
    args.clear(here)
    return here.handle(args), SUCCESS


@takes("kkkk")
def kernel_args_init_by_user_mem(handle: int, args: int, memory: int, size: int) -> int:
    """Begin a list in memory of the caller's: *args* is the address of kernel_args_get_handle_mem_size() bytes, and the
    list's handle from now on; *memory* that of kernel_args_get_mem_size() bytes, in *size*.
    """
    here = session()
    function = thing_of(here, handle, Function)
    code = missing(here, function)
    if code:
        return code
    if not args or not memory or not size:
        return here.refuse(INVALID_PARAM, "an address or the size is 0")
    if not host.is_writable(args, _list_bytes(function)) or not host.is_writable(memory, size):
        return here.refuse(PARAM_INVALID, f"the host has no writable memory for the list, or no {size} bytes for it")
    known = here.objects.get(args)
    if isinstance(known, KernelArgs):
        known.clear(here)
    elif known is not None:
        return here.refuse(PARAM_INVALID, f"{args:#x} is a handle already")
    here.objects[args] = KernelArgs(memory, size, len(function.kernel.parameters))
    return SUCCESS


@takes("kk")
def kernel_args_get_mem_size(handle: int, size: int) -> tuple[int, int]:
    """How many bytes a list takes whose arguments and buffers are *size* bytes."""
    here = session()
    function = thing_of(here, handle, Function)
    code = missing(here, function)
    return (0, code) if code else (size + _SYSTEM_BYTES + ALIGNMENT * len(function.kernel.parameters), SUCCESS)


@takes("k")
def kernel_args_get_handle_mem_size(handle: int) -> tuple[int, int]:
    """How many bytes the list itself takes, besides what it holds."""
    here = session()
    function = thing_of(here, handle, Function)
    code = missing(here, function)
    return (0, code) if code else (_list_bytes(function), SUCCESS)


def _list_bytes(function: Function) -> int:
    return _LIST_BYTES + _ARGUMENT_BYTES * len(function.kernel.parameters)


# --- arguments


def _append(here: Session, args: KernelArgs, content: bytes, *, is_placeholder: bool) -> tuple[int, int]:
    if not args.open or args.has_buffers:
        when = "it has a placeholder's buffer" if args.open else "it was finalised"
        return 0, here.refuse(NOT_SUPPORTED, f"the list takes no more arguments since {when}")
    view = args.view()
    if view is None:
        return 0, here.refuse(PARAM_INVALID, "the memory of the list is not there any more")
    place = args.take(len(content)) if len(args.arguments) < args.most else None
    if place is None:
        return 0, here.refuse(PARAM_INVALID, f"the list has room for {args.most} arguments in {args.size} bytes")
    view[place.start : place.stop] = np.frombuffer(content, np.uint8)
    argument = KernelArgument(place.start, len(content), is_placeholder)
    args.arguments.append(argument)
    return here.handle(argument), SUCCESS


@takes("kkk")
def kernel_args_append(handle: int, parameter: int, size: int) -> tuple[int, int]:
    """Append an argument: the *size* bytes at *parameter*, in host memory. For memory these hold its address."""
    here = session()
    args = thing_of(here, handle, KernelArgs)
    code = missing(here, args)
    if code:
        return 0, code
    content = content_at(here, parameter, size, "the argument")
    return (0, content) if isinstance(content, int) else _append(here, args, content, is_placeholder=False)


@takes("k")
def kernel_args_append_place_holder(handle: int) -> tuple[int, int]:
    """Append a pointer to memory that comes with the arguments."""
    here = session()
    args = thing_of(here, handle, KernelArgs)
    code = missing(here, args)
    return (0, code) if code else _append(here, args, bytes(POINTER.itemsize), is_placeholder=True)


@takes("kkk")
def kernel_args_get_place_holder_buffer(handle: int, parameter: int, size: int) -> tuple[int, int]:
    """The address of the *size* bytes that a placeholder points to, in host memory: to be written before the launch."""
    here = session()
    args, argument = thing_of(here, handle, KernelArgs), thing_of(here, parameter, KernelArgument)
    code = missing(here, args, argument)
    if code:
        return 0, code
    if not size:
        return 0, here.refuse(INVALID_PARAM, "the buffer has no bytes")
    if not args.open:
        return 0, here.refuse(NOT_SUPPORTED, "the list was finalised")
    if argument not in args.arguments or not argument.is_placeholder:
        return 0, here.refuse(PARAM_INVALID, "the argument is no placeholder of this list")
    place = args.take(size)
    if place is None:
        return 0, here.refuse(PARAM_INVALID, f"the list has no room for {size} bytes more in {args.size}")
    argument.buffer = place
    return args.address + place.start, SUCCESS


@takes("kkkk")
def kernel_args_para_update(handle: int, parameter: int, address: int, size: int) -> int:
    """Give an argument another value, of as many bytes; the list is to be finalised again."""
    here = session()
    args, argument = thing_of(here, handle, KernelArgs), thing_of(here, parameter, KernelArgument)
    code = missing(here, args, argument)
    if code:
        return code
    content = content_at(here, address, size, "the argument")
    if isinstance(content, int):
        return content
    if argument not in args.arguments or argument.is_placeholder or argument.nbytes != size:
        return here.refuse(PARAM_INVALID, f"no argument of {size} bytes, and no placeholder, of this list is meant")
    view = args.view()
    if view is None:
        return here.refuse(PARAM_INVALID, "the memory of the list is not there any more")
    view[argument.offset : argument.offset + size] = np.frombuffer(content, np.uint8)
    args.updated = True
    return SUCCESS


@takes("k")
def kernel_args_finalize(handle: int) -> int:
    """Say that the list is complete."""
    here = session()
    args = thing_of(here, handle, KernelArgs)
    code = missing(here, args)
    if not code:
        args.open = args.updated = False
    return code


# --- launching


@takes("kuklkk")
def launch_kernel_with_config(
    handle: int, blocks: int, stream: int, config: list[dict[str, int]], arguments: int, reserve: int
) -> int:
    """Queue a kernel with a list of arguments, which is copied: it may be used again at once.

    Of the attributes in *config* those that limit the time have an effect: 7 in seconds, 8 in microseconds.
    """
    attributes = pairs("launch_kernel_with_config", config, "id")
    here = session()
    function, args, queue = (
        thing_of(here, handle, Function),
        thing_of(here, arguments, KernelArgs),
        stream_of(here, stream),
    )
    code = missing(here, function, args, queue)
    if code:
        return code
    if not blocks or reserve:
        return here.refuse(INVALID_PARAM, f"{blocks} blocks, or something else than 0 for what is reserved")
    limits = [value * _NS[key] for key, value in attributes if key in _NS]
    if len(limits) > 1 or any(key not in _ATTRIBUTES for key, _ in attributes):
        return here.refuse(PARAM_INVALID, f"{config} limits the time twice, or has an attribute that there is not")
    if any(key in _OF_310P for key, _ in attributes):
        return here.refuse(NOT_SUPPORTED, "which engine runs a kernel cannot be chosen")
    if args.open or args.updated:
        what = "updated" if args.updated else "begun"
        return here.refuse(PARAM_INVALID, f"the list of arguments was {what}: call kernel_args_finalize()")
    view = args.view()
    if view is None:
        return here.refuse(PARAM_INVALID, "the memory of the list is not there any more")
    used = view[: args.used].tobytes()
    return launch(here, function, blocks, lambda runtime: _placed(runtime, args, used), queue, sum(limits))


def _placed(runtime: Runtime, args: KernelArgs, used: bytes) -> tuple[bytes, Mapping[int, Buffer]]:
    """The arguments, and the buffers of placeholders by the place of their pointer."""
    view = memoryview(bytearray(used))
    copied = Allocation(0, len(used), Space.PAGEABLE, Origin.PAGEABLE, view, runtime.memory.fail)  # nobody names it
    held: dict[int, Buffer] = {}
    end = len(used)
    for argument in args.arguments:
        if not argument.is_placeholder:
            continue
        if argument.buffer is None:
            raise runtime.fail(
                Kind.INVALID_VALUE,
                f"the placeholder at {argument.offset} has no buffer",
                "call kernel_args_get_place_holder_buffer() before kernel_args_finalize()",
            )
        end = min(end, argument.buffer.start)
        held[argument.offset] = Buffer(copied, argument.buffer.start, len(argument.buffer))
    return used[:end], held
