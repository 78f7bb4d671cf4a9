"""The Matmul object: C = A * B + bias, requested by vector cores and computed by the cube core of their block.

In a mixed kernel every core makes the object and registers it. Registration is where the cube core works: it serves the
requests of its vector cores until the kernels of all of them have returned, and then leaves its own. A vector core
sends a message and a cross-core flag, and waits for a flag back. Results for UB go through a workspace in GM, because
the cores share no other memory. While a vector core works on a piece of C, the cube core computes the next one.

In a kernel on cube cores alone there are no requests: the object computes in the call itself.
"""

from collections import deque

from device_model.aicore.core.machine import Core, running
from device_model.aicore.core.names import CoreType, HardEvent, Pipe, Space
from device_model.aicore.core.tensors import GlobalBuffer, GlobalTensor, LocalTensor, dtype_of, uint8
from device_model.aicore.cube.matmul_batches import Batches
from device_model.aicore.cube.matmul_cube import Cube
from device_model.aicore.cube.matmul_operands import WholeSizes
from device_model.aicore.cube.matmul_requests import (
    Message,
    checked_atomic,
    compute,
    place_of,
    serve,
    vectors_of,
)
from device_model.aicore.cube.matmul_tiling import (
    WORKSPACE_TILES,
    MatmulPolicy,
    TCubeTiling,
    room_bytes,
    room_for,
    why_no_n_buffer,
)
from device_model.aicore.cube.mmad import SIDE, HF32Mode, HF32TransMode, SetHF32Mode, SetHF32TransMode
from device_model.aicore.flags.sync import pass_flag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError

MOST_OBJECTS = 4  # that a kernel may register


class Matmul(Batches):
    """C = A * B + bias, computed by the cube core of a block (Ascend C: Matmul).

    Call REGIST_MATMUL_OBJ, SetTensorA and SetTensorB, then Iterate and GetTensorC in turn or IterateAll, and then End.

    Args:
        a: The type of A: in GM, in UB on vector cores, or in L1 in kernels on cube cores alone.
        b: The type of B, of the same dtype.
        c: The type of C: in GM or UB, or at CO1 in kernels on cube cores alone, which then empty L0C themselves.
        bias: The type of the bias, if there is one, in GM or UB.
        call_back: Functions that copy in place of the object.
        policy: Which pieces of C are computed.

    Raises:
        KernelError: A position, or a pair of types, is impossible.
        ValueError: *policy* is no MatmulPolicy.
    """

    def Init(self, tiling: TCubeTiling, pipe: TPipe | None = None) -> None:
        """Set the tiling, and on cube cores make the buffers (Ascend C: Init).

        It follows a REGIST_MATMUL_OBJ without a tiling, which gives the object its workspace. In kernels on cube cores
        alone it may do without.

        Args:
            tiling: The tiling, one for all vector cores of a block.
            pipe: The TPipe of this core; by default the one that REGIST_MATMUL_OBJ got, or that the kernel has made.

        Raises:
            KernelError: The buffers do not fit, the workspace is smaller than `tiling.workspace_bytes`, there is no
                TPipe, or the object of a vector core has a tiling or is not registered.
        """
        core = running()
        known, workspace = self._registered or (core.tpipe, None)
        its_pipe = known if pipe is None else pipe
        if not isinstance(its_pipe, TPipe):
            raise KernelError("Init of a Matmul without a TPipe", "make one first: TPipe()")
        if core.core_type is CoreType.AIV:
            if self._registered is None or self._tiling is not None:
                raise KernelError(
                    f"Init of {self!r} on a vector core",
                    "first register it without a tiling: REGIST_MATMUL_OBJ(pipe, workspace, mm)",
                )
            given = core.crossing.mail.setdefault(("tiling", core.program.block), deque([tiling]))
            if given[0] != tiling:
                raise KernelError(f"Init with {tiling}", f"another vector core of the block has given {given[0]}")
        self._begin(its_pipe, tiling, workspace, None)

    def _begin(
        self, pipe: TPipe, tiling: TCubeTiling, workspace: GlobalBuffer | None, others: list[Cube] | None
    ) -> int:
        """Do what Init does, beside the *others* of this core; return the bytes of the workspace that are taken."""
        core = running()
        self._check_cores(core)
        if self._policy is MatmulPolicy.N_BUFFER_33:
            self._check_n_buffer(core, tiling)
        self._core, self._tiling = core, tiling
        self._shape = tiling.single_core_m, tiling.single_core_n, tiling.single_core_k
        self._rows = WholeSizes(tiling.m, tiling.n, tiling.ka, tiling.kb, tiling.n)
        if core.core_type is CoreType.AIC:
            core.scalar += core.spec.matmul_init
            a, b, c = (each.position.space for each in (self.a, self.b, self.c))
            given = a is Space.L1, b is Space.L1, c is Space.L0C
            # What is computed ahead for a vector core may never be asked for: nothing would empty its blocks.
            unit_flags = not vectors_of(core)
            self._cube = Cube(
                pipe, tiling, self.dtype, self._call_back, unit_flags=unit_flags, given=given, others=others
            )
        elif workspace is not None:
            number = core.program.block * core.ratio + core.program.sub_block
            return self._divide(workspace, core.block_dim * core.ratio, number)
        return 0

    def _check_cores(self, core: Core) -> None:
        """Raise KernelError if an operand is in a memory of the other cores."""
        is_alone = core.core_type is CoreType.AIC and not vectors_of(core)
        for role, each in (("A", self.a), ("B", self.b), ("C", self.c), ("the bias", self.bias)):
            if each is not None and each.position.space in (Space.L1, Space.L0C) and not is_alone:
                raise KernelError(
                    f"a Matmul with {role} in {each.position.space} in a mixed kernel",
                    "only kernels on cube cores alone have it: launch as AIC_ONLY, or give the matrix in GM or UB",
                )
            if each is not None and each.position.space is Space.UB and is_alone:
                raise KernelError(
                    f"a Matmul with {role} in UB on cube cores alone", "they have no UB: give the matrix in GM or L1"
                )

    def _check_n_buffer(self, core: Core, tiling: TCubeTiling) -> None:
        """Raise KernelError unless the policy N_BUFFER_33 can take this object and its tiling."""
        why = why_no_n_buffer(core.spec, tiling, self.dtype)
        if core.core_type is not CoreType.AIC or vectors_of(core):
            why = "the kernel has vector cores: launch it as AIC_ONLY"
        elif any(each.position.space is not Space.GM for each in (self.a, self.b)):
            why = "A and B are in GM"
        if why:
            raise KernelError(f"a Matmul with {self._policy} and a tiling with {tiling}", why)

    def _divide(self, workspace: GlobalBuffer, vectors: int, number: int) -> int:
        """Take the part of the workspace of vector core *number* of *vectors*: for pieces of C, and operands in UB.

        It returns the bytes of all of them.
        """
        tiling = self._tiled
        m, n, k = self._sizes
        of_c = WORKSPACE_TILES * tiling.base_m * tiling.base_n
        operands = (("a", self.a, room_for(m, k)), ("b", self.b, room_for(k, n)), ("bias", self.bias, n))
        rooms = [("c", dtype_of(self.c.dtype), of_c)]
        for name, type_, size in operands:
            if type_ is not None and type_.position.space is Space.UB:
                rooms.append((name, dtype_of(type_.dtype), size))
        nbytes = sum(room_bytes(dtype, size) for _, dtype, size in rooms)
        if workspace.nbytes < vectors * nbytes:
            types = "".join(f", {name}={dtype}" for name, dtype, _ in rooms[1:])
            raise KernelError(
                f"a workspace of {workspace.nbytes} bytes for a Matmul",
                f"give it {vectors * nbytes}: TCubeTiling.workspace_bytes({vectors}{types})",
            )
        start = number * nbytes
        for name, dtype, size in rooms:
            self._rooms[name] = GlobalTensor(dtype).SetGlobalBuffer(workspace.of_type(uint8)[start:], size)
            start += room_bytes(dtype, size)
        self._workspace = self._rooms["c"]
        return vectors * nbytes

    def Iterate(self, en_partial_sum: bool = False, local_c_matrix: LocalTensor | None = None) -> bool:
        """Go to the next piece of C, down its columns first (Ascend C: Iterate).

        No pipe waits. With *local_c_matrix* the piece is computed at once, on M: order it before FIX, which empties the
        tensor, and after the last Fixpipe of it, with a queue or flags.

        Args:
            en_partial_sum: Whether the piece is added to what *local_c_matrix* holds; C is then one piece.
            local_c_matrix: Where the piece goes, in L0C: for a C whose MatmulType says CO1, on cube cores alone.

        Returns:
            True; False after the last piece. The next call then begins a new product.

        Raises:
            KernelError: A or B is not set, or the tensor is not where C's MatmulType says, or too small.
        """
        if self._policy is MatmulPolicy.N_BUFFER_33:
            raise KernelError(f"Iterate with {self._policy}", "it computes all pieces: call IterateAll()")
        job = self._started()
        if (self.c.position.space is Space.L0C) != (local_c_matrix is not None):
            raise KernelError(
                f"Iterate of a Matmul with C at {self.c.position} and local_c_matrix {local_c_matrix!r}",
                "give it a tensor in L0C if C's MatmulType says CO1, and none otherwise",
            )
        down, across = self._pieces
        if en_partial_sum and (local_c_matrix is None or down * across > 1):
            raise KernelError(
                f"Iterate with en_partial_sum and {down * across} pieces of C",
                "it adds to local_c_matrix, in which C is one piece",
            )
        self._index += 1
        if self._index == down * across:
            self._job = None
            return False
        if local_c_matrix is not None:
            self._check_c(local_c_matrix, Space.L0C)
            assert self._cube is not None
            column, row = divmod(self._index, down)
            if job.has(row, column):
                self._cube.compute_into(local_c_matrix, job, row, column, adds=en_partial_sum)
        return True

    def GetTensorC(
        self,
        dst: GlobalTensor | LocalTensor,
        en_atomic: int = 0,
        sequential: bool = False,  # Ascend C's order
    ) -> None:
        """Store the current piece of C in GM or in UB (Ascend C: GetTensorC).

        A vector core waits until its cube core has stored the piece. The vector pipe may then use a piece in UB without
        a flag. For a piece that the policy leaves out nothing happens.

        Args:
            dst: In GM, the first element of this core's C, in which the piece goes to its place. In UB, the piece; its
                rows are base_n elements apart, and in NZ its columns of fractals follow each other.
            en_atomic: How the piece is combined with the contents of GM: 0 overwrites them, 1 adds to them, 2 keeps the
                larger number and 3 the smaller one.
            sequential: Whether *dst* in GM is the piece itself, with rows base_n elements apart.

        Raises:
            KernelError: There is no current piece, *dst* is not of C's type and position, *en_atomic* is no such
                number or *dst* not in GM, or a piece for UB has no workspace.
        """
        if self._job is None or self._index < 0:
            raise KernelError("GetTensorC without a piece", "call Iterate() first, and go on only while it is True")
        tiling = self._tiled
        across, below = divmod(self._index, self._pieces[0])
        if not self._job.has(below, across):
            return
        if isinstance(dst, GlobalTensor):
            self._check_c(dst, Space.GM)
            self._check_sequential("GetTensorC", sequential=sequential)
            self._fetch(
                dst if sequential else dst[self._offset(self._index) :],
                tiling.base_n if sequential else self._row_of_c,
                checked_atomic(en_atomic),
            )
            return
        self._check_c(dst, Space.UB)
        if en_atomic:
            raise KernelError(f"GetTensorC to UB with en_atomic {en_atomic}", "only C in GM is combined: give 0")
        if self._workspace is None:
            raise KernelError(
                "GetTensorC to UB without a workspace", "give REGIST_MATMUL_OBJ a buffer in GM of workspace_bytes()"
            )
        size = tiling.base_m * tiling.base_n
        start = self._index % WORKSPACE_TILES * size
        tile = self._workspace[start : start + size]
        m = min(tiling.base_m, self._sizes[0] - below * tiling.base_m)
        row, count = tiling.base_n, m * tiling.base_n
        if self._width_of_c:
            n = min(tiling.base_n, self._sizes[1] - across * tiling.base_n)
            row, count = m, m * n
            if m % SIDE or n % self._width_of_c:
                raise KernelError(
                    f"GetTensorC of a piece of {m} x {n} to UB in NZ",
                    f"its sides are multiples of {SIDE} and {self._width_of_c}: whole fractals",
                )
        self._fetch(tile, row)
        pass_flag(HardEvent.V_MTE2)
        DataCopy(dst, tile, count)
        pass_flag(HardEvent.MTE2_V)

    def SetHF32(self, enable_hf32: bool = False, trans_mode: int = 0) -> None:  # Ascend C's order
        """Round A and B of float to HF32, which takes half the time (Ascend C: SetHF32); see SetHF32Mode.

        Args:
            enable_hf32: Whether to round.
            trans_mode: Which of two numbers that are equally near is taken: 0 the even one, 1 that nearer to zero.

        Raises:
            KernelError: The kernel has vector cores, or *trans_mode* is another number.
        """
        if self._cube is None:
            raise KernelError("SetHF32 on a vector core", "a Matmul has it in kernels on cube cores alone: AIC_ONLY")
        if trans_mode not in (0, 1):
            raise KernelError(f"SetHF32 with trans_mode {trans_mode!r}", "it is 0 or 1")
        SetHF32Mode(HF32Mode(int(enable_hf32)))
        SetHF32TransMode(HF32TransMode(trans_mode))

    def SetWorkspace(self, addr: GlobalTensor | GlobalBuffer, size: int | None = None) -> None:
        """Give the object room in GM: for pieces of C on their way to UB, or for the C of IterateNBatch (SetWorkspace).

        It is in place of the buffer of REGIST_MATMUL_OBJ, and belongs to this core alone.

        Args:
            addr: The room.
            size: Its elements; by default all of *addr*.

        Raises:
            KernelError: It has another type than C, or C goes to UB and the room has too few elements.
        """
        dtype = dtype_of(self.c.dtype)
        if isinstance(addr, GlobalTensor):
            room = addr if size is None else addr[:size]
        else:
            room = GlobalTensor(dtype).SetGlobalBuffer(addr, size)
        goes_to_ub = self.c.position.space is Space.UB
        least = WORKSPACE_TILES * self._tiled.base_m * self._tiled.base_n if goes_to_ub else 1
        if room.dtype != dtype or room.size < least:
            raise KernelError(f"SetWorkspace({room!r})", f"give it {least} elements of {dtype}, or more")
        self._workspace = room

    def SetLocalWorkspace(self, tmp_buffer: LocalTensor) -> None:
        """Give the object room in UB (Ascend C: SetLocalWorkspace); on Atlas A2 and A3 nothing uses it.

        Raises:
            KernelError: *tmp_buffer* is no tensor of uint8 in UB.
        """
        if (
            not isinstance(tmp_buffer, LocalTensor)
            or tmp_buffer.memory.space is not Space.UB
            or tmp_buffer.dtype != uint8
        ):
            raise KernelError(f"SetLocalWorkspace({tmp_buffer!r})", "it is a tensor of uint8 in UB")

    def End(self) -> None:
        """End the use of the object, until its next request (Ascend C: End).

        On a cube core without vector cores it waits for all flags, and gives back their ids. On a vector core nothing
        happens: what the cube core owes is waited for by WaitIterateAll, the next request, or the end of the kernel.
        """
        if self._cube is not None:
            self._cube.close()

    def _quit(self) -> None:
        """Tell the cube core that this core has no more requests, until all vector cores of the block have said so."""
        while not self._ask(Message(None), Pipe.S):
            pass

    def _offset(self, index: int) -> int:
        return place_of(self._tiled, index, self._pieces[0], self._row_of_c, self._width_of_c)

    def _fetch(self, dst: GlobalTensor, row: int, atomic: int = 0) -> None:
        message = Message(self._started(), self._index, dst, row, atomic)
        if self._cube is not None:
            compute(self._cube, message)
            return
        # What this core wrote to GM before (its A, say), and read of the workspace, is done when the flag is set.
        self._ask(message, Pipe.MTE3 if self._index == 0 else Pipe.MTE2)


def REGIST_MATMUL_OBJ(
    pipe: TPipe,
    workspace: GlobalBuffer | None,
    matmul: Matmul,
    tiling: TCubeTiling | None = None,
    *more: Matmul | TCubeTiling,
) -> bool:
    """Register Matmul objects, and on the cube cores of a mixed kernel serve all requests (REGIST_MATMUL_OBJ).

        if REGIST_MATMUL_OBJ(pipe, workspace, mm, tiling):
            return

    Several objects have parts of their own of L1 and of the workspace, one behind the other, and share L0.

    Args:
        pipe: The TPipe of this core, which gives cube cores their buffers.
        workspace: `tiling.workspace_bytes(cores)` of GM for results that go to UB, and operands that come from there,
            for each object; None if none do.
        matmul: The object.
        tiling: Its tiling; None if `Init` follows, which one object alone may do.
        more: Further objects and their tilings, in turn: four objects at most.

    Returns:
        True on a cube core that has served its vector cores and has nothing left to do; False on all other cores.

    Raises:
        KernelError: The kernel runs on vector cores alone, the buffers do not fit, the workspace is too small, or
            *more* are no pairs of an object and a tiling.
    """
    core = running()
    objects, tilings = [matmul, *more[::2]], [tiling, *more[1::2]]
    if (
        len(objects) != len(tilings)
        or len(objects) > MOST_OBJECTS
        or not all(isinstance(each, Matmul) for each in objects)
        or not (all(isinstance(each, TCubeTiling) for each in tilings) or tilings == [None])
    ):
        raise KernelError(
            f"REGIST_MATMUL_OBJ of {len(more) + 2} arguments behind the workspace",
            f"give each Matmul and its tiling in turn, {MOST_OBJECTS} of both at most",
        )
    cubes: list[Cube] = []
    line: deque[Matmul] = deque()
    for number, (each, its) in enumerate(zip(objects, tilings, strict=True)):
        assert isinstance(each, Matmul)
        each._number, each._line = number, line
        if its is None:
            each._registered = pipe, workspace
            continue
        assert isinstance(its, TCubeTiling)
        taken = each._begin(pipe, its, workspace, cubes)
        if workspace is not None and number < len(objects) - 1:
            workspace = workspace.of_type(uint8)[taken:]
    vectors = vectors_of(core)
    if core.core_type is CoreType.AIV:
        if all(each.core_type is CoreType.AIV for each in core.crossing.cores):
            raise KernelError("a Matmul on vector cores alone", "launch the kernel as MIX_AIC_1_2, or on cube cores")
        if core.closing:
            raise KernelError("REGIST_MATMUL_OBJ a second time in a mixed kernel", "register all objects in one call")
        core.crossing.mail["answer", core.program.block, core.program.sub_block] = deque()
        core.closing.append(matmul._quit)
        return False
    if not vectors:
        return False

    def begin() -> None:
        """Make the buffers for the tiling that a vector core has given to Init."""
        matmul._begin(pipe, core.crossing.mail["tiling", core.program.block][0], None, cubes)

    serve(core, cubes, len(vectors), begin)
    return True
