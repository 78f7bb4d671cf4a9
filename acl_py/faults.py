"""Fault rules for a simulation: `with sim.fault(faults.fail(call="Malloc", nth=3)): ...`.

Each function here makes one rule. A rule looks at calls or at operations, as these arguments say:

    call                  the name of a verb, as "Malloc"; wildcards are allowed, as in "Malloc*"
    op                    a kind of operation: "h2d", "d2h", "d2d", "p2p", "collective", "fill", "prefetch_h2d",
                          "prefetch_d2h", "kernel" or "host_function"; wildcards are allowed
    name                  only with op: the name of a kernel or host function
    stream                only with op: the name of a stream, as "stream 1"
    nth                   of all that match, the rule strikes only this one: 3 is the third
    every                 it strikes each third for 3
    chance                it strikes each with this probability, drawn from the simulation's random generator
    since_us, until_us    it strikes only between these simulated times, in microseconds

A rule without the last five strikes whenever it matches. If several rules would strike, the first one does.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from inspect import getdoc
from sys import _getframe
from textwrap import fill
from types import MappingProxyType
from typing import Any

from acl_py.calls.table import all_verbs
from acl_py.errors import Kind
from acl_py.runtime import injection
from acl_py.runtime.runtime import Runtime
from acl_py.sites import site_of
from device_model.errors import listed
from device_model.faults import Rule as Rule
from device_model.faults import SlowCurve, Verdict
from device_model.frozen import Frozen
from device_model.integers import Integer, is_integer
from device_model.links.fabric import Slowness
from device_model.memory import Buffer, Limit, size_text
from device_model.scheduler import END_NS, nanoseconds

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_OPS = ("h2d", "d2h", "d2d", "p2p", "collective", "fill", "prefetch_h2d", "prefetch_d2h", "kernel", "host_function")


class FaultError(ValueError):
    """A fault rule with wrong arguments; the message says which and why."""


End = Callable[[], None]  # takes a rule out of force


class Fault(Frozen):
    """A rule that is not in force yet, for `Simulation.fault`; *made* is the line that made it."""

    text: str
    made: object
    put: Callable[[Runtime, str, object], tuple[Rule, End]]

    def __repr__(self) -> str:
        return f"<Fault {self.text}>"

    def install(self, runtime: Runtime) -> tuple[Rule, End]:
        """Put the rule in force in *runtime*; return it, with its counts, and a function that takes it out of force."""
        return self.put(runtime, self.text, self.made)


class Guard:
    """Rules in force until `remove()` or the end of a `with` block. Each counts what it has seen and struck."""

    def __init__(self, runtime: Runtime, faults: Sequence[Fault]) -> None:
        if not faults:
            raise TypeError("fault() takes one rule or more, as in fault(faults.fail(call='Malloc'))")
        self.rules: list[Rule] = []
        self._ends: list[End] = []
        try:
            for fault in faults:
                rule, end = fault.install(runtime)
                self.rules.append(rule)
                self._ends.append(end)
                runtime.admit(rule)
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
        """Take the rules out of force. Their effects stay. A second call does nothing."""
        while self._ends:
            self._ends.pop()()


def fail(*, kind: Kind | str | None = None, code: int | None = None, **where: Any) -> Fault:
    """Fail a call at once, without any effect, or an operation at its end. kind= names the error, as OUT_OF_MEMORY; or
    code= gives the vendor's number.

    Args:
        kind: The kind of failure, or its name; UNKNOWN if neither *kind* nor *code* is given.
        code: The vendor's number of the error. The kind is the one with this number under the rules in force, UNKNOWN
            if none has it.
        where: What the rule looks at and when it strikes; see the module.

    Raises:
        FaultError: An argument is wrong.
    """
    known = None if kind is None else _kind(kind)
    said = ({} if known is None else {"kind": known.name}) | ({} if code is None else {"code": code})
    return _fault("fail", Verdict.FAIL, where, said, kind=known, code=code)


def delay(us: float, **where: Any) -> Fault:
    """Make a call us= microseconds longer, or start an operation that much later. Its engine waits for it.

    Args:
        us: The delay in microseconds of simulated time; 0 or more.
        where: What the rule looks at and when it strikes; see the module.

    Raises:
        FaultError: An argument is wrong.
    """
    return _fault("delay", Verdict.DELAY, where, {"us": us}, delay_ns=_duration("delay: us", us))


def hang(**where: Any) -> Fault:
    """Keep an operation from starting. A wait for it is a deadlock unless it has a limit; ResetDevice() ends it.

    Args:
        where: What the rule looks at, by *op*, and when it strikes; see the module.

    Raises:
        FaultError: An argument is wrong.
    """
    return _fault("hang", Verdict.HANG, _ops_only("hang", where))


def corrupt(**where: Any) -> Fault:
    """Let an operation succeed, but leave one wrong byte in the middle of each range that it writes.

    Args:
        where: What the rule looks at, by *op*, and when it strikes; see the module.

    Raises:
        FaultError: An argument is wrong.
    """
    return _fault("corrupt", Verdict.CORRUPT, _ops_only("corrupt", where))


def ecc_error(memory: Buffer | None = None, **where: Any) -> Fault:
    """Fail operations with an uncorrectable error in device memory.

    Args:
        memory: Only operations that read or write this buffer fail; None: all that match.
        where: What the rule looks at, by *op* (all operations if it is missing), and when it strikes; see the module.

    Raises:
        FaultError: An argument is wrong.
    """
    touching = None
    if memory is not None:
        if not isinstance(memory, Buffer):
            raise FaultError(f"ecc_error: memory must be a buffer, not {memory!r}")
        touching = (memory.allocation, memory.offset, memory.offset + memory.nbytes)
    where = {"op": "*"} | _ops_only("ecc_error", where)
    said = {} if memory is None else {"memory": memory}
    return _fault("ecc_error", Verdict.FAIL, where, said, kind=Kind.ECC_ERROR, touching=touching)


def lose_device(device: Integer | None = None, **where: Any) -> Fault:
    """Lose the device of the call or operation, or with device= the one of this number, at once or at since_us=. Its
    unfinished work has no effect, and every call fails until ResetDevice().

    Other ranks of its communicators get their vendor's error for a rank that has failed.

    Args:
        device: The number of the device that is lost when the rule comes into force, or at *since_us*. No other
            argument may be given with it.
        where: What the rule looks at and when it strikes; see the module.

    Raises:
        FaultError: An argument is wrong.
    """
    if device is None:
        return _fault("lose_device", Verdict.LOSE, where, kind=Kind.DEVICE_LOST)
    text = _text("lose_device", {"device": device, **where})
    _check_device(text, "device", device)
    if where.keys() - {"since_us"}:
        raise FaultError(f"{text}: give since_us= or nothing with the number of a device, which is lost then")
    number, since_ns = int(device), _bounds(where)["since_ns"]

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        rule = Rule(Verdict.LOSE, text, made, since_ns=since_ns, kind=Kind.DEVICE_LOST, named=(number,))
        runtime.admit(rule)
        lost = runtime.device(number)

        def lose(_: object) -> None:
            rule.count()
            if runtime.hooks.fault is not None:
                runtime.hooks.fault(rule, f"device {number}", runtime.scheduler.now)
            runtime.faults.lose(rule, lost)

        if since_ns <= runtime.scheduler.now:
            lose(rule)
        else:
            runtime.scheduler.at(since_ns, lose, rule)
        return rule, lambda: runtime.scheduler.forget(rule)

    return Fault(text, site_of(_getframe(1)), put)


def out_of_memory(*, beyond: Integer | None = None, **where: Any) -> Fault:
    """Fail allocations: those that match (call="Malloc*" by default), or with beyond= those that would bring a device
    above this many bytes in all.

    Args:
        beyond: The bytes that a device may give in all. No other argument may be given with it.
        where: What the rule looks at and when it strikes; see the module.

    Raises:
        FaultError: An argument is wrong.
    """
    if beyond is None:
        return _fault("out_of_memory", Verdict.FAIL, {"call": "Malloc*"} | where, kind=Kind.OUT_OF_MEMORY)
    if not is_integer(beyond) or beyond < 0 or where:
        raise FaultError(
            f"out_of_memory: beyond must be a number of bytes, without other arguments, not {beyond!r}, {where}"
        )
    most = int(beyond)

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        rule = Rule(Verdict.FAIL, text, made, kind=Kind.OUT_OF_MEMORY)

        def refused(maker: str) -> str:
            rule.count()
            if runtime.hooks.fault is not None:
                runtime.hooks.fault(rule, maker, runtime.host_ns)
            return f"no more than {size_text(most)} in all, injected by {rule!r}"

        return rule, runtime.memory.limit(Limit(most, refused))

    return Fault(_text("out_of_memory", {"beyond": most}), site_of(_getframe(1)), put)


_ENGINES = {  # by the name of an engine: the attribute of the device, and the names of its curves
    "H2D": ("h2d", ("time_of",)),
    "D2H": ("d2h", ("time_of",)),
    "cores": ("cores", ("copy_time", "node_copy_time", "fill_time", "pinned_fill_time")),
}


def slow(engine: str, factor: float, *, since_us: float = 0, until_us: float | None = None) -> Fault:
    """Slow down an engine: engine= (H2D, D2H or cores) takes factor= times as long. Other rules may strike the same
    operations.

    Args:
        engine: "H2D", "D2H" or "cores".
        factor: How many times as long copies, fills and kernels take; more than 0.
        since_us: The simulated time in microseconds from which on it counts: for copies and fills that start then, and
            for kernels that are queued then.
        until_us: The time from which on it counts no more; None: it counts until the rule is removed.

    Raises:
        FaultError: An argument is wrong.
    """
    times = _times(since_us, until_us)
    text, bounds = _text("slow", {"engine": engine, "factor": factor, **times}), _bounds(times)
    if engine not in _ENGINES:
        raise FaultError(f"{text}: engine must be H2D, D2H or cores, not {engine!r}")
    _check_factor(text, factor)
    has_kernels = engine == "cores"

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        rule = Rule(Verdict.SLOW, text, made, op="kernel", factor=factor, **bounds)

        def strike(at_ns: int) -> None:
            if runtime.hooks.fault is not None:
                runtime.hooks.fault(rule, engine, at_ns)

        attribute, names = _ENGINES[engine]
        curves: list[tuple[object, str, SlowCurve]] = []
        for device in runtime.devices:
            owner = getattr(device, attribute)
            for name in names:
                curve = SlowCurve(getattr(owner, name), rule, runtime.scheduler, strike)
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


def slow_link(
    device: Integer, factor: float, *, to: Integer | None = None, since_us: float = 0, until_us: float | None = None
) -> Fault:
    """Slow down links: those at device=, or with to= those that copies between the two cross, have their rate divided
    by factor=. Copies between devices and collectives share what is left.

    Args:
        device: The number of the device at one end.
        factor: By what the bytes per second of each of these links are divided; more than 0. A transfer that has had
            less than that from the link, as its engine is slower, takes as long as before.
        to: The number of the device at the other end; None: all links of *device*, and its network card.
        since_us: The simulated time in microseconds from which on it counts, also for transfers in progress.
        until_us: The time from which on it counts no more; None: it counts until the rule is removed.

    Raises:
        FaultError: An argument is wrong; or, when it comes into force, the profile has no links.
    """
    said = {"device": device, "factor": factor} | ({} if to is None else {"to": to})
    times = _times(since_us, until_us)
    text, bounds = _text("slow_link", said | times), _bounds(times)
    for name, number in (("device", device), ("to", device if to is None else to)):
        _check_device(text, name, number)
    if to is not None and to == device:
        raise FaultError(f"{text}: to must be another device")
    _check_factor(text, factor)
    named = (int(device),) if to is None else (int(device), int(to))

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        rule = Rule(Verdict.SLOW, text, made, factor=factor, named=named, **bounds)
        links, scheduler = runtime.links, runtime.scheduler
        if links.spec is None:
            raise FaultError(f"{text}: the profile {runtime.profile.name} has no links between devices")
        for number in named:
            runtime.device(number)  # there must be as many

        def strike() -> None:
            rule.count()
            if runtime.hooks.fault is not None:
                runtime.hooks.fault(rule, f"links of device {named[0]}", scheduler.now)

        slow = Slowness(partial(links.spec.is_at, named[0], named[1] if len(named) > 1 else None), factor, strike)
        if rule.is_in_time(scheduler.now):
            links.slow_down(slow)
        elif rule.since_ns > scheduler.now:
            scheduler.at(rule.since_ns, links.slow_down, slow)
        if rule.until_ns is not None and rule.until_ns > scheduler.now:
            scheduler.at(rule.until_ns, links.restore, slow)
        injection.install(runtime, rule)

        def end() -> None:
            scheduler.forget(slow)
            links.restore(slow)
            injection.uninstall(runtime, rule)

        return rule, end

    return Fault(text, site_of(_getframe(1)), put)


def parse(text: str, made: object = "the command line") -> Fault:
    """Return the rule that *text* describes: a function of this module and its arguments, `fail call=Malloc nth=3`.

    Raises:
        FaultError: It describes none; the message lists the rules and their arguments.
    """
    import shlex  # only the command line and texts of rules need it

    try:
        words = shlex.split(text)
    except ValueError as error:  # a quotation mark without the other one
        raise FaultError(f"{text!r}: {error}") from error
    if not words or words[0] not in MAKERS:
        raise FaultError(f"{text!r}: {listing()}")
    arguments: dict[str, Any] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise FaultError(f"{text!r}: {word!r} must be name=value, as in nth=3")
        arguments[name] = _value(value)
    try:
        return replace(MAKERS[words[0]](**arguments), made=made)
    except TypeError as error:
        raise FaultError(f"{text!r}: {error}") from error


def listing() -> str:
    """Return which rules there are, and their arguments, as lines for a terminal."""
    lines = "".join(_entry(name, _summary(maker)) for name, maker in MAKERS.items())
    return (
        f"a fault rule begins with one of these words:{lines}\n"
        "and goes on with arguments, as in fail call=Malloc nth=3:"
        f"{''.join(_entry(names, meaning) for names, meaning in _HELP.items())}"
    )


MAKERS: Mapping[str, Callable[..., Fault]] = MappingProxyType(
    {
        each.__name__: each
        for each in (fail, delay, hang, corrupt, ecc_error, lose_device, out_of_memory, slow, slow_link)
    }
)


def _summary(maker: Callable[..., Fault]) -> str:
    return " ".join((getdoc(maker) or "").split("\n\n")[0].split())


def _entry(name: str, meaning: str) -> str:
    """Return an entry of a list, on new lines that fit into the 80 columns of a terminal with a frame."""
    indent = " " * 16
    return "\n" + fill(f"{name:<13} {meaning}", 74, initial_indent="  ", subsequent_indent=indent)


def _value(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


_WHERE = ("call", "op", "name", "stream", "nth", "every", "chance", "since_us", "until_us")
_HELP = {
    "call=": "a verb; may have wildcards, such as Malloc*; or",
    "op=": f"a kind of operation: {', '.join(_OPS)}; may have wildcards",
    "name=": "with op=: the name of a kernel or host function",
    "stream=": "with op=: the name of a stream, such as 'copies' or 'stream 1'",
    "nth=": "only this one of those that match, such as 3",
    "every=": "every third of those that match, for 3",
    "chance=": "each with this probability, 0 to 1",
    "since_us=": "only from this simulated time on, in microseconds",
    "until_us=": "only before this simulated time, in microseconds",
}


def _fault(
    name: str, verdict: Verdict, where: Mapping[str, Any], said: Mapping[str, Any] = _NOTHING, **more: Any
) -> Fault:
    """Return the rule of the maker *name*. Its text shows *where* and *said*; the Rule gets *where* and *more*."""
    made = site_of(_getframe(2))
    _bounds(where)
    text = _text(name, {**where, **said})
    for key in where:
        if key not in _WHERE:
            raise FaultError(f"{text}: there is no argument {key}; there are {', '.join(_WHERE)}")
    if ("call" in where) == ("op" in where):
        raise FaultError(f"{text}: give either call=... (it looks at calls) or op=... (it looks at operations)")
    if "call" in where and ("name" in where or "stream" in where):
        raise FaultError(f"{text}: name and stream belong to operations; give op=... instead of call=...")
    for key in ("nth", "every"):
        if key in where and (not is_integer(where[key]) or where[key] < 1):
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
    since, until = where.get("since_us", 0), where.get("until_us")
    since_ns = _duration("since_us", since)
    until_ns = None if until is None else _duration("until_us", until)
    if until_ns is not None and until_ns <= since_ns:
        raise FaultError(f"until_us must be more than since_us, which is {since!r}, and not {until!r}")
    return {"since_ns": since_ns, "until_ns": until_ns}


def _times(since_us: float, until_us: float | None) -> dict[str, float]:
    """Return what a text shows of these times: those that are not the default."""
    return ({} if not since_us else {"since_us": since_us}) | ({} if until_us is None else {"until_us": until_us})


def _check_factor(text: str, factor: object) -> None:
    if not (isinstance(factor, int | float) and 0 < factor <= END_NS):
        raise FaultError(f"{text}: factor must be more than 0 and at most 2**62, not {factor!r}")


def _check_device(text: str, name: str, number: Any) -> None:
    if not is_integer(number) or number < 0:
        raise FaultError(f"{text}: {name} must be the number of a device, from 0 on, not {number!r}")


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


_NOUNS = {"call": "verb", "op": "operation"}


def _check_pattern(text: str, where: Mapping[str, Any]) -> None:
    """Refuse a pattern that nothing can match. A misspelt rule never strikes, and the program would look robust."""
    for key, known in (("call", tuple(all_verbs())), ("op", _OPS)):
        pattern = where.get(key)
        if pattern is not None and not (isinstance(pattern, str) and any(fnmatchcase(each, pattern) for each in known)):
            raise FaultError(f"{text}: there is no {_NOUNS[key]} {pattern!r}; {_nearest(pattern, known)}")


def _nearest(name: object, known: Collection[str]) -> str:
    """Name those of *known* that are like *name*; if none is, the first of them."""
    from difflib import get_close_matches  # only messages need it

    near = get_close_matches(str(name), known, 3, 0.5)
    return f"similar: {', '.join(near)}" if near else f"there are {listed(known)}"


def _ops_only(name: str, where: Mapping[str, Any]) -> dict[str, Any]:
    if "call" in where:
        raise FaultError(f"{name}: it strikes operations, not calls; give op=..., one of {', '.join(_OPS)} or *")
    return dict(where)


def _kind(kind: Kind | str) -> Kind:
    if isinstance(kind, Kind):
        return kind
    if kind not in Kind.__members__:
        raise FaultError(f"fail: acl_py.Kind has no {kind!r}; {_nearest(str(kind).upper(), Kind.__members__)}")
    return Kind[kind]


def _text(name: str, where: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in where.items())})"
