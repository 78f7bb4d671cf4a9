"""The functions that make fault rules."""

from collections.abc import Callable, Mapping
from functools import partial
from sys import _getframe
from types import MappingProxyType
from typing import Any

from acl_py.errors import Kind
from acl_py.faults.checks import (
    FaultError,
    bounds_of,
    check_device,
    check_factor,
    check_pattern,
    duration_of,
    kind_named,
    ops_only,
    text_of,
    times_said,
)
from acl_py.faults.force import End, Fault
from acl_py.runtime import injection
from acl_py.runtime.runtime import Runtime
from acl_py.sites import site_of
from device_model.faults import Rule, SlowCurve, Verdict
from device_model.integers import Integer, is_integer
from device_model.links.fabric import Slowness
from device_model.memory import Buffer, Limit, size_text

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_WHERE = ("call", "op", "name", "stream", "nth", "every", "chance", "since_us", "until_us")


def fail(*, kind: Kind | str | None = None, code: int | None = None, **where: Any) -> Fault:
    """Fail a call at once, without any effect, or an operation at its end. kind= names the error, as OUT_OF_MEMORY; or
    code= gives the vendor's number.

    Args:
        kind: The kind of failure, or its name; UNKNOWN if neither *kind* nor *code* is given.
        code: The vendor's number of the error. The kind is the one with this number under the rules in force, UNKNOWN
            if none has it.
        where: What the rule looks at and when it strikes; see acl_py.faults.

    Raises:
        FaultError: An argument is wrong.
    """
    known = None if kind is None else kind_named(kind)
    said = ({} if known is None else {"kind": known.name}) | ({} if code is None else {"code": code})
    return _fault("fail", Verdict.FAIL, where, said, kind=known, code=code)


def delay(us: float, **where: Any) -> Fault:
    """Make a call us= microseconds longer, or start an operation that much later. Its engine waits for it.

    Args:
        us: The delay in microseconds of simulated time; 0 or more.
        where: What the rule looks at and when it strikes; see acl_py.faults.

    Raises:
        FaultError: An argument is wrong.
    """
    return _fault("delay", Verdict.DELAY, where, {"us": us}, delay_ns=duration_of("delay: us", us))


def hang(**where: Any) -> Fault:
    """Keep an operation from starting. A wait for it is a deadlock unless it has a limit; ResetDevice() ends it.

    Args:
        where: What the rule looks at, by *op*, and when it strikes; see acl_py.faults.

    Raises:
        FaultError: An argument is wrong.
    """
    return _fault("hang", Verdict.HANG, ops_only("hang", where))


def corrupt(**where: Any) -> Fault:
    """Let an operation succeed, but leave one wrong byte in the middle of each range that it writes.

    Args:
        where: What the rule looks at, by *op*, and when it strikes; see acl_py.faults.

    Raises:
        FaultError: An argument is wrong.
    """
    return _fault("corrupt", Verdict.CORRUPT, ops_only("corrupt", where))


def ecc_error(memory: Buffer | None = None, **where: Any) -> Fault:
    """Fail operations with an uncorrectable error in device memory.

    Args:
        memory: Only operations that read or write this buffer fail; None: all that match.
        where: What the rule looks at, by *op* (all operations if it is missing), and when it strikes; see
            acl_py.faults.

    Raises:
        FaultError: An argument is wrong.
    """
    touching = None
    if memory is not None:
        if not isinstance(memory, Buffer):
            raise FaultError(f"ecc_error: memory must be a buffer, not {memory!r}")
        touching = (memory.allocation, memory.offset, memory.offset + memory.nbytes)
    where = {"op": "*"} | ops_only("ecc_error", where)
    said = {} if memory is None else {"memory": memory}
    return _fault("ecc_error", Verdict.FAIL, where, said, kind=Kind.ECC_ERROR, touching=touching)


def lose_device(device: Integer | None = None, **where: Any) -> Fault:
    """Lose the device of the call or operation, or with device= the one of this number, at once or at since_us=. Its
    unfinished work has no effect, and every call fails until ResetDevice().

    Other ranks of its communicators get their vendor's error for a rank that has failed.

    Args:
        device: The number of the device that is lost when the rule comes into force, or at *since_us*. No other
            argument may be given with it.
        where: What the rule looks at and when it strikes; see acl_py.faults.

    Raises:
        FaultError: An argument is wrong.
    """
    if device is None:
        return _fault("lose_device", Verdict.LOSE, where, kind=Kind.DEVICE_LOST)
    text = text_of("lose_device", {"device": device, **where})
    check_device(text, "device", device)
    if where.keys() - {"since_us"}:
        raise FaultError(f"{text}: give since_us= or nothing with the number of a device, which is lost then")
    number, since_ns = int(device), bounds_of(where)["since_ns"]

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        rule = Rule(Verdict.LOSE, text, made, since_ns=since_ns, kind=Kind.DEVICE_LOST, named=(number,))
        runtime.admit(rule)
        lost = runtime.device(number)

        def lose(_: object) -> None:
            rule.count()
            _tell_struck(runtime, rule, f"device {number}", runtime.scheduler.now)
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
        where: What the rule looks at and when it strikes; see acl_py.faults.

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
            _tell_struck(runtime, rule, maker, runtime.host_ns)
            return f"no more than {size_text(most)} in all, injected by {rule!r}"

        return rule, runtime.memory.limit(Limit(most, refused))

    return Fault(text_of("out_of_memory", {"beyond": most}), site_of(_getframe(1)), put)


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
    times = times_said(since_us, until_us)
    text, bounds = text_of("slow", {"engine": engine, "factor": factor, **times}), bounds_of(times)
    if engine not in _ENGINES:
        raise FaultError(f"{text}: engine must be H2D, D2H or cores, not {engine!r}")
    check_factor(text, factor)
    has_kernels = engine == "cores"

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        rule = Rule(Verdict.SLOW, text, made, op="kernel", factor=factor, **bounds)
        strike = partial(_tell_struck, runtime, rule, engine)
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
    times = times_said(since_us, until_us)
    text, bounds = text_of("slow_link", said | times), bounds_of(times)
    for name, number in (("device", device), ("to", device if to is None else to)):
        check_device(text, name, number)
    if to is not None and to == device:
        raise FaultError(f"{text}: to must be another device")
    check_factor(text, factor)
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
            _tell_struck(runtime, rule, f"links of device {named[0]}", scheduler.now)

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


MAKERS: Mapping[str, Callable[..., Fault]] = MappingProxyType(
    {
        each.__name__: each
        for each in (fail, delay, hang, corrupt, ecc_error, lose_device, out_of_memory, slow, slow_link)
    }
)


def _tell_struck(runtime: Runtime, rule: Rule, what: str, at_ns: int) -> None:
    """Tell the observers that *rule* has struck *what*."""
    if runtime.hooks.fault is not None:
        runtime.hooks.fault(rule, what, at_ns)


def _fault(
    name: str, verdict: Verdict, where: Mapping[str, Any], said: Mapping[str, Any] = _NOTHING, **more: Any
) -> Fault:
    """Return the rule of the maker *name*. Its text shows *where* and *said*; the Rule gets *where* and *more*."""
    made = site_of(_getframe(2))
    bounds_of(where)
    text = text_of(name, {**where, **said})
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
    for key in ("name", "stream"):
        if where.get(key) is not None and not isinstance(where[key], str):
            raise FaultError(f"{text}: {key} must be a text, such as 'copy*', not {where[key]!r}")
    chance = where.get("chance")
    if chance is not None and not (isinstance(chance, int | float) and 0 <= chance <= 1):
        raise FaultError(f"{text}: chance must lie between 0 and 1, not {chance!r}")
    plain = {key: where[key] for key in ("call", "op", "name", "stream", "nth", "every") if key in where}
    check_pattern(text, plain)

    def put(runtime: Runtime, text: str, made: object) -> tuple[Rule, End]:
        draw = None if chance is None else lambda: bool(runtime.rng.random() < chance)
        details = more | {"kind": _kind_of(runtime, more.get("kind"), more.get("code"))}
        rule = Rule(verdict, text, made, chance=draw, **plain, **bounds_of(where), **details)
        injection.install(runtime, rule)
        return rule, lambda: injection.uninstall(runtime, rule)

    return Fault(text, made, put)


def _kind_of(runtime: Runtime, kind: Kind | None, code: int | None) -> Kind:
    if kind is not None:
        return kind
    codes = runtime.rules.codes
    return next((kind for kind, known in codes.items() if known.value == code), Kind.UNKNOWN)
