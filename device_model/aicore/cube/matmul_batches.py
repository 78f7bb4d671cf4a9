"""What a Matmul object requests as a whole: all pieces of C, a batch of products, and several batches in turn.

On a vector core each is a message to the cube core of the block, see `matmul_requests`; a cube core computes at once.
"""

from collections import deque

from device_model.aicore.core.machine import running
from device_model.aicore.core.names import BLOCK, HardEvent, Pipe, Space
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, dtype_of, whole
from device_model.aicore.cube.matmul_operands import Product
from device_model.aicore.cube.matmul_requests import ANSWER, ASK, MESSAGE_WORDS, Message, checked_atomic, compute
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag
from device_model.aicore.flags.sync import pass_flag
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError

ROUNDS_AHEAD = 8  # batches that the cube core may owe; a flag counts to 15


class Batches(Product):
    """The requests of a Matmul; see `matmul.Matmul`, which has those for single pieces, too."""

    def IterateAll(
        self,
        dst: GlobalTensor,
        en_atomic: int = 0,
        sequential: bool = False,  # Ascend C's order
        wait_iterate_all: bool = False,  # noqa: ARG002
        *,
        sync: bool = True,
    ) -> None:
        """Compute all pieces of C and store them in GM (Ascend C: IterateAll).

        A vector core waits until its cube core has stored all of them; without *sync*, at WaitIterateAll() or at its
        next request.

        Args:
            dst: The first element of this core's C.
            en_atomic: How C is combined with the contents of GM: 0 overwrites them, 1 adds to them, 2 keeps the larger
                number and 3 the smaller one.
            sequential: Whether pieces lie one behind the other, each with rows base_n elements apart.
            wait_iterate_all: No effect: WaitIterateAll may always be called.
            sync: Whether to wait.

        Raises:
            KernelError: A or B is not set, *dst* is not of C's type and position, *en_atomic* is no such number, or C
                is in NZ with *sequential*.
        """
        job = self._started()
        self._check_c(dst, Space.GM)
        self._check_sequential("IterateAll", sequential=sequential)
        row = self._tiled.base_n if sequential else self._row_of_c
        self._request(Message(job, None, dst, row, checked_atomic(en_atomic), sequential=sequential), sync=sync)
        self._job = None

    def SetBatchNum(self, batch_a: int, batch_b: int) -> None:
        """Set how many matrices A and B are, for an IterateBatch that does not say so (Ascend C: SetBatchNum).

        Raises:
            KernelError: A number is below 1, or they differ and none is 1.
        """
        batches = whole("SetBatchNum: batch_a", batch_a), whole("SetBatchNum: batch_b", batch_b)
        if min(batches) < 1 or (1 not in batches and batches[0] != batches[1]):
            raise KernelError(f"a batch of {batch_a} A and {batch_b} B", "as many of both, or one of one of them")
        self._batches = batches

    def IterateBatch(
        self,
        dst: GlobalTensor,
        batch_a: int | None = None,
        batch_b: int | None = None,
        sequential: bool = False,  # Ascend C's order
        matrix_stride_a: int = 0,
        matrix_stride_b: int = 0,
        matrix_stride_c: int = 0,
        en_partial_sum: bool = False,
        en_atomic: int = 0,
        *,
        is_bias_batch: bool = True,
        sync: bool = True,
    ) -> None:
        """Compute several products of the same shape and store them in GM (Ascend C: IterateBatch).

        The matrices of a batch lie one behind the other, each as SetTensorA and SetTensorB say of the first (the layout
        NORMAL). A vector core sends one request for all of them.

        Args:
            dst: The first element of this core's C in the first product.
            batch_a: How many matrices A are; by default what SetBatchNum has set.
            batch_b: How many matrices B are: as many, or one of one of them, which is used in all products.
            sequential: False: C lies row by row, not piece after piece.
            matrix_stride_a: Elements from one A to the next; 0 for those of the whole matrix, in NZ of whole fractals.
            matrix_stride_b: The same for B.
            matrix_stride_c: The same for C.
            en_partial_sum: False: each product is a sum of its own.
            en_atomic: As for IterateAll.
            is_bias_batch: Whether each product has a bias of its own, behind the one before.
            sync: Whether to wait; otherwise WaitIterateBatch does.

        Raises:
            KernelError: A number is impossible, A or B is not set, B is sparse, several A or B are in UB, or *dst* is
                not of C's type and place.
        """
        if sequential or en_partial_sum:
            raise KernelError(
                f"IterateBatch with sequential={sequential} and en_partial_sum={en_partial_sum}",
                "C of each product lies row by row, and is a sum of its own: give False",
            )
        if batch_a is not None or batch_b is not None:
            self.SetBatchNum(1 if batch_a is None else batch_a, 1 if batch_b is None else batch_b)
        self._check_batch("IterateBatch", 1)
        self._check_c(dst, Space.GM)
        strides = self._strides(matrix_stride_a, matrix_stride_b, matrix_stride_c)
        message = self._batch(dst, strides, 0, checked_atomic(en_atomic), is_bias_batch=is_bias_batch)
        self._request(message, sync=sync)

    def IterateNBatch(
        self,
        batch_loop: int,
        batch_a: int,
        batch_b: int,
        sequential: bool = False,  # Ascend C's order
        matrix_stride_a: int = 0,
        matrix_stride_b: int = 0,
        matrix_stride_c: int = 0,
        *,
        is_bias_batch: bool = True,
        sync: bool = True,
    ) -> None:
        """Compute several batches of products, which go to the room of SetWorkspace (Ascend C: IterateNBatch).

        Each batch is an IterateBatch, and its matrices lie behind those of the batch before. A vector core waits for
        all of them. Without *sync*, the cube core computes up to eight ahead, and GetBatchTensorC waits for the next
        one, or WaitIterateBatch for all.

        Args:
            batch_loop: The number of batches.
            batch_a: How many matrices A are in a batch.
            batch_b: How many matrices B are, see IterateBatch.
            sequential: False: C lies row by row, not piece after piece.
            matrix_stride_a: Elements from one A to the next, see IterateBatch.
            matrix_stride_b: The same for B.
            matrix_stride_c: The same for C. (Ascend C: 0; it takes the layout of C from its tiling.)
            is_bias_batch: As for IterateBatch.
            sync: Whether to wait.

        Raises:
            KernelError: As for IterateBatch, or there is no room in GM, or it is too small, or *sequential*.
        """
        if whole("IterateNBatch: batch_loop", batch_loop) < 1:
            raise KernelError(f"IterateNBatch with batch_loop {batch_loop}", "it is 1 or more")
        if sequential:
            raise KernelError("IterateNBatch with sequential", "C of each product lies row by row: give False")
        self.SetBatchNum(batch_a, batch_b)
        self._check_batch("IterateNBatch", batch_loop)
        strides, count = self._strides(matrix_stride_a, matrix_stride_b, matrix_stride_c), max(self._batches)
        room, size = self._workspace, count * strides[2]
        reach = (batch_loop * count - 1) * strides[2] + self._extent_of_c
        if room is None or room.size < reach:
            raise KernelError(
                f"IterateNBatch of {batch_loop} batches of {count} with the room {room!r}",
                f"call SetWorkspace() with {reach} elements of {dtype_of(self.c.dtype)}, or more",
            )
        self.WaitIterateAll()
        self._parts, self._part_size = deque(), size
        for number in range(batch_loop):
            part = room[number * size :]
            self._parts.append(part)
            self._later.append(self._batch(part, strides, number, 0, is_bias_batch=is_bias_batch))
        self._send_later()
        if sync:
            self.WaitIterateAll()

    def GetBatchTensorC(
        self, batch_a: int, batch_b: int, c: LocalTensor | None = None, *, sequential: bool = False
    ) -> GlobalTensor | None:
        """Return the next batch of an IterateNBatch without sync, or copy it to UB (Ascend C: GetBatchTensorC).

        A vector core waits until its cube core has stored the batch. The vector pipe may then use *c* without a flag.

        Args:
            batch_a: As IterateNBatch had it.
            batch_b: As IterateNBatch had it.
            c: Where the batch goes in UB, matrix after matrix, row after row; with None it stays in GM.
            sequential: False, as for IterateNBatch.

        Returns:
            The batch in the room of SetWorkspace, from its first element on; None with *c*.

        Raises:
            KernelError: There is no batch left, the numbers differ from those of IterateNBatch, or *c* is not in UB, of
                another type than C, or too small; or C does not lie so that it could be copied as a whole.
        """
        if (batch_a, batch_b) != self._batches or sequential:
            raise KernelError(
                f"GetBatchTensorC of {batch_a} A and {batch_b} B, sequential={sequential}",
                f"IterateNBatch had {self._batches[0]} and {self._batches[1]}, and False",
            )
        if not self._parts:
            raise KernelError(
                "GetBatchTensorC without a batch", "call IterateNBatch(..., sync=False) first, and then once a batch"
            )
        part = self._parts.popleft()
        while self._cube is None and len(self._parts) < self._owed + len(self._later):
            self._answer()
        if c is None:
            return part
        m, n, _ = self._sizes
        if (
            not isinstance(c, LocalTensor)
            or c.memory.space is not Space.UB
            or c.dtype != part.dtype
            or c.size < self._part_size
        ):
            raise KernelError(f"GetBatchTensorC to {c!r}", f"it has {self._part_size} elements of {part.dtype} in UB")
        if self._part_size != max(self._batches) * m * n or n * part.dtype.itemsize % BLOCK:
            raise KernelError(
                f"GetBatchTensorC of {max(self._batches)} matrices of {m} x {n} to UB",
                f"they lie one behind the other, in rows of whole blocks of {BLOCK} bytes",
            )
        pass_flag(HardEvent.V_MTE2)
        DataCopy(c, part, self._part_size)
        pass_flag(HardEvent.MTE2_V)
        return None

    def WaitIterateBatch(self) -> None:
        """Wait until C of the last IterateBatch is stored (Ascend C: WaitIterateBatch); on a cube core it is."""
        self.WaitIterateAll()

    def WaitIterateAll(self) -> None:
        """Wait until C of the last IterateAll is stored (Ascend C: WaitIterateAll); on a cube core it is."""
        while self._owed:
            self._answer()

    # Batches

    def _check_batch(self, call: str, rounds: int) -> None:
        self._started()
        if self._index_of_b is not None:
            raise KernelError(
                f"{call} with a sparse B", "each B has indices: call SetSparseIndex() and IterateAll() for each"
            )
        for name, type_, count in zip("AB", (self.a, self.b), self._batches, strict=True):
            if count * rounds > 1 and type_.position.space is Space.UB:
                raise KernelError(
                    f"{call} of {count * rounds} {name} in UB",
                    f"SetTensor{name}() takes one matrix from UB: give a batch in GM, or call IterateAll() for each",
                )

    def _strides(self, a: int, b: int, c: int) -> tuple[int, int, int]:
        """Return the elements from one A, B and C of a batch to the next, of which 0 stands for whole matrices."""
        elements = {
            name: self._stored(name, is_trans=is_trans).elements for name, (_, is_trans) in self._operands.items()
        }
        return a or elements["A"], b or elements["B"], c or self._elements_of_c

    def _batch(
        self, dst: GlobalTensor, strides: tuple[int, int, int], number: int, atomic: int, *, is_bias_batch: bool
    ) -> Message:
        """Return the request for batch *number*, counted from 0, whose C goes to *dst*."""
        rows, count = self._rows, max(self._batches)
        firsts, bias = dict(self._operands), self._bias
        messages = []
        for batch in range(count):
            for name, stride, of_batch in zip("AB", strides, self._batches, strict=False):
                tensor, is_trans = firsts[name]
                at = number * of_batch + (batch if of_batch > 1 else 0)
                self._operands[name] = tensor[at * stride], is_trans
            if bias is not None:
                self._bias = bias[(number * count + batch) * rows.org_n if is_bias_batch else 0]
            self._job = None
            messages.append(Message(self._started(), None, dst[batch * strides[2]], self._row_of_c, atomic))
        self._operands, self._bias, self._job = firsts, bias, None
        return messages[0]._replace(others=tuple(messages[1:]))

    @property
    def _extent_of_c(self) -> int:
        """The elements from the first one of this core's C to its last one."""
        m, n, _ = self._sizes
        return self._elements_of_c if self._width_of_c else (m - 1) * self._row_of_c + n

    # Requests

    def _check_c(self, dst: GlobalTensor | LocalTensor, space: Space) -> None:
        if dst.dtype != dtype_of(self.c.dtype) or self.c.position.space is not space:
            raise KernelError(f"C of {self.c} to {dst!r}", "it goes where its MatmulType says, with that type")

    def _check_sequential(self, call: str, *, sequential: bool) -> None:
        if sequential and self._width_of_c:
            raise KernelError(f"{call} of C in NZ with sequential", "pieces in turn are stored row by row")

    def _through_gm(self, name: str, tensor: LocalTensor, size: int) -> GlobalTensor:
        self.WaitIterateAll()  # the cube core may still read what was there
        return super()._through_gm(name, tensor, size)

    def _request(self, message: Message, *, sync: bool) -> None:
        """Let the cube core compute what *message* says, and with *sync* wait for it."""
        if self._cube is not None:
            compute(self._cube, message)
            return
        self._send(message, Pipe.MTE3)
        if sync:
            self.WaitIterateAll()

    def _ask(self, message: Message, pipe: Pipe) -> bool:
        """Send a message to the cube core and wait until it is done; return True if the cube core has ended."""
        self._send(message, pipe)
        return self._answer()

    def _send(self, message: Message, pipe: Pipe) -> None:
        self.WaitIterateAll()
        self._post(message, pipe)

    def _send_later(self) -> None:
        """Request batches, as many as may be owed; a cube core computes all of them."""
        while self._later and self._owed < ROUNDS_AHEAD:
            message = self._later.popleft()
            if self._cube is not None:
                compute(self._cube, message)
            else:
                self._post(message, Pipe.MTE3)

    def _post(self, message: Message, pipe: Pipe) -> None:
        core = running()
        program = core.program
        core.scalar += MESSAGE_WORDS * core.spec.set_value
        message = message._replace(cube=self._number)
        core.crossing.mail.setdefault(("ask", program.block, program.sub_block), deque()).append(message)
        CrossCoreSetFlag(2, pipe, ASK)
        self._owed += 1
        self._line.append(self)

    def _answer(self) -> bool:
        """Wait for the next answer to this object, and for those to others that were asked for before."""
        core = running()
        program = core.program
        while True:
            CrossCoreWaitFlag(ANSWER)
            first: Batches = self._line.popleft()
            first._owed -= 1
            first._send_later()
            has_ended = bool(core.crossing.mail["answer", program.block, program.sub_block].popleft())
            if first is self:
                return has_ended
