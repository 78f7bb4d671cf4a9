"""How a rank asks for a collective: a verb's arguments become an operation in a stream, or a part of an open group.

A program makes the same calls again and again. So what was found right is kept with the communicator, by the arguments,
and a call that repeats an earlier one only looks at what can have changed.
"""

from collections.abc import Callable
from sys import _getframe
from typing import Any

from acl_py.callers import current_caller
from acl_py.calls.acts import Act, Joined, Plain
from acl_py.errors import Kind
from acl_py.runtime.collectives import join_group, take
from acl_py.runtime.scopes import Scope, current_scope, present_scope
from acl_py.sites import site_of
from acl_py.verbs.arrays import Array
from acl_py.verbs.asked import Asked
from acl_py.verbs.memory import Memory
from acl_py.verbs.streams import StreamLike, resolve
from device_model.collectives.cliques import Communicator
from device_model.collectives.parts import Part
from device_model.completions import NOTHING, Completion
from device_model.memory import Buffer
from device_model.ops import Op
from device_model.streams import Stream
from device_model.work import Lane

# A member that is read through its enum takes ten times as long.
_LANE = Lane.COLLECTIVE
_MOST_KNOWN = 1024  # calls of a rank that are kept


def ask(
    verb: Callable[..., object],
    check: Callable[..., Asked],
    comm: Communicator,
    stream: StreamLike,
    buffers: tuple[Memory | None, ...],
    *others: object,
) -> Completion:
    """Queue what *verb* asks for as one part, or add it to the open group; a verb calls this and nothing else.

    *check* returns what the *buffers* and the *others* ask for, if this is not known yet. There is one other or more,
    and numbers are the first and the last of them.
    """
    scope = present_scope() or current_scope()  # begin(), written out: this is the hot path
    runtime = scope.runtime
    context = scope.context
    if context.alert:
        runtime.check_call(context, verb.__name__)
    site, enter = site_of(_getframe(2)), runtime.host_ns
    key = verb, buffers, others, type(others[0]), type(others[-1])  # 1 is equal to True
    memory = runtime.memory
    asked: Asked | None
    try:
        asked = comm.known.get(key) or comm.known[_at_places(key)]
        for allocation in asked.memory:
            if allocation.home is not memory:  # it was freed, or belongs to another simulation
                asked = None
                break
    except (KeyError, TypeError, AttributeError):  # TypeError: an argument without a hash, such as an array
        asked = None
    if asked is None:
        asked = check(runtime, comm, *buffers, *others)
        error = asked.rank.clique.error
        if error is not None and asked.calls:
            raise runtime.operation_error(error)
        if asked.memory:
            _keep(asked, key)
    rank, calls = asked.rank, asked.calls
    if not calls:
        runtime.brief_call(verb.__name__, enter, site)
        return NOTHING
    if (
        type(stream) is not Stream  # else it is as right as that of the call before was
        or (home := stream.home) is not asked.home
        or context is not asked.context
        or home is None
        or home.alert
    ):
        stream = _stream_of(scope, verb.__name__, rank, stream)
        if stream.home is not None:
            asked.home, asked.context = stream.home, context
    group = asked.groups.get(current_caller()) if asked.groups else None
    if group is None:
        part = Part(rank, calls)
        op = Op(part, _LANE, part.nbytes, site)
        tail = rank.tail  # queue(), written out
        if not tail.done and tail is not stream.tail and stream.branch is None:
            stream.wait(tail)
        runtime.submit(stream, op, runtime.costs.collective, runtime.kernel_latency)
        if op.work is part and stream.branch is None:
            rank.take(part, op)
        else:
            take(op, stream)
    else:
        op = join_group(group, rank, calls, stream, site)
    if runtime.hooks.call is not None:
        count = len(calls)
        act: Act[Any] = Plain((rank, stream))
        if group is None:
            act = Joined(tuple(calls), (rank,) * count, (stream,) * count)
        runtime.hooks.call(verb.__name__, enter, runtime.host_ns, site, act)
    return op


def _keep(asked: Asked, key: tuple[Any, ...]) -> None:
    """Keep *asked*, for which *key* asks, for the next call with the same arguments."""
    try:
        places = _at_places(key)
    except TypeError:  # an address, or an object that may have other memory next time
        return
    known = asked.rank.known
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[key] = known[places] = asked


def _at_places(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *key* with the bytes that its buffers are: a program may make the same parts of a buffer again and again.

    Raises:
        TypeError: They are not what handles of memory are, and may be other bytes next time.
    """
    verb, buffers, *others = key
    return verb, tuple(map(_place, buffers)), *others


def _place(memory: Memory | None) -> tuple[Any, ...]:
    if memory is None:
        return ()
    if isinstance(memory, Array):
        return *_place(memory.buffer), memory.nbytes, memory.dtype
    if isinstance(memory, Buffer):
        return memory.allocation, memory.offset, memory.nbytes
    raise TypeError("this is no handle of memory")


def _stream_of(scope: Scope, name: str, rank: Communicator, stream: StreamLike) -> Stream:
    """Return the stream that *stream* means in a call of the verb *name* for *rank*; refuse one of another device."""
    runtime, current = scope.runtime, scope.context.device
    if stream is None and current is not rank.device:
        raise runtime.error(
            Kind.INVALID_COLLECTIVE,
            f"{name}() of {rank!r} on the default stream of device {current.ordinal}",
            f"SetDevice({rank.device.ordinal}) first, or pass a stream of that device",
        )
    stream = resolve(scope, stream, name, captures=True)
    if stream.context.device is not rank.device:
        raise runtime.error(
            Kind.INVALID_COLLECTIVE,
            f"{name}() of {rank!r} on {stream!r}",
            f"pass a stream of device {rank.device.ordinal}",
        )
    return stream
