"""acl.rt: lists of kernel arguments in host memory, and launches with them.

A list takes the arguments one after the other, each at a multiple of 8 bytes. A placeholder is a pointer to memory that
has its place behind them and goes to the device with them. Its buffer has a real address, to which the script can
write.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.face.binding import gives, runs
from acl_py.compat.acl.face.lookups import Running
from acl_py.compat.acl.face.session import INVALID_PARAM, NOT_SUPPORTED, PARAM_INVALID, Session
from acl_py.compat.acl.functions.rt.binaries import Function, launch, pairs
from acl_py.compat.acl.standins.kernel_files import content_at
from acl_py.compat.acl.standins.kernels import ALIGNMENT, POINTER
from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
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

    ending: ClassVar[None] = None  # nothing ends it
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

    ending: ClassVar[None] = None  # nothing ends it
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


# The vendor's runtime has one list for each thread, which each kernel_args_init() begins again.
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


@gives("k")
def kernel_args_init(here: Session, handle: int) -> int:
    """Begin the list of the calling thread: there is one, so a list that it had before is over."""
    here.thing(handle, Function)
    args = _own_list(here)
    args.clear(here)
    return here.handle(args)


@runs("kkkk")
async def kernel_args_init_by_user_mem(here: Session, handle: int, args: int, memory: int, size: int) -> None:
    """Begin a list in memory of the caller's: *args* is the address of kernel_args_get_handle_mem_size() bytes, and the
    list's handle from now on; *memory* that of kernel_args_get_mem_size() bytes, in *size*.
    """
    function = here.thing(handle, Function)
    if not args or not memory or not size:
        raise here.error(INVALID_PARAM, "an address or the size is 0")
    here.check_extent(args, _list_bytes(function), "dst")
    here.check_extent(memory, size, "dst")
    if not host.is_writable(args, _list_bytes(function)) or not host.is_writable(memory, size):
        raise here.error(PARAM_INVALID, f"the host has no writable memory for the list, or no {size} bytes for it")
    known = here.objects.get(args)
    if isinstance(known, KernelArgs):
        known.clear(here)
    elif known is not None:
        raise here.error(PARAM_INVALID, f"{args:#x} is a handle already")
    here.objects[args] = KernelArgs(memory, size, len(function.kernel.parameters))


@gives("kk")
def kernel_args_get_mem_size(here: Session, handle: int, size: int) -> int:
    """How many bytes a list takes whose arguments and buffers are *size* bytes."""
    return size + _SYSTEM_BYTES + ALIGNMENT * len(here.thing(handle, Function).kernel.parameters)


@gives("k")
def kernel_args_get_handle_mem_size(here: Session, handle: int) -> int:
    """How many bytes the list itself takes, besides what it holds."""
    return _list_bytes(here.thing(handle, Function))


def _list_bytes(function: Function) -> int:
    return _LIST_BYTES + _ARGUMENT_BYTES * len(function.kernel.parameters)


# --- arguments


def _append(here: Session, args: KernelArgs, content: bytes, *, is_placeholder: bool) -> int:
    if not args.open or args.has_buffers:
        when = "it has a placeholder's buffer" if args.open else "it was finalised"
        raise here.error(NOT_SUPPORTED, f"the list takes no more arguments since {when}")
    view = _view(here, args)
    place = args.take(len(content)) if len(args.arguments) < args.most else None
    if place is None:
        raise here.error(PARAM_INVALID, f"the list has room for {args.most} arguments in {args.size} bytes")
    view[place.start : place.stop] = np.frombuffer(content, np.uint8)
    argument = KernelArgument(place.start, len(content), is_placeholder)
    args.arguments.append(argument)
    return here.handle(argument)


def _view(here: Session, args: KernelArgs) -> npt.NDArray[np.uint8]:
    """The memory of a list, which may be the caller's and gone."""
    if args.memory is not None:
        return args.memory
    if not host.is_writable(args.address, args.size):
        raise here.error(PARAM_INVALID, "the memory of the list is not there any more")
    return host.array_at(args.address, args.size)


@gives("kkk")
def kernel_args_append(here: Session, handle: int, parameter: int, size: int) -> int:
    """Append an argument: the *size* bytes at *parameter*, in host memory. For memory these hold its address."""
    args = here.thing(handle, KernelArgs)
    return _append(here, args, content_at(here, parameter, size, "the argument"), is_placeholder=False)


@gives("k")
def kernel_args_append_place_holder(here: Session, handle: int) -> int:
    """Append a pointer to memory that comes with the arguments."""
    return _append(here, here.thing(handle, KernelArgs), bytes(POINTER.itemsize), is_placeholder=True)


@gives("kkk")
def kernel_args_get_place_holder_buffer(here: Session, handle: int, parameter: int, size: int) -> int:
    """The address of the *size* bytes that a placeholder points to, in host memory: to be written before the launch."""
    args, argument = here.thing(handle, KernelArgs), here.thing(parameter, KernelArgument)
    if not size:
        raise here.error(INVALID_PARAM, "the buffer has no bytes")
    if not args.open:
        raise here.error(NOT_SUPPORTED, "the list was finalised")
    if argument not in args.arguments or not argument.is_placeholder:
        raise here.error(PARAM_INVALID, "the argument is no placeholder of this list")
    place = args.take(size)
    if place is None:
        raise here.error(PARAM_INVALID, f"the list has no room for {size} bytes more in {args.size}")
    argument.buffer = place
    return args.address + place.start


@runs("kkkk")
async def kernel_args_para_update(here: Session, handle: int, parameter: int, address: int, size: int) -> None:
    """Give an argument another value, of as many bytes; the list is to be finalised again."""
    args, argument = here.thing(handle, KernelArgs), here.thing(parameter, KernelArgument)
    content = content_at(here, address, size, "the argument")
    if argument not in args.arguments or argument.is_placeholder or argument.nbytes != size:
        raise here.error(PARAM_INVALID, f"no argument of {size} bytes, and no placeholder, of this list is meant")
    _view(here, args)[argument.offset : argument.offset + size] = np.frombuffer(content, np.uint8)
    args.updated = True


@runs("k")
async def kernel_args_finalize(here: Session, handle: int) -> None:
    """Say that the list is complete."""
    args = here.thing(handle, KernelArgs)
    args.open = args.updated = False


# --- launching


@runs("kuklkk")
def launch_kernel_with_config(
    here: Session, handle: int, blocks: int, stream: int, config: list[dict[str, int]], arguments: int, reserve: int
) -> Running:
    """Queue a kernel with a list of arguments, which is copied: it may be used again at once.

    Of the attributes in *config* those that limit the time have an effect: 7 in seconds, 8 in microseconds.
    """
    attributes = pairs("launch_kernel_with_config", config, "id")
    function, args, queue = here.thing(handle, Function), here.thing(arguments, KernelArgs), here.streams[stream]
    if not blocks or reserve:
        raise here.error(INVALID_PARAM, f"{blocks} blocks, or something else than 0 for what is reserved")
    limits = [value * _NS[key] for key, value in attributes if key in _NS]
    if len(limits) > 1 or any(key not in _ATTRIBUTES for key, _ in attributes):
        raise here.error(PARAM_INVALID, f"{config} limits the time twice, or has an attribute that there is not")
    if any(key in _OF_310P for key, _ in attributes):
        raise here.error(NOT_SUPPORTED, "which engine runs a kernel cannot be chosen")
    if args.open or args.updated:
        what = "updated" if args.updated else "begun"
        raise here.error(PARAM_INVALID, f"the list of arguments was {what}: call kernel_args_finalize()")
    used = _view(here, args)[: args.used].tobytes()
    return launch(here, function, blocks, lambda runtime: _placed(runtime, args, used), queue, sum(limits))


def _placed(runtime: Runtime, args: KernelArgs, used: bytes) -> tuple[bytes, Mapping[int, Buffer]]:
    """The arguments, and the buffers of placeholders by the place of their pointer."""
    view = memoryview(bytearray(used))
    # A copy that the user has no name for.
    copied = Allocation(0, len(used), Space.PAGEABLE, Origin.PAGEABLE, view, runtime.memory.fail)
    held: dict[int, Buffer] = {}
    end = len(used)
    for argument in args.arguments:
        if not argument.is_placeholder:
            continue
        if argument.buffer is None:
            raise runtime.error(
                Kind.INVALID_VALUE,
                f"the placeholder at {argument.offset} has no buffer",
                "call kernel_args_get_place_holder_buffer() before kernel_args_finalize()",
            )
        end = min(end, argument.buffer.start)
        held[argument.offset] = Buffer(copied, argument.buffer.start, len(argument.buffer))
    return used[:end], held
