"""Fault rules for a simulation: `with sim.fault(faults.fail(call="Malloc", nth=3)): ...`.

Each function here makes one rule. What it looks at is either *call*, a verb's name, or *op*, a kind of operation
("h2d", "d2h", "d2d", "fill", "kernel", "host_function"); both may have wildcards. *name* is the name of a kernel or
host function, *stream* that of a stream ("stream 1"). Of what matches, *nth* strikes once, *every* each so-manieth
time, *chance* with that probability, drawn from the simulation's own generator; *since_us* and *until_us* bound the
simulated time. Without any of these a rule strikes whenever it matches. The first rule that strikes wins.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from sys import _getframe
from types import MappingProxyType
from typing import Any

from acl_py.errors import Kind
from acl_py.runtime import Runtime
from acl_py.sites import site_of
from device_model.faults import Rule as Rule
from device_model.faults import Verdict
from device_model.memory import Buffer
from device_model.profile import Curve

_OPS = ("h2d", "d2h", "d2d", "fill", "kernel", "host_function")


class FaultError(ValueError):
    """A fault rule that cannot be."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule to be, for `Simulation.fault`; *install* puts it in force in a runtime and returns how to end that."""

    text: str
    install: Callable[[Runtime], tuple[Rule, Callable[[], None]]]

    def __repr__(self) -> str:
        return f"<Fault {self.text}>"


def fail(*, kind: Kind | str = Kind.UNKNOWN, code: int | None = None, **where: Any) -> Fault:
    """A call fails at once and changes nothing; an operation fails at its end. *code* instead of the kind's own."""
    return _fault("fail", Verdict.FAIL, where, kind=_kind(kind), code=code)


def delay(us: float, **where: Any) -> Fault:
    """A call takes *us* microseconds longer; an operation starts that much later, and its engine waits for it."""
    if not us >= 0:
        raise FaultError(f"delay: us must be 0 or more, not {us!r}")
    return _fault("delay", Verdict.DELAY, where, delay_ns=round(us * 1000))


def hang(**where: Any) -> Fault:
    """An operation never starts. What waits for it is a deadlock, unless it has a limit; ResetDevice() ends it."""
    return _fault("hang", Verdict.HANG, _ops_only("hang", where))


def corrupt(**where: Any) -> Fault:
    """An operation ends well and leaves one wrong byte in the middle of each range that it writes."""
    return _fault("corrupt", Verdict.CORRUPT, _ops_only("corrupt", where))


def ecc_error(memory: Buffer | None = None, **where: Any) -> Fault:
    """Operations that touch *memory*, or that match, fail: an error in device memory that cannot be corrected."""
    touching = None
    if memory is not None:
        if not isinstance(memory, Buffer):
            raise FaultError(f"ecc_error: memory must be a buffer, not {memory!r}")
        touching = (memory.allocation, memory.offset, memory.offset + memory.nbytes)
    where = {"op": "*"} | _ops_only("ecc_error", where)
    return _fault("ecc_error", Verdict.FAIL, where, kind=Kind.ECC_ERROR, touching=touching)


def lose_device(**where: Any) -> Fault:
    """The devices are lost with the call or the operation that it strikes: every call fails until ResetDevice()."""
    return _fault("lose_device", Verdict.LOSE, where, kind=Kind.DEVICE_LOST)


def out_of_memory(*, beyond: int | None = None, **where: Any) -> Fault:
    """Allocations fail: those that match, or all while *beyond* bytes or more are in use on the current device."""
    where = {"call": "Malloc*"} | where

    def install(runtime: Runtime) -> tuple[Rule, Callable[[], None]]:
        def is_full() -> bool:
            memory = runtime.memory
            used = [memory.total_bytes(each.ordinal) - memory.free_bytes(each.ordinal) for each in runtime.devices]
            return max(used) >= (beyond or 0)

        more = {"kind": Kind.OUT_OF_MEMORY, "when": None if beyond is None else is_full}
        return _plain("out_of_memory", Verdict.FAIL, where, made, **more).install(runtime)

    made = site_of(_getframe(1))
    text = _text("out_of_memory", where | ({} if beyond is None else {"beyond": beyond}))
    return Fault(text, install)


def slow(engine: str, factor: float) -> Fault:
    """An engine ("H2D", "D2H" or "cores") takes *factor* times as long for what is queued, or begins, from now on."""
    if engine not in ("H2D", "D2H", "cores"):
        raise FaultError(f"slow: engine must be H2D, D2H or cores, not {engine!r}")
    if not factor > 0:
        raise FaultError(f"slow: factor must be more than 0, not {factor!r}")
    kernels = _plain("slow", Verdict.SLOW, {"op": "kernel"}, site_of(_getframe(1)), factor=factor)

    def install(runtime: Runtime) -> tuple[Rule, Callable[[], None]]:
        rule, end = kernels.install(runtime)
        if engine != "cores":
            end()  # it only stands for the engine
            end = _nothing
        restore = [(curves, name, getattr(curves, name)) for curves, name in _curves(runtime, engine)]
        for curves, name, before in restore:
            setattr(curves, name, Curve([(size, round(time * factor)) for size, time in before.points]))

        def undo() -> None:
            end()
            for curves, name, before in restore:
                setattr(curves, name, before)

        return rule, undo

    return Fault(_text("slow", {"engine": engine, "factor": factor}), install)


def _curves(runtime: Runtime, engine: str) -> Iterator[tuple[Any, str]]:
    """Where the times of an engine's copies and fills stand."""
    for device in runtime.devices:
        if engine == "cores":
            for name in ("copy_time", "fill_time", "pinned_fill_time"):
                yield device.cores, name
        else:
            yield (device.h2d if engine == "H2D" else device.d2h), "time_of"


def _nothing() -> None:
    pass


def parse(text: str) -> Fault:
    """The rule that *text* describes: a function of this module and its arguments, `fail call=Malloc nth=3`.

    Raises:
        FaultError: it describes none; the message says what can be said.
    """
    words = shlex.split(text)
    if not words or words[0] not in MAKERS:
        raise FaultError(f"{text!r} is no fault rule: begin with one of {', '.join(MAKERS)}")
    arguments: dict[str, Any] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals:
            raise FaultError(f"{text!r}: {word!r} must be name=value, as in nth=3")
        arguments[name] = _value(value)
    try:
        return MAKERS[words[0]](**arguments)
    except TypeError as error:
        raise FaultError(f"{text!r}: {error}") from error


MAKERS: Mapping[str, Callable[..., Fault]] = MappingProxyType(
    {each.__name__: each for each in (fail, delay, hang, corrupt, ecc_error, lose_device, out_of_memory, slow)}
)


def _value(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _fault(name: str, verdict: Verdict, where: Mapping[str, Any], **more: Any) -> Fault:
    return _plain(name, verdict, where, site_of(_getframe(2)), **more)


_WHERE = ("call", "op", "name", "stream", "nth", "every", "chance", "since_us", "until_us")


def _plain(name: str, verdict: Verdict, where: Mapping[str, Any], made: object, **more: Any) -> Fault:
    text = _text(name, {**where, **{key: value for key, value in more.items() if key == "code" and value is not None}})
    for key in where:
        if key not in _WHERE:
            raise FaultError(f"{text}: there is no {key}; there are {', '.join(_WHERE)}")
    if ("call" in where) == ("op" in where):
        raise FaultError(f"{text}: it must look at calls (call=...) or at operations (op=...), and not at both")
    if "call" in where and ("name" in where or "stream" in where):
        raise FaultError(f"{text}: name and stream are of operations, not of calls")
    for key in ("nth", "every"):
        if key in where and (type(where[key]) is not int or where[key] < 1):
            raise FaultError(f"{text}: {key} must be a whole number, 1 or more, not {where[key]!r}")
    chance = where.get("chance")
    if chance is not None and not 0 <= chance <= 1:
        raise FaultError(f"{text}: chance must lie between 0 and 1, not {chance!r}")
    until = where.get("until_us")
    plain = {key: where[key] for key in ("call", "op", "name", "stream", "nth", "every") if key in where}

    def install(runtime: Runtime) -> tuple[Rule, Callable[[], None]]:
        draw = None if chance is None else lambda: bool(runtime.rng.random() < chance)
        rule = Rule(
            verdict,
            text,
            made,
            since_ns=round(where.get("since_us", 0) * 1000),
            until_ns=None if until is None else round(until * 1000),
            chance=draw,
            **plain,
            **more,
        )
        runtime.install(rule)
        return rule, lambda: runtime.uninstall(rule)

    return Fault(text, install)


def _ops_only(name: str, where: Mapping[str, Any]) -> dict[str, Any]:
    if "call" in where:
        raise FaultError(f"{name}: only an operation can do that: say op=..., one of {', '.join(_OPS)} or *")
    return dict(where)


def _kind(kind: Kind | str) -> Kind:
    if isinstance(kind, Kind):
        return kind
    if kind not in Kind.__members__:
        raise FaultError(f"there is no kind of failure {kind!r}; there are {', '.join(Kind.__members__)}")
    return Kind[kind]


def _text(name: str, where: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in where.items())})"
