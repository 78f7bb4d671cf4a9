"""Begin a simulation, and run a program in it.

acl_py.run(main)                             runs a coroutine function, like asyncio.run
async with acl_py.simulate() as sim: ...     inside a running loop
sim = acl_py.open(); ...; await sim.close()  the same in two halves, for notebooks
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from acl_py.errors import DeadlockError, full_text
from acl_py.findings import Findings
from acl_py.options import HOST_TIMES, Options
from acl_py.parts import NEEDS_MODEL, SanitizerPart, parts_of
from acl_py.runtime.runtime import MeasuredRuntime, Runtime
from acl_py.runtime.scopes import SUCCESS, Scope, last_error, opened, scope_var
from acl_py.sanitizer.watch import current_watch, note_begin, of_verbs
from acl_py.schedules import Effects, effects_of
from acl_py.simulation import Simulation, recorder_of
from acl_py.sites import note_tasks
from acl_py.waiting.bridge import Bridge
from acl_py.waiting.browser import IN_BROWSER, page_set_aside, running_loop
from acl_py.waiting.clock import borrow, new_event_loop, uvloop_loop
from acl_py.waiting.interrupts import admit
from acl_py.waiting.loops import CLOCK
from device_model.errors import coroutine_text
from device_model.rules import SyncRules

if TYPE_CHECKING:
    from acl_py.trace import Trace
    from device_model.profile import DeviceProfile

_T = TypeVar("_T")
_HOST_TIMES = dict(zip(HOST_TIMES, (Runtime, MeasuredRuntime), strict=True))


def run(
    main: Callable[..., Awaitable[_T]],
    *args: Any,
    device: "str | Path | DeviceProfile" = "h200",
    rules: str | SyncRules | None = None,
    workers: int | None = None,
    uvloop: bool = False,
    host_time: str = "modelled",
    trace: bool = True,
    instructions: int = 0,
    seed: int = 0,
    hang_after: float | None = None,
    clock: str | None = None,
    sanitize: bool | str | None = None,
    effects: str | None = None,
    overlay: str | Path | None = None,
    bodies: str | None = None,
    hccl_timeout_s: float | None = None,
    values: bool = True,
) -> _T:
    """Run the coroutine function *main* with *args* in a new simulation, and return its result.

        async def main(nbytes):
            buffer = await acl_py.Malloc(nbytes)
            await acl_py.Free(buffer)
            return acl_py.current_simulation().now_ns

        print(acl_py.run(main, 4096, device="h200"))

    The event loop is a new one. The options, and the errors for their values, are those of `simulate`, which explains
    them in full.

    Args:
        main: The coroutine function.
        args: Its arguments.
        device: The name of a profile, the path of a `.toml` file, or a DeviceProfile; or "cuda:0" or "npu:0" for a
            card of this machine (docs/card.md).
        rules: Which call waits for what: "cuda", "cuda_per_thread", "acl", or a SyncRules. By default the profile's.
        workers: How many threads run the functions of large kernels.
        uvloop: Whether the event loop is one of uvloop, which must be installed.
        host_time: "modelled": a call costs what the profile says. "measured": real time between calls counts, too.
        trace: Whether to record every operation and call.
        instructions: How many instructions of each launch of a core kernel the trace keeps.
        seed: Where the random numbers begin.
        hang_after: Real seconds after which a wait that only the outside could end is a deadlock. None: never.
        clock: "simulated": timers of asyncio, such as asyncio.sleep, ring in simulated time (docs/time.md); the
            default. "real": they ring in real time.
        sanitize: True: look for races and other mistakes; a text names the parts, as "device,leaks".
        effects: "strong": operations have their effects at their ends. "weak": operations that no promise
            puts in order take effect in the other order. "torn": the same, with half of the bytes.
        overlay: What calls take on another host, or from a framework: "torch", or the path of a `.toml` file.
        bodies: On a card only: what launches of kernels with a body in Python do: "refuse", "host" or "time".
        hccl_timeout_s: Under ACL's rules: after how many seconds ranks that wait for each other in a collective fail;
            0: never. None: as HCCL_EXEC_TIMEOUT in the environment says, or after 1,800.
        values: False: no bytes move and nothing is computed; times are as with values (docs/values.md).

    Raises:
        TypeError: *main* is not a function, but perhaps what calling it returned.
        RuntimeError: An event loop runs already in this thread, or uvloop is not installed.
        DeadlockError: *main* waits for something that can never come.
    """
    options = Options(
        device, rules, workers, host_time, trace, instructions, seed, hang_after, clock, sanitize, effects, overlay,
        bodies, hccl_timeout_s, values,
    ).placed()  # fmt: skip
    _check_main(main)
    if running_loop() is not None:
        raise RuntimeError(
            "acl_py.run() inside a running event loop; use `async with acl_py.simulate()` there, "
            "and in a notebook cell `sim = acl_py.open()`, then `await main()`"
        )

    async def whole() -> _T:
        with _simulating(options), _ending_deadlocks():
            return await called(main, *args)

    loop_factory = _loop_factory("real" if options.card is not None else options.clock, uvloop)
    with page_set_aside(), asyncio.Runner(loop_factory=loop_factory) as runner:
        result = runner.run(whole())
        admit()  # a signal that came while the simulation ended
        return result


@asynccontextmanager
async def simulate(
    *,
    device: "str | Path | DeviceProfile" = "h200",
    rules: str | SyncRules | None = None,
    workers: int | None = None,
    host_time: str = "modelled",
    trace: bool = True,
    instructions: int = 0,
    seed: int = 0,
    hang_after: float | None = None,
    clock: str | None = None,
    sanitize: bool | str | None = None,
    effects: str | None = None,
    overlay: str | Path | None = None,
    bodies: str | None = None,
    hccl_timeout_s: float | None = None,
    values: bool = True,
) -> AsyncIterator[Simulation]:
    """Begin a simulation in a running event loop, for the calling task and the tasks that it makes; end it with the
    block.

        async with acl_py.simulate(device="ascend910b3") as sim:
            stream = await acl_py.CreateStream()
            await acl_py.SynchronizeStream(stream)
        print(sim.report())

    Args:
        device: The name of a profile, the path of a `.toml` file, or a DeviceProfile; or "cuda:0" or "npu:0" for a
            card of this machine (docs/card.md).
        rules: Which call waits for what: "cuda", "cuda_per_thread", "acl", or a SyncRules. By default the profile's.
        workers: How many threads run the functions of large kernels. By default one for each
            processor that the process may use. The result does not depend on it.
        host_time: "modelled": a call costs what the profile says, so that every run has the same times. "measured":
            the real time that passes between two calls counts as host time, too.
        trace: Whether to record every operation and call. Without it `Simulation.trace` raises RuntimeError.
        instructions: How many instructions of each launch of a core kernel the trace keeps.
        seed: Where the random numbers of `Simulation.rng`, and of fault rules with a chance, begin.
        hang_after: Real seconds after which a wait is a deadlock although something outside the simulation (a timer,
            a socket, another thread) could still end it. None: never.
        clock: "simulated": timers of asyncio ring in simulated time (docs/time.md). A loop that is not one of
            `new_event_loop` has simulated time for the length of the simulation. "real": timers ring in real time. By
            default the loop decides; where its time is real, there is a RuntimeWarning if a task waits for a device
            while a timer of less than a minute is set.
        sanitize: True: look for races, errors in the lives of objects, reads of unwritten bytes, and leaks
            (docs/sanitizer.md); `Simulation.findings` has them. A text such as "device,leaks" names the parts: device,
            host, uninitialised, leaks, digest. False: look for nothing. By default what `acl-py run --sanitize` or
            `pytest --acl-sanitize` says; otherwise nothing.
        effects: "strong": operations have their effects whole, at their ends. "weak": a reader that no promise puts
            behind a write sees the old bytes, whatever the times are (docs/sanitizer.md). "torn": it sees every other
            block of 32 bytes old. By default what `acl-py run --effects` or `acl-py explore --effects` says; otherwise
            "strong".
        overlay: What calls take on another host, or from a framework: the name of an overlay ("torch") or the path of
            a `.toml` file, whose values take the place of the profile's (docs/programs/replays.md).
        bodies: On a card only: what the launch of a kernel with a body in Python does. "refuse": it is refused; the
            default. "host": the body runs on the host, in its turn in the stream. "time": the cores are busy as long as
            its cost says, and no byte changes (docs/card/bodies.md).
        hccl_timeout_s: Under ACL's rules: after how many seconds ranks that wait for each other in a collective fail;
            0: never. None: as HCCL_EXEC_TIMEOUT in the environment says, or after 1,800.
        values: False: no bytes move, functions of array kernels do not run, and collectives reduce nothing; times are
            as with values (docs/values.md). What needs a value is refused by name.

    Raises:
        TypeError: An option is of a type that it cannot be of.
        ValueError: An option has a value that it cannot have.
        ProfileError: The profile or the overlay cannot be used; a ValueError.
        RuntimeError: No event loop is running, or it cannot have that clock.
        ImportError: The device is a card, and the package cuda-bindings is not installed.
        AclError: The device is a card that is not there, or this process has lost it.
    """
    options = Options(
        device, rules, workers, host_time, trace, instructions, seed, hang_after, clock, sanitize, effects, overlay,
        bodies, hccl_timeout_s, values,
    ).placed()  # fmt: skip
    with _simulating(options) as sim:
        yield sim


def open(  # noqa: A001 - acl_py.open is the name
    *,
    device: "str | Path | DeviceProfile" = "h200",
    rules: str | SyncRules | None = None,
    workers: int | None = None,
    host_time: str = "modelled",
    trace: bool = True,
    instructions: int = 0,
    seed: int = 0,
    hang_after: float | None = None,
    clock: str | None = None,
    sanitize: bool | str | None = None,
    effects: str | None = None,
    overlay: str | Path | None = None,
    bodies: str | None = None,
    hccl_timeout_s: float | None = None,
    values: bool = True,
) -> Simulation:
    """Begin a simulation for every task of the process that is in no other, until `await sim.close()`.

    For notebooks, where each cell runs in a task of its own. The options, and what is raised, are those of `simulate`.

        sim = acl_py.open(rules="acl")
        stream = await acl_py.CreateStream()
        ...
        await sim.close()
    """
    options = Options(
        device, rules, workers, host_time, trace, instructions, seed, hang_after, clock, sanitize, effects, overlay,
        bodies, hccl_timeout_s, values,
    ).placed()  # fmt: skip
    sim, scope = _begin(options)
    opened.append(scope)
    last_error.set(SUCCESS)
    return sim


def _check_main(main: object) -> None:
    """Refuse what is no function, such as what calling a coroutine function returned."""
    if not callable(main):
        what = repr(main)
        if isinstance(main, Coroutine):
            what = coroutine_text(main)
            main.close()  # this error says enough: no warning that it was never awaited
        raise TypeError(f"acl_py.run() takes a coroutine function and its arguments, run(main, ...), not {what}")


def called(main: Callable[..., Awaitable[_T]], *args: Any) -> Awaitable[_T]:
    """Call the coroutine function *main*, and return what is to be awaited.

    Raises:
        TypeError: *main* is another function.
    """
    answer = main(*args)
    if not isawaitable(answer):
        name = getattr(main, "__name__", repr(main))
        what = "None" if answer is None else f"an object of {type(answer).__name__}"
        raise TypeError(f"run() takes a coroutine function, and {name}() returned {what}: write `async def {name}`")
    return answer


@contextmanager
def _simulating(options: Options) -> Iterator[Simulation]:
    sim, scope = _begin(options)
    token, error_token = scope_var.set(scope), last_error.set(SUCCESS)
    is_closed = False
    try:
        yield sim
    except SystemExit:  # the program has chosen to end
        raise
    except BaseException as error:
        is_closed = isinstance(error, GeneratorExit)  # a generator or a coroutine, perhaps by another task
        if (recorder := recorder_of(sim)) is not None:
            recorder.error = type(error).__name__ if is_closed else full_text(error)
        if sim.runtime.sanitizer is not None:
            sim.runtime.sanitizer.end_with_error()
        raise
    finally:
        if not is_closed or scope_var.get() is scope:
            scope_var.reset(token)
            last_error.reset(error_token)
        sim.end()


def _begin(options: Options) -> tuple[Simulation, Scope]:
    loop = asyncio.get_running_loop()
    runtime, recorder = build(options)
    _set_clock(options, loop)
    if options.card is None:
        runtime.bridge = Bridge(runtime, warns_of_timers=options.clock is None)
    note_tasks(loop)
    first = runtime.device(runtime.first)
    first.uses = 1
    simulation = Simulation(runtime, recorder, loop)
    for follow in of_verbs:
        follow(simulation)
    return simulation, Scope(runtime, first.primary)


def _set_clock(options: Options, loop: asyncio.AbstractEventLoop) -> None:
    """See to it that *loop* has the clock that the *options* ask for."""
    if options.clock == "simulated" and not hasattr(loop, CLOCK):
        borrow(loop)
    elif options.clock == "real" and hasattr(loop, CLOCK):
        raise RuntimeError(
            "clock='real' in an event loop with simulated time: leave it out, or run the program with "
            "acl_py.run(main, clock='real')"
        )


@contextmanager
def _ending_deadlocks() -> Iterator[None]:
    """Cancel the calling task when all tasks of its loop wait for one another, and raise DeadlockError at its end."""
    clock, task = getattr(asyncio.get_running_loop(), CLOCK, None), asyncio.current_task()
    deadlocks: list[DeadlockError] = []
    assert task is not None, "a coroutine runs in a task"

    def end(error: DeadlockError) -> None:
        deadlocks.append(error)
        task.cancel()

    if clock is not None:
        clock.on_deadlock = end
    try:
        yield
    except asyncio.CancelledError:
        if deadlocks:
            raise deadlocks[-1] from None
        raise


def _loop_factory(clock: str | None, uvloop: bool) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if clock == "real":
        if IN_BROWSER:
            raise RuntimeError("clock='real' cannot be had while Python in a browser runs: leave it out")
        return uvloop_loop if uvloop else None
    return partial(new_event_loop, uvloop=uvloop)


def build(options: Options) -> "tuple[Runtime, Trace | None]":
    """Return a runtime without a bridge, and its recorder; None without `trace`.

    Raises:
        TypeError: an option is of a type that it cannot be of.
        ValueError: an option has a value that it cannot have. ProfileError, a ValueError, if it is the device or the
            overlay.
    """
    options.check()
    watch = current_watch()
    parts = parts_of(options.sanitize) if options.sanitize is not None else watch.parts if watch else frozenset()
    if options.card is not None:
        from acl_py.card.opening import build as on_card  # imported here: most programs use no card

        card = on_card(options)
        recorder = _recorder(options, card, 0) if options.trace else None
        note_begin(card, recorder)
        if parts & NEEDS_MODEL:
            card.state(Findings).note("reads of unwritten bytes are not looked for on a card: the model knows them")
        if parts - NEEDS_MODEL:
            _sanitize(card, parts - NEEDS_MODEL)
        return card, recorder
    profile, rules = options.profile_and_rules()
    effects = effects_of(options.effects)
    runtime = _HOST_TIMES[options.host_time](
        profile, rules, workers=options.workers, seed=options.seed, hang_after=options.hang_after, values=options.values
    )
    runtime.hccl_timeout_s = options.hccl_timeout_s
    if effects is not Effects.STRONG:
        _reverse_effects(runtime, torn=effects is Effects.TORN)
    instructions = options.instructions or (watch.instructions if watch else 0)
    recorder = _recorder(options, runtime, instructions) if options.trace else None
    note_begin(runtime, recorder)
    if not options.values:
        parts = _without_bytes(runtime, parts)
    if parts or effects is not Effects.STRONG:
        _sanitize(runtime, parts)
    return runtime, recorder


def _without_bytes(runtime: Runtime, parts: frozenset[SanitizerPart]) -> frozenset[SanitizerPart]:
    """Return the *parts* that a run without values can look at, and note what it does not look at."""
    if parts & NEEDS_MODEL:
        runtime.state(Findings).note("reads of unwritten bytes are not looked for: values are off (values=False)")
    return parts - NEEDS_MODEL


def _recorder(options: Options, runtime: Runtime, instructions: int) -> "Trace":
    from acl_py.trace import Trace  # imported here: what is only imported records nothing

    recorder = Trace(
        runtime.unfinished,
        instructions=instructions,
        device=runtime.profile.name,
        overlay=runtime.profile.overlay,
        rules=runtime.rules.name,
        host_ns=lambda: runtime.host_ns,
        callers=runtime.callers,
        host_time=options.host_time,
    )
    runtime.hooks.add(recorder)
    return recorder


def _reverse_effects(runtime: Runtime, *, torn: bool) -> None:
    from acl_py.sanitizer.reversed_effects import ReversedEffects  # imported here: most programs have none

    runtime.workers = ReversedEffects(runtime.scheduler, torn=torn)


def _sanitize(runtime: Runtime, parts: frozenset[SanitizerPart]) -> None:
    from acl_py.sanitizer.sanitizer import Sanitizer  # imported here: most programs are not sanitized

    runtime.sanitizer = Sanitizer(runtime, parts)
    runtime.hooks.add(runtime.sanitizer)
