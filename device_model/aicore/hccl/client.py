"""Hccl: the object with which a kernel asks the server of its card for collectives, beside what the cores compute."""

from device_model.aicore.core.machine import Core, park, running
from device_model.aicore.core.names import Pipe
from device_model.aicore.core.program import Kind
from device_model.aicore.core.tensors import GlobalBuffer, whole
from device_model.aicore.flags.crossing import learn_token
from device_model.aicore.flags.sync import check_waits
from device_model.aicore.hccl.asked import Part, Ranges, check_reduction, part_of, turns_of
from device_model.aicore.hccl.names import DTYPE_OF, HCCL_SUCCESS, HcclDataType, HcclReduceOp, HcclServerType
from device_model.aicore.hccl.server import Ask, GroupSync, Server, Task
from device_model.aicore.hccl.tasks import Tasks
from device_model.kernel.findings import KernelError


class HcclContext:
    """A communicator as a kernel gets it (Ascend C: what GetHcclContext returns): pass it to `Hccl.InitV2`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __repr__(self) -> str:
        return f"<HcclContext of rank {self._server.rank} of {self._server.name}>"


def GetHcclContext(index: int = 0) -> HcclContext:
    """Return a communicator of the launch (Ascend C: GetHcclContext); no pipe is used.

    Args:
        index: Which of the arguments of the launch that are communicators, from 0 on.

    Raises:
        KernelError: The launch has no such argument.
    """
    servers, index = running().crossing.servers, whole("index", index)
    if not 0 <= index < len(servers):
        raise KernelError(
            f"GetHcclContext({index}) in a launch with {len(servers)} communicators",
            "pass what CommInitAll() or CommInitRootInfo() gave for this rank as an argument of the launch",
        )
    return HcclContext(servers[index])


class _Handle:
    """A task as one core counts it."""

    __slots__ = ("commits", "kind", "repeat", "waits")

    def __init__(self, kind: str, repeat: int) -> None:
        self.kind = kind
        self.repeat = repeat
        self.commits = 0
        self.waits = 0


class Hccl(Tasks):
    """Asks the server of the card for collectives (Ascend C: Hccl).

    Every core that uses it makes its own object and makes the same calls. Core 0 of its type sends them to the server;
    the others count them, so that they can wait. A collective takes place beside what the cores compute: prepare it,
    Commit() each turn when the bytes to be sent are there, and Wait() before you use those that have arrived.

        hccl = asc.Hccl()
        hccl.InitV2(asc.GetHcclContext(), tiling)
        hccl.SetCcTilingV2(0)
        handle = hccl.AllGather(x, gathered, count, asc.HcclDataType.HCCL_DATA_TYPE_FP16, 0)
        hccl.Commit(handle)
        hccl.Wait(handle)
        asc.SyncAll()
        hccl.Finalize()

    Args:
        server_type: Who carries out the tasks.

    Raises:
        KernelError: The card has no such server.
    """

    def __init__(self, server_type: HcclServerType = HcclServerType.HCCL_SERVER_TYPE_AICPU) -> None:
        if server_type is not HcclServerType.HCCL_SERVER_TYPE_AICPU:
            raise KernelError(f"Hccl({server_type!r})", "Atlas A2 and A3 have HCCL_SERVER_TYPE_AICPU only")
        self._bound: Server | None = None
        self._session = 0
        self._handles: list[_Handle] = []
        self._needs_tiling = False

    # The communicator

    def InitV2(self, context: object, init_tiling: object) -> None:
        """Bind the object to a communicator (Ascend C: Hccl.InitV2); no pipe is used.

        Args:
            context: What GetHcclContext() returned, or the communicator that the kernel got as an argument.
            init_tiling: The tiling of the communicator; anything but None. SetCcTilingV2() must follow.

        Raises:
            KernelError: *context* is no communicator of this launch, *init_tiling* is None, or this core has another
                Hccl on it that has not called Finalize().
        """
        if init_tiling is None:
            raise KernelError("Hccl.InitV2() without a tiling", "pass that of the communicator, Mc2InitTiling")
        self._bind(context, needs_tiling=True)

    def Init(self, context: object, init_tiling: object = None) -> None:
        """Bind the object to a communicator (Ascend C: Hccl.Init); no pipe is used.

        Args:
            context: As for InitV2().
            init_tiling: The tiling of the communicator, then SetCcTiling() must follow; or None.

        Raises:
            KernelError: As for InitV2().
        """
        self._bind(context, needs_tiling=init_tiling is not None)

    def _bind(self, context: object, *, needs_tiling: bool) -> None:
        core = running()
        servers = core.crossing.servers
        server = context._server if isinstance(context, HcclContext) else None
        if server is None or server not in servers:
            raise KernelError(
                f"Hccl with the context {context!r}", "pass what GetHcclContext() returned in this launch"
            )
        if self._bound is not None:
            raise KernelError(f"a second Init of an Hccl object of {server.name}", "make one object, and init it once")
        self._session = server.open(core)
        self._bound, self._needs_tiling = server, needs_tiling

    def SetCcTilingV2(self, offset: object) -> int:
        """Name the tiling of the collectives (Ascend C: Hccl.SetCcTilingV2); no pipe is used.

        Args:
            offset: Where it is; anything but None. The algorithm is that of the communicator.

        Returns:
            HCCL_SUCCESS.

        Raises:
            KernelError: It is None, or the object has no communicator yet.
        """
        return self._set_tiling("SetCcTilingV2", offset)

    def SetCcTiling(self, tiling: object) -> int:
        """Name the tiling of the collectives (Ascend C: Hccl.SetCcTiling), as SetCcTilingV2() does."""
        return self._set_tiling("SetCcTiling", tiling)

    def _set_tiling(self, name: str, tiling: object) -> int:
        self._server(name)
        if tiling is None:
            raise KernelError(f"Hccl.{name}(None)", "pass the tiling of the collective, Mc2CcTiling")
        self._needs_tiling = False
        return HCCL_SUCCESS

    def GetRankId(self) -> int:
        """Return the rank of this card, from 0 on (Ascend C: Hccl.GetRankId); no pipe is used."""
        return self._server("GetRankId").rank

    def GetRankDim(self) -> int:
        """Return how many ranks there are (Ascend C: Hccl.GetRankDim); no pipe is used."""
        return self._server("GetRankDim").size

    def GetWindowsInAddr(self, rank_id: int) -> GlobalBuffer:
        """Return the window of this rank for what arrives (Ascend C: Hccl.GetWindowsInAddr); no pipe is used.

        Args:
            rank_id: This rank. Those of other ranks are not here: cores do not reach the memory of other cards.

        Returns:
            200 MB of uint8, which keep what they hold between launches.

        Raises:
            KernelError: *rank_id* is another rank, or there is none of this number.
        """
        return self._window("GetWindowsInAddr", rank_id, "in")

    def GetWindowsOutAddr(self, rank_id: int) -> GlobalBuffer:
        """Return the window of this rank for what leaves (Ascend C: Hccl.GetWindowsOutAddr), as GetWindowsInAddr()."""
        return self._window("GetWindowsOutAddr", rank_id, "out")

    def _window(self, name: str, rank_id: int, which: str) -> GlobalBuffer:
        server, rank_id = self._server(name), whole("rank_id", rank_id)
        if not 0 <= rank_id < server.size:
            raise KernelError(f"{name}({rank_id})", f"{server.name} has ranks 0 to {server.size - 1}")
        if rank_id != server.rank:
            raise KernelError(
                f"{name}({rank_id}) on rank {server.rank}",
                "here cores reach the memory of their own card only: let a collective bring the bytes",
            )
        return server.window(which)

    # Tasks

    def _parts(self, name: str, send: GlobalBuffer, recv: GlobalBuffer, data_type: HcclDataType) -> tuple[Part, Part]:
        self._server(name)
        if self._needs_tiling:
            raise KernelError(f"Hccl.{name}() without a tiling", "call SetCcTilingV2() behind InitV2()")
        return part_of(name, "send_buf", send, data_type), part_of(name, "recv_buf", recv, data_type)

    def _prepare(
        self,
        kind: str,
        count: int,
        data_type: HcclDataType,
        op: HcclReduceOp | None,
        repeat: int,
        *,
        commit: bool,
        sends: Ranges,
        receives: Ranges,
    ) -> int:
        core, server = running(), self._server(kind)
        repeat = turns_of(kind, repeat, sends, receives)
        check_reduction(kind, data_type, op)
        handle = len(self._handles)
        self._handles.append(_Handle(kind, repeat))
        if core.block_idx == 0:
            core.scalar += core.spec.set_value
            reduction = None if op is None else HcclReduceOp(op)
            prepared = core.note(Pipe.S, Kind.WORK, kind)
            ask = Ask(kind, count, DTYPE_OF[data_type], reduction, repeat, sends, receives, prepared)
            server.prepare(core, self._session, ask)
        if commit:
            self._commit(core, handle, repeat)
        return handle

    def InterHcclGroupSync(self, src_group_id: int, src_handle_id: int) -> None:
        """Let tasks that are prepared later wait for a task of another communicator (Ascend C: InterHcclGroupSync).

        Runs on the scalar pipe and waits for nothing. Of the vendor's cards, Atlas A3 has it, and A2 does not.

        Args:
            src_group_id: The communicator, as the index for GetHcclContext().
            src_handle_id: The handle of the task, all of whose turns must be over.

        Raises:
            KernelError: There is no such communicator, it is this one, or it is the 64th message.
        """
        core, server = running(), self._server("InterHcclGroupSync")
        servers = core.crossing.servers
        src_group_id, src_handle_id = whole("src_group_id", src_group_id), whole("src_handle_id", src_handle_id)
        if not 0 <= src_group_id < len(servers) or servers[src_group_id] is server or src_handle_id < 0:
            raise KernelError(
                f"InterHcclGroupSync({src_group_id}, {src_handle_id}) in a launch with {len(servers)} communicators",
                "name another communicator of this launch, and a handle of it",
            )
        if core.block_idx == 0:
            core.scalar += core.spec.set_value
            core.note(Pipe.S, Kind.WORK, "InterHcclGroupSync")
            source = servers[src_group_id]
            server.wait_for_group(core, self._session, GroupSync(source, source.session_of(core), src_handle_id))

    def Commit(self, handle: int) -> None:
        """Let the server carry out the next turn of a task (Ascend C: Hccl.Commit).

        Runs on the scalar pipe of core 0, and waits for nothing: what is sent must be there, on all cores.

        Args:
            handle: That of the task.

        Raises:
            KernelError: This core has prepared no such task, or has committed all its turns.
        """
        core = running()
        known = self._known(core, "Commit", handle)
        if known.commits == known.repeat:
            raise KernelError(
                f"Commit({handle}) of {known.kind}, whose {known.repeat} turns are all committed",
                "commit each turn once: repeat says how many there are",
            )
        self._commit(core, handle, 1)

    def _commit(self, core: Core, handle: int, turns: int) -> None:
        self._handles[handle].commits += turns
        if core.block_idx == 0:
            core.scalar += core.spec.set_value
            instruction = core.note(Pipe.S, Kind.CROSS_SET, f"Commit({handle})")
            self._server("Commit").commit(core, self._session, handle, turns, instruction)

    def Wait(self, handle: int) -> int:
        """Wait until the next turn of a task has ended on this rank (Ascend C: Hccl.Wait).

        The scalar pipe waits, so nothing is issued to any pipe of this core meanwhile.

        Args:
            handle: That of the task.

        Returns:
            HCCL_SUCCESS.

        Raises:
            KernelError: This core has not committed the turn: on a card Wait() then fails and the kernel runs on.
            KernelHangError: Another rank, or core 0, never commits it.
        """
        core = running()
        known = self._known(core, "Wait", handle)
        if known.waits == known.commits:
            raise KernelError(
                f"Wait({handle}) of {known.kind} on {core.program}, which has committed {known.commits} turns and "
                f"waited for {known.waits}",
                "call Commit() on this core before; on a card Wait() fails here and the kernel runs on",
            )
        known.waits += 1
        self._wait(core, f"Wait({handle})", handle, known.waits)
        return HCCL_SUCCESS

    def Query(self, handle: int) -> int:
        """Return how many turns of a task are over (Ascend C: Hccl.Query).

        A kernel asks again until it gets the number that it needs. Here the first answer is the last one on a card: the
        scalar pipe waits for the turns that this core has committed.

        Args:
            handle: That of the task.

        Returns:
            The number of turns.

        Raises:
            KernelError: This core has prepared no such task.
            KernelHangError: As for Wait().
        """
        core = running()
        known = self._known(core, "Query", handle)
        if known.commits:
            self._wait(core, f"Query({handle})", handle, known.commits)
        return known.commits

    def Finalize(self, *, sync: bool = True) -> None:
        """End the dealings with the server (Ascend C: Hccl.Finalize). No other call of this object may follow.

        The scalar pipe of core 0 waits until all tasks are over. Other cores do not wait, and core 0 must not call it
        before they have waited for what they need.

        Args:
            sync: Whether core 0 waits (Ascend C: the template argument). The launch ends when the tasks are over, too.

        Raises:
            KernelError: The object has no communicator.
            KernelHangError: A task is never committed.
        """
        core, server = running(), self._server("Finalize")
        if core.block_idx == 0:
            if self._handles and sync:
                last = len(self._handles) - 1
                self._wait(core, "Finalize", last, self._handles[last].repeat)
            core.scalar += core.spec.set_value
            server.finalize(core, self._session, core.note(Pipe.S, Kind.CROSS_SET, "Finalize"))
        server.close(core)
        self._bound = None

    def _wait(self, core: Core, name: str, handle: int, turns: int) -> None:
        """Wait until *turns* turns of a task are over."""
        server, session = self._server(name), self._session
        check_waits(core)
        tasks = server.tasks(session)

        def is_over() -> bool:
            return handle < len(tasks) and len(tasks[handle].ended) >= turns

        if not is_over():
            park(f"{name} of {self._handles[handle].kind} at {core.site()}", is_over)
        task: Task = tasks[handle]
        token = task.ended[turns - 1]
        instruction = core.note(Pipe.S, Kind.CROSS_WAIT, name, token.sets)
        server.waited(session, core, instruction, core.count_wait())
        learn_token(core, token)

    @property
    def _size(self) -> int:
        return self._server("GetRankDim").size

    def _server(self, name: str) -> Server:
        if self._bound is None:
            raise KernelError(f"Hccl.{name} without a communicator", "call InitV2() first, and none behind Finalize()")
        return self._bound

    def _known(self, core: Core, name: str, handle: int) -> _Handle:
        self._server(name)
        if not 0 <= whole("handle", handle) < len(self._handles):
            raise KernelError(
                f"{name}({handle}) on {core.program}, which has prepared {len(self._handles)} tasks",
                "prepare the task on this core first, and pass the handle that this returned",
            )
        return self._handles[handle]
