"""The runtime: one simulation as its host sees it, with the host clock, all waiting, and the way into the device.

Work enters a device through `Runtime.submit`; a completion is what comes back. A verb passes `Runtime.check_call` if
its context is on alert, checks its arguments, waits for room if it must, and then queues without suspending. So a verb
that is cancelled has queued everything or nothing. All waiting goes through the bridge.

A module above this one that remembers something for each runtime keeps it in a class of its own: `Runtime.state`.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cached_property, partial
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from acl_py import log, schedules
from acl_py.callers import Callers
from acl_py.calls.acts import PLAIN, Act, Synchronised
from acl_py.codes import named_code
from acl_py.errors import AclError, DeadlockError, Kind
from acl_py.findings import Findings
from acl_py.late_imports import import_late
from acl_py.runtime import injection
from acl_py.runtime.awaits import awaited
from acl_py.runtime.captures import Captures
from acl_py.runtime.findings import Speaker
from acl_py.runtime.host import Host
from acl_py.runtime.pools import trim_pool
from acl_py.runtime.routes import asynchronous, routes_of
from acl_py.runtime.scopes import Barred, current_scope, last_error
from acl_py.sites import Site
from acl_py.waiting import deadlocks
from acl_py.waiting.deadlocks import Poll, Waiting
from device_model.chains import Chains
from device_model.completions import Completion, FirstOf, Nanoseconds, await_with
from device_model.contexts import Context
from device_model.device import Device
from device_model.engines.workers import Workers
from device_model.errors import DeviceError, code_of, shown_number
from device_model.events import Event
from device_model.faults import REMEDY, Faults, Rule, Verdict
from device_model.integers import Integer, is_integer
from device_model.links.fabric import Links
from device_model.memory import WITH_VALUES, Buffer, Memory
from device_model.observe import Hooks
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.rules import SyncRules
from device_model.scheduler import END_NS, Scheduler, nanoseconds
from device_model.steps import Turn
from device_model.streams import Stream
from device_model.work import Work

if TYPE_CHECKING:
    import numpy as np

    from acl_py.sanitizer.sanitizer import Sanitizer
    from device_model.profile import DeviceProfile
    from device_model.ptx.text.syntax import Module

T = TypeVar("T")
_COOLED = ("launch", "copy", "copy_on_device", "fill", "record", "wait", "host_function")  # by cold caches
Subjects = Sequence[Stream | Event | Context | Device | Completion | Turn]  # whose work a host waits for


class Limit(NamedTuple):
    """How long a wait may last, in nanoseconds, and the kind of its failure when that time is over."""

    ns: Nanoseconds
    kind: Kind


class Limited(FirstOf):
    """Done with *completion*, or with a timer, *limit_ns* from now. A host that has waited for it must `end` it."""

    __slots__ = ("_runtime", "awaited", "timer")

    def __init__(self, runtime: "Runtime", completion: Completion, limit_ns: Nanoseconds) -> None:
        self._runtime = runtime
        self.awaited = completion
        self.timer = runtime.scheduler.timer(runtime.host_ns + limit_ns)
        runtime.limits[self.timer] = monotonic() + limit_ns / 1e9
        super().__init__((completion, self.timer))

    def end(self) -> None:
        """Stop waiting, and let the timer go."""
        del self._runtime.limits[self.timer]
        self.let_go()
        self._runtime.scheduler.cancel(self.timer)


class Runtime(Host):
    """One simulation: some devices, their memory and one host clock."""

    first = 0  # the device that is current at the beginning
    runs_ptx = False  # a driver runs kernels in PTX
    stages = True  # the host moves bytes of pageable memory to and from pinned memory itself
    moves_pages = True  # pages of managed memory move here, for a host that uses them and for the driver
    hccl_timeout_s: float | None = None  # how long ranks wait for each other under ACL's rules; None: as CANN does
    takes_guests = True  # calls of `acl` and of the driver of CUDA go to this run, if they are made in it

    def __init__(
        self,
        profile: "DeviceProfile",
        rules: SyncRules,
        *,
        workers: int | None = None,
        seed: int = 0,
        hang_after: float | None = None,
        values: bool = True,
    ) -> None:
        self.profile = profile
        self.values = values  # whether bytes move and bodies run
        self.rules = rules
        self.costs = costs = profile.host
        self.copy_cost, self.launch_cost = costs.copy, costs.launch
        self.record_cost, self.wait_cost = costs.record, costs.wait
        self.copy_latency = profile.latency.submit_copy
        self.kernel_latency = profile.latency.submit_kernel
        self.hang_after = hang_after
        self.routes = routes_of(rules.copy_kind)
        self.async_routes = asynchronous(self.routes) if self.stages else self.routes
        self.scheduler = self.make_clock()
        self.hooks = Hooks()
        schedules.enter(self)
        self.workers = Workers(self.scheduler, workers)
        self.memory = self.make_memory()
        self.links = Links(self.scheduler, self.profile.links)
        self.host_ns = 0
        self.horizon_ns = END_NS + 1
        self.waiters = {}
        self.cold = {}
        self.has_launched = False
        self.limits: dict[Completion, float] = {}  # the timer of each wait with a limit: when its real time is over
        self._seed = seed
        self.closed: str | None = None  # why no verb works any more
        self.faults = Faults(self.scheduler, self.hooks)
        self.fault_rules = self.faults.rules
        self.captures = Captures()
        self._devices: dict[int, Device] = {}
        self.callers = Callers()  # what messages, views and findings call tasks and threads
        self.states = {}
        log.listen(self)
        self.hooks.add(Speaker(self.state(Findings)))
        self.at_close: list[Callable[[], None]] = []  # called when the simulation ends
        self.sanitizer: Sanitizer | None = None  # if the program asked for it

    def __repr__(self) -> str:
        return f"<Runtime {self.profile.name} rules={self.rules.name} host_ns={self.host_ns}>"

    @cached_property
    def rng(self) -> "np.random.Generator":
        """Random numbers for programs that want chance and the same run every time."""
        generator: np.random.Generator = import_late("numpy.random").default_rng(self._seed)
        return generator

    def device(self, ordinal: Integer) -> Device:
        """Device number *ordinal*, made when first asked for."""
        number = int(ordinal) if is_integer(ordinal) else -1
        device = self._devices.get(number)
        if device is None:
            if not 0 <= number < self.profile.devices:
                raise self.error(
                    Kind.INVALID_DEVICE,
                    f"there is no device {shown_number(ordinal)}",
                    f"profile {self.profile.name} has devices 0 to {self.profile.devices - 1}",
                )
            device = self._devices[number] = self.make_device(number)
            injection.update_alerts(self, device)
        return device

    def make_clock(self) -> Scheduler:
        """Return the clock of the run, and of its devices."""
        return Scheduler()

    def make_memory(self) -> Memory:
        """Return the memory of the run."""
        memory = self.profile.memory
        capacities = [memory.bytes] * self.profile.devices
        board = self.profile.is_board
        return Memory(capacities, memory.alignment, self.error, is_board=board, values=self.values)

    def make_device(self, number: int) -> Device:
        """Return device *number*."""
        return Device(
            number, self.profile, self.rules, self.scheduler, self.memory, self.workers, self.hooks, self.links
        )

    def load_module(self, module: "Module", text: str, made: object) -> "dict[str, Buffer]":  # noqa: ARG002 - cards
        """Load *module*, which was parsed from *text*, on the current device; return its variables."""
        from device_model.ptx.variables import place  # imported here: most programs have no kernels in PTX

        return place(module, self.memory, current_scope().context.device.ordinal, made)

    def unload_module(self, module: "Module") -> None:
        """Note that *module* is not used any more."""

    def admit(self, rule: Rule) -> None:
        """Raise ValueError if a fault *rule* cannot strike here: without values none can change bytes."""
        if not self.values and rule.verdict is Verdict.CORRUPT:
            raise ValueError(f"{rule.text} changes bytes, and values=False: leave it out, or run with values")

    def check_values(self, what: str) -> None:
        """Refuse *what*, which asks for a value, in a run without values."""
        if not self.values:
            raise self.error(Kind.NOT_SUPPORTED, f"{what} needs a value, and values=False", WITH_VALUES)

    @property
    def devices(self) -> list[Device]:
        """The devices in use so far."""
        return list(self._devices.values())

    def unfinished(self) -> list[Op]:
        """The operations that have not ended, in issue order."""
        return [op for device in self._devices.values() for op in device.unfinished()]

    # --- time

    def work(self, cost: Nanoseconds) -> None:
        """Let the host do work of its own for *cost* nanoseconds."""
        self.pay(cost)

    def cool(self, nbytes: int) -> None:
        """Note that the host has copied *nbytes* itself: many bytes leave its caches cold for the calls that follow."""
        if nbytes >= self.costs.cold_bytes and self.costs.cold_permille:
            self.cold = dict.fromkeys(_COOLED)

    async def wait(
        self,
        completion: Completion,
        what: str | None,
        site: object,
        subjects: Subjects = (),
        *,
        promised: bool = True,
        sleeps: bool = True,
        limit_ns: Nanoseconds | None = None,
    ) -> None:
        """Suspend until *completion*, all work of *subjects* so far, is done, or until *limit_ns* are over.

        A host that *sleeps* pays for its wake-up, and lets other tasks go on even if *completion* is done already. A
        host that takes part in the work itself, or only asks, does not sleep. *promised* is for observers: whether the
        vendor documents that the call waits.
        """
        hooks = self.hooks
        if hooks.awaiting is not None:
            hooks.awaiting(subjects, completion, promised)
        if not completion.done:
            until = completion if limit_ns is None else Limited(self, completion, limit_ns)
            since = self.host_ns
            try:
                await self.bridge.wait(until, partial(Waiting, self.callers, what, until, site))
            except GeneratorExit:
                raise
            except BaseException:
                self.end_wait(Completion(), since)
                raise
            finally:
                if isinstance(until, Limited):
                    until.end()
            self.end_wait(until, since)
            self.pay(self.costs.wake if sleeps else 0)
        elif sleeps:
            await self.bridge.breathe()
        if hooks.synchronized is not None and completion.done:
            hooks.synchronized(completion)

    def end_wait(self, ended: Completion, since: Nanoseconds) -> None:
        """Note that the host has slept from *since* until *ended*; one that is not done stands for a cancelled call."""
        self.skip_real_time()
        if self.hooks.host_waited is not None:
            self.hooks.host_waited(ended, since)

    async def synchronize(
        self,
        name: str,
        completion: Completion,
        what: str,
        site: Site,
        context: Context,
        streams: Iterable[Stream],
        act: Synchronised[Any],
        limit: Limit | None = None,
        asleep_ns: Nanoseconds = 0,
        subjects: Subjects = (),
        freed_in: Stream | None = None,
    ) -> None:
        """Do all of a verb that waits: pay its cost, wait, note the call even if the wait fails, and raise the errors
        of *context* and of *streams*. With a *limit* it waits no longer than that. A host that had to wait pays
        *asleep_ns* on top of its wake-up. *act* and *subjects*, whose work is waited for, are for observers.
        *freed_in* is that of `trim_pool` (pools.py).
        """
        enter = self.host_ns
        if limit is not None:
            act = act._replace(limit_ms=limit.ns // 10**6)
        self.pay(self.costs.sync)
        waits = not completion.done
        try:
            await self.wait(completion, what, site, subjects, limit_ns=None if limit is None else limit.ns)
            if limit is not None and not completion.done:
                raise self._timed_out(limit, completion, what)
            if waits and asleep_ns:
                self.pay(asleep_ns)
            for pool in self.memory.pools_on[context.device.ordinal]:
                if pool.is_holding:
                    trim_pool(self, pool, freed_in=freed_in)
        except GeneratorExit:
            raise
        except BaseException:
            self.called(name, enter, site, act)
            raise
        self.called(name, enter, site, act)
        if context.error is not None:
            raise self.context_error(context)
        self.check_failures(streams)

    def _timed_out(self, limit: Limit, completion: Completion, what: str) -> AclError:
        """Return the error for a wait for *completion* that has reached its limit."""
        links = Chains(self.devices, self.faults.hung).of(completion)
        chain = "".join(f"\n  {line}" for line in deadlocks.lines(links))
        return self.error(
            limit.kind,
            f"{what} has waited {limit.ns / 1e6:g} ms",
            f"the work goes on: wait again, or longer; what it waits for:{chain}",
        )

    async def wait_for_place(self, op: Op, stream: Stream, site: object) -> None:
        """Suspend until a hardware queue takes *op*, which the caller must queue at once; hosts are served in order.

        The stream and the memory of *op* are checked again after the wait.
        """
        if stream.branch is not None or stream.update is not None:
            return  # a node takes no place
        queue = stream.queue_for(op.lane)
        if len(queue.fifo) + queue.reserved >= queue.depth:
            await self.wait_for_room(queue, op.work.label.name, stream, site, lambda: self.check_memory(op.work, op))

    async def wait_for_room(
        self, queue: HardwareQueue, name: str, stream: Stream, site: object, check: Callable[[], object]
    ) -> None:
        """Suspend until *queue* takes one more entry, which the caller must queue at once: of *name* in *stream*, which
        *check* looks at again after the wait.
        """
        if stream.bound:
            raise self.error(Kind.STREAM_FULL, f"{stream!r} takes no more work", "it waits for a model to run it")
        what = f"queuing {name} on {stream.name} waits for room in its hardware queue"
        request = queue.request_place()
        try:
            await self.wait(request, what, site, sleeps=False)
            self.check_stream(stream)
            check()
        except BaseException:
            queue.withdraw(request)
            raise
        queue.take_place(request)
        # Only now it is known which operation has made room.
        await self.wait(request, what, site, (request,), promised=False, sleeps=False)

    def check_failures(self, streams: Iterable[Stream]) -> None:
        """Raise the first failure that *streams* remember; all of them forget theirs."""
        error: DeviceError | None = None
        for stream in streams:
            if stream.error is not None:
                error = error or stream.error
                stream.error = None
                stream.context.failed.pop(stream, None)
        if error is not None:
            raise self.operation_error(error)

    def operation_error(self, error: DeviceError) -> AclError:
        """Return the failure of one operation as the error of the call that finds it."""
        raised = self.error(error.kind, error.what, error.remedy, code=code_of(error))
        raised.__cause__ = error.__cause__ or error
        return raised

    def check_stream(self, stream: Stream) -> None:
        """Raise if *stream* is destroyed, or its context has failed."""
        if stream.destroyed is not None:
            what = f"{stream!r} takes no more work"
            raise self.error(Kind.INVALID_HANDLE, what, "create one with CreateStream()", dead=stream)
        self.check_context(stream.context)

    def check_memory(self, work: Work, owner: object) -> None:
        """Raise if *work*, which *owner* does, touches memory that was freed."""
        for allocation, start, stop in (*work.reads(), *work.writes()):
            if allocation.freed is not None:
                self.memory.locate(Buffer(allocation, start, stop - start), stop - start, f"memory of {owner!r}")

    def called(self, name: str, enter_ns: Nanoseconds, site: Site, act: Act[Any] = PLAIN) -> None:
        """Tell the observers that a call of *name* is over, which began at *enter_ns*, and what it did."""
        call = self.hooks.call
        if call is not None:
            call(name, enter_ns, self.host_ns, site, act)

    def brief_call(self, name: str, enter_ns: Nanoseconds, site: Site, act: Act[Any] = PLAIN) -> None:
        """Pay for a call that only asks, or notes something, and tell the observers of it."""
        self.pay(self.costs.other)
        self.called(name, enter_ns, site, act)

    async def carry_out(self, name: str, site: Site, work: Coroutine[Any, Any, T], act: Act[Any]) -> T:
        """Do the *work* of a call of *name*. The trace has the call even if it fails, unless it was refused at once."""
        enter = self.host_ns
        try:
            result = await work
        except GeneratorExit:
            raise
        except BaseException:
            if self.host_ns > enter:
                self.called(name, enter, site, act)
            raise
        self.called(name, enter, site, act)
        return result

    def check_context(self, context: Context) -> None:
        """Raise the failure of *context*, if it has failed."""
        if context.error is not None:
            raise self.context_error(context)

    def skip_real_time(self) -> None:
        """Note that a wait is over: the real time it took does not count as host time."""

    def check_call(self, context: Context, name: str, *, needs_context: bool = True) -> None:
        """Check whether a call of *name* may begin in *context*, whose `alert` is set. Every verb passes here.

        Raises AclError if a kernel or a host function makes the call, if the context has failed and the verb
        *needs_context*, if a fault rule strikes the call, or if a capture forbids it. A rule may also delay it.
        """
        self.refuse_nested(context, name)
        if needs_context and context.error is not None:
            raise self.context_error(context)
        self._strike(context, name)
        if self.captures.running:
            self.captures.check(self, context, name)

    def _strike(self, context: Context, name: str) -> None:
        """Apply the first fault rule that strikes a call of *name*, if any: delay the call, or raise."""
        rule = self.faults.of_call(name, self.host_ns)
        if rule is None:
            return
        if rule.verdict is Verdict.DELAY:
            self.pay(rule.delay_ns)
            return
        if rule.verdict is Verdict.LOSE:
            self.faults.lose(rule, context.device)
            raise self.context_error(context)
        raise self.error(rule.kind, f"{name}() failed: injected by {rule!r}", REMEDY, code=rule.code)

    @property
    def calling(self) -> Op | None:
        """The host function that runs at the moment."""
        return next((device.calling for device in self.devices if device.calling is not None), None)

    def defers(self, access: Callable[[], None]) -> bool:  # noqa: ARG002 - a card does
        """Return whether *access*, which tells of memory that is touched now, is called when the operation has ended:
        it is a host function in a thread of a driver.
        """
        return False

    def refuse_nested(self, context: Context, name: str) -> None:
        """Refuse a call of *name* that a kernel or a host function makes; part of `check_call`, and all of it for an
        `await` of a completion, which is no verb.
        """
        if isinstance(context, Barred):
            raise self.error(
                Kind.NOT_PERMITTED,
                f"{name}() inside {context.who!r}",
                "a kernel must not call the runtime: make the call on the host, before or after the launch",
            )
        if context.device.calling is not None:
            raise self.error(
                Kind.NOT_PERMITTED,
                f"{name}() inside host function {context.device.calling!r}",
                "a host function must not call the runtime: let it wake a task that makes the call",
            )

    # --- errors

    def error(self, kind: Kind, what: str, remedy: str, *, code: int | None = None, dead: object = None) -> AclError:
        """Return the error for a failing call, which also becomes the last error of the task.

        The rules have a code for each *kind*; *code* replaces it. *dead* is what was freed or destroyed, if the call is
        refused for that.
        """
        if dead is not None and self.hooks.refused is not None:
            self.hooks.refused(dead)
        named = self.rules.codes[kind] if code is None else named_code(code)
        last_error.set(named)
        return AclError(kind, named, what, remedy)

    def refuse(self, kind: Kind, what: str, remedy: str, *, dead: object = None) -> AclError:
        """Return an error as `error` does; the host has found in the middle of a call that it must be refused."""
        self.pay(self.profile.graphs.refused)
        return self.error(kind, what, remedy, dead=dead)

    def limit_ns(self, name: str, amount: int, unit_ns: Nanoseconds) -> Nanoseconds:
        """Return *amount* times *unit_ns*, which a call got as its argument *name*; raise if it is too long."""
        try:
            return nanoseconds(name, amount, unit_ns)
        except ValueError as error:
            raise self.error(Kind.INVALID_VALUE, str(error), "use a shorter limit, or none") from None

    def context_error(self, context: Context) -> AclError:
        """Return the error that *context* has failed with, for one more call that touches it."""
        cause = context.error
        assert cause is not None, f"{context!r} is well"
        if self.closed is not None or cause.kind is Kind.INVALID_CONTEXT:  # not lost, but gone: a reset would not help
            return self.error(cause.kind, cause.what, cause.remedy)
        op = context.failed_op
        error = self.error(
            cause.kind,
            cause.what if op is None else f"{op!r} failed: {cause.what}",
            f"{cause.remedy or 'the context is lost'}; ResetDevice() gives the device a new context",
            code=code_of(cause),
        )
        error.__cause__ = cause.__cause__ or cause
        return error

    def deadlock(self, waiting: Waiting | Poll | None) -> DeadlockError:
        """Return the error for one wait of a program that hangs, or for a poll that can never end."""
        chains = Chains(self.devices, self.faults.hung)
        error = deadlocks.error(waiting, self.waiters, chains, self.callers, held=self._is_held)
        if isinstance(waiting, Waiting) and self.hooks.hung is not None:
            self.hooks.hung(str(waiting), waiting.site, error.links)
        return error

    def end_hangs(self) -> bool:
        """End the kernels that wait for what never happens, as failures; return whether there were any."""
        ended = [device.give_up_waiting() for device in self.devices]
        return any(ended)

    def describe_hang(self) -> str:
        """Say what each waiter waits for."""
        chains = Chains(self.devices, self.faults.hung)
        return deadlocks.describe(self.waiters, chains, self.callers, held=self._is_held)

    @property
    def _is_held(self) -> bool:
        """Whether anything but the limits of waits is scheduled; then a hang means that time is held."""
        return any(subject not in self.limits for subject in self.scheduler.subjects())

    def close(self, why: str) -> None:
        """End the simulation; *why* is what later verbs are refused with."""
        if self.sanitizer is not None:
            self.sanitizer.finish()
        self.shut(why)
        for function in self.at_close:
            function()
        self.workers.close()
        self.bridge.close()

    def shut(self, why: str) -> None:
        """Refuse every verb from now on."""
        self.closed = self.closed or why
        error = DeviceError(Kind.FINALIZED, self.closed, "start a new simulation")
        for device in self._devices.values():
            for context in device.contexts:
                context.lose(error)
                context.failed_ns = self.scheduler.now


class MeasuredRuntime(Runtime):
    """A runtime whose host is also busy in the real time that passes between two calls."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._mark_ns = perf_counter_ns()

    def pay(self, cost: Nanoseconds) -> None:
        """The host is busy for *cost*, and was since the last call."""
        super().pay(cost + self._lap())

    def submit(self, stream: Stream, op: Op, cost: Nanoseconds, latency_ns: Nanoseconds) -> None:
        """Pay *cost*, and the time since the last call, and queue *op* in *stream*."""
        super().submit(stream, op, cost + self._lap(), latency_ns)

    def skip_real_time(self) -> None:
        """Begin to measure again."""
        self._mark_ns = perf_counter_ns()

    def _lap(self) -> Nanoseconds:
        mark, self._mark_ns = self._mark_ns, perf_counter_ns()
        return self._mark_ns - mark


await_with(awaited)
