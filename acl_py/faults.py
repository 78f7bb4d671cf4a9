"""Fault rules for a simulation: `with sim.fault(faults.fail(call="Malloc", nth=3)): ...`.

Each function here makes one rule. What it looks at is either *call*, a verb's name, or *op*, a kind of operation
("h2d", "d2h", "d2d", "p2p", "fill", "kernel", "host_function"); both may have wildcards. *name* is the name of a kernel
or host function, *stream* that of a stream ("stream 1"). Of what
matches, *nth*=3 strikes the third only, *every*=3 each third, and *chance*=0.5 each with that probability, drawn from
the simulation's own generator; *since_us* and *until_us* bound the simulated time. Without any of these a rule strikes
whenever it matches. If several rules would strike, the first one does.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from inspect import getdoc, iscoroutinefunction
from sys import _getframe
from types import MappingProxyType
from typing import Any

from acl_py.errors import Kind
from acl_py.runtime import injection
from acl_py.runtime.runtime import Runtime
from acl_py.sites import site_of
from acl_py.verbs import (
    callbacks,
    copies,
    devices,
    events,
    failures,
    fills,
    host,
    kernels,
    memory,
    peers,
    signals,
    streams,
)
from device_model.faults import Rule as Rule
from device_model.faults import SlowCurve, Verdict
from device_model.memory import Buffer, Limit, size_text
from device_model.scheduler import END_NS, nanoseconds

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_OPS = ("h2d", "d2h", "d2d", "p2p", "fill", "kernel", "host_function")


class FaultError(ValueError):
    """A fault rule with arguments that make no rule; the message says what is wrong."""


End = Callable[[], None]  # takes a rule out of force


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that is not in force yet, for `Simulation.fault`; *made* is the line that made it."""

    text: str
    made: object
    put: Callable[[Runtime, str, object], tuple[Rule, End]]

    def __repr__(self) -> str:
        return f"<Fault {self.text}>"

    def install(self, runtime: Runtime) -> tuple[Rule, End]:
        """Put it in force in *runtime*: the rule, which counts, and how to end it."""
        return self.put(runtime, self.text, self.made)


class Guard:
    """Some rules in force, until `remove()` or the end of a `with` block. Rules count what they see and strike."""

    def __init__(self, runtime: Runtime, faults: Sequence[Fault]) -> None:
        if not faults:
            raise TypeError("fault() takes one rule or more")
        self.rules: list[Rule] = []
        self._ends: list[End] = []
        try:
            for fault in faults:
                rule, end = fault.install(runtime)
                self.rules.append(rule)
                self._ends.append(end)
        except BaseException:
            self.remove()
            raise

    def __repr__(self) -> str:
        return f"<Guard of {', '.join(f'{rule.text}, struck {rule.struck} of {rule.seen}' for rule in self.rules)}>"

    def __enter__(self) -> Rule:
        return self.rules[0]

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Take the rules out of force; what they have struck stays struck. Again does nothing."""
        while self._ends:
            self._ends.pop()()


def fail(*, kind: Kind | str | None = None, code: int | None = None, **where: Any) -> Fault:
    """A call fails at once and changes nothing; an operation fails at its end. *kind* says how, or a vendor's *code*,
    which then stands for the kind that has it under the rules in force, if any has.
    """
    known = None if kind is None else _kind(kind)
    said = ({} if known is None else {"kind": known.name}) | ({} if code is None else {"code": code})
    return _fault("fail", Verdict.FAIL, where, said, kind=known, code=code)


def delay(us: float, **where: Any) -> Fault:
    """A call takes *us* microseconds longer; an operation starts that much later, and its engine waits for it."""
    return _fault("delay", Verdict.DELAY, where, {"us": us}, delay_ns=_duration("delay: us", us))


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
    said = {} if memory is None else {"memory": memory}
    return _fault("ecc_error", Verdict.FAIL, where, said, kind=Kind.ECC_ERROR, touching=touching)


def lose_device(**where: Any) -> Fault:
    """The device of the call or operation that it strikes is lost: what it has not finished has no effect, and every
    call fails until ResetDevice().
    """
    return _fault("lose_device", Verdict.LOSE, where, kind=Kind.DEVICE_LOST)


def out_of_memory(*, beyond: int | None = None, **where: Any) -> Fault:
    """Allocations fail: those that match (call="Malloc*", unless you say otherwise), or those by which a device would
    give more than *beyond* bytes in all.
    """
    if beyond is None:
        return _fault("out_of_memory", Verdict.FAIL, {"call": "Malloc*"} | where, kind=Kind.OUT_OF_MEMORY)
    if type(beyond) is not int or beyond < 0 or where:
        raise FaultError(f"out_of_memory: beyond must be a number of bytes, with nothing else, not {beyond!r}, {where}")

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        rule = Rule(Verdict.FAIL, text, made, kind=Kind.OUT_OF_MEMORY)

        def refused(maker: str) -> str:
            rule.count()
            if runtime.hooks.fault is not None:
                runtime.hooks.fault(rule, maker, runtime.host_ns)
            return f"no more than {size_text(beyond)} in all, injected by {rule!r}"

        return rule, runtime.memory.limit(Limit(beyond, refused))

    return Fault(_text("out_of_memory", {"beyond": beyond}), site_of(_getframe(1)), put)


_ENGINES = {  # what an engine is called, and the names of its curves
    "H2D": ("h2d", ("time_of",)),
    "D2H": ("d2h", ("time_of",)),
    "cores": ("cores", ("copy_time", "fill_time", "pinned_fill_time")),
}


def slow(engine: str, factor: float, *, since_us: float = 0, until_us: float | None = None) -> Fault:
    """An engine ("H2D", "D2H" or "cores") takes *factor* times as long for copies and fills that start, and kernels
    that are queued, between *since_us* and *until_us*. Besides it other rules strike the same operations.
    """
    times = ({} if not since_us else {"since_us": since_us}) | ({} if until_us is None else {"until_us": until_us})
    _bounds(times)
    text = _text("slow", {"engine": engine, "factor": factor, **times})
    if engine not in _ENGINES:
        raise FaultError(f"{text}: engine must be H2D, D2H or cores, not {engine!r}")
    if not (isinstance(factor, int | float) and 0 < factor <= END_NS):
        raise FaultError(f"{text}: factor must be more than 0, and no more than 2**62")
    has_kernels = engine == "cores"

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        rule = Rule(Verdict.SLOW, text, made, op="kernel", factor=factor, **_bounds(times))
        attribute, names = _ENGINES[engine]
        curves: list[tuple[object, str, SlowCurve]] = []
        for device in runtime.devices:
            owner = getattr(device, attribute)
            for name in names:
                curve = SlowCurve(getattr(owner, name), rule, runtime.scheduler)
                setattr(owner, name, curve)
                curves.append((owner, name, curve))
        if has_kernels:
            injection.install(runtime, rule)

        def end() -> None:
            for owner, name, curve in curves:
                curve.take_out(owner, name)
            if has_kernels:
                injection.uninstall(runtime, rule)

        return rule, end

    return Fault(text, site_of(_getframe(1)), put)


def parse(text: str, made: object = "the command line") -> Fault:
    """The rule that *text* describes: a function of this module and its arguments, `fail call=Malloc nth=3`.

    Raises:
        FaultError: it describes none; the message says what can be said.
    """
    words = shlex.split(text)
    if not words or words[0] not in MAKERS:
        lines = "".join(f"\n  {name:13} {_summary(maker)}" for name, maker in MAKERS.items())
        raise FaultError(
            f"{text!r} is no fault rule: begin with one of {', '.join(MAKERS)}{lines}\n"
            f"and say which: {', '.join(f'{name}=' for name in _WHERE)}"
        )
    arguments: dict[str, Any] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals:
            raise FaultError(f"{text!r}: {word!r} must be name=value, as in nth=3")
        arguments[name] = _value(value)
    try:
        return replace(MAKERS[words[0]](**arguments), made=made)
    except TypeError as error:
        raise FaultError(f"{text!r}: {error}") from error


MAKERS: Mapping[str, Callable[..., Fault]] = MappingProxyType(
    {each.__name__: each for each in (fail, delay, hang, corrupt, ecc_error, lose_device, out_of_memory, slow)}
)


def _summary(maker: Callable[..., Fault]) -> str:
    return " ".join((getdoc(maker) or "").split("\n\n")[0].split())


def _value(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


_WHERE = ("call", "op", "name", "stream", "nth", "every", "chance", "since_us", "until_us")


def _fault(
    name: str, verdict: Verdict, where: Mapping[str, Any], said: Mapping[str, Any] = _NOTHING, **more: Any
) -> Fault:
    """The rule of the maker *name*, which was called with *where* and what is *said* besides, and has *more*."""
    made = site_of(_getframe(2))
    _bounds(where)
    text = _text(name, {**where, **said})
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
    plain = {key: where[key] for key in ("call", "op", "name", "stream", "nth", "every") if key in where}
    _check_pattern(text, plain)

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        draw = None if chance is None else lambda: bool(runtime.rng.random() < chance)
        details = more | {"kind": _kind_of(runtime, more.get("kind"), more.get("code"))}
        rule = Rule(verdict, text, made, chance=draw, **plain, **_bounds(where), **details)
        injection.install(runtime, rule)
        return rule, lambda: injection.uninstall(runtime, rule)

    return Fault(text, made, put)


def _bounds(where: Mapping[str, Any]) -> dict[str, Any]:
    until = where.get("until_us")
    return {
        "since_ns": _duration("since_us", where.get("since_us", 0)),
        "until_ns": None if until is None else _duration("until_us", until),
    }


def _duration(name: str, us: object) -> int:
    if not isinstance(us, int | float):
        raise FaultError(f"{name} must be 0 or more, not {us!r}")
    try:
        return nanoseconds(name, us, 1000)
    except ValueError as error:
        raise FaultError(str(error)) from None


def _kind_of(runtime: Runtime, kind: Kind | None, code: int | None) -> Kind:
    if kind is not None:
        return kind
    codes = runtime.rules.codes
    return next((kind for kind, known in codes.items() if known.value == code), Kind.UNKNOWN)


def _check_pattern(text: str, where: Mapping[str, Any]) -> None:
    """Refuse what nothing can match: a misspelt rule that never strikes looks like a program that copes."""
    for key, known in (("call", verbs()), ("op", _OPS)):
        pattern = where.get(key)
        if pattern is not None and not (isinstance(pattern, str) and any(fnmatchcase(each, pattern) for each in known)):
            near = get_close_matches(str(pattern), known, 3, 0.5) or known
            raise FaultError(f"{text}: {key} {pattern!r} is none; near it: {', '.join(near)}")


@cache
def verbs() -> tuple[str, ...]:
    """The names of all verbs that a rule can strike: all there are."""
    modules = (callbacks, copies, devices, events, failures, fills, host, kernels, memory, peers, signals, streams)
    return tuple(
        name
        for module in modules
        for name, thing in vars(module).items()
        if iscoroutinefunction(thing) and thing.__module__ == module.__name__ and name == thing.__name__
        and name[0].isupper()
    )  # fmt: skip


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
