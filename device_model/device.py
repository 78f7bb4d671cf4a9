"""One device, built from a profile: its engines, its hardware queues, its contexts."""

from collections.abc import Callable
from itertools import chain
from sys import maxsize

from device_model.completions import NOTHING, AllOf, Completion, Nanoseconds
from device_model.contexts import Context
from device_model.dispatcher import Dispatcher, Wave
from device_model.engines import CopyEngine, HostThread
from device_model.errors import DeviceError
from device_model.ids import Ids
from device_model.memory import Memory
from device_model.observe import Hooks
from device_model.ops import Op
from device_model.profile import Curve, DeviceProfile, Latencies
from device_model.queues import HardwareQueue
from device_model.rules import SyncRules
from device_model.scheduler import Scheduler
from device_model.signals import Notify, Words
from device_model.staging import Staging
from device_model.streams import Stream
from device_model.work import CoreKernel, Lane, Occupation, dropped
from device_model.workers import INLINE_BYTES, Workers

_Gaps = tuple[Nanoseconds, ...]  # by the lane of what came before


def _gaps(latency: Latencies) -> dict[Lane, tuple[_Gaps, _Gaps]]:
    """How long it takes to start in a lane behind a completion of each, in the same stream and in another."""

    def behind(lane: Lane, own: Nanoseconds) -> _Gaps:
        host_end = latency.host_function_end
        return tuple(host_end if by is Lane.HOST else own if by is lane else latency.engines for by in Lane)

    gaps = {lane: (behind(lane, 0),) * 2 for lane in Lane}  # the gap between two copies is the engine's
    kernels = latency.kernel_same_stream, latency.kernel_other_stream
    gaps[Lane.COMPUTE] = behind(Lane.COMPUTE, kernels[0]), behind(Lane.COMPUTE, kernels[1])
    gaps[Lane.HOST] = (tuple(0 if by is Lane.HOST else latency.host_function_start for by in Lane),) * 2
    return gaps


class Device:
    """The simulated card number *ordinal*; several share a scheduler, and so one time."""

    def __init__(
        self,
        ordinal: int,
        profile: DeviceProfile,
        rules: SyncRules,
        scheduler: Scheduler,
        memory: Memory,
        workers: Workers,
        hooks: Hooks,
    ) -> None:
        self.ordinal = ordinal
        self.profile = profile
        self.rules = rules
        self.scheduler = scheduler
        self.memory = memory
        self.workers = workers
        self.hooks = hooks
        self._flying = workers.flying  # bodies in threads
        self._streams = 0  # how many were made; the numbers of the next ones follow from these
        self._events = 0
        self._notifies = 0
        self._contexts = 0
        self.calling: Op | None = None  # the host function that runs just now
        self.has_fault_rules = False  # calls must look at them before they begin
        self.uses = 0  # SetDevice minus ResetDevice
        self.reaches: dict[int, None] = {}  # the devices to which it has access, by number
        self.stream_ids = Ids(profile.limits.streams)
        self.event_ids = Ids(profile.limits.events)
        self.notify_ids = Ids(profile.limits.notifies)

        self.h2d, self.d2h, self.peer, self.staged = self._copy_engines()
        self.cores = self._dispatcher()
        self.host_thread = HostThread(scheduler, profile.latency.host_function_pause, self.finish)
        self._engines: dict[Lane, Dispatcher | CopyEngine | HostThread] = {
            Lane.COMPUTE: self.cores,
            Lane.H2D: self.h2d,
            Lane.D2H: self.d2h,
            Lane.PEER: self.peer,
            Lane.STAGED: self.staged,
            Lane.HOST: self.host_thread,
        }
        self.staging = Staging(scheduler, profile)
        self.words = Words(scheduler, hooks, workers.join_all)

        self._gaps = _gaps(profile.latency)
        # Streams share these queues. For its host functions each stream has a queue of its own.
        self._shared: dict[Lane, list[HardwareQueue]] = {
            lane: [self._queue(lane, index) for index in range(self._queue_count(lane))]
            for lane in Lane
            if lane is not Lane.HOST
        }
        # Copies and fills outside all streams have queues of their own, which an engine looks at first.
        self.outside = self.private_queues(-1)
        for lane, engine in self._engines.items():
            if isinstance(engine, CopyEngine):
                engine.serve(self._shared[lane], [self.outside[lane]])

        self.primary = self._context(primary=True, made=None)
        self.contexts: list[Context] = [self.primary]

    def _copy_engines(self) -> tuple[CopyEngine, CopyEngine, CopyEngine, CopyEngine]:
        """Make the engines that copy to the device, from it, to other devices, and to those through the host."""
        copies, gap = self.profile.copies, self.profile.latency.copy_gap

        def engine(name: str, curve: Curve, duplex_bytes: int, duplex_permille: int) -> CopyEngine:
            return CopyEngine(self.scheduler, name, curve, gap, duplex_bytes, duplex_permille, self.finish)

        h2d = engine("H2D", copies.h2d, copies.duplex_bytes, copies.duplex_h2d_permille)
        d2h = engine("D2H", copies.d2h, copies.duplex_bytes, copies.duplex_d2h_permille)
        h2d.opposite, d2h.opposite = d2h, h2d
        # Copies to other devices do not slow those from and to the host, nor each other (measured: peer copies).
        peer = engine("P2P", copies.peer, maxsize, 0)
        staged = engine("P2P", copies.peer_staged, maxsize, 0)
        return h2d, d2h, peer, staged

    def _dispatcher(self) -> Dispatcher:
        """Make the engine that runs kernels, and copies and fills inside the device, on the cores."""
        cores, latency, copies = self.profile.cores, self.profile.latency, self.profile.copies
        return Dispatcher(
            self.scheduler,
            cores=cores.count,
            resident_limit=cores.resident_kernels,
            block_overhead_ns=latency.block,
            drain_ns=latency.kernel_drain,
            tail_ns=latency.copy_on_device_tail,
            copy_time=copies.d2d,
            fill_time=copies.fill,
            pinned_fill_time=copies.fill_pinned,
            finish=self.finish,
            begin=self.begin_core,
            finish_core=self.finish_core,
        )

    def __repr__(self) -> str:
        return f"<Device {self.ordinal} {self.profile.name}>"

    def create_context(self, made: object) -> Context:
        """A context beside the primary one, with default streams of its own."""
        context = self._context(primary=False, made=made)
        self.contexts = [each for each in self.contexts if each.destroyed is None or not each.idle]
        self.contexts.append(context)
        return context

    def _context(self, *, primary: bool, made: object) -> Context:
        context = Context(self, self._contexts, primary=primary, made=made)
        self._contexts += 1
        return context

    def reset(self, site: object) -> None:
        """Begin anew: all contexts are gone, what they queued has no effect any more, their memory is free."""
        streams = [stream for context in self.contexts for stream in context.everything()]
        for context in self.contexts:
            context.abandon(site)
        self.memory.free_all(self.ordinal, site)
        self.primary = self._context(primary=True, made=site)
        self.contexts = [self.primary]
        for step in [step for stream in streams for step in stream.steps]:
            step.stop()  # else what stands behind it would keep its place in a hardware queue for ever
        self.scheduler.settle()

    def queues(self, index: int) -> tuple[HardwareQueue, ...]:
        """The queues of the stream with this index, one per lane: they go round in the order of creation (measured)."""
        shared = [queues[index % len(queues)] for queues in self._shared.values()]
        return (*shared, self._queue(Lane.HOST, index))

    def private_queues(self, index: int) -> tuple[HardwareQueue, ...]:
        """Queues that no stream shares."""
        return tuple(self._queue(lane, index) for lane in Lane)

    def _queue_count(self, lane: Lane) -> int:
        """How many queues of *lane* the streams share."""
        return self.profile.queues.compute if lane is Lane.COMPUTE else self.profile.queues.copy

    def _queue(self, lane: Lane, index: int) -> HardwareQueue:
        depth = maxsize if lane is Lane.HOST else self.profile.queues.depth
        return HardwareQueue(self._engines[lane], index, depth, *self._gaps[lane])

    def next_stream(self) -> int:
        """The index of the next stream."""
        self._streams += 1
        return self._streams - 1

    def create_notify(self, made: object) -> Notify:
        """A new notify; one must be left."""
        self.notify_ids.take()
        self._notifies += 1
        return Notify(self, self._notifies, made)

    def next_event(self) -> int:
        """The number of the next event."""
        self._events += 1
        return self._events

    def work(self) -> Completion:
        """The completion of everything queued on this device."""
        return AllOf([context.work() for context in self.contexts])

    def unfinished(self) -> list[Op]:
        """The operations that have not ended, in the order in which they were queued."""
        found: dict[Op, None] = {}
        for queue in chain(*self._shared.values()):
            found.update(dict.fromkeys(queue.fifo))
        found.update((entry[2], None) for entry in self.cores.list)
        for stream in (stream for context in self.contexts for stream in context.everything()):
            found.update(dict.fromkeys(stream.queues[Lane.HOST].fifo))
        found.update(dict.fromkeys(self.host_thread.ready))
        for subject in self.scheduler.subjects():
            match subject:
                case Wave(op=op) | (op, *_):
                    pass
                case _:
                    op = subject
            if isinstance(op, Op) and not op.done and op.stream.context.device is self:
                found[op] = None
        return sorted(found, key=lambda op: op.queued_ns)

    def watch_calls(self, *, has_fault_rules: bool) -> None:
        """Let calls look at the fault rules before they begin, or not."""
        self.has_fault_rules = has_fault_rules
        for context in self.contexts:
            context.update_alert()

    def lose(self, error: DeviceError) -> None:
        """Make every call that touches this device fail with *error*; work that has not ended has no effect."""
        for context in self.contexts:
            if context.error is None:
                context.lose(error)
                context.failed_ns = 0

    def abort(self, stream: Stream, error: DeviceError) -> None:
        """Drop what is queued in *stream*, and stop what runs: its end is now and without effect, but its engine is
        busy until it would have ended. Who asks the stream next is told *error*.
        """
        now = self.scheduler.now
        if stream.idle:
            return
        ops = [op for op in self.unfinished() if op.stream is stream]
        stream.error = error
        for op in reversed(ops):  # so that nobody moves up who is dropped next
            if op.start_ns < 0:
                op.queue.engine.drop(op)
                op.blockers = maxsize  # what it waits for may come, and must not find it
        stream.tail = NOTHING
        stream.pending.clear()
        for step in list(stream.steps):
            step.stop()
        for op in ops:
            op.work = dropped(op.work)
            op.error = error
            op.done, op.end_ns = True, now
            waiters, op.waiters = op.waiters, None
            for waiter in waiters or ():
                waiter.release(op)
        self.scheduler.settle()

    def finish(self, op: Op, now: Nanoseconds) -> None:
        """The time of *op* is over: let it take effect, then release who waits for it."""
        op.end_ns = now
        context = op.stream.context
        if context.error is not None and op.start_ns >= context.failed_ns:
            op.error = context.error
        else:
            try:
                if op.nbytes < INLINE_BYTES and not self._flying:
                    op.work.perform()
                else:
                    self.workers.run(op)
            except BaseException as error:  # the operation ends, whatever its work raises
                context.mark_failed(op, op.work.failure(error))
        op.done = True
        waiters = op.waiters
        if waiters is not None:
            op.waiters = None
            for waiter in waiters:
                waiter.release(op)
        ended = self.hooks.op_ended
        if ended is not None:
            try:
                ended(op)
            except BaseException as error:  # its engine has to go on
                self.scheduler.raise_later(error)

    def tell(self, hook: Callable[..., None] | None, *args: object) -> None:
        """Tell who listens; what a listener raises comes out when the instant is over, for the device has to go on."""
        if hook is not None:
            try:
                hook(*args)
            except BaseException as error:
                self.scheduler.raise_later(error)

    def begin_core(self, op: Op) -> Occupation:
        """A core kernel starts: run it, on what all that ended before has written."""
        if self._flying:
            self.workers.join_all()
        work, context = op.work, op.stream.context
        if not isinstance(work, CoreKernel) or (context.error is not None and op.start_ns >= context.failed_ns):
            return Occupation(0, ((0, op.cores_held),))  # it has been dropped, or has no effect any more
        return work.run()

    def finish_core(self, op: Op, now: Nanoseconds) -> None:
        """The time of a core kernel is over: finish it like any other, then tell what came of running it."""
        self.finish(op, now)
        work, hooks = op.work, self.hooks
        if not isinstance(work, CoreKernel) or work.result is None:  # it never ran
            return
        self.tell(hooks.ran, op, work.result)
        if hooks.finding is not None:
            for finding in work.result.findings:
                self.tell(hooks.finding, op, finding)
