"""acl.prof: subscriptions: what each execution of a model took, sent through a pipe of the program as it happens.

An execution counts as one operator, with the name of the model. It is sent as a record of fixed size when it ends. The
program reads records from the other end of the pipe and asks the get_op_* functions what is in them. A pipe that nobody
reads fills up: what does not fit is kept, and sent with the next record.
"""

import operator
import os
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from acl_py.compat.acl.face.binding import does, gives, runs, takes
from acl_py.compat.acl.face.failed_calls import printable
from acl_py.compat.acl.face.session import INVALID_PARAM, SUCCESS, Session, session
from acl_py.compat.acl.functions.prof.collecting import API_CONFLICT, NOT_RUN, Collecting
from acl_py.compat.acl.standins.computations import Computation
from acl_py.compat.acl.standins.loading import LoadedModel, loaded_model
from acl_py.compat.acl.standins.model_files import bytes_at
from acl_py.errors import AclError
from acl_py.runtime.calls import begin_without_context
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site
from device_model.observe import Observer
from device_model.ops import Op

REPEAT_SUBSCRIBE, INVALID_MODEL_ID = 148046, 100011
_MAGIC = 0x50524F46
_RECORD = Struct("<IIQQ64s256s")  # the sign of a record, model, start, end, type, name
_TYPE, _NAME = 64, 256
_SWITCHES, _METRICS = (0, 1), (*range(9), 0xFF)


@dataclass(eq=False, slots=True)
class SubscribeConfig:
    """Where the records go: the writing end of a pipe."""

    fd: int
    times: bool


@dataclass(slots=True)
class _Subscription:
    model: int
    config: SubscribeConfig
    left: bytearray = field(default_factory=bytearray)  # what the pipe had no room for

    def send(self, record: bytes = b"") -> None:
        """Write what is left, and *record*, as far as there is room."""
        self.left += record
        while self.left:
            try:
                written = os.write(self.config.fd, self.left)
            except BlockingIOError:
                return
            del self.left[:written]


class _Watcher(Observer):
    """Sends a record of each execution of a model that is subscribed."""

    def __init__(self, here: Session) -> None:
        self.here = here
        self.subscriptions: dict[LoadedModel, _Subscription] = {}

    def op_ended(self, op: Op) -> None:
        """Send a record, if it was an execution of such a model."""
        computation = getattr(getattr(op.work, "body", None), "__self__", None)
        if not isinstance(computation, Computation) or not isinstance(computation.of, LoadedModel):
            return
        subscription = self.subscriptions.get(computation.of)
        if subscription is not None:
            name = computation.name.encode()
            record = _RECORD.pack(
                _MAGIC, subscription.model, op.start_ns, op.end_ns, name[: _TYPE - 1], name[: _NAME - 1]
            )
            try:
                subscription.send(record)
            except OSError as error:
                del self.subscriptions[computation.of]
                self.here.warn_once(
                    f"the pipe to which {computation.of!r} is subscribed cannot be written: {error.strerror}; close it "
                    "after acl.prof.model_unsubscribe()"
                )


class _Watchers:
    """The watcher of a runtime, from the first subscription on."""

    def __init__(self) -> None:
        self.one: _Watcher | None = None


def _watcher(here: Session, runtime: Runtime) -> _Watcher:
    state = runtime.state(_Watchers)
    if state.one is None:
        state.one = _Watcher(here)
        runtime.hooks.add(state.one)
    return state.one


@takes("iii")
def create_subscribe_config(times: int, metrics: int, fd: int) -> int:
    """Say what to send: the times of operators if *times* is 1, to the pipe *fd*; 0 if there is no such thing."""
    here = session()
    if times not in _SWITCHES or metrics not in _METRICS:
        here.refuse(INVALID_PARAM, f"times must be 0 or 1, and metrics 0 to 8 or 255; not {times} and {metrics}")
        return 0
    try:
        os.fstat(fd)
    except OSError as error:
        here.refuse(
            INVALID_PARAM, f"{fd} is no open file: {error.strerror}; pass the second number that os.pipe() gave"
        )
        return 0
    return here.handle(SubscribeConfig(fd, bool(times)))


@does("k")
def destroy_subscribe_config(here: Session, handle: int) -> None:
    """End what create_subscribe_config made."""
    here.known(handle, SubscribeConfig)
    here.forget(handle)


@runs("uk")
async def model_subscribe(here: Session, model: int, handle: int) -> None:
    """Send a record of each execution of a model from now on."""
    _, runtime, _, _ = begin_without_context("acl.prof.model_subscribe")
    config, loaded = here.known(handle, SubscribeConfig), loaded_model(here, model)
    state, watcher = runtime.state(Collecting), _watcher(here, runtime)
    if state.path is not None:
        raise here.error(API_CONFLICT, "acl.prof.init() was called: call acl.prof.finalize() before you subscribe")
    if loaded in watcher.subscriptions:
        raise here.error(REPEAT_SUBSCRIBE, f"{loaded!r} is subscribed already")
    os.set_blocking(config.fd, False)  # a full pipe must not hold the simulation
    watcher.subscriptions[loaded] = _Subscription(model, config)
    state.subscribed += 1


async def _unsubscribe(here: Session, model: int, name: str) -> None:
    _, runtime, site, _ = begin_without_context(f"acl.prof.{name}")
    state, watcher = runtime.state(Collecting), _watcher(here, runtime)
    if not state.subscribed:
        raise here.error(NOT_RUN, "no model is subscribed: call acl.prof.model_subscribe() first")
    loaded = here.find(model, LoadedModel)
    if loaded is None or not any(each.model == model for each in watcher.subscriptions.values()):
        raise here.error(INVALID_MODEL_ID, f"{model} is not a model that is subscribed")
    subscription = watcher.subscriptions.pop(loaded)
    state.subscribed -= 1
    _flush(here, subscription, site)


def _flush(here: Session, subscription: _Subscription, site: Site) -> None:
    try:
        subscription.send()
    except OSError as error:
        raise here.error(INVALID_PARAM, f"the pipe cannot be written: {error.strerror}") from error
    if subscription.left:
        lost = -(-len(subscription.left) // _RECORD.size)
        here.warn_once(
            f"{lost} records of operators were lost at {site}, because the pipe is full: read it in a thread"
        )


@runs("u")
async def model_unsubscribe(here: Session, model: int) -> None:
    """Send no more records of a model."""
    await _unsubscribe(here, model, "model_unsubscribe")


@runs("u")
async def model_un_subscribe(here: Session, model: int) -> None:
    """model_unsubscribe, under its older name."""
    await _unsubscribe(here, model, "model_un_subscribe")


# --- records


@takes("")
def get_op_desc_size() -> tuple[int, int]:
    """The bytes of a record."""
    return _RECORD.size, SUCCESS


def _records(here: Session, data: int, size: int) -> list[tuple[Any, ...]]:
    content = bytes_at(here, data, size)
    whole = len(content) // _RECORD.size * _RECORD.size
    records = list(_RECORD.iter_unpack(content[:whole]))
    if not records or any(record[0] != _MAGIC for record in records):
        what = f"the {size} bytes are not records of operators"
        raise here.error(INVALID_PARAM, f"{what}; read a multiple of acl.prof.get_op_desc_size() from the pipe")
    return records


def _record(here: Session, data: int, size: int, index: int) -> tuple[Any, ...]:
    records = _records(here, data, size)
    if index >= len(records):
        raise here.error(INVALID_PARAM, f"there is no record {index}: {size} bytes have {len(records)}")
    return records[index]


def _text(field_: bytes) -> str:
    return printable(field_.rstrip(b"\0").decode(errors="replace"))


@gives("kk")
def get_op_num(here: Session, data: int, size: int) -> int:
    """How many records there are in *data*."""
    return len(_records(here, data, size))


def _limited(here: Session, text: str, length: int) -> str:
    if length <= len(text):
        raise here.error(INVALID_PARAM, f"the text has {len(text)} characters, and there is room for {length - 1}")
    return text


@gives("kkuk", failure="")
def get_op_type(here: Session, data: int, size: int, index: int, length: int) -> str:
    """The type of an operator: the name of the model. It must be shorter than *length*."""
    return _limited(here, _text(_record(here, data, size, index)[4]), length)


@gives("kku", failure=None)
def get_op_type_v2(here: Session, data: int, size: int, index: int) -> str:
    """The type of an operator: the name of the model."""
    return _text(_record(here, data, size, index)[4])


@gives("kku")
def get_op_type_len(here: Session, data: int, size: int, index: int) -> int:
    """The length of the type of an operator, with its end."""
    return len(_text(_record(here, data, size, index)[4])) + 1


@gives("kkuk", failure="")
def get_op_name(here: Session, data: int, size: int, index: int, length: int) -> str:
    """The name of an operator: that of the model. It must be shorter than *length*."""
    return _limited(here, _text(_record(here, data, size, index)[5]), length)


@gives("kku", failure=None)
def get_op_name_v2(here: Session, data: int, size: int, index: int) -> str:
    """The name of an operator: that of the model."""
    return _text(_record(here, data, size, index)[5])


@gives("kku")
def get_op_name_len(here: Session, data: int, size: int, index: int) -> int:
    """The length of the name of an operator, with its end."""
    return len(_text(_record(here, data, size, index)[5])) + 1


def _number(data: int, size: int, index: int, place: int) -> int:
    """A number of a record; 0 if there is none."""
    here = session()
    try:
        return operator.index(_record(here, data, size, index)[place])
    except AclError as error:
        here.failed(error)
        return 0


@takes("kku")
def get_op_start(data: int, size: int, index: int) -> int:
    """When an operator started, in nanoseconds of simulated time; 0 if there is no such record."""
    return _number(data, size, index, 2)


@takes("kku")
def get_op_end(data: int, size: int, index: int) -> int:
    """When an operator ended, in nanoseconds of simulated time; 0 if there is no such record."""
    return _number(data, size, index, 3)


@takes("kku")
def get_op_duration(data: int, size: int, index: int) -> int:
    """How long an operator took, in nanoseconds; 0 if there is no such record."""
    return _number(data, size, index, 3) - _number(data, size, index, 2)


@takes("kku")
def get_model_id(data: int, size: int, index: int) -> int:
    """Which model a record is of; 0 if there is no such record."""
    return _number(data, size, index, 1)
