"""One device, built from a profile: its engines, its hardware queues, its contexts.

An operation meets the device twice. When it is queued, it goes into one of the hardware queues that `queues` gave to
its stream; the engine of that queue starts it. When its time is over, the engine calls `finish`: the work takes effect,
and everything that waits for the operation is released. `finish` is the same function for all kinds of work.

    Stream.enqueue -> HardwareQueue -> engine ... time passes ... Device.finish -> Work.perform, waiters, observers

There is one engine for each lane. They are the dispatcher for kernels and for copies and fills inside the device, a
copy engine for each direction and for each way to other devices, and the thread that runs host functions. Streams share
hardware queues in the order of their creation, as they do on an H200 (measured). So on a device with 8 queues in a
lane, the ninth stream shares a queue with the first.
"""

from collections.abc import Callable
from itertools import chain
from sys import maxsize
from typing import TYPE_CHECKING

from device_model.collectives.parts import Part
from device_model.completions import NOTHING, AllOf, Completion, Nanoseconds
from device_model.contexts import Context
from device_model.core_kernels import CoreKernel, Occupation, Pause
from device_model.engines.dispatcher import Dispatcher, Wave
from device_model.engines.host_thread import HostThread
from device_model.engines.parts import Parts, begin
from device_model.engines.peers import PeerEngine
from device_model.engines.serial import CopyEngine
from device_model.engines.staging import Staging
from device_model.engines.workers import Workers
from device_model.errors import DeviceError
from device_model.finishing import Finisher
from device_model.gaps import gaps_of, node_gaps_of
from device_model.graphs.executable import Executable, Launch
from device_model.graphs.graph import Graph
from device_model.graphs.launching import Forwarder, HostCopies
from device_model.graphs.streaks import Streaks
from device_model.ids import Ids
from device_model.links.fabric import Links
from device_model.memory import HOST, NONE, Memory, Moves, Pages
from device_model.observe import Hooks
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.rules import CollectiveRules, SyncRules
from device_model.scheduler import Scheduler
from device_model.signals import Notify, Words
from device_model.streams import Stream
from device_model.touches import allocations_of
from device_model.work import Lane, Prefetch, Work, dropped

if TYPE_CHECKING:
    from device_model.curves import Curve
    from device_model.profile import DeviceProfile

_OWN = (Lane.HOST, Lane.COLLECTIVE)  # each stream has queues of its own for these


class Device(Finisher):
    """The simulated card number *ordinal*.

    Devices of one simulation share a scheduler, and so one time, and the memory and workers of the simulation.
    """

    def __init__(
        self,
        ordinal: int,
        profile: "DeviceProfile",
        rules: SyncRules,
        scheduler: Scheduler,
        memory: Memory,
        workers: Workers,
        hooks: Hooks,
        links: Links,
    ) -> None:
        self.links = links
        self.ordinal = ordinal
        self.profile = profile
        self.rules = rules
        super().__init__(scheduler, workers, hooks)
        self.memory = memory
        self._streams = 0  # how many were made; the numbers of the next ones follow from these
        self._events = 0
        self._notifies = 0
        self._contexts = 0
        self.calling: Op | None = None  # the host function that runs at the moment
        self.checks_calls = False  # fault rules are in force, or a capture runs: each call asks before it begins
        self.uses = 0  # SetDevice minus ResetDevice
        self.reaches: dict[int, None] = {}  # the devices to which it has access, by number
        self.stream_ids = Ids(profile.limits.streams)
        self.event_ids = Ids(profile.limits.events)
        self.notify_ids = Ids(profile.limits.notifies)

        self.h2d, self.d2h, self.peer, self.staged = self._copy_engines()
        self.cores = self._dispatcher()
        self.host_thread = HostThread(scheduler, profile.latency, self.finish)
        self.parts = Parts(scheduler, self.cores, self)
        self._engines = self._by_lane()
        self.staging = Staging(scheduler, profile)
        self.words = Words(scheduler, hooks, workers.flush, self.cores.waiting.look)

        self._gaps = gaps_of(profile.latency)
        self._node_gaps = node_gaps_of(profile, self._gaps)
        self._forwarder = Forwarder(scheduler, "graphs")
        self._streaks = Streaks(self)
        self.by_host = HostCopies(self)
        self.launches: dict[Launch, None] = {}  # of graphs, that are not over
        self.updates = 0  # of task groups, which have changed the work of nodes
        # Asks the fault rules about a node (Faults.strike); None if there are no rules.
        self.strike: Callable[[Op, Stream, Nanoseconds, Callable[[Completion], object]], Nanoseconds] | None = None
        self._shared = self._shared_queues()
        # Copies and fills outside all streams have queues of their own, which an engine looks at first.
        self.outside = self.private_queues(-1)
        for lane, engine in self._engines.items():
            if isinstance(engine, CopyEngine):
                engine.serve(self._shared[lane], [self.outside[lane]])

        self.primary = self._context(primary=True, made=None)
        self.contexts: list[Context] = [self.primary]

    @property
    def _cores_of_collectives(self) -> int:
        """How many cores a collective holds: NCCL's channels are blocks of a kernel, HCCL leaves the cores alone."""
        spec = self.profile.collectives
        return spec.channels if spec is not None and self.rules.collectives is CollectiveRules.NCCL else 0

    def _by_lane(self) -> dict[Lane, Dispatcher | CopyEngine | HostThread | Parts]:
        """Return the engine of each lane."""
        return {
            Lane.COMPUTE: self.cores,
            Lane.H2D: self.h2d,
            Lane.D2H: self.d2h,
            Lane.PEER: self.peer,
            Lane.STAGED: self.staged,
            Lane.HOST: self.host_thread,
            Lane.COLLECTIVE: self.parts,
        }

    def _copy_engines(self) -> tuple[CopyEngine, CopyEngine, PeerEngine, CopyEngine]:
        """Make the engines that copy to the device, from it, to other devices, and to those through the host."""
        copies, gap = self.profile.copies, self.profile.latency.copy_gap

        def engine(name: str, curve: "Curve", duplex_bytes: int, duplex_permille: int) -> CopyEngine:
            return CopyEngine(
                self.scheduler, name, curve, gap, duplex_bytes, duplex_permille, self.finish, self.move_pages
            )

        h2d = engine("H2D", copies.h2d, copies.duplex_bytes, copies.duplex_h2d_permille)
        d2h = engine("D2H", copies.d2h, copies.duplex_bytes, copies.duplex_d2h_permille)
        h2d.opposite, d2h.opposite = d2h, h2d
        # Copies to other devices do not slow those from and to the host (measured: peer copies).
        peer = PeerEngine(self.scheduler, "P2P", copies.peer, gap, self.links, self.finish, self.move_pages)
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
            node_copy_time=self.profile.graphs.copy_on_device,
            fill_time=copies.fill,
            pinned_fill_time=copies.fill_pinned,
            finish=self.finish,
            move_pages=self.move_pages,
            begin=self.begin_core,
            go_on=self.resume_core,
            hooks=self.hooks,
            finish_core=self.finish_core,
            cores_of_part=self._cores_of_collectives,
            begin_part=begin,
        )

    def __repr__(self) -> str:
        return f"<Device {self.ordinal} {self.profile.name}>"

    def create_context(self, made: object) -> Context:
        """Create a context beside the primary one, with its own default streams."""
        context = self._context(primary=False, made=made)
        self.contexts = [each for each in self.contexts if each.destroyed is None or not each.idle]
        self.contexts.append(context)
        return context

    def _context(self, *, primary: bool, made: object) -> Context:
        context = Context(self, self._contexts, primary=primary, made=made)
        self._contexts += 1
        return context

    def reset(self, site: object) -> None:
        """Reset the device: destroy all contexts, free all memory, and make a new primary context.

        Queued and running work still takes its time on the engines, and has no effect.
        """
        self.workers.flush()
        streams = [stream for context in self.contexts for stream in context.everything()]
        is_lost = any(context.failed_op is not None for context in self.contexts)  # then the program could free nothing
        for context in self.contexts:
            context.abandon(site)
        self.parts.lose(f"its device was reset at {site}")
        self.memory.free_all(self.ordinal, site, is_lost=is_lost)
        self.call_hook(self.hooks.reset, self, site)
        self.primary = self._context(primary=True, made=site)
        self.contexts = [self.primary]
        self.cores.waiting.look()  # kernels that wait end
        for step in [step for stream in streams for step in stream.steps]:
            step.stop()  # operations behind a step that never ends would never leave their hardware queues
        self.scheduler.settle()

    def queues(self, index: int) -> tuple[HardwareQueue, ...]:
        """Return the queues of the stream with this index, one for each lane.

        Streams get the shared queues in turn, in the order of their creation (measured on an H200).
        """
        shared = [queues[index % len(queues)] for queues in self._shared.values()]
        return (*shared, *(self._queue(lane, index) for lane in _OWN))

    def private_queues(self, index: int) -> tuple[HardwareQueue, ...]:
        """Return queues that no other stream shares, one for each lane."""
        return tuple(self._queue(lane, index) for lane in Lane)

    def chain_queues(self) -> tuple[HardwareQueue, ...]:
        """Return the queues of a chain of nodes of a graph, one for each lane."""
        engines = dict.fromkeys(Lane, self._forwarder) | {
            Lane.COMPUTE: self._streaks,
            Lane.HOST: self.host_thread,
            Lane.COLLECTIVE: self.parts,
        }
        return tuple(HardwareQueue(engines[lane], -1, maxsize, *self._node_gaps[lane]) for lane in Lane)

    def time_alone(self, work: Work) -> Nanoseconds | None:
        """Return how long *work* takes in a streak; None if it cannot be in one, as a large body runs in a thread."""
        return self.cores.time_alone(work) if work.nbytes < self._inline_bytes else None

    def _shared_queues(self) -> dict[Lane, list[HardwareQueue]]:
        """Make the queues that streams share."""
        shared: dict[Lane, list[HardwareQueue]] = {
            lane: [self._queue(lane, index) for index in range(self._queue_count(lane))]
            for lane in Lane
            if lane not in _OWN
        }
        for queues in shared.values():
            for queue in queues:
                queue.shared = queues
        return shared

    def _queue_count(self, lane: Lane) -> int:
        """Return how many queues of *lane* the streams share."""
        return self.profile.queues.compute if lane is Lane.COMPUTE else self.profile.queues.copy

    def _queue(self, lane: Lane, index: int) -> HardwareQueue:
        depth = maxsize if lane in _OWN else self.profile.queues.depth
        return HardwareQueue(self._engines[lane], index, depth, *self._gaps[lane])

    def next_stream(self) -> int:
        """Return the index of the next stream, counted from 0."""
        self._streams += 1
        return self._streams - 1

    def create_notify(self, made: object, name: str | None = None) -> Notify:
        """Create a notify, which the program calls *name*; the caller has made sure that an id is free."""
        self.notify_ids.take()
        self._notifies += 1
        return Notify(self, self._notifies, made, name)

    def next_event(self) -> int:
        """Return the number of the next event, counted from 1."""
        self._events += 1
        return self._events

    def work(self) -> Completion:
        """Return the completion of everything queued on this device so far."""
        return AllOf([context.work() for context in self.contexts])

    def instantiate(self, graph: Graph, made: object, *, keeps_priorities: bool) -> Executable:
        """Make *graph* ready for launches here."""
        return Executable(graph, self, made, keeps_priorities=keeps_priorities)

    def can_reach(self, peer: "Device") -> bool:
        """Return whether this device can be given access to the memory of *peer*."""
        return self is not peer

    def reach(self, peer: "Device") -> None:
        """Give this device access to the memory of *peer*."""
        self.reaches[peer.ordinal] = None

    def leave(self, peer: "Device") -> None:
        """Take the access to the memory of *peer* back."""
        del self.reaches[peer.ordinal]

    def unfinished(self) -> list[Op]:
        """Return the operations that have not ended, in the order in which they were queued.

        The device keeps no list of them, so this looks wherever an operation can be. That is in the hardware queues,
        among kernels that wait for cores, in the queues of host functions, and in the heap of the scheduler. It is for
        aborts and reports.
        """
        ops: dict[Op, None] = {}
        for queue in chain(*self._shared.values(), self.outside):
            ops.update(dict.fromkeys(queue.fifo))
        ops.update((entry[2], None) for entry in self.cores.list)
        ops.update(self.cores.waiting.ops)
        ops.update(self.parts.waiting)
        for stream in (stream for context in self.contexts for stream in context.everything()):
            for lane in _OWN:
                ops.update(dict.fromkeys(stream.queues[lane].fifo))
        ops.update(dict.fromkeys(self.host_thread.ready))
        if self.peer.running is not None:
            ops[self.peer.running] = None  # longer on its links than the heap knows
        for launch in self.launches:
            ops.update(dict.fromkeys(launch.unfinished()))
        for subject in self.scheduler.subjects():
            match subject:
                case Wave(op=op) | (op, *_):
                    pass
                case _:
                    op = subject
            if isinstance(op, Op) and not op.done and op.stream.context.device is self:
                ops[op] = None
        return sorted(ops, key=lambda op: op.queued_ns)

    def check_calls(self, *, on: bool) -> None:
        """Say whether each call asks fault rules and captures before it begins."""
        self.checks_calls = on
        for context in self.contexts:
            context.update_alert()

    def lose(self, error: DeviceError) -> None:
        """Make every call that touches this device fail with *error*; work that has not ended has no effect."""
        for context in self.contexts:
            if context.error is None:
                context.lose(error)
                context.failed_ns = 0
        self.parts.lose("its device is lost")
        self.cores.waiting.look()

    def abort(self, stream: Stream, error: DeviceError) -> None:
        """Abort the work of *stream*; its next synchronisation fails with *error*.

        Queued operations leave their queues. Running ones end now and without effect, but their engine stays busy until
        they would have ended.
        """
        now = self.scheduler.now
        if stream.idle:
            return
        ops = [op for op in self.unfinished() if op.stream is stream]
        stream.keep_error(error)
        # From the last to the first: when the head of a queue is dropped, the operation behind it may start.
        for op in reversed(ops):
            if op.start_ns < 0:
                op.queue.engine.drop(op)
                op.blockers = maxsize  # completions that it waited for still release it; it must never start
        stream.tail = NOTHING
        stream.pending.clear()
        for step in reversed(list(stream.steps)):  # the end of one lets the next begin, which is dropped, too
            step.stop()
        parts = [op.work for op in ops if isinstance(op.work, Part)]
        kernels = [op.work for op in ops if isinstance(op.work, CoreKernel)]
        for op in ops:
            self.parts.abort(op)
            op.work = dropped(op.work)
            op.error = error
            op.done, op.end_ns = True, now
            op.by = op.reasons = None
            waiters, op.waiters = op.waiters, None
            for waiter in waiters or ():
                waiter.release(op)
        for op in [op for op in ops if op in self.cores.waiting.ops]:
            after_ns = now - op.start_ns
            self.cores.end_wait(op, Occupation(after_ns, ((after_ns, op.cores_held),)))
        for launch in [each for each in self.launches if each.stream is stream]:
            launch.abort(now)
        for part in parts:
            part.rank.clique.lose(part.rank, f"{stream.name} was aborted")
        for kernel in kernels:
            kernel.leave(f"{stream.name} was aborted")
        self.scheduler.settle()

    def call_hook(self, hook: Callable[..., None] | None, *args: object) -> None:
        """Call *hook*, a method of the observers; None if no observer has it.

        An exception that an observer raises reaches the host when the instant is over, because the device must go on.
        """
        if hook is not None:
            try:
                hook(*args)
            except BaseException as error:
                self.scheduler.raise_later(error)

    def move_pages(self, op: Op, plain_ns: Nanoseconds) -> Nanoseconds:
        """Move the managed pages that *op* needs, which starts now; return how long it takes.

        *plain_ns* is its time if all pages are there.
        """
        costs, work = self.profile.managed, op.work
        assert costs is not None, f"{op!r} uses managed memory, and {self.profile.name} has none"
        if isinstance(work, Prefetch):
            moves = self._prefetch(work)
            paging_ns = time = costs.prefetch_ns(moves, by_driver=work.by_driver)
        else:
            moves = self._use_pages(work)
            paging_ns = costs.device_ns(moves)
            time = plain_ns + paging_ns
        self.call_hook(self.hooks.pages_moved, op, moves, op.start_ns, op.start_ns + paging_ns, op.site)
        return time

    def _prefetch(self, work: Prefetch) -> Moves:
        pages = work.allocation.pages
        assert pages is not None, f"{work.allocation!r} is not managed"
        moves = pages.prefetch(work.start, work.stop, work.location)
        return moves if work.location == HOST else self._with_room(moves, pages, work.start, work.stop)

    def _use_pages(self, work: Work) -> Moves:
        """Let *work* fault on the managed pages that it reads and writes; what it declares as both counts once."""
        moves, written = NONE, set(work.writes())
        for extent in dict.fromkeys((*work.writes(), *work.reads())):
            allocation, start, stop = extent
            if allocation.pages is not None and start < stop:
                used = allocation.pages.use_on_device(self.ordinal, start, stop, writes=extent in written)
                moves = moves.beside(self._with_room(used, allocation.pages, start, stop))
        return moves

    def _with_room(self, moves: Moves, pages: Pages, start: int, stop: int) -> Moves:
        """Note the use of a range of *pages*, and return *moves* with the pages that had to leave the device for it."""
        residence = self.memory.residence
        residence.used(pages, start, stop)
        if not moves.to_device:
            return moves
        return moves._replace(to_host=residence.make_room(self.ordinal, self.memory.free_bytes(self.ordinal)))

    def begin_core(self, op: Op) -> Occupation | Pause:
        """Run a core kernel at its start, on the memory that all work before it has written; return its occupation, or
        its first wait.

        How long a core kernel takes follows from running it.
        """
        self.workers.prepare(op)
        work, context = op.work, op.stream.context
        if not isinstance(work, CoreKernel) or (context.error is not None and op.start_ns >= context.failed_ns):
            if isinstance(work, CoreKernel):
                work.leave("its context has failed")
            return Occupation(0, ((0, op.cores_held),))  # it was aborted, or its context was lost
        return self._with_pages(op, work, work.run(op.start_ns))

    def resume_core(self, op: Op) -> Occupation | Pause:
        """Let a core kernel go on that has waited, on the memory as it is now; return what it does next."""
        self.workers.prepare(op)
        work, after_ns = op.work, self.scheduler.now - op.start_ns
        if not isinstance(work, CoreKernel) or op.stream.context.error is not None:
            if isinstance(work, CoreKernel):
                work.leave("its context has failed")
            return Occupation(after_ns, ((after_ns, op.cores_held),))
        return self._with_pages(op, work, work.go_on(after_ns))

    def give_up_waiting(self) -> bool:
        """End the core kernels whose waits nothing can end, with an error for each; return whether there were any."""
        ops = list(self.cores.waiting.ops)
        for op in ops:
            if isinstance(op.work, CoreKernel):
                self.cores.end_wait(op, op.work.give_up(self.scheduler.now - op.start_ns))
        return bool(ops)

    def _with_pages(self, op: Op, work: CoreKernel, outcome: Occupation | Pause) -> Occupation | Pause:
        """Return what a core kernel does next, with the time that its managed pages take at its end."""
        if isinstance(outcome, Pause):
            if outcome.has_shown:
                self.call_hook(self.hooks.shown, op)
            return outcome
        reads, writes = work.reads(), work.writes()
        if not (reads or writes):
            return outcome
        if all(each.pages is None for each in (*allocations_of(reads), *allocations_of(writes))):
            return outcome
        late_ns = self.move_pages(op, 0)
        duration_ns, released = outcome
        return Occupation(duration_ns + late_ns, [(after_ns + late_ns, count) for after_ns, count in released])

    def finish_core(self, op: Op, now: Nanoseconds) -> None:
        """End a core kernel as any other work, then give observers its result and findings."""
        self.finish(op, now)
        work = op.work
        result = work.result if isinstance(work, CoreKernel) else None
        if result is None:  # it was aborted or never ran
            return
        hooks = self.hooks
        self.call_hook(hooks.ran, op, result)
        if hooks.finding is not None and result.findings:
            for finding in result.findings:
                self.call_hook(hooks.finding, op, finding)
