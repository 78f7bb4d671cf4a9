"""Injection: how the fault rules of a runtime get at its calls and operations.

No rule costs anything where none is in force. A call asks one question anyway, whether its context is on the alert,
which a rule brings about as a failure does. Operations are looked at by another `submit`, which a runtime has only as
long as it has rules.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from device_model.completions import Nanoseconds
from device_model.contexts import Context
from device_model.device import Device
from device_model.faults import REMEDY, Rule, Verdict
from device_model.ops import Op
from device_model.staging import enqueue_within_instant
from device_model.streams import Stream

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime

_Submit = Callable[[Stream, Op, Nanoseconds, Nanoseconds], None]


def install(runtime: "Runtime", rule: Rule) -> None:
    """Let *rule* be in force, behind those that are."""
    rules = runtime.faults.rules
    if not rules:
        runtime.submit = partial(_submit, runtime, runtime.submit)  # type: ignore[method-assign]
    rules.append(rule)
    for device in runtime.devices:
        watch(runtime, device)


def uninstall(runtime: "Runtime", rule: Rule) -> None:
    """Let it be in force no longer; what it has struck stays struck."""
    rules = runtime.faults.rules
    assert rule in rules, f"{rule!r} is not in force"
    rules.remove(rule)
    if not rules:
        del runtime.submit  # the class has one that asks nobody
    for device in runtime.devices:
        watch(runtime, device)


def watch(runtime: "Runtime", device: Device) -> None:
    """Let what happens on *device* be looked at, if there are rules."""
    has_rules = bool(runtime.faults.rules)
    device.watch_calls(has_fault_rules=has_rules)
    device.staging.enqueue = partial(_stage, runtime) if has_rules else enqueue_within_instant


def strike_call(runtime: "Runtime", context: Context, name: str) -> None:
    """Apply the first fault rule that strikes a call of *name* in *context*, if any: delay the call, or raise."""
    rule = runtime.faults.of_call(name, runtime.host_ns)
    if rule is None:
        return
    if rule.verdict is Verdict.DELAY:
        runtime.pay(rule.delay_ns)
        return
    if rule.verdict is Verdict.LOSE:
        runtime.faults.lose(rule, context.device)
        raise runtime.lost(context)
    raise runtime.error(rule.kind, f"{name}() failed: injected by {rule!r}", REMEDY, code=rule.code)


def _submit(
    runtime: "Runtime", submit: _Submit, stream: Stream, op: Op, cost: Nanoseconds, latency_ns: Nanoseconds
) -> None:
    submit(stream, op, cost, latency_ns + runtime.faults.strike(op, stream, runtime.host_ns))


def _stage(runtime: "Runtime", stream: Stream, op: Op, ready_ns: Nanoseconds) -> None:
    enqueue_within_instant(stream, op, ready_ns + runtime.faults.strike(op, stream, runtime.scheduler.now))
